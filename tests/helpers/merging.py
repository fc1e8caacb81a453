"""Small datasets for the tests of merging, made without a pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from beam_mds import read_samples, storage
from beam_mds.format import (
    Columns,
    FileInfo,
    ShardConfig,
    ShardInfo,
    compress,
    dump_index,
    hex_digest,
    shard_header,
)
from beam_mds.indexes import read_index

COLUMNS = {'text': 'str'}

VALUES: dict[str, Any] = {'str': str, 'bytes': str.encode}


def dataset(
    folder: str | Path,
    *shards: Sequence[str],
    columns: dict[str, str] = COLUMNS,
    compression: str | None = None,
    hashes: tuple[str, ...] = (),
    below: str = '',
) -> None:
    """Writes a dataset whose shards hold these texts; files have the names that MDSWriter gives.

    Args:
        folder: Where.
        shards: The texts of each.
        columns: Those that are no text are 1.
        compression: As `WriteToMDS` takes it.
        hashes: Names.
        below: A sub-folder for the shards, not for the index.
    """
    config = ShardConfig(Columns(columns), compression, hashes)
    infos = []
    for number, texts in enumerate(shards):
        rows = [
            {name: VALUES.get(kind, lambda _: 1)(text) for name, kind in columns.items()}
            for text in texts
        ]
        samples = config.columns.encode_batch(rows)
        name = f'{below}/shard.{number:05}.mds'.lstrip('/')
        raw = shard_header(config, samples.sizes) + samples.bytes.tobytes()
        stored = [_file(name, raw, hashes)]
        if compression is not None:
            zipped = compress(compression, [raw])
            stored.append(_file(f'{name}.{compression}', zipped, hashes))
            put(f'{folder}/{name}.{compression}', zipped)
        else:
            put(f'{folder}/{name}', raw)
        infos.append(ShardInfo(config, len(texts), *stored))
    put(f'{folder}/index.json', dump_index(infos))


def _file(name: str, data: bytes, hashes: Sequence[str]) -> FileInfo:
    return FileInfo(name, len(data), {algo: hex_digest(algo, [data]) for algo in hashes})


def put(path: str | Path, data: bytes) -> None:
    """Writes a file, whatever is there."""
    storage.delete([str(path)])
    storage.write(str(path), [data], len(data))


def texts(folder: str | Path) -> list[str]:
    """The texts of a dataset, in its order."""
    return [sample['text'] for sample in read_samples(folder)]


def listed(folder: str | Path) -> list[str]:
    """The files that an index lists, in its order."""
    return [info.stored.basename for info in read_index(folder)]


def files(folder: str | Path) -> dict[str, bytes]:
    """All files below a folder, on any store."""
    names = storage.list_folder(str(folder))
    return {name: storage.read(f'{folder}/{name}') for name in sorted(names)}

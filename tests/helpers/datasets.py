"""Datasets made by the format library alone: quickly, and with whatever shards a test needs."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from beam_mds.format import (
    INDEX_NAME,
    Columns,
    FileInfo,
    Samples,
    ShardConfig,
    ShardInfo,
    compress,
    dump_index,
    shard_header,
)
from beam_mds.format.compression import suffix

_numbers = itertools.count()


def add_shard(
    folder: Path,
    samples: Sequence[Mapping[str, Any]] | Samples,
    columns: Mapping[str, str],
    *,
    compression: str | None = None,
    hashes: Sequence[str] = (),
    size_limit: int | None = 1 << 26,
    name: str = '',
) -> ShardInfo:
    """Writes one shard file of samples, or of encoded ones; `name` is that of the raw file."""
    config = ShardConfig(Columns(columns), compression, tuple(hashes), size_limit)
    encoded = (
        samples if isinstance(samples, Samples) else config.columns.encode_batch(list(samples))
    )
    data = shard_header(config, encoded.sizes) + encoded.bytes.tobytes()
    raw = FileInfo(name or f'shard.{next(_numbers):05}.mds', len(data), {})
    stored = None
    if compression is not None:
        data = compress(compression, [data])
        stored = FileInfo(raw.basename + suffix(compression), len(data), {})
    path = folder / (stored or raw).basename
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return ShardInfo(config, len(samples), raw, stored)


def write_index(folder: Path, shards: Sequence[ShardInfo]) -> None:
    """Writes the index of these shards."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / INDEX_NAME).write_bytes(dump_index(shards))


def write_dataset(
    folder: Path,
    shards: Sequence[Sequence[Mapping[str, Any]]],
    columns: Mapping[str, str],
    **config: Any,
) -> list[ShardInfo]:
    """Writes a dataset with these samples in each of its shards."""
    infos = [add_shard(folder, samples, columns, **config) for samples in shards]
    write_index(folder, infos)
    return infos

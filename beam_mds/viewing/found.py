"""What a path names: a dataset with its index, or one shard file without it."""

from __future__ import annotations

import contextlib
import re
from typing import NamedTuple

from beam_mds import storage
from beam_mds.errors import DamagedError, FormatError, StorageError
from beam_mds.format import INDEX_NAME, FileInfo, Shard, ShardInfo, ShardLayout, decompress
from beam_mds.format.compression import OPTIONAL_SUFFIX
from beam_mds.format.shard import HEAD_BYTES
from beam_mds.indexes import Path, folder_of, read_index
from beam_mds.reading.shardreader import ShardRef

# A shard file by its name; the suffix of a compressed one is its compression.
_SHARD_NAME = re.compile(rf'\.mds{OPTIONAL_SUFFIX}$')


class Found(NamedTuple):
    """A dataset, or one shard as a dataset of its own.

    Attributes:
        path: What is named in messages.
        folder: What the shards' names are relative to.
        shards: As in the index.
        whole: The shard itself, where it had to be read to be described.
    """

    path: str
    folder: str
    shards: list[ShardInfo]
    whole: Shard | None = None

    def ref(self, info: ShardInfo) -> ShardRef:
        return ShardRef(self.folder, info)


def find(path: Path) -> Found:
    """Finds out what lies at a path.

    Raises:
        StorageError: Nothing of that kind, or it cannot be read.
        FormatError: The index is none, or the file is no shard; the file is named.
    """
    full = storage.absolute(path, 'path')
    folder = folder_of(full)
    index = storage.join(folder, INDEX_NAME)
    named = _SHARD_NAME.search(full)
    if named and storage.size_of(index) is None:
        return _find_shard(full, named[1])
    try:
        return Found(folder, folder, read_index(folder))
    except StorageError:
        if storage.size_of(index) is None:
            raise StorageError(
                f'{folder}: there is no {INDEX_NAME} in it: name the folder of a dataset, its '
                f'{INDEX_NAME}, or one shard (*.mds, or *.mds.zstd and so on)'
            ) from None
        raise


def _find_shard(path: str, compression: str | None) -> Found:
    """A shard file without its index."""
    folder, _, name = path.rpartition('/')
    size = storage.size_of(path)
    if size is None:
        raise StorageError(f'{path}: there is no such file, and no folder with an {INDEX_NAME}')
    stored = FileInfo(name, size, {})
    try:
        if compression is None:
            with contextlib.closing(storage.Reader(path)) as file:
                layout = ShardLayout.parse(file.read(0, HEAD_BYTES), size)
                start, end = layout.config_start, layout.samples_start
                config = layout.parse_config(file.read(start, end - start))
            return Found(path, folder, [ShardInfo(config, layout.samples, stored)])
        data = decompress(compression, storage.read(path))
        whole = Shard(data)
    except FormatError as error:
        raise DamagedError(path, str(error)) from error
    raw = FileInfo(name.removesuffix(f'.{compression}'), len(data), {})
    return Found(path, folder, [ShardInfo(whole.config, len(whole), raw, stored)], whole)

"""Reading a dataset back, sample by sample."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from beam_mds import storage
from beam_mds.errors import FormatError
from beam_mds.format import Shard, ShardInfo, decompress, hex_digest
from beam_mds.indexes import read_index


def read_samples(
    path: str | os.PathLike[str], *, validate_hash: str | None = None
) -> Iterator[dict[str, Any]]:
    """Reads a dataset's samples in order, one shard in memory at a time.

    Args:
        path: The dataset's folder, on any filesystem that Beam knows.
        validate_hash: A hash that the dataset was written with, to check every stored file by.

    Yields:
        One dict a sample, with the values that `StreamingDataset` gives.

    Raises:
        StorageError: A file cannot be read.
        FormatError: A file is not what the index says; the file is named.

    Example:
        >>> for sample in read_samples('gs://bucket/dataset'):  # doctest: +SKIP
        ...     print(sample['text'])
    """
    folder = storage.absolute(path, 'path')
    for info in read_index(folder):
        yield from read_shard(folder, info, validate_hash=validate_hash)


def read_shard(folder: str, info: ShardInfo, *, validate_hash: str | None = None) -> Shard:
    """Reads one shard file.

    Args:
        folder: The dataset's folder.
        info: The shard as the index lists it.
        validate_hash: A hash that the index lists, to check the stored file by.

    Raises:
        StorageError: The file cannot be read.
        FormatError: The file is not what the index says.
    """
    name = storage.join(folder, info.stored.basename)
    data = storage.read(name)
    if len(data) != info.stored.bytes:
        raise FormatError(f'{name}: {len(data)} bytes, the index says {info.stored.bytes}')
    if validate_hash is not None:
        wanted = info.stored.hashes.get(validate_hash)
        if wanted is None:
            raise FormatError(f'{name}: the index lists no {validate_hash} hash')
        if (found := hex_digest(validate_hash, [data])) != wanted:
            raise FormatError(f'{name}: {validate_hash} is {found}, the index says {wanted}')
    try:
        if info.zip_data is not None:
            data = decompress(info.config.compression or '', data, info.raw_data.bytes)
        shard = Shard(data)
    except FormatError as error:
        raise FormatError(f'{name}: {error}') from error
    if len(shard) != info.samples:
        raise FormatError(f'{name}: {len(shard)} samples, the index says {info.samples}')
    return shard

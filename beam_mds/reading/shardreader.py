"""Shard files, read as a whole or in ranges of samples; no pipeline here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from beam_mds import storage
from beam_mds.errors import ColumnsError, DamagedError, FormatError, WhereError
from beam_mds.format import (
    Columns,
    EncodedBatch,
    Samples,
    ShardInfo,
    ShardLayout,
    decompress,
    hex_digest,
)
from beam_mds.format.decode import bounds_of, require_heads
from beam_mds.format.encodings.base import Offsets
from beam_mds.format.shard import HEAD_BYTES
from beam_mds.indexes import Path, read_index

# Bytes and samples that are decoded at once: few enough to stay in a processor's cache.
_BATCH_BYTES, _BATCH_SAMPLES = 4 << 20, 1 << 14


class ShardRef(NamedTuple):
    """A shard of a dataset, not opened.

    Attributes:
        folder: The dataset's folder.
        info: The shard as the index lists it.
        validate_hash: A hash that the index lists, to check the stored file by, or None.
    """

    folder: str
    info: ShardInfo
    validate_hash: str | None = None

    @property
    def path(self) -> str:
        """The stored file."""
        return storage.join(self.folder, self.info.stored.basename)

    @property
    def in_ranges(self) -> bool:
        """Whether some samples can be read without the rest of the file."""
        return self.info.zip_data is None and self.validate_hash is None


def read_samples(
    path: Path, *, validate_hash: str | None = None, allow_pickle: bool = False
) -> Iterator[dict[str, Any]]:
    """Reads a dataset's samples in order, at most one shard in memory at a time.

    Args:
        path: The dataset's folder or its index.json, on any filesystem that Beam knows.
        validate_hash: A hash that the dataset was written with, to check every stored file by.
        allow_pickle: Whether to decode `pkl` columns, which runs code that is in the data.

    Yields:
        One dict a sample, with the values that `StreamingDataset` gives.

    Raises:
        StorageError: A file cannot be read.
        FormatError: A file is not what the index says; file, sample and byte are named.
        ColumnsError: There is a `pkl` column, and that is not allowed.

    Example:
        >>> for sample in read_samples('gs://bucket/dataset'):  # doctest: +SKIP
        ...     print(sample['text'])
    """
    folder = storage.absolute(path, 'path')
    for info in read_index(folder):
        check_columns(info.config.columns, None, allow_pickle=allow_pickle)
        yield from read_shard(ShardRef(folder, info, validate_hash))


def read_shard(shard: ShardRef) -> Iterator[dict[str, Any]]:
    """Reads one shard's samples in order.

    Raises:
        StorageError, FormatError: See `read_samples`.
    """
    reader = ShardReader(shard)
    try:
        start = 0
        while start < shard.info.samples:
            stop = reader.batch_end(start)
            batch = reader.read(start, stop)
            try:
                rows = batch.to_rows()
            except FormatError as error:
                raise reader.placed(error, start) from error
            yield from rows
            start = stop
    finally:
        reader.close()


def check_columns(
    columns: Columns, only: Iterable[str] | None, *, allow_pickle: bool = False
) -> None:
    """Checks that columns are there and may be read.

    Raises:
        ColumnsError: One is not there, or is pickled, and that is not allowed.
    """
    for place in columns.places(only):
        if columns.encodings[place].name == 'pkl' and not allow_pickle:
            raise ColumnsError(
                f'column {columns.names[place]!r:.80} is stored as pickle, and reading it runs '
                'code that is in the data: leave it out of columns, or say allow_pickle=True where '
                'you trust who wrote it'
            )


class ShardReader:
    """Reads the samples of one shard, from one sample on.

    Of an uncompressed shard only what is needed is read, by its offsets; any other is read,
    decompressed and checked as a whole, once.
    """

    def __init__(self, shard: ShardRef, start: int = 0, stop: int | None = None) -> None:
        """Opens the shard and reads where its samples lie.

        Args:
            shard: Which.
            start: Number of the first sample that will be asked for.
            stop: Number after the last one; None for all.

        Raises:
            StorageError: The file cannot be read.
            DamagedError: It is not what the index says.
        """
        self.path = shard.path
        self.columns = shard.info.config.columns
        self._file: storage.Reader | None = None
        self._data = b''
        self._size = shard.info.raw_data.bytes
        self._start, self._stop = start, shard.info.samples if stop is None else stop
        try:
            if shard.in_ranges:
                self._file = storage.Reader(self.path)
            else:
                self._data = _whole(shard)
            self._offsets = self._read_header(shard.info)
        except Exception as error:
            self.close()
            if isinstance(error, FormatError) and not isinstance(error, DamagedError):
                raise DamagedError(self.path, str(error)) from error
            raise

    def close(self) -> None:
        """Closes the file."""
        if self._file is not None:
            self._file.close()

    def offset(self, sample: int) -> int:
        """The first byte of a sample in the raw file."""
        return int(self._offsets[sample - self._start])

    def samples_before(self, byte: int, start: int) -> int:
        """Number of the first sample from `start` on that does not end before a byte."""
        ends = self._offsets[start - self._start + 1 :]
        return start + int(np.searchsorted(ends, byte, side='right'))

    def batch_end(self, start: int) -> int:
        """Where to end a batch of a few MB that starts with sample `start`."""
        fits = np.searchsorted(self._offsets, self.offset(start) + _BATCH_BYTES, side='right')
        end = min(int(fits) - 1 + self._start, start + _BATCH_SAMPLES, self._stop)
        return max(end, start + 1)

    def read(self, start: int, stop: int) -> EncodedBatch:
        """Samples start to stop - 1, still encoded.

        Raises:
            StorageError: The file cannot be read.
            DamagedError: It ends before them; `byte` says where.
        """
        offsets = self._offsets[start - self._start : stop - self._start + 1]
        data = self._bytes(int(offsets[0]), int(offsets[-1]))
        samples = Samples(np.frombuffer(data, np.uint8), offsets - offsets[0])
        return EncodedBatch(self.columns, samples)

    def column_sizes(self, start: int, stop: int) -> Offsets:
        """Bytes of the values of samples start to stop - 1.

        Of an uncompressed shard only the samples' heads are read.

        Returns:
            int64 of shape (stop - start, columns).

        Raises:
            StorageError: The file cannot be read.
            DamagedError: The sizes in a sample's head do not add up to its bytes.
        """
        offsets = self._offsets[start - self._start : stop - self._start + 1]
        sizes = self.columns.sizes
        head = 4 * sizes.count(None)
        try:
            require_heads(offsets, sizes.count(None))
            data = b''.join(self._bytes(at, at + head) for at in offsets[:-1].tolist())
            heads = np.frombuffer(data, '<u4').astype(np.int64).reshape(stop - start, -1)
            return np.diff(bounds_of(offsets, heads, sizes)[:, 1:])
        except DamagedError:
            raise
        except FormatError as error:
            raise self.placed(error, start) from error

    def placed(self, error: FormatError | WhereError, start: int) -> DamagedError | WhereError:
        """The error about what was read from sample `start` on, with its place in the file."""
        sample = start + (error.row or 0)
        if isinstance(error, WhereError):
            return WhereError(f'{self.path}, sample {sample}: {error.message}')
        return DamagedError(self.path, str(error), sample, self.offset(sample))

    def _read_header(self, info: ShardInfo) -> Offsets:
        layout = ShardLayout.parse(self._bytes(0, min(HEAD_BYTES, self._size)), self._size)
        if layout.samples != info.samples:
            raise FormatError(f'{layout.samples} samples, the index says {info.samples}')
        first, last = 4 * (self._start + 1), 4 * (self._stop + 2)
        offsets = layout.parse_offsets(self._bytes(first, last), self._start)
        config = layout.parse_config(bytes(self._bytes(layout.config_start, layout.samples_start)))
        if config.columns != info.config.columns:
            raise FormatError(
                f'its columns are {str(config.columns.as_dict())[:500]}, the index says '
                f'{str(info.config.columns.as_dict())[:500]}'
            )
        return offsets

    def _bytes(self, start: int, stop: int) -> bytes | memoryview:
        if self._file is None:
            return memoryview(self._data)[start:stop]
        data = self._file.read(start, stop - start)
        if len(data) != stop - start:
            raise DamagedError(
                self.path,
                f'the file ends here, the index says that it has {self._size} bytes',
                byte=start + len(data),
            )
        return data


def _whole(shard: ShardRef) -> bytes:
    """The raw bytes of a shard."""
    info, hash_name = shard.info, shard.validate_hash
    data = storage.read(shard.path)
    if len(data) != info.stored.bytes:
        raise FormatError(f'{len(data)} bytes, the index says {info.stored.bytes}')
    if hash_name is not None:
        wanted = info.stored.hashes.get(hash_name)
        if wanted is None:
            raise FormatError(f'the index lists no {hash_name} hash')
        if (found := hex_digest(hash_name, [data])) != wanted:
            raise FormatError(f'{hash_name} is {found}, the index says {wanted}')
    if info.zip_data is not None:
        if info.config.compression is None:
            raise FormatError('the index lists it as a compressed file, and no compression')
        data = decompress(info.config.compression, data, info.raw_data.bytes)
    return data

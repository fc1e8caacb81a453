"""Shard files: the header with its offsets, built and read.

    shard := uint32 n | uint32 offset[n + 1] | config JSON | sample 0 | ... | sample n - 1

(mosaicml-streaming 0.13.0, `MDSWriter.encode_joint_shard`; all little-endian.)
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from beam_mds.errors import FormatError, OptionError
from beam_mds.format.columns import Columns
from beam_mds.format.compression import check_compression
from beam_mds.format.encodings.base import offsets_of
from beam_mds.format.samples import Samples

if TYPE_CHECKING:
    from beam_mds.format.encodings.base import Offsets

# Offsets in a shard are uint32, so this is the first size that a shard cannot have, in bytes.
SHARD_CEILING = 2**32

# More samples than any shard holds.
NO_LIMIT = 2**62

# Bytes of a shard that say where its parts lie: the count and the first offset.
HEAD_BYTES = 8

# Bytes that a sample adds to a shard beside its own: its offset.
SAMPLE_OVERHEAD = 4


@dataclass(frozen=True)
class ShardConfig:
    """What all shards of a dataset have in common; the JSON inside each of them.

    Attributes:
        columns: The column table.
        compression: `zstd`, `zstd:7`, ... or None.
        hashes: Sorted hash names.
        size_limit: Largest raw size of a shard in bytes; None for no limit but the format's.
    """

    columns: Columns
    compression: str | None = None
    hashes: tuple[str, ...] = ()
    size_limit: int | None = 1 << 26

    def as_dict(self) -> dict[str, Any]:
        """The fields as the index has them."""
        return {
            'column_encodings': [encoding.name for encoding in self.columns.encodings],
            'column_names': self.columns.names,
            'column_sizes': self.columns.sizes,
            'compression': self.compression,
            'format': 'mds',
            'hashes': list(self.hashes),
            'size_limit': self.size_limit,
            'version': 2,
        }

    @staticmethod
    def from_dict(fields: dict[str, Any]) -> ShardConfig:
        """The config that these fields of a shard or an index describe.

        Raises:
            FormatError: Another format or version, or columns that are not sorted by name.
            KeyError, TypeError, ValueError: A field is missing or of the wrong type.
        """
        if fields['format'] != 'mds' or fields['version'] != 2:
            raise FormatError(
                f'format {fields["format"]!r:.80} version {fields["version"]!r:.80}, '
                'expected mds version 2'
            )
        names, encodings = (_texts(fields, name) for name in ('column_names', 'column_encodings'))
        if names != sorted(set(names)):  # the table would put the values' bytes into another order
            raise FormatError(f'column names are not sorted: {repr(names)[:80]}')
        columns = Columns(dict(zip(names, encodings, strict=True)))
        if fields['column_sizes'] != columns.sizes:
            raise FormatError(f'column sizes are not {repr(columns.sizes)[:80]}')
        limit = fields['size_limit']
        if limit is not None and (type(limit) is not int or limit < 0):
            raise FormatError(f'size_limit is {repr(limit)[:80]}, expected bytes or null')
        return ShardConfig(
            columns,
            check_compression(fields['compression']),
            tuple(_texts(fields, 'hashes')),
            limit,
        )

    def to_bytes(self) -> bytes:
        """The config as it stands in a shard."""
        return json.dumps(self.as_dict(), sort_keys=True).encode()

    @property
    def empty_size(self) -> int:
        """Bytes of a shard without samples: count, end offset, config."""
        return 4 + 4 + len(self.to_bytes())

    @property
    def capacity(self) -> int:
        """What the samples of one shard may add up to, in bytes, each with SAMPLE_OVERHEAD."""
        limit = min(self.size_limit or SHARD_CEILING - 1, SHARD_CEILING - 1)
        return max(limit - self.empty_size, 1)


def _texts(fields: dict[str, Any], name: str) -> list[str]:
    """The texts of a field that must be a list of them."""
    texts = fields[name]
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise FormatError(f'{name} {repr(texts)[:80]} is no list of texts')
    return texts


def shard_header(config: ShardConfig, sizes: Offsets) -> bytes:
    """The bytes of a shard before its first sample.

    Args:
        config: The dataset's.
        sizes: int64 of shape (n,), bytes of each sample.

    Raises:
        OptionError: The shard would have 2**32 bytes or more.
    """
    text = config.to_bytes()
    offsets = offsets_of(sizes)
    offsets += 4 + 4 * len(offsets) + len(text)
    if int(offsets[-1]) >= SHARD_CEILING:
        raise OptionError(
            f'a shard of {int(offsets[-1])} bytes: offsets are uint32, so it must stay below '
            f'{SHARD_CEILING}; lower size_limit, raise num_shards, or split the sample'
        )
    return len(sizes).to_bytes(4, 'little') + offsets.astype('<u4').tobytes() + text


def cut_points(sizes: Offsets, capacity: int, most: int = NO_LIMIT) -> list[int]:
    """Where to cut a run of samples into shards, by MDSWriter's rule.

    A shard is closed before the sample that would exceed the capacity; a sample that exceeds it
    alone gets a shard of its own.

    Args:
        sizes: int64 of shape (n,), bytes of each sample.
        capacity: `ShardConfig.capacity`.
        most: Samples that a shard may have.

    Returns:
        Ends (exclusive) of the shards; the last one is n, and none is empty.

    Example:
        >>> cut_points(np.array([10, 10, 10]), 30)
        [2, 3]
    """
    total = np.cumsum(sizes + SAMPLE_OVERHEAD)
    ends: list[int] = []
    start, used = 0, 0
    while start < len(sizes):
        end = int(np.searchsorted(total, used + capacity, side='right'))
        end = max(min(end, start + most), start + 1)
        ends.append(end)
        start, used = end, int(total[end - 1])
    return ends


@dataclass(frozen=True)
class ShardLayout:
    """Where what lies in a raw shard file, as its first bytes say.

    Attributes:
        samples: How many the shard holds.
        samples_start: The first byte of the first sample.
        size: Bytes of the file.
    """

    samples: int
    samples_start: int
    size: int

    @staticmethod
    def parse(head: bytes | memoryview, size: int) -> ShardLayout:
        """The layout of a shard.

        Args:
            head: Its first `HEAD_BYTES` bytes.
            size: Bytes of the whole file.

        Raises:
            FormatError: There is no room for what they promise.
        """
        if len(head) < HEAD_BYTES:
            raise FormatError(f'{size} bytes are too few for a shard')
        layout = ShardLayout(
            int.from_bytes(head[:4], 'little'), int.from_bytes(head[4:8], 'little'), size
        )
        if layout.config_start > size:
            raise FormatError(f'{size} bytes are too few for a shard of {layout.samples} samples')
        if not layout.config_start <= layout.samples_start <= size:
            raise FormatError(
                f'the first of {layout.samples} samples cannot start at byte '
                f'{layout.samples_start} of {size}'
            )
        return layout

    @property
    def config_start(self) -> int:
        """The first byte of the config: what lies before it are the count and the offsets."""
        return 4 + 4 * (self.samples + 1)

    def parse_config(self, data: bytes) -> ShardConfig:
        """The config, from the bytes between `config_start` and `samples_start`.

        Raises:
            FormatError: It is none.
        """
        try:
            return ShardConfig.from_dict(json.loads(data))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise FormatError(
                f'the config at byte {self.config_start} is no MDS config: {error}'
            ) from error

    def parse_offsets(self, data: bytes | memoryview, first: int = 0) -> Offsets:
        """Where samples start and end in the file, checked.

        Args:
            data: The uint32 offsets of sample `first`, those that follow, and the end of the last:
                of n samples 4 * (n + 1) bytes, from byte 4 * (first + 1) of the file on.
            first: Number of the first sample.

        Returns:
            int64 of shape (n + 1,).

        Raises:
            FormatError: They do not fit the file; the first wrong one is named.
        """
        offsets = np.frombuffer(data, '<u4')
        wrong = np.flatnonzero(offsets[1:] < offsets[:-1]) + 1
        if offsets[0] < self.samples_start:
            wrong = np.array([0])
        elif not len(wrong) and offsets[-1] > self.size:
            wrong = np.flatnonzero(offsets > self.size)
        elif not len(wrong) and first + len(offsets) > self.samples and offsets[-1] != self.size:
            wrong = np.array([len(offsets) - 1])
        if len(wrong):
            at = int(wrong[0])
            raise FormatError(
                f'offset {first + at} of {self.samples + 1}, at byte {4 * (first + at + 1)}, is '
                f'{int(offsets[at])}: offsets must rise from {self.samples_start} to {self.size}'
            )
        return offsets.astype(np.int64)


class Shard:
    """One raw shard file in memory.

    Example:
        >>> columns = Columns({'x': 'uint8'})
        >>> samples = columns.encode_batch([{'x': 1}, {'x': 2}])
        >>> shard = Shard(shard_header(ShardConfig(columns), samples.sizes) + bytes(samples.bytes))
        >>> [sample['x'].item() for sample in shard]
        [1, 2]
    """

    def __init__(self, data: bytes) -> None:
        """Reads the header.

        Raises:
            FormatError: The header does not fit the bytes.
        """
        layout = ShardLayout.parse(data[:HEAD_BYTES], len(data))
        offsets = layout.parse_offsets(memoryview(data)[4 : layout.config_start])
        self.config = layout.parse_config(data[layout.config_start : layout.samples_start])
        self._data, self._offsets = data, offsets

    def __len__(self) -> int:
        """The number of samples."""
        return len(self._offsets) - 1

    @property
    def samples(self) -> Samples:
        """The encoded samples."""
        return Samples(np.frombuffer(self._data, np.uint8), self._offsets)

    def __getitem__(self, row: int) -> dict[str, Any]:
        """Decodes sample `row`."""
        if not 0 <= row < len(self):
            raise IndexError(f'sample {row} of a shard of {len(self)}')
        start, end = self._offsets[row : row + 2].tolist()
        return self.config.columns.decode_sample(self._data[start:end])

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Decodes all samples in order."""
        return map(self.__getitem__, range(len(self)))

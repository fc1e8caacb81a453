"""Blocks: many encoded samples, sorted by position, on their way to their shards.

A block travels as one byte string. Inline, the string holds the samples; spilled, they lie in a
run file and the string says where. Assigning a block to shards cuts either; writing loads either.
All samples of a block are of one split; a run file can hold those of many.

    block    := kind byte | body
    inline   := uint8 keyed | uint8 compressed | uint16 s | uint64 n | split (s bytes, utf-8)
                | records | sample bytes
    spilled  := uint8 keyed | uint16 s | uint64 rows before | uint64 n | uint64 byte start
                | uint64 byte end | uint64 records start | split (s bytes, utf-8) | path (utf-8)
    run file := sample bytes of all rows | records of all rows
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import zstandard

from beam_mds import storage
from beam_mds.format import Samples
from beam_mds.format.encodings.base import offsets_of
from beam_mds.format.samples import Allocate, allocate
from beam_mds.format.shard import SAMPLE_OVERHEAD
from beam_mds.planning import Int64s, Plan, UInt64s

_INLINE, _SPILLED = b'I', b'S'
_INLINE_HEAD = struct.Struct('<BBHQ')
_SPILLED_HEAD = struct.Struct('<BHQQQQQ')

# What is kept of each sample beside its bytes; without a key the second hash is always 0.
_KEYED = np.dtype([('first', '<u8'), ('size', '<u4'), ('second', '<u8')])
_UNKEYED = np.dtype([('first', '<u8'), ('size', '<u4')])

# Smaller inline blocks are not worth a compressor's start, in bytes.
_COMPRESS_FROM = 4096

# Compression of inline blocks: shuffles are billed by the byte, and level 1 costs less than that.
_INLINE_LEVEL = 1


@dataclass(frozen=True)
class Block:
    """n samples of one split and their positions; what `load` gives is sorted.

    Attributes:
        samples: The encoded samples.
        first: uint64 of shape (n,), hashes of the keys, or of the samples when there is no key.
        second: uint64 of shape (n,), hashes of the samples; None when there is no key.
    """

    samples: Samples
    first: UInt64s
    second: UInt64s | None


@dataclass(frozen=True)
class Packed:
    """A block on its way.

    Attributes:
        split: Of all its samples; empty when the dataset is not split.
        block: The block, for `assign` and `load`.
        where: The block without the samples' bytes, for `positions`.
        first: uint64 of shape (n,), sorted.
        weights: int64 of shape (n,), what each sample takes in a shard, in bytes.
    """

    split: str
    block: bytes
    where: bytes
    first: UInt64s
    weights: Int64s


@dataclass(frozen=True)
class Positions:
    """What a block says of its samples without their bytes.

    Attributes:
        first: uint64 of shape (n,).
        second: uint64 of shape (n,); zeros when there is no key.
        sizes: int64 of shape (n,), bytes of each sample.
    """

    first: UInt64s
    second: UInt64s
    sizes: Int64s

    @property
    def weights(self) -> Int64s:
        """What each sample takes in a shard, in bytes."""
        return self.sizes + SAMPLE_OVERHEAD


def pack(
    block: Block, folder: str | None, splits: Sequence[str] = ('',), codes: Int64s | None = None
) -> list[Packed]:
    """Sorts samples and packs them, one block a split.

    Args:
        block: n samples in any order, of any splits.
        folder: Where to write a run file; None for inline blocks.
        splits: Names of splits.
        codes: int64 of shape (n,), the place of each sample's split in `splits`; None: all are of
            the first.
    """
    order = _order_of(block, codes)
    records = _records_of(block)[order]
    offsets = offsets_of(records['size'])
    bounds = _bounds(len(order), None if codes is None else codes[order])
    keyed = block.second is not None
    if folder is None:
        places = [b''] * len(bounds)
    else:
        path = storage.join(folder, f'{uuid.uuid4().hex}.run')
        run = _RunFile(block.samples, order, records)
        storage.write(path, run, run.size + records.nbytes)
        places = [
            _pack_spilled(
                splits[code], keyed, start, end - start, int(offsets[start]), int(offsets[end]),
                run.size, path,
            )
            for code, start, end in bounds
        ]  # fmt: skip
    packed = []
    for (code, start, end), place in zip(bounds, places, strict=True):
        split, rows = splits[code], records[start:end]
        block_bytes = place or _pack_inline(split, rows, block.samples.take(order[start:end]).bytes)
        where = place or _pack_inline(split, rows, np.empty(0, np.uint8))
        found = _positions_of(rows)
        packed.append(Packed(split, block_bytes, where, found.first, found.weights))
    return packed


def _order_of(block: Block, codes: Int64s | None) -> Int64s:
    """The rows by split and position; the order of equal positions is left open."""
    keys = [key for key in (block.second, block.first, codes) if key is not None]
    return np.argsort(keys[0], kind='stable') if len(keys) == 1 else np.lexsort(keys)


def _bounds(count: int, codes: Int64s | None) -> list[tuple[int, int, int]]:
    """Runs of equal codes: the code, the first row and the end row."""
    if codes is None or not count:
        return [(0, 0, count)] if count else []
    starts = np.flatnonzero(np.concatenate([[True], np.diff(codes) != 0]))
    ends = [*starts[1:].tolist(), count]
    return list(zip(codes[starts].tolist(), starts.tolist(), ends, strict=True))


class _RunFile:
    """The bytes of a run file, a few MB at a time, as often as they are asked for."""

    def __init__(self, samples: Samples, order: Int64s, records: npt.NDArray[np.void]) -> None:
        self._samples, self._order, self._records = samples, order, records
        self.size = samples.nbytes

    def __iter__(self) -> Iterator[memoryview]:
        for piece in self._samples.pieces(self._order):
            yield piece.data
        yield self._records.view(np.uint8).data


def split_of(block: bytes) -> str:
    """The split of a block's samples."""
    if block[:1] == _INLINE:
        size, start = _INLINE_HEAD.unpack_from(block, 1)[2], 1 + _INLINE_HEAD.size
    else:
        size, start = _SPILLED_HEAD.unpack_from(block, 1)[1], 1 + _SPILLED_HEAD.size
    return block[start : start + size].decode()


def positions(block: bytes) -> Positions:
    """Reads a block without its samples."""
    return _positions_of(_records(block))


def assign(block: bytes, plan: Plan) -> Iterator[tuple[int, bytes]]:
    """Cuts a block by shard.

    Yields:
        Shard number, and the block of the samples that belong to it.
    """
    records, split = _records(block), split_of(block)
    where = _positions_of(records)
    offsets = offsets_of(where.sizes)
    if block[:1] == _INLINE:
        data = _inline_data(block)
        for shard, start, stop in plan.split(where.first, where.second):
            piece = data[offsets[start] : offsets[stop]]
            yield shard, _pack_inline(split, records[start:stop], piece)
        return
    keyed, before, _, origin, _, table, path = _unpack_spilled(block)
    for shard, start, stop in plan.split(where.first, where.second):
        yield shard, _pack_spilled(
            split, keyed, before + start, stop - start, origin + int(offsets[start]),
            origin + int(offsets[stop]), table, path,
        )  # fmt: skip


def load(block: bytes, allocate: Allocate = allocate) -> Block:
    """Reads a block whole.

    Args:
        block: From `pack` or `assign`.
        allocate: Gives the buffer for samples that are read from a run file.
    """
    records = _records(block)
    if block[:1] == _INLINE:
        data = _inline_data(block)
    else:
        _, _, _, start, end, _, path = _unpack_spilled(block)
        data = allocate(end - start)
        storage.read_into(data, path, start)
    where = _positions_of(records)
    second = where.second if records.dtype == _KEYED else None
    return Block(Samples(data, offsets_of(where.sizes)), where.first, second)


def _records_of(block: Block) -> npt.NDArray[np.void]:
    records = np.empty(len(block.first), _UNKEYED if block.second is None else _KEYED)
    records['first'], records['size'] = block.first, block.samples.sizes
    if block.second is not None:
        records['second'] = block.second
    return records


def _positions_of(records: npt.NDArray[np.void]) -> Positions:
    first = np.ascontiguousarray(records['first'])
    keyed = records.dtype == _KEYED
    second = np.ascontiguousarray(records['second']) if keyed else np.zeros(len(first), np.uint64)
    return Positions(first, second, records['size'].astype(np.int64))


def _records(block: bytes) -> npt.NDArray[np.void]:
    if block[:1] == _INLINE:
        keyed, _, count, start = _unpack_inline(block)
        return np.frombuffer(block, _dtype(keyed), count, start)
    keyed, before, count, _, _, table, path = _unpack_spilled(block)
    records = np.empty(count, _dtype(keyed))
    storage.read_into(records.view(np.uint8), path, table + before * records.itemsize)
    return records


def _pack_inline(split: str, records: npt.NDArray[np.void], data: npt.NDArray[np.uint8]) -> bytes:
    body: memoryview | bytes = data.data
    if data.nbytes >= _COMPRESS_FROM:
        small = zstandard.ZstdCompressor(level=_INLINE_LEVEL).compress(data.data)
        if len(small) < data.nbytes * 0.9:
            body = small
    name = split.encode()
    head = _INLINE_HEAD.pack(
        records.dtype == _KEYED, isinstance(body, bytes), len(name), len(records)
    )
    return b''.join([_INLINE, head, name, records.tobytes(), body])


def _unpack_inline(block: bytes) -> tuple[bool, bool, int, int]:
    """Whether it is keyed, whether it is compressed, the number of rows, where records start."""
    keyed, compressed, name, count = _INLINE_HEAD.unpack_from(block, 1)
    return bool(keyed), bool(compressed), count, 1 + _INLINE_HEAD.size + name


def _inline_data(block: bytes) -> npt.NDArray[np.uint8]:
    keyed, compressed, count, start = _unpack_inline(block)
    start += count * _dtype(keyed).itemsize
    if not compressed:
        return np.frombuffer(block, np.uint8, offset=start)
    body = memoryview(block)[start:]
    return np.frombuffer(zstandard.ZstdDecompressor().decompress(body), np.uint8)


def _pack_spilled(
    split: str, keyed: bool, before: int, count: int, start: int, end: int, table: int, path: str
) -> bytes:
    name = split.encode()
    head = _SPILLED_HEAD.pack(keyed, len(name), before, count, start, end, table)
    return b''.join([_SPILLED, head, name, path.encode()])


def _unpack_spilled(block: bytes) -> tuple[bool, int, int, int, int, int, str]:
    keyed, name, before, count, start, end, table = _SPILLED_HEAD.unpack_from(block, 1)
    path = block[1 + _SPILLED_HEAD.size + name :].decode()
    return bool(keyed), before, count, start, end, table, path


def _dtype(keyed: bool) -> np.dtype[np.void]:
    return _KEYED if keyed else _UNKEYED

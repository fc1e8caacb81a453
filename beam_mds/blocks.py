"""Blocks: many encoded samples, sorted by position, on their way to their shards.

A block travels as one byte string. Inline, the string holds the samples; spilled, they lie in a
run file and the string says where. Assigning a block to shards cuts either; writing loads either.

    block    := kind byte | body
    inline   := uint8 keyed | uint8 compressed | uint64 n | records | sample bytes
    spilled  := uint8 keyed | uint64 rows before | uint64 n | uint64 byte start | uint64 byte end
                | uint64 records start | path (utf-8)
    run file := sample bytes of all rows | records of all rows
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterator
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
_INLINE_HEAD = struct.Struct('<BBQ')
_SPILLED_HEAD = struct.Struct('<BQQQQQ')

# What is kept of each sample beside its bytes; without a key the second hash is always 0.
_KEYED = np.dtype([('first', '<u8'), ('size', '<u4'), ('second', '<u8')])
_UNKEYED = np.dtype([('first', '<u8'), ('size', '<u4')])

# Smaller inline blocks are not worth a compressor's start, in bytes.
_COMPRESS_FROM = 4096

# Compression of inline blocks: shuffles are billed by the byte, and level 1 costs less than that.
_INLINE_LEVEL = 1


@dataclass(frozen=True)
class Block:
    """n samples and their positions, in any order; what `load` gives is sorted.

    Attributes:
        samples: The encoded samples.
        first: uint64 of shape (n,), hashes of the keys, or of the samples when there is no key.
        second: uint64 of shape (n,), hashes of the samples; None when there is no key.
    """

    samples: Samples
    first: UInt64s
    second: UInt64s | None


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


def order_of(first: UInt64s, second: UInt64s | None) -> Int64s:
    """The rows in the order of their positions; the order of equal positions is left open."""
    if second is None:
        return np.argsort(first, kind='stable')
    return np.lexsort((second, first))


def inline(block: Block) -> bytes:
    """The block as a byte string that holds its samples."""
    order = order_of(block.first, block.second)
    return _pack_inline(_records_of(block)[order], block.samples.take(order).bytes)


def positions_only(block: Block) -> bytes:
    """An inline block without the sample bytes, for `positions`."""
    order = order_of(block.first, block.second)
    return _pack_inline(_records_of(block)[order], np.empty(0, np.uint8))


def spill(block: Block, folder: str) -> bytes:
    """Writes a run file into a folder, and returns the block that refers to it."""
    path = storage.join(folder, f'{uuid.uuid4().hex}.run')
    run = _RunFile(block)
    storage.write(path, run, run.size + run.records.nbytes)
    keyed = block.second is not None
    return _pack_spilled(keyed, 0, len(run.records), 0, run.size, run.size, path)


class _RunFile:
    """The bytes of a run file, a few MB at a time, as often as they are asked for."""

    def __init__(self, block: Block) -> None:
        self._samples = block.samples
        self._order = order_of(block.first, block.second)
        self.records = _records_of(block)[self._order]
        self.size = block.samples.nbytes

    def __iter__(self) -> Iterator[memoryview]:
        for piece in self._samples.pieces(self._order):
            yield piece.data
        yield self.records.view(np.uint8).data


def positions(block: bytes) -> Positions:
    """Reads a block without its samples."""
    return _positions_of(_records(block))


def assign(block: bytes, plan: Plan) -> Iterator[tuple[int, bytes]]:
    """Cuts a block by shard.

    Yields:
        Shard number, and the block of the samples that belong to it.
    """
    records = _records(block)
    where = _positions_of(records)
    offsets = offsets_of(where.sizes)
    if block[:1] == _INLINE:
        data = _inline_data(block, len(records))
        for shard, start, stop in plan.split(where.first, where.second):
            yield shard, _pack_inline(records[start:stop], data[offsets[start] : offsets[stop]])
        return
    keyed, before, _, origin, _, table, path = _unpack_spilled(block)
    for shard, start, stop in plan.split(where.first, where.second):
        yield shard, _pack_spilled(
            keyed, before + start, stop - start, origin + int(offsets[start]),
            origin + int(offsets[stop]), table, path,
        )  # fmt: skip


def load(block: bytes, allocate: Allocate = allocate) -> Block:
    """Reads a block whole.

    Args:
        block: From `inline`, `spill` or `assign`.
        allocate: Gives the buffer for samples that are read from a run file.
    """
    records = _records(block)
    if block[:1] == _INLINE:
        data = _inline_data(block, len(records))
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
        keyed, _, count = _INLINE_HEAD.unpack_from(block, 1)
        return np.frombuffer(block, _KEYED if keyed else _UNKEYED, count, 1 + _INLINE_HEAD.size)
    keyed, before, count, _, _, table, path = _unpack_spilled(block)
    dtype = _KEYED if keyed else _UNKEYED
    start = table + before * dtype.itemsize
    records = np.empty(count, dtype)
    storage.read_into(records.view(np.uint8), path, start)
    return records


def _pack_inline(records: npt.NDArray[np.void], data: npt.NDArray[np.uint8]) -> bytes:
    body: memoryview | bytes = data.data
    if data.nbytes >= _COMPRESS_FROM:
        small = zstandard.ZstdCompressor(level=_INLINE_LEVEL).compress(data.data)
        if len(small) < data.nbytes * 0.9:
            body = small
    head = _INLINE_HEAD.pack(records.dtype == _KEYED, isinstance(body, bytes), len(records))
    return b''.join([_INLINE, head, records.tobytes(), body])


def _inline_data(block: bytes, count: int) -> npt.NDArray[np.uint8]:
    keyed, compressed, _ = _INLINE_HEAD.unpack_from(block, 1)
    start = 1 + _INLINE_HEAD.size + count * (_KEYED if keyed else _UNKEYED).itemsize
    if not compressed:
        return np.frombuffer(block, np.uint8, offset=start)
    body = memoryview(block)[start:]
    return np.frombuffer(zstandard.ZstdDecompressor().decompress(body), np.uint8)


def _pack_spilled(
    keyed: bool, before: int, count: int, start: int, end: int, table: int, path: str
) -> bytes:
    return _SPILLED + _SPILLED_HEAD.pack(keyed, before, count, start, end, table) + path.encode()


def _unpack_spilled(block: bytes) -> tuple[bool, int, int, int, int, int, str]:
    keyed, before, count, start, end, table = _SPILLED_HEAD.unpack_from(block, 1)
    path = block[1 + _SPILLED_HEAD.size :].decode()
    return bool(keyed), before, count, start, end, table, path

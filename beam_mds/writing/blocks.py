"""Blocks: many encoded samples, sorted by position, on their way to their shards.

A block travels as one byte string. Inline, the string holds the samples; spilled, they lie in a
run file and the string says where. Assigning a block to shards cuts either; writing loads either.
All samples of a block are of one split; a run file can hold those of many.

    block    := kind byte | body
    inline   := uint8 layout | uint8 compressed | uint16 s | uint64 n | split (s bytes, utf-8)
                | records | key bytes | sample bytes
    spilled  := uint8 layout | uint16 s | uint64 rows before | uint64 n | uint64 byte start
                | uint64 byte end | uint64 records start | uint64 keys start
                | split (s bytes, utf-8) | path (utf-8)
    run file := sample bytes of all rows | records of all rows | key bytes of all rows

The layout is that of the records. There are key bytes with order='sorted' only.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import zstandard

from beam_mds import storage
from beam_mds.format import Samples
from beam_mds.format.encodings.base import Bytes1D, offsets_of
from beam_mds.format.samples import Allocate, allocate
from beam_mds.format.shard import SAMPLE_OVERHEAD
from beam_mds.writing import sorting
from beam_mds.writing.planning import Int64s, Plan, UInt64s

_INLINE, _SPILLED = b'I', b'S'
_INLINE_HEAD = struct.Struct('<BBHQ')
_SPILLED_HEAD = struct.Struct('<BHQQQQQQ')

# What is kept of each sample beside its bytes; without a key the second hash is always 0.
_UNKEYED = np.dtype([('first', '<u8'), ('size', '<u4')])
_KEYED = np.dtype([('first', '<u8'), ('size', '<u4'), ('second', '<u8')])
_SORTED = np.dtype([('key', '<u4'), ('size', '<u4'), ('second', '<u8')])
_LAYOUTS = (_UNKEYED, _KEYED, _SORTED)

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
        keys: With order='sorted' the bytes of n keys, whose ranks `first` then is.
    """

    samples: Samples
    first: UInt64s
    second: UInt64s | None
    keys: Samples | None = None


@dataclass(frozen=True)
class Packed:
    """A block on its way.

    Attributes:
        split: Of all its samples; empty when the dataset is not split.
        block: The block, for `assign` and `load`.
        where: The block without the samples' bytes, for `positions`.
        first: uint64 of shape (n,), sorted.
        second: uint64 of shape (n,).
        weights: int64 of shape (n,), what each sample takes in a shard, in bytes.
        keys: The bytes of n keys, with order='sorted'.
    """

    split: str
    block: bytes
    where: bytes
    first: UInt64s
    second: UInt64s
    weights: Int64s
    keys: Samples | None


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
    keys = None if block.keys is None else block.keys.take(order)
    key_bytes = np.empty(0, np.uint8) if keys is None else keys.bytes
    offsets = offsets_of(records['size'])
    bounds = _bounds(len(order), None if codes is None else codes[order])
    if folder is not None:
        path = storage.join(folder, f'{uuid.uuid4().hex}.run')
        run = _RunFile(block.samples, order, records, key_bytes)
        storage.write(path, run, run.size + records.nbytes + len(key_bytes))
    packed = []
    for code, start, end in bounds:
        rows, some = records[start:end], None if keys is None else keys.slice(start, end)
        if folder is None:
            data = block.samples.take(order[start:end]).bytes
            whole = _pack_inline(splits[code], rows, some, data)
            where = _pack_inline(splits[code], rows, some, np.empty(0, np.uint8))
        else:
            place = _Slice(
                before=start,
                rows=end - start,
                start=int(offsets[start]),
                end=int(offsets[end]),
                records=run.size,
                keys=run.size + records.nbytes + (0 if keys is None else int(keys.offsets[start])),
            )
            whole = where = _pack_spilled(splits[code], rows.dtype, place, path)
        first = block.first[order[start:end]]
        second = np.zeros(len(rows), np.uint64) if block.second is None else rows['second']
        weights = rows['size'].astype(np.int64) + SAMPLE_OVERHEAD
        packed.append(Packed(splits[code], whole, where, first, second, weights, some))
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

    def __init__(
        self, samples: Samples, order: Int64s, records: npt.NDArray[np.void], keys: Bytes1D
    ) -> None:
        self._samples, self._order = samples, order
        self._tail = (records.view(np.uint8), keys)
        self.size = samples.nbytes

    def __iter__(self) -> Iterator[memoryview]:
        for piece in self._samples.pieces(self._order):
            yield piece.data
        for piece in self._tail:
            yield piece.data


class _Slice(NamedTuple):
    """A part of a run file: rows, their bytes, where the records and the first key start."""

    before: int
    rows: int
    start: int
    end: int
    records: int
    keys: int


def split_of(block: bytes) -> str:
    """The split of a block's samples."""
    if block[:1] == _INLINE:
        size, start = _INLINE_HEAD.unpack_from(block, 1)[2], 1 + _INLINE_HEAD.size
    else:
        size, start = _SPILLED_HEAD.unpack_from(block, 1)[1], 1 + _SPILLED_HEAD.size
    return block[start : start + size].decode()


def positions(block: bytes, bounds: Samples | None = None) -> Positions:
    """Reads a block without its samples.

    Args:
        block: From `pack`, whole or without the samples.
        bounds: With order='sorted' the keys that positions are told by.
    """
    records = _records(block)
    return _positions_of(records, _keys(block, records), bounds)


def assign(block: bytes, plan: Plan, bounds: Samples | None = None) -> Iterator[tuple[int, bytes]]:
    """Cuts a block by shard.

    Args:
        block: From `pack`.
        plan: The shards of its split.
        bounds: With order='sorted' the keys that positions are told by.

    Yields:
        Shard number, and the block of the samples that belong to it.
    """
    records, split = _records(block), split_of(block)
    keys = _keys(block, records)
    where = _positions_of(records, keys, bounds)
    offsets = offsets_of(where.sizes)
    cuts = plan.split(where.first, where.second)
    if block[:1] == _INLINE:
        data = _inline_data(block)
        for shard, start, stop in cuts:
            piece = data[offsets[start] : offsets[stop]]
            some = None if keys is None else keys.slice(start, stop)
            yield shard, _pack_inline(split, records[start:stop], some, piece)
        return
    whole, path = _unpack_spilled(block)
    for shard, start, stop in cuts:
        yield (
            shard,
            _pack_spilled(
                split,
                records.dtype,
                whole._replace(
                    before=whole.before + start,
                    rows=stop - start,
                    start=whole.start + int(offsets[start]),
                    end=whole.start + int(offsets[stop]),
                    keys=whole.keys + (0 if keys is None else int(keys.offsets[start])),
                ),
                path,
            ),
        )


def load(block: bytes, allocate: Allocate = allocate) -> Block:
    """Reads a block whole.

    Args:
        block: From `pack` or `assign`.
        allocate: Gives the buffer for samples that are read from a run file.
    """
    records = _records(block)
    keys = _keys(block, records)
    if block[:1] == _INLINE:
        data = _inline_data(block)
    else:
        place, path = _unpack_spilled(block)
        data = allocate(place.end - place.start)
        storage.read_into(data, path, place.start)
    samples = Samples(data, offsets_of(records['size']))
    second = None if records.dtype == _UNKEYED else np.ascontiguousarray(records['second'])
    first = np.ascontiguousarray(records['first']) if keys is None else sorting.ranks(keys)
    return Block(samples, first, second, keys)


def _records_of(block: Block) -> npt.NDArray[np.void]:
    layout = _UNKEYED if block.second is None else _KEYED if block.keys is None else _SORTED
    records = np.empty(len(block.first), layout)
    records['size'] = block.samples.sizes
    if block.keys is None:
        records['first'] = block.first
    else:
        records['key'] = block.keys.sizes
    if block.second is not None:
        records['second'] = block.second
    return records


def _positions_of(
    records: npt.NDArray[np.void], keys: Samples | None, bounds: Samples | None
) -> Positions:
    if keys is None:
        first = np.ascontiguousarray(records['first'])
    else:
        first = sorting.positions_of(keys, bounds or Samples.empty())
    keyed = records.dtype != _UNKEYED
    second = np.ascontiguousarray(records['second']) if keyed else np.zeros(len(first), np.uint64)
    return Positions(first, second, records['size'].astype(np.int64))


def _records(block: bytes) -> npt.NDArray[np.void]:
    if block[:1] == _INLINE:
        layout, _, count, start = _unpack_inline(block)
        return np.frombuffer(block, layout, count, start)
    place, path = _unpack_spilled(block)
    records = np.empty(place.rows, _layout(block))
    start = place.records + place.before * records.itemsize
    storage.read_into(records.view(np.uint8), path, start)
    return records


def _keys(block: bytes, records: npt.NDArray[np.void]) -> Samples | None:
    if records.dtype != _SORTED:
        return None
    offsets = offsets_of(records['key'])
    if block[:1] == _INLINE:
        start = _unpack_inline(block)[3] + records.nbytes
        return Samples(np.frombuffer(block, np.uint8, int(offsets[-1]), start), offsets)
    place, path = _unpack_spilled(block)
    data = np.empty(int(offsets[-1]), np.uint8)
    storage.read_into(data, path, place.keys)
    return Samples(data, offsets)


def _pack_inline(
    split: str,
    records: npt.NDArray[np.void],
    keys: Samples | None,
    data: npt.NDArray[np.uint8],
) -> bytes:
    body: memoryview | bytes = data.data
    if data.nbytes >= _COMPRESS_FROM:
        small = zstandard.ZstdCompressor(level=_INLINE_LEVEL).compress(data.data)
        if len(small) < data.nbytes * 0.9:
            body = small
    name = split.encode()
    head = _INLINE_HEAD.pack(
        _LAYOUTS.index(records.dtype), isinstance(body, bytes), len(name), len(records)
    )
    key_bytes = b'' if keys is None else keys.bytes.data
    return b''.join([_INLINE, head, name, records.tobytes(), key_bytes, body])


def _layout(block: bytes) -> np.dtype[np.void]:
    """What the records of a block are."""
    return _LAYOUTS[block[1]]


def _unpack_inline(block: bytes) -> tuple[np.dtype[np.void], bool, int, int]:
    """The layout, whether it is compressed, the number of rows, where records start."""
    layout, compressed, name, count = _INLINE_HEAD.unpack_from(block, 1)
    return _LAYOUTS[layout], bool(compressed), count, 1 + _INLINE_HEAD.size + name


def _inline_data(block: bytes) -> npt.NDArray[np.uint8]:
    layout, compressed, count, start = _unpack_inline(block)
    if layout == _SORTED:
        start += int(np.frombuffer(block, layout, count, start)['key'].sum(dtype=np.int64))
    start += count * layout.itemsize
    if not compressed:
        return np.frombuffer(block, np.uint8, offset=start)
    body = memoryview(block)[start:]
    return np.frombuffer(zstandard.ZstdDecompressor().decompress(body), np.uint8)


def _pack_spilled(split: str, layout: np.dtype[np.void], place: _Slice, path: str) -> bytes:
    name = split.encode()
    head = _SPILLED_HEAD.pack(_LAYOUTS.index(layout), len(name), *place)
    return b''.join([_SPILLED, head, name, path.encode()])


def _unpack_spilled(block: bytes) -> tuple[_Slice, str]:
    _, name, *place = _SPILLED_HEAD.unpack_from(block, 1)
    return _Slice(*place), block[1 + _SPILLED_HEAD.size + name :].decode()

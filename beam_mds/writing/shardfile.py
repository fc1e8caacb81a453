"""From blocks to stored shards: gather the samples of a range, cut them, write each shard file."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from beam_mds import storage
from beam_mds.format import FileInfo, Samples, compress, cut_points, hex_digest
from beam_mds.format.compression import suffix
from beam_mds.format.samples import Chunks
from beam_mds.format.shard import NO_LIMIT, SAMPLE_OVERHEAD, shard_header
from beam_mds.writing import blocks, planning, sorting
from beam_mds.writing.options import WriteOptions
from beam_mds.writing.planning import Int64s, UInt64s

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Fragment:
    """One stored shard, for the index.

    Attributes:
        split: The sub-folder that it lies in; empty when the dataset is not split.
        number: Its place in the plan; -1 for a shard in arrival order.
        part: Its place among the shards of one range.
        samples: How many it holds.
        raw_data: The raw file.
        zip_data: The compressed file, when compression is on.
    """

    split: str
    number: int
    part: int
    samples: int
    raw_data: FileInfo
    zip_data: FileInfo | None

    @property
    def stored(self) -> FileInfo:
        """The file that lies in the folder."""
        return self.zip_data or self.raw_data

    @property
    def path(self) -> str:
        """The stored file, relative to the dataset's root."""
        return f'{self.split}/{self.stored.basename}' if self.split else self.stored.basename


def store_shard(
    options: WriteOptions, split: str, samples: Sequence[Samples], number: int = -1, part: int = 0
) -> Fragment:
    """Builds, hashes, compresses and writes one shard file.

    Args:
        options: Of the write.
        split: The sub-folder; empty when the dataset is not split.
        samples: The shard's samples, in order; at least one.
        number: The shard's place in the plan, which makes its name depend on the content; -1 for a
            name that is unique to this attempt.
        part: Its place among the shards of one range.

    Raises:
        OptionError: The shard would have 2**32 bytes or more.
        StorageError: It could not be written.
    """
    config = options.config
    sizes = np.concatenate([batch.sizes for batch in samples])
    raw: list[Any] = [shard_header(config, sizes), *(batch.bytes for batch in samples)]
    raw_size = sum(memoryview(piece).nbytes for piece in raw)
    raw_hashes = {name: hex_digest(name, raw) for name in config.hashes}
    stored = raw if config.compression is None else [compress(config.compression, raw)]
    if number < 0:
        name = planning.arrival_name(uuid.uuid4().hex)
    else:
        name = planning.numbered_name(number, planning.content_digest(stored, part))
    raw_data, zip_data = FileInfo(name, raw_size, raw_hashes), None
    if config.compression is not None:
        hashes = {algo: hex_digest(algo, stored) for algo in config.hashes}
        zip_data = FileInfo(name + suffix(config.compression), len(stored[0]), hashes)
    fragment = Fragment(split, number, part, len(sizes), raw_data, zip_data)
    path = storage.join(options.out, fragment.path)
    sent = storage.write(path, stored, fragment.stored.bytes)
    _logger.info(
        '%s: %d samples, %d bytes, %d stored%s',
        path, len(sizes), raw_size, fragment.stored.bytes, '' if sent else ' (was there already)',
    )  # fmt: skip
    return fragment


class Gathered:
    """The samples of one range of positions, from all the blocks that hold some of them.

    Holds about as many bytes as were added, except where the same sample comes again and again:
    beyond a few shards of those, one copy and a count are kept.
    """

    def __init__(self, capacity: int, most: int = NO_LIMIT) -> None:
        """Starts empty.

        Args:
            capacity: `ShardConfig.capacity`.
            most: Samples that a shard may have.
        """
        self._capacity, self._most = capacity, most
        self._blocks: list[blocks.Block] = []
        self._counts: list[Int64s] = []
        self._bytes = 0
        self._collapse_at = 2 * capacity

    def add(self, block: blocks.Block) -> None:
        """Takes the samples of a block."""
        self._append(block, np.ones(len(block.first), np.int64))
        if self._bytes > self._collapse_at:
            self._collapse()

    def shards(self) -> Iterator[Samples]:
        """The samples of each shard, sorted by (position, bytes); the bag is empty after it."""
        samples, order, counts = self._sorted()
        self._blocks.clear()
        sizes = samples.sizes[order]
        if counts is None:
            start = 0
            for end in cut_points(sizes, self._capacity, self._most):
                yield samples.take(order[start:end])
                start = end
            return
        for items, times in _cut_copies(sizes, counts[order], self._capacity, self._most):
            yield samples.take(np.repeat(order[items], times))

    def _append(self, block: blocks.Block, counts: Int64s) -> None:
        self._blocks.append(block)
        self._counts.append(counts)
        self._bytes += block.samples.nbytes

    def _collapse(self) -> None:
        """Keeps one copy of each distinct sample."""
        samples, order, counts = self._sorted()
        first, second, keys = self._positions()
        keyed = self._blocks[0].second is not None
        kept, times, last = [], [], None
        views = list(samples)
        copies = np.ones(len(order), np.int64) if counts is None else counts
        for row in order.tolist():
            if last is not None and first[row] == first[last] and views[row] == views[last]:
                times[-1] += int(copies[row])
            else:
                kept.append(row)
                times.append(int(copies[row]))
                last = row
        rows = np.array(kept)
        self._blocks, self._counts, self._bytes = [], [], 0
        block = blocks.Block(
            samples.take(rows),
            first[rows],
            second[rows] if keyed else None,
            None if keys is None else keys.take(rows),
        )
        self._append(block, np.array(times))
        self._collapse_at = max(self._collapse_at, 2 * self._bytes)

    def _positions(self) -> tuple[UInt64s, UInt64s, Samples | None]:
        parts = [block.keys for block in self._blocks if block.keys is not None]
        keys = Samples.concat(parts) if parts else None
        if keys is None:
            first = np.concatenate([block.first for block in self._blocks])
        else:
            first = sorting.ranks(keys)
        second = np.concatenate(
            [
                np.zeros(len(b.first), np.uint64) if b.second is None else b.second
                for b in self._blocks
            ]
        )
        return first, second, keys

    def _sorted(self) -> tuple[Samples, npt.NDArray[np.int64], Int64s | None]:
        """All samples, their order, and how often each is there (None: once)."""
        first, second, _ = self._positions()
        samples = Samples.concat([block.samples for block in self._blocks])
        counts = np.concatenate(self._counts)
        order = (
            np.argsort(first, kind='stable') if not second.any() else np.lexsort((second, first))
        )
        same = (first[order][1:] == first[order][:-1]) & (second[order][1:] == second[order][:-1])
        for start, end in _runs(same):
            rows = order[start:end].tolist()
            data, bounds = samples.data.data, samples.offsets
            rows.sort(key=lambda row: bytes(data[bounds[row] : bounds[row + 1]]))
            order[start:end] = rows
        return samples, order, None if (counts == 1).all() else counts


def gather(parts: Iterable[bytes], capacity: int, most: int = NO_LIMIT) -> Gathered:
    """Loads the blocks of one range."""
    gathered = Gathered(capacity, most)
    chunks = Chunks(capacity)  # of virtual memory: what is not filled costs nothing
    for part in parts:
        gathered.add(blocks.load(part, chunks))
    return gathered


def store_range(
    options: WriteOptions, split: str, gathered: Gathered, number: int
) -> list[Fragment]:
    """Writes the shards of one range: one, or more where it does not fit."""
    return [
        store_shard(options, split, [samples], number, part)
        for part, samples in enumerate(gathered.shards())
    ]


def _runs(same: npt.NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """Runs of equal neighbours, as start and end (exclusive)."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], same, [False]]).astype(np.int8)))
    for start, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        yield start, end + 1


def _cut_copies(
    sizes: Int64s, counts: Int64s, capacity: int, most: int
) -> Iterator[tuple[list[int], list[int]]]:
    """`cut_points` for samples that come several times: the items of a shard, and how often."""
    items: list[int] = []
    times: list[int] = []
    room, places = capacity, most
    for item, (size, count) in enumerate(zip(sizes.tolist(), counts.tolist(), strict=True)):
        left, weight = count, size + SAMPLE_OVERHEAD
        while left:
            fits = min(left, places, max(room // weight, 0 if items else 1))
            if fits:
                items.append(item)
                times.append(fits)
                room -= fits * weight
                places -= fits
                left -= fits
            if left:
                yield items, times
                items, times, room, places = [], [], capacity, most
    if items:
        yield items, times

"""Which sample goes to which shard, and what a shard is called: pure functions of sizes and hashes.

Every sample has a position: a pair of 64-bit hashes, of its key and of its encoded bytes (the
second is 0 when there is no key). The order of a shuffled dataset is the order of positions, and a
shard is a range of them. So that shards come out full, the ranges are cut by a histogram of bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from beam_mds.format.compression import OPTIONAL_SUFFIX
from beam_mds.format.shard import NO_LIMIT

UInt64s = npt.NDArray[np.uint64]
Int64s = npt.NDArray[np.int64]

# Buckets of the first hash in the histogram: 2**20, of 32 bytes each when all are used. That is 10
# buckets a shard at 100,000 shards, and more than one for each sample of a small set of large ones.
BUCKET_BITS = 20
_BUCKET_SHIFT = np.uint64(64 - BUCKET_BITS)

# A bucket with more bytes than a shard is measured again, in parts of at most a shard / 32.
_HOT_PARTS = 32

# Shards in one range beyond which the next sample with more copies than a shard starts another.
# Less would leave too many half-filled shards where such samples follow each other.
_MOST_SHARDS = 16

# The files that are ours and may be deleted when no index lists them: numbered shards with 16 hex
# digits of their content's hash, and shards in arrival order with 32 random ones.
OWN_SHARD = re.compile(
    rf'shard\.(\d{{5,}}\.[0-9a-f]{{16}}|[0-9a-f]{{32}})\.mds{OPTIONAL_SUFFIX}', re.ASCII
)


def numbered_name(number: int, digest: str) -> str:
    """The raw basename of a shard whose content has this hash (16 hex digits)."""
    return f'shard.{number:05}.{digest}.mds'


def content_digest(stored: Sequence[Any], part: int) -> str:
    """The hash in a numbered name: of the stored bytes, as bytes-like objects one after another.

    Seeded by the shard's part of its range: shards of copies of one sample can be equal.
    """
    state = xxhash.xxh3_64(seed=part)
    for piece in stored:
        state.update(piece)
    return state.hexdigest()


def numbered(basename: str) -> tuple[int, str] | None:
    """The number and the hash in the basename of a stored shard; None for any other name.

    Example:
        >>> numbered('shard.00012.9f86d081884c7d65.mds.zstd')
        (12, '9f86d081884c7d65')
    """
    found = OWN_SHARD.fullmatch(basename)
    number, dot, digest = found[1].partition('.') if found else ('', '', '')
    return (int(number), digest) if dot else None


def arrival_name(token: str) -> str:
    """The raw basename of a shard that is unique to one attempt (32 hex digits)."""
    return f'shard.{token}.mds'


@dataclass(frozen=True)
class Histogram:
    """Bytes at positions, sorted by position, each position once.

    Attributes:
        first: uint64 of shape (n,), where a bucket starts (first hash).
        second: uint64 of shape (n,), where a bucket starts (second hash).
        weights: int64 of shape (n,), bytes in the bucket, shard overhead of samples included.
        counts: int64 of shape (n,), samples in the bucket.
    """

    first: UInt64s
    second: UInt64s
    weights: Int64s
    counts: Int64s

    def __len__(self) -> int:
        """The number of buckets in use."""
        return len(self.first)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles in a third of the bytes: a coarse histogram has buckets by the hundred thousand.

        Few of the 64 bits of each number are used.
        """
        second = self.second if self.second.any() else None
        coarse = second is None and bool((_bucket(self.first) == self.first).all())
        first = self.first >> _BUCKET_SHIFT if coarse else self.first
        arrays = [_narrow(array) for array in (first, self.weights, self.counts)]
        return _unpacked, (arrays, second, coarse)

    @staticmethod
    def of(first: UInt64s, second: UInt64s, weights: Int64s, counts: Int64s) -> Histogram:
        """Sorts and adds up what stands at one position."""
        order = np.lexsort((second, first))
        first, second = first[order], second[order]
        new = np.concatenate([[True], (np.diff(first) != 0) | (np.diff(second) != 0)])
        starts = np.flatnonzero(new[: len(first)])
        if len(starts):
            weights = np.add.reduceat(weights[order], starts)
            counts = np.add.reduceat(counts[order], starts)
        return Histogram(first[starts], second[starts], weights, counts)

    @staticmethod
    def merged(histograms: Sequence[Histogram]) -> Histogram:
        """The sum of several; empty for none."""
        if len(histograms) == 1:
            return histograms[0]
        empty = Histogram(*(np.empty(0, dtype) for dtype in (np.uint64, np.uint64, int, int)))
        parts = [empty, *histograms]
        return Histogram.of(
            np.concatenate([part.first for part in parts]),
            np.concatenate([part.second for part in parts]),
            np.concatenate([part.weights for part in parts]),
            np.concatenate([part.counts for part in parts]),
        )

    def where(self, chosen: npt.NDArray[np.bool_]) -> Histogram:
        """Some of the buckets."""
        return Histogram(
            self.first[chosen], self.second[chosen], self.weights[chosen], self.counts[chosen]
        )


def measure(first: UInt64s, weights: Int64s) -> Histogram:
    """The histogram of samples by the leading bits of their first hash.

    Args:
        first: uint64 of shape (n,), in any order.
        weights: int64 of shape (n,), bytes that each sample takes in a shard.
    """
    return Histogram.of(
        _bucket(first), np.zeros(len(first), np.uint64), weights, np.ones(len(first), np.int64)
    )


@dataclass(frozen=True)
class HotBuckets:
    """Buckets with more bytes than a shard, and how finely each is to be measured.

    Attributes:
        starts: uint64 of shape (n,), sorted.
        shifts: uint64 of shape (n,), low bits of the second hash to leave out.
    """

    starts: UInt64s
    shifts: UInt64s

    def __len__(self) -> int:
        """How many there are; mostly none."""
        return len(self.starts)


def hot_buckets(histogram: Histogram, capacity: int, most: int = NO_LIMIT) -> HotBuckets:
    """The buckets that hold more than a shard: one frequent key, or many copies of a sample."""
    hot = (histogram.weights > capacity) | (histogram.counts > most)
    shards = np.maximum(histogram.weights[hot] / capacity, histogram.counts[hot] / most)
    parts = shards * _HOT_PARTS
    bits = np.minimum(np.ceil(np.log2(parts)), 40).astype(np.uint64)
    return HotBuckets(histogram.first[hot], np.uint64(64) - bits)


def measure_hot(first: UInt64s, second: UInt64s, weights: Int64s, hot: HotBuckets) -> Histogram:
    """The histogram of the samples in hot buckets, by key and leading bits of the second hash."""
    bucket = _bucket(first)
    at = np.minimum(np.searchsorted(hot.starts, bucket), max(len(hot) - 1, 0))
    inside = np.flatnonzero(hot.starts[at] == bucket) if len(hot) else np.empty(0, np.int64)
    shift = hot.shifts[at[inside]] if len(hot) else np.empty(0, np.uint64)
    return Histogram.of(
        first[inside],
        second[inside] >> shift << shift,
        weights[inside],
        np.ones(len(inside), np.int64),
    )


@dataclass(frozen=True)
class Plan:
    """Ranges of positions, one a shard.

    Attributes:
        first: uint64 of shape (shards - 1,), first hash where each shard but the first starts.
        second: uint64 of shape (shards - 1,), second hash there.
    """

    first: UInt64s
    second: UInt64s

    def __len__(self) -> int:
        """The number of shards."""
        return len(self.first) + 1

    def split(self, first: UInt64s, second: UInt64s) -> Iterator[tuple[int, int, int]]:
        """Cuts samples that are sorted by position.

        Args:
            first: uint64 of shape (n,).
            second: uint64 of shape (n,).

        Yields:
            Shard number, first row, end row; no empty ranges.
        """
        rows = np.searchsorted(first, self.first)
        for cut in np.flatnonzero(self.second):  # cuts inside one key: few
            low, high = rows[cut], np.searchsorted(first, self.first[cut], side='right')
            rows[cut] = low + np.searchsorted(second[low:high], self.second[cut])
        bounds = np.concatenate([[0], rows, [len(first)]])
        for shard in np.flatnonzero(np.diff(bounds)).tolist():
            yield shard, int(bounds[shard]), int(bounds[shard + 1])


def even_plan(shards: int) -> Plan:
    """Equal ranges of the first hash, without looking at the data."""
    cuts = [-(-(number << 64) // shards) for number in range(1, shards)]
    return Plan(np.array(cuts, np.uint64), np.zeros(shards - 1, np.uint64))


def full_plan(coarse: Histogram, fine: Histogram, capacity: int, most: int = NO_LIMIT) -> Plan:
    """Ranges that fill shards up to the capacity, in the order of positions.

    Args:
        coarse: All samples, from `measure`.
        fine: The samples of hot buckets, from `measure_hot`.
        capacity: Bytes that the samples of a shard may add up to, overhead included.
        most: Samples that a shard may have.
    """
    cold = coarse.where((coarse.weights <= capacity) & (coarse.counts <= most))
    histogram = Histogram.merged([cold, _whole_keys(fine, capacity, most)])
    cuts = _cuts(histogram, capacity, most)
    return Plan(histogram.first[cuts], histogram.second[cuts])


def _cuts(histogram: Histogram, capacity: int, most: int) -> list[int]:
    """The buckets that start a new range; `used` follows how full its last shard gets."""
    weights = np.concatenate([[0], np.cumsum(histogram.weights)])
    counts = np.concatenate([[0], np.cumsum(histogram.counts)])
    cuts: list[int] = []
    start = used = held = 0  # the next bucket; bytes and samples in the open shard
    while True:
        end = min(
            int(np.searchsorted(weights, weights[start] + capacity - used, side='right')),
            int(np.searchsorted(counts, counts[start] + most - held, side='right')),
        )
        end -= 1
        if end >= len(histogram):
            return cuts
        if end > start:
            used += int(weights[end] - weights[start])
            held += int(counts[end] - counts[start])
        weight, count = int(histogram.weights[end]), int(histogram.counts[end])
        if weight <= capacity and count <= most:
            cuts.append(end)
            start, used, held = end, 0, 0
            continue
        # Copies of one sample, or a sample larger than a shard: the range goes on over as many
        # shards as that takes, and what follows shares the last one.
        one = -(-weight // count)
        long = weights[end] - weights[cuts[-1] if cuts else 0] > _MOST_SHARDS * capacity
        if used and (used + one > capacity or held == most or long):
            cuts.append(end)
            used = held = 0
        left = count - max(min((capacity - used) // one, most - held), 0)
        each = max(min(capacity // one, most), 1)
        held = left % each or each
        start, used = end + 1, min(held * one, capacity)


def _whole_keys(fine: Histogram, capacity: int, most: int) -> Histogram:
    """Makes one item of each key that fits a shard: such a key is not cut."""
    starts = np.flatnonzero(np.concatenate([[True], np.diff(fine.first) != 0])[: len(fine)])
    if not len(starts):
        return fine
    whole = np.add.reduceat(fine.weights, starts) <= capacity
    whole &= np.add.reduceat(fine.counts, starts) <= most
    fits = np.repeat(whole, np.diff(np.append(starts, len(fine))))
    second = np.where(fits, np.uint64(0), fine.second)
    return Histogram.of(fine.first, second, fine.weights, fine.counts)


def _bucket(first: UInt64s) -> UInt64s:
    bucket: UInt64s = first >> _BUCKET_SHIFT << _BUCKET_SHIFT
    return bucket


def _narrow(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The same numbers in the smallest type that holds them."""
    return array.astype(np.min_scalar_type(int(array.max()))) if len(array) else array


def _unpacked(
    arrays: Sequence[npt.NDArray[Any]], second: UInt64s | None, coarse: bool
) -> Histogram:
    first, weights, counts = arrays
    first = first.astype(np.uint64)
    return Histogram(
        first << _BUCKET_SHIFT if coarse else first,
        np.zeros(len(first), np.uint64) if second is None else second,
        weights.astype(np.int64),
        counts.astype(np.int64),
    )

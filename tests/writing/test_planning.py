from __future__ import annotations

import bisect
import pickle
import random
import time
import tracemalloc

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from beam_mds.format import cut_points
from beam_mds.format.compression import suffix
from beam_mds.format.shard import SAMPLE_OVERHEAD
from beam_mds.writing import planning
from beam_mds.writing.planning import Histogram, Plan

COMPRESSIONS = ['br', 'bz2', 'gz', 'snappy', 'zstd']

_hashes = st.one_of(
    st.integers(0, 2**64 - 1), st.integers(0, 5), st.sampled_from([1 << 44, (1 << 44) + 1, 2**63])
)
_positions = st.lists(st.tuples(_hashes, _hashes), max_size=60)


def columns(rows: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    """Sorted positions as the arrays that planning takes."""
    rows = sorted(rows)
    return (np.array([row[i] for row in rows], np.uint64).reshape(-1) for i in (0, 1))


def plan_of(
    first: np.ndarray, second: np.ndarray, weights: np.ndarray, capacity: int, parts: int = 1
) -> Plan:
    """All steps of a plan, over samples that are spread over some blocks."""
    pieces = [slice(part, None, parts) for part in range(parts)]
    coarse = Histogram.merged([planning.measure(first[p], weights[p]) for p in pieces])
    hot = planning.hot_buckets(coarse, capacity)
    fine = [planning.measure_hot(first[p], second[p], weights[p], hot) for p in pieces]
    return planning.full_plan(coarse, Histogram.merged(fine), capacity)


def range_weights(
    plan: Plan, first: np.ndarray, second: np.ndarray, weights: np.ndarray
) -> list[int]:
    """What each range holds that holds anything; the order of samples is free."""
    order = np.lexsort((second, first))
    first, second, weights = first[order], second[order], weights[order]
    return [int(weights[start:end].sum()) for _, start, end in plan.split(first, second)]


def random_samples(rng: np.random.Generator, count: int, low: int, high: int):
    first = rng.integers(0, 2**64, count, np.uint64)
    return first, np.zeros(count, np.uint64), rng.integers(low, high, count)


# Splitting by a plan


@given(_positions, _positions)
@example([(5, 0), (5, 3), (5, 9), (6, 0)], [(5, 3), (6, 0)])
@example([(5, 3)] * 4, [(5, 3), (5, 4)])
@example([(0, 0)], [])
def test_a_plan_splits_as_comparing_128_bit_positions_does(
    rows: list[tuple[int, int]], cuts: list[tuple[int, int]]
) -> None:
    cuts = sorted(set(cuts))
    plan = Plan(*columns(cuts))
    first, second = columns(rows)
    split = list(plan.split(first, second))
    numbers = [shard for shard, start, end in split for _ in range(start, end)]
    assert numbers == [bisect.bisect_right(cuts, row) for row in sorted(rows)]
    # every row once and in order, and no range is empty
    assert [0, *(end for _, _, end in split)] == [*(start for _, start, _ in split), len(rows)]
    assert all(start < end for _, start, end in split)
    assert len(plan) == len(cuts) + 1


def test_no_samples_split_into_nothing() -> None:
    nothing = np.empty(0, np.uint64)
    assert list(planning.even_plan(3).split(nothing, nothing)) == []


@given(st.integers(1, 300), st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=50))
@example(1, [0, 2**64 - 1])
@example(3, [2**64 // 3, 2**64 // 3 + 1, 2 * 2**64 // 3, 2 * 2**64 // 3 + 1])
@example(2, [2**63 - 1, 2**63])
def test_even_ranges_are_exact(shards: int, hashes: list[int]) -> None:
    plan = planning.even_plan(shards)
    assert len(plan) == shards
    first = np.array(sorted(hashes), np.uint64)
    split = plan.split(first, np.zeros(len(first), np.uint64))
    numbers = [shard for shard, start, end in split for _ in range(start, end)]
    assert numbers == [value * shards >> 64 for value in sorted(hashes)]


# Full ranges


@given(
    st.lists(st.tuples(_hashes, _hashes, st.integers(1, 40)), max_size=80),
    st.integers(1, 120),
    st.integers(1, 5),
)
@example([(7, 7, 30)] * 10, 100, 2)
@example([(7, second << 60, 30) for second in range(16)], 100, 3)
def test_what_a_range_holds_beside_items_larger_than_a_shard_fits_one_shard_at_a_time(
    rows: list[tuple[int, int, int]], capacity: int, parts: int
) -> None:
    first, second = (np.array([row[i] for row in rows], np.uint64) for i in (0, 1))
    weights = np.array([row[2] for row in rows], np.int64)
    plan = plan_of(first, second, weights, capacity, parts)
    items = _items(rows, capacity)
    large = {item for item in set(items.values()) if _weight(items, item, rows) > capacity}
    order = np.lexsort((second, first))
    for _, start, end in plan.split(first[order], second[order]):
        run = 0
        for row in order[start:end].tolist():
            run = 0 if items[row] in large else run + rows[row][2]
            assert run <= capacity


def _items(rows: list[tuple[int, int, int]], capacity: int) -> dict[int, tuple[int, int]]:
    """What cannot be cut apart: the key, and the part of it in which a hot bucket is measured."""
    first = np.array([row[0] for row in rows], np.uint64)
    weights = np.array([row[2] for row in rows], np.int64)
    hot = planning.hot_buckets(planning.measure(first, weights), capacity)
    shifts = dict(zip(hot.starts.tolist(), hot.shifts.tolist(), strict=True))
    low = 64 - planning.BUCKET_BITS
    return {
        row: (key, second >> shifts.get(key >> low << low, 64))
        for row, (key, second, _) in enumerate(rows)
    }


def _weight(
    items: dict[int, tuple[int, int]], item: tuple[int, int], rows: list[tuple[int, int, int]]
) -> int:
    return sum(rows[row][2] for row, found in items.items() if found == item)


@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.integers(0, 2**64 - 1), st.integers(1, 30)), max_size=80
    ),
    st.sampled_from([1, 1 << 50, (1 << 44) + 1]),
    st.integers(1, 200),
)
def test_a_key_that_fits_a_shard_is_never_cut(
    rows: list[tuple[int, int, int]], spread: int, capacity: int
) -> None:
    first, second = columns([(key * spread, hash_) for key, hash_, _ in rows])
    weights = np.array([row[2] for row in rows], np.int64)
    plan = plan_of(first, second, weights, capacity)
    shards: dict[int, set[int]] = {}
    for shard, start, end in plan.split(first, second):
        for key in first[start:end].tolist():
            shards.setdefault(key, set()).add(shard)
    for key, numbers in shards.items():
        assert len(numbers) == 1 or weights[first == key].sum() > capacity


def test_keys_that_fit_a_shard_are_not_cut_for_sharing_a_bucket_with_others() -> None:
    rng = np.random.default_rng(8)
    first = np.repeat(np.arange(5, dtype=np.uint64), 60)
    second = rng.integers(0, 2**64, len(first), np.uint64)
    weights = np.full(len(first), 10)
    plan = plan_of(first, second, weights, 1000)
    assert range_weights(plan, first, second, weights) == [600] * 5


@pytest.mark.parametrize('header', [200, 900])
@pytest.mark.parametrize('shards', [22, 30, 31, 100])
@pytest.mark.parametrize('largest', [40, 130])
def test_many_small_samples_fill_shards_to_95_percent_of_size_limit(
    shards: int, largest: int, header: int
) -> None:
    size_limit = 1 << 16
    rng = np.random.default_rng(shards)
    capacity = size_limit - header
    count = int(shards * capacity / ((largest + SAMPLE_OVERHEAD) / 2 + 2))
    first, second, sizes = random_samples(rng, count, 1, largest)
    weights = sizes + SAMPLE_OVERHEAD
    filled = range_weights(plan_of(first, second, weights, capacity), first, second, weights)
    assert sum(filled) == weights.sum()
    assert len(filled) >= 20
    assert max(filled) <= capacity
    assert (np.mean(filled) + header) / size_limit >= 0.95


@pytest.mark.parametrize('a_shard', [3, 5, 20])
def test_few_large_samples_fill_shards_as_well_as_cutting_the_sorted_samples_would(
    a_shard: int,
) -> None:
    capacity = 1 << 26
    rng = np.random.default_rng(a_shard)
    low, high = capacity // a_shard // 2, capacity // a_shard * 3 // 2
    first, second, sizes = random_samples(rng, 3000, low, high)
    weights = sizes + SAMPLE_OVERHEAD
    plan = plan_of(first, second, weights, capacity)
    greedy = cut_points(sizes[np.argsort(first)], capacity)
    assert len(greedy) <= len(plan) <= 1.005 * len(greedy) + 1
    assert max(range_weights(plan, first, second, weights)) <= capacity


def test_large_samples_in_one_bucket_are_cut_apart() -> None:
    first = np.arange(10, dtype=np.uint64) + np.uint64(7 << 44)
    weights = np.full(10, 30)
    plan = plan_of(first, np.zeros(10, np.uint64), weights, 100)
    assert range_weights(plan, first, np.zeros(10, np.uint64), weights) == [90, 90, 90, 30]


# What a plan must not depend on


@given(st.integers(0, 10**6), st.integers(1, 9), st.integers(1, 400))
def test_the_plan_depends_neither_on_blocks_nor_on_the_order_of_merging(
    seed: int, parts: int, capacity: int
) -> None:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(0, 120))
    keys = rng.integers(0, 2**64, 10, np.uint64)
    first = keys[rng.integers(0, 10, count)]
    second = rng.integers(0, 2**64, count, np.uint64)
    weights = rng.integers(1, 60, count)
    expected = plan_of(first, second, weights, capacity)

    owner = rng.integers(0, parts, count)
    pieces = [np.flatnonzero(owner == part) for part in range(parts)]
    coarse = [planning.measure(first[p], weights[p]) for p in pieces]
    total = _merged_in_any_order(coarse, rng)
    hot = planning.hot_buckets(total, capacity)
    fine = [planning.measure_hot(first[p], second[p], weights[p], hot) for p in pieces]
    plan = planning.full_plan(total, _merged_in_any_order(fine, rng), capacity)
    assert plan.first.tolist() == expected.first.tolist()
    assert plan.second.tolist() == expected.second.tolist()


def _merged_in_any_order(histograms: list[Histogram], rng: np.random.Generator) -> Histogram:
    bag = list(histograms)
    while len(bag) > 1:
        rng.shuffle(bag)
        taken = int(rng.integers(1, len(bag) + 1))
        bag = [Histogram.merged(bag[:taken]), *bag[taken:]]
    return bag[0]


@given(st.lists(st.lists(st.tuples(_hashes, _hashes, st.integers(0, 9)), max_size=20), max_size=4))
def test_histograms_add_up_by_position(parts: list[list[tuple[int, int, int]]]) -> None:
    expected: dict[tuple[int, int], list[int]] = {}
    for first, second, weight in (row for part in parts for row in part):
        entry = expected.setdefault((first, second), [0, 0])
        entry[0] += weight
        entry[1] += 1
    merged = Histogram.merged(
        [
            Histogram.of(
                np.array([row[0] for row in part], np.uint64),
                np.array([row[1] for row in part], np.uint64),
                np.array([row[2] for row in part], np.int64),
                np.ones(len(part), np.int64),
            )
            for part in parts
        ]
    )
    positions = zip(merged.first.tolist(), merged.second.tolist(), strict=True)
    sums = map(list, zip(merged.weights.tolist(), merged.counts.tolist(), strict=True))
    assert list(zip(positions, sums, strict=True)) == sorted(expected.items())
    assert len(merged) == len(expected)


@given(st.lists(st.tuples(_hashes, _hashes, st.integers(1, 2**40)), max_size=20), st.booleans())
def test_a_pickled_histogram_is_the_same(rows: list[tuple[int, int, int]], coarse: bool) -> None:
    first, second, weights = (np.array([row[i] for row in rows], t) for i, t in enumerate('QQq'))
    made = (
        planning.measure(first, weights)
        if coarse
        else Histogram.of(first, second, weights, np.ones(len(rows), np.int64))
    )
    back = pickle.loads(pickle.dumps(made))
    for name in ('first', 'second', 'weights', 'counts'):
        one, other = getattr(made, name), getattr(back, name)
        assert one.tolist() == other.tolist()
        assert one.dtype == other.dtype


def test_a_pickled_coarse_histogram_is_small() -> None:
    rng = np.random.default_rng(0)
    first = rng.integers(0, 2**64, 100_000, np.uint64)
    made = planning.measure(first, rng.integers(1, 2000, 100_000))
    assert len(pickle.dumps(made, 5)) < 8 * len(made)


# Hot keys and copies


@pytest.mark.parametrize('neighbours', [0, 1000])
def test_a_hot_key_is_cut_by_the_second_hash_into_full_ranges(neighbours: int) -> None:
    rng = np.random.default_rng(1)
    capacity, count = 10_000, 20_000
    first = np.concatenate(
        [np.full(count, 12345 << 40, np.uint64), rng.integers(0, 2**64, neighbours, np.uint64)]
    )
    second = rng.integers(0, 2**64, len(first), np.uint64)
    weights = rng.integers(20, 80, len(first))
    filled = range_weights(plan_of(first, second, weights, capacity), first, second, weights)
    assert len(filled) >= 100
    assert max(filled) <= capacity
    # parts are measured to a shard / 32, so about that much is lost
    assert np.mean(filled) >= 0.93 * capacity


def test_several_hot_keys_in_one_bucket_are_cut_each_by_itself() -> None:
    rng = np.random.default_rng(2)
    first = np.repeat(np.arange(4, dtype=np.uint64), 1000)
    second = rng.integers(0, 2**64, 4000, np.uint64)
    weights = np.full(4000, 10)
    filled = range_weights(plan_of(first, second, weights, 1000), first, second, weights)
    assert max(filled) <= 1000
    assert len(filled) <= 46


@pytest.mark.parametrize('keyed', [False, True])
@pytest.mark.parametrize('copies', [101, 150, 500, 1999])
def test_what_follows_copies_of_one_sample_shares_the_last_shard_that_they_take(
    copies: int, keyed: bool
) -> None:
    rng = np.random.default_rng(3)
    others, capacity = 2000, 1000
    hashes = np.arange(1, 9, dtype=np.uint64) << np.uint64(59)
    first = np.concatenate([np.repeat(hashes, copies), rng.integers(0, 2**64, others, np.uint64)])
    second = first if keyed else np.zeros(len(first), np.uint64)
    weights = np.full(len(first), 10)
    plan = plan_of(first, second, weights, capacity)
    order = np.lexsort((second, first))
    shards = 0
    for _, start, end in plan.split(first[order], second[order]):
        shards += len(cut_points(weights[order][start:end] - SAMPLE_OVERHEAD, capacity))
        assert end - start <= 16 * 100 + copies + 2 * 100
    assert weights.sum() / (shards * capacity) >= 0.95


# Extremes


def test_no_samples_make_a_plan_of_one_range() -> None:
    empty = Histogram.merged([])
    assert len(empty) == 0
    assert len(planning.hot_buckets(empty, 100)) == 0
    assert len(planning.full_plan(empty, empty, 100)) == 1


def test_no_hot_buckets_measure_nothing() -> None:
    rng = np.random.default_rng(4)
    first, second, weights = random_samples(rng, 100, 1, 10)
    hot = planning.hot_buckets(planning.measure(first, weights), 10_000)
    assert len(planning.measure_hot(first, second, weights, hot)) == 0


def test_a_capacity_of_one_byte_gives_each_sample_its_own_range() -> None:
    rng = np.random.default_rng(5)
    first, second, weights = random_samples(rng, 500, 5, 10)
    first[:50] = first[50:100]  # copies stay together
    plan = plan_of(first, second, weights, 1)
    assert len(plan) == 450
    assert len(range_weights(plan, first, second, weights)) == 450


def test_a_sample_larger_than_a_shard_stands_alone() -> None:
    first = np.array([1 << 60, 2 << 60, 3 << 60], np.uint64)
    weights = np.array([10, 500, 10])
    second = np.zeros(3, np.uint64)
    assert range_weights(plan_of(first, second, weights, 100), first, second, weights) == [
        10,
        500,
        10,
    ]


def test_a_hundred_thousand_shards_are_planned_in_seconds_and_bounded_memory() -> None:
    rng = np.random.default_rng(6)
    capacity, buckets = 1 << 26, 1 << planning.BUCKET_BITS
    blocks = [random_samples(rng, 200_000, 1 << 19, 1 << 20) for _ in range(8)]
    scale = 100_000 * capacity // sum(int(weights.sum()) for _, _, weights in blocks)
    tracemalloc.start()
    try:
        started = time.monotonic()
        coarse = Histogram.merged([])
        for first, _, weights in blocks:
            coarse = Histogram.merged([coarse, planning.measure(first, weights * scale)])
        hot = planning.hot_buckets(coarse, capacity)
        fine = Histogram.merged(
            [
                planning.measure_hot(first, zeros, weights * scale, hot)
                for first, zeros, weights in blocks
            ]
        )
        plan = planning.full_plan(coarse, fine, capacity)
        seconds = time.monotonic() - started
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(coarse) <= buckets
    assert len(plan) >= 100_000
    assert peak < 200e6
    assert seconds < 20


def test_a_histogram_stays_small_however_many_samples_it_measures() -> None:
    first = np.random.default_rng(7).integers(0, 2**64, 3_000_000, np.uint64)
    histogram = planning.measure(first, np.ones(len(first), np.int64))
    assert len(histogram) <= 1 << planning.BUCKET_BITS
    assert int(histogram.weights.sum()) == len(first)


# Names


def test_names_of_shards_are_ours_and_those_of_others_are_not() -> None:
    random.seed(0)
    token = random.randbytes(16).hex()
    ours = [planning.numbered_name(12, 'a' * 16), planning.numbered_name(10**6, '0' * 16)]
    ours.append(planning.arrival_name(token))
    ours += [name + suffix('zstd:7') for name in ours] + [ours[0] + suffix(c) for c in COMPRESSIONS]
    assert ours[0] == 'shard.00012.aaaaaaaaaaaaaaaa.mds'
    assert all(planning.OWN_SHARD.fullmatch(name) for name in ours)
    foreign = [
        'shard.00000.mds', 'shard.00000.mds.zstd', 'index.json', 'shard.txt', 'metadata.json',
        'sub/' + ours[0], ours[0] + '/x', 'x' + ours[0], 'shard.00012.AAAAAAAAAAAAAAAA.mds',
        'shard.12.aaaaaaaaaaaaaaaa.mds', ours[0].replace('.mds', '.txt'), ours[0] + '\n',
        ours[0] + '.bak', ours[0] + '.zst', ours[0].replace('00012', '\u0660' * 5),
    ]  # fmt: skip
    assert not any(planning.OWN_SHARD.fullmatch(name) for name in foreign)


def test_number_and_hash_are_read_from_a_numbered_name_only() -> None:
    name = planning.numbered_name(12, 'ab' * 8)
    for ending in ('', '.zstd', '.br'):
        assert planning.numbered(name + ending) == (12, 'ab' * 8)
    others = ['shard.00012.mds', planning.arrival_name('ab' * 16), f'sub/{name}', name + '.bak']
    assert not any(map(planning.numbered, others))


def test_the_hash_in_a_name_is_of_the_bytes_and_the_part() -> None:
    digests = {planning.content_digest([b'ab', b'c'], part) for part in range(9)}
    assert len(digests) == 9
    assert planning.content_digest([memoryview(b'abc')], 3) in digests
    assert planning.content_digest([b'abd'], 3) not in digests

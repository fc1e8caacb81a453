"""Sums of numbers and values are exact, small, and the same whatever the pieces and their order."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from beam_mds import distributions
from beam_mds.distributions import MAX_VALUES, Distribution, merge_tallies, tally
from tests.helpers.summing import described

DTYPES = st.sampled_from(
    ['u1', 'i1', 'u2', 'i2', 'u4', 'i4', 'u8', 'i8', 'f2', 'f4', 'f8', '<i4', '>i4', '>f8']
)
ARRAYS = DTYPES.flatmap(lambda dtype: hnp.arrays(dtype, st.integers(0, 40)))


def distribution(arrays: Sequence[Any]) -> Distribution:
    found = Distribution()
    for array in arrays:
        found.add(array)
    return found


@given(ARRAYS)
def test_what_is_told_of_numbers_is_what_plain_python_finds(array: Any) -> None:
    floats = array.dtype.kind == 'f' and len(array) > 0
    assert distribution([array]).as_dict() == described(array.tolist(), floats)


@given(st.lists(ARRAYS, min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_pieces_in_any_order_merged_in_any_way_give_the_same(arrays: list[Any], rng: Any) -> None:
    whole = distribution(arrays)
    rng.shuffle(arrays)
    parts = [distribution([array]) for array in arrays]
    while len(parts) > 1:
        other = parts.pop(rng.randrange(len(parts)))
        parts[rng.randrange(len(parts))].merge(other)
    assert parts[0].as_dict() == whole.as_dict()
    assert repr(parts[0].as_dict()) == repr(whole.as_dict())  # 0.0 is not -0.0 here


@pytest.mark.parametrize('zeros', [[-0.0], [-0.0, 0.0], [0.0, -0.0], [1.0, -0.0], [-1.0, -0.0]])
def test_no_zero_is_negative(zeros: list[float]) -> None:
    found = distribution([np.array([zero]) for zero in zeros]).as_dict()
    assert '-0.0' not in repr([found['min'], found['max'], found['mean']])


def test_more_numbers_than_are_worked_on_at_once_are_all_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    array = np.arange(1000) - 300
    whole = distribution([array])
    monkeypatch.setattr(distributions, '_CHUNK', 7)
    assert distribution([array]) == whole
    assert whole.as_dict() == described(array.tolist())


def test_sums_do_not_lose_what_floats_lose() -> None:
    found = distribution([np.array([1e300, 1.0, -1e300, 5e-324] * 1000)])
    assert found.as_dict()['mean'] == 0.25
    assert found.total == 1000 * (2**1074 + 1)
    big = distribution([np.full(1 << 18, 2**64 - 1, np.uint64), np.full(9, -(2**63), np.int64)])
    assert big.as_dict()['total'] == (1 << 18) * (2**64 - 1) - 9 * 2**63
    digits = np.full(1 << 18, np.nextafter(2.0, 0))
    assert distribution([digits]).total == (1 << 18) * int(2.0**52 * digits[0]) << 1074 - 52


@pytest.mark.parametrize('dtype', ['u2', 'f4'])
def test_percentiles_are_exact_up_to_256_and_within_a_hundredth_above(dtype: str) -> None:
    numbers = np.random.default_rng(0).integers(0, 60000, 5000).astype(dtype)
    numbers[:2000] %= 257
    found = distribution([numbers]).as_dict()['percentiles']
    for percent, value in found.items():
        wanted = np.percentile(numbers, int(percent), method='inverted_cdf')
        assert value == wanted if wanted <= 256 else 0.992 * wanted < value <= wanted


def test_a_histogram_of_lengths_is_small_whatever_they_are() -> None:
    lengths = 2 ** np.random.default_rng(0).uniform(0, 32, 1_000_000)
    found = distribution([lengths.astype(np.int64)])
    assert found.count == 1_000_000
    assert len(found.buckets) <= 32 * 128
    assert len(pickle.dumps(found)) < 40_000


def test_values_are_counted_as_long_as_there_are_few_different_ones() -> None:
    assert tally(pa.array(['b', 'a', 'b'])) == {'b': 2, 'a': 1}
    assert tally(pa.array([2**64 - 1, 0, 0], pa.uint64())) == {2**64 - 1: 1, 0: 2}
    most = tally(pa.array([*range(MAX_VALUES), 3]))
    assert most == {**dict.fromkeys(range(MAX_VALUES), 1), 3: 2}
    assert tally(pa.array(range(MAX_VALUES + 1))) is None


@pytest.mark.parametrize(('last', 'fits'), [(MAX_VALUES, True), (MAX_VALUES + 1, False)])
def test_too_many_values_are_too_many_in_any_order(last: int, fits: bool) -> None:
    def parts() -> list[distributions.Tally]:
        return [Counter(range(400)), Counter(range(300, 700)), Counter(range(600, last))]

    wanted = Counter([*range(400), *range(300, 700), *range(600, last)]) if fits else None
    for one, two, three in [(0, 1, 2), (2, 1, 0), (1, 0, 2)]:
        given = parts()
        left = merge_tallies(merge_tallies(given[one], given[two]), given[three])
        given = parts()
        right = merge_tallies(given[one], merge_tallies(given[two], given[three]))
        assert left == right == wanted


def test_what_was_too_many_once_stays_so() -> None:
    assert merge_tallies(None, Counter()) is merge_tallies(Counter(), None) is None

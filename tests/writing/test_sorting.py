from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_mds import EncodingError
from beam_mds.format import Samples
from beam_mds.writing.sorting import ChosenKeys, positions_of, ranks, sort_bytes

_numbers = st.one_of(st.integers(-(2**100), 2**100), st.floats(allow_nan=False), st.integers(-5, 5))
_texts = st.one_of(st.text(max_size=5), st.sampled_from(['', '\0', 'a', 'a\0', 'a\0b']))
_bytes = st.one_of(st.binary(max_size=4), st.sampled_from([b'', b'\0', b'\0\0', b'\0\xff']))


def _tuples(*items: Any) -> Any:
    return st.one_of(*(st.lists(item, max_size=3).map(tuple) for item in items))


@pytest.mark.parametrize(
    'kind',
    [
        _numbers,
        _texts,
        _bytes,
        _tuples(_numbers),
        _tuples(_texts),
        _tuples(_bytes),
        st.tuples(_texts, _numbers, _bytes),
        st.tuples(_tuples(_texts), _numbers),
    ],
    ids=['numbers', 'text', 'bytes', 'number tuples', 'text tuples', 'bytes tuples', 'mixed',
         'nested'],
)  # fmt: skip
def test_bytes_are_in_the_order_of_the_keys(kind: Any) -> None:
    @given(kind, kind)
    def check(one: Any, other: Any) -> None:
        assert (sort_bytes(one) < sort_bytes(other)) == (one < other)
        assert (sort_bytes(one) == sort_bytes(other)) == (one == other)

    check()


def test_numbers_that_doubles_cannot_tell_apart_are_in_order() -> None:
    numbers = [2**53 + number for number in range(5)] + [float(2**53 + 2), -(2**63), -(2**63) - 1]
    assert sorted(numbers, key=sort_bytes) == sorted(numbers)
    assert sort_bytes(1) == sort_bytes(1.0)
    assert sort_bytes(0.0) == sort_bytes(-0.0) == sort_bytes(0)
    assert sort_bytes(-math.inf) < sort_bytes(-(10**18)) < sort_bytes(math.inf)


@pytest.mark.parametrize(
    ('key', 'plain'),
    [
        (np.int64(-3), -3),
        (np.float32(0.5), 0.5),
        (np.str_('a'), 'a'),
        (pa.scalar('a'), 'a'),
        ((np.int8(1), 'a'), (1, 'a')),
    ],
)
def test_numpy_and_arrow_scalars_are_plain_keys(key: Any, plain: Any) -> None:
    assert sort_bytes(key) == sort_bytes(plain)


@pytest.mark.parametrize(
    'key',
    [
        None,
        True,
        math.nan,
        [1],
        {'a': 1},
        (1, None),
        (1, math.nan),
        10**400,
        2**200 + 2**120,
        object(),
    ],
)
def test_what_has_no_order_is_an_error(key: Any) -> None:
    with pytest.raises(EncodingError, match=r'key .* (has no order|is too large)'):
        sort_bytes(key)


def chosen(keys: list[bytes], digests: Any, weights: Any) -> ChosenKeys:
    return ChosenKeys.of(
        Samples.of(keys), np.array(digests, np.uint64), np.array(weights, np.int64)
    )


def test_the_choice_depends_on_no_order_and_no_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr('beam_mds.writing.sorting._MOST_BOUNDS', 50)
    rng = np.random.default_rng(0)
    keys = [b'\2%03d' % number for number in rng.integers(0, 300, 1000)]
    digests, weights = rng.integers(0, 2**64, 1000, np.uint64), rng.integers(1, 100, 1000)
    whole = chosen(keys, digests, weights)
    assert len(whole.keys) == 50
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(1000)
        parts = [
            chosen([keys[row] for row in rows], digests[rows], weights[rows])
            for rows in np.array_split(order, seed + 1)
        ]
        random.Random(seed).shuffle(parts)
        merged = ChosenKeys.merged([ChosenKeys.merged(parts[:2]), *parts[2:]])
        assert list(map(bytes, merged.keys)) == list(map(bytes, whole.keys))
        assert list(map(bytes, merged.bounds())) == sorted(set(map(bytes, whole.keys)))


def test_long_keys_are_chosen_within_a_limit_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr('beam_mds.writing.sorting._BOUND_BYTES', 1000)
    rng = np.random.default_rng(0)
    keys = [bytes([number % 7]) * 100 for number in range(100)]
    found = chosen(keys, rng.integers(0, 2**64, 100, np.uint64), np.ones(100))
    assert len(found.keys) == 10


def test_large_samples_are_chosen_more_often() -> None:
    rng = np.random.default_rng(0)
    keys = [b'small'] * 2_000_000 + [b'large'] * 2000
    weights = np.array([1] * 2_000_000 + [100_000] * 2000)
    found = chosen(keys, rng.integers(0, 2**64, len(keys), np.uint64), weights)
    assert sum(bytes(key) == b'large' for key in found.keys) == 2000


def test_keys_of_several_kinds_have_no_bounds() -> None:
    mixed = chosen([sort_bytes(1), sort_bytes('a')], [1, 2], [1, 1])
    with pytest.raises(EncodingError, match='the keys are of several kinds'):
        mixed.bounds()


@given(st.lists(_bytes, min_size=1), st.lists(_bytes, unique=True).map(sorted))
def test_positions_are_in_the_order_of_keys(keys: list[bytes], bounds: list[bytes]) -> None:
    found = positions_of(Samples.of(keys), Samples.of(bounds)).tolist()
    for one, mine in zip(keys, found, strict=True):
        for other, theirs in zip(keys, found, strict=True):
            if one <= other:
                assert mine <= theirs
            same = one == other or not any(
                min(one, other) <= bound <= max(one, other) for bound in bounds
            )
            assert (mine == theirs) == same


def test_ranks_are_dense() -> None:
    assert ranks(Samples.of([b'b', b'', b'b', b'ab'])).tolist() == [2, 0, 2, 1]
    assert ranks(Samples.empty()).tolist() == []

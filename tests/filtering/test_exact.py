from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_mds.filtering import exact
from beam_mds.filtering.exact import InexactError

DTYPES = ('int8', 'uint8', 'int32', 'uint32', 'int64', 'uint64', 'float64')
OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    '+': operator.add,
    '-': operator.sub,
    '*': operator.mul,
    '/': operator.truediv,
    '%': operator.mod,
}
COMPARISONS = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)

# Where types end, and where float64 has no odd numbers any more.
EDGES = [
    sign * 2**bits + near
    for bits in (0, 7, 8, 31, 32, 53, 63, 64)
    for near in (-1, 0, 1)
    for sign in (-1, 1)
]
FLOATS = st.one_of(st.floats(), st.sampled_from([float(edge) for edge in EDGES]), st.just(0.5))
INTEGERS = st.one_of(st.sampled_from(EDGES), st.integers(-9, 9), st.integers(-(2**70), 2**70))
LITERALS = st.one_of(INTEGERS, FLOATS)


@st.composite
def arrays(draw: st.DrawFn, length: int = 3) -> Any:
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    if dtype.kind == 'f':
        numbers = FLOATS
    else:
        info = np.iinfo(dtype)
        numbers = INTEGERS.filter(lambda number: info.min <= number <= info.max)
    return np.array(draw(st.lists(numbers, min_size=length, max_size=length)), dtype)


def rows(numbers: Any, count: int = 3) -> list[Any]:
    return numbers.tolist() if isinstance(numbers, np.ndarray) else [numbers] * count


def outcome(call: Callable[..., Any], *given: Any) -> Any:
    """What a call gives: its result, or its error."""
    try:
        return call(*given)
    except InexactError as error:
        return error


def same(found: Any, wanted: Any) -> bool:
    return found == wanted or (found != found and wanted != wanted)


@given(arrays(), st.one_of(arrays(), LITERALS), st.sampled_from(sorted(OPERATORS)), st.booleans())
def test_what_is_computed_is_what_python_computes_or_an_error_about_a_row(
    left: Any, right: Any, sign: str, swap: bool
) -> None:
    sides = (right, left) if swap else (left, right)
    pairs = list(zip(*map(rows, sides), strict=True))
    found = outcome(exact.compute, sign, *sides)
    if isinstance(found, InexactError):
        suspects = pairs if found.row is None else [pairs[found.row]]
        assert any(inexact(sign, *pair) for pair in suspects), (sides, sign, found.reason)
        return
    wanted = [OPERATORS[sign](*pair) for pair in pairs]
    assert all(map(same, found.tolist(), wanted)), (found, wanted)


def inexact(sign: str, left: Any, right: Any) -> bool:
    """Whether Python's result is none, or one that the types of a column do not hold."""
    if sign in '/%' and right == 0:
        return True
    if sign != '/' and isinstance(left, int) and isinstance(right, int):
        sides = left, right, OPERATORS[sign](left, right)
        return not all(-(2**63) <= side < 2**63 for side in sides)
    return any(isinstance(side, int) and abs(side) > 2**53 for side in (left, right))


@given(arrays(), st.one_of(arrays(), LITERALS), st.sampled_from(COMPARISONS))
def test_a_comparison_is_pythons_or_an_error_about_an_integer_beside_floats(
    left: Any, right: Any, how: Callable[[Any, Any], bool]
) -> None:
    pairs = list(zip(rows(left), rows(right), strict=True))
    found = outcome(exact.compare, how, left, right)
    if isinstance(found, InexactError):
        suspects = pairs if found.row is None else [pairs[found.row]]
        assert any(inexact('/', *pair) and type(pair[0]) is not type(pair[1]) for pair in suspects)
        return
    assert found.tolist() == [how(*pair) for pair in pairs]


@given(arrays(), st.lists(LITERALS, max_size=4))
def test_numbers_among_others_are_those_that_equal_one(values: Any, items: list[Any]) -> None:
    some = [*items, *values.tolist()[:1]]
    for given_items in (items, some):
        wanted = [any(value == item for item in given_items) for value in values.tolist()]
        assert exact.among(values, given_items).tolist() == wanted


@pytest.mark.parametrize(
    ('sign', 'left', 'right', 'reason', 'row'),
    [
        ('/', np.array([1, 2]), np.array([1, 0]), '2 / 0 is a division by zero', 1),
        ('%', np.array([1.0, 2.0]), 0, 'x % 0 is a division by zero', None),
        ('/', 1, 0, '1 / 0 is a division by zero', None),
        ('%', 1, 0.0, '1 % 0 is a division by zero', None),
        ('/', np.array([-(2**53) - 1]), 2, f'-{2**53 + 1} has no exact float64', 0),
        ('+', np.array([5, 2**63 - 1]), 1, f'{2**63 - 1} + 1 needs over 64 bits', 1),
        ('-', 0, np.array([-(2**63)]), f'0 - -{2**63} needs over 64 bits', 0),
        (
            '*',
            np.array([2**63], np.uint64),
            1,
            f'{2**63} has no exact int64, which this is computed in',
            0,
        ),
        ('+', np.array([1]), 10**30, 'a number of 100 bits has no exact int64', None),
        ('+', np.array([0.5]), 2**53 + 1, f'{2**53 + 1} has no exact float64', None),
        ('/', np.array([1, 2**53 + 1]), 2, f'{2**53 + 1} has no exact float64', 1),
        ('/', 10**400, 3, 'a number of 1329 bits / 3: integer division result too large', None),
    ],
)
def test_an_error_shows_the_numbers_and_the_row(
    sign: str, left: Any, right: Any, reason: str, row: int | None
) -> None:
    with pytest.raises(InexactError) as caught:
        exact.compute(sign, left, right)
    assert caught.value.reason.startswith(reason)
    assert caught.value.row == row


def test_integers_of_different_widths_are_compared_by_value() -> None:
    signed, unsigned = np.array([-1, 2**63 - 1]), np.array([2**64 - 1, 2**63], np.uint64)
    assert exact.compare(operator.eq, signed, unsigned).tolist() == [False, False]
    assert exact.compare(operator.lt, signed, unsigned).tolist() == [True, True]
    assert exact.compare(operator.lt, signed, 2**63).tolist() == [True, True]
    assert exact.compare(operator.lt, signed, 2.0**63).tolist() == [True, True]
    assert exact.compare(operator.lt, np.array([255], np.uint8), 256).tolist() == [True]


def test_floats_overflow_to_infinity_as_in_python() -> None:
    assert exact.compute('*', np.array([1e308, -1e308]), 10).tolist() == [np.inf, -np.inf]


def test_a_number_that_no_float_comes_near_is_among_none() -> None:
    assert exact.among(np.array([np.inf, 1.0]), [10**400, 1]).tolist() == [False, True]

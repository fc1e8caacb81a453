"""Arithmetic and comparisons of numbers in numpy that are exact, or an error.

Numbers are arrays of integers of any width or of float64, masks where only compared, or a Python
int or float that stands for all rows. numpy itself wraps, rounds or warns in some of these cases.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Numbers: TypeAlias = npt.NDArray[Any] | int | float

# Type of a result -> the smallest and the largest of the integers that it is exact for.
_EXACT = {'float64': (-(2**53), 2**53), 'int64': (-(2**63), 2**63 - 1)}

_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    '+': operator.add,
    '-': operator.sub,
    '*': operator.mul,
    '/': operator.truediv,
    '%': operator.mod,
}
_CHECKED = {'+': pc.add_checked, '-': pc.subtract_checked, '*': pc.multiply_checked}


class InexactError(Exception):
    """Numbers that have no exact result.

    Attributes:
        reason: Which, and why.
        row: Their row, or None when it is about a number that stands for all.
    """

    def __init__(self, reason: str, row: int | None = None) -> None:
        """Makes the error; see the class for the arguments."""
        super().__init__(reason)
        self.reason, self.row = reason, row


def compute(sign: str, left: Numbers, right: Numbers) -> Any:
    """Adds, subtracts, multiplies, divides, or takes the rest of a division, as Python does.

    Args:
        sign: One of + - * / %.
        left: Numbers.
        right: Numbers.

    Returns:
        int64 when both sides are integers and sign is not /; else float64. Of two literals a
        literal.

    Raises:
        InexactError: A division by zero; integers that need more than 64 bits, or float64 and do
            not fit it.

    Example:
        >>> compute('*', np.array([1, 2], np.uint8), 300)
        array([300, 600])
    """
    if not isinstance(left, np.ndarray) and not isinstance(right, np.ndarray):
        try:
            return _OPERATORS[sign](left, right)
        except ZeroDivisionError:
            raise InexactError(f'{_text(left)} {sign} 0 is a division by zero') from None
        except OverflowError as error:
            raise InexactError(f'{_text(left)} {sign} {_text(right)}: {error}') from None
    if sign in '/%':
        _require(np.not_equal(right, 0), sign, left, right, 'is a division by zero')
    if sign == '/' or 'f' in (_kind(left), _kind(right)):
        with np.errstate(all='ignore'):  # as Python: infinity, and nan of it
            return _OPERATORS[sign](_floats(left), _floats(right))
    sides = [_fitting(side, 'int64') for side in (left, right)]
    if sign == '%':
        return np.remainder(*sides)
    try:
        checked = _CHECKED[sign](*(pa.array(s) if s.ndim else pa.scalar(s.item()) for s in sides))
    except pa.ArrowInvalid:
        made = _OPERATORS[sign](*(side.astype(object) for side in sides))
        low, high = _EXACT['int64']
        _require((low <= made) & (made <= high), sign, left, right, 'needs over 64 bits')
        raise
    return checked.to_numpy()


def compare(how: Callable[[Any, Any], Any], left: npt.NDArray[Any], right: Numbers) -> Any:
    """Compares numbers by their exact values, or masks.

    Args:
        how: One of the functions of `operator`, like `operator.lt`.
        left: n numbers.
        right: Numbers.

    Returns:
        bool of shape (n,).

    Raises:
        InexactError: Integers of one side and floats of the other, and float64 does not hold one
            of the integers.
    """
    if left.dtype.kind == 'f':
        return how(left, _floats(right))
    if isinstance(right, float) and right.is_integer():
        right = int(right)
    if isinstance(right, int) and left.dtype.kind != 'b' and not _holds(left.dtype, right):
        return np.full(len(left), how(0, 1 if right > 0 else -1))
    if isinstance(right, np.ndarray) and right.dtype.kind == 'f':
        left = _floats(left)
    # A literal with a fraction is below 2**53, and integers that float64 rounds are above it.
    return how(left, right)


def among(values: npt.NDArray[Any], items: Sequence[float]) -> npt.NDArray[np.bool_]:
    """Which numbers are equal to one of the items."""
    # What the type cannot hold exactly is equal to none of its values.
    return np.isin(values, np.array([i for i in items if _holds(values.dtype, i)], values.dtype))


def _kind(numbers: Numbers) -> str:
    if isinstance(numbers, np.ndarray):
        return numbers.dtype.kind
    return 'f' if isinstance(numbers, float) else 'i'


def _holds(dtype: np.dtype[Any], item: Any) -> bool:
    """Whether a type has exactly this number."""
    if dtype.kind == 'f':
        try:
            return isinstance(item, float) or float(item) == item
        except OverflowError:
            return False
    info = np.iinfo(dtype)
    return bool(info.min <= item <= info.max and int(item) == item)


def _floats(numbers: Numbers) -> Any:
    if _kind(numbers) == 'f':
        return numbers
    if not isinstance(numbers, np.ndarray) and _holds(np.dtype(np.float64), numbers):
        return float(numbers)
    return _fitting(numbers, 'float64')


def _fitting(numbers: Numbers, dtype: str) -> Any:
    """Integers as another type, once it is known that it has all of them."""
    low, high = _EXACT[dtype]
    wrong = np.flatnonzero((numbers < low) | (numbers > high))
    if not wrong.size:
        return np.asarray(numbers).astype(dtype)
    row = int(wrong[0]) if isinstance(numbers, np.ndarray) else None
    number = numbers[row] if isinstance(numbers, np.ndarray) else numbers
    raise InexactError(f'{_text(number)} has no exact {dtype}, which this is computed in', row)


def _require(right_ones: Any, sign: str, left: Numbers, right: Numbers, reason: str) -> None:
    """Raises for the first row that is not right."""
    wrong = np.flatnonzero(np.logical_not(right_ones))
    if not wrong.size:
        return
    if not isinstance(right_ones, np.ndarray):  # of a literal: there may be no rows
        raise InexactError(f'x {sign} {_text(right)} {reason}')
    at = int(wrong[0])
    shown = [_text(side[at] if isinstance(side, np.ndarray) else side) for side in (left, right)]
    raise InexactError(f'{shown[0]} {sign} {shown[1]} {reason}', at)


def _text(number: Any) -> str:
    """A number for a message."""
    if isinstance(number, int) and not -(2**64) < number < 2**64:
        return f'a number of {number.bit_length()} bits'
    return str(number)

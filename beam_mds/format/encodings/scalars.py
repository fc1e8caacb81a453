"""Numbers of a fixed width: int, int8..int64, uint8..uint64, float16..float64."""

from __future__ import annotations

import array
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_mds.errors import FormatError
from beam_mds.format.encodings.base import (
    Encoding,
    Part,
    Values,
    bad_arrow_type,
    bad_value,
    decoded_dictionary,
    joined,
    plain,
    require_no_nulls,
    types_of,
)


def as_int(value: Any) -> int:
    """The value as a Python int: ints, numpy ints and bools; never a float or a string."""
    value = plain(value)
    if isinstance(value, np.bool_):
        return int(value)
    try:
        return operator.index(value)
    except TypeError:
        raise bad_value(value, 'is not an integer') from None


class _Number(Encoding):
    """What both kinds of numbers share: little-endian values of one numpy type."""

    def __init__(self, name: str, dtype: str) -> None:
        self.name = name
        self.dtype = np.dtype(dtype).newbyteorder('<')
        self.size = self.dtype.itemsize
        self.arrow_type = pa.from_numpy_dtype(self.dtype)

    def decode(self, data: bytes) -> Any:
        return np.frombuffer(data, self.dtype, count=1)[0]

    def decode_column(self, items: pa.LargeBinaryArray) -> list[Any]:
        return list(self._numbers(items))

    def to_arrow(self, items: pa.LargeBinaryArray) -> pa.Array:
        return pa.array(self._numbers(items))

    def _numbers(self, items: pa.LargeBinaryArray) -> npt.NDArray[Any]:
        numbers: npt.NDArray[Any] = joined(items).view(self.dtype)
        if len(numbers) != len(items):
            raise FormatError(f'{len(items)} numbers in the bytes of {len(numbers)}')
        return numbers

    def _one_by_one(self, values: Sequence[Any]) -> list[Part]:
        return self._part(np.frombuffer(b''.join(map(self.encode, values)), self.dtype))

    def _part(self, numbers: npt.NDArray[Any]) -> list[Part]:
        column = np.ascontiguousarray(numbers, self.dtype)
        return [Part(column.view(np.uint8).reshape(len(column), self.dtype.itemsize))]


class Integer(_Number):
    """Integers that fit the type; True and False count as 1 and 0."""

    def __init__(self, name: str, dtype: str | None = None) -> None:
        """Makes the encoding.

        Args:
            name: `uint16`, or `int` for 64-bit values that are read back as Python ints.
            dtype: The numpy type, when the name is not it.
        """
        super().__init__(name, dtype or name)
        info = np.iinfo(self.dtype)
        self.low, self.high = int(info.min), int(info.max)

    def encode(self, value: Any) -> bytes:
        number = as_int(value)
        if not self.low <= number <= self.high:
            raise bad_value(value, f'does not fit: the range is {self.low} to {self.high}')
        return np.array(number, self.dtype).tobytes()

    def decode(self, data: bytes) -> Any:
        number = super().decode(data)
        return int(number) if self.name == 'int' else number

    def decode_column(self, items: pa.LargeBinaryArray) -> list[Any]:
        if self.name == 'int':
            numbers: list[int] = self._numbers(items).tolist()
            return numbers
        return super().decode_column(items)

    def encode_column(self, values: Values) -> list[Part]:
        if isinstance(values, pa.Array):
            numbers = _arrow_numbers(values)
            if numbers.dtype.kind not in 'iu':
                raise bad_arrow_type(values.type, 'an integer type')
            for extreme in (numbers.min(), numbers.max()) if len(numbers) else ():
                self.encode(extreme.item())
            return self._part(numbers)
        plain_ones = _plain_integers(values)
        if plain_ones is None or not self._fits(plain_ones):
            return self._one_by_one(values)
        return self._part(plain_ones)

    def _fits(self, numbers: npt.NDArray[Any]) -> bool:
        if not len(numbers):
            return True
        return self.low <= int(numbers.min()) and int(numbers.max()) <= self.high


def _plain_integers(values: Sequence[Any]) -> npt.NDArray[Any] | None:
    """The values as an array, when they are all 64-bit integers of any kind."""
    try:
        # Refuses floats and texts by itself, so that no look at the types is needed before.
        return np.frombuffer(array.array('q', values), np.int64)
    except (TypeError, OverflowError, DeprecationWarning):  # of numpy's bool, before numpy 2.3
        pass
    kinds = types_of(values)
    if len(kinds) == 1 and issubclass(kinds.pop(), np.integer):
        numbers = np.array(values)
        return numbers if numbers.dtype.kind in 'iu' else None  # timedelta64 is an np.integer
    return None


def _plain_floats(values: Sequence[Any]) -> npt.NDArray[Any] | None:
    """The values as an array, when they are all Python floats, or all of one numpy type."""
    kinds = types_of(values)
    if kinds <= {float, np.float64}:
        return np.array(values, np.float64)
    if len(kinds) == 1 and issubclass(kinds.pop(), np.floating):
        return np.array(values)
    return None


def _arrow_numbers(values: pa.Array) -> npt.NDArray[Any]:
    """An Arrow column of numbers as an array; booleans are 0 and 1."""
    values = decoded_dictionary(values)
    require_no_nulls(values)
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.uint8())
    if not (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
        raise bad_arrow_type(values.type, 'a number type')
    numbers: npt.NDArray[Any] = values.to_numpy(zero_copy_only=False)
    return numbers


class Float(_Number):
    """Floating-point numbers, rounded to the type's precision; overflow is an error.

    Python and numpy floats of any width are taken and rounded to nearest, as the type is meant to;
    a finite value that would become infinite is refused. Integers are taken when they are exact.
    """

    def __init__(self, name: str) -> None:
        """Makes the encoding `float16`, `float32` or `float64`."""
        super().__init__(name, name)

    def encode(self, value: Any) -> bytes:
        value = plain(value)
        if not isinstance(value, (float, int, np.floating, np.integer, np.bool_)):
            raise bad_value(value, 'is not a number')
        with np.errstate(over='ignore'):
            try:
                number = np.array(value, self.dtype)
            except OverflowError:
                raise bad_value(value, f'does not fit {self.name}') from None
        if isinstance(value, (float, np.floating)):
            if np.isinf(number) and not np.isinf(value):
                raise bad_value(value, f'does not fit: it would become infinite as {self.name}')
        elif np.isinf(number) or int(number) != int(value):
            raise bad_value(value, f'has no exact {self.name}')
        return number.tobytes()

    def encode_column(self, values: Values) -> list[Part]:
        if isinstance(values, pa.Array):
            numbers = _arrow_numbers(values)
            return self._rounded(numbers) or self._one_by_one(numbers.tolist())
        return self._rounded(_plain_floats(values)) or self._one_by_one(values)

    def _rounded(self, numbers: npt.NDArray[Any] | None) -> list[Part]:
        """The part of these floats, or nothing when one of them does not fit."""
        if numbers is None or numbers.dtype.kind != 'f':
            return []
        with np.errstate(over='ignore'):
            rounded = numbers.astype(self.dtype)
        lost = np.isinf(rounded) & ~np.isinf(numbers)
        return [] if lost.any() else self._part(rounded)

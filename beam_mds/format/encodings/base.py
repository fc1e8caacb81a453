"""What every encoding offers, and the row parts that columnar encoding is made of."""

from __future__ import annotations

import abc
import reprlib
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_mds.errors import EncodingError

Bytes1D: TypeAlias = npt.NDArray[np.uint8]
Offsets: TypeAlias = npt.NDArray[np.int64]
Values: TypeAlias = Sequence[Any] | pa.Array

# Metadata of an Arrow field: the MDS encoding that its column was decoded from.
MARK = b'mds'

# Longest text of a value in an error message, in characters: enough to recognise it in a log line.
_VALUE_TEXT = 60

_repr = reprlib.Repr()
_repr.maxstring = _repr.maxother = _repr.maxlong = _VALUE_TEXT
_repr.maxlist = _repr.maxtuple = _repr.maxdict = _repr.maxset = 3
_repr.maxlevel = 2


class Part(NamedTuple):
    """One run of bytes in each row: a whole column, or a piece of one (a head, the values).

    Attributes:
        data: uint8. With `offsets` None a matrix of shape (rows, bytes per row); else all rows'
            bytes in one line.
        offsets: int64 of shape (rows + 1,) into `data`, or None when all rows are equally long.
    """

    data: Bytes1D
    offsets: Offsets | None = None


class Encoding(abc.ABC):
    """Turns the values of one column into bytes and back.

    Attributes:
        name: The encoding as the index names it, parameters included: `ndarray:int32`.
        size: Bytes of every encoded value, or None when they differ.
        arrow_type: What `to_arrow` gives; None when it depends on the values.
    """

    name: str
    size: int | None = None
    arrow_type: pa.DataType | None = pa.large_binary()

    @abc.abstractmethod
    def encode(self, value: Any) -> bytes:
        """Encodes one value.

        Raises:
            EncodingError: The encoding cannot hold the value exactly.
        """

    @abc.abstractmethod
    def decode(self, data: bytes) -> Any:
        """Decodes the bytes of one value to what `StreamingDataset` returns for them."""

    def encode_column(self, values: Values) -> list[Part]:
        """Encodes a column of n values, as parts that stand side by side in each row.

        Args:
            values: A sequence of Python values, or a pyarrow array without chunks.

        Raises:
            EncodingError: One of the values cannot be held; which one is not said.
        """
        if isinstance(values, pa.Array):
            values = python_values(values)
        return [join_values([self.encode(value) for value in values])]

    def decode_column(self, items: pa.LargeBinaryArray) -> list[Any]:
        """Decodes a column of n encoded values, each to what `decode` gives.

        Args:
            items: The encoded values; their bytes lie one after another.

        Raises:
            Exception: One of them is damaged; which one is not said.
        """
        return [self.decode(item) for item in items.to_pylist()]

    def to_arrow(self, items: pa.LargeBinaryArray) -> pa.Array:
        """Decodes a column of n encoded values to Arrow.

        The type is `arrow_type`, or, where that is None, the one that the values need.

        Args:
            items: The encoded values; their bytes lie one after another.

        Raises:
            ColumnsError: The values have no common Arrow type.
            Exception: One of them is damaged; which one is not said.
        """
        return items


class StoredText(Encoding):
    """An encoding whose values are decoded to Arrow as the text that stands in the file.

    Their kind has no Arrow type that holds them all. So that such a column is not taken for one of
    plain texts, its field has the encoding's name under `MARK` in its metadata.
    """

    arrow_type = pa.large_string()

    def to_arrow(self, items: pa.LargeBinaryArray) -> pa.Array:
        return items.cast(pa.large_string())

    def from_arrow(self, texts: pa.Array) -> list[Any]:
        """The values of a column that `to_arrow` gave.

        Raises:
            EncodingError: A text is not what the encoding writes.
        """
        require_no_nulls(texts)
        try:
            return [self.decode(text.encode()) for text in python_values(texts)]
        except (ValueError, ArithmeticError, RecursionError) as error:
            raise EncodingError(f'a text is no stored {self.name}: {str(error)[:80]}') from None


def large_binary(data: Bytes1D, offsets: Offsets) -> pa.LargeBinaryArray:
    """A binary column that shares the bytes; item i is data[offsets[i]:offsets[i + 1]]."""
    buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets)), pa.py_buffer(data)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)


def joined(items: pa.LargeBinaryArray) -> Bytes1D:
    """The bytes of all items, one after another: uint8 of shape (bytes,)."""
    part = binary_part(items)
    assert part.offsets is not None
    return part.data[part.offsets[0] : part.offsets[-1]]


def offsets_of(sizes: npt.NDArray[Any]) -> Offsets:
    """int64 of shape (n + 1,): where each of n items starts, and where the last one ends."""
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def join_values(values: list[bytes]) -> Part:
    """The part that holds these byte strings, one a row."""
    return binary_part(pa.array(values, pa.large_binary()))


def binary_part(array: pa.Array) -> Part:
    """The part that shares the buffers of a binary or string array without nulls."""
    if not (pa.types.is_large_binary(array.type) or pa.types.is_large_string(array.type)):
        narrow = pa.types.is_binary(array.type) or pa.types.is_string(array.type)
        if not narrow:
            array = array.cast(pa.large_string() if is_text(array.type) else pa.large_binary())
    wide = pa.types.is_large_binary(array.type) or pa.types.is_large_string(array.type)
    _, offsets, data = array.buffers()
    start, stop = array.offset, array.offset + len(array) + 1
    if len(array) == 0 or data is None:
        return Part(np.empty(0, np.uint8), np.zeros(len(array) + 1, np.int64))
    bounds = np.frombuffer(offsets, np.int64 if wide else np.int32)[start:stop]
    return Part(np.frombuffer(data, np.uint8), bounds.astype(np.int64))


def is_binary(kind: pa.DataType) -> bool:
    """Whether an Arrow type holds byte strings (of any width, or as views)."""
    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
        or pa.types.is_binary_view(kind)
    )


def is_text(kind: pa.DataType) -> bool:
    """Whether an Arrow type holds UTF-8 strings."""
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def is_list(kind: pa.DataType) -> bool:
    """Whether an Arrow type holds lists (of any width, of one size, or as views)."""
    return bool(
        pa.types.is_list(kind)
        or pa.types.is_large_list(kind)
        or pa.types.is_fixed_size_list(kind)
        or pa.types.is_list_view(kind)
        or pa.types.is_large_list_view(kind)
    )


def is_utf8(text: str) -> bool:
    """Whether a text has a UTF-8 form; halves of surrogate pairs, which JSON can hold, have not."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def types_of(values: Sequence[Any]) -> set[type]:
    """The exact types of the values: at C speed, what decides whether a column is plain."""
    return set(map(type, values))


def plain(value: Any) -> Any:
    """The Python value of a pyarrow scalar; anything else as it is."""
    if not isinstance(value, pa.Scalar):
        return value
    try:
        return value.as_py()
    except (ValueError, OverflowError) as error:
        raise _no_python_value(value.type, error) from None


def python_values(array: pa.Array) -> list[Any]:
    """The Python values of an Arrow column."""
    try:
        values: list[Any] = array.to_pylist()
    except (ValueError, OverflowError) as error:  # text that is no UTF-8, nanoseconds, year 10000
        raise _no_python_value(array.type, error) from None
    return values


def _no_python_value(kind: pa.DataType, error: Exception) -> EncodingError:
    return EncodingError(
        f'Arrow type {str(kind)[:_VALUE_TEXT]} has a value without a Python form: {str(error)[:80]}'
    )


def as_bytes(value: Any) -> bytes | None:
    """The bytes of a bytes-like value, or None when it is no such thing."""
    if isinstance(value, (bytes, bytearray)):
        return bytes(value)
    if isinstance(value, memoryview):
        return value.tobytes()
    return None


def bad_value(value: Any, reason: str) -> EncodingError:
    """The error for a value, naming its type and, if it is short, its text."""
    if value is None:
        return null_value()
    return EncodingError(f'{describe(value)} {reason}')


def null_value() -> EncodingError:
    """The error for a missing value: no encoding of the format has a null."""
    return EncodingError(
        'the value is None (null): MDS has no nulls, give a value or drop the sample'
    )


def bad_arrow_type(kind: pa.DataType, wanted: str) -> EncodingError:
    """The error for an Arrow column whose type the encoding does not take."""
    return EncodingError(f'Arrow type {str(kind)[:_VALUE_TEXT]} is not {wanted}')


def describe(value: Any) -> str:
    """A value for an error message: its type and at most about 60 characters of its text."""
    kind = type(value)
    name = kind.__name__ if kind.__module__ == 'builtins' else f'{kind.__module__}.{kind.__name__}'
    if isinstance(value, np.ndarray):
        return f'{name} of dtype {str(value.dtype)[:_VALUE_TEXT]} and shape {value.shape}'
    try:
        # repr() of a numpy number has its type's name in it, from numpy 2 on.
        text = str(value) if isinstance(value, np.number) else _repr.repr(value)
    except Exception:  # noqa: BLE001 - a value's own __repr__ may fail; the report about it must not
        return name
    return f'{name} {text if len(text) <= _VALUE_TEXT else text[: _VALUE_TEXT - 3] + "..."}'


def require_no_nulls(array: pa.Array) -> None:
    """Refuses an Arrow column with nulls."""
    if array.null_count:
        raise null_value()


def decoded_dictionary(array: pa.Array) -> pa.Array:
    """A dictionary-encoded Arrow column as plain values; any other as it is."""
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array

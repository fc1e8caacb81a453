"""Arrays: ndarray, ndarray:<dtype>, ndarray:<dtype>:<shape>.

Layouts (mosaicml-streaming 0.13.0, `format/mds/encodings.py`, class NDArray):
  dtype and shape fixed: values
  dtype fixed:           [ndim << 2 | log2 of the bytes of a shape item] [shape] values
  neither:               [dtype byte] and then as above
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from beam_mds.errors import ColumnsError, EncodingError, FormatError
from beam_mds.format.encodings.arraygroups import SHAPE_TYPES, ArrayGroup, array_group
from beam_mds.format.encodings.base import (
    Encoding,
    Part,
    Values,
    bad_arrow_type,
    bad_value,
    binary_part,
    decoded_dictionary,
    is_list,
    joined,
    offsets_of,
    plain,
    require_no_nulls,
    types_of,
)

# numpy type -> its number in the file.
DTYPES = {
    'uint8': 8, 'int8': 9, 'uint16': 16, 'int16': 17, 'float16': 18, 'uint32': 32,
    'int32': 33, 'float32': 34, 'uint64': 64, 'int64': 65, 'float64': 66,
}  # fmt: skip
_DTYPE_NAMES = {number: name for name, number in DTYPES.items()}

# What Arrow's lists of one size hold, and so an array of a fixed shape; no shard holds much more.
_MOST_ELEMENTS = 2**31 - 1


class NDArray(Encoding):
    """numpy arrays of one of 11 types, any byte order and layout, at least one element.

    With a dtype, lists and tuples of numbers (also nested) that all fit it are taken as well.
    """

    def __init__(self, parameter: str | None = None) -> None:
        """Makes the encoding.

        Args:
            parameter: None, a dtype (`int32`), or a dtype and a shape (`float32:3,224,224`).

        Raises:
            ColumnsError: The parameter is neither.
        """
        self.name = 'ndarray' if parameter is None else f'ndarray:{parameter}'
        self.dtype: np.dtype[Any] | None = None
        self.shape: tuple[int, ...] | None = None
        if parameter is not None:
            dtype, colon, shape = parameter.partition(':')
            self.dtype = _parse_dtype(dtype)
            if colon:
                self.shape = _parse_shape(shape)
                self.size = math.prod(self.shape) * self.dtype.itemsize
        self.arrow_type = _arrow_type(self.dtype, self.shape)

    def encode(self, value: Any) -> bytes:
        array = self._checked(value)
        return self._head(array.dtype, array.shape) + array.tobytes()

    def decode(self, data: bytes) -> npt.NDArray[Any]:
        at = 0
        dtype, shape = self.dtype, self.shape
        if dtype is None:
            dtype, at = np.dtype(_DTYPE_NAMES[data[0]]).newbyteorder('<'), 1
        if shape is None:
            ndim, item = data[at] >> 2, np.dtype(SHAPE_TYPES[data[at] & 3])
            shape = tuple(np.frombuffer(data, item, ndim, at + 1).tolist())
            at += 1 + ndim * item.itemsize
            if not shape or 0 in shape:  # beside 0, other sides can be of any size
                raise FormatError(f'the format holds no array of shape {shape}')
        return np.frombuffer(data, dtype, offset=at).reshape(shape)

    def to_arrow(self, items: pa.LargeBinaryArray) -> pa.Array:
        """Decodes to lists, in lists for each further dimension; of a fixed shape, fixed lists."""
        if self.shape is not None and self.dtype is not None:
            return _fixed_lists(joined(items).view(self.dtype), self.shape)
        if not len(items):
            return pa.array([], self.arrow_type or pa.large_list(pa.uint8()))
        (shapes, numbers), *others = self.groups(items)
        if any(group.numbers.dtype != numbers.dtype for group in others):
            raise _no_common_type(f'dtypes {numbers.dtype} and others')
        if others:
            raise _no_common_type(f'{shapes.shape[1]} and other numbers of dimensions')
        column = pa.array(numbers)
        for axis in reversed(range(shapes.shape[1])):
            sizes = np.repeat(shapes[:, axis], shapes[:, :axis].prod(axis=1))
            column = pa.LargeListArray.from_arrays(pa.array(offsets_of(sizes)), column)
        return column

    def groups(self, items: pa.LargeBinaryArray) -> list[ArrayGroup]:
        """Decodes a column of n encoded values, each dtype and number of dimensions by itself.

        Args:
            items: The encoded values; their bytes lie one after another.

        Raises:
            Exception: One of them is damaged; which one is not said.
        """
        if self.shape is not None and self.dtype is not None:
            numbers = joined(items).view(self.dtype)
            shape = np.array(self.shape, np.int64)
            return [ArrayGroup(np.broadcast_to(shape, (len(items), len(shape))), numbers)]
        part = binary_part(items)
        assert part.offsets is not None
        starts, ends = part.offsets[:-1], part.offsets[1:]
        lead = 0 if self.dtype is not None else 1
        kinds = (part.data[starts + lead] >> 2).astype(np.int64)
        if lead:
            kinds += part.data[starts].astype(np.int64) << 8
        found = []
        for kind in np.flatnonzero(np.bincount(kinds)).tolist():
            rows = kinds == kind
            dtype = self.dtype or np.dtype(_DTYPE_NAMES[kind >> 8]).newbyteorder('<')
            found.append(
                array_group(part.data, starts[rows] + lead, ends[rows], dtype, kind & 0xFF)
            )
        return found

    def encode_column(self, values: Values) -> list[Part]:
        if isinstance(values, pa.Array):
            return self._from_arrow(values)
        kinds = types_of(values)
        if self.dtype is not None and kinds & {list, tuple}:
            values = [self._checked(value) for value in values]
            kinds = types_of(values)
        if kinds != {np.ndarray} or len({(v.dtype, v.shape) for v in values}) != 1:
            return self._from_ragged(values)
        first = self._checked(values[0])
        return self._alike(np.stack(values).astype(first.dtype, copy=False))

    def _from_ragged(self, values: Values) -> list[Part]:
        """Arrays of different shapes; vectors of one type need no Python work per value."""
        vectors = types_of(values) == {np.ndarray} and {v.ndim for v in values} == {1}
        if not vectors or self.shape is not None or len({v.dtype for v in values}) != 1:
            return super().encode_column(values)
        lengths = np.fromiter(map(len, values), np.int64, len(values))
        if not lengths.all():
            return super().encode_column(values)
        dtype = self._checked(values[0]).dtype
        return self._vectors(np.concatenate(values).astype(dtype, copy=False), lengths)

    def _from_arrow(self, values: pa.Array) -> list[Part]:
        """Lists of numbers: the values' buffer is used as it is."""
        require_no_nulls(values)
        if isinstance(values.type, pa.FixedShapeTensorType):
            return self._from_tensors(values)
        column, rows = values, len(values)
        sides: list[int] = []
        lengths: npt.NDArray[np.int64] | None = None
        while is_list(values.type):
            values = _without_nulls(values)
            if pa.types.is_fixed_size_list(values.type):
                sides.append(values.type.list_size)
            else:
                lengths = pc.list_value_length(values).to_numpy().astype(np.int64)
            values = values.flatten()
        numbers = self._arrow_numbers(values)
        dtype = numbers.dtype
        nested = lengths is not None and len(lengths) != rows
        if lengths is not None and (nested or sides or is_list(column.type.value_type)):
            return super().encode_column([_nested(row, dtype) for row in column.to_pylist()])
        if not rows:
            return [Part(np.empty((0, self.size or 0), np.uint8))]
        if lengths is None or (lengths == lengths[0]).all():
            shape = tuple(sides) if lengths is None else (int(lengths[0]),)
            return self._alike(numbers.reshape(rows, *shape))
        if self.shape is not None:
            raise EncodingError(f'lists of different lengths, expected shape {self.shape}')
        if not lengths.all():
            raise EncodingError('array of shape (0,): the format holds no array without elements')
        return self._vectors(numbers, lengths)

    def _from_tensors(self, values: pa.ExtensionArray) -> list[Part]:
        self._arrow_numbers(values.storage.flatten())
        if not len(values):
            return [Part(np.empty((0, self.size or 0), np.uint8))]
        return self._alike(values.to_numpy_ndarray())

    def _arrow_numbers(self, values: pa.Array) -> npt.NDArray[Any]:
        """The innermost values of an Arrow column, once their type is known to be right."""
        values = decoded_dictionary(values)
        if values.null_count:
            raise EncodingError('a null inside an array: MDS has no nulls')
        if not (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
            raise bad_arrow_type(values.type, f'one of {", ".join(DTYPES)}')
        numbers: npt.NDArray[Any] = values.to_numpy(zero_copy_only=False)
        self._check_dtype(numbers.dtype, f'Arrow list of {values.type}')
        return numbers

    def _alike(self, arrays: npt.NDArray[Any]) -> list[Part]:
        """Arrays of one shape, stacked to one of shape (rows, *shape)."""
        shape = arrays.shape[1:]
        self._check_shape(shape, f'array of shape {shape}')
        rows = np.ascontiguousarray(arrays).reshape(len(arrays), -1).view(np.uint8)
        head = np.frombuffer(self._head(arrays.dtype, shape), np.uint8)
        if not len(head):
            return [Part(rows)]
        return [Part(np.broadcast_to(head, (len(arrays), len(head)))), Part(rows)]

    def _vectors(self, numbers: npt.NDArray[Any], lengths: npt.NDArray[np.int64]) -> list[Part]:
        """One-dimensional arrays of different lengths, one after another in `numbers`."""
        item = np.searchsorted([1 << 8, 1 << 16, 1 << 32], lengths, side='right')
        rows = len(lengths)
        lead = 0 if self.dtype is not None else 1
        heads = np.zeros((rows, lead + 9), np.uint8)
        if lead:
            heads[:, 0] = DTYPES[numbers.dtype.name]
        heads[:, lead] = (1 << 2) | item
        heads[:, lead + 1 :] = lengths.astype('<u8').view(np.uint8).reshape(rows, 8)
        widths = lead + 1 + (1 << item)
        kept = heads[np.arange(lead + 9) < widths[:, None]]
        bounds = np.concatenate([[0], np.cumsum(lengths)]) * numbers.dtype.itemsize
        return [
            Part(kept, np.concatenate([[0], np.cumsum(widths)])),
            Part(numbers.view(np.uint8), bounds),
        ]

    def _checked(self, value: Any) -> npt.NDArray[Any]:
        """The array in C order and little-endian, or an error that says what is wrong."""
        value = plain(value)
        if self.dtype is not None and isinstance(value, (list, tuple)):
            value = _array_of(value, self.dtype)
        if not isinstance(value, np.ndarray):
            raise bad_value(value, 'is not a numpy array (numpy.asarray(value, dtype) makes one)')
        if value.dtype.name not in DTYPES:
            raise bad_value(value, f'has a dtype outside {", ".join(DTYPES)}: convert it first')
        if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
            raise EncodingError('masked array with masked elements: MDS has no nulls')
        self._check_dtype(value.dtype, 'array')
        self._check_shape(value.shape, f'array of shape {value.shape}')
        return value.astype(value.dtype.newbyteorder('<'), copy=False)

    def _check_dtype(self, dtype: np.dtype[Any], what: str) -> None:
        if self.dtype is not None and dtype.name != self.dtype.name:
            raise EncodingError(f'{what} has dtype {dtype.name}, expected {self.dtype.name}')

    def _check_shape(self, shape: tuple[int, ...], what: str) -> None:
        if self.shape is not None and shape != self.shape:
            raise EncodingError(f'{what}, expected {self.shape}')
        if not shape:
            raise EncodingError('array without dimensions: use a scalar encoding')
        if 0 in shape:
            raise EncodingError(f'{what}: the format holds no array without elements')
        if len(shape) > 63:
            raise EncodingError(f'{what}: more than 63 dimensions')

    def _head(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
        """The bytes before the values."""
        head = b'' if self.dtype is not None else bytes([DTYPES[dtype.name]])
        if self.shape is not None:
            return head
        item = int(np.searchsorted([1 << 8, 1 << 16, 1 << 32], max(shape), side='right'))
        sides = np.array(shape, SHAPE_TYPES[item]).tobytes()
        return head + bytes([len(shape) << 2 | item]) + sides


def _arrow_type(dtype: np.dtype[Any] | None, shape: tuple[int, ...] | None) -> pa.DataType | None:
    """The Arrow type of arrays, as far as the encoding tells it."""
    if dtype is None:
        return None
    kind = pa.from_numpy_dtype(dtype)
    if shape is None:
        return pa.large_list(kind)
    for side in reversed(shape):
        kind = pa.list_(kind, side)
    return kind


def _fixed_lists(numbers: npt.NDArray[Any], shape: tuple[int, ...]) -> pa.Array:
    column = pa.array(numbers)
    for side in reversed(shape):
        column = pa.FixedSizeListArray.from_arrays(column, side)
    return column


def _no_common_type(found: str) -> ColumnsError:
    return ColumnsError(
        f'arrays with {found} have no common Arrow type: read the samples as dicts, or without '
        'this column'
    )


def _array_of(values: list[Any] | tuple[Any, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """A list of numbers as an array: integers exact, floats rounded to the type's precision."""
    try:
        array = np.array(values)
    except ValueError:
        raise bad_value(values, 'has lists of different lengths inside one array') from None
    if not array.size:
        return array.astype(dtype)
    if dtype == np.uint64 and array.dtype.kind == 'f':  # numpy's choice for 0 next to 2**63
        items = np.array(values, object)
        whole = all(isinstance(item, (int, np.integer)) for item in items.flat)
        if whole and items.min() >= 0 and items.max() < 2**64:
            return items.astype(dtype)
    if array.ndim > 1 and any(isinstance(row, np.ma.MaskedArray) for row in values):
        raise bad_value(values, 'has a masked array inside a list')
    if array.dtype.kind not in ('biuf' if dtype.kind == 'f' else 'biu'):
        raise bad_value(values, f'is not a list of numbers for {dtype.name}')
    if array.dtype == dtype:
        return array
    with np.errstate(over='ignore'):
        fitted = array.astype(dtype)
    if array.dtype.kind == 'f':
        fits = bool((np.isinf(fitted) == np.isinf(array)).all())
    elif dtype.kind == 'f':
        fits = fitted.tolist() == array.tolist()  # Python compares int with float exactly
    else:
        info = np.iinfo(dtype)
        fits = info.min <= int(array.min()) and int(array.max()) <= info.max
    if not fits:
        raise bad_value(values, f'has a number that does not fit {dtype.name}')
    return fitted


def _without_nulls(array: pa.Array) -> pa.Array:
    require_no_nulls(array)
    return array


def _nested(row: list[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """A list of lists as an array, when all lists of a level are equally long."""
    try:
        return np.array(row, dtype)
    except ValueError:
        raise EncodingError('lists of different lengths inside one array') from None


def _parse_dtype(text: str) -> np.dtype[Any]:
    if text not in DTYPES:
        raise ColumnsError(
            f'ndarray has no dtype {text!r:.80}: expected one of {", ".join(DTYPES)}'
        )
    dtype: np.dtype[Any] = np.dtype(text).newbyteorder('<')
    return dtype


def _parse_shape(text: str) -> tuple[int, ...]:
    try:
        shape = tuple(int(side) for side in text.split(','))
    except ValueError:
        shape = (0,)
    if min(shape) < 1 or len(shape) > 63 or math.prod(shape) > _MOST_ELEMENTS:
        raise ColumnsError(
            f'ndarray has no shape {text!r:.80}: expected up to 63 sides of at least 1, like '
            f'3,224,224, and at most {_MOST_ELEMENTS} elements'
        )
    return shape

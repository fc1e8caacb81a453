"""Features of tf.train.Example -> the values that columns need.

- bytes, jpeg, png, pkl: the one byte string, as it is. str: the same as UTF-8 text.
- int, int8 to uint64, str_int: the one integer. float16 to float64, str_float: the one number.
- ndarray: all numbers, as int64 or float32. ndarray:<dtype>: all numbers, each of which must fit;
  of a byte string, its bytes as numbers of that type (what tf.io.decode_raw does). With a shape
  they are put into it.
- json: the list of all values; byte strings are texts.
- list[jpeg], list[png], jpeg_array: all byte strings.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from beam_mds.errors import ColumnsError
from beam_mds.format.encodings import get_encoding
from beam_mds.format.encodings.arrays import NDArray
from beam_mds.sources.tfexamples import BYTES, FLOATS, INTEGERS, Feature

Make: TypeAlias = Callable[[Feature], Any]

# What the values of each kind of feature are called.
WHAT = {BYTES: 'byte strings', FLOATS: 'floats', INTEGERS: 'integers', None: 'values'}
_DTYPES: dict[str, np.dtype[Any]] = {INTEGERS: np.dtype(np.int64), FLOATS: np.dtype(np.float32)}


class UnfitError(ValueError):
    """A feature that is not what its column needs.

    Attributes:
        error_type: `kind`, `shape` or `value`.
    """

    def __init__(self, error_type: str, message: str) -> None:
        """Makes the error; see the class for the arguments."""
        self.error_type = error_type
        super().__init__(message)


def value_maker(column: str, encoding: str) -> Make:
    """What makes a column's value of a feature; it raises `UnfitError`.

    Args:
        column: For the error message.
        encoding: Of the column.

    Raises:
        ColumnsError: There is no such encoding, or no feature can be made to it.

    Example:
        >>> value_maker('label', 'uint8')(Feature('int64_list', [7]))
        7
    """
    codec = get_encoding(encoding)
    name = codec.name
    if isinstance(codec, NDArray):
        return functools.partial(_array, encoding, codec.dtype, codec.shape)
    if name in ('bytes', 'jpeg', 'png', 'pkl'):
        return functools.partial(_one, encoding, (BYTES,))
    if name == 'str':
        return _text
    if name.startswith(('int', 'uint')) or name == 'str_int':
        return functools.partial(_one, encoding, (INTEGERS,))
    if name.startswith('float'):
        return functools.partial(_one, encoding, (FLOATS, INTEGERS))
    if name == 'str_float':
        return functools.partial(_one, encoding, (FLOATS,))
    if name in ('list[jpeg]', 'list[png]', 'jpeg_array', 'jpegarray'):
        return functools.partial(_all, encoding)
    if name == 'json':
        return _json
    raise ColumnsError(
        f'column {column!r}: a feature cannot become {encoding}; images keep their bytes as jpeg, '
        'png or bytes'
    )


def _one(encoding: str, kinds: Sequence[str], feature: Feature) -> Any:
    _check_kind(encoding, kinds, feature)
    count = len(feature.values)
    if count != 1:
        raise UnfitError(
            'shape',
            f'{count} {WHAT[feature.kind]}, where {encoding} needs one: a column of lists has '
            'another encoding, ndarray:<dtype> or json',
        )
    return feature.values[0]


def _all(encoding: str, feature: Feature) -> list[bytes]:
    _check_kind(encoding, (BYTES, None), feature)
    return list(feature.values)


def _text(feature: Feature) -> str:
    return _decoded(_one('str', (BYTES,), feature))


def _json(feature: Feature) -> list[Any]:
    if feature.kind == BYTES:
        return list(map(_decoded, feature.values))
    return list(feature.values)


def _array(
    encoding: str, dtype: np.dtype[Any] | None, shape: tuple[int, ...] | None, feature: Feature
) -> npt.NDArray[Any]:
    if feature.kind == BYTES:
        array = _raw_array(encoding, dtype, feature)
    else:
        made: np.dtype[Any] = _DTYPES.get(feature.kind or '', dtype or _DTYPES[INTEGERS])
        array = np.fromiter(feature.values, made, len(feature.values))
        if dtype is not None and dtype != made:
            array = _converted(encoding, array, dtype)
    if shape is None:
        return array
    if math.prod(shape) != len(array):
        raise UnfitError('shape', f'{len(array)} values, where {encoding} needs {math.prod(shape)}')
    return array.reshape(shape)


def _raw_array(encoding: str, dtype: np.dtype[Any] | None, feature: Feature) -> npt.NDArray[Any]:
    """A byte string as numbers."""
    data: bytes = _one(encoding, (BYTES,), feature)
    if dtype is None:
        message = 'a byte string: say of which numbers it is, like ndarray:uint8'
        raise UnfitError('kind', message)
    if len(data) % dtype.itemsize:
        message = f'a byte string of {len(data)} bytes, which are no whole {dtype.name}'
        raise UnfitError('shape', message)
    return np.frombuffer(data, dtype.newbyteorder('<'))


def _converted(encoding: str, array: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """The same numbers as another type; none changes."""
    if array.dtype.kind == 'f' and dtype.kind != 'f':
        raise UnfitError('kind', f'floats, where {encoding} needs integers')
    with np.errstate(all='ignore'):
        made = array.astype(dtype)
        same = (made.astype(array.dtype) == array) | (array != array)  # NaN stays NaN
    if dtype.kind == 'u':
        same &= array >= 0
    if not same.all():
        bad = array[~same][0]
        raise UnfitError('value', f'{bad} does not fit {encoding}')
    return made


def _decoded(data: bytes) -> str:
    try:
        return data.decode('utf-8')
    except UnicodeDecodeError as error:
        message = f'a byte string is not UTF-8 text: {error.reason} at byte {error.start}'
        raise UnfitError('value', message) from None


def _check_kind(encoding: str, kinds: Sequence[str | None], feature: Feature) -> None:
    if feature.kind not in kinds and (feature.values or feature.kind):
        what = ' or '.join(WHAT[kind] for kind in kinds if kind)
        raise UnfitError('kind', f'{WHAT[feature.kind]}, where {encoding} needs {what}')

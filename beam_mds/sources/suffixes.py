"""What the members of a WebDataset hold: the encoding for a suffix, and bytes -> values."""

from __future__ import annotations

import decimal
import functools
import io
import json
import math
import re
import tokenize
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from beam_mds.errors import ColumnsError
from beam_mds.format.encodings import get_encoding

# The suffix's last part -> the encoding of its column; every other one is `bytes`. The numbers and
# texts are those that the webdataset library's decoder takes for such.
SUFFIXES: dict[str, str] = {
    **dict.fromkeys(('jpg', 'jpeg'), 'jpeg'),
    'png': 'png',
    **dict.fromkeys(('cls', 'cls2', 'class', 'count', 'index', 'inx', 'id'), 'int'),
    **dict.fromkeys(('txt', 'text', 'transcript', 'caption'), 'str'),
    **dict.fromkeys(('json', 'jsn'), 'json'),
    'npy': 'ndarray',
}

_INTEGER = re.compile(r'[+-]?[0-9]+')

# What numpy raises for a header that is none: it is Python's text of a dict.
_BAD_HEADER = (ValueError, TypeError, SyntaxError, tokenize.TokenError, RecursionError, MemoryError)

# Characters of a content in an error message.
_SHOWN = 80


def encoding_of(suffix: str) -> str:
    """The encoding of a suffix's column.

    Example:
        >>> encoding_of('seg.png'), encoding_of('cls'), encoding_of('pyd')
        ('png', 'int', 'bytes')
    """
    return SUFFIXES.get(suffix.rpartition('.')[2], 'bytes')


@functools.lru_cache(1024)
def decoder(column: str, encoding: str) -> Callable[[bytes], Any]:
    r"""What makes a column's value of a member's content; it raises ValueError for what it is not.

    Args:
        column: For the error message.
        encoding: Of the column.

    Raises:
        ColumnsError: There is no such encoding, or no member's content can be made to it.

    Example:
        >>> decoder('cls', 'int')(b'7\n'), decoder('jpg', 'jpeg')(b'..')
        (7, b'..')
    """
    name = get_encoding(encoding).name.partition(':')[0]
    if name in ('bytes', 'jpeg', 'png', 'pkl'):
        return _unchanged
    if name.startswith(('int', 'uint')) or name == 'str_int':
        return _integer
    if name.startswith('float') or name == 'str_float':
        return _float
    made = {'str': _text, 'str_decimal': _decimal, 'json': _json, 'ndarray': _array}.get(name)
    if made is None:
        raise ColumnsError(
            f'column {column!r}: a file in a tar cannot become {encoding}; images keep their bytes '
            'as jpeg, png or bytes'
        )
    return made


def _unchanged(data: bytes) -> bytes:
    return data


def _text(data: bytes) -> str:
    try:
        return data.decode('utf-8')
    except UnicodeDecodeError as error:
        raise ValueError(f'not UTF-8 text: {error.reason} at byte {error.start}') from None


def _integer(data: bytes) -> int:
    text = _text(data).strip()
    if not _INTEGER.fullmatch(text):
        raise ValueError(f'not an integer: {_shown(text)}')
    return int(text)


def _float(data: bytes) -> float:
    text = _text(data).strip()
    try:
        return float(text)
    except ValueError:
        raise ValueError(f'not a number: {_shown(text)}') from None


def _decimal(data: bytes) -> decimal.Decimal:
    text = _text(data).strip()
    try:
        return decimal.Decimal(text)
    except decimal.InvalidOperation:
        raise ValueError(f'not a decimal number: {_shown(text)}') from None


def _json(data: bytes) -> Any:
    try:
        return json.loads(_text(data))
    except json.JSONDecodeError as error:
        raise ValueError(f'not JSON: {error}') from None
    except RecursionError:
        raise ValueError('JSON that is nested too deeply') from None


def _array(data: bytes) -> npt.NDArray[Any]:
    """The array of an `.npy` file; nothing is unpickled, and no size is believed."""
    file = io.BytesIO(data)
    try:
        version = np.lib.format.read_magic(file)
        if version == (1, 0):
            shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(file)
        elif version == (2, 0):
            shape, is_fortran, dtype = np.lib.format.read_array_header_2_0(file)
        else:
            raise ValueError(f'version {version} is for no plain numbers')
    except _BAD_HEADER as error:
        raise ValueError(f'not an .npy file: {str(error)[:_SHOWN]}') from None
    if dtype.hasobject:
        raise ValueError('an .npy file of Python objects: they are pickled, and are not read')
    start, size = file.tell(), math.prod(shape) * dtype.itemsize
    if size != len(data) - start:
        raise ValueError(
            f'an .npy file of {len(data) - start} bytes, its shape {shape} of {dtype} needs {size}'
        )
    return np.frombuffer(data, dtype, offset=start).reshape(shape, order='F' if is_fortran else 'C')


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f'{text[:_SHOWN]}...')

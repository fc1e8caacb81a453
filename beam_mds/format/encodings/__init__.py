"""The encodings of the MDS format: one codec each, values <-> bytes.

The list and the bytes are those of mosaicml-streaming 0.13.0 (`format/mds/encodings.py`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from functools import partial

from beam_mds.errors import ColumnsError
from beam_mds.format.encodings.arrays import NDArray
from beam_mds.format.encodings.base import Encoding, Part, Values
from beam_mds.format.encodings.images import ImageList, Jpeg, JpegArray, Pil, Png
from beam_mds.format.encodings.scalars import Float, Integer
from beam_mds.format.encodings.text import Bytes, Json, Pickle, Str, StrDecimal, StrFloat, StrInt
from beam_mds.format.encodings.times import Int64

__all__ = ['ENCODINGS', 'Encoding', 'Part', 'Values', 'get_encoding']

_INTEGERS = ('uint8', 'uint16', 'uint32', 'uint64', 'int8', 'int16', 'int32')

# Name -> what makes the codec.
ENCODINGS: dict[str, Callable[[], Encoding]] = {
    'bytes': Bytes,
    'str': Str,
    'int': partial(Integer, 'int', 'int64'),
    'ndarray': NDArray,
    **{name: partial(Integer, name) for name in _INTEGERS},
    'int64': Int64,
    **{name: partial(Float, name) for name in ('float16', 'float32', 'float64')},
    'str_int': StrInt,
    'str_float': StrFloat,
    'str_decimal': StrDecimal,
    'pil': Pil,
    'jpeg': Jpeg,
    'png': Png,
    'jpeg_array': partial(JpegArray, 'jpeg_array'),
    'jpegarray': partial(JpegArray, 'jpegarray'),
    'list[pil]': partial(ImageList, Pil()),
    'list[jpeg]': partial(ImageList, Jpeg()),
    'list[png]': partial(ImageList, Png()),
    'pkl': Pickle,
    'json': Json,
}


@functools.lru_cache(256)  # codecs have no state: a table of many columns shares them
def get_encoding(name: str) -> Encoding:
    r"""The codec for an encoding's name.

    Args:
        name: As in the index: `str`, `uint16`, `ndarray:float32:3,224,224`.

    Raises:
        ColumnsError: There is no such encoding, or its parameter is wrong.

    Example:
        >>> get_encoding('uint16').encode(258)
        b'\x02\x01'
    """
    base, colon, parameter = name.partition(':')
    if base == 'ndarray' and colon:
        return NDArray(parameter)
    if base not in ENCODINGS:
        raise ColumnsError(f'unknown encoding {name!r:.80}: expected one of {", ".join(ENCODINGS)}')
    if colon:
        raise ColumnsError(f'encoding {base!r} takes no parameter, got {parameter!r:.80}')
    return ENCODINGS[base]()

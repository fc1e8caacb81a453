"""Encoded arrays, many of one dtype and number of dimensions -> their shapes and elements."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from beam_mds.errors import FormatError
from beam_mds.format.encodings.base import Bytes1D, Offsets, joined, large_binary

# log2 of a shape item's bytes -> the item's type; the smallest that holds the largest side is used.
SHAPE_TYPES = ('<u1', '<u2', '<u4', '<u8')


class ArrayGroup(NamedTuple):
    """n arrays of one dtype and one number of dimensions.

    Attributes:
        shapes: int64 of shape (n, dimensions).
        numbers: The elements of each, in C order, one array after another.
    """

    shapes: npt.NDArray[np.int64]
    numbers: npt.NDArray[Any]


def array_group(
    data: Bytes1D, starts: Offsets, ends: Offsets, dtype: np.dtype[Any], ndim: int
) -> ArrayGroup:
    """Takes n encoded arrays apart.

    Args:
        data: What they lie in.
        starts: int64 of shape (n,): of each, the byte that tells its number of dimensions.
        ends: int64 of shape (n,): where each ends.
        dtype: Of the elements.
        ndim: The number of dimensions.

    Raises:
        FormatError: An array has not the bytes that its shape says.
        Exception: One is damaged in another way.
    """
    if not ndim:
        raise FormatError('the format holds no array without dimensions')
    items = data[starts] & np.uint8(3)
    shapes = _sides(data, starts + 1, items, ndim)
    firsts = starts + 1 + (ndim << items.astype(np.int64))  # of the values
    counts, odd = np.divmod(ends - firsts, dtype.itemsize)
    if odd.any() or (counts < 1).any():
        raise FormatError(f'not all arrays have whole numbers of {dtype.itemsize} bytes')
    # As floats, which are exact where they can be equal, and do not wrap.
    with np.errstate(over='ignore', invalid='ignore'):
        needed = shapes.astype(np.float64).prod(axis=1)
    if (needed != counts).any():
        raise FormatError('not all arrays have as many numbers as they say')
    parts = np.append(np.stack([firsts, ends], axis=1), ends[-1:])
    values = pc.take(large_binary(data, parts), pa.array(np.arange(len(starts)) * 2))
    return ArrayGroup(shapes.astype(np.int64), joined(values).view(dtype))


def _sides(
    data: Bytes1D, starts: Offsets, items: npt.NDArray[np.uint8], ndim: int
) -> npt.NDArray[np.uint64]:
    """The sides of arrays: integers of 1, 2, 4 or 8 bytes from these bytes on.

    Returns:
        uint64 of shape (n, ndim).
    """
    found = np.empty((len(starts), ndim), np.uint64)
    for item, kind in enumerate(SHAPE_TYPES):
        rows = np.flatnonzero(items == item)
        if len(rows):
            windows = np.lib.stride_tricks.sliding_window_view(data, ndim << item)
            found[rows] = windows[starts[rows]].view(kind)
    return found

"""Encoded samples -> the bytes of their columns, many samples at once.

The samples of a batch lie one after another, and in each the size head and the columns. So all of
them together are one Arrow binary array whose offsets are where those parts start, and a column is
every k-th item of it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_mds.errors import FormatError
from beam_mds.format.encodings.base import Bytes1D, Offsets, large_binary
from beam_mds.format.samples import Samples


def column_items(
    samples: Samples, sizes: Sequence[int | None], wanted: Sequence[int]
) -> list[pa.LargeBinaryArray]:
    """The encoded values of some columns.

    Args:
        samples: n encoded samples.
        sizes: Bytes of each column's values; None where they vary and stand in the sample's head.
        wanted: Numbers of the columns.

    Returns:
        For each column wanted, an array of n items whose bytes lie one after another.

    Raises:
        FormatError: The sizes in a sample's head do not add up to its bytes; `row` says which.
    """
    bounds = column_bounds(samples, sizes)
    if len(sizes) == 1 and sizes[0] is not None:
        return [large_binary(samples.bytes, samples.offsets - samples.offsets[0])] * len(wanted)
    parts = large_binary(samples.data, np.append(bounds[:, :-1], samples.offsets[-1:]))
    first = np.arange(len(samples)) * (len(sizes) + 1)
    return [pc.take(parts, pa.array(first + number + 1)) for number in wanted]


def column_bounds(samples: Samples, sizes: Sequence[int | None]) -> Offsets:
    """Where the parts of each sample start.

    Returns:
        int64 of shape (n, columns + 2): start of the sample, which is that of its size head; start
        of each column; end of the sample.

    Raises:
        FormatError: See `column_items`.
    """
    count = sizes.count(None)
    require_heads(samples.offsets, count)
    heads = size_heads(samples.data, samples.offsets[:-1], count)
    return bounds_of(samples.offsets, heads, sizes)


def require_heads(offsets: Offsets, count: int) -> None:
    """Raises for the first sample that is too short for the sizes of so many columns."""
    lengths = np.diff(offsets)
    short = np.flatnonzero(lengths < 4 * count)
    if len(short):
        row = int(short[0])
        raise FormatError(f'sample of {int(lengths[row])} bytes is shorter than its head', row)


def bounds_of(offsets: Offsets, heads: Offsets, sizes: Sequence[int | None]) -> Offsets:
    """Where the parts of samples start, by the sizes in their heads; see `column_bounds`.

    Args:
        offsets: int64 of shape (n + 1,): where the samples start, and where the last one ends.
        heads: int64 of shape (n, columns that vary).
        sizes: Bytes of each column's values, or None.
    """
    varying = [number for number, size in enumerate(sizes) if size is None]
    starts, ends = offsets[:-1], offsets[1:]
    bounds = np.empty((len(starts), len(sizes) + 2), np.int64)
    bounds[:, 0] = starts
    bounds[:, 1] = 4 * len(varying)
    for number, size in enumerate(sizes):
        if size is not None:
            bounds[:, number + 2] = size
    if varying:
        bounds[:, np.array(varying) + 2] = heads
    np.cumsum(bounds, axis=1, out=bounds)
    wrong = np.flatnonzero(bounds[:, -1] != ends)
    if len(wrong):
        row = int(wrong[0])
        raise FormatError(
            f'sample has {int(ends[row] - starts[row])} bytes, its columns need '
            f'{int(bounds[row, -1] - starts[row])}',
            row,
        )
    return bounds


def size_heads(data: Bytes1D, starts: Offsets, count: int) -> Offsets:
    """The uint32 sizes at the start of each sample, int64 of shape (n, count)."""
    if not len(starts):
        return np.empty((0, count), np.int64)
    windows = np.lib.stride_tricks.sliding_window_view(data, 4 * count)
    return windows[starts].view('<u4').astype(np.int64)

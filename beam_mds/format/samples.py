"""Many encoded samples in one buffer: what columnar encoding makes and shards are built from."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from beam_mds.errors import EncodingError
from beam_mds.format.encodings.base import Bytes1D, Offsets, Part

if TYPE_CHECKING:
    import builtins

# Sizes inside a sample are uint32.
_MAX_SIZE = 2**32 - 1


@dataclass(frozen=True, eq=False)
class Samples:
    """n encoded samples.

    Attributes:
        data: uint8, the samples' bytes one after another.
        offsets: int64 of shape (n + 1,): sample i is data[offsets[i]:offsets[i + 1]].
    """

    data: Bytes1D
    offsets: Offsets

    def __reduce__(self) -> tuple[type[Samples], tuple[Bytes1D, Offsets]]:
        """Pickles these samples only, not all of the buffer that they are a slice of."""
        return Samples, (self.bytes, self.offsets - self.offsets[0])

    def __len__(self) -> int:
        """The number of samples."""
        return len(self.offsets) - 1

    @property
    def sizes(self) -> Offsets:
        """Bytes of each sample, int64 of shape (n,)."""
        return np.diff(self.offsets)

    @property
    def nbytes(self) -> int:
        """Bytes of all samples."""
        return int(self.offsets[-1] - self.offsets[0])

    @property
    def bytes(self) -> Bytes1D:
        """The samples' bytes without what `data` may hold before and after them."""
        return self.data[self.offsets[0] : self.offsets[-1]]

    def __iter__(self) -> Iterator[memoryview]:
        """One view per sample."""
        view, bounds = self.data.data, self.offsets.tolist()
        for start, end in itertools.pairwise(bounds):
            yield view[start:end]

    def slice(self, start: int, stop: int) -> Samples:
        """Samples start to stop - 1, sharing the data."""
        return Samples(self.data, self.offsets[start : stop + 1])

    def take(self, order: npt.NDArray[np.int64]) -> Samples:
        """The samples at these positions, copied into one new buffer."""
        return _from_arrow(self._to_arrow().take(pa.array(order)))

    def _to_arrow(self) -> pa.LargeBinaryArray:
        return _large_binary(self.data, self.offsets)

    @staticmethod
    def empty() -> Samples:
        """No samples."""
        return Samples(np.empty(0, np.uint8), np.zeros(1, np.int64))

    @staticmethod
    def of(samples: Sequence[builtins.bytes]) -> Samples:
        """Samples from byte strings."""
        return _from_arrow(pa.array(samples, pa.large_binary()))

    @staticmethod
    def concat(batches: Sequence[Samples]) -> Samples:
        """All batches' samples in one buffer; a single batch is returned as it is."""
        if len(batches) == 1:
            return batches[0]
        if not batches:
            return Samples.empty()
        sizes = np.concatenate([batch.sizes for batch in batches])
        return Samples(np.concatenate([batch.bytes for batch in batches]), offsets_of(sizes))


def offsets_of(sizes: npt.NDArray[Any]) -> Offsets:
    """int64 of shape (n + 1,): where each of n items starts, and where the last one ends."""
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def join_columns(columns: Sequence[tuple[Sequence[Part], bool]], rows: int) -> Samples:
    """Puts encoded columns side by side, row by row, behind the sizes of the variable ones.

    Args:
        columns: For each column, in the format's order, its parts and whether its size is
            variable (and so stands in the sample's head).
        rows: The number of samples.
    """
    head = [_part_sizes(parts, rows) for parts, variable in columns if variable]
    parts = [part for column, _ in columns for part in column]
    if head:
        sizes = np.stack(head, axis=1)
        if rows and int(sizes.max()) > _MAX_SIZE:
            raise EncodingError(
                f'a value of {int(sizes.max())} bytes: the format holds {_MAX_SIZE}'
            )
        matrix = sizes.astype('<u4').view(np.uint8).reshape(rows, 4 * len(head))
        parts.insert(0, Part(matrix))
    merged = _merge_fixed(parts, rows)
    if len(merged) == 1 and merged[0].offsets is None:
        matrix = merged[0].data
        return Samples(matrix.reshape(-1), np.arange(rows + 1, dtype=np.int64) * matrix.shape[1])
    arrays = [_part_array(part, rows) for part in merged]
    if len(arrays) == 1:
        return _from_arrow(arrays[0])
    return _from_arrow(pc.binary_join_element_wise(*arrays, pa.scalar(b'', pa.large_binary())))


def _part_sizes(parts: Sequence[Part], rows: int) -> Offsets:
    sizes = np.zeros(rows, np.int64)
    for part in parts:
        sizes += part.data.shape[1] if part.offsets is None else np.diff(part.offsets)
    return sizes


def _merge_fixed(parts: Sequence[Part], rows: int) -> list[Part]:
    """Neighbours of fixed width become one matrix: fewer, larger copies."""
    merged: list[Part] = []
    run: list[Bytes1D] = []
    for part in [*parts, None]:
        if part is not None and part.offsets is None:
            run.append(part.data)
            continue
        if len(run) == 1:
            merged.append(Part(np.ascontiguousarray(run[0])))
        elif run:
            matrix = np.empty((rows, sum(piece.shape[1] for piece in run)), np.uint8)
            np.concatenate(run, axis=1, out=matrix)
            merged.append(Part(matrix))
        run = []
        if part is not None:
            merged.append(part)
    return merged


def _part_array(part: Part, rows: int) -> pa.LargeBinaryArray:
    if part.offsets is not None:
        return _large_binary(part.data, part.offsets)
    width = part.data.shape[1]
    return _large_binary(part.data.reshape(-1), np.arange(rows + 1, dtype=np.int64) * width)


def _large_binary(data: Bytes1D, offsets: Offsets) -> pa.LargeBinaryArray:
    buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets)), pa.py_buffer(data)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)


def _from_arrow(array: pa.LargeBinaryArray) -> Samples:
    _, offsets, data = array.buffers()
    start, stop = array.offset, array.offset + len(array) + 1
    if data is None or len(array) == 0:
        return Samples(np.empty(0, np.uint8), np.zeros(len(array) + 1, np.int64))
    return Samples(np.frombuffer(data, np.uint8), np.frombuffer(offsets, np.int64)[start:stop])

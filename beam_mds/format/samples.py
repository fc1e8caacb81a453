"""Many encoded samples in one buffer: what columnar encoding makes and shards are built from."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from beam_mds.errors import EncodingError
from beam_mds.format.encodings.base import Bytes1D, Offsets, Part, large_binary, offsets_of

if TYPE_CHECKING:
    import builtins

# Sizes inside a sample are uint32.
_MAX_SIZE = 2**32 - 1

# Bytes of a chunk: numpy asks for huge pages from 4 MB on, and the first touch of a page is what a
# fresh buffer costs most.
_CHUNK_BYTES = 32 << 20

# Bytes that Arrow gathers or joins at once, into memory that stays in a processor's cache. malloc
# gives the same memory again and again; Arrow's own pool returns it to the system in between.
_PIECE_BYTES = 4 << 20
_SCRATCH = pa.system_memory_pool()

Allocate = Callable[[int], Bytes1D]


def allocate(nbytes: int) -> Bytes1D:
    """A buffer of its own, uint8 of shape (nbytes,)."""
    return np.empty(nbytes, np.uint8)


class Chunks:
    """Hands out pieces of large buffers, one after another, for samples held for a while."""

    def __init__(self, size: int = _CHUNK_BYTES) -> None:
        """Starts without a buffer.

        Args:
            size: Bytes of a buffer.
        """
        self._size = size
        self._chunk = np.empty(0, np.uint8)

    def __call__(self, nbytes: int) -> Bytes1D:
        """uint8 of shape (nbytes,)."""
        if nbytes > len(self._chunk):
            if nbytes > self._size // 2:
                return allocate(nbytes)
            self._chunk = allocate(self._size)
        piece, self._chunk = self._chunk[:nbytes], self._chunk[nbytes:]
        return piece


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
        offsets = offsets_of(self.sizes[order])
        data = allocate(int(offsets[-1]))
        start = 0
        for piece in self.pieces(order):
            data[start : start + len(piece)] = piece
            start += len(piece)
        return Samples(data, offsets)

    def pieces(self, order: npt.NDArray[np.int64]) -> Iterator[Bytes1D]:
        """The bytes of the samples at these positions, a few MB at a time."""
        offsets = offsets_of(self.sizes[order])
        array = as_binary(self)
        start = 0
        while start < len(order):
            end = int(np.searchsorted(offsets, offsets[start] + _PIECE_BYTES))
            end = min(max(end, start + 1), len(order))
            items = pc.take(array, pa.array(order[start:end]), memory_pool=_SCRATCH)
            yield _from_arrow(items).bytes
            start = end

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
        """All batches' samples in one buffer; copied only where they do not lie side by side."""
        if not batches:
            return Samples.empty()
        data = _adjacent([batch.bytes for batch in batches])
        return Samples(data, offsets_of(np.concatenate([batch.sizes for batch in batches])))


def _adjacent(parts: Sequence[Bytes1D]) -> Bytes1D:
    """All parts in one buffer: the one that they lie in side by side already, or a copy."""
    owner, start = parts[0].base, _address(parts[0])
    end = start
    for part in parts:
        if part.base is not owner or _address(part) != end:
            return np.concatenate(parts)
        end += len(part)
    if not isinstance(owner, np.ndarray) or owner.dtype != np.uint8 or owner.ndim != 1:
        return parts[0] if len(parts) == 1 else np.concatenate(parts)
    return owner[start - _address(owner) : end - _address(owner)]


def _address(array: npt.NDArray[np.uint8]) -> int:
    return int(array.__array_interface__['data'][0])


def join_columns(
    columns: Sequence[tuple[Sequence[Part], bool]], rows: int, allocate: Allocate = allocate
) -> Samples:
    """Puts encoded columns side by side, row by row, behind the sizes of the variable ones.

    Args:
        columns: For each column, in the format's order, its parts and whether its size is
            variable (and so stands in the sample's head).
        rows: The number of samples.
        allocate: Gives the buffer for the samples.
    """
    head = [_part_sizes(parts, rows) for parts, variable in columns if variable]
    parts = [part for column, _ in columns for part in column]
    if head:
        sizes = np.stack(head, axis=1)
        if rows and int(sizes.max()) > _MAX_SIZE:
            raise EncodingError(
                f'a value of {int(sizes.max())} bytes: the format holds {_MAX_SIZE}'
            )
        parts.insert(0, Part(sizes.astype('<u4').view(np.uint8).reshape(rows, 4 * len(head))))
    widths = [part.data.shape[1] for part in parts if part.offsets is None]
    if len(widths) == len(parts):
        matrix = allocate(rows * sum(widths)).reshape(rows, sum(widths))
        np.concatenate([part.data for part in parts], axis=1, out=matrix)
        return Samples(matrix.reshape(-1), np.arange(rows + 1, dtype=np.int64) * sum(widths))
    arrays = [_part_array(part, rows) for part in _merge_fixed(parts, rows)]
    joined = arrays[0]
    if len(arrays) > 1:
        joined = pc.binary_join_element_wise(
            *arrays, pa.scalar(b'', pa.large_binary()), memory_pool=_SCRATCH
        )
    samples = _from_arrow(joined)
    data = allocate(samples.nbytes)
    data[:] = samples.bytes
    return Samples(data, samples.offsets - samples.offsets[0])


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
        return large_binary(part.data, part.offsets)
    width = part.data.shape[1]
    return large_binary(part.data.reshape(-1), np.arange(rows + 1, dtype=np.int64) * width)


def as_binary(samples: Samples) -> pa.LargeBinaryArray:
    """The samples as an Arrow column that shares their bytes."""
    return large_binary(samples.data, samples.offsets)


def _from_arrow(array: pa.LargeBinaryArray) -> Samples:
    _, offsets, data = array.buffers()
    start, stop = array.offset, array.offset + len(array) + 1
    if data is None or len(array) == 0:
        return Samples(np.empty(0, np.uint8), np.zeros(len(array) + 1, np.int64))
    return Samples(np.frombuffer(data, np.uint8), np.frombuffer(offsets, np.int64)[start:stop])

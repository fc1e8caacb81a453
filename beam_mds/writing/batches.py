"""Batches: the elements of a bundle, put together to be encoded at once."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from beam_mds.format import EncodedBatch
from beam_mds.format.columns import COLUMNAR, Batch, Table, rows_of
from beam_mds.rows import as_dict

# Bytes of samples that are encoded at once: small enough to stay in a processor's cache.
BATCH_BYTES = 4 << 20

# Rows in the first batch, before anything is known of their size, and in the largest.
_FIRST_ROWS, _MOST_ROWS = 16, 8192

# Rows of a batch whose size is looked at.
_LOOKED_AT = 16


@dataclass(frozen=True)
class ElementBatch:
    """Some elements of a bundle.

    Attributes:
        data: A list of samples, one an element, or a piece of an element that holds many.
        nbytes: About how many bytes its samples have.
    """

    data: Batch
    nbytes: int


class Batcher:
    """Collects the elements of one bundle.

    Attributes:
        samples: How many there were in all batches so far.
    """

    def __init__(self) -> None:
        """Starts a bundle."""
        self.samples = 0
        self._rows: list[Any] = []
        self._limit = _FIRST_ROWS

    def add(self, element: Any) -> list[ElementBatch] | None:
        """Takes an element: a sample, or a batch of many.

        Returns:
            The batches that are complete by now.
        """
        if type(element) is not dict and isinstance(element, COLUMNAR):
            self.samples += len(element)
            return list(_pieces(element))
        self._rows.append(element)
        return None if len(self._rows) < self._limit else self.finish()

    def finish(self) -> list[ElementBatch]:
        """The batch of what is left over, if anything is."""
        rows, self._rows = self._rows, []
        if not rows:
            return []
        self.samples += len(rows)
        looked_at = rows[:: -(-len(rows) // _LOOKED_AT)]
        size = sum(_size_of(as_dict(row) or row) for row in looked_at) // len(looked_at) + 1
        self._limit = max(1, min(BATCH_BYTES // size, 4 * len(rows), _MOST_ROWS))
        return [ElementBatch(rows, size * len(rows))]


def _pieces(table: Table | EncodedBatch) -> Iterator[ElementBatch]:
    """Cuts a table into batches of about BATCH_BYTES."""
    size, count = table.nbytes, len(table)
    rows = max(1, BATCH_BYTES * count // max(size, 1))
    for start in range(0, count, rows):
        piece = rows_of(table, start, min(start + rows, count))
        yield ElementBatch(piece, size * len(piece) // count)


def _size_of(value: Any, depth: int = 2) -> int:
    """About how many bytes a value has, from the outside."""
    if isinstance(value, pa.Scalar):
        value = value.as_py()
    if depth and isinstance(value, Mapping):
        return sum(_size_of(item, depth - 1) for item in value.values())
    if depth and isinstance(value, (list, tuple)) and value:
        return len(value) * _size_of(value[0], depth - 1)
    size = getattr(value, 'nbytes', None)  # arrays, buffers, views
    if isinstance(size, int):
        return size
    shape = getattr(value, 'size', None)  # images: width and height
    if isinstance(shape, tuple):
        return 4 * math.prod(shape)
    return sys.getsizeof(value)

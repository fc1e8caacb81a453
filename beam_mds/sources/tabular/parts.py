"""What the readers of table formats share: batches with the place of each row, and bad files."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from beam_mds.errors import MDSError, StorageError
from beam_mds.records import PLACE, BadRecord

# Bytes of a batch: what is encoded at once.
BATCH_BYTES = 4 << 20

# Rows of a batch. The bytes of rows are guessed by their stored form, and a column of few distinct
# values can be much larger once it is read.
BATCH_ROWS = 8192

# Bytes of a file that are one piece of work, where a format can be cut.
PIECE_BYTES = 64 << 20

# Characters of another library's message.
_SHOWN = 300


class Rows(NamedTuple):
    """Rows of a file.

    Attributes:
        batch: Their columns, as the file has them.
        place: Where they stand: name -> int64 of shape (rows,), like `{'row': array([0, 1, 2])}`.
    """

    batch: pa.RecordBatch
    place: Mapping[str, Any]


Found: TypeAlias = Rows | BadRecord


class TableError(MDSError):
    """A file that is no table of its format, or not with the columns that are wanted.

    Attributes:
        error_type: What kind of fault: see `beam_mds.sources.tables.ERROR_TYPES`.
    """

    def __init__(self, error_type: str, message: str) -> None:
        """Makes the error; see the class for the arguments."""
        self.error_type = error_type
        super().__init__(message)

    def __reduce__(self) -> tuple[type[TableError], tuple[object, ...]]:
        """Pickles by the constructor's arguments."""
        return TableError, (self.error_type, str(self))


def rows_from(batch: pa.RecordBatch, row: int) -> Rows:
    """Rows that follow one another, from the number `row` on."""
    return Rows(batch, {'row': np.arange(row, row + batch.num_rows)})


def sliced(batch: pa.RecordBatch, row: int) -> Iterator[Rows]:
    """A large batch in slices of about `BATCH_BYTES`, which share its memory."""
    count = max(1, BATCH_BYTES * batch.num_rows // max(batch.nbytes, 1))
    for start in range(0, batch.num_rows, count):
        yield rows_from(batch.slice(start, count), row + start)


def grouped(found: Iterable[Found]) -> Iterator[Found]:
    """The same in the same order, with small batches that follow one another put together."""
    waiting: list[Rows] = []
    size = count = 0
    for item in found:
        small = isinstance(item, Rows) and item.batch.nbytes < BATCH_BYTES
        if waiting and (not small or size >= BATCH_BYTES or count >= BATCH_ROWS):
            yield _together(waiting)
            waiting, size, count = [], 0, 0
        if isinstance(item, Rows) and small:
            waiting.append(item)
            size += item.batch.nbytes
            count += item.batch.num_rows
        else:
            yield item
    if waiting:
        yield _together(waiting)


def _together(rows: list[Rows]) -> Rows:
    if len(rows) == 1:
        return rows[0]
    (batch,) = pa.Table.from_batches([item.batch for item in rows]).combine_chunks().to_batches()
    names = rows[0].place
    return Rows(
        batch, {name: np.concatenate([item.place[name] for item in rows]) for name in names}
    )


@contextlib.contextmanager
def damage_told(what: str) -> Iterator[None]:
    """Makes what a decoder raises about damaged bytes a `TableError`; reading errors stay."""
    try:
        yield
    except (StorageError, TableError):
        raise
    except Exception as error:
        # Decoders raise whatever the damaged bytes lead them to.
        text = str(error).strip() or type(error).__name__
        raise TableError('damaged', f'{what}: {text[:_SHOWN]}') from error


def placed(
    arrays: Sequence[pa.Array],
    fields: Sequence[pa.Field],
    place: Mapping[str, Any],
    path: str,
    count: int,
) -> pa.RecordBatch:
    """Columns of `count` rows with `PLACE` beside them, a struct of the file and where in it."""
    numbers = [pa.array(values, pa.int64()) for values in place.values()]
    where = pa.StructArray.from_arrays([constant(path, count), *numbers], names=['file', *place])
    schema = pa.schema([*fields, pa.field(PLACE, where.type)])
    return pa.RecordBatch.from_arrays([*arrays, where], schema=schema)


def constant(value: str | None, count: int) -> pa.Array:
    """A column of one text, which costs four bytes a row."""
    if value is None:
        return pa.nulls(count, pa.string())
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), pa.array([value]))

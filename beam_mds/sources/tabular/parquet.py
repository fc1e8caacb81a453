"""Parquet files: row groups in batches of a few MB, and only the columns that are wanted."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from beam_mds.records import BadRecord
from beam_mds.sources.tabular.files import SeekableFile
from beam_mds.sources.tabular.parts import (
    BATCH_BYTES,
    BATCH_ROWS,
    PIECE_BYTES,
    Found,
    TableError,
    damage_told,
    rows_from,
)
from beam_mds.storage import is_remote

# Bytes of each column that are asked of the store at once; columns take turns, so that a store with
# a large buffer of its own reads it again for each.
_LOCAL_BUFFER, _REMOTE_BUFFER = 1 << 20, 8 << 20


def read_schema(path: str) -> pa.Schema:
    """The Arrow schema of a file.

    Raises:
        TableError: It is no Parquet file, or its footer is damaged.
        StorageError: It cannot be read.
    """
    with _open(path) as file, damage_told('its schema is damaged'):
        return file.schema_arrow


def cut(path: str) -> Iterator[tuple[int, int]]:
    """Row groups that are read by one worker: the first one's number, and the last one's plus 1.

    Raises:
        TableError: It is no Parquet file, or its footer is damaged.
        StorageError: It cannot be read.
    """
    with _open(path) as file:
        metadata = file.metadata
        start = size = 0
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number).total_byte_size
            if size and size + group > PIECE_BYTES:
                yield start, number
                start, size = number, 0
            size += group
        yield start, metadata.num_row_groups


def read(path: str, start: int, stop: int, columns: Sequence[str] | None) -> Iterator[Found]:
    """The rows of row groups; a damaged one is a bad record, and those behind it are read.

    Args:
        path: The file.
        start: The first row group.
        stop: The one behind the last.
        columns: The columns wanted, and fields of structs as `column.field`; all when None.

    Raises:
        TableError: It is no Parquet file, or its footer is damaged.
        StorageError: It cannot be read.
    """
    with _open(path) as file:
        metadata = file.metadata
        row = sum(metadata.row_group(number).num_rows for number in range(start))
        for number in range(start, stop):
            done = row
            row += metadata.row_group(number).num_rows
            try:
                with damage_told(f'row group {number} is damaged'):
                    for batch in file.iter_batches(
                        _batch_rows(metadata.row_group(number)),
                        row_groups=[number],
                        columns=columns,
                        use_threads=False,
                    ):
                        for column in batch.columns:
                            if _has_dictionary(column.type):
                                # Damaged indices lead anywhere in memory; all else is made sound.
                                column.validate(full=True)
                        yield rows_from(batch, done)
                        done += batch.num_rows
            except TableError as error:
                lost = f'{error}; its rows {done} to {row - 1} are lost'
                yield BadRecord(error.error_type, lost, {'file': path, 'row': done})


@contextlib.contextmanager
def _open(path: str) -> Iterator[Any]:
    with contextlib.ExitStack() as stack:
        raw = stack.enter_context(SeekableFile(path))
        with damage_told('not a Parquet file, or damaged'):
            file = stack.enter_context(
                pq.ParquetFile(
                    raw,
                    buffer_size=_REMOTE_BUFFER if is_remote(path) else _LOCAL_BUFFER,
                    pre_buffer=False,  # or it reads whole row groups ahead, in other threads
                    page_checksum_verification=True,
                )
            )
        yield file


def _has_dictionary(kind: pa.DataType) -> bool:
    return pa.types.is_dictionary(kind) or any(
        _has_dictionary(kind.field(number).type) for number in range(kind.num_fields)
    )


def _batch_rows(group: Any) -> int:
    """Rows of a batch of about `BATCH_BYTES`.

    By the bytes of all columns: what a damaged file says of one may end the process (pyarrow 25).
    """
    rows, size = int(group.num_rows), int(group.total_byte_size)
    return max(1, min(BATCH_ROWS, BATCH_BYTES * rows // max(size, 1)))

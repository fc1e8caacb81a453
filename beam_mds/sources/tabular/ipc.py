"""Arrow IPC files: the file format (also Feather version 2) and the stream format."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from beam_mds.records import BadRecord
from beam_mds.sources.tabular.files import SeekableFile, StreamFile
from beam_mds.sources.tabular.parts import (
    PIECE_BYTES,
    Found,
    Rows,
    TableError,
    damage_told,
    sliced,
)

_NO_FILE = 'not an Arrow file, or damaged'


def read_schema(path: str, stream: bool) -> pa.Schema:
    """The Arrow schema of a file.

    Args:
        path: The file.
        stream: Whether it has the stream format.

    Raises:
        TableError: It is no Arrow file, or damaged.
        StorageError: It cannot be read.
    """
    with _open_stream(path) if stream else _open_file(path) as reader:
        return reader.schema


def cut(path: str, size: int) -> Iterator[tuple[int, int]]:
    """Record batches of the file format that are read by one worker: first, last plus 1.

    Raises:
        TableError: It is no Arrow file, or damaged.
        StorageError: It cannot be read.
    """
    with _open_file(path) as reader:
        count = reader.num_record_batches
    step = max(1, PIECE_BYTES * count // max(size, 1))
    for start in range(0, max(count, 1), step):
        yield start, min(start + step, count)


def read_file(path: str, start: int, stop: int) -> Iterator[Found]:
    """The rows of record batches; their places are `batch` and `row`, which counts within it.

    A damaged batch is a bad record, and those behind it are read.

    Args:
        path: The file.
        start: The first batch.
        stop: The one behind the last.

    Raises:
        TableError: It is no Arrow file, or damaged.
        StorageError: It cannot be read.
    """
    with _open_file(path) as reader:
        for number in range(start, stop):
            try:
                with damage_told('the record batch is damaged, and its rows are lost'):
                    batch = reader.get_batch(number)
                    # The offsets of a damaged batch may lead anywhere in memory.
                    batch.validate(full=True)
            except TableError as error:
                yield BadRecord(error.error_type, str(error), {'file': path, 'batch': number})
                continue
            for rows in sliced(batch, 0):
                numbers = rows.place['row']
                yield Rows(rows.batch, {'batch': numbers * 0 + number, 'row': numbers})


def read_stream(path: str) -> Iterator[Found]:
    """The rows of a file of the stream format; where it is damaged the rest is a bad record.

    Raises:
        TableError: It is no Arrow stream.
        StorageError: It cannot be read.
    """
    row = 0
    with _open_stream(path) as reader:
        while True:
            try:
                with damage_told(f'damaged, or it ends too early: {row} rows could be read'):
                    try:
                        batch = reader.read_next_batch()
                    except StopIteration:
                        return
                    batch.validate(full=True)
            except TableError as error:
                yield BadRecord(error.error_type, str(error), {'file': path, 'row': row})
                return
            yield from sliced(batch, row)
            row += batch.num_rows


@contextlib.contextmanager
def _open_file(path: str) -> Iterator[Any]:
    with SeekableFile(path) as raw:
        with damage_told(_NO_FILE):
            options = pa.ipc.IpcReadOptions(use_threads=False)
            reader = pa.ipc.open_file(pa.PythonFile(raw, mode='r'), options=options)
        yield reader


@contextlib.contextmanager
def _open_stream(path: str) -> Iterator[Any]:
    with StreamFile(path) as raw:
        with damage_told(_NO_FILE):
            reader = pa.ipc.open_stream(pa.PythonFile(raw, mode='r'))
        yield reader

"""Tables in files of every format, and what a source makes of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from beam_mds.records import PLACE, BadRecord
from beam_mds.sources.base import Source


def store(table: pa.Table, path: Path, kind: str = 'parquet', rows: int | None = None) -> Path:
    """Writes a table as `parquet`, `arrow` (the file format) or `stream`.

    Args:
        table: The table.
        path: Where; its folder is made.
        kind: The format.
        rows: Of a row group, or of a record batch.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == 'parquet':
        pq.write_table(table, path, row_group_size=rows)
        return path
    new = pa.ipc.new_file if kind == 'arrow' else pa.ipc.new_stream
    with pa.OSFile(str(path), 'wb') as file, new(file, table.schema) as writer:
        writer.write_table(table, rows)
    return path


def read(source: Source) -> tuple[list[dict[str, Any]], list[BadRecord]]:
    """The samples of a source, each with `PLACE`, and its bad records."""
    rows: list[dict[str, Any]] = []
    bad: list[BadRecord] = []
    for element in source.iterate():
        if isinstance(element, BadRecord):
            bad.append(element)
        elif isinstance(element, pa.RecordBatch):
            element.validate(full=True)
            rows += element.to_pylist()
        else:
            rows.append(dict(element))
    return rows, bad


def values(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The samples without their places."""
    return [{name: value for name, value in row.items() if name != PLACE} for row in rows]


def places(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The places of the samples, without the files."""
    return [{name: value for name, value in row[PLACE].items() if name != 'file'} for row in rows]

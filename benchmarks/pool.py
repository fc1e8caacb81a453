"""The alternative: a process pool of `MDSWriter`s, then `merge_index`.

Runs in the interpreter that has `mosaicml-streaming`, as `python -m benchmarks.pool`. One task per
Parquet file writes a sub-directory; `merge_index` joins them. The loops are what someone writes who
knows pyarrow: batches of rows, one conversion per batch, no copy per sample where none is needed.

Prints one JSON line: the seconds from before the pool is made until after `merge_index`, which is
after imports and before the interpreter ends.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import cases, warm
from benchmarks.mosaic import MDSWriter, merge_index


@dataclass(frozen=True)
class _Task:
    """One Parquet file and the sub-directory to write it to."""

    source: Path
    out: Path
    columns: Mapping[str, str]
    compression: str | None
    batch_rows: int


def _rows(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """The batch's rows; a list column's values as views of one numpy array."""
    if not pa.types.is_list(batch.schema.field(0).type):
        yield from batch.to_pylist()
        return
    name, column = batch.schema.names[0], batch.column(0)
    values = column.values.to_numpy()
    for start, stop in itertools.pairwise(column.offsets.to_pylist()):
        yield {name: values[start:stop]}


def _write_file(task: _Task) -> None:
    with MDSWriter(
        out=str(task.out),
        columns=dict(task.columns),
        compression=task.compression,
        size_limit=cases.SIZE_LIMIT,
    ) as out:
        for batch in pq.ParquetFile(task.source).iter_batches(task.batch_rows):
            for row in _rows(batch):
                out.write(row)


def write(
    case: cases.Case, source: Path, out: Path, compression: str | None, processes: int
) -> float:
    """Writes a workload and returns the seconds it took."""
    tasks = [
        _Task(path, out / f'{i:05}', case.columns, compression, case.batch_rows)
        for i, path in enumerate(sorted(source.glob('*.parquet')))
    ]
    start = time.perf_counter()
    with multiprocessing.get_context('fork').Pool(processes) as pool:
        pool.map(_write_file, tasks, chunksize=1)
    merge_index(str(out), keep_local=True)
    return time.perf_counter() - start


def main() -> None:
    """Writes one workload and prints the seconds."""
    parser = argparse.ArgumentParser(description='Write a workload with a pool of MDSWriters.')
    parser.add_argument('--case', choices=list(cases.CASES), required=True)
    parser.add_argument('--source', type=Path, required=True, help='folder of Parquet files')
    parser.add_argument('--out', type=Path, required=True, help='dataset folder, not there yet')
    parser.add_argument('--compression')
    parser.add_argument('--processes', type=int, default=cases.POOL_PROCESSES)
    parser.add_argument('--warm', type=int, default=0, help='MB of memory to touch first')
    args = parser.parse_args()
    warm.touch(args.warm)
    case = cases.CASES[args.case]
    seconds = write(case, args.source, args.out, args.compression, args.processes)
    print(json.dumps({'seconds': seconds}))


if __name__ == '__main__':
    main()

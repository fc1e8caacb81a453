"""The other way of `jsonl.py`, in the interpreter that has `mosaicml-streaming`."""

from __future__ import annotations

import argparse
import io
import json
import multiprocessing
import time
from pathlib import Path

import pyarrow as pa

from benchmarks import cases, warm
from benchmarks.mosaic import MDSWriter, merge_index

_COLUMNS = {'text': 'str', 'pile_set_name': 'str'}


def _write_file(task: tuple[Path, Path, str | None]) -> None:
    source, out, compression = task
    with (
        MDSWriter(
            out=str(out), columns=_COLUMNS, compression=compression, size_limit=cases.SIZE_LIMIT
        ) as writer,
        pa.input_stream(str(source), compression='zstd') as stream,
    ):
        for line in io.BufferedReader(stream, 1 << 20):
            record = json.loads(line)
            writer.write({'text': record['text'], 'pile_set_name': record['meta']['pile_set_name']})


def main() -> None:
    """Writes the files and prints the seconds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--source', type=Path, required=True)
    parser.add_argument('--out', type=Path, required=True)
    parser.add_argument('--compression')
    parser.add_argument('--warm', type=int, default=0)
    args = parser.parse_args()
    warm.touch(args.warm)
    sources = sorted(args.source.glob('*.jsonl.zst'))
    tasks = [(path, args.out / f'{i:05}', args.compression) for i, path in enumerate(sources)]
    start = time.perf_counter()
    with multiprocessing.get_context('fork').Pool(cases.POOL_PROCESSES) as pool:
        pool.map(_write_file, tasks, chunksize=1)
    merge_index(str(args.out), keep_local=True)
    print(json.dumps({'seconds': time.perf_counter() - start}))


if __name__ == '__main__':
    main()

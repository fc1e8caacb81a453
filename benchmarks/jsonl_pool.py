"""The other ways of `jsonl.py`, in the interpreter that has `mosaicml-streaming`.

`script`: as its Pile script has it: each file is unpacked, then `file_to_dir` of that script.
`stream`: the same without its checks, its progress bar and the file in between.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import multiprocessing
import shutil
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


def _run_script(task: tuple[Path, Path, str | None]) -> None:
    from streaming.text.convert.pile import file_to_dir

    source, out, compression = task
    unpacked = source.with_name(f'{out.name}.jsonl')
    with pa.input_stream(str(source), compression='zstd') as packed, unpacked.open('wb') as file:
        shutil.copyfileobj(packed, file, 1 << 20)
    with contextlib.redirect_stderr(io.StringIO()):  # the progress bar
        file_to_dir((str(unpacked), str(out), compression, [], cases.SIZE_LIMIT))
    unpacked.unlink()


_WAYS = {'script': _run_script, 'stream': _write_file}


def main() -> None:
    """Writes the files and prints the seconds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--source', type=Path, required=True)
    parser.add_argument('--out', type=Path, required=True)
    parser.add_argument('--compression')
    parser.add_argument('--way', choices=_WAYS, required=True)
    parser.add_argument('--warm', type=int, default=0)
    args = parser.parse_args()
    warm.touch(args.warm)
    sources = sorted(args.source.glob('*.jsonl.zst'))
    tasks = [(path, args.out / f'{i:05}', args.compression) for i, path in enumerate(sources)]
    start = time.perf_counter()
    with multiprocessing.get_context('fork').Pool(cases.POOL_PROCESSES) as pool:
        pool.map(_WAYS[args.way], tasks, chunksize=1)
    merge_index(str(args.out), keep_local=True)
    print(json.dumps({'seconds': time.perf_counter() - start}))


if __name__ == '__main__':
    main()

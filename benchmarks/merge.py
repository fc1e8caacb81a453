"""Time and peak memory of a merge against the number of shards: `python -m benchmarks.merge`.

Makes datasets of empty shard files (a merge looks only at names and sizes) in a folder that should
be on tmpfs, and merges them: for the first time, again, and after one part was added, which has the
index that is there compared shard by shard.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks import process, report

PARTS, SHARDS = (100, 1_000, 10_000), 100
"""Datasets that are merged, and shards of each."""

FIRST, AGAIN, ONE_MORE = 'first', 'again', 'one more part'

_COLUMNS = {'text': 'str', 'tokens': 'ndarray:int32', 'number': 'int64'}


def make(folder: Path, parts: range, shards: int) -> None:
    """Makes datasets `part-0`, `part-1`, ... that look like those of WriteToMDS, but are empty."""
    from beam_mds.format import Columns, FileInfo, ShardConfig, ShardInfo, dump_index

    config = ShardConfig(Columns(_COLUMNS), 'zstd', ('xxh3_64',))
    for part in parts:
        place = folder / f'part-{part}'
        place.mkdir(parents=True)
        infos = []
        for shard in range(shards):
            name = f'shard.{shard:05}.{part * shards + shard:016x}.mds'
            (place / f'{name}.zstd').touch()
            hashes = {'xxh3_64': f'{shard:016x}'}
            raw, stored = FileInfo(name, 67_000_000, hashes), FileInfo(f'{name}.zstd', 0, hashes)
            infos.append(ShardInfo(config, 10_000, raw, stored))
        (place / 'index.json').write_bytes(dump_index(infos))


def merge_once(out: str) -> None:
    """Merges, and prints a JSON object for `measure`."""
    from beam_mds import merge_indexes

    before = _peak_bytes()
    start = time.monotonic()
    merged = merge_indexes(out)
    seconds = time.monotonic() - start
    peak = _peak_bytes()
    print(json.dumps({**merged._asdict(), 'seconds': seconds, 'before': before, 'peak': peak}))


def measure(folder: Path, parts: int, shards: int) -> dict[str, str]:
    """What each kind of merge takes."""
    process.say(f'{parts} parts of {shards} shards')
    make(folder, range(parts), shards)
    cells = {}
    for kind in (FIRST, AGAIN, ONE_MORE):
        if kind == ONE_MORE:
            make(folder, range(parts, parts + 1), shards)
        command = [sys.executable, '-m', 'benchmarks.merge', '--once', str(folder)]
        found = process.run(command, watch_memory=False).report
        if found['changed'] != (kind != AGAIN) or found['shards'] < parts * shards:
            raise process.MeasurementError(f'{kind}: {found}')
        megabytes = [report.megabytes(found[name]) for name in ('before', 'peak')]
        cells[kind] = f'{found["seconds"]:.1f} s, {" -> ".join(megabytes)} MB'
        process.say(f'  {kind}: {cells[kind]}')
    size = (folder / 'index.json').stat().st_size
    return {'index': f'{report.megabytes(size)} MB', **cells}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add('--parts', default=','.join(map(str, PARTS)))
    add('--shards', type=int, default=SHARDS, help='of each part')
    add('--data', type=Path, default=Path('/dev/shm/beam-mds-merge'), help='is made and deleted')
    add('--once', metavar='FOLDER', help='merge this, and print what it took')
    args = parser.parse_args(arguments)
    if args.once:
        merge_once(args.once)
        return 0
    rows = []
    for parts in map(int, args.parts.split(',')):
        try:
            cells = measure(args.data, parts, args.shards)
        finally:
            shutil.rmtree(args.data, ignore_errors=True)
        rows.append([f'{parts * args.shards:,}', *cells.values()])
    facts = [
        f'Ours: {process.python_of(sys.executable)}',
        'Cells: time of the merge; most memory of the process before it -> after it.',
    ]
    head = ['shards', 'index', FIRST, AGAIN, ONE_MORE]
    print(report.heading(facts), report.markdown(head, rows), sep='\n\n')
    return 0


def _peak_bytes() -> int:
    """The most memory that this process had so far."""
    (line,) = [
        line for line in Path('/proc/self/status').read_text().splitlines() if 'VmHWM' in line
    ]
    return int(line.split()[1]) << 10


if __name__ == '__main__':
    sys.exit(main())

"""jsonl.zst -> MDS: `pipelines.jsonl` against the way of streaming's Pile script.

`python -m benchmarks.jsonl`. The other ways (`jsonl_pool.py`) are process pools of two, one task a
file with an `MDSWriter` of its own, then `merge_index`: the script itself, which needs unpacked
files, and the same work written as well as it can be.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import zstandard

from benchmarks import data, process, report, rounds, warm
from benchmarks.rounds import Job
from benchmarks.run import interop_python
from benchmarks.writes import write_once
from pipelines import conversion

COLUMNS = {'pile_set_name': 'str', 'text': 'str'}

# Documents of the Pile have 6 KB on average (Gao et al. 2020, table 1); 8 of `data.py`'s texts are
# about as long.
_DOCUMENTS, _TEXTS, _FILES = 160_000, 12, 8

_SETS = ('Pile-CC', 'PubMed Central', 'Books3', 'OpenWebText2', 'ArXiv', 'Github')

_BAR = 2.0

_TITLE = 'jsonl.zst, Pile'


def ensure(folder: Path, documents: int) -> Path:
    """Makes the input unless it is there: files like those of the Pile."""
    target = folder / f'jsonl-v1-{documents}x{_FILES}'
    if target.is_dir():
        return target
    staging = folder / f'{target.name}-staging'
    staging.mkdir(parents=True, exist_ok=True)
    for number in range(_FILES):
        rng = np.random.default_rng([7, number])
        count = documents // _FILES
        texts = data.make_text(rng, count * _TEXTS)['text'].to_pylist()
        lines = []
        for at in range(count):
            document = '\n'.join(texts[at * _TEXTS : (at + 1) * _TEXTS])
            meta = {'pile_set_name': _SETS[rng.integers(len(_SETS))]}
            lines.append(json.dumps({'text': document, 'meta': meta}) + '\n')
        packed = zstandard.compress(''.join(lines).encode(), 3)
        (staging / f'{number:02}.jsonl.zst').write_bytes(packed)
    staging.rename(target)
    return target


def jobs(folder: Path, documents: int, interop: str, options: Sequence[str]) -> list[Job]:
    """The runs of one round: for each compression the pool, then ours."""
    source = ensure(folder, documents)
    found = []
    for compression in (None, 'zstd'):
        more = [f'--source={source}', *([f'--compression={compression}'] if compression else [])]
        for name, way in ((report.POOL, 'script'), ('pool, streamed', 'stream')):
            pool = [interop, '-m', 'benchmarks.jsonl_pool', f'--way={way}', *more]
            found.append(_job(name, compression, pool, documents, folder))
        for order in ('arrival', 'shuffled'):
            ours = [sys.executable, '-m', 'benchmarks.jsonl', f'--order={order}', *more, *options]
            bar = _BAR if order == 'arrival' else None
            found.append(_job(order, compression, ours, documents, folder, bar))
    return found


def _job(
    name: str,
    compression: str | None,
    command: Sequence[str],
    documents: int,
    folder: Path,
    bar: float | None = None,
) -> Job:
    series = report.Series(_TITLE, name, compression, bar)
    return Job(functools.partial(write_once, command, documents, folder / 'out'), series)


def _write(args: argparse.Namespace, rest: Sequence[str]) -> None:
    """One run of ours; prints the seconds."""
    warm.touch(args.warm)
    start = time.perf_counter()
    options = [
        f'--input={args.source}',
        f'--output={args.out}',
        '--columns=text=str,meta.pile_set_name=str',
        '--rename=meta.pile_set_name=pile_set_name',
        f'--order={args.order}',
        f'--compression={args.compression or "none"}',
        *rest,
    ]
    _, result = conversion.run('jsonl', options)
    result.wait_until_finish()
    print(json.dumps({'seconds': time.perf_counter() - start}))


def main() -> int:
    """Runs side by side and prints a table; with --out, one run of ours."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--runs', type=int, default=5)
    parser.add_argument('--documents', type=int, default=_DOCUMENTS)
    parser.add_argument('--data', type=Path, default=data.default_folder())
    parser.add_argument('--max-others', type=float, default=1.0)
    parser.add_argument('--source', type=Path, help='of one run')
    parser.add_argument('--out', type=Path, help='of one run')
    parser.add_argument('--order', default='arrival')
    parser.add_argument('--compression')
    parser.add_argument('--warm', type=int, default=0)
    args, rest = parser.parse_known_args()
    if args.out:
        _write(args, rest)
        return 0
    process.end_children_when_terminated()
    documents = args.documents - args.documents % _FILES
    runs = jobs(args.data.absolute(), documents, interop_python(), ['--runner=FnApiRunner', *rest])
    series = rounds.run(runs, [True] + [False] * args.runs, args.max_others)
    print(report.comparison(series), report.disturbance(series), sep='\n\n')
    return int(any(one.failure for one in series))


if __name__ == '__main__':
    sys.exit(main())

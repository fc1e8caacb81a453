"""Fetching 20,000 images: `pipelines.urls` against img2dataset, from one local nginx.

`python -m benchmarks.urls`. One URL in 20 answers 404. Both ask for as many at once: img2dataset
with 2 processes of 64 threads, ours with 128 in one process. No image is decoded. The seconds of
img2dataset are its own, from the beginning of its first shard to the end of its last; ours are
those of the whole pipeline. Both without imports.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks import data, machine, process, report, rounds, warm, web
from benchmarks.dataset import Written
from benchmarks.rounds import Job
from pipelines import conversion
from pipelines.report import counters_of

IMAGES = 20_000
"""Rows of the table."""

_BAD = 20  # one in so many is not there

_PROCESSES, _THREADS = 2, 64

_BAR = 1.5

_TITLE = '20,000 JPEG files of 30 KB'
_BASE = 'img2dataset'


def img2dataset_python() -> str:
    """The one with img2dataset: `$BEAM_MDS_IMG2DATASET_PYTHON` or .venv-img2dataset's."""
    local = process.REPOSITORY / '.venv-img2dataset' / 'bin' / 'python'
    return os.environ.get('BEAM_MDS_IMG2DATASET_PYTHON', str(local))


def make_table(folder: Path, base: str, count: int) -> Path:
    """A table of URLs and captions; one URL in `_BAD` is not there."""
    path = folder / 'urls.csv'
    lines = ['url,caption']
    for number in range(count):
        name = f'absent-{number}' if number % _BAD == 0 else f'{number:06}'
        lines.append(f'{base}/{name}.jpg,the caption of image {number}')
    path.write_text('\n'.join(lines) + '\n')
    return path


def jobs(folder: Path, table: Path, count: int, options: Sequence[str]) -> list[Job]:
    """The runs of one round: img2dataset, then ours in both orders."""
    theirs = [
        img2dataset_python(), '-m', 'benchmarks.urls_img2dataset', f'--table={table}',
        f'--processes={_PROCESSES}', f'--threads={_THREADS}',
    ]  # fmt: skip
    found = [_job(_BASE, theirs, count, folder)]
    for order in ('arrival', 'shuffled'):
        ours = [sys.executable, '-m', 'benchmarks.urls', f'--table={table}', f'--order={order}']
        found.append(_job(order, [*ours, *options], count, folder, _BAR))
    return found


def _job(
    name: str, command: Sequence[str], count: int, folder: Path, bar: float | None = None
) -> Job:
    series = report.Series(_TITLE, name, None, bar)
    return Job(functools.partial(_fetch_once, command, count, folder), series)


def _fetch_once(
    command: Sequence[str], count: int, folder: Path, watch_memory: bool
) -> tuple[report.Measurement, int | None]:
    """One run into a fresh folder, which is deleted.

    Raises:
        process.MeasurementError: It failed, or an outcome is not told.
    """
    with tempfile.TemporaryDirectory(
        prefix='run-', dir=folder, ignore_cleanup_errors=True
    ) as parent:
        out = Path(parent, 'out')
        if 'img2dataset' in command[2]:
            out.mkdir()
        machine.settle()
        watch = machine.Watch.start()
        done = process.run([*command, f'--out={out}'], watch_memory=watch_memory)
        others = watch.others(done.cpu_seconds)
    fetched, failed = done.report['fetched'], done.report['failed']
    if (fetched, failed) != (count - count // _BAD, count // _BAD):
        raise process.MeasurementError(
            f'{fetched} fetched and {failed} failed of {count}: some outcome is not told'
        )
    written = Written(fetched, 0, 0, 0)
    measurement = report.Measurement(
        done.report['seconds'], done.wall_seconds, done.cpu_seconds, others, written
    )
    return measurement, done.peak_bytes


def _run_ours(args: argparse.Namespace, rest: Sequence[str]) -> None:
    """One run of ours; prints the seconds and what became of the URLs."""
    warm.touch(args.warm)
    together = _PROCESSES * _THREADS
    start = time.perf_counter()
    options = [
        f'--input={args.table}', f'--output={args.out}', f'--order={args.order}',
        '--bytes_column=jpg', f'--concurrency={together}', f'--per_host={together}',
        '--allow_private_hosts', '--max_error_ratio=1', *rest,
    ]  # fmt: skip
    _, result = conversion.run('urls', options)
    result.wait_until_finish()
    seconds = time.perf_counter() - start
    counters = counters_of(result)
    failed = sum(
        count
        for name, count in counters.items()
        if name.startswith('urls_') and name != 'urls_fetched'
    )
    letters = len(Path(f'{args.out}.errors.jsonl').read_text().splitlines())
    if failed != letters or counters['urls_fetched'] != counters['samples_written']:
        sys.exit(f'{counters}, {letters} errors: they do not add up')
    print(json.dumps({'seconds': seconds, 'fetched': counters['urls_fetched'], 'failed': failed}))


def table(all_series: Sequence[report.Series], count: int) -> str:
    """Images a second of each, against img2dataset."""
    base = all_series[0]
    rows = []
    for one in all_series:
        if one.failure or not one.runs or not base.runs:
            rows.append([_TITLE, one.name, 'FAILED' if one.failure else '-', *['-'] * 6])
            continue
        ratio = report.ratio_of_medians(base.seconds, one.seconds)
        pairs = report.median_of_ratios(base.seconds, one.seconds)
        cpu = statistics.median(run.cpu_seconds for run in one.runs)
        rows.append(
            [
                _TITLE,
                one.name,
                report.spread(one.seconds),
                f'{count / statistics.median(one.seconds):,.0f}',
                f'{cpu:.1f}',
                f'{ratio:.2f}',
                f'{pairs:.2f}',
                report.verdict(ratio, one.bar),
                report.megabytes(one.peak_bytes),
            ]
        )
    head = ['workload', 'fetched by', 'seconds: median (min-max)', 'URLs/s', 'CPU s']
    return report.markdown([*head, f'x {_BASE}', f'x {_BASE}, pairs', 'bar', 'peak MB'], rows)


def main() -> int:
    """Runs side by side and prints a table; with --out, one run of ours."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--runs', type=int, default=5)
    parser.add_argument('--images', type=int, default=IMAGES)
    parser.add_argument('--data', type=Path, default=data.default_folder())
    parser.add_argument('--max-others', type=float, default=1.0)
    parser.add_argument('--table', type=Path, help='of one run')
    parser.add_argument('--out', type=Path, help='of one run')
    parser.add_argument('--order', default='arrival')
    parser.add_argument('--warm', type=int, default=0)
    args, rest = parser.parse_known_args()
    if args.out:
        _run_ours(args, rest)
        return 0
    if not Path(img2dataset_python()).exists():
        parser.error(
            f'no interpreter with img2dataset at {img2dataset_python()}: run '
            '.ci/make-img2dataset-venv, or name one with BEAM_MDS_IMG2DATASET_PYTHON'
        )
    process.end_children_when_terminated()
    folder = args.data.absolute()
    count = args.images - args.images % _BAD
    images = web.ensure_images(folder, count)
    with web.serve(images) as base, tempfile.TemporaryDirectory(dir=folder) as scratch:
        source = make_table(Path(scratch), base, count)
        runs = jobs(Path(scratch), source, count, ['--runner=FnApiRunner', *rest])
        series = rounds.run(runs, [True] + [False] * args.runs, args.max_others)
    facts = [
        f'{_BASE}: {_PROCESSES} processes of {_THREADS} threads',
        f'Ours: {process.python_of(sys.executable)}',
        f'Server: {web.version()}, one worker',
        report.MEMORY_NOTE,
    ]
    print(report.heading(facts), table(series, count), report.disturbance(series), sep='\n\n')
    return int(any(one.failure for one in series))


if __name__ == '__main__':
    sys.exit(main())

"""Peak memory of our write against the size of the input: `python -m benchmarks.memory`.

Writes 0.5, 1, 2 and 4 GB of text in both orders and watches the memory of the whole process tree,
the runner's processes included. It must not grow with the input.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks import cases, data, process, report
from benchmarks.writes import ours_command, write_once

SIZES_GB = (0.5, 1.0, 2.0, 4.0)
"""Text written, in 10**9 bytes."""

_GB = 10**9


def _samples(gigabytes: float) -> int:
    return round(gigabytes * _GB / cases.TEXT_BYTES)


def _files(gigabytes: float) -> int:
    """Parquet files, each as large as one of the text workload's."""
    return max(1, round(_samples(gigabytes) * cases.FILES / cases.TEXT.samples))


@contextmanager
def _first_files(source: Path, count: int) -> Iterator[Path]:
    """A folder of links to the first files."""
    with tempfile.TemporaryDirectory() as folder:
        for path in sorted(source.glob('*.parquet'))[:count]:
            Path(folder, path.name).symlink_to(path.absolute())
        yield Path(folder)


def measure(
    source: Path, gigabytes: float, order: str, runner: Sequence[str], folder: Path
) -> tuple[int | None, float]:
    """Peak bytes of the process tree, and seconds, of one write."""
    config = cases.Config(order)
    with _first_files(source, _files(gigabytes)) as files:
        samples = data.describe(files)['samples']
        command = ours_command(cases.TEXT, config, files, runner)
        run, peak = write_once(command, samples, folder, watch_memory=True)
    return peak, run.seconds


def table(sizes: Sequence[float], rows: dict[tuple[str, str], list[str]]) -> str:
    """Peak MB and seconds by runner and order."""
    head = ['runner', 'order', 'unit', *(f'{size:g} GB' for size in sizes)]
    body = [[runner, order, 'MB (s)', *cells] for (runner, order), cells in rows.items()]
    return report.markdown(head, body)


def _runners(wanted: str, prism: str | None) -> dict[str, list[str]]:
    """Arguments for `benchmarks.ours` by runner."""
    found = {name: [f'--runner={name}'] for name in wanted.split(',')}
    if 'prism' in found and prism:
        found['prism'].append(f'--prism_location={prism}')
    elif found.pop('prism', None):
        process.say('no prism program on PATH and no --prism_location: without Prism')
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and prints the table; 1 if a write failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add('--sizes', default=','.join(f'{size:g}' for size in SIZES_GB), help='GB of text')
    add('--orders', default='arrival,shuffled')
    add('--runners', default='fnapi,prism')
    add('--prism_location', default=shutil.which('prism'), help='the Prism program')
    add('--data', type=Path, default=data.default_folder(), help='cache and scratch folder')
    add('--seed', type=int, default=0)
    args = parser.parse_args(arguments)
    process.end_children_when_terminated()
    sizes = [float(size) for size in args.sizes.split(',')]
    folder = args.data.absolute()
    largest = max(sizes)
    process.say(f'input: {largest:g} GB of text')
    source = data.ensure_files(cases.TEXT, folder, _samples(largest), _files(largest), args.seed)
    rows: dict[tuple[str, str], list[str]] = {}
    failed = False
    for runner, options in _runners(args.runners, args.prism_location).items():
        for order in args.orders.split(','):
            cells = rows.setdefault((runner, order), [])
            for size in sizes:
                try:
                    peak, seconds = measure(source, size, order, options, folder / 'out')
                    cells.append(f'{report.megabytes(peak)} ({seconds:.0f})')
                except process.MeasurementError as error:
                    process.say(f'FAILED: {error}')
                    cells.append('FAILED')
                    failed = True
                process.say(f'{runner}, {order}, {size:g} GB: {cells[-1]}')
    facts = [f'Ours: {process.python_of(sys.executable)}', report.MEMORY_NOTE]
    print(report.heading(facts), table(sizes, rows), sep='\n\n')
    return int(failed)


if __name__ == '__main__':
    sys.exit(main())

"""One write of one workload: its command, and running it into a fresh folder."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks import cases, machine, process, report
from benchmarks.dataset import count


def ours_command(
    case: cases.Case, config: cases.Config, source: Path, options: Sequence[str]
) -> list[str]:
    """The command that writes a workload with `WriteToMDS`, without `--out`.

    Args:
        case: The workload.
        config: The way of writing it.
        source: The workload's Parquet files.
        options: Options that name the runner, and any others of the pipeline.
    """
    command = [sys.executable, '-m', 'benchmarks.ours', f'--case={case.name}']
    command += [f'--source={source}', f'--order={config.order}', f'--elements={config.elements}']
    if config.compression:
        command.append(f'--compression={config.compression}')
    if config.inline:
        command.append('--inline')
    return [*command, *options]


def pool_command(case: cases.Case, compression: str | None, source: Path, python: str) -> list[str]:
    """The command that writes a workload with a pool of `MDSWriter`s, without `--out`."""
    command = [python, '-m', 'benchmarks.pool', f'--case={case.name}', f'--source={source}']
    return [*command, *([f'--compression={compression}'] if compression else [])]


def write_once(
    command: Sequence[str], samples: int, folder: Path, watch_memory: bool
) -> tuple[report.Measurement, int | None]:
    """Runs one write into a fresh folder, checks what it wrote and deletes it.

    Args:
        command: The write, without `--out`.
        samples: How many must have been written.
        folder: Where the fresh folder is made.
        watch_memory: Measure memory too, which makes the run somewhat slower.

    Returns:
        The measurement, and the peak memory in bytes if it was watched.

    Raises:
        process.MeasurementError: The write failed, or wrote something else than what went in.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(
        prefix='run-', dir=folder, ignore_cleanup_errors=True
    ) as parent:
        machine.settle()
        watch = machine.Watch.start()
        out = Path(parent, 'dataset')
        warm = [] if watch_memory else [f'--warm={cases.WARM_MEGABYTES}']
        done = process.run([*command, f'--out={out}', *warm], watch_memory=watch_memory)
        measurement = report.Measurement(
            seconds=done.report['seconds'],
            wall_seconds=done.wall_seconds,
            cpu_seconds=done.cpu_seconds,
            others=watch.others(done.cpu_seconds),
            written=count(out, samples),
        )
        return measurement, done.peak_bytes

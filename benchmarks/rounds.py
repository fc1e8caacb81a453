"""Jobs in turn, round by round: what side-by-side measurements have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from benchmarks import machine, process, report

_ATTEMPTS = 4

# Runs once and gives the measurement, and the peak memory in bytes if it is told to watch it.
Once: TypeAlias = Callable[[bool], tuple[report.Measurement, int | None]]


@dataclass(frozen=True)
class Job:
    """A program that is measured, and where its measurements go."""

    once: Once
    series: report.Series


def run(jobs: Sequence[Job], rounds: Sequence[bool], max_others: float) -> list[report.Series]:
    """Runs all jobs in turn, once for each round.

    Args:
        jobs: What is measured.
        rounds: One entry per round: whether it is a warm-up; memory is measured in these.
        max_others: Share of the CPUs that other processes may take during a run that counts; one
            with more is repeated, `_ATTEMPTS` times in all.
    """
    for warmup in rounds:
        for job in jobs:
            _run_job(job, max_others, warmup=warmup)
    return [job.series for job in jobs]


def _quiet_run(
    job: Job, max_others: float, *, warmup: bool
) -> tuple[report.Measurement, int | None]:
    """One run; again, a few times, if other processes took too much of the machine meanwhile."""
    for attempt in range(1, _ATTEMPTS + 1):
        machine.wait_for_quiet(max_others)
        run, peak = job.once(warmup)
        if warmup or (run.others or 0) <= max_others:
            break
        process.say(f'others took {run.others:.0%} of the CPUs: attempt {attempt} of {_ATTEMPTS}')
    return run, peak


def _run_job(job: Job, max_others: float, *, warmup: bool) -> None:
    series = job.series
    if series.failure:
        return
    label = f'{series.workload}, {series.name}, {series.compression or "raw"}'
    try:
        run, peak = _quiet_run(job, max_others, warmup=warmup)
    except process.MeasurementError as error:
        series.failure = str(error)
        process.say(f'{label}: FAILED: {error}')
        return
    if warmup:
        series.peak_bytes = max(series.peak_bytes or 0, peak or 0) or None
        note = f'warm-up, peak {report.megabytes(peak)} MB'
    else:
        series.runs.append(run)
        note = f'{run.cpu_seconds:.1f} s CPU'
    process.say(f'{label}: {run.seconds:.2f} s, {note}, others {run.others or 0:.0%}')

"""Measurements and the Markdown table made of them."""

from __future__ import annotations

import datetime as dt
import os
import platform
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from benchmarks import process
from benchmarks.dataset import Written

POOL = 'pool'
"""Name of the series that other writes are compared with."""

STREAMING = 'StreamingDataset'
"""Name of the series that other reads are compared with."""


@dataclass(frozen=True)
class Measurement:
    """One run.

    Attributes:
        seconds: What the program measured itself, imports excluded.
        wall_seconds: The whole process.
        cpu_seconds: User and system time of the process and its children.
        others: Share of the machine's CPUs that other processes took meanwhile, 0 to 1, if known.
        written: The dataset that came out, or that was read.
    """

    seconds: float
    wall_seconds: float
    cpu_seconds: float
    others: float | None
    written: Written


@dataclass
class Series:
    """All runs of one way of writing, or reading, one workload.

    Attributes:
        workload: Title of the workload.
        name: `pool` or `StreamingDataset`, or the configuration's name.
        compression: None for raw shards.
        bar: Least ratio of medians, that one's / this one's; None if there is none.
        runs: Those that count, in order.
        peak_bytes: Highest PSS of the process tree, from the warm-up runs.
        failure: Why there are no more runs, if so.
    """

    workload: str
    name: str
    compression: str | None
    bar: float | None = None
    runs: list[Measurement] = field(default_factory=list)
    peak_bytes: int | None = None
    failure: str | None = None

    @property
    def seconds(self) -> list[float]:
        """Seconds of each run."""
        return [run.seconds for run in self.runs]


def ratio_of_medians(pool: Sequence[float], ours: Sequence[float]) -> float:
    """How many times as fast ours is, by the medians."""
    return statistics.median(pool) / statistics.median(ours)


def median_of_ratios(pool: Sequence[float], ours: Sequence[float]) -> float:
    """The median over rounds of how many times as fast ours was in that round."""
    return statistics.median(a / b for a, b in zip(pool, ours, strict=False))


def verdict(ratio: float, bar: float | None) -> str:
    """The bar, and whether it was reached."""
    if bar is None:
        return '-'
    return f'{bar:g} {"ok" if ratio >= bar else "MISSED"}'


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Median (least-greatest)."""
    numbers = (statistics.median(values), min(values), max(values))
    median, low, high = (f'{number:.{digits}f}' for number in numbers)
    return f'{median} ({low}-{high})'


def megabytes(count: int | None) -> str:
    """Millions of bytes, or `-`."""
    return '-' if count is None else f'{count / 1e6:,.0f}'


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; all columns but the first three are numbers."""
    rule = ['---' if i < 3 else '--:' for i in range(len(head))]
    return '\n'.join(f'| {" | ".join(row)} |' for row in (head, rule, *rows))


def comparison(all_series: Sequence[Series], *, reads: bool = False) -> str:
    """The table of all workloads, each series beside the alternative with the same compression.

    Args:
        all_series: The rows.
        reads: Whether workloads were read, not written.
    """
    base = STREAMING if reads else POOL
    bases = {(s.workload, s.compression): s for s in all_series if s.name == base}
    rows = [_row(s, bases.get((s.workload, s.compression)), reads=reads) for s in all_series]
    head = ['workload', 'read by' if reads else 'written by', 'compression']
    head += ['seconds: median (min-max)', 'k samples/s' if reads else 'MB/s']
    return markdown([*head, f'x {base}', f'x {base}, pairs', 'bar', 'peak MB'], rows)


def _row(series: Series, base: Series | None, *, reads: bool) -> list[str]:
    start = [series.workload, series.name, series.compression or 'raw']
    if series.failure or not series.runs:
        return [*start, 'FAILED' if series.failure else 'no runs', '-', '-', '-', '-', '-']
    written = series.runs[0].written
    amount = written.samples / 1e3 if reads else written.raw_bytes / 1e6
    rate = amount / statistics.median(series.seconds)
    if base is None or not base.runs or not written.samples:
        ratios = ['-', '-', '-']
    elif base is series:
        ratios = ['1', '1', '-']
    else:
        ratio = ratio_of_medians(base.seconds, series.seconds)
        pairs = median_of_ratios(base.seconds, series.seconds)
        ratios = [f'{ratio:.2f}', f'{pairs:.2f}', verdict(ratio, series.bar)]
    peak = megabytes(series.peak_bytes)
    return [*start, spread(series.seconds), f'{rate:,.0f}', *ratios, peak]


def disturbance(all_series: Sequence[Series]) -> str:
    """What other processes took while the counted runs went on."""
    shares = [run.others for one in all_series for run in one.runs if run.others is not None]
    if not shares:
        return 'How busy the machine was otherwise is not known.'
    return (
        'Other processes took this share of the CPUs during the counted runs: median '
        f'{statistics.median(shares):.0%}, at most {max(shares):.0%}.'
    )


MEMORY_NOTE = (
    f'Memory: {process.MEMORY_MEASURE} of the whole process tree, every '
    f'{process.SAMPLE_SECONDS * 1000:.0f} ms, in runs whose time does not count.'
)


def heading(facts: Sequence[str]) -> str:
    """When and where, as a list that stands above a table."""
    memory = os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30
    machine = (
        f'{dt.datetime.now(dt.timezone.utc):%Y-%m-%d}, {os.cpu_count()} cores, '
        f'{memory:.0f} GiB, {platform.system()} {platform.machine()}'
    )
    return '\n'.join(f'- {line}' for line in (machine, *facts))

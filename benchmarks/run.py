"""The side-by-side runs: `python -m benchmarks.run` (see README.md in this folder)."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import cases, data, process, read, report, rounds, text_tokens
from benchmarks.rounds import Job
from benchmarks.writes import ours_command, pool_command, write_once

# Cases beside the workloads that are written.
_OTHERS = ('encoder', 'read', 'text_tokens')

_ENCODERS = ('encode_sample', 'write', 'dicts', 'record batches')


@dataclass(frozen=True)
class Settings:
    """What all runs share.

    Attributes:
        folder: Where input is cached and, in a folder of their own, datasets are written.
        scale: Fraction of the full workload.
        runs: Rounds that count.
        warmups: Rounds before them; memory is measured in these.
        interop: The interpreter that has `mosaicml-streaming`.
        runner: As `ours.runner_options` takes it.
        pipeline_options: Where the runner's program is, and others, for our writes.
        seed: Seed of the input.
        inline: Also run shuffled writes with inline blocks.
        configs: Names of the configurations wanted; all if empty.
        max_others: Share of the CPUs that other processes may take during a run; a run with more
            is repeated, a few times.
    """

    folder: Path
    scale: float
    runs: int
    warmups: int
    interop: str
    runner: str
    pipeline_options: tuple[str, ...]
    seed: int
    inline: bool
    configs: frozenset[str]
    max_others: float

    @property
    def options(self) -> list[str]:
        """Options of our pipelines, the runner among them."""
        return [f'--runner={self.runner}', *self.pipeline_options]

    @property
    def rounds(self) -> list[bool]:
        """One entry per round: whether it is a warm-up."""
        return [True] * self.warmups + [False] * self.runs


def interop_python() -> str:
    """The interpreter with mosaicml-streaming: `$BEAM_MDS_INTEROP_PYTHON` or .venv-interop's."""
    local = process.REPOSITORY / '.venv-interop' / 'bin' / 'python'
    return os.environ.get('BEAM_MDS_INTEROP_PYTHON', str(local))


def _jobs(case: cases.Case, source: Path, settings: Settings) -> list[Job]:
    """The runs of one round: for each compression the pool, then our configurations."""
    configs = [*case.configs, *([cases.INLINE] if settings.inline else [])]
    wanted = [c for c in configs if not settings.configs or c.name in settings.configs]
    samples = case.samples_at(settings.scale)

    def job(command: Sequence[str], series: report.Series) -> Job:
        return Job(partial(write_once, command, samples, settings.folder / 'out'), series)

    jobs = []
    for compression in sorted({c.compression for c in wanted}, key=lambda name: name or ''):
        series = report.Series(case.title, report.POOL, compression)
        jobs.append(job(pool_command(case, compression, source, settings.interop), series))
        for config in (c for c in wanted if c.compression == compression):
            bar = config.bar if settings.scale >= 1 else None  # At less, the start counts too much.
            series = report.Series(case.title, config.name, compression, bar)
            jobs.append(job(ours_command(case, config, source, settings.options), series))
    return jobs


def run_case(case: cases.Case, settings: Settings) -> list[report.Series]:
    """Writes one workload in all ways, in turn, round by round."""
    process.say(f'{case.title}: input')
    source = data.ensure(case, settings.folder, settings.scale, settings.seed)
    return rounds.run(_jobs(case, source, settings), settings.rounds, settings.max_others)


def run_reads(settings: Settings) -> list[report.Series]:
    """Reads one dataset in all ways, in turn, round by round."""
    process.say(f'{cases.READ_TITLE}: input')
    jobs = read.jobs(settings.folder, settings.scale, settings.interop, settings.options)
    return rounds.run(jobs, settings.rounds, settings.max_others)


def run_encoders(settings: Settings) -> dict[str, list[float]]:
    """Encodes small samples with both, in turn; seconds of each way by its name.

    Raises:
        process.MeasurementError: The two encoded the samples to different bytes.
    """
    seconds: dict[str, list[float]] = {name: [] for name in _ENCODERS}
    for warmup in settings.rounds:
        mds, ours = (
            process.run([python, '-m', f'benchmarks.{name}'], watch_memory=False).report
            for python, name in (
                (settings.interop, 'encoder_mds'),
                (sys.executable, 'encoder_ours'),
            )
        )
        if mds['digest'] != ours['digest']:
            raise process.MeasurementError('MDSWriter and beam_mds encoded to different bytes')
        for name in () if warmup else _ENCODERS:
            seconds[name].append({**mds, **ours}[name])
    return seconds


def run_text_tokens(settings: Settings) -> list[report.Series]:
    """Tokenizes texts in all ways, in turn, round by round."""
    process.say(f'{text_tokens.TITLE}: input')
    jobs = text_tokens.jobs(settings.folder, settings.scale, settings.options)
    return rounds.run(jobs, settings.rounds, settings.max_others)


def encoder_table(seconds: dict[str, list[float]]) -> str:
    """The encoders side by side, against `MDSWriter.write`."""
    base = seconds['write']
    titles = (
        '`MDSWriter.encode_sample`',
        '`MDSWriter.write`',
        'ours, dicts',
        'ours, record batches',
    )
    rows = []
    for name, title in zip(_ENCODERS, titles, strict=True):
        ratio = report.ratio_of_medians(base, seconds[name])
        pairs = report.median_of_ratios(base, seconds[name])
        bar = cases.ENCODER_BAR if title.startswith('ours') else None
        milliseconds = [value * 1000 for value in seconds[name]]
        verdict = report.verdict(ratio, bar)
        spread = report.spread(milliseconds, 0)
        rows.append(
            ['small samples', title, 'none', spread, f'{ratio:.2f}', f'{pairs:.2f}', verdict]
        )
    head = [
        'workload',
        'encoder',
        'output',
        'ms: median (min-max)',
        'x write',
        'x write, pairs',
        'bar',
    ]
    return report.markdown(head, rows)


def _parse(arguments: Sequence[str] | None) -> tuple[argparse.Namespace, Settings]:
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add('--scale', type=float, default=1.0, help='fraction of the full workload')
    add('--runs', type=int, default=5, help='rounds that count')
    add('--warmups', type=int, default=1, help='rounds before; memory is measured in these')
    add('--cases', default=','.join([*cases.CASES, *_OTHERS]), help='text,tokens,images,...')
    add('--configs', default='', help='such as arrival,shuffled-zstd; all if empty')
    add('--inline', action='store_true', help='also shuffled with inline blocks')
    add('--runner', default='fnapi', help='fnapi, prism, or a name that Beam knows')
    add('--prism_location', default=shutil.which('prism'), help='the Prism program')
    add('--pipeline-option', action='append', default=[], help='such as --pipeline-option=--x=1')
    add('--data', type=Path, default=data.default_folder(), help='cache and scratch folder')
    add('--max-others', type=float, default=1.0, help='repeat runs with more foreign CPU than this')
    add('--seed', type=int, default=0)
    add('--json', type=Path, help='file for all measurements')
    args = parser.parse_args(arguments)
    use_prism = args.runner == 'prism' and args.prism_location
    prism = [f'--prism_location={args.prism_location}'] if use_prism else []
    settings = Settings(
        folder=args.data.absolute(),
        scale=args.scale,
        runs=args.runs,
        warmups=args.warmups,
        interop=interop_python(),
        runner=args.runner,
        pipeline_options=(*prism, *args.pipeline_option),
        seed=args.seed,
        inline=args.inline,
        configs=frozenset(filter(None, args.configs.split(','))),
        max_others=args.max_others,
    )
    unknown = set(args.cases.split(',')) - {*cases.CASES, *_OTHERS}
    if unknown:
        parser.error(f'unknown cases: {", ".join(sorted(unknown))}')
    if args.runs < 1:
        parser.error('--runs must be at least 1')
    if not Path(settings.interop).exists():
        parser.error(
            f'no interpreter with mosaicml-streaming at {settings.interop}: run `make interop`, '
            'or name one with BEAM_MDS_INTEROP_PYTHON'
        )
    return args, settings


def _facts(settings: Settings) -> list[str]:
    rounds = f'{settings.warmups} warm-up and {settings.runs} counted rounds'
    return [
        f'Pool({cases.POOL_PROCESSES}): {process.python_of(settings.interop)}',
        f'Ours ({settings.runner}): {process.python_of(sys.executable)}',
        f'Scale {settings.scale:g}, seed {settings.seed}, {rounds}, shards of 64 MiB.',
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs what the command line asks for and prints the tables; 1 if a run failed."""
    process.end_children_when_terminated()
    args, settings = _parse(arguments)
    names = args.cases.split(',')
    heading = report.heading([*_facts(settings), report.MEMORY_NOTE])
    series = [
        one
        for name in cases.CASES
        if name in names
        for one in run_case(cases.CASES[name], settings)
    ]
    encoders = run_encoders(settings) if 'encoder' in names else None
    reads = run_reads(settings) if 'read' in names else []
    tokens = run_text_tokens(settings) if 'text_tokens' in names else []
    print(heading, end='\n\n')
    if series:
        print(report.comparison(series), report.disturbance(series), sep='\n\n', end='\n\n')
    if encoders:
        print(encoder_table(encoders), end='\n\n')
    if reads:
        table = report.comparison(reads, reads=True)
        print(table, report.disturbance(reads), sep='\n\n', end='\n\n')
    if tokens:
        table = text_tokens.table(tokens)
        print(table, report.disturbance(tokens), sep='\n\n', end='\n\n')
    if args.json:
        _save(args.json, heading, [*series, *reads, *tokens], encoders)
    return int(any(one.failure for one in (*series, *reads, *tokens)))


def _save(
    path: Path,
    heading: str,
    series: Sequence[report.Series],
    encoders: dict[str, list[float]] | None,
) -> None:
    content: dict[str, Any] = {
        'heading': heading,
        'series': [dataclasses.asdict(one) for one in series],
        'encoders': encoders,
    }
    path.write_text(json.dumps(content, indent=1))


if __name__ == '__main__':
    sys.exit(main())

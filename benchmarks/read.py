"""Reading side by side: `ReadFromMDS` and `read_samples` against iterating `StreamingDataset`.

`python -m benchmarks.run --cases read`. The dataset is small samples that `MDSWriter` wrote, once.
"""

from __future__ import annotations

import functools
import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks import cases, dataset, machine, process, report
from benchmarks.rounds import Job

FORMAT = 1
"""Raise it when other datasets are written for the same number of samples."""


def ensure(folder: Path, samples: int, compression: str | None, interop: str) -> Path:
    """Has `MDSWriter` write the dataset unless it is there.

    Args:
        folder: Where datasets are kept.
        samples: How many it has; none at all is an index without shards.
        compression: As `MDSWriter` takes it.
        interop: The interpreter that has `mosaicml-streaming`.
    """
    target = folder / f'read-v{FORMAT}-{samples}-{compression or "raw"}'
    if target.is_dir():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        staging = Path(scratch, 'dataset')
        if samples:
            command = [interop, '-m', 'benchmarks.read_mds', f'--write={staging}']
            command += [f'--samples={samples}', *_compression(compression)]
            process.run(command, watch_memory=False)
        else:
            staging.mkdir()
            Path(staging, 'index.json').write_text(json.dumps({'version': 2, 'shards': []}))
        staging.rename(target)
    return target


def jobs(folder: Path, scale: float, interop: str, options: Sequence[str]) -> list[Job]:
    """The runs of one round: for each compression `StreamingDataset`, then ours; and no samples.

    Args:
        folder: Where datasets are kept, and copied to.
        scale: Fraction of the samples.
        interop: The interpreter that has `mosaicml-streaming`.
        options: Of the pipelines: the runner, and others.
    """
    samples = max(1, round(cases.READ_SAMPLES * scale))
    found = []
    for compression in cases.READ_COMPRESSIONS:
        source = ensure(folder, samples, compression, interop)
        for name, how in ((report.STREAMING, 'loop'), (f'{report.STREAMING}[i]', 'index')):
            theirs = [interop, '-m', 'benchmarks.read_mds', f'--how={how}']
            found.append(_job(name, compression, theirs, source, samples, folder))
        for how, bar in cases.READ_FORMS.items():
            ours = [sys.executable, '-m', 'benchmarks.read_ours', f'--how={how}', *options]
            bar = bar if scale >= 1 else None  # at less, the start counts too much
            found.append(_job(how, compression, ours, source, samples, folder, bar))
    source = ensure(folder, 0, None, interop)
    for how in ('batches', 'dicts'):
        ours = [sys.executable, '-m', 'benchmarks.read_ours', f'--how={how}', *options]
        found.append(_job(f'{how}, of no samples', None, ours, source, 0, folder))
    return found


def _job(
    name: str,
    compression: str | None,
    command: Sequence[str],
    source: Path,
    samples: int,
    folder: Path,
    bar: float | None = None,
) -> Job:
    series = report.Series(cases.READ_TITLE, name, compression, bar)
    return Job(functools.partial(_read_once, command, source, samples, folder), series)


def _read_once(
    command: Sequence[str], source: Path, samples: int, folder: Path, watch_memory: bool
) -> tuple[report.Measurement, int | None]:
    """Runs one reader on a fresh copy of the dataset: `StreamingDataset` unpacks it in place.

    Raises:
        process.MeasurementError: It failed, or did not give every sample.
    """
    with tempfile.TemporaryDirectory(
        prefix='run-', dir=folder, ignore_cleanup_errors=True
    ) as parent:
        copy = Path(parent, 'dataset')
        shutil.copytree(source, copy)
        machine.settle()
        watch = machine.Watch.start()
        warm = [] if watch_memory else [f'--warm={cases.WARM_MEGABYTES}']
        done = process.run([*command, f'--read={copy}', *warm], watch_memory=watch_memory)
        others = watch.others(done.cpu_seconds)
    if done.report['samples'] != samples:
        raise process.MeasurementError(f'{done.report["samples"]} samples of {samples}')
    written = dataset.count(source, samples)
    measurement = report.Measurement(
        done.report['seconds'], done.wall_seconds, done.cpu_seconds, others, written
    )
    return measurement, done.peak_bytes


def _compression(compression: str | None) -> list[str]:
    return [f'--compression={compression}'] if compression else []

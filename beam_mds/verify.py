"""Checking whole datasets: at once with a few threads, or as a pipeline; `checks` tells how."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.metrics import Metrics
from apache_beam.pvalue import PBegin, PCollection, TaggedOutput

from beam_mds import storage
from beam_mds.background import run_ahead
from beam_mds.checking.checks import check_shard
from beam_mds.checking.findings import Finding
from beam_mds.checking.inventory import ShardTask, list_dataset, unreadable
from beam_mds.errors import OptionError, StorageError
from beam_mds.indexes import Path, dataset_folders, given_paths

# Threads of a check at once, each with a shard in memory: enough to wait for a store.
THREADS = 4


class Report(NamedTuple):
    """What the check of one shard gave.

    Attributes:
        findings: What is wrong with it.
        samples: How many it holds, by the index; 0 when it could not be read.
        bytes: How many were read.
    """

    findings: list[Finding]
    samples: int
    bytes: int


def verify_dataset(
    path: Path | Sequence[Path], *, deep: bool = False, threads: int = THREADS
) -> Iterator[Finding]:
    """Checks datasets in this process.

    A file that cannot be read is a finding, `unreadable`, and the check goes on.

    Args:
        path: A dataset's folder or its index.json, several, or a glob, on any filesystem that Beam
            knows. Where a dataset is split, its sub-folders' indexes are compared with its own.
        deep: Decode every sample too, but for columns of the encoding `pkl`, since a pickle can
            run code. Images are decoded whole, which needs the extra `images`.
        threads: Shards that are read and checked side by side; each is in memory, and decompressed.

    Yields:
        What is wrong; nothing for a healthy dataset. Always in the same order: of each dataset the
        index, then leftover files, then shard by shard in the index's order.

    Raises:
        OptionError: A path that is none, or less than one thread.
        StorageError: A glob matches no dataset.
        MissingExtraError: An image is to be decoded, and Pillow is not installed.

    Example:
        >>> for finding in verify_dataset('gs://bucket/dataset'):  # doctest: +SKIP
        ...     print(finding.kind, finding.file, finding.detail)
    """
    for folder in find_datasets(path):
        listed = list_dataset(folder, threads)
        yield from listed.findings
        for report in check_all(listed.tasks, deep=deep, threads=threads):
            yield from report.findings


def find_datasets(path: Path | Sequence[Path]) -> list[str]:
    """The folders of the datasets that a caller names; see `verify_dataset`."""
    return dataset_folders(given_paths(path))


def check_all(
    tasks: Iterable[ShardTask], *, deep: bool = False, threads: int = THREADS
) -> Iterator[Report]:
    """Reads and checks shards side by side; what they gave comes in their order."""
    return run_ahead(functools.partial(check_task, deep=deep), tasks, threads)


def check_task(task: ShardTask, *, deep: bool = False) -> Report:
    """Reads and checks one shard."""
    size, samples = task.info.stored.bytes, task.info.samples
    if task.found is None:
        detail = f'not there; the index says that it has {samples} samples in {size} bytes'
        return Report([Finding(task.path, 'missing', detail)], 0, 0)
    if task.found != size:
        detail = f'{task.found} bytes, the index says {size}'
        return Report([Finding(task.path, 'size', detail)], 0, 0)
    try:
        data = storage.read(task.path)
    except StorageError as error:
        return Report([unreadable(task.path, error)], 0, 0)
    findings = check_shard(task.path, task.info, data, part=task.part, parts=task.parts, deep=deep)
    return Report(list(findings), samples, len(data))


class VerifyMDS(beam.PTransform):
    """Checks MDS datasets, many shards in parallel: a `Finding` for each thing that is wrong.

    Checks what `verify_dataset` checks, on workers; the order of the findings is any. Counts, in
    the metrics' namespace `beam_mds`: `datasets_checked`, `shards_checked`, `samples_checked`,
    `bytes_checked`, `findings`.

    Example:
        >>> import apache_beam as beam
        >>> with beam.Pipeline(runner='FnApiRunner') as pipeline:
        ...     findings = pipeline | VerifyMDS(getfixture('tmp_path'))
        ...     _ = findings | beam.Map(lambda finding: print(finding.kind, finding.detail))
        index absent: there is no dataset here; rebuild-index makes one for shards that are left
    """

    def __init__(self, path: Path | Sequence[Path] | None = None, *, deep: bool = False) -> None:
        """Makes the transform; nothing is read before the pipeline runs.

        Args:
            path: As `verify_dataset` takes it; applied to a pipeline. None: the transform is
                applied to a PCollection of such paths.
            deep: Decode every sample too; see `verify_dataset`.

        Raises:
            OptionError: A path that is none.
        """
        super().__init__()
        self._paths = None if path is None else given_paths(path)
        self._deep = deep

    def expand(self, start: PBegin | PCollection[str]) -> PCollection[Finding]:
        """Wires the steps.

        Raises:
            OptionError: There are a path and a PCollection of paths, or neither.
        """
        if isinstance(start, PBegin) != (self._paths is not None):
            raise OptionError(
                'VerifyMDS checks the path that it is given when it is applied to a pipeline, and '
                'without one the paths of a PCollection that it is applied to'
            )
        paths = (
            start | 'Paths' >> beam.Map(given_paths)
            if self._paths is None
            else start | 'Paths' >> beam.Create([self._paths])
        )
        listed = (
            paths  # list[str]
            | 'FindDatasets' >> beam.FlatMap(dataset_folders).with_output_types(str)
            | 'SpreadDatasets' >> beam.Reshuffle()
            | 'ListShards' >> beam.ParDo(_ListShards()).with_outputs('findings', main='tasks')
        )
        checked = (
            listed.tasks  # ShardTask
            | 'SpreadShards' >> beam.Reshuffle()
            | 'CheckShards' >> beam.ParDo(_CheckShards(self._deep))
        )
        return (
            (listed.findings, checked)
            | 'Findings' >> beam.Flatten()
            | 'CountFindings' >> beam.ParDo(_CountFindings()).with_output_types(Finding)
        )

    def display_data(self) -> dict[str, Any]:
        """The options, for the runner's user interface."""
        return {'path': ', '.join(self._paths or ['from the input']), 'deep': self._deep}


class _ListShards(beam.DoFn):
    """A dataset's folder -> its shards, and findings."""

    def __init__(self) -> None:
        self._datasets = Metrics.counter('beam_mds', 'datasets_checked')

    def process(self, folder: str) -> Iterator[Any]:
        listed = list_dataset(folder, THREADS)
        self._datasets.inc()
        yield from (TaggedOutput('findings', finding) for finding in listed.findings)
        yield from listed.tasks


class _CheckShards(beam.DoFn):
    """A shard -> findings."""

    def __init__(self, deep: bool) -> None:
        self._deep = deep
        self._shards = Metrics.counter('beam_mds', 'shards_checked')
        self._samples = Metrics.counter('beam_mds', 'samples_checked')
        self._bytes = Metrics.counter('beam_mds', 'bytes_checked')

    def process(self, task: ShardTask) -> Iterator[Finding]:
        report = check_task(task, deep=self._deep)
        self._shards.inc()
        self._samples.inc(report.samples)
        self._bytes.inc(report.bytes)
        yield from report.findings


class _CountFindings(beam.DoFn):
    """Passes findings on."""

    def __init__(self) -> None:
        self._findings = Metrics.counter('beam_mds', 'findings')

    def process(self, finding: Finding) -> Iterator[Finding]:
        self._findings.inc()
        yield finding

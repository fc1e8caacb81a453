"""MergeMDSIndex: one index.json for several MDS datasets."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.pvalue import AsIter, PBegin, PCollection
from apache_beam.transforms.display import DisplayDataItem
from apache_beam.transforms.window import GlobalWindows

from beam_mds.background import run_ahead
from beam_mds.errors import EmptyInputError, OptionError
from beam_mds.indexes import Path, given_paths
from beam_mds.merging.gather import THREADS, Copy, Gathered, Progress
from beam_mds.merging.parts import Expect, IfExists, MergeOptions, make_merge_options
from beam_mds.publishing import copy as copy_file
from beam_mds.publishing import publish


class MergedIndex(NamedTuple):
    """The result of a merge.

    Attributes:
        path: The merged index.json.
        parts: Datasets that were merged. An index above others counts for the folders of the
            shards that only it lists.
        shards: How many it lists.
        samples: How many they hold.
        changed: Whether it was written; False when it was there already.
    """

    path: str
    parts: int
    shards: int
    samples: int
    changed: bool


def _show_nothing(items: Iterable[Any], what: str, total: int | None) -> Iterable[Any]:  # noqa: ARG001
    return items


def merge_indexes(
    out: Path,
    parts: Path | Sequence[Path] | None = None,
    *,
    expect: Expect = None,
    if_exists: IfExists = 'error',
    copy: bool = False,
    progress: Progress = _show_nothing,
) -> MergedIndex:
    """Writes one index.json that lists the shards of several MDS datasets.

    Everything is checked first: every shard is there with its size, and all have the same columns.
    Then the index appears in one step. No shard is moved, deleted or changed, and running it again
    changes nothing. Compression, hashes and size limits may differ: readers take each shard's own.

    The shards are in the order of the parts' paths relative to `out`, with numbers as numbers
    (part-2 before part-10), and inside a part in its own order. Where a part lies above others, as
    the index of an earlier merge or of a split dataset does, only those of its shards count that no
    part below it lists.

    Args:
        out: The folder of the merged index, at or above all parts.
        parts: Folders of datasets, their index.json, or globs of either; by default all datasets
            at and below `out`: each folder with a file of exactly this name.
        expect: How many parts there must be; or which, as a list of folders, absolute or relative
            to `out`. A part is missing when its index.json is.
        if_exists: When the index.json in `out` is not among the parts and lists shards that none of
            them lists: `error`, or `overwrite` it. With `overwrite` and no `parts` given, it is not
            one of them.
        copy: Copies the shards of parts that do not lie below `out` into sub-folders of it, each
            named by the part's path; by default such a part is an error.
        progress: Passes on an iterable of `what`, of which there are `total`, and shows how far it
            is.

    Returns:
        The index and what it lists.

    Raises:
        OptionError: An option cannot work, or `out` is not above all parts.
        MergeError: A part is missing, unexpected, given twice, or has other columns; a shard is
            listed twice.
        DamagedError: A shard is not there or has another size.
        FormatError: An index.json is none of MDS.
        TargetError: Shards that the index in `out` lists would be lost, or it changed meanwhile.
        EmptyInputError: No part has a shard.
        StorageError: A file could not be read or written.

    Example:
        >>> merge_indexes('gs://bucket/dataset', expect=12)  # doctest: +SKIP
        MergedIndex(path='gs://bucket/dataset/index.json', parts=12, shards=1200, samples=3000000,
            changed=True)
    """
    options = make_merge_options(out, parts, expect, if_exists, copy)
    return _merge(options, options.paths, progress)


class MergeMDSIndex(beam.PTransform):
    """Writes one index.json that lists the shards of several MDS datasets; see `merge_indexes`.

    Applied to a pipeline, it merges `parts`, or all datasets at and below `out`. Applied to a
    PCollection of their folders or index.json paths, such as `result.index` of a `WriteToMDS`, it
    waits for all of them and merges those. Gives the path of the merged index, once it is there.

    Example:
        >>> import apache_beam as beam
        >>> from beam_mds import WriteToMDS, read_samples
        >>> out = str(getfixture('tmp_path'))
        >>> with beam.Pipeline(runner='FnApiRunner') as pipeline:
        ...     written = [
        ...         pipeline
        ...         | f'Create{name}' >> beam.Create([{'text': name}])
        ...         | f'Write{name}' >> WriteToMDS(f'{out}/{name}', {'text': 'str'})
        ...         for name in ('a', 'b')
        ...     ]
        ...     merged = [w.index for w in written] | beam.Flatten() | MergeMDSIndex(out)
        >>> [sample['text'] for sample in read_samples(out)]
        ['a', 'b']
    """

    def __init__(
        self,
        out: Path,
        parts: Path | Sequence[Path] | None = None,
        *,
        expect: Expect = None,
        if_exists: IfExists = 'error',
        copy: bool = False,
    ) -> None:
        """Makes the transform; nothing is read or written before the pipeline runs.

        Args:
            out: The folder of the merged index, at or above all parts.
            parts: The datasets; see `merge_indexes`. None when they come as a PCollection.
            expect: How many parts there must be, or which.
            if_exists: `error` or `overwrite`.
            copy: Copies the shards of parts that do not lie below `out`.

        Raises:
            OptionError: A value, or a combination, that cannot work.
        """
        super().__init__()
        self._options = make_merge_options(out, parts, expect, if_exists, copy)

    def expand(self, pbegin: PBegin | PCollection[str]) -> PCollection[str]:
        """Wires the steps.

        Raises:
            OptionError: The input is unbounded, or there are `parts` too.
        """
        options, pipeline = self._options, pbegin.pipeline
        paths: Any = options.paths
        if isinstance(pbegin, PCollection):
            if options.paths is not None:
                raise OptionError('parts were given and come as a PCollection: one of the two')
            if not pbegin.is_bounded:
                raise OptionError('MergeMDSIndex merges a bounded PCollection; this one is not')
            if not pbegin.windowing.is_default():
                pbegin = pbegin | 'ToGlobalWindow' >> beam.WindowInto(GlobalWindows())
            paths = AsIter(pbegin)
        start = pipeline | 'Start' >> beam.Impulse()
        copied: Any = ()
        if options.copy:
            # Copy; nothing comes out, but the index waits for it.
            copied = AsIter(
                start
                | 'PlanCopies' >> beam.FlatMap(_plan_copies, options, paths)
                | 'SpreadCopies' >> beam.Reshuffle()
                | 'CopyShards' >> beam.FlatMap(_copy_shard)
            )
        return start | 'MergeIndex' >> beam.Map(
            _merge_step, options, paths, copied
        ).with_output_types(str)

    def display_data(self) -> dict[str, Any]:
        """Every option, for the runner's user interface."""
        options = self._options
        shown = {
            'out': options.out,
            'parts': ', '.join(options.paths) if options.paths else None,
            'expect': None if options.expect is None else str(options.expect),
            'if_exists': 'overwrite' if options.overwrite else 'error',
            'copy': options.copy,
        }
        return {name: DisplayDataItem(value).drop_if_none() for name, value in shown.items()}


def _merge(
    options: MergeOptions, paths: Sequence[str] | None, progress: Progress = _show_nothing
) -> MergedIndex:
    with contextlib.closing(Gathered(options, paths, progress)) as gathered:
        for _ in progress(run_ahead(_copy, gathered.copies, THREADS), 'shards copied', None):
            pass
        if not gathered.unchanged:
            index = gathered.index
            publish(options.index, index, index.size, gathered.check_old)
        return MergedIndex(
            options.index,
            len(gathered.parts),
            gathered.shards,
            gathered.samples,
            not gathered.unchanged,
        )


def _copy(task: Copy) -> bool:
    return copy_file(task.source, task.target, task.size)


def _given(paths: Iterable[str] | None) -> list[str] | None:
    """The parts of a step, which can come from other steps."""
    if paths is None:
        return None
    given = list(paths)
    if not given:
        raise EmptyInputError(
            'there is no dataset to merge: the PCollection of their paths is empty'
        )
    return given_paths(given, option='parts')


def _plan_copies(_: bytes, options: MergeOptions, paths: Iterable[str] | None) -> Iterator[Copy]:
    with contextlib.closing(Gathered(options, _given(paths), _show_nothing)) as gathered:
        yield from gathered.copies


def _copy_shard(task: Copy) -> tuple[()]:
    _copy(task)
    return ()


def _merge_step(
    _: bytes, options: MergeOptions, paths: Iterable[str] | None, _copied: Iterable[Any]
) -> str:
    return _merge(options, _given(paths)).path

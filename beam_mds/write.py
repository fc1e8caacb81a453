"""WriteToMDS: samples in, a complete MDS dataset out."""

from __future__ import annotations

import dataclasses
import functools
import os
import warnings
from collections.abc import Mapping, Sequence
from types import EllipsisType
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import AsIter, AsSingleton, PCollection
from apache_beam.transforms.display import DisplayDataItem
from apache_beam.transforms.error_handling import ErrorHandler
from apache_beam.transforms.window import GlobalWindows

from beam_mds import coders
from beam_mds.errors import OptionError
from beam_mds.runners import runs_here
from beam_mds.schema import infer_columns
from beam_mds.storage import absolute, is_remote
from beam_mds.writing import ranges, steps
from beam_mds.writing.batches import ElementBatch
from beam_mds.writing.letters import WriteLetters
from beam_mds.writing.options import (
    ArrowSchema,
    Extra,
    IfExists,
    Key,
    Order,
    WriteOptions,
    make_options,
)
from beam_mds.writing.prepare import DeadLetter
from beam_mds.writing.splits import Split
from beam_mds.writing.steps import WrittenShard
from beam_mds.writing.target import check_target

coders.register()


class WriteResult(dict[str, PCollection[Any]]):
    """What `WriteToMDS` gives; emitted only after the index is published.

    A dict, so that every runner and Beam YAML see the outputs by name.
    """

    @property
    def shards(self) -> PCollection[WrittenShard]:
        """One `WrittenShard` for each shard, in the index's order."""
        return self['shards']

    @property
    def index(self) -> PCollection[str]:
        """The path of index.json, and of each split's; none when the input was empty."""
        return self['index']

    @property
    def errors(self) -> PCollection[DeadLetter]:
        """One `DeadLetter` for each refused sample, after `with_exception_handling`."""
        if 'errors' not in self:
            raise AttributeError(
                'there are errors only after with_exception_handling(); an error handler takes '
                'them itself'
            )
        return self['errors']


class WriteToMDS(beam.PTransform):
    """Writes samples as a MosaicML Streaming (MDS) dataset that `StreamingDataset` reads.

    Elements are dicts, beam.Row, NamedTuple or dataclass, or many samples at once as
    `pyarrow.RecordBatch` or `pyarrow.Table`, which is several times as fast. `index.json` appears
    last, in one step, and lists only complete shards; a job that fails leaves no index, and can be
    run again.

    Example:
        >>> import apache_beam as beam
        >>> with beam.Pipeline(runner='FnApiRunner') as pipeline:
        ...     result = (
        ...         pipeline
        ...         | beam.Create([{'text': 'hello', 'label': 1}])
        ...         | WriteToMDS(getfixture('tmp_path'), {'text': 'str', 'label': 'uint8'})
        ...     )
    """

    def __init__(
        self,
        out: str | os.PathLike[str],
        columns: Mapping[str, str | EllipsisType | None] | ArrowSchema | None = None,
        *,
        compression: str | None = None,
        hashes: Sequence[str] | str | None = None,
        size_limit: int | float | str | None = '64mb',
        key: Key = None,
        order: Order = 'shuffled',
        seed: int = 0,
        num_shards: int | Mapping[str, int] | None = None,
        max_samples_per_shard: int | None = None,
        split: Split = None,
        drop_split_column: bool = False,
        extra: Extra = 'error',
        if_exists: IfExists = 'error',
        spill: bool | str | os.PathLike[str] = 'auto',
        allow_empty: bool = False,
    ) -> None:
        """Makes the transform; nothing is read or written before the pipeline runs.

        Args:
            out: Folder of the dataset, on any filesystem that Beam knows.
            columns: Column name -> MDS encoding, like `{'tokens': 'ndarray:int32'}`. Encodings that
                are `...` or None come from the schema of the elements (beam.Row, NamedTuple,
                dataclass); with no columns, or a `pyarrow.Schema`, all of them. See
                `beam_mds.schema`.
            compression: `br`, `bz2`, `gz`, `snappy`, `zstd`, or one with a level like `zstd:7`.
            hashes: Names of hashes to store for each file, like `['sha1', 'xxh64']`.
            size_limit: Largest raw size of a shard: bytes, or a text like `64mb` or `1GiB` (powers
                of 1024). A sample that is larger gets a shard of its own. None, which needs
                `num_shards`, leaves only the format's limit of 2**32 - 1 bytes.
            key: Samples of one key stay together: a column's name, or a function of the sample that
                returns str, bytes, int, float, bool, None or a tuple of those. By default the
                sample itself, which is a shuffle.
            order: `shuffled`: by the hash of the key; names and bytes of the files depend on
                nothing but the samples and these options. `sorted`: by the key itself (int, float,
                str, bytes, or tuples of these), likewise. `arrival`: as the samples come; the
                fastest, and no promise about order or names.
            seed: Gives another shuffled order; 0 to 2**64 - 1.
            num_shards: Cuts the shuffled order into this many equal ranges, without the pass that
                measures the data. A range over `size_limit` becomes several shards, an empty one
                none. A dict says it by split; splits that it does not name are measured.
            max_samples_per_shard: A second limit of a shard, beside `size_limit`.
            split: A column, or a function of the sample that returns a str: the sub-folder that the
                sample goes to, like `train` or `val/en`. Each is a dataset of its own, and the
                index.json in `out` lists them all. See `hash_split`.
            drop_split_column: Leaves the column `split` out of the samples.
            extra: `error` when a sample has a column that `columns` has not, or `ignore` it.
            if_exists: When `out` holds a dataset: `error` before anything is encoded; `overwrite`
                it, which stays readable until the new one is complete; or `append` to it.
            spill: Where samples lie between encoding and writing: False, in the runner's shuffle;
                True, in files beside the dataset; a folder; `auto`, in files except on Dataflow.
            allow_empty: Whether no samples at all is a success, which writes no index. By default
                the job fails, since the reader refuses an index without shards.

        Raises:
            OptionError: A value, or a combination, that cannot work.
        """
        super().__init__()
        self._columns = columns
        self._make_options = functools.partial(
            make_options,
            out,
            compression=compression,
            hashes=hashes,
            size_limit=size_limit,
            key=key,
            order=order,
            seed=seed,
            num_shards=num_shards,
            max_samples_per_shard=max_samples_per_shard,
            split=split,
            drop_split_column=drop_split_column,
            extra=extra,
            spill=spill,
            if_exists=if_exists,
            allow_empty=allow_empty,
        )
        self._errors: dict[str, Any] = {}
        self._error_handler: ErrorHandler | None = None
        # Until the schema is known, columns that options name stand for all.
        self._inferred = columns is None or (
            isinstance(columns, Mapping) and any(c is None or c is ... for c in columns.values())
        )
        known: Any = columns
        if isinstance(columns, pa.Schema):
            known = infer_columns(columns)
        elif self._inferred:
            names = [name for name in ('_', *(known or ()), key, split) if isinstance(name, str)]
            known = dict.fromkeys(names, 'bytes')
        self._options = self._make_options(known)
        for name, encoding in (columns or {}).items() if isinstance(columns, Mapping) else ():
            if encoding == 'pkl':
                warnings.warn(
                    f'column {name!r} is stored as pickle: readers run code from it, and '
                    'StreamingDataset needs allow_unsafe_types=True',
                    stacklevel=2,
                )

    def with_exception_handling(
        self,
        *,
        exc_class: type[Exception] | tuple[type[Exception], ...] = Exception,
        threshold: float = 1.0,
        errors_output: str | os.PathLike[str] | None = None,
        error_handler: ErrorHandler | None = None,
    ) -> WriteToMDS:
        """Makes samples that cannot be written dead letters, where they would fail the job.

        Each is a `DeadLetter` in `result.errors`, with the sample itself; all others are written.

        Args:
            exc_class: The errors, of the encoding or of a key or split function, to catch.
            threshold: Largest share of the samples, 0 to 1, that may be refused; with more the job
                fails, and no index is published.
            errors_output: A file for the dead letters, as lines of JSON (see
                `beam_mds.writing.letters`). It is there before the index, also when the threshold
                fails the job, and when there are none.
            error_handler: Takes the dead letters, in place of `result.errors`.

        Returns:
            This transform.

        Example:
            >>> import apache_beam as beam
            >>> with beam.Pipeline(runner='FnApiRunner') as pipeline:
            ...     result = (
            ...         pipeline
            ...         | beam.Create([{'n': 1}, {'n': 'one'}])
            ...         | WriteToMDS(getfixture('tmp_path'), {'n': 'int'}).with_exception_handling()
            ...     )
            ...     _ = result.errors | beam.Map(lambda letter: print(letter.message))
            column 'n' (int): str 'one' is not an integer
        """
        catch: tuple[Any, ...] = exc_class if isinstance(exc_class, tuple) else (exc_class,)
        if not all(isinstance(kind, type) and issubclass(kind, Exception) for kind in catch):
            raise OptionError(f'exc_class must be exception classes, got {exc_class!r:.80}')
        if not 0 <= threshold <= 1:
            raise OptionError(f'threshold must be from 0 to 1, got {threshold!r:.80}')
        self._errors = {'catch': catch, 'threshold': threshold}
        if errors_output is not None:
            self._errors['errors_output'] = absolute(errors_output, 'errors_output')
        self._error_handler = error_handler
        return self

    def with_error_handler(
        self, error_handler: ErrorHandler | None, **exception_handling: Any
    ) -> WriteToMDS:
        """Gives dead letters to a Beam error handler; None leaves errors to fail the job.

        Args:
            error_handler: Such as `beam.transforms.error_handling.ErrorHandler(transform)`.
            exception_handling: As `with_exception_handling` takes them.
        """
        if error_handler is None:
            return self
        return self.with_exception_handling(error_handler=error_handler, **exception_handling)

    def expand(self, samples: PCollection[Any]) -> WriteResult:
        """Wires the steps.

        Raises:
            OptionError: The input is unbounded.
            ColumnsError: Columns are to come from the schema, and there is none, or a field's type
                has no encoding; the field is named.
        """
        if not samples.is_bounded:
            raise OptionError(
                'WriteToMDS writes one dataset from a bounded PCollection; this one is not'
            )
        options, pipeline = self._options, samples.pipeline
        if self._inferred:
            options = self._make_options(infer_columns(samples.element_type, self._columns))
        options = dataclasses.replace(options, **self._errors)
        if not samples.windowing.is_default():
            samples = samples | 'ToGlobalWindow' >> beam.WindowInto(GlobalWindows())

        start = pipeline | 'Start' >> beam.Impulse()
        target = AsSingleton(
            start
            | 'CheckTarget'
            >> beam.Map(lambda _, o, s: check_target(o, s), options, _spill_mode(options, pipeline))
        )
        # batches: ElementBatch; counts: Counts
        collected = samples | 'CollectBatches' >> beam.ParDo(steps.CollectBatches()).with_outputs(
            'counts', main='batches'
        )
        collected.batches.element_type = ElementBatch
        # blocks: bytes; positions: bytes; histograms: (split, Histogram);
        # chosen: (split, ChosenKeys); fragments: Fragment; errors: DeadLetter; counts: Counts
        encoded = collected.batches | 'EncodeSamples' >> beam.ParDo(
            steps.EncodeSamples(options), target
        ).with_outputs(
            'positions', 'histograms', 'chosen', 'fragments', 'errors', 'counts', main='blocks'
        )
        bounds = ranges.bounds_of(options, start, encoded)
        plans = ranges.plans_of(options, start, encoded, bounds)
        written = (
            encoded.blocks
            | 'AssignShards'
            >> beam.FlatMap(ranges.assign_shards, options, target, plans, bounds).with_output_types(
                tuple[tuple[str, int], bytes]
            )
            # ((split, shard number), block of the samples that belong to it)
            | 'GroupByShard' >> beam.GroupByKey()
            | 'WriteShards' >> beam.ParDo(steps.WriteShards(options))
        )
        fragments = (written, encoded.fragments) | 'Fragments' >> beam.Flatten()
        counts = (collected.counts, encoded.counts) | 'Counts' >> beam.Flatten()
        first = []
        if options.errors_output is not None:
            stored = encoded.errors | 'WriteErrors' >> WriteLetters(options.errors_output)
            first.append(AsIter(stored))
        # list[Fragment], once
        committed = start | 'Commit' >> beam.Map(
            steps.publish, options, target, AsIter(fragments), AsIter(counts), *first
        )
        outputs = {
            'shards': committed
            | 'Shards' >> beam.FlatMap(steps.records).with_output_types(WrittenShard),
            'index': committed
            | 'IndexPath' >> beam.FlatMap(steps.index_paths, options).with_output_types(str),
        }
        if self._error_handler is not None:
            self._error_handler.add_error_pcollection(encoded.errors)
        elif options.catch:
            outputs['errors'] = encoded.errors
        return WriteResult(outputs)

    def display_data(self) -> dict[str, Any]:
        """Every option, for the runner's user interface."""
        options = self._options
        shown = {
            'out': options.out,
            'columns': f'{self._columns}, by schema'
            if self._inferred
            else str(options.config.columns.as_dict()),
            'compression': options.config.compression,
            'hashes': ','.join(options.config.hashes) or None,
            'size_limit': options.config.size_limit,
            'key': None if options.key is None else str(_name_of(options.key)),
            'order': options.order,
            # display data hold signed 64-bit integers
            'seed': options.seed if options.seed < 2**63 else str(options.seed),
            'num_shards': str(options.num_shards)
            if isinstance(options.num_shards, dict)
            else options.num_shards,
            'max_samples_per_shard': options.max_samples_per_shard,
            'split': None if options.split is None else str(_name_of(options.split)),
            'drop_split_column': options.drop_split_column,
            'extra': options.extra,
            'if_exists': options.if_exists,
            'spill': str(options.spill),
            'allow_empty': options.allow_empty,
        }
        return {name: DisplayDataItem(value).drop_if_none() for name, value in shown.items()}


def _name_of(value: Any) -> Any:
    return getattr(value, '__name__', value)


def _spill_mode(options: WriteOptions, pipeline: beam.Pipeline) -> str | None:
    """Where run files go: `beside` the dataset, in the `temp` folder, in a folder; None: inline."""
    if options.spill is False:
        return None
    if options.spill is True:
        return 'beside'
    if options.spill != 'auto':
        return options.spill
    if 'Dataflow' in type(pipeline.runner).__name__:
        return None
    return 'temp' if runs_here(pipeline) and is_remote(options.out) else 'beside'

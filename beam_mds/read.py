"""ReadFromMDS and ReadAllFromMDS: MDS datasets as a source."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import PBegin, PCollection
from apache_beam.typehints.row_type import RowTypeConstraint

from beam_mds import coders
from beam_mds.errors import ColumnsError, OptionError
from beam_mds.format import HASHES, EncodedBatch
from beam_mds.indexes import Path, dataset_folders, given_paths, read_index
from beam_mds.reading import steps
from beam_mds.reading.steps import SAMPLE, SHARD, Form, ReadOptions, UnreadSamples, check_wanted
from beam_mds.rows import row_fields
from beam_mds.writing.options import one_of

_ON_ERROR = ('fail', 'dead_letter')

coders.register()


class ReadResult(dict[str, PCollection[Any]]):
    """What a source with on_error='dead_letter' gives.

    A dict, so that every runner and Beam YAML see the outputs by name.
    """

    @property
    def samples(self) -> PCollection[Any]:
        """The samples that could be read."""
        return self['samples']

    @property
    def errors(self) -> PCollection[Any]:
        """The notes of what could not.

        Of MDS datasets, one `UnreadSamples` for each run of samples; of other sources, one
        `BadRecord` for each record, which `WriteToMDS` takes too.
        """
        return self['errors']


def read_options(
    columns: Sequence[str] | None,
    form: Form,
    *,
    validate_hash: str | None,
    with_metadata: bool = False,
    on_error: str,
    allow_pickle: bool,
) -> ReadOptions:
    """Checks what a source is given; see `ReadFromMDS`.

    Raises:
        OptionError: One of them cannot work; it is named.
    """
    if columns is not None and (
        isinstance(columns, str)
        or not columns
        or not all(isinstance(name, str) for name in columns)
    ):
        raise OptionError(f'columns must be a list of names or None, got {columns!r:.80}')
    if validate_hash is not None and validate_hash not in HASHES:
        raise OptionError(
            f'validate_hash={validate_hash!r:.80} is unknown: expected one of {", ".join(HASHES)}'
        )
    one_of('on_error', on_error, _ON_ERROR)
    wanted = None if columns is None else tuple(sorted(set(columns)))
    dead_letters = on_error == 'dead_letter'
    return ReadOptions(wanted, form, validate_hash, with_metadata, dead_letters, allow_pickle)


class _Read(beam.PTransform):
    """What the sources share: paths of datasets -> samples."""

    def __init__(self, options: ReadOptions) -> None:
        super().__init__()
        self._options = options

    def _samples(self, paths: PCollection[str], kind: Any) -> PCollection[Any] | ReadResult:
        """Wires the steps behind the paths."""
        read = (
            paths
            | 'ListShards' >> beam.FlatMap(steps.list_shards, self._options)
            # ShardRef
            | 'SpreadShards' >> beam.Reshuffle()
            | 'ReadShards'
            >> beam.ParDo(steps.ReadShards(self._options)).with_outputs('errors', main='samples')
        )
        read.samples.element_type = kind
        read.errors.element_type = UnreadSamples
        if not self._options.dead_letters:
            return read.samples
        return ReadResult(samples=read.samples, errors=read.errors)

    def _kind(self) -> Any:
        """The type of the elements, where it does not depend on the dataset."""
        return {'dicts': dict[str, Any], 'batches': pa.RecordBatch, 'encoded': EncodedBatch}[
            self._options.form
        ]

    def display_data(self) -> dict[str, Any]:
        """Every option, for the runner's user interface."""
        options = self._options
        shown = {
            'columns': None if options.columns is None else ','.join(options.columns),
            'form': options.form,
            'validate_hash': options.validate_hash,
            'on_error': _ON_ERROR[options.dead_letters],
        }
        return {name: value for name, value in shown.items() if value is not None}


class ReadEncoded(_Read):
    """Reads datasets without decoding them: elements are `EncodedBatch`, a few MB each."""

    def __init__(
        self, paths: Sequence[str], options: ReadOptions, kind: type = EncodedBatch
    ) -> None:
        """Makes the transform.

        Args:
            paths: Of the datasets, absolute.
            options: With the form `encoded`.
            kind: What `options.choose` gives.
        """
        super().__init__(options)
        self._paths, self._chosen = paths, kind

    def expand(self, pipeline: PBegin) -> PCollection[Any] | ReadResult:
        """Wires the steps."""
        return self._samples(pipeline | 'Paths' >> beam.Create(self._paths), self._chosen)


class ReadFromMDS(_Read):
    """Reads MDS datasets.

    Shards are read in parallel and, where they are uncompressed, in ranges of samples, which a
    runner splits further while they are read; there is no order. Only what is needed of an
    uncompressed shard is read; a compressed one is decompressed once for each range.

    Example:
        >>> import apache_beam as beam
        >>> from beam_mds import WriteToMDS
        >>> folder = getfixture('tmp_path')
        >>> with beam.Pipeline(runner='FnApiRunner') as pipeline:
        ...     rows = pipeline | beam.Create([{'text': 'hello', 'label': 1}])
        ...     _ = rows | WriteToMDS(folder, {'text': 'str', 'label': 'uint8'})
        >>> with beam.Pipeline(runner='FnApiRunner') as pipeline:
        ...     samples = pipeline | ReadFromMDS(folder, ['text'])
        ...     _ = samples | beam.Map(print)
        {'text': 'hello'}
    """

    def __init__(
        self,
        path: Path | Sequence[Path],
        columns: Sequence[str] | None = None,
        *,
        split: str | None = None,
        validate_hash: str | None = None,
        with_metadata: bool = False,
        as_batches: bool = False,
        as_rows: bool = False,
        on_error: str = 'fail',
        allow_pickle: bool = False,
    ) -> None:
        """Makes the transform; nothing is read before the pipeline runs, except by `as_rows`.

        Args:
            path: A dataset's folder, its index.json, a glob of either, or a list of these; on any
                filesystem that Beam knows.
            columns: The columns wanted; only they are decoded. All when None.
            split: A sub-folder of each path, like `train`.
            validate_hash: A hash that the dataset was written with, to check every stored file by;
                they are read as a whole then.
            with_metadata: Adds `mds_shard`, the path of the shard's file, and `mds_sample`, the
                sample's number in it.
            as_batches: Elements are `pyarrow.RecordBatch`, a few MB each, which is several times as
                fast; see `EncodedBatch.to_arrow`. Otherwise dicts, with the values that
                `StreamingDataset` gives.
            as_rows: Elements are `beam.Row` with a schema, for SQL, DataFrames and
                `WriteToParquet`; see `beam_mds.rows.row_fields`. The indexes are read when the
                pipeline is made.
            on_error: `fail` the job on a damaged file, or give a `dead_letter` for the samples that
                cannot be read; then the result is a `ReadResult`.
            allow_pickle: Whether to decode `pkl` columns, which runs code that is in the data.

        Raises:
            OptionError: A value, or a combination, that cannot work.
        """
        if as_batches and as_rows:
            raise OptionError('as_batches and as_rows exclude each other')
        super().__init__(
            read_options(
                columns,
                'batches' if as_batches else 'rows' if as_rows else 'dicts',
                validate_hash=validate_hash,
                with_metadata=with_metadata,
                on_error=on_error,
                allow_pickle=allow_pickle,
            )
        )
        self._paths = given_paths(path, split)

    def expand(self, pipeline: PBegin) -> PCollection[Any] | ReadResult:
        """Wires the steps.

        Raises:
            StorageError, FormatError, ColumnsError: With `as_rows`, an index cannot be read, or has
                not the columns that are wanted.
        """
        kind = self._row_kind() if self._options.form == 'rows' else self._kind()
        paths = pipeline | 'Paths' >> beam.Create(self._paths)
        return self._samples(paths, kind)

    def display_data(self) -> dict[str, Any]:
        """Every option, for the runner's user interface."""
        return {'path': ','.join(self._paths), **super().display_data()}

    def _row_kind(self) -> RowTypeConstraint:
        """The schema of the rows, which all datasets must have in common."""
        known: dict[str, list[tuple[str, Any]]] = {}
        for folder in dataset_folders(self._paths):
            for columns in {info.config.columns for info in read_index(folder)}:
                check_wanted(folder, columns, self._options)
                known[folder] = row_fields(columns, self._options.columns)
                (first, fields), *_ = known.items()
                if known[folder] != fields:
                    raise ColumnsError(
                        f'{first} and {folder} have different columns, so there is no common '
                        f'schema: {fields} and {known[folder]}'
                    )
        if not known:
            raise ColumnsError(f'{", ".join(self._paths)}: no shards, so there is no schema')
        fields = next(iter(known.values()))
        if self._options.with_metadata:
            fields = [*fields, (SHARD, str), (SAMPLE, int)]
        return RowTypeConstraint.from_fields(fields)


class ReadAllFromMDS(_Read):
    """Reads the MDS datasets whose paths come in a PCollection; see `ReadFromMDS`.

    Example:
        >>> import apache_beam as beam
        >>> with beam.Pipeline(runner='FnApiRunner') as pipeline:  # doctest: +SKIP
        ...     paths = pipeline | beam.Create(['gs://bucket/a', 'gs://bucket/b/*'])
        ...     samples = paths | ReadAllFromMDS(['text'])
    """

    def __init__(
        self,
        columns: Sequence[str] | None = None,
        *,
        split: str | None = None,
        validate_hash: str | None = None,
        with_metadata: bool = False,
        as_batches: bool = False,
        on_error: str = 'fail',
        allow_pickle: bool = False,
    ) -> None:
        """Makes the transform; see `ReadFromMDS` for the arguments and errors."""
        super().__init__(
            read_options(
                columns,
                'batches' if as_batches else 'dicts',
                validate_hash=validate_hash,
                with_metadata=with_metadata,
                on_error=on_error,
                allow_pickle=allow_pickle,
            )
        )
        self._split = split

    def expand(self, paths: PCollection[str | os.PathLike[str]]) -> PCollection[Any] | ReadResult:
        """Wires the steps."""
        absolute = paths | 'Paths' >> beam.FlatMap(given_paths, self._split)
        return self._samples(absolute, self._kind())

"""What the steps of ReadFromMDS run on workers: datasets -> shards -> samples."""

from __future__ import annotations

import contextlib
import itertools
import logging
from collections.abc import Callable, Iterator, Sequence, Sized
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.metrics import Metrics
from apache_beam.pvalue import TaggedOutput
from apache_beam.transforms.core import RestrictionProvider

from beam_mds.errors import ColumnsError, DamagedError, FormatError, StorageError, WhereError
from beam_mds.format import EncodedBatch
from beam_mds.format.decode import column_bounds
from beam_mds.indexes import dataset_folders, read_index
from beam_mds.reading.shardreader import ShardReader, ShardRef, check_columns
from beam_mds.rows import row_maker

Form: TypeAlias = Literal['dicts', 'rows', 'batches', 'encoded']

_logger = logging.getLogger(__name__)

# Columns that with_metadata=True adds.
SHARD, SAMPLE = 'mds_shard', 'mds_sample'

# Raw bytes of a range of samples that one worker reads from the start; runners split it further
# while it is read. Fewer would have readers of stores fetch more than they need.
_RANGE_BYTES = 64 << 20

# Characters of an error's message in a dead letter.
_SHOWN = 1000


class UnreadSamples(NamedTuple):
    """Samples of one shard that could not be read: a dead letter.

    Attributes:
        path: The stored file of the shard.
        sample: Number of the first of them in the shard.
        samples: How many they are.
        byte: Where the damage is, from the start of the raw file, as far as it is known.
        error_type: Name of the exception's class.
        message: What it says.
    """

    path: str
    sample: int
    samples: int
    byte: int | None
    error_type: str
    message: str


@dataclass(frozen=True)
class ReadOptions:
    """What `ReadFromMDS` was told, checked.

    Attributes:
        columns: The columns wanted, sorted; None for all.
        form: What the elements are.
        validate_hash: A hash to check stored files by.
        with_metadata: Whether elements say where they are from.
        dead_letters: Whether damage becomes a dead letter.
        allow_pickle: Whether pickled columns are decoded.
        choose: What of encoded samples goes on, or what they become; nothing if it has no length.
    """

    columns: tuple[str, ...] | None
    form: Form
    validate_hash: str | None
    with_metadata: bool
    dead_letters: bool
    allow_pickle: bool
    choose: Callable[[EncodedBatch], Sized] | None = None


def list_shards(path: str, options: ReadOptions) -> Iterator[ShardRef]:
    """The shards of the datasets that a path names.

    Raises:
        StorageError, FormatError: There is no dataset, or its index cannot be read.
        ColumnsError: A wanted column is not there, or may not be read; the dataset is named.
    """
    for folder in dataset_folders([path]):
        checked = None
        for info in read_index(folder):
            columns = info.config.columns
            if columns is not checked:
                check_wanted(folder, columns, options)
            checked = columns
            if info.samples:
                yield ShardRef(folder, info, options.validate_hash)


def check_wanted(folder: str, columns: Any, options: ReadOptions) -> None:
    """Raises if a dataset has not the columns that are wanted."""
    try:
        check_columns(columns, options.columns, allow_pickle=options.allow_pickle)
    except ColumnsError as error:
        raise ColumnsError(f'{folder}: {error}') from None
    if options.with_metadata and (taken := {SHARD, SAMPLE} & set(columns.names)):
        raise ColumnsError(
            f'{folder}: it has a column {min(taken)!r}, which with_metadata=True would add'
        )


class SampleRangeTracker(OffsetRestrictionTracker):
    """Claims samples by the last one of a batch.

    The batch is cut to what is left when a claim fails because the range was split meanwhile, so a
    failed claim is not the end.
    """

    def try_claim(self, position: int) -> bool:
        """Claims all samples up to this one."""
        if position >= self._range.stop:
            return False
        claimed: bool = super().try_claim(position)
        return claimed


class ShardRanges(RestrictionProvider):
    """Ranges of a shard's samples."""

    def initial_restriction(self, element: ShardRef) -> OffsetRange:
        return OffsetRange(0, element.info.samples)

    def create_tracker(self, restriction: OffsetRange) -> SampleRangeTracker:
        return SampleRangeTracker(restriction)

    def split(self, element: ShardRef, restriction: OffsetRange) -> Iterator[OffsetRange]:
        """Ranges of about the same size; the whole where it can only be read as a whole."""
        parts = max(1, round(self.restriction_size(element, restriction) / _RANGE_BYTES))
        if not element.in_ranges:
            parts = 1
        bounds = np.linspace(restriction.start, restriction.stop, parts + 1).astype(int).tolist()
        for start, stop in itertools.pairwise(bounds):
            if start < stop:
                yield OffsetRange(start, stop)

    def restriction_size(self, element: ShardRef, restriction: OffsetRange) -> int:
        """Raw bytes of the samples, on average."""
        info = element.info
        count: int = restriction.size()
        return info.raw_data.bytes * count // max(info.samples, 1)


_RANGES = beam.DoFn.RestrictionParam(ShardRanges())


class ReadShards(beam.DoFn):
    """Shards -> their samples, in the form wanted."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._rows: Any = None
        self._read = Metrics.counter('beam_mds', 'samples_read')
        self._bytes = Metrics.counter('beam_mds', 'bytes_read')
        self._unread = Metrics.counter('beam_mds', 'samples_unread')

    def process(self, element: ShardRef, tracker: Any = _RANGES) -> Iterator[Any]:
        rest = tracker.current_restriction()
        start, stop = rest.start, rest.stop
        if start == stop:
            return
        try:
            reader = ShardReader(element, start, stop)
        except (DamagedError, StorageError) as error:
            if not self._options.dead_letters:
                raise
            while not tracker.try_claim(stop - 1):
                stop = tracker.current_restriction().stop
            yield self._letter(element.path, start, stop, error)
            return
        with contextlib.closing(reader):
            while start < stop:
                end = min(reader.batch_end(start), stop)
                if tracker.try_claim(end - 1):
                    yield from self._elements(reader, start, end)
                    start = end
                else:
                    stop = tracker.current_restriction().stop

    def _elements(self, reader: ShardReader, start: int, stop: int) -> Iterator[Any]:
        """The elements of samples start to stop - 1, and dead letters for those that are none."""
        if start == stop:
            return
        try:
            batch = reader.read(start, stop)
        except (DamagedError, StorageError) as error:
            if not self._options.dead_letters:
                raise
            end = start
            if isinstance(error, DamagedError) and error.byte is not None:  # the file ends there
                end = min(reader.samples_before(error.byte, start), stop - 1)
            yield from self._elements(reader, start, end)
            yield self._letter(reader.path, end, stop, error)
            return
        self._bytes.inc(batch.nbytes)
        yield from self._decoded(reader, start, batch)

    def _decoded(self, reader: ShardReader, start: int, batch: EncodedBatch) -> Iterator[Any]:
        try:
            elements = self._formed(reader, start, batch)
        except (FormatError, WhereError) as error:
            damage = reader.placed(error, start)
            if not self._options.dead_letters:
                raise damage from error
            if len(batch) == 1:
                yield self._letter(reader.path, start, start + 1, damage)
                return
            middle = len(batch) // 2
            yield from self._decoded(reader, start, batch.slice(0, middle))
            yield from self._decoded(reader, start + middle, batch.slice(middle, len(batch)))
            return
        self._read.inc(len(batch))
        _logger.debug('%s: samples read', reader.path, extra={'samples': len(batch)})
        yield from elements

    def _formed(self, reader: ShardReader, start: int, batch: EncodedBatch) -> Sequence[Any]:
        """The elements that samples become."""
        options = self._options
        if options.form == 'encoded':
            column_bounds(batch.samples, batch.columns.sizes)  # raises where a sample is damaged
            chosen: Sized = batch if options.choose is None else options.choose(batch)
            return [chosen] if len(chosen) else []
        if options.form == 'batches':
            table = batch.to_arrow(options.columns)
            return [_placed(table, reader.path, start) if options.with_metadata else table]
        rows = batch.to_rows(options.columns)
        if options.with_metadata:
            for number, row in enumerate(rows, start):
                row[SHARD] = reader.path
                row[SAMPLE] = number
        return rows if options.form == 'dicts' else list(map(row_maker(batch.columns), rows))

    def _letter(self, path: str, start: int, stop: int, error: Exception) -> TaggedOutput:
        self._unread.inc(stop - start)
        byte = error.byte if isinstance(error, DamagedError) else None
        kind, message = type(error).__name__, str(error)[:_SHOWN]
        return TaggedOutput('errors', UnreadSamples(path, start, stop - start, byte, kind, message))


def _placed(table: pa.RecordBatch, path: str, start: int) -> pa.RecordBatch:
    """A batch with where its rows are from."""
    count = table.num_rows
    paths = pa.repeat(pa.scalar(path, pa.large_string()), count)
    return pa.RecordBatch.from_arrays(
        [*table.columns, paths, pa.array(np.arange(start, start + count))],
        schema=table.schema.append(pa.field(SHARD, pa.large_string())).append(
            pa.field(SAMPLE, pa.int64())
        ),
    )

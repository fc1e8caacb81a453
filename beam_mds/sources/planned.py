"""Sources that plan their samples from the list of all files, and then read many small ones."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

import apache_beam as beam
from apache_beam.pvalue import PBegin, PCollection

from beam_mds.background import run_ahead
from beam_mds.errors import OptionError
from beam_mds.read import ReadResult
from beam_mds.records import BadRecord
from beam_mds.sources.base import Element, Sorter, Source, sorted_outputs
from beam_mds.sources.fields import rename_fields

# A batch of work is what one worker reads at a time: until it has this many files, or bytes.
_BATCH_FILES, _BATCH_BYTES = 256, 64 << 20

# Files that one batch reads at the same time: an object store answers after 50 ms or so.
THREADS = 8


class Work(Protocol):
    """What is read by itself: the files of one sample, or one file of many."""

    @property
    def size(self) -> int:
        """Bytes of its files."""


_W = TypeVar('_W', bound=Work)


class PlannedSource(Source, Generic[_W]):
    """Base of sources that first look at the names of all files: for pairs, classes, indexes.

    One worker lists the input and makes the plan. Batches of it go to all workers, and each reads
    several files of its batch at the same time; at most twice as many results are held.
    """

    def __init__(
        self,
        inputs: Sequence[str | os.PathLike[str]],
        *,
        names: Mapping[str, str] | None = None,
        threads: int = THREADS,
        **options: Any,
    ) -> None:
        """Makes the transform.

        Args:
            inputs: See `Source`, which takes the further options too.
            names: Other names for fields of the samples: old -> new.
            threads: Files of one batch that are read at the same time.
            options: `pattern`, `exclude`, `split` and `on_error`.

        Raises:
            OptionError: A value that cannot work.
        """
        super().__init__(inputs, **options)
        given: Any = threads
        if not isinstance(given, int) or given < 1:
            raise OptionError(f'threads must be a whole number from 1 on, got {threads!r:.80}')
        self._names, self._threads = dict(names or {}), threads

    def plan(self) -> Iterator[_W | BadRecord]:
        """What there is to read, and what is wrong with the names, in the order of the input.

        Raises:
            MDSError: The input cannot be read, or is no such input.
        """
        raise NotImplementedError

    def read_work(self, work: _W) -> list[Element]:
        """The samples of one piece of work, or the note of what is wrong with it.

        Raises:
            StorageError: A file cannot be read.
        """
        raise NotImplementedError

    def iterate(self) -> Iterator[Element]:
        """What the transform gives, in the order of the plan, without Beam."""
        for work in self.plan():
            yield from self.read_any(work)

    def read_any(self, work: _W | BadRecord) -> list[Element]:
        """Like `read_work`, under the names wanted; a note of the plan is handed on."""
        if isinstance(work, BadRecord):
            return [work]
        elements = self.read_work(work)
        return [rename_fields(element, self._names) for element in elements]

    def batches(self) -> Iterator[list[_W | BadRecord]]:
        """The plan in batches."""
        batch: list[_W | BadRecord] = []
        size = 0
        for work in self.plan():
            batch.append(work)
            size += 0 if isinstance(work, BadRecord) else work.size
            if len(batch) >= _BATCH_FILES or size >= _BATCH_BYTES:
                yield batch
                batch, size = [], 0
        if batch:
            yield batch

    def read_batch(self, batch: Sequence[_W | BadRecord]) -> Iterator[Element]:
        """What a batch gives, in its order; several files are read at the same time."""
        for elements in run_ahead(self.read_any, batch, min(self._threads, len(batch))):
            yield from elements

    def expand(self, pipeline: PBegin) -> PCollection[Any] | ReadResult:
        """Wires the steps."""
        read = (
            pipeline
            | 'Start' >> beam.Impulse()
            | 'Plan' >> beam.FlatMap(lambda _, source: source.batches(), self)
            # list of work, or of notes
            | 'SpreadBatches' >> beam.Reshuffle()
            | 'ReadBatches'
            >> beam.ParDo(_ReadBatches(self, self._on_error)).with_outputs('errors', main='samples')
        )
        return sorted_outputs(read, self._on_error)


class _ReadBatches(beam.DoFn):
    """Batch of work -> samples, and notes in `errors`."""

    def __init__(self, source: PlannedSource[Any], on_error: str) -> None:
        self._source = source
        self._sorter = Sorter(on_error)

    def process(self, element: Sequence[Any]) -> Iterator[Any]:
        return map(self._sorter.sort, self._source.read_batch(element))

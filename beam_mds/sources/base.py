"""What the sources share: inputs -> files -> pieces -> samples, and notes of bad records."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import apache_beam as beam
import pyarrow as pa
from apache_beam.metrics import Metrics
from apache_beam.pvalue import PBegin, PCollection, TaggedOutput

from beam_mds import coders
from beam_mds.read import ReadResult
from beam_mds.records import BadRecord
from beam_mds.sources.inputs import InputFile, check_inputs, list_inputs
from beam_mds.writing.options import one_of

# What a source gives: a sample, many of them, or the note of a record that is none.
Element: TypeAlias = Mapping[str, Any] | pa.RecordBatch | BadRecord

_ON_ERROR = ('fail', 'dead_letter', 'inline')

# What of the input is looked at to tell its columns.
_HEAD_FILES, _HEAD_ELEMENTS = 5, 200

coders.register()


class Piece(NamedTuple):
    """A part of a file that is read by itself.

    Attributes:
        file: The file.
        start: Its first byte, or what a source counts by.
        stop: The first byte behind it.
        number: Its place among the pieces of the file.
    """

    file: InputFile
    start: int
    stop: int
    number: int = 0


def check_on_error(on_error: str) -> str:
    """What happens to bad records: `fail`, `dead_letter` or `inline`.

    Raises:
        OptionError: It is none of them.
    """
    one_of('on_error', on_error, _ON_ERROR)
    return on_error


class Source(beam.PTransform):
    """Base of the sources: each says how a file is cut into pieces, and how a piece is read."""

    def __init__(
        self,
        inputs: Sequence[str | os.PathLike[str]],
        *,
        pattern: str = '*',
        exclude: Sequence[str] = (),
        split: str | None = None,
        on_error: str = 'fail',
    ) -> None:
        """Makes the transform; nothing is listed or read before the pipeline runs.

        Args:
            inputs: Folders, globs (`**` crosses folders), files, or `@file`: a file that lists
                such, one a line. On any filesystem that Beam knows.
            pattern: What the names of files below a folder must match, like `*.jsonl`.
            exclude: Names, or globs of names, of files and folders to leave out at any depth.
            split: A pattern of the ends of paths whose fields every sample gets, like
                `{split}/*.jsonl`; or several with `|` between them.
            on_error: `fail` the job at the first bad record; make each a `dead_letter` (see
                `ReadResult`); or leave it `inline`: a `BadRecord` among the samples, which
                `WriteToMDS` refuses there.

        Raises:
            OptionError: A value that cannot work.
        """
        super().__init__()
        self._inputs = check_inputs(inputs, split)
        self._on_error = check_on_error(on_error)
        self._listing: dict[str, Any] = {
            'pattern': pattern,
            'exclude': tuple(exclude),
            'split': split,
        }

    def files(self) -> list[InputFile]:
        """The files of the input, in order.

        Raises:
            StorageError: An input names no file.
        """
        return list_inputs(self._inputs, **self._listing)

    def pieces(self, file: InputFile) -> Iterator[Piece]:
        """The parts of a file that can be read at the same time; the whole file by default."""
        yield Piece(file, 0, file.size)

    def read(self, piece: Piece) -> Iterator[Element]:
        """The samples of a piece, and notes of what is none.

        Raises:
            StorageError: The file cannot be read.
        """
        raise NotImplementedError

    def head(self) -> Iterator[Element]:
        """What the first files begin with: at most 200 elements of each of 5."""
        for file in self.files()[:_HEAD_FILES]:
            for piece in itertools.islice(self.pieces(file), 1):
                yield from itertools.islice(self.read(piece), _HEAD_ELEMENTS)

    def iterate(self) -> Iterator[Element]:
        """What the transform gives, one after another in the order of the input, without Beam."""
        for file in self.files():
            for piece in self.pieces(file):
                yield from self.read(piece)

    def expand(self, pipeline: PBegin) -> PCollection[Any] | ReadResult:
        """Wires the steps."""
        read = (
            pipeline
            | 'Start' >> beam.Impulse()
            | 'ListFiles' >> beam.FlatMap(lambda _, source: source.files(), self)
            # InputFile
            | 'SpreadFiles' >> beam.Reshuffle()
            | 'CutFiles' >> beam.FlatMap(lambda file, source: source.pieces(file), self)
            # Piece
            | 'SpreadPieces' >> beam.Reshuffle()
            | 'ReadPieces'
            >> beam.ParDo(_ReadPieces(self, self._on_error)).with_outputs('errors', main='samples')
        )
        return sorted_outputs(read, self._on_error)


class Sorter:
    """Sorts what a source gives into samples and notes, counts them, or fails at the first note."""

    def __init__(self, on_error: str) -> None:
        """Makes the counters.

        Args:
            on_error: What happens to notes.
        """
        self._on_error = on_error
        self._good = Metrics.counter('beam_mds', 'records_read')
        self._bad = Metrics.counter('beam_mds', 'records_bad')

    def sort(self, element: Element) -> Any:
        """The element as an output.

        Raises:
            RecordError: A bad record, with on_error='fail'.
        """
        if type(element) is not BadRecord:
            self._good.inc(element.num_rows if isinstance(element, pa.RecordBatch) else 1)
            return element
        self._bad.inc()
        if self._on_error == 'fail':
            raise element.as_error()
        return element if self._on_error == 'inline' else TaggedOutput('errors', element)


def sorted_outputs(read: Any, on_error: str) -> PCollection[Any] | ReadResult:
    """What a transform gives whose last step sorts its elements with a `Sorter`.

    Args:
        read: Outputs `samples` and `errors` of that step.
        on_error: What happens to notes.
    """
    read.samples.element_type = coders.ELEMENTS
    read.errors.element_type = BadRecord
    if on_error != 'dead_letter':
        samples: PCollection[Any] = read.samples
        return samples
    return ReadResult(samples=read.samples, errors=read.errors)


class _ReadPieces(beam.DoFn):
    """Piece -> samples, and notes in `errors`."""

    def __init__(self, source: Source, on_error: str) -> None:
        self._source = source
        self._sorter = Sorter(on_error)

    def process(self, element: Piece) -> Iterator[Any]:
        return map(self._sorter.sort, self._source.read(element))

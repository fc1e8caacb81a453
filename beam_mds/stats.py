"""MDSStats: what is in datasets, column by column, in numbers."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.pvalue import PBegin, PCollection

from beam_mds.distributions import MAX_CHARACTERS, Distribution, Tally, merge_tallies, tally
from beam_mds.format import EncodedBatch, Encoding
from beam_mds.format.encodings.arrays import NDArray
from beam_mds.format.encodings.base import Offsets, StoredText, binary_part
from beam_mds.format.encodings.text import Str
from beam_mds.indexes import Path, given_paths
from beam_mds.read import ReadEncoded, ReadResult, read_options
from beam_mds.reading.steps import UnreadSamples

# Of samples that cannot be read, so many dead letters are kept, and the number of all.
MAX_LETTERS = 20


@dataclass
class ColumnStats:
    """What is kept of any number of values of one column.

    Attributes:
        count: How many there are.
        bytes: Bytes of all of them, as they are encoded.
        measures: `characters`, `bytes`, `elements` or `items` of each value; `numbers`: the values
            themselves, or all elements of arrays. Which there are depends on the encoding.
        tallies: How often each of few `values`, `shapes` or `dtypes` came; None: there are many.
    """

    count: int = 0
    bytes: int = 0
    measures: dict[str, Distribution] = field(default_factory=dict)
    tallies: dict[str, Tally] = field(default_factory=dict)

    def measure(self, name: str, numbers: Any) -> None:
        """Adds numbers, as numpy or Arrow has them."""
        self.measures.setdefault(name, Distribution()).add(np.asarray(numbers))

    def count_all(self, name: str, found: Tally) -> None:
        """Adds how often values came."""
        self.tallies[name] = merge_tallies(self.tallies.get(name, Counter()), found)

    def merge(self, other: ColumnStats) -> None:
        """Adds what another one has."""
        self.count += other.count
        self.bytes += other.bytes
        for name, found in other.measures.items():
            self.measures.setdefault(name, Distribution()).merge(found)
        for name, counts in other.tallies.items():
            self.count_all(name, counts)

    def as_dict(self) -> dict[str, Any]:
        """The result, of values that JSON holds."""
        found: dict[str, Any] = {'count': self.count, 'bytes': self.bytes}
        measures = {name: measure.as_dict() for name, measure in self.measures.items()}
        numbers = measures.pop('numbers', None)
        if measures:
            found['lengths'] = dict(sorted(measures.items(), reverse=True))
        if numbers is not None:
            found['numbers'] = numbers
        for name, counts in sorted(self.tallies.items()):
            found[name] = None if counts is None else _most_frequent(counts)
        return found


def _most_frequent(counts: Counter[Any]) -> list[dict[str, Any]]:
    return [
        {'value': list(value) if isinstance(value, tuple) else value, 'count': count}
        for value, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]


def column_stats(encoding: Encoding, items: pa.LargeBinaryArray) -> ColumnStats:
    """Sums up a column of n encoded values.

    Images and pickles are not looked into, whatever they hold.

    Args:
        encoding: Of the column.
        items: The encoded values; their bytes lie one after another.

    Raises:
        Exception: One of them is damaged; which one is not said.
    """
    offsets = binary_part(items).offsets
    assert offsets is not None
    sizes = np.diff(offsets)
    found = ColumnStats(len(items), int(sizes.sum()))
    if isinstance(encoding, NDArray):
        _add_arrays(found, encoding, items)
    elif isinstance(encoding, (Str, StoredText)):
        _add_texts(found, encoding, items, sizes)
    elif pa.types.is_large_binary(encoding.arrow_type):
        found.measure('bytes', sizes)
    elif pa.types.is_large_list(encoding.arrow_type):  # images
        found.measure('items', pc.list_value_length(encoding.to_arrow(items)))
        found.measure('bytes', sizes)
    else:
        numbers = encoding.to_arrow(items)
        found.measure('numbers', numbers)
        if pa.types.is_integer(numbers.type):
            found.count_all('values', tally(numbers))
    return found


def _add_arrays(found: ColumnStats, encoding: NDArray, items: pa.LargeBinaryArray) -> None:
    for shapes, numbers in encoding.groups(items):
        found.measure('elements', shapes.prod(axis=1))
        found.measure('numbers', numbers)
        if encoding.dtype is None:
            found.count_all('dtypes', Counter({numbers.dtype.name: len(shapes)}))
        if shapes.shape[1] != 1:  # that of a vector is its length
            distinct, counts = np.unique(shapes, axis=0, return_counts=True)
            rows = zip(map(tuple, distinct.tolist()), counts.tolist(), strict=True)
            found.count_all('shapes', Counter(dict(rows)))


def _add_texts(
    found: ColumnStats, encoding: Encoding, items: pa.LargeBinaryArray, sizes: Offsets
) -> None:
    texts = encoding.to_arrow(items)
    characters = pc.utf8_length(texts).to_numpy()
    if isinstance(encoding, Str):
        found.measure('characters', characters)
    found.measure('bytes', sizes)
    short = characters.max(initial=0) <= MAX_CHARACTERS
    found.count_all('values', tally(texts) if short else None)


@dataclass
class DatasetStats:
    """What is kept of any number of samples of any datasets.

    Attributes:
        samples: How many were read.
        bytes: Bytes of all of them, as they are encoded.
        columns: By name and encoding, which need not be the same in all datasets.
        unread: How many could not be read.
        letters: Which ones these are, as far as they are not too many.
    """

    samples: int = 0
    bytes: int = 0
    columns: dict[tuple[str, str], ColumnStats] = field(default_factory=dict)
    unread: int = 0
    letters: list[UnreadSamples] = field(default_factory=list)

    def __len__(self) -> int:
        """The number of samples that were read."""
        return self.samples

    def merge(self, other: DatasetStats) -> None:
        """Adds what another one has."""
        self.samples += other.samples
        self.bytes += other.bytes
        for key, found in other.columns.items():
            self.columns.setdefault(key, ColumnStats()).merge(found)
        self.unread += other.unread
        letters = [*self.letters, *other.letters]
        self.letters = sorted(letters, key=lambda letter: letter[:2])[:MAX_LETTERS]

    def as_dict(self) -> dict[str, Any]:
        """The result, of values that JSON holds; see `MDSStats`."""
        return {
            'samples': self.samples,
            'bytes': self.bytes,
            'columns': [
                {'name': name, 'encoding': encoding, **found.as_dict()}
                for (name, encoding), found in sorted(self.columns.items())
            ],
            'unread_samples': self.unread,
            'unread': [letter._asdict() for letter in self.letters],
        }


def batch_stats(batch: EncodedBatch, only: Iterable[str] | None = None) -> DatasetStats:
    """Sums up a batch of samples.

    Args:
        batch: The samples.
        only: The columns wanted; all when None.

    Raises:
        FormatError: A sample is damaged; `row` says which.
        ColumnsError: `only` names a column that there is not.

    Example:
        >>> from beam_mds.format import Columns
        >>> columns = Columns({'text': 'str'})
        >>> batch = EncodedBatch(columns, columns.encode_batch([{'text': 'a'}, {'text': 'bcd'}]))
        >>> batch_stats(batch).as_dict()['columns'][0]['lengths']['characters']['mean']
        2.0
    """
    places = batch.columns.places(only)
    keys = [(batch.columns.names[place], batch.columns.encodings[place].name) for place in places]
    found = batch.decode_columns(places, column_stats)
    return DatasetStats(len(batch), batch.nbytes, dict(zip(keys, found, strict=True)))


class _MergeStats(beam.CombineFn):
    """Statistics -> those of all, as a dict."""

    def create_accumulator(self) -> DatasetStats:
        return DatasetStats()

    def add_input(self, accumulator: DatasetStats, found: DatasetStats) -> DatasetStats:
        accumulator.merge(found)
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[DatasetStats]) -> DatasetStats:
        merged = DatasetStats()
        for accumulator in accumulators:
            merged.merge(accumulator)
        return merged

    def extract_output(self, accumulator: DatasetStats) -> dict[str, Any]:
        return accumulator.as_dict()


def _stats_of_unread(letter: UnreadSamples) -> DatasetStats:
    return DatasetStats(unread=letter.samples, letters=[letter])


class MDSStats(beam.PTransform):
    """Sums up MDS datasets, column by column: one dict for all of them.

    It holds `samples`, `bytes` (as they are encoded, uncompressed), `columns`, `unread_samples` and
    `unread` (20 `UnreadSamples` as dicts, at most). A column has `name`, `encoding`, `count`,
    `bytes`, and, as its encoding has them:

    - `lengths` of its values: `characters` and `bytes` of texts, `elements` of arrays (of tokens,
      say), `items` and `bytes` of lists of images, `bytes` of all else that is not of one size.
    - `numbers`: the numbers themselves, or the elements of all arrays.
    - `values`: of integers and texts, the most frequent first; None when there are more than 1,000
      different ones, or a text of more than 64 characters.
    - `shapes` of arrays that are no vectors, `dtypes` of arrays of any dtype: likewise.

    Lengths and numbers are told by `count`, `min`, `mean`, `max`, `percentiles` (1, 5, 25, 50, 75,
    95 and 99), `zeros`, and `total` if they are integers, or `nan` and `infinite` (which nothing
    else counts) if not. Percentiles are rounded toward 0 to 8 binary digits; all else is exact, and
    nothing depends on the order in which samples are read. Columns of one name that are encoded
    differently in two datasets stand side by side.

    Example:
        >>> import apache_beam as beam
        >>> from beam_mds import WriteToMDS
        >>> folder = getfixture('tmp_path')
        >>> with beam.Pipeline(runner='FnApiRunner') as pipeline:
        ...     rows = pipeline | beam.Create([{'text': text} for text in ('a', 'bcd')])
        ...     _ = rows | WriteToMDS(folder, {'text': 'str'})
        >>> with beam.Pipeline(runner='FnApiRunner') as pipeline:
        ...     stats = pipeline | MDSStats(folder)
        ...     texts = stats | beam.Map(lambda found: found['columns'][0])
        ...     _ = texts | beam.Map(lambda found: print(found['lengths']['characters']['mean']))
        2.0
    """

    def __init__(
        self,
        path: Path | Sequence[Path],
        columns: Sequence[str] | None = None,
        *,
        split: str | None = None,
        skip_damaged: bool = False,
    ) -> None:
        """Makes the transform; nothing is read before the pipeline runs.

        Args:
            path: A dataset's folder, its index.json, a glob of either, or a list of these; on any
                filesystem that Beam knows.
            columns: The columns wanted; only they are decoded. All when None.
            split: A sub-folder of each path, like `train`.
            skip_damaged: Whether to count samples that cannot be read, instead of failing the job.

        Raises:
            OptionError: A value that cannot work.
        """
        super().__init__()
        options = read_options(
            columns,
            'encoded',
            validate_hash=None,
            on_error='dead_letter' if skip_damaged else 'fail',
            allow_pickle=True,  # of pickles only the sizes are looked at, which runs no code
        )
        choose = functools.partial(batch_stats, only=options.columns)
        self._paths, self._read = given_paths(path, split), replace(options, choose=choose)

    def expand(self, pipeline: PBegin) -> PCollection[dict[str, Any]]:
        """Wires the steps."""
        found = pipeline | 'Read' >> ReadEncoded(self._paths, self._read, DatasetStats)
        # DatasetStats, of a few MB each
        if isinstance(found, ReadResult):
            unread = found.errors | 'CountUnread' >> beam.Map(_stats_of_unread)
            found = (found.samples, unread) | 'WithUnread' >> beam.Flatten()
        return found | 'MergeStats' >> beam.CombineGlobally(_MergeStats())

    def display_data(self) -> dict[str, Any]:
        """Every option, for the runner's user interface."""
        columns = self._read.columns
        shown = {'path': ','.join(self._paths), 'skip_damaged': self._read.dead_letters}
        return shown if columns is None else {**shown, 'columns': ','.join(columns)}

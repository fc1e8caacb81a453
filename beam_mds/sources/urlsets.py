"""Rows whose URL is not needed: one that another row has, or that a dataset has already."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import apache_beam as beam
from apache_beam.metrics import Metrics
from apache_beam.pvalue import PCollection

from beam_mds import storage
from beam_mds.format import INDEX_NAME
from beam_mds.read import ReadAllFromMDS
from beam_mds.records import PLACE, BadRecord
from beam_mds.sources.fields import rows_of
from beam_mds.sources.urlrows import Row


class DropDuplicateUrls(beam.PTransform):
    """Keeps one row for each URL: the first one by file and place."""

    def __init__(self, url_column: str) -> None:
        """Makes the transform.

        Args:
            url_column: Has the URL. Rows without one, and notes of bad ones, are all kept.
        """
        super().__init__()
        self._column = url_column

    def expand(self, rows: PCollection[Any]) -> PCollection[Row]:
        """Wires the steps."""
        return (
            rows
            | 'KeyByUrl' >> beam.FlatMap(_keyed, self._column)
            # (URL, row)
            | 'FirstOfUrl' >> beam.CombinePerKey(_First())
            | 'CountOthers' >> beam.Map(_counted)
        )


class DropExistingUrls(beam.PTransform):
    """Drops rows whose URL a dataset has.

    A shard holds its samples one after another, so all shards are read whole for this one column.
    """

    def __init__(
        self, url_column: str, dataset: str | os.PathLike[str], dataset_column: str
    ) -> None:
        """Makes the transform; the dataset is looked up when the pipeline runs.

        Args:
            url_column: Has the URL of a row. Rows without one are all kept.
            dataset: Its folder; where there is none, nothing is dropped.
            dataset_column: Has the URL there.
        """
        super().__init__()
        self._column = url_column
        self._dataset = storage.absolute(dataset, 'skip_existing')
        self._dataset_column = dataset_column

    def expand(self, rows: PCollection[Any]) -> PCollection[Row]:
        """Wires the steps."""
        column = self._dataset_column
        existing = (
            rows.pipeline
            | 'Start' >> beam.Impulse()
            | 'FindDataset' >> beam.FlatMap(_there, self._dataset)
            # the dataset's path, if there is one
            | 'ReadExisting' >> ReadAllFromMDS([column])
            | 'ExistingUrls' >> beam.Map(lambda sample: ((sample[column], ''), None))
        )
        keyed = rows | 'KeyByUrl' >> beam.FlatMap(_keyed, self._column)
        return (
            {'rows': keyed, 'existing': existing}
            | 'GroupByUrl' >> beam.CoGroupByKey()
            | 'KeepNew' >> beam.FlatMap(_new)
        )


class _First(beam.CombineFn):
    """Rows -> the first of them, and how many others there are."""

    def create_accumulator(self) -> Any:
        return None, None, 0

    def add_input(self, accumulator: Any, row: Row) -> Any:
        return self.merge_accumulators([accumulator, (_rank(row), row, 1)])

    def merge_accumulators(self, accumulators: Iterable[Any]) -> Any:
        some = [one for one in accumulators if one[2]]
        if not some:
            return self.create_accumulator()
        rank, row, _ = min(some, key=lambda one: one[0])
        return rank, row, sum(one[2] for one in some)

    def extract_output(self, accumulator: Any) -> tuple[Row, int]:
        _, row, count = accumulator
        return row, count - 1


def _keyed(element: Any, column: str) -> Iterator[tuple[tuple[str, str], Row]]:
    """((URL, nothing), row), or (('', place), row) for what has no URL: that is nobody's double."""
    for row in rows_of(element):
        url = row.get(column) if isinstance(row, Mapping) else None
        if isinstance(url, str) and url.strip():
            yield (url, ''), row
        else:
            yield ('', repr(_rank(row))), row


def _rank(row: Any) -> tuple[str, bool, int, str]:
    """Orders rows by file and place; rows that tell none by what they hold."""
    if type(row) is BadRecord:
        return '', False, 0, repr(row)
    place = row.get(PLACE)
    if not place:
        return '', False, 0, repr(sorted(row.items(), key=lambda item: item[0]))
    numbers = [value for value in place.values() if isinstance(value, int)]
    # Of a file that is read in pieces, only the first one counts lines.
    return str(place.get('file')), 'byte' in place, numbers[0] if numbers else 0, ''


def _counted(keyed: tuple[Any, tuple[Row, int]]) -> Row:
    _, (row, others) = keyed
    if others:
        Metrics.counter('beam_mds', 'duplicate_urls_skipped').inc(others)
    return row


def _there(_: Any, path: str) -> Iterator[str]:
    if storage.size_of(storage.join(path, INDEX_NAME)) is not None:
        yield path


def _new(grouped: tuple[Any, Any]) -> Iterator[Row]:
    _, found = grouped
    rows = found['rows']
    if found['existing']:
        for _ in rows:
            Metrics.counter('beam_mds', 'existing_urls_skipped').inc()
        return
    yield from rows

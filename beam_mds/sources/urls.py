"""FetchUrls, ReadUrls: tables of URLs -> samples with what is there."""

from __future__ import annotations

import itertools
import os
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.metrics import Metrics
from apache_beam.pvalue import PBegin, PCollection, TaggedOutput
from apache_beam.utils.windowed_value import WindowedValue

from beam_mds.read import ReadResult
from beam_mds.records import BadRecord
from beam_mds.sources.base import Element, check_on_error, sorted_outputs
from beam_mds.sources.fetching import fetcher
from beam_mds.sources.fetching.options import FetchOptions
from beam_mds.sources.fetching.outcomes import FAILURES, FETCHED
from beam_mds.sources.fields import rows_of
from beam_mds.sources.urlrows import Row, UrlRowOptions, result_of, url_of
from beam_mds.sources.urlsets import DropDuplicateUrls, DropExistingUrls
from beam_mds.sources.urltables import UrlTables

# Rows of a batch that travel together to the worker that fetches them.
_TOGETHER = 64

# Rows that `ReadUrls.iterate` fetches at once, to give them in order.
_IN_ORDER = 16


class FetchUrls(beam.PTransform):
    """Fetches the URL of each row, and adds what is there to it.

    Rows are dicts, or many at once as `pyarrow.RecordBatch`. A sample is the row with the columns
    `bytes_column` and `status_column`; samples come as they are done. Each row is one sample or one
    `BadRecord`, whose `error_type` is one of `beam_mds.sources.fetching.outcomes.FAILURES` and
    whose `element` is the row. Both are counted, by category, as `urls_<category>`.

    Example:
        >>> import apache_beam as beam
        >>> with beam.Pipeline(runner='FnApiRunner') as pipeline:
        ...     result = (
        ...         pipeline
        ...         | beam.Create([{'url': 'http://localhost/secret', 'caption': 'mine'}])
        ...         | FetchUrls(fetch=FetchOptions(accept='image/*'), on_error='dead_letter')
        ...     )
        ...     _ = result.errors | beam.Map(lambda bad: print(bad.error_type, bad.element))
        refused_address {'url': 'http://localhost/secret', 'caption': 'mine'}
    """

    def __init__(
        self,
        rows: UrlRowOptions | None = None,
        *,
        fetch: FetchOptions | None = None,
        on_error: str = 'fail',
    ) -> None:
        """Makes the transform; nothing is fetched before the pipeline runs.

        Args:
            rows: What the columns are.
            fetch: How URLs are fetched.
            on_error: `fail` the job at the first row that has no sample; make each a
                `dead_letter` (see `ReadResult`); or leave its note `inline`, among the samples.

        Raises:
            OptionError: A value that cannot work.
            MissingExtraError: pycurl is not installed.
        """
        super().__init__()
        fetcher.check_installed()
        self._rows, self._fetch = rows or UrlRowOptions(), fetch or FetchOptions()
        self._on_error = check_on_error(on_error)

    def expand(self, rows: PCollection[Any]) -> PCollection[Any] | ReadResult:
        """Wires the steps."""
        fetched = (
            rows
            | 'CutBatches' >> beam.FlatMap(_cut)
            # a few rows
            | 'SpreadRows' >> beam.Reshuffle()
            | 'Fetch'
            >> beam.ParDo(_Fetch(self._rows, self._fetch, self._on_error)).with_outputs(
                'errors', main='samples'
            )
        )
        return sorted_outputs(fetched, self._on_error)


class ReadUrls(beam.PTransform):
    """Reads tables of URLs and fetches each; see `FetchUrls` for what comes of a row.

    Tables are csv, tsv, parquet and the other formats of `ReadTables`, JSON lines, and text with a
    URL a line; their names tell (see `formats`).

    Example:
        >>> path = getfixture('tmp_path') / 'list.txt'
        >>> _ = path.write_text('ftp://example.org/a.jpg')
        >>> for element in ReadUrls([path]).iterate():
        ...     print(element.error_type, element.place['line'])
        scheme 1
    """

    def __init__(
        self,
        inputs: Sequence[str | os.PathLike[str]],
        rows: UrlRowOptions | None = None,
        *,
        fetch: FetchOptions | None = None,
        table_format: str = 'auto',
        table_options: Any = None,
        deduplicate: bool = False,
        skip_existing: str | os.PathLike[str] | None = None,
        existing_column: str | None = None,
        pattern: str = '*',
        exclude: Sequence[str] = (),
        split: str | None = None,
        on_error: str = 'fail',
    ) -> None:
        """Makes the transform; nothing is read or fetched before the pipeline runs.

        Args:
            inputs: Folders, globs, files, or `@file`; see `Source`.
            rows: What the columns are.
            fetch: How URLs are fetched.
            table_format: `auto`: by the name of each file; or one of `urltables.FORMATS`. `errors`
                is the file of an earlier run's dead letters, whose rows are fetched again.
            table_options: Keyword arguments for `ReadTables`.
            deduplicate: Fetch a URL once, for the first row that has it by file and place. The
                other rows are dropped, and counted as `duplicate_urls_skipped`.
            skip_existing: A dataset whose URLs are not fetched again, which is counted as
                `existing_urls_skipped`. All of its shards are read for that. If there is none yet,
                nothing is skipped.
            existing_column: The column of that dataset that has the URL; as in the rows by default.
            pattern: What the names of files below a folder must match.
            exclude: Names, or globs of names, to leave out.
            split: A pattern of the ends of paths whose fields every row gets.
            on_error: `fail`, `dead_letter` or `inline`.

        Raises:
            OptionError: A value that cannot work.
            MissingExtraError: pycurl is not installed.
        """
        super().__init__()
        fetcher.check_installed()
        self._rows, self._fetch = rows or UrlRowOptions(), fetch or FetchOptions()
        self._on_error = check_on_error(on_error)
        self.tables = UrlTables(
            inputs,
            table_format=table_format,
            table_options=table_options,
            url_column=self._rows.url_column,
            made_columns=self._rows.made,
            pattern=pattern,
            exclude=exclude,
            split=split,
            on_error='fail' if on_error == 'fail' else 'inline',
        )
        self._deduplicate = deduplicate
        self._existing = skip_existing
        self._existing_column = existing_column or self._rows.url_column

    def iterate(self) -> Iterator[Element]:
        """What the transform gives, in the order of the tables, without Beam.

        URLs of `skip_existing` are not left out.
        """
        seen: set[str] = set()
        with fetcher.Fetcher(self._fetch) as fetches:
            for element in self.tables.iterate():
                if type(element) is BadRecord:
                    yield element
                    continue
                rows = iter(rows_of(element))
                while some := list(itertools.islice(rows, _IN_ORDER)):
                    yield from self._fetch_in_order(some, fetches, seen)

    def expand(self, pipeline: PBegin) -> PCollection[Any] | ReadResult:
        """Wires the steps."""
        rows: Any = pipeline | 'ReadTables' >> self.tables
        # rows, batches of rows, and notes of what is none
        if self._deduplicate:
            rows = rows | 'DropDuplicates' >> DropDuplicateUrls(self._rows.url_column)
        if self._existing is not None:
            rows = rows | 'DropExisting' >> DropExistingUrls(
                self._rows.url_column, self._existing, self._existing_column
            )
        return rows | 'FetchUrls' >> FetchUrls(
            self._rows, fetch=self._fetch, on_error=self._on_error
        )

    def _fetch_in_order(
        self, rows: Iterable[Any], fetches: fetcher.Fetcher, seen: set[str]
    ) -> Iterator[Element]:
        found: list[Any] = []
        batch = fetches.batch()
        for row in rows:
            url = url_of(row, self._rows)
            if isinstance(url, BadRecord):
                found.append(url)
            elif not (self._deduplicate and url in seen):
                seen.add(url)
                batch.submit((len(found), row, url), url)
                found.append(None)
        for (number, row, url), outcome in batch.rest():
            found[number] = result_of(row, url, outcome, self._rows)
        yield from found


def _cut(element: Any) -> Iterator[list[Row | BadRecord]]:
    """Rows in short lists: a slice of a batch would travel with all of the batch."""
    rows = iter(rows_of(element))
    while some := list(itertools.islice(rows, _TOGETHER)):
        yield some


class _Fetch(beam.DoFn):
    """Lists of rows -> samples, and notes in `errors`; at the end of the bundle the rest of them.

    All threads of a process share one fetcher, so the options bound the process.
    """

    def __init__(self, rows: UrlRowOptions, fetch: FetchOptions, on_error: str) -> None:
        self._rows, self._options, self._on_error = rows, fetch, on_error
        # Two steps must not wait for each other's memory: each has a fetcher of its own.
        self._key = uuid.uuid4().hex
        self._counters = {
            name: Metrics.counter('beam_mds', f'urls_{name}') for name in (FETCHED, *FAILURES)
        }
        self._batch: Any = None

    def setup(self) -> None:
        self._fetcher = fetcher.shared(self._key, self._options)

    def start_bundle(self) -> None:
        self._drop()  # what a bundle that failed has left
        self._batch = self._fetcher.batch()

    def process(
        self,
        element: list[Row | BadRecord],
        timestamp: Any = beam.DoFn.TimestampParam,
        window: Any = beam.DoFn.WindowParam,
    ) -> Iterator[Any]:
        for row in element:
            if isinstance(row, BadRecord):
                yield self._sorted(row, timestamp, window)
                continue
            url = url_of(row, self._rows)
            if isinstance(url, BadRecord):
                self._count(url)
                yield self._sorted(url, timestamp, window)
                continue
            self._batch.submit((row, url, timestamp, window), url)
            yield from map(self._done, self._batch.ready())

    def finish_bundle(self) -> Iterator[Any]:
        yield from map(self._done, self._batch.rest())

    def teardown(self) -> None:
        self._drop()
        fetcher.release(self._key)

    def _drop(self) -> None:
        if self._batch is not None:
            self._batch.cancel()

    def _done(self, done: Any) -> Any:
        (row, url, timestamp, window), outcome = done
        result = result_of(row, url, outcome, self._rows)
        self._count(result)
        return self._sorted(result, timestamp, window)

    def _count(self, result: Any) -> None:
        self._counters[result.error_type if type(result) is BadRecord else FETCHED].inc()

    def _sorted(self, result: Any, timestamp: Any, window: Any) -> Any:
        value = WindowedValue(result, timestamp, (window,))
        if type(result) is not BadRecord or self._on_error == 'inline':
            return value
        if self._on_error == 'fail':
            raise result.as_error()
        return TaggedOutput('errors', value)

"""CSV and TSV: rows as Arrow batches of text; a bad row does not harm its neighbours.

Read by the rules of RFC 4180: a field in quotes may hold delimiters, newlines and doubled quotes.
Python's reader, not Arrow's, splits the rows: it tells the line of each, and what is wrong with one
row stays in that row, however long it is.
"""

from __future__ import annotations

import contextlib
import csv
import io
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from beam_mds.errors import MDSError, OptionError, StorageError
from beam_mds.format.encodings.base import is_utf8
from beam_mds.records import BadRecord
from beam_mds.sources.tabular.files import StreamFile
from beam_mds.sources.tabular.parts import (
    BATCH_BYTES,
    BATCH_ROWS,
    Found,
    Rows,
    TableError,
    damage_told,
)

FIRST, NONE = 'first', 'none'

# Names of files whose fields are separated by tabs.
_TABS = re.compile(r'\.(tsv|tab)(\.|$)')

# Byte order marks that tell an encoding by themselves.
_MARKS = {b'\xff\xfe': 'utf-16', b'\xfe\xff': 'utf-16', b'\xef\xbb\xbf': 'utf-8-sig'}

# Characters of one field: what a quote that is never closed can swallow.
_LONGEST_FIELD = 1 << 28

# Bytes that are decoded at once.
_BUFFER = 1 << 20


@dataclass(frozen=True)
class Dialect:
    """How a file is written.

    Attributes:
        header: `first`: the first row has the names; `none`: no row has, and the columns are f0,
            f1, ...; or the names.
        delimiter: One character; None: a tab for `.tsv` and `.tab` files, else a comma.
        quote: One character, or None when no field is quoted.
        encoding: Of the text; None: by the byte order mark, else UTF-8.
    """

    header: str | Sequence[str] = FIRST
    delimiter: str | None = None
    quote: str | None = '"'
    encoding: str | None = None

    def __post_init__(self) -> None:
        """Checks the values.

        Raises:
            OptionError: One cannot work.
        """
        for name in ('delimiter', 'quote'):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, str) or len(value) != 1):
                raise OptionError(f'csv_{name} must be one character, got {value!r:.80}')
        if isinstance(self.header, str) and self.header not in (FIRST, NONE):
            raise OptionError(
                f"csv_header must be 'first', 'none' or a list of names, got {self.header!r:.80}"
            )
        try:
            ''.encode(self.encoding or 'utf-8')
        except LookupError:
            raise OptionError(f'csv_encoding={self.encoding!r:.80} is unknown to Python') from None


def read_names(path: str, dialect: Dialect) -> list[str]:
    """The names of the columns.

    Raises:
        TableError: There is no row, or the names are no names.
        StorageError: The file cannot be read.
    """
    with _open(path, dialect) as lines:
        return _Reader(path, lines, dialect).names


def read(path: str, dialect: Dialect) -> Iterator[Found]:
    """The rows of a file, all columns as text; `line` is their place.

    Bad records are rows with more or fewer fields than there are columns, with a quote that is not
    closed where the field ends, or with bytes that are no text in the file's encoding.

    Raises:
        TableError: The file has no header, or the data ends too early.
        StorageError: It cannot be read.
    """
    with _open(path, dialect) as lines:
        reader = _Reader(path, lines, dialect)
        yield from reader.read()


@contextlib.contextmanager
def _open(path: str, dialect: Dialect) -> Iterator[io.TextIOWrapper]:
    with StreamFile(path) as raw:
        buffered = io.BufferedReader(raw, _BUFFER)
        with damage_told('no text can be read'):
            head = buffered.peek(3)
        encoding = dialect.encoding or next(
            (name for mark, name in _MARKS.items() if head.startswith(mark)), 'utf-8'
        )
        if encoding.lower().replace('_', '-') in ('utf-8', 'utf8'):
            encoding = 'utf-8-sig'
        # Bytes that are no text become lone surrogates, which mark the row that has them.
        with io.TextIOWrapper(buffered, encoding, 'surrogateescape', newline='') as lines:
            yield lines


class _Reader:
    """The rows of one file.

    Attributes:
        names: Of the columns.
    """

    def __init__(self, path: str, lines: io.TextIOWrapper, dialect: Dialect) -> None:
        csv.field_size_limit(_LONGEST_FIELD)  # of the whole process; the default is 128 KiB
        self._path, self._encoding = path, lines.encoding.removesuffix('-sig')
        self._csv = csv.reader(
            lines,
            delimiter=dialect.delimiter or ('\t' if _has_tabs(path) else ','),
            quotechar=dialect.quote or '"',
            quoting=csv.QUOTE_MINIMAL if dialect.quote else csv.QUOTE_NONE,
            strict=True,
        )
        self._line = 1
        self._records = self._read_records()
        if dialect.header not in (FIRST, NONE):
            self.names = list(dialect.header)
            return
        first = next(self._records, None)
        if first is None:
            raise TableError('header', 'the file is empty: it has not even a header')
        if isinstance(first, BadRecord):
            raise TableError(first.error_type, f'its first row: {first.message}')
        self.names = first
        if dialect.header == NONE:
            self.names = [f'f{number}' for number in range(len(first))]
            self._records = itertools.chain([first], self._records)
        elif bad := next((name for name in first if not is_utf8(name)), None):
            raise TableError('encoding', f'its header: {self._no_text(bad)}')

    def read(self) -> Iterator[Found]:
        """The rows and the bad ones, in order."""
        rows: list[list[str]] = []
        lines: list[int] = []
        size = 0
        for record in self._records:
            good = isinstance(record, list) and len(record) == len(self.names)
            if good:
                rows.append(record)
                lines.append(self._line)
                size += sum(map(len, record))
            if not good or size >= BATCH_BYTES or len(rows) >= BATCH_ROWS:
                yield from self._batch(rows, lines)
                rows, lines, size = [], [], 0
            if isinstance(record, BadRecord):
                yield record
            elif not good:
                wanted = f'{len(record)} fields, expected {len(self.names)} as the header has'
                yield self._bad('csv', wanted, record)
        yield from self._batch(rows, lines)

    def _read_records(self) -> Iterator[Any]:
        """The fields of each row that is not blank, or a bad record; `_line` is its first line."""
        while True:
            self._line = self._csv.line_num + 1
            try:
                row = next(self._csv)
            except StopIteration:
                return
            except csv.Error as error:
                yield self._bad('csv', self._reason(error))
                continue
            except StorageError:
                raise
            except (MDSError, UnicodeError) as error:
                yield self._bad('damaged', f'the text ends here, and the rest is lost: {error}')
                return
            if row:
                yield row

    def _batch(self, rows: list[list[str]], lines: list[int]) -> Iterator[Found]:
        if not rows:
            return
        try:
            arrays = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
        except UnicodeEncodeError:
            yield from self._without_bad_text(rows, lines)
            return
        batch = pa.RecordBatch.from_arrays(arrays, names=self.names)
        yield Rows(batch, {'line': np.array(lines)})

    def _without_bad_text(self, rows: list[list[str]], lines: list[int]) -> Iterator[Found]:
        bad = {}
        for number, row in enumerate(rows):
            for name, text in zip(self.names, row, strict=True):
                if not is_utf8(text):
                    message = f'column {name!r:.80}: {self._no_text(text)}'
                    at: dict[str, str | int] = {'file': self._path, 'line': lines[number]}
                    bad[number] = BadRecord('encoding', message, at)
                    break
        kept = [number for number in range(len(rows)) if number not in bad]
        yield from self._batch(
            [rows[number] for number in kept], [lines[number] for number in kept]
        )
        yield from bad.values()

    def _no_text(self, text: str) -> str:
        at = next(at for at, char in enumerate(text) if '\ud800' <= char <= '\udfff')
        return (
            f'byte 0x{ord(text[at]) & 0xFF:02x} behind {text[max(0, at - 20) : at]!r} is no '
            f'{self._encoding} text: say the encoding of the file'
        )

    def _reason(self, error: csv.Error) -> str:
        last = self._csv.line_num
        lines = f', and lines {self._line} to {last} are lost' if last > self._line else ''
        if 'unexpected end' in str(error):
            return f'a quote is opened and never closed{lines}'
        return f'{error}{lines}'

    def _bad(self, kind: str, message: str, element: Any = None) -> BadRecord:
        return BadRecord(kind, message, {'file': self._path, 'line': self._line}, element)


def _has_tabs(path: str) -> bool:
    return bool(_TABS.search(path.rpartition('/')[2].lower()))

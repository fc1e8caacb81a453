"""Rows of CSV one by one: Python's reader tells the line of each, and what is wrong with it."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from beam_mds.errors import MDSError, StorageError
from beam_mds.format.encodings.base import is_utf8
from beam_mds.records import BadRecord
from beam_mds.sources.tabular.parts import BATCH_BYTES, BATCH_ROWS, Found, Rows

# Characters of one field: what a quote that is never closed can swallow.
LONGEST_FIELD = 1 << 28


class RowReader:
    """The rows of some text.

    Attributes:
        line: The first line of the record that was read last.
    """

    def __init__(
        self,
        path: str,
        delimiter: str,
        quote: str | None,
        encoding: str,
        lines: Iterable[str],
        before: int = 0,
    ) -> None:
        """Reads nothing yet.

        Args:
            path: The file, for places.
            delimiter: One character.
            quote: One character, or None.
            encoding: Of the file, for messages.
            lines: Of the text, with their ends as they are; bytes that are no text as lone
                surrogates.
            before: Lines of the file before the text.
        """
        csv.field_size_limit(LONGEST_FIELD)  # of the whole process; the default is 128 KiB
        self._path, self._encoding, self._before = path, encoding, before
        self._csv = csv.reader(
            lines,
            delimiter=delimiter,
            quotechar=quote or '"',
            quoting=csv.QUOTE_MINIMAL if quote else csv.QUOTE_NONE,
            strict=True,
        )
        self.line = before + 1

    @property
    def lines_read(self) -> int:
        """Lines of the text that were read."""
        return int(self._csv.line_num)

    def records(self) -> Iterator[list[str] | BadRecord]:
        """The fields of each row that is not blank, or what is wrong with it."""
        while True:
            self.line = self._before + self.lines_read + 1
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

    def read(self, names: Sequence[str]) -> Iterator[Found]:
        """The rows and the bad ones, in order.

        Args:
            names: Of the columns.
        """
        rows: list[list[str]] = []
        lines: list[int] = []
        size = 0
        for record in self.records():
            bad = record if isinstance(record, BadRecord) else None
            if bad is None and len(record) != len(names):
                wanted = f'{len(record)} fields, expected {len(names)} as the header has'
                bad = self._bad('csv', wanted, record)
            elif isinstance(record, list):
                rows.append(record)
                lines.append(self.line)
                size += sum(map(len, record))
            if bad is not None or size >= BATCH_BYTES or len(rows) >= BATCH_ROWS:
                yield from self._batch(rows, lines, names)
                rows, lines, size = [], [], 0
            if bad is not None:
                yield bad
        yield from self._batch(rows, lines, names)

    def no_text(self, text: str) -> str:
        """What is wrong with a text that has surrogates."""
        at = next(at for at, char in enumerate(text) if '\ud800' <= char <= '\udfff')
        return (
            f'byte 0x{ord(text[at]) & 0xFF:02x} behind {text[max(0, at - 20) : at]!r} is no '
            f'{self._encoding} text: say the encoding of the file'
        )

    def _batch(
        self, rows: list[list[str]], lines: list[int], names: Sequence[str]
    ) -> Iterator[Found]:
        if not rows:
            return
        try:
            arrays = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
        except UnicodeEncodeError:
            yield from self._without_bad_text(rows, lines, names)
            return
        batch = pa.RecordBatch.from_arrays(arrays, names=list(names))
        yield Rows(batch, {'line': np.array(lines)})

    def _without_bad_text(
        self, rows: list[list[str]], lines: list[int], names: Sequence[str]
    ) -> Iterator[Found]:
        bad = {}
        for number, row in enumerate(rows):
            for name, text in zip(names, row, strict=True):
                if not is_utf8(text):
                    message = f'column {name!r:.80}: {self.no_text(text)}'
                    at: dict[str, str | int] = {'file': self._path, 'line': lines[number]}
                    bad[number] = BadRecord('encoding', message, at)
                    break
        kept = [number for number in range(len(rows)) if number not in bad]
        good = [rows[number] for number in kept]
        yield from self._batch(good, [lines[number] for number in kept], names)
        yield from bad.values()

    def _reason(self, error: csv.Error) -> str:
        last = self._before + self.lines_read
        lines = f', and lines {self.line} to {last} are lost' if last > self.line else ''
        if 'unexpected end' in str(error):
            return f'a quote is opened and never closed{lines}'
        return f'{error}{lines}'

    def _bad(self, kind: str, message: str, element: Any = None) -> BadRecord:
        return BadRecord(kind, message, {'file': self._path, 'line': self.line}, element)

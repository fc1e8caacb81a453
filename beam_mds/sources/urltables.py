"""Tables of URLs in many formats -> rows."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from beam_mds.errors import OptionError
from beam_mds.records import PLACE, BadRecord
from beam_mds.sources.base import Element, Piece, Source
from beam_mds.sources.inputs import InputFile
from beam_mds.sources.jsonl import ReadJsonLines
from beam_mds.sources.lines import text_lines
from beam_mds.sources.tables import ReadTables

TEXT, LINES, TABLE, ERRORS = 'txt', 'jsonl', 'table', 'errors'

FORMATS = ('auto', TEXT, LINES, TABLE, ERRORS)

# Names of files of each format; all others are tables. A suffix of compression may follow.
_NAMES = {
    TEXT: re.compile(r'\.(txt|list|urls)(\.\w+)?$'),
    LINES: re.compile(r'\.(jsonl|json|ndjson)(\.\w+)?$'),
}

_BASE64 = {'base64'}


class UrlTables(Source):
    """Reads tables whose rows have a URL; the format may be another one for each file.

    Example:
        >>> path = getfixture('tmp_path') / 'list.txt'
        >>> _ = path.write_text('https://example.org/a.jpg')
        >>> [row['url'] for row in UrlTables([path]).iterate()]
        ['https://example.org/a.jpg']
    """

    def __init__(
        self,
        inputs: Sequence[str | os.PathLike[str]],
        *,
        table_format: str = 'auto',
        table_options: Mapping[str, Any] | None = None,
        url_column: str = 'url',
        made_columns: Sequence[str] = (),
        **how: Any,
    ) -> None:
        """Makes the transform; see `Source` and `ReadUrls` for the arguments.

        Args:
            inputs: Folders, globs, files, or `@file`.
            table_format: One of `FORMATS`.
            table_options: Keyword arguments for `ReadTables`.
            url_column: The column that lines of text become.
            made_columns: What an earlier run has added to rows, to be left out of its errors.
            how: `pattern`, `exclude`, `split`, `on_error`.

        Raises:
            OptionError: A value that cannot work.
        """
        super().__init__(inputs, **how)
        if table_format not in FORMATS:
            raise OptionError(
                f'table_format={table_format!r:.80} is unknown: expected one of '
                f'{", ".join(FORMATS)}'
            )
        self._format, self._made = table_format, tuple(made_columns)
        self._url_column = url_column
        self._lines = ReadJsonLines(inputs, **how)
        self._tables = ReadTables(inputs, **how, **(table_options or {}))

    def format_of(self, file: InputFile) -> str:
        """The format of a file."""
        if self._format != 'auto':
            return self._format
        name = file.name.lower()
        return next((kind for kind, names in _NAMES.items() if names.search(name)), TABLE)

    def pieces(self, file: InputFile) -> Iterator[Piece]:
        source: Source = self._tables if self.format_of(file) == TABLE else self._lines
        return source.pieces(file)

    def read(self, piece: Piece) -> Iterator[Element]:
        kind = self.format_of(piece.file)
        if kind == TABLE:
            return self._tables.read(piece)
        if kind == TEXT:
            return self._read_text(piece)
        found = self._lines.read(piece)
        return found if kind == LINES else map(self._row_of_error, found)

    def _read_text(self, piece: Piece) -> Iterator[Element]:
        """A row for each line that is not blank."""
        for found in text_lines(piece):
            if isinstance(found, BadRecord):
                yield found
            else:
                place, text = found
                yield {self._url_column: text.strip(), **piece.file.fields, PLACE: place}

    def _row_of_error(self, letter: Element) -> Element:
        """The row in a dead letter of an earlier run."""
        if isinstance(letter, BadRecord):
            return letter
        place = letter[PLACE]
        row = letter.get('element')
        if not isinstance(row, dict) or not isinstance(row.get(self._url_column), str):
            return BadRecord(
                'no_element',
                f'this error has no row with {self._url_column!r} to fetch again; it was: '
                f'{str(letter.get("message"))[:500]}',
                place,
                None,
            )
        kept = {name: _decoded(value) for name, value in row.items() if name not in self._made}
        return {**kept, PLACE: letter.get('place') or place}


def _decoded(value: Any) -> Any:
    """A value of a row as it was before it became JSON."""
    if isinstance(value, dict) and value.keys() == _BASE64:
        import base64

        return base64.b64decode(value['base64'])
    return value

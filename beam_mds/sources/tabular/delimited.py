"""CSV and TSV: rows as Arrow batches of text; a bad row does not harm its neighbours.

Read by the rules of RFC 4180: a field in quotes may hold delimiters, newlines and doubled quotes.
"""

from __future__ import annotations

import codecs
import functools
import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from beam_mds.errors import FormatError, OptionError
from beam_mds.format.encodings.base import is_utf8
from beam_mds.records import BadRecord
from beam_mds.sources.tabular.csvblocks import parse_block, whole_rows
from beam_mds.sources.tabular.csvrows import LONGEST_FIELD, RowReader
from beam_mds.sources.tabular.files import StreamFile
from beam_mds.sources.tabular.parts import Found, Rows, TableError, damage_told

FIRST, NONE = 'first', 'none'

# Names of files whose fields are separated by tabs.
_TABS = re.compile(r'\.(tsv|tab)(\.|$)')

_UTF8 = 'utf-8'

# Bytes that are read, split and parsed at once.
_BLOCK = 1 << 20


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
    return _begin(path, dialect).names


def read(path: str, dialect: Dialect) -> Iterator[Found]:
    """The rows of a file, all columns as text; `line` is their place.

    Bad records are rows with more or fewer fields than there are columns, with a quote that is not
    closed where the field ends, or with bytes that are no text in the file's encoding.

    Raises:
        TableError: The file has no header.
        StorageError: It cannot be read.
    """
    begin = _begin(path, dialect)
    make = functools.partial(RowReader, path, begin.delimiter, dialect.quote, begin.encoding)
    with StreamFile(path) as raw:
        if begin.encoding == _UTF8 and f'{begin.delimiter}{dialect.quote}'.isascii():
            raw.read(begin.size)
            yield from _read_blocks(path, raw, begin, dialect.quote, make)
            return
        reader = make(_text(raw, begin.encoding))
        if dialect.header == FIRST:
            next(reader.records(), None)
        yield from reader.read(begin.names)


class _Begin(NamedTuple):
    """What is known of a file before its rows are read.

    Attributes:
        names: Of the columns.
        delimiter: Between fields.
        encoding: Of the text.
        size: Bytes before the first row, of UTF-8.
        lines: Lines before the first row.
    """

    names: list[str]
    delimiter: str
    encoding: str
    size: int
    lines: int


def _begin(path: str, dialect: Dialect) -> _Begin:
    delimiter = dialect.delimiter or ('\t' if _has_tabs(path) else ',')
    with StreamFile(path) as raw:
        with damage_told('no text can be read'):
            encoding, mark = _encoding(raw, dialect.encoding)
        if dialect.header not in (FIRST, NONE):
            return _Begin(list(dialect.header), delimiter, encoding, mark, 0)
        seen: list[str] = []
        text = _kept(_text(raw, encoding), seen)
        reader = RowReader(path, delimiter, dialect.quote, encoding, text)
        first = next(reader.records(), None)
    if first is None:
        raise TableError('header', 'the file is empty: it has not even a header')
    if isinstance(first, BadRecord):
        raise TableError(first.error_type, f'its first row: {first.message}')
    if dialect.header == NONE:
        names = [f'f{number}' for number in range(len(first))]
        return _Begin(names, delimiter, encoding, mark, 0)
    if bad := next((name for name in first if not is_utf8(name)), None):
        raise TableError('encoding', f'its header: {reader.no_text(bad)}')
    size = mark + len(''.join(seen).encode(errors='surrogateescape'))
    return _Begin(first, delimiter, encoding, size, reader.lines_read)


def _encoding(raw: StreamFile, given: str | None) -> tuple[str, int]:
    """The encoding, and the bytes of a mark that it does not take away itself, which are read."""
    head = raw.read(len(codecs.BOM_UTF8))
    encoding = _UTF8 if given is None else codecs.lookup(given).name.removesuffix('-sig')
    if given is None and head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = 'utf-16'
    if encoding == _UTF8 and head == codecs.BOM_UTF8:
        return encoding, len(head)
    raw.unread(head)
    return encoding, 0


def _text(raw: StreamFile | io.BytesIO, encoding: str) -> Iterator[str]:
    """Lines with their ends; bytes that are no text become lone surrogates, which are none."""
    buffered = raw if isinstance(raw, io.BytesIO) else io.BufferedReader(raw, _BLOCK)
    return io.TextIOWrapper(buffered, encoding, 'surrogateescape', newline='')


def _kept(lines: Iterable[str], seen: list[str]) -> Iterator[str]:
    for line in lines:
        seen.append(line)
        yield line


def _read_blocks(
    path: str,
    raw: StreamFile,
    begin: _Begin,
    quote: str | None,
    make: Callable[..., RowReader],
) -> Iterator[Found]:
    """The rows of UTF-8: block by block while its quotes are in their places, else one by one.

    Args:
        path: The file.
        raw: What follows the header.
        begin: What is known of the file.
        quote: One ASCII character, or None.
        make: Makes a reader of lines of the file, with the number of lines before them.
    """
    before, carry, more = begin.lines, b'', True
    while more:
        try:
            data = raw.read(max(_BLOCK, len(carry)))  # of a long row twice as much each time
        except FormatError as error:
            message = f'the text ends here, and the rest is lost: {error}'
            yield BadRecord('damaged', message, {'file': path, 'line': before + 1})
            return
        more = bool(data)
        block = carry + data
        rows = whole_rows(block, begin.delimiter, quote)
        whole = rows is not None and (more or rows.size == len(block))
        if rows is None or not whole or len(block) - rows.size > LONGEST_FIELD:
            raw.unread(block)
            yield from make(_text(raw, _UTF8), before).read(begin.names)
            return
        carry = block[rows.size :]
        block = block[: rows.size]
        before, first = before + rows.newlines, before + 1
        if rows.plain and not len(rows.lines):
            continue
        batch = parse_block(block, begin.names, begin.delimiter, quote) if rows.plain else None
        if batch is not None and batch.num_rows == len(rows.lines):
            yield Rows(batch, {'line': rows.lines + first})
        else:
            yield from make(_text(io.BytesIO(block), _UTF8), first - 1).read(begin.names)


def _has_tabs(path: str) -> bool:
    return bool(_TABS.search(path.rpartition('/')[2].lower()))

"""JSON that is too long to be held whole: read value by value from pieces of its text."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from beam_mds.errors import FormatError

_SPACE = re.compile(r'[ \t\n\r]*')
_DECODE = json.JSONDecoder().raw_decode


class JsonStream:
    """A JSON document whose outer arrays and objects are gone through, not built.

    Example:
        >>> stream = JsonStream([b'{"a": [1, {"b": 2', b'3}], "c": 4}'])
        >>> for name in stream.members():
        ...     print(name, list(stream.items()) if name == 'a' else stream.value())
        a [1, {'b': 23}]
        c 4
    """

    def __init__(self, pieces: Iterable[bytes]) -> None:
        """Reads nothing yet.

        Args:
            pieces: The UTF-8 text, cut anywhere.
        """
        self._pieces = iter(pieces)
        self._decode = codecs.getincrementaldecoder('utf-8-sig')().decode
        self._text = ''
        self._at = 0  # the first character that is not read yet
        self._before = 0  # characters in front of the text
        self._ended = False

    def members(self) -> Iterator[str]:
        """The names of an object; the caller reads the value of each before the next.

        Raises:
            FormatError: There is no object.
        """
        for _ in self._separated('{', '}'):
            name = self.value()
            if not isinstance(name, str):
                raise self._wrong(f'a name, found {repr(name)[:20]}')
            self._take(':')
            yield name

    def items(self) -> Iterator[Any]:
        """The values of an array.

        Raises:
            FormatError: There is no array.
        """
        for _ in self._separated('[', ']'):
            yield self.value()

    def value(self) -> Any:
        """The next value, whole.

        Raises:
            FormatError: There is none.
        """
        self._next()
        while True:
            try:
                value, end = _DECODE(self._text, self._at)
            except RecursionError as error:
                raise self._wrong('less depth') from error
            except ValueError as error:  # cut off, or wrong
                if not self._read_on():
                    raise self._wrong(f'a value: {getattr(error, "msg", error)}') from error
                continue
            if end < len(self._text) or not self._read_on():
                self._at = end
                return value
            # A number may go on in the next piece.

    def end(self) -> None:
        """Makes sure that nothing follows.

        Raises:
            FormatError: Something does.
        """
        if found := self._next():
            raise self._wrong(f'the end, found {found!r}')

    def _separated(self, start: str, end: str) -> Iterator[None]:
        self._take(start)
        more = self._next() != end
        while more:
            yield
            more = self._next() == ','
            if more:
                self._take(',')
        self._take(end)

    def _take(self, wanted: str) -> None:
        found = self._next()
        if found != wanted:
            raise self._wrong(f'{wanted!r}, found {found!r}')
        self._at += 1

    def _next(self) -> str:
        """The next character that is no white space; empty at the end."""
        while True:
            found: Any = _SPACE.match(self._text, self._at)
            self._at = found.end()
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._read_on():
                return ''

    def _read_on(self) -> bool:
        """Reads at least as much as there is unread, so that no long value is decoded too often."""
        parts = [self._text[self._at :]]
        self._before += self._at
        self._at = 0
        wanted, added = len(parts[0]), 0
        while not self._ended and added <= wanted:
            piece = next(self._pieces, None)
            self._ended = piece is None
            try:
                parts.append(self._decode(piece or b'', final=self._ended))
            except UnicodeDecodeError as error:
                raise FormatError(f'UnicodeDecodeError: {error}') from error
            added += len(parts[-1])
        self._text = ''.join(parts)
        return added > 0

    def _wrong(self, expected: str) -> FormatError:
        return FormatError(f'expected {expected}, at character {self._before + self._at}')

"""JSON lines -> samples: one object a line, plain or compressed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from beam_mds.errors import FormatError, OptionError
from beam_mds.records import PLACE, BadRecord
from beam_mds.sources.base import Piece, Source
from beam_mds.sources.inputs import InputFile
from beam_mds.sources.opening import open_stream, sniff

# Bytes of a piece of a file that has no compression.
_PIECE = 64 << 20

# Bytes that are read at once.
_BLOCK = 4 << 20

_UTF8_BOM = b'\xef\xbb\xbf'
_UTF16_BOMS = (b'\xff\xfe', b'\xfe\xff')

# orjson makes floats of integers from here on, where Python's own parser keeps their digits.
_LARGE = 2.0**63


class ReadJsonLines(Source):
    """Reads files of JSON lines: one object a line, UTF-8, plain or gz, zstd, bz2, xz.

    Elements are dicts. Blank lines are nobody's, and so is a byte order mark. A line that is no
    object is a bad record with its file and line; of a large file without compression, which is
    read in several pieces, with the offset of its first byte. Kinds: `json`, `encoding`,
    `truncated` (the file ends too early, or its compressed data is damaged).

    Example:
        >>> import apache_beam as beam
        >>> path = getfixture('tmp_path') / 'a.jsonl'
        >>> _ = path.write_text('{"text": "hi", "meta": {"lang": "en"}}')
        >>> for sample in ReadJsonLines([path], fields=['text', 'meta.lang']).iterate():
        ...     print(sample['text'], sample['meta.lang'])
        hi en
    """

    def __init__(
        self,
        inputs: Sequence[str | os.PathLike[str]],
        *,
        fields: Sequence[str] | None = None,
        pattern: str = '*',
        exclude: Sequence[str] = (),
        split: str | None = None,
        on_error: str = 'fail',
    ) -> None:
        """Makes the transform; see `Source` for the arguments that all sources have.

        Args:
            inputs: Folders, globs, files or `@lists`.
            fields: Names of the fields wanted; all when None. `a.b` is field b of the object in a,
                unless there is a field of that whole name. One that a line has not is absent from
                its sample.
            pattern: What the names of files below a folder must match.
            exclude: Names, or globs of names, to leave out.
            split: A pattern of the ends of paths whose fields every sample gets.
            on_error: `fail`, `dead_letter` or `inline`.

        Raises:
            OptionError: A value that cannot work.
        """
        super().__init__(inputs, pattern=pattern, exclude=exclude, split=split, on_error=on_error)
        if fields is not None and (isinstance(fields, str) or not fields):
            raise OptionError(f'fields must be a list of names or None, got {fields!r:.80}')
        self._paths = None if fields is None else {name: name.split('.') for name in fields}

    def pieces(self, file: InputFile) -> Iterator[Piece]:
        if file.size <= _PIECE or sniff(file.path) is not None:
            yield Piece(file, 0, file.size)
            return
        for number, start in enumerate(range(0, file.size, _PIECE)):
            yield Piece(file, start, min(start + _PIECE, file.size), number)

    def read(self, piece: Piece) -> Iterator[dict[str, Any] | BadRecord]:
        path, given = piece.file.path, piece.file.fields
        place: dict[str, str | int] = {'file': path, 'line': 0}
        try:
            for place, line in _lines(piece):
                element = _parse(line)
                if isinstance(element, str):
                    yield BadRecord(*_reason(line, element), place)
                    continue
                sample = element if self._paths is None else _picked(element, self._paths)
                sample.update(given)
                sample[PLACE] = place
                yield sample
        except FormatError as error:
            yield BadRecord('truncated', str(error), {**place, 'after': True})


def _lines(piece: Piece) -> Iterator[tuple[dict[str, str | int], bytes]]:
    """The lines that begin in a piece, without their ends, and where each is; no blank ones."""
    path, start = piece.file.path, piece.start
    with open_stream(path, max(0, start - 1)) as stream:
        stop = None if stream.compression else piece.stop
        at, number, carry = max(0, start - 1), 0, b''
        skipping = start > 0  # the line before began in the piece before
        while block := stream.read(_BLOCK):
            lines = (carry + block if carry else block).split(b'\n')
            carry = lines.pop()
            for line in lines:
                number += 1
                if stop is not None and at >= stop:
                    return
                if skipping:
                    skipping = False
                elif line and not line.isspace():
                    yield _place(path, start, number, at), line
                at += len(line) + 1
        if carry and not carry.isspace() and not skipping and (stop is None or at < stop):
            yield _place(path, start, number + 1, at), carry


def _place(path: str, start: int, number: int, at: int) -> dict[str, str | int]:
    return {'file': path, 'byte': at} if start else {'file': path, 'line': number}


def _parse(line: bytes) -> dict[str, Any] | str:
    """The object in a line, or what is wrong with it."""
    if line.startswith(_UTF8_BOM):
        line = line[3:]
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        try:
            value = json.loads(line.decode())  # it takes NaN and half surrogates, as Python writes
        except json.JSONDecodeError as error:
            return f'{error.msg}, at character {error.pos + 1}'
        except (UnicodeDecodeError, ValueError, RecursionError) as error:
            return str(error)
    if type(value) is dict:
        return value
    return f'{type(value).__name__}, where an object is expected: {{"name": value, ...}}'


def _reason(line: bytes, message: str) -> tuple[str, str]:
    try:
        line.decode()
    except UnicodeDecodeError as error:
        return 'encoding', f'the line is not UTF-8: {error}'
    return 'json', f'the line is no JSON object: {message}'


def _picked(element: Mapping[str, Any], paths: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """The fields wanted, by their whole names."""
    picked = {}
    for name, path in paths.items():
        if name in element:
            picked[name] = element[name]
            continue
        value: Any = element
        for part in path:
            if type(value) is not dict or part not in value:
                break
            value = value[part]
        else:
            picked[name] = value
    return picked

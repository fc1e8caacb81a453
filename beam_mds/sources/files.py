"""Files -> samples: one a file, with its text or its bytes, or one a line."""

from __future__ import annotations

import hashlib
import io
import logging
import os
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any

from apache_beam.metrics import Metrics

from beam_mds import storage
from beam_mds.errors import EncodingError, OptionError
from beam_mds.records import PLACE, BadRecord
from beam_mds.sources.base import Piece, Source
from beam_mds.sources.inputs import InputFile
from beam_mds.sources.lines import line_pieces, text_lines

_logger = logging.getLogger(__name__)

_ABOUT = {'path': 'str', 'package': 'str', 'size': 'int64', 'sha256': 'str'}

# The columns of `text_sample`, and of `bytes_sample`.
COLUMNS = {**_ABOUT, 'text': 'str'}
BYTES_COLUMNS = {**_ABOUT, 'bytes': 'bytes'}

# The columns of a line of a file; a byte offset stands in place of a number that is not known.
LINES_COLUMNS = {'text': 'str', 'path': 'str', 'package': 'str'}

CONTENTS = ('text', 'bytes', 'lines')

UNDECODABLE = ('fail', 'skip')

# Files that say in their first two lines which encoding they have (PEP 263).
_PYTHON = ('.py', '.pyi', '.pyw')


def decode_text(data: bytes, name: str) -> str:
    r"""A file's text: Python sources by PEP 263, everything else as UTF-8; newlines as they are.

    A byte order mark is not part of the text.

    Args:
        data: The file's content.
        name: Its name, which tells whether it is Python.

    Raises:
        EncodingError: The bytes are no text in that encoding.

    Example:
        >>> decode_text(b'# coding: latin-1\nx = "\xe9"', 'a.py')
        '# coding: latin-1\nx = "é"'
    """
    try:
        encoding = 'utf-8-sig'
        if name.endswith(_PYTHON):
            encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        text = data.decode(encoding)
        text.encode('utf-8')  # some encodings give lone surrogates, which a str column cannot hold
    except (LookupError, SyntaxError, UnicodeError) as error:
        raise EncodingError(f'not text: {str(error)[:120]}', 'text', 'str') from None
    return text


def package_of(path: str) -> str:
    """The top package: the first folder of a relative path, or a top file's name without suffix.

    Example:
        >>> package_of('json/decoder.py'), package_of('os.py')
        ('json', 'os')
    """
    parts = PurePosixPath(path).parts
    return parts[0] if len(parts) > 1 else PurePosixPath(path).stem


def text_sample(path: str, data: bytes) -> dict[str, Any]:
    """The sample of one text file, with `COLUMNS`.

    Args:
        path: Posix path relative to the input's root.
        data: The file's content.

    Returns:
        `path`; `package`, see `package_of`; `size` in bytes and `sha256` (hex), both of the file's
        bytes; `text`, see `decode_text`.

    Raises:
        EncodingError: The file is no text.
    """
    return {**_about(path, data), 'text': decode_text(data, path)}


def bytes_sample(path: str, data: bytes) -> dict[str, Any]:
    """The sample of one file of any kind, with `BYTES_COLUMNS`: as `text_sample`, with `bytes`."""
    return {**_about(path, data), 'bytes': data}


def _about(path: str, data: bytes) -> dict[str, Any]:
    return {
        'path': path,
        'package': package_of(path),
        'size': len(data),
        'sha256': hashlib.sha256(data).hexdigest(),
    }


class ReadFiles(Source):
    r"""Reads files: one sample a file with its text or bytes, or one sample a line.

    A file that several inputs name is read once; its path is relative to the first of them. What
    is no text is a bad record of the kind `encoding`, damaged compressed data one of the kind
    `truncated`.

    Example:
        >>> path = getfixture('tmp_path') / 'a.txt'
        >>> _ = path.write_text('one\n\ntwo\n')
        >>> [sample['text'] for sample in ReadFiles([path]).iterate()]
        ['one\n\ntwo\n']
        >>> [sample['text'] for sample in ReadFiles([path], content='lines').iterate()]
        ['one', 'two']
    """

    def __init__(
        self,
        inputs: Sequence[str | os.PathLike[str]],
        *,
        content: str = 'text',
        undecodable: str = 'fail',
        pattern: str = '*',
        exclude: Sequence[str] = (),
        split: str | None = None,
        on_error: str = 'fail',
    ) -> None:
        """Makes the transform; see `Source` for the arguments that all sources have.

        Args:
            inputs: Folders, globs, files or `@lists`.
            content: `text`: a sample a file, with `COLUMNS`; see `decode_text`. `bytes`: the same
                of files of any kind, with `BYTES_COLUMNS`. `lines`: a sample a line of UTF-8, with
                `LINES_COLUMNS`, without white space around it; blank lines are none. Files of lines
                may be compressed.
            undecodable: What a file that is no text is: `fail`, a bad record; or `skip` it, which
                is logged with its name and counted (`files_skipped`).
            pattern: What the names of files below a folder must match.
            exclude: Names, or globs of names, to leave out.
            split: A pattern of the ends of paths whose fields every sample gets.
            on_error: `fail`, `dead_letter` or `inline`.

        Raises:
            OptionError: A value that cannot work.
        """
        super().__init__(inputs, pattern=pattern, exclude=exclude, split=split, on_error=on_error)
        for name, value, known in (
            ('content', content, CONTENTS),
            ('undecodable', undecodable, UNDECODABLE),
        ):
            if value not in known:
                raise OptionError(f'{name}={value!r:.80} is unknown: expected {" or ".join(known)}')
        if undecodable == 'skip' and content != 'text':
            raise OptionError(
                f"undecodable='skip' is for whole text files, not for content={content!r}"
            )
        self._content, self._skip = content, undecodable == 'skip'
        self._skipped = Metrics.counter('beam_mds', 'files_skipped')

    def pieces(self, file: InputFile) -> Iterator[Piece]:
        return line_pieces(file) if self._content == 'lines' else super().pieces(file)

    def read(self, piece: Piece) -> Iterator[dict[str, Any] | BadRecord]:
        if self._content == 'lines':
            yield from _lines(piece)
            return
        file, place = piece.file, {'file': piece.file.path}
        make = text_sample if self._content == 'text' else bytes_sample
        try:
            sample = make(file.name, storage.read(file.path))
        except EncodingError as error:
            if self._skip:
                _logger.warning('%s: %s; skipped', file.path, error.reason)
                self._skipped.inc()
            else:
                yield BadRecord('encoding', error.reason, place)
            return
        yield {**sample, **file.fields, PLACE: place}


def _lines(piece: Piece) -> Iterator[dict[str, Any] | BadRecord]:
    file = piece.file
    given = {'path': file.name, 'package': package_of(file.name), **file.fields}
    for found in text_lines(piece):
        if isinstance(found, BadRecord):
            yield found
            continue
        place, text = found
        for part in text.split('\r'):
            if part := part.strip():
                yield {'text': part, **given, PLACE: place}

"""Text files -> samples with their text, one a file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from beam_mds.errors import FormatError
from beam_mds.records import PLACE, BadRecord
from beam_mds.sources.base import Piece, Source
from beam_mds.sources.opening import open_stream


class ReadTextFiles(Source):
    r"""Reads text files whole: `text`, and `path`, relative to the input's root.

    UTF-8, plain or gz, zstd, bz2, xz. Ends of lines become `\n`, as Python's `open` makes them; a
    byte order mark is not part of the text. A file that is no text is a bad record. Kinds:
    `encoding`, `truncated` (its compressed data is damaged, or ends too early).

    Example:
        >>> path = getfixture('tmp_path') / 'a.txt'
        >>> _ = path.write_bytes(b'one\r\ntwo')
        >>> for sample in ReadTextFiles([path]).iterate():
        ...     print(sample['path'], repr(sample['text']))
        a.txt 'one\ntwo'
    """

    def read(self, piece: Piece) -> Iterator[dict[str, Any] | BadRecord]:
        path = piece.file.path
        try:
            with open_stream(path) as stream:
                text = b''.join(stream.blocks()).decode('utf-8-sig')
        except FormatError as error:
            yield BadRecord('truncated', str(error), {'file': path})
            return
        except UnicodeDecodeError as error:
            yield BadRecord('encoding', f'the file is not UTF-8: {error}', {'file': path})
            return
        yield {
            'path': piece.file.name,
            'text': text.replace('\r\n', '\n').replace('\r', '\n'),
            **piece.file.fields,
            PLACE: {'file': path},
        }

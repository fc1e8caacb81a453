"""Files of lines, plain or compressed, in blocks of whole lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from beam_mds.errors import FormatError
from beam_mds.records import BadRecord
from beam_mds.sources.base import Piece
from beam_mds.sources.inputs import InputFile
from beam_mds.sources.opening import ByteStream, open_stream, sniff

# Bytes of a piece of a file that has no compression.
_PIECE = 64 << 20

# Bytes that are read at once.
_BLOCK = 4 << 20

_UTF8_BOM = b'\xef\xbb\xbf'


class Block(NamedTuple):
    """Some lines of a file, one after another.

    Attributes:
        file: The file.
        data: The lines with their ends.
        line: Lines before them in the file; None in a file that is read in several pieces.
        start: Bytes before them in the file.
        starts: int64 of shape (lines + 1,): where each begins in `data`; see `line_starts`.
    """

    file: InputFile
    data: bytes
    line: int | None
    start: int
    starts: npt.NDArray[np.int64]

    def lines(self) -> Iterator[tuple[dict[str, str | int], bytes]]:
        """The lines without their ends, and the place of each; blank ones are left out."""
        path, at = self.file.path, self.start
        for number, line in enumerate(self.data.split(b'\n')):
            if line and not line.isspace():
                if self.line is None:
                    yield {'file': path, 'byte': at}, line
                else:
                    yield {'file': path, 'line': self.line + number + 1}, line
            at += len(line) + 1


def line_pieces(file: InputFile, size: int = _PIECE) -> Iterator[Piece]:
    """The parts of a file of lines that can be read at the same time.

    Args:
        file: The file; a compressed one is a single piece.
        size: Bytes of a piece.
    """
    if file.size <= size or sniff(file.path) is not None:
        yield Piece(file, 0, file.size)
        return
    for number, start in enumerate(range(0, file.size, size)):
        yield Piece(file, start, min(start + size, file.size), number)


def line_blocks(piece: Piece, size: int = _BLOCK) -> Iterator[Block | BadRecord]:
    """The lines that begin in a piece, in blocks; a byte order mark is not part of the first.

    A record of the kind `truncated` comes last where compressed data is damaged or ends too early.

    Args:
        piece: Of `line_pieces`.
        size: Bytes that are read at once; a block has about as many, or one line.
    """
    file, start = piece.file, piece.start
    whole = start == 0 and piece.stop >= file.size
    at, line = max(0, start - 1), 0 if whole else None
    with open_stream(file.path, at) as stream:
        stop = piece.stop if stream.compression is None and not whole else None
        skip = start > 0  # the line that began in the piece before
        try:
            for data in _whole_lines(stream, size):
                if skip:
                    begin = data.find(b'\n') + 1
                    if not begin:
                        return  # that line is the rest
                    data, at, skip = data[begin:], at + begin, False
                if stop is not None and at + len(data) > stop:
                    # A line that begins before `stop` is the last one, wherever it ends.
                    data = data[: data.find(b'\n', stop - 1 - at) + 1 or None] if at < stop else b''
                if at == 0 and data.startswith(_UTF8_BOM):
                    data, at = data[len(_UTF8_BOM) :], len(_UTF8_BOM)
                starts = line_starts(data)
                if data:
                    yield Block(file, data, line, at, starts)
                at += len(data)
                if stop is not None and at >= stop:
                    return
                line = None if line is None else line + len(starts) - 1
        except FormatError as error:
            place: dict[str, str | int] = {'file': file.path, 'line': (line or 0) + 1}
            yield BadRecord('truncated', f'{error}; the lines from here on are lost', place)


def text_lines(piece: Piece) -> Iterator[tuple[dict[str, str | int], str] | BadRecord]:
    """The lines of UTF-8 that begin in a piece, with the place of each; blank ones are left out.

    Records of the kinds `encoding` and `truncated` stand for what cannot be read.
    """
    for block in line_blocks(piece):
        if isinstance(block, BadRecord):
            yield block
            continue
        for place, line in block.lines():
            try:
                yield place, line.decode()
            except UnicodeDecodeError as error:
                yield BadRecord('encoding', f'the line is not UTF-8: {error}', place)


def _whole_lines(stream: ByteStream, size: int) -> Iterator[bytes]:
    """The lines of a stream, many together; the last one may have no end."""
    parts: list[bytes] = []
    held = 0
    for part in stream.parts():
        end = part.rfind(b'\n') + 1 if held + len(part) >= size else 0
        if end:
            yield b''.join([*parts, memoryview(part)[:end]])
            parts, held = [], 0
        parts.append(part[end:])
        held += len(part) - end
    if held:
        yield b''.join(parts)


def line_starts(data: bytes) -> npt.NDArray[np.int64]:
    r"""Where the lines in some data begin, and behind them where one more would.

    Example:
        >>> line_starts(b'a\nbc\n').tolist(), line_starts(b'a\nbc').tolist()
        ([0, 2, 5], [0, 2, 5])
    """
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord('\n')) + 1
    if data and not data.endswith(b'\n'):
        ends = np.append(ends, len(data) + 1)
    return np.insert(ends, 0, 0)

"""Byte streams that are read once from front to back, and what is found wrong in them."""

from __future__ import annotations

from typing import NamedTuple, Protocol, TypeAlias

from beam_mds.errors import FormatError

# Where something is, as in a `BadRecord`.
Place: TypeAlias = dict[str, str | int]

# Bytes that are read at once.
_PIECE = 1 << 20


class Readable(Protocol):
    """Bytes from front to back."""

    def read(self, size: int, /) -> bytes:
        """At least one byte, and at most `size`; none at the end."""


class Refusal(NamedTuple):
    """Why something is not taken.

    Attributes:
        error_type: A short category; the transform that reads documents them.
        message: What is wrong, and what to do.
    """

    error_type: str
    message: str


class StreamError(FormatError):
    """A stream that cannot be read on.

    Attributes:
        error_type: A short category, like `truncated`.
        message: What is wrong.
        byte: Where, counted in the decompressed stream.
    """

    def __init__(self, error_type: str, message: str, byte: int) -> None:
        """Makes the error; see the class for the arguments."""
        self.error_type, self.message, self.byte = error_type, message, byte
        super().__init__(f'byte {byte}: {message}')

    def __reduce__(self) -> tuple[type[StreamError], tuple[object, ...]]:
        """Pickles by the constructor's arguments: errors cross process borders in Beam."""
        return StreamError, (self.error_type, self.message, self.byte)


class Cursor:
    """A stream, read in large blocks and given in small pieces.

    Attributes:
        at: Bytes that were given or passed over.
    """

    def __init__(self, stream: Readable) -> None:
        """Reads nothing yet."""
        self.at = 0
        self._stream = stream
        self._block, self._start = b'', 0

    def take(self, size: int) -> bytes:
        """So many bytes, or fewer where the stream ends; no more is allocated than there is."""
        end = self._start + size
        if end <= len(self._block):
            data = self._block[self._start : end]
            self._start = end
            self.at += size
            return data
        parts = []
        while size and (data := self.piece(size)):
            parts.append(data)
            size -= len(data)
        return parts[0] if len(parts) == 1 else b''.join(parts)

    def skip(self, size: int) -> bool:
        """Passes over so many bytes; whether they were there."""
        while size and (data := self.piece(size)):
            size -= len(data)
        return not size

    def piece(self, size: int = _PIECE) -> bytes:
        """Some bytes, at most `size`; none at the end."""
        if self._start == len(self._block):
            self._block, self._start = self._stream.read(_PIECE), 0
        data = self._block[self._start : self._start + size]
        self._start += len(data)
        self.at += len(data)
        return data

"""Byte streams that are read once from front to back, and what is found wrong in them."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from beam_mds.errors import FormatError

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
    """A stream and how far it was read.

    Attributes:
        at: Bytes that were read or passed over.
    """

    def __init__(self, stream: Readable) -> None:
        """Reads nothing yet."""
        self.at = 0
        self._stream = stream

    def take(self, size: int) -> bytes:
        """So many bytes, or fewer where the stream ends; no more is allocated than there is."""
        data = self.piece(size)
        if len(data) == size or not data:
            return data
        parts, missing = [data], size - len(data)
        while missing and (data := self.piece(missing)):
            parts.append(data)
            missing -= len(data)
        return b''.join(parts)

    def skip(self, size: int) -> bool:
        """Passes over so many bytes; whether they were there."""
        while size and (data := self.piece(size)):
            size -= len(data)
        return not size

    def piece(self, size: int = _PIECE) -> bytes:
        """Some bytes, at most `size`; none at the end."""
        data = self._stream.read(min(size, _PIECE))
        self.at += len(data)
        return data

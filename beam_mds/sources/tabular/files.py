"""Files as the libraries that read tables want them: with `seek`, or as a stream."""

from __future__ import annotations

import io
from typing import Any

from beam_mds import storage
from beam_mds.errors import StorageError
from beam_mds.sources.opening import open_stream


class SeekableFile(io.RawIOBase):
    """A file as it is stored, read in pieces from anywhere, with retries."""

    def __init__(self, path: str) -> None:
        """Opens nothing yet.

        Args:
            path: On any filesystem that Beam knows.

        Raises:
            StorageError: There is no such file.
        """
        size = storage.size_of(path)
        if size is None:
            raise StorageError(f'{path}: there is no such file')
        self._reader, self._size, self._at = storage.Reader(path), size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def size(self) -> int:
        """Bytes of the file."""
        return self._size

    def read(self, size: int | None = -1) -> bytes:
        left = max(0, self._size - self._at)
        data = self._reader.read(self._at, left if size is None or size < 0 else min(size, left))
        self._at += len(data)
        return data

    def readinto(self, target: Any) -> int:
        data = self.read(len(target))
        target[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._reader.close()
        super().close()


class StreamFile(io.RawIOBase):
    """The decompressed bytes of a file as Python's own files give them."""

    def __init__(self, path: str) -> None:
        """Opens the file.

        Args:
            path: On any filesystem that Beam knows.

        Raises:
            StorageError: It cannot be read.
        """
        self._stream, self._again = open_stream(path), memoryview(b'')
        self.compression = self._stream.compression

    def readable(self) -> bool:
        return True

    def unread(self, data: bytes) -> None:
        """Gives bytes back, to be read again next."""
        self._again = memoryview(data + bytes(self._again))

    def read(self, size: int | None = -1) -> bytes:
        if size is None or size < 0:
            return bytes(self._again) + b''.join(self._stream.blocks())
        if not self._again:
            return self._stream.read(size)
        data, self._again = bytes(self._again[:size]), self._again[size:]
        return data

    def readinto(self, target: Any) -> int:
        data = self.read(len(target))
        target[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
        super().close()

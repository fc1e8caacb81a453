"""Files of the input as streams of bytes, decompressed by what they hold, not by their names."""

from __future__ import annotations

import contextlib
import io
import lzma
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from beam_mds.errors import FormatError, StorageError
from beam_mds.storage import Reader

# How files of each compression begin: RFC 1952 (gz), RFC 8878 (zstd: a frame, or a skippable one),
# the bzip2 and xz formats.
_MAGIC = {
    'gz': (b'\x1f\x8b',),
    'zstd': (b'\x28\xb5\x2f\xfd', *(bytes([byte]) + b'\x2a\x4d\x18' for byte in range(0x50, 0x60))),
    'bz2': (b'BZh',),
    'xz': (b'\xfd7zXZ\0',),
}
_ARROW_NAMES = {'gz': 'gzip', 'zstd': 'zstd', 'bz2': 'bz2'}

# Bytes that tell the compression.
_HEAD = 6

# Bytes that are asked of the store at once.
_BLOCK = 1 << 20


def sniff(path: str) -> str | None:
    """The compression of a file by its first bytes: gz, zstd, bz2, xz; None: it has none.

    Raises:
        StorageError: It cannot be read.
    """
    with contextlib.closing(Reader(path)) as file:
        return _compression(file.read(0, _HEAD))


def open_stream(path: str, start: int = 0) -> ByteStream:
    """Opens a file as a stream of decompressed bytes.

    Args:
        path: On any filesystem that Beam knows.
        start: The first byte wanted; only of a file without compression.

    Raises:
        StorageError: It cannot be read.

    Example:
        >>> with open_stream('gs://bucket/a.jsonl.zst') as stream:  # doctest: +SKIP
        ...     first = stream.read(1 << 20)
    """
    return ByteStream(path, start)


class ByteStream(contextlib.AbstractContextManager['ByteStream']):
    """The decompressed bytes of a file, front to back.

    Attributes:
        path: The file.
        compression: Of the file: gz, zstd, bz2, xz or None.
        position: Decompressed bytes before the next one.
    """

    def __init__(self, path: str, start: int = 0) -> None:
        """Opens the file; see `open_stream`."""
        self.path, self.position = path, start
        self._raw = _RawFile(path, start)
        self.compression = None if start else _compression(self._raw.peek(_HEAD))
        self._stream: Any = self._raw
        if self.compression == 'xz':
            self._stream = lzma.LZMAFile(io.BufferedReader(self._raw, _BLOCK))  # noqa: SIM115
        elif self.compression is not None:
            source = pa.PythonFile(self._raw, mode='r')
            self._stream = pa.CompressedInputStream(source, _ARROW_NAMES[self.compression])

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file."""
        self._stream.close()
        self._raw.close()

    def read(self, size: int) -> bytes:
        """The next bytes: `size` of them, unless the stream ends before.

        Raises:
            FormatError: The compressed data is damaged, or ends too early; how many bytes could be
                read is named.
            StorageError: The file cannot be read.
        """
        parts, left = [], size
        while left:
            try:
                part = self._stream.read(left)
            except StorageError:
                raise
            except (OSError, EOFError, lzma.LZMAError) as error:
                raise FormatError(
                    f'{self.path}: the {self.compression} data is damaged or ends too early, after '
                    f'about {self.position} decompressed bytes: {error}'
                ) from None
            if not part:
                break
            parts.append(part)
            left -= len(part)
            self.position += len(part)
        return parts[0] if len(parts) == 1 else b''.join(parts)

    def blocks(self, size: int = _BLOCK) -> Iterator[bytes]:
        """The rest, in blocks of this size.

        Raises:
            FormatError: The compressed data is damaged, or ends too early.
            StorageError: The file cannot be read.
        """
        while block := self.read(size):
            yield block


class _RawFile(io.RawIOBase):
    """A file as it is stored, with retries."""

    def __init__(self, path: str, start: int) -> None:
        self._reader, self._at = Reader(path), start

    def peek(self, size: int) -> bytes:
        return self._reader.read(self._at, size)

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> bytes:
        data = self._reader.read(self._at, _BLOCK if size is None or size < 0 else size)
        self._at += len(data)
        return data

    def readinto(self, target: Any) -> int:
        data = self.read(len(target))
        target[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._reader.close()
        super().close()


def _compression(head: bytes) -> str | None:
    return next((name for name, starts in _MAGIC.items() if head.startswith(starts)), None)

"""Files of the input as streams of bytes, decompressed by what they hold, not by their names."""

from __future__ import annotations

import bz2
import contextlib
import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import zstandard

from beam_mds.errors import FormatError
from beam_mds.storage import Reader

# How files of each compression begin: RFC 1952 (gz), RFC 8878 (zstd: a frame, or a skippable one),
# the bzip2 and xz formats.
_MAGIC = {
    'gz': (b'\x1f\x8b',),
    'zstd': (b'\x28\xb5\x2f\xfd', *(bytes([byte]) + b'\x2a\x4d\x18' for byte in range(0x50, 0x60))),
    'bz2': (b'BZh',),
    'xz': (b'\xfd7zXZ\0',),
}

# The largest window of zstd's frames that is taken: 2 GiB, as `zstd --ultra --long=31` makes them.
_ZSTD_WINDOW = 1 << 31

# What decompresses one member, stream or frame; files may have many, one after another.
_MACHINES: dict[str, Callable[[], Any]] = {
    'gz': lambda: zlib.decompressobj(16 + zlib.MAX_WBITS),
    'zstd': lambda: zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW).decompressobj(),
    'bz2': bz2.BZ2Decompressor,
    'xz': lzma.LZMADecompressor,
}
_DAMAGE = (zlib.error, zstandard.ZstdError, OSError, lzma.LZMAError, EOFError)

# Bytes that tell the compression.
_HEAD = 6

# Bytes that are asked of the store at once, and that are decompressed at once: few, since they can
# stand for 32,768 times as many.
_BLOCK, _PIECE = 1 << 20, 4 << 10


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
        self._reader = Reader(path)
        self.compression = None if start else _compression(self._reader.read(0, _HEAD))
        stored = self._stored(start)
        self._parts = stored if self.compression is None else self._decompressed(stored)
        self._waiting = memoryview(b'')
        self._damage: FormatError | None = None

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file."""
        self._reader.close()

    def read(self, size: int) -> bytes:
        """The next bytes: `size` of them, unless the stream ends or is damaged before.

        Raises:
            FormatError: The compressed data is damaged, or ends too early, and all that is before
                has been read.
            StorageError: The file cannot be read.
        """
        taken, left = [], size
        while left:
            if not self._waiting and not self._fill():
                break
            part = self._waiting[:left]
            self._waiting = self._waiting[len(part) :]
            taken.append(part)
            left -= len(part)
        self.position += size - left
        if left == size and self._damage is not None and size:
            raise self._damage
        return b''.join(taken)

    def blocks(self, size: int = _BLOCK) -> Iterator[bytes]:
        """The rest, in blocks of this size.

        Raises:
            FormatError: The compressed data is damaged, or ends too early.
            StorageError: The file cannot be read.
        """
        while block := self.read(size):
            yield block

    def parts(self) -> Iterator[bytes]:
        """The rest as it comes, in parts of any size.

        Raises:
            FormatError: The compressed data is damaged, or ends too early.
            StorageError: The file cannot be read.
        """
        if self._waiting:
            yield self.read(len(self._waiting))
        for part in self._parts:
            self.position += len(part)
            yield part

    def _fill(self) -> bool:
        """Has the next bytes waiting, if there are any."""
        if self._damage is not None:
            return False
        try:
            self._waiting = memoryview(next(self._parts, b''))
        except FormatError as error:
            self._damage = error
            return False
        return bool(self._waiting)

    def _stored(self, at: int) -> Iterator[bytes]:
        """The file as it is stored."""
        while block := self._reader.read(at, _BLOCK):
            yield block
            at += len(block)

    def _decompressed(self, stored: Iterator[bytes]) -> Iterator[bytes]:
        make = _MACHINES[str(self.compression)]
        machine, done = None, 0
        for block in stored:
            for at in range(0, len(block), _PIECE):
                data = block[at : at + _PIECE]
                while data := data if machine else data.lstrip(b'\0'):  # zeros fill some files up
                    machine = machine or make()
                    try:
                        part = machine.decompress(data)
                    except _DAMAGE as error:
                        raise self._damaged(f'is damaged ({error})', done) from None
                    if part:
                        yield part
                        done += len(part)
                    data = b''
                    if machine.eof:
                        data, machine = machine.unused_data, None
        if machine is not None:
            raise self._damaged('ends too early', done)

    def _damaged(self, what: str, done: int) -> FormatError:
        return FormatError(
            f'the {self.compression} data {what}; {done:,} decompressed bytes come before that'
        )


def _compression(head: bytes) -> str | None:
    return next((name for name, starts in _MAGIC.items() if head.startswith(starts)), None)

"""Files of a dataset: read, written, checked, listed and deleted, on any Beam filesystem.

All of it goes through `apache_beam.io.filesystems.FileSystems`; what its stores do differently is
known here and in `publishing`, and nowhere else.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from apache_beam.io.filesystem import BeamIOError, FileMetadata
from apache_beam.io.filesystems import FileSystems

from beam_mds.errors import OptionError, StorageError
from beam_mds.retries import is_transient, retried

_logger = logging.getLogger(__name__)

# Beam would compress a second time by the name's suffix if it were not told.
_AS_IS = 'uncompressed'

# What is read at once of a file; more than nearly all batches of samples.
_READ_BYTES = 8 << 20

# A file whose reported size stays wrong is written again this often.
_WRITES = 3

# Bytes of a file that are read at once where it comes in pieces.
_PIECE = 1 << 20


def absolute(path: str | os.PathLike[str], option: str = 'out') -> str:
    """A path that means the same on every worker, without a trailing slash.

    Raises:
        OptionError: It is no path, is empty, or its scheme is unknown to Beam.
    """
    try:
        text = os.fspath(path)
    except TypeError:
        text = None
    if not isinstance(text, str) or not text.strip():
        raise OptionError(f'{option} must be a path as str or os.PathLike, got {path!r:.80}')
    if not is_remote(text):
        return os.path.abspath(os.path.expanduser(text))
    try:
        FileSystems.get_filesystem(text)
    except ValueError as error:
        raise OptionError(f'{option}={text!r}: Beam has no filesystem for it: {error}') from None
    return text.rstrip('/')


def is_remote(path: str) -> bool:
    """Whether a path has a scheme, like gs://."""
    return '://' in path


def join(folder: str, name: str) -> str:
    """The path of a file by its posix name relative to a folder."""
    return f'{folder}/{name}'


def read(path: str) -> bytes:
    """Reads a whole file.

    Raises:
        StorageError: It cannot be read.
    """

    def attempt() -> bytes:
        with FileSystems.open(path, compression_type=_AS_IS) as file:
            return bytes(file.read())

    return retried(attempt, f'read {path}')


def read_into(target: npt.NDArray[np.uint8], path: str, start: int) -> None:
    """Fills a buffer from a file.

    Args:
        target: uint8 of shape (bytes to read,).
        path: The file.
        start: The first byte to read.

    Raises:
        StorageError: It cannot be read, or ends too early.
    """

    def attempt() -> int:
        with FileSystems.open(path, compression_type=_AS_IS) as file:
            file.seek(start)
            done, count = 0, 1
            while done < len(target) and count:
                count = file.readinto(target[done:].data)
                done += count
            return done

    done = retried(attempt, f'read {path}')
    if done != len(target):
        raise StorageError(f'{path}: {done} bytes from byte {start}, expected {len(target)}')


class Reader:
    """A file that is opened once and read in pieces.

    Example:
        >>> with contextlib.closing(Reader('gs://bucket/shard.mds')) as file:  # doctest: +SKIP
        ...     head = file.read(0, 8)
    """

    def __init__(self, path: str) -> None:
        """Opens nothing yet.

        Args:
            path: The file.
        """
        self.path = path
        self._file: Any = None

    def close(self) -> None:
        """Closes the file, if it is open."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def read(self, start: int, size: int) -> bytes:
        """The bytes from `start` on; fewer than `size` where the file ends.

        Raises:
            StorageError: They cannot be read.
        """

        def attempt() -> bytes:
            try:
                if self._file is None:
                    self._file = FileSystems.open(self.path, compression_type=_AS_IS)
                if self._file.tell() != start:
                    self._file.seek(start)
                parts = []
                left = size
                # A file allocates what it is asked for, whether it has that much or not.
                while left and (part := self._file.read(min(left, _READ_BYTES))):
                    parts.append(part)
                    left -= len(part)
                return parts[0] if len(parts) == 1 else b''.join(parts)
            except Exception:
                self.close()  # what a broken connection left is not read on
                raise

        return retried(attempt, f'read {self.path}')


class Pieces:
    """The content of a file in pieces; read anew each time that they are gone through."""

    def __init__(self, path: str) -> None:
        """Opens nothing yet.

        Args:
            path: The file.
        """
        self._path = path

    def __iter__(self) -> Iterator[bytes]:
        """Pieces of about a MiB.

        Raises:
            StorageError: The file cannot be read.
        """
        with contextlib.closing(Reader(self._path)) as file:
            at = 0
            while piece := file.read(at, _PIECE):
                yield piece
                at += len(piece)
                if len(piece) < _PIECE:
                    return


def size_of(path: str) -> int | None:
    """A file's size in bytes, or None when there is no such file."""
    found = look_up(path)
    return None if found is None else int(found.size_in_bytes)


def look_up(path: str) -> FileMetadata | None:
    """What the store tells of a file, or None when there is no such file."""

    def attempt() -> FileMetadata | None:
        system = FileSystems.get_filesystem(path)
        try:
            return system.metadata(path)
        except (BeamIOError, FileNotFoundError) as error:
            # Not kept beyond this block: an error in a variable is a cycle that holds on to the
            # buffers of every caller until the garbage collector comes by.
            if is_transient(error) or system.exists(path):
                raise
            return None

    return retried(attempt, f'look up {path}')


def write(path: str, parts: Iterable[Any], size: int) -> bool:
    """Writes a file from bytes-like parts, unless it is there with this size already.

    The name must stand for the content: a file with the right size counts as right.

    Args:
        path: Where.
        parts: Bytes-like objects that stand one after another; gone through anew for each attempt.
        size: Bytes of all of them.

    Returns:
        Whether anything was sent.

    Raises:
        StorageError: It could not be written, or the store reports another size after it was.
    """
    seen = size_of(path)
    if seen == size:
        return False
    for _ in range(_WRITES):
        retried(lambda: _write_once(path, parts), f'write {path}')
        seen = size_of(path)
        if seen == size:
            return True
        _logger.warning('%s: wrote %d bytes, the store reports %s', path, size, seen)
    raise StorageError(
        f'{path}: wrote {size} bytes, the store reports {seen}, also after {_WRITES} attempts'
    )


def list_folder(folder: str) -> dict[str, int]:
    """All files below a folder: posix name relative to it -> size in bytes.

    A folder that does not exist is empty.
    """
    prefix = folder + '/'
    found = match(escape(prefix) + '**', folder)
    return {path[len(prefix) :]: size for path, size in found.items()}


def find(folder: str, name: str) -> list[str]:
    """The folders at or below a folder that hold a file of exactly this name.

    Returns:
        Posix paths relative to the folder; empty for the folder itself.
    """
    prefix = folder + '/'
    paths = [path[len(prefix) - 1 :] for path in match(f'{escape(prefix)}**{escape(name)}')]
    end = f'/{name}'
    return [path.removesuffix(end).lstrip('/') for path in paths if path.endswith(end)]


def match(pattern: str, name: str | None = None) -> dict[str, int]:
    """The files that a glob matches: path -> size in bytes.

    Args:
        pattern: `*` and `?` stay within one name, `**` crosses folders.
        name: What an error calls it.

    Raises:
        StorageError: They cannot be listed.
    """

    def attempt() -> dict[str, int]:
        (found,) = FileSystems.match([pattern])
        return {
            item.path.replace(os.sep, '/'): int(item.size_in_bytes) for item in found.metadata_list
        }

    return retried(attempt, f'list {name or pattern}')


def delete(paths: Sequence[str]) -> None:
    """Deletes files; one that is gone already is fine."""

    def attempt() -> None:
        try:
            FileSystems.delete([escape(path) for path in paths])
            return
        except BeamIOError as error:
            failure = error
        if any(FileSystems.exists(path) for path in paths):
            raise failure

    if paths:
        retried(attempt, f'delete {len(paths)} files like {paths[0]}')


def delete_folder(folder: str) -> None:
    """Deletes all files below a folder and, where folders exist, the folder itself."""
    if is_remote(folder):
        delete([join(folder, name) for name in list_folder(folder)])
    elif os.path.isdir(folder):
        # Beam's delete takes patterns, and none finds a folder with a bracket in its name.
        retried(lambda: shutil.rmtree(folder), f'delete {folder}')


def _write_once(path: str, parts: Iterable[Any]) -> None:
    # An exception between opening and closing would publish a part of the file on most stores, so
    # the bytes of a file with a final name are ready before it is opened.
    file = FileSystems.create(path, compression_type=_AS_IS)
    try:
        for part in parts:
            file.write(part)
    finally:
        file.close()


def escape(path: str) -> str:
    """A pattern that matches only this path.

    (Beam has no quoting but a set of one character. `[[]` would do for a bracket, and makes `re`
    warn; a set of NUL, which no name holds, and the bracket does not.)
    """
    return re.sub(r'[*?[]', lambda found: f'[\0{found[0]}]', path)

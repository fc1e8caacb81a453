"""The entries of a large index, in a temporary file until the index is published."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from beam_mds.format.index import BETWEEN, HEAD, TAIL, Entry, dump_entry
from beam_mds.format.jsonstream import JsonStream
from beam_mds.indexes import natural_key

# Bytes that are read at once.
_PIECE = 1 << 20


class _Run(NamedTuple):
    """Where entries that stand one after another start and end in the file."""

    start: int
    end: int


class EntrySpool:
    """Entries of an index, grouped by folder, on the disk of this machine.

    Attributes:
        shards: How many there are.
        samples: How many their shards hold.

    Example:
        >>> spool = EntrySpool()
        >>> for folder, samples in (('10', 1), ('9', 2), ('10', 3)):
        ...     spool.add(folder, [{'samples': samples}])
        >>> b''.join(spool.index()).decode()
        '{"shards": [{"samples": 2}, {"samples": 1}, {"samples": 3}], "version": 2}'
        >>> spool.close()
    """

    def __init__(self) -> None:
        """Opens the file; it has no name, and is gone when it is closed."""
        self.shards = self.samples = 0
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - see close()
        self._runs: dict[str, list[_Run]] = {}

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def add(self, folder: str, entries: Iterable[Entry]) -> None:
        """Writes entries behind those that the folder has already."""
        start = self._file.tell()
        for number, entry in enumerate(entries):
            if number:
                self._file.write(BETWEEN)
            self._file.write(dump_entry(entry))
            self.shards += 1
            self.samples += entry['samples']
        self._file.flush()
        if (end := self._file.tell()) > start:
            self._runs.setdefault(folder, []).append(_Run(start, end))

    def entries(self, folder: str) -> Iterator[Entry]:
        """The entries of a folder."""
        for run in self._runs.get(folder, ()):
            yield from JsonStream(itertools.chain([b'['], self._pieces(run), [b']'])).items()

    def index(self) -> SpooledIndex:
        """The index that lists all, folder by folder in natural order."""
        ordered = sorted(self._runs, key=natural_key)
        return SpooledIndex([run for folder in ordered for run in self._runs[folder]], self._pieces)

    def _pieces(self, run: _Run) -> Iterator[bytes]:
        for at in range(run.start, run.end, _PIECE):
            yield os.pread(self._file.fileno(), min(_PIECE, run.end - at), at)


class SpooledIndex:
    """An index.json whose bytes are made while they are gone through, as often as one likes.

    Attributes:
        size: Bytes of all of it.
    """

    def __init__(self, runs: Sequence[_Run], pieces: Callable[[_Run], Iterable[bytes]]) -> None:
        """Made by `EntrySpool.index`."""
        self._runs, self._pieces = runs, pieces
        between = len(BETWEEN) * max(len(runs) - 1, 0)
        self.size = len(HEAD) + sum(end - start for start, end in runs) + between + len(TAIL)

    def __iter__(self) -> Iterator[bytes]:
        """The bytes in pieces."""
        yield HEAD
        for number, run in enumerate(self._runs):
            if number:
                yield BETWEEN
            yield from self._pieces(run)
        yield TAIL

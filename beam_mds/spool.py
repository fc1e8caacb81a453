"""The entries of a large index, in a temporary file until the index is published."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from beam_mds.format.index import BETWEEN, HEAD, TAIL, Entry, dump_entry
from beam_mds.format.jsonstream import JsonStream

# Bytes that are read at once.
_PIECE = 1 << 20


class _Segment(NamedTuple):
    """Where the entries of one part lie in the file, and what they add up to."""

    start: int
    end: int
    shards: int
    samples: int


_NOTHING = _Segment(0, 0, 0, 0)


class EntrySpool:
    """Entries grouped by part, on the disk of this machine.

    Example:
        >>> spool = EntrySpool()
        >>> spool.add('b', [{'samples': 1}]), spool.add('a', [{'samples': 2}, {'samples': 3}])
        (None, None)
        >>> b''.join(spool.index(['a', 'b'])).decode()
        '{"shards": [{"samples": 2}, {"samples": 3}, {"samples": 1}], "version": 2}'
        >>> spool.close()
    """

    def __init__(self) -> None:
        """Opens the file; it has no name, and is gone when it is closed."""
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - see close()
        self._segments: dict[str, _Segment] = {}

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def add(self, part: str, entries: Iterable[Entry]) -> None:
        """Writes the entries of a part, once; nothing when one of them raises."""
        start, shards, samples = self._file.tell(), 0, 0
        for entry in entries:
            if shards:
                self._file.write(BETWEEN)
            self._file.write(dump_entry(entry))
            shards += 1
            samples += entry['samples']
        self._segments[part] = _Segment(start, self._file.tell(), shards, samples)
        self._file.flush()

    def shards(self, part: str) -> int:
        """How many entries a part has."""
        return self._segments.get(part, _NOTHING).shards

    @property
    def samples(self) -> int:
        """Samples of all parts."""
        return sum(segment.samples for segment in self._segments.values())

    def entries(self, part: str) -> Iterator[Entry]:
        """The entries of a part."""
        return JsonStream(itertools.chain([b'['], self.pieces(part), [b']'])).items()

    def pieces(self, part: str) -> Iterator[bytes]:
        """The bytes of a part's entries."""
        segment = self._segments.get(part, _NOTHING)
        for at in range(segment.start, segment.end, _PIECE):
            yield os.pread(self._file.fileno(), min(_PIECE, segment.end - at), at)

    def index(self, parts: Sequence[str]) -> SpooledIndex:
        """The index that lists these parts, in this order."""
        return SpooledIndex(self, [part for part in parts if self.shards(part)])

    def size(self, part: str) -> int:
        """The bytes of a part's entries."""
        return self._segments[part].end - self._segments[part].start


class SpooledIndex:
    """An index.json whose bytes are made while they are gone through, as often as one likes."""

    def __init__(self, spool: EntrySpool, parts: Sequence[str]) -> None:
        """Made by `EntrySpool.index`."""
        self._spool, self._parts = spool, parts

    @property
    def size(self) -> int:
        """Bytes of all of it."""
        between = len(BETWEEN) * max(len(self._parts) - 1, 0)
        return len(HEAD) + sum(map(self._spool.size, self._parts)) + between + len(TAIL)

    def __iter__(self) -> Iterator[bytes]:
        """The bytes in pieces."""
        yield HEAD
        for number, part in enumerate(self._parts):
            if number:
                yield BETWEEN
            yield from self._spool.pieces(part)
        yield TAIL

"""Blocks of packed documents: in memory, in files, and the plan of what to cut them into.

The ids of a corpus are gone through twice: they are counted before they can be cut. In between they
wait in files; what travels says where they are, so that no runner keeps them in memory.

    file  := block | block ...
    block := ids of all documents, in the type of the dataset
             | int64 of each document: ids up to its end (without wrap only)
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from beam_mds import storage
from beam_mds.sources.base import Piece, Source
from beam_mds.sources.inputs import InputFile
from beam_mds.sources.tokenized.documents import Documents
from beam_mds.sources.tokenized.packing import Effect, Ids, Start, effect, starts_of
from beam_mds.sources.tokenized.texts import groups_of
from beam_mds.sources.tokenizing import Int64s

# Ids of all blocks that are held, and how many samples these are at least.
_HELD_IDS, _HELD_SAMPLES = 1 << 20, 8

# Bytes of the input that are read as one task, where its files and pieces are smaller.
_TASK_BYTES = 16 << 20

# Where a block is in the input: number of the run of files, of the task, of the block.
Order = tuple[int, int, int]


class Packing(NamedTuple):
    """How documents become samples.

    Attributes:
        size: Ids of a sample.
        wrap: Whether the rest of a document goes on in the next sample.
        group: The field whose values are packed apart; None: all are packed together.
    """

    size: int
    wrap: bool
    group: str | None


class Task(NamedTuple):
    """Pieces that are read one after another.

    Attributes:
        run: Number of its run of files, in the order of the input.
        number: Its number among the tasks of the run.
        pieces: The pieces.
    """

    run: int
    number: int
    pieces: tuple[Piece, ...]


class Block(NamedTuple):
    """Many documents of one group.

    Attributes:
        group: The group.
        ids: Their ids, one document after another.
        ends: int64 of shape (documents,), ids up to the end of each.
    """

    group: str
    ids: Ids
    ends: Int64s


class StoredBlock(NamedTuple):
    """A block in a file.

    Attributes:
        group: The group.
        order: Where it is in the input.
        path: The file.
        start: Its first byte there.
        length: Ids.
        dtype: Their type.
        documents: Documents whose ends are stored.
        effect: What it does.
    """

    group: str
    order: Order
    path: str
    start: int
    length: int
    dtype: str
    documents: int
    effect: Effect

    def load(self) -> tuple[Ids, Int64s]:
        """The ids and the ends.

        Raises:
            StorageError: The file cannot be read.
        """
        ids, ends = np.empty(self.length, self.dtype), np.empty(self.documents, np.int64)
        data = np.empty(ids.nbytes + ends.nbytes, np.uint8)
        storage.read_into(data, self.path, self.start)
        ids.view(np.uint8)[:] = data[: ids.nbytes]
        ends.view(np.uint8)[:] = data[ids.nbytes :]
        return ids, ends


class Head(NamedTuple):
    """The ids that a block begins with.

    Attributes:
        path: The file.
        start: The first byte there.
        length: Ids.
    """

    path: str
    start: int
    length: int

    def load(self, dtype: str) -> Ids:
        """The ids.

        Raises:
            StorageError: The file cannot be read.
        """
        ids: Ids = np.empty(self.length, dtype)
        storage.read_into(ids.view(np.uint8), self.path, self.start)
        return ids


class Cutting(NamedTuple):
    """What to cut a block into.

    Attributes:
        start: Where it starts among the samples.
        heads: Of the blocks behind it, that complete the sample that its tail begins; empty where
            there is none, or it stays incomplete.
    """

    start: Start
    heads: tuple[Head, ...]


def runs_of(files: Iterable[InputFile]) -> Iterator[tuple[int, list[InputFile]]]:
    """Numbered runs of neighbouring files, each of about a task's bytes or of one file."""
    run: list[InputFile] = []
    number, size = 0, 0
    for file in files:
        if run and size + file.size > _TASK_BYTES:
            yield number, run
            run, number, size = [], number + 1, 0
        run.append(file)
        size += file.size
    if run:
        yield number, run


def tasks_of(numbered: tuple[int, list[InputFile]], source: Source) -> Iterator[Task]:
    """The tasks of a run of files, each of about a task's bytes or of one piece."""
    run, files = numbered
    pieces: list[Piece] = []
    number, size = 0, 0
    for file in files:
        found = list(source.pieces(file))
        length = file.size // max(len(found), 1)  # what pieces count by is the source's matter
        for piece in found:
            if pieces and size + length > _TASK_BYTES:
                yield Task(run, number, tuple(pieces))
                pieces, number, size = [], number + 1, 0
            pieces.append(piece)
            size += length
    if pieces:
        yield Task(run, number, tuple(pieces))


class BlockBuilder:
    """Puts documents into blocks."""

    def __init__(self, packing: Packing) -> None:
        """Starts with nothing.

        Args:
            packing: The options.
        """
        self._group = packing.group
        self._limit = max(_HELD_IDS, _HELD_SAMPLES * packing.size)
        self._held: dict[str, tuple[list[Ids], list[Int64s]]] = {}
        self._count = 0

    def add(self, documents: Documents) -> list[Block]:
        """Takes documents: the blocks that are complete by now, at most one a group."""
        ends = np.cumsum(documents.lengths)
        for group, start, stop in _runs(groups_of(documents.rows, self._group)):
            ids, lengths = self._held.setdefault(group, ([], []))
            ids.append(documents.ids[ends[start - 1] if start else 0 : ends[stop - 1]])
            lengths.append(documents.lengths[start:stop])
        self._count += len(documents.ids)
        return self.finish() if self._count >= self._limit else []

    def finish(self) -> list[Block]:
        """The blocks of what is left over."""
        held, self._held, self._count = self._held, {}, 0
        return [
            Block(group, np.concatenate(ids), np.cumsum(np.concatenate(lengths)))
            for group, (ids, lengths) in sorted(held.items())
        ]


def store(
    blocks: Iterable[Block], order: Order, packing: Packing, folder: str
) -> Iterator[StoredBlock]:
    """Writes blocks of different groups to one file.

    Args:
        blocks: The blocks.
        order: Where they are in the input.
        packing: The options.
        folder: Where the file goes.

    Raises:
        StorageError: It cannot be written.
    """
    path = storage.join(folder, f'{uuid.uuid4().hex}.ids')
    parts: list[Any] = []
    stored, size = [], 0
    for group, ids, ends in blocks:
        done = effect(ends, len(ids), packing.size, packing.wrap)
        kept = ends[:0] if packing.wrap else ends
        stored.append(
            StoredBlock(group, order, path, size, len(ids), ids.dtype.name, len(kept), done)
        )
        parts += [ids.data, kept.data]
        size += ids.nbytes + kept.nbytes
    if stored:
        storage.write(path, parts, size)
    yield from stored


def plan(
    blocks: Iterable[StoredBlock], packing: Packing
) -> tuple[dict[tuple[str, Order], Cutting], int]:
    """What to cut each block into.

    Args:
        blocks: All blocks, in any order.
        packing: The options.

    Returns:
        Group and place of a block -> what to cut it into; and how many samples there are.
    """
    found = sorted(blocks, key=lambda block: (block.group, block.order))
    cuttings, samples = {}, 0
    for _, first, stop in _runs([block.group for block in found]):
        some = found[first:stop]
        starts, end = starts_of((block.effect for block in some), packing.size, packing.wrap)
        samples += end.sample
        thens = [*starts[1:], end]
        for row, (block, start, then) in enumerate(zip(some, starts, thens, strict=True)):
            begins = then.fill and (then.sample > start.sample or not start.fill)
            heads = _heads(some[row + 1 :], packing.size - then.fill) if begins else ()
            cuttings[block.group, block.order] = Cutting(start, heads)
    return cuttings, samples


def _heads(blocks: Iterable[StoredBlock], missing: int) -> tuple[Head, ...]:
    """What blocks begin with, up to so many ids; nothing if they have not so many."""
    heads = []
    for block in blocks:
        count = min(block.length, missing)
        if count:
            heads.append(Head(block.path, block.start, count))
        missing -= count
        if not missing:
            return tuple(heads)
    return ()


def _runs(groups: list[str]) -> Iterator[tuple[str, int, int]]:
    """Runs of neighbours of one group: the group, the first row and the row behind the last."""
    start = 0
    for row in range(1, len(groups) + 1):
        if row == len(groups) or groups[row] != groups[start]:
            yield groups[start], start, row
            start = row

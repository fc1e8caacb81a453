from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from beam_mds.sources.base import Piece, Source
from beam_mds.sources.inputs import InputFile
from beam_mds.sources.tokenized import blocks
from beam_mds.sources.tokenized.blocks import (
    Block,
    Packing,
    StoredBlock,
    plan,
    runs_of,
    store,
    tasks_of,
)
from beam_mds.sources.tokenized.packing import cut
from tests.helpers.tokens import one_buffer


def _stored(
    documents: dict[str, list[list[int]]], packing: Packing, folder: Path
) -> list[StoredBlock]:
    """The documents of some groups, a few of each in a file, in any order."""
    rng = random.Random(1)
    stored: list[StoredBlock] = []
    left = {group: list(some) for group, some in documents.items()}
    number = 0
    while any(left.values()):
        found = []
        for group, some in left.items():
            taken = [some.pop(0) for _ in range(min(len(some), rng.randrange(4)))]
            ids = [one for document in taken for one in document]
            ends = np.cumsum([len(document) for document in taken], dtype=np.int64)
            found.append(Block(group, np.array(ids, np.uint16), ends))
        # Places of two digits do not sort as text.
        order = (number // 30, number // 3 % 10, number % 3)
        stored += store(found, order, packing, str(folder))
        number += 1
    rng.shuffle(stored)
    return stored


@pytest.mark.parametrize('wrap', [True, False])
def test_stored_blocks_of_any_order_give_the_samples_of_one_buffer_for_each_group(
    tmp_path: Path, wrap: bool
) -> None:
    rng = random.Random(2)
    documents = {
        group: [
            [rng.randrange(60_000) for _ in range(rng.choice([0, 1, 5, 40]))] for _ in range(90)
        ]
        for group in ('a', 'b')
    }
    packing = Packing(16, wrap, 'group')
    stored = _stored(documents, packing, tmp_path)
    cuttings, count = plan(stored, packing)
    found: dict[str, dict[int, list[int]]] = {'a': {}, 'b': {}}
    for block in stored:
        start, heads = cuttings[block.group, block.order]
        done = cut(*block.load(), start, packing.size, wrap)
        samples = [*done.whole]
        if heads:
            samples.append(np.concatenate([done.tail, *(one.load(block.dtype) for one in heads)]))
        for number, sample in enumerate(samples, done.first):
            assert number not in found[block.group]
            found[block.group][number] = sample.tolist()
    for group, some in documents.items():
        expected = one_buffer(some, packing.size, wrap=wrap)
        assert [found[group][number] for number in range(len(expected))] == expected
    assert count == sum(map(len, found.values()))


def test_the_ends_of_documents_are_stored_only_where_they_are_needed(tmp_path: Path) -> None:
    block = Block('', np.arange(100, dtype=np.uint16), np.array([40, 100]))
    sizes = []
    for wrap in (True, False):
        (stored,) = store([block], (0, 0, 0), Packing(8, wrap, None), str(tmp_path))
        sizes.append(Path(stored.path).stat().st_size)
        ids, ends = stored.load()
        assert ids.tolist() == list(range(100))
        assert ends.tolist() == ([] if wrap else [40, 100])
    assert sizes == [200, 216]


def test_no_blocks_are_no_file(tmp_path: Path) -> None:
    assert list(store([], (0, 0, 0), Packing(8, True, None), str(tmp_path))) == []
    assert list(tmp_path.iterdir()) == []
    assert plan([], Packing(8, True, None)) == ({}, 0)


class _Halves(Source):
    """Files that are read in two pieces, counted by something else than bytes."""

    def pieces(self, file: InputFile) -> Iterator[Piece]:
        yield Piece(file, 0, 1, 0)
        yield Piece(file, 1, 2, 1)


def test_small_files_and_pieces_are_read_together_and_large_ones_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(blocks, '_TASK_BYTES', 100)
    sizes = [30, 40, 50, 500, 0, 20]
    files = [InputFile(f'/d/{size}', str(size), size) for size in sizes]
    runs = list(runs_of(files))
    assert [(number, [file.size for file in run]) for number, run in runs] == [
        (0, [30, 40]),
        (1, [50]),
        (2, [500]),
        (3, [0, 20]),
    ]
    source = _Halves(['/d'])
    tasks = [task for run in runs for task in tasks_of(run, source)]
    assert [
        (task.run, task.number, [(piece.file.size, piece.number) for piece in task.pieces])
        for task in tasks
    ] == [
        (0, 0, [(30, 0), (30, 1), (40, 0), (40, 1)]),
        (1, 0, [(50, 0), (50, 1)]),
        (2, 0, [(500, 0)]),
        (2, 1, [(500, 1)]),
        (3, 0, [(0, 0), (0, 1), (20, 0), (20, 1)]),
    ]

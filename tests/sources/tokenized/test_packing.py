from __future__ import annotations

import random
from itertools import chain, pairwise

import numpy as np
import pytest

from beam_mds.sources.tokenized.packing import FIRST, Start, assemble, cut, effect, starts_of
from tests.helpers.tokens import one_buffer


def _numbered(lengths: list[int]) -> list[list[int]]:
    """Documents whose ids are all different."""
    ends = np.cumsum([0, *lengths]).tolist()
    return [list(range(start, stop)) for start, stop in pairwise(ends)]


def _in_blocks(blocks: list[list[list[int]]], size: int, wrap: bool) -> list[list[int]]:
    """The samples of documents in blocks, each of which is cut without the others."""
    data = [
        (
            np.array(list(chain(*block)), np.int64),
            np.cumsum([len(one) for one in block], dtype=np.int64),
        )
        for block in blocks
    ]
    starts, end = starts_of((effect(ends, len(ids), size, wrap) for ids, ends in data), size, wrap)
    samples: dict[int, list[int]] = {}
    for (ids, ends), start in zip(data, starts, strict=True):
        done = cut(ids, ends, start, size, wrap)
        if len(done.head):
            samples[start.sample] += done.head.tolist()
        for number, whole in enumerate([*done.whole, done.tail], done.first):
            assert number not in samples or not len(whole)
            if len(whole):
                samples[number] = whole.tolist()
    complete = [samples[number] for number in sorted(samples) if len(samples[number]) == size]
    assert end.sample == len(complete)
    assert sum(map(len, samples.values())) == end.sample * size + end.fill
    return complete


@pytest.mark.parametrize('wrap', [True, False])
def test_blocks_cut_one_by_one_give_the_samples_of_one_buffer_however_they_are_cut(
    wrap: bool,
) -> None:
    rng = random.Random(5)
    for _ in range(2000):
        size = rng.choice([1, 2, 3, 8, 30])
        lengths = [rng.choice([0, 1, 2, 7, 20, 100]) for _ in range(rng.randrange(25))]
        documents = _numbered(lengths)
        blocks, at = [], 0
        while at < len(documents):
            count = rng.randrange(1, 8)
            blocks.append(documents[at : at + count])
            at += count
        assert _in_blocks(blocks, size, wrap) == one_buffer(documents, size, wrap=wrap)


def test_with_wrap_a_long_document_goes_on_in_the_next_samples() -> None:
    assert _in_blocks([_numbered([7, 2])], 3, wrap=True) == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]


def test_without_wrap_the_rest_of_a_document_is_dropped_when_a_sample_is_full() -> None:
    assert _in_blocks([_numbered([2, 7, 3])], 3, wrap=False) == [[0, 1, 2], [9, 10, 11]]


def test_what_is_left_at_the_end_is_no_sample() -> None:
    assert _in_blocks([_numbered([5])], 3, wrap=True) == [[0, 1, 2]]
    assert starts_of([effect(np.array([5]), 5, 3, wrap=True)], 3, wrap=True)[1] == Start(1, 2)


def test_a_sample_may_cross_many_blocks() -> None:
    blocks = [[document] for document in _numbered([2] * 6)]
    assert _in_blocks(blocks, 10, wrap=True) == [list(range(10))]
    assert _in_blocks(blocks, 10, wrap=False) == [list(range(10))]


def test_blocks_without_ids_change_nothing() -> None:
    assert starts_of([effect(np.array([0]), 0, 4, wrap=False)] * 2, 4, False) == (
        [FIRST, FIRST],
        FIRST,
    )


def test_what_a_block_does_is_small_where_documents_are_long() -> None:
    ends = np.arange(1, 1001) * 500
    assert len(effect(ends, 500_000, 2048, wrap=False).heads) == 5
    assert not len(effect(ends, 500_000, 2048, wrap=True).heads)


@pytest.mark.parametrize(
    ('before', 'after', 'expected'),
    [
        ([], [], [5, 6, 7]),
        ([1], [], [1, 5, 6, 1, 1, 7]),
        ([], [8, 9], [5, 6, 8, 9, 8, 9, 7, 8, 9]),
        ([1, 2], [8], [1, 2, 5, 6, 8, 1, 2, 8, 1, 2, 7, 8]),
    ],
)
def test_the_same_ids_go_around_every_document(
    before: list[int], after: list[int], expected: list[int]
) -> None:
    ids, lengths = np.array([5, 6, 7], np.uint16), np.array([2, 0, 1])
    found = assemble(ids, lengths, np.array(before, np.uint16), np.array(after, np.uint16))
    assert found.tolist() == expected
    assert found.dtype == np.uint16

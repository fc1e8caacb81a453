"""Packing: documents of token ids -> samples of exactly N ids; pure functions, no Beam.

The rule is llm-foundry's (`ConcatTokensDataset`): documents are appended to a buffer one by one; as
soon as it holds N ids or more, the first N are a sample. With `wrap` the rest stays in the buffer,
without it the rest is dropped. What the buffer holds at the end is no sample.

The documents come in *blocks*, many documents each, which are cut in parallel. What a block does to
the buffer depends only on how much the buffer held before, so that a small `Effect` per block is
enough to find out, from the first block to the last, where the samples of each start:

    Effect of every block -> starts_of -> Start of every block -> cut -> its samples

A sample that crosses blocks is put together from the tail of one and the heads of those behind it.
The result equals that of one buffer for all documents in order, however they are cut into blocks.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from beam_mds.sources.tokenizing import Int64s

Ids = npt.NDArray[Any]


class Start(NamedTuple):
    """Where a block starts among the samples.

    Attributes:
        sample: Number of the sample that its first id belongs to.
        fill: How many ids of this sample the blocks before it have; 0 to N - 1.
    """

    sample: int
    fill: int


FIRST = Start(0, 0)


class Cut(NamedTuple):
    """A block, cut.

    Attributes:
        head: Ids that go on with a sample of the blocks before; they may not complete it.
        first: Number of the first sample that begins in the block.
        whole: The k samples that the block has all ids of, of shape (k, N).
        tail: Ids that begin one more sample, and leave it incomplete.
    """

    head: Ids
    first: int
    whole: Ids
    tail: Ids


class Effect(NamedTuple):
    """What a block does to a buffer that held fewer than N ids.

    The document that first fills the buffer to N depends on what it held. `heads` has the
    candidates; what comes after that document does not depend on anything before.

    Attributes:
        total: Ids of the block.
        heads: int64 of shape (k,), increasing: ids of the block up to the end of the first
            document, the second, ... up to the first that fills even an empty buffer.
        samples: int64 of shape (k,), samples that are completed if that document is the first to
            complete one.
        fills: int64 of shape (k,), ids in the buffer at the end of the block then.
    """

    total: int
    heads: Int64s
    samples: Int64s
    fills: Int64s


def assemble(ids: Ids, lengths: Int64s, before: Ids, after: Ids) -> Ids:
    """Puts the same ids around every document.

    Args:
        ids: The ids of n documents, one after another.
        lengths: int64 of shape (n,).
        before: What goes before each.
        after: What goes behind each.

    Example:
        >>> assemble(np.array([5, 6, 7]), np.array([2, 1]), np.array([1]), np.array([0])).tolist()
        [1, 5, 6, 0, 1, 7, 0]
    """
    around = len(before) + len(after)
    if not around:
        return ids
    ends = np.cumsum(lengths + around)
    whole = np.empty(len(ids) + around * len(lengths), ids.dtype)
    own = np.ones(len(whole), bool)
    for at, value in enumerate(before):
        places = ends - lengths - around + at
        whole[places], own[places] = value, False
    for at, value in enumerate(after):
        places = ends - len(after) + at
        whole[places], own[places] = value, False
    whole[own] = ids
    return whole


def effect(ends: Int64s, total: int, size: int, wrap: bool) -> Effect:
    """What a block does.

    Args:
        ends: int64 of shape (documents,), ids of the block up to the end of each document; not
            looked at with `wrap`.
        total: Ids of the block.
        size: N.
        wrap: Whether the rest of a document goes on in the next sample.
    """
    if wrap:
        nothing = np.empty(0, np.int64)
        return Effect(total, nothing, nothing, nothing)
    count = int(np.searchsorted(ends, size)) + 1
    heads = ends[:count]
    samples, fills = np.zeros(len(heads), np.int64), np.zeros(len(heads), np.int64)
    # For each document, the one that fills a buffer that is empty before it; all candidates step
    # through these at once.
    starts = np.concatenate([[0], ends])
    following = np.searchsorted(ends, starts + size)
    at = np.arange(1, len(heads) + 1)  # the first document of the buffer that is empty again
    going = np.arange(len(heads))
    while len(going):
        samples[going] += 1
        reached = following[at[going]]
        done = reached == len(ends)
        fills[going[done]] = total - starts[at[going[done]]]
        going, reached = going[~done], reached[~done]
        at[going] = reached + 1
    return Effect(total, heads, samples, fills)


def starts_of(
    effects: Iterable[Effect], size: int, wrap: bool, first: Start = FIRST
) -> tuple[list[Start], Start]:
    """Where blocks start.

    Args:
        effects: Of all blocks, in order.
        size: N.
        wrap: As in `effect`.
        first: Where the first one starts.

    Returns:
        One `Start` a block, and what comes behind the last: the number of samples, and how many ids
        are left over.
    """
    starts, (sample, fill) = [], first
    for one in effects:
        starts.append(Start(sample, fill))
        if wrap:
            sample, fill = sample + (fill + one.total) // size, (fill + one.total) % size
            continue
        head = int(np.searchsorted(one.heads, size - fill))
        if head == len(one.heads):
            fill += one.total
        else:
            sample, fill = sample + int(one.samples[head]), int(one.fills[head])
    return starts, Start(sample, fill)


def cut(ids: Ids, ends: Int64s, start: Start, size: int, wrap: bool) -> Cut:
    """Cuts a block into samples.

    Args:
        ids: Of the block, n documents one after another.
        ends: As in `effect`.
        start: Where the block starts.
        size: N.
        wrap: As in `effect`.
    """
    missing = size - start.fill if start.fill else 0
    first = start.sample + (start.fill > 0)
    if missing > len(ids):
        return Cut(ids, first, ids[:0].reshape(0, size), ids[:0])
    if wrap:
        stop = missing + (len(ids) - missing) // size * size
        return Cut(ids[:missing], first, ids[missing:stop].reshape(-1, size), ids[stop:])
    begins, at = [], 0  # where the buffer's ids begin in the block
    if missing:
        at = int(ends[np.searchsorted(ends, missing)])
    while (full := int(np.searchsorted(ends, at + size))) < len(ends):
        begins.append(at)
        at = int(ends[full])
    places = np.array(begins, np.int64)[:, None] + np.arange(size)
    return Cut(ids[:missing], first, ids[places], ids[at:])

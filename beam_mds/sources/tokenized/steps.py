"""What the steps of TokenizeText and ReadTokens run on workers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.metrics import Metrics
from apache_beam.pvalue import TaggedOutput
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

from beam_mds.records import PLACE, BadRecord
from beam_mds.sources.base import Sorter, Source
from beam_mds.sources.tokenized.blocks import (
    Block,
    BlockBuilder,
    Cutting,
    Order,
    Packing,
    StoredBlock,
    Task,
    plan,
    store,
)
from beam_mds.sources.tokenized.documents import (
    TOKENS,
    Documents,
    Encoder,
    TokenStream,
    token_samples,
    tokenized,
)
from beam_mds.sources.tokenized.packing import FIRST, Ids, Start, cut, effect, starts_of
from beam_mds.sources.tokenized.texts import TextOptions


class _Counted:
    """Documents on their way, counted, and notes of bad records as outputs."""

    def __init__(self, on_error: str) -> None:
        self._sorter = Sorter(on_error)
        self._records = Metrics.counter('beam_mds', 'records_read')
        self._tokens = Metrics.counter('beam_mds', 'tokens_read')

    def documents(self, found: Iterable[Documents | BadRecord]) -> Iterator[Any]:
        """The documents, with the notes as outputs."""
        for one in found:
            if isinstance(one, BadRecord):
                yield self._sorter.sort(one)
            else:
                self._records.inc(len(one.lengths))
                self._tokens.inc(len(one.ids))
                yield one

    def samples(self, found: Iterable[Documents | BadRecord], field: str) -> Iterator[Any]:
        """One sample a document, with the notes as outputs."""
        for one in self.documents(found):
            if not isinstance(one, Documents):
                yield one
                continue
            for sample in token_samples(one, field):
                yield self._sorter.sort(sample) if isinstance(sample, BadRecord) else sample


class TokenizeSamples(beam.DoFn):
    """Samples -> samples, and notes of bad records."""

    def __init__(self, options: TextOptions, on_error: str) -> None:
        self._options, self._counted = options, _Counted(on_error)
        self._stream: TokenStream | None = None

    def start_bundle(self) -> None:
        self._stream = None

    def process(self, element: Any) -> Iterator[Any]:
        if self._stream is None:
            self._stream = TokenStream(self._options, Encoder(self._options))
        return self._counted.samples(self._stream.add(element), self._options.text_field)

    def finish_bundle(self) -> Iterator[WindowedValue | TaggedOutput]:
        if self._stream is None:
            return
        for output in self._counted.samples(self._stream.finish(), self._options.text_field):
            if isinstance(output, TaggedOutput):
                yield TaggedOutput(output.tag, GlobalWindows.windowed_value(output.value))
            else:
                yield GlobalWindows.windowed_value(output)


class _ReadTask(beam.DoFn):
    """Base of what reads a task."""

    def __init__(self, source: Source, options: TextOptions, on_error: str) -> None:
        self._source, self._options = source, options
        self._counted = _Counted(on_error)

    def _read(self, task: Task) -> Iterator[Documents | BadRecord]:
        elements = (element for piece in task.pieces for element in self._source.read(piece))
        return tokenized(elements, self._options, Encoder(self._options))


class ReadSamples(_ReadTask):
    """Task -> samples, and notes of bad records."""

    def process(self, task: Task) -> Iterator[Any]:
        return self._counted.samples(self._read(task), self._options.text_field)


class ReadBlocks(_ReadTask):
    """Task -> stored blocks, and notes of bad records."""

    def __init__(
        self, source: Source, options: TextOptions, packing: Packing, on_error: str
    ) -> None:
        super().__init__(source, options, on_error)
        self._packing = packing

    def process(self, task: Task, folder: str) -> Iterator[Any]:
        builder = BlockBuilder(self._packing)
        number = 0
        for one in self._counted.documents(self._read(task)):
            if not isinstance(one, Documents):
                yield one
            elif blocks := builder.add(one):
                yield from store(blocks, (task.run, task.number, number), self._packing, folder)
                number += 1
        order = (task.run, task.number, number)
        yield from store(builder.finish(), order, self._packing, folder)


class PlanSamples(beam.DoFn):
    """Once: group and place of a block -> what to cut it into."""

    def __init__(self, packing: Packing) -> None:
        self._packing = packing
        self._dropped = Metrics.counter('beam_mds', 'tokens_dropped')

    def process(
        self, _: bytes, found: Iterable[StoredBlock | BadRecord]
    ) -> Iterator[dict[tuple[str, Order], Cutting]]:
        blocks = [one for one in found if isinstance(one, StoredBlock)]
        cuttings, samples = plan(blocks, self._packing)
        self._dropped.inc(sum(block.length for block in blocks) - samples * self._packing.size)
        yield cuttings


class CutBlock(beam.DoFn):
    """Block -> the samples that begin in it, and in `done` that it was read; notes stay."""

    def __init__(self, packing: Packing) -> None:
        self._packing = packing

    def process(
        self, block: StoredBlock | BadRecord, cuttings: Mapping[tuple[str, Order], Cutting]
    ) -> Iterator[Any]:
        if isinstance(block, BadRecord):
            yield block
            return
        size, wrap = self._packing.size, self._packing.wrap
        start, heads = cuttings[block.group, block.order]
        done = cut(*block.load(), start, size, wrap)
        if len(done.whole):
            yield _batch(done.first, done.whole, block.group, self._packing)
        if heads:
            ids = np.concatenate([done.tail, *(head.load(block.dtype) for head in heads)])
            yield _sample(done.first + len(done.whole), ids, block.group, self._packing)
        yield TaggedOutput('done', True)


def packed(blocks: Iterable[Block], packing: Packing) -> Iterator[Any]:
    """The samples of blocks that come in order."""
    size, wrap = packing.size, packing.wrap
    starts: dict[str, Start] = {}
    tails: dict[str, list[Ids]] = {}
    for group, ids, ends in blocks:
        start = starts.get(group, FIRST)
        _, starts[group] = starts_of([effect(ends, len(ids), size, wrap)], size, wrap, start)
        done = cut(ids, ends, start, size, wrap)
        held = tails.setdefault(group, [])
        if len(done.head):
            held.append(done.head)
            if sum(map(len, held)) == size:
                yield _sample(start.sample, np.concatenate(held), group, packing)
                held.clear()
        if len(done.whole):
            yield _batch(done.first, done.whole, group, packing)
        if len(done.tail):
            held.append(done.tail)


def _sample(number: int, ids: Ids, group: str, packing: Packing) -> dict[str, Any]:
    grouped = {} if packing.group is None else {packing.group: group}
    return {TOKENS: ids, **grouped, PLACE: {'sample': number}}


def _batch(first: int, whole: Ids, group: str, packing: Packing) -> pa.RecordBatch:
    columns = {TOKENS: pa.FixedSizeListArray.from_arrays(pa.array(whole.reshape(-1)), packing.size)}
    if packing.group is not None:
        columns[packing.group] = pa.repeat(group, len(whole))
    numbers = pa.array(np.arange(first, first + len(whole)))
    columns[PLACE] = pa.StructArray.from_arrays([numbers], ['sample'])
    return pa.RecordBatch.from_pydict(columns)

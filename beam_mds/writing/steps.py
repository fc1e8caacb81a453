"""What the steps of WriteToMDS run on workers: the DoFns, and the functions of the small steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
from apache_beam.metrics import Metrics
from apache_beam.metrics.execution import MetricsEnvironment
from apache_beam.pvalue import TaggedOutput
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

from beam_mds.background import RANGE_SLOTS, Jobs
from beam_mds.errors import EncodingError
from beam_mds.format import INDEX_NAME
from beam_mds.storage import join
from beam_mds.writing.batches import Batcher, ElementBatch
from beam_mds.writing.commit import Counts, commit
from beam_mds.writing.encode import BundleEncoder, Encoded
from beam_mds.writing.options import WriteOptions
from beam_mds.writing.planning import Int64s
from beam_mds.writing.shardfile import Fragment, Gathered, gather, store_range
from beam_mds.writing.target import Target


class WrittenShard(NamedTuple):
    """One shard of a published dataset.

    Attributes:
        basename: The stored file, relative to the folder of the dataset's index.json.
        samples: How many it holds.
        bytes: Size of the stored file.
        hashes: Hash name -> hex digest of the stored file.
        split: The split, which is the sub-folder; empty when the dataset is not split.
    """

    basename: str
    samples: int
    bytes: int
    hashes: dict[str, str]
    split: str


def publish(
    _: bytes,
    options: WriteOptions,
    target: Target,
    fragments: Iterable[Fragment],
    counts: Iterable[Counts],
    letters: Iterable[Any] = (),  # noqa: ARG001 - a side input that is to be complete first
) -> list[Fragment]:
    """The last step: see `commit`."""
    total = np.sum([tuple(count) for count in counts] or [(0, 0, 0)], axis=0)
    return commit(options, target, list(fragments), Counts(*total.tolist()))


def records(fragments: Sequence[Fragment]) -> Iterator[WrittenShard]:
    """What users get of a published dataset's shards."""
    for fragment in fragments:
        file = fragment.stored
        yield WrittenShard(file.basename, fragment.samples, file.bytes, file.hashes, fragment.split)


def index_paths(fragments: Sequence[Fragment], options: WriteOptions) -> Iterator[str]:
    """The index of the whole dataset, then those of its splits."""
    for split in sorted({'' for _ in fragments} | {fragment.split for fragment in fragments}):
        yield join(options.folder_of(split), INDEX_NAME)


class _ShardMetrics:
    """The counters of written shards; called in the bundle's own thread, as Beam wants it."""

    def __init__(self) -> None:
        self._samples = Metrics.counter('beam_mds', 'samples_written')
        self._shards = Metrics.counter('beam_mds', 'shards_written')
        self._raw = Metrics.counter('beam_mds', 'bytes_raw')
        self._stored = Metrics.counter('beam_mds', 'bytes_stored')
        self._sizes = Metrics.distribution('beam_mds', 'shard_bytes')

    def count(self, fragment: Fragment) -> None:
        self._samples.inc(fragment.samples)
        self._shards.inc()
        self._raw.inc(fragment.raw_data.bytes)
        self._stored.inc(fragment.stored.bytes)
        self._sizes.update(fragment.raw_data.bytes)


class CollectBatches(beam.DoFn):
    """Elements -> batches. A step of its own, since a step with side inputs is slow per element."""

    def start_bundle(self) -> None:
        self._batcher = Batcher()

    def process(self, element: Any) -> list[ElementBatch] | None:
        return self._batcher.add(element)

    def finish_bundle(self) -> Iterator[WindowedValue | TaggedOutput]:
        for batch in self._batcher.finish():
            yield GlobalWindows.windowed_value(batch)
        if collected := self._batcher.samples:
            yield _late('counts', Counts(collected, 0, 0))


class EncodeSamples(beam.DoFn):
    """Batches -> blocks, and in arrival order full shards."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        self._encoder: BundleEncoder | None = None
        self._failed = Metrics.counter('beam_mds', 'samples_failed')
        self._sizes = Metrics.distribution('beam_mds', 'sample_bytes')
        self._metrics = _ShardMetrics()

    def start_bundle(self) -> None:
        self._encoder = None

    def process(self, element: ElementBatch, target: Target) -> list[Any]:
        if self._encoder is None:
            self._encoder = BundleEncoder(self._options, target.spill_folder)
        try:
            return self._outputs(self._encoder.add(element.data))
        except EncodingError:
            self._failed.inc()
            raise

    def finish_bundle(self) -> Iterator[WindowedValue | TaggedOutput]:
        if self._encoder is None:
            return
        try:
            result = self._encoder.finish()
        except EncodingError:
            self._failed.inc()
            raise
        for output in self._outputs(result):
            if isinstance(output, TaggedOutput):
                yield _late(output.tag, output.value)
            else:
                yield GlobalWindows.windowed_value(output)

    def _outputs(self, result: Encoded) -> list[Any]:
        encoded, refused = self._measure(result.sizes), len(result.refused)
        for fragment in result.fragments:
            self._metrics.count(fragment)
        if refused:
            self._failed.inc(refused)
        tagged: dict[str, Sequence[Any]] = {
            'positions': [packed.where for packed in result.packed],
            'histograms': result.histograms,
            'chosen': result.chosen,
            'fragments': result.fragments,
            'errors': result.refused,
            'counts': [Counts(0, encoded, refused)] if encoded or refused else [],
        }
        return [
            *(packed.block for packed in result.packed),
            *(TaggedOutput(tag, value) for tag, values in tagged.items() for value in values),
        ]

    def _measure(self, chunks: Iterable[Int64s]) -> int:
        """Updates the distribution of sample sizes; returns the number of samples."""
        count = 0
        container = MetricsEnvironment.current_container()
        if container is None:
            return sum(map(len, chunks))
        # Metrics.distribution() would look the cell up for each sample, at 8 times the cost.
        update = container.get_distribution(self._sizes.metric_name).update
        for sizes in chunks:
            count += len(sizes)
            for size in sizes.tolist():
                update(size)
        return count


class WriteShards(beam.DoFn):
    """((split, shard number), blocks) -> the fragments of its shard files."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        self._metrics = _ShardMetrics()

    def start_bundle(self) -> None:
        self._jobs: Jobs[list[Fragment]] = Jobs()

    def process(self, element: tuple[tuple[str, int], Iterable[bytes]]) -> Iterator[Fragment]:
        (split, number), parts = element
        RANGE_SLOTS.acquire()
        try:
            gathered = gather(parts, self._options.config.capacity, self._options.most)
            done = self._jobs.submit(self._store, split, gathered, number)
        except BaseException:
            RANGE_SLOTS.release()
            raise
        yield from self._counted(done)

    def _store(self, split: str, gathered: Gathered, number: int) -> list[Fragment]:
        try:
            return store_range(self._options, split, gathered, number)
        finally:
            RANGE_SLOTS.release()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        for fragment in self._counted(self._jobs.finish()):
            yield GlobalWindows.windowed_value(fragment)

    def _counted(self, done: Iterable[list[Fragment]]) -> Iterator[Fragment]:
        for fragments in done:
            for fragment in fragments:
                self._metrics.count(fragment)
                yield fragment


def _late(tag: str, value: Any) -> TaggedOutput:
    """A tagged output of finish_bundle."""
    return TaggedOutput(tag, GlobalWindows.windowed_value(value))

"""What the steps of WriteToMDS run on workers: the DoFns, and the functions of the small steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.metrics import Metrics
from apache_beam.metrics.execution import MetricsEnvironment
from apache_beam.pvalue import TaggedOutput
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

from beam_mds import blocks, planning
from beam_mds.background import RANGE_SLOTS, Jobs
from beam_mds.batches import Batcher, ElementBatch
from beam_mds.commit import Target, commit
from beam_mds.encode import BundleEncoder, Encoded
from beam_mds.errors import EncodingError
from beam_mds.options import WriteOptions
from beam_mds.planning import Histogram, HotBuckets, Int64s
from beam_mds.shardfile import Fragment, Gathered, gather, store_range


class WrittenShard(NamedTuple):
    """One shard of a published dataset.

    Attributes:
        basename: The stored file, relative to the folder of index.json.
        samples: How many it holds.
        bytes: Size of the stored file.
        hashes: Hash name -> hex digest of the stored file.
    """

    basename: str
    samples: int
    bytes: int
    hashes: dict[str, str]


def measure_hot(block: bytes, hot: HotBuckets) -> Iterator[Histogram]:
    """The fine histogram of a block, when any bucket is hot."""
    if len(hot):
        where = blocks.positions(block)
        yield planning.measure_hot(where.first, where.second, where.weights, hot)


def publish(
    _: bytes,
    options: WriteOptions,
    target: Target,
    fragments: Iterable[Fragment],
    encoded: Iterable[int],
) -> list[Fragment]:
    """The last step: see `commit`."""
    return commit(options, target, list(fragments), sum(encoded))


def records(fragments: Sequence[Fragment]) -> Iterator[WrittenShard]:
    """What users get of a published dataset's shards."""
    for fragment in fragments:
        file = fragment.stored
        yield WrittenShard(file.basename, fragment.samples, file.bytes, file.hashes)


class AddHistograms(beam.CombineFn):
    """Adds histograms up; the sum depends on no order."""

    # Buckets that may wait to be added, beyond those of the sum.
    _SLACK = 1 << 20

    def create_accumulator(self) -> list[Histogram]:
        return []

    def add_input(self, accumulator: list[Histogram], histogram: Histogram) -> list[Histogram]:
        accumulator.append(histogram)
        if sum(map(len, accumulator[1:])) > self._SLACK:
            return self.compact(accumulator)
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[list[Histogram]]) -> list[Histogram]:
        merged: list[Histogram] = []
        for accumulator in accumulators:
            for histogram in accumulator:
                merged = self.add_input(merged, histogram)
        return merged

    def compact(self, accumulator: list[Histogram]) -> list[Histogram]:
        return [Histogram.merged(accumulator)]

    def extract_output(self, accumulator: list[Histogram]) -> Histogram:
        return Histogram.merged(accumulator)


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

    def finish_bundle(self) -> Iterator[WindowedValue]:
        for batch in self._batcher.finish():
            yield GlobalWindows.windowed_value(batch)


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
                yield TaggedOutput(output.tag, GlobalWindows.windowed_value(output.value))
            else:
                yield GlobalWindows.windowed_value(output)

    def _outputs(self, result: Encoded) -> list[Any]:
        count = self._measure(result.sizes)
        for fragment in result.fragments:
            self._metrics.count(fragment)
        return [
            *result.blocks,
            *(TaggedOutput('positions', block) for block in result.positions),
            *(TaggedOutput('histograms', histogram) for histogram in result.histograms),
            *(TaggedOutput('fragments', fragment) for fragment in result.fragments),
            *([TaggedOutput('counts', count)] if count else []),
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
    """(shard number, blocks) -> the fragments of its shard files."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        self._metrics = _ShardMetrics()

    def start_bundle(self) -> None:
        self._jobs: Jobs[list[Fragment]] = Jobs()

    def process(self, element: tuple[int, Iterable[bytes]]) -> Iterator[Fragment]:
        number, parts = element
        RANGE_SLOTS.acquire()
        try:
            gathered = gather(parts, self._options.config.capacity)
            done = self._jobs.submit(self._store, gathered, number)
        except BaseException:
            RANGE_SLOTS.release()
            raise
        yield from self._counted(done)

    def _store(self, gathered: Gathered, number: int) -> list[Fragment]:
        try:
            return store_range(self._options.out, self._options.config, gathered, number)
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

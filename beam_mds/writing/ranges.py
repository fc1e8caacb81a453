"""The steps between encoding and writing: which range of positions goes to which shard."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import AsIter, AsSingleton, PCollection

from beam_mds.format import Samples
from beam_mds.writing import blocks, planning
from beam_mds.writing.options import WriteOptions
from beam_mds.writing.planning import Histogram, HotBuckets, Plan
from beam_mds.writing.sorting import ChosenKeys
from beam_mds.writing.target import Target


def bounds_of(
    options: WriteOptions, start: PCollection[bytes], encoded: Mapping[str, PCollection[Any]]
) -> Any:
    """A side input, or a value: split -> the keys that ranges start at, with order='sorted'."""
    if options.order != 'sorted':
        return {}
    chosen = encoded['chosen'] | 'ChooseBounds' >> beam.CombinePerKey(
        _Merge(ChosenKeys.merged)
    ).with_input_types(tuple[str, ChosenKeys])
    return AsSingleton(start | 'FindBounds' >> beam.Map(_find_bounds, AsIter(chosen)))


def plans_of(
    options: WriteOptions,
    start: PCollection[bytes],
    encoded: Mapping[str, PCollection[Any]],
    bounds: Any,
) -> Any:
    """A side input, or a value: split -> Plan, for the splits that are measured."""
    if isinstance(options.num_shards, int):
        return {}
    histograms = encoded['histograms']
    if options.order == 'sorted':
        histograms = encoded['positions'] | 'MeasureRanges' >> beam.FlatMap(_measure_ranges, bounds)
    # (split, Histogram), one a split
    coarse = histograms | 'Histogram' >> _add_up()
    hot = start | 'FindHotBuckets' >> beam.Map(_find_hot, options, AsIter(coarse))
    fine = (
        encoded['positions']
        | 'MeasureHotBuckets' >> beam.FlatMap(_measure_hot, AsSingleton(hot), bounds)
        | 'HotHistogram' >> _add_up()
    )
    return AsSingleton(
        start | 'PlanShards' >> beam.Map(_plan_shards, options, AsIter(coarse), AsIter(fine))
    )


def _find_hot(
    _: bytes, options: WriteOptions, measured: Iterable[tuple[str, Histogram]]
) -> dict[str, HotBuckets]:
    """The buckets of each split that are to be measured again."""
    capacity, most = options.config.capacity, options.most
    hot = {split: planning.hot_buckets(found, capacity, most) for split, found in measured}
    return {split: buckets for split, buckets in hot.items() if len(buckets)}


def _measure_ranges(where: bytes, bounds: Mapping[str, Samples]) -> Iterator[tuple[str, Histogram]]:
    """The histogram of a block by ranges of keys, with order='sorted'."""
    split = blocks.split_of(where)
    found = blocks.positions(where, bounds[split])
    yield split, planning.measure(found.first, found.weights)


def _measure_hot(
    where: bytes, hot: Mapping[str, HotBuckets], bounds: Mapping[str, Samples]
) -> Iterator[tuple[str, Histogram]]:
    """The fine histogram of a block, when any bucket of its split is hot."""
    split = blocks.split_of(where)
    if split in hot:
        found = blocks.positions(where, bounds.get(split))
        yield split, planning.measure_hot(found.first, found.second, found.weights, hot[split])


def _find_bounds(_: bytes, chosen: Iterable[tuple[str, ChosenKeys]]) -> dict[str, Samples]:
    """The bounds of each split, with order='sorted'."""
    return {split: keys.bounds() for split, keys in chosen}


def _plan_shards(
    _: bytes,
    options: WriteOptions,
    coarse: Iterable[tuple[str, Histogram]],
    fine: Iterable[tuple[str, Histogram]],
) -> dict[str, Plan]:
    """The plan of each split that was measured."""
    details = dict(fine)
    nothing = Histogram.merged([])
    capacity, most = options.config.capacity, options.most
    return {
        split: planning.full_plan(histogram, details.get(split, nothing), capacity, most)
        for split, histogram in coarse
    }


def assign_shards(
    block: bytes,
    options: WriteOptions,
    target: Target,
    plans: Mapping[str, Plan],
    bounds: Mapping[str, Samples],
) -> Iterator[tuple[tuple[str, int], bytes]]:
    """Cuts a block by split and shard number."""
    split = blocks.split_of(block)
    count = options.shards_of(split)
    plan = plans[split] if count is None else planning.even_plan(count)
    first = target.next_numbers.get(split, 0)
    for number, part in blocks.assign(block, plan, bounds.get(split)):
        yield (split, first + number), part


class _Merge(beam.CombineFn):
    """Merges histograms, or choices of keys; the result depends on no order."""

    # Buckets or keys that may wait to be merged, beyond those of the first part.
    _SLACK = 1 << 20

    def __init__(self, merged: Callable[[Sequence[Any]], Any]) -> None:
        self._merged = merged

    def create_accumulator(self) -> list[Any]:
        return []

    def add_input(self, accumulator: list[Any], part: Any) -> list[Any]:
        accumulator.append(part)
        if sum(map(len, accumulator[1:])) > self._SLACK:
            return self.compact(accumulator)
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[list[Any]]) -> list[Any]:
        merged: list[Any] = []
        for accumulator in accumulators:
            for part in accumulator:
                merged = self.add_input(merged, part)
        return merged

    def compact(self, accumulator: list[Any]) -> list[Any]:
        return [self._merged(accumulator)] if accumulator else []

    def extract_output(self, accumulator: list[Any]) -> Any:
        return self._merged(accumulator)


def _add_up() -> beam.PTransform:
    return beam.CombinePerKey(_Merge(Histogram.merged)).with_input_types(tuple[str, Histogram])

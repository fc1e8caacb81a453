"""Reads a dataset with `ReadFromMDS` or `read_samples`, as `python -m benchmarks.read_ours`.

Prints one JSON line: the samples, and the seconds from before the pipeline is built until it has
finished, which is after imports and before the interpreter ends. Options that it does not know go
to the pipeline.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.metrics import Metrics, MetricsFilter
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.runner import PipelineState

from beam_mds import ReadFromMDS, read_samples
from benchmarks import cases, warm
from benchmarks.ours import runner_options


class Count(beam.DoFn):
    """Counts samples, which come one by one or in batches."""

    def __init__(self, *, batches: bool) -> None:
        self._batches = batches
        self._seen = 0
        self._count = Metrics.counter('benchmark', 'samples')

    def process(self, element: Any) -> None:
        """Counts."""
        self._seen += element.num_rows if self._batches else 1

    def finish_bundle(self) -> None:
        """Tells."""
        self._count.inc(self._seen)
        self._seen = 0


def read(path: Path, how: str, options: Sequence[str]) -> dict[str, float]:
    """Counts the samples.

    Raises:
        RuntimeError: The pipeline did not end as done.
    """
    start = time.perf_counter()
    if how == 'read_samples':
        count = 0
        for _ in read_samples(path):
            count += 1
        return {'seconds': time.perf_counter() - start, 'samples': count}
    batches = how == 'batches'
    pipeline = beam.Pipeline(options=PipelineOptions(list(options)))
    _ = pipeline | ReadFromMDS(path, as_batches=batches) | beam.ParDo(Count(batches=batches))
    result = pipeline.run()
    state = result.wait_until_finish()
    seconds = time.perf_counter() - start
    if state != PipelineState.DONE:
        raise RuntimeError(f'the pipeline ended as {state}')
    counters = result.metrics().query(MetricsFilter().with_namespace('benchmark'))['counters']
    return {'seconds': seconds, 'samples': sum(counter.result for counter in counters)}


def main() -> None:
    """Reads and prints the seconds."""
    parser = argparse.ArgumentParser(description='Read a dataset.', allow_abbrev=False)
    parser.add_argument('--read', type=Path, required=True, help='the dataset')
    parser.add_argument('--how', choices=list(cases.READ_FORMS), required=True)
    parser.add_argument('--runner', default='fnapi', help='fnapi, prism, or a name Beam knows')
    parser.add_argument('--prism_location')
    parser.add_argument('--warm', type=int, default=0, help='MB of memory to touch first')
    args, rest = parser.parse_known_args()
    warm.touch(args.warm)
    options = [*runner_options(args.runner, args.prism_location), *rest]
    print(json.dumps(read(args.read, args.how, options)))


if __name__ == '__main__':
    main()

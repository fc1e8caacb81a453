"""Writes a workload with `WriteToMDS`, as `python -m benchmarks.ours`.

Prints one JSON line: the seconds from before the pipeline is built until it has finished, which is
after imports and before the interpreter ends. Options that it does not know go to the pipeline.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.dataset as ds
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.runner import PipelineState

from beam_mds import WriteToMDS
from benchmarks import cases, warm

# Batches of our reader, in batches of the pool's: its rows are dealt with one by one, ours at once.
_BATCHES = 4


def read_batches(path: str, rows: int) -> Iterator[pa.RecordBatch]:
    """A Parquet file's samples; its row groups are decoded ahead, by Arrow's own threads."""
    yield from ds.dataset(path).to_batches(batch_size=rows)


def to_rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """The samples as plain dicts."""
    rows: list[dict[str, Any]] = batch.to_pylist()
    return rows


def runner_options(runner: str, prism_location: str | None) -> list[str]:
    """Pipeline options for a runner by its short name.

    Args:
        runner: `fnapi`, `prism`, or any name that Beam's `--runner` takes.
        prism_location: The Prism program; Beam downloads one if None.
    """
    if runner == 'fnapi':
        return ['--runner=FnApiRunner']
    if runner != 'prism':
        return [f'--runner={runner}']
    options = ['--runner=PrismRunner', '--environment_type=LOOPBACK']
    return [*options, *([f'--prism_location={prism_location}'] if prism_location else [])]


def write(
    case: cases.Case, config: cases.Config, source: Path, out: Path, options: Sequence[str]
) -> float:
    """Writes a workload and returns the seconds it took.

    Raises:
        RuntimeError: The pipeline did not end as done.
    """
    start = time.perf_counter()
    pipeline = beam.Pipeline(options=PipelineOptions(list(options)))
    files = sorted(map(str, source.glob('*.parquet')))
    samples = (
        pipeline
        | 'Files' >> beam.Create(files)
        | 'ReadBatches'
        >> beam.FlatMap(read_batches, _BATCHES * case.batch_rows).with_output_types(pa.RecordBatch)
    )
    if config.elements == 'dicts':
        samples = samples | 'ToRows' >> beam.FlatMap(to_rows)
    _ = samples | WriteToMDS(
        str(out),
        columns=dict(case.columns),
        compression=config.compression,
        order=config.order,
        spill=False if config.inline else 'auto',
        size_limit=cases.SIZE_LIMIT,
    )
    state = pipeline.run().wait_until_finish()
    seconds = time.perf_counter() - start
    if state != PipelineState.DONE:
        raise RuntimeError(f'the pipeline ended as {state}')
    return seconds


def main() -> None:
    """Writes one workload and prints the seconds."""
    parser = argparse.ArgumentParser(
        description='Write a workload with WriteToMDS.', allow_abbrev=False
    )
    parser.add_argument('--case', choices=list(cases.CASES), required=True)
    parser.add_argument('--source', type=Path, required=True, help='folder of Parquet files')
    parser.add_argument('--out', type=Path, required=True, help='dataset folder, not there yet')
    parser.add_argument('--compression')
    parser.add_argument('--order', default='shuffled')
    parser.add_argument('--elements', choices=['tables', 'dicts'], default='tables')
    parser.add_argument('--inline', action='store_true', help='no run files')
    parser.add_argument('--runner', default='fnapi', help='fnapi, prism, or a name Beam knows')
    parser.add_argument('--prism_location')
    parser.add_argument('--warm', type=int, default=0, help='MB of memory to touch first')
    args, rest = parser.parse_known_args()
    warm.touch(args.warm)
    config = cases.Config(args.order, args.compression, args.elements, args.inline)
    options = [*runner_options(args.runner, args.prism_location), *rest]
    seconds = write(cases.CASES[args.case], config, args.source, args.out, options)
    print(json.dumps({'seconds': seconds}))


if __name__ == '__main__':
    main()

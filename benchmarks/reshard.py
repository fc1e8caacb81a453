"""ReshardMDS against reading and writing the samples: `python -m benchmarks.reshard`.

Copying encoded samples, decoding and encoding them as dicts, and as Arrow batches, in turn, round
by round, in one process on FnApiRunner; the output has four times as large shards. Medians, and how
many times as long as copying the others take.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa

from beam_mds import ReadFromMDS, ReshardMDS, WriteToMDS
from benchmarks import process, warm

COLUMNS = {'label': 'int32', 'score': 'float32', 'text': 'str'}

_SAMPLES, _TEXT_BYTES = 1_000_000, 400

# Samples that are made at once.
_PART = 20_000

ORDERS = ('arrival', 'shuffled')


def make(folder: str, samples: int) -> None:
    """Writes a dataset of random texts, in shards of 16 MB."""
    parts = range(max(1, samples // _PART))
    with beam.Pipeline(runner='FnApiRunner') as pipeline:
        batches = pipeline | beam.Create(parts) | beam.Map(_batch, min(samples, _PART))
        _ = batches | WriteToMDS(folder, COLUMNS, order='arrival', size_limit='16mb')


def _batch(seed: int, samples: int) -> pa.RecordBatch:
    rng = np.random.default_rng(seed)
    text = rng.integers(97, 122, samples * _TEXT_BYTES, np.uint8)
    offsets = np.arange(samples + 1, dtype=np.int32) * _TEXT_BYTES
    return pa.record_batch(
        {
            'label': rng.integers(0, 100, samples, np.int32),
            'score': rng.random(samples, np.float32),
            'text': pa.StringArray.from_buffers(samples, pa.py_buffer(offsets), pa.py_buffer(text)),
        }
    )


def ways(old: str, new: str, order: Any) -> dict[str, Callable[[beam.Pipeline], Any]]:
    """What is measured: how each is added to a pipeline."""
    sink = {'size_limit': '64mb', 'order': order}
    return {
        'copied': lambda pipeline: pipeline | ReshardMDS(old, new, **sink),
        'dicts': lambda pipeline: pipeline | ReadFromMDS(old) | WriteToMDS(new, COLUMNS, **sink),
        'batches': lambda pipeline: (
            pipeline | ReadFromMDS(old, as_batches=True) | WriteToMDS(new, COLUMNS, **sink)
        ),
    }


def once(build: Callable[[beam.Pipeline], Any], new: str) -> float:
    """The seconds of one run."""
    shutil.rmtree(new, ignore_errors=True)
    warm.touch(2500)
    start = time.perf_counter()
    with beam.Pipeline(runner='FnApiRunner') as pipeline:
        build(pipeline)
    return time.perf_counter() - start


def main() -> None:
    """Measures, and prints one JSON line for each order."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--samples', type=int, default=_SAMPLES)
    parser.add_argument('--runs', type=int, default=5)
    parser.add_argument('--data', type=Path, help='folder for the datasets (default: a temporary)')
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.data) as folder:
        old, new = f'{folder}/old', f'{folder}/new'
        make(old, args.samples)
        for order in ORDERS:
            seconds: dict[str, list[float]] = {}
            for number in range(args.runs + 1):  # the first warms up
                for name, build in ways(old, new, order).items():
                    took = once(build, new)
                    process.say(f'{order}, {name}: {took:.2f} s')
                    if number:
                        seconds.setdefault(name, []).append(took)
            medians = {name: round(statistics.median(each), 2) for name, each in seconds.items()}
            ratios = {f'{n}/copied': round(s / medians['copied'], 2) for n, s in medians.items()}
            print(json.dumps({'order': order, **medians, **ratios}))


if __name__ == '__main__':
    sys.exit(main())

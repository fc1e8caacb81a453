"""Makes tests/data/golden: a small dataset, a keyed one and one with num_shards.

    python -m tests.data.make_golden

Run it only when the files are meant to change: a rerun of someone's job would then write every
shard again under another name. Nothing in it depends on a library's version: no images, no
compression, and samples from a generator of its own.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np

from beam_mds import WriteToMDS

FOLDER = Path(__file__).parent / 'golden'

COLUMNS = {
    'array': 'ndarray',
    'data': 'bytes',
    'doc': 'json',
    'number': 'int32',
    'name ë': 'str',
    'vector': 'ndarray:float32:3',
}

# Folder -> options; all give several shards.
DATASETS: dict[str, dict[str, Any]] = {
    'shuffled': {'size_limit': 4096, 'hashes': ['sha1', 'xxh3_64']},
    'key': {'size_limit': 4096, 'key': 'name ë', 'seed': 1},
    'num_shards': {'num_shards': 3, 'size_limit': None},
}


def _numbers() -> Iterator[int]:
    """Pseudo-random numbers below 2**32, by the constants of Knuth's MMIX."""
    state = 2026
    while True:
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        yield state >> 32


def samples() -> list[dict[str, Any]]:
    """Eighty samples, always the same."""
    numbers = _numbers()
    return [
        {
            'array': np.array([[next(numbers) % 1000] * 2] * (1 + next(numbers) % 3), np.int16),
            'data': bytes(next(numbers) % 256 for _ in range(next(numbers) % 60)),
            'doc': {'row': row, 'tags': ['ä', None, next(numbers) % 10], 'half': row / 2},
            'number': next(numbers) - 2**31,
            'name ë': f'näme {next(numbers) % 7} 中',
            'vector': np.array([row, -row, row / 4], np.float32),
        }
        for row in range(80)
    ]


def make(folder: Path) -> None:
    """Writes all the datasets below a folder."""
    with beam.Pipeline(runner='FnApiRunner') as pipeline:
        rows = pipeline | beam.Create(samples())
        for name, options in DATASETS.items():
            _ = rows | name >> WriteToMDS(folder / name, COLUMNS, **options)


if __name__ == '__main__':
    shutil.rmtree(FOLDER, ignore_errors=True)
    make(FOLDER)

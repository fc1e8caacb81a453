"""Counts what a run wrote, so that a broken run cannot look fast."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from benchmarks.process import MeasurementError


@dataclass(frozen=True)
class Written:
    """A finished dataset by its index.

    Attributes:
        samples: Samples of all shards.
        shards: Number of shards.
        raw_bytes: Bytes of all shards before compression.
        stored_bytes: Bytes of all shard files.
    """

    samples: int
    shards: int
    raw_bytes: int
    stored_bytes: int


def count(out: Path, samples: int) -> Written:
    """Reads a dataset's index and checks it against its files and the number of input samples.

    Raises:
        MeasurementError: There is no index, a listed shard is absent or has another size, or the
            samples are not as many as went in.
    """
    index = out / 'index.json'
    if not index.exists():
        raise MeasurementError(f'{out}: no index.json')
    shards = json.loads(index.read_text())['shards']
    stored = [shard['zip_data'] or shard['raw_data'] for shard in shards]
    for file in stored:
        path = out / file['basename']
        size = path.stat().st_size if path.exists() else None
        if size != file['bytes']:
            raise MeasurementError(f'{path}: {size} bytes, the index says {file["bytes"]}')
    written = Written(
        samples=sum(shard['samples'] for shard in shards),
        shards=len(shards),
        raw_bytes=sum(shard['raw_data']['bytes'] for shard in shards),
        stored_bytes=sum(file['bytes'] for file in stored),
    )
    if written.samples != samples:
        raise MeasurementError(f'{out}: {written.samples} samples of {samples}')
    return written

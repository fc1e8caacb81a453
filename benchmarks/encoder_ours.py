"""Encodes small samples with `beam_mds.format.Columns`, batch by batch.

Prints one JSON line: seconds for plain dicts and for `pyarrow.RecordBatch`es of the same samples,
and a digest of the encoded samples, which must be the one of `MDSWriter`'s.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from beam_mds.format import Columns
from benchmarks import cases

_BATCH = 10_000
_SCHEMA = pa.schema({'id': pa.int64(), 'label': pa.uint16(), 'tag': pa.string(), 'x': pa.float32()})


def _encode(columns: Columns, batches: Sequence[Any]) -> tuple[float, str]:
    """Least seconds of encoding all batches, and the digest of their bytes."""
    columns.encode_batch(batches[0])
    seconds = float('inf')
    for _ in range(cases.ENCODER_REPEATS):
        start = time.perf_counter()
        encoded = [columns.encode_batch(batch) for batch in batches]
        seconds = min(seconds, time.perf_counter() - start)
    digest = hashlib.sha256()
    for samples in encoded:
        digest.update(samples.bytes.tobytes())
    return seconds, digest.hexdigest()


def main() -> None:
    """Encodes and prints the seconds."""
    parser = argparse.ArgumentParser(description='Encode small samples with beam_mds.')
    parser.add_argument('--samples', type=int, default=cases.ENCODER_SAMPLES)
    args = parser.parse_args()
    samples = cases.encoder_samples(args.samples)
    dicts = [samples[i : i + _BATCH] for i in range(0, len(samples), _BATCH)]
    tables = [pa.RecordBatch.from_pylist(batch, schema=_SCHEMA) for batch in dicts]
    columns = Columns(cases.ENCODER_COLUMNS)
    dicts_seconds, dicts_digest = _encode(columns, dicts)
    tables_seconds, tables_digest = _encode(columns, tables)
    if dicts_digest != tables_digest:
        raise RuntimeError('dicts and record batches were encoded to different bytes')
    report = {'dicts': dicts_seconds, 'record batches': tables_seconds, 'digest': dicts_digest}
    print(json.dumps(report))


if __name__ == '__main__':
    main()

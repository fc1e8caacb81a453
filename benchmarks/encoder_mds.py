"""Encodes small samples with `MDSWriter`, one by one; the interpreter is the pool's.

Prints one JSON line: seconds of the loop over `encode_sample` and of the loop over `write`, and a
digest of the encoded samples. `write` keeps the samples in memory here: they are fewer than a
shard, so neither packing nor a file's writing is in its time.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
import time
from collections.abc import Sequence
from typing import Any

from benchmarks import cases
from benchmarks.mosaic import MDSWriter


def _encode(samples: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Seconds of both loops, and the digest of the samples' bytes."""
    report: dict[str, Any] = {}
    with (
        tempfile.TemporaryDirectory() as out,
        MDSWriter(out=f'{out}/mds', columns=dict(cases.ENCODER_COLUMNS), size_limit=None) as writer,
    ):
        writer.encode_sample(samples[0])
        start = time.perf_counter()
        encoded = [writer.encode_sample(sample) for sample in samples]
        report['encode_sample'] = time.perf_counter() - start
        report['digest'] = hashlib.sha256(b''.join(encoded)).hexdigest()
        del encoded
        start = time.perf_counter()
        for sample in samples:
            writer.write(sample)
        report['write'] = time.perf_counter() - start
    return report


def main() -> None:
    """Encodes and prints the seconds."""
    parser = argparse.ArgumentParser(description='Encode small samples with MDSWriter.')
    parser.add_argument('--samples', type=int, default=cases.ENCODER_SAMPLES)
    args = parser.parse_args()
    samples = cases.encoder_samples(args.samples)
    reports = [_encode(samples) for _ in range(cases.ENCODER_REPEATS)]
    report = {name: min(one[name] for one in reports) for name in reports[0]}
    print(json.dumps(report))


if __name__ == '__main__':
    main()

"""Iterates `StreamingDataset`, or has `MDSWriter` write what is read; the pool's interpreter.

Prints one JSON line: the samples, and the seconds from before the dataset is made until the last
sample has come, which is after imports and before the interpreter ends.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from benchmarks import cases, warm
from benchmarks.mosaic import MDSWriter, StreamingDataset


def read(local: Path, how: str) -> dict[str, float]:
    """Counts the samples.

    Args:
        local: The dataset.
        how: `loop`, over the dataset itself, which prepares shards in a thread; or `index`, sample
            by sample without one.
    """
    start = time.perf_counter()
    # By default the loop waits after every 64 samples for the thread to wake up, and takes ten
    # times as long.
    dataset = StreamingDataset(
        local=str(local), batch_size=1, shuffle=False, predownload=cases.READ_SAMPLES
    )
    count = 0
    for _ in dataset if how == 'loop' else map(dataset.__getitem__, range(len(dataset))):
        count += 1
    return {'seconds': time.perf_counter() - start, 'samples': count}


def write(out: Path, samples: int, compression: str | None) -> dict[str, float]:
    """Writes the dataset that is read."""
    start = time.perf_counter()
    with MDSWriter(
        out=str(out),
        columns=dict(cases.READ_COLUMNS),
        compression=compression,
        size_limit=cases.SIZE_LIMIT,
    ) as writer:
        for sample in cases.read_samples(samples):
            writer.write(sample)
    return {'seconds': time.perf_counter() - start, 'samples': samples}


def main() -> None:
    """Reads or writes, and prints the seconds."""
    parser = argparse.ArgumentParser(description='Iterate StreamingDataset.')
    parser.add_argument('--read', type=Path, help='a dataset, which is unpacked in place')
    parser.add_argument('--how', choices=['loop', 'index'], default='loop')
    parser.add_argument('--write', type=Path, help='a folder for one, not there yet')
    parser.add_argument('--samples', type=int, default=cases.READ_SAMPLES, help='to write')
    parser.add_argument('--compression')
    parser.add_argument('--warm', type=int, default=0, help='MB of memory to touch first')
    args = parser.parse_args()
    warm.touch(args.warm)
    if args.write:
        found = write(args.write, args.samples, args.compression)
    else:
        found = read(args.read, args.how)
    print(json.dumps(found))


if __name__ == '__main__':
    main()

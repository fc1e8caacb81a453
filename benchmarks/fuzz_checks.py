"""What fuzz.py feeds damaged datasets to, beside the reader: the checks, and rebuild_index."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from beam_mds import read_samples, rebuild_index, verify_dataset
from beam_mds.checking.findings import KINDS
from benchmarks import fuzz_inputs as inputs
from benchmarks.fuzz_targets import MESSAGE, Case, Fault, Target, damaged_folder, own_errors


def verify(rng: random.Random, seeds: Sequence[inputs.Dataset], folder: Path) -> Case:
    """A dataset of which one file is damaged is checked: what cannot be read is found."""
    size, about, dataset = damaged_folder(rng, seeds, folder)

    def run() -> None:
        found = list(verify_dataset(folder, deep=True, threads=1))
        for one in found:
            if one.kind not in KINDS or not 0 < len(one.detail) < MESSAGE:
                raise Fault(f'a finding of kind {one.kind!r}: {one.detail:.300}')
        if not found and 'pkl' not in dataset.columns.as_dict().values():
            list(read_samples(folder))

    return Case(size, run, about)


def rebuild(rng: random.Random, seeds: Sequence[inputs.Dataset], folder: Path) -> Case:
    """The index of a dataset of which one file is damaged is made anew, and lists what is whole."""
    size, about, _ = damaged_folder(rng, seeds, folder)
    hashes = rng.choice((None, 'same', 'sha1'))

    def run() -> None:
        with own_errors():
            rebuild_index(folder, hashes=hashes, if_exists='overwrite', deep=True, threads=1)
            for one in verify_dataset(folder, deep=True, threads=1):
                if one.kind != 'extra':
                    raise Fault(f'after it was rebuilt: {one}')

    # Without an index nobody knows what a file expands to.
    return Case(size + inputs.BOMB, run, f'{hashes}, {about}')


TARGETS: dict[str, Target] = {one.__name__: one for one in (verify, rebuild)}

"""What fuzz.py feeds damaged datasets to, beside the reader: the tools around a dataset."""

from __future__ import annotations

import contextlib
import io
import json
import random
from collections.abc import Sequence
from pathlib import Path

from beam_mds import merge_indexes, read_samples, rebuild_index, verify_dataset
from beam_mds.checking.findings import KINDS
from beam_mds.cli import main
from beam_mds.cli.console import DONE, FAILED, USAGE
from beam_mds.format import EncodedBatch, Samples, parse_index
from beam_mds.stats import batch_stats
from benchmarks import fuzz_inputs as inputs
from benchmarks.fuzz_damage import changed_index, damaged_folder, damaged_values, write_files
from benchmarks.fuzz_targets import MESSAGE, Case, Fault, Target, own_errors


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


def inspect(rng: random.Random, seeds: Sequence[inputs.Dataset], folder: Path) -> Case:
    """beam-mds inspect prints what there is, or an error."""
    size, about, _ = damaged_folder(rng, seeds, folder)
    arguments = [str(folder), *rng.choice(((), ('0',), ('-1',), ('3',)))]
    arguments += rng.choice(([], ['--json'], ['--full']))

    def run() -> None:
        shown, errors = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(errors):
            code = main(['inspect', *arguments])
        if code == DONE and '--json' in arguments:
            json.loads(shown.getvalue())
        elif code not in (DONE, USAGE, FAILED):
            raise Fault(f'exit code {code}')
        if len(errors.getvalue()) > MESSAGE or 'Traceback' in errors.getvalue():
            raise Fault(f'{len(errors.getvalue())} characters: {errors.getvalue()[-300:]}')

    return Case(size, run, f'{arguments}, {about}')


def stats(rng: random.Random, seeds: Sequence[inputs.Dataset], folder: Path) -> Case:  # noqa: ARG001
    """Samples with damaged values are summed up."""
    dataset = rng.choice(seeds)
    rows = [damaged_values(rng, dataset.columns, row) for row in dataset.rows[0]]

    def run() -> None:
        with own_errors():
            found = batch_stats(EncodedBatch(dataset.columns, Samples.of(rows)))
            json.dumps(found.as_dict())

    return Case(sum(map(len, rows)), run, repr(rows)[:2000])


def merge(rng: random.Random, seeds: Sequence[inputs.Dataset], folder: Path) -> Case:
    """Two datasets, one of them with another index, are merged; what is merged can be parsed."""
    dataset = rng.choice(seeds)
    whole = {f'a/{name}': data for name, data in dataset.files().items()}
    other = {f'b/c/{name}': data for name, data in dataset.files().items()}
    other['b/c/index.json'] = inputs.written(rng, changed_index(rng, dataset))
    size = write_files(folder, {**whole, **other})

    def run() -> None:
        with own_errors() as found:
            merge_indexes(folder)
        if not found:
            parse_index((folder / 'index.json').read_bytes())

    return Case(size, run, repr(other)[:4000])


TARGETS: dict[str, Target] = {one.__name__: one for one in (verify, rebuild, inspect, stats, merge)}

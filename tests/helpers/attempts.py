"""A write without a pipeline, which can be stopped at any of its storage calls.

What CheckTarget, WriteShards and Commit do, called one after the other on `fault://`: cheap enough
to be failed, and killed, at each call.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from beam_mds import MDSError, StorageError, read_samples, storage
from beam_mds.format import Samples
from beam_mds.writing.commit import Counts, commit
from beam_mds.writing.options import WriteOptions
from beam_mds.writing.shardfile import store_shard
from beam_mds.writing.target import Target, check_target
from tests.helpers.building import encoded, options
from tests.helpers.faulty import SCHEME, Fault, Killed
from tests.helpers.writing import content

# Sub-folder (empty: none) -> its samples; one shard each.
Rows = Mapping[str, list[str]]

# A write, or its commit.
Step = Callable[[], None]

# What lies in a folder: name -> bytes.
Files = dict[str, bytes]

# Calls that change the store: with others, failing after the call is failing before it.
CHANGES = frozenset({'close', 'rename', 'delete'})


@dataclass(frozen=True)
class Write:
    """A write of some samples, in one mode."""

    rows: Rows
    if_exists: str = 'error'
    order: str = 'shuffled'

    def __call__(self, out: str) -> None:
        self.begin(out)()

    def begin(self, out: str, target: Target | None = None) -> Step:
        """All but the commit, which is returned."""
        given = self.options(out)
        target = target or check_target(given, 'beside')
        if target.spill_folder is not None:
            storage.write(f'{target.spill_folder}/0.run', [b'run'], 3)
        fragments = []
        for split, values in self.rows.items():
            first = target.next_numbers.get(split, 0)
            for number, value in enumerate(values, first):
                samples = [Samples.of([encoded(value.encode())])]
                number = -1 if self.order == 'arrival' else number
                fragments.append(store_shard(given, split, samples, number))
        counts = Counts(len(fragments), len(fragments), 0)
        return lambda: void(commit(given, target, fragments, counts))

    def options(self, out: str) -> WriteOptions:
        split = None if '' in self.rows else str
        return options(out, split=split, if_exists=self.if_exists, order=self.order)

    def result(self, before: Rows) -> Rows:
        """What is there afterwards."""
        if self.if_exists != 'append':
            return self.rows
        return {s: before.get(s, []) + self.rows.get(s, []) for s in {**before, **self.rows}}


def void(_: object) -> None:
    """Nothing."""


def indexes(folder: Path) -> dict[str, list[str]]:
    """The samples that each index.json gives, sorted, by its sub-folder; each shard is read."""
    return {
        '' if path.parent == folder else path.parent.relative_to(folder).as_posix(): sorted(
            sample['data'].decode() for sample in read_samples(path.parent)
        )
        for path in sorted(folder.rglob('index.json'))
    }


def whole(rows: Rows | None) -> dict[str, list[str]]:
    """What `indexes` gives for a complete dataset."""
    if rows is None:
        return {}
    below = {split: sorted(values) for split, values in rows.items() if split}
    return {'': sorted(itertools.chain(*rows.values())), **below}


def surplus(folder: Path) -> set[str]:
    """Files that no index lists."""
    names = set(content(folder))
    listed = set()
    for name in names:
        if name.rpartition('/')[2] == 'index.json':
            listed.add(name)
            for entry in json.loads((folder / name).read_text())['shards']:
                path = (entry['zip_data'] or entry['raw_data'])['basename']
                listed.add(f'{name.removesuffix("index.json")}{path}')
    return names - listed


def rename_shards(folder: Path) -> None:
    """Gives shards the names that MDSWriter gives, in all indexes."""
    for path in folder.rglob('index.json'):
        index = json.loads(path.read_text())
        numbers: dict[str, Iterator[int]] = {}
        for entry in index['shards']:
            old = entry['raw_data']['basename']
            below = old.rpartition('/')[0]
            number = next(numbers.setdefault(below, itertools.count()))
            new = f'{below}/'.lstrip('/') + f'shard.{number:05}.mds'
            if (path.parent / old).exists():
                (path.parent / old).rename(path.parent / new)
            entry['raw_data']['basename'] = new
        path.write_text(json.dumps(index))


def restore(folder: Path, files: Files) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def signature(files: Files) -> Any:
    """Equal for folders that differ only in random names."""
    return tuple(
        sorted(
            (re.sub('[0-9a-f]{32}', '#', name), re.sub(b'[0-9a-f]{32}', b'#', data))
            for name, data in files.items()
        )
    )


class Store:
    """The local files of `fault://`, where one call is failed or is the last; all in memory."""

    def __init__(self, local: Path) -> None:
        self.local = local
        self.out = f'{SCHEME}://{local}'
        self.calls: list[str] = []
        self._fault = Fault('')
        self._other: tuple[int, Step | None] = 0, None

    def next_fault(self, on: str, path: str) -> Fault:
        """In place of `faulty._next_fault`, which asks files."""
        self.calls.append(on)
        fault, count = self._fault, len(self.calls)
        nth, other = self._other
        if other is not None and count == nth:
            other()
        happens = fault.nth == count or (fault.times is None and fault.nth < count)
        return fault if fault.error and happens else Fault(on)

    def calls_of(self, write: Step) -> list[str]:
        """The kind of each call of a step that succeeds."""
        self.calls.clear()
        write()
        return list(self.calls)

    def fails(self, write: Step, nth: int, *, after: bool = False) -> bool:
        """Whether a step fails when one of its calls does."""
        try:
            with self._faulty(Fault('', nth=nth, error='crash', after=after)):
                write()
        except StorageError:
            return True
        return False

    def kill(self, write: Step, nth: int) -> None:
        """Leaves what a process leaves that dies at a call: none from there on is done."""
        with pytest.raises(Killed), self._faulty(Fault('', nth=nth, times=None, error='dead')):
            write()

    def interrupt(self, write: Step, nth: int, other: Step) -> bool:
        """Whether a step fails when another is done whole before one of its calls."""
        self._other = nth, other
        try:
            with self._faulty(Fault('')):
                write()
        except MDSError:
            return True
        finally:
            self._other = 0, None
        return False

    def kill_process(self, write: Step, nth: int) -> int:
        """The exit code of a process that does die there."""
        with warnings.catch_warnings():
            warnings.simplefilter('ignore', DeprecationWarning)  # threads that the child never uses
            child = os.fork()
        if child == 0:
            code = 1
            try:
                with self._faulty(Fault('', nth=nth, error='kill')):
                    write()
                code = 0
            finally:
                os._exit(code)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    @contextlib.contextmanager
    def _faulty(self, fault: Fault) -> Iterator[None]:
        self.calls.clear()
        self._fault = fault
        try:
            yield
        finally:
            self._fault = Fault('')

"""Each storage call of a write fails once, and is the last before the process dies once.

Afterwards the old or the new dataset is whole, and the next write, of any kind, leaves an exact
folder.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from beam_mds import TargetError
from beam_mds.writing.planning import OWN_SHARD
from beam_mds.writing.target import JOURNAL
from tests.helpers import faulty
from tests.helpers.attempts import (
    CHANGES,
    Files,
    Rows,
    Store,
    Write,
    indexes,
    rename_shards,
    restore,
    signature,
    surplus,
    whole,
)
from tests.helpers.faulty import Fault, Faults
from tests.helpers.writing import Sample, content, read, samples, write

FOREIGN = {'notes.txt': b'mine', 's1/notes.txt': b'mine', 'sub/shard.00000.mds': b'mine'}

ONE_OLD: Rows = {'': ['a', 'b']}
ONE_NEW: Rows = {'': ['p', 'q', 'r']}
OLD: Rows = {'s0': ['a'], 's1': ['b', 'c'], 's2': ['d']}
NEW: Rows = {'s1': ['p', 'q'], 's2': ['r'], 's3': ['s']}

# What comes after a write that was stopped; none has samples of all splits.
OTHER: Rows = {'s2': ['x'], 's4': ['y']}
ONE_OTHER: Rows = {'': ['x', 'y']}


@dataclass(frozen=True)
class Case:
    """A write to a folder with a dataset, or none."""

    write: Write
    old: Rows | None = None
    names: str = 'ours'

    def __str__(self) -> str:
        old = f'{len(self.old)} {self.names}' if self.old else 'nothing'
        return f'{self.write.if_exists} {len(self.write.rows)} {self.write.order} to {old}'

    def prepare(self, store: Store) -> Files:
        """The folder before the write."""
        out = store.local
        if self.old is not None:
            Write(self.old)(store.out)
        if self.names != 'ours':
            rename_shards(out)
        if self.names == 'apart':
            (out / 'index.json').unlink()
        restore(out, {**content(out), **FOREIGN})
        return content(out)

    @property
    def before(self) -> dict[str, list[str]]:
        found = whole(self.old)
        if self.names == 'apart':
            del found['']
        return found

    @property
    def after(self) -> dict[str, list[str]]:
        return whole(self.write.result(self.old or {}))


CASES = [
    Case(Write(ONE_NEW)),
    Case(Write(NEW)),
    *(
        Case(Write(new, mode), old, names)
        for mode in ('overwrite', 'append')
        for old, new in ((ONE_OLD, ONE_NEW), (OLD, NEW))
        for names in ('ours', 'mosaic')
    ),
    Case(Write(NEW, 'overwrite'), ONE_OLD, 'mosaic'),
    Case(Write(ONE_NEW, 'overwrite'), OLD),
    Case(Write(ONE_NEW, 'append'), OLD),
    Case(Write(NEW, 'overwrite'), OLD, 'apart'),
    Case(Write(NEW, 'append'), OLD, 'apart'),
    Case(Write(ONE_NEW, order='arrival')),
    Case(Write(NEW, 'overwrite', 'arrival'), OLD),
    Case(Write(NEW, 'append', 'arrival'), OLD),
]

EVERY_CASE = pytest.mark.parametrize('case', CASES, ids=str)


def assert_old_or_new(case: Case, out: Path) -> bool:
    """Each index gives its old samples or its new ones, the root's last; whether it is the new."""
    found, before, after = indexes(out), case.before, case.after
    assert found.get('') in (before.get(''), after[''])
    new = found.get('') == after['']
    for split in {*found, *before, *after} - {''}:
        kinds = (after.get(split),) if new and split in after else (before, after)
        assert found.get(split) in [
            kind.get(split) if isinstance(kind, dict) else kind for kind in kinds
        ], split
    files = content(out)
    assert {name: files.get(name) for name in FOREIGN} == FOREIGN
    return new


def assert_exact(out: Path, expected: dict[str, list[str]], extra: set[str] | None = None) -> None:
    assert indexes(out) == expected
    assert surplus(out) - (extra or set()) == set(FOREIGN)


def assert_rerun_is_exact(case: Case, store: Store, new: bool) -> None:
    """Running the same write again completes the dataset, and the folder."""
    out = store.local
    there = case.write.result(case.old or {}) if new else (case.old or {})
    if case.write.if_exists == 'error' and new:
        state = content(out)
        with pytest.raises(TargetError, match='it holds a dataset'):
            case.write(store.out)
        assert content(out) == state
        return
    case.write(store.out)
    assert_exact(out, whole(case.write.result(there)))


def states(write: Write, store: Store, before: Files) -> dict[str, Files]:
    """Where a write is killed -> what it leaves; each different folder once."""
    restore(store.local, before)
    found: dict[Any, tuple[str, Files]] = {}
    for nth, call in enumerate(store.calls_of(lambda: write(store.out)), 1):
        restore(store.local, before)
        store.kill(lambda: write(store.out), nth)
        state = content(store.local)
        found.setdefault(signature(state), (f'killed at {nth} {call}', state))
    return dict(found.values())


@EVERY_CASE
def test_whichever_call_fails_a_dataset_is_whole_and_a_rerun_is_exact(
    case: Case, store: Store
) -> None:
    before, known = case.prepare(store), set()
    calls = store.calls_of(lambda: case.write(store.out))
    for nth, call in enumerate(calls, 1):
        for after in (False, True) if call in CHANGES else (False,):
            restore(store.local, before)
            failed = store.fails(lambda: case.write(store.out), nth, after=after)
            mark = signature(content(store.local)), failed
            if mark in known:
                continue
            known.add(mark)
            with at(f'{nth} {call}{" after" * after}'):
                new = assert_old_or_new(case, store.local)
                assert failed or new
                assert_rerun_is_exact(case, store, new)


@EVERY_CASE
def test_wherever_it_is_killed_a_dataset_is_whole_and_any_next_write_is_exact(
    case: Case, store: Store
) -> None:
    for name, state in states(case.write, store, case.prepare(store)).items():
        restore(store.local, state)
        with at(name):
            new = assert_old_or_new(case, store.local)
            assert_rerun_is_exact(case, store, new)
        if case.write.order == 'arrival':
            continue
        for rows, mode in itertools.product((OTHER, ONE_OTHER), ('error', 'append', 'overwrite')):
            restore(store.local, state)
            with at(f'{name}, then {mode} {rows}'):
                assert_next_is_exact(case, Write(rows, mode), state, store)


def assert_next_is_exact(case: Case, write: Write, state: Files, store: Store) -> None:
    found = indexes(store.local)
    new = found.get('') == case.after['']
    if (write.if_exists == 'error' and '' in found) or (case.names == 'apart' and not new):
        assert_nothing_is_lost(case, write, store, found)
        return
    write(store.out)
    there = case.write.result(case.old or {}) if new else (case.old or {})
    foreign = anybodys(state) if '' in write.rows else set()
    assert_exact(store.local, whole(write.result(there)), foreign)


def anybodys(state: Files) -> set[str]:
    """Shards in sub-folders that no journal names: a write without splits leaves them alone."""
    named = b''.join(state[name] for name in journals(state))
    return {
        name
        for name in state
        if OWN_SHARD.fullmatch(name.rpartition('/')[2])
        and f'{name.partition("/")[0]}/'.encode() not in named
    }


def assert_nothing_is_lost(
    case: Case, write: Write, store: Store, found: dict[str, list[str]]
) -> None:
    """The write is refused, or keeps each old dataset that is not to be overwritten."""
    state = content(store.local)
    try:
        write(store.out)
    except TargetError:
        assert indexes(store.local) == found
        files = content(store.local)
        assert {name: files.get(name) for name in state} == state
        return
    after = indexes(store.local)
    if write.if_exists == 'overwrite' and '' not in write.rows:
        assert_exact(store.local, whole(write.rows))
        return
    assert set(after['']) >= set(whole(write.rows)[''])
    for split, values in case.before.items():
        assert set(after[split]) >= set(values)


# A commit that Beam repeats

RETRIED = pytest.mark.parametrize(
    'case',
    [case for case in CASES if case.names != 'mosaic' and case.write.order == 'shuffled'],
    ids=str,
)


@RETRIED
def test_a_commit_that_failed_anywhere_can_be_repeated(case: Case, store: Store) -> None:
    case.prepare(store)
    commit = case.write.begin(store.out)
    before = content(store.local)
    for nth, call in enumerate(store.calls_of(commit), 1):
        for after in (False, True) if call in CHANGES else (False,):
            restore(store.local, before)
            with at(f'{nth} {call}{" after" * after}'):
                store.fails(commit, nth, after=after)
                commit()
                assert_exact(store.local, case.after)


@RETRIED
def test_a_commit_may_run_twice_at_once(case: Case, store: Store) -> None:
    case.prepare(store)
    commit = case.write.begin(store.out)
    before = content(store.local)
    for nth, call in enumerate(store.calls_of(commit), 1):
        restore(store.local, before)
        with at(f'a second one before {nth} {call}'):
            failed = store.interrupt(commit, nth, commit)
            assert indexes(store.local) == case.after
            if failed:
                commit()
            assert_exact(store.local, case.after)


# Two kills


@pytest.mark.parametrize('case', [CASES[1], CASES[4], CASES[8]], ids=str)
@pytest.mark.parametrize('mode', ['error', 'append', 'overwrite'])
def test_after_two_kills_any_write_is_exact(case: Case, mode: str, store: Store) -> None:
    first = states(case.write, store, case.prepare(store))
    ahead = [s for s in first.values() if case.before.get('') == root_of(s, store) and journals(s)]
    second = Write(OTHER, mode)
    if mode == 'error' and case.old:
        return
    for name, state in states(second, store, ahead[-1]).items():
        restore(store.local, state)
        found = indexes(store.local)
        there = case.old or {}
        if found.get('') == whole(second.result(there))['']:
            there = second.result(there)
        with at(name):
            assert found.get('') in (case.before.get(''), whole(there)[''])
            for last in (case.write, Write(ONE_OTHER, 'append'), Write(OTHER, 'overwrite')):
                restore(store.local, state)
                if last.if_exists == 'error' and '' in found:
                    continue
                last(store.out)
                foreign = anybodys(state) if '' in last.rows else set()
                assert_exact(store.local, whole(last.result(there)), foreign)


def journals(state: Files) -> list[str]:
    return [name for name in state if name.startswith(JOURNAL)]


def root_of(state: Files, store: Store) -> list[str] | None:
    restore(store.local, state)
    return indexes(store.local).get('')


# Processes that die


def test_a_process_that_dies_leaves_what_the_kills_above_leave(store: Store) -> None:
    case = CASES[4]
    assert case.write.if_exists == 'overwrite'
    assert len(case.write.rows) == 3
    before = case.prepare(store)
    for nth, call in enumerate(store.calls_of(lambda: case.write(store.out)), 1):
        if call in CHANGES or call == 'write':
            left = []
            for kill in (store.kill, store.kill_process):
                restore(store.local, before)
                code = kill(lambda: case.write(store.out), nth)
                left.append(signature(content(store.local)))
            assert code == faulty.KILLED
            assert left[0] == left[1], f'{nth} {call}'


class at:  # noqa: N801 - a context manager that reads like a function
    """Says where it was, when something is wrong."""

    def __init__(self, place: str) -> None:
        self._place = place

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception):
            raise AssertionError(  # noqa: TRY004
                f'{self._place}: {type(error).__name__}: {error}'
            ) from error


# Whole pipelines


@pytest.mark.parametrize(
    ('order', 'if_exists', 'fault'),
    [
        ('shuffled', 'overwrite', Fault('close', r'/shard\.', nth=3, error='kill')),
        ('arrival', 'append', Fault('rename', r'out/index\.json$', error='kill')),
        ('shuffled', 'overwrite', Fault('delete', r'/shard\.', nth=2, error='kill')),
    ],
    ids=['writing', 'publishing', 'cleaning'],
)
def test_a_pipeline_that_is_killed_leaves_a_whole_dataset_and_a_rerun_is_exact(
    order: str, if_exists: str, fault: Fault, faults: Faults
) -> None:
    out, old = f'{faults.folder}/out', samples(90, seed=1)
    given = {'size_limit': 2000, 'split': 'name', 'order': order, 'if_exists': if_exists}
    write(old, out, size_limit=2000, split='name')
    faults.clear()
    faults.add(fault)

    command = [sys.executable, '-m', 'tests.helpers.killed', out, json.dumps(given)]
    done = subprocess.run(
        command, check=False, capture_output=True, cwd=Path(__file__).parent.parent.parent
    )

    assert done.returncode == faulty.KILLED, done.stderr.decode()
    faults.clear()
    new = samples(120, seed=2)
    assert by_number(read(out)) == by_number(new if fault.on == 'delete' else old)
    write(new, out, **given)
    assert by_number(read(out)) == by_number(new if if_exists == 'overwrite' else [*old, *new])
    assert surplus(faults.local / 'out') == set()


def by_number(rows: list[Sample]) -> list[Sample]:
    return sorted(rows, key=lambda row: (row['number'], row['data']))

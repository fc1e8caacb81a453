"""Each storage call of a write fails once, and is the last before the process dies once.

Afterwards the old or the new dataset is whole, and the next write, of any kind, leaves an exact
folder.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from beam_mds import TargetError
from beam_mds.planning import OWN_SHARD
from beam_mds.target import JOURNAL
from tests import faulty
from tests.attempts import (
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
from tests.writing import content

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


@pytest.fixture
def store(tmp_path: Path, short_waits: None, monkeypatch: pytest.MonkeyPatch) -> Store:
    made = Store(tmp_path / 'out')
    monkeypatch.setattr(faulty, '_next_fault', made.next_fault)
    return made


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


def states(case: Case, store: Store, before: Files) -> dict[str, Files]:
    """Where a write is killed -> what it leaves; each different folder once."""
    restore(store.local, before)
    found: dict[Any, tuple[str, Files]] = {}
    for nth, call in enumerate(store.calls_of(case.write), 1):
        restore(store.local, before)
        store.kill(case.write, nth)
        state = content(store.local)
        found.setdefault(signature(state), (f'killed at {nth} {call}', state))
    return dict(found.values())


@EVERY_CASE
def test_whichever_call_fails_a_dataset_is_whole_and_a_rerun_is_exact(
    case: Case, store: Store
) -> None:
    before, known = case.prepare(store), set()
    calls = store.calls_of(case.write)
    for nth, call in enumerate(calls, 1):
        for after in (False, True) if call in CHANGES else (False,):
            restore(store.local, before)
            failed = store.fails(case.write, nth, after=after)
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
    for name, state in states(case, store, case.prepare(store)).items():
        restore(store.local, state)
        with at(name):
            new = assert_old_or_new(case, store.local)
            assert_rerun_is_exact(case, store, new)
        for rows, mode in itertools.product((OTHER, ONE_OTHER), ('error', 'append', 'overwrite')):
            restore(store.local, state)
            with at(f'{name}, then {mode} {rows}'):
                assert_next_is_exact(case, Write(rows, mode), state, store)


def assert_next_is_exact(case: Case, write: Write, state: Files, store: Store) -> None:
    found = indexes(store.local)
    new = found.get('') == case.after['']
    if (write.if_exists == 'error' and '' in found) or (case.names == 'apart' and not new):
        assert_nothing_is_lost(write, store, found)
        return
    write(store.out)
    there = case.write.result(case.old or {}) if new else (case.old or {})
    # Without a split, and without a journal, files in sub-folders can be anybody's.
    foreign = set()
    if '' in write.rows and not any(name.startswith(JOURNAL) for name in state):
        foreign = {name for name in state if OWN_SHARD.fullmatch(name.rpartition('/')[2])}
    assert_exact(store.local, whole(write.result(there)), foreign)


def assert_nothing_is_lost(write: Write, store: Store, found: dict[str, list[str]]) -> None:
    """The write is refused, or all that was readable and is not overwritten still is."""
    out = store.local
    state = content(out)
    try:
        write(store.out)
    except TargetError:
        assert indexes(out) == found
        files = content(out)
        assert {name: files.get(name) for name in state} == state


class at:  # noqa: N801 - a context manager that reads like a function
    """Says where it was, when something is wrong."""

    def __init__(self, place: str) -> None:
        self._place = place

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception):
            raise AssertionError(f'{self._place}: {type(error).__name__}: {error}') from error

"""Each storage call of a merge fails once, and is the last before the process dies once."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from beam_mds import DamagedError, MDSError, StorageError, merge_indexes
from tests.helpers.attempts import CHANGES, Files, Store, restore, signature
from tests.helpers.faulty import Fault, Faults
from tests.helpers.merging import dataset, texts
from tests.helpers.writing import content

OLD = ['a', 'b']
NEW = ['0', 'a', 'b', 'c']


class Case:
    """A merge of three parts in the folder of the index, and of one elsewhere that is copied."""

    def __init__(self, store: Store, *, old: bool, copy: bool) -> None:
        self.store, self.copy = store, copy
        self.out = store.local / 'x' / 'out'
        for part in ('a', 'b'):
            dataset(self.out / part, [part])
        if old:
            merge_indexes(self.out)
        dataset(self.out / 'c', ['c'])
        dataset(self.out / '0', ['0'])
        if copy:
            dataset(store.local / 'from' / 'd', ['d'], ['e'])
        self.old = OLD if old else None
        self.new = [*NEW, 'd', 'e'] if copy else NEW
        self.before: Files = content(store.local)

    def merge(self) -> None:
        out = f'{self.store.out}/x/out'
        parts = [f'{out}/?', f'{self.store.out}/from/d'] if self.copy else None
        merge_indexes(out, parts, copy=self.copy)

    def assert_old_or_new(self) -> bool:
        """All files are as they were, and the index is the old one or the new; whether the new."""
        found = content(self.store.local)
        index = 'x/out/index.json'
        assert {k: v for k, v in found.items() if k in self.before and k != index} == {
            k: v for k, v in self.before.items() if k != index
        }
        shards = texts(self.out) if index in found else None
        assert shards in (self.old, self.new)
        return shards == self.new

    def assert_a_rerun_is_exact(self) -> None:
        self.merge()
        assert texts(self.out) == self.new
        self.assert_old_or_new()


EVERY_CASE = pytest.mark.parametrize(
    ('old', 'copy'), [*itertools.product((False, True), (False, True))]
)


@EVERY_CASE
def test_whichever_call_fails_the_index_is_the_old_or_the_new_and_a_rerun_completes_it(
    old: bool, copy: bool, store: Store
) -> None:
    case = Case(store, old=old, copy=copy)
    calls = store.calls_of(case.merge)
    assert {'list', 'open', 'close', 'rename'} <= set(calls)
    for nth, call in enumerate(calls, 1):
        for after in (False, True) if call in CHANGES else (False,):
            restore(store.local, case.before)
            failed = store.fails(case.merge, nth, after=after)
            new = case.assert_old_or_new()
            assert failed or new
            left = set(content(store.local)) - set(case.before) - {'x/out/index.json'}
            assert all(name.startswith('x/out/d/shard') for name in left), left
            case.assert_a_rerun_is_exact()


@EVERY_CASE
def test_wherever_it_is_killed_the_index_is_the_old_or_the_new_and_a_rerun_completes_it(
    old: bool, copy: bool, store: Store
) -> None:
    case = Case(store, old=old, copy=copy)
    known = set()
    for nth in range(1, 1 + len(store.calls_of(case.merge))):
        restore(store.local, case.before)
        store.kill(case.merge, nth)
        state = signature(content(store.local))
        if state not in known:
            known.add(state)
            case.assert_old_or_new()
            case.assert_a_rerun_is_exact()
    assert len(known) > 1 + copy


def test_a_busy_store_is_asked_again(faults: Faults) -> None:
    out = f'{faults.folder}/out'
    for part in ('a', 'b'):
        dataset(f'{out}/{part}', [part])
    for call in ('size', 'list', 'open', 'read', 'create', 'write', 'close', 'rename'):
        faults.clear()
        faults.add(Fault(call, error='503', times=2))
        merge_indexes(out)
        assert texts(out) == ['a', 'b']
        (faults.local / 'out' / 'index.json').unlink()


@pytest.mark.parametrize(
    ('fault', 'kind', 'reason'),
    [
        (Fault('list', 'b', report=3), DamagedError, 'b/shard.00000.mds: 3 bytes'),
        (Fault('read', 'b/index', error='permission'), StorageError, 'could not read .*/b/index'),
        (Fault('list', 'b', error='403'), StorageError, 'could not list .*/b'),
        (Fault('size', 'beam-mds-index', report=1, times=None), StorageError, 'reports 1, also'),
    ],
    ids=str,
)
def test_a_store_that_fails_or_tells_another_size_leaves_no_index(
    faults: Faults, fault: Fault, kind: type[MDSError], reason: str
) -> None:
    out = f'{faults.folder}/out'
    for part in ('a', 'b'):
        dataset(f'{out}/{part}', [part])
    before = faults.files()
    faults.add(fault)
    with pytest.raises(kind, match=reason):
        merge_indexes(out)
    assert faults.files() == before
    faults.clear()
    merge_indexes(out)
    assert texts(out) == ['a', 'b']


def test_two_merges_at_once_leave_one_whole_index(store: Store) -> None:
    case = Case(store, old=True, copy=False)
    other: Callable[[], None] = case.merge
    for nth in range(1, 1 + len(store.calls_of(case.merge))):
        restore(store.local, case.before)
        store.interrupt(case.merge, nth, other)
        assert case.assert_old_or_new()
        assert set(content(store.local)) == set(case.before)


def test_a_large_index_is_published_in_pieces(
    faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr('beam_mds.merging.spool._PIECE', 100)
    out = f'{faults.folder}/out'
    dataset(f'{out}/a', *[[str(number)] for number in range(20)])
    faults.clear()
    merge_indexes(out)
    assert len(faults.calls('write', 'beam-mds-index')) > 20
    assert texts(out) == [str(number) for number in range(20)]
    assert Path(faults.local, 'out/index.json').read_bytes().startswith(b'{"shards": [{"column')

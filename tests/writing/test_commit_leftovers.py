"""What failed writes, and other writers, left in the folder: what a commit makes of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from beam_mds import MDSError, TargetError
from beam_mds.writing import commit
from beam_mds.writing.target import JOURNAL, check_target
from tests.helpers.attempts import (
    Store,
    Write,
    indexes,
    rename_shards,
    restore,
    surplus,
    void,
    whole,
)
from tests.helpers.building import options
from tests.helpers.writing import content

OLD = {'s0': ['a'], 's1': ['b']}
NEW = {'s1': ['p'], 's2': ['q']}


@pytest.mark.parametrize('mode', ['error', 'overwrite', 'append'])
@pytest.mark.parametrize('rows', [{'': ['p', 'q']}, NEW], ids=['1', 'splits'])
def test_a_repeated_commit_of_shards_with_other_names_publishes_those(
    rows: dict[str, list[str]], mode: str, store: Store
) -> None:
    write = Write(rows, mode, 'arrival')
    old = {} if mode == 'error' else OLD
    if old:
        Write(old)(store.out)
    target = check_target(write.options(store.out), 'beside')
    first, second = (write.begin(store.out, target) for _ in range(2))
    before, was = content(store.local), indexes(store.local).get('')
    for nth, _ in enumerate(store.calls_of(first), 1):
        restore(store.local, before)
        store.kill(first, nth)
        left = indexes(store.local)
        if left.get('') == was:
            second()
            assert indexes(store.local) == whole(write.result(old))
            assert surplus(store.local) == set()
        elif mode != 'overwrite':
            with pytest.raises(MDSError, match=r'appeared or changed while|cleaned the folder'):
                second()
            assert indexes(store.local) == left


@pytest.mark.parametrize(
    'write',
    [
        Write(OLD), Write(OLD, 'append'), Write({'': ['x']}),
        Write({'': ['x']}, 'append'), Write({'': ['x']}, 'overwrite'),
    ],
    ids=str,
)  # fmt: skip
def test_only_an_overwrite_follows_one_of_separate_splits_that_did_not_finish(
    write: Write, store: Store
) -> None:
    Write(OLD)(store.out)
    rename_shards(store.local)
    (store.local / 'index.json').unlink()
    overwrite = Write(NEW, 'overwrite')
    renames = [nth for nth, on in enumerate(calls(store, overwrite), 1) if on == 'rename']
    store.kill(lambda: overwrite(store.out), renames[-1])  # both splits are replaced
    found = indexes(store.local)
    assert found == {'s0': ['a'], 's1': ['p'], 's2': ['q']}

    with pytest.raises(TargetError, match='did not finish, and some are replaced: run it again'):
        write(store.out)

    assert indexes(store.local) == found
    overwrite(store.out)
    assert indexes(store.local) == whole(NEW)
    assert surplus(store.local) == set()


@pytest.mark.parametrize('write', [Write(OLD), Write({'': ['x']}, 'append')], ids=str)
def test_a_journal_in_a_folder_that_was_emptied_by_hand_says_nothing(
    write: Write, store: Store
) -> None:
    Write(OLD)(store.out)
    rename_shards(store.local)
    overwrite = Write(NEW, 'overwrite')
    renames = [nth for nth, on in enumerate(calls(store, overwrite), 1) if on == 'rename']
    store.kill(lambda: overwrite(store.out), renames[-1])
    restore(store.local, {n: d for n, d in content(store.local).items() if n.startswith('.')})
    assert [name for name in content(store.local) if name.startswith(JOURNAL)]

    write(store.out)

    assert indexes(store.local) == whole(write.rows)
    assert surplus(store.local) == set()


def calls(store: Store, write: Write) -> list[str]:
    before = content(store.local)
    found = store.calls_of(lambda: write(store.out))
    restore(store.local, before)
    return found


@pytest.mark.parametrize('spill', [None, 'elsewhere'])
def test_what_a_failed_run_spilled_beside_the_dataset_goes_wherever_this_one_spills(
    spill: str | None, tmp_path: Path
) -> None:
    out = tmp_path / 'out'
    (out / '.beam-mds-spill-1').mkdir(parents=True)
    (out / '.beam-mds-spill-1' / '0.run').write_bytes(b'x')
    given = options(out)
    target = check_target(given, None if spill is None else str(tmp_path / spill))
    Write({'': ['a']}).begin(str(out), target)()
    assert not [name for name in os.listdir(out) if name.startswith('.')]


def test_an_empty_index_of_a_split_is_a_dataset_that_only_an_overwrite_deletes(
    store: Store,
) -> None:
    empty = store.local / 's9' / 'index.json'
    for mode in ('append', 'overwrite'):
        empty.parent.mkdir(parents=True, exist_ok=True)
        empty.write_text('{"version": 2, "shards": []}')
        Write(OLD, mode)(store.out)
        assert empty.exists() == (mode == 'append')


def test_a_split_that_changed_on_its_own_meanwhile_is_left_as_it_is(store: Store) -> None:
    Write(OLD)(store.out)
    finish = Write(NEW, 'append').begin(store.out)
    written = content(store.local)
    Write({'': ['x']}, 'append')(f'{store.out}/s1')
    before = {**written, **content(store.local)}  # it took our new shard for a leftover
    restore(store.local, before)

    with pytest.raises(TargetError, match='appeared or changed while this job was running'):
        finish()

    assert content(store.local) == before


@pytest.mark.parametrize(
    'data',
    [
        b'{"new": ["s0/', b'', b'[]', b'{}', b'{"new": 5, "old": []}', b'{"new": [], "old": [5]}',
        b'{"new": [[]], "old": []}', b'\xff', b'[' * 100_000,
    ],
)  # fmt: skip
def test_a_damaged_journal_was_never_acted_on(store: Store, data: bytes) -> None:
    Write(OLD)(store.out)
    (store.local / f'{JOURNAL}1.json').write_bytes(data)
    Write(NEW, 'append')(store.out)
    assert indexes(store.local) == whole(Write(NEW, 'append').result(OLD))
    assert surplus(store.local) == set()


def test_a_split_of_a_journal_that_is_whole_again_stays(store: Store) -> None:
    """An index in a folder that a journal names, without a common one, is anybody's dataset."""
    Write({'': ['a']})(f'{store.out}/s0')
    append = Write({'s0': ['p'], 's1': ['q']}, 'append')
    renames = [nth for nth, on in enumerate(calls(store, append), 1) if on == 'rename']
    store.kill(lambda: append(store.out), renames[-1])
    assert indexes(store.local) == {'s0': ['a', 'p'], 's1': ['q']}

    Write({'': ['x']}, 'overwrite')(store.out)

    assert indexes(store.local) == {'': ['x'], 's0': ['a', 'p']}
    assert surplus(store.local) == set()


@pytest.mark.parametrize('mode', ['error', 'append', 'overwrite'])
@pytest.mark.parametrize(('split', 'large'), [('s1', False), ('s1', True), ('', False)])
def test_another_job_that_commits_meanwhile_keeps_its_dataset(
    split: str, large: bool, mode: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    if large:
        monkeypatch.setattr(commit, '_READ_OFTEN', 0)
    """But for the moment of a move itself: no store that Beam knows can move on a condition."""
    old = {} if mode == 'error' else {split: ['a']}
    if old:
        Write(old)(store.out)
    other = Write({split: ['x', 'y'] if large else ['x']}, mode)
    mine, others = (write.begin(store.out) for write in (Write({split: ['p']}, mode), other))
    before = content(store.local)
    refused: list[MDSError] = []

    def meanwhile() -> None:
        try:
            others()
        except MDSError as error:
            refused.append(error)

    for nth, on in enumerate(store.calls_of(mine), 1):
        restore(store.local, before)
        refused.clear()
        failed = store.interrupt(mine, nth, meanwhile)
        if not refused:  # else ours was first
            assert failed or mode == 'overwrite', f'{nth} {on}'
            won = other if failed else Write({split: ['p']}, mode)
            assert indexes(store.local) == whole(won.result(old))


def test_nothing_is_deleted_under_an_index_that_replaced_ours(store: Store) -> None:
    Write(OLD)(store.out)
    finish = Write(NEW, 'overwrite').begin(store.out)
    before = content(store.local)
    looks = store.calls_of(finish)
    nth = len(looks) - looks[::-1].index('rename') + 1  # the call after the last move
    restore(store.local, before)
    index = store.local / 'index.json'

    assert store.interrupt(finish, nth, lambda: void(index.write_bytes(before['index.json'])))

    assert indexes(store.local)[''] == whole(OLD)['']

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from beam_mds import (
    EmptyInputError,
    LostSamplesError,
    StorageError,
    TargetError,
    read_samples,
    storage,
)
from beam_mds.format import Samples
from beam_mds.writing.commit import Counts, commit
from beam_mds.writing.options import WriteOptions
from beam_mds.writing.shardfile import Fragment, store_shard
from beam_mds.writing.target import check_target
from tests.helpers.building import encoded, options
from tests.helpers.faulty import Fault, Faults

OURS = ['shard.00007.0123456789abcdef.mds', 'shard.00007.0123456789abcdef.mds.zstd',
        f'shard.{"0a" * 16}.mds']  # fmt: skip

FOREIGN = [
    'metadata.json', 'shard.txt', 'notes', 'shard.00000.mds', 'shard.00000.mds.zstd', '_SUCCESS',
    f'sub/{OURS[0]}', 'sub/index.json', f'{OURS[0]}.bak', f'x{OURS[0]}', '.beam-mds-index',
]  # fmt: skip


class Written:
    """A folder with three stored shards, ready to be committed."""

    def __init__(self, out: str, **given: Any) -> None:
        self.options: WriteOptions = options(out, size_limit=1000, hashes=['sha1'], **given)
        self.target = check_target(self.options, 'beside')
        self.values = [[b'%d' % number] * (number + 1) for number in range(3)]
        self.fragments: list[Fragment] = [
            store_shard(self.options, '', [_samples(values)], number)
            for number, values in enumerate(self.values)
        ]
        self.count = sum(map(len, self.values))

    def commit(self, **changed: Any) -> list[Fragment]:
        arguments = {
            'options': self.options,
            'target': self.target,
            'fragments': self.fragments,
            'counts': counts_of(self.count),
        }
        return commit(**{**arguments, **changed})


def counts_of(encoded: int) -> Counts:
    return Counts(encoded, encoded, 0)


def _samples(values: list[bytes]) -> Samples:
    return Samples.of([encoded(value) for value in values])


@pytest.fixture(params=['local', 'fault', 'gs'])
def out(request: pytest.FixtureRequest) -> str:
    """A folder with an awkward name on each kind of store."""
    if request.param == 'local':
        return str(request.getfixturevalue('tmp_path') / 'data [1] *')
    if request.param == 'fault':
        return request.getfixturevalue('faults').folder + '/data [1] *'
    return f'{request.getfixturevalue("gcs_bucket")}/data [1] *'


@pytest.fixture
def written(faults: Faults) -> Written:
    made = Written(faults.folder + '/out')
    faults.clear()
    return made


def put(folder: str, name: str, data: bytes = b'data') -> None:
    storage.write(storage.join(folder, name), [data], len(data))


# The index


def test_the_index_lists_all_shards_in_the_order_of_the_plan_and_is_readable(out: str) -> None:
    made = Written(out)
    shuffled = [made.fragments[number] for number in (2, 0, 1)]
    assert made.commit(fragments=shuffled) == made.fragments
    index = json.loads(storage.read(f'{out}/index.json'))
    assert [shard['raw_data']['basename'] for shard in index['shards']] == [
        fragment.stored.basename for fragment in made.fragments
    ]
    assert [sample['data'] for sample in read_samples(out, validate_hash='sha1')] == [
        value for values in made.values for value in values
    ]
    files = {'index.json', *(fragment.stored.basename for fragment in made.fragments)}
    assert set(storage.list_folder(out)) == files


def test_parts_of_a_range_follow_each_other_and_numbers_sort_as_numbers(tmp_path: Path) -> None:
    given = options(tmp_path)
    places = [(number, part) for number in (0, 2, 10, 123456) for part in (0, 1, 10)]
    fragments = [store_shard(given, '', [_samples([b'%d.%d' % place])], *place) for place in places]
    ordered = commit(given, check_target(given, None), fragments[::-1], counts_of(len(fragments)))
    assert [(fragment.number, fragment.part) for fragment in ordered] == places


def test_committing_twice_gives_the_same_folder(out: str) -> None:
    made = Written(out)
    first = made.commit()
    files = {name: storage.read(f'{out}/{name}') for name in storage.list_folder(out)}
    assert made.commit() == first
    assert {name: storage.read(f'{out}/{name}') for name in storage.list_folder(out)} == files


@pytest.mark.parametrize('fault', [
    Fault('rename', error='503', after=True),
    Fault('rename', error='reset.beam', times=2),
    Fault('list', error='429'),
    Fault('close', 'index', error='503', after=True),
    Fault('size', 'beam-mds-index', report=0),
], ids=lambda fault: fault.on)  # fmt: skip
def test_a_store_that_is_busy_does_not_stop_a_commit(
    written: Written, faults: Faults, fault: Fault
) -> None:
    faults.add(fault)
    written.commit()
    assert len(list(read_samples(written.options.out))) == written.count


def test_publishing_is_the_last_change_but_for_deleting(written: Written, faults: Faults) -> None:
    put(written.options.out, OURS[0])
    faults.clear()
    written.commit()
    calls = [call.split(' ', 1) for call in faults.calls()]
    changes = [on for on, _ in calls if on in ('create', 'write', 'close', 'rename', 'delete')]
    assert changes == ['create', 'write', 'close', 'rename', 'delete']
    listed = next(at for at, (on, _) in enumerate(calls) if on == 'list')
    created = next(at for at, (on, _) in enumerate(calls) if on == 'create')
    assert listed < created  # the check comes before anything is written
    assert [path for on, path in calls if on == 'rename'] == ['out/index.json']


# What must not be published


@pytest.mark.parametrize('difference', [-1, 1])
def test_a_difference_in_counts_publishes_nothing(
    written: Written, faults: Faults, difference: int
) -> None:
    with pytest.raises(LostSamplesError) as caught:
        written.commit(counts=counts_of(written.count + difference))
    assert str(caught.value) == (
        f'{written.count + difference} samples were encoded, the shards hold {written.count}: the '
        'runner lost or repeated some on the way, so no index was published in '
        f'{written.options.out}'
    )
    assert faults.calls() == []


def test_a_lost_or_repeated_shard_publishes_nothing(written: Written, faults: Faults) -> None:
    for fragments in (written.fragments[:-1], [*written.fragments, written.fragments[0]], []):
        with pytest.raises(LostSamplesError):
            written.commit(fragments=fragments)
    assert faults.calls() == []


@pytest.mark.parametrize('damage', ['missing', 'short', 'empty', 'long'])
def test_a_shard_that_is_not_there_as_written_publishes_nothing(out: str, damage: str) -> None:
    made = Written(out)
    name = made.fragments[1].stored.basename
    data = storage.read(f'{out}/{name}')
    storage.delete([f'{out}/{name}'])
    if damage != 'missing':
        put(out, name, {'short': data[:-1], 'empty': b'', 'long': data + b'x'}[damage])
    with pytest.raises(StorageError, match='missing or have another size') as caught:
        made.commit()
    assert name in str(caught.value)
    assert f'{len(data)} bytes written' in str(caught.value)
    assert made.fragments[0].stored.basename not in str(caught.value)
    assert 'index.json' not in storage.list_folder(out)
    assert not [name for name in storage.list_folder(out) if 'index' in name]


@pytest.mark.parametrize('report', [0, -1])
def test_a_listing_that_tells_wrong_sizes_publishes_nothing(
    written: Written, faults: Faults, report: int
) -> None:
    faults.add(Fault('list', report=report, times=None))
    with pytest.raises(StorageError, match='no index was published'):
        written.commit()
    assert faults.calls('create') == faults.calls('rename') == faults.calls('delete') == []


def test_many_missing_shards_make_a_short_message(written: Written) -> None:
    fragments = [replace(written.fragments[0], number=number, samples=1) for number in range(3, 90)]
    lost = [
        replace(
            fragment, raw_data=replace(fragment.raw_data, basename=f'shard.{fragment.number}.mds')
        )
        for fragment in fragments
    ]
    with pytest.raises(StorageError, match='and 84 more') as caught:
        written.commit(fragments=lost, counts=counts_of(len(lost)))
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize('on', ['rename', 'close', 'create'])
def test_an_index_that_cannot_be_put_in_place_fails_and_deletes_nothing(
    written: Written, faults: Faults, on: str
) -> None:
    put(written.options.out, OURS[0])
    faults.add(Fault(on, 'index', error='permission', times=None))
    with pytest.raises(StorageError, match=r'index.*Permission denied'):
        written.commit()
    assert 'index.json' not in faults.files('out')
    assert OURS[0] in faults.files('out')
    faults.clear()
    written.commit()  # running again works
    assert len(list(read_samples(written.options.out))) == written.count
    assert OURS[0] not in faults.files('out')


def test_an_index_that_appeared_meanwhile_stays_as_it_is(out: str) -> None:
    made = Written(out)
    put(out, 'index.json', b'of another job')
    put(out, OURS[0])
    before = storage.list_folder(out)
    with pytest.raises(TargetError, match=r'index\.json appeared or changed while this job'):
        made.commit()
    assert storage.read(f'{out}/index.json') == b'of another job'
    assert storage.list_folder(out) == before


# Cleaning up


def test_our_own_leftovers_are_deleted_and_foreign_files_stay(out: str) -> None:
    made = Written(out)
    leftovers = [*OURS, '.beam-mds-index-0123.json']
    for name in [*leftovers, *FOREIGN]:
        put(out, name)
    made.commit()
    files = {'index.json', *(fragment.stored.basename for fragment in made.fragments)}
    assert set(storage.list_folder(out)) == files | set(FOREIGN)


def test_a_delete_that_fails_after_publishing_is_only_a_warning(
    written: Written, faults: Faults, caplog: pytest.LogCaptureFixture
) -> None:
    put(written.options.out, OURS[0])
    put(f'{written.target.spill_folder}', 'a.run')
    faults.add(Fault('delete', error='permission', times=None))
    with caplog.at_level(logging.WARNING, 'beam_mds'):
        assert written.commit() == written.fragments
    messages = [record.getMessage() for record in caplog.records]
    assert any('leftover files stay' in m and 'Permission denied' in m for m in messages)
    assert any('spilled files stay' in m and 'Permission denied' in m for m in messages)
    assert len(list(read_samples(written.options.out))) == written.count


def _spill_folders(options_: WriteOptions, spill: str, runs: int) -> Iterator[str]:
    for _ in range(runs):
        folder = check_target(options_, spill).spill_folder
        assert folder is not None
        for name in ('a.run', 'b.run'):
            put(folder, name)
        yield folder


def test_spill_folders_of_this_run_and_of_failed_ones_are_removed_beside_the_dataset(
    out: str,
) -> None:
    made = Written(out)
    folders = [*_spill_folders(made.options, 'beside', 2), made.target.spill_folder]
    put(str(folders[-1]), 'c.run')
    assert len(set(folders)) == 3
    made.commit()
    assert not [name for name in storage.list_folder(out) if 'spill' in name]
    if not storage.is_remote(out):
        assert not [name for name in os.listdir(out) if 'spill' in name]


def test_spill_folders_of_other_datasets_in_one_folder_stay(out: str) -> None:
    spill = f'{out} runs'
    made, other = Written(out), options(out + '2')
    mine = list(_spill_folders(made.options, spill, 2))
    theirs = list(_spill_folders(other, spill, 2))
    put(spill, 'foreign')
    assert len({*mine, *theirs}) == 4
    made.commit(target=check_target(made.options, spill))
    assert sorted(storage.list_folder(spill)) == sorted(
        [
            'foreign',
            *(f'{f.removeprefix(spill + "/")}/{n}' for f in theirs for n in ('a.run', 'b.run')),
        ]
    )


def test_spill_folders_in_the_machine_s_temporary_folder_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, faults: Faults
) -> None:
    temp = tmp_path / 'temp [x]'
    temp.mkdir()
    monkeypatch.setattr('tempfile.tempdir', str(temp))
    made = Written(faults.folder + '/out')
    target = check_target(made.options, 'temp')
    (other,) = _spill_folders(options(faults.folder + '/other'), 'temp', 1)
    list(_spill_folders(made.options, 'temp', 1))
    put(str(target.spill_folder), 'a.run')
    assert len(list(temp.iterdir())) == 3
    made.commit(target=target)
    assert [str(folder) for folder in temp.iterdir()] == [other]


def test_spill_folders_never_match_what_is_taken_for_a_shard(tmp_path: Path) -> None:
    for spill in ('beside', 'temp', str(tmp_path)):
        folder = check_target(options(tmp_path / 'out'), spill).spill_folder
        assert folder is not None
        assert '.mds' not in folder.rpartition('/')[2]
    assert check_target(options(tmp_path / 'out'), None).spill_folder is None


# Empty input


def test_no_samples_are_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    given = options(tmp_path / 'out')
    with pytest.raises(EmptyInputError, match=r'no sample to write .*allow_empty=True'):
        commit(given, check_target(given, 'beside'), [], counts_of(0))
    assert not (tmp_path / 'out').exists()


def test_no_samples_are_a_success_without_an_index_when_allowed(tmp_path: Path) -> None:
    given = options(tmp_path / 'out', allow_empty=True)
    assert commit(given, check_target(given, 'beside'), [], counts_of(0)) == []
    assert not (tmp_path / 'out').exists()


def test_allow_empty_does_not_excuse_lost_samples(tmp_path: Path) -> None:
    given = options(tmp_path / 'out', allow_empty=True)
    with pytest.raises(LostSamplesError):
        commit(given, check_target(given, 'beside'), [], counts_of(1))


# The target


def test_a_fresh_folder_is_fine_and_not_touched(out: str) -> None:
    target = check_target(options(out), 'beside')
    assert target.run
    assert target.spill_folder is not None
    assert target.spill_folder.startswith(f'{out}/.')
    assert storage.list_folder(out) == {}
    put(out, 'metadata.json')
    assert check_target(options(out), 'beside').run != target.run


@pytest.mark.parametrize('content', [b'{"version": 2, "shards": []}', b'', b'no json'])
def test_a_folder_with_an_index_is_refused_and_left_as_it_is(out: str, content: bytes) -> None:
    put(out, 'index.json', content)
    with pytest.raises(TargetError, match=r'index\.json exists: .*write to another folder'):
        check_target(options(out), 'beside')
    assert storage.list_folder(out) == {'index.json': len(content)}

"""Writing where a dataset is: overwrite and append, whole and by split."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import beam_mds.writing.commit as module
from beam_mds import TargetError, read_samples
from tests.helpers.faulty import Fault, Faults
from tests.helpers.writing import COLUMNS, Sample, content, read, samples, write

LIMIT = 1200
OLD, NEW = samples(200, seed=1), samples(120, seed=2)
for row in NEW:
    row['number'] += 1000

FOREIGN = {'notes.txt': b'mine', 'shard.00000.bak': b'mine', 'sub/shard.00000.mds': b'mine'}


def by_name(sample: Sample) -> str:
    return f's{sample["name"][-1]}'


def names(folder: Path) -> list[str]:
    entries = json.loads((folder / 'index.json').read_text())['shards']
    return [(entry['zip_data'] or entry['raw_data'])['basename'] for entry in entries]


def put_foreign(folder: Path) -> None:
    for name, data in FOREIGN.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def assert_exact(out: Path, expected: list[Sample], foreign: Any = ()) -> None:
    """The folder holds these samples, what the index lists, and foreign files."""
    assert read(out) == expected
    listed = {'index.json', *names(out)}
    for split in out.glob('*/index.json'):
        listed |= {f'{split.parent.name}/{name}' for name in names(split.parent)}
        listed.add(f'{split.parent.name}/index.json')
    assert set(content(out)) == listed | set(foreign)


def mosaic(folder: Path, rows: list[Sample], limit: int = LIMIT) -> None:
    """A dataset with the names that MDSWriter gives its shards."""
    write(rows, folder, size_limit=limit, order='arrival', spill=False)
    index = json.loads((folder / 'index.json').read_text())
    for number, entry in enumerate(index['shards']):
        name = f'shard.{number:05}.mds'
        (folder / entry['raw_data']['basename']).rename(folder / name)
        entry['raw_data']['basename'] = name
    (folder / 'index.json').write_text(json.dumps(index))


def put_old(folder: Path, old: str, order: str) -> None:
    """A dataset of OLD with our names or MDSWriter's, and foreign files."""
    if old == 'ours':
        write(OLD, folder, size_limit=LIMIT, order=order)
    else:
        mosaic(folder, OLD)
    put_foreign(folder)


# overwrite


@pytest.mark.parametrize('order', ['shuffled', 'arrival'])
@pytest.mark.parametrize('old', ['ours', 'mosaic'])
def test_overwrite_leaves_the_new_dataset_and_foreign_files(
    order: str, old: str, tmp_path: Path
) -> None:
    put_old(tmp_path, old, order)
    write(NEW, tmp_path, size_limit=LIMIT, order=order, if_exists='overwrite')
    assert_exact(tmp_path, NEW, FOREIGN)


def test_overwriting_with_other_columns_works_and_so_does_nothing_there(tmp_path: Path) -> None:
    write(OLD, tmp_path, if_exists='overwrite')
    assert_exact(tmp_path, OLD)
    write([{'x': 3}], tmp_path, {'x': 'uint8'}, if_exists='overwrite')
    assert [sample['x'] for sample in read_samples(tmp_path)] == [3]
    assert len(content(tmp_path)) == 2


def test_overwriting_with_the_same_samples_changes_nothing(tmp_path: Path) -> None:
    write(OLD, tmp_path, size_limit=LIMIT)
    before = content(tmp_path)
    write(OLD, tmp_path, size_limit=LIMIT, if_exists='overwrite')
    assert content(tmp_path) == before


def test_the_old_dataset_is_readable_until_the_new_index_is_in_place(faults: Faults) -> None:
    out = f'{faults.folder}/out'
    write(OLD, out, size_limit=LIMIT)
    faults.add(Fault('rename', r'index\.json$', error='crash'))
    with pytest.raises(Exception, match='crash'):
        write(NEW, out, size_limit=LIMIT, if_exists='overwrite')
    assert read(out) == OLD
    write(NEW, out, size_limit=LIMIT, if_exists='overwrite')
    assert_exact(faults.local / 'out', NEW)


@pytest.mark.parametrize('splits', [(by_name, by_name), (by_name, None), (None, by_name)])
def test_overwrite_replaces_splits_that_are_gone(splits: Any, tmp_path: Path) -> None:
    write(OLD, tmp_path, size_limit=LIMIT, split=splits[0])
    few = [sample for sample in NEW if by_name(sample) in ('s1', 's3')]
    write(few, tmp_path, size_limit=LIMIT, split=splits[1], if_exists='overwrite')
    assert_exact(tmp_path, few)
    found = {path.parent.name for path in tmp_path.glob('*/index.json')}
    assert found == ({'s1', 's3'} if splits[1] else set())


def test_overwrite_replaces_splits_that_have_no_common_index(tmp_path: Path) -> None:
    mosaic(tmp_path / 's1', OLD[:50])
    mosaic(tmp_path / 'other', OLD[50:])
    write(NEW, tmp_path, size_limit=LIMIT, split=by_name, if_exists='overwrite')
    assert_exact(tmp_path, NEW)
    assert not (tmp_path / 'other' / 'index.json').exists()


def test_a_crash_while_old_files_are_deleted_is_made_good_by_the_next_write(
    faults: Faults,
) -> None:
    out = f'{faults.folder}/out'
    mosaic(faults.local / 'out', OLD)
    faults.add(Fault('delete', error='crash', times=None))
    write(NEW, out, size_limit=LIMIT, if_exists='overwrite')  # complete, but files stay
    assert read(out) == NEW
    assert 'shard.00000.mds' in faults.files('out')
    faults.clear()
    write(OLD, out, size_limit=LIMIT, if_exists='append')
    assert_exact(faults.local / 'out', [*OLD, *NEW])


# append


@pytest.mark.parametrize('order', ['shuffled', 'arrival'])
@pytest.mark.parametrize('old', ['ours', 'mosaic'])
def test_append_keeps_the_old_files_and_numbers_the_new_ones_on(
    order: str, old: str, tmp_path: Path
) -> None:
    put_old(tmp_path, old, order)
    before = content(tmp_path)
    listed = names(tmp_path)
    write(
        NEW, tmp_path, size_limit=LIMIT // 2, order=order, if_exists='append',
        compression='zstd', hashes=['sha1'], flags=['--direct_num_workers=3'],
    )  # fmt: skip

    assert_exact(tmp_path, [*OLD, *NEW], FOREIGN)
    after = content(tmp_path)
    assert all(after[name] == data for name, data in before.items() if name != 'index.json')
    assert names(tmp_path)[: len(listed)] == listed
    new = names(tmp_path)[len(listed) :]
    assert len(new) > 1
    if order == 'shuffled':
        assert [name.split('.')[1] for name in new] == [
            f'{len(listed) + number:05}' for number in range(len(new))
        ]


@pytest.mark.slow
def test_several_worker_processes_append_every_sample_once(tmp_path: Path) -> None:
    mosaic(tmp_path, OLD)
    before = content(tmp_path)
    workers = ['--direct_running_mode=multi_processing', '--direct_num_workers=2']
    write(NEW, tmp_path, size_limit=LIMIT, if_exists='append', flags=workers)
    assert_exact(tmp_path, [*OLD, *NEW])
    after = content(tmp_path)
    assert all(after[name] == data for name, data in before.items() if name != 'index.json')


def test_the_old_entries_of_the_index_stay_as_they_are(tmp_path: Path) -> None:
    mosaic(tmp_path, OLD)
    index = json.loads((tmp_path / 'index.json').read_text())
    index['shards'][0]['note'] = 'kept'
    (tmp_path / 'index.json').write_text(json.dumps(index, indent=1))
    write(NEW, tmp_path, if_exists='append')
    after = json.loads((tmp_path / 'index.json').read_text())
    assert after['shards'][: len(index['shards'])] == index['shards']


def test_appending_to_nothing_and_again_and_again(tmp_path: Path) -> None:
    for start in range(0, 200, 50):
        write(OLD[start : start + 50], tmp_path, size_limit=LIMIT, if_exists='append')
        assert_exact(tmp_path, OLD[: start + 50])
    numbers = [int(name.split('.')[1]) for name in names(tmp_path)]
    assert numbers == list(range(len(numbers)))


def test_the_same_samples_can_be_appended_twice(tmp_path: Path) -> None:
    for _ in range(3):
        write(OLD[:20], tmp_path, if_exists='append')
    assert read(tmp_path) == sorted(OLD[:20] * 3, key=lambda sample: sample['number'])


@pytest.mark.parametrize(
    ('columns', 'message'),
    [
        ({'data': 'bytes', 'name': 'str', 'number': 'int64'},
         "'number' is int32, to be appended: int64"),
        ({'data': 'bytes', 'name': 'str'}, "'number' is int32, to be appended: not there"),
        ({**COLUMNS, 'x': 'int'}, "'x' is not there, to be appended: int"),
    ],
)  # fmt: skip
@pytest.mark.parametrize('split', [None, by_name])
def test_other_columns_are_an_error_before_any_work(
    columns: dict[str, str], message: str, split: Any, tmp_path: Path
) -> None:
    write(OLD, tmp_path, split=split)
    before = content(tmp_path)
    with pytest.raises(TargetError, match='columns differ from those of the dataset') as caught:
        write(NEW, tmp_path, columns, split=split, if_exists='append')
    assert message in str(caught.value)
    assert content(tmp_path) == before


def test_splits_are_appended_to_and_added(tmp_path: Path) -> None:
    first = [sample for sample in OLD if by_name(sample) in ('s0', 's1')]
    second = [sample for sample in NEW if by_name(sample) in ('s1', 's2')]
    write(first, tmp_path, size_limit=LIMIT, split=by_name)
    untouched = tmp_path / 's0' / 'index.json'
    untouched.write_text(json.dumps(json.loads(untouched.read_text()), indent=1))
    before = content(tmp_path)
    write(second, tmp_path, size_limit=LIMIT, split=by_name, if_exists='append')

    assert_exact(tmp_path, [*first, *second])
    after = content(tmp_path)
    assert after['s0/index.json'] == before['s0/index.json']
    assert all(after[name] == data for name, data in before.items() if name.endswith('.mds'))
    for split in ('s0', 's1', 's2'):
        assert read(tmp_path / split) == [
            sample for sample in (*first, *second) if by_name(sample) == split
        ]
    numbers = [int(name.split('.')[1]) for name in names(tmp_path / 's1')]
    assert numbers == list(range(len(numbers)))


def test_splits_without_a_common_index_are_appended_to(tmp_path: Path) -> None:
    for split in ('s1', 's5'):
        mosaic(tmp_path / split, [sample for sample in OLD if by_name(sample) == split])
    kept = [sample for sample in OLD if by_name(sample) in ('s1', 's5')]
    write(NEW, tmp_path, split=by_name, if_exists='append')
    assert_exact(tmp_path, [*kept, *NEW])


def test_a_split_that_was_changed_on_its_own_is_an_error(tmp_path: Path) -> None:
    write(OLD, tmp_path, split=by_name)
    write(NEW, tmp_path / 's1', if_exists='append')
    before = content(tmp_path)
    with pytest.raises(TargetError, match='it was changed on its own; merge the indexes first'):
        write(NEW, tmp_path, split=by_name, if_exists='append')
    assert content(tmp_path) == before


# somebody else


@pytest.mark.parametrize('if_exists', ['error', 'overwrite', 'append'])
@pytest.mark.parametrize('split', [None, by_name])
def test_an_index_that_changed_meanwhile_is_left_as_it_is(
    if_exists: str, split: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / 'out'
    if if_exists != 'error':
        write(OLD, out, size_limit=LIMIT, split=split)
    check = module._check_counts

    def change(*args: Any) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(module, '_check_counts', check)
            patch.setattr(module, '_clean', lambda *_: None)  # it would delete our new shards
            write(OLD[:7], out, if_exists='append', split=split)
        changed.update(content(out))
        check(*args)

    changed: dict[str, bytes] = {}
    monkeypatch.setattr(module, '_check_counts', change)
    with pytest.raises(TargetError, match='appeared or changed while this job was running'):
        write(NEW, out, size_limit=LIMIT, if_exists=if_exists, split=split)
    after = content(out)
    assert {name: after.get(name) for name in changed} == changed
    expected = [*OLD[:7], *(OLD if if_exists != 'error' else ())]
    assert read(out) == sorted(expected, key=lambda sample: sample['number'])

"""Whole datasets, checked at once and by a pipeline: each damage is named, and nothing else."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.io.filesystems import FileSystems
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beam_mds import (
    Finding,
    MissingExtraError,
    OptionError,
    StorageError,
    VerifyMDS,
    merge_indexes,
    storage,
    verify,
    verify_dataset,
)
from beam_mds.format import INDEX_NAME
from beam_mds.indexes import read_index
from beam_mds.storage import list_folder
from beam_mds.writing import planning
from beam_mds.writing.planning import numbered
from tests.data import make_golden
from tests.helpers.damage import change_index, rename_as_mdswriter, shards
from tests.helpers.faulty import Fault, Faults
from tests.helpers.runners import runner_of
from tests.helpers.writing import content, run, samples, write

ROWS = samples(120)
LIMIT = 1500

FOUND: list[Finding] = []


def keep(finding: Finding) -> None:
    FOUND.append(finding)


@pytest.fixture(autouse=True)
def _nothing_found() -> None:
    FOUND.clear()


def at_once(path: Any, **how: Any) -> list[Finding]:
    return list(verify_dataset(path, **how))


def by_pipeline(path: Any, **how: Any) -> list[Finding]:
    FOUND.clear()
    run(lambda pipeline: pipeline | VerifyMDS(path, **how) | beam.Map(keep))
    return sorted(FOUND)


def found(folder: Path, **how: Any) -> dict[str, list[str]]:
    """File, relative to the folder -> kinds of findings; both ways to check must agree."""
    findings = at_once(folder, **how)
    assert findings == at_once(folder, **how)
    assert by_pipeline(folder, **how) == sorted(findings)
    named: dict[str, list[str]] = {}
    for finding in findings:
        assert finding.detail
        named.setdefault(finding.file.removeprefix(f'{folder}/'), []).append(finding.kind)
    return named


@pytest.fixture(scope='module')
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Healthy datasets: raw, zstd; each also -hashed, and -plain, with MDSWriter's names."""
    folder = tmp_path_factory.mktemp('made')
    for compression in (None, 'zstd'):
        name = compression or 'raw'
        for hashes in ([], ['sha1', 'xxh64']):
            out = folder / (name + ('-hashed' if hashes else ''))
            write(ROWS, out, size_limit=LIMIT, compression=compression, hashes=hashes)
            assert len(read_index(out)) > 4
        rename_as_mdswriter(shutil.copytree(folder / name, folder / f'{name}-plain'))
    return folder


@pytest.fixture(params=['raw', 'raw-plain', 'zstd', 'zstd-hashed'])
def dataset(request: pytest.FixtureRequest, made: Path, tmp_path: Path) -> Path:
    """A copy of some of them."""
    return Path(shutil.copytree(made / request.param, tmp_path / request.param))


@pytest.fixture
def raw(made: Path, tmp_path: Path) -> Path:
    """A copy of the raw one without hashes."""
    return Path(shutil.copytree(made / 'raw', tmp_path / 'raw'))


# Healthy datasets


def test_a_healthy_dataset_has_no_findings(dataset: Path) -> None:
    assert found(dataset) == {}
    assert found(dataset, deep=True) == {}


@pytest.mark.parametrize('name', make_golden.DATASETS)
def test_the_golden_datasets_are_healthy(name: str) -> None:
    assert found(make_golden.FOLDER / name, deep=True) == {}


def test_every_order_and_ranges_of_several_shards_are_healthy(tmp_path: Path) -> None:
    copies = [{'data': bytes(50), 'name': 'same', 'number': 0}] * 300
    write(copies, tmp_path / 'copies', size_limit=4096)
    write(ROWS, tmp_path / 'one', num_shards=1, size_limit=LIMIT)
    write(ROWS, tmp_path / 'arrival', order='arrival', size_limit=LIMIT, compression='br')
    write(ROWS, tmp_path / 'sorted', order='sorted', key='number', size_limit=LIMIT)
    write(ROWS, tmp_path / 'sorted', order='sorted', key='number', if_exists='append')
    for name in ('copies', 'one', 'arrival', 'sorted'):
        assert len(read_index(tmp_path / name)) > 3
        assert at_once(tmp_path / name, deep=True) == []
    numbers = [numbered(info.stored.basename) for info in read_index(tmp_path / 'copies')]
    assert len({number for number, _ in filter(None, numbers)}) == 1


def test_the_hash_in_a_name_is_computed_once_for_each_shard_of_a_range(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(ROWS, tmp_path, num_shards=1, size_limit=LIMIT)
    parts: list[int] = []
    real = planning.content_digest

    def counted(stored: Any, part: int) -> str:
        parts.append(part)
        return real(stored, part)

    monkeypatch.setattr(planning, 'content_digest', counted)
    assert at_once(tmp_path, threads=1) == []
    assert parts == list(range(len(read_index(tmp_path))))


def test_other_files_beside_the_shards_are_nobodys_business(raw: Path) -> None:
    (raw / 'sub').mkdir()
    for name in ('README.md', 'metadata.json', '_SUCCESS', '.hidden', 'sub/x.txt', 'a.mdx'):
        (raw / name).write_text('x')
    assert found(raw) == {}


# Damage


def test_a_truncated_or_empty_or_longer_file_has_another_size(dataset: Path) -> None:
    first, second, third = shards(dataset)[:3]
    first.write_bytes(first.read_bytes()[:-1])
    second.write_bytes(b'')
    third.write_bytes(third.read_bytes() + b'x')
    assert found(dataset, deep=True) == {file.name: ['size'] for file in (first, second, third)}
    details = {Path(finding.file): finding.detail for finding in at_once(dataset)}
    size = read_index(dataset)[1].stored.bytes
    assert details[second] == f'0 bytes, the index says {size}'


def test_a_missing_file_is_named(dataset: Path) -> None:
    gone = shards(dataset)[2]
    gone.unlink()
    assert found(dataset) == {gone.name: ['missing']}


def test_an_unlisted_shard_and_leftovers_of_writes_are_extra(dataset: Path) -> None:
    size = len(shards(dataset)[0].read_bytes())
    shutil.copy(shards(dataset)[0], dataset / 'shard.00099.mds')
    for name in ('.beam-mds-spill-ab/run-1', '.beam-mds-spill-ab/run-2', 'x/y.mds.zstd.tmp',
                 '.beam-mds-index-cd.json', 'x/.beam-mds-spill-ef/deep/er.mds'):  # fmt: skip
        (dataset / name).parent.mkdir(parents=True, exist_ok=True)
        (dataset / name).write_text('1234')
    extra = ['.beam-mds-index-cd.json', '.beam-mds-spill-ab', 'shard.00099.mds',
             'x/.beam-mds-spill-ef', 'x/y.mds.zstd.tmp']  # fmt: skip
    assert found(dataset) == {name: ['extra'] for name in extra}
    details = {finding.file: finding.detail for finding in at_once(dataset)}
    assert details[f'{dataset}/shard.00099.mds'] == f'{size} bytes; no index lists this'
    assert details[f'{dataset}/.beam-mds-spill-ab'] == (
        '2 files, 8 bytes: left by a write that failed, or in use by one that is running'
    )


@pytest.mark.parametrize(
    ('name', 'kinds'),
    [('raw', ['name']), ('raw-hashed', ['hash'] * 2), ('raw-plain', ['sample'])],
)
def test_a_flipped_byte_is_found_by_hash_or_name_or_value(
    name: str, kinds: list[str], made: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(made / name, tmp_path / name))
    victim = shards(folder)[1]
    data = victim.read_bytes()
    victim.write_bytes(data.replace('ä'.encode(), b'\xc3\x00', 1))  # in a text
    assert found(folder) == ({} if name == 'raw-plain' else {victim.name: kinds})
    deep = kinds if name == 'raw-plain' else [kind for kind in kinds if kind != 'name'] + ['sample']
    assert found(folder, deep=True) == {victim.name: deep}


def test_swapped_shards_are_found(dataset: Path) -> None:
    first, second = shards(dataset)[:2]
    one, other = first.read_bytes(), second.read_bytes()
    assert len(one) != len(other)
    first.write_bytes(other)
    second.write_bytes(one)
    assert found(dataset) == {first.name: ['size'], second.name: ['size']}


@pytest.mark.parametrize(
    ('hashes', 'kind'), [(['sha1'], ['hash']), ([], ['name'])], ids=['hashes', 'names']
)
def test_swapped_shards_of_one_size_are_found(
    hashes: list[str], kind: list[str], tmp_path: Path
) -> None:
    write(({'n': n} for n in range(64)), tmp_path, {'n': 'int'}, num_shards=8, hashes=hashes)
    sizes: dict[int, list[Path]] = {}
    for file in shards(tmp_path):
        sizes.setdefault(file.stat().st_size, []).append(file)
    first, second = next(files for files in sizes.values() if len(files) > 1)[:2]
    one, other = first.read_bytes(), second.read_bytes()
    first.write_bytes(other)
    second.write_bytes(one)
    assert found(tmp_path, deep=True) == {first.name: kind, second.name: kind}


@pytest.mark.parametrize('limit', [LIMIT, 2 * LIMIT])
def test_the_index_of_another_run_does_not_fit(limit: int, made: Path, tmp_path: Path) -> None:
    other = tmp_path / 'other'
    write(samples(119, seed=9), other, size_limit=limit)
    ours = Path(shutil.copytree(made / 'raw', tmp_path / 'ours'))
    shutil.copy(other / INDEX_NAME, ours)
    listed, there = ({file.name for file in shards(folder)} for folder in (other, made / 'raw'))
    assert found(ours) == {
        **{name: ['missing'] for name in listed},
        **{name: ['extra'] for name in there},
    }
    rename_as_mdswriter(other)
    theirs = Path(shutil.copytree(made / 'raw-plain', tmp_path / 'theirs'))
    shutil.copy(other / INDEX_NAME, theirs)
    listed, there = ({file.name for file in shards(f)} for f in (other, made / 'raw-plain'))
    assert found(theirs) == {
        **{name: ['size'] for name in listed & there},
        **{name: ['missing'] for name in listed - there},
        **{name: ['extra'] for name in there - listed},
    }


@pytest.mark.parametrize('content', [b'', b'{"version": 2, "sha', b'{"version": 3, "shards": []}'])
def test_a_damaged_index_is_the_only_finding(content: bytes, dataset: Path) -> None:
    (dataset / INDEX_NAME).write_bytes(content)
    assert found(dataset) == {INDEX_NAME: ['index']}


def test_an_absent_index_is_a_finding(dataset: Path) -> None:
    (dataset / INDEX_NAME).unlink()
    assert found(dataset) == {INDEX_NAME: ['index']}
    (finding,) = at_once(dataset)
    assert finding.detail == (
        'absent: there is no dataset here; rebuild-index makes one for shards that are left'
    )
    assert [one.kind for one in at_once(dataset / 'nothing' / 'here')] == ['index']


@pytest.mark.parametrize('basename', ['../x', '/abs', 'a/../../b', 'http://x'])
def test_an_entry_that_points_elsewhere_is_told_and_the_rest_is_checked(
    basename: str, dataset: Path
) -> None:
    outside = dataset.parent / 'x'
    outside.write_text('never looked at')
    change_index(dataset, lambda entries: entries[1]['raw_data'].update(basename=basename))
    if 'zstd' in dataset.name:
        change_index(dataset, lambda entries: entries[1]['zip_data'].update(basename=basename))
    gone = shards_left(dataset)[-1]
    gone.unlink()
    assert found(dataset) == {INDEX_NAME: ['index'], gone.name: ['missing']}


def shards_left(folder: Path) -> list[Path]:
    """The shard files that are there."""
    return sorted(file for file in folder.iterdir() if file.name != INDEX_NAME)


def test_a_file_that_is_listed_twice_is_read_once(dataset: Path) -> None:
    change_index(dataset, lambda entries: entries.append(entries[0]))
    (first, *_), count = shards(dataset), len(read_index(dataset)) - 1
    assert found(dataset) == {first.name: ['duplicate']}
    result = run(lambda pipeline: pipeline | VerifyMDS(dataset))
    assert counters(result)['shards_checked'] == count


def test_shards_of_other_columns_are_told(raw: Path, tmp_path: Path) -> None:
    other = tmp_path / 'other'
    write([{'n': 1}], other, {'n': 'int'})
    (file,) = shards(other)
    entries = json.loads((other / INDEX_NAME).read_bytes())['shards']
    shutil.copy(file, raw)
    change_index(raw, lambda old: old.extend(entries))
    assert found(raw, deep=True) == {file.name: ['columns']}


def test_a_shard_of_other_columns_than_its_entry_says_is_told(raw: Path) -> None:
    change_index(
        raw, lambda entries: [e['column_encodings'].__setitem__(0, 'str') for e in entries]
    )
    names = [file.name for file in shards(raw)]
    assert found(raw) == {name: ['config'] for name in names}


def test_an_unpacked_copy_beside_a_packed_shard_is_fine_unless_its_size_is_wrong(
    made: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(made / 'zstd', tmp_path / 'zstd'))
    info = read_index(folder)[0]
    copy = folder / info.raw_data.basename
    copy.write_bytes(bytes(info.raw_data.bytes))
    assert found(folder) == {}
    copy.write_bytes(b'short')
    assert found(folder) == {copy.name: ['size']}
    (finding,) = at_once(folder)
    assert finding.detail == (
        f'5 bytes, unpacked from {info.stored.basename} it has {info.raw_data.bytes}'
    )


@settings(
    max_examples=40,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_any_flipped_byte_is_found_in_its_file_and_in_no_other(
    data: st.DataObject, made: Path, tmp_path: Path
) -> None:
    folder = tmp_path / 'flipped'
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(made / data.draw(st.sampled_from(['raw-hashed', 'zstd-hashed'])), folder)
    victim = data.draw(st.sampled_from(shards(folder)))
    stored = bytearray(victim.read_bytes())
    stored[data.draw(st.integers(0, len(stored) - 1))] ^= data.draw(st.integers(1, 255))
    victim.write_bytes(bytes(stored))
    assert {finding.file for finding in at_once(folder)} == {str(victim)}


# Splits


@pytest.fixture
def splits(tmp_path: Path) -> Path:
    """A dataset of two splits, one of them a folder deeper."""
    write(ROWS, tmp_path / 'splits', split=of_parity, size_limit=LIMIT)
    return tmp_path / 'splits'


def of_parity(sample: Any) -> str:
    return 'val/en' if sample['number'] % 2 else 'train'


def test_splits_are_healthy_as_a_whole_and_alone(splits: Path) -> None:
    for folder in (splits, splits / 'train', splits / 'val/en'):
        assert found(folder, deep=True) == {}


def test_a_split_that_differs_from_the_whole_is_told(splits: Path) -> None:
    first = shards(splits / 'train')[0]
    change_index(splits / 'train', lambda entries: entries.pop(0))
    assert found(splits) == {f'train/{INDEX_NAME}': ['index']}
    (finding,) = at_once(splits)
    assert finding.detail == (
        'lists none of 1 shards of its folder that the index above lists, such as '
        f'train/{first.name}'
    )
    assert found(splits / 'train') == {first.name: ['extra']}


def test_a_split_whose_shards_the_whole_does_not_list_is_told(splits: Path) -> None:
    last = shards(splits / 'val/en')[-1].name
    change_index(splits, lambda entries: entries.pop())
    assert found(splits) == {INDEX_NAME: ['index']}
    (finding,) = at_once(splits)
    assert finding.detail == (
        f'lists none of 1 shards that {splits}/val/en/index.json lists, such as val/en/{last}'
    )


def test_a_whole_split_that_is_not_listed_is_told(splits: Path) -> None:
    write(ROWS[:1], splits / 'test')
    assert found(splits) == {INDEX_NAME: ['index']}


def test_an_entry_that_is_another_in_the_split_is_told(splits: Path) -> None:
    change_index(splits / 'train', lambda entries: entries[0].update(samples=1))
    assert found(splits) == {f'train/{INDEX_NAME}': ['index']}
    (finding,) = at_once(splits)
    name = shards(splits / 'train')[0].name
    detail = f'describes 1 shards otherwise than the index above, such as train/{name}'
    assert finding.detail == detail


def test_what_the_index_of_a_split_repeats_is_told_once(splits: Path) -> None:
    first = shards(splits / 'train')[0]
    for folder in (splits, splits / 'train'):
        change_index(folder, lambda entries: entries.append(entries[0]))
    assert first.name == shards(splits)[0].name
    assert found(splits) == {f'train/{first.name}': ['duplicate']}


def test_the_damaged_index_of_a_split_is_told_and_hides_nothing(splits: Path) -> None:
    (splits / 'train' / INDEX_NAME).write_text('{')
    gone = shards(splits / 'val/en')[0]
    gone.unlink()
    (splits / 'x.mds').write_text('x')
    for name in ('x.mds', 'deep/y.mds'):
        (splits / 'train' / name).parent.mkdir(exist_ok=True)
        (splits / 'train' / name).write_text('may be listed in the index that is damaged')
    assert found(splits) == {
        f'train/{INDEX_NAME}': ['index'],
        'x.mds': ['extra'],
        f'val/en/{gone.name}': ['missing'],
    }


def test_a_dataset_in_a_sub_folder_that_the_index_knows_nothing_of_is_another(raw: Path) -> None:
    write(ROWS, raw / 'sub', size_limit=LIMIT)
    (raw / 'sub' / 'more.mds').write_text('x')
    shards(raw / 'sub')[0].unlink()
    assert found(raw) == {'sub/more.mds': ['extra']}
    (raw / 'sub' / INDEX_NAME).write_text('{')
    assert found(raw) == {}


def test_a_dataset_that_was_merged_at_many_depths_is_healthy(tmp_path: Path) -> None:
    """The index of `a` does not list what lies in `a/b/c`, which has its own."""
    for seed, place in enumerate(('', 'a', 'a/b/c', 'd')):
        write(samples(30, seed=seed), tmp_path / place, size_limit=LIMIT)
    assert merge_indexes(tmp_path).samples == 120
    assert found(tmp_path) == {}
    shards(tmp_path / 'a/b/c')[0].unlink()
    (kinds,) = found(tmp_path).values()
    assert kinds == ['missing']


# Several datasets, other stores, runners


def test_every_way_to_name_datasets_works(made: Path, tmp_path: Path) -> None:
    for name in ('raw', 'zstd'):
        shutil.copytree(made / name, tmp_path / f'{name} [1]')
        shards(tmp_path / f'{name} [1]')[0].unlink()
    both = [('missing', f'{name} [1]') for name in ('raw', 'zstd')]
    for path, wanted in [
        (tmp_path / 'raw [1]', both[:1]),
        (str(tmp_path / 'zstd [1]' / INDEX_NAME), both[1:]),
        ([str(tmp_path / 'zstd [1]') + '/', tmp_path / 'raw [1]'], both[::-1]),
        (str(tmp_path / '*'), both),
        ([str(tmp_path / 'raw*'), str(tmp_path / '*')], both),
    ]:
        findings = at_once(path)
        assert [(one.kind, Path(one.file).parent.name) for one in findings] == wanted
        assert by_pipeline(path) == sorted(findings)


def test_paths_may_come_in_a_pcollection(made: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(made / 'raw', tmp_path / 'raw'))
    shards(folder)[1].unlink()
    paths = [str(folder), str(made / 'z*'), f'{made}/raw/index.json']
    run(lambda pipeline: pipeline | beam.Create(paths) | VerifyMDS() | beam.Map(keep))
    (finding,) = FOUND
    assert [finding] == at_once(folder)


def test_a_path_or_a_pcollection_of_paths_must_be_given() -> None:
    message = (
        'VerifyMDS checks the path that it is given when it is applied to a pipeline, and without '
        'one the paths of a PCollection that it is applied to'
    )
    for build in (
        lambda pipeline: pipeline | VerifyMDS(),
        lambda pipeline: pipeline | beam.Create(['x']) | VerifyMDS('x'),
    ):
        with pytest.raises(OptionError) as caught:
            run(build)
        assert str(caught.value) == message


def test_a_glob_that_matches_nothing_is_an_error(tmp_path: Path) -> None:
    for check in (at_once, by_pipeline):
        with pytest.raises(StorageError, match=r'no folder that it matches has an index\.json'):
            check(str(tmp_path / 'no*'))


def test_a_bucket_is_checked(made: Path, gcs_bucket: str) -> None:
    for name in ('raw-hashed', 'zstd'):
        for path in (made / name).iterdir():
            data = path.read_bytes()
            storage.write(f'{gcs_bucket}/{name}/{path.name}', [data], len(data))
    gone = f'{gcs_bucket}/zstd/{shards(made / "zstd")[0].name}'
    FileSystems.delete([gone])
    assert len(list_folder(gcs_bucket)) > 10
    findings = at_once(f'{gcs_bucket}/*', deep=True)
    info = read_index(f'{gcs_bucket}/zstd')[0]
    detail = f'the index says that it has {info.samples} samples in {info.stored.bytes} bytes'
    assert findings == [Finding(gone, 'missing', f'not there; {detail}')]
    assert by_pipeline(f'{gcs_bucket}/*', deep=True) == findings


@pytest.fixture
def faulty(made: Path, faults: Faults) -> Path:
    """A copy of the zstd dataset in the store that fails on demand."""
    shutil.copytree(made / 'zstd', faults.local / 'set')
    return faults.local / 'set'


def test_a_store_that_is_busy_for_a_moment_is_asked_again(faulty: Path, faults: Faults) -> None:
    for on in ('list', 'open', 'read'):
        for path in (INDEX_NAME, shards(faulty)[1].name):
            faults.clear()
            faults.add(Fault(on, '' if on == 'list' else path, error='503', times=2))
            assert at_once(f'{faults.folder}/set') == []
            assert len(faults.calls(on, '' if on == 'list' else path)) == 3


def test_a_file_that_cannot_be_read_is_told_and_the_others_are_checked(
    faulty: Path, faults: Faults
) -> None:
    first, second, third = (file.name for file in shards(faulty)[:3])
    (faulty / third).unlink()
    faults.add(Fault('read', first, error='permission', times=None))
    faults.add(Fault('open', second, error='503', times=None))
    for check in (at_once, by_pipeline):
        findings = {one.file.rpartition('/')[2]: one for one in check(f'{faults.folder}/set')}
        assert {name: one.kind for name, one in findings.items()} == {
            first: 'unreadable', second: 'unreadable', third: 'missing',
        }  # fmt: skip
        path = f'{faults.folder}/set/{first}'
        assert findings[first].detail.startswith(f'could not read {path}: PermissionError: ')


def test_an_index_or_a_folder_that_cannot_be_read_is_told(faulty: Path, faults: Faults) -> None:
    shutil.copytree(faulty, faults.local / 'other')
    for fault, file in [
        (Fault('read', 'set/index', error='permission', times=None), f'set/{INDEX_NAME}'),
        (Fault('list', 'set', error='permission', times=None), 'set'),
    ]:
        faults.clear()
        faults.add(fault)
        for check in (at_once, by_pipeline):
            (finding,) = check([f'{faults.folder}/set', f'{faults.folder}/other'])
            assert finding[:2] == (f'{faults.folder}/{file}', 'unreadable')


def test_a_shard_that_is_listed_with_another_size_is_not_read(faulty: Path, faults: Faults) -> None:
    victim = shards(faulty)[0]
    with victim.open('r+b') as file:
        file.truncate(10**12)  # a sparse file, which no memory holds
    (finding,) = at_once(f'{faults.folder}/set')
    assert finding[1:] == (
        'size', f'{10**12} bytes, the index says {read_index(faulty)[0].stored.bytes}'
    )  # fmt: skip
    assert faults.calls('open', victim.name) == []


def test_few_shards_are_in_memory_at_once(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock, held, most = threading.Lock(), 0, 0

    def slow(*_: Any, **__: Any) -> Iterable[Finding]:
        nonlocal held, most
        with lock:
            held += 1
            most = max(most, held)
        time.sleep(0.02)
        with lock:
            held -= 1
        return []

    monkeypatch.setattr(verify, 'check_shard', slow)
    for threads in (1, 3):
        most = 0
        assert at_once(made / 'raw', threads=threads) == []
        assert most == threads


def test_a_check_that_nobody_reads_on_ends(made: Path, tmp_path: Path, faults: Faults) -> None:
    shutil.copytree(made / 'raw', faults.local / 'set')
    for file in shards(faults.local / 'set'):
        file.write_bytes(bytes(file.stat().st_size))
    next(verify_dataset(f'{faults.folder}/set', threads=1))
    assert len(faults.calls('open', 'shard')) < len(shards(faults.local / 'set'))


def test_threads_must_be_one_or_more(made: Path) -> None:
    for threads in (0, -1):
        with pytest.raises(OptionError, match=f'^threads must be 1 or more, got {threads}$'):
            at_once(made / 'raw', threads=threads)


def counters(result: Any) -> dict[str, int]:
    found = result.metrics().query()['counters']
    return {c.key.metric.name: c.result for c in found if c.key.metric.namespace == 'beam_mds'}


def test_a_pipeline_counts_what_it_checked(made: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(made / 'raw', tmp_path / 'raw'))
    index = read_index(folder)
    shards(folder)[0].unlink()
    result = run(lambda pipeline: pipeline | VerifyMDS([folder, made / 'raw']))
    assert counters(result) == {
        'datasets_checked': 2,
        'shards_checked': 2 * len(index),
        'samples_checked': 2 * len(ROWS) - index[0].samples,
        'bytes_checked': sum(info.stored.bytes for info in [*index, *index[1:]]),
        'findings': 1,
    }


@pytest.mark.parametrize('kind', ['processes', 'portable', 'prism'])
def test_other_runners_find_the_same(kind: str, made: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(made / 'zstd', tmp_path / 'zstd'))
    victim = shards(folder)[1]
    victim.write_bytes(bytes(victim.stat().st_size))
    shards(folder)[0].unlink()
    (folder / 'x.mds').write_text('x')
    runner, flags = runner_of(kind)
    out = tmp_path / 'found'
    run(
        lambda pipeline: (
            pipeline
            | VerifyMDS(folder)
            | beam.Map(lambda finding: json.dumps(list(finding)))
            | beam.io.WriteToText(str(out), num_shards=1, shard_name_template='')
        ),
        *flags,
        runner=runner,
    )
    lines = [Finding(*json.loads(line)) for line in out.read_text().splitlines()]
    assert sorted(lines) == sorted(at_once(folder))
    assert {one.kind for one in lines} == {'missing', 'extra', 'compression'}


def test_findings_have_a_schema(made: Path) -> None:
    with beam.Pipeline(runner='FnApiRunner') as pipeline:
        findings = pipeline | VerifyMDS(made / 'raw')
        assert findings.element_type is Finding


def test_the_options_are_shown(made: Path) -> None:
    assert VerifyMDS(['/a', '/b'], deep=True).display_data() == {'path': '/a, /b', 'deep': True}


def test_nothing_is_written(dataset: Path) -> None:
    before = content(dataset)
    shards(dataset)[0].unlink()
    found(dataset, deep=True)
    assert content(dataset).items() <= before.items()


def test_images_without_pillow_end_the_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write([{'i': b'x'}], tmp_path, {'i': 'jpeg'})

    def no_pillow() -> Any:
        raise MissingExtraError("image columns need Pillow: install 'beam_mds[images]'")

    monkeypatch.setattr('beam_mds.format.encodings.images._pillow', no_pillow)
    for check in (at_once, by_pipeline):
        assert check(tmp_path) == []
        with pytest.raises(MissingExtraError, match='image columns need Pillow'):
            check(tmp_path, deep=True)

"""A dataset written anew has the files that its samples alone would have."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beam_mds import (
    ColumnsError,
    DamagedError,
    OptionError,
    ReshardMDS,
    StorageError,
    WriteToMDS,
    read_samples,
)
from beam_mds.indexes import read_index
from tests.helpers.writing import COLUMNS, Sample, content, read, run, samples, write

ROWS = samples(150, names=4)

LETTERS: list[Any] = []


def keep_letter(letter: Any) -> None:
    LETTERS.append(letter)


def reshard(path: Any, out: Any, *flags: str, **how: Any) -> Any:
    """Runs one ReshardMDS; dead letters are in LETTERS."""
    LETTERS.clear()

    def build(pipeline: beam.Pipeline) -> None:
        result = pipeline | ReshardMDS(path, out, **how)
        if 'errors' in result:
            _ = result.errors | beam.Map(keep_letter)

    return run(build, *flags)


@pytest.fixture(scope='module')
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of ROWS, in several shards."""
    folder = tmp_path_factory.mktemp('old')
    write(ROWS, folder, size_limit=1500, compression='zstd', hashes=['sha1'])
    return folder


# Options of a write -> what the samples must be for the same files.
WRITES: dict[str, dict[str, Any]] = {
    'larger': {'size_limit': 4000},
    'raw': {'compression': None, 'hashes': None, 'seed': 3},
    'other': {'compression': 'br:3', 'hashes': ['md5', 'xxh64'], 'num_shards': 3},
    'keyed': {'key': 'name', 'size_limit': 2000},
    'function': {'key': lambda sample: sample['number'] % 5, 'size_limit': 2000},
    'sorted': {'order': 'sorted', 'key': 'number', 'size_limit': 2000},
    'split': {'split': 'name', 'size_limit': 2000},
    'dropped': {'split': 'name', 'drop_split_column': True, 'size_limit': 2000},
    'by function': {'split': lambda sample: f's{sample["number"] % 3}', 'max_samples_per_shard': 9},
}


@pytest.mark.parametrize('name', WRITES)
def test_the_files_are_those_of_a_write_of_the_same_samples(
    old: Path, tmp_path: Path, name: str
) -> None:
    how = WRITES[name]
    reshard(old, tmp_path / 'new', **how)
    same = {'compression': 'zstd', 'hashes': ['sha1'], 'size_limit': 1500}
    write(ROWS, tmp_path / 'wanted', **{**same, **how})
    assert content(tmp_path / 'new') == content(tmp_path / 'wanted')


def test_compression_hashes_and_size_stay_as_they_are_by_default(old: Path, tmp_path: Path) -> None:
    reshard(old, tmp_path)
    assert content(tmp_path) == content(old)


@settings(
    deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_columns_samples_and_names_are_those_asked_for(
    old: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    kept = data.draw(st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, unique=True))
    names = data.draw(st.permutations(['data', 'name', 'number', 'z']))
    rename = dict(zip(kept, names, strict=False))
    limit = data.draw(st.integers(0, 149))
    where, wanted = data.draw(
        st.sampled_from(
            [
                (None, lambda _: True),
                (f'number <= {limit}', lambda row: row['number'] <= limit),
                ("name == 'näme 1'", lambda row: row['name'] == 'näme 1'),
                (lambda row: row['number'] >= limit, lambda row: row['number'] >= limit),
            ]
        )
    )
    out = tmp_path_factory.mktemp('new')
    reshard(old, out / 'new', columns=kept, rename=rename, where=where, allow_empty=True)
    rows = [{rename[name]: row[name] for name in kept} for row in ROWS if wanted(row)]
    write(
        rows,
        out / 'wanted',
        {rename[name]: COLUMNS[name] for name in kept},
        size_limit=1500,
        compression='zstd',
        hashes=['sha1'],
        allow_empty=True,
    )
    assert content(out / 'new') == content(out / 'wanted')


def test_a_fraction_is_the_same_in_every_run_and_part_of_a_larger_one(
    old: Path, tmp_path: Path
) -> None:
    write(ROWS[::-1], tmp_path / 'raw')
    found: dict[str, set[int]] = {}
    for name, path, how in [
        ('half', old, {'fraction': 0.5}),
        ('again', tmp_path / 'raw', {'fraction': 0.5, 'columns': ['number'], 'seed': 7}),
        ('tenth', old, {'fraction': 0.1}),
        ('all', old, {'fraction': 1}),
    ]:
        reshard(path, tmp_path / name, **how)
        found[name] = {row['number'] for row in read_samples(tmp_path / name)}
    assert found['half'] == found['again']
    assert 50 < len(found['half']) < 100
    assert found['tenth'] < found['half']
    assert len(found['all']) == 150
    reshard(old, tmp_path / 'keys', fraction=0.5, key='name')
    kept = {row['name'] for row in read(tmp_path / 'keys')}
    assert read(tmp_path / 'keys') == [row for row in ROWS if row['name'] in kept]
    assert 0 < len(kept) < 4


def test_a_dataset_can_take_its_own_place(tmp_path: Path) -> None:
    write(ROWS, tmp_path, size_limit=1500)
    before = set(content(tmp_path))
    reshard(tmp_path, tmp_path, size_limit='1mb', where='number < 100', if_exists='overwrite')
    assert read(tmp_path) == ROWS[:100]
    assert len(read_index(tmp_path)) == 1
    assert set(content(tmp_path)) & before == {'index.json'}


def test_several_datasets_become_one(tmp_path: Path) -> None:
    for name, rows in (('a', ROWS[:60]), ('b', ROWS[60:])):
        write(rows, tmp_path / name, size_limit=1500)
    reshard(f'{tmp_path}/[ab]', tmp_path / 'both', order='arrival')
    assert read(tmp_path / 'both') == ROWS
    reshard([tmp_path / 'a'], tmp_path / 'both', if_exists='append')
    assert len(list(read_samples(tmp_path / 'both'))) == 210


class Bomb:
    """Its pickle must not be opened."""

    def __reduce__(self) -> Any:
        return pytest.fail, ('unpickled',)


def test_pickles_are_copied_and_not_opened(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match='pickle'):
        sink = WriteToMDS(tmp_path / 'old', {'n': 'int', 'p': 'pkl'})
    data = pickle.dumps(Bomb(), 4)
    run(lambda pipeline: pipeline | beam.Create([{'n': n, 'p': data} for n in range(9)]) | sink)
    with pytest.warns(UserWarning, match='pickle'):
        reshard(tmp_path / 'old', tmp_path / 'new', where='n < 5', key='n', order='sorted')
    (file,) = (tmp_path / 'new').glob('*.mds')
    assert file.read_bytes().count(data) == 5
    message = "column 'p' is stored as pickle"
    with pytest.raises(ColumnsError, match=message):
        reshard(tmp_path / 'old', tmp_path / 'x', where=lambda row: row['n'])
    with pytest.raises(ColumnsError, match=message):
        reshard(tmp_path / 'old', tmp_path / 'x', key=lambda row: row['n'])


def damage(folder: Path) -> tuple[Path, list[Sample]]:
    """Damages one sample in one file and cuts another; gives the first, and what is left."""
    write(ROWS, folder, size_limit=1500)
    infos = read_index(folder)
    good = list(read_samples(folder))
    first = infos[0].samples
    (folder / infos[2].stored.basename).write_bytes(b'')
    file = folder / infos[0].stored.basename
    data = file.read_bytes()
    at = data.index(good[3]['name'].encode(), data.index(good[3]['data']))
    file.write_bytes(data[:at] + b'\xff' + data[at + 1 :])
    end = first + infos[1].samples + infos[2].samples
    return file, good[:3] + good[4 : first + infos[1].samples] + good[end:]


def test_damaged_samples_can_be_left_out(tmp_path: Path) -> None:
    _, good = damage(tmp_path / 'old')
    reshard(tmp_path / 'old', tmp_path / 'new', where="name != 'x'", on_error='dead_letter')
    assert read(tmp_path / 'new') == sorted(good, key=lambda row: row['number'])
    assert sum(letter.samples for letter in LETTERS) == 150 - len(good)


def test_a_damaged_sample_is_named(tmp_path: Path) -> None:
    file, _ = damage(tmp_path / 'old')
    (tmp_path / 'one').mkdir()
    with pytest.raises(
        DamagedError, match=rf'{file.name}, sample 3, byte \d+: column .name. \(str'
    ):
        reshard(tmp_path / 'old', tmp_path / 'new', '--direct_num_workers=1', where="name != 'x'")
    assert not (tmp_path / 'new' / 'index.json').exists()


def test_a_sample_that_where_has_no_value_for_is_named(tmp_path: Path) -> None:
    write([{'n': n} for n in range(5)], tmp_path / 'old', {'n': 'int'}, order='sorted', key='n')
    with pytest.raises(ValueError, match=r'\.mds, sample 2: .*zero'):
        reshard(tmp_path / 'old', tmp_path / 'new', where='1 % (n - 2) == 0')


@pytest.mark.parametrize(
    ('how', 'message'),
    [
        ({'where': 3}, 'where must be a text or a function of the sample, got 3'),
        ({'where': 'numbr > 1'}, 'numbr'),
        ({'fraction': 1.5}, 'fraction must be from 0 to 1, got 1.5'),
        ({'columns': ['x']}, "no column 'x': there are data, name, number"),
        (
            {'columns': ['name'], 'rename': {'data': 'x'}},
            "rename has 'data', which is no column that",
        ),
        ({'rename': {'data': 'name'}}, "columns 'data' and 'name' would both be 'name'"),
        ({'key': 'x'}, "key='x' is no column"),
        ({'compression': 'zip'}, "unknown compression 'zip'"),
        ({'on_error': 'x'}, "on_error='x' is unknown"),
    ],
)
def test_a_wrong_option_is_refused_before_the_job_starts(
    old: Path, tmp_path: Path, how: dict[str, Any], message: str
) -> None:
    with pytest.raises(OptionError) as caught:
        beam.Pipeline(runner='FnApiRunner') | ReshardMDS(old, tmp_path / 'new', **how)
    assert message in str(caught.value)


def test_datasets_of_different_columns_are_named(old: Path, tmp_path: Path) -> None:
    write([{'x': 1}], tmp_path / 'other', {'x': 'int'})
    with pytest.raises(ColumnsError, match=r"other have different columns: \{.*'name': 'str'"):
        reshard([old, tmp_path / 'other'], tmp_path / 'new')
    (tmp_path / 'empty').mkdir()
    (tmp_path / 'empty' / 'index.json').write_text('{"version": 2, "shards": []}')
    with pytest.raises(ColumnsError, match='empty: there are no shards'):
        reshard(tmp_path / 'empty', tmp_path / 'new')
    with pytest.raises(StorageError, match=r'could not read .*index\.json'):
        reshard(tmp_path / 'nothing', tmp_path / 'new')


def test_the_pipeline_takes_all_of_it_from_the_command_line(
    old: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from pipelines import reshard as pipeline

    pipeline.main(
        [
            f'--input={old}',
            f'--output={tmp_path}/new',
            '--columns=name,number',
            '--rename=number=n',
            '--where=number < 100 and startswith(name, "n")',
            '--compression=none',
            '--hashes=xxh64',
            '--size_limit=1mb',
            '--order=sorted',
            '--key=n',
            f'--errors_output={tmp_path}/errors.jsonl',
            '--runner=FnApiRunner',
        ]
    )
    assert list(read_samples(tmp_path / 'new', validate_hash='xxh64')) == [
        {'name': row['name'], 'n': row['number']} for row in ROWS[:100]
    ]
    out = ' '.join(capsys.readouterr().out.split())
    assert 'samples read 150 damaged samples 0 samples 100 shards 1' in out
    assert (tmp_path / 'errors.jsonl').read_text() == ''


def test_the_pipeline_notes_damaged_samples(tmp_path: Path) -> None:
    from pipelines import reshard as pipeline

    file, good = damage(tmp_path / 'old')
    pipeline.main(
        [
            f'--input={tmp_path}/old',
            f'--output={tmp_path}/new',
            "--where=name != 'x'",
            f'--errors_output={tmp_path}/errors.jsonl',
            '--runner=FnApiRunner',
        ]
    )
    letters = [json.loads(line) for line in (tmp_path / 'errors.jsonl').read_text().splitlines()]
    assert sum(letter['samples'] for letter in letters) == 150 - len(good)
    assert {(letter['path'], letter['sample']) for letter in letters} >= {(str(file), 3)}


@pytest.mark.parametrize(
    ('extra', 'words'),
    [
        (['--rename=x'], '--rename must be like old=new, got x'),
        (['--where=1 +'], 'error: '),
        (['--wher=1'], 'unknown option --wher: did you mean --where?'),
        (['--order=x'], "invalid choice: 'x'"),
    ],
)
def test_the_pipeline_refuses_a_wrong_option(
    old: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], extra: list[str], words: str
) -> None:
    from pipelines import reshard as pipeline

    with pytest.raises(SystemExit, match='2'):
        pipeline.main([f'--input={old}', f'--output={tmp_path}/new', *extra])
    assert words in capsys.readouterr().err

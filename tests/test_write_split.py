"""Datasets with splits: each a dataset of its own, and one index for them all."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest

from beam_mds import EncodingError, TargetError, WriteToMDS, hash_split, read_samples
from beam_mds.writing.planning import OWN_SHARD
from tests.helpers.faulty import Faults
from tests.helpers.writing import (
    COLUMNS,
    SEEN,
    Sample,
    content,
    read,
    run,
    samples,
    see,
    table,
    write,
)

ROWS = samples(600, names=3)
LIMIT = 1500


def by_name(sample: Sample) -> str:
    return {'näme 0': 'train', 'näme 1': 'val/en', 'näme 2': 'val/de'}[sample['name']]


SPLITS = sorted({by_name(sample) for sample in ROWS})


def of_split(split: str) -> list[Sample]:
    return [sample for sample in ROWS if by_name(sample) == split]


def index(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((folder / 'index.json').read_text())['shards']
    return found


def assert_whole(out: Path, expected: dict[str, list[Sample]]) -> None:
    """Every split and the whole are readable, and nothing else lies there."""
    listed = {'index.json'}
    for split, rows in expected.items():
        assert read(out / split) == sorted(rows, key=lambda sample: sample['number']), split
        names = [shard['raw_data']['basename'] for shard in index(out / split)]
        assert all(OWN_SHARD.fullmatch(name) for name in names)
        listed |= {f'{split}/index.json', *(f'{split}/{name}' for name in names)}
    assert read(out) == sorted(
        (row for rows in expected.values() for row in rows), key=lambda sample: sample['number']
    )
    assert set(content(out)) == listed


@pytest.mark.parametrize('order', ['shuffled', 'arrival'])
@pytest.mark.parametrize('spill', ['auto', False])
@pytest.mark.parametrize('kind', ['dicts', 'table'])
def test_each_split_is_a_dataset_and_the_root_lists_them_all(
    order: str, spill: Any, kind: str, tmp_path: Path
) -> None:
    elements = ROWS if kind == 'dicts' else [table(ROWS)]
    write(elements, tmp_path, split=by_name, order=order, spill=spill, size_limit=LIMIT)

    assert_whole(tmp_path, {split: of_split(split) for split in SPLITS})
    entries = index(tmp_path)
    for split in SPLITS:
        below = [
            {**shard, 'raw_data': {**shard['raw_data'], 'basename': f'{split}/{name}'}}
            for shard in index(tmp_path / split)
            for name in [shard['raw_data']['basename']]
        ]
        assert [e for e in entries if e['raw_data']['basename'].startswith(f'{split}/')] == below


def test_a_split_has_the_files_that_its_samples_alone_would_have(tmp_path: Path) -> None:
    write(ROWS, tmp_path / 'all', split=by_name, size_limit=LIMIT, compression='zstd')
    for split in SPLITS:
        write(of_split(split), tmp_path / 'one' / split, size_limit=LIMIT, compression='zstd')
        assert content(tmp_path / 'one' / split) == content(tmp_path / 'all' / split)


def test_files_depend_on_no_order_of_the_input(tmp_path: Path) -> None:
    shuffled = list(ROWS)
    random.Random(1).shuffle(shuffled)
    write(ROWS, tmp_path / 'a', split=by_name, size_limit=LIMIT, key='name')
    write(
        shuffled, tmp_path / 'b', split=by_name, size_limit=LIMIT, key='name', spill=False,
        flags=['--direct_num_workers=3'],
    )  # fmt: skip
    assert content(tmp_path / 'a') == content(tmp_path / 'b')


@pytest.mark.parametrize('order', ['shuffled', 'arrival'])
def test_shards_are_full_in_every_split(order: str, tmp_path: Path) -> None:
    rows = samples(20_000, names=3)
    write(rows, tmp_path, split=by_name, size_limit=15_000, order=order)
    for split in SPLITS:
        sizes = [shard['raw_data']['bytes'] for shard in index(tmp_path / split)]
        assert len(sizes) >= 20
        assert max(sizes) <= 15_000
        assert sum(sizes) / len(sizes) >= 0.95 * 15_000


@pytest.mark.parametrize('order', ['shuffled', 'arrival'])
@pytest.mark.parametrize('spill', ['auto', False])
def test_150_splits_in_one_bundle_and_one_with_a_single_sample(
    order: str, spill: Any, tmp_path: Path
) -> None:
    rows = [{'part': f'p{number % 150:03}', 'n': number} for number in range(3000)]
    rows.append({'part': 'single', 'n': 3000})
    write(
        rows, tmp_path, {'part': 'str', 'n': 'int32'}, split='part', order=order, spill=spill,
        size_limit=400,
    )  # fmt: skip

    found = {path.parent.name: path.parent for path in tmp_path.glob('*/index.json')}
    assert len(found) == 151
    for name, folder in found.items():
        expected = sorted(row['n'] for row in rows if row['part'] == name)
        assert sorted(int(sample['n']) for sample in read_samples(folder)) == expected
    assert Counter(sample['part'] for sample in read_samples(tmp_path)) == Counter(
        row['part'] for row in rows
    )


def test_many_open_splits_are_not_all_kept_in_memory_in_arrival_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr('beam_mds.writing.encode._RUN_BYTES', 2_000)
    rows = [{'part': f'p{number % 50}', 'n': number} for number in range(5000)]
    write(
        rows, tmp_path, {'part': 'str', 'n': 'int32'}, split='part', order='arrival',
        size_limit=1000,
    )  # fmt: skip
    assert sorted(int(sample['n']) for sample in read_samples(tmp_path)) == list(range(5000))
    assert all(
        shard['raw_data']['bytes'] <= 1000
        for path in tmp_path.glob('*/index.json')
        for shard in index(path.parent)
    )


def test_the_split_column_stays_unless_it_is_dropped(tmp_path: Path) -> None:
    rows = [{'part': ['a', 'b'][number % 2], 'n': number} for number in range(20)]
    write(rows, tmp_path / 'kept', {'part': 'str', 'n': 'int32'}, split='part')
    assert next(read_samples(tmp_path / 'kept' / 'a')).keys() == {'part', 'n'}
    for name, columns in (('x', {'n': 'int32'}), ('y', {'part': 'str', 'n': 'int32'})):
        write(rows, tmp_path / name, columns, split='part', drop_split_column=True)
        assert sorted(int(sample['n']) for sample in read_samples(tmp_path / name / 'a')) == list(
            range(0, 20, 2)
        )
        assert all(sample.keys() == {'n'} for sample in read_samples(tmp_path / name))


@pytest.mark.parametrize('order', ['shuffled', 'arrival'])
def test_shards_come_first_then_the_indexes_of_splits_and_the_root_index_last(
    order: str, faults: Faults
) -> None:
    write(ROWS, f'{faults.folder}/out', split=by_name, order=order, size_limit=LIMIT)
    done = faults.calls('close', r'\.mds$') + faults.calls('rename', r'/index\.json$')
    changes = [path for path in faults.calls() if path.split(' ', 1)[0] in ('close', 'rename')]
    wanted = [path for path in changes if path.endswith(('.mds', '/index.json'))]
    shards = [path for path in done if path.endswith('.mds')]
    assert [path.split(' ', 1)[1] for path in wanted[: len(shards)]] == shards
    assert [path.split(' ', 1)[1] for path in wanted[len(shards) :]] == [
        *(f'out/{split}/index.json' for split in SPLITS), 'out/index.json',
    ]  # fmt: skip


def test_the_number_of_shards_is_by_split(tmp_path: Path) -> None:
    write(ROWS, tmp_path, split=by_name, num_shards={'train': 4, 'val/en': 2}, size_limit='1mb')
    assert [len(index(tmp_path / split)) for split in ('train', 'val/en', 'val/de')] == [4, 2, 1]
    assert_whole(tmp_path, {split: of_split(split) for split in SPLITS})
    write(ROWS, tmp_path / 'even', split=by_name, num_shards=3)
    assert [len(index(tmp_path / 'even' / split)) for split in SPLITS] == [3, 3, 3]


def test_hash_split_divides_a_dataset(tmp_path: Path) -> None:
    split = hash_split({'train': 0.8, 'val': 0.2}, key='number')
    write(ROWS, tmp_path, split=split, size_limit=LIMIT)
    expected: dict[str, list[Sample]] = {'train': [], 'val': []}
    for row in ROWS:
        expected[split(row)].append(row)
    assert_whole(tmp_path, expected)


@pytest.mark.parametrize('value', ['', '../x', '/x', 'a//b', None, 3])
def test_a_bad_split_fails_the_job_and_is_named(value: Any, tmp_path: Path) -> None:
    rows = [{'part': 'train', 'n': 1}, {'part': value, 'n': 2}]
    with pytest.raises(EncodingError, match='split'):
        write(rows, tmp_path / 'out', {'n': 'int32'}, split='part', drop_split_column=True)
    assert content(tmp_path) == {}


def test_an_existing_split_is_left_alone(tmp_path: Path) -> None:
    write(ROWS[:5], tmp_path / 'train', COLUMNS)
    before = content(tmp_path)
    with pytest.raises(TargetError, match=r'train/index\.json exists: it holds a dataset'):
        write(ROWS, tmp_path, split=by_name)
    assert content(tmp_path) == before


def test_the_result_tells_of_every_split(tmp_path: Path) -> None:
    import apache_beam as beam

    SEEN.clear()

    def build(pipeline: beam.Pipeline) -> None:
        result = pipeline | beam.Create(ROWS) | WriteToMDS(
            tmp_path, COLUMNS, split=by_name, size_limit=LIMIT
        )  # fmt: skip
        _ = result.index | 'index' >> beam.Map(see)
        _ = result.shards | 'shards' >> beam.Map(see)

    run(build)
    paths = [item for item in SEEN if isinstance(item, str)]
    assert sorted(paths) == sorted(str(tmp_path / part / 'index.json') for part in ('', *SPLITS))
    shards = [item for item in SEEN if not isinstance(item, str)]
    assert {(shard.split, shard.basename) for shard in shards} == {
        (split, shard['raw_data']['basename'])
        for split in SPLITS
        for shard in index(tmp_path / split)
    }

"""order='sorted': the dataset reads back in the order of the key."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest

from beam_mds import EncodingError, OptionError, WriteToMDS, read_samples
from beam_mds.indexes import read_index
from tests.helpers.writing import COLUMNS, Sample, batch, content, run, samples, table, write

ROWS = samples(2000)
LIMIT = 4000


def read(folder: Any) -> list[Sample]:
    return list(read_samples(folder))


def fetch(number: int) -> Sample:
    return {'number': number, 'square': number * number}


def test_25_numbers_fetched_in_parallel_are_written_in_order(tmp_path: Path) -> None:
    numbers = list(range(25))
    random.Random(0).shuffle(numbers)
    run(
        lambda pipeline: (
            pipeline
            | beam.Create(numbers)
            | beam.Reshuffle()
            | beam.Map(fetch)
            | WriteToMDS(tmp_path, {'number': 'int', 'square': 'int'}, order='sorted', key='number')
        ),
        '--direct_num_workers=3',
    )
    assert read(tmp_path) == [fetch(number) for number in range(25)]


@pytest.mark.parametrize(
    ('kind', 'spill'), [('dicts', 'auto'), ('table', False), ('batches', 'auto')]
)
@pytest.mark.parametrize(
    'key',
    [
        'number',
        'name',
        'data',
        lambda sample: -sample['number'],
        lambda sample: sample['number'] / 7,
        lambda sample: (sample['name'], -sample['number']),
    ],
    ids=['int', 'str', 'bytes', 'negative', 'float', 'tuple'],
)
def test_the_dataset_is_in_key_order(key: Any, kind: str, spill: Any, tmp_path: Path) -> None:
    shuffled = list(ROWS)
    random.Random(1).shuffle(shuffled)
    elements: dict[str, list[Any]] = {
        'dicts': shuffled,
        'table': [table(shuffled)],
        'batches': [batch(shuffled[at : at + 99]) for at in range(0, 2000, 99)],
    }
    write(
        elements[kind], tmp_path, order='sorted', key=key, spill=spill, size_limit=LIMIT,
        flags=['--direct_num_workers=3'],
    )  # fmt: skip

    found = read(tmp_path)
    order = key if callable(key) else lambda sample: sample[key]
    keys = [order(sample) for sample in found]
    assert keys == sorted(keys)
    assert sorted(found, key=lambda sample: sample['number']) == ROWS


def test_files_depend_on_the_samples_only(tmp_path: Path) -> None:
    how = {'order': 'sorted', 'key': 'name', 'size_limit': LIMIT, 'compression': 'zstd'}
    write(ROWS, tmp_path / 'a', **how)
    shuffled = list(ROWS)
    random.Random(2).shuffle(shuffled)
    write([table(shuffled)], tmp_path / 'b', spill=False, **how)
    write(shuffled, tmp_path / 'c', flags=['--direct_num_workers=4'], **how)
    assert content(tmp_path / 'a') == content(tmp_path / 'b') == content(tmp_path / 'c')
    write(ROWS, tmp_path / 'd', seed=1, **how)
    assert [s['name'] for s in read(tmp_path / 'd')] == [s['name'] for s in read(tmp_path / 'a')]
    assert read(tmp_path / 'd') != read(tmp_path / 'a')  # the seed orders the ties


@pytest.mark.parametrize('most', [None, 1000])
@pytest.mark.parametrize('shape', ['even', 'skewed', 'sizes'])
def test_shards_are_full(
    shape: str, most: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if most:  # fewer bounds than keys, as with much data
        monkeypatch.setattr('beam_mds.writing.sorting._MOST_BOUNDS', most)
    rng = np.random.default_rng(0)
    count, limit = 20_000, 60_000
    keys = rng.integers(0, 2**40, count)
    if shape == 'skewed':
        keys = (rng.exponential(1, count) ** 4 * 1e6).astype(np.int64)
    sizes = rng.integers(20, 80, count)
    if shape == 'sizes':
        sizes = np.where(keys < 2**38, 150, 25)
    elements = pa.table({'key': keys, 'data': [b'x' * size for size in sizes.tolist()]})
    write([elements], tmp_path, {'key': 'int64', 'data': 'bytes'}, order='sorted', key='key',
          size_limit=limit)  # fmt: skip
    filled = [shard.raw_data.bytes for shard in read_index(tmp_path)]
    assert len(filled) >= 20
    assert max(filled) <= limit
    assert np.mean(filled) >= 0.9 * limit
    found = [int(sample['key']) for sample in read(tmp_path)]
    assert found == sorted(keys.tolist())


def test_a_key_with_more_than_a_shard_is_cut_and_stays_in_its_place(tmp_path: Path) -> None:
    rows = [{'key': 5 if number % 3 else number, 'n': number} for number in range(3000)]
    write(rows, tmp_path, {'key': 'int32', 'n': 'int32'}, order='sorted', key='key', size_limit=900)
    found = read(tmp_path)
    assert [int(s['key']) for s in found] == sorted(row['key'] for row in rows)
    assert sorted(int(s['n']) for s in found) == list(range(3000))
    assert max(shard.raw_data.bytes for shard in read_index(tmp_path)) <= 900


def test_equal_samples_are_all_written(tmp_path: Path) -> None:
    write([{'n': 1}] * 500 + [{'n': 0}], tmp_path, {'n': 'int32'}, order='sorted', key='n',
          size_limit=400)  # fmt: skip
    assert [int(sample['n']) for sample in read(tmp_path)] == [0] + [1] * 500


def test_every_split_is_sorted(tmp_path: Path) -> None:
    write(ROWS, tmp_path, order='sorted', key='number', split=lambda s: f's{s["name"][-1]}',
          size_limit=LIMIT)  # fmt: skip
    for folder in tmp_path.glob('s*'):
        expected = [row for row in ROWS if f's{row["name"][-1]}' == folder.name]
        assert read(folder) == expected
    assert len(read(tmp_path)) == 2000


def test_appending_keeps_each_part_sorted(tmp_path: Path) -> None:
    for part in (ROWS[1000:], ROWS[:1000]):
        write(part, tmp_path, order='sorted', key='number', if_exists='append', size_limit=LIMIT)
    assert read(tmp_path) == [*ROWS[1000:], *ROWS[:1000]]


@pytest.mark.parametrize('value', [None, float('nan'), [1], True])
def test_a_key_without_an_order_fails_the_job_or_is_a_dead_letter(
    value: Any, tmp_path: Path
) -> None:
    rows = [{'n': 1}, {'n': 2}]

    def key(sample: Sample) -> Any:
        return value if sample['n'] == 2 else 1

    with pytest.raises(EncodingError, match=r'key .* has no order'):
        write(rows, tmp_path, {'n': 'int'}, order='sorted', key=key)
    sink = WriteToMDS(tmp_path, {'n': 'int'}, order='sorted', key=key).with_exception_handling()
    run(lambda pipeline: pipeline | beam.Create(rows) | sink)
    assert read(tmp_path) == [{'n': 1}]


def test_keys_of_several_kinds_fail_the_job(tmp_path: Path) -> None:
    with pytest.raises(EncodingError, match='the keys are of several kinds'):
        write(ROWS, tmp_path, order='sorted', key=lambda s: s['name'] if s['number'] % 2 else 3)
    assert 'index.json' not in content(tmp_path)


def test_options_that_do_not_fit_are_refused() -> None:
    with pytest.raises(OptionError, match="order='sorted' needs a key"):
        WriteToMDS('out', COLUMNS, order='sorted')
    with pytest.raises(OptionError, match="num_shards has no effect with order='sorted'"):
        WriteToMDS('out', COLUMNS, order='sorted', key='name', num_shards=3)

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from beam_mds import EncodingError, OptionError, hash_split
from beam_mds.writing.splits import check_split, splits_of

SAMPLES = [{'id': number, 'part': ['train', 'val/en'][number % 3 == 0]} for number in range(30)]
TABLE = pa.Table.from_batches(
    [pa.RecordBatch.from_pylist(SAMPLES[:7]), pa.RecordBatch.from_pylist(SAMPLES[7:])]
)


def names_of(split: Any, batch: Any) -> list[str]:
    names, codes = splits_of(split, batch)
    return [names[code] for code in codes]


@pytest.mark.parametrize('name', ['train', 'val/en', 'a b', 'ä', '...', 'x.y', '.hidden', 'a/b/c'])
def test_relative_folders_are_names(name: str) -> None:
    assert check_split(name) == name


@pytest.mark.parametrize(
    'name',
    ['', '/', '/abs', 'a/', 'a//b', '.', '..', 'a/../b', './a', '../a', 'a\\b', 'index.json',
     'a/index.json', 'gs://bucket/a', 'a\0b'],
)  # fmt: skip
def test_what_could_leave_the_folder_or_hide_the_index_is_no_name(name: str) -> None:
    with pytest.raises(OptionError, match="is no folder's name: expected a relative path like"):
        check_split(name)
    with pytest.raises(EncodingError, match="is no folder's name") as caught:
        splits_of('part', [{'part': 'train'}, {'part': name}])
    assert caught.value.column == 'part'


@pytest.mark.parametrize('split', ['part', lambda sample: sample['part']])
@pytest.mark.parametrize(
    'batch',
    [
        SAMPLES,
        TABLE,
        TABLE.slice(5, 10),
        TABLE.to_batches()[1],
        TABLE.set_column(1, 'part', TABLE['part'].dictionary_encode()),
        TABLE.set_column(1, 'part', TABLE['part'].cast(pa.large_string())),
    ],
    ids=['dicts', 'table', 'slice', 'batch', 'dictionary', 'large'],
)
def test_a_column_or_a_function_gives_the_split(split: Any, batch: Any) -> None:
    rows = batch if isinstance(batch, list) else batch.to_pylist()
    assert names_of(split, batch) == [row['part'] for row in rows]


@pytest.mark.parametrize('value', [None, 3, 1.5, b'train', True, ['train'], {'a': 1}, ('a',)])
def test_a_split_that_is_no_text_is_an_error_that_names_the_column(value: Any) -> None:
    for split, column in (('part', 'part'), (lambda sample: sample['part'], None)):
        with pytest.raises(EncodingError, match='split') as caught:
            splits_of(split, [{'part': 'train'}, {'part': value}])
        assert caught.value.column == column


def test_numpy_text_is_text() -> None:
    names, _ = splits_of('part', [{'part': np.str_('train')}])
    assert [type(name) for name in names] == [str]


def test_a_missing_column_is_an_error_that_names_it() -> None:
    for batch in ([{'id': 1}], pa.table({'id': [1]}), ['text'], [None]):
        with pytest.raises(EncodingError, match="column 'part': the sample has no such column"):
            splits_of('part', batch)


def test_hash_split_gives_the_shares() -> None:
    split = hash_split({'train': 0.9, 'val': 0.08, 'test': 0.02}, key='id')
    counts = Counter(split({'id': number}) for number in range(50_000))
    assert counts['train'] == pytest.approx(45_000, rel=0.01)
    assert counts['val'] == pytest.approx(4_000, rel=0.06)
    assert counts['test'] == pytest.approx(1_000, rel=0.12)


def test_hash_split_is_stable() -> None:
    split = hash_split({'a': 1, 'b': 1, 'c': 2}, key='id')
    assert ''.join(split({'id': number}) for number in range(24)) == 'abcbcccabacabcacccbccccc'
    assert split({'id': np.int64(3), 'other': 1}) == split({'id': 3})
    other = hash_split({'a': 1, 'b': 1, 'c': 2}, key='id', seed=1)
    assert [other({'id': n}) for n in range(99)] != [split({'id': n}) for n in range(99)]


def test_hash_split_keeps_a_key_together_and_takes_functions() -> None:
    by_part = hash_split({'a': 1, 'b': 1}, key=lambda sample: sample['part'])
    assert len({(sample['part'], by_part(sample)) for sample in SAMPLES}) == 2


@pytest.mark.parametrize('key', ['id', lambda sample: sample['id']])
def test_hash_split_is_the_same_for_dicts_and_arrow(key: Any) -> None:
    split = hash_split({'a': 1, 'b': 1}, key=key)
    assert names_of(split, TABLE) == names_of(split, SAMPLES) == list(map(split, SAMPLES))


def test_shares_of_zero_get_nothing() -> None:
    for shares in ({'none': 0, 'all': 1}, {'all': 1, 'none': 0}):
        split = hash_split(shares, key='id')
        assert {split({'id': number}) for number in range(1000)} == {'all'}


@pytest.mark.parametrize(
    ('shares', 'key', 'message'),
    [
        ({}, 'id', 'shares must be a dict'),
        (['train'], 'id', 'shares must be a dict'),
        ({'a': -1}, 'id', "share of 'a' must be 0 or more"),
        ({'a': 'x'}, 'id', "share of 'a' must be 0 or more"),
        ({'a': float('nan')}, 'id', "share of 'a' must be 0 or more"),
        ({'a': 0}, 'id', 'the shares of all splits are 0'),
        ({'/a': 1}, 'id', 'is no folder'),
        ({'a': 1}, 3, 'key must be a column or a function'),
        ({'a': 1}, None, 'key must be a column or a function'),
    ],
)
def test_wrong_shares_are_refused_at_once(shares: Any, key: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        hash_split(shares, key)


def test_a_sample_without_the_key_is_an_error() -> None:
    split = hash_split({'a': 1}, key='id')
    for batch in ([{}], pa.table({'x': [1]})):
        with pytest.raises(EncodingError, match="column 'id': the sample has no such column"):
            splits_of(split, batch)

"""Promise 5: shards are full, none is over the limit but for one larger sample, none is empty."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_mds import read_samples
from beam_mds.format import ShardInfo
from beam_mds.indexes import read_index
from tests.helpers.writing import COLUMNS, content, read, samples, write

ORDERS = pytest.mark.parametrize('order', ['shuffled', 'arrival'])


def assert_within(folder: Path, size_limit: int) -> list[ShardInfo]:
    """No shard is empty, or over the limit with more than one sample; the index is the folder."""
    index = read_index(folder)
    assert all(shard.samples >= 1 for shard in index)
    assert all(shard.raw_data.bytes <= size_limit or shard.samples == 1 for shard in index)
    names = {shard.stored.basename for shard in index}
    assert set(content(folder)) == {'index.json', *names}
    assert len(names) == len(index)
    return index


def mean_fill(index: list[ShardInfo], size_limit: int) -> float:
    """What part of the limit the shards use; the last one may be any size, so it counts too."""
    return float(np.mean([shard.raw_data.bytes / size_limit for shard in index]))


@given(
    lengths=st.lists(st.integers(0, 900), min_size=1, max_size=60),
    size_limit=st.integers(1, 3000),
    order=st.sampled_from(['shuffled', 'arrival', 'key', 'num_shards']),
    bundles=st.integers(1, 3),
)
@settings(max_examples=8, deadline=None)
def test_any_sizes_and_limit_give_no_shard_over_the_limit_and_none_empty(
    lengths: list[int], size_limit: int, order: str, bundles: int
) -> None:
    rows = [
        {'data': bytes(length), 'name': str(length % 3), 'number': number}
        for number, length in enumerate(lengths)
    ]
    options: dict[str, Any] = {
        'shuffled': {},
        'arrival': {'order': 'arrival'},
        'key': {'key': 'name'},
        'num_shards': {'num_shards': 2},
    }[order]

    with tempfile.TemporaryDirectory() as folder:
        write(
            rows, folder, size_limit=size_limit, flags=[f'--direct_num_workers={bundles}'],
            **options,
        )  # fmt: skip
        assert_within(Path(folder), size_limit)
        assert read(folder) == rows


@pytest.mark.parametrize(
    'options',
    [{}, {'key': 'name'}, {'order': 'arrival'}],
    ids=['shuffled', 'key', 'arrival'],
)
def test_twenty_shards_or_more_are_95_percent_full(options: dict[str, Any], tmp_path: Path) -> None:
    rows = samples(6000, seed=1, names=3000, largest=200)

    write(rows, tmp_path, size_limit=16_384, flags=['--direct_num_workers=4'], **options)

    index = assert_within(tmp_path, 16_384)
    assert read(tmp_path) == rows
    assert len(index) >= 20
    assert mean_fill(index, 16_384) >= 0.95


def test_a_thousand_small_shards_are_95_percent_full(tmp_path: Path) -> None:
    numbers = pa.RecordBatch.from_pydict({'a': np.arange(90_000, dtype=np.int64)})

    write([numbers], tmp_path, {'a': 'int64'}, size_limit=1200)

    index = assert_within(tmp_path, 1200)
    assert sorted(sample['a'] for sample in read_samples(tmp_path)) == list(range(90_000))
    assert len(index) > 1000
    assert mean_fill(index, 1200) >= 0.95


@ORDERS
def test_samples_larger_than_the_limit_get_a_shard_each(order: str, tmp_path: Path) -> None:
    rows = samples(7, largest=0)
    for row in rows:
        row['data'] = bytes(500)

    write(rows, tmp_path, size_limit=100, order=order)

    assert [shard.samples for shard in assert_within(tmp_path, 100)] == [1] * 7
    assert read(tmp_path) == rows


@ORDERS
def test_a_larger_sample_between_small_ones_gets_a_shard_of_its_own(
    order: str, tmp_path: Path
) -> None:
    rows = samples(50)
    for number in (0, 20, 49):
        rows[number]['data'] = bytes(5000)

    write(rows, tmp_path, size_limit=1000, order=order)

    index = assert_within(tmp_path, 1000)
    assert sum(shard.raw_data.bytes > 1000 for shard in index) == 3
    assert read(tmp_path) == rows


@pytest.mark.parametrize('spill', [True, False])
def test_one_key_with_20000_samples_loses_none_and_fills_shards(
    spill: bool, tmp_path: Path
) -> None:
    rows = [{'data': b'', 'name': 'same', 'number': number} for number in range(20_000)]

    write(
        [pa.Table.from_pylist(rows)], tmp_path, key='name', size_limit=16_384, spill=spill,
        flags=['--direct_num_workers=2'],
    )  # fmt: skip

    index = assert_within(tmp_path, 16_384)
    assert sum(shard.samples for shard in index) == 20_000
    assert sorted(sample['number'] for sample in read_samples(tmp_path)) == list(range(20_000))
    assert len(index) >= 20
    assert mean_fill(index, 16_384) >= 0.95


def test_hot_keys_are_cut_and_small_keys_stay_together_and_whole(tmp_path: Path) -> None:
    rng = random.Random(5)
    names = ['hot'] * 900 + ['warm'] * 400 + [f'small {number // 4}' for number in range(800)]
    rng.shuffle(names)
    rows = [
        {'data': rng.randbytes(20), 'name': name, 'number': number}
        for number, name in enumerate(names)
    ]

    write(rows, tmp_path, key='name', size_limit=4096, flags=['--direct_num_workers=3'])

    index = assert_within(tmp_path, 4096)
    read_back = list(read_samples(tmp_path))
    assert sorted(read_back, key=lambda sample: sample['number']) == rows
    # Each key is one run of neighbours,
    runs = [(name, len(list(group))) for name, group in groupby(s['name'] for s in read_back)]
    assert dict(runs) == Counter(names)
    assert len(runs) == len(set(names))
    # and a key that fits a shard lies in one.
    shard_of = np.repeat(np.arange(len(index)), [shard.samples for shard in index]).tolist()
    shards: dict[str, set[int]] = {}
    for sample, shard in zip(read_back, shard_of, strict=True):
        shards.setdefault(sample['name'], set()).add(shard)
    assert len(shards.pop('hot')) > 5
    assert len(shards.pop('warm')) > 2
    assert set(map(len, shards.values())) == {1}


@pytest.mark.parametrize('key', [None, 'name'])
@pytest.mark.parametrize('spill', [True, False])
def test_many_copies_of_one_sample_are_all_there_in_full_shards(
    spill: bool, key: str | None, tmp_path: Path
) -> None:
    same = {'data': bytes(30), 'name': 'same', 'number': 10**6}
    rows = [*samples(200), *[same] * 2000]

    write(rows, tmp_path, size_limit=4096, spill=spill, key=key, flags=['--direct_num_workers=2'])

    index = read_index(tmp_path)
    assert read(tmp_path) == rows
    assert len(index) >= 20
    assert max(shard.raw_data.bytes for shard in index) <= 4096
    assert mean_fill(index, 4096) >= 0.95


def test_shards_of_copies_have_names_of_their_own(tmp_path: Path) -> None:
    rows = [{'data': bytes(30), 'name': 'same', 'number': 0}] * 300

    write(rows, tmp_path, size_limit=4096)

    assert len(assert_within(tmp_path, 4096)) > 3
    assert read(tmp_path) == rows


def test_shards_are_full_when_many_samples_have_more_copies_than_fit(tmp_path: Path) -> None:
    rows = [
        {'data': bytes(30), 'name': 'same', 'number': number} for number in range(25)
    ] * 80  # 80 copies are a little more than a shard of 4096

    write(rows, tmp_path, COLUMNS, size_limit=4096)

    index = read_index(tmp_path)
    assert read(tmp_path) == sorted(rows, key=lambda sample: sample['number'])
    assert max(shard.raw_data.bytes for shard in index) <= 4096
    assert len(index) >= 20
    assert mean_fill(index, 4096) >= 0.95

"""max_samples_per_shard, and advice on datasets of many small shards."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_mds import OptionError, WriteToMDS
from beam_mds.format import cut_points
from beam_mds.indexes import read_index
from beam_mds.writing import planning
from tests.helpers.writing import COLUMNS, read, samples, write

ROWS = samples(1000)


def counts(folder: Path) -> list[int]:
    return [shard.samples for shard in read_index(folder)]


@pytest.mark.parametrize(
    'how',
    [
        {},
        {'spill': False},
        {'order': 'arrival'},
        {'order': 'arrival', 'size_limit': 8000},  # of some 120 samples
        {'order': 'arrival', 'flags': ['--direct_num_workers=3']},
        {'order': 'sorted', 'key': 'number'},
        {'key': 'name'},
        {'num_shards': 3},
        {'split': lambda sample: f's{sample["number"] % 3}'},
    ],
)
def test_no_shard_has_more_samples_and_most_are_full(how: dict[str, Any], tmp_path: Path) -> None:
    write(ROWS, tmp_path, max_samples_per_shard=30, **how)
    assert read(tmp_path) == ROWS
    assert max(counts(tmp_path)) <= 30
    if not how.get('num_shards'):
        assert np.mean(counts(tmp_path)) >= 0.85 * 30


def test_whichever_limit_is_reached_first_ends_a_shard(tmp_path: Path) -> None:
    rows = [{'data': b'x' * (1000 if number % 2 else 0), 'n': number} for number in range(400)]
    write(rows, tmp_path, {'data': 'bytes', 'n': 'int32'}, max_samples_per_shard=20,
          size_limit=8000, order='sorted', key='n')  # fmt: skip
    shards = read_index(tmp_path)
    assert max(shard.raw_data.bytes for shard in shards) <= 8000
    assert max(shard.samples for shard in shards) <= 20
    few = [{'data': b'', 'n': number} for number in range(400)]
    write(few, tmp_path / 'few', {'data': 'bytes', 'n': 'int32'}, max_samples_per_shard=20)
    assert 20 <= len(counts(tmp_path / 'few')) <= 22


def test_copies_of_a_sample_are_limited_too(tmp_path: Path) -> None:
    write([{'n': 1}] * 1000, tmp_path, {'n': 'int32'}, max_samples_per_shard=64, size_limit=2000)
    assert sum(counts(tmp_path)) == 1000
    assert max(counts(tmp_path)) <= 64


def test_one_sample_a_shard(tmp_path: Path) -> None:
    write(ROWS[:20], tmp_path, max_samples_per_shard=1)
    assert counts(tmp_path) == [1] * 20


@pytest.mark.parametrize('value', [0, -1, 1.5, '7', True])
def test_a_wrong_number_is_refused_at_once(value: Any) -> None:
    with pytest.raises(OptionError, match='max_samples_per_shard must be an int from 1'):
        WriteToMDS('out', COLUMNS, max_samples_per_shard=value)


@given(st.lists(st.integers(0, 50), max_size=60), st.integers(1, 200), st.integers(1, 20))
def test_cuts_keep_both_limits(sizes: list[int], capacity: int, most: int) -> None:
    ends = cut_points(np.array(sizes, np.int64), capacity, most)
    starts = [0, *ends[:-1]] if ends else []
    assert (ends[-1] if ends else 0) == len(sizes)
    for start, end in zip(starts, ends, strict=True):
        weight = sum(size + 4 for size in sizes[start:end])
        assert 0 < end - start <= most
        assert weight <= capacity or end - start == 1
        if end < len(sizes):  # and the next one does not fit
            assert weight + sizes[end] + 4 > capacity or end - start == most


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2**64 - 1), st.integers(1, 60)), min_size=1, max_size=300),
    st.integers(60, 500),
    st.integers(1, 12),
)
def test_planned_ranges_keep_both_limits_where_buckets_fit(
    rows: list[tuple[int, int]], capacity: int, most: int
) -> None:
    first = np.array(sorted(row[0] for row in rows), np.uint64)
    weights = np.array([row[1] for row in rows], np.int64)
    coarse = planning.measure(first, weights)
    hot = planning.hot_buckets(coarse, capacity, most)
    second = np.arange(len(first)).astype(np.uint64) << np.uint64(54)
    fine = planning.measure_hot(first, second, weights, hot)
    plan = planning.full_plan(coarse, fine, capacity, most)
    ranges = [(start, stop) for _, start, stop in plan.split(first, second)]
    assert sum(stop - start for start, stop in ranges) == len(first)
    if not len(hot):
        for start, stop in ranges:
            assert stop - start <= most
            assert weights[start:stop].sum() <= capacity


def test_many_small_shards_are_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, 'beam_mds'):
        write(ROWS, tmp_path / 'a', size_limit=700)
        write(ROWS, tmp_path / 'b', num_shards=200)
        write(ROWS, tmp_path / 'c', max_samples_per_shard=5)
        write(ROWS, tmp_path / 'd', size_limit=700, split=lambda s: f's{s["number"] % 2}')
        write(ROWS, tmp_path / 'e', size_limit=20_000)
    messages = [record.getMessage() for record in caplog.records]
    found = [message for message in messages if 'on average' in message]
    assert len(found) == 4
    for message, advice in zip(
        found,
        [
            "set a larger size_limit: the default is '64mb'",
            'set a smaller num_shards, or none',
            'set a larger max_samples_per_shard, or none',
            'set a larger size_limit, or fewer splits',
        ],
        strict=True,
    ):
        assert 'bytes on average: readers open each of them; ' in message
        assert message.endswith(advice)


def test_a_large_index_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr('beam_mds.writing.commit._LARGE_INDEX', 1000)
    with caplog.at_level(logging.WARNING, 'beam_mds'):
        write(ROWS[:10], tmp_path / 'small')
        write(ROWS, tmp_path / 'large', size_limit=10_000)
    size = (tmp_path / 'large' / 'index.json').stat().st_size
    (message,) = [r.getMessage() for r in caplog.records if 'index.json has' in r.getMessage()]
    assert f'index.json has {size} bytes, and every reader loads it whole; set a larger' in message

"""The key of WriteToMDS: samples of one key stay together, and what a key may be."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from beam_mds import OptionError, WriteToMDS, read_samples
from tests.helpers.writing import COLUMNS, content, samples, write


@pytest.mark.parametrize('key', ['name', lambda sample: sample['name']])
def test_samples_of_one_key_are_adjacent(key: Any, tmp_path: Path) -> None:
    rows = samples(200, names=9)

    write(rows, tmp_path, key=key, size_limit=3000)

    names = [sample['name'] for sample in read_samples(tmp_path)]
    changes = sum(a != b for a, b in pairwise(names))
    assert len(names) == 200
    assert changes == 8


def test_a_key_of_several_columns_is_a_tuple(tmp_path: Path) -> None:
    rows = samples(100, names=3)

    write(rows, tmp_path, key=lambda sample: (sample['name'], sample['number'] % 2 == 0))

    keys = [(sample['name'], sample['number'] % 2) for sample in read_samples(tmp_path)]
    assert sum(a != b for a, b in pairwise(keys)) == 5


def test_numpy_values_of_a_key_function_count_as_the_plain_ones(tmp_path: Path) -> None:
    rows = samples(100)
    write(rows, tmp_path / 'a', size_limit=1000, key=lambda s: s['number'] % 5)
    write(rows, tmp_path / 'b', size_limit=1000, key=lambda s: np.int64(s['number'] % 5))

    assert len(content(tmp_path / 'a')) > 5
    assert content(tmp_path / 'a') == content(tmp_path / 'b')


@pytest.mark.parametrize('make', [np.int64, np.str_, np.float64])
def test_numpy_values_in_the_tuple_of_a_key_function_count_as_the_plain_ones(
    make: Any, tmp_path: Path
) -> None:
    plain = {np.int64: int, np.str_: str, np.float64: float}[make]
    rows = samples(100)
    write(rows, tmp_path / 'a', size_limit=1000, key=lambda s: (1, plain(s['number'] % 5)))
    write(rows, tmp_path / 'b', size_limit=1000, key=lambda s: (1, make(s['number'] % 5)))

    assert len(content(tmp_path / 'a')) > 5
    assert content(tmp_path / 'a') == content(tmp_path / 'b')


@pytest.mark.parametrize('order', ['shuffled', 'arrival'])
@pytest.mark.parametrize('key', [lambda sample: [sample['name']], lambda sample: sample.missing])
def test_a_key_function_that_cannot_work_fails_the_job(
    key: Any, order: str, tmp_path: Path
) -> None:
    if order == 'arrival':
        with pytest.raises(OptionError, match="key has no effect with order='arrival'"):
            WriteToMDS(tmp_path, COLUMNS, key=key, order=order)
        return

    with pytest.raises(Exception, match=r"the key function returned list|no attribute 'missing'"):
        write(samples(3), tmp_path, key=key)

    assert content(tmp_path) == {}

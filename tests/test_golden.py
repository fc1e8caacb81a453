"""A fixed input gives fixed names and bytes, from release to release and machine to machine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from beam_mds import read_samples
from beam_mds.indexes import read_index
from tests.data.make_golden import COLUMNS, DATASETS, FOLDER, make, samples
from tests.helpers.writing import content


@pytest.fixture(scope='module')
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp('golden')
    make(folder)
    return folder


@pytest.mark.parametrize('name', DATASETS)
def test_a_fixed_input_gives_exactly_these_names_and_bytes(name: str, made: Path) -> None:
    wanted = content(FOLDER / name)

    assert len(wanted) > 3
    assert content(made / name) == wanted


def test_the_golden_folder_holds_nothing_else() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(DATASETS)


@pytest.mark.parametrize('name', DATASETS)
def test_the_golden_files_hold_the_samples(name: str) -> None:
    rows = sorted(read_samples(FOLDER / name), key=lambda row: int(row['doc']['row']))

    wanted = samples()
    assert len(rows) == len(wanted) == 80
    for row, sample in zip(rows, wanted, strict=True):
        assert row.keys() == COLUMNS.keys()
        for column in ('array', 'vector'):
            assert row[column].dtype == sample[column].dtype
            assert np.array_equal(row[column], sample[column])
        for column in ('data', 'doc', 'number', 'name ë'):
            assert row[column] == sample[column]


@pytest.mark.parametrize(
    ('name', 'plan'),
    [
        (
            'shuffled',
            [
                ('shard.00000.c2a2c705fd26ae74.mds', 27, 4088),
                ('shard.00001.f297c0573ffa1905.mds', 28, 4077),
                ('shard.00002.376d41eee344a658.mds', 25, 3868),
            ],
        ),
        (
            'key',
            [
                ('shard.00000.32e7ae4da422903a.mds', 25, 3895),
                ('shard.00001.65cb94ac8f420e67.mds', 25, 3709),
                ('shard.00002.f01eeb9f09676eff.mds', 15, 2338),
                ('shard.00003.605faeded7932e2c.mds', 15, 2347),
            ],
        ),
        (
            'num_shards',
            [
                ('shard.00000.47a093adb0d0f1fe.mds', 24, 3606),
                ('shard.00001.3ce2ab3e971920ba.mds', 29, 4249),
                ('shard.00002.46bbd552250a9fe8.mds', 27, 4127),
            ],
        ),
    ],
)
def test_the_golden_plan_is_this_one_also_when_the_files_are_made_anew(
    name: str, plan: list[tuple[str, int, int]], made: Path
) -> None:
    index = read_index(made / name)

    assert [(s.raw_data.basename, s.samples, s.raw_data.bytes) for s in index] == plan

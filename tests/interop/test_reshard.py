"""StreamingDataset, the real reader, on datasets of MDSWriter that were written anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.helpers.writing import COLUMNS, samples
from tests.interop.conftest import Judge
from tests.interop.judge import portable
from tests.interop.test_pipeline import as_read, by_number
from tests.test_reshard import reshard

pytestmark = pytest.mark.interop

ROWS = samples(300, names=3)


@pytest.mark.parametrize('compression', [None, 'zstd', 'br'])
@pytest.mark.parametrize(
    'how',
    [
        {'size_limit': 9000, 'compression': None, 'hashes': ['xxh64']},
        {'order': 'sorted', 'key': 'number', 'compression': 'zstd:7'},
        {'split': 'name', 'compression': 'gz'},
        {'order': 'arrival', 'compression': 'snappy', 'size_limit': 2000},
    ],
)
def test_a_dataset_of_the_real_writer_is_read_after_it_was_written_anew(
    judge: Judge, tmp_path: Path, compression: str | None, how: dict[str, Any]
) -> None:
    judge.write(
        ROWS, tmp_path / 'old', COLUMNS, compression=compression, hashes=['sha1'], size_limit=3000
    )
    reshard(tmp_path / 'old', tmp_path / 'new', **how)
    validate = 'xxh64' if 'hashes' in how else 'sha1'
    read = judge.read(tmp_path / 'new', validate_hash=validate)
    assert by_number(read) == [as_read(row) for row in ROWS]
    if how.get('order') == 'sorted':
        assert read == by_number(read)


def test_renamed_and_chosen_columns_are_read(judge: Judge, tmp_path: Path) -> None:
    judge.write(ROWS, tmp_path / 'old', COLUMNS, size_limit=3000)
    reshard(
        tmp_path / 'old',
        tmp_path / 'new',
        columns=['name', 'number'],
        rename={'number': 'a'},
        where='number % 2 == 0',
        order='sorted',
        key='a',
    )
    wanted = [{'a': row['number'], 'name': row['name']} for row in ROWS[::2]]
    assert [row['name'] for row in judge.read(tmp_path / 'new')] == portable(
        [row['name'] for row in wanted]
    )[1:]
    assert len(judge.read(tmp_path / 'new')) == 150

"""Where samples lie between encoding and writing, and that nothing of it stays."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.runners.portability.portable_runner import PortableRunner

from beam_mds import read_samples
from beam_mds.indexes import read_index
from tests.helpers.faulty import Faults
from tests.helpers.writing import content, read, samples, write

ROWS = samples(60)
LIMIT = 1200


@pytest.fixture
def temp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The machine's folder for temporary files."""
    folder = tmp_path / 'temp'
    folder.mkdir()
    monkeypatch.setattr(tempfile, 'tempdir', str(folder))
    return folder


def test_inline_blocks_touch_no_file_but_shards_and_index(faults: Faults, temp: Path) -> None:
    write(ROWS, f'{faults.folder}/out', size_limit=LIMIT, spill=False)

    created = faults.calls('create')
    assert len(created) == 5
    assert [
        name for name in created if '/shard.' not in name and '/.beam-mds-index' not in name
    ] == []


def test_true_puts_run_files_beside_the_dataset_and_removes_them(faults: Faults) -> None:
    write(ROWS, f'{faults.folder}/out', size_limit=LIMIT, spill=True)

    (run_file,) = faults.calls('create', r'\.run$')
    assert run_file.startswith('out/.beam-mds-spill-')
    assert faults.calls('delete', r'\.run$') == [run_file]
    assert len(faults.files('out')) == 5
    assert read(f'{faults.folder}/out') == ROWS


def test_a_folder_gets_the_run_files_and_is_empty_afterwards(faults: Faults) -> None:
    write(ROWS, f'{faults.folder}/out', size_limit=LIMIT, spill=f'{faults.folder}/runs/')

    (run_file,) = faults.calls('create', r'\.run$')
    assert run_file.startswith('runs/')
    assert faults.files('runs') == []
    assert len(faults.files('out')) == 5


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The spill folders that a write would remove, and that stay for this test."""
    folders: list[str] = []
    monkeypatch.setattr('beam_mds.writing.commit.storage.delete_folder', folders.append)
    return folders


@pytest.mark.parametrize('kind', ['FnApiRunner', 'portable'])
def test_auto_uses_the_temporary_folder_for_a_remote_output_on_a_local_runner(
    kind: str, faults: Faults, temp: Path, kept: list[str]
) -> None:
    how: dict[str, Any] = {}
    if kind == 'portable':
        flags = ['--job_endpoint=embed', '--environment_type=LOOPBACK']
        how = {'runner': PortableRunner(), 'flags': flags}

    write(ROWS, f'{faults.folder}/out', size_limit=LIMIT, **how)

    assert faults.calls('', r'\.run$') == []
    (folder,) = kept
    assert Path(folder).parent == temp
    assert len(content(Path(folder))) == 1
    assert read(f'{faults.folder}/out') == ROWS


def test_auto_lies_beside_a_local_dataset(tmp_path: Path, temp: Path, kept: list[str]) -> None:
    write(ROWS, tmp_path / 'out', size_limit=LIMIT)

    (folder,) = kept
    assert folder.startswith(f'{tmp_path}/out/.beam-mds-spill-')
    assert len(content(Path(folder))) == 1
    assert content(temp) == {}


def test_nothing_is_left_in_the_temporary_folder(faults: Faults, temp: Path) -> None:
    write(ROWS, f'{faults.folder}/out', size_limit=LIMIT)

    assert read(f'{faults.folder}/out') == ROWS
    assert list(temp.iterdir()) == []


@pytest.mark.parametrize(('key', 'spill'), [(None, True), (None, False), ('number', False)])
def test_more_samples_than_fit_one_block_give_the_same_files(
    key: str | None, spill: bool, tmp_path: Path
) -> None:
    # 40 MB in one bundle: several inline blocks. Made in a step: Create pickles what it gets.
    columns = {'number': 'int32', 'text': 'str'}
    one = 'Create' >> beam.Create([(0, 10_000)]) | 'Make' >> beam.Map(_large)
    starts = [(start, 1000) for start in range(9000, -1, -1000)]
    many = 'Create' >> beam.Create(starts) | 'Make' >> beam.Map(_large)

    write(one, tmp_path / 'a', columns, size_limit='8mb', key=key, spill=spill)
    write(
        many, tmp_path / 'b', columns, size_limit='8mb', key=key, flags=['--direct_num_workers=4']
    )

    numbers = set()
    for sample in read_samples(tmp_path / 'a'):
        assert sample['text'] == _text(sample['number'])
        numbers.add(int(sample['number']))
    index = read_index(tmp_path / 'a')
    assert numbers == set(range(10_000))
    assert sum(shard.samples for shard in index) == 10_000
    assert len(index) == 5
    assert content(tmp_path / 'a') == content(tmp_path / 'b')


def _text(number: int) -> str:
    return chr(65 + number % 26) * 4000


def _large(span: tuple[int, int]) -> pa.RecordBatch:
    start, count = span
    numbers = np.arange(start, start + count, dtype=np.int32)
    return pa.RecordBatch.from_pydict({'number': numbers, 'text': [*map(_text, numbers)]})

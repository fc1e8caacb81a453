"""WriteToMDS on gs://, against an emulator of Cloud Storage."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from apache_beam.io.filesystems import FileSystems

from beam_mds import EncodingError, StorageError, TargetError
from beam_mds.indexes import read_index
from beam_mds.storage import list_folder
from beam_mds.writing import commit
from tests.helpers.writing import content, read, samples, write

ROWS = samples(80)
LIMIT = 1500


def assert_exact(folder: str, rows: list[Any], **how: Any) -> None:
    """The folder holds the dataset, and nothing else."""
    index = read_index(folder)
    assert len(index) > 2
    assert read(folder, **how) == rows
    listed = {shard.stored.basename: shard.stored.bytes for shard in index}
    found = list_folder(folder)
    assert found.pop('index.json')
    assert found == listed


@pytest.fixture
def temp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The machine's folder for temporary files."""
    monkeypatch.setattr(tempfile, 'tempdir', str(tmp_path))
    return tmp_path


@pytest.mark.parametrize('spill', ['auto', False, True])
@pytest.mark.parametrize('order', ['shuffled', 'arrival'])
def test_a_dataset_in_a_bucket_is_complete_and_read_back(
    order: str, spill: Any, gcs_bucket: str, temp: Path
) -> None:
    write(
        ROWS, f'{gcs_bucket}/set/', order=order, spill=spill, size_limit=LIMIT,
        compression='zstd', hashes=['sha1'],
    )  # fmt: skip

    assert_exact(f'{gcs_bucket}/set', ROWS, validate_hash='sha1')
    assert list_folder(gcs_bucket).keys() == {
        f'set/{name}' for name in list_folder(f'{gcs_bucket}/set')
    }
    assert content(temp) == {}


def test_a_bucket_gets_the_same_files_as_a_local_folder(gcs_bucket: str, temp: Path) -> None:
    write(ROWS, temp / 'local', size_limit=LIMIT)
    write(ROWS, gcs_bucket, size_limit=LIMIT)

    files = {}
    for name in list_folder(gcs_bucket):
        with FileSystems.open(f'{gcs_bucket}/{name}', compression_type='uncompressed') as file:
            files[name] = file.read()

    assert len(files) > 3
    assert files == content(temp / 'local')


@pytest.mark.parametrize('order', ['shuffled', 'arrival'])
def test_a_rerun_after_a_failure_leaves_only_the_dataset(
    order: str, gcs_bucket: str, temp: Path
) -> None:
    bad = [*ROWS, {**ROWS[0], 'number': -(2**31) - 1}]
    with pytest.raises(EncodingError, match=r"column 'number' \(int32\)"):
        write(bad, gcs_bucket, order=order, size_limit=LIMIT, spill=True)
    assert 'index.json' not in list_folder(gcs_bucket)
    for name in [f'shard.{1:032x}.mds', '.beam-mds-spill-1/a.run', '.beam-mds-index-1.json']:
        with FileSystems.create(f'{gcs_bucket}/{name}', compression_type='uncompressed') as file:
            file.write(b'left')

    write(ROWS, gcs_bucket, order=order, size_limit=LIMIT, spill=True)

    assert_exact(gcs_bucket, ROWS)


def test_a_bucket_with_a_dataset_is_refused_and_untouched(gcs_bucket: str, temp: Path) -> None:
    write(ROWS, gcs_bucket, size_limit=LIMIT)
    before = list_folder(gcs_bucket)

    with pytest.raises(TargetError, match=r'gs://.*/index\.json exists'):
        write(samples(9, seed=4), gcs_bucket)

    assert list_folder(gcs_bucket) == before
    assert_exact(gcs_bucket, ROWS)


def test_a_folder_like_the_datasets_name_is_another_one(gcs_bucket: str, temp: Path) -> None:
    write(ROWS, f'{gcs_bucket}/set-2', size_limit=LIMIT)
    leftover = f'{gcs_bucket}/set-2/shard.00000.{1:016x}.mds'
    with FileSystems.create(leftover, compression_type='uncompressed') as file:
        file.write(b'x')

    write(ROWS[:60], f'{gcs_bucket}/set', size_limit=LIMIT)

    assert_exact(f'{gcs_bucket}/set', ROWS[:60])
    assert FileSystems.exists(leftover)


# Without `?`, `#` and `%`: the emulator does not quote them in the links that it gives out.
@pytest.mark.parametrize('name', ['set [x] [!a] **', "ümläut ß 中文 + {a} '&="])
def test_special_characters_in_the_name_of_a_folder_work(
    name: str, gcs_bucket: str, temp: Path
) -> None:
    write(ROWS, f'{gcs_bucket}/{name}', size_limit=LIMIT, spill=True)

    assert_exact(f'{gcs_bucket}/{name}', ROWS)


def test_run_files_stay_in_the_temporary_folder_until_a_run_of_that_output_succeeds(
    gcs_bucket: str, temp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ('a', 'b')
    with monkeypatch.context() as patch:
        patch.setattr(commit, '_check_files', _fail)
        for name in names:
            with pytest.raises(StorageError, match='on purpose'):
                write(ROWS, f'{gcs_bucket}/{name}', size_limit=LIMIT)
    runs = content(temp)
    assert len(runs) == 2
    assert all('beam-mds-spill-' in name for name in runs)

    write(ROWS, f'{gcs_bucket}/a', size_limit=LIMIT)

    assert_exact(f'{gcs_bucket}/a', ROWS)
    (left,) = content(temp).items()
    assert left in runs.items()
    write(ROWS, f'{gcs_bucket}/b', size_limit=LIMIT)
    assert content(temp) == {}


def _fail(*arguments: object) -> None:
    raise StorageError('on purpose')

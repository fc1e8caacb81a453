"""StreamingDataset reads what we merge; our reader reads what `merge_index` of streaming writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from beam_mds import merge_indexes, read_samples
from tests.helpers.merging import files, listed
from tests.helpers.writing import COLUMNS, samples, write
from tests.interop.conftest import Judge
from tests.interop.judge import portable

pytestmark = pytest.mark.interop

COMPRESSIONS = [None, 'zstd', 'gz']


def numbers(read: list[dict[str, Any]]) -> list[int]:
    return [int(np.frombuffer(sample['number'][3], '<i4')[0]) for sample in read]


def assert_read(judge: Judge, folder: Path, wanted: list[dict[str, Any]], new: Path) -> None:
    """The reader, from a remote folder and from the folder itself, and ours give these samples."""
    portable_rows = [portable({**row, 'number': np.int32(row['number'])}) for row in wanted]
    assert judge.read(new, remote=str(folder)) == portable_rows
    assert list(read_samples(folder)) == wanted
    assert judge.read(folder) == portable_rows  # the last: it may unpack files beside the index


@pytest.mark.parametrize('compression', COMPRESSIONS)
@pytest.mark.parametrize('slash', ['', '/'])
def test_datasets_of_both_writers_at_any_depth_are_read_in_order(
    compression: str | None, slash: str, judge: Judge, tmp_path: Path
) -> None:
    rows, out = samples(500), tmp_path / 'out'
    how = {'compression': compression, 'hashes': ['sha1']}
    # In the order of their folders; MDSWriter wants an empty one, so the root's is first.
    judge.write(rows[:100], out, COLUMNS, size_limit=2000, **how)
    judge.write(rows[100:200], out / 'a-9', COLUMNS, size_limit=3000, **how)
    write(rows[200:300], out / 'a-10', key='number', order='sorted', size_limit=4000, **how)
    judge.write(rows[300:400], out / 'b' / 'x' / 'y', COLUMNS, size_limit=5000, **how)
    write(rows[400:], out / 'b' / 'x' / 'z', key='number', order='sorted', **how)

    merged = merge_indexes(f'{out}{slash}', expect=5)

    assert merged.samples == 500
    assert len(listed(out)) > 10
    assert_read(judge, out, rows, tmp_path / 'new')


def test_parts_of_different_compression_are_read_as_one(judge: Judge, tmp_path: Path) -> None:
    rows, out = samples(300), tmp_path / 'out'
    for part, compression in enumerate(COMPRESSIONS):
        part_rows = rows[part * 100 : part * 100 + 100]
        how = {'compression': compression, 'hashes': ['md5'] if part else []}
        judge.write(part_rows, out / f'{part}', COLUMNS, size_limit=2000, **how)

    merge_indexes(out)

    assert_read(judge, out, rows, tmp_path / 'new')


def test_copies_are_read(judge: Judge, tmp_path: Path) -> None:
    rows, out = samples(200), tmp_path / 'out'
    for part in range(2):
        part_rows = rows[part * 100 : part * 100 + 100]
        judge.write(part_rows, tmp_path / f'from-{part}' / 'train', COLUMNS, size_limit=2000)

    merge_indexes(out, [tmp_path / 'from-0/train', tmp_path / 'from-1/train'], copy=True)

    assert_read(judge, out, rows, tmp_path / 'new')


@pytest.mark.parametrize('compression', COMPRESSIONS)
def test_what_the_reader_s_own_merge_writes_is_read_and_merged_again(
    compression: str | None, judge: Judge, tmp_path: Path
) -> None:
    rows, out = samples(400), tmp_path / 'out'
    how = {'compression': compression, 'size_limit': 2000}
    for part in range(4):
        part_rows = rows[part * 100 : part * 100 + 100]
        judge.write(part_rows, out / 'x' / f'{part}', COLUMNS, **how)
    judge.ask('merge', out=out / 'x')
    theirs = listed(out / 'x')

    assert sorted(row['number'] for row in read_samples(out / 'x')) == list(range(400))
    write([{**rows[0], 'number': 400}], out / 'y', COLUMNS)
    merge_indexes(out, expect=5)

    assert listed(out)[:-1] == [f'x/{name}' for name in sorted(theirs)]
    assert numbers(judge.read(tmp_path / 'new', remote=str(out))) == list(range(401))


def test_an_index_of_ours_has_the_shards_of_the_reader_s_own(judge: Judge, tmp_path: Path) -> None:
    rows, out = samples(300), tmp_path / 'out'
    for part in range(3):
        judge.write(rows[part * 100 : part * 100 + 100], out / f'{part}', COLUMNS, size_limit=2000)
    judge.ask('merge', out=out)
    theirs = {name: data for name, data in files(out).items() if name != 'index.json'}
    shards = sorted(listed(out))

    merged = merge_indexes(out)

    assert merged.samples == 300
    assert listed(out) == shards
    assert {name: data for name, data in files(out).items() if name != 'index.json'} == theirs

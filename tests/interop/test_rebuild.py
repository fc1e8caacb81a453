"""What rebuild-index lists, the real reader reads; what MDSWriter wrote, verify finds healthy."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from beam_mds import rebuild_index, verify_dataset
from beam_mds.format import INDEX_NAME, decompress
from beam_mds.indexes import read_index
from tests.helpers.writing import COLUMNS, samples, write
from tests.interop.conftest import Judge
from tests.interop.test_pipeline import as_read, by_number

pytestmark = pytest.mark.interop

ROWS = samples(300)
WANTED = [as_read(row) for row in ROWS]
LIMIT = 3000

COMPRESSIONS = pytest.mark.parametrize('compression', [None, 'br', 'bz2', 'gz', 'snappy', 'zstd:7'])


def lose(out: Path) -> bytes:
    index = (out / INDEX_NAME).read_bytes()
    (out / INDEX_NAME).unlink()
    return index


def healthy(out: Path) -> bool:
    return list(verify_dataset(out, deep=True)) == []


@COMPRESSIONS
def test_a_rebuilt_dataset_of_ours_is_read(
    compression: str | None, judge: Judge, tmp_path: Path
) -> None:
    out = tmp_path / 'out'
    write(ROWS, out, size_limit=LIMIT, compression=compression, split=of_parity)
    for place in ('', 'train', 'val/en'):
        lose(out / place)
    rebuild_index(out, hashes=['sha1'])
    assert len(read_index(out)) > 5
    remote = judge.read(tmp_path / 'new', remote=str(out), validate_hash='sha1')
    assert by_number(remote) == WANTED
    assert by_number(judge.read(out, validate_hash='sha1')) == WANTED


def of_parity(sample: Any) -> str:
    return 'val/en' if sample['number'] % 2 else 'train'


@COMPRESSIONS
def test_a_dataset_of_mdswriter_is_healthy_and_its_index_comes_back_to_the_byte(
    compression: str | None, judge: Judge, tmp_path: Path
) -> None:
    out = tmp_path / 'out'
    hashes = ['sha1', 'xxh64']
    judge.write(ROWS, out, COLUMNS, size_limit=LIMIT, compression=compression, hashes=hashes)
    assert healthy(out)
    lost = lose(out)
    rebuilt = rebuild_index(out, hashes='same')
    assert (rebuilt.samples, rebuilt.findings) == (300, [])
    assert (out / INDEX_NAME).read_bytes() == lost
    assert judge.read(tmp_path / 'new', remote=str(out), validate_hash='xxh64') == WANTED
    rebuild_index(out, if_exists='overwrite')
    assert judge.read(out) == WANTED
    assert healthy(out)  # also with the unpacked copies that the reader left


def test_nested_datasets_of_mdswriter_are_rebuilt_as_one(judge: Judge, tmp_path: Path) -> None:
    out = tmp_path / 'out'
    for place, rows in (('a', ROWS[:80]), ('b/c/10', ROWS[200:]), ('b/c/9', ROWS[80:200])):
        judge.write(rows, out / place, COLUMNS, size_limit=LIMIT, compression='zstd')
    rebuild_index(out)
    assert healthy(out)
    assert judge.read(tmp_path / 'new', remote=str(out)) == WANTED  # 9 before 10


def test_what_merge_index_merged_is_healthy_where_it_merged_well(
    judge: Judge, tmp_path: Path
) -> None:
    for root, places in (('flat', ('a', 'b')), ('deep', ('a', 'b/c'))):
        for place, rows in zip(places, (ROWS[:80], ROWS[80:]), strict=True):
            judge.write(rows, tmp_path / root / place, COLUMNS, size_limit=LIMIT)
        judge.ask('merge', out=tmp_path / root)
    assert healthy(tmp_path / 'flat')
    # It lists c/shard.00000.mds, which is none.
    kinds = {(one.kind, Path(one.file).parent.name) for one in verify_dataset(tmp_path / 'deep')}
    assert kinds == {('missing', 'c'), ('index', 'deep')}


def test_samples_larger_than_a_shard_of_mdswriter_are_healthy(judge: Judge, tmp_path: Path) -> None:
    """It writes an empty shard first."""
    out = tmp_path / 'out'
    judge.write(ROWS[:5], out, COLUMNS, size_limit=100)
    assert [info.samples for info in read_index(out)] == [0, 1, 1, 1, 1, 1]
    assert healthy(out)
    lost = lose(out)
    rebuild_index(out)
    assert (out / INDEX_NAME).read_bytes() == lost


def test_unpacked_shards_whose_packed_files_are_gone_are_read_and_stay(
    judge: Judge, tmp_path: Path
) -> None:
    """With a compression in their entries, the reader would delete them."""
    out = tmp_path / 'out'
    judge.write(ROWS, out, COLUMNS, size_limit=LIMIT, compression='zstd')
    packed = [out / info.stored.basename for info in read_index(out)]
    for file in packed[::2]:
        file.with_suffix('').write_bytes(decompress('zstd', file.read_bytes()))
        file.unlink()
    files = sorted(path.name for path in out.iterdir())
    lose(out)
    rebuild_index(out, hashes=['sha1'])
    assert healthy(out)
    assert judge.read(tmp_path / 'new', remote=str(out), validate_hash='sha1') == WANTED
    assert judge.read(out) == WANTED
    assert set(files) <= {path.name for path in out.iterdir()}


def test_a_damaged_shard_of_mdswriter_is_left_out_and_the_others_are_read(
    judge: Judge, tmp_path: Path
) -> None:
    out = tmp_path / 'out'
    judge.write(ROWS, out, COLUMNS, size_limit=LIMIT, compression='gz')
    index = read_index(out)
    victim = out / index[2].stored.basename
    victim.write_bytes(victim.read_bytes()[:-9])
    (finding,) = verify_dataset(out)
    assert finding[:2] == (str(victim), 'size')
    (finding,) = rebuild_index(out, if_exists='overwrite').findings
    assert finding[:2] == (str(victim), 'compression')
    first = sum(info.samples for info in index[:2])
    wanted = WANTED[:first] + WANTED[first + index[2].samples :]
    shutil.move(victim, tmp_path)
    assert judge.read(tmp_path / 'new', remote=str(out)) == wanted

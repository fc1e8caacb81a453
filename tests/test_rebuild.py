"""Lost indexes, made anew: the same as before, and without a damaged shard."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from apache_beam.io.filesystems import FileSystems

from beam_mds import (
    FormatError,
    OptionError,
    StorageError,
    TargetError,
    rebuild,
    rebuild_index,
    storage,
    verify_dataset,
)
from beam_mds.format import INDEX_NAME, compress, decompress, hex_digest, parse_index
from beam_mds.indexes import read_index
from beam_mds.storage import list_folder
from beam_mds.writing.planning import numbered
from tests.data import make_golden
from tests.helpers.damage import rename_as_mdswriter, shards
from tests.helpers.faulty import Fault, Faults
from tests.helpers.writing import Sample, read, samples, write

ROWS = samples(120)
LIMIT = 1500

COMPRESSIONS = pytest.mark.parametrize('compression', [None, 'br', 'bz2', 'gz:1', 'snappy', 'zstd'])


def make(out: Path, rows: list[Sample] = ROWS, **how: Any) -> bytes:
    """Writes a dataset of several shards and loses its index; gives that."""
    write(rows, out, **{'size_limit': LIMIT, **how})
    assert len(read_index(out)) > 2
    return lose(out)


def lose(out: Path) -> bytes:
    """Deletes an index and gives what it was."""
    index = (out / INDEX_NAME).read_bytes()
    (out / INDEX_NAME).unlink()
    return index


def index_of(out: Path) -> bytes:
    return (out / INDEX_NAME).read_bytes()


def assert_whole(out: Path, rows: list[Sample] = ROWS) -> None:
    """The dataset is readable, healthy, and holds these samples."""
    assert read(out) == rows
    assert list(verify_dataset(out, deep=True)) == []


# What is rebuilt


@COMPRESSIONS
@pytest.mark.parametrize('order', ['shuffled', 'sorted'])
def test_a_lost_index_comes_back_to_the_byte(
    order: Any, compression: str | None, tmp_path: Path
) -> None:
    key = 'number' if order == 'sorted' else None
    lost = make(tmp_path, order=order, key=key, compression=compression, hashes=['sha1', 'md5'])
    rebuilt = rebuild_index(tmp_path, hashes='same')
    assert index_of(tmp_path) == lost
    assert rebuilt.index == f'{tmp_path}/{INDEX_NAME}'
    assert (rebuilt.shards, rebuilt.samples) == (len(read_index(tmp_path)), len(ROWS))
    assert rebuilt.findings == []
    assert_whole(tmp_path)


@pytest.mark.parametrize('name', make_golden.DATASETS)
def test_the_index_of_a_golden_dataset_comes_back_to_the_byte(name: str, tmp_path: Path) -> None:
    out = Path(shutil.copytree(make_golden.FOLDER / name, tmp_path / name))
    lost = lose(out)
    rebuild_index(out, hashes='same', deep=True)
    assert index_of(out) == lost


def test_the_order_inside_a_range_comes_back(tmp_path: Path) -> None:
    lost = make(tmp_path, num_shards=2)
    names = [info.stored.basename for info in parse_index(lost)]
    numbers = [number for number, _ in filter(None, map(numbered, names))]
    assert len(numbers) > 2 * len(set(numbers))
    assert names != sorted(names)
    rebuild_index(tmp_path)
    assert index_of(tmp_path) == lost


def test_lost_shards_of_a_range_do_not_matter(tmp_path: Path) -> None:
    lost = parse_index(make(tmp_path, num_shards=1))
    for info in lost[:-1]:
        (tmp_path / info.stored.basename).unlink()
    assert rebuild_index(tmp_path).findings == []
    assert read_index(tmp_path) == lost[-1:]


@COMPRESSIONS
def test_shards_without_hashes_in_their_names_come_back_in_natural_order(
    compression: str | None, tmp_path: Path
) -> None:
    write(ROWS, tmp_path, size_limit=LIMIT, compression=compression)
    rename_as_mdswriter(tmp_path)
    lost = lose(tmp_path)
    rebuild_index(tmp_path)
    assert index_of(tmp_path) == lost
    assert_whole(tmp_path)


def test_numbers_in_paths_are_numbers_and_sub_folders_count(tmp_path: Path) -> None:
    for part in (10, 9, 1):
        write(ROWS[part : part + 5], tmp_path / f'p{part}')
        lose(tmp_path / f'p{part}')
    write(ROWS[:1], tmp_path)
    lose(tmp_path)
    rebuild_index(tmp_path)
    places = [info.stored.basename.rpartition('/')[0] for info in read_index(tmp_path)]
    assert places == ['p1', 'p9', 'p10', '']
    assert len(read(tmp_path)) == 16


def test_shards_in_arrival_order_come_back_in_some_order(tmp_path: Path) -> None:
    lost = make(tmp_path, order='arrival', compression='zstd')
    rebuild_index(tmp_path)
    names = [info.stored.basename for info in read_index(tmp_path)]
    assert sorted(names) == sorted(info.stored.basename for info in parse_index(lost))
    assert_whole(tmp_path)


def test_a_split_dataset_comes_back_as_a_whole_and_by_split(tmp_path: Path) -> None:
    out = tmp_path / 'out'
    write(ROWS, out, split=of_parity, size_limit=LIMIT)
    lost = {place: lose(out / place) for place in ('', 'train', 'val/en')}
    for place in lost:
        rebuild_index(out / place)
    assert {place: index_of(out / place) for place in lost} == lost
    assert_whole(out)


def of_parity(sample: Any) -> str:
    return 'val/en' if sample['number'] % 2 else 'train'


# Hashes


@pytest.mark.parametrize('compression', [None, 'zstd'])
def test_hashes_are_recomputed_when_asked_for(compression: str | None, tmp_path: Path) -> None:
    make(tmp_path, compression=compression, hashes=['md5'])
    rebuild_index(tmp_path)
    for info in read_index(tmp_path):
        assert info.config.hashes == ()
        assert info.stored.hashes == info.raw_data.hashes == {}
    assert_whole(tmp_path)
    rebuild_index(tmp_path, hashes=['xxh64', 'sha1'], if_exists='overwrite')
    for info in read_index(tmp_path):
        stored = (tmp_path / info.stored.basename).read_bytes()
        raw = stored
        if compression is not None:
            raw = decompress(compression, stored, info.raw_data.bytes)
        assert info.config.hashes == ('sha1', 'xxh64')
        for file, data in ((info.stored, stored), (info.raw_data, raw)):
            assert file.hashes == {a: hex_digest(a, [data]) for a in ('sha1', 'xxh64')}
    assert_whole(tmp_path)
    rebuild_index(tmp_path, hashes='same', if_exists='overwrite')
    assert {tuple(info.stored.hashes) for info in read_index(tmp_path)} == {('md5',)}
    assert_whole(tmp_path)


def test_an_unknown_hash_or_option_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    for how, message in (
        ({'hashes': ['sha0']}, "^unknown hash 'sha0'"),
        ({'hashes': 'sam'}, "^unknown hash 'sam'"),
        ({'if_exists': 'append'}, "^if_exists must be 'error' or 'overwrite', got 'append'$"),
        ({'threads': 0}, '^threads must be 1 or more, got 0$'),
    ):
        make(tmp_path / 'out', if_exists='overwrite')
        with pytest.raises(OptionError, match=message):
            rebuild_index(tmp_path / 'out', **how)  # type: ignore[arg-type]
        assert not (tmp_path / 'out' / INDEX_NAME).exists()


# Damage


def assert_left_out(out: Path, victim: Path, kind: str, **how: Any) -> None:
    """The victim alone is found, and the others are listed."""
    files = {file.name for file in out.iterdir() if file.name != INDEX_NAME}
    rebuilt = rebuild_index(out, **{'if_exists': 'overwrite', **how})
    assert [(one.file, one.kind) for one in rebuilt.findings] == [(str(victim), kind)]
    assert {file.name for file in shards(out)} == files - {victim.name}
    assert rebuilt.shards == len(files) - 1
    assert rebuilt.samples == len(read(out))


@pytest.mark.parametrize('compression', [None, 'gz', 'zstd'])
@pytest.mark.parametrize('named', [True, False])
def test_a_damaged_shard_is_never_listed(
    named: bool, compression: str | None, tmp_path: Path
) -> None:
    write(ROWS, tmp_path, size_limit=LIMIT, compression=compression)
    if not named:
        rename_as_mdswriter(tmp_path)
    victim = shards(tmp_path)[1]
    whole = victim.read_bytes()
    outside = 'header' if compression is None else 'compression'
    for damage, kind in [
        (b'', outside),
        (whole[:5], outside),
        (whole[:-1], outside),
        (whole[: len(whole) // 2], outside),
        (whole + b'x', outside),
        (b'\xff' + whole[1:], outside),
    ]:
        victim.write_bytes(damage)
        assert_left_out(tmp_path, victim, kind)


def test_a_shard_with_a_damaged_config_is_never_listed(tmp_path: Path) -> None:
    write(ROWS, tmp_path, size_limit=LIMIT)
    rename_as_mdswriter(tmp_path)
    victim = shards(tmp_path)[1]
    whole = victim.read_bytes()
    for old, new in [
        (b'"mds"', b'"mdx"'),
        (b'"str"', b'"sty"'),
        (b'"hashes": []', b'"hashes": 55'),
        (b'"hashes": []', b'"hashes": [5'),
        (b'"compression": null', b'"compression": 1234'),
    ]:
        assert old in whole
        victim.write_bytes(whole.replace(old, new))
        assert_left_out(tmp_path, victim, 'config')


def test_a_flip_in_a_value_is_found_by_our_name_or_by_decoding(tmp_path: Path) -> None:
    write(ROWS, tmp_path, size_limit=LIMIT)
    victim = shards(tmp_path)[1]
    victim.write_bytes(victim.read_bytes().replace('ä'.encode(), b'\xc3\x00', 1))
    assert_left_out(tmp_path, victim, 'name')
    assert_left_out(tmp_path, victim, 'sample', deep=True)
    victim = victim.rename(tmp_path / 'other.mds')
    assert rebuild_index(tmp_path, if_exists='overwrite').findings == []
    assert_left_out(tmp_path, victim, 'sample', deep=True)


def test_a_shard_under_the_name_of_another_is_not_listed(tmp_path: Path) -> None:
    make(tmp_path)
    first, second = sorted(tmp_path.iterdir())[:2]
    shutil.copy(first, second)
    assert_left_out(tmp_path, second, 'name')


def test_a_packed_file_that_says_it_is_packed_otherwise_is_not_listed(tmp_path: Path) -> None:
    make(tmp_path, compression='zstd')
    victim = min(tmp_path.iterdir())
    raw = decompress('zstd', victim.read_bytes())
    victim.unlink()
    victim = victim.with_suffix('.gz')
    victim.write_bytes(compress('gz', [raw]))
    assert_left_out(tmp_path, victim, 'config')
    (finding,) = rebuild_index(tmp_path, if_exists='overwrite').findings
    assert finding.detail == "compression is 'zstd', the name ends with .gz"


def test_a_file_that_cannot_be_read_is_not_listed(tmp_path: Path, faults: Faults) -> None:
    make(faults.local / 'set')
    victim = min((faults.local / 'set').iterdir()).name
    faults.add(Fault('read', victim, error='permission', times=None))
    rebuilt = rebuild_index(f'{faults.folder}/set')
    (finding,) = rebuilt.findings
    assert finding[:2] == (f'{faults.folder}/set/{victim}', 'unreadable')
    assert victim not in {file.name for file in shards(faults.local / 'set')}


def test_a_file_that_ends_before_its_listed_size_is_not_listed(
    tmp_path: Path, faults: Faults
) -> None:
    make(faults.local / 'set')
    victim = min((faults.local / 'set').iterdir()).name
    faults.add(Fault('read', victim, keep=0, times=None))
    (finding,) = rebuild_index(f'{faults.folder}/set').findings
    assert finding.kind == 'unreadable'
    assert finding.detail.endswith(': 0 bytes from byte 0, expected 8')


def test_a_header_that_claims_more_than_the_file_holds_reads_nothing(
    tmp_path: Path, faults: Faults
) -> None:
    write(ROWS, faults.local / 'set', size_limit=LIMIT)
    rename_as_mdswriter(faults.local / 'set')
    victim = shards(faults.local / 'set')[0]
    victim.write_bytes(b'\xff' * 8 + victim.read_bytes()[8:])
    rebuilt = rebuild_index(f'{faults.folder}/set', if_exists='overwrite')
    assert [one.kind for one in rebuilt.findings] == ['header']
    assert faults.reads(victim.name) == [(0, 8)]


# What is read, and which file is taken


def test_of_a_raw_shard_only_the_header_is_read(faults: Faults) -> None:
    write(ROWS, faults.local / 'set', size_limit=LIMIT)
    rename_as_mdswriter(faults.local / 'set')
    victim = shards(faults.local / 'set')[0]
    size = victim.stat().st_size
    rebuild_index(f'{faults.folder}/set', if_exists='overwrite')
    assert 200 < sum(count for _, count in faults.reads(victim.name)) < size / 2
    for how in ({'hashes': ['sha1']}, {'deep': True}):
        faults.clear()
        rebuild_index(f'{faults.folder}/set', if_exists='overwrite', **how)  # type: ignore[arg-type]
        assert (0, size) in faults.reads(victim.name)


def unpack(file: Path) -> Path:
    """Unpacks a shard beside itself, as StreamingDataset does with keep_zip=True."""
    raw = file.with_suffix('')
    raw.write_bytes(decompress('zstd', file.read_bytes()))
    return raw


@pytest.mark.parametrize('named', [True, False])
def test_a_packed_shard_goes_before_its_unpacked_copy(named: bool, tmp_path: Path) -> None:
    write(ROWS, tmp_path, size_limit=LIMIT, compression='zstd', hashes=['sha1'])
    if not named:
        rename_as_mdswriter(tmp_path)
    lost = lose(tmp_path)
    for file in list(tmp_path.glob('*.zstd')):
        unpack(file)
    assert rebuild_index(tmp_path, hashes='same').findings == []
    assert index_of(tmp_path) == lost
    assert_whole(tmp_path)


@pytest.mark.parametrize('named', [True, False])
def test_an_unpacked_copy_stands_in_for_a_packed_shard_that_is_damaged_or_gone(
    named: bool, tmp_path: Path
) -> None:
    write(ROWS, tmp_path, size_limit=LIMIT, compression='zstd')
    if not named:
        rename_as_mdswriter(tmp_path)
    lose(tmp_path)
    damaged, gone = sorted(tmp_path.glob('*.zstd'))[:2]
    copies = [unpack(damaged), unpack(gone)]
    damaged.write_bytes(damaged.read_bytes()[:-1])
    gone.unlink()
    (finding,) = rebuild_index(tmp_path, hashes=['sha1'], deep=True).findings
    assert finding[:2] == (str(damaged), 'compression')
    infos = {info.stored.basename: info for info in read_index(tmp_path)}
    for copy in copies:
        info = infos[copy.name]
        # With a compression, StreamingDataset would take the file for a leftover and delete it.
        assert (info.zip_data, info.config.compression) == (None, None)
    assert read(tmp_path, validate_hash='sha1') == ROWS
    assert {one.kind for one in verify_dataset(tmp_path, deep=True)} == {'extra'}
    damaged.unlink()
    assert_whole(tmp_path)


def test_other_files_are_no_shards(tmp_path: Path) -> None:
    lost = make(tmp_path)
    for name in ('README', 'x.mds.tmp', 'x.mds.zst', '.beam-mds-spill-a/x.mds', 'a.mdsx', 'mds'):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text('x')
    assert rebuild_index(tmp_path).findings == []
    assert index_of(tmp_path) == lost


# What is refused


def test_an_index_that_is_there_stays_unless_it_is_to_be_overwritten(tmp_path: Path) -> None:
    lost = make(tmp_path)
    (tmp_path / INDEX_NAME).write_text('mine')
    with pytest.raises(TargetError) as caught:
        rebuild_index(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path}/index.json exists and stays as it is; if_exists='overwrite' (--overwrite) "
        'replaces it'
    )
    assert index_of(tmp_path) == b'mine'
    rebuild_index(tmp_path, if_exists='overwrite')
    assert index_of(tmp_path) == lost


def test_an_index_that_appears_meanwhile_stays(faults: Faults, monkeypatch: Any) -> None:
    make(faults.local / 'set')
    real = rebuild.dump_index

    def somebody_else(shards: Any) -> bytes:
        (faults.local / 'set' / INDEX_NAME).write_text('theirs')
        return real(shards)

    monkeypatch.setattr(rebuild, 'dump_index', somebody_else)
    with pytest.raises(TargetError, match='exists and stays as it is'):
        rebuild_index(f'{faults.folder}/set')
    assert index_of(faults.local / 'set') == b'theirs'


def test_no_shard_or_no_whole_one_is_an_error(tmp_path: Path) -> None:
    (tmp_path / 'x.txt').write_text('x')
    for folder in (tmp_path, tmp_path / 'nothing'):
        with pytest.raises(TargetError) as caught:
            rebuild_index(folder)
        assert str(caught.value) == (
            f'{folder}: no file in it or below is named like a shard: *.mds, *.mds.zstd, ...'
        )
    for name in 'abcde':
        (tmp_path / f'{name}.mds').write_bytes(b'')
    with pytest.raises(TargetError) as caught:
        rebuild_index(tmp_path)
    bad = ', '.join(
        f'{tmp_path}/{name}.mds (header: 0 bytes are too few for a shard)' for name in 'abc'
    )
    message = f'{tmp_path}: no shard is whole, so there is no index: {bad} and 2 more'
    assert str(caught.value) == message
    assert not (tmp_path / INDEX_NAME).exists()


def test_shards_of_different_columns_are_no_dataset(tmp_path: Path) -> None:
    write([{'n': 1}], tmp_path / 'a', {'n': 'int'})
    write([{'n': 1, 't': ''}], tmp_path / 'b', {'n': 'int8', 't': 'str'})
    first, second = (shards(tmp_path / name)[0].name for name in 'ab')
    with pytest.raises(FormatError) as caught:
        rebuild_index(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path}: a/{first} and b/{second} have different columns: 'n' is int and int8; "
        "'t' is not there and str; they are not of one dataset, so there is no index: move them "
        'into folders of their own'
    )
    assert not (tmp_path / INDEX_NAME).exists()


# Stores


def test_an_index_in_a_bucket_comes_back(gcs_bucket: str) -> None:
    write(ROWS, gcs_bucket, size_limit=LIMIT, compression='zstd', hashes=['sha1'])
    lost = storage.read(f'{gcs_bucket}/{INDEX_NAME}')
    files = list_folder(gcs_bucket)
    FileSystems.delete([f'{gcs_bucket}/{INDEX_NAME}'])
    rebuild_index(f'{gcs_bucket}/', hashes='same')
    assert storage.read(f'{gcs_bucket}/{INDEX_NAME}') == lost
    assert list_folder(gcs_bucket) == files  # nothing is left beside it


def test_a_folder_that_cannot_be_listed_or_written_is_an_error(faults: Faults) -> None:
    make(faults.local / 'set')
    for on, path in (('list', 'set'), ('rename', INDEX_NAME)):
        faults.clear()
        faults.add(Fault(on, path, error='permission', times=None))
        with pytest.raises(StorageError, match='Permission denied'):
            rebuild_index(f'{faults.folder}/set')
        assert not (faults.local / 'set' / INDEX_NAME).exists()
    faults.clear()
    faults.add(Fault('list', error='503'), Fault('read', 'shard', error='503', times=2))
    assert rebuild_index(f'{faults.folder}/set').findings == []


def test_pickles_are_not_run_and_the_result_is_read(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match='stored as pickle'):
        write([{'p': b'no pickle', 'n': 1}], tmp_path, {'p': 'pkl', 'n': 'int'})
    lost = lose(tmp_path)
    assert rebuild_index(tmp_path, deep=True).findings == []
    assert index_of(tmp_path) == lost


def test_index_json_itself_may_be_named(tmp_path: Path) -> None:
    lost = make(tmp_path)
    rebuild_index(tmp_path / INDEX_NAME)
    assert index_of(tmp_path) == lost

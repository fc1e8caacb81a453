from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from beam_mds import FormatError, OptionError, StorageError, read_samples, storage
from beam_mds.format import INDEX_NAME
from beam_mds.indexes import read_index
from beam_mds.writing.commit import Counts, commit
from beam_mds.writing.shardfile import store_shard
from beam_mds.writing.target import check_target
from tests.helpers.building import options
from tests.helpers.faulty import Fault, Faults
from tests.helpers.memory import peak_of

COLUMNS = {'n': 'int32', 'text': 'str'}
SAMPLES = [{'n': number, 'text': f'text {number}' * 9} for number in range(50)]


def make(out: str, compression: str | None = None) -> list[str]:
    """Writes a dataset of two shards; gives the names of its files."""
    given = options(out, COLUMNS, compression=compression, hashes=['sha1', 'xxh64'])
    target = check_target(given, None)
    fragments = [
        store_shard(given, '', [given.config.columns.encode_batch(part)], number)
        for number, part in enumerate((SAMPLES[:30], SAMPLES[30:]))
    ]
    commit(given, target, fragments, Counts(len(SAMPLES), len(SAMPLES), 0))
    return [fragment.stored.basename for fragment in fragments]


@pytest.fixture(params=[None, 'zstd', 'br'])
def compression(request: pytest.FixtureRequest) -> str | None:
    found: str | None = request.param
    return found


def test_samples_come_back_in_order_from_any_store(
    tmp_path: Path, faults: Faults, gcs_bucket: str, compression: str | None
) -> None:
    for out in (str(tmp_path / 'data [1]'), faults.folder + '/a b', gcs_bucket):
        make(out, compression)
        for hash_ in (None, 'sha1', 'xxh64'):
            assert list(read_samples(out, validate_hash=hash_)) == SAMPLES
        assert [info.samples for info in read_index(out + '/')] == [30, 20]


def test_a_path_may_be_pathlike(tmp_path: Path) -> None:
    make(str(tmp_path))
    assert list(read_samples(tmp_path)) == SAMPLES


def test_shards_are_read_one_after_another(faults: Faults) -> None:
    names = make(faults.folder)
    faults.clear()
    found = read_samples(faults.folder)
    next(found)
    assert faults.calls('open') == [INDEX_NAME, names[0]]


@pytest.mark.parametrize('validate_hash', [None, 'sha1'])
def test_a_damaged_file_is_an_error_that_names_it(
    tmp_path: Path, compression: str | None, validate_hash: str | None
) -> None:
    name = make(str(tmp_path), compression)[1]
    file = tmp_path / name
    good = file.read_bytes()
    for damaged in (bytes(len(good)), b'\xff' * len(good)):
        file.write_bytes(damaged)
        with pytest.raises(FormatError) as caught:
            list(read_samples(tmp_path, validate_hash=validate_hash))
        assert str(caught.value).startswith(f'{file}: ')


def test_one_wrong_bit_is_found_by_the_hash(tmp_path: Path, compression: str | None) -> None:
    name = make(str(tmp_path), compression)[0]
    file = tmp_path / name
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    with pytest.raises(FormatError, match=r'sha1 is [0-9a-f]{40}, the index says [0-9a-f]{40}'):
        list(read_samples(tmp_path, validate_hash='sha1'))


@pytest.mark.parametrize('change', [-1, 1])
def test_a_file_of_another_size_is_an_error_with_both_sizes(tmp_path: Path, change: int) -> None:
    name = make(str(tmp_path), 'zstd')[0]
    file = tmp_path / name
    size = file.stat().st_size
    file.write_bytes(file.read_bytes()[:-1] if change < 0 else file.read_bytes() + b'x')
    with pytest.raises(FormatError) as caught:
        list(read_samples(tmp_path))
    assert str(caught.value) == f'{file}: {size + change} bytes, the index says {size}'


def test_a_file_that_arrives_short_is_an_error(faults: Faults) -> None:
    name = make(faults.folder, 'zstd')[0]
    faults.add(Fault('read', name, keep=5, times=None))
    with pytest.raises(FormatError, match=rf'{name}: \d+ bytes, the index says'):
        list(read_samples(faults.folder))


def test_a_missing_shard_is_an_error_that_names_it_after_the_samples_before_it(
    tmp_path: Path,
) -> None:
    names = make(str(tmp_path))
    (tmp_path / names[1]).unlink()
    found = read_samples(tmp_path)
    assert list(itertools.islice(found, 30)) == SAMPLES[:30]
    with pytest.raises(StorageError, match=f'could not read .*{names[1]}'):
        next(found)


def test_a_folder_without_an_index_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r'could not read .*index\.json'):
        list(read_samples(tmp_path))


def test_an_index_that_is_none_is_an_error(tmp_path: Path) -> None:
    for data in (b'', b'{}', b'{"version": 1, "shards": []}', b'\xff'):
        (tmp_path / INDEX_NAME).write_bytes(data)
        with pytest.raises(FormatError, match=r'index\.json: no MDS index'):
            list(read_samples(tmp_path))


def test_a_hash_that_the_index_does_not_list_is_an_error(tmp_path: Path) -> None:
    make(str(tmp_path))
    with pytest.raises(FormatError, match='the index lists no md5 hash'):
        list(read_samples(tmp_path, validate_hash='md5'))


def test_another_number_of_samples_than_listed_is_an_error(tmp_path: Path) -> None:
    names = make(str(tmp_path))
    index = tmp_path / INDEX_NAME
    index.write_text(index.read_text().replace('"samples": 30', '"samples": 31'))
    with pytest.raises(FormatError, match=f'{names[0]}: 30 samples, the index says 31'):
        list(read_samples(tmp_path))


@pytest.mark.parametrize('samples', [2**30 - 10, 2**32 - 1])
def test_samples_that_a_header_and_the_index_only_claim_take_no_memory(
    tmp_path: Path, samples: int
) -> None:
    name = make(str(tmp_path))[0]
    file, index = tmp_path / name, tmp_path / INDEX_NAME
    size = file.stat().st_size
    file.write_bytes(samples.to_bytes(4, 'little') + b'\xff' * 4 + file.read_bytes()[8:])
    claims = index.read_text().replace('"samples": 30', f'"samples": {samples}')
    index.write_text(claims.replace(f'"bytes": {size}', f'"bytes": {2**32 - 1}'))

    def read() -> None:
        with pytest.raises(FormatError, match=f'{name}.*: '):
            list(read_samples(tmp_path))

    assert peak_of(read) < 24 << 20


def test_a_compressed_file_without_a_compression_is_an_error(tmp_path: Path) -> None:
    name = make(str(tmp_path), 'zstd')[0]
    index = tmp_path / INDEX_NAME
    index.write_text(index.read_text().replace('"compression": "zstd"', '"compression": null'))
    with pytest.raises(FormatError, match=f'{name}: the index lists it as a compressed file, and'):
        list(read_samples(tmp_path))


def test_what_is_no_path_is_refused_before_anything_is_read() -> None:
    with pytest.raises(OptionError, match='path must be a path as str'):
        list(read_samples(b'x'))  # type: ignore[arg-type]
    with pytest.raises(OptionError, match='no filesystem'):
        read_index('nope://x')


def test_a_busy_store_is_asked_again(faults: Faults) -> None:
    make(faults.folder)
    faults.add(Fault('open', 'shard', error='503', times=2), Fault('read', 'index', error='reset'))
    assert list(read_samples(faults.folder)) == SAMPLES
    assert storage.size_of(faults.folder + '/index.json') is not None

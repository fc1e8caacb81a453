"""The format library against mosaicml-streaming: shards, index entries, hashes, compression."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from beam_mds.errors import OptionError
from beam_mds.format import (
    ENCODINGS,
    HASHES,
    INDEX_NAME,
    Columns,
    FileInfo,
    Samples,
    Shard,
    ShardConfig,
    ShardInfo,
    compress,
    cut_points,
    decompress,
    dump_index,
    hex_digest,
    parse_index,
    shard_header,
)
from beam_mds.format.compression import check_compression, suffix
from tests.interop import generate
from tests.interop.conftest import Judge
from tests.interop.judge import do_versions, portable

pytestmark = pytest.mark.interop

_COMPRESSIONS = ('br', 'bz2', 'gz', 'snappy', 'zstd')
_SAMPLES = 1000


@pytest.fixture(scope='session')
def other_codecs(judge: Judge) -> str:
    """Why images that Pillow encodes cannot be compared; empty when they can."""
    theirs, ours = judge.ask('versions'), do_versions()
    names = [name for name in ours if name != 'numpy' and ours[name] != theirs[name]]
    return ', '.join(f'{name} is {ours[name]} here, {theirs[name]} there' for name in names)


def made_shard(config: ShardConfig, samples: Samples) -> bytes:
    """A shard as our library makes it."""
    return shard_header(config, samples.sizes) + samples.bytes.tobytes()


def made_index(config: ShardConfig, shards: list[bytes], folder: Path) -> bytes:
    """The index of our shards, under MDSWriter's names; compressed files are taken from it."""
    infos = []
    for number, data in enumerate(shards):
        name = f'shard.{number:05}.mds'
        hashes = {algo: hex_digest(algo, [data]) for algo in config.hashes}
        raw, zipped = FileInfo(name, len(data), hashes), None
        if config.compression:
            name += suffix(config.compression)
            stored = (folder / name).read_bytes()
            hashes = {algo: hex_digest(algo, [stored]) for algo in config.hashes}
            zipped = FileInfo(name, len(stored), hashes)
        count = int(np.frombuffer(data, '<u4', 1)[0])
        infos.append(ShardInfo(config, count, raw, zipped))
    return dump_index(infos)


def read_folder(folder: Path) -> list[dict[str, Any]]:
    """All samples of a dataset, read by our library."""
    samples = []
    for shard in parse_index((folder / INDEX_NAME).read_bytes()):
        data = (folder / shard.stored.basename).read_bytes()
        assert shard.stored.bytes == len(data)
        if shard.config.compression:
            data = decompress(shard.config.compression, data, shard.raw_data.bytes)
        read = list(Shard(data))
        assert len(read) == shard.samples
        samples += read
    return samples


def mixed_table() -> tuple[dict[str, str], list[dict[str, Any]]]:
    """A table with a column for every case whose bytes do not depend on Pillow."""
    cases = {
        f'{name} ë': case
        for name, case in generate.CASES.items()
        if name not in generate.NEED_SAME_CODECS and 'long' not in name
    }
    rng = random.Random(5)
    rows = [{name: make(rng) for name, (_, make) in cases.items()} for _ in range(_SAMPLES)]
    return {name: encoding for name, (encoding, _) in cases.items()}, rows


def test_the_generated_cases_cover_every_encoding_of_the_reader(judge: Judge) -> None:
    theirs = judge.ask('encodings')

    assert sorted(ENCODINGS) == theirs
    assert {encoding.partition(':')[0] for encoding, _ in generate.CASES.values()} == set(theirs)


@pytest.mark.parametrize('name', generate.CASES)
def test_our_shard_is_mdswriters_and_both_readers_read_it_alike(
    name: str, judge: Judge, other_codecs: str, tmp_path: Path
) -> None:
    if other_codecs and name in generate.NEED_SAME_CODECS:
        pytest.skip(f'Pillow has other codecs: {other_codecs}')
    encoding, make = generate.CASES[name]
    samples = [{'a': value} for value in generate.values(make, _SAMPLES)]
    judge.write(samples, tmp_path, {'a': encoding}, size_limit=None, hashes=['xxh64'])
    config = ShardConfig(Columns({'a': encoding}), None, ('xxh64',), None)

    ours = made_shard(config, config.columns.encode_batch(samples))

    assert ours == (tmp_path / 'shard.00000.mds').read_bytes()
    assert json.loads(made_index(config, [ours], tmp_path)) == json.loads(
        (tmp_path / INDEX_NAME).read_text()
    )
    assert portable(read_folder(tmp_path))[1:] == judge.read(tmp_path)


@pytest.mark.parametrize('size_limit', [1 << 14, 100_000])
def test_shards_of_a_mixed_table_are_cut_where_mdswriter_cuts_them(
    size_limit: int, judge: Judge, tmp_path: Path
) -> None:
    columns, rows = mixed_table()
    rows.sort(key=lambda row: len(row['bytes ë']))  # the first one fits
    judge.write(rows, tmp_path, columns, size_limit=size_limit, hashes=list(HASHES))
    config = ShardConfig(Columns(columns), None, HASHES, size_limit)
    samples = config.columns.encode_batch(rows)

    ends = cut_points(samples.sizes, config.capacity)
    starts = [0, *ends[:-1]]
    ours = [made_shard(config, samples.slice(a, b)) for a, b in zip(starts, ends, strict=True)]

    assert len(ours) > 5
    assert json.loads(made_index(config, ours, tmp_path)) == json.loads(
        (tmp_path / INDEX_NAME).read_text()
    )
    assert ours == [file.read_bytes() for file in sorted(tmp_path.glob('*.mds'))]


@pytest.mark.parametrize('compression', [*_COMPRESSIONS, 'zstd:7', 'br:1'])
def test_our_reader_reads_what_mdswriter_compressed(
    compression: str, judge: Judge, tmp_path: Path
) -> None:
    columns, rows = mixed_table()
    del rows[400:]
    judge.write(rows, tmp_path, columns, size_limit='2mb', compression=compression, hashes=['sha1'])
    config = ShardConfig(Columns(columns), compression, ('sha1',), 2 << 20)

    read = read_folder(tmp_path)

    samples = config.columns.encode_batch(rows)
    ends = cut_points(samples.sizes, config.capacity)
    starts = [0, *ends[:-1]]
    ours = [made_shard(config, samples.slice(a, b)) for a, b in zip(starts, ends, strict=True)]
    assert max(map(len, ours)) > 1 << 20  # frame faults hide in small files
    assert json.loads(made_index(config, ours, tmp_path)) == json.loads(
        (tmp_path / INDEX_NAME).read_text()
    )
    assert portable(read)[1:] == judge.read(tmp_path, validate_hash='sha1')


@pytest.mark.parametrize('compression', [*_COMPRESSIONS, 'zstd:1', 'zstd:19', 'br:0', 'gz:0'])
def test_the_reader_decompresses_what_we_compress_and_the_reverse(
    compression: str, judge: Judge, tmp_path: Path
) -> None:
    words = [random.Random(1).randbytes(8) for _ in range(500)]
    raw = b''.join(random.Random(2).choices(words, k=400_000))
    assert len(raw) > 1 << 20
    source, target = tmp_path / 'source', tmp_path / 'target'

    source.write_bytes(compress(compression, [raw[:777], memoryview(raw)[777:]]))
    judge.ask('decompress', name=compression, source=source, target=target)
    assert target.read_bytes() == raw

    source.write_bytes(raw)
    judge.ask('compress', name=compression, source=source, target=target)
    assert decompress(compression, target.read_bytes(), len(raw)) == raw


def test_exactly_the_readers_compressions_and_levels_are_accepted(judge: Judge) -> None:
    theirs = set(judge.ask('compressions'))
    levels = ('', ':', ':-1', ':07', ':x', *(f':{level}' for level in range(30)))

    accepted = set()
    for name in [family + level for family in (*_COMPRESSIONS, 'lz4', 'zst') for level in levels]:
        try:
            check_compression(name)
        except OptionError:
            continue
        accepted.add(name)

    assert accepted == theirs


def test_our_hashes_are_the_readers_with_the_same_digests(judge: Judge, tmp_path: Path) -> None:
    data = random.Random(3).randbytes(100_000)
    path = tmp_path / 'file'
    path.write_bytes(data)

    assert list(HASHES) == judge.ask('hashes')
    digests = {name: hex_digest(name, [data[:10], memoryview(data)[10:]]) for name in HASHES}
    assert digests == judge.ask('hash', path=path)


def test_the_golden_bytes_of_our_tests_are_the_writers(judge: Judge) -> None:
    from tests.format.golden import GOLDEN

    pairs = [(encoding, value()) for encoding, value, _ in GOLDEN]

    assert judge.ask('encode', values=judge.store(pairs)) == [made for _, _, made in GOLDEN]

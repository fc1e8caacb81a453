from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import xxhash
from hypothesis import example, given, settings
from hypothesis import strategies as st

from beam_mds import OptionError, StorageError
from beam_mds.format import (
    HASHES,
    Samples,
    Shard,
    ShardInfo,
    cut_points,
    decompress,
    hex_digest,
    shard_header,
)
from beam_mds.format import shard as shard_format
from beam_mds.reading.shardreader import ShardRef, read_shard
from beam_mds.writing import planning
from beam_mds.writing.shardfile import Fragment, store_shard
from tests.helpers.building import (
    OVERHEAD,
    Row,
    block,
    config,
    encoded,
    options,
    shards_of,
    store,
    with_config,
)
from tests.helpers.faulty import Fault, Faults

COMPRESSIONS = [None, 'br', 'bz2', 'gz', 'snappy', 'zstd', 'zstd:7']

# Few values, so that positions and samples come again; a sample has always the same second hash.
_rows = st.lists(
    st.tuples(st.integers(0, 3), st.binary(max_size=3) | st.just(b'x' * 40)).map(
        lambda row: (row[0], len(row[1]) % 3, row[1])
    ),
    min_size=1,
    max_size=40,
)


def naive_shards(rows: list[Row], capacity: int) -> list[list[bytes]]:
    """Sort all, then cut by MDSWriter's rule."""
    samples = [row[2] for row in sorted(rows)]
    ends = cut_points(np.array([len(sample) for sample in samples], np.int64), capacity)
    return [samples[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def in_blocks(rows: list[Row], rng: random.Random, keyed: bool = True) -> list[bytes]:
    """The samples in any order, in blocks of any size."""
    bag = list(rows)
    rng.shuffle(bag)
    parts = []
    while bag:
        size = rng.randint(1, len(bag))
        parts.append(block(bag[:size], keyed))
        bag = bag[size:]
    return parts


def info_of(fragment: Fragment, shard_config: shard_format.ShardConfig) -> ShardInfo:
    return ShardInfo(shard_config, fragment.samples, fragment.raw_data, fragment.zip_data)


# Gathering


@settings(deadline=None)
@given(_rows, st.integers(1, 150), st.randoms(use_true_random=False))
@example([(1, 2, b'b'), (1, 2, b'a'), (1, 2, b'c'), (1, 1, b'z')], 1000, random.Random(0))
@example([(1, 1, b'same')] * 200, 30, random.Random(1))
@example([(1, 1, b'same')] * 200 + [(1, 1, b'other')] * 200, 30, random.Random(2))
@example([(1, 1, b'x' * 500)] * 5 + [(1, 0, b'')] * 50, 30, random.Random(3))
def test_samples_are_sorted_by_position_and_bytes_and_cut_whatever_the_blocks(
    rows: list[Row], capacity: int, rng: random.Random
) -> None:
    expected = naive_shards(rows, capacity)
    assert shards_of(in_blocks(rows, rng), capacity) == expected


def test_equal_positions_with_other_bytes_are_ordered_by_bytes() -> None:
    rows = [(7, 0, bytes([number])) for number in range(10)]
    for seed in range(5):
        parts = in_blocks(rows, random.Random(seed), keyed=False)
        assert shards_of(parts, 1000) == [[row[2] for row in rows]]


@pytest.mark.parametrize('keyed', [False, True])
def test_many_copies_are_neither_lost_nor_doubled_and_fill_their_shards(keyed: bool) -> None:
    capacity, copy = 1000, b'c' * 46
    rows = [(5, 5 * keyed, copy)] * 900 + [(5, 5 * keyed, b'other')] * 3 + [(4, 0, b'first')]
    results = [
        shards_of(in_blocks(rows, random.Random(seed), keyed), capacity) for seed in range(3)
    ]
    assert results[0] == results[1] == results[2] == naive_shards(rows, capacity)
    copies = [shard for shard in results[0] if set(shard) == {copy}]
    assert {len(shard) for shard in copies[1:-1]} == {capacity // (len(copy) + OVERHEAD)}
    assert sum(shard.count(copy) for shard in results[0]) == 900


def test_the_shards_are_the_same_without_collapsing_copies() -> None:
    # The same capacity decides when copies are collapsed and where shards are cut; so the same
    # samples are gathered with much room, and cut afterwards.
    rows = [(5, 5, b'c' * 46)] * 300 + [(5, 5, b'd' * 30)] * 300
    parts = in_blocks(rows, random.Random(0))
    (uncut,) = shards_of(parts, 10**9)
    ends = cut_points(np.array([len(sample) for sample in uncut]), 1000)
    whole = [uncut[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    assert shards_of(parts, 1000) == whole


def test_a_million_copies_are_held_as_a_few_shards() -> None:
    import tracemalloc

    from beam_mds.writing.shardfile import gather

    copy = b'c' * 1000
    one = block([(5, 5, copy)] * 1000)  # compressed: 1 MB becomes little
    tracemalloc.start()
    try:
        gathered = gather((one for _ in range(100)), 100_000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 20e6  # of 100 MB
    assert sum(len(shard) for shard in gathered.shards()) == 100_000


def test_a_sample_above_the_capacity_is_alone_in_its_shard() -> None:
    rows = [(1, 0, b'a'), (2, 0, b'x' * 500), (3, 0, b'b'), (4, 0, b'c')]
    assert shards_of([block(rows)], 100) == [[b'a'], [b'x' * 500], [b'b', b'c']]
    assert shards_of([block(rows[1:2] * 3)], 100) == [[b'x' * 500]] * 3


def test_spilled_and_inline_blocks_give_the_same_shards(tmp_path: Path) -> None:
    rows = [(number, number, b'x' * (number % 50)) for number in range(200)]
    halves = rows[::2], rows[1::2]
    inline = shards_of([block(half) for half in halves], 500)
    assert shards_of([block(half, True, str(tmp_path)) for half in halves], 500) == inline


# Storing


@pytest.mark.parametrize('compression', COMPRESSIONS)
def test_a_stored_shard_is_read_back_with_every_compression_and_hash(
    tmp_path: Path, compression: str | None
) -> None:
    values = [b'%d' % number * 9 for number in range(500)]
    shard_config = config(compression=compression, hashes=HASHES)
    samples = [
        Samples.of([encoded(value) for value in part]) for part in (values[:99], values[99:])
    ]
    fragment = store_shard(with_config(str(tmp_path), shard_config), '', samples, 12)

    (file,) = tmp_path.iterdir()
    data = file.read_bytes()
    stored = fragment.stored
    assert (file.name, len(data)) == (stored.basename, stored.bytes)
    suffix = '' if compression is None else '.' + compression.partition(':')[0]
    assert file.name.endswith('.mds' + suffix)
    assert fragment.raw_data.basename == file.name.removesuffix(suffix)
    assert planning.OWN_SHARD.fullmatch(file.name)
    assert stored.hashes == {name: hex_digest(name, [data]) for name in HASHES}

    raw = data if compression is None else decompress(compression, data, fragment.raw_data.bytes)
    assert len(raw) == fragment.raw_data.bytes
    assert fragment.raw_data.hashes == {name: hex_digest(name, [raw]) for name in HASHES}
    assert [sample['data'] for sample in Shard(raw)] == values
    assert (fragment.number, fragment.part, fragment.samples) == (12, 0, 500)
    for name in HASHES:
        shard = list(read_shard(ShardRef(str(tmp_path), info_of(fragment, shard_config), name)))
        assert len(shard) == 500


@pytest.mark.parametrize('compression', [None, 'zstd'])
def test_the_name_holds_the_number_and_the_hash_of_the_stored_bytes(
    tmp_path: Path, compression: str | None
) -> None:
    (fragment,) = store(
        str(tmp_path), [block([(1, 1, encoded(b'a'))])], config(compression=compression), 7
    )
    data = (tmp_path / fragment.stored.basename).read_bytes()
    digest = xxhash.xxh3_64_hexdigest(data)
    assert fragment.stored.basename.startswith(f'shard.00007.{digest}.mds')


def test_names_and_bytes_are_a_function_of_the_content(tmp_path: Path) -> None:
    rows = [(number % 5, number, encoded(b'%d' % number)) for number in range(100)]
    shard_config = config(300, compression='zstd', hashes=('sha1',))
    runs = []
    for seed in range(3):
        out = tmp_path / str(seed)
        fragments = store(str(out), in_blocks(rows, random.Random(seed)), shard_config)
        files = {file.name: file.read_bytes() for file in out.iterdir()}
        assert len(files) == len(fragments) > 3
        runs.append((fragments, files))
    assert runs[0] == runs[1] == runs[2]
    other = store(str(tmp_path / 'x'), [block([*rows, (9, 9, encoded(b'new'))])], shard_config)
    assert [f.stored.basename for f in other[:-1]] == [f.stored.basename for f in runs[0][0][:-1]]
    assert other[-1].stored.basename != runs[0][0][-1].stored.basename


def test_no_shard_of_a_range_is_over_size_limit_and_parts_count_up(tmp_path: Path) -> None:
    rows = [(0, number, encoded(b'x' * (number % 90))) for number in range(300)]
    shard_config = config(1000)
    fragments = store(str(tmp_path), [block(rows)], shard_config, 3)
    assert [(f.number, f.part) for f in fragments] == [(3, part) for part in range(len(fragments))]
    assert max(f.raw_data.bytes for f in fragments) <= shard_config.size_limit
    assert min(f.samples for f in fragments) > 0
    assert sum(f.samples for f in fragments) == 300


def test_two_shards_of_one_range_with_the_same_samples_are_one_file_listed_twice(
    tmp_path: Path,
) -> None:
    fragments = store(str(tmp_path), [block([(1, 1, encoded(b'x' * 92))] * 30)], config(1000))
    assert [f.samples for f in fragments] == [10, 10, 10]
    assert len(list(tmp_path.iterdir())) == len({f.stored.basename for f in fragments})


def test_shards_in_arrival_order_have_names_of_their_own(tmp_path: Path) -> None:
    samples = [Samples.of([encoded(b'a')])]
    names = {store_shard(options(tmp_path), '', samples).stored.basename for _ in range(3)}
    assert len(names) == 3
    assert all(planning.OWN_SHARD.fullmatch(name) and len(name) == 42 for name in names)


def test_a_finished_shard_is_not_sent_again(faults: Faults) -> None:
    out = faults.folder + '/out'
    parts = [block([(number, 0, encoded(b'%d' % number)) for number in range(100)])]
    first = store(out, parts, config(300, hashes=('xxh64',)))
    sent = faults.calls('create')
    assert len(sent) == len(first) > 2
    assert store(out, parts, config(300, hashes=('xxh64',))) == first
    assert faults.calls('create') == sent


def test_a_shard_that_an_attempt_left_short_is_sent_again(faults: Faults) -> None:
    out = faults.folder + '/out'
    parts = [block([(1, 0, encoded(b'abc'))])]
    (fragment,) = store(out, parts, config())
    path = faults.local / 'out' / fragment.stored.basename
    good = path.read_bytes()
    path.write_bytes(good[:-1])
    assert store(out, parts, config()) == [fragment]
    assert path.read_bytes() == good


def test_a_write_that_fails_names_the_shard_and_the_cause(faults: Faults) -> None:
    faults.add(Fault('close', error='enospc', times=None))
    with pytest.raises(StorageError, match=r'shard\.00000\.[0-9a-f]{16}\.mds.*No space left'):
        store(faults.folder + '/out', [block([(1, 0, encoded(b'abc'))])], config())
    assert faults.files() == []


def test_a_shard_of_4_gib_is_refused_by_its_real_size(tmp_path: Path) -> None:
    shard_config = options(tmp_path, size_limit=None, num_shards=1).config
    room = 2**32 - shard_config.empty_size - OVERHEAD
    with pytest.raises(OptionError, match=r'a shard of 4294967296 bytes: offsets are uint32'):
        shard_header(shard_config, np.array([room]))
    assert len(shard_header(shard_config, np.array([room - 1]))) == 2**32 - room


def test_a_shard_that_is_too_large_is_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shard_format, 'SHARD_CEILING', 1000)
    shard_config = options(tmp_path, size_limit=500).config
    with pytest.raises(OptionError, match=r'a shard of \d+ bytes'):
        store(str(tmp_path), [block([(1, 0, encoded(b'x' * 900))])], shard_config)
    assert list(tmp_path.iterdir()) == []

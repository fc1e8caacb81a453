from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_mds.errors import FormatError, OptionError
from beam_mds.format import Columns, Samples, Shard, ShardConfig, cut_points, shard_header
from beam_mds.format.shard import SAMPLE_OVERHEAD, SHARD_CEILING
from tests.helpers.memory import peak_of

COLUMNS = Columns({'text': 'str', 'label': 'uint8'})
ROWS = [{'text': 'hé', 'label': 1}, {'text': '', 'label': 255}]

# with MDSWriter(columns={'text': 'str', 'label': 'uint8'}, out='x', size_limit=1000,
#                hashes=['sha1'], compression=None) as writer:  # mosaicml-streaming 0.13.0
#     for row in ROWS: writer.write(row)
# Path('x/shard.00000.mds').read_bytes()
GOLDEN = (
    b'\x02\x00\x00\x00'  # samples
    b'\xd0\x00\x00\x00\xd8\x00\x00\x00\xdd\x00\x00\x00'  # where each starts, and the end
    b'{"column_encodings": ["uint8", "str"], "column_names": ["label", "text"], '
    b'"column_sizes": [1, null], "compression": null, "format": "mds", "hashes": ["sha1"], '
    b'"size_limit": 1000, "version": 2}'
    b'\x03\x00\x00\x00\x01h\xc3\xa9'
    b'\x00\x00\x00\x00\xff'
)


def shard_of(rows: list[dict[str, Any]], config: ShardConfig) -> bytes:
    samples = config.columns.encode_batch(rows)
    return shard_header(config, samples.sizes) + samples.bytes.tobytes()


def test_a_shard_has_the_bytes_that_mdswriter_gives() -> None:
    assert shard_of(ROWS, ShardConfig(COLUMNS, None, ('sha1',), 1000)) == GOLDEN


def test_a_shard_is_read_back_with_its_config() -> None:
    shard = Shard(GOLDEN)

    assert len(shard) == 2
    assert list(shard) == ROWS
    assert shard[1] == ROWS[1]
    assert shard.config == ShardConfig(COLUMNS, None, ('sha1',), 1000)
    assert shard.samples.bytes.tobytes() == COLUMNS.encode_batch(ROWS).bytes.tobytes()
    with pytest.raises(IndexError, match='sample 2 of a shard of 2'):
        shard[2]


def test_the_config_names_every_option() -> None:
    config = ShardConfig(Columns({'ж': 'ndarray:int8:3', 'a': 'json'}), 'zstd:7', ('md5', 'xxh64'))

    assert json.loads(config.to_bytes()) == {
        'column_encodings': ['json', 'ndarray:int8:3'],
        'column_names': ['a', 'ж'],
        'column_sizes': [None, 3],
        'compression': 'zstd:7',
        'format': 'mds',
        'hashes': ['md5', 'xxh64'],
        'size_limit': 1 << 26,
        'version': 2,
    }
    assert ShardConfig.from_dict(config.as_dict()) == config
    assert len(shard_header(config, np.array([], np.int64))) == config.empty_size


def mdswriter_shards(sizes: list[int], size_limit: int | None, config_size: int) -> list[list[int]]:
    """What MDSWriter.write does, without the empty shard before a first sample that is too big."""
    shards: list[list[int]] = []
    cached: list[int] = []
    shard_size = 4 + 4 + config_size
    for size in sizes:
        if size_limit and size_limit < shard_size + size + 4 and cached:
            shards.append(cached)
            cached, shard_size = [], 4 + 4 + config_size
        cached.append(size)
        shard_size += size + 4
    return [*shards, cached] if cached else shards


@given(
    sizes=st.lists(st.integers(0, 60), max_size=40),
    size_limit=st.none() | st.integers(1, 1200),
)
def test_shards_are_cut_where_mdswriter_cuts_them(sizes: list[int], size_limit: int | None) -> None:
    config = ShardConfig(Columns({'a': 'bytes'}), None, (), size_limit)

    ends = cut_points(np.array(sizes, np.int64), config.capacity)

    shards = [sizes[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    assert shards == mdswriter_shards(sizes, size_limit, len(config.to_bytes()))
    assert all(shards)
    if size_limit:
        for shard in shards:
            data = shard_header(config, np.array(shard, np.int64))
            assert len(data) + sum(shard) <= size_limit or len(shard) == 1


@pytest.mark.parametrize('size_limit', [100, 1])
def test_samples_over_the_limit_get_a_shard_each_and_none_is_empty(size_limit: int) -> None:
    capacity = ShardConfig(Columns({'a': 'bytes'}), size_limit=size_limit).capacity

    assert cut_points(np.full(5, 500), capacity) == [1, 2, 3, 4, 5]
    assert cut_points(np.array([500]), capacity) == [1]
    assert cut_points(np.array([0, 0]), capacity) == [1, 2]
    assert cut_points(np.array([], np.int64), capacity) == []


def test_a_shard_that_is_exactly_full_is_not_cut() -> None:
    config = ShardConfig(Columns({'a': 'bytes'}), size_limit=1000)
    sizes = np.array([config.capacity - 10 - 2 * SAMPLE_OVERHEAD, 10, 0])

    assert cut_points(sizes, config.capacity) == [2, 3]
    assert len(shard_header(config, sizes[:2])) + sizes[:2].sum() == 1000


@pytest.mark.parametrize('size_limit', [None, SHARD_CEILING - 1])
def test_no_limit_means_the_formats_own(size_limit: int | None) -> None:
    config = ShardConfig(Columns({'a': 'bytes'}), size_limit=size_limit)

    ends = cut_points(np.full(10, 2**30), config.capacity)

    assert ends == [3, 6, 9, 10]
    for start, end in zip([0, *ends], ends, strict=False):
        shard_header(config, np.full(end - start, 2**30))


def test_a_shard_of_4_gib_is_refused_by_its_real_size() -> None:
    config = ShardConfig(Columns({'a': 'bytes'}), size_limit=None)
    room = SHARD_CEILING - 1 - config.empty_size - SAMPLE_OVERHEAD

    shard_header(config, np.array([room]))
    with pytest.raises(OptionError) as caught:
        shard_header(config, np.array([room + 1]))
    assert str(caught.value) == (
        'a shard of 4294967296 bytes: offsets are uint32, so it must stay below 4294967296; '
        'lower size_limit, raise num_shards, or split the sample'
    )


def test_a_hundred_thousand_shards_are_cut_in_no_time() -> None:
    ends = cut_points(np.full(1_000_000, 96), 1000)

    assert len(ends) == 100_000


def replaced(old: bytes, new: bytes) -> bytes:
    assert len(old) == len(new)
    return GOLDEN.replace(old, new)


@pytest.mark.parametrize(
    ('data', 'message'),
    [
        (b'', '0 bytes are too few for a shard'),
        (GOLDEN[:7], '7 bytes are too few for a shard'),
        (b'\xff' * 8, '8 bytes are too few for a shard of 4294967295 samples'),
        (GOLDEN[:-1], 'offset 2 of 3, at byte 12, is 221: offsets must rise from 208 to 220'),
        (GOLDEN + b'x', 'offset 2 of 3, at byte 12, is 221: offsets must rise from 208 to 222'),
        (GOLDEN[:8] + b'\xff' + GOLDEN[9:], 'offset 2 of 3, at byte 12, is 221: offsets must rise'),
        (GOLDEN[:4] + b'\x01' + GOLDEN[5:], 'first of 2 samples cannot start at byte 1 of 221'),
        (replaced(b'"mds"', b'"csv"'), "the config at byte 16 is no MDS config: format 'csv' ver"),
        (
            replaced(b'"version": 2', b'"version": 3'),
            "format 'mds' version 3, expected mds version",
        ),
        (replaced(b'"uint8"', b'"uint7"'), "column 'label': unknown encoding 'uint7'"),
        (replaced(b'"label"', b'"zabel"'), "column names are not sorted: ['zabel', 'text']"),
        (replaced(b'"label"', b'"text" '), "column names are not sorted: ['text', 'text']"),
        (replaced(b'[1, null]', b'[2, null]'), 'column sizes are not [1, None]'),
        (replaced(b'"hashes"', b'"hushes"'), "the config at byte 16 is no MDS config: 'hashes'"),
        (replaced(b'{"column', b'["column'), 'the config at byte 16 is no MDS config'),
    ],
)
def test_a_damaged_shard_is_a_format_error(data: bytes, message: str) -> None:
    with pytest.raises(FormatError) as caught:
        Shard(data)

    assert message in str(caught.value)


def test_a_config_that_is_nested_too_deep_is_a_format_error() -> None:
    text = b'[' * 100_000
    data = (0).to_bytes(4, 'little') + (8 + len(text)).to_bytes(4, 'little') + text
    with pytest.raises(FormatError, match='the config at byte 8 is no MDS config: maximum recurs'):
        Shard(data)


def test_offsets_of_samples_without_bytes_take_no_more_than_a_few_times_the_file() -> None:
    count, text = 1 << 22, ShardConfig(COLUMNS).to_bytes()
    offsets = np.full(count + 1, 8 + 4 * count + len(text), '<u4')
    data = count.to_bytes(4, 'little') + offsets.tobytes() + text
    assert len(Shard(data)) == count
    assert peak_of(lambda: Shard(data)) < 3 * len(data)


def test_a_shard_without_samples_reads_as_empty() -> None:
    config = ShardConfig(COLUMNS)

    assert list(Shard(shard_header(config, Samples.empty().sizes))) == []

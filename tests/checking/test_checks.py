"""Shards and indexes damaged in every region: each damage has its finding, and no other."""

from __future__ import annotations

import builtins
import io
import json
import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from beam_mds import MissingExtraError
from beam_mds.checking.checks import (
    check_index,
    check_shard,
    column_differences,
    find_part,
    read_header,
)
from beam_mds.checking.findings import KINDS, CheckError, Finding
from beam_mds.format import (
    HASHES,
    Columns,
    FileInfo,
    ShardConfig,
    ShardInfo,
    compress,
    dump_index,
    hex_digest,
    shard_header,
)
from beam_mds.format.compression import suffix
from beam_mds.writing.planning import content_digest, numbered_name
from tests.format.golden import GOLDEN

COLUMNS = {'doc': 'json', 'label': 'uint8', 'text': 'str'}
TABLE = Columns(COLUMNS)
ROWS = [
    {'doc': {'n': n, 'list': list(range(n))}, 'label': n, 'text': f'tëxt {n} ' * (n % 4)}
    for n in range(30)
]

# Alone, and one that checks its data by itself.
PACKED = pytest.mark.parametrize('compression', [None, 'zstd', 'gz'])
HASHED = pytest.mark.parametrize('hashes', [(), ('sha1', 'xxh64')])


class Made(NamedTuple):
    """A shard: its entry, its raw and its stored bytes."""

    info: ShardInfo
    raw: bytes
    stored: bytes


def make(
    rows: list[dict[str, Any]] = ROWS,
    columns: dict[str, str] = COLUMNS,
    compression: str | None = None,
    hashes: tuple[str, ...] = (),
    *,
    name: str | None = None,
    part: int = 0,
) -> Made:
    """A healthy shard; its name has the hash of the stored bytes unless it is given."""
    config = ShardConfig(Columns(columns), compression, hashes, 1 << 20)
    samples = config.columns.encode_batch(rows)
    raw = shard_header(config, samples.sizes) + samples.bytes.tobytes()
    stored = raw if compression is None else compress(compression, [raw])
    name = name or numbered_name(12, content_digest([stored], part))
    zip_data = None
    if compression is not None:
        zip_data = file_info(name + suffix(compression), stored, hashes)
    return Made(ShardInfo(config, len(rows), file_info(name, raw, hashes), zip_data), raw, stored)


def file_info(name: str, data: bytes, hashes: tuple[str, ...]) -> FileInfo:
    return FileInfo(name, len(data), {algo: hex_digest(algo, [data]) for algo in hashes})


def pack(info: ShardInfo, raw: bytes) -> tuple[ShardInfo, bytes]:
    """Stores another raw shard for the same entry, damaged before it was compressed."""
    if info.zip_data is None:
        return info, raw
    stored = compress(info.config.compression or '', [raw])
    zip_data = file_info(info.zip_data.basename, stored, info.config.hashes)
    return replace(info, zip_data=zip_data), stored


def kinds(info: ShardInfo, data: bytes, **how: Any) -> list[str]:
    """The kinds of what is found, which is all about one file."""
    found = list(check_shard('/data/x', info, data, **how))
    assert all(one.file == '/data/x' and one.kind in KINDS for one in found)
    return [one.kind for one in found]


def only(info: ShardInfo, data: bytes, **how: Any) -> Finding:
    """The one thing that is found."""
    (found,) = check_shard('/data/x', info, data, **how)
    return found


def reader(data: bytes) -> Callable[[int, int], bytes]:
    return lambda start, size: data[start : start + size]


def flip(data: bytes, at: int, bits: int = 1) -> bytes:
    """The data with one byte changed."""
    at %= len(data)
    return data[:at] + bytes([data[at] ^ bits]) + data[at + 1 :]


def image(kind: str) -> bytes:
    """A small picture file."""
    out = io.BytesIO()
    pixels = np.random.default_rng(3).integers(0, 256, (40, 50, 3), np.uint8)
    Image.fromarray(pixels).save(out, kind)
    return out.getvalue()


def every_encoding() -> tuple[dict[str, str], dict[str, Any]]:
    """A column of each encoding, and a value for it that decodes."""
    jpeg, png = image('JPEG'), image('PNG')
    images = {
        'jpeg': jpeg, 'png': png, 'pil': Image.new('RGB', (2, 3)), 'list[jpeg]': [jpeg, jpeg],
        'list[png]': [png], 'list[pil]': [Image.new('L', (1, 1))], 'jpeg_array': [jpeg],
        'jpegarray': [jpeg, jpeg],
    }  # fmt: skip
    values = {kind: images.get(kind) or value() for kind, value, _ in GOLDEN}
    return {kind: kind for kind in values}, values


@pytest.mark.parametrize('compression', [None, 'br', 'bz2', 'gz', 'snappy', 'zstd:1'])
def test_a_healthy_shard_of_every_encoding_has_no_findings(compression: str | None) -> None:
    columns, row = every_encoding()
    info, _, data = make([row] * 3, columns, compression, HASHES)
    assert kinds(info, data) == []
    assert kinds(info, data, deep=True) == []


def test_shards_without_samples_and_with_empty_ones_are_healthy() -> None:
    for rows in ([], [{'text': ''}] * 3):
        info, _, data = make(rows, {'text': 'str'})
        assert kinds(info, data, deep=True) == []


def test_many_samples_are_all_looked_at() -> None:
    info, _, data = make([{'text': 'abc'}] * 140_000, {'text': 'str'}, name='x.mds')
    assert kinds(info, data, deep=True) == []
    assert only(info, flip(data, -7)).detail.startswith('sample 139999 at byte ')
    assert only(info, flip(data, -1, 0x80), deep=True).detail.startswith('sample 139999 at byte ')


# Stored files


@PACKED
@HASHED
def test_a_shard_of_another_size_is_not_looked_into(compression: Any, hashes: Any) -> None:
    info, _, data = make(compression=compression, hashes=hashes)
    for bad in (data[:-1], b'', data + b'x', data[: len(data) // 2]):
        found = only(info, bad, deep=True)
        assert found[1:] == ('size', f'{len(bad)} bytes, the index says {len(data)}')


def test_every_hash_that_differs_is_told() -> None:
    info, _, data = make(hashes=('sha1', 'xxh64'))
    bad = flip(data, -1)
    assert list(check_shard('/data/x', info, bad)) == [
        Finding('/data/x', 'hash', f'{name} is {hex_digest(name, [bad])}, the index says {wanted}')
        for name, wanted in info.raw_data.hashes.items()
    ]


@pytest.mark.parametrize('compression', ['zstd', 'gz', 'br'])
def test_a_wrong_hash_of_the_raw_file_is_told(compression: str) -> None:
    info, _, data = make(compression=compression, hashes=('sha1',))
    other = replace(info, raw_data=replace(info.raw_data, hashes={'sha1': 'ab' * 20}))
    raw_hash = info.raw_data.hashes['sha1']
    detail = f'sha1 is {raw_hash}, the index says {"ab" * 20}'
    assert only(other, data)[1:] == ('raw-hash', detail)


@pytest.mark.parametrize('compression', ['zstd', 'gz', 'bz2', 'br', 'snappy'])
def test_a_flip_anywhere_in_a_compressed_file_is_found(compression: str) -> None:
    info, _, data = make(ROWS * 20, compression=compression)
    for at in (0, 1, 2, len(data) // 3, len(data) // 2, -9, -5, -2):
        found = set(kinds(info, flip(data, at, 0x10)))
        assert len(found) == 1
        assert found <= {'compression', 'header', 'count', 'config', 'sample', 'name'}
    assert only(info, flip(data, 0)).detail.startswith(f'{compression} data ')


@pytest.mark.parametrize(
    ('compression', 'places'), [('zstd', (0, 1, 2)), ('gz', (0, 1, 2, -5, -2)), ('bz2', (0, -300))]
)
def test_a_flip_in_a_magic_number_or_a_checksum_needs_no_hash(
    compression: str, places: tuple[int, ...]
) -> None:
    info, _, data = make(ROWS * 20, compression=compression, name='x.mds')
    for at in places:
        found = only(info, flip(data, at, 0x10))
        assert found.kind == 'compression'
        assert found.detail.startswith(f'{compression} data of {len(data)} bytes is damaged: ')


def test_another_raw_size_is_a_finding() -> None:
    info, raw, data = make(compression='zstd')
    other = replace(info, raw_data=replace(info.raw_data, bytes=len(raw) - 1))
    detail = f'zstd data gives too many bytes: the index says {len(raw) - 1}'
    assert only(other, data)[1:] == ('compression', detail)


# Regions of a raw shard

# Region -> what is found there, with all samples decoded.
REGIONS = {
    'count': 'count',
    'high byte of the count': 'count',
    'first offset': 'config',
    'offset': 'sample',
    'high byte of an offset': 'header',
    'last offset': 'header',
    'config': 'config',
    'brackets of the config': 'config',
    'size in a sample': 'sample',
    'text in a sample': 'sample',
    'json in a sample': 'sample',
}


def damaged(raw: bytes, region: str) -> bytes:
    """A raw shard with one byte changed."""
    header = read_header(reader(raw), len(raw))
    count, sample = len(header.offsets) - 1, int(header.offsets[21])
    at, bits = {
        'count': (0, 1),
        'high byte of the count': (3, 0x80),
        'first offset': (4, 2),
        'offset': (4 * 9, 1),
        'high byte of an offset': (4 * 9 + 3, 1),
        'last offset': (4 * (count + 1), 1),
        'config': (raw.index(b'"uint8"') + 1, 1),
        'brackets of the config': (raw.index(b'{"col'), 1),
        'size in a sample': (sample + 1, 1),
        'text in a sample': (raw.index('ë'.encode(), sample), 0x40),
        'json in a sample': (raw.index(b'"list"', sample), 2),
    }[region]
    return flip(raw, at, bits)


@PACKED
@HASHED
@pytest.mark.parametrize('region', REGIONS)
def test_a_flip_in_each_region_of_a_raw_shard_is_named(
    region: str, compression: str | None, hashes: tuple[str, ...]
) -> None:
    info, raw, _ = make(compression=compression, hashes=hashes, name='x.mds')
    info, bad = pack(info, damaged(raw, region))
    wrong = ['hash' if compression is None else 'raw-hash'] * len(hashes)
    found = kinds(info, bad, deep=True)
    assert found[: len(wrong)] == wrong
    assert set(found[len(wrong) :]) == {REGIONS[region]}


@pytest.mark.parametrize('region', REGIONS)
def test_a_name_with_a_hash_shows_a_flip_that_nothing_else_shows(region: str) -> None:
    info, raw, _ = make()
    found = kinds(info, damaged(raw, region))
    inside = region in ('text in a sample', 'json in a sample')
    assert set(found) == {'name' if inside else REGIONS[region]}


def test_a_flip_inside_a_value_is_found_by_hashes_only_unless_samples_are_decoded() -> None:
    info, raw, _ = make(name='x.mds')
    for region in ('text in a sample', 'json in a sample'):
        assert kinds(info, damaged(raw, region)) == []
    sample = int(read_header(reader(raw), len(raw)).offsets[4])
    label = sample + 8 + int.from_bytes(raw[sample : sample + 4], 'little')
    assert raw[label] == 4
    assert kinds(info, flip(raw, label), deep=True) == []  # a number like any other


def test_what_is_wrong_is_told_with_its_values_and_its_place() -> None:
    info, raw, _ = make(name='x.mds')
    size = len(raw)
    offset = int(read_header(reader(raw), size).offsets[21])
    for region, detail in {
        'count': '31 samples, the index says 30',
        'last offset': f'offset 30 of 31, at byte 124, is {size ^ 1}: offsets must rise from ',
        'config': "the config at byte 128 is no MDS config: column 'label': unknown encoding ",
        'size in a sample': f'sample 21 at byte {offset} of the raw shard: it has 111 bytes, ',
        'text in a sample': f"sample 21 at byte {offset} of the raw shard: column 'text' (str): ",
    }.items():
        assert only(info, damaged(raw, region), deep=True).detail.startswith(detail)


def test_of_many_bad_samples_ten_are_told_one_by_one() -> None:
    info, raw, _ = make([{'n': 1}] * 30 + [{'n': 2}] * 10, {'n': 'json'}, name='x.mds')
    ten = raw.replace(b'\1\0\0\0002', b'\1\0\0\0}')
    found = list(check_shard('/data/x', info, ten, deep=True))
    assert [one.kind for one in found] == ['sample'] * 10
    assert 'samples more' not in found[-1].detail
    forty = ten.replace(b'\1\0\0\0001', b'\1\0\0\0}')
    found = list(check_shard('/data/x', info, forty, deep=True))
    assert [one.kind for one in found] == ['sample'] * 10
    assert found[-1].detail.startswith('sample 9 at byte ')
    assert found[-1].detail.endswith('; and so for 30 samples more')


def test_another_number_of_samples_or_another_config_than_the_index_says_is_a_finding() -> None:
    info, raw, _ = make(name='x.mds')
    config = info.config
    for change, found in [
        ({'samples': 29}, ('count', '30 samples, the index says 29')),
        (
            {'config': replace(config, size_limit=None)},
            ('config', 'size_limit is 1048576, the index says None'),
        ),
        (
            {'config': replace(config, columns=Columns({**COLUMNS, 'text': 'bytes', 'x': 'int'}))},
            (
                'config',
                'columns, in the index and in the file: '
                + column_differences(Columns({**COLUMNS, 'text': 'bytes', 'x': 'int'}), TABLE),
            ),
        ),
    ]:
        assert only(replace(info, **change), raw)[1:] == found
    info, raw, stored = make(name='x.mds', compression='zstd:3')
    other = replace(info, config=replace(info.config, compression='zstd'))
    assert only(other, stored)[1:] == ('config', "compression is 'zstd:3', the index says 'zstd'")


# Values


def test_an_image_is_decoded_to_its_last_pixel() -> None:
    for kind in ('jpeg', 'list[jpeg]', 'jpeg_array'):
        picture = image('JPEG')
        value: Any = picture if kind == 'jpeg' else [picture]
        info, raw, _ = make([{'i': value}], {'i': kind}, name='x.mds')
        assert kinds(info, raw, deep=True) == []
        short = picture[: len(picture) // 2]
        info, raw, _ = make([{'i': short if kind == 'jpeg' else [short]}], {'i': kind})
        assert kinds(info, raw) == []
        found = only(info, raw, deep=True)
        assert "of the raw shard: column 'i': image file is truncated (" in found.detail


def test_a_long_name_of_a_column_is_cut() -> None:
    for value in (b'no image', image('JPEG')[:-500]):
        info, raw, _ = make([{'i' * 5000: value}], {'i' * 5000: 'jpeg'}, name='x.mds')
        assert len(only(info, raw, deep=True).detail) < 400


def test_images_without_pillow_are_no_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    info, raw, _ = make([{'i': b'no image'}], {'i': 'jpeg'}, name='x.mds')
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == 'PIL':
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, '__import__', without)
    assert kinds(info, raw) == []
    with pytest.raises(MissingExtraError, match=r'beam_mds\[images\]'):
        kinds(info, raw, deep=True)


class Bomb:
    def __reduce__(self) -> Any:
        return pytest.fail, ('a pickle ran code',)


def test_pickles_are_not_run() -> None:
    info, raw, _ = make([{'n': 1, 'p': pickle.dumps(Bomb())}], {'n': 'int', 'p': 'pkl'})
    assert kinds(info, raw, deep=True) == []
    info, raw, _ = make([{'p': pickle.dumps(Bomb())}], {'p': 'pkl'})
    assert kinds(info, raw, deep=True) == []
    header = read_header(reader(raw), len(raw))
    assert kinds(info, flip(raw, int(header.offsets[0])), deep=True) == ['sample']


# Names


def test_each_part_of_a_range_has_its_own_seed() -> None:
    for part in (0, 1, 7):
        info, raw, _ = make(part=part)
        for how in ({}, {'part': 7, 'parts': 8}, {'part': 3, 'parts': 4}):
            assert kinds(info, raw, **how) == []
        assert find_part(info.stored.basename, raw, 1) == part
    info, raw, _ = make(part=500)
    assert find_part(info.stored.basename, raw, 1000, 500) == 500
    assert find_part(info.stored.basename, raw, 1000) is None  # too many to search
    with pytest.raises(CheckError, match=r'^name: the hash in its name is not that of its bytes$'):
        find_part(info.stored.basename, raw, 100)


def test_a_name_of_others_has_nothing_to_check() -> None:
    for name in ('shard.00000.mds', f'shard.{"ab" * 16}.mds'):
        info, raw, _ = make(name=name)
        assert kinds(info, raw) == []


def test_a_file_that_was_unpacked_for_good_has_the_name_of_the_packed_one() -> None:
    packed = make(compression='zstd', hashes=('sha1',))
    config = replace(packed.info.config, compression=None, hashes=())
    raw_data = replace(packed.info.raw_data, hashes={})
    assert kinds(ShardInfo(config, len(ROWS), raw_data), packed.raw, deep=True) == []


# Indexes


def index_of(*shards: ShardInfo, **change: Any) -> bytes:
    """An index.json of these shards; fields of the first one are changed."""
    index = json.loads(dump_index(shards))
    index['shards'][0].update(change)
    return json.dumps(index).encode()


def raw_data(**change: Any) -> dict[str, Any]:
    return {'basename': 'b.mds', 'bytes': 9, 'hashes': {}, **change}


A, B = make(name='a.mds').info, make(name='b.mds').info
ZIPPED = make(name='z.mds', compression='zstd').info


def test_a_good_index_has_no_findings_and_gives_its_shards() -> None:
    checked = check_index('/data/index.json', dump_index([A, ZIPPED, B]))
    assert checked == ([A, ZIPPED, B], [], True)


@pytest.mark.parametrize(
    ('data', 'detail'),
    [
        (b'', 'no MDS index: expected '),
        (dump_index([A])[:-20], 'no MDS index: expected '),
        (b'\x89PNG', 'no MDS index: '),
        (b'{"version": 3, "shards": []}', 'no MDS index: version 3, expected 2'),
        (b'{"version": 2}', "no MDS index: it has no 'shards'"),
        (b'{"version": 2, "shards": {}}', "no MDS index: expected '[', found '{'"),
        (b'{"version": 2, "shards": []}', 'lists no shard: StreamingDataset refuses it'),
    ],
)
def test_what_is_no_index_is_one_finding(data: bytes, detail: str) -> None:
    shards, (found,), _ = check_index('/data/index.json', data)
    assert shards == []
    assert found[:2] == ('/data/index.json', 'index')
    assert found.detail.startswith(detail)


@pytest.mark.parametrize(
    ('change', 'detail'),
    [
        ({'column_names': ['text', 'label', 'doc']}, 'column names are not sorted: ['),
        ({'column_encodings': ['json', 'uint8', 'foo']}, "column 'text': unknown encoding 'foo'"),
        ({'column_sizes': [None, 2, None]}, 'column sizes are not [None, 1, None]'),
        ({'version': 3}, "format 'mds' version 3, expected mds version 2"),
        ({'samples': -1}, '-1 is no count'),
        ({'raw_data': None}, 'TypeError: '),
        ({'raw_data': raw_data(basename='../x')}, "basename '../x' is no plain path below the"),
        ({'raw_data': raw_data(basename='/abs')}, "basename '/abs' is no plain path below the"),
        ({'raw_data': raw_data(basename='a/../../b')}, "basename 'a/../../b' is no plain path"),
        ({'raw_data': raw_data(basename='http://x')}, "basename 'http://x' is no plain path"),
        ({'raw_data': raw_data(bytes=2**32)}, '4294967296 bytes: a shard has less than 4294967296'),
        ({'raw_data': raw_data(hashes={'sha0': 'ab'})}, "unknown hash 'sha0': expected one of "),
        ({'raw_data': raw_data(hashes={'sha1': 7})}, "hashes {'sha1': 7} are no digests"),
        ({'hashes': ['sha0']}, "unknown hash 'sha0': expected one of "),
        ({'compression': 'lz4'}, "unknown compression 'lz4': expected one of "),
        ({'compression': 5}, 'unknown compression 5: expected one of '),
        (
            {'compression': 'zstd'},
            "compression 'zstd' without zip_data: StreamingDataset would delete the file",
        ),
        (
            {'zip_data': raw_data(basename='b.mds.gz')},
            'zip_data without compression: StreamingDataset refuses it',
        ),
    ],
)
def test_a_bad_entry_is_told_and_the_others_are_checked(
    change: dict[str, Any], detail: str
) -> None:
    for before, after in (([], [A, ZIPPED]), ([A, ZIPPED], [])):
        index = json.loads(index_of(B, **change))['shards']
        entries = [*json.loads(dump_index(before))['shards'], *index]
        entries += json.loads(dump_index(after))['shards']
        data = json.dumps({'version': 2, 'shards': entries}).encode()
        shards, (found,), complete = check_index('/data/index.json', data)
        assert shards == [A, ZIPPED]
        assert not complete
        assert found[:2] == ('/data/index.json', 'index')
        assert found.detail.startswith(f'shards[{len(before)}]: {detail}')


def test_bad_entries_of_one_reason_are_one_finding() -> None:
    entries = [json.loads(index_of(B, samples='x'))['shards'][0]] * 5
    data = json.dumps({'version': 2, 'shards': entries}).encode()
    (found,) = check_index('/data/index.json', data).findings
    assert found.detail == "shards[0] and 4 more: 'x' is no count"


def test_a_file_that_is_listed_twice_is_told_and_checked_once() -> None:
    unpacked = replace(ZIPPED, zip_data=None, config=A.config)
    for shards, first, second, file, once in [
        ([A, B, A], 0, 2, 'a.mds', [A, B]),
        ([A, B, B], 1, 2, 'b.mds', [A, B]),
        ([ZIPPED, A, ZIPPED], 0, 2, 'z.mds.zstd', [ZIPPED, A]),
        ([ZIPPED, unpacked], 0, 1, 'z.mds', [ZIPPED]),
    ]:
        checked, (found,), complete = check_index('/data/index.json', dump_index(shards))
        assert checked == once
        assert complete
        detail = f'shards[{first}] and shards[{second}] of the index are this file'
        assert found == Finding(f'/data/{file}', 'duplicate', detail)


def test_each_column_table_beside_the_first_is_told_once() -> None:
    other = make(columns={**COLUMNS, 'text': 'bytes'}, rows=[], name='c.mds').info
    shards = [A, other, B, replace(other, raw_data=replace(other.raw_data, basename='d.mds'))]
    checked, (found,), _ = check_index('/data/index.json', dump_index(shards))
    assert checked == shards
    assert found == Finding(
        '/data/c.mds', 'columns', "compared with a.mds, 'text' is str and bytes and 1 more"
    )


def test_differences_of_columns_are_told_by_name() -> None:
    one, other = Columns({'a': 'int', 'b': 'str', 'c': 'pkl'}), Columns({'a': 'int8', 'c': 'pkl'})
    assert column_differences(one, other) == "'a' is int and int8; 'b' is str and not there"
    many = Columns({f'c{number}': 'int' for number in range(9)})
    assert column_differences(many, other).count(';') == 5
    assert column_differences(many, other).endswith("'c2' is int and not there; and 6 more")


# Any damage

FUZZ = settings(max_examples=150, derandomize=True, deadline=None)


@FUZZ
@given(st.data())
def test_any_flipped_byte_of_a_shard_with_hashes_is_found(data: st.DataObject) -> None:
    made = make(ROWS[:9], compression=data.draw(st.sampled_from([None, 'zstd'])), hashes=('sha1',))
    at = data.draw(st.integers(0, len(made.stored) - 1))
    bits = data.draw(st.integers(1, 255))
    assert 'hash' in kinds(made.info, flip(made.stored, at, bits))


@FUZZ
@given(st.data())
def test_any_flipped_byte_of_a_shard_with_our_name_is_found(data: st.DataObject) -> None:
    made = make(ROWS[:9], compression=data.draw(st.sampled_from([None, 'zstd', 'br', 'snappy'])))
    at = data.draw(st.integers(0, len(made.stored) - 1))
    assert kinds(made.info, flip(made.stored, at, data.draw(st.integers(1, 255))))


@FUZZ
@given(st.data())
def test_no_damage_raises(data: st.DataObject) -> None:
    columns, row = every_encoding()
    kind = data.draw(st.sampled_from([None, 'zstd', 'br', 'snappy', 'gz', 'bz2']))
    info, raw, _ = make([row] * 2, columns, kind, name='x.mds')
    bad = bytearray(raw)
    for _ in range(data.draw(st.integers(1, 4))):
        bad[data.draw(st.integers(0, len(bad) - 1))] = data.draw(st.integers(0, 255))
    kinds(*pack(info, bytes(bad)), deep=True)
    stored = bytearray(make([row] * 2, columns, kind, name='x.mds').stored)
    stored[data.draw(st.integers(0, len(stored) - 1))] = data.draw(st.integers(0, 255))
    kinds(info, bytes(stored), deep=True)


@FUZZ
@given(st.data())
def test_no_index_raises(data: st.DataObject) -> None:
    text = bytearray(dump_index([A, ZIPPED]))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text) - 1))
        text[at : at + data.draw(st.integers(0, 9))] = data.draw(
            st.sampled_from([b'', b'{}', b'null', b'"x"', b'[', b'9', b'\xff', b'-1', b'1e999'])
        )
    shards, findings, complete = check_index('/data/index.json', bytes(text))
    assert complete or findings
    assert {found.kind for found in findings} <= {'index', 'columns', 'duplicate'}
    assert len(shards) <= 2


def test_an_error_of_a_check_keeps_its_kind_between_processes() -> None:
    error = pickle.loads(pickle.dumps(CheckError('header', 'short')))
    assert (error.kind, error.detail, str(error)) == ('header', 'short', 'header: short')

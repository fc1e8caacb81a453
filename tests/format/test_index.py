from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from beam_mds.errors import FormatError
from beam_mds.format import (
    Columns,
    FileInfo,
    ShardConfig,
    ShardInfo,
    dump_index,
    jsonstream,
    parse_index,
)
from beam_mds.format.index import (
    dump_entries,
    entry_of,
    iter_entries,
    load_entries,
    parse_entries,
    parse_entry,
)

COLUMNS = Columns({'text': 'str', 'label': 'uint8'})
ZIPPED = ShardInfo(
    ShardConfig(COLUMNS, 'zstd:7', ('sha1',), 1000),
    2,
    FileInfo('a/b/shard.00000.mds', 211, {'sha1': '00'}),
    FileInfo('a/b/shard.00000.mds.zstd', 150, {'sha1': '11'}),
)
PLAIN = ShardInfo(ShardConfig(COLUMNS, size_limit=None), 3, FileInfo('shard.00001.mds', 99, {}))

# As MDSWriter of mosaicml-streaming 0.13.0 writes it (json.dump with sorted keys).
GOLDEN = (
    '{"shards": [{"column_encodings": ["uint8", "str"], "column_names": ["label", "text"], '
    '"column_sizes": [1, null], "compression": "zstd:7", "format": "mds", "hashes": ["sha1"], '
    '"raw_data": {"basename": "a/b/shard.00000.mds", "bytes": 211, "hashes": {"sha1": "00"}}, '
    '"samples": 2, "size_limit": 1000, "version": 2, "zip_data": {"basename": '
    '"a/b/shard.00000.mds.zstd", "bytes": 150, "hashes": {"sha1": "11"}}}], "version": 2}'
)


def test_an_index_has_the_text_that_mdswriter_gives() -> None:
    assert dump_index([ZIPPED]) == GOLDEN.encode()


def test_an_index_is_read_back_in_order() -> None:
    assert parse_index(dump_index([ZIPPED, PLAIN, ZIPPED])) == [ZIPPED, PLAIN, ZIPPED]
    assert parse_index(dump_index([])) == []


def test_the_stored_file_is_the_compressed_one_if_there_is_one() -> None:
    assert ZIPPED.stored.basename.endswith('.zstd')
    assert PLAIN.stored is PLAIN.raw_data


@pytest.mark.parametrize('size', [1, 2, 7, 100, 10_000])
@pytest.mark.parametrize('indent', [None, 1])
def test_an_index_that_comes_in_pieces_is_the_same(size: int, indent: int | None) -> None:
    index = {
        'more': {'ä': [1.5, '中']},
        **json.loads(dump_index([ZIPPED, PLAIN, ZIPPED])),
        'number': 12345,
    }
    data = b'\xef\xbb\xbf' + json.dumps(index, indent=indent, ensure_ascii=False).encode()

    pieces = [data[at : at + size] for at in range(0, len(data), size)]

    assert list(iter_entries(pieces)) == parse_entries(data)
    assert [info for _, info in parse_entries(data)] == [ZIPPED, PLAIN, ZIPPED]
    assert [entry for entry, _ in parse_entries(data)] == index['shards']


def test_a_value_of_many_pieces_is_not_decoded_once_for_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decode, starts = jsonstream._DECODE, []

    def count(text: str, at: int) -> Any:
        starts.append(at)
        return decode(text, at)

    monkeypatch.setattr(jsonstream, '_DECODE', count)
    pieces = [b'"', *[b'x'] * 5000, b'"']
    assert jsonstream.JsonStream(pieces).value() == 'x' * 5000
    assert len(starts) < 20


def test_shards_are_given_before_the_rest_of_the_index_is_read() -> None:
    def pieces() -> Iterator[bytes]:
        yield dump_index([ZIPPED, PLAIN])[:-60]
        pytest.fail('read on')

    assert next(iter_entries(pieces()))[1] == ZIPPED


def test_a_config_that_differs_in_any_field_is_a_shard_s_own() -> None:
    shards = [
        ShardInfo(config, 1, FileInfo(f'shard.{number}.mds', 99, {}))
        for number, config in enumerate(
            [
                ShardConfig(COLUMNS),
                ShardConfig(Columns({'text': 'bytes', 'label': 'uint8'})),
                ShardConfig(Columns({'test': 'bytes', 'label': 'uint8'})),
                ShardConfig(Columns({'test': 'bytes', 'label': 'uint16'})),
                ShardConfig(COLUMNS, 'gz'),
                ShardConfig(COLUMNS, 'gz', ('md5',)),
                ShardConfig(COLUMNS, 'gz', ('md5',), None),
            ]
        )
    ]
    assert parse_index(dump_index(shards)) == shards
    wrong = json.loads(dump_index([PLAIN, PLAIN]))
    for name, value in (('format', 'csv'), ('version', 3), ('column_sizes', [1, 2])):
        wrong['shards'][1] = {**wrong['shards'][0], name: value}
        with pytest.raises(FormatError, match=r'expected|column sizes'):
            parse_index(json.dumps(wrong).encode())


def changed(**fields: Any) -> bytes:
    index = json.loads(GOLDEN)
    index['shards'][0].update(fields)
    return json.dumps(index).encode()


def renamed(name: Any) -> bytes:
    return changed(raw_data={'basename': name, 'bytes': 1, 'hashes': {}})


@pytest.mark.parametrize(
    ('data', 'message'),
    [
        (b'', "no MDS index: expected '{', found '', at character 0"),
        (b'{"version": 2, "shards": [}', 'no MDS index: expected a value: Expecting value, at'),
        (b'{"version": 2, "shards": [', 'no MDS index: expected a value'),
        (b'{"version": 2, "shards": []', "no MDS index: expected '}', found '', at character 27"),
        (b'{"version": 2, "shards": []} {', "no MDS index: expected the end, found '{', at"),
        (b'{"version": 2, "shards": [] "x": 1}', "no MDS index: expected '}', found '\"'"),
        (b'{"version": 2, "shards": [], "shards": []}', "no MDS index: 'shards' is there twice"),
        (b'{"version": 2, 5: []}', 'no MDS index: expected a name, found 5, at'),
        (b'{"version": 2, "shards"', "no MDS index: expected ':', found ''"),
        (b'{"shards": ' + b'[' * 100_000, 'no MDS index: expected less depth'),
        (b'{"version": 2, "shards": [1' + b'0' * 5000, 'no MDS index: expected '),
        (GOLDEN.encode()[:-10], 'no MDS index: expected '),
        (b'\xff', 'no MDS index: UnicodeDecodeError'),
        (b'[]', "no MDS index: expected '{', found '[', at character 0"),
        (b'{"shards": []}', "no MDS index: it has no 'version'"),
        (b'{"version": 2}', "no MDS index: it has no 'shards'"),
        (b'{"version": 1, "shards": []}', 'no MDS index: version 1, expected 2'),
        (b'{"version": 2, "shards": [5]}', 'no MDS index: TypeError'),
        (b'{"version": 2, "shards": {"a": 5}}', "no MDS index: expected '[', found '{'"),
        (changed(format='csv'), "no MDS index: format 'csv' version 2, expected mds version 2"),
        (changed(version=1), "no MDS index: format 'mds' version 1, expected mds version 2"),
        (changed(column_names=['label']), 'no MDS index: ValueError'),
        (changed(column_names=['text', 'label']), 'no MDS index: column names are not sorted'),
        (changed(column_encodings=['uint8', 'foo']), "column 'text': unknown encoding 'foo'"),
        (changed(samples='x'), "no MDS index: 'x' is no count"),
        (changed(samples=-1), 'no MDS index: -1 is no count'),
        (changed(samples=1.5), 'no MDS index: 1.5 is no count'),
        (changed(samples=True), 'no MDS index: True is no count'),
        (changed(samples=2**33), 'no MDS index: 8589934592 is no count'),
        (changed(column_names='xy'), "no MDS index: column_names 'xy' is no list of texts"),
        (changed(column_names=['label', 7]), "column_names ['label', 7] is no list of texts"),
        (changed(column_names=['label', '\ud800']), "'\\ud800': the name has no UTF-8 form"),
        (changed(column_encodings={}), 'no MDS index: column_encodings {} is no list of texts'),
        (changed(hashes=[['sha1']]), "no MDS index: hashes [['sha1']] is no list of texts"),
        (changed(compression=['zstd']), "no MDS index: unknown compression ['zstd']"),
        (changed(compression='zip'), "no MDS index: unknown compression 'zip'"),
        (changed(size_limit='64mb'), "no MDS index: size_limit is '64mb', expected bytes or null"),
        (changed(size_limit=-1), 'no MDS index: size_limit is -1, expected bytes or null'),
        (changed(raw_data=None), 'no MDS index: TypeError'),
        (changed(raw_data={'basename': 'a', 'bytes': 1, 'hashes': ['md5']}), 'no MDS index: Value'),
        (changed(raw_data={'basename': 'a', 'bytes': 2**70, 'hashes': {}}), '11805916207174113034'),
        (
            changed(raw_data={'basename': 'a', 'bytes': 1, 'hashes': {'md5': 5}}),
            'are no digests by',
        ),
        (renamed('a\0.mds'), "basename 'a\\x00.mds' is no plain path"),
        (renamed('a\ud800.mds'), "basename 'a\\ud800.mds' is no plain path"),
        (renamed('a' * 1025), "basename 'aaaaaa"),
        (renamed('/etc/passwd'), "basename '/etc/passwd' is no plain path below the dataset"),
        (renamed('../a.mds'), "basename '../a.mds' is no plain path"),
        (renamed('a/../../b.mds'), "basename 'a/../../b.mds' is no plain path"),
        (renamed('a//b.mds'), "basename 'a//b.mds' is no plain path"),
        (renamed('a\\b.mds'), 'is no plain path'),
        (renamed('..'), "basename '..' is no plain path"),
        (renamed('.'), "basename '.' is no plain path"),
        (renamed(''), "basename '' is no plain path"),
        (renamed(None), 'basename None is no plain path'),
        (renamed('a/./b.mds'), "basename 'a/./b.mds' is no plain path"),
        (renamed('a/'), "basename 'a/' is no plain path"),
    ],
)
def test_what_is_no_index_is_a_format_error_with_the_reason(data: bytes, message: str) -> None:
    with pytest.raises(FormatError) as caught:
        parse_index(data)

    assert message in str(caught.value)


LONG = ('x' * 9999, ['x' * 9999, 0], [0] * 9999, {'basename': 'x' * 9999, 'bytes': 1}, -(2**9999))


@pytest.mark.parametrize('name', json.loads(GOLDEN)['shards'][0])
def test_an_error_about_an_index_is_short_whatever_stands_in_it(name: str) -> None:
    for value in LONG:
        with pytest.raises(FormatError) as caught:
            parse_index(changed(**{name: value}))
        assert len(str(caught.value)) < 500


def test_names_with_dots_in_any_folder_are_plain_paths() -> None:
    for name in ('..a.mds', 'a/..b/.c.mds', 'train.v1/shard.mds', 'ж/x y?*[1].mds'):
        (shard,) = parse_index(renamed(name))
        assert shard.raw_data.basename == name


def test_an_entry_is_parsed_by_itself() -> None:
    good, bad = load_entries(dump_entries([entry_of(PLAIN), {'format': 'mds'}]))
    assert parse_entry(good) == PLAIN
    with pytest.raises(FormatError, match=r"^KeyError: '\w+'$"):
        parse_entry(bad)
    with pytest.raises(FormatError, match=r'^no MDS index: version 3, expected 2$'):
        load_entries(b'{"version": 3, "shards": [{}]}')


def test_shards_of_one_config_share_it() -> None:
    first, second, third = parse_index(dump_index([ZIPPED, ZIPPED, PLAIN]))
    assert first.config is second.config
    assert second.config != third.config

"""The readers of Parquet, Arrow IPC and Avro: batches, memory, damage, types."""

from __future__ import annotations

import datetime as dt
import decimal
import gzip
import io
import json
import os
import subprocess
import sys
import uuid
import zlib
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_mds import ReadTables
from beam_mds.records import PLACE, BadRecord
from beam_mds.sources.tabular import avro
from beam_mds.sources.tabular.parts import BATCH_BYTES, BATCH_ROWS, TableError
from tests.helpers.memory import peak_of
from tests.helpers.tables import places, read, store, values

KINDS = ('parquet', 'arrow', 'stream')


def batches(path: Path, **options: Any) -> list[pa.RecordBatch]:
    return [
        some for some in ReadTables([path], **options).iterate() if not isinstance(some, BadRecord)
    ]


def random_bytes(count: int, size: int) -> pa.Array:
    rng = np.random.default_rng(0)
    return pa.array([rng.bytes(size) for _ in range(count)], pa.binary())


# Batches.


@pytest.mark.parametrize('kind', KINDS)
def test_large_rows_come_in_batches_of_a_few_mb(kind: str, tmp_path: Path) -> None:
    table = pa.table({'data': random_bytes(40, 1 << 20)})
    found = batches(store(table, tmp_path / 'a', kind))
    assert max(batch.nbytes for batch in found) <= 2 * BATCH_BYTES
    assert pa.Table.from_batches(found).column('data').to_pylist() == table.column(0).to_pylist()


@pytest.mark.parametrize('kind', KINDS)
def test_small_row_groups_and_batches_are_put_together(kind: str, tmp_path: Path) -> None:
    colours = pa.array(['red', 'green'] * 500).dictionary_encode()
    table = pa.table({'n': range(1000), 'colour': colours, 'in': [{'x': n} for n in range(1000)]})
    (batch,) = batches(store(table, tmp_path / 'a', kind, 10), format='auto')
    assert batch.num_rows == 1000
    assert batch.drop_columns([PLACE]).to_pylist() == table.to_pylist()


def test_record_batches_with_dictionaries_of_their_own_are_put_together(tmp_path: Path) -> None:
    path = tmp_path / 'a'
    schema = pa.schema({'c': pa.dictionary(pa.int8(), pa.string())})
    parts = [['x', 'y'], ['y', 'z'], ['z']]
    with pa.OSFile(str(path), 'wb') as file, pa.ipc.new_stream(file, schema) as writer:
        for part in parts:
            writer.write_batch(
                pa.record_batch([pa.array(part).dictionary_encode()], ['c']).cast(schema)
            )
    (batch,) = batches(path)
    assert batch.column('c').to_pylist() == ['x', 'y', 'y', 'z', 'z']


def test_a_column_that_grows_when_it_is_read_is_cut_by_rows(tmp_path: Path) -> None:
    table = pa.table({'text': ['x' * 1000] * 30_000})
    found = batches(store(table, tmp_path / 'a'))
    assert max(batch.num_rows for batch in found) == BATCH_ROWS
    assert sum(batch.num_rows for batch in found) == 30_000


@pytest.mark.parametrize('kind', KINDS)
def test_every_row_has_its_place(kind: str, tmp_path: Path) -> None:
    path = store(pa.table({'n': range(10)}), tmp_path / 'a', kind, 4)
    rows, _ = read(ReadTables([path]))
    assert {row[PLACE]['file'] for row in rows} == {str(path)}
    if kind == 'arrow':
        assert places(rows) == [{'batch': n // 4, 'row': n % 4} for n in range(10)]
    else:
        assert places(rows) == [{'row': n} for n in range(10)]


@pytest.mark.parametrize('kind', KINDS)
@pytest.mark.parametrize('write_empty', [True, False])
def test_a_file_without_rows_gives_none(kind: str, write_empty: bool, tmp_path: Path) -> None:
    table = pa.table({'n': pa.array([], pa.int64())})
    if write_empty:
        path = store(table, tmp_path / 'a', kind)
    else:
        path = tmp_path / 'a'
        if kind == 'parquet':
            pq.ParquetWriter(path, table.schema).close()
        else:
            new = pa.ipc.new_file if kind == 'arrow' else pa.ipc.new_stream
            new(str(path), table.schema).close()
    assert read(ReadTables([path])) == ([], [])
    assert ReadTables([path]).schema() == table.schema


@pytest.mark.parametrize('kind', ['parquet', 'stream'])
def test_memory_does_not_grow_with_the_file(kind: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    schema = pa.schema({'data': pa.binary()})
    path = tmp_path / 'a'
    new = pq.ParquetWriter if kind == 'parquet' else pa.ipc.new_stream
    with new(str(path), schema) as writer:
        for _ in range(20):
            writer.write_batch(pa.record_batch([[rng.bytes(1 << 20) for _ in range(8)]], schema))
    assert path.stat().st_size > 160 << 20
    assert peak_of(lambda: [None for _ in ReadTables([path]).iterate()]) < 80 << 20


def test_only_the_wanted_columns_of_a_parquet_file_are_read(tmp_path: Path) -> None:
    table = pa.table({'n': range(50), 'data': random_bytes(50, 1 << 20)})
    path = store(table, tmp_path / 'a')
    assert peak_of(lambda: read(ReadTables([path], columns=['n']))) < 20 << 20


# Damage.


def damaged(path: Path, at: int, data: bytes = b'\xff' * 8) -> Path:
    content = bytearray(path.read_bytes())
    content[at : at + len(data)] = data
    path.write_bytes(content)
    return path


def test_a_damaged_row_group_is_a_bad_record_and_those_around_it_are_read(tmp_path: Path) -> None:
    table = pa.table({'n': pa.array(np.random.default_rng(0).integers(0, 2**60, 3000))})
    path = tmp_path / 'a'
    pq.write_table(table, path, row_group_size=1000, write_page_checksum=True, use_dictionary=False)
    at = pq.read_metadata(path).row_group(1).column(0).data_page_offset
    rows, (record,) = read(ReadTables([damaged(path, at + 4000)]))
    assert [row['n'] for row in rows] == [
        *table.column('n').to_pylist()[:1000], *table.column('n').to_pylist()[2000:],
    ]  # fmt: skip
    assert [place['row'] for place in places(rows)] == [*range(1000), *range(2000, 3000)]
    assert (record.error_type, record.place) == ('damaged', {'file': str(path), 'row': 1000})
    assert record.message.startswith('row group 1 is damaged: ')
    assert record.message.endswith('; its rows 1000 to 1999 are lost')


@pytest.mark.parametrize('keep', [3, 4, 100, -1, -8])
@pytest.mark.parametrize('kind', ['parquet', 'arrow'])
def test_a_file_that_was_cut_off_is_a_bad_record(kind: str, keep: int, tmp_path: Path) -> None:
    path = store(pa.table({'n': range(1000)}), tmp_path / 'a', kind)
    path.write_bytes(path.read_bytes()[:keep])
    rows, (record,) = read(ReadTables([path], format=kind))
    assert not rows
    assert record.error_type in ('damaged', 'format')
    assert record.place == {'file': str(path)}


def test_a_damaged_record_batch_is_a_bad_record_and_those_around_it_are_read(
    tmp_path: Path,
) -> None:
    table = pa.table({'text': [f'<{n:06d}>' for n in range(30)]})
    path = store(table, tmp_path / 'a', 'arrow', 10)
    # The offsets of the texts of a batch come right before its texts; Arrow pads the first batch
    # with the texts that follow.
    at = path.read_bytes().rindex(b'<000010>') - 24
    rows, (record,) = read(ReadTables([damaged(path, at)]))
    assert [row['text'] for row in rows] == [f'<{n:06d}>' for n in [*range(10), *range(20, 30)]]
    assert record.place == {'file': str(path), 'batch': 1}
    assert record.message.startswith('the record batch is damaged, and its rows are lost: ')


@pytest.mark.parametrize('compressed', [True, False])
def test_what_a_cut_off_stream_has_is_read(compressed: bool, tmp_path: Path) -> None:
    table = pa.table({'data': random_bytes(30, 1000)})
    path = store(table, tmp_path / 'a', 'stream', 10)
    data = path.read_bytes()
    data = gzip.compress(data) if compressed else data
    path.write_bytes(data[: len(data) * 4 // 5])
    rows, (record,) = read(ReadTables([path]))
    assert [row['data'] for row in rows] == table.column('data').to_pylist()[:20]
    assert (record.error_type, record.place) == ('damaged', {'file': str(path), 'row': 20})
    assert record.message.startswith('damaged, or it ends too early: 20 rows could be read: ')


# Avro.


def avro_file(path: Path, fields: list[Any], records: list[Any], **how: Any) -> Path:
    schema = {'type': 'record', 'name': 'top', 'namespace': 'a.b', 'fields': fields}
    with path.open('wb') as file:
        fastavro.writer(file, schema, records, **how)
    return path


NOW = dt.datetime(2024, 5, 6, 7, 8, 9, 123456, tzinfo=dt.timezone.utc)
LOCAL = dt.datetime.fromisoformat('2024-05-06T07:08:09.123')
SUB = {
    'type': 'record',
    'name': 'sub',
    'fields': [{'name': 'u', 'type': {'type': 'string', 'logicalType': 'uuid'}}],
}
UUID = uuid.UUID(int=7)


@pytest.mark.parametrize(
    ('kind', 'value', 'arrow', 'read_as'),
    [
        ('int', -3, pa.int32(), -3),
        ('long', 2**40, pa.int64(), 2**40),
        ('float', 0.5, pa.float32(), 0.5),
        ('double', 0.1, pa.float64(), 0.1),
        ('boolean', True, pa.bool_(), True),
        ('bytes', b'\xff', pa.binary(), b'\xff'),
        ('string', 'ä', pa.string(), 'ä'),
        (['null', 'string'], None, pa.string(), None),
        (['string', 'null'], 'x', pa.string(), 'x'),
        ({'type': 'string'}, 'x', pa.string(), 'x'),
        ({'type': 'enum', 'name': 'e', 'symbols': ['A', 'B']}, 'B', pa.string(), 'B'),
        ({'type': 'fixed', 'name': 'f', 'size': 2}, b'ab', pa.binary(2), b'ab'),
        ({'type': 'array', 'items': 'int'}, [1, 2], pa.list_(pa.int32()), [1, 2]),
        (
            {'type': 'map', 'values': 'long'},
            {'k': 1},
            pa.map_(pa.string(), pa.int64()),
            [('k', 1)],
        ),
        ({'type': 'int', 'logicalType': 'date'}, NOW.date(), pa.date32(), NOW.date()),
        (
            {'type': 'long', 'logicalType': 'timestamp-micros'},
            NOW,
            pa.timestamp('us', 'UTC'),
            NOW,
        ),
        (
            {'type': 'long', 'logicalType': 'local-timestamp-millis'},
            LOCAL,
            pa.timestamp('ms'),
            LOCAL,
        ),
        ({'type': 'long', 'logicalType': 'time-micros'}, dt.time(1), pa.time64('us'), dt.time(1)),
        (
            {'type': 'bytes', 'logicalType': 'decimal', 'precision': 5, 'scale': 2},
            decimal.Decimal('1.50'),
            pa.decimal128(5, 2),
            decimal.Decimal('1.50'),
        ),
        ({'type': 'string', 'logicalType': 'uuid'}, UUID, pa.string(), str(UUID)),
        (SUB, {'u': UUID}, pa.struct({'u': pa.string()}), {'u': str(UUID)}),
        (
            {'type': 'array', 'items': ['null', SUB]},
            [None, {'u': UUID}],
            pa.list_(pa.struct({'u': pa.string()})),
            [None, {'u': str(UUID)}],
        ),
        ({'type': 'long', 'logicalType': 'unknown'}, 7, pa.int64(), 7),
    ],
)
def test_an_avro_type_is_an_arrow_type(
    kind: Any, value: Any, arrow: pa.DataType, read_as: Any, tmp_path: Path
) -> None:
    path = avro_file(tmp_path / 'a', [{'name': 'v', 'type': kind}], [{'v': value}])
    assert ReadTables([path]).schema() == pa.schema({'v': arrow})
    rows, bad = read(ReadTables([path]))
    assert values(rows) == [{'v': read_as}]
    assert not bad


def test_a_named_avro_type_can_be_used_again(tmp_path: Path) -> None:
    fields = [{'name': 'x', 'type': SUB}, {'name': 'y', 'type': ['null', 'sub']}]
    path = avro_file(tmp_path / 'a', fields, [{'x': {'u': UUID}, 'y': {'u': UUID}}])
    rows, _ = read(ReadTables([path]))
    assert values(rows) == [{'x': {'u': str(UUID)}, 'y': {'u': str(UUID)}}]


@pytest.mark.parametrize(
    ('kind', 'words'),
    [
        (['int', 'string'], 'field v: a union of int, string has no Arrow type'),
        (
            {
                'type': 'record',
                'name': 'node',
                'fields': [{'name': 'next', 'type': ['null', 'node']}],
            },
            r'field v\.next: its type node contains itself',
        ),
    ],
)
def test_an_avro_type_that_arrow_has_not_is_refused_by_name(kind: Any, words: str) -> None:
    schema = {'type': 'record', 'name': 'top', 'fields': [{'name': 'v', 'type': kind}]}
    with pytest.raises(TableError, match=words):
        avro.arrow_schema(schema)


def test_avro_values_that_are_no_records_are_refused(tmp_path: Path) -> None:
    with (tmp_path / 'a').open('wb') as file:
        fastavro.writer(file, {'type': 'string'}, ['x'])
    _, (record,) = read(ReadTables([tmp_path / 'a']))
    assert record.message == 'its values are no records, so that they have no columns'


# fastavro needs further libraries to write the codecs that are most in use.
CODECS: dict[str, Any] = {
    'snappy': lambda data: (
        pa.Codec('snappy').compress(data, asbytes=True) + zlib.crc32(data).to_bytes(4, 'big')
    ),
    'zstandard': lambda data: pa.Codec('zstd').compress(data, asbytes=True),
}


SYNC = bytes(range(16))


def container(codec: str, blocks: list[tuple[int, list[str]]]) -> bytes:
    """An Avro file with a column `v`; of each block the count that it tells, and its texts."""
    schema = {'type': 'record', 'name': 'r', 'fields': [{'name': 'v', 'type': 'string'}]}
    file = io.BytesIO()
    meta = {'avro.schema': json.dumps(schema).encode(), 'avro.codec': codec.encode()}
    file.write(b'Obj\x01')
    fastavro.schemaless_writer(file, {'type': 'map', 'values': 'bytes'}, meta)
    file.write(SYNC)
    for count, texts in blocks:
        data = io.BytesIO()
        for text in texts:
            fastavro.schemaless_writer(data, schema, {'v': text})
        fastavro.schemaless_writer(file, 'long', count)
        fastavro.schemaless_writer(file, 'bytes', CODECS.get(codec, bytes)(data.getvalue()))
        file.write(SYNC)
    return file.getvalue()


def test_an_avro_block_with_more_records_than_it_tells_is_a_bad_record(tmp_path: Path) -> None:
    # What follows the records is in turn: another list of them, the end of the list, nothing.
    blocks = [(1, ['a']), (1, ['b', 'c']), (1, ['b', '']), (0, []), (2, ['d']), (1, ['e'])]
    (tmp_path / 'a').write_bytes(container('null', blocks))
    rows, bad = read(ReadTables([tmp_path / 'a']))
    assert values(rows) == [{'v': 'a'}, {'v': 'e'}]
    assert [record.place['row'] for record in bad] == [1, 2, 3]
    assert bad[1].message == (
        'a block is damaged, and its 1 rows are lost: more bytes than its records have'
    )


def test_an_avro_block_without_its_end_is_a_bad_record_that_says_what_was_read(
    tmp_path: Path,
) -> None:
    data = container('null', [(1, ['a']), (1, ['b'])])
    (tmp_path / 'a').write_bytes(data[:-1] + b'x')
    rows, (record,) = read(ReadTables([tmp_path / 'a']))
    assert values(rows) == [{'v': 'a'}]
    assert record.place == {'file': f'{tmp_path}/a', 'row': 1}
    assert 'no end of the block of 2 bytes where it should be' in record.message


def test_an_avro_file_that_ends_within_a_number_is_cut_off(tmp_path: Path) -> None:
    (tmp_path / 'a').write_bytes(container('null', [(1, ['a'])]) + b'\x80')
    rows, (record,) = read(ReadTables([tmp_path / 'a']))
    assert values(rows) == [{'v': 'a'}]
    assert record.message.endswith('the file ends within a number')


def test_the_checksum_of_a_snappy_block_is_checked(tmp_path: Path) -> None:
    data = container('snappy', [(1, ['abc'])])
    (tmp_path / 'a').write_bytes(data.replace(b'abc', b'abd'))
    rows, (record,) = read(ReadTables([tmp_path / 'a']))
    assert not rows
    assert record.message.endswith('its checksum is wrong')


@pytest.mark.parametrize(
    'schema',
    [b'{"type": "rec', b'["int"', b'{"type": "record", "name": "r", "fields": [{}]}', b'7'],
)
def test_an_avro_schema_that_is_none_is_a_bad_record(schema: bytes, tmp_path: Path) -> None:
    file = io.BytesIO()
    fastavro.schemaless_writer(file, {'type': 'map', 'values': 'bytes'}, {'avro.schema': schema})
    (tmp_path / 'a').write_bytes(b'Obj\x01' + file.getvalue() + SYNC)
    rows, (record,) = read(ReadTables([tmp_path / 'a']))
    assert not rows
    assert record.error_type == 'damaged'


@pytest.mark.parametrize('codec', CODECS)
def test_avro_blocks_of_codecs_that_fastavro_has_not_are_read(codec: str, tmp_path: Path) -> None:
    data = container(codec, [(2, ['a', 'b']), (1, ['c' * 200])])
    (tmp_path / 'a').write_bytes(data)
    rows, bad = read(ReadTables([tmp_path / 'a']))
    assert values(rows) == [{'v': 'a'}, {'v': 'b'}, {'v': 'c' * 200}]
    assert not bad
    (tmp_path / 'a').write_bytes(data.replace(codec.encode(), b'x' * len(codec)))
    _, (record,) = read(ReadTables([tmp_path / 'a']))
    assert record.error_type == 'format'
    assert record.message == (
        f'its codec {"x" * len(codec)} is unknown: there are null, deflate, snappy, bzip2, xz, '
        'zstandard'
    )


@pytest.mark.parametrize('codec', ['null', 'deflate', 'bzip2', 'xz'])
def test_avro_blocks_of_every_codec_are_put_together(codec: str, tmp_path: Path) -> None:
    records = [{'v': f'{n}' * 9} for n in range(500)]
    path = avro_file(
        tmp_path / 'a', [{'name': 'v', 'type': 'string'}], records, codec=codec, sync_interval=100
    )
    (batch,) = batches(path)
    assert batch.drop_columns([PLACE]).to_pylist() == records
    assert [place['row'] for place in places(batch.to_pylist())] == list(range(500))


def test_a_damaged_avro_block_is_a_bad_record_and_those_around_it_are_read(tmp_path: Path) -> None:
    records = [{'v': f'{n:05d}'} for n in range(60)]
    path = avro_file(tmp_path / 'a', [{'name': 'v', 'type': 'string'}], records, sync_interval=100)
    at = path.read_bytes().index(b'00021')
    rows, (record,) = read(ReadTables([damaged(path, at, b'\xff')]))
    lost = 60 - len(rows)
    assert 1 < lost < 30
    first = record.place['row']
    assert [row['v'] for row in rows] == [
        f'{n:05d}' for n in range(60) if not first <= n < first + lost
    ]
    assert [place['row'] for place in places(rows)] == [int(row['v']) for row in rows]
    assert record.message.startswith(f'a block is damaged, and its {lost} rows are lost: ')


def test_what_a_cut_off_avro_file_has_is_read(tmp_path: Path) -> None:
    records = [{'v': f'{n:05d}'} for n in range(60)]
    path = avro_file(tmp_path / 'a', [{'name': 'v', 'type': 'string'}], records, sync_interval=100)
    path.write_bytes(path.read_bytes()[:-30])
    rows, (record,) = read(ReadTables([path]))
    assert 20 < len(rows) < 60
    assert record.place == {'file': str(path), 'row': len(rows)}
    path.write_bytes(path.read_bytes()[:20])
    rows, (record,) = read(ReadTables([path]))
    assert record.message.startswith('not an Avro file, or damaged: ')


@pytest.mark.parametrize('kind', [*KINDS, 'avro'])
def test_any_damage_gives_rows_and_bad_records(kind: str, tmp_path: Path) -> None:
    # In a process of its own: a decoder that is led astray ends it.
    script = tmp_path / 'damage.py'
    script.write_text(DAMAGE)
    done = subprocess.run(
        [sys.executable, str(script), kind, str(tmp_path / 'a')],
        capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2],
        env={**os.environ, 'PYTHONPATH': str(Path(__file__).parents[2])},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]


DAMAGE = """
import random, sys
from pathlib import Path
import fastavro, pyarrow as pa
from beam_mds import EncodingError, ReadTables
from beam_mds.format import Columns
from beam_mds.records import BadRecord
from beam_mds.sources.tables import ERROR_TYPES
from tests.helpers.tables import store

kind, path = sys.argv[1], Path(sys.argv[2])
table = pa.table({
    'n': range(50), 's': [f'text {i}' * 3 for i in range(50)], 'l': [[i, i] for i in range(50)],
    'in': [{'a': i, 'b': 'x'} for i in range(50)],
    'd': pa.array(['r', 'g'] * 25).dictionary_encode(),
})
if kind == 'avro':
    fields = [{'name': 'n', 'type': 'int'}, {'name': 's', 'type': 'string'}]
    with path.open('wb') as file:
        fastavro.writer(file, {'type': 'record', 'name': 'r', 'fields': fields},
                        table.select(['n', 's']).to_pylist(), sync_interval=100)
else:
    store(table, path, kind, 20)
good = path.read_bytes()
rng = random.Random(0)
for _ in range(400):
    data = bytearray(good)
    for _ in range(rng.choice([1, 1, 2, 5])):
        at = rng.randrange(len(data))
        data[at] = rng.choice([0, 255, data[at] ^ 1 << rng.randrange(8)])
    path.write_bytes(data)
    for element in ReadTables([path], format='parquet' if kind == 'parquet' else 'auto').iterate():
        if isinstance(element, BadRecord):
            assert element.error_type in ERROR_TYPES
        else:
            for name in {'s', 'd', 'in'} & set(element.schema.names):
                encoding = 'json' if name == 'in' else 'str'
                try:
                    Columns({name: encoding}).encode_batch(element, ignore=None)
                except EncodingError:
                    pass
"""

"""ReadTables: what holds for every format."""

from __future__ import annotations

import datetime as dt
import decimal
import gzip
from pathlib import Path
from typing import Any

import apache_beam as beam
import fastavro
import hypothesis
import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import assert_that, equal_to

from beam_mds import OptionError, ReadTables, RecordError, StorageError, WriteToMDS, read_samples
from beam_mds.records import PLACE, BadRecord
from beam_mds.schema import infer_columns
from beam_mds.sources.tables import ERROR_TYPES
from beam_mds.sources.tabular.parts import TableError
from tests.helpers.faulty import Fault, Faults
from tests.helpers.runners import runner_of
from tests.helpers.tables import places, read, store, values
from tests.helpers.writing import run

KINDS = ('parquet', 'arrow', 'stream')
TABLE = pa.table({'n': range(7), 'text': [f'täxt {n}' for n in range(7)]})


def counting(count: int) -> pa.Table:
    return pa.table({'n': range(count)})


# The formats.


@pytest.mark.parametrize('kind', KINDS)
@pytest.mark.parametrize('name', ['a.parquet', 'a.arrow', 'a', 'a.csv'])
def test_the_format_is_told_by_what_the_file_holds(kind: str, name: str, tmp_path: Path) -> None:
    rows, bad = read(ReadTables([store(TABLE, tmp_path / name, kind)]))
    assert values(rows) == TABLE.to_pylist()
    assert not bad


def test_several_formats_in_one_folder_are_read_in_order_of_their_names(tmp_path: Path) -> None:
    for number, kind in enumerate(KINDS):
        store(TABLE.slice(number, 1), tmp_path / f'{number}', kind)
    (tmp_path / '3.csv').write_text('n,text\n3,drei\n')
    rows, _ = read(ReadTables([tmp_path]))
    assert values(rows) == [*TABLE.to_pylist()[:3], {'n': '3', 'text': 'drei'}]


@pytest.mark.parametrize('kind', ['parquet', 'arrow', 'avro'])
def test_a_file_of_another_format_than_the_given_one_is_a_bad_record(
    kind: str, tmp_path: Path
) -> None:
    path = tmp_path / 'a.csv'
    path.write_text('a,b\n')
    rows, bad = read(ReadTables([path], format=kind))
    assert not rows
    (record,) = bad
    assert (record.error_type, record.place) == ('format', {'file': str(path)})
    assert record.message == (
        f"a file of csv, expected format {kind}; it begins with b'a,b\\n': say its format"
    )


@pytest.mark.parametrize(
    ('name', 'data', 'words'),
    [
        ('a', b'hello you', "another format, expected a known format; it begins with b'hello yo'"),
        ('a.json', b'', 'an empty file, expected a known format'),
        ('a', b'PARE....', 'an encrypted Parquet file, which is not read: decrypt it first'),
        ('a', b'FEA1....', 'a Feather file of version 1, which is not read: write it as version 2'),
    ],
)
def test_a_file_of_no_known_format_is_a_bad_record(
    name: str, data: bytes, words: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(data)
    _, (record,) = read(ReadTables([tmp_path / name]))
    assert record.error_type == 'format'
    assert words in record.message


@pytest.mark.parametrize('kind', ['parquet', 'arrow'])
def test_a_format_that_needs_seek_is_not_read_from_a_compressed_file(
    kind: str, tmp_path: Path
) -> None:
    path = tmp_path / 'a'
    path.write_bytes(gzip.compress(store(TABLE, tmp_path / 'b', kind).read_bytes()))
    _, (record,) = read(ReadTables([path]))
    assert record.error_type == 'format'
    assert f'the whole file is compressed (gz), and {kind} files are not' in record.message


def test_a_stream_is_read_from_a_compressed_file(tmp_path: Path) -> None:
    path = tmp_path / 'a'
    path.write_bytes(gzip.compress(store(TABLE, tmp_path / 'b', 'stream').read_bytes()))
    rows, _ = read(ReadTables([path]))
    assert values(rows) == TABLE.to_pylist()


# Columns.


@pytest.mark.parametrize('kind', KINDS)
def test_only_the_columns_that_are_wanted_are_given_in_their_order(
    kind: str, tmp_path: Path
) -> None:
    path = store(TABLE.append_column('z', [[1.5] * 7]), tmp_path / 'a', kind)
    source = ReadTables([path], columns=['z', 'n'])
    assert source.schema().names == ['z', 'n']
    rows, _ = read(source)
    assert list(rows[1]) == ['z', 'n', PLACE]
    assert values(rows)[1] == {'z': 1.5, 'n': 1}


@pytest.mark.parametrize('kind', KINDS)
def test_a_field_of_a_struct_is_a_column_of_its_whole_name(kind: str, tmp_path: Path) -> None:
    table = pa.table(
        {
            'meta': [{'lang': 'en', 'in': {'x': 1}}, {'lang': None, 'in': None}, None],
            'meta.score': [0.5, 1.5, 2.5],
            'other.in': [{'x': 7}] * 3,
        }
    )
    path = store(table, tmp_path / 'a', kind)
    rows, _ = read(
        ReadTables([path], columns=['meta.lang', 'meta.score', 'meta.in.x', 'other.in.x'])
    )
    assert values(rows) == [
        {'meta.lang': 'en', 'meta.score': 0.5, 'meta.in.x': 1, 'other.in.x': 7},
        {'meta.lang': None, 'meta.score': 1.5, 'meta.in.x': None, 'other.in.x': 7},
        {'meta.lang': None, 'meta.score': 2.5, 'meta.in.x': None, 'other.in.x': 7},
    ]
    rows, _ = read(ReadTables([path], columns=['meta']))
    assert values(rows) == [{'meta': meta} for meta in table.column('meta').to_pylist()]


def test_a_missing_column_is_a_bad_record_that_names_file_and_column(tmp_path: Path) -> None:
    store(TABLE, tmp_path / 'a')
    path = store(counting(3), tmp_path / 'b')
    rows, (record,) = read(ReadTables([tmp_path], columns=['n', 'text']))
    assert len(rows) == 7
    assert record == BadRecord(
        'schema', "it has no column 'text': there are n", {'file': str(path)}
    )


def test_a_column_that_is_not_wanted_is_ignored_or_an_error_that_names_it(tmp_path: Path) -> None:
    path = store(TABLE, tmp_path / 'a')
    rows, bad = read(ReadTables([path], columns=['n']))
    assert len(rows) == 7
    assert not bad
    rows, (record,) = read(ReadTables([path], columns=['n'], extra='error'))
    assert not rows
    assert record.error_type == 'schema'
    assert "it has the column 'text', which is not in the first file: name the" in record.message


def test_other_widths_of_a_number_are_read_and_another_type_is_a_bad_record(tmp_path: Path) -> None:
    store(pa.table({'n': pa.array([1], pa.int8())}), tmp_path / 'a')
    store(pa.table({'n': pa.array([2], pa.uint64())}), tmp_path / 'b')
    store(pa.table({'n': ['three']}), tmp_path / 'c')
    rows, (record,) = read(ReadTables([tmp_path], columns={'n': 'int8'}))
    assert [row['n'] for row in rows] == [1, 2]
    assert record.place == {'file': f'{tmp_path}/c'}
    assert record.error_type == 'schema'
    assert "column 'n' is string, and cannot be int8 as the dataset has it" in record.message


def test_columns_of_one_name_are_a_bad_record(tmp_path: Path) -> None:
    twice = pa.Table.from_arrays([[1], [2]], names=['a', 'a'])
    _, (record,) = read(ReadTables([store(twice, tmp_path / 'a', 'arrow')]))
    assert record.message == "its columns 1 and 2 are both called 'a'"


# Folders that are columns.


def test_hive_folders_are_columns_of_text(tmp_path: Path) -> None:
    store(counting(1), tmp_path / 'day=2024-01-01%2F02' / 'lang=en' / 'x=y=z' / 'a')
    rows, _ = read(ReadTables([tmp_path]))
    assert values(rows) == [{'n': 0, 'day': '2024-01-01/02', 'lang': 'en', 'x': 'y=z'}]
    assert ReadTables([tmp_path]).schema() == pa.schema(
        {'n': pa.int64(), 'day': pa.string(), 'lang': pa.string(), 'x': pa.string()}
    )
    rows, _ = read(ReadTables([tmp_path], columns=['lang', 'n']))
    assert values(rows) == [{'n': 0, 'lang': 'en'}]
    rows, _ = read(ReadTables([tmp_path], partitions=False))
    assert values(rows) == [{'n': 0}]


def test_hives_name_of_null_is_null(tmp_path: Path) -> None:
    store(counting(1), tmp_path / 'lang=__HIVE_DEFAULT_PARTITION__' / 'a')
    rows, _ = read(ReadTables([tmp_path]))
    assert values(rows) == [{'n': 0, 'lang': None}]


def test_a_folder_and_a_column_of_one_name_are_a_bad_record(tmp_path: Path) -> None:
    store(counting(1), tmp_path / 'n=1' / 'a')
    _, (record,) = read(ReadTables([tmp_path]))
    assert record.error_type == 'schema'
    assert record.message == (
        "a column of the file and one that a folder or the split pattern gives are called 'n'"
    )


def test_the_fields_of_the_split_pattern_are_columns(tmp_path: Path) -> None:
    store(counting(1), tmp_path / 'train-0.parquet')
    rows, _ = read(ReadTables([tmp_path], split='{split}-*.parquet'))
    assert values(rows) == [{'n': 0, 'split': 'train'}]


def test_what_hadoop_hides_is_left_out(tmp_path: Path) -> None:
    store(counting(1), tmp_path / 'a')
    for name in ('_SUCCESS', '.a.crc', '_delta_log/0.json'):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b'')
    rows, bad = read(ReadTables([tmp_path]))
    assert len(rows) == 1
    assert not bad


# Images and audio of Hugging Face's datasets.

MEDIA = pa.struct({'bytes': pa.binary(), 'path': pa.string()})


@pytest.mark.parametrize('kind', KINDS)
def test_structs_of_bytes_and_path_are_bytes_and_the_path_can_be_had(
    kind: str, tmp_path: Path
) -> None:
    files = [{'bytes': b'1', 'path': 'a'}, {'bytes': b'', 'path': None}, None]
    path = store(pa.table({'image': pa.array(files, MEDIA)}), tmp_path / 'a', kind)
    rows, bad = read(ReadTables([path], columns=['image', 'image.path']))
    assert values(rows) == [
        {'image': b'1', 'image.path': 'a'},
        {'image': b'', 'image.path': None},
        {'image': None, 'image.path': None},
    ]
    assert not bad


@pytest.mark.parametrize('kind', KINDS)
@pytest.mark.parametrize('list_of', [pa.list_, pa.large_list])
def test_lists_of_structs_of_bytes_and_path_are_lists_of_bytes(
    kind: str, list_of: Any, tmp_path: Path
) -> None:
    lists = [[{'bytes': b'1', 'path': 'a'}], None, [], [{'bytes': b'2'}, {'bytes': b'3'}]]
    table = pa.table({'images': pa.array([[{}], *lists], list_of(MEDIA))}).slice(1)
    rows, bad = read(ReadTables([store(table, tmp_path / 'a', kind)]))
    assert values(rows) == [{'images': some} for some in ([b'1'], None, [], [b'2', b'3'])]
    assert not bad


def test_a_file_without_bytes_is_a_bad_record_and_its_neighbours_are_kept(tmp_path: Path) -> None:
    files = [{'bytes': b'1'}, {'path': 'a/b.jpg'}, {'bytes': b'3'}]
    lists = [[files[0]], [files[0]], [files[0], {'path': 'c.jpg'}, {'path': 'd.jpg'}]]
    table = pa.table(
        {'n': range(3), 'image': pa.array(files, MEDIA), 'all': pa.array(lists, pa.list_(MEDIA))}
    )
    path = store(table, tmp_path / 'a')
    rows, bad = read(ReadTables([path]))
    assert [row['n'] for row in rows] == [0]
    assert bad == [
        BadRecord('media', f'column {name!r} has no bytes, only the path {file!r}',
                  {'file': str(path), 'row': row})
        for row, name, file in ((1, 'image', 'a/b.jpg'), (2, 'all', 'd.jpg'))
    ]  # fmt: skip


def test_a_struct_with_more_than_bytes_and_path_stays_a_struct(tmp_path: Path) -> None:
    rows = [{'audio': {'bytes': b'1', 'path': 'a', 'rate': 8}}]
    read_rows, _ = read(ReadTables([store(pa.Table.from_pylist(rows), tmp_path / 'a')]))
    assert values(read_rows) == rows


# Options.


@pytest.mark.parametrize(
    ('options', 'words'),
    [
        ({'format': 'orc'}, "format='orc' is unknown: expected auto, parquet, arrow, csv, avro"),
        ({'extra': 'keep'}, "extra='keep' is unknown: expected ignore, error"),
        ({'columns': 'n'}, "columns must be a list of names or None, got 'n'"),
        ({'columns': []}, r'columns must be a list of names or None, got \[\]'),
        ({'csv_delimiter': '::'}, "csv_delimiter must be one character, got '::'"),
        ({'csv_quote': ''}, "csv_quote must be one character, got ''"),
        ({'csv_header': 'last'}, "csv_header must be 'first', 'none' or a list of names"),
        ({'csv_encoding': 'utf-9'}, "csv_encoding='utf-9' is unknown to Python"),
        (
            {'format': 'csv', 'columns': {'v': 'ndarray:int32'}},
            "column 'v': a text of a CSV file is no ndarray:int32: expected str, bytes, json, ",
        ),
    ],
)
def test_a_wrong_option_is_an_error_before_the_job(options: dict[str, Any], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        ReadTables(['a'], **options)


def test_the_schema_of_a_file_that_is_no_table_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / 'a').write_bytes(b'PAR1 and not more')
    with pytest.raises(
        TableError, match=rf'{tmp_path}/a: not a Parquet file, or damaged'
    ) as raised:
        ReadTables([tmp_path / 'a']).schema()
    assert raised.value.error_type in ERROR_TYPES
    with pytest.raises(StorageError, match='no file there'):
        ReadTables([tmp_path / 'b']).schema()


# In a pipeline.

EPOCH = dt.datetime.fromisoformat('1970-01-01')

SCALARS: dict[Any, Any] = {
    pa.int16(): st.integers(-(2**15), 2**15 - 1),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.float32(): st.floats(width=32, allow_nan=False),
    pa.float64(): st.floats(allow_nan=False),
    pa.bool_(): st.booleans(),
    pa.string(): st.text(max_size=9),
    pa.large_string(): st.text(max_size=9),
    pa.binary(): st.binary(max_size=9),
    pa.decimal128(9, 2): st.decimals('-999.99', '999.99', places=2),
    pa.timestamp('us'): st.datetimes(EPOCH.replace(year=1900), EPOCH.replace(year=2100)),
    pa.list_(pa.float64()): st.lists(st.floats(allow_nan=False), min_size=1, max_size=4),
    pa.list_(pa.string()): st.lists(st.text(max_size=3), max_size=3),
    pa.struct({'a': pa.int64(), 'b': pa.string()}): st.fixed_dictionaries(
        {'a': st.integers(-9, 9), 'b': st.text(max_size=3)}
    ),
    pa.dictionary(pa.int32(), pa.string()): st.sampled_from(['red', 'green', '']),
}


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    kinds = draw(st.lists(st.sampled_from(list(SCALARS)), min_size=1, max_size=4))
    count = draw(st.integers(0, 20))
    columns = [
        pa.array(draw(st.lists(SCALARS[kind], min_size=count, max_size=count)), kind)
        for kind in kinds
    ]
    return pa.table(columns, [f'c{number}' for number in range(len(kinds))])


def stored(value: Any) -> Any:
    """What a reader of the dataset gets for a value of a table."""
    if isinstance(value, dt.datetime):
        return (value - EPOCH) // dt.timedelta(microseconds=1)
    return value


def plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, 'tolist') else value


@hypothesis.settings(max_examples=60, deadline=None)
@hypothesis.given(tables(), st.sampled_from(KINDS), st.integers(1, 9))
def test_any_table_comes_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, table: pa.Table, kind: str, size: int
) -> None:
    path = store(table, tmp_path_factory.mktemp('any') / 'a', kind, size)
    rows, bad = read(ReadTables([path]))
    assert values(rows) == table.to_pylist()
    assert not bad


@hypothesis.settings(max_examples=8, deadline=None, phases=[hypothesis.Phase.generate])
@hypothesis.given(tables().filter(len), st.sampled_from(KINDS))
def test_any_table_is_the_same_in_the_dataset(
    tmp_path_factory: pytest.TempPathFactory, table: pa.Table, kind: str
) -> None:
    folder = tmp_path_factory.mktemp('dataset')
    table = table.append_column('n', [range(len(table))])
    path = store(table, folder / 'a', kind, 5)
    write = WriteToMDS(folder / 'out', infer_columns(ReadTables([path]).schema()))
    run(lambda pipeline: pipeline | ReadTables([path]) | write)
    samples = sorted(read_samples(folder / 'out'), key=lambda sample: sample['n'])
    assert [{name: plain(value) for name, value in sample.items()} for sample in samples] == [
        {name: stored(value) for name, value in row.items()} for row in table.to_pylist()
    ]


def test_the_row_groups_of_a_file_are_read_by_several_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr('beam_mds.sources.tabular.parquet.PIECE_BYTES', 1)
    store(counting(2000), tmp_path / 'a', rows=100)
    source = ReadTables([tmp_path])
    assert len(list(source.pieces(source.files()[0]))) == 20
    rows, _ = read(source)
    assert (
        [row['n'] for row in rows] == [place['row'] for place in places(rows)] == list(range(2000))
    )
    sink = WriteToMDS(tmp_path / 'out', {'n': 'int64'})
    runner, flags = runner_of('processes')
    run(lambda pipeline: pipeline | source | sink, *flags, runner=runner)
    assert sorted(int(sample['n']) for sample in read_samples(tmp_path / 'out')) == list(
        range(2000)
    )


def test_bad_records_fail_the_job_or_are_an_output_of_their_own(tmp_path: Path) -> None:
    store(counting(2), tmp_path / 'a')
    (tmp_path / 'b').write_bytes(b'PAR1')
    with (
        pytest.raises(RecordError, match=rf'{tmp_path}/b: not a Parquet file, or damaged'),
        beam.Pipeline(runner=FnApiRunner()) as pipeline,
    ):
        _ = pipeline | ReadTables([tmp_path])
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        result = pipeline | ReadTables([tmp_path], on_error='dead_letter')
        numbers = result.samples | beam.FlatMap(lambda batch: batch.column('n').to_pylist())
        files = result.errors | beam.Map(lambda record: record.place['file'])
        assert_that(numbers, equal_to([0, 1]), label='numbers')
        assert_that(files, equal_to([f'{tmp_path}/b']), label='files')


@pytest.mark.parametrize('kind', [*KINDS, 'csv', 'avro'])
def test_a_store_that_is_busy_is_asked_again(kind: str, faults: Faults) -> None:
    path = faults.local / f'a.{kind}'
    if kind == 'csv':
        path.write_text('n\n0\n1\n')
    elif kind == 'avro':
        schema = {'type': 'record', 'name': 'r', 'fields': [{'name': 'n', 'type': 'int'}]}
        with path.open('wb') as file:
            fastavro.writer(file, schema, [{'n': 0}, {'n': 1}])
    else:
        store(counting(2), path, kind)
    faults.add(
        Fault('read', nth=2, times=2, error='503'), Fault('open', nth=2, error='reset'),
        Fault('size', nth=1, error='429.beam'),
    )  # fmt: skip
    rows, bad = read(ReadTables([f'{faults.folder}/a.{kind}']))
    assert [int(row['n']) for row in rows] == [0, 1]
    assert not bad


@pytest.mark.parametrize('kind', [*KINDS, 'csv'])
def test_a_store_that_fails_for_good_is_an_error_and_no_bad_record(
    kind: str, faults: Faults
) -> None:
    path = faults.local / f'a.{kind}'
    if kind == 'csv':
        path.write_text('n\n' + '1\n' * 2_000_000)
    else:
        rng = np.random.default_rng(0)
        table = pa.table({'n': [rng.bytes(1 << 20) for _ in range(12)]})
        store(table, path, kind, 3)
    source = ReadTables([f'{faults.folder}/a.{kind}'])
    read(source)
    reads = len(faults.calls('read'))
    faults.clear()
    faults.add(Fault('read', nth=reads - 1, times=None, error='permission'))
    with pytest.raises(StorageError, match='Permission denied'):
        read(source)


def test_a_bucket_is_read(gcs_bucket: str, tmp_path: Path) -> None:
    from apache_beam.io.filesystems import FileSystems

    for kind in KINDS:
        data = store(TABLE, tmp_path / kind, kind).read_bytes()
        with FileSystems.create(f'{gcs_bucket}/x=1/{kind}', compression_type='uncompressed') as out:
            out.write(data)
    rows, bad = read(ReadTables([gcs_bucket]))
    assert values(rows) == [{**row, 'x': '1'} for row in TABLE.to_pylist() * 3]
    assert not bad


@pytest.mark.parametrize('kind', KINDS)
def test_extension_types_are_what_they_are_stored_as_and_tensors_stay(
    kind: str, tmp_path: Path
) -> None:
    uuids = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b'u' * 16], pa.binary(16)))
    tensors = pa.FixedShapeTensorArray.from_numpy_ndarray(np.ones((1, 2, 3), np.float32))
    path = store(pa.table({'u': uuids, 't': tensors}), tmp_path / 'a', kind)
    schema = ReadTables([path]).schema()
    assert infer_columns(schema) == {'u': 'bytes', 't': 'ndarray:float32:2,3'}
    (batch,) = ReadTables([path]).iterate()
    assert batch.column('u').to_pylist() == [b'u' * 16]


def test_names_that_are_no_text_are_a_bad_record(tmp_path: Path) -> None:
    path = store(pa.table({'nämé': [1]}), tmp_path / 'a', 'stream')
    path.write_bytes(path.read_bytes().replace('é'.encode(), b'\xff\xff'))
    rows, (record,) = read(ReadTables([path]))
    assert not rows
    assert record.error_type == 'damaged'


def test_decimals_keep_their_scale(tmp_path: Path) -> None:
    value = decimal.Decimal('1.50')
    table = pa.table({'d': pa.array([value], pa.decimal128(5, 2))})
    rows, _ = read(ReadTables([store(table, tmp_path / 'a')]))
    assert str(rows[0]['d']) == '1.50'

"""`beam-mds convert parquet | arrow | csv | avro`, and `python -m pipelines.tables`."""

from __future__ import annotations

import datetime as dt
import decimal
import io
import json
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from beam_mds import ErrorThresholdError, cli, read_samples
from beam_mds.indexes import read_index
from beam_mds.sources.tables import TableError
from pipelines import conversion
from tests.helpers.tables import store

KINDS = {'parquet': 'parquet', 'arrow': 'arrow', 'stream': 'arrow'}


def image(kind: str) -> bytes:
    file = io.BytesIO()
    Image.new('RGB', (3, 2)).save(file, kind)
    return file.getvalue()


JPEG, PNG = image('jpeg'), image('png')
MEDIA = pa.struct({'bytes': pa.binary(), 'path': pa.string()})


def convert(folder: Path, *args: str) -> dict[str, str]:
    """Converts the folder `in` to `out`; gives the columns of the dataset."""
    _, result = conversion.run(
        'tables',
        [f'--input={folder}/in', f'--output={folder}/out', '--runner=FnApiRunner', *args],
    )
    result.wait_until_finish()
    (config,) = {shard.config for shard in read_index(folder / 'out')}
    return config.columns.as_dict()


def samples(folder: Path, by: str = 'n') -> list[dict[str, Any]]:
    return sorted(read_samples(folder / 'out'), key=lambda sample: sample[by])


def letters(folder: Path) -> list[dict[str, Any]]:
    return list(map(json.loads, (folder / 'out.errors.jsonl').read_text().splitlines()))


def usage_error(capsys: pytest.CaptureFixture[str], folder: Path, *args: str) -> str:
    with pytest.raises(SystemExit, match='2'):
        convert(folder, *args)
    assert not (folder / 'out').exists()
    return capsys.readouterr().err


# Each format by its own name.


@pytest.mark.parametrize('kind', KINDS)
def test_parquet_and_arrow_are_converted_by_name(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store(pa.table({'n': range(9), 'text': ['x'] * 9}), tmp_path / 'in' / 'a', kind)
    given = ['convert', KINDS[kind], f'--input={tmp_path}/in', f'--output={tmp_path}/out']
    assert cli.main([*given, '--', '--runner=FnApiRunner']) == 0
    assert [int(sample['n']) for sample in samples(tmp_path)] == list(range(9))
    printed = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ['records', 'read', '9'] in printed
    assert letters(tmp_path) == []


def test_csv_is_converted_by_name(tmp_path: Path) -> None:
    (tmp_path / 'in.csv').write_text('id,text,n\n007,"a\nb",1\n')
    given = ['convert', 'csv', f'--input={tmp_path}/in.csv', f'--output={tmp_path}/out']
    assert cli.main([*given, '--columns=id,text,n=uint8', '--', '--runner=FnApiRunner']) == 0
    assert samples(tmp_path) == [{'id': '007', 'text': 'a\nb', 'n': 1}]


def test_avro_is_converted_by_name(tmp_path: Path) -> None:
    schema = {
        'type': 'record', 'name': 'r',
        'fields': [
            {'name': 'n', 'type': 'int'},
            {'name': 'when', 'type': {'type': 'long', 'logicalType': 'timestamp-millis'}},
            {'name': 'tags', 'type': {'type': 'map', 'values': 'string'}},
            {'name': 'in', 'type': {'type': 'record', 'name': 'i', 'fields': [
                {'name': 'x', 'type': ['null', 'double']}]}},
        ],
    }  # fmt: skip
    when = dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc)
    rows = [{'n': n, 'when': when, 'tags': {'a': 'b'}, 'in': {'x': n / 2}} for n in range(5)]
    with (tmp_path / 'in.avro').open('wb') as file:
        fastavro.writer(file, schema, rows, codec='deflate')
    given = ['convert', 'avro', f'--input={tmp_path}/in.avro', f'--output={tmp_path}/out']
    assert cli.main([*given, '--', '--runner=FnApiRunner']) == 0
    assert samples(tmp_path) == [{**row, 'when': when.timestamp() * 1e6} for row in rows]
    (config,) = {shard.config for shard in read_index(tmp_path / 'out')}
    assert config.columns.as_dict() == {
        'n': 'int32', 'when': 'int64', 'tags': 'json', 'in': 'json',
    }  # fmt: skip


def test_the_name_of_a_format_refuses_others(tmp_path: Path) -> None:
    store(pa.table({'n': range(9)}), tmp_path / 'in' / 'a')
    given = ['convert', 'avro', f'--input={tmp_path}/in', f'--output={tmp_path}/out']
    assert cli.main(given) == 3


# Columns.


def test_every_type_of_a_table_passes(tmp_path: Path) -> None:
    now = dt.datetime.fromisoformat('2024-01-02T03:04:05.000006')
    value = decimal.Decimal('1.50')
    table = pa.table(
        {
            'n': pa.array([-1, 0], pa.int16()),
            'flag': [True, False],
            'when': pa.array([now, now], pa.timestamp('us')),
            'money': pa.array([value, value], pa.decimal128(5, 2)),
            'vector': pa.array([[0.5], [1.5, 2.5]], pa.list_(pa.float32())),
            'matrix': pa.array([[[1.0, 2.0]], [[3.0], [4.0]]], pa.list_(pa.list_(pa.float64()))),
            'fixed': pa.array([[1, 2], [3, 4]], pa.list_(pa.uint8(), 2)),
            'meta': [{'a': 1, 'b': ['x']}, {'a': 2, 'b': None}],
            'colour': pa.array(['red', 'red']).dictionary_encode(),
            'long': pa.array(['x', 'y'], pa.large_string()),
            'data': [b'\xff', b''],
        }
    )
    store(table, tmp_path / 'in' / 'a.parquet')
    micros = (now - dt.datetime.fromisoformat('1970-01-01')) // dt.timedelta(microseconds=1)
    assert convert(tmp_path) == {
        'n': 'int16', 'flag': 'uint8', 'when': 'int64', 'money': 'str_decimal',
        'vector': 'ndarray:float32', 'matrix': 'ndarray:float64', 'fixed': 'ndarray:uint8:2',
        'meta': 'json', 'colour': 'str', 'long': 'str', 'data': 'bytes',
    }  # fmt: skip
    first, second = samples(tmp_path)
    assert {name: first[name] for name in ('n', 'flag', 'when', 'money', 'meta', 'data')} == {
        'n': -1, 'flag': 1, 'when': micros, 'money': value, 'meta': {'a': 1, 'b': ['x']},
        'data': b'\xff',
    }  # fmt: skip
    assert (first['colour'], second['long']) == ('red', 'y')
    for name, expected in (('vector', [1.5, 2.5]), ('matrix', [[3], [4]]), ('fixed', [3, 4])):
        assert np.array_equal(second[name], expected)


@pytest.mark.parametrize(
    ('column', 'words'),
    [
        (pa.nulls(2), "field 'bad' has type null: its encoding cannot be inferred"),
        (
            pa.array([{'d': dt.date(2024, 1, 1)}] * 2),
            "field 'bad' has type struct<d: date32[day]>: its encoding cannot be inferred",
        ),
        (pa.array([[b'x']] * 2), "field 'bad' has type list<"),
    ],
)
def test_a_type_that_has_no_encoding_is_refused_by_name_and_can_be_left_out(
    column: pa.Array, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store(pa.table({'n': [1, 2], 'bad': column}), tmp_path / 'in' / 'a.parquet')
    message = usage_error(capsys, tmp_path)
    assert words in message
    assert 'on the command line: --columns with the columns to keep, like a,b=str' in message
    assert convert(tmp_path, '--columns=n') == {'n': 'int64'}


def test_columns_are_chosen_encoded_and_renamed(tmp_path: Path) -> None:
    table = pa.table({'n': [1, 2], 'meta': [{'lang': 'en', 'x': 1}] * 2, 'other': ['a', 'b']})
    store(table, tmp_path / 'in' / 'a.parquet')
    columns = convert(tmp_path, '--columns=n=uint8,meta.lang', '--rename=meta.lang=lang')
    assert columns == {'n': 'uint8', 'lang': 'str'}
    assert samples(tmp_path) == [{'n': 1, 'lang': 'en'}, {'n': 2, 'lang': 'en'}]


def test_a_column_that_is_not_there_is_an_error_that_names_file_and_columns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store(pa.table({'n': [1]}), tmp_path / 'in' / 'a.parquet')
    message = usage_error(capsys, tmp_path, '--columns=m')
    assert "in/a.parquet: it has no column 'm': there are n" in message


def test_an_encoding_that_a_column_cannot_have_is_an_error_before_the_job(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store(pa.table({'n': ['x']}), tmp_path / 'in' / 'a.parquet')
    message = usage_error(capsys, tmp_path, '--columns=n=int')
    assert "in/a.parquet: column 'n' is string, and cannot be int as the dataset has" in message


def test_folders_are_columns_and_a_column_can_be_the_split(tmp_path: Path) -> None:
    for lang, number in (('en', 1), ('de', 2)):
        store(pa.table({'n': [number]}), tmp_path / 'in' / f'lang={lang}' / 'a.parquet')
    assert convert(tmp_path, '--split=lang') == {'n': 'int64', 'lang': 'str'}
    assert samples(tmp_path) == [{'n': 1, 'lang': 'en'}, {'n': 2, 'lang': 'de'}]
    assert [int(s['n']) for s in read_samples(tmp_path / 'out' / 'de')] == [2]


def test_the_split_is_read_even_if_it_is_no_column(tmp_path: Path) -> None:
    table = pa.table({'n': [1, 2], 'part': ['train', 'val'], 'x': [0, 0]})
    store(table, tmp_path / 'in' / 'a.parquet')
    columns = convert(tmp_path, '--split=to', '--rename=part=to', '--columns=n')
    assert columns == {'n': 'int64'}
    assert [int(s['n']) for s in read_samples(tmp_path / 'out' / 'val')] == [2]


def test_the_split_can_be_in_the_names_of_files(tmp_path: Path) -> None:
    for name, number in (('train', 1), ('validation', 2)):
        store(pa.table({'n': [number]}), tmp_path / 'in' / f'{name}-00000-of-00001.parquet')
    convert(tmp_path, '--split={split}-*.parquet', '--columns=n')
    assert list(read_samples(tmp_path / 'out' / 'validation')) == [{'n': 2}]


def test_folders_are_no_columns_on_request(tmp_path: Path) -> None:
    store(pa.table({'n': [1]}), tmp_path / 'in' / 'n=2' / 'a.parquet')
    assert convert(tmp_path, '--partitions=none') == {'n': 'int64'}


# Hugging Face's images and audio.


@pytest.mark.parametrize(('data', 'encoding'), [(JPEG, 'jpeg'), (PNG, 'png'), (b'RIFF', 'bytes')])
def test_images_are_images_and_other_files_are_bytes(
    data: bytes, encoding: str, tmp_path: Path
) -> None:
    rows = [None, {'bytes': data, 'path': 'x'}]
    table = pa.table({'n': [0, 1], 'file': pa.array(rows, MEDIA)})
    store(table, tmp_path / 'in' / 'a.parquet')
    assert convert(tmp_path, '--max_error_ratio=0.5') == {'n': 'int64', 'file': encoding}
    (sample,) = read_samples(tmp_path / 'out')
    assert sample['n'] == 1
    assert sample['file'] == data if encoding == 'bytes' else sample['file'].size == (3, 2)


def test_lists_of_images_are_lists_of_images(tmp_path: Path) -> None:
    rows = [[{'bytes': PNG, 'path': None}, {'bytes': PNG, 'path': None}]]
    store(pa.table({'n': [0], 'pages': pa.array(rows, pa.list_(MEDIA))}), tmp_path / 'in' / 'a')
    assert convert(tmp_path) == {'n': 'int64', 'pages': 'list[png]'}


def test_lists_of_other_files_are_refused_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [[{'bytes': b'RIFF', 'path': None}]]
    store(pa.table({'n': [0], 'takes': pa.array(rows, pa.list_(MEDIA))}), tmp_path / 'in' / 'a')
    message = usage_error(capsys, tmp_path)
    assert "column 'takes' has lists of files, and the first is no JPEG or PNG image" in message


def test_the_encoding_of_images_can_be_given_and_the_path_had(tmp_path: Path) -> None:
    rows = [{'bytes': JPEG, 'path': 'x.jpg'}]
    store(pa.table({'image': pa.array(rows, MEDIA)}), tmp_path / 'in' / 'a')
    assert convert(tmp_path, '--columns=image=bytes,image.path', '--rename=image.path=path') == {
        'image': 'bytes', 'path': 'str',
    }  # fmt: skip
    assert list(read_samples(tmp_path / 'out')) == [{'image': JPEG, 'path': 'x.jpg'}]


# What cannot be read.


def test_inputs_are_samples_and_dead_letters(tmp_path: Path) -> None:
    (tmp_path / 'in').mkdir()
    (tmp_path / 'in' / 'a.csv').write_text('n,text\n1,a\n2\nx,b\n300,c\n5,d\n')
    (tmp_path / 'in' / 'b.csv').write_text('n\n6\n')
    columns = '--columns=n=uint8,text'
    with pytest.raises(ErrorThresholdError, match=r'4 of 6 samples were refused'):
        convert(tmp_path, columns)
    convert(tmp_path, columns, '--max_error_ratio=0.7')
    assert [int(sample['n']) for sample in samples(tmp_path)] == [1, 5]
    path = f'{tmp_path}/in/a.csv'
    found = [
        (letter['stage'], letter['error_type'], letter['place']) for letter in letters(tmp_path)
    ]
    assert sorted(found, key=str) == [
        ('encode', 'EncodingError', {'file': path, 'line': 5}),
        ('read', 'csv', {'file': path, 'line': 3}),
        ('read', 'schema', {'file': f'{tmp_path}/in/b.csv'}),
        ('read', 'value', {'file': path, 'line': 4}),
    ]


def test_nulls_are_dead_letters_with_their_row(tmp_path: Path) -> None:
    table = pa.table({'n': range(100), 'text': [None if n % 10 == 7 else 'x' for n in range(100)]})
    store(table, tmp_path / 'in' / 'a.parquet')
    convert(tmp_path, '--max_error_ratio=0.1')
    assert len(samples(tmp_path)) == 90
    assert sorted(letter['place']['row'] for letter in letters(tmp_path)) == list(range(7, 100, 10))
    assert {letter['column'] for letter in letters(tmp_path)} == {'text'}


def test_a_file_with_a_column_that_the_first_has_not_is_a_dead_letter_unless_columns_are_named(
    tmp_path: Path,
) -> None:
    store(pa.table({'n': [1]}), tmp_path / 'in' / 'a.parquet')
    store(pa.table({'n': [2], 'more': [3]}), tmp_path / 'in' / 'b.parquet')
    with pytest.raises(ErrorThresholdError):
        convert(tmp_path)
    (letter,) = letters(tmp_path)
    assert letter['place'] == {'file': f'{tmp_path}/in/b.parquet'}
    assert "it has the column 'more', which is not in the first file" in letter['message']
    assert convert(tmp_path, '--columns=n') == {'n': 'int64'}
    assert [int(sample['n']) for sample in samples(tmp_path)] == [1, 2]


def test_a_first_file_that_is_no_table_is_an_error_before_the_job(tmp_path: Path) -> None:
    (tmp_path / 'in').mkdir()
    (tmp_path / 'in' / 'a').write_bytes(b'PAR1')
    with pytest.raises(TableError, match=rf'{tmp_path}/in/a: not a Parquet file, or damaged'):
        convert(tmp_path)


# The command line.


def test_the_dialect_of_csv_files_can_be_given(tmp_path: Path) -> None:
    (tmp_path / 'in').write_bytes('1\té "\n2\tü\n'.encode('latin-1'))
    convert(
        tmp_path, '--format=csv', '--csv_header=n,text', '--csv_delimiter=tab', '--csv_quote=none',
        '--csv_encoding=latin-1', '--columns=n=int,text',
    )  # fmt: skip
    assert samples(tmp_path) == [{'n': 1, 'text': 'é "'}, {'n': 2, 'text': 'ü'}]


@pytest.mark.parametrize(
    ('args', 'words'),
    [
        (['--csv_delimiter=::'], "csv_delimiter must be one character, got '::'"),
        (['--csv_quotes=x'], 'unknown option --csv_quotes: did you mean --csv_quote?'),
        (['--columns=n=inty'], "column 'n': unknown encoding 'inty'"),
    ],
)
def test_a_wrong_option_ends_the_command_with_the_reason(
    args: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store(pa.table({'n': [1]}), tmp_path / 'in' / 'a')
    assert words in usage_error(capsys, tmp_path, *args)


def test_a_dry_run_shows_what_rows_become_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store(pa.table({'n': range(9), 'text': ['x'] * 9}), tmp_path / 'in' / 'a')
    _, result = conversion.run(
        'tables', [f'--input={tmp_path}/in', f'--output={tmp_path}/out', '--dry_run_sample=2']
    )
    assert result is None
    assert not (tmp_path / 'out').exists()
    printed = capsys.readouterr().out
    assert f'record 1: {tmp_path}/in/a, row 1' in printed
    assert 'record 2' not in printed
    assert ['n', '(int64)', '1'] in [line.split() for line in printed.splitlines()]


def test_a_bucket_is_read_and_written(gcs_bucket: str, tmp_path: Path) -> None:
    from apache_beam.io.filesystems import FileSystems

    data = store(pa.table({'n': range(9)}), tmp_path / 'a').read_bytes()
    with FileSystems.create(f'{gcs_bucket}/in/a.parquet', compression_type='uncompressed') as file:
        file.write(data)
    _, result = conversion.run(
        'tables',
        [f'--input={gcs_bucket}/in', f'--output={gcs_bucket}/out', '--runner=FnApiRunner'],
    )
    result.wait_until_finish()
    assert sorted(int(sample['n']) for sample in read_samples(f'{gcs_bucket}/out')) == [*range(9)]

"""CSV and TSV: rows, places, bad rows, encodings, types."""

from __future__ import annotations

import bz2
import csv
import decimal
import gzip
import io
import lzma
from pathlib import Path
from typing import Any

import hypothesis
import hypothesis.strategies as st
import pyarrow as pa
import pytest
import zstandard

from beam_mds import ReadTables, WriteToMDS, read_samples
from beam_mds.records import PLACE, BadRecord
from beam_mds.sources.tabular import csvrows, delimited, typed
from beam_mds.sources.tabular.parts import BATCH_BYTES
from tests.helpers.memory import peak_of
from tests.helpers.tables import places, read, values
from tests.helpers.writing import run


def read_csv(
    path: Path, data: bytes | str, **options: Any
) -> tuple[list[dict[str, Any]], list[BadRecord]]:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return read(ReadTables([path], format='csv', **options))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / 'a.csv'


# Rows.


@pytest.mark.parametrize(
    ('data', 'rows'),
    [
        ('a,b\n1,2\n', [('1', '2')]),
        ('a,b\r\n1,2\r\n', [('1', '2')]),
        ('a,b\r1,2\r', [('1', '2')]),
        ('a,b\n1,2', [('1', '2')]),
        ('a,b\n\n1,2\n\n\n', [('1', '2')]),
        ('a,b\n"x,y","say ""hi"""\n', [('x,y', 'say "hi"')]),
        ('a,b\n"two\nlines","and\r\nmore"\n', [('two\nlines', 'and\r\nmore')]),
        ('a,b\n,\n', [('', '')]),
        ('a,b\n"",5" wide\n', [('', '5" wide')]),
        ('a,b\n 1 ,x\x00y\n', [(' 1 ', 'x\x00y')]),
        ('a,b\n', []),
        ('a,b', []),
    ],
)
def test_rows_are_those_of_the_file(path: Path, data: str, rows: list[tuple[str, str]]) -> None:
    found, bad = read_csv(path, data)
    assert [tuple(row.values()) for row in values(found)] == rows
    assert not bad


def test_no_text_is_taken_for_a_number(path: Path) -> None:
    found, _ = read_csv(path, 'a,b,c,d\n007,1e5,true,NA\n')
    assert values(found) == [{'a': '007', 'b': '1e5', 'c': 'true', 'd': 'NA'}]


def test_the_place_of_a_row_is_its_first_line(path: Path) -> None:
    found, _ = read_csv(path, 'a\n1\n\n"2\n2\n2"\n3\n')
    assert places(found) == [{'line': 2}, {'line': 4}, {'line': 7}]
    assert {row[PLACE]['file'] for row in found} == {str(path)}


@hypothesis.settings(deadline=None, max_examples=150)
@hypothesis.given(
    st.lists(st.lists(st.text(st.characters(codec='utf-8')), min_size=2, max_size=2)),
    st.sampled_from([',', '\t', '|', ';']),
    st.sampled_from(['\n', '\r\n']),
)
def test_what_pythons_writer_writes_is_read(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]], delimiter: str, end: str
) -> None:
    text = io.StringIO()
    # By itself it leaves a lone carriage return without quotes, which ends a row.
    writer = csv.writer(text, delimiter=delimiter, lineterminator=end, quoting=csv.QUOTE_ALL)
    writer.writerows([['a', 'b'], *rows])
    path = tmp_path_factory.mktemp('csv') / 'a.csv'
    found, bad = read_csv(path, text.getvalue(), csv_delimiter=delimiter)
    assert [list(row.values()) for row in values(found)] == rows
    assert not bad


@pytest.mark.parametrize('name', ['a.tsv', 'a.TAB', 'a.tsv.gz'])
def test_tsv_files_have_tabs(name: str, tmp_path: Path) -> None:
    found, _ = read_csv(tmp_path / name, 'a\tb\n1,5\t"x\ty"\n')
    assert values(found) == [{'a': '1,5', 'b': 'x\ty'}]


def test_quotes_can_be_other_ones_or_none(path: Path) -> None:
    found, _ = read_csv(path, 'a,b\n\'x,y\',"z"\n', csv_quote="'")
    assert values(found) == [{'a': 'x,y', 'b': '"z"'}]
    found, bad = read_csv(path, 'a,b\n"x,say "hi"\n', csv_quote=None)
    assert values(found) == [{'a': '"x', 'b': 'say "hi"'}]
    assert not bad


def test_names_can_be_given_or_counted(path: Path) -> None:
    found, _ = read_csv(path, '1,2\n3,4\n', csv_header=['x', 'y'])
    assert values(found) == [{'x': '1', 'y': '2'}, {'x': '3', 'y': '4'}]
    assert places(found) == [{'line': 1}, {'line': 2}]
    found, _ = read_csv(path, '1,2\n3,4\n', csv_header='none', columns=['f1'])
    assert values(found) == [{'f1': '2'}, {'f1': '4'}]
    assert places(found) == [{'line': 1}, {'line': 2}]


@pytest.mark.parametrize(
    ('data', 'kind', 'words'),
    [
        (b'', 'header', 'the file is empty: it has not even a header'),
        (b'\n\n', 'header', 'the file is empty: it has not even a header'),
        (b'a,,b\n1,2,3\n', 'schema', 'its column 2 has no name'),
        (b'a,b,a\n', 'schema', "its columns 1 and 3 are both called 'a'"),
        (b'a,"b\n1,2\n', 'csv', 'its first row: a quote is opened and never closed, and lines 1'),
        (b'a,\xe9\n', 'encoding', "its header: byte 0xe9 behind '' is no utf-8 text"),
    ],
)
def test_a_header_that_has_no_names_is_a_bad_record(
    path: Path, data: bytes, kind: str, words: str
) -> None:
    found, (record,) = read_csv(path, data)
    assert not found
    assert (record.error_type, record.place) == (kind, {'file': str(path)})
    assert record.message.startswith(words)


def test_a_column_without_a_name_can_be_left_out(path: Path) -> None:
    found, bad = read_csv(path, ',text\n0,a\n1,b\n', columns=['text'])
    assert values(found) == [{'text': 'a'}, {'text': 'b'}]
    assert not bad


# Compression and encodings.


@pytest.mark.parametrize(
    'compress', [gzip.compress, zstandard.compress, bz2.compress, lzma.compress], ids=str
)
def test_compression_is_told_by_content(compress: Any, path: Path) -> None:
    found, _ = read_csv(path, compress(b'a\n1\n'))
    assert values(found) == [{'a': '1'}]


@pytest.mark.parametrize('encoding', ['utf-8', 'utf-8-sig', 'utf-16'])
def test_a_byte_order_mark_tells_the_encoding(encoding: str, path: Path) -> None:
    found, bad = read_csv(path, 'ä,b\nö,€\n'.encode(encoding))
    assert values(found) == [{'ä': 'ö', 'b': '€'}]
    assert not bad


@pytest.mark.parametrize('encoding', ['latin-1', 'cp1252', 'shift_jis', 'utf-16-le', 'UTF-8'])
def test_an_encoding_can_be_given(encoding: str, path: Path) -> None:
    text = (
        '表,b\n"ソ\n",|\n' if encoding != 'latin-1' and encoding != 'cp1252' else 'é,b\n"ö\n",|\n'
    )
    found, bad = read_csv(path, text.encode(encoding), csv_encoding=encoding)
    assert [list(row.items()) for row in values(found)] == [[(text[0], text[5:7]), ('b', '|')]]
    assert not bad


def test_a_row_in_another_encoding_is_a_bad_record_and_all_others_are_kept(path: Path) -> None:
    data = 'a,text\n1,é\n2,ü\n3,ö\n'.encode().replace('ü'.encode(), b'pr\xfcfen')
    found, (record,) = read_csv(path, data)
    assert [row['a'] for row in found] == ['1', '3']
    assert record == BadRecord(
        'encoding',
        "column 'text': byte 0xfc behind 'pr' is no utf-8 text: say the encoding of the file",
        {'file': str(path), 'line': 3},
    )


def test_text_that_ends_within_a_character_is_a_bad_record(path: Path) -> None:
    found, (record,) = read_csv(path, 'a\n1\n2'.encode('utf-16')[:-1])
    assert [row['a'] for row in found] == ['1']
    assert (record.error_type, record.place['line']) == ('damaged', 3)
    assert 'the text ends here, and the rest is lost: ' in record.message


@pytest.mark.parametrize('compress', [gzip.compress, zstandard.compress])
def test_what_a_cut_off_file_has_is_read(compress: Any, path: Path) -> None:
    data = 'a\n' + ''.join(f'{number}\n' for number in range(100_000))
    stored = compress(data.encode())
    found, (record,) = read_csv(path, stored[: len(stored) // 2])
    assert 1000 < len(found) < 100_000
    assert [row['a'] for row in found] == list(map(str, range(len(found))))
    assert record.error_type == 'damaged'
    assert 'data ends too early' in record.message


# Bad rows.


def test_a_bad_row_is_a_bad_record_and_all_others_are_kept(path: Path) -> None:
    found, bad = read_csv(
        path, 'a,b\n1,ok\n2\n3,ok\n4,x,y\n5,"x"y\n6,ok\n7,"never\n8,lost\n9,"x"\n10,ok\n'
    )
    assert [row['a'] for row in found] == ['1', '3', '6', '10']
    assert bad == [
        BadRecord(kind, message, {'file': str(path), 'line': line}, element)
        for kind, message, line, element in (
            ('csv', '1 fields, expected 2 as the header has', 3, ['2']),
            ('csv', '3 fields, expected 2 as the header has', 5, ['4', 'x', 'y']),
            ('csv', "',' expected after '\"'", 6, None),
            ('csv', "',' expected after '\"', and lines 8 to 10 are lost", 8, None),
        )
    ]


def test_a_quote_that_is_never_closed_is_a_bad_record_that_says_what_is_lost(path: Path) -> None:
    found, (record,) = read_csv(path, 'a,b\n1,ok\n2,"x\n3,y\n4,z\n')
    assert [row['a'] for row in found] == ['1']
    assert record.message == 'a quote is opened and never closed, and lines 3 to 5 are lost'
    assert record.place == {'file': str(path), 'line': 3}


def test_a_field_of_20_mb_is_read(path: Path) -> None:
    large = 'x,\n' * 7_000_000
    found, _ = read_csv(path, f'a,b\n1,"{large}"\n2,y\n')
    assert [row['b'] for row in found] == [large, 'y']


def test_a_field_that_a_quote_makes_endless_is_bounded(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csvrows, 'LONGEST_FIELD', 1000)
    found, bad = read_csv(path, 'a\n"' + 'x\n' * 600 + 'y\n')
    assert not [row for row in found if len(row['a']) > 1]
    assert bad[0].message.startswith('field larger than field limit (1000), and lines 2 to ')


# Batches.


def test_rows_come_in_batches_of_a_few_mb(path: Path) -> None:
    path.write_text('a\n' + ('x' * 100_000 + '\n') * 100 + '1\n' * 20_000)
    batches = list(ReadTables([path]).iterate())
    assert max(batch.nbytes for batch in batches if isinstance(batch, pa.RecordBatch)) < (
        2 * BATCH_BYTES
    )
    assert sum(batch.num_rows for batch in batches if isinstance(batch, pa.RecordBatch)) == 20_100


def test_memory_does_not_grow_with_the_file(path: Path) -> None:
    row = 'x' * 1000 + ',"' + 'y' * 1000 + '"\n'
    path.write_text('a,b\n' + row * 50_000)
    assert peak_of(lambda: [None for _ in ReadTables([path]).iterate()]) < 60 << 20


# Types.


def test_encodings_tell_what_texts_are(path: Path, tmp_path: Path) -> None:
    columns = {
        'i': 'int', 'u': 'uint64', 'f': 'float32', 's': 'str', 'b': 'bytes', 'j': 'json',
        'si': 'str_int', 'sf': 'str_float', 'sd': 'str_decimal',
    }  # fmt: skip
    path.write_text(
        f'{",".join(columns)},left\n'
        f' 007 ,{2**64 - 1}, 1e3,007,é,"{{""k"": [1, null]}}",{10**30},0.1,1.50,x\n'
    )
    source = ReadTables([path], columns=columns)
    sink = WriteToMDS(tmp_path / 'out', columns)
    run(lambda pipeline: pipeline | source | sink)
    (sample,) = read_samples(tmp_path / 'out')
    assert sample == {
        'i': 7, 'u': 2**64 - 1, 'f': 1000.0, 's': '007', 'b': 'é'.encode(),
        'j': {'k': [1, None]}, 'si': 10**30, 'sf': 0.1, 'sd': decimal.Decimal('1.50'),
    }  # fmt: skip


@pytest.mark.parametrize(
    ('encoding', 'text'),
    [
        ('int', ''), ('int', '1.0'), ('int', 'x'), ('uint8', '-1'), ('int64', str(2**63)),
        ('float64', '1,5'), ('float32', 'x'), ('str_float', ''),
    ],
)  # fmt: skip
def test_a_text_that_is_no_number_is_a_bad_record_and_all_others_are_kept(
    path: Path, encoding: str, text: str
) -> None:
    rows = ''.join(f'{number},{number}\n' for number in range(100))
    found, (record,) = read_csv(
        path, f'a,n\n{rows}x,"{text}"\n{rows}', columns={'n': encoding, 'a': 'str'}
    )
    assert [row['n'] for row in found] == [*range(100)] * 2
    assert [place['line'] for place in places(found)] == [*range(2, 102), *range(103, 203)]
    assert record == BadRecord(
        'value', f"column 'n': {text!r} is no {encoding}", {'file': str(path), 'line': 102},
        {'a': 'x', 'n': text},
    )  # fmt: skip


def test_several_bad_values_of_a_row_are_one_bad_record(path: Path) -> None:
    found, bad = read_csv(path, 'a,b\nx,y\n1,2\nz,3\n', columns={'a': 'int', 'b': 'int'})
    assert values(found) == [{'a': 1, 'b': 2}]
    assert [(record.message, record.place['line']) for record in bad] == [
        ("column 'a': 'x' is no int", 2),
        ("column 'a': 'z' is no int", 4),
    ]


def test_all_rows_can_be_bad(path: Path) -> None:
    found, bad = read_csv(path, 'n\nx\ny\n', columns={'n': 'int'})
    assert not found
    assert len(bad) == 2


def test_numbers_of_no_texts_are_none() -> None:
    array, wrong = typed._numbers(pa.array([], pa.string()), pa.int64())
    assert (array.type, len(array), wrong) == (pa.int64(), 0, {})


# In blocks, and row by row.


def flattened(found: Any) -> list[Any]:
    """Rows with their lines, and bad records, in the order of their lines."""
    flat: list[tuple[int, Any]] = []
    for item in found:
        if isinstance(item, BadRecord):
            flat.append((int(item.place['line']), item))
        else:
            flat += zip(item.place['line'].tolist(), item.batch.to_pylist(), strict=True)
    return sorted(flat, key=lambda pair: pair[0])


ROWS = [
    'a,b',
    '"a","b"',
    '"a\n",b',
    '"a""",',
    '""""""',
    ',',
    '',
    '\r',
    'a"b,c',
    '"a"b,c',
    '"a',
    'a',
    'a,b,c',
    '"",""',
    ' "a",b',
    '\r\n"\r\n",x',
]


@hypothesis.settings(deadline=None, max_examples=600)
@hypothesis.given(
    st.one_of(
        st.text(alphabet='ab,"\n\r é', max_size=30),
        st.lists(st.sampled_from(ROWS), max_size=9).map('\n'.join),
    ),
    st.integers(1, 40),
    st.sampled_from(['"', None]),
)  # fmt: skip
@hypothesis.example('"a",b\nx"y,"\n",c\n', 4, '"')
@hypothesis.example('a,b\n"x",\n', 3, '"')
def test_blocks_give_what_one_row_after_another_gives(
    tmp_path_factory: pytest.TempPathFactory, text: str, block: int, quote: str | None
) -> None:
    path = tmp_path_factory.mktemp('same') / 'a.csv'
    path.write_bytes(text.encode())
    lines = io.StringIO(text, newline='')
    slow = csvrows.RowReader(str(path), ',', quote, 'utf-8', lines).read(['x', 'y'])
    dialect = delimited.Dialect(header=['x', 'y'], quote=quote)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delimited, '_BLOCK', block)
        assert flattened(delimited.read(str(path), dialect)) == flattened(slow)


def test_rows_are_parsed_in_blocks_while_their_quotes_are_in_place(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise AssertionError('read row by row')

    path.write_text('a,b\n' + '1,"x ""y""\n, z"\r\n\n' * 100_000)
    monkeypatch.setattr(csvrows.RowReader, 'read', fail)
    found, bad = read(ReadTables([path]))
    assert values(found) == [{'a': '1', 'b': 'x "y"\n, z'}] * 100_000
    assert [place['line'] for place in places(found)] == list(range(2, 300_002, 3))
    assert not bad


def test_a_bad_row_does_not_end_the_reading_in_blocks(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = '1,x\n' * 400_000
    path.write_text(f'a,b\n{rows}2\n{rows}')
    read_by_rows = []
    original = csvrows.RowReader.read
    monkeypatch.setattr(
        csvrows.RowReader,
        'read',
        lambda self, names: (read_by_rows.append(self), original(self, names))[1],
    )
    found, (record,) = read(ReadTables([path]))
    assert len(found) == 800_000
    assert record.place['line'] == 400_002
    assert len(read_by_rows) == 1


def test_a_quote_that_is_never_closed_does_not_take_the_memory_of_its_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (csvrows, delimited):
        monkeypatch.setattr(module, 'LONGEST_FIELD', 1 << 20)
    path.write_text('a\n"' + ('x' * 999 + '\n') * 80_000)
    source = ReadTables([path])
    assert peak_of(lambda: [None for _ in source.iterate()]) < 60 << 20

from __future__ import annotations

import bz2
import gzip
import itertools
import json
import lzma
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest
import zstandard
from apache_beam.testing.util import assert_that, equal_to
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beam_mds import (
    BadRecord,
    EncodingError,
    OptionError,
    ReadJsonLines,
    RecordError,
    WriteToMDS,
    read_samples,
)
from beam_mds.records import PLACE
from beam_mds.sources import lines
from beam_mds.sources.jsonl import parse_line

_SCHEMA = pa.schema([('a', pa.string()), ('n', pa.int64()), ('f', pa.float64()), ('b', pa.bool_())])


def _rows(source: ReadJsonLines) -> list[Any]:
    """Samples as dicts, and notes; a sample that a batch has nulls for has no such field."""
    rows: list[Any] = []
    for element in source.iterate():
        if isinstance(element, pa.RecordBatch):
            rows += element.to_pylist()
        else:
            rows.append(element)
    return [_without_nulls(row) if isinstance(row, dict) else row for row in rows]


def _without_nulls(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}


def _read(path: Path, data: bytes | str, **options: Any) -> list[Any]:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return _rows(ReadJsonLines([path], **options))


def _placed(rows: Sequence[Any], path: Path) -> list[tuple[int, Any]]:
    """Line, and the sample without its place or the kind of fault."""
    found = []
    for row in rows:
        place = row.place if isinstance(row, BadRecord) else row[PLACE]
        assert place['file'] == str(path)
        rest = row.error_type if isinstance(row, BadRecord) else row
        if isinstance(rest, Mapping):
            rest = {name: value for name, value in rest.items() if name != PLACE}
        found.append((place['line'], rest))
    return found


_PACK: dict[str, Callable[[bytes], bytes]] = {
    'plain': bytes,
    'gz': gzip.compress,
    'bz2': bz2.compress,
    'xz': lzma.compress,
    'zstd': zstandard.compress,
}


@pytest.mark.parametrize('pack', _PACK)
@pytest.mark.parametrize('name', ['a.jsonl', 'a.json.gz', 'a.zst', 'a'])
@pytest.mark.parametrize('options', [{}, {'schema': pa.schema([('a', pa.string())])}])
def test_lines_are_samples_whatever_packs_them_and_the_name(
    tmp_path: Path, pack: str, name: str, options: dict[str, Any]
) -> None:
    path = tmp_path / name
    rows = _read(path, _PACK[pack](b'{"a": "x"}\n{"a": "y"}\n'), **options)
    assert _placed(rows, path) == [(1, {'a': 'x'}), (2, {'a': 'y'})]


@pytest.mark.parametrize('schema', [None, _SCHEMA])
@pytest.mark.parametrize(
    ('text', 'expected'),
    [
        ('\ufeff{"n": 1}\n{"n": 2}', [(1, {'n': 1}), (2, {'n': 2})]),  # a byte order mark
        ('{"n": 1}\r\n{"n": 2}\r\n', [(1, {'n': 1}), (2, {'n': 2})]),
        ('{"n": 1}\n\n \r\n{"n": 2}\n\n', [(1, {'n': 1}), (4, {'n': 2})]),  # blank lines
        ('', []),
        ('{"n": 1}\n{"n": 2', [(1, {'n': 1}), (2, 'json')]),
        ('{"n": 1}\n[1]\n3\nnull\n"x"\n', [(1, {'n': 1}), *((n, 'json') for n in (2, 3, 4, 5))]),
        ('{"n": 1}{"n": 2}\n\n{"n": 3}', [(1, 'json'), (3, {'n': 3})]),  # as many as lines
        ('{"n":\n1}\n{"n": 2}{"n": 3}', [(1, 'json'), (2, 'json'), (3, 'json')]),
        ('{"b": true, "q": {}\n}\n{"n": 2}{"n": 3}', [(1, 'json'), (2, 'json'), (3, 'json')]),
        ('{"n": 1}\r{"n": 2}', [(1, 'json')]),
        ('{"n": 1, "n": 2}', [(1, {'n': 2})]),  # as Python's parser: the last
        ('{"n": "1"}\n{"a": 1}\n{"n": 1.0}', [(1, {'n': '1'}), (2, {'a': 1}), (3, {'n': 1.0})]),
        ('{"f": 9007199254740993}', [(1, {'f': 9007199254740993})]),  # the float column refuses it
        ('{"f": 1}\n{"f": 1.5}', [(1, {'f': 1}), (2, {'f': 1.5})]),
        ('{"n": 123456789012345678901}', [(1, {'n': 123456789012345678901})]),
        ('{"f": -Infinity}', [(1, {'f': -math.inf})]),
        ('{"a": "\\u0000é\\ud83d\\ude00"}', [(1, {'a': '\0é\U0001f600'})]),
        ('{"a": "\\ud800"}', [(1, {'a': '\ud800'})]),  # the str column refuses it
        ('{"a": null}\n{}', [(1, {}), (2, {})]),
        (' {"n": 1} \n{"n": 2}', [(1, {'n': 1}), (2, {'n': 2})]),
        ('{"n": 1},\n', [(1, 'json')]),
    ],
)
def test_each_line_is_a_sample_or_a_note_with_its_number(
    tmp_path: Path, text: str, expected: list[Any], schema: pa.Schema | None
) -> None:
    path = tmp_path / 'a.jsonl'
    fields = {'schema': schema} if schema else {'fields': _SCHEMA.names}
    assert _placed(_read(path, text, **fields), path) == expected


@pytest.mark.parametrize('schema', [None, pa.schema([('a', pa.string())])])
@pytest.mark.parametrize('field', ['a', 'other'])
def test_a_line_in_another_encoding_is_noted_with_its_file_and_line(
    tmp_path: Path, schema: pa.Schema | None, field: str
) -> None:
    """Case 22: a latin-1 file among UTF-8 ones."""
    (tmp_path / '0.jsonl').write_text('{"a": "é"}\n', encoding='utf-8')
    path = tmp_path / '1.jsonl'
    path.write_bytes(b'{"a": "x"}\n' + f'{{"{field}": "é"}}\n'.encode('latin-1'))
    first, second, note = _rows(ReadJsonLines([tmp_path], schema=schema))
    assert [first['a'], second['a']] == ['é', 'x']
    assert note.error_type == 'encoding'
    assert note.place == {'file': str(path), 'line': 2}
    assert note.message.startswith("the line is not UTF-8: 'utf-8' codec can't decode byte 0xe9")


def test_what_is_wrong_with_a_line_is_told_with_the_place_in_it(tmp_path: Path) -> None:
    broken, array = _read(tmp_path / 'a', '{"a": 1,}\n[]')
    assert broken.message == (
        'the line is no JSON object: Illegal trailing comma before end of object, at character 8'
        if 'Illegal' in broken.message  # Python 3.13
        else 'the line is no JSON object: Expecting property name enclosed in double quotes, at '
        'character 9'
    )
    assert array.message == (
        'the line is no JSON object: list, where an object is expected: {"name": value, ...}'
    )


@pytest.mark.parametrize('schema', [None, pa.schema([('a', pa.string())])])
def test_a_line_of_20_mb_is_one_sample(tmp_path: Path, schema: pa.Schema | None) -> None:
    """Case 22."""
    text = 'é' * 10_000_000
    rows = _read(tmp_path / 'a', f'{{"a": "x"}}\n{{"a": "{text}"}}\n{{"a": "y"}}', schema=schema)
    assert [row['a'] for row in rows] == ['x', text, 'y']


def test_deep_nesting_is_a_note(tmp_path: Path) -> None:
    (note,) = _read(tmp_path / 'a', '{"a": ' + '[' * 200_000 + ']' * 200_000 + '}')
    assert note.error_type == 'json'


def test_dotted_names_are_fields_of_objects(tmp_path: Path) -> None:
    text = '{"m": {"x": {"y": "1"}, "z": "2"}}\n{"m": {"x": null}}\n{"m": 3}\n{"m": null}\n{}\n'
    for how in (
        {'fields': ['m.x.y', 'm.z']},
        {'schema': pa.schema([('m.x.y', pa.string()), ('m.z', pa.string())])},
    ):
        rows = _read(tmp_path / 'a', text, **how)
        assert [{k: v for k, v in row.items() if k != PLACE} for row in rows] == [
            {'m.x.y': '1', 'm.z': '2'}, {}, {}, {}, {},
        ]  # fmt: skip


@pytest.mark.parametrize('how', ['fields', 'schema'])
def test_a_field_of_the_whole_dotted_name_comes_first(tmp_path: Path, how: str) -> None:
    text = '{"m": {"x": "1"}, "m.x": "2"}\n{"m": {"x": "3"}}\n'
    value = ['m.x'] if how == 'fields' else pa.schema([('m.x', pa.string())])
    rows = _read(tmp_path / 'a', text, **{how: value})
    assert [row['m.x'] for row in rows] == ['2', '3']


def test_a_field_and_one_in_it_can_both_be_wanted(tmp_path: Path) -> None:
    schema = pa.schema([('m', pa.string()), ('m.x', pa.string())])
    rows = _read(tmp_path / 'a', '{"m": "q"}\n{"m": {"x": "1"}}\n', schema=schema)
    assert [{k: v for k, v in row.items() if k != PLACE} for row in rows] == [
        {'m': 'q'}, {'m': {'x': '1'}, 'm.x': '1'},
    ]  # fmt: skip


_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=8),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.sampled_from(['x', 'y']), st.text(max_size=3), max_size=2),
)
_OBJECTS = st.dictionaries(st.sampled_from(['a', 'n', 'f', 'b', 'm', 'other']), _VALUES)
_GARBAGE = st.sampled_from(
    ['', ' ', '{', '}', '[]', '{"a": 1}{"a": 2}', '{"a": ', 'é', '{"n": 01}']
)
_LINES = st.lists(st.one_of(_OBJECTS.map(json.dumps), _GARBAGE), max_size=12)


@given(text=_LINES, end=st.sampled_from(['\n', '\r\n']), last=st.booleans())
@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
def test_batches_hold_what_line_by_line_reading_gives(
    tmp_path: Path, text: list[str], end: str, last: bool
) -> None:
    schema = pa.schema([*_SCHEMA, ('m.x', pa.string())])
    data = end.join(text) + (end if last else '')
    path = tmp_path / 'a'
    fast = _read(path, data, schema=schema)
    slow = _rows(ReadJsonLines([path], fields=schema.names))
    for row in fast + slow:
        if isinstance(row, dict) and type(row.get('f')) is int and abs(row['f']) < 2**53:
            row['f'] = float(row['f'])
    assert repr(fast) == repr(slow)  # nan is not equal to itself


def test_plain_lines_come_as_batches_and_a_bad_line_only_costs_its_block(tmp_path: Path) -> None:
    path = tmp_path / 'a'
    text = ''.join(f'{{"n": {number}}}\n' for number in range(900_000))
    path.write_text(text + '{"n": "x"}\n')
    elements = list(ReadJsonLines([path], schema=pa.schema([('n', pa.int64())])).iterate())
    batches = [e for e in elements if isinstance(e, pa.RecordBatch)]
    samples = [e for e in elements if isinstance(e, dict)]
    assert sum(map(len, batches)) > 200_000
    numbers = [n for batch in batches for n in batch['n'].to_pylist()] + [s['n'] for s in samples]
    assert numbers == [*range(900_000), 'x']
    assert samples[-1][PLACE] == {'file': str(path), 'line': 900_001}
    places = batches[1][PLACE].to_pylist()
    assert places[7] == {'file': str(path), 'line': batches[1]['n'][7].as_py() + 1}


@pytest.mark.parametrize('schema', [None, pa.schema([('n', pa.int64())])])
def test_lines_of_a_file_in_pieces_are_told_by_their_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, schema: pa.Schema | None
) -> None:
    monkeypatch.setattr(lines.line_pieces, '__defaults__', (50,))
    data = b''.join(b'{"n": %d}\n' % number for number in range(100)) + b'broken\n{"n": 100}'
    rows = _read(tmp_path / 'a', data, schema=schema)
    good = [row for row in rows if isinstance(row, dict)]
    assert [row['n'] for row in good] == list(range(101))
    assert all(data[row[PLACE]['byte'] :].startswith(b'{"n": %d}' % row['n']) for row in good)
    (note,) = (row for row in rows if isinstance(row, BadRecord))
    assert note.place == {'file': str(tmp_path / 'a'), 'byte': data.index(b'broken')}


def test_the_split_of_a_path_is_a_field_of_every_sample(tmp_path: Path) -> None:
    for split, schema in itertools.product(
        ('train', 'val'), (None, pa.schema([('n', pa.int64())]))
    ):
        (tmp_path / split).mkdir(exist_ok=True)
        (tmp_path / split / '0.jsonl').write_text('{"n": 1}\n')
        source = ReadJsonLines([tmp_path / split], schema=schema, split='{split}/*')
        assert [row['split'] for row in _rows(source)] == [split]


def test_a_bad_line_fails_the_job_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / 'a.jsonl'
    path.write_text('{"n": 1}\n{"n": ')
    pipeline = beam.Pipeline(runner='FnApiRunner')
    _ = pipeline | ReadJsonLines([path])
    with pytest.raises(RecordError, match=r'a\.jsonl, line 2: the line is no JSON object'):
        pipeline.run()


def test_a_bad_line_is_a_dead_letter(tmp_path: Path) -> None:
    (tmp_path / 'a.jsonl').write_text('{"n": 1}\n{"n": \n{"n": 3}')
    with beam.Pipeline(runner='FnApiRunner') as pipeline:
        found = pipeline | ReadJsonLines([tmp_path], on_error='dead_letter')
        numbers = found.samples | beam.Map(lambda sample: sample['n'])
        kinds = found.errors | beam.Map(lambda note: (note.error_type, note.place['line']))
        assert_that(numbers, equal_to([1, 3]), label='samples')
        assert_that(kinds, equal_to([('json', 2)]), label='errors')


@pytest.mark.parametrize('schema', [None, pa.schema([('a', pa.string()), ('n', pa.int64())])])
def test_notes_among_the_samples_are_refused_by_the_write(
    tmp_path: Path, schema: pa.Schema | None
) -> None:
    source, out = tmp_path / 'in', str(tmp_path / 'out')
    source.mkdir()
    for part in range(3):
        text = ''.join(f'{{"a": "{part}-{n}", "n": {n}}}\n' for n in range(50))
        (source / f'{part}.jsonl').write_text(text + '{"a": "late", "n": "no"}\n{"a"\n')
    with beam.Pipeline(runner='FnApiRunner') as pipeline:
        samples = pipeline | ReadJsonLines([source], schema=schema, on_error='inline')
        write = WriteToMDS(out, {'a': 'str', 'n': 'int16'})
        result = samples | write.with_exception_handling(threshold=0.05)
        letters = result.errors | beam.Map(
            lambda letter: (letter.stage, letter.error_type, letter.column, letter.place['line'])
        )
        assert_that(
            letters,
            equal_to([('encode', 'EncodingError', 'n', 51), ('read', 'json', None, 52)] * 3),
        )
    assert sorted(sample['a'] for sample in read_samples(out)) == sorted(
        f'{part}-{n}' for part in range(3) for n in range(50)
    )


def test_a_field_that_is_null_in_the_first_file_only_is_refused_there(tmp_path: Path) -> None:
    """Case 22: two files where a field is null in the first only."""
    (tmp_path / '0.jsonl').write_text('{"a": "x", "b": null}\n')
    (tmp_path / '1.jsonl').write_text('{"a": "x", "b": "y"}\n')
    schema = pa.schema([('a', pa.string()), ('b', pa.string())])
    pipeline = beam.Pipeline(runner='FnApiRunner')
    samples = pipeline | ReadJsonLines([tmp_path], schema=schema)
    _ = samples | WriteToMDS(str(tmp_path / 'out'), {'a': 'str', 'b': 'str'})
    with pytest.raises(EncodingError, match=r"column 'b' \(str\): .*0\.jsonl, line 1\)"):
        pipeline.run()
    assert not (tmp_path / 'out' / 'index.json').exists()


@pytest.mark.parametrize(
    ('options', 'message'),
    [
        ({'fields': 'a'}, 'fields must be a list of names or None'),
        ({'fields': []}, 'fields must be a list of names or None'),
        ({'fields': ['a'], 'schema': _SCHEMA}, 'give either fields or schema'),
        ({'schema': pa.schema([('a', pa.int8())])}, "field 'a' has type int8: expected one of"),
        ({'on_error': 'ignore'}, "on_error='ignore' is unknown: expected 'fail' or 'dead_letter'"),
    ],
)
def test_options_that_cannot_work_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        ReadJsonLines(['absent'], **options)


def test_an_integer_of_any_size_keeps_its_digits() -> None:
    value = {'n': 2**64, 'deep': [{'m': -(10**30)}]}
    assert parse_line(json.dumps(value).encode()) == value

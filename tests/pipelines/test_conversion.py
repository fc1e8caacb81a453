"""What all conversions share, shown with the one of JSON lines."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from beam_mds import read_samples
from pipelines import conversion, jsonl
from pipelines.conversion import parse_columns
from pipelines.report import counters_of
from tests.helpers.writing import content


def _read(folder: Path) -> list[dict[str, Any]]:
    return list(read_samples(folder))


def _fill(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / name.replace('__', '/')
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def _convert(*options: str) -> None:
    jsonl.main([*options, '--runner=FnApiRunner'])


_LINES = ''.join(f'{{"id": {n}, "text": "t{n}", "meta": {{"lang": "en"}}}}\n' for n in range(40))


def test_the_first_lines_tell_the_columns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = '{"a": "x", "n": 1, "f": 1, "b": true, "j": [1], "m": 1}\n'
    text += '{"a": "y", "n": 2, "f": 1.5, "b": false, "j": {}, "m": "x"}\n'
    source = _fill(tmp_path / 'in', a=text)
    _convert(f'--input={source}', f'--output={tmp_path}/out')
    assert sorted(_read(tmp_path / 'out'), key=lambda row: row['a']) == [
        {'a': 'x', 'n': 1, 'f': 1.0, 'b': 1, 'j': [1], 'm': 1},
        {'a': 'y', 'n': 2, 'f': 1.5, 'b': 0, 'j': {}, 'm': 'x'},
    ]
    out = ' '.join(capsys.readouterr().out.split())
    assert 'records read 2 records refused 0 samples 2 shards 1' in out
    assert f'errors {tmp_path}/out.errors.jsonl' in out
    assert (tmp_path / 'out.errors.jsonl').read_text() == ''


def test_columns_are_kept_and_renamed(tmp_path: Path) -> None:
    source = _fill(tmp_path / 'in', a=_LINES)
    for columns in ('text=str,meta.lang=str', 'text,meta.lang', 'text,meta.lang=json'):
        out = tmp_path / columns
        options = [f'--input={source}', f'--output={out}', f'--columns={columns}']
        _convert(*options, '--rename=meta.lang=lang')
        rows = sorted(_read(out), key=lambda row: int(row['text'][1:]))
        assert rows == [{'text': f't{n}', 'lang': 'en'} for n in range(40)]


def test_the_path_is_the_split_and_no_column(tmp_path: Path) -> None:
    source = _fill(tmp_path / 'in', train__a=_LINES, train__b=_LINES, val__a=_LINES)
    _convert(
        f'--input={source}', f'--output={tmp_path}/out', '--split={split}/*', '--columns=id,text'
    )
    assert len(_read(tmp_path / 'out' / 'train')) == 80
    assert sorted(row['id'] for row in read_samples(tmp_path / 'out' / 'val')) == list(range(40))
    assert set(_read(tmp_path / 'out' / 'val')[0]) == {'id', 'text'}


@pytest.mark.parametrize(('more', 'kept'), [('', False), (',lang=str', True)])
def test_a_field_is_the_split_and_stays_only_if_it_is_a_column(
    tmp_path: Path, more: str, kept: bool
) -> None:
    text = ''.join(f'{{"id": {n}, "lang": "{"en" if n % 2 else "de"}"}}\n' for n in range(40))
    source = _fill(tmp_path / 'in', a=text)
    options = [f'--input={source}', f'--output={tmp_path}/out', '--split=lang']
    _convert(*options, f'--columns=id=int{more}')
    assert sorted(row['id'] for row in _read(tmp_path / 'out' / 'de')) == list(range(0, 40, 2))
    assert set(_read(tmp_path / 'out' / 'en')[0]) == ({'id', 'lang'} if kept else {'id'})


def test_of_several_fields_in_a_path_one_is_called_split(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = _fill(tmp_path / 'in', en__train__a=_LINES)
    options = [f'--input={source}', f'--output={tmp_path}/out', '--columns=id=int,lang=str']
    _convert(*options, '--split={lang}/{split}/*')
    assert _read(tmp_path / 'out' / 'train')[0]['lang'] == 'en'
    with pytest.raises(SystemExit):
        _convert(*options, '--split={lang}/{part}/*')
    assert 'one field, or one that is called {split}, is needed' in capsys.readouterr().err


def test_bad_records_fail_the_job_and_are_listed(tmp_path: Path) -> None:
    source = _fill(tmp_path / 'in', a=_LINES + '{"id": "x", "text": "t"}\n{\n')
    options = [f'--input={source}', f'--output={tmp_path}/out', '--columns=id=int,text=str']
    with pytest.raises(SystemExit, match='2 of 42 samples were refused, more than the threshold'):
        _convert(*options)
    assert not (tmp_path / 'out' / 'index.json').exists()
    lines = map(json.loads, (tmp_path / 'out.errors.jsonl').read_text().splitlines())
    assert sorted((line['place']['line'], line['stage']) for line in lines) == [
        (41, 'encode'), (42, 'read'),
    ]  # fmt: skip
    with pytest.raises(SystemExit, match=r'threshold of 0\.04'):
        _convert(*options, '--max_error_ratio=0.04')
    _convert(*options, '--max_error_ratio=0.05', f'--errors_output={tmp_path}/mine.jsonl')
    assert len(_read(tmp_path / 'out')) == 40
    assert len((tmp_path / 'mine.jsonl').read_text().splitlines()) == 2


def test_a_dry_run_shows_samples_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = _fill(tmp_path / 'in', a='{"id": 1, "text": "hi"}\n{"id": "x", "text": "b"}\n{\n{}\n')
    for columns in ('id=int,text=str', 'id=int,text=str,no=json'):  # as batches, and as dicts
        _convert(
            f'--input={source}', f'--output={tmp_path}/out', f'--columns={columns}',
            '--rename=text=t', '--dry_run_sample=3',
        )  # fmt: skip
        out = capsys.readouterr().out
        if 'no' not in columns:
            assert f'record 0: {source}/a, line 1\n' in out
            assert ' '.join(out.split()).count('id (int) 1 t (str) hi') == 1
            assert f"record 1: {source}/a, line 2: column 'id' (int): str 'x' is not an" in out
            assert f'record 2: {source}/a, line 3: the line is no JSON object' in out
        else:
            assert "column 'no': the sample has no such column" in out
        assert 'record 3' not in out
    assert content(tmp_path) == {'in/a': (source / 'a').read_bytes()}


@pytest.mark.parametrize(
    ('options', 'message'),
    [
        (['--columns=a='], "'a=' is no column, or there twice"),
        (['--columns=a=str,a=int'], "'a=int' is no column, or there twice"),
        (['--columns=no'], '--columns no: no such column, or its encoding is not known'),
        (['--columns=id=foo'], "unknown encoding 'foo'"),
        (['--rename=id'], '--rename must be like old=new, got id'),
        (['--rename=id=text'], "two columns would be called 'text'"),
        (['--max_error_ratio=2'], 'threshold must be from 0 to 1'),
        (['--key=no'], "key='no' is no column"),
        (['--split={}/x'], 'has no field'),
        (['--colums=id=int'], 'unknown option --colums: did you mean --columns?'),
    ],
)
def test_what_is_wrong_with_options_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    source = _fill(tmp_path / 'in', a=_LINES)
    with pytest.raises(SystemExit) as raised:
        _convert(f'--input={source}', f'--output={tmp_path}/out', *options)
    assert raised.value.code == 2
    assert message in capsys.readouterr().err


def test_an_input_is_needed_and_must_be_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as raised:
        _convert(f'--output={tmp_path}/out')
    assert raised.value.code == 2
    assert '--input is needed: a folder, a glob, a file, or @file' in capsys.readouterr().err
    with pytest.raises(SystemExit, match=r'python -m pipelines.jsonl: input .*/absent: no file'):
        _convert(f'--input={tmp_path}/absent', f'--output={tmp_path}/out')


@pytest.mark.parametrize(
    ('text', 'columns'),
    [
        ('a', {'a': None}),
        ('a=str, b', {'a': 'str', 'b': None}),
        ('a=ndarray:int32:3,4', {'a': 'ndarray:int32:3,4'}),
        ('a=ndarray:int32:3,4,b=int,c', {'a': 'ndarray:int32:3,4', 'b': 'int', 'c': None}),
        ('a.b=json,名=str', {'a.b': 'json', '名': 'str'}),
        ('a=list[pil]', {'a': 'list[pil]'}),
    ],
)
def test_columns_are_names_and_encodings(text: str, columns: dict[str, Any]) -> None:
    assert parse_columns(text) == columns


@pytest.mark.parametrize('text', ['', ',', 'a,,b', '=str'])
def test_columns_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match='is no column'):
        parse_columns(text)


def test_the_result_is_told_with_the_records_that_were_refused(tmp_path: Path) -> None:
    source = _fill(tmp_path / 'in', a=_LINES + '{\n{"id": "x"}\n')
    args, result = conversion.run(
        'jsonl',
        [
            f'--input={source}', f'--output={tmp_path}/out', '--columns=id=int',
            '--max_error_ratio=1', '--runner=FnApiRunner',
        ],
    )  # fmt: skip
    result.wait_until_finish()
    told = ' '.join(conversion.summary(args, counters_of(result)).split())
    assert told.startswith('records read 41 records refused 2 samples 40 ')

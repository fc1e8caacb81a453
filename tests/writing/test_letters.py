from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest

from beam_mds import (
    BadRecord,
    EncodingError,
    ErrorThresholdError,
    RecordError,
    WriteToMDS,
    read_samples,
)
from beam_mds.records import PLACE, place_text
from beam_mds.writing.letters import letter_json
from beam_mds.writing.prepare import DeadLetter
from tests.helpers.faulty import Fault
from tests.helpers.writing import run

_PLACE = {'file': 'a.jsonl', 'line': 12}


def _read(folder: Path) -> list[dict[str, Any]]:
    return list(read_samples(folder))


def _json(element: Any) -> Any:
    return json.loads(letter_json(DeadLetter('encode', 'n', 'EncodingError', 'why', 'k', element)))


def _write(rows: list[Any], out: Path, errors: Path | None = None, **handling: Any) -> None:
    def build(pipeline: beam.Pipeline) -> None:
        sink = WriteToMDS(out, {'n': 'int'}).with_exception_handling(
            errors_output=errors, **handling
        )
        _ = pipeline | beam.Create(rows) | sink

    run(build)


def _lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


class _Row(NamedTuple):
    n: str
    raw: bytes


def test_a_letter_is_one_line_of_json() -> None:
    assert _json({'n': 'x\ny', 'raw': b'\xff', 'a': np.arange(2)}) == {
        'stage': 'encode',
        'column': 'n',
        'error_type': 'EncodingError',
        'message': 'why',
        'key': 'k',
        'element': {
            'n': 'x\ny',
            'raw': {'base64': base64.b64encode(b'\xff').decode()},
            'a': [0, 1],
        },
        'place': None,
    }
    assert '\n' not in letter_json(DeadLetter('encode', None, 'E', 'a\nb', None, {'n': 'x\ny'}))


@pytest.mark.parametrize('element', [_Row('x', b'\xff'), beam.Row(n='x', raw=b'\xff')])
def test_elements_with_fields_are_objects(element: Any) -> None:
    assert _json(element)['element'] == {'n': 'x', 'raw': {'base64': '/w=='}}


@pytest.mark.parametrize('element', [{'n': 'x' * 70_000}, {'n': object()}, {(1, 2): 3}])
def test_what_is_large_or_has_no_json_is_null(element: Any) -> None:
    assert _json(element)['element'] is None


def test_a_place_is_told_as_text() -> None:
    assert place_text({'url': 'http://x/a'}) == 'http://x/a'
    assert place_text({'file': 'a.tar', 'member': 'b.jpg'}) == 'a.tar, member b.jpg'
    assert place_text({'file': 'a', 'line': None, 'byte': 7}) == 'a, byte 7'


def test_a_bad_record_fails_the_job_with_its_place(tmp_path: Path) -> None:
    rows = [{'n': 1}, BadRecord('json', 'no object', _PLACE)]
    with pytest.raises(RecordError, match=r'a\.jsonl, line 12: no object'):
        run(lambda p: p | beam.Create(rows) | WriteToMDS(tmp_path, {'n': 'int'}))


def test_a_bad_record_is_a_dead_letter_and_counts(tmp_path: Path) -> None:
    rows = [*({'n': n} for n in range(50)), BadRecord('json', 'no object', _PLACE, {'raw': 1})]
    _write(rows, tmp_path / 'out', tmp_path / 'errors')
    assert sorted(row['n'] for row in _read(tmp_path / 'out')) == list(range(50))
    assert _lines(tmp_path / 'errors') == [
        {
            'stage': 'read',
            'column': None,
            'error_type': 'json',
            'message': 'no object',
            'key': None,
            'element': {'raw': 1},
            'place': _PLACE,
        }
    ]


def test_bad_records_that_are_not_to_be_caught_fail_the_job(tmp_path: Path) -> None:
    rows = [{'n': 1}, {'n': 'x'}, BadRecord('json', 'no object', _PLACE)]
    with pytest.raises(RecordError):
        _write(rows, tmp_path / 'out', exc_class=EncodingError)


@pytest.mark.parametrize('order', ['shuffled', 'arrival'])
def test_many_bad_records_among_samples_lose_nothing(tmp_path: Path, order: Any) -> None:
    rows = [
        BadRecord('http', f'{n}', {'url': f'{n}'}) if n % 3 else {'n': n if n % 2 else 'x'}
        for n in range(3000)
    ]

    def build(pipeline: beam.Pipeline) -> None:
        sink = WriteToMDS(tmp_path / 'out', {'n': 'int'}, order=order)
        sink = sink.with_exception_handling(errors_output=tmp_path / 'errors')
        _ = pipeline | beam.Create(rows) | sink

    run(build)
    assert sorted(row['n'] for row in _read(tmp_path / 'out')) == list(range(3, 3000, 6))
    letters = _lines(tmp_path / 'errors')
    assert sorted(int(x['message']) for x in letters if x['stage'] == 'read') == [
        n for n in range(3000) if n % 3
    ]
    assert len([x for x in letters if x['stage'] == 'encode']) == 500


def test_a_refused_sample_is_told_with_its_place(tmp_path: Path) -> None:
    places = [{'file': 'b', 'row': row} for row in range(3)]
    batch = pa.RecordBatch.from_pylist(
        [{'n': 1, PLACE: places[0]}, {'n': 300, PLACE: places[1]}, {'n': 2, PLACE: places[2]}]
    )
    rows: list[Any] = [{'n': 1, PLACE: _PLACE}, {'n': 'x', PLACE: {**_PLACE, 'line': 13}}, batch]

    def build(pipeline: beam.Pipeline) -> None:
        sink = WriteToMDS(tmp_path / 'out', {'n': 'uint8'})
        sink = sink.with_exception_handling(errors_output=tmp_path / 'errors')
        _ = pipeline | beam.Create(rows) | sink

    run(build)
    letters = sorted(_lines(tmp_path / 'errors'), key=lambda letter: str(letter['place']))
    assert [(letter['place'], letter['element']) for letter in letters] == [
        ({'file': 'a.jsonl', 'line': 13}, {'n': 'x'}),
        ({'file': 'b', 'row': 1}, {'n': 300}),
    ]
    assert sorted(row['n'] for row in _read(tmp_path / 'out')) == [1, 1, 2]


@pytest.mark.parametrize('batches', [False, True])
def test_a_refused_sample_fails_the_job_with_its_place(tmp_path: Path, batches: bool) -> None:
    rows: list[Any] = [{'n': n, PLACE: {'file': 'a', 'line': n}} for n in (1, 2, 300)]
    elements = [pa.RecordBatch.from_pylist(rows)] if batches else rows
    with pytest.raises(EncodingError, match=r"column 'n' \(uint8\): .*300.* \(a, line 300\)"):
        run(lambda p: p | beam.Create(elements) | WriteToMDS(tmp_path, {'n': 'uint8'}))


def test_the_file_of_errors_is_there_when_there_are_none(tmp_path: Path) -> None:
    _write([{'n': 1}], tmp_path / 'out', tmp_path / 'errors')
    assert (tmp_path / 'errors').read_text() == ''


def test_the_file_of_errors_is_there_when_they_fail_the_job_and_the_error_names_it(
    tmp_path: Path,
) -> None:
    errors = tmp_path / 'errors'
    with pytest.raises(
        ErrorThresholdError,
        match=rf'1 of 2 samples were refused, .* they are listed in {errors}',
    ):
        _write([{'n': 1}, {'n': 'x'}], tmp_path / 'out', errors, threshold=0)
    assert [letter['element'] for letter in _lines(errors)] == [{'n': 'x'}]
    assert not (tmp_path / 'out' / 'index.json').exists()


def test_without_the_file_of_errors_there_is_no_index(faults: Any) -> None:
    faults.add(Fault('create', 'errors', error='permission', times=None))
    with pytest.raises(Exception, match='Permission denied'):
        _write([{'n': 1}], faults.folder + '/out', faults.folder + '/errors')
    assert not (faults.local / 'out' / 'index.json').exists()


def test_a_place_is_no_column(tmp_path: Path) -> None:
    rows = [{'n': 1, PLACE: _PLACE}]
    run(lambda p: p | beam.Create(rows) | WriteToMDS(tmp_path, {'n': 'int'}))
    assert _read(tmp_path) == [{'n': 1}]


def test_a_field_beside_the_split_that_is_dropped_is_an_error(tmp_path: Path) -> None:
    rows = [{'n': 1, 's': 'a', 'more': 2}]
    sink = WriteToMDS(tmp_path, {'n': 'int'}, split='s', drop_split_column=True)
    with pytest.raises(EncodingError, match="'more': the sample has this column, the dataset has"):
        run(lambda p: p | beam.Create(rows) | sink)

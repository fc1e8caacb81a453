"""Dead letters: samples that are refused, where they would fail the job."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.transforms.error_handling import CollectingErrorHandler, ErrorHandler

from beam_mds import (
    DeadLetter,
    EncodingError,
    ErrorThresholdError,
    LostSamplesError,
    OptionError,
    WriteToMDS,
    read_samples,
)
from beam_mds.writing import steps
from tests.helpers.writing import COLUMNS, SEEN, Sample, content, read, run, samples, see

ROWS = samples(400)


def write_with_errors(
    elements: list[Any], out: Any, columns: Any = COLUMNS, how: Any = None, **options: Any
) -> list[DeadLetter]:
    """Writes, and gives the dead letters."""
    SEEN.clear()

    def build(pipeline: beam.Pipeline) -> None:
        sink = WriteToMDS(out, columns, **options).with_exception_handling(**(how or {}))
        result = pipeline | beam.Create(elements) | sink
        _ = result.errors | beam.Map(see)

    run(build)
    return [item for item in SEEN if isinstance(item, DeadLetter)]


def spoil(rows: list[Sample], places: list[int]) -> list[Sample]:
    spoiled = [dict(row) for row in rows]
    for place in places:
        spoiled[place]['number'] = 2**40
    return spoiled


@pytest.mark.parametrize('order', ['shuffled', 'arrival'])
@pytest.mark.parametrize(
    'places', [[], [0], [399], [17, 18, 19], list(range(0, 400, 10)), list(range(400))[:-1]]
)
def test_bad_samples_are_dead_letters_and_their_neighbours_are_written(
    order: str, places: list[int], tmp_path: Path
) -> None:
    rows = spoil(ROWS, places)
    letters = write_with_errors(rows, tmp_path, order=order)
    assert sorted(letter.element['data'] for letter in letters) == sorted(
        rows[place]['data'] for place in places
    )
    assert read(tmp_path) == [row for n, row in enumerate(ROWS) if n not in set(places)]
    for letter in letters:
        assert letter[:3] == ('encode', 'number', 'EncodingError')
        assert letter.message.startswith("column 'number' (int32): int 1099511627776 does not fit")


@pytest.mark.parametrize('order', ['shuffled', 'arrival'])
def test_a_bad_row_of_a_record_batch_does_not_take_its_neighbours_with_it(
    order: str, tmp_path: Path
) -> None:
    table = pa.table(
        {
            'text': pa.array(['a', None, 'c', 'd']),
            'n': pa.array([1, 2, 300, 4], pa.int64()),
        }
    )
    letters = write_with_errors(
        [table, table.to_batches()[0]], tmp_path, {'text': 'str', 'n': 'uint8'}, order=order
    )
    assert sorted((letter.column, letter.element['n']) for letter in letters) == [
        ('n', 300), ('n', 300), ('text', 2), ('text', 2),
    ]  # fmt: skip
    assert letters[0].element.keys() == {'text', 'n'}
    assert sorted(int(sample['n']) for sample in read_samples(tmp_path)) == [1, 1, 4, 4]


def test_a_dead_letter_can_be_mended_and_fed_back(tmp_path: Path) -> None:
    letters = write_with_errors(spoil(ROWS, [6, 53]), tmp_path)
    mended = []
    for letter in letters:
        (row,) = (row for row in ROWS if row['data'] == letter.element['data'])
        mended.append({**letter.element, 'number': row['number']})
    assert write_with_errors(mended, tmp_path, if_exists='append') == []
    assert read(tmp_path) == ROWS


@pytest.mark.parametrize(
    ('element', 'column', 'message'),
    [
        ({'n': 1}, 'text', 'the sample has no such column'),
        ({'n': 1, 'text': 'a', 'x': 1}, 'x', 'the sample has this column, the dataset has not'),
        ({'n': None, 'text': 'a'}, 'n', 'the value is None'),
        ({'n': 1, 'text': None}, 'text', 'the value is None'),
        ({'n': 1, 'text': b'\xff'}, 'text', 'bytes'),
        ('no sample', None, 'is no sample: expected a dict'),
        (None, None, 'is no sample: expected a dict'),
        ([{'n': 1, 'text': 'a'}], None, 'is no sample: expected a dict'),
    ],
)
def test_every_kind_of_bad_sample_is_a_dead_letter_with_its_reason(
    element: Any, column: str | None, message: str, tmp_path: Path
) -> None:
    good = {'n': 1, 'text': 'good'}
    columns = {'n': 'int', 'text': 'str'}
    (letter,) = write_with_errors([good, element, good], tmp_path, columns)
    assert (letter.stage, letter.column, letter.element) == ('encode', column, element)
    assert letter.error_type == 'EncodingError'
    assert message in letter.message


def test_errors_of_the_users_functions_are_dead_letters(tmp_path: Path) -> None:
    rows = [{'n': number} for number in range(10)]

    def key(sample: Sample) -> float:
        return 1 / (sample['n'] - 3)

    def split(sample: Sample) -> str:
        return ['a', 'b', '..'][sample['n'] % 3 if sample['n'] < 9 else 5]

    letters = write_with_errors(rows, tmp_path, {'n': 'int'}, key=key, split=split)
    found = sorted((letter.stage, letter.error_type, letter.element['n']) for letter in letters)
    assert found == [
        ('key', 'ZeroDivisionError', 3),
        ('split', 'EncodingError', 2),
        ('split', 'EncodingError', 5),
        ('split', 'EncodingError', 8),
        ('split', 'IndexError', 9),
    ]
    assert {letter.key for letter in letters if letter.element['n'] == 5} == {'0.5'}


def test_a_dead_letter_has_the_key(tmp_path: Path) -> None:
    (letter,) = write_with_errors(spoil(ROWS[:9], [3]), tmp_path, key='name')
    assert letter.key == ROWS[3]['name']


def test_text_that_is_no_utf8_in_arrow_is_a_dead_letter(tmp_path: Path) -> None:
    text = pa.array([b'a', b'\xff\xfe', b'c']).view(pa.string())
    (letter,) = write_with_errors([pa.table({'text': text})], tmp_path, {'text': 'str'})
    assert letter.column == 'text'
    assert isinstance(letter.element, (pa.Table, pa.RecordBatch))
    assert letter.element.num_rows == 1


def test_a_sample_too_large_for_any_shard_takes_the_same_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr('beam_mds.writing.prepare.SHARD_CEILING', 5000)
    rows = [{'data': b'x' * size} for size in (10, 6000, 20)]
    (letter,) = write_with_errors(rows, tmp_path, {'data': 'bytes'})
    assert letter.message == ('a sample of 6004 bytes fits no shard: offsets in a shard are uint32')
    with pytest.raises(EncodingError, match='a sample of 6004 bytes fits no shard'):
        run(
            lambda pipeline: (
                pipeline | beam.Create(rows) | WriteToMDS(tmp_path / 'x', {'data': 'bytes'})
            )
        )


def test_only_the_given_classes_are_caught(tmp_path: Path) -> None:
    rows = [{'n': 1}, {'n': 'x'}]
    with pytest.raises(EncodingError):
        write_with_errors(rows, tmp_path, {'n': 'int'}, {'exc_class': ZeroDivisionError})
    caught = (ZeroDivisionError, EncodingError)
    assert len(write_with_errors(rows, tmp_path, {'n': 'int'}, {'exc_class': caught})) == 1


@pytest.mark.parametrize(
    ('threshold', 'passes'), [(1, True), (0.1, True), (0.09, False), (0, False)]
)
def test_more_errors_than_the_threshold_fail_the_job_and_publish_nothing(
    threshold: float, passes: bool, tmp_path: Path
) -> None:
    rows = spoil(ROWS, list(range(0, 400, 10)))
    if passes:
        assert len(write_with_errors(rows, tmp_path, how={'threshold': threshold})) == 40
        return
    with pytest.raises(ErrorThresholdError, match='40 of 400 samples were refused, more than the'):
        write_with_errors(rows, tmp_path, how={'threshold': threshold})
    assert 'index.json' not in content(tmp_path)
    assert write_with_errors(ROWS, tmp_path, how={'threshold': 0}) == []


@pytest.mark.parametrize('threshold', [-0.1, 1.1, float('nan')])
def test_a_wrong_threshold_is_refused_at_once(threshold: float) -> None:
    with pytest.raises(OptionError, match='threshold must be from 0 to 1'):
        WriteToMDS('out', COLUMNS).with_exception_handling(threshold=threshold)


@pytest.mark.parametrize('exc_class', ['ValueError', 3, (ValueError, 3), BaseException])
def test_wrong_exception_classes_are_refused_at_once(exc_class: Any) -> None:
    with pytest.raises(OptionError, match='exc_class must be exception classes'):
        WriteToMDS('out', COLUMNS).with_exception_handling(exc_class=exc_class)


def test_an_error_handler_takes_the_dead_letters(tmp_path: Path) -> None:
    SEEN.clear()

    def build(pipeline: beam.Pipeline) -> None:
        with ErrorHandler(beam.Map(see)) as handler:
            sink = WriteToMDS(tmp_path, COLUMNS).with_error_handler(handler)
            result = pipeline | beam.Create(spoil(ROWS, [1, 2])) | sink
            with pytest.raises(AttributeError, match='an error handler takes them itself'):
                _ = result.errors

    run(build)
    assert len(SEEN) == 2
    assert len(read(tmp_path)) == 398


def test_a_handler_is_shared_with_other_transforms_and_none_is_no_handler(tmp_path: Path) -> None:
    sink = WriteToMDS(tmp_path, COLUMNS)
    assert sink.with_error_handler(None) is sink
    SEEN.clear()

    def build(pipeline: beam.Pipeline) -> None:
        with CollectingErrorHandler() as handler:
            rows = pipeline | beam.Create([1, 0, 2])
            rows = rows | beam.Map(lambda n: {'n': 4 / n}).with_error_handler(handler)
            rows = rows | 'Int' >> beam.Map(
                lambda row: {'n': int(row['n']) if row['n'] > 2 else 2.0}
            )
            _ = rows | WriteToMDS(tmp_path, {'n': 'int'}).with_error_handler(handler)
        _ = handler.output() | beam.Map(see)

    run(build)
    assert [sample['n'] for sample in read_samples(tmp_path)] == [4]
    assert len(SEEN) == 2
    (letter,) = [item for item in SEEN if isinstance(item, DeadLetter)]
    assert letter.element == {'n': 2.0}


def test_without_handling_there_are_no_errors(tmp_path: Path) -> None:
    def build(pipeline: beam.Pipeline) -> None:
        result = pipeline | beam.Create(ROWS) | WriteToMDS(tmp_path, COLUMNS)
        assert set(result) == {'shards', 'index'}
        with pytest.raises(AttributeError, match='only after with_exception_handling'):
            _ = result.errors

    run(build)


def test_only_bad_samples_are_an_empty_dataset(tmp_path: Path) -> None:
    with pytest.raises(Exception, match='there was no sample'):
        write_with_errors(spoil(ROWS[:3], [0, 1, 2]), tmp_path)
    assert len(write_with_errors(spoil(ROWS[:3], [0, 1, 2]), tmp_path, allow_empty=True)) == 3
    assert content(tmp_path) == {}


def test_files_do_not_depend_on_where_the_bad_samples_are(tmp_path: Path) -> None:
    rng = random.Random(0)
    bad = [{**row, 'number': None} for row in samples(100, seed=9)]
    for seed in range(3):
        mixed: list[Any] = [*ROWS, *bad]
        rng.shuffle(mixed)
        assert len(write_with_errors(mixed, tmp_path / str(seed), size_limit=2000)) == 100
    assert content(tmp_path / '0') == content(tmp_path / '1') == content(tmp_path / '2')


def test_failed_samples_are_counted(tmp_path: Path) -> None:
    def build(pipeline: beam.Pipeline) -> None:
        sink = WriteToMDS(tmp_path, COLUMNS).with_exception_handling()
        _ = pipeline | beam.Create(spoil(ROWS, [3, 4, 5])) | sink

    result = run(build)
    counters = {
        cell.key.metric.name: cell.committed
        for cell in result.metrics().query()['counters']
        if cell.key.metric.namespace == 'beam_mds'
    }
    assert counters['samples_failed'] == 3
    assert counters['samples_written'] == 397


def test_inputs_that_are_neither_written_nor_refused_fail_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = steps.EncodeSamples.process

    def lose(self: Any, element: Any, target: Any) -> Any:
        element.data.pop()
        return process(self, element, target)

    monkeypatch.setattr(steps.EncodeSamples, 'process', lose)
    with pytest.raises(LostSamplesError, match='400 samples were given, '):
        write_with_errors(ROWS, tmp_path)
    assert 'index.json' not in content(tmp_path)


# extra


@pytest.mark.parametrize('kind', ['dicts', 'table'])
def test_extra_columns_are_ignored_when_asked(kind: str, tmp_path: Path) -> None:
    rows = [{'n': number, 'x': np.float64(1), 'y': 'z'} for number in range(5)]
    elements = rows if kind == 'dicts' else [pa.Table.from_pylist(rows)]
    run(
        lambda pipeline: (
            pipeline | beam.Create(elements) | WriteToMDS(tmp_path, {'n': 'int'}, extra='ignore')
        )
    )
    assert sorted(read_samples(tmp_path), key=lambda sample: sample['n']) == [
        {'n': number} for number in range(5)
    ]


def test_a_missing_column_is_still_an_error_when_extra_ones_are_ignored(tmp_path: Path) -> None:
    letters = write_with_errors(
        [{'n': 1, 'x': 1}, {'x': 1, 'y': 2}], tmp_path, {'n': 'int'}, extra='ignore'
    )
    assert [letter.message for letter in letters] == ["column 'n': the sample has no such column"]

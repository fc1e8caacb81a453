"""WriteToMDS in other people's pipelines: paths, windows, several sinks, unbounded input."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.testing import test_stream as streams
from apache_beam.transforms import trigger
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.transforms.window import FixedWindows, GlobalWindows, Sessions, TimestampedValue

from beam_mds import OptionError, WriteToMDS, read_samples
from tests.helpers.writing import COLUMNS, SEEN, batch, content, read, run, samples, see, write

_FOLDERS = [
    'set [x] [!a]',
    '** star * ?',
    'ümläut ß 中文 %20 #1',
    'open [ {b,c} \' " ] close',
]
# What those would match as patterns.
_NEIGHBOURS = ['set x b', ' star  a', 'open [ b \' " ] close']


def test_folder_names_with_special_characters_work(tmp_path: Path) -> None:
    rows = samples(40)
    leftover = f'shard.00000.{0:016x}.mds'

    def build(pipeline: beam.Pipeline) -> None:
        elements = pipeline | beam.Create(rows)
        for name in _FOLDERS:
            out = tmp_path / name
            _ = elements | name >> WriteToMDS(out, COLUMNS, size_limit=1000)

    for name in [*_FOLDERS, *_NEIGHBOURS]:
        (tmp_path / name).mkdir()
        (tmp_path / name / leftover).write_bytes(b'leftover')
    run(build)

    for name in _FOLDERS:
        files = content(tmp_path / name)
        assert 'index.json' in files
        assert len(files) > 3
        assert leftover not in files
        assert read(tmp_path / name) == rows
    for name in _NEIGHBOURS:
        assert content(tmp_path / name) == {leftover: b'leftover'}


@pytest.mark.parametrize('form', ['Path', 'slashes', 'relative', 'home'])
def test_out_may_be_given_in_every_usual_form(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv('HOME', str(tmp_path))
    target = tmp_path / 'data' / 'set'
    out: Any = {
        'Path': target,
        'slashes': f'{target}///',
        'relative': './data/../data/set/',
        'home': '~/data/set',
    }[form]
    rows = samples(20)

    write(rows, out, size_limit=1000)

    assert [path.name for path in tmp_path.iterdir()] == ['data']
    assert [path.name for path in (tmp_path / 'data').iterdir()] == ['set']
    assert read(target) == rows


def test_a_relative_path_is_of_the_folder_where_the_transform_was_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / 'elsewhere').mkdir()
    monkeypatch.chdir(tmp_path)
    sink = WriteToMDS('data', COLUMNS, spill='runs')
    monkeypatch.chdir(tmp_path / 'elsewhere')

    run(lambda pipeline: pipeline | beam.Create(samples(5)) | sink)

    assert read(tmp_path / 'data') == samples(5)
    assert os.listdir(tmp_path / 'elsewhere') == []


def test_making_and_applying_the_transform_touches_no_storage(faults: Any) -> None:
    pipeline = beam.Pipeline(runner='FnApiRunner')

    sink = WriteToMDS(f'{faults.folder}/out', COLUMNS, spill=f'{faults.folder}/runs')
    pipeline | beam.Create(samples(3)) | sink

    assert faults.calls() == []
    assert faults.files() == []
    pipeline.run().wait_until_finish()  # the same pipeline does touch it
    assert len(faults.calls()) > 5
    assert faults.files('out') != []


def test_one_instance_works_in_two_pipelines_and_gives_the_same_files(tmp_path: Path) -> None:
    sink = WriteToMDS(tmp_path / 'data', COLUMNS, size_limit=1000)
    run(lambda pipeline: pipeline | beam.Create(samples(40)) | sink)
    first = content(tmp_path / 'data')
    (tmp_path / 'data').rename(tmp_path / 'moved')

    run(lambda pipeline: pipeline | beam.Create(samples(40)) | sink)

    assert len(first) > 3
    assert content(tmp_path / 'data') == first


def test_two_sinks_with_labels_work_in_one_pipeline(tmp_path: Path) -> None:
    rows = samples(60)

    def build(pipeline: beam.Pipeline) -> None:
        elements = pipeline | beam.Create(rows)
        even = elements | beam.Filter(lambda sample: sample['number'] % 2 == 0)
        odd = elements | 'Odd' >> beam.Filter(lambda sample: sample['number'] % 2 == 1)
        _ = even | 'WriteEven' >> WriteToMDS(tmp_path / 'even', COLUMNS, size_limit=1000)
        _ = odd | 'WriteOdd' >> WriteToMDS(tmp_path / 'odd', COLUMNS, order='arrival')

    run(build)

    assert read(tmp_path / 'even') == rows[::2]
    assert read(tmp_path / 'odd') == rows[1::2]


def test_two_sinks_without_labels_are_refused_by_beam(tmp_path: Path) -> None:
    pipeline = beam.Pipeline(runner='FnApiRunner')
    elements = pipeline | beam.Create(samples(1))
    _ = elements | WriteToMDS(tmp_path / 'a', COLUMNS)

    with pytest.raises(RuntimeError, match='label "WriteToMDS" already exists'):
        _ = elements | WriteToMDS(tmp_path / 'b', COLUMNS)


@pytest.mark.parametrize('order', ['shuffled', 'arrival'])
def test_two_sinks_on_one_folder_fail_and_the_index_there_is_complete(
    order: str, tmp_path: Path
) -> None:
    rows = samples(60)
    sink = WriteToMDS(tmp_path, COLUMNS, size_limit=1000, order=order)

    def build(pipeline: beam.Pipeline) -> None:
        _ = pipeline | 'A' >> beam.Create(rows[:30]) | 'WriteA' >> sink
        _ = pipeline | 'B' >> beam.Create(rows[30:]) | 'WriteB' >> sink

    with pytest.raises(Exception, match=r'another job|same folder|twice'):
        run(build)

    if (tmp_path / 'index.json').exists():
        assert read(tmp_path) in (rows[:30], rows[30:])


@pytest.fixture(scope='module')
def unwindowed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of `samples(60)` without windows."""
    folder = tmp_path_factory.mktemp('unwindowed')
    write(samples(60), folder, size_limit=1000)
    return content(folder)


@pytest.mark.parametrize(
    'window',
    [
        beam.WindowInto(FixedWindows(5)),
        beam.WindowInto(Sessions(1)),
        beam.WindowInto(
            FixedWindows(3),
            trigger=trigger.Repeatedly(trigger.AfterCount(2)),
            accumulation_mode=trigger.AccumulationMode.ACCUMULATING,
        ),
        beam.WindowInto(
            GlobalWindows(),
            trigger=trigger.Repeatedly(trigger.AfterCount(1)),
            accumulation_mode=trigger.AccumulationMode.DISCARDING,
        ),
    ],
    ids=['fixed', 'sessions', 'accumulating', 'global with trigger'],
)
def test_windowed_input_gives_one_dataset_which_windows_do_not_change(
    window: beam.PTransform, unwindowed: dict[str, bytes], tmp_path: Path
) -> None:
    rows = samples(60)
    SEEN.clear()

    def build(pipeline: beam.Pipeline) -> None:
        elements = (
            pipeline
            | beam.Create(rows)
            | beam.Map(lambda sample: TimestampedValue(sample, sample['number']))
            | window
        )
        result = elements | WriteToMDS(tmp_path / 'a', COLUMNS, size_limit=1000)
        _ = result.index | beam.Map(see)
        arrival = WriteToMDS(tmp_path / 'b', COLUMNS, size_limit=1000, order='arrival')
        _ = elements | 'InOrderOfArrival' >> arrival

    run(build)

    assert [str(tmp_path / 'a' / 'index.json')] == SEEN
    assert read(tmp_path / 'a') == rows
    assert content(tmp_path / 'a') == unwindowed
    assert read(tmp_path / 'b') == rows


def _declared_unbounded(pipeline: beam.Pipeline) -> Any:
    elements = pipeline | beam.Create([1])
    elements.is_bounded = False
    return elements


@pytest.mark.parametrize(
    'source',
    [
        _declared_unbounded,
        lambda pipeline: pipeline | PeriodicImpulse(),
        lambda pipeline: (
            pipeline | streams.TestStream().add_elements([1]).advance_watermark_to_infinity()
        ),
        lambda pipeline: pipeline | PeriodicImpulse() | beam.WindowInto(FixedWindows(1)),
        lambda pipeline: (
            (pipeline | PeriodicImpulse(), pipeline | beam.Create([1])) | beam.Flatten()
        ),
    ],
    ids=['declared', 'impulses', 'test stream', 'windowed', 'flattened'],
)
def test_unbounded_input_is_refused_when_the_pipeline_is_built(source: Any, tmp_path: Path) -> None:
    elements = source(beam.Pipeline(runner='FnApiRunner'))

    with pytest.raises(OptionError, match='bounded PCollection; this one is not'):
        elements | WriteToMDS(tmp_path, {'a': 'int'})

    assert content(tmp_path) == {}


def test_a_key_function_may_be_a_lambda_with_a_closure(tmp_path: Path) -> None:
    names = {f'näme {number}': number % 2 for number in range(7)}
    rows = samples(50)

    write([batch(rows)], tmp_path, key=lambda sample: names[sample['name']])

    parities = [names[sample['name']] for sample in read_samples(tmp_path)]
    assert sum(a != b for a, b in pairwise(parities)) == 1

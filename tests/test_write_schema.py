"""Columns taken from the schema of the elements, and elements with fields."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_mds import ColumnsError, DeadLetter, OptionError, WriteToMDS, read_samples
from beam_mds.indexes import read_index
from tests.helpers.writing import SEEN, content, run, see


class Named(NamedTuple):
    text: str
    label: int


@dataclasses.dataclass
class Data:
    text: str
    label: int


VALUES = [(f'text {number}', number) for number in range(30)]
EXPECTED = {'label': 'int64', 'text': 'str'}


def columns_of(folder: Path) -> dict[str, str]:
    (config,) = {shard.config for shard in read_index(folder)}
    return config.columns.as_dict()


def pairs(folder: Path) -> list[tuple[str, int]]:
    return sorted(
        ((sample['text'], int(sample['label'])) for sample in read_samples(folder)),
        key=lambda pair: pair[1],
    )


def elements_of(kind: str) -> Any:
    """A transform that gives the values as elements whose type Beam knows."""
    values = beam.Create(VALUES)
    if kind == 'row':
        return values | beam.Map(lambda pair: beam.Row(text=str(pair[0]), label=int(pair[1])))
    if kind == 'select':
        return values | beam.Select(text=lambda pair: str(pair[0]), label=lambda pair: int(pair[1]))
    made = Named if kind == 'named' else Data
    return values | beam.Map(lambda pair: made(*pair)).with_output_types(made)


@pytest.mark.parametrize('kind', ['row', 'select', 'named', 'data'])
@pytest.mark.parametrize('columns', [None, {'text': ..., 'label': None}])
def test_columns_come_from_the_schema(kind: str, columns: Any, tmp_path: Path) -> None:
    run(lambda pipeline: pipeline | elements_of(kind) | WriteToMDS(tmp_path, columns, key='label'))
    assert columns_of(tmp_path) == EXPECTED
    assert pairs(tmp_path) == VALUES


@pytest.mark.parametrize('kind', ['row', 'named', 'data'])
def test_elements_with_fields_need_no_schema_when_columns_are_given(
    kind: str, tmp_path: Path
) -> None:
    made = {'row': lambda text, label: beam.Row(text=text, label=label), 'named': Named,
            'data': Data}[kind]  # fmt: skip
    elements = [made(*pair) for pair in VALUES]
    run(
        lambda pipeline: pipeline
        | beam.Create(elements).with_output_types(Any)
        | WriteToMDS(
            tmp_path, {'text': 'str', 'label': 'uint8'}, key=lambda sample: sample['label'],
            split=lambda sample: 'ab'[sample['label'] % 2],
        )
    )  # fmt: skip
    assert columns_of(tmp_path) == {'label': 'uint8', 'text': 'str'}
    assert pairs(tmp_path) == VALUES
    assert pairs(tmp_path / 'b') == VALUES[1::2]


def test_some_columns_given_and_the_others_from_the_schema(tmp_path: Path) -> None:
    sink = WriteToMDS(tmp_path, {'text': ..., 'label': 'uint16'})
    run(lambda pipeline: pipeline | elements_of('named') | sink)
    assert columns_of(tmp_path) == {'label': 'uint16', 'text': 'str'}
    sink = WriteToMDS(tmp_path / 'one', {'text': ...}, extra='ignore')
    run(lambda pipeline: pipeline | elements_of('named') | sink)
    assert columns_of(tmp_path / 'one') == {'text': 'str'}


def test_a_parquet_schema_stands_for_columns(tmp_path: Path) -> None:
    table = pa.table(
        {
            'vector': pa.array([[1.0, 2.0]] * 9, pa.list_(pa.float32(), 2)),
            'text': ['a'] * 9,
            'n': pa.array(range(9), pa.int16()),
        }
    )
    pq.write_table(table, tmp_path / 'in.parquet')
    sink = WriteToMDS(tmp_path / 'out', pq.read_schema(tmp_path / 'in.parquet'))
    run(
        lambda pipeline: (
            pipeline | beam.io.ReadFromParquetBatched(str(tmp_path / 'in.parquet')) | sink
        )
    )
    assert columns_of(tmp_path / 'out') == {
        'n': 'int16', 'text': 'str', 'vector': 'ndarray:float32:2',
    }  # fmt: skip
    samples = sorted(read_samples(tmp_path / 'out'), key=lambda sample: sample['n'])
    assert [int(sample['n']) for sample in samples] == list(range(9))
    assert all(np.array_equal(sample['vector'], [1, 2]) for sample in samples)


def test_a_dropped_split_column_comes_from_the_schema_and_is_left_out(tmp_path: Path) -> None:
    sink = WriteToMDS(tmp_path, split='text', drop_split_column=True)
    run(lambda pipeline: pipeline | elements_of('named') | sink)
    assert columns_of(tmp_path) == {'label': 'int64'}
    assert len(list(tmp_path.glob('*/index.json'))) == 30


def test_one_transform_can_be_applied_to_two_schemas(tmp_path: Path) -> None:
    sink = WriteToMDS(tmp_path / 'out')
    for pipeline in (beam.Pipeline(runner='FnApiRunner'), beam.Pipeline(runner='FnApiRunner')):
        _ = pipeline | elements_of('named') | sink
    with pytest.raises(ColumnsError):
        _ = beam.Pipeline() | beam.Create([{'a': 1}]) | sink


@pytest.mark.parametrize('columns', [None, {'text': ...}])
def test_elements_without_a_schema_are_an_error_when_the_pipeline_is_made(
    columns: Any, tmp_path: Path
) -> None:
    with pytest.raises(ColumnsError, match=r"say them with columns=\{'name': 'encoding', ...\}"):
        _ = beam.Pipeline() | beam.Create([{'text': 'a'}]) | WriteToMDS(tmp_path, columns)
    assert content(tmp_path) == {}


def test_a_key_that_the_schema_has_not_is_an_error_when_the_pipeline_is_made(
    tmp_path: Path,
) -> None:
    with pytest.raises(OptionError, match="key='nope' is no column"):
        _ = beam.Pipeline() | elements_of('named') | WriteToMDS(tmp_path, key='nope')


def test_other_wrong_options_are_errors_at_once() -> None:
    with pytest.raises(OptionError, match='seed'):
        WriteToMDS('out', seed=-1)
    with pytest.raises(OptionError, match='size_limit'):
        WriteToMDS('out', {'a': ...}, size_limit='7zb')


def test_the_dead_letter_of_an_element_with_fields_is_the_element(tmp_path: Path) -> None:
    SEEN.clear()
    bad = Data('bad', 2**70)

    def build(pipeline: beam.Pipeline) -> None:
        elements = beam.Create([Data('good', 1), bad]).with_output_types(Data)
        sink = WriteToMDS(tmp_path, key='text').with_exception_handling()
        _ = (pipeline | elements | sink).errors | beam.Map(see)

    run(build)
    (letter,) = SEEN
    assert isinstance(letter, DeadLetter)
    assert letter.element == bad
    assert (letter.column, letter.key) == ('label', 'bad')

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.coders import FastPrimitivesCoder, PickleCoder, registry
from apache_beam.testing.util import assert_that, equal_to

from beam_mds import BadRecord, ReadJsonLines, coders, write
from beam_mds.writing.batches import ElementBatch

assert write.coders is coders  # importing it registers them

TABLE = pa.table({'n': list(range(1000)), 'text': ['ä' * 100] * 1000})
PIECE = TABLE.slice(3, 2)

VALUES = [
    TABLE,
    PIECE,
    pa.table({'n': pa.array([], pa.int8())}),
    TABLE.to_batches()[0],
    PIECE.to_batches()[0],
    ElementBatch([{'a': 1}], 10),
]


@pytest.mark.parametrize('value', VALUES, ids=lambda value: type(value).__name__)
def test_an_element_comes_back_as_it_was(value: Any) -> None:
    coder = pickle.loads(pickle.dumps(registry.get_coder(type(value))))
    assert not isinstance(coder, FastPrimitivesCoder)
    back = coder.decode(coder.encode(value))
    assert type(back) is type(value)
    assert back == value


def test_a_slice_is_written_and_sized_alone() -> None:
    for piece in (PIECE, PIECE.to_batches()[0]):
        coder = registry.get_coder(type(piece))
        assert len(coder.encode(piece)) < 2000
        assert coder.get_impl().estimate_size(piece) < 1000
        assert coder.get_impl().estimate_size(TABLE) > 200_000


def test_sizes_are_told_without_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in (TABLE, TABLE.to_batches()[0], ElementBatch([{}], 10)):
        coder = registry.get_coder(type(value))
        monkeypatch.setattr(type(coder), 'encode', None)
        assert coder.get_impl().estimate_size(value) > 0


def test_tables_cross_a_shuffle() -> None:
    with beam.Pipeline(runner='FnApiRunner') as pipeline:
        lengths = (
            pipeline
            | beam.Create([1, 2])
            | beam.Map(lambda n: TABLE.slice(0, n)).with_output_types(pa.Table)
            | beam.Reshuffle()
            | beam.Map(lambda table: table.num_rows)
        )
        assert_that(lengths, equal_to([1, 2]))


def test_a_coder_that_somebody_has_set_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    class Theirs(PickleCoder):
        pass

    before = registry.get_coder(pa.Table)
    registry.register_coder(pa.Table, Theirs)
    try:
        coders.register()
        assert isinstance(registry.get_coder(pa.Table), Theirs)
    finally:
        registry.register_coder(pa.Table, type(before))


@pytest.mark.parametrize(
    'element',
    [
        {'n': 1, 'place': {'file': 'a', 'line': 2}},
        BadRecord('json', 'no object', {'file': 'a', 'line': 2}),
        pa.record_batch({'n': [1, 2]}).slice(1),
    ],
)
def test_elements_of_sources_survive_their_coder(element: Any) -> None:
    coder = coders.ElementsCoder()
    decoded = coder.decode(coder.encode(element))
    assert decoded == element
    assert type(decoded) is type(element)


def test_sizes_of_batches_among_other_elements_are_told_without_encoding(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(coders.RecordBatchCoder, 'encode', None)
    batch = pa.record_batch({'n': [1, 2]})
    assert coders.ElementsCoder().estimate_size(batch) == batch.nbytes


def _number(sample: dict[str, Any]) -> int:
    return int(sample['n'])


def test_a_source_fits_steps_with_types_and_has_the_coder(tmp_path: Path) -> None:
    (tmp_path / 'a').write_text('{"n": 1}\n{"n": 2}\n')
    with beam.Pipeline(runner='FnApiRunner') as pipeline:
        samples = pipeline | ReadJsonLines([tmp_path])
        assert isinstance(coders.registry.get_coder(samples.element_type), coders.ElementsCoder)
        assert_that(samples | beam.Map(_number), equal_to([1, 2]))

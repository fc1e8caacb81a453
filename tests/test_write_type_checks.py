"""Pipelines pass Beam's own checks of types."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import pytest
from apache_beam.transforms.error_handling import ErrorHandler

from beam_mds import DeadLetter, WriteToMDS, WrittenShard
from beam_mds.writing.options import Order
from tests.helpers.writing import COLUMNS, SEEN, batch, read, run, samples, see

ROWS = samples(200, names=3)
FLAGS = ('--runtime_type_check', '--type_check_additional=all')
OPEN = {'data': ..., 'name': ..., 'number': 'uint8'}

KEYS = {'shuffled': None, 'arrival': None, 'sorted': 'number'}

orders = pytest.mark.parametrize('order', ['shuffled', 'arrival', 'sorted'])


class Named(NamedTuple):
    data: bytes
    name: str
    number: int


def elements_of(kind: str, rows: list[dict[str, Any]]) -> Any:
    if kind == 'batch':
        return beam.Create([batch(rows)])
    if kind == 'named':
        return beam.Create(rows) | beam.Map(lambda row: Named(**row)).with_output_types(Named)
    if kind == 'row':
        return beam.Create(rows) | beam.Map(
            lambda row: beam.Row(
                data=bytes(row['data']), name=str(row['name']), number=int(row['number'])
            )
        )
    return beam.Create(rows)


def index_length(path: str) -> int:
    return len(path)


def see_shard(shard: WrittenShard) -> None:
    see(shard)


def see_letter(letter: DeadLetter) -> None:
    see(letter)


@orders
@pytest.mark.parametrize('kind', ['dict', 'batch', 'row', 'named'])
def test_a_write_passes_the_type_checks(kind: str, order: Order, tmp_path: Path) -> None:
    SEEN.clear()
    columns = COLUMNS if kind in ('dict', 'batch') else None
    sink = WriteToMDS(tmp_path, columns, order=order, key=KEYS[order], size_limit=2000)

    def build(pipeline: beam.Pipeline) -> None:
        result = pipeline | elements_of(kind, ROWS) | sink
        _ = result.index | beam.Map(index_length)
        _ = result.shards | beam.Map(see_shard)

    run(build, *FLAGS)
    assert read(tmp_path) == ROWS
    assert sum(shard.samples for shard in SEEN) == len(ROWS)


@orders
@pytest.mark.parametrize('handler', [False, True])
@pytest.mark.parametrize('kind', ['dict', 'batch', 'row', 'named'])
def test_splits_and_dead_letters_pass_the_type_checks(
    kind: str, handler: bool, order: Order, tmp_path: Path
) -> None:
    SEEN.clear()
    bad = {**ROWS[0], 'number': 256}
    columns = OPEN if kind in ('row', 'named') else {**COLUMNS, 'number': 'uint8'}
    sink = WriteToMDS(
        tmp_path, columns, order=order, key=KEYS[order], split='name', size_limit=2000
    )

    def build(pipeline: beam.Pipeline) -> None:
        elements = pipeline | elements_of(kind, [*ROWS, bad])
        if handler:
            with ErrorHandler(beam.Map(see_letter)) as errors:
                _ = elements | sink.with_error_handler(errors)
        else:
            _ = (elements | sink.with_exception_handling()).errors | beam.Map(see_letter)

    run(build, *FLAGS)
    assert read(tmp_path) == ROWS
    (letter,) = SEEN
    assert letter.column == 'number'

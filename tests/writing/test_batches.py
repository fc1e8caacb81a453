from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from beam_mds.writing.batches import BATCH_BYTES, Batcher, ElementBatch


def batches_of(elements: list[Any]) -> list[ElementBatch]:
    batcher = Batcher()
    return [*(b for element in elements for b in batcher.add(element) or []), *batcher.finish()]


def test_every_sample_is_in_one_batch_and_in_order() -> None:
    samples = [{'n': number} for number in range(20_000)]
    found = batches_of(samples)
    assert [sample for batch in found for sample in batch.data] == samples
    sizes = [len(batch.data) for batch in found]
    assert sizes[0] == 16
    assert max(sizes) == 8192


def test_elements_of_all_kinds_come_through_whole() -> None:
    table = pa.table({'n': list(range(1000))})
    elements = [{'n': -1}, table, {'n': -2}, table.to_batches()[0], 'no sample', None]
    found = batches_of(elements)
    rows = [batch.data for batch in found if isinstance(batch.data, list)]
    arrow = [batch.data for batch in found if not isinstance(batch.data, list)]
    assert list(itertools.chain(*rows)) == [{'n': -1}, {'n': -2}, 'no sample', None]
    assert [type(piece) for piece in arrow] == [pa.Table, pa.RecordBatch]
    assert all(piece.column(0).to_pylist() == list(range(1000)) for piece in arrow)


def test_nothing_gives_no_batch() -> None:
    assert batches_of([]) == []
    assert batches_of([pa.table({'n': pa.array([], pa.int8())})]) == []


def test_large_tables_are_cut() -> None:
    table = pa.table({'data': [b'x' * 1000] * 20_000})
    found = batches_of([table])
    assert pa.concat_tables(batch.data for batch in found).equals(table)
    assert all(batch.nbytes <= BATCH_BYTES for batch in found)
    assert len(found) == 5


@pytest.mark.parametrize(
    'value',
    [
        b'x' * 100_000,
        bytearray(100_000),
        memoryview(b'x' * 100_000),
        'x' * 100_000,
        np.zeros(25_000, np.float32),
        pa.scalar(b'x' * 100_000),
        [b'x' * 1000] * 100,
        Image.new('RGB', (160, 156)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_batches_of_large_samples_stay_small(value: Any) -> None:
    found = batches_of([{'value': value, 'n': number} for number in range(1000)])
    assert sum(len(batch.data) for batch in found) == 1000
    assert all(len(batch.data) * 100_000 <= 1.1 * BATCH_BYTES for batch in found)
    assert all(80_000 < batch.nbytes / len(batch.data) < 130_000 for batch in found)


def test_a_sample_that_is_larger_than_a_batch_gets_one_alone() -> None:
    found = batches_of([{'value': b'x' * (2 * BATCH_BYTES)}] * 20)
    assert [len(batch.data) for batch in found] == [16, 1, 1, 1, 1]

"""ReadFromMDS and read_samples give what StreamingDataset gives of what MDSWriter wrote."""

from __future__ import annotations

import io
import json
import pickle
import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from beam_mds import ReadFromMDS, read_samples
from beam_mds.format import get_encoding
from beam_mds.indexes import read_index
from tests.helpers.writing import COLUMNS, SEEN, run, samples, see
from tests.interop import generate
from tests.interop.conftest import Judge
from tests.interop.judge import portable

pytestmark = pytest.mark.interop

_ROWS, _LIMIT = 60, 700_000

# Arrays of several types, or numbers of dimensions, in one column have no common Arrow type.
_NOT_ARROW = ('ndarray', 'ndarray:float16')

_TABLE = {f'{name} ë': case for name, case in generate.CASES.items()}


def rows() -> list[dict[str, Any]]:
    """Samples with a column for every case, the smallest first: MDSWriter wants that one to fit."""
    rng = random.Random(8)
    made = [{name: make(rng) for name, (_, make) in _TABLE.items()} for _ in range(_ROWS)]
    return sorted(made, key=lambda row: len(row['ndarray:uint8 of long vectors ë']))


def in_order(out: Path, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Samples that were read with_metadata, in the order of the index, without it."""
    shards = [str(out / info.stored.basename) for info in read_index(out)]
    found.sort(key=lambda row: (shards.index(row['mds_shard']), row['mds_sample']))
    places = {(row.pop('mds_shard'), row.pop('mds_sample')) for row in found}
    assert len(places) == len(found)
    return found


def dicts_of(out: Path, **how: Any) -> Any:
    """What ReadFromMDS gives as dicts."""
    SEEN.clear()
    source = ReadFromMDS(out, with_metadata=True, **how)
    run(lambda pipeline: pipeline | source | beam.Map(see))
    return portable(in_order(out, list(SEEN)))[1:]


def batches_of(out: Path, **how: Any) -> list[dict[str, Any]]:
    """What ReadFromMDS gives as Arrow batches, as rows."""
    SEEN.clear()
    source = ReadFromMDS(out, with_metadata=True, as_batches=True, **how)
    run(lambda pipeline: pipeline | source | beam.Map(see))
    assert all(isinstance(batch, pa.RecordBatch) for batch in SEEN)
    return in_order(out, pa.Table.from_batches(SEEN).to_pylist())


def _image(value: bytes) -> Any:
    return Image.open(io.BytesIO(value))


# Encoding -> what makes the reader's value of the one that is in an Arrow batch.
_OF_ARROW: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(('bytes', 'str', 'int', 'str_float'), lambda value: value),
    'str_int': int,
    'str_decimal': Decimal,
    'json': json.loads,
    'pkl': pickle.loads,
    'pil': get_encoding('pil').decode,
    **dict.fromkeys(('jpeg', 'png'), _image),
    **dict.fromkeys(
        ('jpeg_array', 'jpegarray', 'list[jpeg]', 'list[png]'),
        lambda value: list(map(_image, value)),
    ),
    'list[pil]': lambda value: list(map(get_encoding('pil').decode, value)),
}


def of_arrow(encoding: str, value: Any) -> Any:
    """The reader's value of one in a batch."""
    kind, _, parameter = encoding.partition(':')
    if kind == 'ndarray':
        return np.array(value, parameter.partition(':')[0])
    return _OF_ARROW.get(kind, np.dtype(kind).type if kind not in _OF_ARROW else None)(value)


@pytest.mark.parametrize(
    ('compression', 'hash_name'),
    [
        (None, None), ('br:1', 'blake2s'), ('bz2', 'md5'), ('gz', 'xxh3_64'),
        ('snappy', 'xxh128'), ('zstd', 'sha3_512'),
    ],
)  # fmt: skip
def test_every_encoding_of_mdswriter_is_read_as_the_real_reader_reads_it(
    compression: str | None, hash_name: str | None, judge: Judge, tmp_path: Path
) -> None:
    columns = {name: encoding for name, (encoding, _) in _TABLE.items()}
    judge.write(
        rows(), tmp_path, columns, size_limit=_LIMIT, compression=compression,
        hashes=[hash_name] if hash_name else None,
    )  # fmt: skip
    assert len(read_index(tmp_path)) > 2
    how: dict[str, Any] = {'validate_hash': hash_name, 'allow_pickle': True}
    in_a_row = portable(list(read_samples(tmp_path, **how)))[1:]
    as_dicts = dicts_of(tmp_path, **how)
    wanted = [name for name, encoding in columns.items() if encoding not in _NOT_ARROW]
    as_batches = batches_of(tmp_path, columns=wanted, **how)

    read = judge.read(tmp_path, validate_hash=hash_name)  # the last: it unpacks files there

    assert len(read) == _ROWS
    assert in_a_row == read
    assert as_dicts == read
    for row, expected in zip(as_batches, read, strict=True):
        assert set(row) == set(wanted)
        for name in wanted:
            assert portable(of_arrow(columns[name], row[name])) == expected[name], name


@pytest.mark.parametrize('compression', [None, 'zstd'])
def test_parts_that_merge_index_joined_are_read_in_its_order(
    compression: str | None, judge: Judge, tmp_path: Path
) -> None:
    out, parts = tmp_path / 'deep' / 'out', 3
    made = samples(220, seed=3)
    for part in range(parts):
        judge.write(
            made[part::parts], out / f'part {part}', COLUMNS, size_limit=1000,
            compression=compression, hashes=['xxh64'],
        )  # fmt: skip
    judge.ask('merge', out=out)
    found = portable(list(read_samples(out, validate_hash='xxh64')))[1:]
    assert dicts_of(out) == found
    assert (
        portable(batches_of(out))[1:]
        == portable([{**row, 'number': int(row['number'])} for row in read_samples(out)])[1:]
    )
    SEEN.clear()
    source = ReadFromMDS(f'{tmp_path}/*/*/part *')
    run(lambda pipeline: pipeline | source | beam.Map(see))
    assert sorted(row['number'] for row in SEEN) == list(range(220))
    part = dicts_of(out / 'part 2')
    assert dicts_of(out, split='part 2') == part

    assert judge.read(out, validate_hash='xxh64') == found
    assert judge.read(out, split='part 2') == part
    assert len(found) == 220

"""StreamingDataset, the real reader, on splits, overwrite, append and columns from schemas."""

from __future__ import annotations

import dataclasses
import datetime as dt
import functools
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.typehints.row_type import RowTypeConstraint

from beam_mds import WriteToMDS, read_samples
from beam_mds.indexes import read_index
from beam_mds.writing.options import Order
from tests.helpers.writing import COLUMNS, Sample, content, run, samples, table, write
from tests.interop.conftest import Judge
from tests.interop.judge import portable
from tests.interop.test_pipeline import as_read, by_number

pytestmark = pytest.mark.interop

LIMIT = 3000
OLD, NEW = samples(300, names=3, seed=1), samples(200, names=3, seed=2)
for row in NEW:
    row['number'] += 1000

SPLITS = {'näme 0': 'train', 'näme 1': 'val/en', 'näme 2': 'val/de'}

orders = pytest.mark.parametrize('order', ['shuffled', 'arrival', 'sorted'])
write_small = functools.partial(write, size_limit=LIMIT)


def by_name(sample: Sample) -> str:
    return SPLITS[sample['name']]


def in_order(order: Order) -> dict[str, Any]:
    return {'order': order, 'key': 'number' if order == 'sorted' else None}


def of_split(rows: list[Sample], split: str) -> list[Sample]:
    return [row for row in rows if not split or by_name(row) == split]


class Reads:
    """What the judge reads of a dataset: from a copy of it first, then where it is."""

    def __init__(self, judge: Judge, tmp_path: Path) -> None:
        self.judge, self.tmp_path, self.copies = judge, tmp_path, 0

    def __call__(self, out: Path, **how: Any) -> Any:
        self.copies += 1
        copy = self.tmp_path / f'copy {self.copies}'
        remote = self.judge.read(copy, remote=str(out), **how)
        # As the last: what is compressed is unpacked beside the index.
        assert self.judge.read(out, **how) == remote
        assert remote == portable(list(read_samples(out / (how.get('split') or ''))))[1:]
        return remote


@pytest.fixture
def reads(judge: Judge, tmp_path: Path) -> Reads:
    return Reads(judge, tmp_path)


def assert_read(reads: Reads, out: Path, rows: list[Sample], **how: Any) -> None:
    """The samples are read, and no others."""
    assert by_number(reads(out, **how)) == [
        as_read(row) for row in sorted(rows, key=lambda row: row['number'])
    ]


def listed(out: Path) -> set[str]:
    """The files that the index of a dataset without splits lists, and itself."""
    return {'index.json', *(shard.stored.basename for shard in read_index(out))}


@pytest.mark.parametrize(
    ('order', 'compression'), [('shuffled', 'zstd'), ('arrival', None), ('sorted', 'gz')]
)
def test_the_root_and_every_split_are_read(
    order: Order, compression: str | None, reads: Reads, tmp_path: Path
) -> None:
    out = tmp_path / 'out'
    write_small(
        [*OLD[:100], table(OLD[100:])], out, split=by_name, compression=compression,
        hashes=['sha1'], **in_order(order),
    )  # fmt: skip
    for split in ('', *SPLITS.values()):
        assert len(read_index(out / split)) > 1
        assert_read(reads, out, of_split(OLD, split), split=split or None, validate_hash='sha1')


@pytest.mark.parametrize(
    ('order', 'limit'),
    [('shuffled', 700), ('shuffled', 60_000), ('arrival', 700), ('sorted', 60_000)],
)
def test_an_overwritten_dataset_is_read_with_its_new_columns(
    order: Order, limit: int, reads: Reads, tmp_path: Path
) -> None:
    out = tmp_path / 'out'
    write_small(OLD, out, compression='zstd', **in_order(order))
    assert_read(reads, out, OLD)
    assert len(content(out)) > len(listed(out))  # the reader's unpacked files
    before = len(read_index(out))
    rows = [{'id': row['number'], 'text': row['name']} for row in NEW]
    key = 'id' if order == 'sorted' else None
    write(
        rows, out, {'id': 'uint16', 'text': 'str'}, order=order, key=key, size_limit=limit,
        if_exists='overwrite',
    )  # fmt: skip

    assert len(read_index(out)) not in (0, before)
    assert set(content(out)) == listed(out)
    read = sorted(reads(out), key=lambda sample: int.from_bytes(sample['id'][3], 'little'))
    assert read == [portable({'id': np.uint16(row['id']), 'text': row['text']}) for row in rows]


@pytest.mark.parametrize('splits', [(by_name, None), (None, by_name)])
def test_an_overwritten_dataset_is_read_when_splits_come_or_go(
    splits: Any, reads: Reads, tmp_path: Path
) -> None:
    out = tmp_path / 'out'
    write_small(OLD, out, split=splits[0])
    write_small(NEW, out, split=splits[1], if_exists='overwrite')
    assert_read(reads, out, NEW)
    if splits[1]:
        assert_read(reads, out, of_split(NEW, 'val/en'), split='val/en')


@orders
def test_an_appended_dataset_is_read_through_other_compressions_and_hashes(
    order: Order, reads: Reads, tmp_path: Path
) -> None:
    out = tmp_path / 'out'
    write_small(OLD[:100], out, hashes=['sha1'], **in_order(order))
    before = reads(out, validate_hash='sha1')
    for part, compression, hashes in (
        (OLD[100:200], 'gz:1', ['xxh64', 'sha1']), (OLD[200:], 'br', ['sha1']), (NEW, None, None),
    ):  # fmt: skip
        write_small(
            part, out, if_exists='append', compression=compression, hashes=hashes,
            **in_order(order),
        )  # fmt: skip
        if hashes is not None:
            reads(out, validate_hash='sha1')
    assert_read(reads, out, [*OLD, *NEW])
    assert reads(out)[:100] == before


@orders
@pytest.mark.parametrize(
    ('compression', 'hashes'), [(None, None), ('zstd', ['sha1']), ('snappy', ['md5', 'xxh64'])]
)
def test_a_dataset_of_mdswriter_is_appended_to(
    order: Order, compression: str | None, hashes: Any, judge: Judge, reads: Reads, tmp_path: Path
) -> None:
    out = tmp_path / 'out'
    judge.write(OLD, out, COLUMNS, size_limit=LIMIT, compression=compression, hashes=hashes)
    count, old = len(read_index(out)), content(out)
    assert count > 1
    write_small(NEW, out, if_exists='append', compression='gz', hashes=['md5'], **in_order(order))
    assert content(out).items() >= {k: v for k, v in old.items() if k != 'index.json'}.items()

    validate = 'md5' if hashes and 'md5' in hashes else None
    read = reads(out, validate_hash=validate)
    assert read[: len(OLD)] == [as_read(row) for row in OLD]
    assert by_number(read[len(OLD) :]) == [as_read(row) for row in NEW]


@orders
@pytest.mark.parametrize('merged', [True, False])
def test_splits_of_mdswriter_are_appended_to(
    order: Order, merged: bool, judge: Judge, reads: Reads, tmp_path: Path
) -> None:
    out = tmp_path / 'out'
    old = {'train': of_split(OLD, 'train'), 'val': of_split(OLD, 'val/en')}
    for split, rows in old.items():
        judge.write(rows, out / split, COLUMNS, size_limit=LIMIT, compression='zstd')
    if merged:
        judge.ask('merge', out=out)
    new = {'val': NEW[:80], 'test/new': NEW[80:]}
    split_of = {row['number']: split for split, rows in new.items() for row in rows}
    write_small(
        NEW, out, split=lambda sample: split_of[sample['number']], if_exists='append',
        **in_order(order),
    )  # fmt: skip

    assert_read(reads, out, [*old['train'], *old['val'], *NEW])
    for split in ('train', 'val', 'test/new'):
        rows = [*old.get(split, []), *new.get(split, [])]
        assert_read(reads, out, rows, split=split)


@pytest.mark.parametrize('merged', [True, False])
def test_overwritten_splits_of_mdswriter_are_read(
    merged: bool, judge: Judge, reads: Reads, tmp_path: Path
) -> None:
    out = tmp_path / 'out'
    for split in ('train', 'gone'):
        judge.write(OLD, out / split, COLUMNS, size_limit=LIMIT)
    if merged:
        judge.ask('merge', out=out)
    write_small(NEW, out, split=by_name, if_exists='overwrite')
    assert not (out / 'gone' / 'index.json').exists()
    assert_read(reads, out, NEW)
    assert_read(reads, out, of_split(NEW, 'train'), split='train')


def test_a_sorted_dataset_is_read_in_the_order_of_its_key(reads: Reads, tmp_path: Path) -> None:
    out = tmp_path / 'out'
    write_small(NEW[::-1], out, split=by_name, **in_order('sorted'))
    assert reads(out, split='val/en') == [as_read(row) for row in of_split(NEW, 'val/en')]


# columns from schemas


class Named(NamedTuple):
    n: int
    text: str
    score: float
    flag: bool
    data: bytes
    price: Decimal
    when: dt.datetime
    vector: list[float]
    doc: dict[str, Any]


Data = dataclasses.make_dataclass('Data', get_type_hints(Named).items())
Data.__module__ = __name__  # to be pickled

DAY = dt.datetime(2024, 2, 29, 12, 30, 0, 5, tzinfo=dt.timezone.utc)
MICROS = 1_709_209_800_000_005


def named(n: int) -> Named:
    return Named(
        n, f'téxt {n}', n / 3, n % 2 == 0, bytes([n]), Decimal(n) / 8,
        DAY + dt.timedelta(microseconds=n), [1.5] * (n + 1), {'n': n, 'list': [None, 'ä']},
    )  # fmt: skip


def as_named(n: int) -> Any:
    """What a reader must get of `named(n)`."""
    sample = named(n)._asdict()
    return portable(
        {
            **sample,
            'n': np.int64(n),
            'score': np.float64(n / 3),
            'flag': np.uint8(n % 2 == 0),
            'when': np.int64(MICROS + n),
            'vector': np.array(sample['vector']),
        }
    )


def rows_of(kind: str) -> Any:
    """A transform that gives such samples, with a schema."""
    if kind == 'named':
        return beam.Map(named).with_output_types(Named)
    if kind == 'dataclass':
        return beam.Map(lambda n: Data(*named(n))).with_output_types(Data)
    fields = list(get_type_hints(Named).items())
    return beam.Map(lambda n: beam.Row(**named(n)._asdict())).with_output_types(
        RowTypeConstraint.from_fields(fields)
    )


@pytest.mark.parametrize('kind', ['named', 'dataclass', 'row'])
def test_samples_with_a_schema_of_python_types_are_read(
    kind: str, reads: Reads, tmp_path: Path
) -> None:
    out = tmp_path / 'out'
    run(lambda pipeline: pipeline | beam.Create(range(50)) | rows_of(kind) | WriteToMDS(out))
    read = sorted(reads(out), key=lambda sample: int.from_bytes(sample['n'][3], 'little'))
    assert read == [as_named(n) for n in range(50)]


_TENSOR = pa.fixed_shape_tensor(pa.int16(), [2, 3])
_TIMES = {'day': dt.date(2024, 2, 29), 'at': dt.time(1, 0, 0, 7), 'took': dt.timedelta(-1)}

# Arrow type, value, what is read.
_FIELDS: dict[str, tuple[pa.DataType, Any, Any]] = {
    **{
        f'numbers {name}': (pa.from_numpy_dtype(name), 7, np.dtype(name).type(7))
        for name in ('int8', 'int16', 'int32', 'int64', 'uint8', 'uint16', 'uint32', 'uint64',
                     'float16', 'float32', 'float64')
    },
    'bool': (pa.bool_(), True, np.uint8(1)),
    'string': (pa.string(), 'täxt', 'täxt'),
    'large_string': (pa.large_string(), '', ''),
    'dictionary': (pa.dictionary(pa.int32(), pa.string()), 'word', 'word'),
    'binary': (pa.binary(), b'\0\xff', b'\0\xff'),
    'fixed_size_binary': (pa.binary(3), b'abc', b'abc'),
    'decimal': (pa.decimal128(9, 2), Decimal('1.50'), Decimal('1.50')),
    'date': (pa.date32(), _TIMES['day'], np.int64(1_709_164_800_000_000)),
    'timestamp': (pa.timestamp('us', 'UTC'), DAY, np.int64(MICROS)),
    'timestamp ms': (pa.timestamp('ms'), dt.datetime(1970, 1, 2), np.int64(86_400_000_000)),  # noqa: DTZ001
    'time': (pa.time64('us'), _TIMES['at'], np.int64(3_600_000_007)),
    'duration': (pa.duration('us'), _TIMES['took'], np.int64(-86_400_000_000)),
    'list': (pa.list_(pa.int32()), [1, 2, 3], np.array([1, 2, 3], 'i4')),
    'large_list': (pa.large_list(pa.float64()), [1.5], np.array([1.5])),
    'nested list': (
        pa.list_(pa.list_(pa.int64())), [[1, 2], [3, 4], [5, 6]], np.array([[1, 2], [3, 4], [5, 6]])
    ),
    'fixed_size_list': (pa.list_(pa.float32(), 2), [0.5, 1], np.array([0.5, 1], 'f4')),
    'list of strings': (pa.list_(pa.string()), ['a', None], ['a', None]),
    'struct': (
        pa.struct([('a', pa.int64()), ('b', pa.list_(pa.string()))]), {'a': 1, 'b': ['x']},
        {'a': 1, 'b': ['x']},
    ),
    'map': (pa.map_(pa.string(), pa.float64()), [('k', 0.5)], {'k': 0.5}),
}  # fmt: skip


def test_samples_with_a_parquet_schema_are_read(reads: Reads, tmp_path: Path) -> None:
    count = 40
    columns = {name: pa.array([value] * count, kind) for name, (kind, value, _) in _FIELDS.items()}
    tensors = np.arange(6 * count, dtype='i2').reshape(count, 2, 3)
    columns['tensor'] = pa.FixedShapeTensorArray.from_numpy_ndarray(tensors)
    columns['id'] = pa.array(range(count), pa.uint32())
    path, out = tmp_path / 'in.parquet', tmp_path / 'out'
    pq.write_table(pa.table(columns), path, row_group_size=15)

    sink = WriteToMDS(out, pq.read_schema(path), size_limit=4000)
    run(lambda pipeline: pipeline | beam.io.ReadFromParquetBatched(str(path)) | sink)

    assert len(read_index(out)) > 1
    read = sorted(reads(out), key=lambda sample: int.from_bytes(sample['id'][3], 'little'))
    expected = {name: value for name, (_, _, value) in _FIELDS.items()}
    assert read == [
        portable({**expected, 'id': np.uint32(n), 'tensor': tensors[n]}) for n in range(count)
    ]

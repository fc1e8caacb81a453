from __future__ import annotations

import collections
import dataclasses
import datetime as dt
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Optional

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.typehints.row_type import RowTypeConstraint
from apache_beam.utils.timestamp import Duration, Timestamp
from PIL import Image

from beam_mds.errors import ColumnsError, EncodingError
from beam_mds.format import Columns
from beam_mds.format.encodings.arrays import DTYPES
from beam_mds.rows import as_dict
from beam_mds.schema import RULES, infer_columns, type_table

UTC = dt.timezone.utc
SYDNEY = dt.timezone(dt.timedelta(hours=10))
WHEN = dt.datetime(2021, 3, 4, 5, 6, 7, 89)  # noqa: DTZ001
WHEN_MICROS = 1614834367000089
DAY_MICROS = 86_400_000_000

INTEGERS = [name for name in DTYPES if 'int' in name]
ARROW_NUMBERS = [(pa.from_numpy_dtype(name), name) for name in DTYPES]


class Proof(NamedTuple):
    encoding: str
    values: Sequence[Any]
    reads: Sequence[Any]


def same(encoding: str, *values: Any) -> Proof:
    return Proof(encoding, values, values)


def of_number(name: str) -> Proof:
    if name in INTEGERS:
        info = np.iinfo(name)
        return same(name, *(np.dtype(name).type(end) for end in (info.min, 7, info.max)))
    return same(name, *np.array([-1.5, 0.1, np.inf, np.finfo(name).tiny], name))


def arrays(encoding: str, *rows: Any) -> Proof:
    dtype = encoding.split(':')[1]
    return Proof(encoding, rows, [np.array(row, dtype) for row in rows])


JSON = [{'a': 1, 'b': ['x', None], 'c': {'d': 0.1}}, {'a': -1, 'b': [], 'c': {'d': 2.0}}]
DECIMALS = [Decimal('-1.50'), Decimal('0.00'), Decimal('99.99')]
DATES = [dt.date(1969, 12, 31), dt.date(1970, 1, 2), dt.date(1, 1, 1)]
DATE_MICROS = [-DAY_MICROS, DAY_MICROS, -719162 * DAY_MICROS]
TIMES = [dt.time(0, 0, 0), dt.time(23, 59, 59), dt.time(1, 2, 3)]
TIME_MICROS = [0, DAY_MICROS - 1_000_000, 3_723_000_000]
SPANS = [dt.timedelta(0), dt.timedelta(-1), dt.timedelta(2, 3)]
SPAN_MICROS = [0, -DAY_MICROS, 2 * DAY_MICROS + 3_000_000]
TEXTS = ['', 'añb', 'more than the twelve bytes of a view']
BLOBS = [b'', b'\xff\x00', b'more than the twelve bytes of a view']

# What the table names -> types of it, with values of that type and what they are read as.
PYTHON: dict[str, list[tuple[Any, Proof]]] = {
    **{f'numpy.{name}': [(np.dtype(name).type, of_number(name))] for name in DTYPES},
    'int': [(int, same('int64', -(2**63), 2**63 - 1))],
    'float': [(float, same('float64', 0.1, -np.inf))],
    'bool': [(bool, same('uint8', True, False))],
    'numpy.bool_': [(np.bool_, same('uint8', np.True_, np.False_))],
    'str': [(str, same('str', *TEXTS))],
    'numpy.str_': [(np.str_, same('str', *map(np.str_, TEXTS)))],
    'bytes': [(bytes, same('bytes', *BLOBS))],
    'bytearray': [(bytearray, same('bytes', *map(bytearray, BLOBS)))],
    'memoryview': [(memoryview, same('bytes', *map(memoryview, BLOBS)))],
    'decimal.Decimal': [(Decimal, same('str_decimal', *DECIMALS, Decimal('1E+30')))],
    'datetime.date': [(dt.date, Proof('int64', DATES, DATE_MICROS))],
    'datetime.datetime': [
        (
            dt.datetime,
            Proof(
                'int64',
                [WHEN, WHEN.replace(tzinfo=UTC), WHEN.replace(tzinfo=SYDNEY)],
                [WHEN_MICROS, WHEN_MICROS, WHEN_MICROS - 36_000_000_000],
            ),
        )
    ],
    'numpy.datetime64': [
        (
            np.datetime64,
            Proof(
                'int64',
                [np.datetime64(WHEN), np.datetime64('1970-01-02'), np.datetime64(3000, 'ns')],
                [WHEN_MICROS, DAY_MICROS, 3],
            ),
        )
    ],
    'Timestamp of Beam': [
        (
            Timestamp,
            Proof('int64', [Timestamp(2), Timestamp(micros=-5), Timestamp(1, 2, 3)],
                  [2_000_000, -5, 1_002_000]),
        )
    ],
    'datetime.time': [(dt.time, Proof('int64', TIMES, TIME_MICROS))],
    'datetime.timedelta': [(dt.timedelta, Proof('int64', SPANS, SPAN_MICROS))],
    'numpy.timedelta64': [
        (np.timedelta64, Proof('int64', list(map(np.timedelta64, SPANS)), SPAN_MICROS)),
    ],
    'Duration of Beam': [
        (Duration, Proof('int64', [Duration(2), Duration(micros=-5)], [2_000_000, -5])),
    ],
    'numpy.ndarray': [
        (np.ndarray, same('ndarray', np.arange(3, dtype=np.int8), np.ones((2, 2)))),
        (npt.NDArray[Any], same('ndarray', np.arange(3, dtype=np.int8), np.ones((2, 2)))),
    ],
    'numpy.ndarray of numbers': [
        (npt.NDArray[np.float32], same('ndarray:float32', np.float32([1, 2]), np.float32([[3]]))),
    ],
    'list of numbers': [
        (list[int], arrays('ndarray:int64', [1, -(2**63)], [2**63 - 1])),
        (list[float], arrays('ndarray:float64', [0.1, np.nan], [1, 2.5])),
        (list[np.float32], arrays('ndarray:float32', [0.5, np.float32(0.1)], [0.1])),
        (list[np.uint8], arrays('ndarray:uint8', [255, np.uint8(0)], [1])),
        (list[np.uint64 | None], arrays('ndarray:uint64', [2**64 - 1, 0], [1])),
        (list[list[int]], arrays('ndarray:int64', [[1, 2], [3, 4]], [[1], [2]])),
    ],
    'Sequence of numbers': [
        (Sequence[np.int16], arrays('ndarray:int16', [1, -(2**15)], (3,))),
        (Sequence[Sequence[float]], arrays('ndarray:float64', [(0.5,), [1.5]], ((2.5, 3.5),))),
    ],
    'tuple of numbers': [
        (tuple[int, ...], arrays('ndarray:int64', (1, 2), (3,))),
        (tuple[float, float], arrays('ndarray:float64', (0.5, 1.5), (2.5, 3.5))),
    ],
    'dict': [
        (dict, same('json', *JSON)),
        (dict[str, Any], same('json', *JSON)),
        (dict[str, int | str], same('json', {'a': 1, 'b': 'x'}, {})),
    ],
    'Mapping': [(Mapping[str, list[float]], same('json', {'a': [0.1]}, {}))],
    'list of str': [(list[str], same('json', ['a', 'ü'], []))],
    'list of bool': [(list[bool], same('json', [True, False], []))],
    'list of dict': [(list[dict[str, Any]], same('json', JSON, []))],
    'T | None': [
        (Optional[int], same('int64', 1, 2)),  # noqa: UP045
        (str | None, same('str', 'a')),
        (list[int] | None, arrays('ndarray:int64', [1])),
    ],
}  # fmt: skip


def column(kind: pa.DataType, values: Sequence[Any]) -> pa.Array:
    if kind != pa.float16():  # which pyarrow 18 takes from numpy only
        values = [value.item() if isinstance(value, np.generic) else value for value in values]
    if pa.types.is_dictionary(kind):
        return pa.array(values, kind.value_type).dictionary_encode()
    return pa.array(values, kind)


def numbers(make: Any) -> list[tuple[pa.DataType, Proof]]:
    return [
        (make(kind), arrays(f'ndarray:{name}', *(np.array(row, name) for row in ([1, 2], [3]))))
        for kind, name in ARROW_NUMBERS
    ] + [
        (make(make(pa.int16())), arrays('ndarray:int16', [[1, -2], [3, 4]], [[5]])),
        (make(pa.list_(pa.float32(), 2)), arrays('ndarray:float32', [[1, 2], [3, 4]], [[5, 6]])),
    ]


# pyarrow 18 has neither.
DECIMAL32 = getattr(pa, 'decimal32', pa.decimal128)
DECIMAL64 = getattr(pa, 'decimal64', pa.decimal128)

STRUCT = pa.struct(
    {
        'a': pa.int8(),
        'b': pa.list_(pa.string()),
        'c': pa.struct({'d': pa.float64()}),
    }
)
ARROW: dict[str, list[tuple[pa.DataType, Proof]]] = {
    **{str(kind): [(kind, of_number(name))] for kind, name in ARROW_NUMBERS},
    'bool': [(pa.bool_(), same('uint8', True, False, True))],
    'string': [(pa.string(), same('str', *TEXTS))],
    'large_string': [(pa.large_string(), same('str', *TEXTS))],
    'string_view': [(pa.string_view(), same('str', *TEXTS))],
    'binary': [(pa.binary(), same('bytes', *BLOBS))],
    'large_binary': [(pa.large_binary(), same('bytes', *BLOBS))],
    'fixed_size_binary': [(pa.binary(2), same('bytes', b'ab', b'\xff\x00'))],
    'binary_view': [(pa.binary_view(), same('bytes', *BLOBS))],
    'decimal32': [(DECIMAL32(4, 2), same('str_decimal', *DECIMALS))],
    'decimal64': [(DECIMAL64(4, 2), same('str_decimal', *DECIMALS))],
    'decimal128': [(pa.decimal128(4, 2), same('str_decimal', *DECIMALS))],
    'decimal256': [(pa.decimal256(4, 2), same('str_decimal', *DECIMALS))],
    'date32': [(pa.date32(), Proof('int64', DATES, DATE_MICROS))],
    'date64': [(pa.date64(), Proof('int64', DATES, DATE_MICROS))],
    'timestamp': [
        (pa.timestamp('us'), Proof('int64', [WHEN], [WHEN_MICROS])),
        (pa.timestamp('us', 'UTC'), Proof('int64', [WHEN], [WHEN_MICROS])),
        (
            pa.timestamp('us', '+10:00'),
            Proof('int64', [WHEN.replace(tzinfo=SYDNEY)], [WHEN_MICROS - 36_000_000_000]),
        ),
        (pa.timestamp('s'), Proof('int64', [1, -1], [1_000_000, -1_000_000])),
        (pa.timestamp('ms'), Proof('int64', [1, -1], [1_000, -1_000])),
        (pa.timestamp('ns', 'UTC'), Proof('int64', [1000, -1000], [1, -1])),
    ],
    'time32': [
        (pa.time32('s'), Proof('int64', TIMES, TIME_MICROS)),
        (pa.time32('ms'), Proof('int64', TIMES, TIME_MICROS)),
    ],
    'time64': [
        (pa.time64('us'), Proof('int64', TIMES, TIME_MICROS)),
        (pa.time64('ns'), Proof('int64', TIMES, TIME_MICROS)),
    ],
    'duration': [
        (pa.duration(unit), Proof('int64', SPANS, SPAN_MICROS)) for unit in ('s', 'ms', 'us', 'ns')
    ],
    'list of numbers': numbers(pa.list_),
    'large_list of numbers': numbers(pa.large_list),
    'list_view of numbers': numbers(pa.list_view),
    'large_list_view of numbers': numbers(pa.large_list_view),
    'fixed_size_list of numbers': [
        (pa.list_(pa.float32(), 2), arrays('ndarray:float32:2', [1, 2], [3, 4], [5, 6])),
        (
            pa.list_(pa.list_(pa.uint8(), 3), 2),
            arrays('ndarray:uint8:2,3', [[1, 2, 3], [4, 5, 6]], [[7, 8, 9], [0, 1, 2]]),
        ),
    ],
    'struct': [(STRUCT, same('json', *JSON))],
    'map': [
        (pa.map_(pa.string(), pa.int32()), same('json', {'a': 1, 'b': None}, {}, {'c': 3})),
        (pa.map_(pa.string(), pa.list_(pa.string())), same('json', {'a': ['x']}, {})),
    ],
    'list of string': [
        (pa.list_(pa.string()), same('json', ['a'], [], ['b', None])),
        (pa.list_view(pa.string_view()), same('json', ['a'], [], ['b', None])),
        (pa.list_(pa.string(), 2), same('json', ['a', 'b'], ['c', 'd'])),
    ],
    'list of bool': [(pa.list_(pa.bool_()), same('json', [True], [], [False, True]))],
    'list of struct': [(pa.list_(STRUCT), same('json', JSON, [], JSON[:1]))],
    'dictionary of T': [
        (pa.dictionary(pa.int32(), pa.string()), same('str', 'a', 'b', 'a')),
        (pa.dictionary(pa.int32(), pa.int16()), same('int16', 7, -1, 7)),
        (pa.dictionary(pa.int32(), pa.float64()), same('float64', 0.5, 1.5)),
        (pa.dictionary(pa.int32(), pa.bool_()), same('uint8', True, False)),
        (pa.dictionary(pa.int32(), pa.binary(2)), same('bytes', b'ab', b'cd')),
        (pa.dictionary(pa.int32(), pa.decimal128(4, 2)), same('str_decimal', *DECIMALS)),
        (pa.dictionary(pa.int32(), pa.date32()), Proof('int64', DATES, DATE_MICROS)),
    ],
}  # fmt: skip

TENSORS = [
    (pa.fixed_shape_tensor(pa.int16(), [2, 3]), 'ndarray:int16:2,3'),
    (pa.fixed_shape_tensor(pa.int16(), [2, 3], permutation=[1, 0]), 'ndarray:int16:3,2'),
]


def flat(proofs: Mapping[str, list[tuple[Any, Proof]]]) -> list[Any]:
    return [
        pytest.param(kind, proof, id=f'{name}-{at}')
        for name, several in proofs.items()
        for at, (kind, proof) in enumerate(several)
    ]


def read_back(columns: Columns, batch: Any) -> list[Any]:
    samples = columns.encode_batch(batch)
    return [columns.decode_sample(bytes(sample))['a'] for sample in samples]


def assert_equal(found: Sequence[Any], expected: Sequence[Any]) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        if isinstance(other, np.ndarray):
            assert (one.dtype, one.shape) == (other.dtype, other.shape)
            assert one.tobytes() == other.tobytes()
        else:
            assert one == other


def test_every_type_of_the_table_is_proven_below() -> None:
    python = {name for rule in RULES for name in rule.python.split(', ') if name}
    arrow = {name for rule in RULES for name in rule.arrow.split(', ') if name}

    assert python == set(PYTHON)
    assert arrow == {*ARROW, 'fixed_shape_tensor'}


@pytest.mark.parametrize('rule', RULES)
def test_the_table_says_the_encoding_that_is_inferred(rule: Any) -> None:
    if rule.encoding == "T's":
        return
    for names, proofs in ((rule.python, PYTHON), (rule.arrow, ARROW)):
        for name in names.split(', '):
            for _, proof in proofs.get(name, []):  # type: ignore[attr-defined]
                fixed = rule.encoding.split(':')
                found = proof.encoding.split(':')
                assert (fixed[0], len(fixed)) == (found[0], len(found))


def test_the_table_is_markdown() -> None:
    lines = type_table().splitlines()

    assert lines[:2] == [
        '| Python, numpy, Beam | Arrow | encoding | is read as |',
        '|---|---|---|---|',
    ]
    assert '| int, numpy.int64 | int64 | `int64` | numpy.int64 |' in lines
    assert len(lines) == len(RULES) + 2
    assert {line.replace(r'\|', '').count('|') for line in lines} == {5}


@pytest.mark.parametrize(('kind', 'proof'), flat(PYTHON))
def test_a_python_type_is_inferred_and_its_values_come_back(kind: Any, proof: Proof) -> None:
    fields: Any = [('a', kind)]
    element: Any = NamedTuple('element', fields)
    inferred = infer_columns(element)

    assert inferred == {'a': proof.encoding}
    columns = Columns(inferred)
    rows = [as_dict(element(value)) for value in proof.values]
    assert_equal(read_back(columns, rows), proof.reads)
    for row, read in zip(rows, proof.reads, strict=True):
        assert_equal(read_back(columns, [row]), [read])


@pytest.mark.parametrize(('kind', 'proof'), flat(PYTHON))
def test_a_dataclass_and_beams_own_types_are_inferred_alike(kind: Any, proof: Proof) -> None:
    made = dataclasses.make_dataclass('made', [('a', kind), ('b', int)], frozen=True)
    beam_kind = beam.typehints.native_type_compatibility.convert_to_beam_type(kind)
    row = RowTypeConstraint([('a', beam_kind), ('b', int)], None)

    expected = {'a': proof.encoding, 'b': 'int64'}
    assert infer_columns(made) == expected
    assert infer_columns(row) == expected
    assert infer_columns(made, {'a': ...}) == {'a': proof.encoding}


@pytest.mark.parametrize(('kind', 'proof'), flat(ARROW))
def test_an_arrow_type_is_inferred_and_its_values_come_back(
    kind: pa.DataType, proof: Proof
) -> None:
    array = column(kind, proof.values)
    inferred = infer_columns(pa.schema({'a': kind}))

    assert inferred == {'a': proof.encoding}
    check_arrow(Columns(inferred), array, proof.reads)


def check_arrow(columns: Columns, array: pa.Array, reads: Sequence[Any]) -> None:
    table = pa.table({'a': array})
    assert_equal(read_back(columns, table), reads)
    assert_equal(read_back(columns, table.to_batches()[0]), reads)
    assert_equal(read_back(columns, table.slice(1)), reads[1:])
    assert_equal(read_back(columns, table.slice(0, 1)), reads[:1])
    assert_equal(read_back(columns, table.slice(0, 0)), [])
    assert_equal(read_back(columns, pa.record_batch([array.slice(1)], ['a'])), reads[1:])
    chunks = pa.chunked_array([array, array.slice(1), array.slice(0, 0), array[:1]])
    expected = [*reads, *reads[1:], *reads[:1]]
    assert_equal(read_back(columns, pa.table({'a': chunks})), expected)
    assert_equal(read_back(columns, pa.table({'a': chunks}).slice(1)), expected[1:])


@pytest.mark.parametrize(('kind', 'encoding'), TENSORS)
def test_arrow_tensors_are_arrays_of_their_logical_shape(kind: Any, encoding: str) -> None:
    storage = pa.array([list(range(at, at + 6)) for at in range(3)], pa.list_(pa.int16(), 6))
    array = pa.ExtensionArray.from_storage(kind, storage)
    inferred = infer_columns(pa.schema({'a': kind}))

    assert inferred == {'a': encoding}
    check_arrow(Columns(inferred), array, list(array.to_numpy_ndarray()))


def test_chunks_with_different_dictionaries_come_back() -> None:
    chunks = pa.chunked_array(
        [pa.array(['a', 'b']).dictionary_encode(), pa.array(['c', 'a']).dictionary_encode()]
    )
    columns = Columns(infer_columns(pa.schema({'a': chunks.type})))

    assert read_back(columns, pa.table({'a': chunks})) == ['a', 'b', 'c', 'a']


def test_a_parquet_file_with_every_common_type_comes_back(tmp_path: Path) -> None:
    matrices = [[[1.5, 2.5]], [[3.5], [4.5]]]
    table = pa.table(
        {
            'bool': [True, False],
            'decimal': pa.array(DECIMALS[:2], pa.decimal128(4, 2)),
            'dictionary': pa.array(['x', 'y']).dictionary_encode(),
            'int16': pa.array([-1, 2], pa.int16()),
            'list': pa.array([[1.5], [2.5, 3.5]], pa.list_(pa.float32())),
            'matrix': pa.array(matrices, pa.list_(pa.list_(pa.float64()))),
            'null': pa.array([None, None]),
            'struct': [{'a': 1, 'b': 'x'}, {'a': 2, 'b': None}],
            'time': pa.array([WHEN, WHEN], pa.timestamp('us', 'UTC')),
        }
    )
    pq.write_table(table, tmp_path / 'file.parquet')
    table = pq.read_table(tmp_path / 'file.parquet')

    with pytest.raises(ColumnsError, match="field 'null' has type null: its encoding cannot be"):
        infer_columns(table.schema)
    table = table.drop_columns('null')
    columns = Columns(infer_columns(table.schema))
    samples = columns.encode_batch(table)
    first, second = (columns.decode_sample(bytes(sample)) for sample in samples)

    assert columns.as_dict() == {
        'bool': 'uint8',
        'decimal': 'str_decimal',
        'dictionary': 'str',
        'int16': 'int16',
        'list': 'ndarray:float32',
        'matrix': 'ndarray:float64',
        'struct': 'json',
        'time': 'int64',
    }
    assert first['int16'] == -1
    assert (first['bool'], second['bool']) == (1, 0)
    assert first['decimal'] == Decimal('-1.50')
    assert second['dictionary'] == 'y'
    assert second['list'].tolist() == [2.5, 3.5]
    assert [first['matrix'].tolist(), second['matrix'].tolist()] == matrices
    assert second['struct'] == {'a': 2, 'b': None}
    assert first['time'] == WHEN_MICROS
    rows = columns.encode_batch(table.to_pylist())
    assert rows.bytes.tobytes() == samples.bytes.tobytes()


class Named(NamedTuple):
    text: str
    label: np.int8
    tokens: Sequence[np.int32]


@dataclasses.dataclass
class Data:
    text: str
    weight: float = 1.0


NAMED_COLUMNS = {'text': 'str', 'label': 'int8', 'tokens': 'ndarray:int32'}


def element_type(*steps: Any) -> Any:
    pcoll = beam.Pipeline(runner='FnApiRunner') | beam.Create([1, 2])
    for step in steps:
        pcoll |= step
    return pcoll.element_type


@pytest.mark.parametrize(
    ('steps', 'columns'),
    [
        (
            [beam.Map(lambda x: beam.Row(a=1, b=[0.5], c='x'))],
            {'a': 'int64', 'b': 'ndarray:float64', 'c': 'str'},
        ),
        (
            [beam.Map(lambda x: beam.Row(a=1, b='x')), beam.Select('b', n=lambda row: row.a * 2)],
            {'b': 'str', 'n': 'int64'},
        ),
        ([beam.Map(lambda x: Named('x', np.int8(1), [1])).with_output_types(Named)], NAMED_COLUMNS),
        (
            [beam.Map(lambda x: Data('x')).with_output_types(Data)],
            {'text': 'str', 'weight': 'float64'},
        ),
        (
            [
                beam.Map(lambda x: beam.Row(d={'a': 1}, n=True, b=b'x')),
            ],
            {'d': 'json', 'n': 'uint8', 'b': 'bytes'},
        ),
    ],
)  # fmt: skip
def test_the_type_of_a_collection_is_enough(steps: Any, columns: dict[str, str]) -> None:
    assert infer_columns(element_type(*steps)) == columns


def test_a_class_in_beams_schema_registry_is_inferred() -> None:
    @dataclasses.dataclass(frozen=True)
    class Registered:
        text: str
        label: np.int8

    beam.coders.registry.register_coder(Registered, beam.coders.RowCoder)
    row = RowTypeConstraint.from_user_type(Named)
    beam.coders.RowCoder.from_type_hint(Named, None)

    assert infer_columns(Registered) == {'text': 'str', 'label': 'int8'}
    assert infer_columns(row) == infer_columns(Named) == NAMED_COLUMNS
    generated = RowTypeConstraint.from_fields([('a', np.int32), ('b', Optional[str])])  # noqa: UP045
    assert infer_columns(generated) == {'a': 'int32', 'b': 'str'}
    assert infer_columns(generated.user_type) == {'a': 'int32', 'b': 'str'}


def test_columns_that_are_given_are_kept_and_open_ones_are_inferred() -> None:
    given = {'tokens': ..., 'label': 'uint8', 'text': None}

    inferred = infer_columns(Named, given)

    assert inferred == {'tokens': 'ndarray:int32', 'label': 'uint8', 'text': 'str'}
    assert list(inferred) == list(given)


def test_only_the_columns_that_are_given_are_columns() -> None:
    schema = pa.schema({'a': pa.int8(), 'odd': pa.null()})

    assert infer_columns(schema, {'a': ...}) == {'a': 'int8'}
    assert infer_columns(Named, {'label': ...}) == {'label': 'int8'}
    assert infer_columns(Named, {'other': 'str', 'label': ...}) == {'other': 'str', 'label': 'int8'}


@pytest.mark.parametrize('given', [None, {}])
def test_all_fields_are_columns_when_none_are_given(given: Any) -> None:
    assert infer_columns(Named, given) == NAMED_COLUMNS


@pytest.mark.parametrize('kind', [Any, dict, beam.typehints.Any, None, pa.RecordBatch])
def test_no_schema_is_needed_when_all_is_given(kind: Any) -> None:
    assert infer_columns(kind, {'a': 'str'}) == {'a': 'str'}


def test_an_arrow_schema_stands_in_the_place_of_columns_too() -> None:
    schema = pa.schema({'a': pa.int8(), 'b': pa.string()})

    assert infer_columns(Any, schema) == infer_columns(schema) == {'a': 'int8', 'b': 'str'}


@pytest.mark.parametrize(
    ('kind', 'given', 'reason'),
    [
        (Any, None, 'elements of type Any have no fields to infer columns from: say them with'),
        (Any, None, "columns={'name': 'encoding', ...}, or make the elements beam.Row(...), "),
        (beam.typehints.Any, {'a': ...}, 'elements of type Any have no fields'),
        (dict, None, 'elements of type dict have no fields'),
        (dict[str, int], None, 'elements of type dict[str, int] have no fields'),
        (Named | Data, None, 'have no fields'),
        (np.ndarray, None, 'elements of type numpy.ndarray have no fields'),
        (pa.RecordBatch, None, 'are known only when they arrive: say them with columns=schema'),
        (pa.Table, None, 'the columns of pyarrow.lib.Table elements are known only when'),
        (Named, {'txt': ...}, "column 'txt' is not in the schema, so that its encoding cannot be"),
        (Named, {'txt': ...}, 'inferred: the fields are text, label, tokens'),
        (Named, {'txt': None, 'text': 'str'}, "column 'txt' is not in the schema"),
        (Named, ['text'], "columns must be a dict like {'text': 'str'} or a pyarrow.Schema, got"),
        (pa.schema([('a', pa.int8()), ('a', pa.int8())]), None, "field 'a' is more than once"),
    ],
)  # fmt: skip
def test_what_has_no_schema_is_an_error_that_says_what_to_do(
    kind: Any, given: Any, reason: str
) -> None:
    with pytest.raises(ColumnsError) as caught:
        infer_columns(kind, given)

    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ('kind', 'name'),
    [
        (Any, 'Any'),
        (beam.typehints.Any, 'Any'),
        (object, 'object'),
        (type(None), 'NoneType'),
        (int | str, 'int | str'),
        (beam.typehints.Union[int, float], 'Union['),
        (list, 'list'),
        (list[Any], 'list[typing.Any]'),
        (list[bytes], 'list[bytes]'),
        (list[np.ndarray], 'list[numpy.ndarray]'),
        (tuple[int, str], 'tuple[int, str]'),
        (tuple[str, ...], 'tuple[str, ...]'),
        (set[int], 'set[int]'),
        (dict[int, str], 'dict[int, str]'),
        (dict[str, bytes], 'dict[str, bytes]'),
        (complex, 'complex'),
        (pa.null(), 'null'),
        (pa.list_(pa.null()), 'list<item: null>'),
        (pa.list_(pa.binary()), 'list<item: binary>'),
        (pa.list_(pa.date32()), 'list<item: date32[day]>'),
        (pa.list_(pa.int8(), 0), 'fixed_size_list<item: int8>[0]'),
        (pa.struct({'x': pa.binary()}), 'struct<x: binary>'),
        (pa.map_(pa.int8(), pa.string()), 'map<int8, string>'),
        (pa.dense_union([pa.field('x', pa.int8())]), 'dense_union<x: int8=0>'),
        (pa.run_end_encoded(pa.int32(), pa.string()), 'run_end_encoded<'),
        (pa.month_day_nano_interval(), 'month_day_nano_interval'),
        (pa.uuid(), 'extension<arrow.uuid>'),
        (pa.fixed_shape_tensor(pa.bool_(), [2]), 'extension<arrow.fixed_shape_tensor'),
    ],
)
def test_a_field_that_cannot_be_inferred_is_named_with_the_way_out(kind: Any, name: str) -> None:
    if isinstance(kind, pa.DataType):
        schema: Any = pa.schema({'x': kind, 'y': pa.int8()})
    else:
        schema = RowTypeConstraint([('x', kind), ('y', int)], None)

    with pytest.raises(ColumnsError) as caught:
        infer_columns(schema)

    message = str(caught.value)
    assert message.startswith("field 'x' has type ")
    assert name in message
    assert "its encoding cannot be inferred; say it with columns={'x': 'str', 'y': ...}" in message
    assert infer_columns(schema, {'x': 'pkl', 'y': ...}) == {
        'x': 'pkl',
        'y': 'int8' if isinstance(schema, pa.Schema) else 'int64',
    }


@pytest.mark.parametrize('kind', [Named, RowTypeConstraint.from_user_type(Named)])
def test_a_row_inside_a_row_is_named_with_the_way_out(kind: Any) -> None:
    with pytest.raises(ColumnsError) as caught:
        infer_columns(RowTypeConstraint([('x', kind), ('y', int)], None))

    assert str(caught.value) == (
        "field 'x' has type tests.test_schema.Named: its encoding cannot be inferred; say it with "
        "columns={'x': 'json', 'y': ...} and make the value a dict"
    )


def test_annotations_beside_a_type_are_ignored() -> None:
    made = dataclasses.make_dataclass('made', [('a', Annotated[int, 'unit'])])

    assert infer_columns(made) == {'a': 'int64'}
    assert infer_columns(RowTypeConstraint([('a', Annotated[int, 1])], None)) == {'a': 'int64'}


def test_images_are_not_guessed() -> None:
    kind = RowTypeConstraint([('x', Image.Image)], None)

    with pytest.raises(ColumnsError) as caught:
        infer_columns(kind)

    assert str(caught.value) == (
        "field 'x' has type PIL.Image.Image: its encoding cannot be inferred; say it with "
        "columns={'x': 'png'} (or 'jpeg', or 'pil')"
    )


def test_the_example_in_an_error_stays_short() -> None:
    schema = pa.schema([(f'f{at}', pa.null()) for at in range(50)])

    with pytest.raises(ColumnsError) as caught:
        infer_columns(schema)

    assert str(caught.value).endswith(
        "columns={'f0': 'str', 'f1': ..., 'f2': ..., 'f3': ...}, and so on for the others"
        ', or drop the field: MDS has no nulls'
    )


def test_fields_without_annotations_are_of_any_type() -> None:
    with pytest.raises(ColumnsError, match="field 'a' has type Any"):
        infer_columns(collections.namedtuple('bare', ['a']))  # noqa: PYI024


def test_annotations_that_do_not_resolve_are_an_error() -> None:
    made = dataclasses.make_dataclass('made', [('a', 'Missing')])

    with pytest.raises(ColumnsError, match=r'made cannot be resolved.*Missing'):
        infer_columns(made)


@pytest.mark.parametrize(
    ('kind', 'value'),
    [
        (int | None, None),
        (list[list[int]], [[1], [2, 3]]),
        (list[int], []),
        (list[int], [1.5]),
        (list[int | None], [1, None]),
        (list[np.uint8], [-1]),
        (dict[str, float], {'a': float('nan')}),
    ],
)
def test_a_value_that_its_type_promises_and_the_format_lacks_is_an_error(
    kind: Any, value: Any
) -> None:
    columns = Columns(infer_columns(dataclasses.make_dataclass('made', [('a', kind)])))

    with pytest.raises(EncodingError) as caught:
        columns.encode_batch([{'a': value}])

    assert caught.value.column == 'a'

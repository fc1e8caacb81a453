"""Whole columns of encoded samples are decoded, copied and renamed as their values one by one."""

from __future__ import annotations

import pickle
import string
import warnings
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_mds import ColumnsError, EncodingError, FormatError
from beam_mds.format import ENCODINGS, Columns, EncodedBatch, Samples, get_encoding
from tests.format.golden import GOLDEN
from tests.format.values import VALUES
from tests.helpers.memory import peak_of

# Encodings of images: random bytes are none, so only the bytes are looked at.
_IMAGES = {name for name in VALUES if name.startswith(('list', 'jpeg')) or name in ('png', 'pil')}


def _batch(columns: Mapping[str, str], rows: list[dict[str, Any]]) -> EncodedBatch:
    table = Columns(columns)
    return EncodedBatch(table, table.encode_batch(rows))


def _same(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, np.ndarray):
        return (found.dtype, found.shape, found.tobytes()) == (
            wanted.dtype,
            wanted.shape,
            wanted.tobytes(),
        )
    return type(found) is type(wanted) and found == wanted


def test_every_encoding_has_values_here() -> None:
    assert {name.partition(':')[0] for name in VALUES} == set(ENCODINGS)


@st.composite
def _tables(draw: st.DrawFn) -> tuple[dict[str, str], list[dict[str, Any]]]:
    encodings = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=5))
    columns = dict(zip(string.ascii_letters, encodings, strict=False))
    rows = st.fixed_dictionaries({name: VALUES[encoding] for name, encoding in columns.items()})
    return columns, draw(st.lists(rows, max_size=5))


@given(_tables())
def test_columns_decode_to_what_the_samples_decode_to(
    table: tuple[dict[str, str], list[dict[str, Any]]],
) -> None:
    columns, rows = table
    batch = _batch(columns, rows)
    for name, encoding in columns.items():
        if encoding in _IMAGES:
            continue
        found = batch.to_rows([name])
        for row, sample in zip(found, batch.samples, strict=True):
            wanted = batch.columns.decode_sample(sample, [name])
            assert list(row) == [name]
            assert _same(row[name], wanted[name])


@given(_tables(), st.integers(0, 5), st.integers(0, 5))
def test_a_batch_that_was_decoded_to_arrow_encodes_to_the_same_bytes(
    table: tuple[dict[str, str], list[dict[str, Any]]], start: int, stop: int
) -> None:
    columns, rows = table
    whole = _batch(columns, rows)
    batch = whole.slice(min(start, len(whole)), max(min(stop, len(whole)), min(start, len(whole))))
    arrow = batch.to_arrow()
    arrow.validate(full=True)
    assert list(batch.columns.encode_batch(arrow)) == list(batch.samples)
    assert arrow.schema.names == sorted(columns)
    for field in arrow.schema:
        declared = get_encoding(columns[field.name]).arrow_type
        if declared is not None and not columns[field.name].startswith('ndarray:float16'):
            assert field.type == declared


@given(_tables(), st.randoms())
def test_columns_that_are_renamed_or_left_out_are_as_if_encoded_so(
    table: tuple[dict[str, str], list[dict[str, Any]]], random: Any
) -> None:
    columns, rows = table
    kept = random.sample(sorted(columns), random.randint(1, len(columns)))
    names = dict(zip(random.sample(string.ascii_uppercase, len(kept)), kept, strict=True))
    wanted = Columns({new: columns[old] for new, old in names.items()})
    found = _batch(columns, rows).select(wanted, names)
    assert found.columns == wanted
    again = [{new: row[old] for new, old in names.items()} for row in rows]
    assert list(found.samples) == list(wanted.encode_batch(again))


@given(_tables())
def test_the_bytes_of_a_column_are_those_of_its_values(
    table: tuple[dict[str, str], list[dict[str, Any]]],
) -> None:
    columns, rows = table
    batch = _batch(columns, rows)
    for name in columns:
        assert list(batch.column(name)) == list(batch.columns.encode_column(name, rows))


@pytest.mark.parametrize(('encoding', 'make', 'data'), GOLDEN, ids=[case[0] for case in GOLDEN])
def test_golden_values_decode_as_columns(encoding: str, make: Any, data: str) -> None:
    value, batch = make(), _batch({'a': encoding}, [{'a': make()}] * 3)
    if encoding not in _IMAGES:
        assert all(
            _same(row['a'], batch.columns.decode_sample(s)['a'])
            for row, s in zip(batch.to_rows(), batch.samples, strict=True)
        )
    assert [bytes(item).hex() for item in batch.column('a')] == [data] * 3
    assert list(batch.columns.encode_batch(batch.to_arrow())) == list(batch.samples), value


def test_stored_texts_keep_what_they_are() -> None:
    rows = [{'d': Decimal('1.50'), 'i': 10**40, 'j': {'ä': [1, None]}}]
    batch = _batch({'d': 'str_decimal', 'i': 'str_int', 'j': 'json'}, rows)
    arrow = batch.to_arrow()
    assert arrow.to_pylist() == [{'d': '1.50', 'i': '1' + '0' * 40, 'j': '{"\\u00e4": [1, null]}'}]
    assert [field.metadata[b'mds'] for field in arrow.schema] == [
        b'str_decimal',
        b'str_int',
        b'json',
    ]


def test_a_text_that_says_it_is_stored_json_and_is_none_is_refused() -> None:
    field = pa.field('j', pa.string(), metadata={'mds': 'json'})
    arrow = pa.RecordBatch.from_arrays([pa.array(['{"a": 1}', '{"a'])], schema=pa.schema([field]))
    with pytest.raises(
        EncodingError, match=r"column 'j' \(json\): a text is no stored json: Unterm"
    ):
        Columns({'j': 'json'}).encode_batch(arrow)


def test_a_text_without_the_mark_is_a_json_text() -> None:
    arrow = pa.record_batch({'j': pa.array(['{"a": 1}'])})
    columns = Columns({'j': 'json'})
    (row,) = EncodedBatch(columns, columns.encode_batch(arrow)).to_rows()
    assert row == {'j': '{"a": 1}'}


def test_arrays_of_several_dimensions_become_lists_of_lists() -> None:
    arrays = [
        np.arange(6, dtype=np.int32).reshape(2, 3),
        np.arange(4, dtype=np.int32).reshape(4, 1),
    ]
    arrow = _batch({'a': 'ndarray'}, [{'a': array} for array in arrays]).to_arrow()
    assert arrow.schema.field('a').type == pa.large_list(pa.large_list(pa.int32()))
    assert arrow.column('a').to_pylist() == [array.tolist() for array in arrays]


@pytest.mark.parametrize(
    ('encoding', 'values', 'message'),
    [
        (
            'ndarray',
            [np.ones(1, np.int8), np.ones(1)],
            'arrays with dtypes int8 and others have no',
        ),
        (
            'ndarray:int8',
            [np.ones(1, np.int8), np.ones((1, 1), np.int8)],
            'arrays with 1 and other numbers of dimensions have no common Arrow type: read the',
        ),
    ],
)
def test_arrays_without_a_common_arrow_type_say_so(
    encoding: str, values: list[Any], message: str
) -> None:
    batch = _batch({'a': encoding}, [{'a': value} for value in values])
    with pytest.raises(ColumnsError) as caught:
        batch.to_arrow()
    assert str(caught.value).startswith(f"column 'a' ({encoding}): {message}")
    assert [row['a'].shape for row in batch.to_rows()] == [value.shape for value in values]


def _damaged(
    columns: dict[str, str], rows: list[dict[str, Any]], row: int, data: bytes
) -> EncodedBatch:
    """A batch with other bytes in the place of one sample."""
    batch = _batch(columns, rows)
    samples = [bytes(sample) for sample in batch.samples]
    samples[row] = data
    return EncodedBatch(batch.columns, Samples.of(samples))


@pytest.mark.parametrize(
    ('columns', 'row', 'data', 'message'),
    [
        ({'a': 'str'}, {'a': 'x'}, b'\x01\0', 'sample of 2 bytes is shorter than its head'),
        ({'a': 'str'}, {'a': 'x'}, b'\x02\0\0\0x', 'sample has 5 bytes, its columns need 6'),
        ({'a': 'str'}, {'a': 'x'}, b'\x01\0\0\0xx', 'sample has 6 bytes, its columns need 5'),
        ({'a': 'int8'}, {'a': 1}, b'\x01\x01', 'sample has 2 bytes, its columns need 1'),
        (
            {'a': 'str'},
            {'a': 'x'},
            b'\x01\0\0\0\xff',
            "column 'a' (str): 1 bytes do not decode: 'utf",
        ),
        (
            {'a': 'json'},
            {'a': 1},
            b'\x01\0\0\0{',
            "column 'a' (json): 1 bytes do not decode: Expec",
        ),
        (
            {'a': 'ndarray'},
            {'a': np.ones(1)},
            b'\x06\0\0\0\x42\x04\x02\0\0\0',
            "column 'a' (ndarray): 6 bytes do not decode: ",
        ),
        (
            {'a': 'ndarray:int8'},
            {'a': np.ones(1, np.int8)},
            b'\x04\0\0\0\x04\x03\1\1',
            "column 'a' (ndarray:int8): 4 bytes do not decode: cannot reshape",
        ),
        (
            {'a': 'ndarray:int8'},
            {'a': np.ones(1, np.int8)},
            b'\x02\0\0\0\0\1',
            "column 'a' (ndarray:int8): 2 bytes do not decode: the format holds no array of",
        ),
        (
            {'a': 'ndarray'},
            {'a': np.ones(1)},
            b'\x02\0\0\0\x99\x04',
            "column 'a' (ndarray): 2 bytes",
        ),
        (
            {'a': 'ndarray:int8'},
            {'a': np.ones((2, 2), np.int8)},
            b'\x05\0\0\0\x08\x02\x02\1\1',
            "column 'a' (ndarray:int8): 5 bytes do not decode: cannot reshape",
        ),
    ],
)
def test_the_damaged_sample_is_named(
    columns: dict[str, str], row: dict[str, Any], data: bytes, message: str
) -> None:
    batch = _damaged(columns, [row] * 5, 3, data)
    with pytest.raises(FormatError) as caught:
        batch.to_rows()
    assert str(caught.value).startswith(message)
    assert caught.value.row == 3
    if 'json' not in message:  # the stored text is not looked into
        with pytest.raises(FormatError) as caught:
            batch.to_arrow()
        assert str(caught.value).startswith(message)
        assert caught.value.row == 3


def test_a_dtype_that_there_is_not_is_damage() -> None:
    batch = _damaged({'a': 'ndarray'}, [{'a': np.ones(1)}] * 2, 1, b'\x02\0\0\0\x99\x04')
    for rows, row in ((batch, 1), (batch.slice(1, 2), 0)):
        with pytest.raises(FormatError) as caught:
            rows.to_arrow()
        assert caught.value.row == row


def test_an_array_without_elements_but_with_long_sides_is_damage_and_takes_no_memory() -> None:
    sides = np.array([1 << 27, 0], '<u4').tobytes()
    batch = _damaged({'a': 'ndarray:int8'}, [{'a': [1]}], 0, b'\x09\0\0\0' + b'\x0a' + sides)

    def decode() -> None:
        for form in (batch.to_arrow, batch.to_rows):
            with pytest.raises(FormatError, match=r'no array of shape \(134217728, 0\)'):
                form()

    assert peak_of(decode) < 8 << 20


def test_samples_are_looked_at_even_where_no_column_is_wanted() -> None:
    batch = _damaged({'a': 'str'}, [{'a': 'x'}] * 2, 1, b'')
    with pytest.raises(FormatError) as caught:
        batch.to_rows([])
    assert caught.value.row == 1
    assert batch.slice(0, 1).to_rows([]) == [{}]


def test_sides_whose_product_no_float_holds_are_damage_without_a_warning() -> None:
    for sides in (b'\xff' * 504, bytes(8) + b'\xff' * 496):
        data = (506).to_bytes(4, 'little') + bytes([63 << 2 | 3]) + sides + b'\1'
        batch = _damaged({'a': 'ndarray:int8'}, [{'a': [1]}] * 2, 1, data)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter('always')
            with pytest.raises(FormatError) as error:
                batch.to_arrow()
        assert error.value.row == 1
        assert not caught


def test_an_error_keeps_its_row_when_it_is_pickled() -> None:
    found = pickle.loads(pickle.dumps(FormatError('why', 7)))
    assert (str(found), found.row) == ('why', 7)


def test_a_column_that_there_is_not_is_named() -> None:
    batch = _batch({'a': 'str'}, [{'a': 'x'}])
    for decode in (batch.to_rows, batch.to_arrow, batch.columns.arrow_schema):
        with pytest.raises(ColumnsError, match="no column 'b': there are a"):
            decode(['b'])


def test_no_samples_decode_to_no_rows() -> None:
    columns = Columns({f'c{n}': encoding for n, encoding in enumerate(sorted(VALUES))})
    batch = EncodedBatch(columns, Samples.empty())
    assert batch.to_rows() == []
    assert batch.to_arrow().num_rows == 0


def test_the_schema_is_that_of_the_batches() -> None:
    columns = Columns({'a': 'ndarray:int32', 'b': 'str', 'c': 'uint8'})
    batch = EncodedBatch(columns, columns.encode_batch([{'a': [1, 2], 'b': 'x', 'c': 3}]))
    assert columns.arrow_schema().equals(batch.to_arrow().schema, check_metadata=True)
    assert columns.arrow_schema(['b']).names == ['b']
    with pytest.raises(ColumnsError, match=r"column 'x' \(ndarray\): only its values tell their d"):
        Columns({'x': 'ndarray'}).arrow_schema()

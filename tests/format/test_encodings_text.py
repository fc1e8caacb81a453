from __future__ import annotations

import datetime as dt
import json
import pickle
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.format.helpers import (
    arrow_error_of,
    encode_arrow,
    encode_each,
    encode_list,
    error_of,
    round_trip,
)

BINARY_TYPES = (pa.binary(), pa.large_binary(), pa.binary_view())
TEXT_TYPES = (pa.string(), pa.large_string(), pa.string_view())

TEXTS = st.lists(st.text(max_size=20), max_size=6)
JSON = st.recursive(
    st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner | st.none()) | st.dictionaries(st.text(), inner | st.none()),
    max_leaves=8,
)


class Unfriendly:
    """Fails at everything an error message could ask of it."""

    def __repr__(self) -> str:
        raise RuntimeError('no')

    def __reduce__(self) -> Any:
        raise RuntimeError('no')


def chunked(array: pa.Array) -> pa.ChunkedArray:
    return pa.chunked_array([array[:1], array[1:1], array[1:]], array.type)


@given(values=TEXTS)
def test_texts_of_every_arrow_type_give_the_bytes_of_the_plain_ones(values: list[str]) -> None:
    made = encode_list('str', values)

    assert made == encode_each('str', values) == [value.encode() for value in values]
    for kind in TEXT_TYPES:
        array = pa.array(['xx', *values, 'yy'], kind).slice(1, len(values))
        assert made == encode_arrow('str', array)
        assert made == encode_arrow('str', chunked(array))
    array = pa.array(['xx', *values]).dictionary_encode().slice(1)
    assert made == encode_arrow('str', array)
    assert made == encode_arrow('str', pa.chunked_array([array[:1], array[1:]], array.type))
    assert [round_trip('str', value) for value in values] == values


@given(values=st.lists(st.binary(max_size=20), max_size=6))
def test_byte_strings_of_every_arrow_type_give_the_bytes_of_the_plain_ones(
    values: list[bytes],
) -> None:
    made = encode_list('bytes', values)

    assert made == encode_each('bytes', values) == values
    for kind in BINARY_TYPES:
        array = pa.array([b'xx', *values, b'yy'], kind).slice(1, len(values))
        assert made == encode_arrow('bytes', array)
        assert made == encode_arrow('bytes', chunked(array))
    assert made == encode_arrow('bytes', pa.array(values, pa.binary()).dictionary_encode())


def test_byte_strings_of_fixed_size_keep_an_offset() -> None:
    array = pa.array([b'ab', b'cd', b'ef'], pa.binary(2)).slice(1)

    assert encode_arrow('bytes', array) == [b'cd', b'ef']


def test_bytes_like_values_are_bytes() -> None:
    strided = memoryview(b'a-b-c-')[::2]
    values = [bytearray(b'x'), memoryview(b'y'), strided, np.bytes_(b'z'), pa.scalar(b'w')]

    assert encode_list('bytes', values) == [b'x', b'y', b'abc', b'z', b'w']


def test_texts_of_numpy_and_pyarrow_are_texts() -> None:
    values = [np.str_('é'), pa.scalar('b'), pa.scalar('c', pa.large_string())]

    assert encode_list('str', values) == ['é'.encode(), b'b', b'c']


@pytest.mark.parametrize(
    ('encoding', 'value', 'reason'),
    [
        ('str', b'\xff\xfe', "bytes b'\\xff\\xfe' is not str"),
        ('str', 5, 'int 5 is not str'),
        ('str', '\ud800', "str '\\ud800' has no UTF-8 form: surrogates not allowed"),
        ('bytes', 'é', "str 'é' is not bytes"),
        ('bytes', np.zeros(2, np.uint8), 'numpy.ndarray of dtype uint8 and shape (2,) is not'),
        ('str_int', 3.0, 'float 3.0 is not an integer'),
        ('str_int', b'3', "bytes b'3' is not an integer"),
        ('str_float', 3, 'int 3 is not a float of at most 64 bits'),
        ('str_float', '0.5', "str '0.5' is not a float of at most 64 bits"),
        ('str_decimal', 0.5, 'float 0.5 is not a decimal.Decimal'),
        ('str_decimal', b'0.5', "bytes b'0.5' is not a decimal.Decimal"),
        ('json', b'\xff\xfe', "bytes b'\\xff\\xfe' is not JSON: bytes inside the value"),
        ('json', float('nan'), 'float nan is not JSON: Out of range float values are not JSON'),
        ('json', {'a': float('inf')}, 'is not JSON: Out of range float values'),
        ('json', {'a': np.arange(3)}, 'is not JSON: ndarray inside the value'),
        ('json', {'a': (1, 2)}, 'changes on the way through JSON (tuple, or key that is no str)'),
        ('json', (), 'tuple () changes on the way through JSON'),
        ('json', {1: 2}, 'dict {1: 2} changes on the way through JSON'),
        ('json', {'a': {1}}, 'is not JSON: set inside the value'),
        ('json', {(1,): 2}, 'is not JSON: keys must be str'),
        ('json', dt.date(2020, 1, 1), 'is not JSON: date inside the value'),
        ('json', np.timedelta64(1, 's'), 'is not JSON'),
        ('json', '\ud83d\ude00', 'changes on the way through JSON'),
        ('json', np.array(None, object), 'the value is None (null)'),
        ('pkl', lambda: 1, 'cannot be pickled'),
        ('pkl', Unfriendly(), 'cannot be pickled: no'),
    ],
)
def test_a_value_that_does_not_fit_is_an_error_with_the_reason(
    encoding: str, value: Any, reason: str
) -> None:
    assert reason in error_of(encoding, value)


def deep(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {'a': value}
    return value


HUGE: list[tuple[str, Callable[[], Any]]] = [
    ('bytes', lambda: 'v' * 1_000_000),
    ('json', lambda: b'v' * 1_000_000),
    ('int8', lambda: 10**4000),
    ('int8', lambda: 10**9000),
    ('str_int', lambda: 10**9000),
    ('json', lambda: 10**9000),
    ('int8', lambda: deep(50)),
    ('json', lambda: deep(100_000)),
    ('json', lambda: {'v' * 100: {'v' * 1000: (1,)}}),
    ('str', lambda: [['v' * 1000] * 1000] * 1000),
    ('float32', lambda: Decimal('1' * 1000)),
    ('ndarray', lambda: np.zeros(2, [('v' * 50, 'i4'), ('w' * 50, 'i4')])),
]


@pytest.mark.parametrize(('encoding', 'make'), HUGE)
def test_an_error_about_a_huge_value_is_short(encoding: str, make: Callable[[], Any]) -> None:
    message = error_of(encoding, make())

    assert len(message) < 300
    assert 'v' * 61 not in message
    assert '1' * 61 not in message
    assert '0' * 61 not in message


def test_text_in_arrow_that_is_no_utf8_is_refused_with_its_row() -> None:
    offsets = pa.py_buffer(np.array([0, 1, 3], np.int32))
    array = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b'a\xff\xfe')])

    error = arrow_error_of('str', array)

    assert str(error) == "column 'a' (str): Arrow string holds bytes that are not UTF-8"
    assert error.row == 1
    assert 'has a value without a Python form' in arrow_error_of('json', array).reason


def test_a_character_cut_in_two_by_arrow_rows_is_refused() -> None:
    offsets = pa.py_buffer(np.array([0, 1, 2], np.int32))
    array = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer('é'.encode())])

    assert arrow_error_of('str', array).row == 0


@pytest.mark.parametrize(
    ('encoding', 'array', 'reason'),
    [
        ('str', pa.array([b'a']), 'Arrow type binary is not a string type'),
        ('str', pa.array([1]), 'Arrow type int64 is not a string type'),
        ('bytes', pa.array(['a']), 'Arrow type string is not a binary type'),
        ('str_int', pa.array([1.5]), 'float 1.5 is not an integer'),
        ('str_float', pa.array([1]), 'int 1 is not a float'),
        ('json', pa.array([dt.date(2020, 1, 1)]), 'is not JSON: date inside the value'),
        ('json', pa.array([[(1, 1)]], pa.map_(pa.int8(), pa.int8())), 'changes on the way'),
        (
            'json',
            pa.array([[('a', 1), ('a', 2)]], pa.map_(pa.string(), pa.int8())),
            'a map that has a key twice',
        ),
        ('json', pa.array([None], pa.map_(pa.string(), pa.int8())), 'the value is None (null)'),
        (
            'json',
            pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], ['x', 'x']),
            'Arrow type struct<x: int64, x: int64> has a value without a Python form',
        ),
    ],
)
def test_an_arrow_column_that_does_not_fit_is_refused(
    encoding: str, array: pa.Array, reason: str
) -> None:
    assert reason in arrow_error_of(encoding, array).reason


@given(value=JSON)
def test_json_values_come_back_equal(value: Any) -> None:
    back = round_trip('json', value)

    assert back == value
    assert type(back) is type(value)


@pytest.mark.parametrize(
    ('value', 'back'),
    [
        ({'a': np.float32(1), 'b': np.int64(2), 'c': np.True_}, {'a': 1.0, 'b': 2, 'c': True}),
        (np.arange(3), [0, 1, 2]),
        (np.float32([[0.1]]), [[0.10000000149011612]]),
        ({'a': None}, {'a': None}),
        ({np.str_('a'): 10**30}, {'a': 10**30}),
        ('\ud800', '\ud800'),
    ],
)
def test_json_of_numpy_numbers_is_exact(value: Any, back: Any) -> None:
    assert round_trip('json', value) == back


def test_json_from_arrow_structs_and_lists_is_that_of_dicts_and_lists() -> None:
    values = [{'a': 1, 'b': ['x', None]}, {'a': 2, 'b': []}]

    assert encode_arrow('json', pa.array(values)) == encode_list('json', values)
    assert list(map(json.loads, encode_list('json', values))) == values


def test_json_from_arrow_maps_is_that_of_dicts() -> None:
    values = [{'a': 1, 'b': None}, {}, {'c': 3}]
    column = pa.array([list(value.items()) for value in values], pa.map_(pa.string(), pa.int8()))

    assert encode_arrow('json', column) == encode_list('json', values)
    assert encode_arrow('json', column[1:]) == encode_list('json', values[1:])


@given(value=st.integers())
def test_str_int_holds_integers_of_any_size(value: int) -> None:
    assert round_trip('str_int', value) == value


def test_a_boolean_in_str_int_is_a_digit() -> None:
    assert encode_list('str_int', [True, np.False_]) == [b'1', b'0']
    assert encode_arrow('str_int', pa.array([True, False])) == [b'1', b'0']


@given(value=st.floats())
def test_str_float_is_exact(value: float) -> None:
    assert repr(round_trip('str_float', value)) == repr(value)
    assert repr(round_trip('str_float', np.float64(value))) == repr(value)


def test_str_float_of_a_narrow_float_is_its_exact_value() -> None:
    assert encode_list('str_float', [np.float32(0.1)]) == [b'0.10000000149011612']
    assert encode_arrow('str_float', pa.array([0.1], pa.float32())) == [b'0.10000000149011612']


@given(value=st.decimals())
def test_str_decimal_keeps_digits_and_exponent(value: Decimal) -> None:
    assert repr(round_trip('str_decimal', value)) == repr(value)


def test_str_decimal_of_an_arrow_decimal_is_exact() -> None:
    assert encode_arrow('str_decimal', pa.array([Decimal('1.50')])) == [b'1.50']


def test_pkl_stores_bytes_as_they_are_and_pickles_the_rest() -> None:
    stored = pickle.dumps({'a': 1})

    assert encode_list('pkl', [stored]) == [stored]
    assert round_trip('pkl', bytearray(b'x')) == bytearray(b'x')
    assert round_trip('pkl', (1, {2})) == (1, {2})

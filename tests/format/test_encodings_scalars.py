from __future__ import annotations

import datetime as dt
import math
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

INTEGERS = ('int', 'int8', 'int16', 'int32', 'int64', 'uint8', 'uint16', 'uint32', 'uint64')
FLOATS = ('float16', 'float32', 'float64')


def arrow_type(encoding: str) -> pa.DataType:
    return pa.int64() if encoding == 'int' else pa.from_numpy_dtype(encoding)


def ends(encoding: str) -> tuple[int, int]:
    info = np.iinfo('int64' if encoding == 'int' else encoding)
    return int(info.min), int(info.max)


@pytest.mark.parametrize('encoding', INTEGERS)
@given(data=st.data())
def test_integers_come_back_and_every_way_gives_the_same_bytes(
    encoding: str, data: st.DataObject
) -> None:
    low, high = ends(encoding)
    values = data.draw(st.lists(st.integers(low, high), max_size=9))
    array = pa.array([0, *values, 0], arrow_type(encoding)).slice(1, len(values))

    made = encode_list(encoding, values)

    assert made == encode_each(encoding, values)
    assert made == encode_arrow(encoding, array)
    assert made == encode_arrow(encoding, array.dictionary_encode())
    assert made == encode_list(encoding, list(array.to_numpy()))
    assert [round_trip(encoding, value) for value in values] == values


@pytest.mark.parametrize('encoding', FLOATS)
@given(data=st.data())
def test_floats_come_back_rounded_to_their_type(encoding: str, data: st.DataObject) -> None:
    width = int(encoding[5:])
    values = data.draw(st.lists(st.floats(width=width), max_size=9))  # type: ignore[arg-type]
    kind = pa.from_numpy_dtype(encoding)
    array = pa.array([np.dtype(encoding).type(value) for value in [0, *values, 0]], kind)
    array = array.slice(1, len(values))

    made = encode_list(encoding, values)

    assert made == encode_each(encoding, values)
    assert made == encode_arrow(encoding, array)
    assert made == encode_list(encoding, list(array.to_numpy(zero_copy_only=False)))
    for value in values:
        back = round_trip(encoding, value)
        assert back == value or (math.isnan(back) and math.isnan(value))
        assert math.copysign(1, back) == math.copysign(1, value) or math.isnan(value)


@pytest.mark.parametrize('encoding', INTEGERS)
def test_an_integer_reads_back_as_the_readers_type(encoding: str) -> None:
    kind = int if encoding == 'int' else np.dtype(encoding).type

    assert type(round_trip(encoding, 7)) is kind


@pytest.mark.parametrize('value', [np.int64(3), np.uint8(3), True, np.True_, np.array(3)])
@pytest.mark.parametrize('encoding', ['int', 'uint8', 'int32', 'str_int'])
def test_whole_numbers_of_any_type_are_integers(encoding: str, value: Any) -> None:
    assert round_trip(encoding, value) == int(value)


@pytest.mark.parametrize('encoding', ['int', 'uint8', 'float32', 'str_int'])
def test_pyarrow_scalars_work_where_the_plain_number_works(encoding: str) -> None:
    value: Any = 1.0 if encoding == 'float32' else 1

    assert round_trip(encoding, pa.scalar(value)) == 1


@pytest.mark.parametrize(
    ('encoding', 'value', 'reason'),
    [
        ('uint8', np.int64(300), 'numpy.int64 300 does not fit: the range is 0 to 255'),
        ('uint8', 300, 'int 300 does not fit: the range is 0 to 255'),
        ('uint8', -1, 'int -1 does not fit: the range is 0 to 255'),
        ('uint16', -1, 'int -1 does not fit: the range is 0 to 65535'),
        ('uint16', np.int32(70000), 'numpy.int32 70000 does not fit: the range is 0 to 65535'),
        ('int32', 3.9, 'float 3.9 is not an integer'),
        ('int32', 3.0, 'float 3.0 is not an integer'),
        ('int', '3', "str '3' is not an integer"),
        ('int', b'\xff\xfe', "bytes b'\\xff\\xfe' is not an integer"),
        ('int64', 2**63, 'int 9223372036854775808 does not fit: the range is'),
        ('uint64', 2**64, 'int 18446744073709551616 does not fit'),
        ('int', Decimal(3), "decimal.Decimal Decimal('3') is not an integer"),
        ('int', np.timedelta64(3, 's'), 'numpy.timedelta64 3 seconds is not an integer'),
        ('int', np.array([3]), 'numpy.ndarray of dtype int64 and shape (1,) is not an integer'),
        ('float32', 1e300, 'float 1e+300 does not fit: it would become infinite as float32'),
        ('float16', 70000, 'int 70000 has no exact float16'),
        ('float16', 2049, 'int 2049 has no exact float16'),
        ('float32', 2**24 + 1, 'int 16777217 has no exact float32'),
        ('float64', np.int64(2**53 + 1), 'numpy.int64 9007199254740993 has no exact float64'),
        ('float64', 10**400, 'does not fit float64'),
        ('float64', '1.0', "str '1.0' is not a number"),
        ('float64', 1j, 'complex 1j is not a number'),
        ('float64', Decimal(1), "decimal.Decimal Decimal('1') is not a number"),
    ],
)
def test_a_number_that_does_not_fit_is_an_error_with_the_reason(
    encoding: str, value: Any, reason: str
) -> None:
    assert reason in error_of(encoding, value)


@pytest.mark.parametrize(
    ('encoding', 'array', 'reason'),
    [
        ('uint8', pa.array([1, 2, 300]), 'int 300 does not fit: the range is 0 to 255'),
        ('uint16', pa.array([1, 2, -1], pa.int16()), 'int -1 does not fit'),
        ('int64', pa.array([1, 2, 2**64 - 1], pa.uint64()), 'does not fit'),
        ('float32', pa.array([1, 2, 1e300]), 'would become infinite as float32'),
        ('float32', pa.array([1, 2, 2**24 + 1]), 'int 16777217 has no exact float32'),
        ('int32', pa.array([1, 2, None]), 'the value is None (null): MDS has no nulls'),
        ('float32', pa.array([1, 2, None], pa.float32()), 'the value is None (null)'),
    ],
)
def test_a_bad_number_in_an_arrow_column_is_an_error_with_its_row(
    encoding: str, array: pa.Array, reason: str
) -> None:
    error = arrow_error_of(encoding, array)

    assert reason in error.reason
    assert error.row == 2


@pytest.mark.parametrize(
    ('encoding', 'array', 'reason'),
    [
        ('int32', pa.array([1.0]), 'Arrow type double is not an integer type'),
        ('int32', pa.array(['1']), 'Arrow type string is not a number type'),
        ('float32', pa.array([Decimal('1.5')]), 'Arrow type decimal128(2, 1) is not a number type'),
        ('int', pa.array([dt.date(2020, 1, 1)]), 'Arrow type date32[day] is not a number'),
        ('int', pa.array([1], pa.duration('s')), 'Arrow type duration[s] is not a number type'),
    ],
)
def test_an_arrow_column_of_another_type_is_refused(
    encoding: str, array: pa.Array, reason: str
) -> None:
    assert reason in arrow_error_of(encoding, array).reason


@pytest.mark.parametrize('encoding', ['int', 'uint8', 'float16', 'float64'])
def test_booleans_are_0_and_1_from_python_and_from_arrow(encoding: str) -> None:
    values = [True, False, True]

    assert encode_arrow(encoding, pa.array(values)) == encode_list(encoding, values)
    assert encode_list(encoding, values) == encode_list(encoding, [1, 0, 1])


def test_a_wider_float_is_rounded_to_nearest() -> None:
    assert round_trip('float32', 0.1) == np.float32(0.1)
    assert round_trip('float16', np.float64(2049.5)) == np.float16(2050)
    assert round_trip('float64', np.longdouble(0.5)) == 0.5


def test_numbers_of_mixed_types_in_one_column_are_all_exact() -> None:
    values = [np.uint64(2**64 - 1), 5, True, np.int8(3)]

    assert encode_list('uint64', values) == encode_list('uint64', [2**64 - 1, 5, 1, 3])

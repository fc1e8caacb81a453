"""What a feature becomes follows its column's encoding; what cannot be exact is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_mds import ColumnsError
from beam_mds.format.encodings import ENCODINGS, get_encoding
from beam_mds.sources.featurevalues import UnfitError, value_maker
from beam_mds.sources.tfexamples import BYTES, FLOATS, INTEGERS, Feature


def make(encoding: str, kind: str | None, values: Any) -> Any:
    return value_maker('x', encoding)(Feature(kind, values))


def refusal(encoding: str, kind: str | None, values: Any) -> tuple[str, str]:
    with pytest.raises(UnfitError) as caught:
        make(encoding, kind, values)
    return caught.value.error_type, str(caught.value)


@pytest.mark.parametrize('encoding', ['bytes', 'jpeg', 'png', 'pkl'])
def test_one_byte_string_stays_as_it_is(encoding: str) -> None:
    assert make(encoding, BYTES, [b'\xff\xd8']) == b'\xff\xd8'


@pytest.mark.parametrize(
    ('encoding', 'kind', 'values', 'value'),
    [
        ('str', BYTES, ['ä'.encode()], 'ä'),
        ('int', INTEGERS, [-5], -5),
        ('uint8', INTEGERS, [5], 5),
        ('str_int', INTEGERS, [1 << 62], 1 << 62),
        ('float32', FLOATS, [0.5], 0.5),
        ('float64', INTEGERS, [3], 3),
        ('str_float', FLOATS, [0.5], 0.5),
        ('json', BYTES, ['ä'.encode(), b''], ['ä', '']),
        ('json', BYTES, [], []),
        ('json', INTEGERS, [1], [1]),
        ('json', None, [], []),
        ('list[jpeg]', BYTES, [b'a', b'b'], [b'a', b'b']),
        ('list[png]', None, [], []),
    ],
)
def test_values_are_made_as_the_encoding_needs_them(
    encoding: str, kind: str | None, values: Any, value: Any
) -> None:
    assert make(encoding, kind, values) == value
    get_encoding(encoding).encode(make(encoding, kind, values))


@pytest.mark.parametrize(
    ('encoding', 'kind', 'values', 'array'),
    [
        ('ndarray', INTEGERS, [1, 2], np.array([1, 2], np.int64)),
        ('ndarray', FLOATS, [0.5], np.array([0.5], np.float32)),
        ('ndarray:int64', INTEGERS, [1], np.array([1], np.int64)),
        ('ndarray:uint8:2,2', INTEGERS, [1, 2, 3, 255], np.array([[1, 2], [3, 255]], np.uint8)),
        ('ndarray:float16', FLOATS, [0.5, math.inf], np.array([0.5, math.inf], np.float16)),
        ('ndarray:float64', INTEGERS, [1 << 53], np.array([1 << 53], np.float64)),
        ('ndarray:uint16', BYTES, [b'\x01\x00\x02\x01'], np.array([1, 258], np.uint16)),
        ('ndarray:float32:1,2', BYTES, [np.float32([1, 2]).tobytes()], np.float32([[1, 2]])),
        ('ndarray:float32', None, [], np.empty(0, np.float32)),
    ],
)
def test_arrays_have_the_dtype_and_the_shape_of_the_column(
    encoding: str, kind: str | None, values: Any, array: Any
) -> None:
    made = make(encoding, kind, values)
    assert (made.dtype, made.shape, made.tolist()) == (array.dtype, array.shape, array.tolist())


def test_not_a_number_stays_one_in_another_type() -> None:
    assert math.isnan(make('ndarray:float64', FLOATS, [math.nan])[0])


@pytest.mark.parametrize(
    ('encoding', 'kind', 'values', 'error_type', 'message'),
    [
        ('int', INTEGERS, [1, 2], 'shape', ('2 integers, where int needs one: a column of lists '
         'has another encoding, ndarray:<dtype> or json')),
        ('int', INTEGERS, [], 'shape', '0 integers, where int needs one'),
        ('bytes', None, [], 'shape', '0 values, where bytes needs one'),
        ('int', FLOATS, [1.0], 'kind', 'floats, where int needs integers'),
        ('str', INTEGERS, [1], 'kind', 'integers, where str needs byte strings'),
        ('float32', BYTES, [b'1'], 'kind', 'byte strings, where float32 needs floats or integers'),
        ('list[png]', INTEGERS, [1], 'kind', 'integers, where list[png] needs byte strings'),
        ('str', BYTES, [b'\xff'], 'value', ('a byte string is not UTF-8 text: invalid start byte '
         'at byte 0')),
        ('ndarray:uint8', INTEGERS, [3, -1], 'value', '-1 does not fit ndarray:uint8'),
        ('ndarray:uint8', INTEGERS, [256], 'value', '256 does not fit ndarray:uint8'),
        ('ndarray:uint64', INTEGERS, [-1], 'value', '-1 does not fit ndarray:uint64'),
        ('ndarray:float64', INTEGERS, [(1 << 53) + 1], 'value',
         '9007199254740993 does not fit ndarray:float64'),
        ('ndarray:float16', FLOATS, [1e6], 'value', '1000000.0 does not fit ndarray:float16'),
        ('ndarray:int64', FLOATS, [1.0], 'kind', 'floats, where ndarray:int64 needs integers'),
        ('ndarray:int64:3', INTEGERS, [1, 2], 'shape', '2 values, where ndarray:int64:3 needs 3'),
        ('ndarray', BYTES, [b'1'], 'kind', ('a byte string: say of which numbers it is, like '
         'ndarray:uint8')),
        ('ndarray:int16', BYTES, [b'123'], 'shape', ('a byte string of 3 bytes, which are no whole '
         'int16')),
        ('ndarray:int16', BYTES, [b'12', b'34'], 'shape', ('2 byte strings, where ndarray:int16 '
         'needs one')),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_with_the_reason(
    encoding: str, kind: str | None, values: Any, error_type: str, message: str
) -> None:
    found = refusal(encoding, kind, values)
    assert found[0] == error_type
    assert found[1].startswith(message)


@pytest.mark.parametrize('encoding', ['pil', 'list[pil]', 'str_decimal'])
def test_encodings_that_no_feature_has_are_refused_before_the_job(encoding: str) -> None:
    with pytest.raises(ColumnsError) as caught:
        value_maker('x', encoding)
    assert str(caught.value) == (
        f"column 'x': a feature cannot become {encoding}; images keep their bytes as jpeg, png or "
        'bytes'
    )


def test_every_encoding_is_known_or_refused() -> None:
    for encoding in ENCODINGS:
        if encoding not in ('pil', 'list[pil]', 'str_decimal'):
            value_maker('x', encoding)


@given(
    st.lists(st.integers(-(1 << 63), (1 << 63) - 1), min_size=1, max_size=5),
    st.sampled_from(['uint8', 'int8', 'uint16', 'int32', 'uint32', 'uint64', 'float32', 'float64']),
)
def test_integers_are_kept_exactly_or_refused(values: list[int], dtype: str) -> None:
    try:
        made = make(f'ndarray:{dtype}', INTEGERS, values)
    except UnfitError:
        info: Any = np.iinfo(dtype) if dtype[0] in 'iu' else None
        if info is not None:
            assert not all(info.min <= value <= info.max for value in values)
        return
    assert [int(value) for value in made] == values

"""What a member's suffix says, and what its content becomes."""

from __future__ import annotations

import decimal
import io
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as numpy_st

from beam_mds import ColumnsError
from beam_mds.format.encodings import ENCODINGS, get_encoding
from beam_mds.sources.suffixes import SUFFIXES, decoder, encoding_of

_REFUSED = ('pil', 'jpeg_array', 'jpegarray', 'list[pil]', 'list[jpeg]', 'list[png]')


def npy(array: Any, **how: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array, **how)
    return file.getvalue()


def reason(encoding: str, data: bytes) -> str:
    try:
        decoder('x', encoding)(data)
    except ValueError as error:
        return str(error)
    pytest.fail('it was taken')


def test_every_suffix_of_the_table_has_an_encoding_that_there_is() -> None:
    for suffix, encoding in SUFFIXES.items():
        assert encoding_of(suffix) == encoding
        decoder(suffix, encoding)


@pytest.mark.parametrize(
    ('suffix', 'encoding'),
    [('jpg', 'jpeg'), ('left.png', 'png'), ('webp', 'bytes'), ('mp4', 'bytes'), ('pkl', 'bytes'),
     ('pyd', 'bytes'), ('pth', 'bytes'), ('npz', 'bytes'), ('txt.gz', 'bytes'), ('x', 'bytes'),
     ('meta.json', 'json'), ('cls', 'int'), ('caption', 'str'), ('npy', 'ndarray')],
)  # fmt: skip
def test_the_last_part_of_a_suffix_tells_the_encoding(suffix: str, encoding: str) -> None:
    assert encoding_of(suffix) == encoding


@pytest.mark.parametrize(
    ('encoding', 'data', 'value'),
    [
        ('bytes', b'\xff', b'\xff'),
        ('pkl', b'\x80\x04N.', b'\x80\x04N.'),
        ('str', 'ä\r\n'.encode(), 'ä\r\n'),
        ('int', b' -12\n', -12),
        ('uint64', b'18446744073709551615', (1 << 64) - 1),
        ('str_int', b'+5', 5),
        ('float32', b' 1e3 ', 1000.0),
        ('str_float', b'0.1', 0.1),
        ('str_decimal', b'0.10', decimal.Decimal('0.10')),
        ('json', b' {"a": null}\n', {'a': None}),
    ],
)
def test_contents_become_the_values_that_encodings_take(
    encoding: str, data: bytes, value: Any
) -> None:
    made = decoder('x', encoding)(data)
    assert (type(made), made) == (type(value), value)
    get_encoding(encoding).encode(made)


@pytest.mark.parametrize(
    ('encoding', 'data', 'message'),
    [
        ('str', b'a\xff', 'not UTF-8 text: invalid start byte at byte 1'),
        ('int', b'1_000', "not an integer: '1_000'"),
        ('int', '٣'.encode(), "not an integer: '٣'"),
        ('int', b'3.0', "not an integer: '3.0'"),
        ('int', b'', "not an integer: ''"),
        ('int', b'x' * 90, f"not an integer: '{'x' * 80}...'"),
        ('float32', b'1,5', "not a number: '1,5'"),
        ('str_decimal', b'one', "not a decimal number: 'one'"),
        ('json', b'{"a": ', 'not JSON: Expecting value: line 1 column 7 (char 6)'),
        ('json', b'[' * 100_000, 'JSON that is nested too deeply'),
        ('ndarray', npy(np.array([{}]), allow_pickle=True), ('an .npy file of Python objects: they '
         'are pickled, and are not read')),
        ('ndarray', npy(np.arange(4))[:-1], ('an .npy file of 31 bytes, its shape (4,) of int64 '
         'needs 32')),
        ('ndarray', npy(np.arange(2)) + npy(np.arange(2)), ('an .npy file of 160 bytes, its shape '
         '(2,) of int64 needs 16')),
    ],
)  # fmt: skip
def test_contents_that_are_something_else_are_refused_with_the_reason(
    encoding: str, data: bytes, message: str
) -> None:
    assert reason(encoding, data) == message


def test_a_claim_of_a_huge_array_allocates_nothing() -> None:
    file = io.BytesIO()
    claim = {'descr': '<f4', 'fortran_order': False, 'shape': (1 << 60,)}
    np.lib.format.write_array_header_1_0(file, claim)
    assert reason('ndarray', file.getvalue()).endswith(f'needs {1 << 62}')


@pytest.mark.parametrize(
    'data',
    [
        b'',
        b'\x93NUMPY',
        b'PK\x03\x04',
        b'\x93NUMPY\x03\x00v',
        npy(np.arange(3)).replace(b'{', b':').replace(b'(3', b'(`'),
        npy(np.arange(3)).replace(b'descr', b'd__cr'),
    ],
)
def test_what_is_no_npy_file_is_refused(data: bytes) -> None:
    assert reason('ndarray', data).startswith('not an .npy file: ')


@given(
    numpy_st.arrays(
        st.sampled_from(['u1', '<i4', '>i4', 'f4', '>f8', 'f2']),
        numpy_st.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
    ),
    st.booleans(),
)
def test_any_array_comes_back(array: Any, is_fortran: bool) -> None:
    given_array = np.asfortranarray(array) if is_fortran and array.ndim else array
    made = decoder('x', 'ndarray')(npy(given_array))
    assert (made.dtype, made.shape) == (array.dtype, array.shape)
    assert made.tobytes() == array.tobytes()


def test_encodings_that_no_file_is_are_refused_before_the_job() -> None:
    for encoding in _REFUSED:
        with pytest.raises(ColumnsError) as caught:
            decoder('x', encoding)
        assert str(caught.value) == (
            f"column 'x': a file in a tar cannot become {encoding}; images keep their bytes as "
            'jpeg, png or bytes'
        )


def test_every_encoding_is_known_or_refused() -> None:
    for encoding in ENCODINGS:
        if encoding not in _REFUSED:
            decoder('x', encoding)

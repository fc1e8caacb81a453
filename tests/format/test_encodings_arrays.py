from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from beam_mds.errors import ColumnsError, FormatError
from beam_mds.format import get_encoding
from beam_mds.format.encodings.arrays import DTYPES, NDArray
from tests.format.helpers import (
    arrow_error_of,
    encode_arrow,
    encode_each,
    encode_list,
    error_of,
    round_trip,
)

DTYPE = st.sampled_from(sorted(DTYPES))
SHAPE = hnp.array_shapes(max_dims=4, max_side=4)


@given(data=st.data(), dtype=DTYPE, shape=SHAPE)
def test_arrays_come_back_and_batches_give_the_bytes_of_single_ones(
    data: st.DataObject, dtype: str, shape: tuple[int, ...]
) -> None:
    arrays = data.draw(st.lists(hnp.arrays(dtype, shape), min_size=1, max_size=4))
    sides = ','.join(map(str, shape))

    for encoding in ('ndarray', f'ndarray:{dtype}', f'ndarray:{dtype}:{sides}'):
        assert encode_list(encoding, arrays) == encode_each(encoding, arrays)
        for array in arrays:
            back = round_trip(encoding, array)
            assert (back.dtype, back.shape) == (array.dtype, array.shape)
            assert back.tobytes() == array.tobytes()


@given(arrays=st.lists(hnp.arrays(st.sampled_from(['i1', 'f8']), SHAPE), max_size=5))
def test_arrays_of_different_shapes_and_types_stand_in_one_column(arrays: list[Any]) -> None:
    assert encode_list('ndarray', arrays) == encode_each('ndarray', arrays)


def in_groups(encoding: NDArray, arrays: list[Any]) -> dict[Any, list[tuple[Any, bytes]]]:
    """Dtype and number of dimensions -> shape and bytes of each array."""
    found = {}
    items = pa.array([encoding.encode(array) for array in arrays], pa.large_binary())
    for shapes, numbers in encoding.groups(items):
        parts = np.split(numbers, np.cumsum(shapes.prod(axis=1))[:-1])
        rows = zip(map(tuple, shapes.tolist()), [part.tobytes() for part in parts], strict=True)
        found[numbers.dtype.name, shapes.shape[1]] = list(rows)
    return found


@given(
    arrays=st.lists(hnp.arrays(st.sampled_from(['i1', 'f8', 'f2']), SHAPE), max_size=9),
    long=st.booleans(),
)
def test_a_column_s_arrays_are_taken_apart_in_groups_of_one_dtype_and_number_of_dimensions(
    arrays: list[Any], long: bool
) -> None:
    arrays += [np.arange(300, dtype='i1'), np.zeros((1, 300))] if long else []
    wanted: dict[Any, list[tuple[Any, bytes]]] = {}
    for array in arrays:
        wanted.setdefault((array.dtype.name, array.ndim), []).append((array.shape, array.tobytes()))
    assert in_groups(NDArray(), arrays) == wanted
    for dtype in {array.dtype.name for array in arrays}:
        some = [array for array in arrays if array.dtype.name == dtype]
        assert in_groups(NDArray(dtype), some) == {
            kind: group for kind, group in wanted.items() if kind[0] == dtype
        }


@pytest.mark.parametrize(
    ('sides', 'message'),
    [
        ([2, 2], 'not all arrays have as many numbers as they say'),
        ([7378697629483820647, 5], 'not all arrays have as many numbers'),  # 3 in 64 bits
        ([0, 0], 'not all arrays have as many numbers as they say'),
    ],
)
def test_an_array_of_another_size_than_its_shape_is_damage(sides: list[int], message: str) -> None:
    good = bytes([2 << 2 | 3]) + np.array([3, 1], '<u8').tobytes() + b'abc'
    bad = bytes([2 << 2 | 3]) + np.array(sides, '<u8').tobytes() + b'abc'
    with pytest.raises(FormatError, match=message):
        NDArray('int8').groups(pa.array([good, bad], pa.large_binary()))


def test_half_an_element_is_damage() -> None:
    with pytest.raises(FormatError, match='not all arrays have whole numbers of 2 bytes'):
        NDArray('int16').groups(pa.array([b'\x04\x01abc'], pa.large_binary()))


def test_arrays_of_a_fixed_shape_are_one_group() -> None:
    arrays = [np.arange(6, dtype=np.uint16).reshape(2, 3) + n for n in range(3)]
    assert in_groups(NDArray('uint16:2,3'), arrays) == {
        ('uint16', 2): [((2, 3), array.tobytes()) for array in arrays]
    }


@pytest.mark.parametrize('encoding', ['ndarray', 'ndarray:uint16'])
def test_vectors_of_every_length_class_give_the_bytes_of_single_ones(encoding: str) -> None:
    arrays = [np.arange(size).astype(np.uint16) for size in (1, 255, 256, 65535, 65536, 2)]

    assert encode_list(encoding, arrays) == encode_each(encoding, arrays)
    assert encode_arrow(encoding, pa.array(arrays)) == encode_each(encoding, arrays)


@pytest.mark.parametrize('dtype', DTYPES)
@pytest.mark.parametrize('kind', [pa.list_, pa.large_list, pa.list_view, pa.large_list_view])
def test_arrow_lists_are_vectors_of_their_type(dtype: str, kind: Any) -> None:
    arrays = [np.arange(size).astype(dtype) for size in (9, 1, 3, 2, 9)]
    column = pa.array(arrays, kind(pa.from_numpy_dtype(dtype)))

    for encoding in ('ndarray', f'ndarray:{dtype}'):
        assert encode_arrow(encoding, column) == encode_each(encoding, arrays)
        assert encode_arrow(encoding, column.slice(1, 3)) == encode_each(encoding, arrays[1:4])
        halves = pa.chunked_array([column[:2], column[2:2], column[2:]], column.type)
        assert encode_arrow(encoding, halves) == encode_each(encoding, arrays)


def test_arrow_list_views_in_any_order_are_vectors() -> None:
    numbers = pa.array([1, 2, 3, 4, 5], pa.int16())
    column = pa.ListViewArray.from_arrays([3, 0, 1], [2, 3, 1], numbers)
    arrays = [np.array(row, np.int16) for row in ([4, 5], [1, 2, 3], [2])]

    assert encode_arrow('ndarray:int16', column) == encode_each('ndarray:int16', arrays)
    assert encode_arrow('ndarray', column[1:]) == encode_each('ndarray', arrays[1:])


def test_arrow_lists_of_one_length_fill_a_fixed_shape() -> None:
    arrays = [np.arange(start, start + 3, dtype=np.int32) for start in range(5)]

    for kind in (pa.list_(pa.int32()), pa.list_(pa.int32(), 3)):
        column = pa.array(arrays, kind)
        for encoding in ('ndarray', 'ndarray:int32', 'ndarray:int32:3'):
            assert encode_arrow(encoding, column) == encode_each(encoding, arrays)
            assert encode_arrow(encoding, column[1:3]) == encode_each(encoding, arrays[1:3])


@pytest.mark.parametrize(
    'kind',
    [
        pa.list_(pa.list_(pa.float32())),
        pa.list_(pa.list_(pa.float32()), 2),
        pa.list_(pa.list_(pa.float32(), 3)),
        pa.list_(pa.list_(pa.float32(), 3), 2),
    ],
)
def test_arrow_lists_of_lists_are_matrices(kind: pa.DataType) -> None:
    arrays = [np.arange(6, dtype=np.float32).reshape(2, 3) + start for start in range(4)]
    column = pa.array([array.tolist() for array in arrays], kind)

    for encoding in ('ndarray', 'ndarray:float32', 'ndarray:float32:2,3'):
        assert encode_arrow(encoding, column) == encode_each(encoding, arrays)
        assert encode_arrow(encoding, column.slice(1, 2)) == encode_each(encoding, arrays[1:3])


def test_arrow_lists_with_one_inner_list_each_are_matrices() -> None:
    column = pa.array([[[1, 2]], [[3]]], pa.list_(pa.list_(pa.int8())))
    arrays = [np.array([[1, 2]], np.int8), np.array([[3]], np.int8)]

    assert encode_arrow('ndarray', column) == encode_each('ndarray', arrays)


@pytest.mark.parametrize('permutation', [None, [1, 0]])
def test_arrow_tensors_keep_their_logical_shape(permutation: list[int] | None) -> None:
    storage = pa.array(
        [list(range(start, start + 6)) for start in range(3)], pa.list_(pa.int32(), 6)
    )
    kind = pa.fixed_shape_tensor(pa.int32(), [2, 3], permutation=permutation)
    column = pa.ExtensionArray.from_storage(kind, storage)
    arrays = list(column.to_numpy_ndarray())

    assert arrays[0].shape == ((2, 3) if permutation is None else (3, 2))
    assert encode_arrow('ndarray', column) == encode_each('ndarray', arrays)
    assert encode_arrow('ndarray:int32', column[1:]) == encode_each('ndarray:int32', arrays[1:])


@pytest.mark.parametrize(
    'array',
    [
        np.asfortranarray(np.arange(12, dtype=np.int32).reshape(3, 4)),
        np.arange(12, dtype='>i4').reshape(3, 4),
        np.arange(48, dtype=np.int32).reshape(6, 8)[::2, ::-2],
        np.broadcast_to(np.int32([[1], [2]]), (2, 3)),
        np.arange(12, dtype=np.int32).reshape(3, 4).T,
        np.ma.masked_array(np.int32([[1, 2]]), False),
    ],
)
@pytest.mark.parametrize('encoding', ['ndarray', 'ndarray:int32'])
def test_any_memory_layout_and_byte_order_comes_back_equal(encoding: str, array: Any) -> None:
    plain = np.array(array, np.int32, order='C')
    before = array.copy()

    for values in ([array], [array, array], [array, plain], [plain[:1], array]):
        expected = encode_each(encoding, [np.array(v, np.int32, order='C') for v in values])
        assert encode_list(encoding, values) == expected
    assert np.array_equal(round_trip(encoding, array), plain)
    assert np.array_equal(array, before)
    assert array.dtype == before.dtype


@given(data=st.data(), dtype=DTYPE, shape=SHAPE)
def test_lists_of_numbers_are_arrays_where_the_dtype_is_given(
    data: st.DataObject, dtype: str, shape: tuple[int, ...]
) -> None:
    arrays = data.draw(st.lists(hnp.arrays(dtype, shape), min_size=1, max_size=4))
    lists = [array.tolist() for array in arrays]

    for encoding in (f'ndarray:{dtype}', f'ndarray:{dtype}:{",".join(map(str, shape))}'):
        assert encode_list(encoding, lists) == encode_list(encoding, arrays)
        assert encode_each(encoding, [tuple(row) for row in lists]) == encode_each(encoding, arrays)
        mixed = [lists[0], *arrays]
        assert encode_list(encoding, mixed) == encode_list(encoding, [arrays[0], *arrays])


def test_large_integers_in_a_list_are_exact() -> None:
    values = [2**64 - 1, 0, np.uint64(2**63 + 1), True]

    assert round_trip('ndarray:uint64', values).tolist() == [2**64 - 1, 0, 2**63 + 1, 1]


def test_lists_of_different_lengths_are_vectors() -> None:
    lists = [[1, 2], [3], [4, 5, 6]]

    assert encode_list('ndarray:uint8', lists) == encode_each(
        'ndarray:uint8', [np.uint8(row) for row in lists]
    )


def test_big_endian_vectors_of_different_lengths_come_back_equal() -> None:
    arrays = [np.arange(size, dtype='>u2') for size in (3, 1)]
    plain = [array.astype(np.uint16) for array in arrays]

    assert encode_list('ndarray:uint16', arrays) == encode_each('ndarray:uint16', plain)


@pytest.mark.parametrize(
    ('encoding', 'value', 'reason'),
    [
        ('ndarray', np.array(5), 'array without dimensions: use a scalar encoding'),
        ('ndarray:int64', np.array(5), 'array without dimensions: use a scalar encoding'),
        ('ndarray', np.zeros(0), 'array of shape (0,): the format holds no array without elements'),
        ('ndarray', np.zeros((2, 0)), 'array of shape (2, 0): the format holds no array without'),
        ('ndarray', np.zeros(2, bool), 'dtype bool and shape (2,) has a dtype outside uint8, int8'),
        ('ndarray', np.zeros(2, complex), 'has a dtype outside uint8'),
        ('ndarray', np.zeros(2, 'V2'), 'has a dtype outside uint8'),
        ('ndarray', np.array(['a']), 'has a dtype outside uint8'),
        ('ndarray', np.array([None]), 'has a dtype outside uint8'),
        ('ndarray:int32', np.zeros(2), 'array has dtype float64, expected int32'),
        ('ndarray:int32', np.zeros(2, np.int64), 'array has dtype int64, expected int32'),
        ('ndarray:int8:2,3', np.zeros((3, 2), np.int8), 'array of shape (3, 2), expected (2, 3)'),
        ('ndarray:int8:2', np.array(5, np.int8), 'array of shape (), expected (2,)'),
        ('ndarray', [1, 2], 'list [1, 2] is not a numpy array (numpy.asarray(value, dtype) makes'),
        ('ndarray:int8', [1, 128], 'list [1, 128] has a number that does not fit int8'),
        ('ndarray:uint64', [-1], 'list [-1] has a number that does not fit uint64'),
        ('ndarray:int64', [2**63], 'has a number that does not fit int64'),
        ('ndarray:uint64', [2**64], 'is not a list of numbers for uint64'),
        ('ndarray:uint64', [2**63, -1], 'is not a list of numbers for uint64'),
        ('ndarray:uint64', [2**63, 1.0], 'is not a list of numbers for uint64'),
        ('ndarray:uint64', [[2**63], [0, 1]], 'has lists of different lengths inside one array'),
        ('ndarray:int64', [1.0], 'list [1.0] is not a list of numbers for int64'),
        ('ndarray:float32', [1e300], 'list [1e+300] has a number that does not fit float32'),
        ('ndarray:float64', [2**53 + 1], 'has a number that does not fit float64'),
        ('ndarray:float64', [2**63 - 1], 'has a number that does not fit float64'),
        ('ndarray:float16', (70000,), 'tuple (70000,) has a number that does not fit float16'),
        ('ndarray:int8', ['1'], "list ['1'] is not a list of numbers for int8"),
        ('ndarray:int8', [1, None], 'list [1, None] is not a list of numbers for int8'),
        ('ndarray:int8', [[1], [2, 3]], 'has lists of different lengths inside one array'),
        ('ndarray:int64', [np.ma.masked_array([1, 2], [0, 1])], 'has a masked array inside a list'),
        ('ndarray:int8', [], 'array of shape (0,): the format holds no array without elements'),
        ('ndarray:int8:2', [1, 2, 3], 'array of shape (3,), expected (2,)'),
        ('ndarray', b'\xff\xfe', "bytes b'\\xff\\xfe' is not a numpy array"),
        ('ndarray', np.float32(1), 'numpy.float32 1.0 is not a numpy array'),
        ('ndarray', np.ma.masked_array([1, 2], [0, 1]), 'masked array with masked elements'),
    ],
)
def test_an_array_that_does_not_fit_is_an_error_with_the_reason(
    encoding: str, value: Any, reason: str
) -> None:
    assert reason in error_of(encoding, value)


@pytest.mark.parametrize(
    ('encoding', 'array', 'reason', 'row'),
    [
        ('ndarray', pa.array([[1], []], pa.list_(pa.int8())), 'no array without elements', 1),
        ('ndarray', pa.array([[1], [2, None]]), 'a null inside an array: MDS has no nulls', 1),
        ('ndarray', pa.array([[[1]], [[1, 2], [3]]]), 'lists of different lengths inside', 1),
        ('ndarray', pa.array([[[1]], [[2], None]]), 'the value is None (null)', 1),
        ('ndarray', pa.array([1, 2]), 'array without dimensions: use a scalar encoding', 0),
        ('ndarray', pa.array([[True]]), 'Arrow type bool is not one of uint8', 0),
        ('ndarray', pa.array([['a']]), 'Arrow type string is not one of uint8', 0),
        ('ndarray', pa.array(['a']), 'Arrow type string is not one of uint8', 0),
        (
            'ndarray:int32',
            pa.array([[1]]),
            'Arrow list of int64 has dtype int64, expected int32',
            0,
        ),
        ('ndarray:int64:2', pa.array([[1, 2], [3]]), 'array of shape (1,), expected (2,)', 1),
        ('ndarray:int64:2', pa.array([[1, 2, 3]]), 'array of shape (3,), expected (2,)', 0),
    ],
)
def test_an_arrow_list_that_does_not_fit_is_an_error_with_its_row(
    encoding: str, array: pa.Array, reason: str, row: int
) -> None:
    error = arrow_error_of(encoding, array)

    assert reason in error.reason
    assert error.row == row


@pytest.mark.parametrize(
    ('encoding', 'size'),
    [
        ('ndarray', None),
        ('ndarray:float64', None),
        ('ndarray:float64:3', 24),
        ('ndarray:uint8:2,3,4', 24),
    ],
)
def test_the_size_is_fixed_when_dtype_and_shape_are(encoding: str, size: int | None) -> None:
    assert get_encoding(encoding).size == size
    assert get_encoding(encoding).name == encoding


@pytest.mark.parametrize(
    ('encoding', 'reason'),
    [
        ('ndarray:floaty', "ndarray has no dtype 'floaty': expected one of uint8, int8, uint16"),
        ('ndarray:bool', "ndarray has no dtype 'bool'"),
        ('ndarray:', "ndarray has no dtype ''"),
        ('ndarray:int32:', "ndarray has no shape '': expected up to 63 sides of at least 1"),
        ('ndarray:int32:3,x', "ndarray has no shape '3,x'"),
        ('ndarray:int32:0', "ndarray has no shape '0'"),
        ('ndarray:int32:-1', "ndarray has no shape '-1'"),
        ('ndarray:int32:3:4', "ndarray has no shape '3:4'"),
        (f'ndarray:int32:{"1," * 63}1', 'ndarray has no shape'),
        ('ndarray:uint8:2147483648', 'and at most 2147483647 elements'),
        ('ndarray:uint8:99999999,99999999', "ndarray has no shape '99999999,99999999'"),
        (f'ndarray:int64:{"9" * 5000}', "ndarray has no shape '999999"),
    ],
)
def test_a_wrong_parameter_is_refused_with_the_reason(encoding: str, reason: str) -> None:
    with pytest.raises(ColumnsError) as caught:
        get_encoding(encoding)

    assert reason in str(caught.value)

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from beam_mds.format import ENCODINGS, Columns, get_encoding
from tests.format.golden import GOLDEN
from tests.format.helpers import arrow_error_of, encode_arrow, encode_list, error_of

NULL = 'the value is None (null): MDS has no nulls, give a value or drop the sample'

_LISTS = ('list[pil]', 'list[jpeg]', 'list[png]', 'jpeg_array', 'jpegarray')

# For every encoding an Arrow type that it takes, and a value of it.
ARROW: dict[str, tuple[pa.DataType, Any]] = {
    **{name: (pa.from_numpy_dtype(name), 1) for name in ENCODINGS if name[-1].isdigit()},
    **{name: (pa.binary(), b'a') for name in ('bytes', 'pil', 'jpeg', 'png')},
    **{name: (pa.list_(pa.binary()), [b'a']) for name in _LISTS},
    'float16': (pa.float16(), np.float16(1)),
    'int': (pa.int64(), 1),
    'str': (pa.string(), 'a'),
    'ndarray': (pa.list_(pa.int16()), [1]),
    'ndarray:float32': (pa.list_(pa.float32()), [1]),
    'ndarray:uint8': (pa.list_(pa.uint8()), [1]),
    'ndarray:uint8:2,2': (pa.list_(pa.list_(pa.uint8(), 2), 2), [[1, 2], [3, 4]]),
    'str_int': (pa.int64(), 1),
    'str_float': (pa.float64(), 1.0),
    'str_decimal': (pa.decimal128(5, 2), 1),
    'pkl': (pa.list_(pa.int8()), [1]),
    'json': (pa.list_(pa.int8()), [1]),
}


def test_the_golden_values_cover_every_encoding() -> None:
    assert {encoding.partition(':')[0] for encoding, _, _ in GOLDEN} == set(ENCODINGS)


@pytest.mark.parametrize(('encoding', 'make', 'data'), GOLDEN)
def test_a_value_has_the_bytes_that_mdswriter_gives(
    encoding: str, make: Callable[[], Any], data: str
) -> None:
    assert get_encoding(encoding).encode(make()).hex() == data
    assert [item.hex() for item in encode_list(encoding, [make(), make()])] == [data] * 2


@pytest.mark.parametrize('encoding', ARROW)
def test_none_is_refused_by_every_encoding_alone_and_in_a_later_row(encoding: str) -> None:
    make = next(make for name, make, _ in GOLDEN if name == encoding)

    assert error_of(encoding, None) == NULL
    with pytest.raises(ValueError, match='value is None') as caught:
        Columns({'a': encoding}).encode_batch([{'a': make()}, {'a': make()}, {'a': None}])
    assert str(caught.value) == f"column 'a' ({encoding}): {NULL}"
    assert caught.value.row == 2  # type: ignore[attr-defined]


@pytest.mark.parametrize('encoding', ARROW)
def test_an_arrow_null_is_refused_by_every_encoding(encoding: str) -> None:
    kind, one = ARROW[encoding]
    assert encode_arrow(encoding, pa.array([one], kind))

    for array, row in (
        (pa.array([None, one], kind), 0),
        (pa.array([one, None], kind), 1),
        (pa.array([one, one, None], kind).slice(1), 1),
        (pa.nulls(2), 0),
        (pa.nulls(2, pa.dictionary(pa.int8(), pa.string())), 0),
    ):
        error = arrow_error_of(encoding, array)
        assert error.reason == NULL
        assert error.row == row


@pytest.mark.parametrize('encoding', ARROW)
def test_no_rows_and_one_row_work_for_every_encoding(encoding: str) -> None:
    make = next(make for name, make, _ in GOLDEN if name == encoding)
    kind, _ = ARROW[encoding]
    columns = Columns({'a': encoding, 'b': 'str', 'c': 'uint8'})

    for single in (Columns({'a': encoding}), columns):
        other = {name: [] for name in single.names if name != 'a'}
        kinds = {'b': pa.string(), 'c': pa.uint8()}
        arrays = {name: pa.array(values, kinds[name]) for name, values in other.items()}
        table = pa.table({'a': pa.array([], kind), **arrays})
        chunkless = pa.table({'a': pa.chunked_array([], kind), **arrays})
        batch = pa.RecordBatch.from_pydict({'a': pa.array([], kind), **arrays})
        for empty in ([], table, chunkless, batch, table.slice(0, 0)):
            samples = single.encode_batch(empty)
            assert len(samples) == samples.nbytes == len(samples.bytes) == 0
            assert samples.offsets.tolist() == [0]
    one = columns.encode_batch([{'a': make(), 'b': 'é', 'c': 3}])
    assert len(one) == 1
    assert bytes(one.bytes).endswith(b'\xc3\xa9\x03')


@pytest.mark.parametrize('encoding', ['ndarray', 'ndarray:int32', 'ndarray:int32:3'])
def test_read_only_and_shared_input_is_not_changed(encoding: str) -> None:
    array = np.arange(3, dtype=np.int32)
    array.flags.writeable = False
    sample = {'a': array}

    columns = Columns({'a': encoding})
    columns.encode_batch([sample, sample])

    assert sample == {'a': array}
    assert sample['a'] is array

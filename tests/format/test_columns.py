from __future__ import annotations

import collections
import copy
import pickle
import subprocess
import sys
import types
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_mds.errors import ColumnsError, EncodingError, FormatError, MDSError
from beam_mds.format import Columns, get_encoding
from beam_mds.format.encodings import base

TABLE = {'z text': 'str', 'цена': 'float64', 'a': 'bytes', 'n': 'uint16', 'v': 'ndarray:int32'}
TYPES = {
    'z text': (pa.string(), pa.large_string(), pa.string_view()),
    'цена': (pa.float64(),),
    'a': (pa.binary(), pa.large_binary(), pa.binary_view()),
    'n': (pa.uint16(), pa.int64()),
    'v': (pa.list_(pa.int32()), pa.large_list(pa.int32())),
}
ROW = {'z text': 'é', 'цена': 0.5, 'a': b'\0', 'n': 7, 'v': np.array([1, 2], np.int32)}

ROWS = st.lists(
    st.fixed_dictionaries(
        {
            'z text': st.text(max_size=8),
            'цена': st.floats(allow_nan=False),
            'a': st.binary(max_size=8),
            'n': st.integers(0, 65535),
            'v': st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=4).map(
                lambda items: np.array(items, np.int32)
            ),
        }
    ),
    max_size=8,
)


@given(rows=ROWS, data=st.data())
def test_a_batch_has_the_bytes_of_its_samples_from_dicts_and_from_arrow(
    rows: list[dict[str, Any]], data: st.DataObject
) -> None:
    names = data.draw(st.sets(st.sampled_from(sorted(TABLE)), min_size=1))
    columns = Columns({name: TABLE[name] for name in data.draw(st.permutations(sorted(names)))})
    rows = [{name: row[name] for name in names} for row in rows]
    single = [columns.encode_sample(row) for row in rows]

    samples = columns.encode_batch(rows)

    assert list(map(bytes, samples)) == single
    padded = [{name: ROW[name] for name in names}, *rows, {name: ROW[name] for name in names}]
    kinds = {name: data.draw(st.sampled_from(TYPES[name])) for name in names}
    batch = pa.RecordBatch.from_pydict(
        {name: pa.array([row[name] for row in padded], kinds[name]) for name in names}
    )
    table = pa.Table.from_batches([batch.slice(0, 1), batch.slice(1, 0), batch.slice(1)])
    for arrow in (batch, table):
        sliced = columns.encode_batch(arrow.slice(1, len(rows)))
        assert list(map(bytes, sliced)) == single
    for row, sample in zip(rows, single, strict=True):
        back = columns.decode_sample(sample)
        assert sorted(back) == sorted(row)
        assert all(np.array_equal(back[name], row[name]) for name in row)


def test_a_sample_is_the_sizes_of_variable_columns_and_then_the_bytes_in_order_of_name() -> None:
    columns = Columns({'b': 'str', 'c': 'uint8', 'a': 'bytes'})

    data = columns.encode_sample({'c': 255, 'a': b'xy', 'b': ''})

    assert data == b'\x02\0\0\0' + b'\0\0\0\0' + b'xy' + b'' + b'\xff'
    assert columns.names == ['a', 'b', 'c']
    assert columns.sizes == [None, None, 1]


def test_one_column_can_be_encoded_without_its_head() -> None:
    columns = Columns({'a': 'str', 'b': 'uint16'})
    rows = [{'a': 'é', 'b': 1}, {'a': '', 'b': 258}]

    for batch in (rows, pa.Table.from_pylist(rows)):
        assert list(map(bytes, columns.encode_column('a', batch))) == ['é'.encode(), b'']
        assert list(map(bytes, columns.encode_column('b', batch))) == [b'\1\0', b'\2\1']


def test_a_sample_of_fixed_columns_has_no_head() -> None:
    columns = Columns({'a': 'uint16', 'b': 'ndarray:int8:2', 'c': 'int8'})
    row = {'a': 1, 'b': np.array([2, 3], np.int8), 'c': -1}

    assert columns.encode_sample(row) == b'\1\0\2\3\xff'
    assert columns.encode_batch([row] * 3).bytes.tobytes() == b'\1\0\2\3\xff' * 3


@pytest.mark.parametrize(
    ('columns', 'reason'),
    [
        ({}, "columns must be a dict like {'text': 'str'} with at least one column, got {}"),
        (['a'], 'columns must be a dict'),
        (None, 'columns must be a dict'),
        ({'a': 'foo'}, "column 'a': unknown encoding 'foo': expected one of bytes, str, int"),
        ({'a': 'foo:1'}, "column 'a': unknown encoding 'foo:1'"),
        ({'ж': 'jpeg:90'}, "column 'ж': encoding 'jpeg' takes no parameter, got '90'"),
        ({'a': 'ndarray:floaty'}, "column 'a': ndarray has no dtype 'floaty'"),
        ({'a': ''}, "column 'a': unknown encoding ''"),
        ({'a': None}, "column 'a': name and encoding must be str, got encoding None"),
        ({'a': int}, "column 'a': name and encoding must be str, got encoding <class 'int'>"),
        ({3: 'int'}, 'column 3: name and encoding must be str'),
        ({'\ud800': 'int'}, "column '\\ud800': the name has no UTF-8 form"),
    ],
)
def test_a_wrong_column_table_is_refused_with_the_reason(columns: Any, reason: str) -> None:
    with pytest.raises(ColumnsError) as caught:
        Columns(columns)

    assert str(caught.value).startswith(reason)


def test_columns_of_one_encoding_share_their_codec() -> None:
    one, other = Columns({'a': 'ndarray:int8:3'}), Columns({'b': 'str', 'c': 'ndarray:int8:3'})
    assert one.encodings[0] is other.encodings[1] is get_encoding('ndarray:int8:3')


def test_column_tables_are_equal_when_they_say_the_same_and_survive_pickling() -> None:
    one, other = Columns({'a': 'int', 'b': 'str'}), Columns({'b': 'str', 'a': 'int'})

    assert one == other == pickle.loads(pickle.dumps(one))
    assert hash(one) == hash(other)
    assert one != Columns({'a': 'int'})
    assert eval(repr(one)) == one


_NO_SAMPLE = 'is no sample: expected a dict'

BAD_ROWS = [
    ({'a': 1}, 'b', "column 'b': the sample has no such column"),
    ({'a': 1, 'c': 2}, 'b', "column 'b': the sample has no such column"),
    ({}, 'a', "column 'a': the sample has no such column"),
    (
        {'a': 1, 'b': 'x', 'c': 2},
        'c',
        "column 'c': the sample has this column, the dataset has not: drop it or add it to columns",
    ),
    ({'a': 1, 'b': 2}, 'b', "column 'b' (str): int 2 is not str"),
    ({'a': 'x', 'b': 2}, 'a', "column 'a' (int): str 'x' is not an integer"),
    (['a', 'b'], None, f"list ['a', 'b'] {_NO_SAMPLE}"),
    (5, None, f'int 5 {_NO_SAMPLE}'),
]


@pytest.mark.parametrize(('bad', 'column', 'message'), BAD_ROWS)
@pytest.mark.parametrize('row', [0, 1, 36, 99])
def test_the_error_of_a_batch_is_that_of_its_first_bad_sample_with_its_row(
    bad: Any, column: str | None, message: str, row: int
) -> None:
    columns = Columns({'a': 'int', 'b': 'str'})
    batch: list[Any] = [{'a': 1, 'b': 'x'} for _ in range(100)]
    batch[row] = bad
    batch[-1:] = [bad]

    with pytest.raises(EncodingError) as caught:
        columns.encode_batch(batch)

    assert str(caught.value) == message
    assert (caught.value.row, caught.value.column) == (row, column)


@pytest.mark.parametrize('row', [0, 1, 36, 99])
def test_the_error_of_an_arrow_table_names_the_row_of_the_first_bad_value(row: int) -> None:
    columns = Columns({'a': 'uint8', 'b': 'str'})
    numbers = [1] * 100
    numbers[row] = numbers[99] = 256
    table = pa.table({'a': pa.array([0, *numbers]), 'b': pa.array(['x'] * 101)}).slice(1)

    for batch in (table, table.to_batches()[0], pa.concat_tables([table[:40], table[40:]])):
        with pytest.raises(EncodingError) as caught:
            columns.encode_batch(batch)
        assert (caught.value.row, caught.value.column) == (row, 'a')


def test_the_first_bad_row_is_found_without_encoding_row_by_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    columns = Columns({'a': 'str'})
    batch = [{'a': 'x'}] * 4096 + [{'a': 5}]
    calls = []
    encode = columns.encode_rows
    monkeypatch.setattr(
        columns,
        'encode_rows',
        lambda part, *args, **more: (calls.append(len(part)), encode(part, *args, **more))[1],
    )

    with pytest.raises(EncodingError):
        columns.encode_batch(batch)

    assert len(calls) < 20
    assert sum(calls) < 3 * len(batch)


def test_wrong_columns_of_an_arrow_table_are_refused() -> None:
    columns = Columns({'a': 'int', 'b': 'str'})
    a, b = pa.array([1]), pa.array(['x'])

    for arrays, names, message in (
        ([a], ['a'], "column 'b': the sample has no such column"),
        ([a, b, a], ['a', 'b', 'c'], "column 'c': the sample has this column, the dataset has not"),
        ([a, b, b], ['a', 'b', 'b'], "column 'b': two columns of the Arrow table have this name"),
    ):
        with pytest.raises(EncodingError, match='column') as caught:
            columns.encode_batch(pa.RecordBatch.from_arrays(arrays, names))
        assert str(caught.value).startswith(message)


def test_an_error_without_rows_has_no_row() -> None:
    with pytest.raises(EncodingError) as caught:
        Columns({'a': 'int'}).encode_batch(pa.table({'a': pa.array([], pa.string())}))

    assert caught.value.row is None


@pytest.mark.parametrize(
    'given_sample',
    [
        {'a': [1], 'b': 'x'},
        collections.OrderedDict(b='x', a=[1]),
        collections.defaultdict(int, a=[1], b='x'),
        types.MappingProxyType({'a': [1], 'b': 'x'}),
        collections.ChainMap({'a': [1]}, {'b': 'x'}),
    ],
)
def test_any_mapping_is_a_sample_and_stays_as_it_was(given_sample: Any) -> None:
    columns = Columns({'a': 'json', 'b': 'str'})
    before = copy.deepcopy(dict(given_sample))

    made = columns.encode_batch([given_sample, {'a': [1], 'b': 'x'}])

    assert bytes(made.slice(0, 1).bytes) == bytes(made.slice(1, 2).bytes)
    assert dict(given_sample) == before


def test_a_default_for_a_missing_column_is_not_asked_for() -> None:
    sample = collections.defaultdict(int, {'a': 1, 'c': 3})

    with pytest.raises(EncodingError, match="column 'b': the sample has no such column"):
        Columns({'a': 'int', 'b': 'int'}).encode_sample(sample)

    assert dict(sample) == {'a': 1, 'c': 3}


def test_errors_survive_pickling_with_all_their_parts() -> None:
    error = EncodingError('int 5 is not str', 'a', 'str', 3)

    back = pickle.loads(pickle.dumps(error))

    assert vars(back) == vars(error)
    assert str(back) == str(error) == "column 'a' (str): int 5 is not str"
    assert isinstance(back, MDSError)
    assert isinstance(back, ValueError)


def test_a_value_of_4_gib_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr('beam_mds.format.samples._MAX_SIZE', 10)

    with pytest.raises(EncodingError, match='a value of 11 bytes: the format holds 10') as caught:
        Columns({'a': 'str', 'b': 'str'}).encode_batch(
            [{'a': '', 'b': ''}, {'a': '', 'b': 'x' * 11}]
        )

    assert caught.value.row == 1


def test_only_the_wanted_columns_are_decoded() -> None:
    columns = Columns(TABLE)
    data = columns.encode_sample(ROW)

    assert columns.decode_sample(data, ['n', 'a']) == {'a': b'\0', 'n': 7}
    assert columns.decode_sample(memoryview(data), ['n']) == {'n': 7}
    with pytest.raises(ColumnsError, match=r"no column 'q': there are a, n, v, z text, цена"):
        columns.decode_sample(data, ['a', 'q'])


@pytest.mark.parametrize(
    ('data', 'message'),
    [
        (b'\1\0', 'sample of 2 bytes is shorter than its head'),
        (b'\2\0\0\0x', 'sample has 5 bytes, its columns need 7'),
        (b'\0\0\0\0\1\1', 'sample has 6 bytes, its columns need 5'),
        (b'\1\0\0\0\1\xff', "column 'b' (str): 1 bytes do not decode: 'utf-8' codec can't decode"),
    ],
)
def test_a_damaged_sample_is_a_format_error(data: bytes, message: str) -> None:
    with pytest.raises(FormatError) as caught:
        Columns({'a': 'uint8', 'b': 'str'}).decode_sample(data)

    assert str(caught.value).startswith(message)


def test_many_chunks_of_text_have_room_for_more_than_2_gib() -> None:
    from beam_mds.format.columns import _one_chunk

    for kind, wide in ((pa.string(), pa.large_string()), (pa.binary(), pa.large_binary())):
        column = pa.chunked_array([pa.array([b'a'], pa.binary()).cast(kind)] * 2)
        assert _one_chunk(column).type == wide


def test_the_values_of_a_message_are_described_in_few_characters() -> None:
    assert base.describe(np.float32(0.5)) == 'numpy.float32 0.5'
    assert base.describe('x' * 1000).startswith("str 'xxxx")
    assert len(base.describe('x' * 1000)) < 70
    assert base.describe(None) == 'NoneType None'


def test_the_format_library_is_imported_without_beam_and_without_pillow() -> None:
    code = 'import sys, beam_mds.format; print({"apache_beam", "PIL"} & set(sys.modules))'

    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True)

    assert done.stdout == 'set()\n'

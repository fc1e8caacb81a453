from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_mds.format import Columns, Samples
from beam_mds.format.samples import offsets_of

ITEMS = st.lists(st.binary(max_size=5), max_size=8)


def content(samples: Samples) -> list[bytes]:
    return list(map(bytes, samples))


@given(items=ITEMS)
def test_samples_hold_byte_strings_in_order(items: list[bytes]) -> None:
    samples = Samples.of(items)

    assert content(samples) == items
    assert len(samples) == len(items)
    assert samples.sizes.tolist() == list(map(len, items))
    assert samples.nbytes == len(samples.bytes) == sum(map(len, items))
    assert samples.bytes.tobytes() == b''.join(items)


@given(items=ITEMS, data=st.data())
def test_a_slice_holds_its_samples_only_also_after_pickling(
    items: list[bytes], data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(items)))
    stop = data.draw(st.integers(start, len(items)))
    part = Samples.of([b'xx', *items, b'yy']).slice(1, len(items) + 1).slice(start, stop)

    for samples in (part, pickle.loads(pickle.dumps(part))):
        assert content(samples) == items[start:stop]
        assert samples.bytes.tobytes() == b''.join(items[start:stop])
        assert samples.nbytes == sum(map(len, items[start:stop]))


@given(items=ITEMS.filter(bool), data=st.data())
def test_samples_are_taken_in_any_order(items: list[bytes], data: st.DataObject) -> None:
    order = data.draw(st.lists(st.integers(0, len(items) - 1), max_size=9))
    samples = Samples.of([b'x', *items]).slice(1, len(items) + 1)

    taken = samples.take(np.array(order, np.int64))

    assert content(taken) == [items[row] for row in order]


@given(batches=st.lists(ITEMS, max_size=4))
def test_batches_are_joined_in_order(batches: list[list[bytes]]) -> None:
    parts = [Samples.of([b'x', *items]).slice(1, len(items) + 1) for items in batches]

    joined = Samples.concat(parts)

    assert content(joined) == [item for items in batches for item in items]
    assert joined.nbytes == sum(part.nbytes for part in parts)


def test_a_pickled_slice_does_not_carry_its_whole_buffer() -> None:
    samples = Samples.of([b'x' * 1_000_000, b'y'])

    assert len(pickle.dumps(samples.slice(1, 2), protocol=5)) < 1000


def test_no_samples_are_samples_too() -> None:
    for samples in (Samples.empty(), Samples.of([]), Samples.concat([])):
        assert len(samples) == samples.nbytes == 0
        assert content(samples) == content(samples.slice(0, 0)) == []


def test_offsets_are_where_each_item_starts_and_where_the_last_ends() -> None:
    offsets = offsets_of(np.array([3, 0, 2**32], np.uint64))

    assert offsets.tolist() == [0, 3, 3, 2**32 + 3]
    assert offsets.dtype == np.int64
    assert offsets_of(np.array([], np.int64)).tolist() == [0]


@pytest.mark.parametrize('rows', [1, 2, 5])
@pytest.mark.parametrize('names', ['abcd', 'ac', 'bd', 'a', 'b', 'dcb'])
def test_heads_fixed_and_variable_columns_stand_row_by_row(names: str, rows: int) -> None:
    table = {'a': 'str', 'b': 'uint8', 'c': 'bytes', 'd': 'ndarray:int8:2'}
    columns = Columns({name: table[name] for name in names})
    made = {
        'a': [chr(97 + row) * row for row in range(rows)],
        'b': list(range(rows)),
        'c': [b'z' * (rows - row) for row in range(rows)],
        'd': [np.array([row, 9], np.int8) for row in range(rows)],
    }
    encoded = {
        'a': [text.encode() for text in made['a']],
        'b': [bytes([row]) for row in range(rows)],
        'c': made['c'],
        'd': [bytes([row, 9]) for row in range(rows)],
    }
    expected = []
    for row in range(rows):
        heads = [len(encoded[name][row]) for name in sorted(names) if name in 'ac']
        values = [encoded[name][row] for name in sorted(names)]
        expected.append(np.array(heads, '<u4').tobytes() + b''.join(values))

    samples = columns.encode_batch(
        [{name: made[name][row] for name in names} for row in range(rows)]
    )

    assert content(samples) == expected

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_mds import ColumnsError, OptionError
from beam_mds.records import PLACE
from beam_mds.writing.options import WriteOptions, make_options, parse_size
from tests.helpers.building import DEFAULTS

COLUMNS = {'text': 'str', 'label': 'int32'}


def options(**given_options: Any) -> WriteOptions:
    return make_options(**{'out': 'out', 'columns': COLUMNS, **DEFAULTS, **given_options})


def error_of(**given_options: Any) -> str:
    with pytest.raises(OptionError) as caught:
        options(**given_options)
    return str(caught.value)


# size_limit


@pytest.mark.parametrize(
    ('size', 'expected'),
    [
        ('64mb', 1 << 26),
        ('64MiB', 1 << 26),
        ('64 MB', 1 << 26),
        (' 64 m ', 1 << 26),
        ('64M', 1 << 26),
        ('1GiB', 1 << 30),
        ('1.5k', 1536),
        ('1.kb', 1024),
        ('0.5gb', 1 << 29),
        ('100', 100),
        ('100b', 100),
        ('0.001t', None),
        (1e6, 1_000_000),
        (1, 1),
        (2**32 - 1, 2**32 - 1),
        ('3.75gib', 15 << 28),
    ],
)
def test_a_size_is_bytes_or_a_text_in_powers_of_1024(size: Any, expected: int | None) -> None:
    if expected is None:  # no whole number of bytes
        assert 'size_limit must be a positive number of bytes' in error_of(size_limit=size)
    else:
        assert options(size_limit=size).config.size_limit == expected
        assert type(parse_size(size)) is int


@pytest.mark.parametrize(
    'size',
    [
        0, -1, 0.5, 1.5, math.nan, math.inf, -math.inf, True, False, '', 'abc', '-1mb', '0', 'mb',
        '64mbb', '64 m b', '64ib', '1e6', '1,5mb', '0x10', '64 mb mb', [], {}, b'64mb', 1j,
    ],
)  # fmt: skip
def test_a_size_that_is_none_is_refused_with_the_value(size: Any) -> None:
    assert error_of(size_limit=size) == (
        f'size_limit must be a positive number of bytes, or a text like 64mb or 1GiB, got {size!r}'
    )


@pytest.mark.parametrize('size', [2**32, '7gb', '4GiB', '1tb', 1e300, 10**400, '9' * 300])
def test_a_size_over_the_format_s_offsets_is_refused_with_the_reason(size: Any) -> None:
    message = error_of(size_limit=size)
    assert message.startswith(
        'size_limit must be below 2**32 bytes, since offsets in a shard are uint32, got '
    )
    assert len(message) < 200


def test_no_size_limit_needs_num_shards() -> None:
    assert error_of(size_limit=None) == (
        'size_limit=None would put the whole dataset into one shard, on one worker: give a '
        'size_limit, or num_shards'
    )
    assert options(size_limit=None, num_shards=3).config.size_limit is None


@given(
    st.one_of(st.text(max_size=12), st.floats(), st.integers(), st.binary(max_size=3), st.none())
)
def test_any_size_is_a_count_of_bytes_or_an_option_error(size: Any) -> None:
    try:
        parsed = parse_size(size)
    except OptionError:
        return
    assert 1 <= parsed < 2**32


def test_numpy_numbers_are_sizes_and_counts_too() -> None:
    assert options(size_limit=np.float64(1e6)).config.size_limit == 1_000_000
    assert options(size_limit=np.int64(1000)).config.size_limit == 1000
    checked = options(seed=np.int64(3), num_shards=np.int32(4))
    assert (checked.seed, checked.num_shards) == (3, 4)
    assert type(checked.seed) is int
    assert type(checked.num_shards) is int


# Single values


@pytest.mark.parametrize('seed', [-1, 2**64, 1.0, '1', True, None])
def test_a_seed_is_an_int_of_64_bits(seed: Any) -> None:
    assert error_of(seed=seed) == (
        f'seed must be an int from 0 to 18446744073709551615, got {seed!r}'
    )
    assert options(seed=2**64 - 1).seed == 2**64 - 1


@pytest.mark.parametrize('num_shards', [0, -1, 1.0, '1', True, 10**7 + 1])
def test_num_shards_is_a_count(num_shards: Any) -> None:
    assert error_of(num_shards=num_shards) == (
        f'num_shards must be an int from 1 to 10000000, got {num_shards!r}'
    )
    assert options(num_shards=1).num_shards == 1


@pytest.mark.parametrize('order', ['random', '', None, 1, ['shuffled'], 'Shuffled'])
def test_an_unknown_order_is_refused_with_those_that_exist(order: Any) -> None:
    assert error_of(order=order) == (
        f"order={order!r} is unknown: expected 'shuffled' or 'sorted' or 'arrival'"
    )


@pytest.mark.parametrize('value', ['ignore', '', None, True, []])
def test_an_unknown_if_exists_is_refused(value: Any) -> None:
    assert error_of(if_exists=value) == (
        f"if_exists={value!r} is unknown: expected 'error' or 'overwrite' or 'append'"
    )


@pytest.mark.parametrize('key', ['nope', '', 3, ['text'], b'text'])
def test_a_key_that_is_no_column_is_refused_with_the_columns(key: Any) -> None:
    assert error_of(key=key) == (
        f'key={key!r} is no column: expected a function of the sample, or one of label, text'
    )


@pytest.mark.parametrize('key', [None, 'text', 'label', len, lambda sample: sample['text']])
def test_a_key_is_a_column_or_a_function(key: Any) -> None:
    assert options(key=key).key is key


@pytest.mark.parametrize('compression', ['lz4', 'zstd:99', 'zstd:x', '', 7, ['zstd'], 'ZSTD'])
def test_an_unknown_compression_is_refused_before_the_job(compression: Any) -> None:
    assert 'compression' in error_of(compression=compression)


@pytest.mark.parametrize('hashes', ['nope', ['sha1', 'nope'], [3], 5, [None]])
def test_an_unknown_hash_is_refused_before_the_job(hashes: Any) -> None:
    assert 'hash' in error_of(hashes=hashes)


@pytest.mark.parametrize('columns', [{}, None, [], 'text', {'a': 'nope'}, {'a': None}, {1: 'str'}])
def test_wrong_columns_are_refused_before_the_job(columns: Any) -> None:
    with pytest.raises(ColumnsError, match='column'):
        options(columns=columns)


def test_hashes_are_sorted() -> None:
    assert options(hashes=['xxh64', 'sha1']).config.hashes == ('sha1', 'xxh64')
    assert options(hashes='sha1').config.hashes == ('sha1',)
    assert options(hashes=[]).config.hashes == ()
    assert 'hashes must not repeat' in error_of(hashes=['sha1', 'sha1'])


@pytest.mark.parametrize('allow_empty', ['yes', 'false', 1, None])
def test_allow_empty_is_true_or_false(allow_empty: Any) -> None:
    assert error_of(allow_empty=allow_empty) == (
        f'allow_empty must be True or False, got {allow_empty!r}'
    )


# Combinations


@pytest.mark.parametrize('name', ['key', 'num_shards', 'seed'])
def test_what_arrival_order_would_ignore_is_refused(name: str) -> None:
    value: Any = {'key': 'text', 'num_shards': 2, 'seed': 1}[name]
    assert error_of(order='arrival', **{name: value}) == (
        f"{name} has no effect with order='arrival': leave it out"
    )
    assert options(order='arrival').order == 'arrival'


def test_values_in_messages_are_short() -> None:
    for name in ('order', 'if_exists', 'key', 'seed', 'num_shards', 'size_limit'):
        assert len(error_of(**{name: 'x' * 10_000})) < 260
    assert len(error_of(out=['x' * 10_000])) < 260


# Paths


def test_out_is_str_or_pathlike_and_made_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for out in ('a b/c[1]', 'a b/c[1]/', Path('a b/c[1]'), tmp_path / 'a b' / 'c[1]'):
        assert options(out=out).out == str(tmp_path / 'a b' / 'c[1]')
    assert options(out='gs://bucket/a/').out == 'gs://bucket/a'


@pytest.mark.parametrize('out', [b'out', '', ' ', None, 3])
def test_an_out_that_is_no_path_is_refused(out: Any) -> None:
    assert error_of(out=out) == f'out must be a path as str or os.PathLike, got {out!r}'


def test_an_unknown_scheme_is_refused() -> None:
    assert "out='nope://a': Beam has no filesystem for it" in error_of(out='nope://a')
    assert "spill='nope://a': Beam has no filesystem for it" in error_of(spill='nope://a')


def test_spill_is_a_choice_or_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert [options(spill=spill).spill for spill in ('auto', True, False)] == ['auto', True, False]
    assert options(spill='runs/').spill == str(tmp_path / 'runs')
    assert options(spill=Path('runs')).spill == str(tmp_path / 'runs')


@pytest.mark.parametrize('spill', [b'x', '', None, 1])
def test_a_spill_that_is_neither_is_refused(spill: Any) -> None:
    assert error_of(spill=spill) == f'spill must be a path as str or os.PathLike, got {spill!r}'


def test_options_touch_no_storage(tmp_path: Path) -> None:
    options(out=tmp_path / 'new', spill=tmp_path / 'runs')
    assert list(tmp_path.iterdir()) == []


# split


@pytest.mark.parametrize('split', [3, b'text', ['text'], 1.5])
def test_a_split_that_is_no_column_and_no_function_is_refused(split: Any) -> None:
    assert error_of(split=split) == (
        f'split must be a column or a function of the sample, got {split!r}'
    )


def test_a_split_column_that_no_sample_could_have_is_refused() -> None:
    assert error_of(split='lang') == (
        "split='lang' is not in columns: add it there, or leave it out of the samples with "
        'drop_split_column=True'
    )
    for more in ({'drop_split_column': True}, {'extra': 'ignore'}):
        assert options(split='lang', **more).split == 'lang'


def test_a_dropped_split_column_is_none_of_the_dataset() -> None:
    dropped = options(split='label', drop_split_column=True)
    assert dropped.config.columns.as_dict() == {'text': 'str'}
    assert dropped.ignore is not None
    assert [name in dropped.ignore for name in ('label', 'other', PLACE)] == [True, False, True]


def test_options_that_need_a_split_say_so() -> None:
    assert error_of(drop_split_column=True) == 'drop_split_column needs a column as split, got None'
    assert error_of(split=str, drop_split_column=True).startswith(
        'drop_split_column needs a column as split, got '
    )
    assert error_of(num_shards={'train': 3}) == 'num_shards as a dict needs split'


def test_the_number_of_shards_can_differ_by_split() -> None:
    some = options(split='text', num_shards={'train': 3, 'val/en': 1})
    assert [some.shards_of(split) for split in ('train', 'val/en', 'test')] == [3, 1, None]
    assert options(num_shards=4).shards_of('') == 4
    assert 'num_shards[' in error_of(split='text', num_shards={'train': 0})
    assert 'is no folder' in error_of(split='text', num_shards={'../x': 1})
    assert 'size_limit=None' in error_of(split='text', num_shards={'a': 1}, size_limit=None)


# extra


def test_extra_columns_are_errors_or_ignored() -> None:
    ignore = options().ignore
    assert ignore is not None
    assert [name in ignore for name in ('anything', PLACE)] == [False, True]
    assert error_of(extra='drop') == "extra='drop' is unknown: expected 'error' or 'ignore'"
    assert options(extra='ignore').ignore is None

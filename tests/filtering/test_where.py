from __future__ import annotations

import pickle
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_mds import EncodingError, OptionError, WhereError
from beam_mds.filtering.where import Where, parse_where
from beam_mds.format import Columns, EncodedBatch
from tests.helpers.filtering import BATCH, COLUMNS, mask


@pytest.mark.parametrize(
    ('text', 'rows'),
    [
        ("lang == 'en'", '1000'),
        ("'en' == lang", '1000'),
        ("lang != 'en'", '0111'),
        ("lang < 'a'", '0011'),
        ("'a' > lang", '0011'),
        ('lang == lang', '1111'),
        ('n > 1', '0101'),
        ('1 >= n', '1010'),
        ('1 <= n', '1101'),
        ('1 < n', '0101'),
        ('n == m', '0000'),
        ('n > m', '1101'),
        ('1 < n < 4', '0100'),
        ('m < n <= 2 < 3', '1100'),
        ('0 == m != n', '1000'),
        ('big > 9223372036854775807', '0011'),
        ('big == 18446744073709551615', '0001'),
        ('big < 1e30', '1111'),
        ('n < 1.5', '1010'),
        ('m == 300', '0000'),
        ('m > -1', '1111'),
        ('m == True', '0100'),
        ('x == 0', '0010'),
        ('x == x', '1011'),
        ('half == 0.5', '0100'),
        ('half == 0.1', '0000'),
        ('rate >= 2', '0011'),
        ("price > '2'", '0001'),
        ("data > b'a'", '0111'),
        ("json == '[]'", '0100'),
        ("image == b'x'", '0010'),
    ],
)
def test_comparisons(text: str, rows: str) -> None:
    assert mask(text) == rows


@pytest.mark.parametrize(
    ('text', 'rows'),
    [
        ("lang in ['en', 'dé']", '1100'),
        ("lang in ('EN',)", '0010'),
        ("lang in {''}", '0001'),
        ("lang not in ['en']", '0111'),
        ('lang in []', '0000'),
        ('n in [1, -3, 4.0, 2.5, 99999999999]', '1011'),
        ('n not in (1, 2)', '0011'),
        ('m in [True, 2]', '0110'),
        ('x in [0.5, 0, 1e999]', '1011'),
        ("data in [b'b', b'']", '1010'),
        ('n + 1 in [2]', '1000'),
    ],
)
def test_in_a_list_of_literals(text: str, rows: str) -> None:
    assert mask(text) == rows


@pytest.mark.parametrize(
    ('text', 'rows'),
    [
        ("lang == 'en' and n == 1", '1000'),
        ("lang == 'en' or n == 4", '1001'),
        ("not lang == 'en'", '0111'),
        ('not (n == 1 or n == 2) and n != 4', '0010'),
        ('n == 1 or n == 2 and n == 3', '1000'),
        ('n == 1 or n == 2 or n == 4', '1101'),
        ('True', '1111'),
        ('not True', '0000'),
        ('n > 1 and True', '0101'),
        ('False or n > 1', '0101'),
        ('1 < 2 and n > 1', '0101'),
        ('(n > 1) == (m > 1)', '1001'),
        ('(n > 1) == True', '0101'),
    ],
)
def test_conditions_are_combined(text: str, rows: str) -> None:
    assert mask(text) == rows


@pytest.mark.parametrize(
    ('text', 'rows'),
    [
        ('n + 1 == 2', '1000'),
        ('n - m == 1', '1101'),
        ('m - n == -1', '1101'),
        ('n * m == -6', '0010'),
        ('n / 2 == 0.5', '1000'),
        ('n % 2 == 1', '1010'),
        ('n % -2 == -1', '1010'),
        ('-n == 3', '0010'),
        ('-m == -3', '0001'),
        ('-x < 0', '1001'),
        ('-(-n) == n', '1111'),
        ('m * 100 == 300', '0001'),
        ('n * 60 * 60 > 2 * 60 * 60', '0001'),
        ('x * 2 == 1', '1000'),
        ('x + n < 100', '1010'),
        ('(n + m) * 2 == 2', '1000'),
    ],
)
def test_arithmetic(text: str, rows: str) -> None:
    assert mask(text) == rows


@pytest.mark.parametrize(
    ('text', 'rows'),
    [
        ('len(lang) == 2', '1110'),
        ('len(data) == 2', '0100'),
        ('len(tokens) > 2', '0011'),
        ('len(matrix) == 2', '0010'),
        ('len(images) == 1', '0100'),
        ('len(json) == 8', '1000'),
        ("lower(lang) == 'en'", '1010'),
        ("upper(lang) == 'DÉ'", '0100'),
        ("startswith(lang, 'e')", '1000'),
        ("startswith(lower(lang), 'e')", '1010'),
        ("endswith(lang, 'é')", '0100'),
        ("contains(lang, 'n')", '1000'),
        (r"contains(data, b'\xff')", '0100'),
        ("startswith(data, b'a')", '0101'),
        ("matches(lang, '^.n$')", '1000'),
        ("matches(lang, '(?i)n')", '1010'),
        (r"matches(lang, r'\bEN\b')", '0010'),
        (r"matches(data, b'^a.')", '0101'),
        ('abs(n) == 3', '0010'),
        ('abs(m) == 3', '0001'),
        ('abs(x) == 0.5', '1000'),
        ('isnan(x)', '0100'),
        ('isnan(n)', '0000'),
        ("column('a name') > 2", '0011'),
        ("column('n') == n", '1111'),
    ],
)
def test_functions(text: str, rows: str) -> None:
    assert mask(text) == rows


@pytest.mark.parametrize(
    ('text', 'rows'),
    [
        ('m != 0 and n / m > 1', '0101'),
        ('m == 0 or n / m > 1', '1101'),
        ('0 < m < 12 / m', '0111'),
        ('not (m == 0 or not n / m > 1)', '0101'),
        ('m > 5 and n / m > 1', '0000'),
        ('m != 0 and (m == 1 or n / (m - 1) < 0)', '0110'),
    ],
)
def test_what_is_asked_second_is_asked_only_of_the_rows_that_need_it(text: str, rows: str) -> None:
    assert mask(text) == rows


def test_a_column_is_found_by_its_own_letters() -> None:
    columns = {'ﬁ': 'int', 'fi': 'int', 'größe': 'int'}  # Python takes the first two for one name
    batch = pa.record_batch({'ﬁ': [1], 'fi': [2], 'größe': [3]})
    assert parse_where('ﬁ == 1 and fi == 2 and größe == 3', columns).mask(batch).tolist() == [True]


def test_the_smallest_integer_has_an_absolute_value() -> None:
    batch = pa.record_batch({'n': pa.array([-128, 127], pa.int8())})
    assert parse_where('abs(n) == 128', {'n': 'int8'}).mask(batch).tolist() == [True, False]


def test_a_column_may_be_named_like_a_function() -> None:
    batch = pa.record_batch({'len': pa.array(['ab', 'c'], pa.large_string())})
    assert parse_where('len(len) == 1', {'len': 'str'}).mask(batch).tolist() == [False, True]


def test_it_knows_its_columns_and_needs_no_others() -> None:
    where = parse_where("n > 1 and (lang == 'x' or column('a name') == n)", COLUMNS)
    assert where.columns == ['a name', 'lang', 'n']
    assert where.mask(BATCH.select(['n', 'a name', 'lang'])).tolist() == [False, True, False, True]
    with pytest.raises(EncodingError, match=r"column 'lang': the batch has no such column"):
        where.mask(BATCH.select(['n', 'a name']))


def test_a_null_is_an_error() -> None:
    batch = pa.record_batch({'n': pa.array([1, None], pa.int32())})
    with pytest.raises(EncodingError, match="column 'n': the batch has a null: MDS has no nulls"):
        parse_where('n > 1', COLUMNS).mask(batch)


def test_it_is_pickled_as_its_text() -> None:
    where = parse_where("n > 1 and lang != ''", COLUMNS)
    copy = pickle.loads(pickle.dumps(where))
    assert isinstance(copy, Where)
    assert copy.mask(BATCH).tolist() == where.mask(BATCH).tolist()
    assert (copy.columns, copy.text) == (where.columns, where.text)
    assert repr(copy) == """Where("n > 1 and lang != ''")"""
    assert len(pickle.dumps(where)) < 200


def test_other_widths_dictionaries_and_slices_of_a_batch_are_fine() -> None:
    batch = pa.record_batch(
        {
            'lang': pa.array(['x', 'en', 'de']).dictionary_encode(),
            'n': pa.array([9, 1, 2], pa.int64()),
            'tokens': pa.FixedSizeListArray.from_arrays(pa.array(range(6)), 2),
        }
    )
    text = "lang in ['en', 'x'] and n == 1 and len(tokens) == 2"
    assert mask(text, batch) == '010'
    assert mask(text, batch.slice(1)) == '10'
    assert mask(text, batch.slice(0, 0)) == ''


def test_batches_of_a_dataset_are_filtered() -> None:
    columns = Columns({name: COLUMNS[name] for name in ('n', 'lang', 'price', 'half', 'matrix')})
    rows = [
        {
            'half': 0.5,
            'lang': lang,
            'matrix': np.ones((number, 2), np.float32),
            'n': number,
            'price': Decimal(number),
        }
        for number, lang in enumerate(['ä', 'en', 'en'], 1)
    ]
    batch = EncodedBatch(columns, columns.encode_batch(rows)).to_arrow()
    where = parse_where("lang == 'en' and n + half > 2 and len(matrix) == 3", columns.as_dict())
    assert where.mask(batch).tolist() == [False, False, True]
    assert parse_where("price == '2'", columns.as_dict()).mask(batch).tolist() == [0, 1, 0]


NUMBERS = st.recursive(
    st.sampled_from(['a', 'b', 'u', '0', '1', '-2', '3', '2.5', 'len(s)', 'abs(a)']),
    lambda inner: st.one_of(
        st.builds('({} {} {})'.format, inner, st.sampled_from(['+', '-', '*', '/', '%']), inner),
        st.builds('-{}'.format, inner),
    ),
    max_leaves=4,
)
TEXTS = st.sampled_from(['s', "''", "'ab'", "'b'", 'lower(s)', 'upper(s)'])
SIGNS = st.sampled_from(['==', '!=', '<', '<=', '>', '>='])
CONDITIONS = st.recursive(
    st.one_of(
        st.builds('{} {} {}'.format, NUMBERS, SIGNS, NUMBERS),
        st.builds('{} {} {} {} {}'.format, NUMBERS, SIGNS, NUMBERS, SIGNS, NUMBERS),
        st.builds('{} {} {}'.format, TEXTS, SIGNS, TEXTS),
        st.builds('a {} {}'.format, st.sampled_from(['in', 'not in']), st.just('[1, 2.0, -3]')),
        st.builds("{}(s, '{}')".format, st.sampled_from(['startswith', 'contains']), st.just('a')),
    ),
    lambda inner: st.one_of(
        st.builds('({} {} {})'.format, inner, st.sampled_from(['and', 'or']), inner),
        st.builds('not ({})'.format, inner),
    ),
    max_leaves=5,
)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            'a': st.integers(-4, 4),
            'b': st.sampled_from([0.0, -0.0, 0.5, -2.5, float('inf'), float('nan')]),
            's': st.text('aAbB', max_size=3),
            'u': st.integers(0, 3),
        }
    ),
    max_size=5,
)
FUNCTIONS = {
    'contains': lambda text, part: part in text,
    'lower': str.lower,
    'startswith': str.startswith,
    'upper': str.upper,
}
SCHEMA = pa.schema({'a': pa.int64(), 'b': pa.float64(), 's': pa.large_string(), 'u': pa.uint8()})
ENCODINGS = {'a': 'int', 'b': 'float64', 's': 'str', 'u': 'uint8'}


@given(CONDITIONS, ROWS)
def test_the_mask_is_what_python_makes_of_the_same_text(
    text: str, rows: list[dict[str, Any]]
) -> None:
    where = outcome(parse_where, text, ENCODINGS)
    if isinstance(where, OptionError):
        assert 'division by zero' in str(where)  # of literals, for whatever rows
        return
    wanted: list[bool | None] = []
    for row in rows:
        try:
            wanted.append(eval(text, {**FUNCTIONS}, row))
        except ZeroDivisionError:
            wanted.append(None)
    found = outcome(where.mask, pa.RecordBatch.from_pylist(rows, schema=SCHEMA))
    if isinstance(found, WhereError):
        assert found.row is not None
        assert wanted[found.row] is None
    else:
        assert found.tolist() == wanted


def outcome(call: Callable[..., Any], *given: Any) -> Any:
    """What a call gives: its result, or its error."""
    try:
        return call(*given)
    except (OptionError, WhereError) as error:
        return error

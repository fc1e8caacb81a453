from __future__ import annotations

import pickle
from typing import Any

import pytest

from beam_mds import OptionError, WhereError
from beam_mds.filtering.where import parse_where
from tests.helpers.filtering import BATCH, COLUMNS, mask


def refusal(text: str) -> tuple[str, int]:
    """Why a filter is refused, and the place in it, from 0."""
    with pytest.raises(OptionError) as caught:
        parse_where(text, COLUMNS)
    first, line, caret, *_ = str(caught.value).split('\n')
    assert line == '  ' + text
    return first.removeprefix('where: '), caret.index('^') - 2


def test_no_exact_value_is_an_error_with_the_row_the_numbers_and_the_place() -> None:
    for text, row, reason in (
        ('n / m > 1', 0, '1 / 0 is a division by zero'),
        ('x % m > 1', 0, '0.5 % 0 is a division by zero'),
        ('n == 4 and n / (m - 3) > 1', 3, '4 / 0 is a division by zero'),
        ('n * 9223372036854775807 > 1', 1, '2 * 9223372036854775807 needs over 64 bits'),
        ('big + 1 > 1', 2, '9223372036854775808 has no exact int64, which this is computed in'),
        ('big > x', 2, '9223372036854775808 has no exact float64, which this is computed in'),
    ):
        where = parse_where(text, COLUMNS)
        with pytest.raises(WhereError) as caught:
            where.mask(BATCH)
        assert caught.value.row == row
        lines = str(caught.value).split('\n')
        assert lines[:2] == [f'row {row}: where: {reason}', f'  {text}']
        assert lines[2].endswith('^')
        copy = pickle.loads(pickle.dumps(caught.value))
        assert (str(copy), copy.row) == (str(caught.value), row)


@pytest.mark.parametrize(
    ('text', 'reason', 'at'),
    [
        ('mm > 3', "there is no column 'mm': did you mean 'm'?", 0),
        ("n > 1 and langg == 'a'", "there is no column 'langg': did you mean 'lang'?", 10),
        (
            "n > 1 and column('b name') > 1",
            "there is no column 'b name': did you mean 'a name'?",
            10,
        ),
        ("lang == 'é' and q > 1", "there is no column 'q': there are a name, big, data", 16),
        ('lang > 3', 'text cannot be compared with a number', 0),
        ('n == 1 and 3 < data', 'a number cannot be compared with bytes', 11),
        ('n > (m > 1)', 'a number cannot be compared with a condition', 0),
        ('1 < n < lang', 'a number cannot be compared with text', 4),
        ('tokens == tokens', 'a list cannot be compared: only len(x) takes one', 0),
        ("n in ['a']", 'a number cannot be compared with text', 6),
        ('n in m', "`in` takes a list of literals: write a list, like ['en', 'de'], or", 5),
        ("'e' in lang", '`in` takes a list of literals', 7),
        ('n in [1, m]', '`in` takes a list of literals', 9),
        ('3 in [3]', '`in` takes a column first', 0),
        ('tokens in [3]', '`in` takes a column first', 0),
        ('lang', "this is text, not a condition: compare it, like != ''", 0),
        ('data or n > 1', "this is bytes, not a condition: compare it, like != b''", 0),
        ('n > 1 and m', 'this is a number, not a condition: compare it, like != 0', 10),
        ('not tokens', 'this is a list, not a condition', 4),
        ("lang + 'a' == 'ena'", 'this is text: only numbers can be computed with', 0),
        ('n + True > 1', 'this is a condition: only numbers can be computed with', 4),
        ('-lang > 1', 'this is text: only numbers can be computed with', 1),
        ('n / 0 > 1', 'x / 0 is a division by zero', 0),
        ('n > 1 / 0', '1 / 0 is a division by zero', 4),
        ('n + 9223372036854775808 > 1', '9223372036854775808 has no exact int64', 0),
        ('x == 9007199254740993', '9007199254740993 has no exact float64', 0),
        ('lower(n) > 1', 'lower takes a column of texts, not a number', 6),
        ('len(n) > 1', 'len takes a column of texts or bytes or lists, not a number', 4),
        ("len('abc') > 1", 'len takes a column of texts or bytes or lists, not a literal', 4),
        ('abs(lang) > 1', 'abs takes a column of numbers, not text', 4),
        ("startswith(n, 'p')", 'startswith takes a column of texts or bytes, not a number', 11),
        ("startswith(lang, b'p')", 'startswith takes a literal here, of text like the column', 17),
        ("contains(data, 'p')", 'contains takes a literal here, of bytes like the column', 15),
        ('contains(lang, lang)', 'contains takes a literal here, of text like the column', 15),
        ('contains(lang)', 'contains takes a column and a literal', 0),
        ('len(lang, 3) > 1', 'len takes one argument', 0),
        ('len(lang, x=3) > 1', 'len takes one argument', 0),
        ('column(3) > 1', "column takes a name, like column('a name')", 0),
        ("matches(lang, '(')", 'Invalid regular expression: missing ): (', 14),
        (r"matches(lang, '\b')", r"'\b' is a backspace: write r'...'", 14),
        (r"lang == '\ud800'", 'this text has no UTF-8 form', 8),
        (r"contains(lang, '\ud800')", "'utf-8' codec can't encode", 15),
        ('- ' * 61 + 'n > 1', 'more than 60 levels', 120),
        (' + '.join('n' * 100) + ' > 1', 'more than 60 levels', 0),
    ],
)
def test_what_means_nothing_is_refused_with_the_place(text: str, reason: str, at: int) -> None:
    found, place = refusal(text)
    assert found.startswith(reason)
    assert place == at


@pytest.mark.parametrize(
    ('text', 'reason', 'at'),
    [
        ('n &  (m > 1)', 'write `and`, not &', 0),
        ('n | m', 'write `or`, not |', 0),
        ('~n == 1', 'write `not`, not ~', 0),
        ('n is 3', 'write ==, not `is`: there are no nulls', 0),
        ('n is not None', 'write !=, not `is not`: there are no nulls', 0),
        ('n == None', 'there are no nulls', 5),
        ("lang.startswith('e')", 'there are no methods: write lower(x) or startswith', 0),
        ('lang.x == 3', 'there are no methods', 0),
        ('n = 3', 'invalid syntax: write == to compare', 2),
        ('n and', 'invalid syntax', 0),
        ('n > 1 or (m > 2', "'(' was never closed", 9),
        (r"matches(lang, '\d')", r"invalid escape sequence '\d': write r'...', which has none", 15),
        ("open('/etc/passwd')", "there is no function 'open': there are abs, column", 0),
        ("__import__('os').system('id')", 'there are no methods', 0),
        ('startwith(lang, 1)', "there is no function 'startwith': did you mean 'startswith'?", 0),
        ('[n for n in m]', 'this may not stand here', 0),
        ('(lambda: 1)() == n', 'this may not stand here', 1),
        ('n if m else n', 'this may not stand here', 0),
        ('n > 1 and (m := 3)', 'this may not stand here', 11),
        ("f'{n}' == lang", 'this may not stand here', 0),
        ('tokens[0] == 1', 'this may not stand here', 0),
        ('n ** 2 > 1', 'this may not stand here', 0),
        ('n // 2 > 1', 'this may not stand here', 0),
        ('+n > 1', 'this may not stand here', 0),
        ('[1, 2] == n', 'this may not stand here', 0),
        ('n in [*m]', 'this may not stand here', 6),
        ('contains(*lang)', 'contains takes a column and a literal', 0),
        ('n == 1j', '1j is no literal here', 5),
        ('n == ...', 'Ellipsis is no literal here', 5),
    ],
)
def test_what_may_not_stand_there_is_refused_with_what_may(text: str, reason: str, at: int) -> None:
    found, place = refusal(text)
    assert found.startswith(reason)
    if not reason.startswith('invalid'):  # whose place depends on the Python
        assert place == at


def test_a_refusal_reads_like_this() -> None:
    with pytest.raises(OptionError) as caught:
        parse_where("lang == 'en' & n > 100", COLUMNS)
    assert str(caught.value) == (
        'where: write `and`, not &\n'
        "  lang == 'en' & n > 100\n"
        '          ^\n'
        'allowed are:\n'
        "  names of columns (those that are no plain words as column('a name')), literals, ( )\n"
        '  == != < <= > >=, in and not in with a list of literals, and, or, not\n'
        '  + - * / %, abs(x), isnan(x), len(x), lower(x), upper(x)\n'
        "  startswith(x, 'p'), endswith(x, 's'), contains(x, 'part'), "
        "matches(x, r'regular expression')"
    )


def test_the_caret_is_below_its_line() -> None:
    with pytest.raises(OptionError) as caught:
        parse_where("(lang == 'ä'\n  and 'ö' != q)", COLUMNS)
    _, line, caret = str(caught.value).split('\n')
    assert line[caret.index('^')] == 'q'
    with pytest.raises(OptionError) as caught:
        parse_where('(n > 1\n  and m = 1)', COLUMNS)
    assert str(caught.value).split('\n')[1] == '    and m = 1)'
    assert mask('(n > 1\n  and m > 1)') == mask('  n > 1 and m > 1\n') == '0001'


@pytest.mark.parametrize(
    'text', ['', '  ', None, 3, b'n > 1', '\0', '-' * 100_000 + 'n', '(' * 300]
)
def test_what_is_no_expression_is_an_option_error(text: Any) -> None:
    with pytest.raises(OptionError, match='where'):
        parse_where(text, COLUMNS)

from __future__ import annotations

import json
import unicodedata
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from beam_mds.viewing.show import Undecoded, json_value, printable, show_value

IMAGE = Image.new('RGB', (1024, 3))


@given(st.text(st.characters()))
def test_nothing_that_a_terminal_acts_on_is_printable(text: str) -> None:
    kinds = {unicodedata.category(one) for one in printable(text).replace('\n', '')}
    assert not kinds & {'Cc', 'Cs', 'Zl', 'Zp'}
    assert not set(printable(text)) & set('\u202e\u2066\u2069\ufeff')


@pytest.mark.parametrize(
    'text', ['', 'plain', 'Grüße, 世界', 'two\nlines', '👩\u200d💻', 'نمی\u200cش']
)
def test_text_stays_as_it_is(text: str) -> None:
    assert printable(text) == text


def test_what_would_be_acted_on_is_escaped() -> None:
    text = 'a\x1b[31mb\r\x07\x9bc\td\u202ee\ud800f\U000e0001'
    assert printable(text) == r'a\x1b[31mb\r\x07\x9bc\td\u202ee\ud800f\U000e0001'


class Rude:
    def __repr__(self) -> str:
        raise RuntimeError('no')


class Red:
    def __repr__(self) -> str:
        return '\x1b[31m'


@pytest.mark.parametrize(
    ('encoding', 'value', 'shown'),
    [
        ('str', 'two\nlines \x1b[0m', 'two\nlines \\x1b[0m'),
        ('str', '', ''),
        ('str', 'x' * 1000, 'x' * 1000),
        ('str', 'é' * 1234, 'é' * 1000 + ' ... (1,234 characters)'),
        ('str_int', 10**20, '100000000000000000000'),
        ('str_decimal', Decimal('1.50'), '1.50'),
        ('int', -3, '-3'),
        ('uint8', np.uint8(7), '7'),
        ('float32', np.float32(0.1), '0.1'),
        ('float64', np.float64('nan'), 'nan'),
        ('bytes', b'', '0 bytes'),
        ('bytes', b'\x00\xffA', '3 bytes: 00 ff 41'),
        ('bytes', bytes(32), '32 bytes: ' + ' '.join(['00'] * 32)),
        ('bytes', bytes(1033), '1,033 bytes: ' + ' '.join(['00'] * 32) + ' ...'),
        ('ndarray', np.array([[1, 2, 3]], np.int16), 'int16 of shape 1 x 3: 1 2 3'),
        ('ndarray', np.arange(16.0), f'float64 of shape 16: {" ".join(map(str, np.arange(16.0)))}'),
        ('ndarray', np.zeros((2, 1000), 'u1'), 'uint8 of shape 2 x 1,000: ' + '0 ' * 16 + '...'),
        ('json', {'a': [1, 'ä']}, '{\n  "a": [\n    1,\n    "ä"\n  ]\n}'),
        ('json', 'x' * 1000, '"' + 'x' * 999 + ' ... (1,002 characters)'),
        ('json', '\u202e\x9b', r'"\u202e\x9b"'),
        ('json', [], '[]'),
        ('jpeg', IMAGE, 'image 1,024 x 3 RGB'),
        ('list[pil]', [IMAGE] * 2, '2 images\nimage 1,024 x 3 RGB\nimage 1,024 x 3 RGB'),
        ('list[pil]', [], '0 images'),
        ('pkl', 'a string', "'a string'"),
        ('pkl', Red(), r'\x1b[31m'),
        ('pkl', Rude(), 'a Rude'),
        ('pkl', Undecoded(b'x' * 1234, 'it is pickled'), '1,234 bytes, not decoded: it is pickled'),
    ],
)  # fmt: skip
def test_values_are_shown_to_people(encoding: str, value: Any, shown: str) -> None:
    assert show_value(encoding, value) == shown


def test_of_many_images_ten_are_shown() -> None:
    lines = show_value('list[pil]', [IMAGE] * 12).split('\n')
    assert lines == ['12 images', *['image 1,024 x 3 RGB'] * 10, '... 2 more']
    assert len(show_value('list[pil]', [IMAGE] * 12, full=True).split('\n')) == 13
    assert len(show_value('list[pil]', [IMAGE] * 10).split('\n')) == 11


def test_all_is_shown_where_that_is_asked_for() -> None:
    assert show_value('str', 'x' * 1234, full=True) == 'x' * 1234
    assert show_value('bytes', bytes(40), full=True) == '40 bytes: ' + ' '.join(['00'] * 40)
    assert show_value('ndarray', np.arange(40), full=True).endswith(' 38 39')
    assert show_value('json', 'x' * 1234, full=True) == f'"{"x" * 1234}"'
    assert show_value('pkl', 'x' * 1234, full=True) == repr('x' * 1234)


def test_json_of_too_many_levels_is_not_shown() -> None:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    assert show_value('json', value) == 'not shown: more levels than Python has room for'


@pytest.mark.parametrize(
    ('encoding', 'value', 'wanted'),
    [
        ('str', 'x' * 1234, 'x' * 1234),
        ('str', 'two\n\x1b', 'two\n\x1b'),
        ('int', 2**62, 2**62),
        ('str_decimal', Decimal('1.50'), '1.50'),
        ('uint8', np.uint8(7), 7),
        ('float16', np.float16(0.5), 0.5),
        ('float64', np.float64('nan'), 'NaN'),
        ('str_float', float('-inf'), '-Infinity'),
        ('bytes', b'\x00' * 40, {'bytes': 40, 'hex': '00' * 32}),
        (
            'ndarray',
            np.array([[1.5, np.inf]]),
            {'dtype': 'float64', 'shape': [1, 2], 'head': [1.5, 'Infinity']},
        ),
        ('ndarray', np.arange(40), {'dtype': 'int64', 'shape': [40], 'head': list(range(16))}),
        ('json', {'a': [float('nan'), None]}, {'a': ['NaN', None]}),
        ('png', IMAGE, {'format': None, 'mode': 'RGB', 'width': 1024, 'height': 3}),
        ('list[pil]', [IMAGE], [{'format': None, 'mode': 'RGB', 'width': 1024, 'height': 3}]),
        ('pkl', {1: 2}, {'repr': '{1: 2}'}),
        ('pkl', Rude(), {'repr': 'a Rude'}),
        ('pkl', Undecoded(b'abc', 'why'), {'bytes': 3, 'not_decoded': 'why'}),
    ],
)  # fmt: skip
def test_values_become_json(encoding: str, value: Any, wanted: Any) -> None:
    found = json_value(encoding, value)
    assert found == wanted
    assert json.loads(json.dumps(found, allow_nan=False)) == wanted


def test_all_becomes_json_where_that_is_asked_for() -> None:
    assert json_value('bytes', bytes(40), full=True)['hex'] == '00' * 40
    array = np.arange(40).reshape(2, 20)
    assert json_value('ndarray', array, full=True)['values'] == array.tolist()

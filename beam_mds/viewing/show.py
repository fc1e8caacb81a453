"""Values of samples as text for people, and as JSON for scripts; no Beam here."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np

# What is shown of a long value.
_CHARACTERS, _BYTES, _NUMBERS, _IMAGES = 1000, 32, 16, 10

# Characters that are no letters or signs, but belong to text: they join and part letters.
_JOINERS = '\u200c\u200d'


class Undecoded(NamedTuple):
    """A value that was not decoded.

    Attributes:
        data: Its bytes.
        reason: Why.
    """

    data: bytes
    reason: str


def printable(text: str) -> str:
    r"""A text without what a terminal would act on, or show as another text.

    Control characters and marks that turn the direction of writing become escapes; new lines stay.

    Example:
        >>> print(printable('red: \x1b[31m'))
        red: \x1b[31m
    """
    if text.isprintable():
        return text
    return ''.join(
        one
        if one.isprintable() or one == '\n' or one in _JOINERS
        else one.encode('unicode_escape', 'surrogatepass').decode()
        for one in text
    )


def show_value(encoding: str, value: Any, *, full: bool = False) -> str:
    """A decoded value as text for people; of a long one the first part, and how long it is.

    Args:
        encoding: Of its column.
        value: The value, or `Undecoded`.
        full: Show all of it.

    Example:
        >>> show_value('ndarray', np.arange(6, dtype=np.int32).reshape(2, 3))
        'int32 of shape 2 x 3: 0 1 2 3 4 5'
    """
    if isinstance(value, Undecoded):
        return f'{len(value.data):,} bytes, not decoded: {value.reason}'
    if encoding == 'pkl':
        return _cut(_repr(value), full)
    if encoding == 'json':
        return _cut(printable(_json_text(value)), full)
    if isinstance(value, str):
        return _cut(printable(value), full)
    if isinstance(value, bytes):
        more = '' if full or len(value) <= _BYTES else ' ...'
        shown = value if full else value[:_BYTES]
        return f'{len(value):,} bytes: {shown.hex(" ")}{more}'.removesuffix(': ')
    if isinstance(value, np.ndarray):
        shape = ' x '.join(f'{side:,}' for side in value.shape)
        numbers = value.reshape(-1) if full else value.reshape(-1)[:_NUMBERS]
        more = ' ...' if len(numbers) < value.size else ''
        return f'{value.dtype} of shape {shape}: {" ".join(map(str, numbers))}{more}'
    if isinstance(value, list):
        lines = list(map(_image_text, value))
        if not full and len(lines) > _IMAGES:
            lines[_IMAGES:] = [f'... {len(value) - _IMAGES:,} more']
        return '\n'.join([f'{len(value):,} images', *lines])
    if isinstance(value, (int, float, Decimal, np.number)):
        return str(value)
    return _image_text(value)


def json_value(encoding: str, value: Any, *, full: bool = False) -> Any:
    """A decoded value as what JSON holds; texts whole, of long bytes and arrays the first part.

    Numbers that JSON has not (nan, infinity) become texts.

    Args:
        encoding: Of its column.
        value: The value, or `Undecoded`.
        full: Give all of it.
    """
    if isinstance(value, Undecoded):
        return {'bytes': len(value.data), 'not_decoded': value.reason}
    if encoding == 'pkl':
        return {'repr': _repr(value)}
    if encoding == 'json':
        return _finite(value)
    if isinstance(value, bytes):
        return {'bytes': len(value), 'hex': (value if full else value[:_BYTES]).hex()}
    if isinstance(value, np.ndarray):
        values = _finite((value if full else value.reshape(-1)[:_NUMBERS]).tolist())
        name = 'values' if full else 'head'
        return {'dtype': str(value.dtype), 'shape': list(value.shape), name: values}
    if isinstance(value, list):
        return [_image_fields(image) for image in value]
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, (str, int, float, np.number)):
        return _finite(value.item() if isinstance(value, np.number) else value)
    return _image_fields(value)


def _json_text(value: Any) -> str:
    try:
        return json.dumps(value, indent=2, ensure_ascii=False)
    except RecursionError:
        return 'not shown: more levels than Python has room for'


def _cut(text: str, full: bool) -> str:
    if full or len(text) <= _CHARACTERS:
        return text
    return f'{text[:_CHARACTERS]} ... ({len(text):,} characters)'


def _repr(value: Any) -> str:
    try:
        return printable(repr(value))
    except Exception:  # noqa: BLE001 - a value's own __repr__ may raise anything
        return f'a {type(value).__name__}'


def _image_fields(image: Any) -> dict[str, Any]:
    return {
        'format': image.format,
        'mode': image.mode,
        'width': image.width,
        'height': image.height,
    }


def _image_text(image: Any) -> str:
    return f'{image.format or "image"} {image.width:,} x {image.height:,} {image.mode}'


def _finite(value: Any) -> Any:
    """The value with texts for numbers that JSON has not: NaN, Infinity, -Infinity."""
    return json.loads(json.dumps(value), parse_constant=str)

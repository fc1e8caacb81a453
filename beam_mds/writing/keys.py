"""What a key is hashed by."""

from __future__ import annotations

from typing import Any

import numpy as np

from beam_mds.errors import OptionError
from beam_mds.format.encodings.base import describe, plain

# What a key function may return: values whose repr() is the same in every process.
_KEY_TYPES = (str, bytes, int, float, bool, type(None))


def key_bytes(key: Any) -> bytes:
    """The bytes that stand for a key, the same in every process.

    Raises:
        OptionError: It has no such bytes: it is not str, bytes, int, float, bool, None or a tuple
            of them.
    """
    items = tuple(map(plain_key, key)) if isinstance(key, tuple) else (plain_key(key),)
    if not all(isinstance(item, _KEY_TYPES) for item in items):
        raise OptionError(
            f'the key function returned {describe(key)}: expected str, bytes, int, float, bool, '
            'None, or a tuple of them'
        )
    return repr(items if isinstance(key, tuple) else items[0]).encode('utf-8', 'surrogatepass')


def plain_key(value: Any) -> Any:
    """The Python value of a numpy or Arrow scalar."""
    return value.item() if isinstance(value, np.generic) else plain(value)

"""A small value of every encoding with the bytes that MDSWriter gives for it.

Made with mosaicml-streaming 0.13.0:

    from streaming.base.format.mds.encodings import mds_encode
    for encoding, value, _ in GOLDEN:
        print(encoding, mds_encode(encoding, value()).hex())

tests/interop does the same again where that library is installed.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
from PIL import Image


def _pixels() -> Image.Image:
    image = Image.new('RGB', (2, 1), (1, 2, 3))
    image.putpixel((1, 0), (4, 5, 6))
    return image


def _gray() -> Image.Image:
    return Image.new('L', (1, 1), 9)


# Encoding, what makes the value, hex of its bytes.
GOLDEN: list[tuple[str, Callable[[], Any], str]] = [
    ('bytes', lambda: b'\x00\xff', '00ff'),
    ('str', lambda: 'hé€', '68c3a9e282ac'),
    ('int', lambda: -2, 'feffffffffffffff'),
    ('uint8', lambda: 200, 'c8'),
    ('uint16', lambda: 258, '0201'),
    ('uint32', lambda: 2**32 - 2, 'feffffff'),
    ('uint64', lambda: 2**64 - 2, 'feffffffffffffff'),
    ('int8', lambda: -3, 'fd'),
    ('int16', lambda: -300, 'd4fe'),
    ('int32', lambda: -70000, '90eefeff'),
    ('int64', lambda: -(2**63), '0000000000000080'),
    ('float16', lambda: 1.5, '003e'),
    ('float32', lambda: 0.1, 'cdcccc3d'),
    ('float64', lambda: 0.1, '9a9999999999b93f'),
    ('str_int', lambda: -(10**20), '2d313030303030303030303030303030303030303030'),
    ('str_float', lambda: 0.1, '302e31'),
    ('str_decimal', lambda: Decimal('1.50'), '312e3530'),
    ('ndarray', lambda: np.array([[1, 2, 3]], np.int16), '11080103010002000300'),
    ('ndarray:float32', lambda: np.array([1.5], np.float32), '04010000c03f'),
    ('ndarray:uint8:2,2', lambda: np.array([[1, 2], [3, 4]], np.uint8), '01020304'),
    ('ndarray:uint8', lambda: np.zeros(300, np.uint8), '052c01' + '00' * 300),
    ('pil', _pixels, '020000000100000003000000524742010203040506'),
    ('jpeg', lambda: b'\xff\xd8x', 'ffd878'),
    ('png', lambda: b'\x89PNG', '89504e47'),
    ('jpeg_array', lambda: [b'ab', b'c'], '020000000200000001000000616263'),
    ('jpegarray', lambda: [b'ab'], '01000000020000006162'),
    (
        'list[pil]',
        lambda: [_gray(), _gray()],
        '00000000020000000e0000000e0000000100000001000000010000004c090100000001000000010000004c09',
    ),
    ('list[jpeg]', list, '0000000000000000'),
    ('list[png]', list, '0000000000000000'),
    ('pkl', lambda: {'a': [1, None]}, '8004950f000000000000007d948c0161945d94284b014e65732e'),
    (
        'json',
        lambda: {'b': [1, 2.5, 'é', None, True], 'a': {}},
        b'{"b": [1, 2.5, "\\u00e9", null, true], "a": {}}'.hex(),
    ),
]

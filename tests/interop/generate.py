"""Samples for the judge: seeded, of varied shapes, with extremes and text of many scripts."""

from __future__ import annotations

import io
import random
import string
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
from PIL import Image

Make = Callable[[random.Random], Any]

# Modes that Pillow writes raw, as PNG and as JPEG.
_PIL_MODES = ('1', 'L', 'LA', 'RGB', 'RGBA', 'CMYK', 'YCbCr', 'HSV', 'F', 'I', 'I;16')
_PNG_MODES = ('1', 'L', 'LA', 'P', 'RGB', 'RGBA', 'I;16')
_JPEG_MODES = ('L', 'RGB', 'CMYK', 'YCbCr')

_ALPHABET = string.printable + 'äßçλЖשع中文字ไทย한😀👩‍👩‍👧\u0000\u202e\ufffe\U0010ffff'


def values(make: Make, count: int, seed: int = 0) -> list[Any]:
    """Values of a generator; the same ones every time."""
    rng = random.Random(seed)
    return [make(rng) for _ in range(count)]


def text(rng: random.Random) -> str:
    """Text of 0 to 300 characters, mostly short."""
    return ''.join(rng.choices(_ALPHABET, k=rng.choice((0, 1, 5, 20, 300))))


def data(rng: random.Random) -> bytes:
    """Bytes, of 0 to 2000."""
    return rng.randbytes(rng.choice((0, 1, 10, 255, 256, 2000)))


def integer(bits: int, signed: bool) -> Make:
    """Integers of a type: its ends, small ones, any."""
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)

    def make(rng: random.Random) -> int:
        return rng.choice((low, high, 0, 1, rng.randint(low, high), high // 2))

    return make


def number(rng: random.Random) -> float:
    """Floats: of any bit pattern that is no NaN, zeros, infinities, subnormal ones."""
    (any_bits,) = struct.unpack('<d', rng.randbytes(8))
    some = (0.0, -0.0, 0.1, float('inf'), -float('inf'), 5e-324, 1e300, rng.uniform(-9, 9))
    return rng.choice((*some, any_bits if any_bits == any_bits else 1.0))


def small_number(rng: random.Random) -> float:
    """Floats that float16 rounds to something finite."""
    return rng.choice((0.0, -0.0, float('inf'), float('nan'), 1e-7, 65504.0, rng.uniform(-9, 9)))


def decimal(rng: random.Random) -> Decimal:
    """Decimals of up to 40 digits, with trailing zeros and exponents."""
    some = ('0', '-0', '1.50', '1E+5', 'NaN', 'Infinity', '-1E-999')
    digits = tuple(rng.randrange(10) for _ in range(rng.randint(1, 40)))
    return rng.choice((Decimal(rng.choice(some)), Decimal((rng.randrange(2), digits, -7))))


def array(dtype: str | None = None, shape: tuple[int, ...] | None = None) -> Make:
    """Arrays: of any memory layout, and any type and shape where they are not given."""
    kinds = ('u1', 'i1', 'u2', 'i2', 'f2', 'u4', 'i4', 'f4', 'u8', 'i8', 'f8')

    def make(rng: random.Random) -> Any:
        kind = np.dtype(dtype or rng.choice(kinds))
        sides = shape or rng.choice(
            ((1,), (7,), (255,), (256,), (3, 2), (2, 1, 4), (1,) * 9, (300, 1))
        )
        size = int(np.prod(sides))
        made = np.frombuffer(rng.randbytes(size * kind.itemsize), kind).reshape(sides)
        layout = rng.randrange(4)
        if layout == 1:
            return np.asfortranarray(made)
        if layout == 2:
            return np.repeat(made, 2, axis=0)[::2]
        return made[::-1] if layout == 3 else made

    return make


def image(modes: tuple[str, ...]) -> Make:
    """Small images of random pixels."""

    def make(rng: random.Random) -> Image.Image:
        mode = rng.choice(modes)
        size = (rng.randint(1, 9), rng.randint(1, 9))
        made = Image.new(mode, size)
        if mode == 'F':  # no NaN
            made.putdata([rng.uniform(-1, 1) for _ in range(size[0] * size[1])])
            return made
        made.frombytes(rng.randbytes(len(made.tobytes())))
        if mode == 'P':
            made.putpalette(rng.randbytes(768))
        return made

    return make


def image_file(kind: str) -> Make:
    """The bytes of an image file."""
    pixels = image(('RGB', 'L'))

    def make(rng: random.Random) -> bytes:
        out = io.BytesIO()
        pixels(rng).save(out, kind)
        return out.getvalue()

    return make


def several(item: Make, least: int = 0) -> Make:
    """Lists of up to four items."""
    return lambda rng: [item(rng) for _ in range(rng.randint(least, 4))]


def json_value(rng: random.Random, depth: int = 3) -> Any:
    """JSON: dicts, lists, texts, numbers, booleans; null only inside."""
    kind = rng.randrange(8 if depth else 5)
    if kind > 5:
        return {text(rng): _json_item(rng, depth) for _ in range(rng.randrange(4))}
    if kind > 4:
        return [_json_item(rng, depth) for _ in range(rng.randrange(4))]
    return rng.choice((text(rng), rng.randint(-(10**30), 10**30), rng.uniform(-9, 9), True, 1e300))


def _json_item(rng: random.Random, depth: int) -> Any:
    return rng.choice((None, json_value(rng, depth - 1)))


def any_object(rng: random.Random) -> Any:
    """Things for pickle whose bytes do not depend on the library or the process."""
    plain = (json_value(rng), data(rng) or 0, complex(1, 2), range(3), frozenset({1, 2}))
    return {'value': rng.choice(plain), 'pair': (rng.random(), text(rng)), 1: decimal(rng)}


# What is compared byte for byte: test name -> encoding, generator.
CASES: dict[str, tuple[str, Make]] = {
    'bytes': ('bytes', data),
    'str': ('str', text),
    'int': ('int', integer(64, signed=True)),
    **{f'uint{bits}': (f'uint{bits}', integer(bits, signed=False)) for bits in (8, 16, 32, 64)},
    **{f'int{bits}': (f'int{bits}', integer(bits, signed=True)) for bits in (8, 16, 32, 64)},
    'float16': ('float16', small_number),
    'float32': ('float32', small_number),
    'float64': ('float64', number),
    'str_int': ('str_int', lambda rng: rng.randint(-(10 ** rng.randrange(1, 99)), 10**30)),
    'str_float': ('str_float', lambda rng: rng.choice((number(rng), float('nan')))),
    'str_decimal': ('str_decimal', decimal),
    'ndarray': ('ndarray', array()),
    'ndarray:float16': ('ndarray:float16', array('f2')),
    'ndarray:int32 of vectors': (
        'ndarray:int32',
        lambda rng: array('i4', (rng.choice((3, 999)),))(rng),
    ),
    'ndarray:int8 of one shape': ('ndarray:int8', array('i1', (5, 2))),
    'ndarray:uint8 of long vectors': (
        'ndarray:uint8',
        lambda rng: np.full(rng.choice((255, 256, 65535, 65536, 70000)), rng.randrange(256), 'u1'),
    ),
    'ndarray:uint64:7': ('ndarray:uint64:7', array('u8', (7,))),
    'ndarray:float64:2,1,3': ('ndarray:float64:2,1,3', array('f8', (2, 1, 3))),
    'pil': ('pil', image(_PIL_MODES)),
    'jpeg of files': ('jpeg', image_file('JPEG')),
    'jpeg of images': ('jpeg', image(_JPEG_MODES)),
    'png of files': ('png', image_file('PNG')),
    'png of images': ('png', image(_PNG_MODES)),
    'jpeg_array': ('jpeg_array', several(image_file('JPEG'), least=1)),
    'jpegarray': ('jpegarray', several(image_file('JPEG'), least=1)),
    'list[pil]': ('list[pil]', several(image(_PIL_MODES))),
    'list[jpeg]': ('list[jpeg]', several(image(_JPEG_MODES))),
    'list[png]': ('list[png]', several(image(_PNG_MODES))),
    'pkl': ('pkl', any_object),
    'json': ('json', json_value),
}

# Whose bytes are made by Pillow's codecs, and so differ between its versions.
NEED_SAME_CODECS = ('jpeg of images', 'png of images', 'list[jpeg]', 'list[png]')

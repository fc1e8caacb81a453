from __future__ import annotations

import io
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image, ImageDraw

from beam_mds.errors import FormatError, MissingExtraError
from beam_mds.format import Columns, get_encoding
from tests.format.helpers import (
    arrow_error_of,
    encode_arrow,
    encode_each,
    encode_list,
    error_of,
    round_trip,
)
from tests.helpers.memory import peak_of

FILES = ('jpeg', 'png', 'pil')
LISTS = ('list[pil]', 'list[jpeg]', 'list[png]', 'jpeg_array', 'jpegarray')


def picture(mode: str = 'RGB', seed: int = 0) -> Image.Image:
    pixels = np.random.default_rng(seed).integers(0, 255, (16, 24, 3), dtype=np.uint8)
    return Image.fromarray(pixels).convert(mode)


def saved(image: Image.Image, kind: str = 'JPEG', **how: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, kind, **how)
    return out.getvalue()


# At another quality than a new encoding would have, so that it is seen when it was made anew.
SOURCE = saved(picture(), quality=97)


@pytest.mark.parametrize('encoding', FILES)
def test_bytes_stay_as_they_are_from_every_kind_of_bytes(encoding: str) -> None:
    values = [b'\xff\xd8x', bytearray(b'y'), memoryview(b'z'), pa.scalar(b'w')]
    made = [b'\xff\xd8x', b'y', b'z', b'w']

    assert encode_list(encoding, values) == encode_each(encoding, values) == made
    assert encode_list(encoding, made) == made
    for kind in (pa.binary(), pa.large_binary(), pa.binary_view()):
        assert encode_arrow(encoding, pa.array([b'', *made], kind).slice(1)) == made
        assert encode_arrow(encoding, pa.chunked_array([made[:1], made[1:]], kind)) == made


def test_a_jpeg_image_keeps_the_bytes_of_its_file(tmp_path: Path) -> None:
    path = tmp_path / 'source.jpg'
    path.write_bytes(SOURCE)

    with Image.open(path) as image:
        assert encode_list('jpeg', [image]) == [SOURCE]
        image.load()
        assert encode_list('jpeg', [image]) == [SOURCE]
    with Image.open(path) as image:
        pass  # closed, and never loaded
    assert encode_list('jpeg', [image]) == [SOURCE]


def test_a_jpeg_image_keeps_the_bytes_of_its_stream_until_it_is_loaded() -> None:
    stream = io.BytesIO(SOURCE)
    image = Image.open(stream)
    at = stream.tell()

    assert encode_list('jpeg', [image, image]) == [SOURCE, SOURCE]
    assert encode_list('list[jpeg]', [[image]])[0].endswith(SOURCE)
    assert stream.tell() == at
    image.load()  # Pillow lets go of the stream: nothing is left but the pixels
    assert encode_list('jpeg', [image]) == [saved(image)]


def test_a_jpeg_image_whose_file_is_gone_keeps_its_bytes_while_it_is_open(tmp_path: Path) -> None:
    path = tmp_path / 'source.jpg'
    path.write_bytes(SOURCE)

    with Image.open(path) as image:
        path.unlink()
        assert encode_list('jpeg', [image]) == [SOURCE]
        image.load()
        assert encode_list('jpeg', [image]) == [saved(image)]


def test_a_jpeg_image_whose_file_is_another_one_now_is_encoded_anew(tmp_path: Path) -> None:
    path = tmp_path / 'source.jpg'
    path.write_bytes(SOURCE)
    with Image.open(path) as image:
        image.load()
        path.write_bytes(saved(picture(seed=1)))
        assert encode_list('jpeg', [image]) == [saved(image)]


def test_a_jpeg_image_that_was_drawn_on_or_resized_is_encoded_anew(tmp_path: Path) -> None:
    path = tmp_path / 'source.jpg'
    path.write_bytes(SOURCE)

    with Image.open(path) as image:
        ImageDraw.Draw(image).line([(0, 0), (9, 9)], (255, 0, 0))
        assert encode_list('jpeg', [image]) == [saved(image)]
    with Image.open(path) as image:
        image.thumbnail((8, 8))
        assert encode_list('jpeg', [image]) == [saved(image)]
    with Image.open(path) as image:
        image.draft('L', (8, 8))
        drafted = get_encoding('jpeg').encode(image)
        assert Image.open(io.BytesIO(drafted)).size == image.size


@pytest.mark.parametrize('mode', ['1', 'L', 'RGB', 'CMYK', 'YCbCr'])
def test_an_image_becomes_a_jpeg_of_its_size(mode: str) -> None:
    image = picture(mode)

    back = round_trip('jpeg', image)

    assert (back.format, back.size) == ('JPEG', image.size)
    assert encode_list('jpeg', [image]) == [saved(image)]


@pytest.mark.parametrize('mode', ['1', 'L', 'LA', 'P', 'RGB', 'RGBA'])
def test_an_image_comes_back_from_png_pixel_by_pixel(mode: str) -> None:
    image = picture(mode)

    back = round_trip('png', image)

    assert (back.format, back.mode, back.size) == ('PNG', mode, image.size)
    assert back.tobytes() == image.tobytes()
    assert back.getpalette() == image.getpalette()


@pytest.mark.parametrize('mode', ['1', 'L', 'LA', 'RGB', 'RGBA', 'CMYK', 'YCbCr', 'HSV', 'F', 'I'])
def test_an_image_comes_back_from_pil_pixel_by_pixel(mode: str) -> None:
    image = picture(mode)

    back = round_trip('pil', image)

    assert (back.mode, back.size, back.tobytes()) == (mode, image.size, image.tobytes())


def test_a_png_file_that_was_opened_comes_back_from_pil() -> None:
    image = Image.open(io.BytesIO(saved(picture('RGBA'), 'PNG')))

    assert round_trip('pil', image).tobytes() == picture('RGBA').tobytes()


@pytest.mark.parametrize(
    ('encoding', 'value', 'reason'),
    [
        ('jpeg', picture('RGBA'), 'PIL image of mode RGBA cannot be saved as JPEG: cannot write'),
        ('jpeg', picture('P'), 'PIL image of mode P cannot be saved as JPEG'),
        ('jpeg', 5, 'int 5 is neither a PIL image nor bytes of an image file'),
        ('jpeg', np.zeros((2, 2)), 'numpy.ndarray of dtype float64 and shape (2, 2) is neither'),
        ('png', picture('F'), 'PIL image of mode F cannot be saved as PNG'),
        (
            'png',
            picture('I'),
            "PIL image of mode I: PNG has no 32-bit pixels, use .convert('I;16')",
        ),
        ('png', 'a.png', "str 'a.png' is neither a PIL image nor bytes of an image file"),
        ('pil', picture('P'), 'PIL image of mode P: its palette would be lost'),
        ('pil', [1], 'list [1] is neither a PIL image nor bytes'),
        ('list[jpeg]', b'x', "bytes b'x' is not a list of images"),
        ('list[png]', [picture(), 5], 'int 5 is neither a PIL image nor bytes'),
        ('list[pil]', [None], 'the value is None (null)'),
        ('jpeg_array', [], 'list [] has no image: the reader refuses an empty jpeg_array'),
        ('jpegarray', [picture()], 'is not bytes of a JPEG file'),
        ('jpeg_array', [b'a', None], 'the value is None (null)'),
    ],
)
def test_an_image_that_does_not_fit_is_an_error_with_the_reason(
    encoding: str, value: Any, reason: str
) -> None:
    assert reason in error_of(encoding, value)


def test_arrow_text_in_an_image_column_is_refused() -> None:
    assert 'is neither a PIL image' in arrow_error_of('jpeg', pa.array(['a'])).reason


@pytest.mark.parametrize('encoding', LISTS)
def test_lists_hold_bytes_of_images_and_come_back_in_order(encoding: str) -> None:
    kind = {'list[pil]': None, 'list[png]': 'PNG'}.get(encoding, 'JPEG')
    files = [
        saved(picture(seed=seed), kind) if kind else get_encoding('pil').encode(picture(seed=seed))
        for seed in range(3)
    ]
    values = [files, files[:1], tuple(files[::-1])]

    made = encode_list(encoding, values)

    assert made == encode_arrow(encoding, pa.array([list(value) for value in values]))
    back = get_encoding(encoding).decode(made[2])
    items = [get_encoding(kind.lower() if kind else 'pil').decode(item) for item in files[::-1]]
    assert [image.tobytes() for image in back] == [image.tobytes() for image in items]


@pytest.mark.parametrize('encoding', ['list[pil]', 'list[jpeg]', 'list[png]'])
def test_a_list_without_images_comes_back(encoding: str) -> None:
    assert round_trip(encoding, []) == []


@pytest.mark.parametrize('encoding', [*FILES, *LISTS])
def test_damaged_images_are_a_format_error_that_names_the_column(encoding: str) -> None:
    columns = Columns({'a': encoding})

    for data in (b'', b'x', b'\x09\0\0\0' * 4):
        with pytest.raises(FormatError, match=r"column 'a' \(.*\): \d+ bytes do not decode"):
            columns.decode_sample(len(data).to_bytes(4, 'little') + data)


@pytest.mark.parametrize('mode', [b'1', b'L', b'RGB', b'F', b'I;16'])
def test_pixels_that_are_not_there_take_no_memory(mode: bytes) -> None:
    columns = Columns({'a': 'pil'})
    value = struct.pack('<III', 20_000, 20_000, len(mode)) + mode + bytes(1000)

    def decode() -> None:
        with pytest.raises(FormatError, match=r'20000 x 20000 pixels of mode .* need \d+ bytes'):
            columns.decode_sample(len(value).to_bytes(4, 'little') + value)

    assert peak_of(decode) < 8 << 20


_WITHOUT_PILLOW = """
import sys
sys.modules['PIL'] = None
import beam_mds.format as format
from beam_mds.errors import EncodingError, FormatError, MissingExtraError

for encoding in ('jpeg', 'png', 'pil', 'list[jpeg]', 'jpeg_array'):
    columns = format.Columns({'a': encoding})
    several = 'list' in encoding or 'array' in encoding
    data = columns.encode_sample({'a': [b'x'] if several else b'x'})
    if encoding != 'jpeg_array':
        try:
            columns.encode_sample({'a': [object()] if several else object()})
        except MissingExtraError as error:
            assert 'beam_mds[images]' in str(error), error
        else:
            raise SystemExit(f'{encoding} encodes without Pillow')
    if encoding == 'pil':
        data = columns.encode_sample({'a': bytes([1, 0, 0, 0] * 3) + b'Lx'})
    try:
        columns.decode_sample(data)
    except MissingExtraError as error:
        assert isinstance(error, ImportError)
    else:
        raise SystemExit(f'{encoding} decodes without Pillow')
    try:
        columns.encode_sample({'a': None})
    except EncodingError as error:
        assert 'the value is None' in str(error), error
print('all right')
"""


def test_images_without_pillow_are_an_error_that_names_the_extra() -> None:
    done = subprocess.run(
        [sys.executable, '-c', _WITHOUT_PILLOW], capture_output=True, text=True, check=False
    )

    assert (done.stdout, done.stderr) == ('all right\n', '')
    assert issubclass(MissingExtraError, ImportError)

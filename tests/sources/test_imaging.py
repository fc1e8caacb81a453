"""Tests of the checks and changes of one image file."""

from __future__ import annotations

import io
import pickle
import struct
import sys
import zlib
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageCms
from PIL.PngImagePlugin import PngInfo

from beam_mds import (
    ImageError,
    ImageOptions,
    MissingExtraError,
    OptionError,
    check_image,
    process_image,
)
from beam_mds.sources.exif import without_exif
from beam_mds.sources.image_options import MAX_PIXELS
from beam_mds.sources.imaging import resized

_FILTERS = {
    'nearest': Image.Resampling.NEAREST,
    'area': Image.Resampling.BOX,
    'bilinear': Image.Resampling.BILINEAR,
    'bicubic': Image.Resampling.BICUBIC,
    'lanczos': Image.Resampling.LANCZOS,
}

# Orientation -> what makes the stored pixels upright: (columns reversed, rows reversed, then
# transposed). EXIF 2.3, tag 274.
_UPRIGHT = {
    1: lambda a: a,
    2: lambda a: a[:, ::-1],
    3: lambda a: a[::-1, ::-1],
    4: lambda a: a[::-1],
    5: lambda a: a.swapaxes(0, 1),
    6: lambda a: a[::-1].swapaxes(0, 1),
    7: lambda a: a[::-1, ::-1].swapaxes(0, 1),
    8: lambda a: a[:, ::-1].swapaxes(0, 1),
}


def noise(width: int, height: int, bands: int = 3, seed: int = 0) -> np.ndarray:
    shape = (height, width, bands) if bands > 1 else (height, width)
    return np.random.default_rng(seed).integers(0, 256, shape, np.uint8)


def saved(image: Image.Image, kind: str = 'PNG', **how: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, kind, **how)
    return out.getvalue()


def png(width: int = 12, height: int = 9, **how: Any) -> bytes:
    return saved(Image.fromarray(noise(width, height)), **how)


def jpeg(width: int = 40, height: int = 30, **how: Any) -> bytes:
    return saved(Image.fromarray(noise(width, height)), 'JPEG', **how)


def pixels(data: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image)


def exif_of(data: bytes) -> dict[int, Any]:
    with Image.open(io.BytesIO(data)) as image:
        return dict(image.getexif())


def exif(orientation: int) -> Image.Exif:
    made = Image.Exif()
    made[0x0112] = orientation
    made[0x010F] = 'a camera'
    return made


def refusal(data: bytes, **options: Any) -> ImageError:
    with pytest.raises(ImageError) as caught:
        process_image(data, ImageOptions(**options))
    return caught.value


def reference(image: Image.Image, options: ImageOptions) -> Image.Image:
    """What the definition of the modes says, for an image in mode L or RGB."""
    width, height = image.size
    size = options.size
    if size is None:
        return image
    smaller = options.resize_mode in ('keep_ratio', 'center_crop')
    side = min(width, height) if smaller else max(width, height)
    if options.resize_only_if_bigger and side <= size:
        return image
    scale = Fraction(size, side)
    wide, high = (max(1, round(length * scale)) for length in (width, height))
    if options.resize_mode == 'fixed':
        wide = high = size
    how = options.downscale_interpolation if side > size else options.upscale_interpolation
    if (wide, high) != (width, height):
        image = image.resize((wide, high), _FILTERS[how])
    array = np.asarray(image)
    if options.resize_mode == 'center_crop':
        top, left = (high - size) // 2, (wide - size) // 2
        array = array[top : top + size, left : left + size]
    elif options.resize_mode == 'border':
        rows, columns = size - high, size - wide
        bars = [(rows // 2, rows - rows // 2), (columns // 2, columns - columns // 2)]
        array = np.pad(
            array, bars + [(0, 0)] * (array.ndim - 2), constant_values=options.border_value
        )
    return Image.fromarray(array)


@settings(deadline=None, max_examples=300)
@given(
    width=st.integers(1, 40),
    height=st.integers(1, 40),
    bands=st.sampled_from([1, 3]),
    size=st.integers(1, 50),
    mode=st.sampled_from(
        ['keep_ratio', 'keep_ratio_largest', 'center_crop', 'border', 'fixed', 'no']
    ),
    only=st.booleans(),
    down=st.sampled_from(sorted(_FILTERS)),
    up=st.sampled_from(sorted(_FILTERS)),
    value=st.sampled_from([0, 77, 255]),
)
def test_every_mode_gives_the_pixels_of_its_definition(
    width: int,
    height: int,
    bands: int,
    size: int,
    mode: str,
    only: bool,
    down: str,
    up: str,
    value: int,
) -> None:
    resize = mode != 'no'
    options = ImageOptions(
        size if resize else None,
        mode,
        only and resize,
        downscale_interpolation=down,
        upscale_interpolation=up,
        border_value=value,
        skip_reencode=False,
    )
    image = Image.fromarray(noise(width, height, bands))
    result = process_image(saved(image), options)
    expected = np.asarray(reference(image, options))
    np.testing.assert_array_equal(pixels(result.data), expected)
    assert (result.height, result.width) == expected.shape[:2]
    assert (result.original_width, result.original_height) == (width, height)


def test_the_modes_on_one_picture_of_640_by_480() -> None:
    sizes = {
        mode: resized(640, 480, ImageOptions(240, mode))
        for mode in ('keep_ratio', 'keep_ratio_largest', 'center_crop', 'border', 'fixed')
    }
    assert sizes == {
        'keep_ratio': ((320, 240), (320, 240), True),
        'keep_ratio_largest': ((240, 180), (240, 180), True),
        'center_crop': ((320, 240), (240, 240), True),
        'border': ((240, 180), (240, 240), True),
        'fixed': ((240, 240), (240, 240), True),
    }
    assert resized(640, 480, ImageOptions(480, 'keep_ratio')).bigger is False


@pytest.mark.parametrize('mode', ['keep_ratio', 'center_crop', 'border', 'fixed'])
def test_an_image_that_is_not_bigger_keeps_its_bytes_with_resize_only_if_bigger(mode: str) -> None:
    data = png(20, 10)
    small = ImageOptions(20, mode, resize_only_if_bigger=True)
    assert process_image(data, small).data == data
    assert process_image(data, ImageOptions(9, mode, resize_only_if_bigger=True)).data != data


def test_nothing_to_do_keeps_the_bytes_of_any_format() -> None:
    for data, kind in ((jpeg(), 'jpg'), (png(), 'png'), (as_gif(), 'gif')):
        result = process_image(data, ImageOptions())
        assert result.data is data
        assert result.format == kind
    square = png(16, 16)
    assert process_image(square, ImageOptions(16, 'center_crop')).data is square


def as_gif() -> bytes:
    return saved(Image.fromarray(noise(8, 8)).convert('P'), 'GIF')


def test_a_jpeg_is_encoded_anew_only_when_that_is_asked_for() -> None:
    data = jpeg()
    assert process_image(data, ImageOptions(encode_format='jpg')).data is data
    anew = process_image(data, ImageOptions(encode_format='jpg', skip_reencode=False)).data
    assert anew != data
    with Image.open(io.BytesIO(data)) as source:
        assert anew == saved(source, 'JPEG', quality=95)


def test_a_format_quality_and_compression_level_are_what_pillow_writes_for_them() -> None:
    image = Image.fromarray(noise(20, 20))
    data = saved(image, 'BMP')

    def encoded(kind: str, quality: int | None = None) -> bytes:
        return process_image(data, ImageOptions(encode_format=kind, encode_quality=quality)).data

    assert encoded('jpg') == saved(image, 'JPEG', quality=95)
    assert encoded('jpg', 40) == saved(image, 'JPEG', quality=40)
    assert encoded('png', 1) == saved(image, compress_level=1)
    assert encoded('webp', 60) == saved(image, 'WEBP', quality=60)


def test_a_changed_image_keeps_its_format_or_becomes_png() -> None:
    small = ImageOptions(5, 'fixed')
    kinds = {
        kind: process_image(saved(Image.fromarray(noise(8, 8)), kind), small).format
        for kind in ('JPEG', 'PNG', 'WEBP', 'BMP', 'TIFF')
    }
    assert kinds == {'JPEG': 'jpg', 'PNG': 'png', 'WEBP': 'webp', 'BMP': 'png', 'TIFF': 'png'}


@pytest.mark.parametrize('orientation', range(1, 9))
@pytest.mark.parametrize('kind', ['PNG', 'JPEG', 'WEBP'])
def test_an_orientation_is_applied_kept_or_dropped(orientation: int, kind: str) -> None:
    stored = noise(6, 4)
    how: dict[str, Any] = {'WEBP': {'lossless': True}}.get(kind, {})
    data = saved(Image.fromarray(stored), kind, exif=exif(orientation), **how)
    source = pixels(data)

    applied = process_image(data, ImageOptions(exif='apply', encode_format='png'))
    upright = _UPRIGHT[orientation](source)
    np.testing.assert_array_equal(pixels(applied.data), upright)
    assert (applied.height, applied.width) == upright.shape[:2]
    assert (applied.original_width, applied.original_height) == (6, 4)
    assert exif_of(applied.data).get(0x0112, 1) == 1
    assert exif_of(applied.data)[0x010F] == 'a camera'

    kept = process_image(data, ImageOptions(exif='keep', encode_format='png'))
    np.testing.assert_array_equal(pixels(kept.data), source)
    assert exif_of(kept.data) == {0x0112: orientation, 0x010F: 'a camera'}

    dropped = process_image(data, ImageOptions(exif='drop'))
    np.testing.assert_array_equal(pixels(dropped.data), source)
    assert exif_of(dropped.data) == {}
    assert dropped.format == kind.lower().replace('jpeg', 'jpg')


def test_an_upright_file_keeps_its_bytes_when_orientations_are_applied() -> None:
    data = jpeg(exif=exif(1))
    assert process_image(data, ImageOptions(exif='apply')).data is data


def test_a_turn_comes_before_the_resize() -> None:
    data = jpeg(40, 30, exif=exif(6))
    result = process_image(data, ImageOptions(15, 'keep_ratio', exif='apply'))
    assert (result.width, result.height) == (15, 20)
    assert process_image(data, ImageOptions(15, 'keep_ratio')).width == 20


@pytest.mark.parametrize('way', ['keep', 'apply', 'drop'])
def test_a_tiff_that_becomes_another_file_is_upright(way: str) -> None:
    stored = noise(6, 4)
    data = saved(Image.fromarray(stored), 'TIFF', exif=exif(6))
    result = process_image(data, ImageOptions(exif=way, encode_format='png'))
    np.testing.assert_array_equal(pixels(result.data), _UPRIGHT[6](stored))
    assert (result.width, result.height, result.original_width) == (4, 6, 4)
    assert exif_of(result.data) == {}
    assert process_image(data, ImageOptions(exif='drop')).format == 'png'


def test_an_orientation_that_only_xmp_tells_is_applied_or_kept() -> None:
    xmp = b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><r tiff:Orientation="8"/></x:xmpmeta>'
    data = jpeg(xmp=xmp)
    source = pixels(data)
    applied = process_image(data, ImageOptions(exif='apply', encode_format='png')).data
    np.testing.assert_array_equal(pixels(applied), _UPRIGHT[8](source))
    assert exif_of(process_image(data, ImageOptions(encode_format='png')).data) == {0x0112: 8}


@pytest.mark.filterwarnings('ignore:Corrupt EXIF data')
def test_damaged_exif_counts_as_none() -> None:
    data = jpeg(exif=b'Exif\0\0MM\0*\0\0\0\x08\xff\xff rubbish')
    assert process_image(data, ImageOptions(exif='apply')).data is data
    assert process_image(data, ImageOptions(8, 'fixed', exif='apply')).width == 8


def test_exif_is_dropped_without_touching_the_pixels_of_the_file() -> None:
    plain = jpeg()
    assert process_image(jpeg(exif=exif(6)), ImageOptions(exif='drop')).data == plain
    assert process_image(png(exif=exif(6)), ImageOptions(exif='drop')).data == png()
    assert process_image(plain, ImageOptions(exif='drop')).data == plain


def test_only_the_exif_is_dropped() -> None:
    xmp = b'<x:xmpmeta xmlns:x="adobe:ns:meta/"/>'
    assert process_image(jpeg(xmp=xmp, exif=exif(6)), ImageOptions(exif='drop')).data == jpeg(
        xmp=xmp
    )
    old = PngInfo()
    old.add_text('Raw profile type exif', 'exif 8 00')
    old.add_text('Comment', 'stays')
    new = PngInfo()
    new.add_text('Comment', 'stays')
    assert process_image(png(pnginfo=old), ImageOptions(exif='drop')).data == png(pnginfo=new)
    webp = saved(Image.fromarray(noise(8, 8)), 'WEBP', exif=exif(6))
    dropped = process_image(webp, ImageOptions(exif='drop')).data
    assert (webp[20] & 8, dropped[20] & 8) == (8, 0)  # the head says so too
    assert int.from_bytes(dropped[4:8], 'little') == len(dropped) - 8


def test_what_lies_behind_the_start_of_the_pixels_is_not_looked_at() -> None:
    segment = b'\xff\xe1\x00\x08Exif\0\0'
    start = b'\xff\xda\x00\x02'
    assert without_exif(b'\xff\xd8' + segment + start + segment, 'jpg') == (
        b'\xff\xd8' + start + segment
    )


def test_the_exif_of_further_pictures_in_a_jpeg_is_dropped_too() -> None:
    first, second = (Image.fromarray(noise(16, 16, seed=seed)) for seed in (1, 2))
    data = saved(first, 'MPO', save_all=True, append_images=[second], exif=exif(6).tobytes())
    assert process_image(data, ImageOptions()).data is data
    result = process_image(data, ImageOptions(exif='drop'))
    assert b'Exif' not in result.data
    assert result.format == 'jpg'


def test_a_colour_profile_stays_where_the_colours_do() -> None:
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile('sRGB')).tobytes()
    for kind in ('jpg', 'png', 'webp'):
        result = process_image(
            jpeg(icc_profile=profile), ImageOptions(8, 'fixed', encode_format=kind)
        )
        with Image.open(io.BytesIO(result.data)) as image:
            assert image.info['icc_profile'] == profile
    inks = saved(Image.fromarray(noise(8, 8)).convert('CMYK'), 'JPEG', icc_profile=profile)
    with Image.open(io.BytesIO(process_image(inks, ImageOptions(4, 'fixed')).data)) as image:
        assert image.mode == 'RGB'
        assert 'icc_profile' not in image.info


# Mode of the source -> the mode that it is stored in, as jpg, png and webp.
_STORED = {
    '1': ('L', '1', 'RGB'),
    'L': ('L', 'L', 'RGB'),
    'LA': ('L', 'LA', 'RGBA'),
    'P': ('RGB', 'P', 'RGB'),
    'RGB': ('RGB', 'RGB', 'RGB'),
    'RGBA': ('RGB', 'RGBA', 'RGBA'),
    'CMYK': ('RGB', 'RGB', 'RGB'),
    'I;16': ('L', 'I;16', 'RGB'),
}


def in_mode(mode: str) -> Image.Image:
    if mode == 'I;16':
        return Image.fromarray(np.arange(0, 65536, 256, np.uint16).reshape(16, 16))
    if mode == 'LA':
        return Image.merge('LA', [Image.fromarray(noise(16, 16, 1, seed)) for seed in (1, 2)])
    bands = 4 if mode == 'RGBA' else 3
    return Image.fromarray(noise(16, 16, bands)).convert(mode)


@pytest.mark.parametrize('mode', _STORED)
def test_every_mode_is_stored_in_one_that_the_format_holds(mode: str) -> None:
    data = saved(in_mode(mode), 'TIFF')
    got = []
    for kind in ('jpg', 'png', 'webp'):
        result = process_image(data, ImageOptions(encode_format=kind))
        with Image.open(io.BytesIO(result.data)) as image:
            image.load()
            got.append(image.mode)
        small = process_image(data, ImageOptions(7, 'border', encode_format=kind))
        assert pixels(small.data).shape[:2] == (7, 7)
    assert tuple(got) == _STORED[mode]


def test_png_holds_the_pixels_of_its_modes_exactly() -> None:
    for mode in ('1', 'L', 'LA', 'P', 'RGB', 'RGBA', 'I;16'):
        image = in_mode(mode)
        result = process_image(saved(image, 'TIFF'), ImageOptions(encode_format='png'))
        with Image.open(io.BytesIO(result.data)) as made:
            assert made.mode == mode
            assert made.convert('RGBA').tobytes() == image.convert('RGBA').tobytes()


def test_sixteen_bits_of_grey_lose_the_lower_eight_in_a_jpeg_and_are_resized_as_they_are() -> None:
    flat = Image.fromarray(np.full((16, 16), 0x8000, np.uint16))
    result = process_image(saved(flat), ImageOptions(encode_format='jpg'))
    assert set(pixels(result.data).flat) == {0x80}
    halves = np.zeros((4, 4), np.uint16)
    halves[:, 2:] = 60000
    small = process_image(saved(Image.fromarray(halves)), ImageOptions(2, 'fixed'))
    assert pixels(small.data).tolist() == [[0, 60000], [0, 60000]]
    wide = Image.fromarray(np.full((2, 4), 500, np.uint16))
    bars = pixels(process_image(saved(wide), ImageOptions(4, 'border')).data)
    assert bars[:, 0].tolist() == [65535, 500, 500, 65535]


def test_see_through_pixels_become_white_in_a_jpeg_and_stay_in_a_png() -> None:
    clear = Image.new('RGBA', (16, 16), (0, 0, 0, 0))
    data = saved(clear)
    assert set(pixels(process_image(data, ImageOptions(encode_format='jpg')).data).flat) == {255}
    kept = process_image(data, ImageOptions(8, 'fixed', encode_format='png')).data
    assert pixels(kept).shape == (8, 8, 4)
    assert pixels(kept)[..., 3].max() == 0
    palette = saved(Image.new('L', (16, 16)).convert('P'), transparency=0)
    assert set(pixels(process_image(palette, ImageOptions(encode_format='jpg')).data).flat) == {255}


@pytest.mark.parametrize('mode', ['LA', 'RGBA'])
def test_bars_are_opaque(mode: str) -> None:
    clear = saved(Image.new(mode, (8, 4)))
    bars = pixels(process_image(clear, ImageOptions(8, 'border', border_value=9)).data)
    assert set(bars[0, :, 0]) == {9}
    assert (set(bars[0, :, -1]), set(bars[4, :, -1])) == ({255}, {0})


def test_black_and_white_pixels_blend_to_grey() -> None:
    dots = Image.fromarray(np.tile(np.array([[0, 255], [255, 0]], np.uint8), (4, 4))).convert('1')
    small = process_image(saved(dots), ImageOptions(4, 'fixed')).data
    assert set(pixels(small).flat) == {128}


def test_the_transparency_of_a_palette_survives_a_resize() -> None:
    image = Image.new('L', (8, 8)).convert('P')
    data = saved(image, transparency=0)
    blended = pixels(process_image(data, ImageOptions(4, 'fixed')).data)
    assert blended.shape == (4, 4, 4)
    assert blended[..., 3].max() == 0
    nearest = ImageOptions(4, 'border', downscale_interpolation='nearest', border_value=1)
    for source in (data, saved(image.crop((0, 0, 8, 4)), transparency=0)):
        with Image.open(io.BytesIO(process_image(source, nearest).data)) as made:
            assert made.mode == 'P'
            assert made.convert('RGBA').getpixel((0, 2))[3] == 0


def test_nearest_keeps_the_palette_and_the_values_of_a_mask() -> None:
    mask = Image.fromarray(np.arange(150, dtype=np.uint8).reshape(10, 15))
    mask.putpalette([value for index in range(256) for value in (index, 255 - index, 7)])
    options = ImageOptions(
        5, 'border', downscale_interpolation='nearest', border_value=0, encode_format='png'
    )
    data = process_image(saved(mask), options).data
    with Image.open(io.BytesIO(data)) as image:
        assert image.mode == 'P'
        assert image.getpalette()[:6] == [0, 255, 7, 1, 254, 7]
        values = np.asarray(image)
    assert values.shape == (5, 5)
    assert set(values[0]) == {0}
    assert set(values.flat) <= set(range(150))


@pytest.mark.parametrize('mode', ['I', 'F'])
def test_pixels_of_32_bits_are_refused_for_a_new_file_and_kept_in_their_own(mode: str) -> None:
    data = saved(Image.new(mode, (8, 8)), 'TIFF')
    assert process_image(data, ImageOptions()).data is data
    error = refusal(data, size=4, resize_mode='fixed')
    assert str(error) == f'encode: pixels of mode {mode} have no place in a png file'


def test_what_webp_cannot_hold_is_refused() -> None:
    error = refusal(saved(Image.new('L', (16384, 1))), encode_format='webp')
    assert error.category == 'encode'


@pytest.mark.parametrize(
    ('options', 'category', 'reason'),
    [
        ({'min_image_size': 10}, 'too_small', '12 x 9 pixels: min_image_size is 10'),
        ({'max_image_area': 107}, 'too_large', '12 x 9 pixels: max_image_area is 107'),
        ({'max_aspect_ratio': 1.33}, 'aspect_ratio', '12 x 9 pixels: max_aspect_ratio is 1.33'),
        ({'max_pixels': 107}, 'bomb', '12 x 9 pixels, over the limit of 107 pixels'),
    ],
)
def test_an_image_that_the_options_refuse_is_named_with_its_size(
    options: dict[str, Any], category: str, reason: str
) -> None:
    error = refusal(png(), **options)
    assert (error.category, error.reason) == (category, reason)
    assert process_image(
        png(), ImageOptions(min_image_size=9, max_image_area=108, max_aspect_ratio=4 / 3)
    )


@pytest.mark.parametrize('kind', ['JPEG', 'PNG', 'WEBP', 'GIF', 'BMP', 'TIFF', 'PPM'])
def test_a_file_that_ends_too_early_is_found_unless_only_heads_are_read(kind: str) -> None:
    data = saved(Image.fromarray(noise(64, 64)), kind)
    assert check_image(data) == (64, 64)
    cut = data[: len(data) * 2 // 3]
    with pytest.raises(ImageError) as caught:
        check_image(cut)
    assert caught.value.category in ('truncated', 'broken')
    if kind in ('JPEG', 'PNG', 'BMP', 'PPM'):
        assert check_image(cut, verify=False) == (64, 64)
        assert process_image(cut, ImageOptions(verify=False)).data is cut
        assert refusal(cut, size=8, resize_mode='fixed', verify=False)


@settings(deadline=None, max_examples=60)
@given(
    kind=st.sampled_from(['JPEG', 'PNG', 'WEBP', 'GIF', 'BMP', 'TIFF']),
    cut=st.integers(0, 200),
    flips=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=4),
)
@pytest.mark.filterwarnings('ignore::UserWarning')
def test_damage_is_an_image_error_or_an_image_and_nothing_else(
    kind: str, cut: int, flips: list[tuple[int, int]]
) -> None:
    data = bytearray(saved(Image.fromarray(noise(16, 16)), kind))
    for at, value in flips:
        data[at % len(data)] = value
    for options in (
        ImageOptions(max_pixels=10_000),
        ImageOptions(5, 'border', exif='apply', encode_format='jpg', max_pixels=10_000),
        ImageOptions(exif='drop', max_pixels=10_000),
    ):
        try:
            process_image(bytes(data[: len(data) - cut]), options)
        except ImageError as error:
            found = error.category
        else:
            found = 'broken'
        assert found in ('unknown_format', 'truncated', 'broken', 'bomb', 'encode')


@pytest.mark.parametrize(
    'data', [b'', b'<html>404</html>', b'%!PS-Adobe-3.0 EPSF-3.0\n', b'\xff\xd8']
)
def test_what_is_no_image_is_shown_by_its_first_bytes(data: bytes) -> None:
    error = refusal(data)
    assert error.category == 'unknown_format'
    assert error.reason == (
        f'{len(data)} bytes that are no image of a known format: they start with {data[:16]!r}'
    )


@pytest.mark.parametrize('kind', ['EPS', 'PCX', 'ICO', 'TGA'])
def test_formats_that_run_programs_or_are_no_photos_are_not_tried(kind: str) -> None:
    assert refusal(saved(Image.fromarray(noise(16, 16)), kind)).category == 'unknown_format'


def bomb(width: int, height: int) -> bytes:
    """A small PNG file whose head claims many pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))
        )

    head = chunk(b'IHDR', struct.pack('>IIBBBBB', width, height, 8, 0, 0, 0, 0))
    return b'\x89PNG\r\n\x1a\n' + head + chunk(b'IDAT', zlib.compress(bytes(1000)))


@pytest.mark.parametrize('side', [9_500, 60_000])
@pytest.mark.filterwarnings('ignore::PIL.Image.DecompressionBombWarning')
def test_a_small_file_of_many_pixels_is_refused_before_it_is_decoded(side: int) -> None:
    error = refusal(bomb(side, side))
    assert error.category == 'bomb'
    assert '3600000000' in error.reason or f'over the limit of {MAX_PIXELS} pixels' in error.reason


def test_a_limit_of_pixels_can_be_raised() -> None:
    assert refusal(bomb(10, 1000), max_pixels=9_999).category == 'bomb'
    assert refusal(bomb(10, 1000), max_pixels=10_000).category == 'truncated'


def test_a_thin_image_is_not_blown_up_over_the_limit() -> None:
    thin = saved(Image.new('L', (60_000, 1)))
    error = refusal(thin, size=512, resize_mode='keep_ratio')
    assert str(error) == (
        'bomb: 60000 x 1 pixels would become 30720000 x 512, over the limit of 89478485 pixels'
    )


@pytest.mark.parametrize(
    ('options', 'message'),
    [
        (
            {'resize_mode': 'squash'},
            "resize_mode='squash' is unknown: expected one of no, keep_ratio",
        ),
        ({'size': 10}, "size=10 with resize_mode='no': a resize needs both"),
        ({'resize_mode': 'border'}, "size=None with resize_mode='border': a resize needs both"),
        ({'size': 0, 'resize_mode': 'fixed'}, 'size=0: expected a whole number from 1 to'),
        ({'size': 2.5, 'resize_mode': 'fixed'}, 'size=2.5: expected a whole number'),
        (
            {'resize_only_if_bigger': True},
            'resize_only_if_bigger needs a resize_mode other than no',
        ),
        (
            {'encode_format': 'jpeg'},
            "encode_format='jpeg' is unknown: expected one of jpg, png, webp",
        ),
        (
            {'encode_format': 'png', 'encode_quality': 95},
            'encode_quality of png=95: expected a whole number from 0 to 9',
        ),
        (
            {'encode_format': 'jpg', 'encode_quality': 0},
            'encode_quality of jpg=0: expected a whole number from 1 to 100',
        ),
        ({'encode_quality': 90}, 'encode_quality needs encode_format'),
        ({'exif': 'turn'}, "exif='turn' is unknown: expected one of keep, apply, drop"),
        ({'downscale_interpolation': 'x'}, "downscale_interpolation='x' is unknown"),
        ({'upscale_interpolation': 'x'}, "upscale_interpolation='x' is unknown"),
        ({'border_value': 256}, 'border_value=256: expected a whole number from 0 to 255'),
        ({'min_image_size': -1}, 'min_image_size=-1: expected a whole number from 0'),
        ({'max_image_area': 0}, 'max_image_area=0: expected a whole number from 1'),
        ({'max_aspect_ratio': 0.5}, 'max_aspect_ratio=0.5: the larger side over the smaller one'),
        ({'max_pixels': 0}, 'max_pixels=0: expected a whole number from 1'),
    ],
)
def test_options_that_cannot_be_are_refused_with_a_reason(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(OptionError) as caught:
        ImageOptions(**options)
    assert message in str(caught.value)


def test_without_pillow_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, 'PIL', None)
    with pytest.raises(MissingExtraError) as caught:
        process_image(b'', ImageOptions())
    assert str(caught.value) == (
        "images need Pillow, which is not installed: pip install 'beam-mds[images]'"
    )


def test_options_and_errors_travel_to_other_processes() -> None:
    options = ImageOptions(8, 'border')
    assert pickle.loads(pickle.dumps(options)) == options
    error = pickle.loads(pickle.dumps(ImageError('bomb', 'why')))
    assert (error.category, error.reason, str(error)) == ('bomb', 'why', 'bomb: why')

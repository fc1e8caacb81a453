"""The pixels of an image on their way to another size and another format.

Needs Pillow: `imaging` imports it when it first changes an image.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from PIL import Image

from beam_mds.errors import ImageError

# EXIF orientation -> what makes the stored pixels upright.
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}

_FILTERS = {
    'area': Image.Resampling.BOX,
    'bicubic': Image.Resampling.BICUBIC,
    'bilinear': Image.Resampling.BILINEAR,
    'lanczos': Image.Resampling.LANCZOS,
    'nearest': Image.Resampling.NEAREST,
}

# What the formats hold as it is.
_HELD = {
    'jpg': ('L', 'RGB'),
    'png': ('1', 'I;16', 'L', 'LA', 'P', 'RGB', 'RGBA'),
    'webp': ('RGB', 'RGBA'),
}

# Modes that are first converted, since resampling them, or storing them, makes no sense.
_PLAIN = {
    'CMYK': 'RGB',
    'HSV': 'RGB',
    'La': 'LA',
    'PA': 'RGBA',
    'RGBX': 'RGB',
    'RGBa': 'RGBA',
    'YCbCr': 'RGB',
}


def drawn(
    image: Image.Image,
    orientation: int,
    scaled: tuple[int, int],
    final: tuple[int, int],
    interpolation: str,
    border_value: int,
) -> Image.Image:
    """An image turned upright, resized, and then cropped to its middle or given bars.

    Args:
        image: The image, decoded.
        orientation: The EXIF orientation to undo; 1 for none.
        scaled: Width and height of the whole image.
        final: Width and height after that: smaller, and the middle is cut out; or larger, and the
            image lies in the middle of bars. A pixel that is left over goes to the right, or below.
        interpolation: One of `imaging.INTERPOLATIONS`. With `nearest` no new values appear: palette
            and black-and-white images stay what they are.
        border_value: Grey of the bars, 0 to 255, or the index in a palette.
    """
    if orientation != 1:
        image = image.transpose(_TURNS[orientation])
    blended = scaled != image.size and interpolation != 'nearest'
    image = _plain(image, blended)
    if scaled != image.size:
        image = image.resize(scaled, _FILTERS[interpolation])
    if final == image.size:
        return image
    if final[0] > image.width or final[1] > image.height:
        return _with_bars(image, final, border_value)
    left, top = (image.width - final[0]) // 2, (image.height - final[1]) // 2
    return image.crop((left, top, left + final[0], top + final[1]))


def storable(image: Image.Image, kind: str) -> Image.Image:
    """An image in a mode that a format holds.

    What is see-through is laid on white where the format is JPEG; 16-bit grey loses its lower bits
    where it must have 8.

    Args:
        image: The image.
        kind: `jpg`, `png` or `webp`.

    Raises:
        ImageError: Its values have no place there: 32-bit integers, floating point.
    """
    image = _plain(image, False)
    held = _HELD[kind]
    if kind == 'jpg' and image.has_transparency_data:
        image = _on_white(image)
    if image.mode in held:
        return image
    if image.mode == 'I;16':
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.mode in ('I', 'F'):
        raise ImageError('encode', f'pixels of mode {image.mode} have no place in a {kind} file')
    if image.mode in held:
        return image
    if image.has_transparency_data:
        return image.convert('RGBA')
    return image.convert('L' if image.mode == '1' and 'L' in held else 'RGB')


def _plain(image: Image.Image, blended: bool) -> Image.Image:
    """The image in a mode that can be resampled: with a filter that blends pixels, or not."""
    if image.mode in _PLAIN:
        return image.convert(_PLAIN[image.mode])
    if image.mode == 'LAB':
        raise ImageError('encode', 'pixels of mode LAB have no exact RGB without a profile')
    if image.mode.startswith('I;16') and image.mode != 'I;16':
        return Image.fromarray(np.asarray(image).astype(np.uint16))
    if not blended:
        return image
    if image.mode == '1':
        return image.convert('L')
    if image.has_transparency_data and image.mode in ('L', 'P', 'RGB'):
        return image.convert('LA' if image.mode == 'L' else 'RGBA')
    return image.convert('RGB') if image.mode == 'P' else image


def _on_white(image: Image.Image) -> Image.Image:
    """The image without transparency; grey stays grey."""
    grey = image.mode in ('L', 'LA')
    image = image.convert('RGBA')
    white = Image.new('RGBA', image.size, (255, 255, 255, 255))
    return Image.alpha_composite(white, image).convert('L' if grey else 'RGB')


def _with_bars(image: Image.Image, size: tuple[int, int], value: int) -> Image.Image:
    colours: dict[str, Any] = {
        'F': value / 255,
        'I': value,
        'I;16': value * 257,
        'LA': (value, 255),
        'RGB': (value,) * 3,
        'RGBA': (value,) * 3 + (255,),
    }
    canvas = Image.new(image.mode, size, colours.get(image.mode, value))
    if image.palette is not None:
        canvas.putpalette(image.palette)
    if 'transparency' in image.info:
        canvas.info['transparency'] = image.info['transparency']
    canvas.paste(image, ((size[0] - image.width) // 2, (size[1] - image.height) // 2))
    return canvas

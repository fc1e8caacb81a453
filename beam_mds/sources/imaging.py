"""One image file to another: checked, resized, turned upright, encoded anew; no Beam here.

What an image needs no change for is kept to the byte. The resize modes are img2dataset's, so that
its options mean the same here. Pillow is imported when the first image is handled.
"""

from __future__ import annotations

import contextlib
import functools
import io
from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

from beam_mds.errors import ImageError, MissingExtraError
from beam_mds.sources.exif import without_exif
from beam_mds.sources.image_options import ENCODE_FORMATS, MAX_PIXELS, QUALITIES, ImageOptions

if TYPE_CHECKING:
    from PIL import Image

# The only formats that are tried. Others run programs (EPS), or are no pictures that people train
# on. A build of Pillow may lack some.
_READ = ('AVIF', 'BMP', 'GIF', 'JPEG', 'JPEG2000', 'PNG', 'PPM', 'TIFF', 'WEBP')

# Pillow's name of a format -> ours. MPO is a JPEG file with more pictures behind it.
_NAMES = {'JPEG': 'jpg', 'MPO': 'jpg', 'PNG': 'png', 'WEBP': 'webp'}

# The modes in which the smaller side becomes `size`.
_BY_SMALLER = ('keep_ratio', 'center_crop')

_ORIENTATION = 0x0112  # the EXIF tag


class ImageResult(NamedTuple):
    """An image file, as it is to be stored.

    Attributes:
        data: The file: the bytes that were given where nothing had to be done.
        width: Its pixels in a row.
        height: Its rows.
        original_width: As the file that was given stores them, before any turn.
        original_height: The same.
        format: `jpg`, `png` or `webp`; of a file in another format, Pillow's name of it in small
            letters.
    """

    data: bytes
    width: int
    height: int
    original_width: int
    original_height: int
    format: str


class Geometry(NamedTuple):
    """The steps of a resize, each as (width, height).

    Attributes:
        scaled: The size that the whole image is brought to.
        final: The size after its middle is cut out, or bars are added.
        bigger: Whether the image was bigger than wanted.
    """

    scaled: tuple[int, int]
    final: tuple[int, int]
    bigger: bool


def process_image(data: bytes, options: ImageOptions) -> ImageResult:
    """Checks an image file, and changes it as the options say.

    Of an animation the first frame counts, where anything is changed.

    Args:
        data: The file, in a format that Pillow knows: JPEG, PNG, WebP, GIF, BMP, TIFF, PPM, JPEG
            2000 or AVIF.
        options: What is to be done.

    Raises:
        ImageError: The file is damaged, of another kind, refused by the options, or cannot be
            stored as wanted.
        MissingExtraError: Pillow is not installed.
    """
    with _opened(data, options.max_pixels) as image:
        original = image.size
        _check_limits(*original, options)
        kind = _NAMES.get(image.format or '', (image.format or '').lower())
        wanted = options.encode_format or (kind if kind in ENCODE_FORMATS else 'png')
        turn = _orientation(image) if options.exif == 'apply' else 1
        size = original[::-1] if turn >= 5 else original
        geometry = resized(*size, options)
        if (
            (options.skip_reencode and options.encode_format in (None, kind))
            and turn == 1
            and geometry.scaled == geometry.final == original
            and not (options.exif == 'drop' and _exif_is_elsewhere(image, kind))
        ):
            if options.verify:
                _decode(image, exactly=False)
            kept = (
                without_exif(data, kind) if options.exif == 'drop' and kind in QUALITIES else data
            )
            return ImageResult(kept, *original, *original, kind)
        return ImageResult(
            _remade(image, geometry, wanted, turn, options), *geometry.final, *original, wanted
        )


def check_image(
    data: bytes, *, verify: bool = True, max_pixels: int = MAX_PIXELS
) -> tuple[int, int]:
    """Whether bytes are a whole image file.

    Args:
        data: The file.
        verify: Decode the pixels, at a lower resolution where that finds the same faults faster
            (JPEG): that finds files that end too early, and damage that shows in the compressed
            data. Of an animation the first frame is decoded. False reads the head only.
        max_pixels: Images of more pixels are refused before they are decoded.

    Returns:
        Its width and height in pixels.

    Raises:
        ImageError: It is not.
        MissingExtraError: Pillow is not installed.
    """
    return process_image(data, ImageOptions(verify=verify, max_pixels=max_pixels))[1:3]


def resized(width: int, height: int, options: ImageOptions) -> Geometry:
    """The sizes that an image of these many pixels goes through.

    Sides are rounded to the nearest whole number, halves to the even one, and are at least 1.

    Raises:
        ImageError: It would become larger than `max_pixels`: it is long and thin.

    Example:
        >>> resized(640, 480, ImageOptions(240, 'center_crop'))
        Geometry(scaled=(320, 240), final=(240, 240), bigger=True)
    """
    mode, size = options.resize_mode, options.size
    side = min(width, height) if mode in _BY_SMALLER else max(width, height)
    if size is None or (options.resize_only_if_bigger and side <= size):
        return Geometry((width, height), (width, height), False)
    if mode == 'fixed':
        scaled = size, size
    else:
        scaled = _scaled(width, size, side), _scaled(height, size, side)
    final = (size, size) if mode in ('center_crop', 'border') else scaled
    for made in (scaled, final):
        if made[0] * made[1] > options.max_pixels:
            raise ImageError(
                'bomb',
                f'{width} x {height} pixels would become {made[0]} x {made[1]}, over the limit of '
                f'{options.max_pixels} pixels',
            )
    return Geometry(scaled, final, side > size)


def _scaled(side: int, size: int, reference: int) -> int:
    return max(1, round(Fraction(side * size, reference)))


def _remade(
    image: Image.Image, geometry: Geometry, kind: str, turn: int, options: ImageOptions
) -> bytes:
    """The new file."""
    from beam_mds.sources.pixels import drawn, storable

    _decode(image)
    exif = _kept_exif(image, options, turn)
    profile = image.info.get('icc_profile')
    colour = image.mode
    how = options.downscale_interpolation if geometry.bigger else options.upscale_interpolation
    with _as_image_error('encode'):
        made = drawn(image, turn, geometry.scaled, geometry.final, how, options.border_value)
        made = storable(made, kind)
        # A profile of the inks of a CMYK file says nothing of the RGB that it became.
        keep_profile = colour not in ('CMYK', 'LAB', 'YCbCr', 'HSV')
        settings: dict[str, Any] = {'exif': exif} if exif else {}
        if keep_profile and profile:
            settings['icc_profile'] = profile
        quality = options.encode_quality
        if quality is None:
            quality = QUALITIES[kind][2]
        settings['compress_level' if kind == 'png' else 'quality'] = quality
        out = io.BytesIO()
        made.save(out, {'jpg': 'JPEG', 'png': 'PNG', 'webp': 'WEBP'}[kind], **settings)
    return out.getvalue()


def _kept_exif(image: Image.Image, options: ImageOptions, turn: int) -> bytes:
    """The EXIF of the new file; none where it cannot be read: then it meant nothing before."""
    raw: bytes = image.info.get('exif') or b''
    if options.exif == 'drop':
        return b''
    try:
        if turn != 1 and raw:
            exif = image.getexif()
            exif.pop(_ORIENTATION, None)
            raw = exif.tobytes()
        elif turn == 1 and not raw and (orientation := _orientation(image)) != 1:
            # From XMP, which the new file does not have.
            exif = load_pillow().Exif()
            exif[_ORIENTATION] = orientation
            raw = exif.tobytes()
    except Exception:  # noqa: BLE001 - Pillow's parser fails in many ways on damaged EXIF
        return b''
    return raw


def _orientation(image: Image.Image) -> int:
    """The EXIF orientation, 1 (upright) to 8; 1 where there is none that makes sense."""
    if image.format == 'TIFF':  # Pillow turns these itself while it decodes them
        return 1
    try:
        value = image.getexif().get(_ORIENTATION, 1)
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - see _kept_exif
        return 1
    return value if value in range(1, 9) else 1


def _exif_is_elsewhere(image: Image.Image, kind: str) -> bool:
    """Whether there is EXIF that `without_exif` cannot take out: TIFF tags, a second picture's."""
    if image.format == 'MPO':
        return True
    return kind not in ENCODE_FORMATS and len(image.getexif()) > 0


def _check_limits(width: int, height: int, options: ImageOptions) -> None:
    shown = f'{width} x {height} pixels'
    if min(width, height) < options.min_image_size:
        raise ImageError('too_small', f'{shown}: min_image_size is {options.min_image_size}')
    if options.max_image_area is not None and width * height > options.max_image_area:
        raise ImageError('too_large', f'{shown}: max_image_area is {options.max_image_area}')
    ratio = options.max_aspect_ratio
    if ratio is not None and max(width, height) > ratio * min(width, height):
        raise ImageError('aspect_ratio', f'{shown}: max_aspect_ratio is {ratio}')


@contextlib.contextmanager
def _opened(data: bytes, max_pixels: int) -> Iterator[Image.Image]:
    """The image, of which only the head is read yet."""
    pillow = load_pillow()
    with _as_image_error('broken'):
        try:
            image = pillow.open(io.BytesIO(data), formats=_formats())
        except pillow.UnidentifiedImageError:
            raise ImageError(
                'unknown_format',
                f'{len(data)} bytes that are no image of a known format: they start with '
                f'{data[:16]!r}',
            ) from None
    with image:
        width, height = image.size
        if width * height > max_pixels:
            raise ImageError(
                'bomb', f'{width} x {height} pixels, over the limit of {max_pixels} pixels'
            )
        if not width or not height:
            raise ImageError('broken', f'{width} x {height} pixels')
        yield image


def _decode(image: Image.Image, exactly: bool = True) -> None:
    with _as_image_error('broken'):
        if not exactly:
            # JPEG only: all of the file is read, and pixels are made for its coarse form.
            image.draft('L', (max(1, image.width // 8), max(1, image.height // 8)))
        image.load()


@contextlib.contextmanager
def _as_image_error(category: str) -> Iterator[None]:
    """What Pillow raises in there becomes an ImageError."""
    pillow = load_pillow()
    try:
        yield
    except (ImageError, MemoryError):
        raise
    except (pillow.DecompressionBombError, pillow.DecompressionBombWarning) as error:
        raise ImageError('bomb', str(error)) from None
    except Exception as error:  # noqa: BLE001 - its decoders raise nearly every class there is
        text = f'{type(error).__name__}: {str(error)[:200]}'
        if 'truncated' in text.lower():
            category = 'truncated'
        raise ImageError(category, text) from None


@functools.cache
def _formats() -> list[str]:
    pillow = load_pillow()
    pillow.init()
    return [name for name in _READ if name in pillow.OPEN]


def load_pillow() -> Any:
    """Pillow's module Image.

    Raises:
        MissingExtraError: It is not installed.
    """
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingExtraError(
            "images need Pillow, which is not installed: pip install 'beam-mds[images]'"
        ) from error
    return Image

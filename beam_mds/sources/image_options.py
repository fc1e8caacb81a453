"""The options of `imaging`, and which of them go together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from beam_mds.errors import OptionError

RESIZE_MODES = ('no', 'keep_ratio', 'keep_ratio_largest', 'center_crop', 'border', 'fixed')
INTERPOLATIONS = ('nearest', 'area', 'bilinear', 'bicubic', 'lanczos')
ENCODE_FORMATS = ('jpg', 'png', 'webp')
EXIF = ('keep', 'apply', 'drop')

# Pixels of the largest image that is decoded: where Pillow begins to warn. As RGB it is 256 MiB.
MAX_PIXELS = 89_478_485

# Of each format: the lowest and the highest quality, and the default.
QUALITIES = {'jpg': (1, 100, 95), 'png': (0, 9, 6), 'webp': (1, 100, 95)}


@dataclass(frozen=True)
class ImageOptions:
    """What becomes of an image. The default is: decoded as a check, and kept to the byte.

    Attributes:
        size: Pixels of a side of the result, for every `resize_mode` but `no`.
        resize_mode: `no`; `keep_ratio`: the smaller side becomes `size`; `keep_ratio_largest`: the
            larger one does; `center_crop`: like `keep_ratio`, and then the middle square is cut
            out; `border`: like `keep_ratio_largest`, and then bars fill the square; `fixed`: both
            sides become `size`, whatever the shape.
        resize_only_if_bigger: Leave alone what is not bigger: whose smaller side (`keep_ratio`,
            `center_crop`) or larger side (the others) is at most `size`. It is then neither cropped
            nor given bars.
        downscale_interpolation: For an image that is bigger in this sense: `nearest`, `area`,
            `bilinear`, `bicubic` or `lanczos`. With `nearest` a palette stays (for masks).
        upscale_interpolation: For one that is not.
        border_value: Grey of the bars, 0 to 255; of a palette image, its index.
        min_image_size: Pixels of the smaller side below which an image is refused.
        max_image_area: Pixels of an image above which it is refused; None for no limit but
            `max_pixels`.
        max_aspect_ratio: Larger side over smaller side above which an image is refused.
        encode_format: `jpg`, `png` or `webp`; None for the file's own format, or png where that is
            none of these.
        encode_quality: Of jpg and webp 1 to 100, default 95; of png its compression level 0 to 9,
            default 6. Needs `encode_format`.
        skip_reencode: Keep a file that has the right size and format to the byte; False encodes
            every image anew.
        exif: `keep` it, in a file that is encoded anew too; `apply` its orientation to the pixels
            and take the tag out; or `drop` it, and show the pixels as they are stored.
        verify: Decode the pixels of images that are kept too, so that truncated and damaged files
            are found; False reads only their heads.
        max_pixels: Images of more pixels are refused before they are decoded, so that no small file
            fills the memory; nor is one made so large.

    Raises:
        OptionError: A value, or a combination, that cannot be.

    Example:
        >>> options = ImageOptions(256, 'center_crop', encode_format='jpg', encode_quality=90)
    """

    size: int | None = None
    resize_mode: str = 'no'
    resize_only_if_bigger: bool = False
    downscale_interpolation: str = 'area'
    upscale_interpolation: str = 'lanczos'
    border_value: int = 255
    min_image_size: int = 0
    max_image_area: int | None = None
    max_aspect_ratio: float | None = None
    encode_format: str | None = None
    encode_quality: int | None = None
    skip_reencode: bool = True
    exif: str = 'keep'
    verify: bool = True
    max_pixels: int = MAX_PIXELS

    def __post_init__(self) -> None:
        """Checks all of it."""
        _one_of('resize_mode', self.resize_mode, RESIZE_MODES)
        _one_of('downscale_interpolation', self.downscale_interpolation, INTERPOLATIONS)
        _one_of('upscale_interpolation', self.upscale_interpolation, INTERPOLATIONS)
        _one_of('exif', self.exif, EXIF)
        _in_range('max_pixels', self.max_pixels, 1, 1 << 40)
        _in_range('size', self.size, 1, self.max_pixels, None)
        _in_range('border_value', self.border_value, 0, 255)
        _in_range('min_image_size', self.min_image_size, 0, self.max_pixels)
        _in_range('max_image_area', self.max_image_area, 1, self.max_pixels, None)
        ratio: Any = self.max_aspect_ratio
        if ratio is not None and not (isinstance(ratio, (int, float)) and ratio >= 1):
            raise OptionError(
                f'max_aspect_ratio={ratio!r:.80}: the larger side over the smaller one is 1 or more'
            )
        self._check_together()

    def _check_together(self) -> None:
        if (self.size is None) != (self.resize_mode == 'no'):
            raise OptionError(
                f'size={self.size} with resize_mode={self.resize_mode!r}: a resize needs both a '
                'size and a mode other than no'
            )
        if self.resize_only_if_bigger and self.resize_mode == 'no':
            raise OptionError('resize_only_if_bigger needs a resize_mode other than no')
        if self.encode_format is not None:
            _one_of('encode_format', self.encode_format, ENCODE_FORMATS)
            low, high, _ = QUALITIES[self.encode_format]
            _in_range(
                f'encode_quality of {self.encode_format}', self.encode_quality, low, high, None
            )
        elif self.encode_quality is not None:
            raise OptionError('encode_quality needs encode_format: its range depends on the format')


def _one_of(option: str, value: Any, known: tuple[str, ...]) -> None:
    if value not in known:
        raise OptionError(f'{option}={value!r:.80} is unknown: expected one of {", ".join(known)}')


_NEEDED = object()


def _in_range(option: str, value: Any, low: int, high: int, default: Any = _NEEDED) -> None:
    if value is default:
        return
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise OptionError(f'{option}={value!r:.80}: expected a whole number from {low} to {high}')

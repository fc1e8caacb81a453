"""The options of conversions that check and change images."""

from __future__ import annotations

import argparse
from typing import Any

from beam_mds import ImageOptions
from beam_mds.sources.image_options import (
    ENCODE_FORMATS,
    EXIF,
    INTERPOLATIONS,
    RESIZE_MODES,
)


def add_image_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `ImageOptions`."""
    group = parser.add_argument_group('the images')
    known = ImageOptions()

    def add(option: str, text: str, **how: Any) -> None:
        group.add_argument(option, help=text, **how)

    add(
        '--resize_mode',
        'keep_ratio: the smaller side becomes --image_size; keep_ratio_largest: the larger one; '
        'center_crop: keep_ratio, and then the middle square; border: keep_ratio_largest, and then '
        'bars to a square; fixed: both sides; no: as they are (default: %(default)s)',
        choices=RESIZE_MODES, default=known.resize_mode,
    )  # fmt: skip
    add('--image_size', 'pixels of a side after the resize', type=int, metavar='PIXELS')
    add(
        '--resize_only_if_bigger', 'leave images alone that are not bigger than --image_size',
        action='store_true',
    )  # fmt: skip
    add(
        '--downscale_interpolation', 'for smaller images (default: %(default)s)',
        choices=INTERPOLATIONS, default=known.downscale_interpolation,
    )  # fmt: skip
    add(
        '--upscale_interpolation', 'for larger images (default: %(default)s)',
        choices=INTERPOLATIONS, default=known.upscale_interpolation,
    )  # fmt: skip
    add(
        '--border_value', 'grey of the bars, 0 to 255 (default: %(default)s)',
        type=int, default=known.border_value, metavar='GREY',
    )  # fmt: skip
    add(
        '--min_image_size', 'pixels of the smaller side below which an image is refused '
        '(default: %(default)s)', type=int, default=known.min_image_size, metavar='PIXELS',
    )  # fmt: skip
    add(
        '--max_image_area', 'pixels of an image above which it is refused (default: no limit but '
        '--max_pixels)', type=int, metavar='PIXELS',
    )  # fmt: skip
    add(
        '--max_aspect_ratio', 'larger side over smaller side above which an image is refused '
        '(default: no limit)', type=float, metavar='RATIO',
    )  # fmt: skip
    add(
        '--encode_format', 'format that all images get (default: their own)', choices=ENCODE_FORMATS
    )
    add(
        '--encode_quality', 'of jpg and webp 1 to 100 (default: 95), of png its compression level '
        '0 to 9 (default: 6)', type=int, metavar='N',
    )  # fmt: skip
    add(
        '--skip_reencode', 'keep files to the byte that have the right size and format; '
        '--no-skip_reencode encodes all anew (default: keep)',
        action=argparse.BooleanOptionalAction, default=True,
    )  # fmt: skip
    add(
        '--exif', 'keep it; apply its orientation to the pixels; or drop it (default: %(default)s)',
        choices=EXIF, default=known.exif,
    )  # fmt: skip
    add(
        '--verify_images', 'decode all images, so that truncated and damaged ones are found; '
        '--no-verify_images reads only their heads (default: decode)',
        action=argparse.BooleanOptionalAction, default=True,
    )  # fmt: skip
    add(
        '--max_pixels', 'pixels above which an image is not even decoded, so that no small file '
        'fills the memory (default: %(default)s)',
        type=int, default=known.max_pixels, metavar='PIXELS',
    )  # fmt: skip


def image_options(args: argparse.Namespace) -> ImageOptions:
    """What the command line asks for.

    Raises:
        OptionError: A value, or a combination, that cannot be.
    """
    return ImageOptions(
        size=args.image_size,
        resize_mode=args.resize_mode,
        resize_only_if_bigger=args.resize_only_if_bigger,
        downscale_interpolation=args.downscale_interpolation,
        upscale_interpolation=args.upscale_interpolation,
        border_value=args.border_value,
        min_image_size=args.min_image_size,
        max_image_area=args.max_image_area,
        max_aspect_ratio=args.max_aspect_ratio,
        encode_format=args.encode_format,
        encode_quality=args.encode_quality,
        skip_reencode=args.skip_reencode,
        exif=args.exif,
        verify=args.verify_images,
        max_pixels=args.max_pixels,
    )

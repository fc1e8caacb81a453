"""Images: pil, jpeg, png, list[pil], list[jpeg], list[png], jpeg_array (= jpegarray).

Layouts (mosaicml-streaming 0.13.0, `format/mds/encodings.py`):
  pil:        uint32 width, height, bytes of the mode's name; the name; raw pixels
  jpeg, png:  the image file
  list[...]:  uint32 0, uint32 count, uint32 bytes of each; the items
  jpeg_array: uint32 count, uint32 bytes of each; the items

Pillow is imported when the first image is handled, so that byte strings need no extra.
"""

from __future__ import annotations

import abc
import io
import itertools
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from beam_mds.errors import EncodingError, FormatError, MissingExtraError
from beam_mds.format.encodings.base import (
    Encoding,
    Part,
    Values,
    as_bytes,
    bad_value,
    binary_part,
    decoded_dictionary,
    is_binary,
    null_value,
    plain,
    require_no_nulls,
    types_of,
)

if TYPE_CHECKING:
    from PIL import Image

# Modes whose pixels mean nothing without a palette, which the `pil` layout does not hold.
_PALETTE_MODES = ('P', 'PA')


class _Image(Encoding):
    """An image column: byte strings are image files and stay as they are."""

    def encode(self, value: Any) -> bytes:
        value = plain(value)
        data = as_bytes(value)
        return self._encode_image(self._image(value)) if data is None else data

    def encode_column(self, values: Values) -> list[Part]:
        if isinstance(values, pa.Array):
            values = decoded_dictionary(values)
            if is_binary(values.type):
                require_no_nulls(values)
                return [binary_part(values)]
        elif types_of(values) <= {bytes}:
            return [binary_part(pa.array(values, pa.large_binary()))]
        return super().encode_column(values)

    def _image(self, value: Any) -> Image.Image:
        if value is None:
            raise null_value()
        if not isinstance(value, _pillow().Image):
            raise bad_value(value, 'is neither a PIL image nor bytes of an image file')
        image: Image.Image = value
        return image

    @abc.abstractmethod
    def _encode_image(self, image: Image.Image) -> bytes: ...

    def decode(self, data: bytes) -> Any:
        return _pillow().open(io.BytesIO(data))


class Pil(_Image):
    """Raw pixels of a PIL image; no palette, no metadata."""

    name = 'pil'

    def _encode_image(self, image: Image.Image) -> bytes:
        if image.mode in _PALETTE_MODES:
            raise EncodingError(
                f"PIL image of mode {image.mode}: its palette would be lost, use .convert('RGB')"
            )
        mode = image.mode.encode('ascii')
        return struct.pack('<III', *image.size, len(mode)) + mode + image.tobytes()

    def decode(self, data: bytes) -> Any:
        width, height, size = struct.unpack_from('<III', data)
        mode = data[12 : 12 + size].decode('ascii')
        pillow, needed = _pillow(), _pixel_bytes(mode, width, height)
        if len(data) - 12 - size < needed:  # Pillow makes the image before it looks
            raise FormatError(f'{width} x {height} pixels of mode {mode} need {needed} bytes')
        return pillow.frombytes(mode, (width, height), data[12 + size :])


class Jpeg(_Image):
    """A JPEG file: the one that the image was opened from, or else a new one at quality 75."""

    name = 'jpeg'

    def _encode_image(self, image: Image.Image) -> bytes:
        return _jpeg_source(image) or _saved(image, 'JPEG')


class Png(_Image):
    """A PNG file made from the image."""

    name = 'png'

    def _encode_image(self, image: Image.Image) -> bytes:
        if image.mode == 'I':  # Pillow 12 cuts its 32-bit pixels to 16 bits, Pillow 13 refuses
            raise EncodingError(
                "PIL image of mode I: PNG has no 32-bit pixels, use .convert('I;16') or pil"
            )
        return _saved(image, 'PNG')


class ImageList(Encoding):
    """A list of images, each encoded alike; it may be empty."""

    def __init__(self, item: Encoding) -> None:
        """Makes the encoding of lists of `item`."""
        self.name = f'list[{item.name}]'
        self.item = item
        self.arrow_type = pa.large_list(pa.large_binary())

    def encode(self, value: Any) -> bytes:
        items = [self.item.encode(image) for image in _sequence(value)]
        return bytes(4) + _counted(items)

    def decode(self, data: bytes) -> list[Any]:
        return [self.item.decode(item) for item in _split(data[4:])]

    def to_arrow(self, items: pa.LargeBinaryArray) -> pa.Array:
        return pa.array([_split(item[4:]) for item in items.to_pylist()], self.arrow_type)


class JpegArray(Encoding):
    """A list of JPEG files as byte strings; at least one, since the reader refuses none."""

    def __init__(self, name: str) -> None:
        """Makes the encoding under one of its two names, `jpeg_array` or `jpegarray`."""
        self.name = name
        self.arrow_type = pa.large_list(pa.large_binary())

    def encode(self, value: Any) -> bytes:
        items = [as_bytes(plain(item)) for item in _sequence(value)]
        if not items:
            raise bad_value(value, 'has no image: the reader refuses an empty jpeg_array')
        for original, item in zip(value, items, strict=True):
            if item is None:
                raise bad_value(original, 'is not bytes of a JPEG file')
        return _counted([item for item in items if item is not None])

    def decode(self, data: bytes) -> list[Any]:
        return [_pillow().open(io.BytesIO(item)) for item in _split(data)]

    def to_arrow(self, items: pa.LargeBinaryArray) -> pa.Array:
        return pa.array([_split(item) for item in items.to_pylist()], self.arrow_type)


def _pixel_bytes(mode: str, width: int, height: int) -> int:
    """Bytes of an image's raw pixels."""
    from PIL import ImageMode

    if mode == '1':
        return (width + 7) // 8 * height
    layout = ImageMode.getmode(mode)
    return width * height * len(layout.bands) * np.dtype(layout.typestr).itemsize


def _sequence(value: Any) -> Sequence[Any]:
    value = plain(value)
    if not isinstance(value, (list, tuple)):
        raise bad_value(value, 'is not a list of images')
    return value


def _counted(items: list[bytes]) -> bytes:
    sizes = np.array([len(items), *map(len, items)], '<u4').tobytes()
    return b''.join([sizes, *items])


def _split(data: bytes) -> list[bytes]:
    count = int(np.frombuffer(data, '<u4', 1)[0])
    ends = 4 + 4 * count + np.cumsum(np.frombuffer(data, '<u4', count, 4), dtype=np.int64)
    if count and int(ends[-1]) > len(data):
        raise FormatError(f'{count} images need {int(ends[-1])} bytes, there are {len(data)}')
    starts = [4 + 4 * count, *ends.tolist()]
    return [data[start:end] for start, end in itertools.pairwise(starts)]


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise MissingExtraError(
            "image columns need Pillow: install beam_mds with the extra, 'beam_mds[images]'"
        ) from None
    return Image


def _saved(image: Image.Image, kind: str) -> bytes:
    out = io.BytesIO()
    try:
        image.save(out, format=kind)
    except Exception as error:  # noqa: BLE001 - Pillow raises OSError, KeyError, ValueError, ...
        raise EncodingError(
            f'PIL image of mode {image.mode} cannot be saved as {kind}: {str(error)[:80]}'
        ) from None
    return out.getvalue()


def _jpeg_source(image: Image.Image) -> bytes | None:
    """The file that a JPEG image was opened from, while it still shows the same picture."""
    from PIL.JpegImagePlugin import JpegImageFile

    if not isinstance(image, JpegImageFile) or image.tell():
        return None
    data = _stream_bytes(image) or _named_file_bytes(image)
    if data is None:
        return None
    try:
        with _pillow().open(io.BytesIO(data)) as source:
            kinds = [(some.format, some.size, some.mode) for some in (source, image)]
            # Only a loaded image can have been drawn on.
            same = kinds[0] == kinds[1] and (image.tile or source.tobytes() == image.tobytes())
    except (OSError, ValueError):
        return None
    return data if same else None


def _stream_bytes(image: Image.Image) -> bytes | None:
    """What the image is read from, while it is still open: until its pixels are loaded."""
    stream = getattr(image, 'fp', None)
    if stream is None:
        return None
    try:
        at = stream.tell()
        stream.seek(0)
        try:
            return bytes(stream.read())
        finally:
            stream.seek(at)
    except (OSError, ValueError):  # closed meanwhile
        return None


def _named_file_bytes(image: Image.Image) -> bytes | None:
    name = getattr(image, 'filename', '')
    try:
        return Path(name).read_bytes() if name else None
    except (OSError, TypeError):
        return None

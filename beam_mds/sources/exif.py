"""EXIF blocks taken out of image files without touching their pixels; bytes only."""

from __future__ import annotations

import struct
from collections.abc import Callable

# JPEG markers: an application segment with EXIF in it, the start of the compressed pixels, and
# those without a length (ITU-T T.81, table B.1).
_APP1, _SOS = 0xE1, 0xDA
_BARE = frozenset({0x01, *range(0xD0, 0xD8)})

# Keywords of PNG text chunks that carry EXIF as hex digits.
_PNG_PROFILES = (b'Raw profile type exif\0', b'Raw profile type APP1\0')

# The bit of WebP's VP8X chunk that says there is an EXIF chunk.
_WEBP_EXIF = 0x08


def without_exif(data: bytes, kind: str) -> bytes:
    """An image file without its EXIF; the compressed pixels stay as they are.

    Args:
        data: The file.
        kind: `jpg`, `png` or `webp`.

    Returns:
        The shorter file, or the same bytes where there is no EXIF. What follows the first thing
        that is not as the format says stays as it is.
    """
    return _STRIP[kind](data)


def _jpeg(data: bytes) -> bytes:
    parts = [data[:2]]
    at = 2
    while at + 4 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker == _SOS:
            break
        if marker == 0xFF:  # a fill byte
            end = at + 1
        elif marker in _BARE:
            end = at + 2
        else:
            end = at + 2 + int.from_bytes(data[at + 2 : at + 4], 'big')
        if not (marker == _APP1 and data[at + 4 : at + 9] == b'Exif\0'):
            parts.append(data[at:end])
        at = end
    parts.append(data[at:])
    return b''.join(parts)


def _png(data: bytes) -> bytes:
    parts = [data[:8]]
    at = 8
    while at + 12 <= len(data):
        size, kind = struct.unpack_from('>I4s', data, at)
        end = at + 12 + size  # length, type, data, CRC
        text = kind in (b'tEXt', b'zTXt', b'iTXt') and data.startswith(_PNG_PROFILES, at + 8)
        if kind != b'eXIf' and not text:
            parts.append(data[at:end])
        at = end
    parts.append(data[at:])
    return b''.join(parts)


def _webp(data: bytes) -> bytes:
    parts = []
    at = 12
    while at + 8 <= len(data):
        kind, size = struct.unpack_from('<4sI', data, at)
        end = at + 8 + size + size % 2
        chunk = data[at:end]
        if kind == b'VP8X' and size:
            chunk = chunk[:8] + bytes([chunk[8] & ~_WEBP_EXIF]) + chunk[9:]
        if kind != b'EXIF':
            parts.append(chunk)
        at = end
    body = b''.join([*parts, data[at:]])
    return data[:4] + struct.pack('<I', 4 + len(body)) + data[8:12] + body


_STRIP: dict[str, Callable[[bytes], bytes]] = {'jpg': _jpeg, 'png': _png, 'webp': _webp}

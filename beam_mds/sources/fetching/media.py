"""What kind of file a body is, by its first bytes and by what the server calls it."""

from __future__ import annotations

import re
from collections.abc import Sequence

# Bytes of the head that `media_type` looks at.
HEAD_BYTES = 1024

_STARTS: tuple[tuple[bytes, str], ...] = (
    (b'\xff\xd8\xff', 'image/jpeg'),
    (b'\x89PNG\r\n\x1a\n', 'image/png'),
    (b'GIF87a', 'image/gif'),
    (b'GIF89a', 'image/gif'),
    (b'BM', 'image/bmp'),
    (b'II*\0', 'image/tiff'),
    (b'MM\0*', 'image/tiff'),
    (b'\0\0\1\0', 'image/x-icon'),
    (b'\xff\x0a', 'image/jxl'),
    (b'\0\0\0\x0cJXL \r\n\x87\n', 'image/jxl'),
    (b'\0\0\0\x0cjP  \r\n\x87\n', 'image/jp2'),
    (b'\x1aE\xdf\xa3', 'video/webm'),
    (b'FLV\1', 'video/x-flv'),
    (b'\0\0\1\xba', 'video/mpeg'),
    (b'\0\0\1\xb3', 'video/mpeg'),
    (b'0&\xb2u\x8ef\xcf\x11', 'video/x-ms-wmv'),
    (b'ID3', 'audio/mpeg'),
    (b'fLaC', 'audio/flac'),
    (b'#!AMR', 'audio/amr'),
    (b'%PDF-', 'application/pdf'),
    (b'PK\3\4', 'application/zip'),
    (b'\x1f\x8b', 'application/gzip'),
)

# RIFF....: the form, and what it is.
_RIFF = {b'WEBP': 'image/webp', b'AVI ': 'video/x-msvideo', b'WAVE': 'audio/wav'}

# ISO base media: the major brand; every other one is a video.
_BRANDS = {
    b'avif': 'image/avif', b'avis': 'image/avif', b'heic': 'image/heic', b'heix': 'image/heic',
    b'hevc': 'image/heic', b'mif1': 'image/heif', b'msf1': 'image/heif',
    b'M4A ': 'audio/mp4', b'M4B ': 'audio/mp4', b'qt  ': 'video/quicktime',
}  # fmt: skip

_TEXTS = (
    (re.compile(rb'<(!doctype html|html|head|body|script)\b', re.IGNORECASE), 'text/html'),
    (re.compile(rb'(<\?xml[^>]*>\s*)?(<!--.*?-->\s*)?(<!doctype svg[^>]*>\s*)?<svg\b',
                re.IGNORECASE | re.DOTALL), 'image/svg+xml'),
)  # fmt: skip

# Names that servers use for a type, and the one that we use.
_ALIASES = {
    'image/jpg': 'image/jpeg',
    'image/pjpeg': 'image/jpeg',
    'image/x-png': 'image/png',
    'image/vnd.microsoft.icon': 'image/x-icon',
    'image/x-ms-bmp': 'image/bmp',
    'video/x-matroska': 'video/webm',
    'video/m4v': 'video/mp4',
    'video/x-m4v': 'video/mp4',
    'audio/mp3': 'audio/mpeg',
    'audio/x-wav': 'audio/wav',
    'audio/x-flac': 'audio/flac',
}

# Kinds whose every usual format `media_type` knows: what it does not know is none of them.
_KNOWN_KINDS = ('image/', 'video/', 'audio/')

# What servers say of files that they know nothing of.
_UNSAID = frozenset(
    {'', 'application/octet-stream', 'binary/octet-stream', 'application/x-download'}
)

# Kinds that share containers: the bytes do not tell one from the other.
_CONTAINERS: tuple[frozenset[str], ...] = (
    frozenset({'video/mp4', 'video/quicktime', 'audio/mp4', 'video/3gpp'}),
    frozenset({'video/webm', 'audio/webm'}),
    frozenset({'video/ogg', 'audio/ogg', 'application/ogg'}),
)

_PATTERN = re.compile(r'(\*|[a-z0-9!#$&^_.+-]+)/(\*|[a-z0-9!#$&^_.+-]+)')


def media_type(data: bytes) -> str | None:
    """The type of a file by its first bytes; None when they tell nothing.

    Args:
        data: The file, or its first `HEAD_BYTES`.

    Example:
        >>> media_type(b'GIF89a...'), media_type(b' <!DOCTYPE html><html>'), media_type(b'word')
        ('image/gif', 'text/html', None)
    """
    for start, kind in _STARTS:
        if data.startswith(start):
            return kind
    for look in (_riff, _iso, _stream, _text):
        kind_or_none = look(data[:HEAD_BYTES])
        if kind_or_none is not None:
            return kind_or_none
    return None


def declared_type(header: str | None) -> str:
    """The type in a Content-Type header, in its usual name; empty when there is none.

    Example:
        >>> declared_type('Image/JPG; charset=binary')
        'image/jpeg'
    """
    name = (header or '').partition(';')[0].strip().lower()
    return _ALIASES.get(name, name)


def is_pattern(text: str) -> bool:
    """Whether a text can stand in `accept`: `image/*`, `image/png`, `*/*`."""
    found = _PATTERN.fullmatch(text)
    return found is not None and (found[1] != '*' or found[2] == '*')


def refuse_declared(declared: str, accept: Sequence[str]) -> str | None:
    """Why a body is not wanted by what the server calls it; None when it may be.

    Args:
        declared: As `declared_type` has it.
        accept: Patterns; anything when there is none.
    """
    if not accept or declared in _UNSAID or _matches(declared, accept):
        return None
    return f'the server calls it {declared}, accepted: {", ".join(accept)}'


def refuse_content(data: bytes, declared: str, accept: Sequence[str]) -> str | None:
    """Why a body is not wanted by its first bytes; None when it is.

    An image, video or audio must begin like one of a known format. Other types have no such mark:
    what the server calls them decides.

    Args:
        data: The body.
        declared: As `declared_type` has it.
        accept: Patterns; anything when there is none.
    """
    if not accept or '*/*' in accept:
        return None
    found = media_type(data)
    if found is not None and any(_matches(kind, accept) for kind in _alike(found)):
        return None
    other = [pattern for pattern in accept if not pattern.startswith(_KNOWN_KINDS)]
    if found is None and _matches(declared, other):
        return None
    return f'it begins like {found or "no known type"}, accepted: {", ".join(accept)}'


def _alike(kind: str) -> frozenset[str]:
    """The types that files with this beginning may have."""
    if kind.startswith('image/'):
        return frozenset({kind})
    return next((kinds for kinds in _CONTAINERS if kind in kinds), frozenset({kind}))


def _matches(kind: str, patterns: Sequence[str]) -> bool:
    group = kind.partition('/')[0]
    return any(pattern in (kind, f'{group}/*', '*/*') for pattern in patterns)


def _riff(data: bytes) -> str | None:
    return _RIFF.get(data[8:12]) if data.startswith(b'RIFF') else None


def _iso(data: bytes) -> str | None:
    return _BRANDS.get(data[8:12], 'video/mp4') if data[4:8] == b'ftyp' else None


def _stream(data: bytes) -> str | None:
    """Formats that are marked by more than their start."""
    if data.startswith(b'OggS'):
        return 'video/ogg' if b'theora' in data else 'audio/ogg'
    if data[:1] == data[188:189] == data[376:377] == b'G':
        return 'video/mp2t'
    # MPEG audio: eleven set bits, then neither a reserved version, layer nor rate.
    if len(data) > 2 and data[0] == 0xFF and data[1] >= 0xE0:
        valid = data[1] & 0x18 != 0x08 and data[1] & 0x06 and data[2] & 0xF0 != 0xF0
        return 'audio/mpeg' if valid else None
    return None


def _text(data: bytes) -> str | None:
    start = data.removeprefix(b'\xef\xbb\xbf').lstrip()
    return next((kind for pattern, kind in _TEXTS if pattern.match(start)), None)

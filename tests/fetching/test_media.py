from __future__ import annotations

import pytest

from beam_mds.sources.fetching.media import (
    declared_type,
    is_pattern,
    media_type,
    refuse_content,
    refuse_declared,
)
from tests.helpers.web import HTML, JPEG, MP4, PNG

_KINDS = {
    'image/jpeg': JPEG,
    'image/png': PNG,
    'image/gif': b'GIF89a......',
    'image/webp': b'RIFF\x10\0\0\0WEBPVP8 ',
    'image/bmp': b'BM......',
    'image/tiff': b'II*\0....',
    'image/avif': b'\0\0\0\x1cftypavif\0\0\0\0',
    'image/heic': b'\0\0\0\x18ftypheic\0\0\0\0',
    'image/jxl': b'\xff\x0a.....',
    'image/svg+xml': b'\xef\xbb\xbf<?xml version="1.0"?>\n<svg xmlns="...">',
    'video/mp4': MP4,
    'video/quicktime': b'\0\0\0\x14ftypqt  \0\0\0\0',
    'video/webm': b'\x1aE\xdf\xa3.......',
    'video/x-msvideo': b'RIFF\x10\0\0\0AVI LIST',
    'video/mpeg': b'\0\0\1\xba....',
    'video/mp2t': (b'G' + bytes(187)) * 3,
    'video/ogg': b'OggS' + bytes(24) + b'\x80theora',
    'audio/ogg': b'OggS' + bytes(24) + b'\1vorbis',
    'audio/mpeg': b'\xff\xfb\x90\x64....',
    'audio/wav': b'RIFF\x10\0\0\0WAVEfmt ',
    'audio/flac': b'fLaC....',
    'audio/mp4': b'\0\0\0\x20ftypM4A \0\0\0\0',
    'application/pdf': b'%PDF-1.7',
    'text/html': HTML,
}


@pytest.mark.parametrize('kind', _KINDS)
def test_a_file_is_known_by_its_first_bytes(kind: str) -> None:
    assert media_type(_KINDS[kind]) == kind


@pytest.mark.parametrize('data', [b'', b'G', b'plain words', b'\xff\xff\xff\xff', b'{"a": 1}'])
def test_what_has_no_known_beginning_has_no_type(data: bytes) -> None:
    assert media_type(data) is None


@pytest.mark.parametrize(
    ('header', 'kind'),
    [
        (None, ''), ('', ''), ('image/jpeg', 'image/jpeg'), ('Image/JPG;q=1', 'image/jpeg'),
        (' text/html; charset=utf-8', 'text/html'), ('image/x-png', 'image/png'),
    ],
)  # fmt: skip
def test_a_declared_type_has_its_usual_name(header: str | None, kind: str) -> None:
    assert declared_type(header) == kind


def test_patterns_are_types_with_stars() -> None:
    assert all(map(is_pattern, ['image/*', 'image/svg+xml', '*/*', 'application/vnd.ms-excel']))
    assert not any(map(is_pattern, ['image', '*/png', '*', 'image/', '', 'a/b/c', 'image/ *']))


@pytest.mark.parametrize(
    ('declared', 'accept', 'refused'),
    [
        ('text/html', ['image/*'], True),
        ('image/png', ['image/*'], False),
        ('image/png', ['image/jpeg', 'video/*'], True),
        ('video/mp4', ['image/jpeg', 'video/*'], False),
        # The server does not know: the bytes will tell.
        ('', ['image/*'], False),
        ('application/octet-stream', ['image/*'], False),
        ('text/html', [], False),
        ('text/html', ['*/*'], False),
    ],
)
def test_a_declared_type_must_be_accepted(declared: str, accept: list[str], refused: bool) -> None:
    assert (refuse_declared(declared, accept) is not None) == refused


@pytest.mark.parametrize(
    ('data', 'declared', 'accept', 'refused'),
    [
        (JPEG, 'image/jpeg', ['image/*'], False),
        (JPEG, '', ['image/*'], False),
        (JPEG, 'image/png', ['image/png'], True),
        (PNG, '', ['image/jpeg', 'image/png'], False),
        (HTML, 'image/jpeg', ['image/*'], True),
        (b'who knows', 'image/jpeg', ['image/*'], True),
        (MP4, '', ['image/*'], True),
        (MP4, '', ['image/*', 'video/*'], False),
        (HTML, 'text/html', [], False),
        (HTML, 'text/html', ['*/*'], False),
        # Types without a mark.
        (b'{}', 'application/json', ['application/json'], False),
        (b'{}', '', ['application/json'], True),
        (JPEG, 'application/json', ['application/json'], True),
        # One container for several kinds.
        (MP4, 'video/quicktime', ['video/quicktime'], False),
        (_KINDS['audio/ogg'], 'application/ogg', ['application/ogg'], False),
    ],
)
def test_the_first_bytes_must_be_accepted(
    data: bytes, declared: str, accept: list[str], refused: bool
) -> None:
    assert (refuse_content(data, declared, accept) is not None) == refused


def test_a_refusal_says_what_it_is_and_what_is_accepted() -> None:
    assert refuse_declared('text/html', ['image/*']) == (
        'the server calls it text/html, accepted: image/*'
    )
    assert refuse_content(HTML, '', ['image/*', 'video/mp4']) == (
        'it begins like text/html, accepted: image/*, video/mp4'
    )
    assert refuse_content(b'?', '', ['image/*']) == (
        'it begins like no known type, accepted: image/*'
    )

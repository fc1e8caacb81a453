"""Bodies once they are there: decompressed within a limit."""

from __future__ import annotations

import zlib

from beam_mds.sources.fetching.outcomes import Failed

# Window sizes for zlib: gzip's header or zlib's own; and none, as some servers send "deflate".
_ANY_HEADER, _NO_HEADER = 32 + zlib.MAX_WBITS, -zlib.MAX_WBITS

_ZLIB = ('gzip', 'x-gzip', 'deflate')


def decompress(data: bytes, encoding: str, limit: int) -> bytes:
    """A body without its Content-Encoding.

    Args:
        data: The body as it came.
        encoding: The header, in lower case.
        limit: Most bytes that may come out.

    Raises:
        Failed: The encoding is unknown, or the data is damaged or gives too many bytes.

    Example:
        >>> decompress(zlib.compress(b'body'), 'deflate', 4)
        b'body'
    """
    if encoding not in _ZLIB:
        raise Failed('content_encoding', f'Content-Encoding {encoding[:40]!r} was not asked for')
    # zlib's header: its method is 8 and its 16 bits are a multiple of 31.
    has_header = len(data) > 1 and data[0] & 15 == 8 and int.from_bytes(data[:2], 'big') % 31 == 0
    bits = _NO_HEADER if encoding == 'deflate' and not has_header else _ANY_HEADER
    parts, left = [], limit
    while data:  # gzip may have several members
        machine = zlib.decompressobj(bits)
        try:
            # One byte more than allowed shows that there is more.
            part = machine.decompress(data, left + 1)
        except zlib.error as error:
            raise Failed('content_encoding', f'Content-Encoding {encoding}: {error}') from None
        left -= len(part)
        if left < 0:
            raise Failed('too_large', f'over {limit} bytes once decompressed ({encoding})')
        if not machine.eof:
            raise Failed('content_encoding', f'Content-Encoding {encoding}: it ends too early')
        parts.append(part)
        data = b'' if encoding == 'deflate' else machine.unused_data
    return parts[0] if len(parts) == 1 else b''.join(parts)

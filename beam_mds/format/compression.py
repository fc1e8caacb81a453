"""Compression of shard files: br, bz2, gz, snappy, zstd, each with its levels.

Names, levels and default levels are those of mosaicml-streaming 0.13.0 (`base/compression.py`);
the name is also the file's suffix.
"""

from __future__ import annotations

import bz2
import gzip
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import zstandard

from beam_mds.errors import FormatError, OptionError

Buffers = Sequence[Any]  # bytes-like objects that stand one after another

# Offsets in a shard are uint32: what a file can decompress to, in bytes.
_LARGEST = 2**32 - 1

# Bytes that are decompressed at once where only the stream's end tells how many there are.
_PIECE = 1 << 20

# The most bytes that one byte of compressed data stands for. snappy: a copy of 64 bytes takes 3.
# zstd: a block of one byte repeated, 128 KiB at most, takes 4.
_SNAPPY_RATIO, _ZSTD_RATIO = 22, 1 << 15


class _Family(NamedTuple):
    """One algorithm: its levels, the default, and how it is run.

    `decompress` takes the data and the most bytes wanted; where there are more, it fails or gives
    a few more than that. It never allocates what only the data claim.
    """

    levels: range
    default: int
    compress: Callable[[Buffers, int], bytes]
    decompress: Callable[[bytes, int], bytes]


def _streamed(kind: str, data: bytes, most: int) -> bytes:
    pieces, left = [], most
    with pa.CompressedInputStream(pa.BufferReader(data), kind) as stream:
        while left >= 0 and (piece := stream.read(_PIECE)):
            pieces.append(piece)
            left -= len(piece)
    return b''.join(pieces)


def _zstd(parts: Buffers, level: int) -> bytes:
    # The frame must carry its content size (`size`), or the reader refuses it.
    total = sum(memoryview(part).nbytes for part in parts)
    stream = zstandard.ZstdCompressor(level=level).compressobj(size=total)
    return b''.join([*map(stream.compress, parts), stream.flush()])


def _unzstd(data: bytes, most: int) -> bytes:
    # At once where the frame and the index agree on something that can be.
    if zstandard.frame_content_size(data) == most <= min(_LARGEST, _ZSTD_RATIO * len(data)):
        return zstandard.ZstdDecompressor().decompress(data)
    return _streamed('zstd', data, most)


def _brotli(parts: Buffers, level: int) -> bytes:
    return bytes(pa.Codec('brotli', level).compress(_joined(parts), asbytes=True))


def _unbrotli(data: bytes, most: int) -> bytes:
    # As a stream: pa.Codec's one-shot decompression gives `size` bytes even if there are fewer.
    return _streamed('brotli', data, most)


def _snappy(parts: Buffers, level: int) -> bytes:  # noqa: ARG001 - has no levels
    return bytes(pa.Codec('snappy').compress(_joined(parts), asbytes=True))


def _unsnappy(data: bytes, most: int) -> bytes:
    # The raw size stands first, 7 bits a byte; pa.Codec gives `size` bytes even if there are fewer.
    size = 0
    for at, byte in enumerate(data[:5]):
        size |= (byte & 127) << 7 * at
        if byte < 128:
            break
    if size > min(most, _SNAPPY_RATIO * len(data)):
        raise ValueError(f'it claims to hold {size} bytes')
    return bytes(pa.Codec('snappy').decompress(data, size, asbytes=True))


def _gzip(parts: Buffers, level: int) -> bytes:
    # No time in the header: the same samples give the same file.
    return gzip.compress(_joined(parts), level, mtime=0)


def _ungzip(data: bytes, most: int) -> bytes:
    return _streamed('gzip', data, most)


def _bzip2(parts: Buffers, level: int) -> bytes:
    return bz2.compress(_joined(parts), level)


def _unbzip2(data: bytes, most: int) -> bytes:
    return _streamed('bz2', data, most)


def _joined(parts: Buffers) -> Any:
    return parts[0] if len(parts) == 1 else b''.join(parts)


_FAMILIES = {
    'br': _Family(range(12), 11, _brotli, _unbrotli),
    'bz2': _Family(range(1, 10), 9, _bzip2, _unbzip2),
    'gz': _Family(range(10), 9, _gzip, _ungzip),
    'snappy': _Family(range(0), 0, _snappy, _unsnappy),
    'zstd': _Family(range(1, 23), 3, _zstd, _unzstd),
}


# What may follow the raw name of a shard, as a regular expression; its group is the name.
OPTIONAL_SUFFIX = rf'(?:\.({"|".join(_FAMILIES)}))?'


def check_compression(name: str | None) -> str | None:
    """The name, once it is known to be right.

    Args:
        name: None, or `br bz2 gz snappy zstd`, alone or with a level: `zstd:7`.

    Raises:
        OptionError: No such algorithm or level.
    """
    if name is not None:
        _parse(name)
    return name


def suffix(name: str | None) -> str:
    """What a compressed file's name ends with: `.zstd` for `zstd:7`, nothing for None."""
    return '' if name is None else f'.{name.partition(":")[0]}'


def compress(name: str, parts: Buffers) -> bytes:
    """Compresses bytes-like objects that stand one after another into one frame.

    Example:
        >>> decompress('zstd', compress('zstd:7', [b'ab', b'c']), 3)
        b'abc'
    """
    family, level = _parse(name)
    return family.compress(parts, level)


def decompress(name: str, data: bytes, size: int | None = None) -> bytes:
    """Decompresses a file.

    Args:
        name: How it was compressed.
        data: All of it.
        size: Its raw size in bytes, as the index has it; None where there is no index: then any
            size that the format allows, which is below 2**32.

    Raises:
        FormatError: The data is damaged, or its raw size is another.
    """
    family, _ = _parse(name)
    most = _LARGEST if size is None else size
    try:
        if not data:
            raise ValueError('it is empty')
        raw = family.decompress(data, most)
    except Exception as error:
        raise FormatError(f'{name} data of {len(data)} bytes is damaged: {error}') from error
    if len(raw) > most:
        limit = f'a shard has at most {most}' if size is None else f'the index says {size}'
        raise FormatError(f'{name} data gives too many bytes: {limit}')
    if size is not None and len(raw) != size:
        raise FormatError(f'{name} data gives {len(raw)} bytes, the index says {size}')
    return raw


def _parse(name: Any) -> tuple[_Family, int]:
    base, colon, text = name.partition(':') if isinstance(name, str) else ('', '', '')
    family = _FAMILIES.get(base)
    if family is None:
        raise OptionError(
            f'unknown compression {repr(name)[:80]}: expected one of {", ".join(_FAMILIES)}, '
            'or one with a level like zstd:7'
        )
    if not colon:
        return family, family.default
    # Levels are compared as texts: the reader knows no 'zstd:07'.
    level = dict(zip(map(str, family.levels), family.levels, strict=True)).get(text)
    if level is None:
        levels = (
            f'levels {family.levels[0]} to {family.levels[-1]}' if family.levels else 'no levels'
        )
        raise OptionError(f'compression {base!r} has {levels}, got {text[:80]!r}')
    return family, level

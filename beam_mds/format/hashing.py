"""Hashes of shard files: the names that the reader accepts, and their hex digests."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import xxhash

from beam_mds.errors import OptionError

# mosaicml-streaming 0.13.0 (`base/hashing.py`) takes hashlib's named functions without shake,
# and xxhash's.
_HASHLIB = (
    'blake2b', 'blake2s', 'md5', 'sha1', 'sha224', 'sha256', 'sha384', 'sha3_224', 'sha3_256',
    'sha3_384', 'sha3_512', 'sha512',
)  # fmt: skip
_XXHASH = ('xxh128', 'xxh32', 'xxh3_128', 'xxh3_64', 'xxh64')
HASHES = tuple(sorted(_HASHLIB + _XXHASH))


def check_hashes(names: Sequence[str] | str | None) -> list[str]:
    """The hash names, sorted as the format wants them.

    Args:
        names: Several names, or one; None for no hashes.

    Raises:
        OptionError: A name is unknown or stands twice.
    """
    given: Any = names
    if not (given is None or isinstance(given, (str, Sequence))):
        raise OptionError(f'hashes must be a list of names, got {given!r:.80}')
    listed = [given] if isinstance(given, str) else list(given or ())
    for name in listed:
        if name not in HASHES:
            raise OptionError(
                f'unknown hash {repr(name)[:80]}: expected one of {", ".join(HASHES)}'
            )
    if len(set(listed)) != len(listed):
        raise OptionError(f'hashes must not repeat, got {repr(listed)[:80]}')
    return sorted(listed)


def hex_digest(name: str, parts: Sequence[Any]) -> str:
    """The hash of bytes-like objects that stand one after another.

    Example:
        >>> hex_digest('xxh64', [b'a', b'bc'])
        '44bc2cf5ad770999'
    """
    if name in _XXHASH:
        state = getattr(xxhash, name)()
    else:
        state = hashlib.new(name, usedforsecurity=False)
    for part in parts:
        state.update(part)
    return str(state.hexdigest())

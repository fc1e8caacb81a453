"""order='sorted': keys as bytes in their order, and the place of each among chosen keys.

Blocks carry the bytes of every sample's key. So that ranges of keys can be measured and cut like
ranges of hashes, some keys are chosen as bounds: those of a sample of the data, which depends on
nothing but the data. The position of a key is its place among the bounds.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from beam_mds.errors import EncodingError
from beam_mds.format import Samples
from beam_mds.format.encodings.base import describe
from beam_mds.format.samples import as_binary
from beam_mds.writing.keys import plain_key
from beam_mds.writing.planning import BUCKET_BITS, Int64s, UInt64s

# Most keys that are chosen, and their bytes. Up to about a thirtieth as many shards are filled to
# 90 % and more, which is 0.5 TB in shards of 64 MB.
_MOST_BOUNDS, _BOUND_BYTES = 1 << (BUCKET_BITS - 2), 64 << 20

# First byte of a number, text and bytes; what ends a tuple comes before them.
_END, _NUMBER, _BYTES, _TEXT, _TUPLE = b'\0', b'\1', b'\2', b'\3', b'\4'

_DOUBLE, _UINT64 = struct.Struct('>d'), struct.Struct('>Q')
_SIGN = 1 << 63


def sort_bytes(key: Any) -> bytes:
    """Bytes that are in the same order as the keys.

    Args:
        key: int, float, str, bytes, or a tuple of these.

    Raises:
        EncodingError: It is something else, NaN, or an int that is too large.
    """
    value = tuple(map(plain_key, key)) if isinstance(key, tuple) else plain_key(key)
    if isinstance(value, (str, bytes)):  # alone, it needs no end
        return (_TEXT if isinstance(value, str) else _BYTES) + _raw(value)
    return _item(value)


def _item(value: Any) -> bytes:
    if isinstance(value, bool) or not isinstance(value, (int, float, str, bytes, tuple)):
        raise EncodingError(
            f'key {describe(value)} has no order: expected int, float, str, bytes or a tuple'
        )
    if isinstance(value, tuple):
        return _TUPLE + b''.join(map(_item, value)) + _END
    if isinstance(value, (str, bytes)):
        # A zero byte inside is marked, so that the end comes before everything.
        escaped = _raw(value).replace(b'\0', b'\0\xff')
        return (_TEXT if isinstance(value, str) else _BYTES) + escaped + b'\0\0'
    return _NUMBER + _number(value)


def _raw(value: str | bytes) -> bytes:
    return value.encode('utf-8', 'surrogatepass') if isinstance(value, str) else value


def _number(value: int | float) -> bytes:
    """The nearest double, and what an int is above it."""
    try:
        near = float(value)
        rest = int(value) - int(near) if isinstance(value, int) else 0
        if math.isnan(near) or not -_SIGN <= rest < _SIGN:
            raise EncodingError(f'key {describe(value)} has no order, or is too large')
    except OverflowError:
        raise EncodingError(f'key {describe(value)} is too large') from None
    (bits,) = _UINT64.unpack(_DOUBLE.pack(near + 0.0))  # -0.0 is 0.0
    bits = bits ^ _SIGN if bits < _SIGN else bits ^ (2 * _SIGN - 1)
    return _UINT64.pack(bits) + _UINT64.pack(rest + _SIGN)


def ranks(keys: Samples) -> UInt64s:
    """The place of each key among the distinct ones, from 0."""
    ranked = pc.rank(as_binary(keys), sort_keys='ascending', tiebreaker='dense')
    found: UInt64s = ranked.to_numpy(zero_copy_only=False).astype(np.uint64) - np.uint64(1)
    return found


@dataclass(frozen=True)
class ChosenKeys:
    """Keys of a sample of the data: those of the least `priorities`.

    Attributes:
        priorities: float64 of shape (n,), sorted: a hash of a sample divided by its bytes.
        keys: The keys of these samples.
    """

    priorities: npt.NDArray[np.float64]
    keys: Samples

    def __len__(self) -> int:
        """The number of keys."""
        return len(self.keys)

    @staticmethod
    def of(keys: Samples, digests: UInt64s, weights: Int64s) -> ChosenKeys:
        """Chooses from n samples.

        Args:
            keys: n keys.
            digests: uint64 of shape (n,), hashes of the samples.
            weights: int64 of shape (n,), bytes of the samples.
        """
        return ChosenKeys._least(digests / weights.astype(np.float64), keys)

    @staticmethod
    def merged(parts: Sequence[ChosenKeys]) -> ChosenKeys:
        """The choice from several choices together, in any order."""
        priorities = np.concatenate([part.priorities for part in parts])
        return ChosenKeys._least(priorities, Samples.concat([part.keys for part in parts]))

    @staticmethod
    def _least(priorities: npt.NDArray[np.float64], keys: Samples) -> ChosenKeys:
        order = np.lexsort((ranks(keys), priorities))
        room = np.cumsum(keys.sizes[order]) <= _BOUND_BYTES
        chosen = order[:_MOST_BOUNDS][room[:_MOST_BOUNDS]]
        return ChosenKeys(priorities[chosen], keys.take(chosen))

    def bounds(self) -> Samples:
        """The distinct keys, sorted.

        Raises:
            EncodingError: They are of several kinds, which have no common order.
        """
        found = self.keys.take(np.unique(ranks(self.keys), return_index=True)[1])
        kinds = {bytes(key[:1]) for key in found}
        if len(kinds) > 1:
            raise EncodingError(
                "order='sorted': the keys are of several kinds (numbers, text, bytes, tuples), "
                'which have no common order'
            )
        return found


def positions_of(keys: Samples, bounds: Samples) -> UInt64s:
    """The position of each key: equal for keys between the same two bounds, and for each bound."""
    both = ranks(Samples.concat([keys, bounds]))
    mine, theirs = both[: len(keys)], both[len(keys) :]
    place = np.searchsorted(theirs, mine)
    exact = np.zeros(len(keys), np.uint64)
    inside = place < len(bounds)
    exact[inside] = theirs[place[inside]] == mine[inside]
    numbers = np.uint64(2) * place.astype(np.uint64) + exact
    found: UInt64s = numbers << np.uint64(64 - BUCKET_BITS)
    return found

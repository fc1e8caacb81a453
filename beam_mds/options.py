"""The options of a write, parsed and checked before a job starts."""

from __future__ import annotations

import math
import numbers
import operator
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from beam_mds import storage
from beam_mds.errors import OptionError
from beam_mds.format import Columns, ShardConfig
from beam_mds.format.compression import check_compression
from beam_mds.format.hashing import check_hashes
from beam_mds.format.shard import SHARD_CEILING

Key = str | Callable[[Mapping[str, Any]], Any] | None

_ORDERS = ('shuffled', 'arrival')

# Powers of 1024 whichever way the unit is spelled, as MDSWriter counts: 64mb = 64MiB = 2**26.
_UNITS = {'': 1, 'k': 1 << 10, 'm': 1 << 20, 'g': 1 << 30, 't': 1 << 40}


def parse_size(size: int | float | str, option: str = 'size_limit') -> int:
    """A size in bytes from an int or a text like `64mb`, `64 MB`, `1GiB`; powers of 1024.

    Raises:
        OptionError: It is no size, or not from 1 to 2**32 - 1 bytes.

    Example:
        >>> parse_size('64mb')
        67108864
    """
    given: Any = size
    number: Any = math.nan
    if not isinstance(given, bool) and isinstance(given, numbers.Real):
        number = given
    elif isinstance(given, str):
        found = re.fullmatch(r'\s*(\d+(?:\.\d*)?)\s*([kmgt]?)(i?b)?\s*', given.lower())
        if found and (found[2] or found[3] != 'ib'):
            number = float(found[1]) * _UNITS[found[2]]
    # `number % 1` is nan for what is not finite; an int may be too large for a float.
    if number % 1 != 0 or number < 1:
        raise OptionError(
            f'{option} must be a positive number of bytes, or a text like 64mb or 1GiB, '
            f'got {size!r:.80}'
        )
    if number >= SHARD_CEILING:
        raise OptionError(
            f'{option} must be below 2**32 bytes, since offsets in a shard are uint32, '
            f'got {size!r:.80}'
        )
    return int(number)


@dataclass(frozen=True)
class WriteOptions:
    """Checked options of `WriteToMDS`, which documents them."""

    out: str
    config: ShardConfig
    key: Key
    order: str
    seed: int
    num_shards: int | None
    spill: bool | str
    if_exists: str
    allow_empty: bool

    def __post_init__(self) -> None:
        """Checks single values and combinations."""
        _one_of('order', self.order, _ORDERS, {'sorted': 'not available yet'})
        _one_of(
            'if_exists', self.if_exists, ('error',),
            {'overwrite': 'not available yet', 'append': 'not available yet'},
        )  # fmt: skip
        if not isinstance(self.allow_empty, bool):
            raise OptionError(f'allow_empty must be True or False, got {self.allow_empty!r:.80}')
        if self.order == 'arrival':
            for name in ('key', 'num_shards', 'seed'):
                if getattr(self, name):
                    raise OptionError(f"{name} has no effect with order='arrival': leave it out")
        if self.config.size_limit is None and self.num_shards is None:
            raise OptionError(
                'size_limit=None would put the whole dataset into one shard, on one worker: give a '
                'size_limit, or num_shards'
            )
        if not (self.key is None or callable(self.key) or self.key in self.config.columns.names):
            raise OptionError(
                f'key={self.key!r:.80} is no column: expected a function of the sample, or one of '
                f'{", ".join(self.config.columns.names)}'
            )


def make_options(
    out: str | os.PathLike[str],
    columns: Mapping[str, str],
    *,
    compression: str | None,
    hashes: Sequence[str] | str | None,
    size_limit: int | float | str | None,
    key: Key,
    order: str,
    seed: int,
    num_shards: int | None,
    spill: bool | str | os.PathLike[str],
    if_exists: str,
    allow_empty: bool,
) -> WriteOptions:
    """Parses and checks what `WriteToMDS` is given.

    Raises:
        OptionError: One of them, or a combination, cannot work; it is named.
    """
    config = ShardConfig(
        Columns(columns),
        check_compression(compression),
        tuple(check_hashes(hashes)),
        None if size_limit is None else parse_size(size_limit),
    )
    if not isinstance(spill, bool) and spill != 'auto':
        spill = storage.absolute(spill, 'spill')
    return WriteOptions(
        storage.absolute(out),
        config,
        key,
        order,
        _int('seed', seed, 0, 2**64 - 1),
        None if num_shards is None else _int('num_shards', num_shards, 1, 10_000_000),
        spill,
        if_exists,
        allow_empty,
    )


def _one_of(name: str, value: Any, known: Sequence[str], later: Mapping[str, str]) -> None:
    if value not in known:
        reason = later.get(value, 'unknown') if isinstance(value, str) else 'unknown'
        raise OptionError(
            f'{name}={value!r:.80} is {reason}: expected {" or ".join(map(repr, known))}'
        )


def _int(name: str, value: Any, low: int, high: int) -> int:
    is_int = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not is_int or not low <= value <= high:
        raise OptionError(f'{name} must be an int from {low} to {high}, got {value!r:.80}')
    return operator.index(value)

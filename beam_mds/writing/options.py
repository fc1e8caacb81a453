"""The options of a write, parsed and checked before a job starts."""

from __future__ import annotations

import math
import numbers
import operator
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from beam_mds import storage
from beam_mds.errors import OptionError
from beam_mds.format import Columns, ShardConfig
from beam_mds.format.columns import Ignore
from beam_mds.format.compression import check_compression
from beam_mds.format.hashing import check_hashes
from beam_mds.format.shard import NO_LIMIT, SHARD_CEILING
from beam_mds.records import PLACE
from beam_mds.writing.splits import Split, check_split

Key = str | Callable[[Mapping[str, Any]], Any] | None
Order = Literal['shuffled', 'arrival', 'sorted']
IfExists = Literal['error', 'overwrite', 'append']
Extra = Literal['error', 'ignore']


class ArrowSchema(Protocol):
    """A `pyarrow.Schema`, for type checkers that know no types of pyarrow."""

    @property
    def names(self) -> list[str]:
        """The fields' names."""

    def __arrow_c_schema__(self) -> object:
        """The schema in Arrow's C interface."""


_ORDERS = ('shuffled', 'sorted', 'arrival')
_IF_EXISTS = ('error', 'overwrite', 'append')
_EXTRA = ('error', 'ignore')

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


# Shards of a dataset, or of a split of it.
_MOST_SHARDS = 10_000_000


@dataclass(frozen=True)
class WriteOptions:
    """Checked options of `WriteToMDS`, which documents them.

    Attributes:
        catch: Exception classes that make a sample a dead letter.
        threshold: Share of the samples that may be dead letters.
        errors_output: The file that the dead letters are in when the index is published.
    """

    out: str
    config: ShardConfig
    key: Key
    order: Order
    seed: int
    num_shards: int | dict[str, int] | None
    max_samples_per_shard: int | None
    split: Split
    drop_split_column: bool
    extra: Extra
    spill: bool | str
    if_exists: IfExists
    allow_empty: bool
    catch: tuple[type[Exception], ...] = ()
    threshold: float = 1.0
    errors_output: str | None = None

    def __post_init__(self) -> None:
        """Checks single values and combinations."""
        one_of('order', self.order, _ORDERS)
        one_of('if_exists', self.if_exists, _IF_EXISTS)
        one_of('extra', self.extra, _EXTRA)
        for name in ('allow_empty', 'drop_split_column'):
            if not isinstance(getattr(self, name), bool):
                raise OptionError(f'{name} must be True or False, got {getattr(self, name)!r:.80}')
        if self.order == 'arrival':
            for name in ('key', 'num_shards', 'seed'):
                if getattr(self, name):
                    raise OptionError(f"{name} has no effect with order='arrival': leave it out")
        if self.order == 'sorted' and self.key is None:
            raise OptionError("order='sorted' needs a key: a column, or a function of the sample")
        if self.order == 'sorted' and self.num_shards is not None:
            raise OptionError("num_shards has no effect with order='sorted': leave it out")
        if self.config.size_limit is None and not isinstance(self.num_shards, int):
            raise OptionError(
                'size_limit=None would put the whole dataset into one shard, on one worker: give a '
                'size_limit, or num_shards'
            )
        self._check_columns()
        if self.split is None and (self.drop_split_column or isinstance(self.num_shards, dict)):
            name = 'drop_split_column' if self.drop_split_column else 'num_shards as a dict'
            raise OptionError(f'{name} needs split')

    def _check_columns(self) -> None:
        """Checks the options that name columns."""
        names = self.config.columns.names
        if not (self.key is None or callable(self.key) or self.key in names):
            raise OptionError(
                f'key={self.key!r:.80} is no column: expected a function of the sample, or one of '
                f'{", ".join(names)}'
            )
        split: Any = self.split
        if not (split is None or callable(split) or isinstance(split, str)):
            raise OptionError(
                f'split must be a column or a function of the sample, got {split!r:.80}'
            )
        if self.drop_split_column and not isinstance(split, str):
            raise OptionError(f'drop_split_column needs a column as split, got {split!r:.80}')
        known = isinstance(split, str) and split in names
        if isinstance(split, str) and not (known or self.drop_split_column or self._ignores_all):
            raise OptionError(
                f'split={split!r:.80} is not in columns: add it there, or leave it out of the '
                'samples with drop_split_column=True'
            )

    @property
    def _ignores_all(self) -> bool:
        return self.extra == 'ignore'

    @property
    def ignore(self) -> Ignore:
        """Names that samples may have beside the columns; None: any."""
        if self._ignores_all:
            return None
        if isinstance(self.split, str) and self.drop_split_column:
            return PLACE, self.split
        return (PLACE,)

    @property
    def most(self) -> int:
        """Samples that a shard may have."""
        return self.max_samples_per_shard or NO_LIMIT

    def shards_of(self, split: str) -> int | None:
        """The number of shards wanted for a split; None: as many as its size takes."""
        if isinstance(self.num_shards, dict):
            return self.num_shards.get(split)
        return self.num_shards

    def folder_of(self, split: str) -> str:
        """Where the shards of a split lie."""
        return storage.join(self.out, split) if split else self.out


def make_options(
    out: str | os.PathLike[str],
    columns: Mapping[str, str],
    *,
    compression: str | None,
    hashes: Sequence[str] | str | None,
    size_limit: int | float | str | None,
    key: Key,
    order: Order,
    seed: int,
    num_shards: int | Mapping[str, int] | None,
    max_samples_per_shard: int | None,
    split: Split,
    drop_split_column: bool,
    extra: Extra,
    spill: bool | str | os.PathLike[str],
    if_exists: IfExists,
    allow_empty: bool,
) -> WriteOptions:
    """Parses and checks what `WriteToMDS` is given.

    Raises:
        OptionError: One of them, or a combination, cannot work; it is named.
    """
    if drop_split_column is True and isinstance(split, str) and isinstance(columns, Mapping):
        columns = {name: encoding for name, encoding in columns.items() if name != split}
    config = ShardConfig(
        Columns(columns),
        check_compression(compression),
        tuple(check_hashes(hashes)),
        None if size_limit is None else parse_size(size_limit),
    )
    if not isinstance(spill, bool) and spill != 'auto':
        spill = storage.absolute(spill, 'spill')
    return WriteOptions(
        out=storage.absolute(out),
        config=config,
        key=key,
        order=order,
        seed=_int('seed', seed, 0, 2**64 - 1),
        num_shards=_num_shards(num_shards),
        max_samples_per_shard=None
        if max_samples_per_shard is None
        else _int('max_samples_per_shard', max_samples_per_shard, 1, 2**32 - 1),
        split=split,
        drop_split_column=drop_split_column,
        extra=extra,
        spill=spill,
        if_exists=if_exists,
        allow_empty=allow_empty,
    )


def _num_shards(given: int | Mapping[str, int] | None) -> int | dict[str, int] | None:
    if given is None:
        return None
    if not isinstance(given, Mapping):
        return _int('num_shards', given, 1, _MOST_SHARDS)
    return {
        check_split(split): _int(f'num_shards[{split!r:.80}]', count, 1, _MOST_SHARDS)
        for split, count in given.items()
    }


def one_of(name: str, value: Any, known: Sequence[str]) -> None:
    """Checks an option that takes one of some words.

    Raises:
        OptionError: It is none of them.
    """
    if not isinstance(value, str) or value not in known:
        raise OptionError(
            f'{name}={value!r:.80} is unknown: expected {" or ".join(map(repr, known))}'
        )


def _int(name: str, value: Any, low: int, high: int) -> int:
    is_int = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not is_int or not low <= value <= high:
        raise OptionError(f'{name} must be an int from {low} to {high}, got {value!r:.80}')
    return operator.index(value)

"""Splits: which sub-dataset a sample belongs to; no Beam here."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from beam_mds.errors import EncodingError, OptionError
from beam_mds.format import INDEX_NAME
from beam_mds.format.columns import COLUMNAR, Batch, column_values, sample_rows
from beam_mds.format.encodings.base import describe
from beam_mds.writing.keys import key_bytes

Split = str | Callable[[Mapping[str, Any]], str] | None


class HashSplit:
    """Gives samples to splits by a hash of their key; see `hash_split`."""

    def __init__(
        self, shares: Mapping[str, float], key: str | Callable[[Mapping[str, Any]], Any], seed: int
    ) -> None:
        """Makes the function; see `hash_split` for the arguments and errors."""
        given: Any = shares
        if not isinstance(given, Mapping) or not given:
            raise OptionError(
                f"shares must be a dict like {{'train': 0.98, 'val': 0.02}}, got {given!r:.80}"
            )
        for name, share in given.items():
            check_split(name)
            if not isinstance(share, (int, float)) or not 0 <= share < math.inf:
                raise OptionError(f'share of {name!r:.80} must be 0 or more, got {share!r:.80}')
        if not sum(given.values()) > 0:
            raise OptionError('the shares of all splits are 0')
        if not (isinstance(key, str) or callable(key)):
            raise OptionError(f'key must be a column or a function of the sample, got {key!r:.80}')
        self._shares, self._key, self._seed = dict(given), key, seed
        total = sum(given.values())
        sums = itertools.accumulate(share / total for share in given.values())
        self._names = list(given)
        # The last bound is left out: what is over all others belongs to the last split.
        self._bounds = np.array(
            [min(int(share * 2**64), 2**64 - 1) for share in list(sums)[:-1]], np.uint64
        )

    def __repr__(self) -> str:
        return f'hash_split({self._shares!r}, {self._key!r}, seed={self._seed})'

    def __call__(self, sample: Mapping[str, Any]) -> str:
        """The split of a sample."""
        key = self._key
        if callable(key):
            return self._of(key(sample))
        if key not in sample:
            raise EncodingError('the sample has no such column', key)
        return self._of(sample[key])

    def column(self) -> str | None:
        """The column that is all this looks at, or None."""
        return self._key if isinstance(self._key, str) else None

    def _of(self, value: Any) -> str:
        digest = xxhash.xxh3_64_intdigest(key_bytes(value), self._seed)
        place = np.searchsorted(self._bounds, np.uint64(digest), side='right')
        return str(self._names[int(place)])


def hash_split(
    shares: Mapping[str, float], key: str | Callable[[Mapping[str, Any]], Any], *, seed: int = 0
) -> HashSplit:
    """A `split` that gives each sample to a split by a hash of its key.

    Samples of one key are in one split, in every run and whatever other samples there are.

    Args:
        shares: Split name -> its share of the keys; they are divided by their sum.
        key: A column, or a function of the sample, as `WriteToMDS` takes it.
        seed: Gives another division; not the seed of the order.

    Raises:
        OptionError: No shares, a negative one, or a name that is no relative path.

    Example:
        >>> split = hash_split({'train': 0.5, 'val': 0.5}, key='id')
        >>> [split({'id': number}) for number in range(3)]
        ['train', 'train', 'val']
    """
    return HashSplit(shares, key, seed)


@functools.lru_cache(maxsize=1 << 16)
def check_split(name: str) -> str:
    """Checks the name of a split: a relative posix path of a folder.

    Raises:
        OptionError: It is none, or could leave the dataset's folder.
    """
    given: Any = name
    parts = given.split('/') if isinstance(given, str) else []
    if not parts or {'', '.', '..', INDEX_NAME} & set(parts) or '\\' in name or '\0' in name:
        raise OptionError(
            f"split {describe(given)} is no folder's name: expected a relative path like 'train' "
            "or 'val/en', without empty parts, '.' or '..'"
        )
    return str(name)


def splits_of(split: Split, batch: Batch) -> tuple[list[str], npt.NDArray[np.int64]]:
    """The splits of a batch's samples.

    Args:
        split: A column or a function.
        batch: n samples.

    Returns:
        The names that occur, and an array of shape (n,) with each sample's place among them.

    Raises:
        EncodingError: The column is missing, or a value is no split's name.
    """
    column = split if isinstance(split, str) else None
    values: Sequence[Any]
    if isinstance(split, HashSplit) and isinstance(batch, COLUMNAR):
        column = split.column()
        values = (
            [split({column: key}) for key in column_values(batch, column)]
            if column is not None
            else list(map(split, sample_rows(batch)))
        )
    elif callable(split):
        values = list(map(split, sample_rows(batch)))
    else:
        values = column_values(batch, str(split))
    names: dict[str, int] = {}
    try:
        codes = np.fromiter(
            (names.setdefault(value, len(names)) for value in values), np.int64, len(values)
        )
        for name in names:
            check_split(name)
    except TypeError:  # cannot be hashed, so it is no text
        wrong = next(value for value in values if not isinstance(value, str))
        raise EncodingError(f'split {describe(wrong)} is not str', column) from None
    except OptionError as error:
        raise EncodingError(str(error), column) from None
    return list(map(str, names)), codes

"""Numbers and values summed up in a bounded memory; no pipeline here.

All of it is exact or rounded by a rule that looks at one number alone, so that what comes out does
not depend on how the numbers were cut into pieces, or in which order these were merged.
"""

from __future__ import annotations

import bisect
import itertools
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

PERCENTILES = (1, 5, 25, 50, 75, 95, 99)

# Bits of a float64's mantissa that a histogram forgets: the first 7 and the leading 1 are kept. So
# a bucket's numbers differ by less than 1 / 128, and whole numbers up to 256 are alone in theirs.
_FORGOTTEN = 52 - 7

# The smallest float64 above 0 is 2 ** -_UNIT, and all others are multiples of it.
_UNIT = 1074

# Numbers that are worked on at once, so that what is made of them stays in a processor's cache.
_CHUNK = 1 << 18

# Values are counted each for itself as long as there are not more different ones, and no text is of
# more characters.
MAX_VALUES, MAX_CHARACTERS = 1000, 64

# How often each of a few values came; None when there are more than MAX_VALUES.
Tally: TypeAlias = Counter[Any] | None


@dataclass
class Distribution:
    """What is kept of any number of numbers.

    Attributes:
        count: How many finite ones there are; all that follows is about these.
        nan: How many are NaN.
        infinite: How many are infinite.
        zeros: How many are 0.
        low: The smallest.
        high: The largest.
        floats: Whether any was a floating-point number.
        total: Their exact sum, in units of 2 ** -1074.
        buckets: The histogram: number of a bucket -> how many are in it. At most 128 buckets for
            each power of 2 from the smallest to the largest, and as many for negative numbers.

    Example:
        >>> found = Distribution()
        >>> found.add(np.array([1, 2, 2, 300]))
        >>> found.as_dict()['percentiles']['50']
        2
    """

    count: int = 0
    nan: int = 0
    infinite: int = 0
    zeros: int = 0
    low: int | float | None = None
    high: int | float | None = None
    floats: bool = False
    total: int = 0
    buckets: Counter[int] = field(default_factory=Counter)

    def add(self, numbers: npt.NDArray[Any]) -> None:
        """Adds an array of integers or floats, of any type and one dimension."""
        self.floats |= bool(numbers.dtype.kind == 'f') and len(numbers) > 0
        for start in range(0, len(numbers), _CHUNK):
            self._add(numbers[start : start + _CHUNK])

    def _add(self, numbers: npt.NDArray[Any]) -> None:
        if numbers.dtype.kind == 'f':
            finite = np.isfinite(numbers)
            if not finite.all():
                nan = int(np.isnan(numbers).sum())
                self.nan += nan
                self.infinite += len(numbers) - int(finite.sum()) - nan
                numbers = numbers[finite]
            numbers = numbers.astype(np.float64)
        if not len(numbers):
            return
        self.count += len(numbers)
        self.zeros += len(numbers) - int(np.count_nonzero(numbers))
        self._widen(numbers.min().item(), numbers.max().item())
        self.total += _exact_sum(numbers)
        self.buckets.update(_buckets(numbers.astype(np.float64, copy=False)))

    def _widen(self, low: float, high: float) -> None:
        # Adding 0 makes 0.0 of -0.0, which is equal.
        self.low = low + 0 if self.low is None else min(self.low, low + 0)
        self.high = high + 0 if self.high is None else max(self.high, high + 0)

    def merge(self, other: Distribution) -> None:
        """Adds what another one has."""
        self.count += other.count
        self.nan += other.nan
        self.infinite += other.infinite
        self.zeros += other.zeros
        self.floats |= other.floats
        self.total += other.total
        if other.low is not None and other.high is not None:
            self._widen(other.low, other.high)
        self.buckets.update(other.buckets)

    def as_dict(self) -> dict[str, Any]:
        """The result, of values that JSON holds.

        `min`, `mean`, `max` and `percentiles` are None without numbers. The mean is exact but for
        one rounding at the end. A percentile p is a number that at least p % of all are not above,
        as small as can be; it is rounded toward 0 to 8 binary digits, so by less than 0.8 %, and
        not at all up to 256 if it is whole.
        """
        empty = self.low is None or self.high is None
        kind = float if self.floats else int
        found = {
            'count': self.count,
            'min': None if self.low is None else kind(self.low),
            'mean': None if empty else self.total / (self.count << _UNIT),
            'max': None if self.high is None else kind(self.high),
            'percentiles': None if empty else self._percentiles(),
            'zeros': self.zeros,
        }
        if self.floats:
            return {**found, 'nan': self.nan, 'infinite': self.infinite}
        return {**found, 'total': self.total >> _UNIT}

    def _percentiles(self) -> dict[str, int | float]:
        assert self.low is not None
        assert self.high is not None
        keys = sorted(self.buckets)
        ranks = list(itertools.accumulate(self.buckets[key] for key in keys))
        found: dict[str, int | float] = {}
        for percent in PERCENTILES:
            rank = max(1, -(-self.count * percent // 100))
            key = keys[bisect.bisect_left(ranks, rank)]
            edge = float(np.int64(abs(key) << _FORGOTTEN).view(np.float64))
            value = min(max(-edge if key < 0 else edge, self.low), self.high)
            found[str(percent)] = float(value) if self.floats else int(value)
        return found


def _buckets(numbers: npt.NDArray[np.float64]) -> dict[int, int]:
    """The histogram of finite numbers: bucket -> count.

    Positive floats sort like their bits, so a bucket's number is the first of these.
    """
    keys = np.abs(numbers).view(np.int64) >> _FORGOTTEN
    np.negative(keys, out=keys, where=numbers < 0)
    first = int(keys.min())
    counts = np.bincount(keys - first)
    found = np.flatnonzero(counts)
    return dict(zip((found + first).tolist(), counts[found].tolist(), strict=True))


def _exact_sum(numbers: npt.NDArray[Any]) -> int:
    """The sum of up to _CHUNK finite numbers, in units of 2 ** -_UNIT."""
    if numbers.dtype.kind != 'f':
        # Sums of 32 bits each, which fit in 64.
        if numbers.dtype.itemsize < 8:
            return int(numbers.sum(dtype=np.int64)) << _UNIT
        high, low = int((numbers >> 32).sum()), int((numbers & 0xFFFFFFFF).sum())
        return ((high << 32) + low) << _UNIT
    parts, exponents = np.frexp(numbers)
    first = int(exponents.min())
    places = exponents - first
    digits = (parts * 2.0**53).astype(np.int64)
    # bincount adds in float64, which is exact for numbers of 27 bits.
    high_sums = np.bincount(places, weights=digits >> 26).tolist()
    low_sums = np.bincount(places, weights=digits & (1 << 26) - 1).tolist()
    total = 0
    for place, (above, below) in enumerate(zip(high_sums, low_sums, strict=True)):
        if above or below:
            total += ((int(above) << 26) + int(below)) << place
    shift = first - 53 + _UNIT
    return total << shift if shift >= 0 else total >> -shift


def tally(array: pa.Array) -> Tally:
    """Counts the values of an Arrow column."""
    found = pc.value_counts(array)
    if len(found) > MAX_VALUES:
        return None
    values, counts = found.field('values').to_pylist(), found.field('counts').to_pylist()
    return Counter(dict(zip(values, counts, strict=True)))


def merge_tallies(one: Tally, other: Tally) -> Tally:
    """Adds two; the first may be changed."""
    if one is None or other is None:
        return None
    one.update(other)
    return one if len(one) <= MAX_VALUES else None

"""What statistics must say, worked out number by number and value by value in plain Python."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

from beam_mds.format import Encoding

PERCENTS = (1, 5, 25, 50, 75, 95, 99)


def rounded(number: float) -> float:
    """A number rounded toward 0 to 8 binary digits, and to what subnormal numbers have of these."""
    if number == 0:
        return 0.0
    unit = math.ldexp(1.0, max(math.frexp(number)[1] - 8, 45 - 1074))
    return math.trunc(number / unit) * unit


def described(numbers: Iterable[float], floats: bool = False) -> dict[str, Any]:
    """What a distribution of these says."""
    given = list(numbers)
    finite = sorted(number for number in given if math.isfinite(number))
    kind = float if floats else int
    found: dict[str, Any] = {
        'count': len(finite),
        'min': None,
        'mean': None,
        'max': None,
        'percentiles': None,
        'zeros': finite.count(0),
    }
    if finite:
        low, high = finite[0], finite[-1]
        found['min'], found['max'] = kind(low), kind(high)
        found['mean'] = float(sum(map(Fraction, finite)) / len(finite))
        found['percentiles'] = {}
        for percent in PERCENTS:
            at = max(1, math.ceil(Fraction(percent * len(finite), 100)))
            value = rounded(float(finite[at - 1]))
            found['percentiles'][str(percent)] = kind(min(max(value, low), high))
    if floats:
        nan = sum(map(math.isnan, given))
        return {**found, 'nan': nan, 'infinite': len(given) - len(finite) - nan}
    return {**found, 'total': sum(finite)}


def counted(values: Iterable[Any]) -> list[dict[str, Any]]:
    """How often each value came, the most frequent first."""
    counts = sorted(Counter(values).items(), key=lambda item: (-item[1], item[0]))
    return [{'value': value, 'count': count} for value, count in counts]


def summed(encoding: Encoding, items: Sequence[bytes]) -> dict[str, Any]:
    """What the statistics of a column of these encoded values say."""
    found: dict[str, Any] = {'count': len(items), 'bytes': sum(map(len, items))}
    sizes = {'bytes': described(map(len, items))}
    base = encoding.name.partition(':')[0]
    if base == 'ndarray':
        return {**found, **_of_arrays(encoding, [encoding.decode(item) for item in items])}
    if base in ('str', 'json', 'str_int', 'str_decimal'):
        texts = [item.decode() for item in items]
        characters = {'characters': described(map(len, texts))} if base == 'str' else {}
        values = counted(texts) if max(map(len, texts), default=0) <= 64 else None
        return {**found, 'lengths': {**characters, **sizes}, 'values': values}
    if base.startswith(('list', 'jpeg_', 'jpegarray')):
        at = 4 if base.startswith('list') else 0
        counts = (int.from_bytes(item[at : at + 4], 'little') for item in items)
        return {**found, 'lengths': {'items': described(counts), **sizes}}
    if base in ('bytes', 'jpeg', 'png', 'pil', 'pkl'):
        return {**found, 'lengths': sizes}
    numbers = [float(encoding.decode(item)) for item in items]
    if 'float' in base:
        return {**found, 'numbers': described(numbers, floats=True)}
    integers = [int(encoding.decode(item)) for item in items]
    return {**found, 'numbers': described(integers), 'values': counted(integers)}


def _of_arrays(encoding: Encoding, arrays: Sequence[Any]) -> dict[str, Any]:
    floats = any(array.dtype.kind == 'f' for array in arrays)
    found: dict[str, Any] = {
        'lengths': {'elements': described(array.size for array in arrays)},
        'numbers': described((x for array in arrays for x in array.ravel().tolist()), floats),
    }
    if encoding.name == 'ndarray':
        found['dtypes'] = counted(array.dtype.name for array in arrays)
    if nested := [array.shape for array in arrays if array.ndim != 1]:
        counts = counted(nested)
        found['shapes'] = [{**item, 'value': list(item['value'])} for item in counts]
    return found

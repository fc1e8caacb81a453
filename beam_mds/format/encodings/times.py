"""Dates, times and durations as whole microseconds, which is what int64 columns hold of them.

One unit for all of them: it is that of Python's datetime, and a column of dates in which some
values are datetimes (pandas makes such) stays right.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa

from beam_mds.errors import EncodingError
from beam_mds.format.encodings.base import (
    Part,
    Values,
    bad_value,
    decoded_dictionary,
    null_value,
    plain,
)
from beam_mds.format.encodings.scalars import Integer

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
_MICRO = dt.timedelta(microseconds=1)
_DAY = dt.timedelta(days=1) // _MICRO

_CLASSES, _NUMPY = (dt.datetime, dt.timedelta), (np.datetime64, np.timedelta64)

# Lengths of time that differ from case to case, or are not known.
_VAGUE_UNITS = ('Y', 'M', 'generic')

_FRACTION = 'is not a whole number of microseconds'


class Int64(Integer):
    """Integers of 64 bits; of a date, time or duration its microseconds.

    Dates and datetimes count from 1970-01-01T00:00 UTC, those without a time zone as if they were
    UTC; times count from midnight.
    """

    def __init__(self) -> None:
        """Makes the encoding `int64`."""
        super().__init__('int64')

    def encode(self, value: Any) -> bytes:
        number = _micros(plain(value))
        return super().encode(value if number is None else number)

    def encode_column(self, values: Values) -> list[Part]:
        if isinstance(values, pa.Array):
            values = _arrow_micros(decoded_dictionary(values))
        return super().encode_column(values)


def _micros(value: Any) -> int | None:
    """The microseconds of a date, time or duration; None for any other value."""
    if isinstance(value, (*_CLASSES, *_NUMPY)) and str(value) == 'NaT':
        raise null_value()
    if isinstance(value, _CLASSES):
        # pandas' classes have more digits.
        if getattr(value, 'nanosecond', 0) or getattr(value, 'nanoseconds', 0):
            raise bad_value(value, _FRACTION)
        if isinstance(value, dt.timedelta):
            return value // _MICRO
        zoned = value if value.tzinfo is not None else value.replace(tzinfo=dt.timezone.utc)
        return (zoned - _EPOCH) // _MICRO
    if isinstance(value, dt.date):
        return (value.toordinal() - _EPOCH.toordinal()) * _DAY
    if isinstance(value, dt.time):
        if value.tzinfo is not None:
            raise bad_value(value, 'is a time of day with a time zone')
        since = dt.timedelta(0, value.second, value.microsecond, 0, value.minute, value.hour)
        return since // _MICRO
    if isinstance(value, _NUMPY):
        return _numpy_micros(value)
    if type(value).__module__ == 'apache_beam.utils.timestamp':
        try:
            return int(value.micros)
        except ValueError:
            raise bad_value(value, _FRACTION) from None
    return None


def _numpy_micros(value: np.datetime64 | np.timedelta64) -> int:
    kind = 'M8[us]' if isinstance(value, np.datetime64) else 'm8[us]'
    if isinstance(value, np.timedelta64) and np.datetime_data(value.dtype)[0] in _VAGUE_UNITS:
        raise bad_value(value, 'has a unit of no fixed length')
    micros = value.astype(kind)
    if micros.astype(value.dtype) != value:
        raise bad_value(value, _FRACTION)
    return int(micros.astype(np.int64))


def _arrow_micros(values: pa.Array) -> pa.Array:
    """Arrow dates, times and durations as int64; any other column as it is."""
    kind = values.type
    if pa.types.is_date(kind):
        unit = pa.timestamp('us')
    elif pa.types.is_timestamp(kind):
        unit = pa.timestamp('us', kind.tz)
    elif pa.types.is_time(kind):
        unit = pa.time64('us')
    elif pa.types.is_duration(kind):
        unit = pa.duration('us')
    else:
        return values
    try:
        return values.cast(unit).cast(pa.int64())
    except pa.ArrowInvalid as error:
        raise EncodingError(
            f'Arrow type {kind} has a value that {_FRACTION} or does not fit: {str(error)[:80]}'
        ) from None

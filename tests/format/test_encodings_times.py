from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from apache_beam.utils.timestamp import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from tests.format.helpers import arrow_error_of, encode_arrow, encode_list, error_of, round_trip

EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001
MICRO = dt.timedelta(microseconds=1)


class PandasTime(dt.datetime):
    """What tells pandas' datetimes from Python's."""

    nanosecond = 1


class PandasSpan(dt.timedelta):
    nanoseconds = 1


@given(moments=st.lists(st.datetimes(), min_size=1, max_size=5))
def test_datetimes_are_microseconds_from_every_side(moments: list[dt.datetime]) -> None:
    made = encode_list('int64', moments)

    assert made == encode_list('int64', [(moment - EPOCH) // MICRO for moment in moments])
    assert made == encode_list('int64', [m.replace(tzinfo=dt.timezone.utc) for m in moments])
    assert made == encode_list('int64', list(map(np.datetime64, moments)))
    for zone in (None, 'UTC', 'Australia/Sydney'):
        column = pa.array(moments, pa.timestamp('us')).cast(pa.timestamp('us', zone))
        if zone is not None:
            column = pa.array([(m - EPOCH) // MICRO for m in moments]).cast(column.type)
        assert made == encode_arrow('int64', column)


@given(days=st.lists(st.dates(), min_size=1, max_size=5))
def test_dates_are_the_microseconds_of_their_midnight(days: list[dt.date]) -> None:
    midnights = [dt.datetime.combine(day, dt.time()) for day in days]
    made = encode_list('int64', days)

    assert made == encode_list('int64', midnights)
    assert made == encode_arrow('int64', pa.array(days, pa.date32()))
    assert made == encode_arrow('int64', pa.array(days, pa.date64()))
    assert made == encode_arrow('int64', pa.array(days).dictionary_encode())


@given(spans=st.lists(st.timedeltas(dt.timedelta(-100000), dt.timedelta(100000)), min_size=1))
def test_durations_are_microseconds_from_every_side(spans: list[dt.timedelta]) -> None:
    made = encode_list('int64', spans)

    assert made == encode_list('int64', [span // MICRO for span in spans])
    assert made == encode_list('int64', list(map(np.timedelta64, spans)))
    assert made == encode_arrow('int64', pa.array(spans, pa.duration('us')))
    assert made == encode_arrow('int64', pa.array(spans, pa.duration('ns')))


@given(times=st.lists(st.times(), min_size=1, max_size=5))
def test_times_are_microseconds_since_midnight(times: list[dt.time]) -> None:
    made = encode_list('int64', times)

    assert made == encode_list(
        'int64', [(dt.datetime.combine(EPOCH, time) - EPOCH) // MICRO for time in times]
    )
    assert made == encode_arrow('int64', pa.array(times, pa.time64('us')))
    assert made == encode_arrow('int64', pa.array(times, pa.time64('ns')))


def test_dates_and_numbers_may_stand_in_one_column() -> None:
    assert encode_list('int64', [1, dt.date(1970, 1, 1)]) == encode_list('int64', [1, 0])
    assert round_trip('int64', pa.scalar(dt.date(1970, 1, 2))) == 86_400_000_000


@pytest.mark.parametrize(
    ('value', 'reason'),
    [
        (np.datetime64(1, 'ns'), 'is not a whole number of microseconds'),
        (np.datetime64('NaT'), 'the value is None (null)'),
        (np.datetime64(2**60, 's'), 'is not a whole number of microseconds'),
        (np.timedelta64(1, 'ns'), 'is not a whole number of microseconds'),
        (np.timedelta64('NaT', 's'), 'the value is None (null)'),
        (np.timedelta64(3, 'M'), 'has a unit of no fixed length'),
        (np.timedelta64(3), 'has a unit of no fixed length'),
        (PandasTime(2020, 1, 1), 'is not a whole number of microseconds'),
        (PandasSpan(1), 'is not a whole number of microseconds'),
        (Timestamp(0, 1, 9), 'is not a whole number of microseconds'),
        (dt.time(1, tzinfo=dt.timezone.utc), 'is a time of day with a time zone'),
        (None, 'the value is None (null)'),
    ],
)
def test_a_time_without_exact_microseconds_is_an_error(value: Any, reason: str) -> None:
    assert reason in error_of('int64', value)


@pytest.mark.parametrize(
    ('array', 'reason'),
    [
        (pa.array([0, 1000, 1], pa.timestamp('ns')), 'is not a whole number of microseconds'),
        (pa.array([0, 1000, 1], pa.duration('ns')), 'is not a whole number of microseconds'),
        (pa.array([0, 1000, 1], pa.time64('ns')), 'is not a whole number of microseconds'),
        (pa.array([0, 1, 2**62], pa.timestamp('s')), 'or does not fit'),
        (pa.array([0, 1, 2**31 - 1], pa.date32()), 'or does not fit'),
        (pa.array([0, 1, None], pa.timestamp('us')), 'the value is None (null)'),
        (pa.array([0, 1, None], pa.date32()), 'the value is None (null)'),
    ],
)
def test_an_arrow_time_without_exact_microseconds_is_an_error(array: Any, reason: str) -> None:
    error = arrow_error_of('int64', array)

    assert reason in error.reason
    assert error.row == 2


@pytest.mark.parametrize('encoding', ['int', 'int32', 'uint64', 'float64', 'str', 'json'])
def test_no_other_encoding_takes_times(encoding: str) -> None:
    for value in (dt.date(1970, 1, 2), EPOCH, dt.time(1), dt.timedelta(1)):
        error_of(encoding, value)

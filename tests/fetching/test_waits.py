from __future__ import annotations

import datetime as dt

import pytest

from beam_mds.sources.fetching.waits import RETRIED_STATUSES, delay, retry_after

_NOW = dt.datetime(2026, 11, 30, 12, 0, 0, tzinfo=dt.timezone.utc)


@pytest.mark.parametrize(
    ('header', 'seconds'),
    [
        (None, None), ('', None), ('soon', None), ('-1', None), ('1.5', None),
        ('0', 0.0), (' 120 ', 120.0), ('9' * 500, float('9' * 12)),
        ('Mon, 30 Nov 2026 12:01:30 GMT', 90.0),
        ('Mon, 30 Nov 2026 12:01:30 -0000', 90.0),
        ('Mon, 30 Nov 2026 13:01:30 +0100', 90.0),
        ('Mon, 30 Nov 2026 11:00:00 GMT', 0.0),
    ],
)  # fmt: skip
def test_retry_after_is_seconds_or_a_date(header: str | None, seconds: float | None) -> None:
    assert retry_after(header, _NOW) == seconds


def test_waits_double_and_are_drawn_at_random_up_to_a_limit() -> None:
    waits = [[delay(attempt, None, 60) for _ in range(200)] for attempt in (1, 2, 3, 40)]
    for some, middle in zip(waits, (0.5, 1.0, 2.0, 30.0), strict=True):
        assert middle / 2 <= min(some) < middle < max(some) <= middle * 1.5


def test_what_the_server_asks_for_is_waited_within_the_limit() -> None:
    assert 7 <= delay(1, 7, 60) <= 7.1
    assert 60 <= delay(1, 3600, 60) <= 60.1


def test_only_answers_that_may_change_are_retried() -> None:
    assert {408, 425, 429, 500, 502, 503, 504} <= RETRIED_STATUSES
    assert not {200, 301, 400, 401, 403, 404, 410, 416, 451} & RETRIED_STATUSES

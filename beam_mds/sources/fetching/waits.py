"""How long to wait before a URL is asked again."""

from __future__ import annotations

import datetime as dt
import email.utils
import random

# Answers that may be another one later.
RETRIED_STATUSES = frozenset({408, 425, 429, *range(500, 600)})

# Seconds: about the first wait, and the longest without a Retry-After. Each wait is drawn from half
# to one and a half times the delay, so that many workers do not come back at once.
_FIRST, _LONGEST = 0.5, 30.0


def retry_after(header: str | None, now: dt.datetime) -> float | None:
    """Seconds that a Retry-After header asks for; None when it says nothing that can be read.

    Args:
        header: Seconds, or an HTTP date.
        now: The time, with its zone.

    Example:
        >>> retry_after('120', dt.datetime.now(dt.timezone.utc))
        120.0
    """
    text = (header or '').strip()
    if text.isascii() and text.isdigit():
        return float(text[:12])  # more digits are no number of seconds that anyone waits
    try:
        when = email.utils.parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return None
    if when.tzinfo is None:  # a date with the zone -0000
        when = when.replace(tzinfo=dt.timezone.utc)
    return max(0.0, (when - now).total_seconds())


def delay(attempt: int, asked: float | None, longest: float) -> float:
    """Seconds to wait after an attempt that failed.

    Args:
        attempt: 1 for the first.
        asked: What Retry-After says, if it does.
        longest: The most that is waited because it was asked for.
    """
    if asked is not None:
        return min(asked, longest) + random.uniform(0, 0.1)
    return min(_FIRST * float(2 ** min(attempt - 1, 30)), _LONGEST) * random.uniform(0.5, 1.5)

"""Calls to a store that are made again while it is busy."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TypeVar

from apache_beam.io.filesystem import BeamIOError
from google.api_core import retry

from beam_mds.errors import StorageError

_logger = logging.getLogger(__name__)
_T = TypeVar('_T')

# Answers of a store that is busy or just failed, and is worth asking again.
_TRANSIENT_CODES = frozenset({408, 429, 500, 502, 503, 504})

# Seconds: the first wait, the longest wait, and how long a call is repeated in all. Waits are drawn
# at random below twice the delay, so that many workers do not come back at once.
_FIRST_WAIT, _LONGEST_WAIT, _GIVE_UP_AFTER = 0.5, 20.0, 180.0


def retried(call: Callable[[], _T], what: str) -> _T:
    """Runs a call again, with growing jittered waits, while the store says it may work later.

    Args:
        call: The call.
        what: What it does, like `read gs://bucket/file`.

    Raises:
        StorageError: It failed for good.
    """
    try:
        again = retry.Retry(
            predicate=is_transient,
            initial=_FIRST_WAIT,
            maximum=_LONGEST_WAIT,
            timeout=_GIVE_UP_AFTER,
            on_error=lambda error: _logger.warning('%s: %s; trying again', what, error),
        )
        result: _T = again(call)()
        return result
    except StorageError:
        raise
    except Exception as error:
        raise StorageError(f'could not {what}: {type(error).__name__}: {error}') from error


def is_transient(error: BaseException) -> bool:
    """Whether an error, or one that caused it, is a busy store or a broken connection."""
    return any(
        isinstance(cause, (ConnectionError, TimeoutError))
        or (isinstance(cause, Exception) and retry.if_transient_error(cause))
        or any(
            getattr(cause, name, None) in _TRANSIENT_CODES
            for name in ('code', 'status_code', 'status')
        )
        for cause in _causes(error)
    )


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        if isinstance(error, BeamIOError):
            for detail in (error.exception_details or {}).values():
                if isinstance(detail, BaseException):
                    yield from _causes(detail)
        error = error.__cause__ or error.__context__

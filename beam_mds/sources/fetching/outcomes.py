"""What can become of a URL: one closed set of categories."""

from __future__ import annotations

from typing import NamedTuple

# The one category that is no failure.
FETCHED = 'fetched'

# Every way to fail -> what it means. The error_type of a `BadRecord` is one of these, and each has
# a counter `urls_<category>`.
FAILURES = {
    'bad_row': 'the row has no URL, or has columns of its own where the results go',
    'bad_url': 'the URL cannot be parsed',
    'scheme': 'the URL, or where it redirects to, has a scheme that is not allowed',
    'refused_address': 'the host, or one redirected to, is not on the public internet',
    'dns': 'the host has no address',
    'connection': 'no connection, or it broke before the body began',
    'tls': 'the server has no valid certificate for its name, or speaks no TLS',
    'timeout': 'connecting, waiting for bytes, or all of it took too long',
    'protocol': 'the answer is not HTTP',
    'redirect': 'too many redirects, or one that leads nowhere',
    'http_404': 'the server has no such file (404, 410)',
    'http_denied': 'the server refuses access (401, 402, 403, 407, 451)',
    'http_429': 'too many requests, also after the retries',
    'http_4xx': 'another answer from 400 to 499',
    'http_5xx': 'the server failed, also after the retries',
    'http_other': 'an answer that is neither a success nor an error, or has no whole body',
    'opted_out': 'the server refuses this use (X-Robots-Tag)',
    'wrong_type': 'not a type that is accepted, by Content-Type or by the first bytes',
    'too_large': 'the body is over the size limit',
    'short_body': 'the body ended before its length was reached',
    'empty_body': 'the body has no bytes',
    'content_encoding': 'the body is compressed in a way that is unknown, or damaged',
    'image': 'the image cannot be decoded, or is not of a wanted size',
    'storage': 'a file on a Beam filesystem is absent or cannot be read',
    'internal': 'anything else; the message has the error',
}

_STATUSES = {
    **dict.fromkeys((404, 410), 'http_404'),
    **dict.fromkeys((401, 402, 403, 407, 451), 'http_denied'),
    429: 'http_429',
}

# Answers whose body is the file.
GOOD_STATUSES = frozenset({200, 203})


class Outcome(NamedTuple):
    """What became of one URL.

    Attributes:
        category: `fetched`, or a key of `FAILURES`.
        message: What went wrong, for people; empty when nothing did.
        status: The last HTTP status; 0 where there was none.
        data: The body; empty unless fetched.
        retry: Whether another attempt may succeed.
        wait: Seconds that the server asks to wait before it, if it does.
    """

    category: str
    message: str = ''
    status: int = 0
    data: bytes = b''
    retry: bool = False
    wait: float | None = None


def status_category(status: int) -> str:
    """The category of an answer that is no success.

    Example:
        >>> status_category(410), status_category(503), status_category(204)
        ('http_404', 'http_5xx', 'http_other')
    """
    if status in _STATUSES:
        return _STATUSES[status]
    return f'http_{status // 100}xx' if 400 <= status < 600 else 'http_other'


class Failed(Exception):  # noqa: N818 - not an error of the job
    """Ends an attempt.

    Attributes:
        outcome: What became of the URL.
    """

    def __init__(
        self,
        category: str,
        message: str,
        status: int = 0,
        *,
        retry: bool = False,
        wait: float | None = None,
    ) -> None:
        """Makes it; see `Outcome` for the arguments."""
        super().__init__(message)
        self.outcome = Outcome(category, message, status, b'', retry, wait)

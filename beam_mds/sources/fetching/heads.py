"""The heads of HTTP answers: what is taken from them, and whether the body is wanted."""

from __future__ import annotations

import datetime as dt

from beam_mds.sources.fetching import media, robots, waits
from beam_mds.sources.fetching.options import FetchOptions
from beam_mds.sources.fetching.outcomes import GOOD_STATUSES, Failed, Outcome, status_category

# Headers that mean something here.
_WANTED = frozenset(
    {b'content-length', b'content-type', b'content-encoding', b'retry-after', b'x-robots-tag'}
)

_TAGS = b'x-robots-tag'


class Head:
    """The head of an answer, line by line; after a redirect, that of the next answer.

    Attributes:
        status: 0 before there is one.
        reason: What stands behind the status.
        complete: Whether all of it is there.
    """

    def __init__(self) -> None:
        """Starts empty."""
        self.status, self.reason, self.complete = 0, '', False
        self._values: dict[bytes, bytes] = {}
        self._tags: list[str] = []  # also of the answers before

    def add(self, line: bytes) -> None:
        """Takes one line, with its end."""
        if line.startswith(b'HTTP/'):
            _, _, rest = line.partition(b' ')
            code, _, reason = rest.strip().partition(b' ')
            self.status = int(code) if code.isdigit() else 0
            self.reason = reason.decode('latin-1').strip()
            self._values, self.complete = {}, False
            return
        name, colon, value = line.partition(b':')
        if not colon:
            self.complete = self.complete or not line.strip()
            return
        name = name.strip().lower()
        if name not in _WANTED or self.complete:  # what comes behind a body is no head
            return
        self._values[name] = value.strip()
        if name == _TAGS:
            self._tags.append(value.decode('latin-1'))

    def value(self, name: str) -> str:
        """A header's value; empty when there is none."""
        return self._values.get(name.encode(), b'').decode('latin-1')

    @property
    def is_good(self) -> bool:
        """Whether the body is the file."""
        return self.status in GOOD_STATUSES

    @property
    def length(self) -> int | None:
        """Content-Length."""
        text = self.value('content-length')
        return int(text) if text.isascii() and text.isdigit() else None

    @property
    def encoding(self) -> str:
        """Content-Encoding in lower case; empty where there is none."""
        text = self.value('content-encoding').lower()
        return '' if text == 'identity' else text

    @property
    def kind(self) -> str:
        """The type that the server tells."""
        return media.declared_type(self.value('content-type'))

    def check(self, options: FetchOptions) -> None:
        """Refuses a body that is not wanted.

        Raises:
            Failed: It is not.
        """
        directive = robots.opted_out(
            self._tags, options.user_agent_token, options.disallowed_header_directives
        )
        if directive:
            raise Failed('opted_out', f'X-Robots-Tag: {directive}', self.status)
        if reason := media.refuse_declared(self.kind, options.accept):
            raise Failed('wrong_type', reason, self.status)
        if self.length is not None and self.length > int(options.max_bytes):
            raise Failed(
                'too_large',
                f'{self.length} bytes by Content-Length, the limit is {options.max_bytes}',
                self.status,
            )

    def refusal(self) -> Outcome:
        """The outcome of an answer that is no success."""
        if not self.status:
            return Outcome('protocol', 'the answer is not HTTP')
        text = f'HTTP {self.status} {self.reason}'.rstrip()[:200]
        if 300 <= self.status < 400:
            return Outcome('redirect', f'{text}: it leads nowhere', self.status)
        category = status_category(self.status)
        if self.status not in waits.RETRIED_STATUSES:
            return Outcome(category, text, self.status)
        now = dt.datetime.now(dt.timezone.utc)
        wait = waits.retry_after(self.value('retry-after'), now)
        return Outcome(category, text, self.status, retry=True, wait=wait)

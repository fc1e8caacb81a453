"""How URLs are fetched."""

from __future__ import annotations

import math
import numbers
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from beam_mds._version import __version__
from beam_mds.errors import OptionError
from beam_mds.sources.fetching.media import is_pattern
from beam_mds.writing.options import parse_size

# Directives that img2dataset respects, too.
DISALLOWED = ('noai', 'noimageai', 'noindex', 'noimageindex')

WEB = ('http', 'https')

# A token of RFC 9110, without what would be ambiguous in X-Robots-Tag.
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_SCHEME = re.compile(r'[a-z][a-z0-9+.-]*')


@dataclass(frozen=True)
class FetchOptions:
    """How URLs are fetched; all values are checked when it is made.

    Attributes:
        concurrency: Requests at once in one worker process, over all of its threads.
        per_host: Requests at once to one host.
        connect_timeout: Seconds to find, reach and greet a host.
        read_timeout: Seconds without a byte.
        total_timeout: Seconds for one attempt, redirects and body included.
        max_bytes: Largest body, as it comes and decompressed: bytes, or a text like `64mb`.
        max_in_flight: Bytes of bodies that one worker process may hold, or a text like `128mb`; a
            single larger body may exceed it by `max_bytes`.
        max_redirects: Redirects followed for one URL.
        retries: Attempts after the first one.
        max_retry_after: Longest wait, in seconds, that a server's Retry-After is granted.
        accept: Types like `image/*` or `video/mp4`, as a list or a text with commas; anything when
            there is none.
        schemes: `http`, `https`, and those of Beam's filesystems where the table of URLs is
            trusted with the worker's own files and buckets: `file`, `gs`, ...
        allow_private_hosts: Whether hosts that are not on the public internet are connected to.
        user_agent_token: Our name, in User-Agent and for X-Robots-Tag.
        contact: A web page or address for whoever wonders what this client is, in User-Agent.
        disallowed_header_directives: What in X-Robots-Tag makes a file unwanted.
    """

    concurrency: int = 64
    per_host: int = 16
    connect_timeout: float = 10.0
    read_timeout: float = 20.0
    total_timeout: float = 120.0
    max_bytes: int | str = '64mb'
    max_in_flight: int | str = '128mb'
    max_redirects: int = 5
    retries: int = 2
    max_retry_after: float = 60.0
    accept: Sequence[str] = ()
    schemes: Sequence[str] = WEB
    allow_private_hosts: bool = False
    user_agent_token: str = 'beam-mds'
    contact: str = ''
    disallowed_header_directives: Sequence[str] = DISALLOWED

    def __post_init__(self) -> None:
        """Checks and normalizes.

        Raises:
            OptionError: A value that cannot work.
        """
        for name in ('concurrency', 'per_host'):
            _check_integer(name, getattr(self, name), 1)
        for name in ('max_redirects', 'retries'):
            _check_integer(name, getattr(self, name), 0)
        for name in ('connect_timeout', 'read_timeout', 'total_timeout', 'max_retry_after'):
            _check_seconds(name, getattr(self, name))
        for name in ('max_bytes', 'max_in_flight'):
            self._set(name, parse_size(getattr(self, name), name))
        for name in ('accept', 'schemes', 'disallowed_header_directives'):
            self._set(name, _texts(name, getattr(self, name)))
        self._check_texts()

    @property
    def user_agent(self) -> str:
        """What we say that we are.

        Example:
            >>> FetchOptions(contact='https://example.org/crawl').user_agent.partition('/')[0]
            'beam-mds'
        """
        contact = f' (+{self.contact})' if self.contact else ''
        return f'{self.user_agent_token}/{__version__}{contact}'

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def _check_texts(self) -> None:
        for pattern in self.accept:
            if not is_pattern(pattern):
                raise OptionError(
                    f'accept={pattern!r:.80} is no type: expected one like image/*, video/mp4, */*'
                )
        for scheme in self.schemes:
            if not _SCHEME.fullmatch(scheme):
                raise OptionError(f'schemes={scheme!r:.80} is no scheme: expected one like https')
        if not self.schemes:
            raise OptionError('schemes is empty: no URL could be fetched')
        token: Any = self.user_agent_token
        if not isinstance(token, str) or not _TOKEN.fullmatch(token):
            raise OptionError(
                f'user_agent_token={token!r:.80} is no name of a client: expected one word, '
                'without space, slash or colon'
            )
        contact: Any = self.contact
        if not isinstance(contact, str) or not contact.isprintable():
            raise OptionError(f'contact={contact!r:.80} is no line of text')
        if not contact.isascii() or set('()') & set(contact):
            raise OptionError(
                f'contact={contact!r:.80} must be ASCII without parentheses: it stands in them in '
                'the header User-Agent'
            )


def _check_integer(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
        raise OptionError(f'{name} must be an integer of at least {least}, got {value!r:.80}')


def _check_seconds(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise OptionError(f'{name} must be seconds as a number, got {value!r:.80}')
    if not (value > 0 and math.isfinite(value)):
        raise OptionError(f'{name} must be seconds above 0, got {value!r:.80}')


def _texts(name: str, value: Any) -> tuple[str, ...]:
    """Lower-case texts of a list, or of a text with commas."""
    texts = value.split(',') if isinstance(value, str) else value
    if not isinstance(texts, Iterable):
        raise OptionError(f'{name} must be a list of texts, got {value!r:.80}')
    found = tuple(texts)
    if not all(isinstance(text, str) for text in found):
        raise OptionError(f'{name} must be a list of texts, got {value!r:.80}')
    return tuple(text.strip().lower() for text in found if text.strip())

"""One URL: checked, fetched, tried again; for one event loop."""

from __future__ import annotations

import asyncio
import re
import urllib.parse
from collections.abc import Sequence
from concurrent.futures import Executor

import pycurl

from beam_mds.sources.fetching import media, stored, waits
from beam_mds.sources.fetching.bodies import decompress
from beam_mds.sources.fetching.limits import Held, Host, Memory
from beam_mds.sources.fetching.options import WEB, FetchOptions
from beam_mds.sources.fetching.outcomes import FETCHED, Failed, Outcome
from beam_mds.sources.fetching.transfers import Ended, Transfer, Transfers

# Characters of a foreign text in a message.
_SHOWN = 200

# Characters of a URL: more is no address.
_LONGEST = 1 << 16

# What a URL may consist of (RFC 3986). One that does is sent as it is (libcurl writes escapes in
# capitals): a changed escape can break a signature.
_CLEAN = re.compile(r"[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]+")
_KEPT = "._~:/?#[]@!$&'()*+,;=%-"

# Codes of libcurl -> category, and whether another attempt may succeed.
_CODES: dict[int, tuple[str, bool]] = {
    pycurl.E_COULDNT_RESOLVE_HOST: ('dns', False),
    pycurl.E_COULDNT_CONNECT: ('connection', True),
    pycurl.E_GOT_NOTHING: ('connection', True),
    pycurl.E_SEND_ERROR: ('connection', True),
    pycurl.E_RECV_ERROR: ('connection', True),
    pycurl.E_HTTP2: ('connection', True),
    92: ('connection', True),  # an error of one HTTP/2 stream
    pycurl.E_PARTIAL_FILE: ('short_body', True),
    pycurl.E_OPERATION_TIMEDOUT: ('timeout', True),
    pycurl.E_TOO_MANY_REDIRECTS: ('redirect', False),
    pycurl.E_URL_MALFORMAT: ('bad_url', False),
    pycurl.E_UNSUPPORTED_PROTOCOL: ('protocol', False),
    8: ('protocol', False),  # a reply that makes no sense
    pycurl.E_WRITE_ERROR: ('protocol', False),
    pycurl.E_BAD_CONTENT_ENCODING: ('content_encoding', False),
    pycurl.E_SSL_CONNECT_ERROR: ('tls', False),
    pycurl.E_PEER_FAILED_VERIFICATION: ('tls', False),
    pycurl.E_SSL_CERTPROBLEM: ('tls', False),
    pycurl.E_SSL_CIPHER: ('tls', False),
    pycurl.E_SSL_CACERT: ('tls', False),
    pycurl.E_SSL_CACERT_BADFILE: ('tls', False),
    pycurl.E_SSL_ISSUER_ERROR: ('tls', False),
}


class Client:
    """Fetches URLs within one event loop.

    Example:
        >>> async def one(url):
        ...     client = Client(FetchOptions(), None)
        ...     try:
        ...         return await client.fetch(url)
        ...     finally:
        ...         client.close()
        >>> asyncio.run(one('http://localhost/')).category
        'refused_address'
    """

    def __init__(self, options: FetchOptions, executor: Executor | None) -> None:
        """Opens nothing yet; must be made in the loop.

        Args:
            options: How.
            executor: Where files of Beam's filesystems are read.
        """
        self._options, self._executor = options, executor
        self.memory = Memory(int(options.max_in_flight))
        self._transfers = Transfers(options, self.memory)
        self._slots = asyncio.Semaphore(options.concurrency)
        self._hosts: dict[str, Host] = {}
        self._now = asyncio.get_running_loop().time

    def close(self) -> None:
        """Closes all connections."""
        self._transfers.close()

    async def fetch(self, url: str) -> Outcome:
        """What becomes of a URL; a fetched body holds memory until it is given back."""
        try:
            url, name = parse_url(url, self._options.schemes)
        except Failed as failed:
            return failed.outcome
        host = self._hosts.get(name)
        if host is None:
            host = self._hosts[name] = Host(self._options.per_host)
        host.users += 1
        try:
            return await self._fetch(url, host)
        finally:
            host.users -= 1
            if not host.users and self._now() >= host.closed_until:
                self._hosts.pop(name, None)

    async def _fetch(self, url: str, host: Host) -> Outcome:
        attempt = 1
        while True:
            async with host.slots:
                await host.wait_until_open()
                async with self._slots:
                    outcome = await self._attempt(url)
            if not outcome.retry or attempt > self._options.retries:
                return outcome
            wait = waits.delay(attempt, outcome.wait, self._options.max_retry_after)
            if outcome.wait is not None:
                host.closed_until = max(host.closed_until, self._now() + wait)
            await asyncio.sleep(wait)
            attempt += 1

    async def _attempt(self, url: str) -> Outcome:
        try:
            if url.startswith(('http:', 'https:')):
                return await self._get(url)
            return await self._read(url)
        except Failed as failed:
            return failed.outcome
        except Exception as error:  # noqa: BLE001 - what strangers send never ends the job
            return Outcome('internal', f'{type(error).__name__}: {error}'[:_SHOWN])

    async def _get(self, url: str) -> Outcome:
        transfer = self._transfers.start()
        data = b''
        try:
            try:
                await self._transfers.run(transfer, url)
            except Ended as ended:
                return _outcome_of(ended, transfer)
            head = transfer.head
            if not head.is_good:
                return head.refusal()
            body = transfer.body()
            if head.encoding:
                body = decompress(body, head.encoding, int(self._options.max_bytes))
            data = self._checked(body, head.kind, head.status)
            return Outcome(FETCHED, '', head.status, data)
        finally:
            transfer.held.settle(len(data))
            self._transfers.finish(transfer)

    async def _read(self, url: str) -> Outcome:
        held, data = Held(self.memory), b''
        try:
            body = await stored.read(url, int(self._options.max_bytes), held, self._executor)
            data = self._checked(body, '', 0)
            return Outcome(FETCHED, '', 0, data)
        finally:
            held.settle(len(data))

    def _checked(self, body: bytes, declared: str, status: int) -> bytes:
        """A body, once it is known to be wanted."""
        if not body:
            raise Failed('empty_body', 'it has no bytes', status)
        if reason := media.refuse_content(body, declared, self._options.accept):
            raise Failed('wrong_type', reason, status)
        return body


def parse_url(url: str, schemes: Sequence[str] = WEB) -> tuple[str, str]:
    """A URL in the form in which it is sent, and its host.

    Raises:
        Failed: It is none, or its scheme is not allowed.

    Example:
        >>> parse_url(' HTTP://Example.org/a b.jpg ')
        ('http://Example.org/a%20b.jpg', 'example.org')
    """
    scheme, colon, rest = url.strip().partition('://')
    scheme = scheme.lower()
    if not colon or not rest or len(rest) > _LONGEST:
        raise Failed('bad_url', f'{url[:_SHOWN]!r} is no URL: expected one like https://host/file')
    if scheme not in schemes:
        raise Failed(
            'scheme',
            f'{scheme[:40]}:// is not allowed, only {", ".join(schemes)}: allow it where the table '
            'of URLs is trusted',
        )
    text = f'{scheme}://{rest}'
    if scheme not in WEB:
        return text, rest.partition('/')[0]
    try:
        if not _CLEAN.fullmatch(text):
            text = _escaped(text)
        host = urllib.parse.urlsplit(text).hostname
        if not host:
            raise ValueError('it has no host')
    except ValueError as error:
        raise Failed('bad_url', f'{url[:_SHOWN]!r} is no URL: {error}') from None
    return text, host


def _escaped(url: str) -> str:
    """A URL with what may not be in one escaped; a host in another script as IDNA has it.

    Raises:
        ValueError: There is no such host.
    """
    if any(char < ' ' or char == '\x7f' for char in url):
        raise ValueError('it has control characters')
    parts = urllib.parse.urlsplit(url)
    place = parts.netloc
    if not place.isascii():
        login, at, host = place.rpartition('@')
        name, colon, port = host.partition(':')
        place = f'{login}{at}{name.encode("idna").decode()}{colon}{port}'
    return urllib.parse.quote(parts._replace(netloc=place).geturl(), _KEPT)


def _outcome_of(ended: Ended, transfer: Transfer) -> Outcome:
    """What became of a request that libcurl ended."""
    head = transfer.head
    status = head.status
    text = ended.message[:_SHOWN]
    if head.complete and not head.is_good and status and not 300 <= status < 400:
        return head.refusal()  # whatever happened to a body that nobody wanted
    if transfer.refused and ended.code == pycurl.E_COULDNT_CONNECT:
        shown = ', '.join(transfer.refused)
        return Outcome('refused_address', f'{shown} is not on the public internet'[:_SHOWN], status)
    category, retry = _CODES.get(ended.code, ('internal', False))
    if category == 'internal':
        text = f'libcurl {ended.code}: {text}'
    if 300 <= status < 400 and category in ('protocol', 'bad_url'):
        category = 'redirect'
    if category == 'connection' and head.complete and head.is_good:
        category = 'short_body'
    return Outcome(category, text, status, retry=retry)

"""HTTP transfers of libcurl in an asyncio event loop: one handle for each request at a time.

libcurl does the HTTP: connections and their reuse, TLS, redirects, timeouts. Here its sockets and
timers are those of the loop, addresses are checked as it opens sockets to them, and bodies wait
while there is no memory for them.
"""

from __future__ import annotations

import asyncio
import math
import socket
import ssl
from typing import Any

import pycurl

from beam_mds.sources.fetching.addresses import is_public
from beam_mds.sources.fetching.heads import Head
from beam_mds.sources.fetching.limits import STEP, Held, Memory
from beam_mds.sources.fetching.options import FetchOptions
from beam_mds.sources.fetching.outcomes import Failed

# Bytes of a body that is not wanted that are read so that its connection can be used again.
_UNWANTED = 1 << 16

# Bytes that libcurl reads at once.
_BUFFER = 1 << 17

# Seconds that an address is kept.
_ADDRESS_SECONDS = 300

_PROTOCOLS = {'http': pycurl.PROTO_HTTP, 'https': pycurl.PROTO_HTTPS}

# Returned by a callback to end its transfer.
_ABORT = -1


class Ended(Exception):  # noqa: N818 - most of them are no errors
    """A transfer that libcurl ended with a code.

    Attributes:
        code: libcurl's.
        message: What it says.
    """

    def __init__(self, code: int, message: str) -> None:
        """Makes it; see the class for the arguments."""
        super().__init__(message)
        self.code, self.message = code, message


class Transfers:
    """All transfers of one event loop; made and used within it."""

    def __init__(self, options: FetchOptions, memory: Memory) -> None:
        """Opens nothing yet.

        Args:
            options: How URLs are fetched.
            memory: What the bodies hold.
        """
        self._options, self._memory = options, memory
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._watched: dict[int, int] = {}
        self._idle: list[Transfer] = []
        self._all: list[Transfer] = []
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_SOCKETFUNCTION, self._watch)
        self._multi.setopt(pycurl.M_TIMERFUNCTION, self._schedule)
        self._multi.setopt(pycurl.M_MAXCONNECTS, 2 * options.concurrency)

    def start(self) -> Transfer:
        """A transfer that nobody uses."""
        if self._idle:
            return self._idle.pop()
        transfer = Transfer(self._options, self._memory)
        self._all.append(transfer)
        return transfer

    async def run(self, transfer: Transfer, url: str) -> None:
        """Gets a URL with a transfer from `start`.

        Raises:
            Failed: The body is not wanted, or it takes too long.
            Ended: libcurl failed.
        """
        done = transfer.begin(url, self._loop)
        self._multi.add_handle(transfer.curl)
        try:
            await done
        finally:
            self._multi.remove_handle(transfer.curl)
            transfer.end()

    def finish(self, transfer: Transfer) -> None:
        """Takes a transfer back."""
        self._idle.append(transfer)

    def close(self) -> None:
        """Closes all connections."""
        if self._timer is not None:
            self._timer.cancel()
        for transfer in self._all:
            transfer.curl.close()
        self._multi.close()
        for descriptor in list(self._watched):
            self._watch(pycurl.POLL_REMOVE, descriptor)

    # libcurl's sockets and timers.

    def _watch(self, what: int, descriptor: int, *_: object) -> None:
        before = self._watched.pop(descriptor, 0)
        wanted = 0 if what == pycurl.POLL_REMOVE else what
        if wanted:
            self._watched[descriptor] = wanted
        for flag, select, add, remove in (
            (pycurl.POLL_IN, pycurl.CSELECT_IN, self._loop.add_reader, self._loop.remove_reader),
            (pycurl.POLL_OUT, pycurl.CSELECT_OUT, self._loop.add_writer, self._loop.remove_writer),
        ):
            if wanted & flag and not before & flag:
                add(descriptor, self._act, descriptor, select)
            elif before & flag and not wanted & flag:
                remove(descriptor)

    def _schedule(self, milliseconds: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if milliseconds >= 0:
            self._timer = self._loop.call_later(
                milliseconds / 1000, self._act, pycurl.SOCKET_TIMEOUT, 0
            )

    def _act(self, descriptor: int, select: int) -> None:
        self._multi.socket_action(descriptor, select)
        left = 1
        while left:
            left, good, bad = self._multi.info_read()
            for curl in good:
                curl.transfer.ended(None)
            for curl, code, message in bad:
                curl.transfer.ended(Ended(code, message))


class Transfer:
    """A handle of libcurl, and the request that it is used for.

    Attributes:
        curl: The handle.
        head: Of the answer.
        held: What the body holds of the memory.
        parts: Of the body.
        refused: Addresses that no socket was opened to, since the last one that was.
    """

    def __init__(self, options: FetchOptions, memory: Memory) -> None:
        """Makes the handle.

        Args:
            options: How URLs are fetched.
            memory: What the bodies hold.
        """
        self._options, self._memory = options, memory
        self.curl = _handle(options)
        self.curl.transfer = self
        self.curl.setopt(pycurl.HEADERFUNCTION, self._on_head)
        self.curl.setopt(pycurl.WRITEFUNCTION, self._on_body)
        if not options.allow_private_hosts:
            self.curl.setopt(pycurl.OPENSOCKETFUNCTION, self._on_socket)
        self._limit = int(options.max_bytes)
        self._patience = min(options.read_timeout, options.total_timeout)

    def begin(self, url: str, loop: asyncio.AbstractEventLoop) -> asyncio.Future[None]:
        """Is ready for a request; the future is done when the request is."""
        self.head, self.held = Head(), Held(self._memory)
        self.parts: list[bytes] = []
        self.refused: list[str] = []
        self._sockets: list[socket.socket] = []
        self._size = 0
        self._failed: Failed | None = None
        self._waiting: asyncio.Task[None] | None = None
        self._loop, self._done = loop, loop.create_future()
        self._began = loop.time()
        self._end = self._began + self._options.total_timeout
        self._last = 0.0  # when there were bytes
        self._timer = loop.call_later(self._patience, self._look)
        self.curl.setopt(pycurl.URL, url)
        return self._done

    def ended(self, error: Ended | None) -> None:
        """Is told by libcurl that there is nothing more to come."""
        if not self._done.done():
            if self._failed is not None:
                self._done.set_exception(self._failed)
            elif error is not None:
                self._done.set_exception(error)
            else:
                self._done.set_result(None)

    def end(self) -> None:
        """Stops what goes on beside libcurl."""
        self._timer.cancel()
        for one in self._sockets:  # libcurl has a copy
            one.close()
        if self._waiting is not None:
            self._waiting.cancel()

    def body(self) -> bytes:
        """The whole body."""
        parts, self.parts = self.parts, []
        return parts[0] if len(parts) == 1 else b''.join(parts)

    def _look(self) -> None:
        """Ends what takes too long; what does not is looked at again."""
        now = self._loop.time()
        last = self._last
        if not last:
            # The time to connect does not count, which libcurl limits.
            connected = self.curl.getinfo(pycurl.PRETRANSFER_TIME)
            last = self._began + connected if connected else now
        if now >= self._end:
            text = f'not complete after {self._options.total_timeout:g} s'
            self._failed = Failed('timeout', text, self.head.status)
        elif now - last >= self._options.read_timeout:
            text = f'no byte for {self._options.read_timeout:g} s'
            self._failed = Failed('timeout', text, self.head.status, retry=True)
        else:
            when = min(self._end, last + self._options.read_timeout)
            self._timer = self._loop.call_at(when, self._look)
            return
        self.ended(None)

    # libcurl's callbacks. What they return that is not None ends the transfer.

    def _on_socket(self, purpose: int, address: Any) -> Any:
        del purpose
        family, kind, protocol, where = address
        if not is_public(str(where[0])):
            self.refused.append(str(where[0]))
            return pycurl.SOCKET_BAD
        self.refused.clear()
        self._sockets.append(socket.socket(family, kind, protocol))
        return self._sockets[-1]

    def _on_head(self, line: bytes) -> int | None:
        self._last = self._loop.time()
        was_complete = self.head.complete
        self.head.add(line)
        if self.head.complete and not was_complete and self.head.is_good:
            try:
                self.head.check(self._options)
            except Failed as failed:
                self._failed = failed
                return _ABORT
        return None

    def _on_body(self, part: bytes) -> int | None:
        self._last = self._loop.time()
        size = self._size + len(part)
        if not self.head.is_good:
            self._size = size
            return None if size <= _UNWANTED else _ABORT
        if size > self._limit:
            self._failed = Failed('too_large', f'over {self._limit} bytes', self.head.status)
            return _ABORT
        if not self.held.covers(self._needed(size)):
            self._waiting = self._loop.create_task(self._wait(self._needed(size)))
            return int(pycurl.WRITEFUNC_PAUSE)
        self.parts.append(part)
        self._size = size
        return None

    def _needed(self, size: int) -> int:
        """Bytes to hold for a body of which there are `size` now."""
        if self.head.encoding:
            return self._limit  # which bounds it once it is decompressed, too
        return self.head.length or max(size, STEP)

    async def _wait(self, size: int) -> None:
        """Goes on once there is memory; the time until then does not count."""
        self._timer.cancel()
        before = self._loop.time()
        await self.held.cover(size)
        self._last = self._loop.time()
        self._end += self._last - before
        self._look()
        self.curl.pause(pycurl.PAUSE_CONT)


def _handle(options: FetchOptions) -> Any:
    """A handle with all that stays the same."""
    curl = pycurl.Curl()
    protocols = sum(_PROTOCOLS.get(scheme, 0) for scheme in options.schemes)
    authorities = ssl.get_default_verify_paths()
    if authorities.cafile:
        curl.setopt(pycurl.CAINFO, authorities.cafile)
    if authorities.capath:
        curl.setopt(pycurl.CAPATH, authorities.capath)
    for option, value in (
        (pycurl.NOSIGNAL, 1),
        (pycurl.NOPROGRESS, 1),
        (pycurl.PROTOCOLS, protocols),  # also of redirects
        (pycurl.FOLLOWLOCATION, int(options.max_redirects > 0)),
        (pycurl.MAXREDIRS, options.max_redirects),
        (pycurl.CONNECTTIMEOUT_MS, math.ceil(options.connect_timeout * 1000)),
        (pycurl.DNS_CACHE_TIMEOUT, _ADDRESS_SECONDS),
        (pycurl.BUFFERSIZE, _BUFFER),
        (pycurl.PROXY, ''),  # also none of the environment
        (pycurl.SSL_VERIFYPEER, 1),
        (pycurl.SSL_VERIFYHOST, 2),
        (pycurl.USERAGENT, options.user_agent),
        (
            pycurl.HTTPHEADER,
            [f'Accept: {", ".join(options.accept) or "*/*"}', 'Accept-Encoding: identity'],
        ),
    ):
        curl.setopt(option, value)
    return curl

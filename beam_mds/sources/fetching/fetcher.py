"""Many URLs at once: one event loop in a thread of its own, shared by all bundles of a process."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections import deque
from collections.abc import Generator, Hashable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, TypeVar

from beam_mds.errors import MDSError, MissingExtraError
from beam_mds.sources.fetching.options import FetchOptions
from beam_mds.sources.fetching.outcomes import Outcome

_T = TypeVar('_T')

# URLs that are known ahead of those that are asked: others take the place of one that waits for its
# host, or to be tried again.
_AHEAD = 4

# Threads that read files of Beam's filesystems.
_THREADS = 32


def check_installed() -> None:
    """Checks that there is an HTTP client.

    Raises:
        MissingExtraError: There is none.
    """
    try:
        import pycurl  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(
            "fetching URLs needs pycurl, which is not installed: pip install 'beam-mds[urls]'"
        ) from error


class Fetcher(contextlib.AbstractContextManager['Fetcher']):
    """An event loop in a thread, and the client in it.

    Example:
        >>> with Fetcher(FetchOptions()) as fetcher:
        ...     for url, outcome in fetcher.fetch_all(['ftp://host/a']):
        ...         print(url, outcome.category)
        ftp://host/a scheme
    """

    def __init__(self, options: FetchOptions) -> None:
        """Starts the thread.

        Args:
            options: How URLs are fetched.
        """
        self.window = _AHEAD * options.concurrency
        self._executor = ThreadPoolExecutor(
            min(options.concurrency, _THREADS), thread_name_prefix='beam-mds-stored'
        )
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name='beam-mds-fetch', daemon=True)
        self._thread.start()
        self.client: Any = self._call(self._open(options))

    def __exit__(self, *_: object) -> None:
        """Closes it."""
        self.close()

    def close(self) -> None:
        """Ends what is under way, closes all connections and ends the thread."""
        if self._loop.is_closed():
            return
        self._call(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._executor.shutdown(wait=False, cancel_futures=True)

    def batch(self) -> Batch[Any]:
        """URLs that are fetched together."""
        return Batch(self)

    def fetch_all(self, urls: Iterable[str]) -> Generator[tuple[str, Outcome], None, None]:
        """Each URL and what became of it, as they are done."""
        batch = self.batch()
        try:
            for url in urls:
                batch.submit(url, url)
                yield from batch.ready()
            yield from batch.rest()
        finally:
            batch.cancel()

    def call_soon(self, call: Any, *args: Any) -> None:
        """Has the loop's thread call something."""
        self._loop.call_soon_threadsafe(call, *args)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def _call(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    async def _open(self, options: FetchOptions) -> Any:
        from beam_mds.sources.fetching.client import Client

        return Client(options, self._executor)

    async def _end(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        self.client.close()


class Batch(Generic[_T]):
    """URLs of one bundle; what becomes of them comes back in the order in which they are done.

    Used by one thread. At most `Fetcher.window` URLs are under way or done and not yet taken.
    """

    def __init__(self, fetcher: Fetcher) -> None:
        """Starts with no URL.

        Args:
            fetcher: What fetches.
        """
        self._fetcher = fetcher
        self._done: queue.SimpleQueue[tuple[_T, Outcome] | BaseException] = queue.SimpleQueue()
        self._tasks: set[asyncio.Task[None]] = set()  # of the loop's thread
        self._todo: deque[tuple[_T, str]] = deque()
        self._woken = False
        self._pending = 0
        self._owed = 0  # bytes of bodies that were taken, not yet given back
        self._cancelled = False

    def submit(self, tag: _T, url: str) -> None:
        """Begins with a URL.

        Args:
            tag: Comes back with the outcome.
            url: The URL.
        """
        self._pending += 1
        self._todo.append((tag, url))
        if not self._woken:  # the loop looks at all of them at once
            self._woken = True
            self._fetcher.call_soon(self._start)

    def ready(self) -> Generator[tuple[_T, Outcome], None, None]:
        """What is done; waits only while the window is full."""
        while self._pending:
            try:
                done = self._done.get_nowait()
            except queue.Empty:
                if self._pending < self._fetcher.window:
                    break
                self._give_back()
                done = self._done.get()
            yield self._take(done)
        self._give_back()

    def rest(self) -> Generator[tuple[_T, Outcome], None, None]:
        """All the rest, waiting for it."""
        while self._pending:
            try:
                done = self._done.get_nowait()
            except queue.Empty:
                self._give_back()
                done = self._done.get()
            yield self._take(done)
        self._give_back()

    def cancel(self) -> None:
        """Ends what is under way; nothing comes back any more."""
        if self._pending or self._owed:
            self._fetcher.call_soon(self._cancel)
            self._give_back()
        self._pending = 0

    def _take(self, done: tuple[_T, Outcome] | BaseException) -> tuple[_T, Outcome]:
        self._pending -= 1
        if isinstance(done, BaseException):
            raise MDSError(f'fetching broke: {done!r}') from done
        self._owed += len(done[1].data)
        return done

    def _give_back(self) -> None:
        if self._owed:
            self._fetcher.call_soon(self._fetcher.client.memory.give_back, self._owed)
            self._owed = 0

    # What follows runs in the loop's thread.

    def _start(self) -> None:
        self._woken = False
        loop = asyncio.get_running_loop()
        while self._todo:
            tag, url = self._todo.popleft()
            if not self._cancelled:
                task = loop.create_task(self._fetch(tag, url))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _fetch(self, tag: _T, url: str) -> None:
        try:
            self._done.put((tag, await self._fetcher.client.fetch(url)))
        except Exception as error:  # noqa: BLE001 - raised where the outcome is waited for
            self._done.put(error)

    def _cancel(self) -> None:
        self._cancelled = True
        for task in self._tasks:
            task.cancel()
        # Tasks put no body after this: they hold none when they are cancelled.
        while not self._done.empty():
            done = self._done.get_nowait()
            if not isinstance(done, BaseException):
                self._fetcher.client.memory.give_back(len(done[1].data))


_shared: dict[Hashable, tuple[Fetcher, int]] = {}
_shared_lock = threading.Lock()


def shared(key: Hashable, options: FetchOptions) -> Fetcher:
    """The process's fetcher of this key, which is made when nobody uses it; see `release`."""
    with _shared_lock:
        fetcher, users = _shared.get(key) or (Fetcher(options), 0)
        _shared[key] = fetcher, users + 1
        return fetcher


def release(key: Hashable) -> None:
    """Ends one use of a shared fetcher; the last one closes it."""
    with _shared_lock:
        fetcher, users = _shared.pop(key)
        if users > 1:
            _shared[key] = fetcher, users - 1
            return
    fetcher.close()

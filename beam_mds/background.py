"""Work that overlaps: hashing, compressing and writing one shard while the next is encoded.

Arrow, numpy, zstd, xxhash and file writes release the interpreter lock, so two threads use two
cores. All transforms of a process share the threads, however many bundles it runs at once.
"""

from __future__ import annotations

import functools
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from typing import Any, Generic, ParamSpec, TypeVar

from beam_mds.errors import OptionError

_P = ParamSpec('_P')
_S = TypeVar('_S')
_T = TypeVar('_T')

# Threads of a process for whole shards and blocks, and such jobs that one bundle may have under
# way: each holds about a shard.
_THREADS = 2
_IN_FLIGHT = 2


# Ranges of a process that may be gathered or on their way to their files at once, whatever the
# number of bundles: some runners start one for each range. Taken before a range is loaded, given
# back by the job that stored it.
RANGE_SLOTS = threading.BoundedSemaphore(_THREADS + 1)


@functools.cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_THREADS, thread_name_prefix='beam-mds')


def run_ahead(
    call: Callable[[_S], _T], items: Iterable[_S], threads: int
) -> Generator[_T, None, None]:
    """The results of a call for each item, in order; the calls run ahead in threads of their own.

    Args:
        call: The call.
        items: Its arguments.
        threads: How many; at most twice as many results are held.

    Raises:
        OptionError: There is to be no thread.
        Exception: What the first call that failed raised.
    """
    if threads < 1:
        raise OptionError(f'threads must be 1 or more, got {threads!r:.80}')
    executor = ThreadPoolExecutor(threads, thread_name_prefix='beam-mds')
    try:
        jobs: Jobs[_T] = Jobs(executor, 2 * threads)
        for item in items:
            yield from jobs.submit(call, item)
        yield from jobs.finish()
    finally:  # also where nobody wants the rest
        executor.shutdown(cancel_futures=True)


def read_ahead(items: Iterable[_T], ahead: int = 2) -> Generator[_T, None, None]:
    """The items, made in a thread of their own while the ones before are worked on.

    Args:
        items: What is gone through.
        ahead: At most so many are held.

    Raises:
        Exception: What making an item raised, after the items before it.
    """
    executor = ThreadPoolExecutor(1, thread_name_prefix='beam-mds')
    iterator, end = iter(items), object()
    try:
        jobs: Jobs[Any] = Jobs(executor, ahead)
        while True:
            for item in jobs.submit(next, iterator, end):
                if item is end:
                    return
                yield item
    finally:  # also where nobody wants the rest
        executor.shutdown(cancel_futures=True)


class Jobs(Generic[_T]):
    """The background jobs of one bundle; results come back in the order of submission."""

    def __init__(self, executor: Executor | None = None, in_flight: int = _IN_FLIGHT) -> None:
        """Starts with no job.

        Args:
            executor: Where jobs run; by default the process's own threads.
            in_flight: Jobs that may be under way.
        """
        self._executor = executor or _pool()
        self._in_flight = in_flight
        self._running: deque[Future[_T]] = deque()

    def submit(self, call: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> list[_T]:
        """Starts a job, once few enough are under way.

        Returns:
            The results of the jobs that had to be waited for.

        Raises:
            Exception: What one of those jobs raised.
        """
        done = []
        while len(self._running) >= self._in_flight:
            done.append(self._running.popleft().result())
        self._running.append(self._executor.submit(call, *args, **kwargs))
        return done

    def finish(self) -> list[_T]:
        """Waits for all jobs, also when one fails, and returns their results."""
        wait(self._running)
        done = [job.result() for job in self._running]
        self._running.clear()
        return done

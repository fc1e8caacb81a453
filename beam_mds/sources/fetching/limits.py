"""What bounds requests under way: their hosts, and the bytes that they hold; for one event loop."""

from __future__ import annotations

import asyncio
from collections import deque

# Bytes that a body of unknown length takes at once.
STEP = 1 << 18


class Memory:
    """Bytes that bodies may hold together.

    A body whose length is known takes it all at once, so that no two can wait for each other. One
    that grows while it comes waits for more like all others, but one of these at a time may exceed
    the limit; so someone always gets on, and no more than the limit and one body are held.

    Example:
        >>> memory = Memory(100)
        >>> memory.fits(60), memory.held
        (True, 60)
        >>> memory.fits(60)
        False
    """

    def __init__(self, limit: int) -> None:
        """Starts with nothing held.

        Args:
            limit: Bytes.
        """
        self.limit, self.held = limit, 0
        self._excess = asyncio.Lock()  # of the one body that may exceed the limit
        self._excess_over = False  # that body is complete
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    def fits(self, size: int) -> bool:
        """Takes bytes if they are free now; one body alone may be of any size."""
        if self._waiting or (self.held and self.held + size > self.limit):
            return False
        self.held += size
        return True

    async def take(self, size: int) -> None:
        """Takes bytes, once they are free."""
        if self.fits(size):
            return
        future = asyncio.get_running_loop().create_future()
        self._waiting.append((size, future))
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self.give_back(size)
            else:
                self._waiting.remove((size, future))
                self._wake()
            raise

    def give_back(self, size: int) -> None:
        """Frees bytes."""
        self.held -= size
        self._wake()

    async def begin_excess(self) -> None:
        """Waits until no other body exceeds the limit."""
        await self._excess.acquire()

    def end_excess(self) -> None:
        """The body that may exceed the limit grows no more; while it is there, no other may."""
        self._excess_over = True
        self._wake()

    def _wake(self) -> None:
        if self._excess_over and self.held <= self.limit:
            self._excess_over = False
            self._excess.release()
        while self._waiting:
            size, future = self._waiting[0]
            if self.held and self.held + size > self.limit:
                return
            self._waiting.popleft()
            if not future.done():
                self.held += size
                future.set_result(None)


class Held:
    """What one body holds of the memory.

    Attributes:
        size: Bytes.
    """

    def __init__(self, memory: Memory) -> None:
        """Holds nothing yet.

        Args:
            memory: Of all bodies.
        """
        self._memory, self.size, self._exceeds = memory, 0, False

    def covers(self, size: int) -> bool:
        """Whether what is held is enough for a size, if need be after taking what is free now."""
        while self.size < size:
            more = STEP if self.size else size
            if self._exceeds:
                self._memory.held += more
            elif not self._memory.fits(more):
                return False
            self.size += more
        return True

    async def cover(self, size: int) -> None:
        """Waits until what is held is enough."""
        if self.covers(size):
            return
        if self.size:
            await self._memory.begin_excess()
            self._exceeds = True
            self.covers(size)
        else:
            await self._memory.take(size)
            self.size = size

    def settle(self, size: int) -> None:
        """Gives back all but the final size, and no longer exceeds."""
        surplus, self.size = self.size - size, size
        if surplus:
            self._memory.give_back(surplus)
        if self._exceeds:
            self._exceeds = False
            self._memory.end_excess()


class Host:
    """One host: how many requests it gets at once, and when it wants none.

    Attributes:
        users: URLs of it that are known now.
        slots: Requests to it at once.
        closed_until: When it may be asked again, by the event loop's clock.
    """

    def __init__(self, limit: int) -> None:
        """Starts without users.

        Args:
            limit: Requests at once.
        """
        self.users = 0
        self.slots = asyncio.Semaphore(limit)
        self.closed_until = 0.0

    async def wait_until_open(self) -> None:
        """Waits as long as the host asked everyone to."""
        now = asyncio.get_running_loop().time
        while self.closed_until > now():  # noqa: ASYNC110 - it may have asked for more meanwhile
            await asyncio.sleep(self.closed_until - now())

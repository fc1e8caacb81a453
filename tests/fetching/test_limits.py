from __future__ import annotations

import asyncio

import pytest

from beam_mds.sources.fetching.limits import STEP, Held, Host, Memory


def test_memory_is_taken_in_the_order_in_which_it_is_asked_for() -> None:
    async def run() -> list[str]:
        memory, order = Memory(100), []

        async def take(name: str, size: int) -> None:
            await memory.take(size)
            order.append(name)

        tasks = [asyncio.create_task(take(*one)) for one in (('a', 80), ('b', 50), ('c', 10))]
        await asyncio.sleep(0)
        assert order == ['a']  # c would fit, and would let b wait for ever
        memory.give_back(80)
        await asyncio.gather(*tasks)
        assert memory.held == 60
        return order

    assert asyncio.run(run()) == ['a', 'b', 'c']


def test_a_body_larger_than_all_memory_comes_alone() -> None:
    async def run() -> None:
        memory = Memory(100)
        await memory.take(1)
        waiting = asyncio.create_task(memory.take(1000))
        await asyncio.sleep(0)
        assert memory.held == 1
        memory.give_back(1)
        await waiting
        assert memory.held == 1000
        assert not memory.fits(1)

    asyncio.run(run())


@pytest.mark.parametrize('granted', [False, True])
def test_a_task_that_is_cancelled_while_it_waits_holds_nothing(granted: bool) -> None:
    async def run() -> None:
        memory = Memory(100)
        await memory.take(100)
        first, second = (asyncio.create_task(memory.take(60)) for _ in range(2))
        await asyncio.sleep(0)
        if granted:
            memory.give_back(100)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        if not granted:
            memory.give_back(100)
        await second
        assert memory.held == 60

    asyncio.run(run())


def test_one_body_that_grows_may_exceed_the_memory_and_others_wait_for_it() -> None:
    async def run() -> None:
        memory = Memory(2 * STEP)
        first, second = Held(memory), Held(memory)
        await first.cover(STEP)
        await second.cover(STEP)
        await first.cover(5 * STEP)
        assert memory.held == 6 * STEP
        waiting = asyncio.create_task(second.cover(2 * STEP))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        first.settle(5 * STEP)  # complete, and still there
        await asyncio.sleep(0.01)
        assert not waiting.done()
        memory.give_back(5 * STEP)
        await waiting
        assert memory.held == 2 * STEP
        second.settle(0)
        assert memory.held == 0
        assert not memory._excess.locked()

    asyncio.run(run())


def test_a_body_that_breaks_off_lets_others_exceed_the_memory() -> None:
    async def run() -> None:
        memory = Memory(STEP)
        for _ in range(3):
            held = Held(memory)
            await held.cover(STEP)
            await held.cover(3 * STEP)
            held.settle(0)
        assert memory.held == 0

    asyncio.run(run())


def test_what_is_held_covers_what_fits_without_waiting() -> None:
    memory = Memory(3 * STEP)
    held = Held(memory)
    assert held.covers(10)
    assert held.size == 10
    assert held.covers(STEP)
    assert not held.covers(4 * STEP)
    held.settle(7)
    assert memory.held == 7


def test_a_host_that_asked_to_wait_is_not_asked_before() -> None:
    async def run() -> float:
        loop = asyncio.get_running_loop()
        host = Host(1)
        await host.wait_until_open()
        start = loop.time()
        host.closed_until = start + 0.2
        await host.wait_until_open()
        return loop.time() - start

    assert 0.2 <= asyncio.run(run()) < 2

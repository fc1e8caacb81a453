from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator

import pytest

from beam_mds import MDSError
from beam_mds.sources.fetching import fetcher as fetching
from beam_mds.sources.fetching.client import Client
from beam_mds.sources.fetching.fetcher import Fetcher, release, shared
from beam_mds.sources.fetching.options import FetchOptions
from beam_mds.sources.fetching.outcomes import FETCHED
from tests.fetching.test_client import assert_nothing_is_held
from tests.helpers.web import Web, serve

_PRIVATE = FetchOptions(allow_private_hosts=True)


@pytest.fixture
def web() -> Iterator[Web]:
    with serve() as server:
        yield server


def _threads() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name.startswith('beam-mds-fetch')]


def test_each_url_comes_back_once(web: Web) -> None:
    urls = [web.url(f'/jpeg/{number}') for number in range(500)]
    options = FetchOptions(allow_private_hosts=True, concurrency=3)
    with Fetcher(options) as fetcher:
        found = [url for url, outcome in fetcher.fetch_all(urls) if outcome.category == FETCHED]
        assert_nothing_is_held(fetcher)
    assert sorted(found) == sorted(urls)


def test_outcomes_come_while_others_are_still_under_way(web: Web) -> None:
    with Fetcher(_PRIVATE) as fetcher:
        batch = fetcher.batch()
        batch.submit('slow', web.url('/slow/2'))
        batch.submit('quick', web.url('/jpeg/'))
        deadline = time.monotonic() + 1.8
        found: list[str] = []
        while not found and time.monotonic() < deadline:
            found += [tag for tag, _ in batch.ready()]
            time.sleep(0.01)
        assert found == ['quick']
        assert [tag for tag, _ in batch.rest()] == ['slow']


def test_no_more_urls_are_taken_than_the_window_holds(web: Web) -> None:
    options = FetchOptions(allow_private_hosts=True, concurrency=2)
    taken: list[int] = []

    def urls() -> Iterator[str]:
        for number in range(100):
            taken.append(number)
            yield web.url(f'/jpeg/{number}')

    with Fetcher(options) as fetcher:
        outcomes = fetcher.fetch_all(urls())
        next(outcomes)
        assert len(taken) <= fetcher.window
        outcomes.close()


def test_bodies_that_are_not_taken_keep_others_waiting(web: Web) -> None:
    options = FetchOptions(allow_private_hosts=True, concurrency=8, max_in_flight='1mb')
    size = 300_000
    with Fetcher(options) as fetcher:
        batch = fetcher.batch()
        for number in range(20):
            batch.submit(number, web.url(f'/bytes/{size}/{number}'))
        time.sleep(0.5)
        assert 0 < fetcher.client.memory.held <= 1 << 20
        assert len(list(batch.rest())) == 20
        assert_nothing_is_held(fetcher)


def test_the_time_that_a_body_waits_for_memory_is_not_its_own(web: Web) -> None:
    options = FetchOptions(
        allow_private_hosts=True, max_in_flight='1mb', total_timeout=0.6, read_timeout=0.5
    )
    with Fetcher(options) as fetcher:
        batch = fetcher.batch()
        for number in range(6):
            batch.submit(number, web.url(f'/bytes/900000/{number}'))
        time.sleep(1)
        found = [outcome.category for _, outcome in batch.rest()]
    assert found == [FETCHED] * 6


@pytest.mark.parametrize('path', ['/chunked/40', '/bytes/2600000'])
def test_bodies_larger_than_the_memory_come_one_after_the_other(web: Web, path: str) -> None:
    options = FetchOptions(allow_private_hosts=True, max_in_flight='1mb', concurrency=6)
    with Fetcher(options) as fetcher:
        most = count = 0
        for _, outcome in fetcher.fetch_all([web.url(path)] * 12):
            time.sleep(0.05)  # so that bodies wait for us
            most = max(most, fetcher.client.memory.held)
            count += outcome.category == FETCHED and len(outcome.data) > 2_500_000
        assert_nothing_is_held(fetcher)
    assert count == 12
    assert most < 4.5 * (1 << 20)  # the limit and one body


def test_bodies_hold_what_they_may_become_when_they_are_decompressed(web: Web) -> None:
    options = FetchOptions(allow_private_hosts=True, max_bytes='1mb', max_in_flight='2mb')
    with Fetcher(options) as fetcher:
        batch = fetcher.batch()
        for number in range(12):
            batch.submit(number, web.url(f'/zipped/700000/{number}'))
        most, count = 0, 0
        while count < 12:
            time.sleep(0.1)  # so that bodies wait for us
            most = max(most, fetcher.client.memory.held)
            for _, outcome in batch.ready():
                assert len(outcome.data) == 700_000
                count += 1
        assert_nothing_is_held(fetcher)
    assert most <= 2 << 20


def test_what_is_cancelled_comes_to_nothing(web: Web) -> None:
    with Fetcher(FetchOptions(allow_private_hosts=True, max_in_flight='1mb')) as fetcher:
        batch = fetcher.batch()
        for number in range(4):
            batch.submit(number, web.url('/hang/'))
            batch.submit(number, web.url(f'/bytes/200000/{number}'))
        while web.seen['/hang/'] < 4 or not fetcher.client.memory.held:
            time.sleep(0.01)
        batch.cancel()
        assert list(batch.rest()) == []
        assert_nothing_is_held(fetcher)
        # And the next one has all of the room.
        other = fetcher.batch()
        other.submit('x', web.url('/jpeg/'))
        assert [outcome.category for _, outcome in other.rest()] == [FETCHED]


def test_a_fetcher_ends_its_thread_and_connections_when_it_is_closed(web: Web) -> None:
    before = _threads()
    fetcher = Fetcher(_PRIVATE)
    batch = fetcher.batch()
    batch.submit(1, web.url('/hang/'))
    batch.submit(1, web.url('/stall/'))
    while len(web.seen) < 2:
        time.sleep(0.01)
    fetcher.close()
    fetcher.close()
    assert _threads() == before
    gc.collect()  # what is left open would warn


def test_threads_of_a_process_share_a_fetcher_until_the_last_one_ends() -> None:
    first, second = shared('key', _PRIVATE), shared('key', _PRIVATE)
    other = shared('other', _PRIVATE)
    assert first is second is not other
    release('key')
    assert first.window == 256
    assert not first._loop.is_closed()
    release('key')
    release('other')
    assert first._loop.is_closed()
    assert not fetching._shared


def test_a_fault_of_our_own_is_raised_and_does_not_hang(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Client, 'fetch', broken)
    with Fetcher(_PRIVATE) as fetcher, pytest.raises(MDSError, match='ZeroDivisionError'):
        list(fetcher.fetch_all([web.url('/jpeg/')]))

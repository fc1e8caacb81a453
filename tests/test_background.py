from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from beam_mds.background import Jobs, read_ahead, run_ahead
from beam_mds.errors import OptionError

_TIMEOUT_SEC = 10


def test_results_come_back_once_and_in_the_order_of_submission() -> None:
    jobs: Jobs[int] = Jobs()
    results = []
    for number in range(20):
        results += jobs.submit(lambda n: time.sleep(0.01 * (n % 3)) or n, number)
    results += jobs.finish()
    assert results == list(range(20))
    assert jobs.finish() == []


def test_jobs_run_while_the_caller_goes_on() -> None:
    jobs: Jobs[bool] = Jobs()
    go_on = threading.Event()
    assert jobs.submit(go_on.wait, _TIMEOUT_SEC) == []
    go_on.set()
    assert jobs.finish() == [True]


def test_no_more_jobs_than_allowed_are_under_way() -> None:
    running, most = [], []

    def job() -> None:
        running.append(1)
        most.append(len(running))
        time.sleep(0.005)
        running.pop()

    with ThreadPoolExecutor(8) as executor:
        jobs: Jobs[None] = Jobs(executor, 3)
        waited = [len(jobs.submit(job)) for _ in range(30)]
        rest = len(jobs.finish())
    assert max(most) <= 3
    assert sum(waited) + rest == 30
    assert rest <= 3


def test_two_jobs_run_at_the_same_time() -> None:
    barrier = threading.Barrier(2)
    jobs: Jobs[int] = Jobs()
    jobs.submit(barrier.wait, _TIMEOUT_SEC)
    jobs.submit(barrier.wait, _TIMEOUT_SEC)
    assert sorted(jobs.finish()) == [0, 1]


def test_an_error_in_a_job_is_raised_by_finish() -> None:
    jobs: Jobs[float] = Jobs()
    jobs.submit(lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        jobs.finish()


def test_an_error_in_a_job_is_raised_by_a_later_submit_at_the_latest() -> None:
    with ThreadPoolExecutor(1) as executor:
        jobs: Jobs[float] = Jobs(executor, 1)
        jobs.submit(lambda: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            jobs.submit(float)


def test_bundles_do_not_get_each_other_s_results() -> None:
    bundles: list[Jobs[int]] = [Jobs() for _ in range(5)]
    results: list[list[int]] = [[] for _ in bundles]
    for round_ in range(6):
        for number, jobs in enumerate(bundles):
            results[number] += jobs.submit(lambda n: n, 10 * number + round_)
    for number, jobs in enumerate(bundles):
        results[number] += jobs.finish()
        assert results[number] == [10 * number + round_ for round_ in range(6)]


def test_finish_waits_for_every_job_also_when_one_fails() -> None:
    finished = threading.Event()

    def fail() -> None:
        raise ValueError('no')

    def slow() -> None:
        time.sleep(0.2)
        finished.set()

    jobs: Jobs[None] = Jobs(ThreadPoolExecutor(2))
    jobs.submit(fail)
    jobs.submit(slow)
    with pytest.raises(ValueError, match='no'):
        jobs.finish()
    assert finished.is_set()


def test_calls_run_ahead_of_their_reader_in_order_and_not_too_far() -> None:
    both = threading.Barrier(2)

    def call(number: int) -> int:
        both.wait(_TIMEOUT_SEC)  # two at once
        return -number

    given = iter(range(41))
    results = run_ahead(call, given, 2)
    first = next(results)

    assert next(given) == 5  # four are under way when the first result is given
    assert [first, *results] == [-number for number in range(41) if number != 5]


def test_the_error_of_a_call_that_runs_ahead_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        list(run_ahead(lambda number: 6 // number, [3, 2, 0, 1], 1))


def test_items_are_not_asked_for_once_nobody_reads() -> None:
    called: list[int] = []

    def call(number: int) -> int:
        called.append(number)
        time.sleep(0.3 * number)
        return number

    results = run_ahead(call, range(100), 1)
    assert next(results) == 0
    results.close()  # type: ignore[attr-defined]
    assert called in ([0], [0, 1])  # what has not started is dropped


def test_calls_need_a_thread() -> None:
    with pytest.raises(OptionError, match=r'^threads must be 1 or more, got 0$'):
        list(run_ahead(str, [1], 0))


def test_items_are_made_ahead_in_order_and_in_another_thread() -> None:
    made: list[int] = []

    def items() -> Iterator[tuple[int, int]]:
        for number in range(20):
            made.append(number)
            yield number, threading.get_ident()

    for expected, (number, thread) in enumerate(read_ahead(items(), 3)):
        assert number == expected
        assert thread != threading.get_ident()
        assert len(made) <= number + 4


def test_what_making_an_item_raises_comes_after_the_items_before_it() -> None:
    def items() -> Iterator[int]:
        yield from range(5)
        raise OSError('broken')

    ahead = read_ahead(items())
    assert [next(ahead) for _ in range(5)] == list(range(5))
    with pytest.raises(OSError, match='broken'):
        next(ahead)


def test_items_that_nobody_wants_are_not_made() -> None:
    made: list[int] = []

    def items() -> Iterator[int]:
        for number in range(1000):
            made.append(number)
            yield number

    with contextlib.closing(read_ahead(items())) as ahead:
        assert next(ahead) == 0
    count = len(made)
    time.sleep(0.05)
    assert len(made) == count < 10

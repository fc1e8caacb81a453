"""A short run of benchmarks/fuzz.py, the same one every time, and what it calls a fault."""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Callable

import numpy as np
import pytest

from beam_mds import FormatError
from beam_mds.format import get_encoding
from benchmarks import fuzz
from benchmarks.fuzz import TARGETS
from benchmarks.fuzz_targets import Case, no_pickles, own_errors
from tests.helpers.memory import Memory

CASES = 1200


def test_damaged_datasets_give_only_errors_of_ours_in_little_time_and_memory() -> None:
    found: list[str] = []
    numbers = iter(range(CASES))
    findings = fuzz.fuzz(numbers, 7, list(TARGETS), lambda: True, found.append)
    assert not found
    assert findings.cases == dict.fromkeys(TARGETS, CASES // len(TARGETS))


def kind_of(run: Callable[[], object], size: int = 0) -> str | None:
    """What the fuzzer says of a case that does this."""
    with no_pickles():
        fault = fuzz.fault_of(Case(size, run, ''), Memory())  # type: ignore[arg-type]
    return fault and fault[0]


def raise_error(error: Exception) -> None:
    with own_errors():
        raise error


def test_every_kind_of_fault_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, 'SECONDS', 0.2)
    assert kind_of(lambda: None) is None
    assert kind_of(lambda: raise_error(FormatError('why'))) is None
    for run, kind in (
        (lambda: raise_error(KeyError('why')), 'KeyError at fuzz.py'),
        (lambda: raise_error(FormatError('x' * 9999)), 'Fault at fuzz_targets.py'),
        (lambda: get_encoding('pkl').decode(b'N.'), 'Fault at fuzz_targets.py'),
        (lambda: time.sleep(5), 'Fault at fuzz.py'),
        (lambda: [n for n in itertools.count() if n < 0], 'Fault at fuzz.py'),
        (lambda: warnings.warn('why', stacklevel=1), 'UserWarning: why'),
        (lambda: np.empty(fuzz.MEMORY_BYTES + 4001, np.uint8), 'traced memory'),
    ):
        assert str(kind_of(run, 1000)).startswith(kind)
    assert kind_of(lambda: np.empty(fuzz.MEMORY_BYTES, np.uint8), 1000) is None


def test_a_case_can_be_repeated_alone(tmp_path: object) -> None:
    seeds = fuzz.fuzz_inputs.seeds()
    first, again, other = (
        fuzz.make_case('shard', 0, number, seeds, tmp_path)  # type: ignore[arg-type]
        for number in (5, 5, 6)
    )
    assert first.about == again.about != other.about

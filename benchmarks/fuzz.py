"""Feeds damaged datasets to the reader: `python -m benchmarks.fuzz --seconds 60 --seed 0`.

A fault is an error that is not of `beam_mds.errors`, a warning, a case that takes too long, memory
far beyond the input's size, two ways of decoding that differ, or a sample that is lost. Each is
printed once, with its number: `--case N` runs that case alone. The exit status is 1 if there was
one.

Memory is what `tests.helpers.memory` measures: allocations of Python, numpy and Arrow, and resident
memory.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import itertools
import random
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from benchmarks import fuzz_checks, fuzz_inputs, fuzz_targets
from benchmarks.fuzz_targets import Case, Fault
from tests.helpers.memory import Memory

TARGETS = {**fuzz_targets.TARGETS, **fuzz_checks.TARGETS}

SECONDS = 5.0
"""What a case may take; it takes milliseconds, but others may have the processor meanwhile."""

MEMORY_FACTOR, MEMORY_BYTES = 4, 24 << 20
"""What it may use: this many times the bytes of its input, and so many more."""


@dataclass
class Findings:
    """What a run found.

    Attributes:
        cases: Cases by target.
        faults: Place and kind of a fault -> the first case that had it, in words.
        counts: The same -> how many had it.
    """

    cases: Counter[str] = field(default_factory=Counter)
    faults: dict[str, str] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)


def make_case(
    target: str, seed: int, number: int, seeds: Sequence[fuzz_inputs.Dataset], folder: Path
) -> Case:
    """Case `number` of a seed, whichever were run before."""
    rng = random.Random(f'{seed}/{number}')
    return TARGETS[target](rng, seeds, folder)


def fault_of(case: Case, memory: Memory) -> tuple[str, str] | None:
    """Runs a case; gives the kind of a fault and what there is to say about it, if there is one."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter('always')
        memory.start()
        try:
            with _time_limit():
                case.run()
        except (Exception, Fault) as error:  # noqa: BLE001
            return _place(error), _told(error)
        finally:
            peaks = memory.stop()
    for warning in caught:
        if '/PIL/' not in warning.filename and 'PIL' not in str(warning.category):
            return f'{warning.category.__name__}: {str(warning.message)[:60]}', str(warning)
    limit = MEMORY_FACTOR * case.size + MEMORY_BYTES
    for name, peak in peaks.items():
        if peak > limit:
            return f'{name} memory', f'{peak} bytes for an input of {case.size}'
    return None


def _place(error: BaseException) -> str:
    """The kind of an error and the last lines of ours that it came through."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if '/beam_mds/' in frame.filename or '/benchmarks/' in frame.filename
    ]
    where = ' < '.join(f'{Path(f.filename).name}:{f.lineno}' for f in frames[:-4:-1])
    return f'{type(error).__name__} at {where}'


def _told(error: BaseException) -> str:
    lines = ''.join(traceback.format_exception(error)[-30:]).splitlines()
    return '\n'.join([f'{error!r:.300}', *(line[:300] for line in lines[-40:])])


@contextmanager
def _time_limit() -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        raise Fault(f'it takes more than {SECONDS:g} s')

    before = signal.signal(signal.SIGALRM, stop)
    # For a loop in C that no signal handler interrupts.
    faulthandler.dump_traceback_later(10 * SECONDS, exit=True)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        faulthandler.cancel_dump_traceback_later()
        signal.signal(signal.SIGALRM, before)


def fuzz(
    numbers: Iterator[int],
    seed: int,
    targets: Sequence[str],
    go_on: Callable[[], bool],
    say: Callable[[str], Any],
) -> Findings:
    """Runs cases, the targets in turn, until there are no more numbers or it is told to stop."""
    findings, memory, seeds = Findings(), Memory(), fuzz_inputs.seeds()
    with fuzz_targets.no_pickles(), tempfile.TemporaryDirectory(prefix='fuzz-') as scratch:
        for number in itertools.takewhile(lambda _: go_on(), numbers):
            # Should the interpreter die, this file tells of which case.
            Path(scratch, 'case').write_text(f'{number}')
            target = targets[number % len(targets)]
            case = make_case(target, seed, number, seeds, Path(scratch, 'dataset'))
            findings.cases[target] += 1
            if (fault := fault_of(case, memory)) is not None:
                kind = f'{target}: {fault[0]}'
                findings.counts[kind] += 1
                if kind not in findings.faults:
                    findings.faults[kind] = f'case {number}: {fault[1]}\ninput: {case.about}'
                    say(f'{kind}\n{findings.faults[kind]}\n')
            if number % 500 == 0:
                gc.collect()
    return findings


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs what the command line asks for; 1 if there was a fault."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    add = parser.add_argument
    add('--seconds', type=float, default=60.0, help='how long')
    add('--seed', type=int, default=0, help='other cases')
    add('--case', type=int, help='only this one')
    add('--targets', default=','.join(TARGETS), help=','.join(TARGETS))
    args = parser.parse_args(arguments)
    targets = args.targets.split(',')
    faulthandler.enable()
    end = time.monotonic() + args.seconds
    findings = fuzz(
        itertools.count() if args.case is None else iter([args.case]),
        args.seed,
        targets,
        lambda: time.monotonic() < end,
        lambda text: print(text, file=sys.stderr, flush=True),
    )
    print(f'{sum(findings.cases.values())} cases:', dict(findings.cases))
    for kind, count in findings.counts.most_common():
        print(f'{count} x {kind}: {findings.faults[kind].splitlines()[0]:.200}')
    return int(bool(findings.faults))


if __name__ == '__main__':
    sys.exit(main())

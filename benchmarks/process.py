"""Runs one measured program in a process of its own and watches the memory of its process tree."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

REPOSITORY = Path(__file__).resolve().parent.parent

SAMPLE_SECONDS = 0.05
"""Time between two looks at the process tree."""

MEMORY_MEASURE = 'PSS' if Path('/proc/self/smaps_rollup').exists() else 'not measured'
"""What `Finished.peak_bytes` sums: resident pages, those that n processes share as 1/n of each."""

_LOOKS_PER_LISTING = 5
_LOG_LINES = 40


class MeasurementError(RuntimeError):
    """A measured program failed, or what it wrote is not what it was given."""


@dataclass(frozen=True)
class Finished:
    """What one run of a program gave.

    Attributes:
        report: The JSON object on its last line of output.
        wall_seconds: From its start to its end, interpreter and imports included.
        cpu_seconds: User and system time of the process and of the children it waited for.
        peak_bytes: Highest PSS of the process tree; None if it was not watched.
    """

    report: dict[str, Any]
    wall_seconds: float
    cpu_seconds: float
    peak_bytes: int | None


def run(command: Sequence[str], *, watch_memory: bool, timeout: float = 3600) -> Finished:
    """Runs a program from the repository's folder until it ends.

    Args:
        command: Program and arguments.
        watch_memory: Look at the process tree's memory every `SAMPLE_SECONDS`. That costs time, so
            it is not done in runs whose time counts.
        timeout: Seconds after which the program and its children are killed.

    Raises:
        MeasurementError: The program failed, or ran longer than `timeout`.
    """
    with tempfile.TemporaryFile('w+') as out, tempfile.TemporaryFile('w+') as log:
        start = time.monotonic()
        process = subprocess.Popen(
            command, cwd=REPOSITORY, stdout=out, stderr=log, start_new_session=True
        )
        try:
            ended = _wait(process.pid, watch_memory, deadline=start + timeout)
        finally:
            _kill_session(process.pid)
        wall = time.monotonic() - start
        process.returncode = ended.status
        if ended.status != 0:
            raise MeasurementError(_failure(command, ended.status, log))
        return Finished(
            report=_last_json(command, out, log),
            wall_seconds=wall,
            cpu_seconds=ended.cpu_seconds,
            peak_bytes=ended.peak_bytes if watch_memory and MEMORY_MEASURE == 'PSS' else None,
        )


@dataclass
class _Ended:
    status: int
    cpu_seconds: float
    peak_bytes: int


def _wait(pid: int, watch_memory: bool, deadline: float) -> _Ended:
    peak, tree = 0, [pid]
    for look in itertools.count():
        ended, status, usage = os.wait4(pid, os.WNOHANG)
        if ended:
            seconds = usage.ru_utime + usage.ru_stime
            return _Ended(os.waitstatus_to_exitcode(status), seconds, peak)
        if time.monotonic() > deadline:
            os.killpg(pid, signal.SIGKILL)
        if watch_memory:
            tree = descendants(pid) if look % _LOOKS_PER_LISTING == 0 else tree
            peak = max(peak, sum(map(pss_bytes, tree)))
        time.sleep(SAMPLE_SECONDS)
    raise AssertionError


def _kill_session(pid: int) -> None:
    """Ends what the program left running in its own session; nothing, normally."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _failure(command: Sequence[str], status: int, log: IO[str]) -> str:
    log.seek(0)
    tail = ''.join(log.readlines()[-_LOG_LINES:])
    return f'exit status {status} from: {" ".join(command)}\n{tail}'


def _last_json(command: Sequence[str], out: IO[str], log: IO[str]) -> dict[str, Any]:
    out.seek(0)
    lines = out.read().strip().splitlines()
    try:
        report = json.loads(lines[-1])
    except (IndexError, ValueError):
        raise MeasurementError(_failure(command, 0, log)) from None
    return dict(report)


def descendants(root: int) -> list[int]:
    """A process and all its descendants; nothing where there is no /proc."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir('/proc') if MEMORY_MEASURE == 'PSS' else ():
        if entry.isdigit() and (parent := _parent(entry)) is not None:
            children.setdefault(parent, []).append(int(entry))
    found = [root]
    for pid in found:
        found.extend(children.get(pid, ()))
    return found


def _parent(pid: str) -> int | None:
    try:
        with open(f'/proc/{pid}/stat', errors='replace') as file:
            return int(file.read().rpartition(')')[2].split()[1])
    except OSError:
        return None  # It ended between the listing and now.


def pss_bytes(pid: int) -> int:
    """A process's PSS now, in bytes; 0 if it has ended."""
    try:
        with open(f'/proc/{pid}/smaps_rollup') as file:
            kib = [int(line.split()[1]) for line in file if line.startswith('Pss:')]
    except OSError:
        return 0
    return sum(kib) << 10


def end_children_when_terminated() -> None:
    """Makes SIGTERM an exception, so that `run` can end what it started."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


def python_of(program: str) -> str:
    """Version of the interpreter and of the packages that matter, for the report."""
    code = (
        'import platform, importlib.metadata as m\n'
        'def v(n):\n'
        '  try: return m.version(n)\n'
        '  except m.PackageNotFoundError: return None\n'
        'names = ["apache-beam", "mosaicml-streaming", "pyarrow", "numpy", "zstandard", "zstd"]\n'
        'found = [f"{n} {v(n)}" for n in names if v(n)]\n'
        'print(", ".join(["Python " + platform.python_version(), *found]))'
    )
    return subprocess.run(
        [program, '-c', code], capture_output=True, text=True, check=True
    ).stdout.strip()


def say(text: str) -> None:
    """Progress, on standard error: standard output holds the table only."""
    print(text, file=sys.stderr, flush=True)

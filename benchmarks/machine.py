"""What else the machine does: timings on a busy one say little, so it is measured and told."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

_STAT = Path('/proc/stat')
_LOOK_SECONDS = 1.0
_PATIENCE_SECONDS = 600.0


def busy_seconds() -> float | None:
    """CPU seconds that all processes have used, and that a hypervisor took, since the start."""
    if not _STAT.exists():
        return None
    names = ['user', 'nice', 'system', 'idle', 'iowait', 'irq', 'softirq', 'steal']
    ticks = dict(zip(names, map(int, _STAT.read_text().split()[1:]), strict=False))
    return (sum(ticks.values()) - ticks['idle'] - ticks['iowait']) / os.sysconf('SC_CLK_TCK')


@dataclass(frozen=True)
class Watch:
    """Measures the share of the CPUs that others take while something runs.

    Attributes:
        time: When it began, monotonic.
        busy: `busy_seconds` then.
        own: CPU seconds of this process then; looking at memory takes some.
    """

    time: float
    busy: float | None
    own: float

    @classmethod
    def start(cls) -> Watch:
        """Begins now."""
        return cls(time.monotonic(), busy_seconds(), time.process_time())

    def others(self, own_seconds: float) -> float | None:
        """The share, 0 to 1, of all CPUs' time that others took since; None if it is not known.

        Args:
            own_seconds: CPU seconds of what was run, beside this process.
        """
        now = busy_seconds()
        if now is None or self.busy is None:
            return None
        available = (time.monotonic() - self.time) * (os.cpu_count() or 1)
        own = own_seconds + time.process_time() - self.own
        return max(0.0, now - self.busy - own) / available


def settle() -> None:
    """Waits until the system has written its dirty pages: no run pays for the one before."""
    os.sync()


def wait_for_quiet(limit: float) -> None:
    """Waits until others take at most this share of the CPUs, ten minutes at most."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while limit < 1 and time.monotonic() < deadline:
        watch = Watch.start()
        time.sleep(_LOOK_SECONDS)
        if (watch.others(0) or 0) <= limit:
            return

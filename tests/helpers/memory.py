"""The most memory that something uses, from wherever it is allocated."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

_STATUS, _CLEAR = Path('/proc/self/status'), Path('/proc/self/clear_refs')


class Memory:
    """Measures the most memory that is used in between, beyond what was used before.

    It is looked at from three sides: what Python and numpy allocate, touched or not (tracemalloc);
    what Arrow's pool gives out; and, on Linux, how far the process's resident memory rises
    (`VmHWM`, which can be set back), where what Pillow and the decompressors allocate shows.
    """

    def start(self) -> None:
        """Begins anew."""
        pool = pa.default_memory_pool()
        self._pool, self._pool_most = pool.bytes_allocated(), pool.max_memory()
        if _CLEAR.exists():
            _CLEAR.write_text('5')
        self._resident = _high_water()
        tracemalloc.start()

    def stop(self) -> dict[str, int]:
        """Bytes by where they were seen."""
        traced = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        most = pa.default_memory_pool().max_memory()
        return {
            'traced': traced,
            # Or it was within the most that was ever used, which cannot be set back.
            'Arrow': most - self._pool if most > self._pool_most else 0,
            'resident': _high_water() - self._resident,
        }


def peak_of(call: Callable[[], object]) -> int:
    """The most bytes that a call uses."""
    memory = Memory()
    memory.start()
    try:
        call()
    finally:
        peaks = memory.stop()
    return max(peaks.values())


def _high_water() -> int:
    for line in _STATUS.read_text().splitlines() if _CLEAR.exists() else ():
        if line.startswith('VmHWM'):
            return int(line.split()[1]) << 10
    return 0

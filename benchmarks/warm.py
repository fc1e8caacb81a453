"""Memory that was touched lately, so that no run pays for what the host lends anew."""

from __future__ import annotations

import numpy as np

PAGE_BYTES = 4096


def touch(megabytes: int) -> None:
    """Touches every page of this much memory, and gives it back to the system.

    A virtual machine may hand memory that has been free for some seconds back to its host; the next
    touch is then tens of times as slow, whether a program or a new file touches it.
    """
    if megabytes:
        np.empty(megabytes << 20, np.uint8)[::PAGE_BYTES] = 1

"""A write as a process of its own, which a fault can kill: `python -m tests.killed OUT OPTIONS`."""

from __future__ import annotations

import json
import sys

from tests.writing import samples, write

if __name__ == '__main__':
    write(samples(120, seed=2), sys.argv[1], **json.loads(sys.argv[2]))

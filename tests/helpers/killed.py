"""A write as a process that a fault can kill: `python -m tests.helpers.killed OUT OPTIONS`."""

from __future__ import annotations

import json
import sys

from tests.helpers.writing import samples, write

if __name__ == '__main__':
    write(samples(120, seed=2), sys.argv[1], **json.loads(sys.argv[2]))

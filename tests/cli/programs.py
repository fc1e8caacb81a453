"""What the tests of the command line share: the program as a process, commands made for a test."""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from beam_mds.cli.console import add_command

# As the installed script does it. (google.api_core warns of Python 3.10, on stderr.)
PROGRAM = [
    sys.executable, '-W', 'ignore::FutureWarning', '-c',
    'import sys; from beam_mds.cli import main; sys.exit(main())',
]  # fmt: skip


def shell(command: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Runs a line of bash in which `beam_mds` is the program."""
    script = f'beam_mds() {{ {shlex.join(PROGRAM)} "$@"; }}\n{command}'
    return subprocess.run(
        ['bash', '-c', script],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        **options,
    )


def use_command(
    monkeypatch: pytest.MonkeyPatch, run: Callable[[argparse.Namespace], int], **options: Any
) -> None:
    """Makes `try` a command of the program; it takes a path, a number or none, and --flag."""

    def add(commands: Any) -> None:
        parser = add_command(commands, 'try', run, 'try something', 'beam-mds try it', **options)
        parser.add_argument('path')
        parser.add_argument('number', nargs='?', type=int)
        parser.add_argument('--flag', action='store_true')
        parser.add_argument('--other', type=int, default=0)

    # The function of the same name hides the module.
    module = sys.modules['beam_mds.cli.main']
    known = [one for one in module._COMMANDS if not isinstance(one, SimpleNamespace)]
    monkeypatch.setattr(module, '_COMMANDS', (*known, SimpleNamespace(add=add)))

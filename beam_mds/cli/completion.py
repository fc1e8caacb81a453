"""`beam-mds completion`: a script that completes the command line in a shell."""

from __future__ import annotations

import argparse
from typing import Any

import shtab

from beam_mds.cli.console import DONE, add_command

_ABOUT = """
print a script that completes beam-mds in a shell
"""

_EXAMPLES = """
beam-mds completion bash > ~/.local/share/bash-completion/completions/beam-mds
beam-mds completion zsh > ~/.zfunc/_beam-mds
"""


def add(commands: Any) -> None:
    """Adds the sub-command."""
    parser = add_command(commands, 'completion', _run, _ABOUT, _EXAMPLES, beam=False)
    parser.add_argument('shell', choices=shtab.SUPPORTED_SHELLS)


def _run(args: argparse.Namespace) -> int:
    print(shtab.complete(args.program, args.shell))
    return DONE

"""The command line of `beam-mds`: its sub-commands, and what their ends mean to a shell."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from types import ModuleType

from beam_mds import __version__
from beam_mds.cli import completion, merge, reshard
from beam_mds.cli.console import DONE, FAILED, USAGE
from beam_mds.errors import MDSError, OptionError

# Each has `add(commands)`, which adds its parser and sets `run`, a function of the arguments that
# returns the exit code.
_COMMANDS: tuple[ModuleType, ...] = (merge, reshard, completion)

_DESCRIPTION = 'Looks at, checks, merges and rewrites MosaicML Streaming (MDS) datasets.'

_EPILOG = """
exit codes:
  0  done, and nothing is wrong
  1  done; the data has faults, which are printed
  2  the command line is wrong
  3  it could not be done: a file cannot be read or written, or a job failed

Paths are folders of datasets on any filesystem that Apache Beam knows: local, gs://, s3://, azfs://.
What follows after -- goes to Beam: beam-mds stats gs://b/dataset -- --runner=DataflowRunner ...
"""


def make_parser() -> argparse.ArgumentParser:
    """The parser of the whole program."""
    parser = argparse.ArgumentParser(
        prog='beam-mds',
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument('--version', action='version', version=f'beam-mds {__version__}')
    commands = parser.add_subparsers(metavar='COMMAND', required=True)
    for command in _COMMANDS:
        command.add(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one sub-command.

    Args:
        argv: The arguments; the process's own when None. Those after `--` are Beam's.

    Returns:
        The exit code; see `--help`.
    """
    given = list(sys.argv[1:] if argv is None else argv)
    end = given.index('--') if '--' in given else len(given)
    parser = make_parser()
    args = parser.parse_args(given[:end])
    args.beam_options = given[end + 1 :]
    try:
        code: int = args.run(args)
    except OptionError as error:
        print(f'beam-mds: {error}', file=sys.stderr)
        return USAGE
    except MDSError as error:
        print(f'beam-mds: {error}', file=sys.stderr)
        return FAILED
    except BrokenPipeError:  # of a pipe into head, say: nobody reads on
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    return code

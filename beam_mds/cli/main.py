"""The command line of `beam-mds`: its sub-commands, and what their ends mean to a shell."""

from __future__ import annotations

import argparse
import io
import os
import sys
import traceback
from collections.abc import Sequence
from types import ModuleType

from beam_mds import __version__
from beam_mds.cli import completion, convert, inspect, merge, rebuild_index, reshard, stats, verify
from beam_mds.cli.console import DONE, FAILED, INTERRUPTED, USAGE, CommandParser, hint
from beam_mds.errors import MDSError, OptionError
from beam_mds.viewing.show import printable

# Each has `add(commands)`, which adds its parser and sets `run`, a function of the arguments that
# returns the exit code. Those with `fill(parser)` get their options only when they are wanted.
_COMMANDS: tuple[ModuleType, ...] = (
    convert,
    inspect,
    verify,
    merge,
    rebuild_index,
    stats,
    reshard,
    completion,
)

_DESCRIPTION = 'Makes, looks at, checks, merges and rewrites MosaicML Streaming (MDS) datasets.'

_EPILOG = """
exit codes:
  0    done, and nothing is wrong
  1    done; the data has faults, which are printed
  2    the command line is wrong
  3    it could not be done: a file cannot be read or written, or a job failed
  130  it was interrupted by Ctrl-C

Paths are folders of datasets on any filesystem that Apache Beam knows: local, gs://, s3://, azfs://.
What follows after -- goes to Beam: beam-mds stats gs://b/dataset -- --runner=DataflowRunner ...
"""


def make_parser(wanted: str | None = None) -> argparse.ArgumentParser:
    """The parser of the whole program.

    Args:
        wanted: The sub-command that is run; `completion` wants the options of all of them.
    """
    parser = argparse.ArgumentParser(
        prog='beam-mds',
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument('--version', action='version', version=f'beam-mds {__version__}')
    commands = parser.add_subparsers(metavar='COMMAND', required=True, parser_class=CommandParser)
    for command in _COMMANDS:
        command.add(commands)
        name = next(reversed(commands.choices))
        if wanted in (name, 'completion') and hasattr(command, 'fill'):
            command.fill(commands.choices[name])
    parser.set_defaults(program=parser, commands=list(commands.choices))
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one sub-command.

    Args:
        argv: The arguments; the process's own when None. Those after `--` are Beam's.

    Returns:
        The exit code; see `--help`.

    Raises:
        SystemExit: With the exit code, after --help or when the command line is wrong.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # what a terminal cannot show is escaped
            stream.reconfigure(errors='backslashreplace')
    try:
        try:
            return _run(list(sys.argv[1:] if argv is None else argv))
        finally:
            sys.stdout.flush()  # shows here and now whether anyone reads
    except BrokenPipeError:  # of a pipe into head, say: nobody reads on
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except KeyboardInterrupt:
        print('beam-mds: interrupted', file=sys.stderr)
        return INTERRUPTED


def _run(given: list[str]) -> int:
    end = given.index('--') if '--' in given else len(given)
    name = next((text for text in given[:end] if not text.startswith('-')), None)
    parser = make_parser(name)
    names = parser.get_default('commands')
    if name is not None and name not in names:
        near = hint(name, names) or f': there are {", ".join(names)}'
        parser.error(f'no command {name}{near}')
    args = parser.parse_args(given[:end])
    args.beam_options = given[end + 1 :]
    if end < len(given) and not args.beam:
        args.parser.error('no Beam job is run here, so nothing may follow --')
    try:
        code: int = args.run(args)
    except OptionError as error:
        print(f'beam-mds: {printable(str(error))}', file=sys.stderr)
        return USAGE
    except MDSError as error:
        print(f'beam-mds: {printable(str(error))}', file=sys.stderr)
        return FAILED
    except (BrokenPipeError, KeyboardInterrupt):
        raise
    except Exception:  # noqa: BLE001 - Python's own exit code would mean that the data has faults
        traceback.print_exc()
        return FAILED
    return code

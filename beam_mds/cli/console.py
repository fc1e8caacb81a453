"""What the sub-commands share: exit codes, examples in --help, progress, output as text or JSON."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from tqdm import tqdm

_T = TypeVar('_T')

# Exit codes; see `beam-mds --help`.
DONE, FINDINGS, USAGE, FAILED = range(4)

# Seconds between two lines of progress where there is no terminal.
_LINE_EVERY = 10.0


def add_command(
    commands: Any, name: str, run: Callable[[argparse.Namespace], int], about: str, examples: str
) -> argparse.ArgumentParser:
    """Adds the parser of a sub-command.

    Args:
        commands: What `add_subparsers` gave.
        name: Of the sub-command.
        run: Runs it and returns the exit code.
        about: What it does; the first line stands in the list of commands.
        examples: Command lines, one a line.
    """
    lines = '\n'.join(f'  {line}' for line in examples.strip().splitlines())
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=about.strip().splitlines()[0],
        description=about.strip(),
        epilog=f'examples:\n{lines}',
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run)
    return parser


def add_json(parser: argparse.ArgumentParser) -> None:
    """Adds `--json`."""
    parser.add_argument('--json', action='store_true', help='print JSON, for scripts')


def print_json(value: Any) -> None:
    """Prints one JSON document."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def progress(items: Iterable[_T], what: str, total: int | None = None) -> Iterator[_T]:
    """Passes items on and shows on stderr how many there were: a bar, or now and then a line.

    Args:
        items: The work.
        what: What is counted, like `shards`.
        total: How many there will be.
    """
    if sys.stderr.isatty():
        yield from tqdm(items, total=total, unit=f' {what}', leave=False, file=sys.stderr)
        return
    shown = time.monotonic()
    for done, item in enumerate(items, 1):
        yield item
        if time.monotonic() - shown > _LINE_EVERY:
            shown = time.monotonic()
            print(f'{done:,}{"" if total is None else f" of {total:,}"} {what}', file=sys.stderr)


def print_table(rows: Sequence[Sequence[str]], right: Iterable[int] = ()) -> None:
    """Prints rows as columns of plain text.

    Args:
        rows: The cells.
        right: Numbers of the columns that are flush right.
    """
    flush_right = set(right)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            cell.rjust(width) if number in flush_right else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        print('  '.join(cells).rstrip())

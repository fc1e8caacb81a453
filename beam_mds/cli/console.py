"""What the sub-commands share: exit codes, examples in --help, progress, output as text or JSON."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import itertools
import json
import logging
import sys
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import shtab
from tqdm import tqdm

from beam_mds.checking.findings import Finding
from beam_mds.viewing.show import printable

_T = TypeVar('_T')

# Exit codes; see `beam-mds --help`.
DONE, FINDINGS, USAGE, FAILED = range(4)

# What shells give for a program that Ctrl-C ended.
INTERRUPTED = 130

# Seconds between two lines of progress where there is no terminal.
_LINE_EVERY = 10.0


class CommandParser(argparse.ArgumentParser):
    """The parser of a sub-command.

    Options may stand between arguments, also where an argument may be left out (argparse before
    Python 3.13 does not take `PATH --json N`). What is unknown is an error with a hint.
    """

    _parsing = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parses; unlike its base class it leaves nothing over."""
        if self._parsing or self._subparsers:  # by the call below; or commands follow
            return super().parse_known_args(args, namespace)
        self._parsing = True
        try:
            parsed, unknown = self.parse_known_intermixed_args(args, namespace)
        finally:
            self._parsing = False
        for text in unknown:
            if text.startswith('-'):
                name = text.partition('=')[0]
                near = hint(name, self._option_string_actions)
                if self.get_default('beam'):
                    near += ' (options for Beam follow --)'
                self.error(f'no option {name}{near}')
            self.error(f'one argument too many: {text}')
        return parsed, []


def hint(name: str, names: Iterable[str]) -> str:
    """`: did you mean x?`, or nothing."""
    near = difflib.get_close_matches(name, list(names), 1)
    return f': did you mean {near[0]}?' if near else ''


def add_command(
    commands: Any,
    name: str,
    run: Callable[[argparse.Namespace], int],
    about: str,
    examples: str,
    *,
    beam: bool = True,
) -> argparse.ArgumentParser:
    """Adds the parser of a sub-command.

    Args:
        commands: What `add_subparsers` gave.
        name: Of the sub-command.
        run: Runs it and returns the exit code.
        about: What it does; the first line stands in the list of commands.
        examples: Command lines, one a line.
        beam: Whether it takes options for Beam after `--`.
    """
    lines = '\n'.join(f'  {line}' for line in examples.strip().splitlines())
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=about.strip().splitlines()[0],
        description=about.strip(),
        epilog=f'examples:\n{lines}',
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(run=run, beam=beam, parser=parser)
    return parser


def add_path(parser: argparse.ArgumentParser, about: str, **how: Any) -> None:
    """Adds the argument PATH, which a shell completes to files.

    Args:
        parser: Of the sub-command.
        about: Its help.
        how: More for `add_argument`, like `nargs`.
    """
    action: Any = parser.add_argument('path', metavar='PATH', help=about, **how)
    action.complete = shtab.FILE


def add_json(parser: argparse.ArgumentParser) -> None:
    """Adds `--json`."""
    parser.add_argument('--json', action='store_true', help='print JSON, for scripts')


def print_json(value: Any) -> None:
    """Prints one JSON document."""
    ascii_only = not (sys.stdout.encoding or 'utf-8').lower().startswith('utf')
    try:
        text = json.dumps(value, indent=2, ensure_ascii=ascii_only)
    except RecursionError:  # which takes more room than values of as many levels need without
        text = json.dumps(value, ensure_ascii=ascii_only)
    # What is left of control characters stands inside of texts, where JSON has its own escapes.
    print(
        ''.join(one if one.isprintable() or one == '\n' else json.dumps(one)[1:-1] for one in text)
    )


class Progress:
    """Shows on stderr how much is done: a bar, or now and then a line where it is no terminal."""

    def __init__(self, what: str, total: int | None = None) -> None:
        """Starts at 0.

        Args:
            what: What is counted, like `shards`.
            total: How many there will be.
        """
        self._what, self._total, self._done = what, total, 0
        self._shown = time.monotonic()
        self._bar = None
        if sys.stderr.isatty():
            self._bar = tqdm(total=total, unit=f' {what}', leave=False, file=sys.stderr)

    def add(self, count: int = 1) -> None:
        """Counts on."""
        self._done += count
        if self._bar is not None:
            self._bar.update(count)
        elif time.monotonic() - self._shown > _LINE_EVERY:
            self._shown = time.monotonic()
            of_all = '' if self._total is None else f' of {self._total:,}'
            print(f'{self._done:,}{of_all} {self._what}', file=sys.stderr)

    def close(self) -> None:
        """Takes the bar away."""
        if self._bar is not None:
            self._bar.close()


def progress(items: Iterable[_T], what: str, total: int | None = None) -> Iterator[_T]:
    """Passes items on and shows how many there were; see `Progress`."""
    with contextlib.closing(Progress(what, total)) as shown:
        for item in items:
            yield item
            shown.add()


class _CountSamples(logging.Handler):
    """Shows what the steps of a job in this process say that they read."""

    def __init__(self, shown: Progress) -> None:
        super().__init__()
        self._shown = shown

    def emit(self, record: logging.LogRecord) -> None:
        self._shown.add(getattr(record, 'samples', 0))


@contextlib.contextmanager
def samples_read() -> Iterator[None]:
    """Shows how many samples jobs read, as long as they run in this process."""
    logger = logging.getLogger('beam_mds.reading.steps')
    before = logger.level, logger.propagate
    with contextlib.closing(Progress('samples')) as shown:
        handler = _CountSamples(shown)
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG)
        logger.propagate = False  # other handlers do not ask for a level again
        try:
            yield
        finally:
            logger.removeHandler(handler)
            logger.setLevel(before[0])
            logger.propagate = before[1]


def print_table(rows: Sequence[Sequence[str]], right: Iterable[int] = ()) -> None:
    """Prints rows as columns of plain text; a cell may have several lines.

    Args:
        rows: The cells.
        right: Numbers of the columns that are flush right.
    """
    flush_right = set(right)
    lines = [
        line
        for row in rows
        for line in itertools.zip_longest(
            *(printable(cell).split('\n') for cell in row), fillvalue=''
        )
    ]
    widths = [max(map(_width, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = []
        for number, (cell, width) in enumerate(zip(line, widths, strict=True)):
            space = ' ' * (width - _width(cell))
            cells.append(space + cell if number in flush_right else cell + space)
        print('  '.join(cells).rstrip())


def bytes_text(count: float) -> str:
    """A number of bytes for people.

    Example:
        >>> bytes_text(67108864)
        '64.0 MiB'
    """
    size = float(count)
    for unit in ('bytes', 'KiB', 'MiB', 'GiB', 'TiB'):
        if size < 1024 or unit == 'TiB':
            break
        size /= 1024
    return f'{size:,.0f} bytes' if unit == 'bytes' else f'{size:,.1f} {unit}'


def counted(count: int | None, things: str) -> str:
    """A number of things in words: `1 shard`, `1,200 samples`; `?` for None."""
    return f'{"?" if count is None else f"{count:,}"} {things if count != 1 else things[:-1]}'


def print_findings(findings: Iterable[Finding]) -> None:
    """Prints what is wrong with a dataset, one line for each finding."""
    for found in findings:
        with tqdm.external_write_mode():  # not into the bar
            print(printable(f'{found.kind:12}{found.file}: {found.detail}'))


def _width(text: str) -> int:
    """Places that a text takes in a terminal."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(one) else 1 + (unicodedata.east_asian_width(one) in 'WF')
        for one in text
    )

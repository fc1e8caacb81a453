"""`beam-mds stats`: what is in datasets, column by column, in numbers."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from beam_mds.cli.console import (
    DONE,
    FINDINGS,
    add_command,
    add_json,
    add_path,
    counted,
    print_json,
    print_table,
    samples_read,
)
from beam_mds.viewing.show import printable

_ABOUT = """
sum up datasets: lengths, numbers and frequent values, column by column

All datasets together are summed up by a Beam job: in this process, or as the options after -- say.
Percentiles are rounded toward 0, by less than 0.8 %; all else is exact. Values are counted of
integers and texts, unless a column has more than 1,000 different ones, or a text of more than 64
characters. The exit code is 1 if --skip_damaged skipped any samples.
"""

_EXAMPLES = """
beam-mds stats gs://bucket/dataset
beam-mds stats out/*/ --split train --columns tokens,source --json > stats.json
beam-mds stats big/ -- --direct_running_mode=multi_processing --direct_num_workers=8
beam-mds stats gs://b/dataset --output gs://b/stats.json -- --runner=DataflowRunner --project=p ...
"""

# Of the most frequent values of a column, so many are printed.
_SHOWN = 10

_KEYS = ('total', 'zeros', 'min', 'mean', 'max')

_LABELS = {'nan': 'NaN', 'infinite': 'infinite'}


def add(commands: Any) -> None:
    """Adds the sub-command."""
    parser = add_command(commands, 'stats', _run, _ABOUT, _EXAMPLES)
    add_path(parser, 'folder of a dataset, its index.json, or a glob of them', nargs='+')
    parser.add_argument('--columns', metavar='A,B', help='only these; the others are not decoded')
    parser.add_argument('--split', metavar='NAME', help='a sub-folder of each PATH')
    parser.add_argument(
        '--skip_damaged', action='store_true', help='count samples that cannot be read, and go on'
    )
    parser.add_argument(
        '--output',
        metavar='FILE',
        help='where the job puts the result, as JSON; for workers elsewhere',
    )
    add_json(parser)


def _run(args: argparse.Namespace) -> int:
    from beam_mds.cli.jobs import run_for_records
    from beam_mds.stats import MDSStats

    stats = MDSStats(
        args.path,
        None if args.columns is None else args.columns.split(','),
        split=args.split,
        skip_damaged=args.skip_damaged,
    )
    with samples_read():
        outcome = run_for_records(
            lambda pipeline: pipeline | stats, args.beam_options, args.output, '--output'
        )
    (found,) = outcome.records
    if args.json:
        print_json(found)
    else:
        _print(found)
    for letter in found['unread']:
        print(f'beam-mds: not read: {printable(letter["message"])}', file=sys.stderr)
    return FINDINGS if found['unread_samples'] else DONE


def _print(found: dict[str, Any]) -> None:
    """Prints the result: a table of lengths and numbers, and one of what else there is."""
    from beam_mds.distributions import PERCENTILES

    print(f'{counted(found["samples"], "samples")}, {counted(found["bytes"], "bytes")}')
    if found['unread_samples']:
        print(f'{counted(found["unread_samples"], "samples")} could not be read')
    if not found['columns']:
        print('no samples, so there is nothing to sum up')
        return
    percents = list(map(str, PERCENTILES))
    head = ('column', 'encoding', 'bytes', 'of', *_KEYS, *(f'{percent}%' for percent in percents))
    rows = [row for column in found['columns'] for row in _rows(column, percents)]
    print()
    print_table([head, *rows], right=[2, *range(4, len(head))])
    notes = [note for column in found['columns'] for note in _notes(column)]
    if notes:
        print()
        print_table(notes)


def _rows(column: dict[str, Any], percents: Sequence[str]) -> Iterator[Sequence[str]]:
    """The lines of a column in the first table."""
    lead = (column['name'], column['encoding'], _text(column['bytes']))
    measures = dict(column.get('lengths', {}))
    if 'numbers' in column:
        measures['numbers'] = {**column['numbers'], 'total': None}
    for name, measure in measures.items():
        percentiles = measure['percentiles'] or {}
        numbers = [measure[key] for key in _KEYS] + [percentiles.get(key) for key in percents]
        yield *lead, name, *map(_text, numbers)
        lead = ('', '', '')


def _notes(column: dict[str, Any]) -> Iterator[Sequence[str]]:
    """The lines of a column in the second table."""
    for key in ('nan', 'infinite'):
        if count := column.get('numbers', {}).get(key):
            yield column['name'], _LABELS[key], _text(count)
    for key, text in (('dtypes', str), ('shapes', _sides), ('values', repr)):
        if key in column:
            yield column['name'], key, _frequent(column[key], text, 'numbers' in column)


def _frequent(counts: list[dict[str, Any]] | None, text: Callable[[Any], str], short: bool) -> str:
    """The most frequent of some values, none of which can be a long text if `short`."""
    from beam_mds.distributions import MAX_CHARACTERS, MAX_VALUES

    if counts is None:
        many = f'more than {MAX_VALUES:,} different ones'
        return many if short else f'{many}, or longer than {MAX_CHARACTERS} characters'
    shown = [f'{text(found["value"])}: {found["count"]:,}' for found in counts[:_SHOWN]]
    if len(counts) > _SHOWN:
        shown.append(f'... ({len(counts):,} in all)')
    return ', '.join(shown)


def _sides(shape: list[int]) -> str:
    return ' x '.join(map(str, shape)) or 'none'


def _text(number: float | None) -> str:
    """A number for a cell: exact if it is whole."""
    if number is None:
        return ''
    return f'{number:,}' if isinstance(number, int) else f'{number:,.6g}'

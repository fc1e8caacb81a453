"""`beam-mds inspect`: what a dataset holds, and single samples of it."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from beam_mds.cli.console import (
    DONE,
    add_command,
    add_json,
    add_path,
    bytes_text,
    print_json,
    print_table,
)
from beam_mds.viewing.show import json_value, show_value

if TYPE_CHECKING:
    from beam_mds.viewing.describe import DatasetSummary, Spread, Variant

_ABOUT = """
show what a dataset or a shard holds, or one sample

The summary comes from the index alone, but for one thing: where two or more columns vary in size,
how the bytes are divided among them is estimated from up to 3 shards, and marked with ~. Of an
uncompressed shard only as many bytes are read as are needed (the sizes of up to 1,000 samples).
"""

_EXAMPLES = """
beam-mds inspect gs://bucket/dataset
beam-mds inspect gs://bucket/dataset 12345
beam-mds inspect dataset -1 --full
beam-mds inspect dataset/shard.00000.mds.zstd 7 --json
"""

# Splits that are listed without --full.
_SPLITS = 20


def add(commands: Any) -> None:
    """Adds the sub-command."""
    parser = add_command(commands, 'inspect', _run, _ABOUT, _EXAMPLES, beam=False)
    add_path(parser, 'folder of a dataset, its index.json, or a shard file')
    parser.add_argument(
        'number', nargs='?', type=int, metavar='N', help='show sample N, from 0; -1 is the last'
    )
    parser.add_argument(
        '--full', action='store_true', help='show all of long values, and all splits'
    )
    parser.add_argument(
        '--allow_pickle',
        action='store_true',
        help='unpickle pkl columns: runs code that is in the data',
    )
    add_json(parser)


def _run(args: argparse.Namespace) -> int:
    from beam_mds.viewing.describe import describe  # which imports Beam

    if args.number is not None:
        _show_sample(args)
        return DONE
    summary = describe(args.path)
    if args.json:
        print_json(summary.as_dict())
        return DONE
    _print_totals(summary)
    _print_shards(summary)
    _print_columns(summary)
    _print_splits(summary, args.full)
    return DONE


def _show_sample(args: argparse.Namespace) -> None:
    from beam_mds.viewing.describe import read_sample

    place, sample = read_sample(args.path, args.number, allow_pickle=args.allow_pickle)
    if args.json:
        fields = asdict(place)
        encodings, sizes = fields.pop('encodings'), fields.pop('sizes')
        fields['columns'] = {
            name: {
                'encoding': encodings[name],
                'bytes': sizes[name],
                'value': json_value(encodings[name], value, full=args.full),
            }
            for name, value in sample.items()
        }
        print_json(fields)
        return
    print_table(
        [
            ['sample', f'{place.number:,} of {place.samples:,}'],
            ['place', f'sample {place.row:,} of shard {place.shard:,}'],
            ['file', place.path],
        ]
    )
    print()
    rows = [['column', 'encoding', 'bytes', 'value']]
    for name, value in sample.items():
        encoding = place.encodings[name]
        shown = show_value(encoding, value, full=args.full)
        rows.append([name, encoding, f'{place.sizes[name]:,}', shown])
    print_table(rows, right={2})


def _print_totals(summary: DatasetSummary) -> None:
    ratio = '' if summary.ratio is None else f'{summary.ratio:.2f} : 1'
    rows = [
        ['path', summary.path],
        ['samples', f'{summary.samples:,}'],
        ['shards', f'{summary.shards:,}'],
        ['raw bytes', f'{summary.raw_bytes:,}  ({bytes_text(summary.raw_bytes)})'],
        ['stored bytes', f'{summary.stored_bytes:,}  ({bytes_text(summary.stored_bytes)})'],
        ['compression', _settings(summary.compression, lambda name: name or 'none')],
        ['ratio', ratio],
        ['hashes', _settings(summary.hashes, lambda names: ' '.join(names) or 'none')],
        ['size limit', _settings(summary.size_limit, _limit_text)],
    ]
    print_table([row for row in rows if row[1]])


def _limit_text(limit: int | None) -> str:
    return 'none' if limit is None else f'{limit:,}  ({bytes_text(limit)})'


def _settings(variants: Iterable[Variant], text: Any) -> str:
    """The values of a setting; how many shards have each, where they differ."""
    found = list(variants)
    if len(found) == 1:
        return str(text(found[0].value))
    lines = [f'{text(one.value)}: {one.shards:,} shard{"s" * (one.shards > 1)}' for one in found]
    return '\n'.join(lines)


def _print_shards(summary: DatasetSummary) -> None:
    rows = [
        _spread_row('samples', summary.shard_samples, '{:,.0f}'.format),
        _spread_row('raw size', summary.shard_raw_bytes, bytes_text),
        _spread_row('stored size', summary.shard_stored_bytes, bytes_text),
        _spread_row('fill', summary.fill, '{:.1%}'.format),
    ]
    if shown := [row for row in rows if row]:
        print()
        print_table([['per shard', 'min', 'mean', 'max'], *shown], right={1, 2, 3})


def _spread_row(name: str, spread: Spread | None, text: Any) -> list[str]:
    if spread is None:
        return []
    return [name, *map(text, (spread.min, spread.mean, spread.max))]


def _print_columns(summary: DatasetSummary) -> None:
    total = summary.raw_bytes
    rows = [['column', 'encoding', 'size', 'bytes', 'share']]
    for column in summary.columns:
        mark = '~' if column.estimated else ''
        rows.append(
            [
                column.name,
                column.encoding,
                'varies' if column.size is None else f'{column.size:,}',
                f'{mark}{column.bytes:,}',
                f'{mark}{column.bytes / total:.1%}',
            ]
        )
        if column.samples != summary.samples:
            rows[-1][0] += f' (in {column.samples:,} samples)'
    if summary.columns:
        share = f'{summary.header_bytes / total:.1%}'
        rows.append(['', 'headers and sizes', '', f'{summary.header_bytes:,}', share])
        print()
        print_table(rows, right={2, 3, 4})


def _print_splits(summary: DatasetSummary, full: bool) -> None:
    shown = summary.splits if full else summary.splits[:_SPLITS]
    if not shown:
        return
    rows = [['split', 'samples', 'shards', 'raw bytes', 'stored bytes']]
    for split in shown:
        numbers = (split.samples, split.shards, split.raw_bytes, split.stored_bytes)
        rows.append([split.name or '(none)', *(f'{number:,}' for number in numbers)])
    print()
    print_table(rows, right={1, 2, 3, 4})
    if len(shown) < len(summary.splits):
        print(f'... and {len(summary.splits) - len(shown):,} more: --full shows all')

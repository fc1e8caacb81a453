"""`beam-mds merge`: one index.json for several datasets."""

from __future__ import annotations

import argparse
from typing import Any

from beam_mds.cli.console import DONE, add_command, add_json, print_json, progress

_ABOUT = """
write one index.json that lists the shards of several datasets

Merges the datasets PART (folders, their index.json, or quoted globs), or all that lie at and below
OUT, into OUT/index.json. Every shard is checked to be there with its size; none is moved, changed
or deleted. Shards are in the order of their folders, numbers as numbers: part-2 before part-10.
Running it again changes nothing.
"""

_EXAMPLES = """
beam-mds merge gs://bucket/dataset --expect 12
beam-mds merge dataset --expect train,val/en
beam-mds merge dataset --expect @parts.txt
beam-mds merge dataset 'dataset/2024-*' dataset/extra --overwrite
beam-mds merge gs://bucket/all gs://a/run-1 gs://b/run-1 --copy
"""


def add(commands: Any) -> None:
    """Adds the sub-command."""
    parser = add_command(commands, 'merge', _run, _ABOUT, _EXAMPLES, beam=False)
    parser.add_argument('out', metavar='OUT', help='the folder of the merged index')
    parser.add_argument(
        'parts', metavar='PART', nargs='*', help='a dataset; default: all below OUT'
    )
    parser.add_argument(
        '--expect',
        metavar='N|PART,PART|@FILE',
        help='fail unless there are N parts, or exactly these, relative to OUT; @FILE has one a '
        'line (a folder whose name is a number: ./12)',
    )
    parser.add_argument(
        '--overwrite',
        action='store_true',
        help='drop shards that only the index in OUT lists',
    )
    parser.add_argument(
        '--copy', action='store_true', help='copy the shards of parts that are not below OUT there'
    )
    add_json(parser)


def _run(args: argparse.Namespace) -> int:
    from beam_mds.merge import merge_indexes

    merged = merge_indexes(
        args.out,
        args.parts or None,
        expect=_expected(args.expect),
        if_exists='overwrite' if args.overwrite else 'error',
        copy=args.copy,
        progress=progress,
    )
    if args.json:
        print_json(merged._asdict())
    else:
        print(
            f'{merged.path}: {merged.parts:,} parts, {merged.shards:,} shards, '
            f'{merged.samples:,} samples{"" if merged.changed else " (as it was)"}'
        )
    return DONE


def _expected(text: str | None) -> int | list[str] | None:
    """The value of --expect.

    Raises:
        StorageError: The file cannot be read.
    """
    if text is None:
        return None
    if text.isdecimal():
        return int(text)
    if text.startswith('@'):
        from beam_mds import storage

        lines = (
            storage.read(storage.absolute(text[1:], '--expect'))
            .decode(errors='replace')
            .splitlines()
        )
    else:
        lines = text.split(',')
    return [line.strip() for line in lines if line.strip()]

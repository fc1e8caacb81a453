"""The command line that the pipelines share: WriteToMDS's options, and Beam's passed through."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Sequence
from typing import Any

from apache_beam.options.pipeline_options import PipelineOptions

from beam_mds import OptionError

# What stands for None, and for what the dataset has that is read.
NONE, SAME = 'none', 'same'

# An unknown option that is this close to one of ours is a typing error, not one of Beam's.
_CLOSE = 0.85

_EPILOG = (
    'Every other option goes to Beam, like --runner, --direct_num_workers or --temp_location; '
    'its own documentation lists them.'
)


def make_parser(module: str, description: str) -> argparse.ArgumentParser:
    """A parser for `python -m <module>`."""
    return argparse.ArgumentParser(
        prog=f'python -m {module}',
        description=description,
        epilog=_EPILOG,
        allow_abbrev=False,  # an abbreviation might be one of Beam's options
    )


def add_write_options(
    parser: argparse.ArgumentParser,
    *,
    key: str | None = None,
    same: bool = False,
    split_pattern: bool = False,
) -> None:
    """Adds the options of `WriteToMDS`.

    Args:
        parser: Where to.
        key: The default of `--key` in shuffled order.
        same: Whether there is a dataset whose compression, hashes and size limit are the defaults.
        split_pattern: Whether `--split` may be a pattern of paths.
    """
    group = parser.add_argument_group('the new dataset')

    def add(option: str, text: str, **how: Any) -> None:
        if how.get('default') not in (None, ''):
            text += ' (default: %(default)s)'
        group.add_argument(option, help=text, **how)

    add('--output', 'where it goes: a folder, local or gs://', required=True, metavar='FOLDER')
    add(
        '--compression', 'br, bz2, gz, snappy, zstd, or with a level: zstd:7; or none',
        default=SAME if same else NONE, metavar='NAME',
    )  # fmt: skip
    add(
        '--hashes', 'to store for each file, like sha1,xxh64; or none',
        default=SAME if same else NONE, metavar='NAMES',
    )  # fmt: skip
    add(
        '--size_limit', 'largest raw size of a shard, like 64mb, 1GiB or 1000000',
        default=SAME if same else '64mb', metavar='SIZE',
    )  # fmt: skip
    add(
        '--order',
        'shuffled: same samples, same files; sorted: by --key; arrival: the fastest',
        default='shuffled', choices=['shuffled', 'sorted', 'arrival'],
    )  # fmt: skip
    add(
        '--key', 'a column: samples with one value of it stay together; none: each by itself '
        f'(default: {key or NONE}; not with --order arrival)', metavar='COLUMN',
    )  # fmt: skip
    add('--seed', 'gives another shuffled order', type=int, default=0, metavar='N')
    add('--num_shards', 'about this many shards, without measuring first', type=int, metavar='N')
    text = 'a column: its value is the sub-folder that a sample goes to'
    if split_pattern:
        text += (
            '; or a pattern of input paths, like {split}/*.jsonl, or several with | between them'
        )
    add('--split', text, metavar='COLUMN')
    add(
        '--if_exists', 'when there is a dataset already',
        default='error', choices=['error', 'overwrite', 'append'],
    )  # fmt: skip
    parser.set_defaults(default_key=key)


def add_rename(group: Any) -> None:
    """Adds `--rename` to a group of options."""
    group.add_argument(
        '--rename', action='append', default=[], metavar='OLD=NEW',
        help='a column that gets another name; may be given several times',
    )  # fmt: skip


def renames_of(args: argparse.Namespace) -> dict[str, str]:
    """Old name -> new name.

    Raises:
        OptionError: One is not like old=new.
    """
    pairs = [pair.partition('=') for pair in args.rename]
    for old, _, new in pairs:
        if not old or not new:
            raise OptionError(f'--rename must be like old=new, got {old}')
    return {old: new for old, _, new in pairs}


def write_options(args: argparse.Namespace) -> dict[str, Any]:
    """The keyword arguments for `WriteToMDS`, without `columns`."""
    key = args.key
    if key is None and args.order == 'shuffled':
        key = args.default_key
    hashes = [] if args.hashes == NONE else args.hashes.split(',')
    return {
        'out': args.output,
        'compression': None if args.compression == NONE else args.compression,
        'hashes': SAME if args.hashes == SAME else hashes,
        'size_limit': args.size_limit,
        'order': args.order,
        'key': None if key == NONE else key,
        'seed': args.seed,
        'num_shards': args.num_shards,
        'split': args.split,
        'if_exists': args.if_exists,
    }


def parse(
    parser: argparse.ArgumentParser, argv: Sequence[str] | None
) -> tuple[argparse.Namespace, PipelineOptions]:
    """Our options, and Beam's; exits with a message when one of ours is wrong or misspelled."""
    args, rest = parser.parse_known_args(argv)
    ours = [option for action in parser._actions for option in action.option_strings]
    for text in rest:
        option = text.partition('=')[0]
        if option.startswith('--') and (near := difflib.get_close_matches(option, ours, 1, _CLOSE)):
            parser.error(f'unknown option {option}: did you mean {near[0]}?')
    return args, PipelineOptions(rest)

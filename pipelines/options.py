"""The command line that the pipelines share: WriteToMDS's options, and Beam's passed through."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Iterable, Sequence
from typing import Any

from apache_beam.options.pipeline_options import PipelineOptions

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
    parser: argparse.ArgumentParser, columns: Iterable[str], key: str | None = None
) -> None:
    """Adds the options of `WriteToMDS`.

    Args:
        parser: Where to.
        columns: The dataset's columns, which `--key` may name.
        key: The default of `--key` in shuffled order.
    """
    group = parser.add_argument_group('the dataset')
    group.add_argument(
        '--output', required=True, metavar='FOLDER', help='where it goes: a folder, local or gs://'
    )
    group.add_argument(
        '--compression', metavar='NAME', help='br, bz2, gz, snappy, zstd, or with a level: zstd:7'
    )
    group.add_argument(
        '--hashes', default='', metavar='NAMES', help='to store for each file, like sha1,xxh64'
    )
    group.add_argument(
        '--size_limit', default='64mb', metavar='SIZE',
        help='largest raw size of a shard, like 64mb, 1GiB or 1000000 (default: %(default)s)',
    )  # fmt: skip
    group.add_argument(
        '--order', default='shuffled', choices=['shuffled', 'arrival'],
        help='shuffled: same samples, same files; arrival: the fastest (default: %(default)s)',
    )  # fmt: skip
    group.add_argument(
        '--key', choices=[*columns, 'none'],
        help='samples with one value of this column stay together; none: each sample by itself '
        f'(default: {key or "none"}; only with --order shuffled)',
    )  # fmt: skip
    group.add_argument(
        '--seed', type=int, default=0, metavar='N', help='gives another shuffled order'
    )
    group.add_argument(
        '--num_shards',
        type=int,
        metavar='N',
        help='about this many shards, without measuring first',
    )
    parser.set_defaults(default_key=key)


def write_options(args: argparse.Namespace) -> dict[str, Any]:
    """The keyword arguments for `WriteToMDS`, without `columns`."""
    key = args.key
    if key is None and args.order == 'shuffled':
        key = args.default_key
    return {
        'out': args.output,
        'compression': args.compression,
        'hashes': [name for name in args.hashes.split(',') if name],
        'size_limit': args.size_limit,
        'order': args.order,
        'key': None if key == 'none' else key,
        'seed': args.seed,
        'num_shards': args.num_shards,
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

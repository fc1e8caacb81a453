"""`beam-mds rebuild-index`: a lost index.json, made anew from the shards."""

from __future__ import annotations

import argparse
from typing import Any

from beam_mds.cli.console import (
    DONE,
    FINDINGS,
    add_command,
    add_json,
    add_path,
    counted,
    print_findings,
    print_json,
)

_ABOUT = """
make a lost index.json anew, from the shards

Takes all files named *.mds, *.mds.zstd and so on, in the folder and below it, ordered by their
paths, with numbers as numbers. Of x.mds and x.mds.zstd, the packed one is listed if it is whole.
A damaged shard is not listed but printed, with the exit code 1; `beam-mds verify --help` tells the
kinds of damage.
"""

_EXAMPLES = """
beam-mds rebuild-index gs://bucket/dataset
beam-mds rebuild-index out/dataset --hashes sha1,xxh64 --deep
beam-mds rebuild-index out/dataset --hashes same --overwrite
"""


def add(commands: Any) -> None:
    """Adds the sub-command."""
    parser = add_command(commands, 'rebuild-index', _run, _ABOUT, _EXAMPLES, beam=False)
    add_path(parser, 'folder of the shards')
    parser.add_argument(
        '--hashes',
        metavar='NAMES',
        help='hashes to compute and list, like sha1,xxh64; same: those that each shard was '
        'written with (default: none)',
    )
    parser.add_argument('--deep', action='store_true', help='decode every sample (but pkl) too')
    parser.add_argument(
        '--overwrite', action='store_true', help='replace an index.json that is there'
    )
    add_json(parser)


def _run(args: argparse.Namespace) -> int:
    from beam_mds.rebuild import SAME, rebuild_index

    hashes = args.hashes
    rebuilt = rebuild_index(
        args.path,
        hashes=hashes if hashes in (None, SAME) else hashes.split(','),
        if_exists='overwrite' if args.overwrite else 'error',
        deep=args.deep,
    )
    findings = rebuilt.findings
    if args.json:
        print_json(
            {
                'index': rebuilt.index,
                'shards': rebuilt.shards,
                'samples': rebuilt.samples,
                'findings': [found._asdict() for found in findings],
            }
        )
    else:
        print_findings(findings)
        counts = counted(rebuilt.shards, 'shards'), counted(rebuilt.samples, 'samples')
        print(f'{rebuilt.index}: {", ".join(counts)}')
    return FINDINGS if findings else DONE

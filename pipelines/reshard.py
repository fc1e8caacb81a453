"""MDS datasets -> MDS, with other shards, compression, order, columns, samples or splits.

python -m pipelines.reshard --input gs://bucket/old --output gs://bucket/new --size_limit 256mb
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from typing import Any

import apache_beam as beam

from beam_mds import OptionError, ReshardMDS
from beam_mds.writing.letters import write_lines
from pipelines.options import (
    add_rename,
    add_write_options,
    make_parser,
    parse,
    renames_of,
    write_options,
)
from pipelines.report import counters_at_end, dataset_rows, table

DESCRIPTION = """
Writes MDS datasets anew. Compression, hashes and size limit stay as they are unless they are given;
samples are copied without decoding them. The new dataset may take the old one's place: --output
is the same folder then, with --if_exists overwrite.
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the pipeline's options."""
    source = parser.add_argument_group('the datasets that are read')
    source.add_argument(
        '--input', action='append', required=True, metavar='PATH',
        help='a folder, its index.json, or a glob of either; may be given several times',
    )  # fmt: skip
    source.add_argument(
        '--columns', metavar='NAMES', help='columns to keep, like text,label (default: all)'
    )
    add_rename(source)
    source.add_argument(
        '--where', metavar='EXPRESSION',
        help="samples to keep, like \"lang == 'en' and len(text) > 100\"",
    )  # fmt: skip
    source.add_argument(
        '--fraction', type=float, metavar='SHARE',
        help='share of the samples to keep, 0 to 1, by a hash of the key or of the sample',
    )  # fmt: skip
    source.add_argument(
        '--validate_hash', metavar='NAME', help='a hash to check every file by, like sha1'
    )
    source.add_argument(
        '--errors_output', metavar='FILE',
        help='damaged samples are left out and noted here, as JSON lines (default: they fail the '
        'job)',
    )  # fmt: skip
    add_write_options(parser, same=True)


def build(args: argparse.Namespace) -> ReshardMDS:
    """The transform.

    Raises:
        OptionError: An option cannot work.
    """
    return ReshardMDS(
        args.input,
        columns=args.columns.split(',') if args.columns else None,
        rename=renames_of(args),
        where=args.where,
        fraction=args.fraction,
        validate_hash=args.validate_hash,
        on_error='dead_letter' if args.errors_output else 'fail',
        **write_options(args),
    )


def wire(pipeline: beam.Pipeline, args: argparse.Namespace) -> None:
    """Adds the steps to a pipeline.

    Raises:
        MDSError: An option cannot work, or there is no dataset to read.
    """
    result = pipeline | 'ReshardMDS' >> build(args)
    if args.errors_output:
        _ = (
            result.errors
            | 'ToJson' >> beam.Map(lambda letter: json.dumps(letter._asdict()))
            | 'WriteErrors' >> write_lines(args.errors_output)
        )


def summary(args: argparse.Namespace, counters: Mapping[str, int]) -> str:
    """What a job wrote.

    Args:
        args: The options.
        counters: Of the job, by name.
    """
    rows = [
        ('samples read', f'{counters.get("samples_read", 0):,}'),
        *dataset_rows(args.output),
        ('dataset', args.output),
    ]
    if args.errors_output:
        rows.insert(1, ('damaged samples', f'{counters.get("samples_unread", 0):,}'))
        rows.append(('damaged samples in', args.errors_output))
    return table(rows)


def run(argv: Sequence[str] | None = None) -> tuple[argparse.Namespace, Any]:
    """Builds the pipeline from a command line, and starts it.

    Args:
        argv: The arguments; the process's own when None.

    Returns:
        The options, and the `PipelineResult`.
    """
    parser = make_parser('pipelines.reshard', DESCRIPTION)
    add_options(parser)
    args, beam_options = parse(parser, argv)
    pipeline = beam.Pipeline(options=beam_options)
    try:
        wire(pipeline, args)
    except OptionError as error:
        parser.error(str(error))
    return args, pipeline.run()


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the pipeline, waits for it, and prints what it wrote."""
    args, result = run(argv)
    print(summary(args, counters_at_end(result)))


if __name__ == '__main__':
    main()

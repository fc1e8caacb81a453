"""Text files -> MDS, one sample per file: path, package, size, sha256, text.

python -m pipelines.files --input src --pattern '*.py' --output gs://bucket/dataset
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apache_beam as beam
from apache_beam.runners.runner import PipelineState

from beam_mds import OptionError, WriteToMDS
from beam_mds.sources.files import COLUMNS, UNDECODABLE, ReadFiles
from pipelines.options import add_write_options, make_parser, parse, write_options
from pipelines.report import counters_of, dataset_rows, table

_DESCRIPTION = """
Writes text files as an MDS dataset, one sample per file. Columns: path (relative to the input),
package (the first folder of the path, or a top file's name without suffix), size (bytes), sha256,
text. Python sources are decoded as they declare (PEP 263), all other files as UTF-8.
"""


def run(argv: Sequence[str] | None = None) -> tuple[str, Any]:
    """Builds the pipeline from a command line, and starts it.

    Args:
        argv: The arguments; the process's own when None.

    Returns:
        The path of the dataset, and the `PipelineResult`.
    """
    parser = make_parser('pipelines.files', _DESCRIPTION)
    source = parser.add_argument_group('the files')
    source.add_argument(
        '--input', action='append', required=True, metavar='PATH',
        help='a folder (all files below it), a glob (** crosses folders), or a file; local or '
        'gs://; may be given several times',
    )  # fmt: skip
    source.add_argument(
        '--pattern', default='*', metavar='GLOB',
        help="names of the files to take from a folder, like '*.py' (default: all)",
    )  # fmt: skip
    source.add_argument(
        '--exclude', action='append', default=[], metavar='NAME',
        help='name, or glob of a name, of files and folders to leave out at any depth, like .git; '
        'may be given several times',
    )  # fmt: skip
    source.add_argument(
        '--undecodable', choices=UNDECODABLE, default='skip',
        help='a file that is no text: skip it, and log and count that, or fail '
        '(default: %(default)s)',
    )  # fmt: skip
    add_write_options(parser, key='package')
    args, beam_options = parse(parser, argv)
    try:
        files = ReadFiles(
            args.input, pattern=args.pattern, exclude=args.exclude, undecodable=args.undecodable
        )
        dataset = WriteToMDS(columns=COLUMNS, **write_options(args))
    except OptionError as error:
        parser.error(str(error))
    pipeline = beam.Pipeline(options=beam_options)
    _ = pipeline | 'ReadFiles' >> files | 'WriteToMDS' >> dataset
    return args.output, pipeline.run()


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the pipeline, waits for it, and prints what it wrote."""
    output, result = run(argv)
    state = result.wait_until_finish()
    if state != PipelineState.DONE:
        raise SystemExit(f'the job is {state}: nothing to report')
    skipped = [('files skipped', f'{counters_of(result).get("files_skipped", 0):,}')]
    print(table([*dataset_rows(output), *skipped, ('dataset', output)]))


if __name__ == '__main__':
    main()

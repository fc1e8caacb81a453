"""Files -> MDS: one sample a file with its text or bytes, or one sample a line of text.

python -m pipelines.files --input src --pattern '*.py' --output gs://bucket/dataset
"""

from __future__ import annotations

import argparse

from beam_mds import ReadFiles
from beam_mds.sources.files import BYTES_COLUMNS, COLUMNS, LINES_COLUMNS, UNDECODABLE
from pipelines.conversion import Conversion, make_main, source_options
from pipelines.options import renames_of

DESCRIPTION = """
Writes files as an MDS dataset, one sample a file. Columns: path (relative to the input), package
(the first folder of the path, or a top file's name without suffix), size (bytes), sha256, text.
Python sources are decoded as they declare (PEP 263), all other files as UTF-8. With --binary, files
of any kind, and bytes in the place of text. With --lines, one sample a line of UTF-8 that is not
blank, without white space around it, also of compressed files; the column is text, and there are
path and package.
"""

EXAMPLES = """
beam-mds convert files --input src --pattern '*.py' --exclude .git --output dataset
beam-mds convert files --input 'wiki/part-*' --lines --output wiki-mds/train
beam-mds convert files --input 'scans/**.png' --binary --columns path,bytes=png --output dataset
"""

# What stays together in shuffled order, where it is among the columns.
_KEY = 'package'


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the pipeline's options."""
    group = parser.add_argument_group('the files')
    group.add_argument(
        '--pattern', default='*', metavar='GLOB',
        help="names of the files to take from a folder, like '*.py' (default: all)",
    )  # fmt: skip
    group.add_argument(
        '--exclude', action='append', default=[], metavar='NAME',
        help='name, or glob of a name, of files and folders to leave out at any depth, like .git; '
        'may be given several times',
    )  # fmt: skip
    kind = group.add_mutually_exclusive_group()
    kind.add_argument(
        '--binary', dest='content', action='store_const', const='bytes', default='text',
        help='the bytes of the files, in the place of their text',
    )  # fmt: skip
    kind.add_argument(
        '--lines', dest='content', action='store_const', const='lines',
        help='one sample a line, in the place of one a file',
    )  # fmt: skip
    group.add_argument(
        '--undecodable', choices=UNDECODABLE, default='fail',
        help='what a file that is no text is: a bad record, which fails the job unless '
        '--max_error_ratio allows it; or skipped, logged and counted (default: %(default)s)',
    )  # fmt: skip


def build(args: argparse.Namespace) -> Conversion:
    """The source and the columns.

    Raises:
        MDSError: An option cannot work.
    """
    source = ReadFiles(
        content=args.content,
        undecodable=args.undecodable,
        pattern=args.pattern,
        exclude=args.exclude,
        **source_options(args),
    )
    if args.content == 'lines':
        return Conversion(source, LINES_COLUMNS if args.columns else {'text': 'str'})
    columns = COLUMNS if args.content == 'text' else BYTES_COLUMNS
    together = _KEY in (args.columns or columns) and _KEY not in renames_of(args)
    return Conversion(source, columns, _KEY if together else None)


main = make_main('files')

if __name__ == '__main__':
    main()

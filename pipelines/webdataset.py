"""WebDataset tars -> MDS.

python -m pipelines.webdataset --input 'data/*.tar' --output gs://bucket/dataset
"""

from __future__ import annotations

import argparse
from typing import Any

from beam_mds import OptionError, ReadLaion, ReadWebDataset
from beam_mds.sources.laion import COLUMNS
from beam_mds.sources.webdataset import columns_of
from pipelines.conversion import Conversion, make_main, source_options

DESCRIPTION = """
Writes WebDataset archives as an MDS dataset, one sample for each key: the folder and the base name
of a member up to its first dot; the rest is its suffix, and a column. Tars may be plain, gz, zst,
bz2 or xz; their content tells. Of a folder, the tars are read. Without --columns the first samples
tell the columns, and a suffix that comes up later makes its sample a bad record; __key__ is a
column too. By suffix: jpg, jpeg are jpeg; png is png; cls, class, count, index, id are int; txt,
text, caption are str; json is json; npy is ndarray; all else is bytes (nothing is unpickled).
Members of a sample must stand next to each other (tar --sort=name).
"""

EXAMPLES = """
beam-mds convert webdataset --input 'imagenet/train-*.tar' --output imagenet-mds
beam-mds convert webdataset --input shards --output mds --columns __key__,jpg,cls=uint16
beam-mds convert webdataset --input shards --output mds --suffixes image=jpg,jpeg,png
beam-mds convert webdataset --input laion400m-data --output laion400m-mds --preset laion
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this conversion."""
    group = parser.add_argument_group('the archives')
    group.add_argument(
        '--suffixes', action='append', default=[], metavar='COLUMN=SUFFIX,SUFFIX',
        help='a column for several suffixes, of which a sample has one; may be given several times',
    )  # fmt: skip
    group.add_argument(
        '--max_sample_size', default='1gb', metavar='SIZE',
        help='largest sample, like 64mb; a larger one is a bad record (default: %(default)s)',
    )  # fmt: skip
    group.add_argument(
        '--preset', choices=['laion'],
        help="laion: img2dataset's output with its parquet files, as streaming's LAION-400M: "
        f'columns {", ".join(COLUMNS)}',
    )  # fmt: skip
    group.add_argument(
        '--failed', choices=['keep', 'skip'], default='keep',
        help='with --preset laion: keep URLs that gave no image, with an empty jpg, as streaming '
        'does, or skip them (default: %(default)s)',
    )  # fmt: skip


def build(args: argparse.Namespace) -> Conversion:
    """The source and the columns.

    Raises:
        MDSError: An option cannot work, or the input cannot be read.
    """
    options = source_options(args) | {'max_sample_size': args.max_sample_size}
    if args.preset == 'laion':
        return _laion(args, options)
    options['suffixes'] = dict(map(_suffixes, args.suffixes))
    source = ReadWebDataset(**options)
    if args.columns:
        columns = {
            name: encoding or _default(args, source, name)
            for name, encoding in args.columns.items()
        }
        return Conversion(ReadWebDataset(columns=columns, **options), columns)
    columns = columns_of(source)
    return Conversion(ReadWebDataset(columns=columns, others='error', **options), columns)


def _laion(args: argparse.Namespace, options: dict[str, Any]) -> Conversion:
    if args.suffixes:
        raise OptionError('--suffixes means nothing with --preset laion')
    columns = {
        name: encoding or COLUMNS.get(name, 'str')
        for name, encoding in (args.columns or COLUMNS).items()
    }
    return Conversion(ReadLaion(columns=columns, failed=args.failed, **options), columns)


def _default(args: argparse.Namespace, source: ReadWebDataset, name: str) -> str:
    of_path = f'{{{name}}}' in (args.split or '')
    return 'str' if of_path else source.encoding_of(name)


def _suffixes(text: str) -> tuple[str, list[str]]:
    column, equals, suffixes = text.partition('=')
    names = suffixes.split(',')
    if not column or not equals or not all(names):
        raise OptionError(f'--suffixes must be like image=jpg,png, got {text}')
    return column, names


main = make_main('webdataset')

if __name__ == '__main__':
    main()

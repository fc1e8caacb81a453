"""Parquet, Arrow IPC, CSV and Avro files -> MDS.

python -m pipelines.tables --input 'data/*.parquet' --output gs://bucket/dataset
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from beam_mds import ColumnsError, OptionError, ReadTables
from beam_mds.schema import infer_columns
from beam_mds.sources.tables import FORMATS, MEDIA, TableError, image_encoding
from pipelines.conversion import Conversion, make_main, source_options, split_field

DESCRIPTION = """
Writes tables as an MDS dataset, one sample a row: Parquet, Arrow IPC (also Feather and streams),
CSV and TSV, Avro. Their content tells the format, and the first file's schema the columns; which
type becomes which encoding is in the table of types of the README. The text of CSV files stays text
(007 stays 007) unless --columns says otherwise, like n=int. Folders like lang=en are columns.
Images and audio as Hugging Face's datasets have them, structs of bytes and a path, are columns of
the bytes: jpeg or png where the first one is such an image, else bytes; image.path is the path.
meta.lang is the field lang of the struct in meta. A file whose columns are others is an error.
"""

EXAMPLES = """
beam-mds convert parquet --input 'data/*.parquet' --output dataset --columns text,label=uint16
beam-mds convert parquet --input imagenet/data --split '{split}-*.parquet' --output imagenet-mds
beam-mds convert csv --input train.tsv --csv_header url,caption --csv_quote none --output dataset
beam-mds convert csv --input table.csv --columns id,text,n=int32 --output dataset
"""

# What a file that has no names, or no quotes, is told with on the command line.
_NONE = 'none'


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the pipeline's options."""
    group = parser.add_argument_group('the tables')
    group.add_argument(
        '--format', choices=FORMATS, default='auto',
        help='what the files are (default: %(default)s: by their content, CSV and TSV by their '
        'names)',
    )  # fmt: skip
    group.add_argument(
        '--partitions', choices=['hive', _NONE], default='hive',
        help='whether folders like lang=en are columns (default: %(default)s)',
    )  # fmt: skip
    group.add_argument(
        '--csv_header', default='first', metavar='NAMES',
        help='first: the first row has the names; none: no row has, and they are f0, f1, ...; or '
        'the names, like url,caption (default: %(default)s)',
    )  # fmt: skip
    group.add_argument(
        '--csv_delimiter', metavar='CHAR',
        help='between fields; tab for a tab (default: a tab in .tsv and .tab files, else a comma)',
    )  # fmt: skip
    group.add_argument(
        '--csv_quote', default='"', metavar='CHAR',
        help='around fields that hold delimiters; none: no field is quoted (default: %(default)s)',
    )  # fmt: skip
    group.add_argument(
        '--csv_encoding', metavar='NAME',
        help='of the text, like latin-1 (default: by the byte order mark, else utf-8)',
    )  # fmt: skip


def build(args: argparse.Namespace) -> Conversion:
    """The source and the columns.

    Raises:
        MDSError: An option cannot work, or the first file cannot be read.
    """
    options = {**source_options(args), **_table_options(args)}
    try:
        columns = infer(ReadTables(columns=list(args.columns) or None, **options), args.columns)
        wanted = dict(columns)
        if (split := split_field(args)) is not None:
            wanted.setdefault(split, 'str')
        source = ReadTables(columns=wanted, extra='ignore' if args.columns else 'error', **options)
        source.schema()  # fails where the first file's types are not what --columns says
    except TableError as error:
        if error.error_type == 'schema':
            raise OptionError(str(error)) from None
        raise
    return Conversion(source, columns)


def infer(probe: ReadTables, given: Mapping[str, str | None]) -> dict[str, str]:
    """Column name -> encoding, from the schema of the first file.

    Args:
        probe: The source, of the columns wanted.
        given: Columns with encodings, and without where they are to be inferred; all when empty.

    Raises:
        OptionError: A column has no encoding; it is named.
        MDSError: The first file cannot be read.
    """
    schema = probe.schema()
    columns: dict[str, Any] = dict(given) or dict.fromkeys(schema.names)
    media = [
        name
        for name, encoding in columns.items()
        if encoding is None and MEDIA in (schema.field(name).metadata or {})
    ]
    if media:
        columns.update(_media_encodings(probe, media))
    try:
        return infer_columns(schema, columns)
    except ColumnsError as error:
        raise OptionError(
            f'{error} (on the command line: --columns with the columns to keep, like a,b=str)'
        ) from None


def _media_encodings(probe: ReadTables, names: list[str]) -> dict[str, str]:
    """The encodings of columns of images and audio, by their first values."""
    batch = next((some for some in probe.iterate() if isinstance(some, pa.RecordBatch)), None)
    encodings = {}
    for name in names:
        values = [] if batch is None else batch.column(name).drop_null()
        encodings[name] = image_encoding(values[0].as_py() if len(values) else None)
        if encodings[name] == 'list[bytes]':
            raise OptionError(
                f'column {name!r:.80} has lists of files, and the first is no JPEG or PNG image: '
                'MDS has no encoding for it; leave it out with --columns, which names those to '
                'keep'
            )
    return encodings


def _table_options(args: argparse.Namespace) -> dict[str, Any]:
    header = args.csv_header
    return {
        'format': args.format,
        'partitions': args.partitions == 'hive',
        'csv_header': header if header in ('first', _NONE) else header.split(','),
        'csv_delimiter': '\t' if args.csv_delimiter == 'tab' else args.csv_delimiter,
        'csv_quote': None if args.csv_quote == _NONE else args.csv_quote,
        'csv_encoding': args.csv_encoding,
    }


main = make_main('tables')

if __name__ == '__main__':
    main()

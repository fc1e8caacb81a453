"""Tables of URLs -> MDS, with what is there (LAION, CC12M, WebVid, and the like).

python -m pipelines.urls --input urls.parquet --output gs://bucket/dataset --max_error_ratio 0.3
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from beam_mds import FetchOptions, ImageOptions, OptionError, ReadUrls, UrlRowOptions, storage
from beam_mds.records import PLACE, BadRecord
from beam_mds.schema import infer_columns
from beam_mds.sources.fields import encodings_of
from beam_mds.sources.urltables import ERRORS, FORMATS, UrlTables
from pipelines.conversion import Conversion, errors_output, make_main, source_options
from pipelines.image_options import add_image_options, image_options
from pipelines.options import NONE, renames_of

DESCRIPTION = """
Fetches the URLs of tables and writes what is there as an MDS dataset, one sample a row: the columns
of the table, the bytes, and the HTTP status. Tables are csv, tsv, parquet and the like, JSON lines,
or text with a URL a line.

URLs fail: each that does is a line of --errors_output with its category and its row, and counts for
--max_error_ratio, which allows none unless it is given. --resume_errors fetches those rows again.

Columns without --columns: those of the first rows of the table, the bytes as bytes, status as int.

Presets. images: bytes in image, only images are accepted. videos: bytes in mp4, only videos.
laion: the URL in URL and the text in TEXT, which become url and caption; bytes in jpg. cc12m: tsv
files without a header, url and caption; bytes in jpg. webvid: the columns of mosaicml-streaming's
script: the URL in contentUrl, bytes in content, duration in seconds, no status.

The table is taken for a stranger's: hosts that are not on the public internet are refused, also
behind redirects, and so are file:// and gs:// URLs, which would be read with the worker's own
rights, unless --allow_private_hosts and --schemes allow them. What servers forbid in X-Robots-Tag
is respected.
"""

EXAMPLES = """
beam-mds convert urls --preset laion --input 'laion/*.parquet' --output laion-mds \\
    --max_error_ratio 0.4 --per_host 4 --contact https://example.org/crawl
beam-mds convert urls --preset laion --resume_errors laion-mds.errors.jsonl --output laion-mds \\
    --if_exists append --max_error_ratio 1 --errors_output again.jsonl
beam-mds convert urls --input list.txt --output photos-mds --resize_mode keep_ratio \\
    --image_size 512 --encode_format jpg --deduplicate
beam-mds convert urls --preset webvid --input results_2M_val.csv --output webvid-mds
"""


class _Preset(NamedTuple):
    """What a preset stands for."""

    bytes_column: str
    accept: str
    url_column: str = 'url'
    status_column: str = 'status'
    renames: Mapping[str, str] = {}
    durations: Sequence[str] = ()
    csv_header: str = 'first'
    csv_quote: str = '"'


_PRESETS = {
    'images': _Preset('image', 'image/*'),
    'videos': _Preset('mp4', 'video/*'),
    'laion': _Preset('jpg', 'image/*', 'URL', renames={'URL': 'url', 'TEXT': 'caption'}),
    'cc12m': _Preset('jpg', 'image/*', csv_header='url,caption', csv_quote=NONE),
    'webvid': _Preset('content', 'video/*', 'contentUrl', NONE, durations=('duration',)),
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of tables, of fetching, and of images."""
    _add_table_options(parser)
    _add_fetch_options(parser)
    add_image_options(parser)
    parser.set_defaults(verify_images=None)


def _add_table_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group('the table')

    def add(option: str, text: str, **how: Any) -> None:
        group.add_argument(option, help=text, **how)

    add(
        '--preset', 'columns and accepted types, see above (default: %(default)s)',
        choices=list(_PRESETS), default='images',
    )  # fmt: skip
    add('--url_column', "has the URL (default: the preset's)", metavar='COLUMN')
    add('--bytes_column', "gets what is fetched (default: the preset's)", metavar='COLUMN')
    add('--status_column', "gets the HTTP status (default: the preset's)", metavar='COLUMN')
    add(
        '--table_format', 'txt, jsonl, table (csv, tsv, parquet and the like), errors (as '
        '--resume_errors), auto: by the name of each file (default: %(default)s)',
        choices=FORMATS, default='auto',
    )  # fmt: skip
    add(
        '--csv_header', 'first: the first row has the names; or the names, like url,caption '
        "(default: the preset's)", metavar='NAMES',
    )  # fmt: skip
    add(
        '--csv_quote', 'around fields that hold delimiters; none: no field is quoted (default: the '
        "preset's)", metavar='CHAR',
    )  # fmt: skip
    add(
        '--resume_errors', 'in place of --input: the errors of an earlier run, whose rows are '
        'fetched again', metavar='FILE',
    )  # fmt: skip
    add('--deduplicate', 'fetch a URL once, for the first row that has it', action='store_true')
    add(
        '--skip_existing', 'with --if_exists append: do not fetch URLs that the dataset has; all '
        'of its shards are read for that', action='store_true',
    )  # fmt: skip


def _add_fetch_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group('fetching, in each worker process')
    known = FetchOptions()

    def add(option: str, text: str, **how: Any) -> None:
        name = option.lstrip('-')
        if 'action' not in how:
            default = getattr(known, name)
            how['default'] = ','.join(default) if isinstance(default, tuple) else default
            text += ' (default: %(default)s)' if default else ''
        group.add_argument(option, help=text, **how)

    add('--concurrency', 'requests at once', type=int, metavar='N')
    add('--per_host', 'requests at once to one host', type=int, metavar='N')
    add('--connect_timeout', 'to find, reach and greet a host', type=float, metavar='SECONDS')
    add('--read_timeout', 'without a byte', type=float, metavar='SECONDS')
    add('--total_timeout', 'for one attempt', type=float, metavar='SECONDS')
    add('--max_bytes', 'largest body, like 64mb', metavar='SIZE')
    add('--max_in_flight', 'of bodies held at once, like 128mb', metavar='SIZE')
    add('--max_redirects', 'followed for one URL', type=int, metavar='N')
    add(
        '--retries', 'after a broken connection or an answer 408, 425, 429 or 5xx',
        type=int, metavar='N',
    )  # fmt: skip
    add('--max_retry_after', 'longest wait that a server is granted', type=float, metavar='SECONDS')
    group.add_argument(
        '--accept', metavar='TYPES',
        help='types like image/*,video/mp4, checked by what the server says and by the first '
        "bytes; */* for any (default: the preset's)",
    )  # fmt: skip
    add(
        '--schemes', 'of URLs that are fetched; file, gs and others of Beam are read with the '
        "worker's own rights: only where the table is trusted", metavar='NAMES',
    )  # fmt: skip
    add(
        '--allow_private_hosts', 'also connect to hosts that are not on the public internet: only '
        'where the table is trusted', action='store_true',
    )  # fmt: skip
    add('--user_agent_token', 'our name, also for X-Robots-Tag', metavar='NAME')
    add('--contact', 'a page or address for whoever wonders who we are', metavar='TEXT')
    add(
        '--disallowed_header_directives', 'in X-Robots-Tag, that make a file unwanted; none: no '
        'directive does', metavar='NAMES',
    )  # fmt: skip


def build(args: argparse.Namespace) -> Conversion:
    """The source and the columns.

    Raises:
        MDSError: An option cannot work, or the input cannot be read.
    """
    preset = _PRESETS[args.preset]
    rows, fetch = _row_options(args, preset), _fetch_options(args, preset)
    options = {**_input_options(args), 'table_options': _table_options(args, preset)}
    found = columns_of_head(ReadUrls(rows=rows, fetch=fetch, **options).tables)
    _check_head(found, rows)
    args.rename = [
        *(f'{old}={new}' for old, new in preset.renames.items() if old in found),
        *args.rename,
    ]
    if args.skip_existing:
        options.update(_existing(args, rows))
    columns = {**found, **dict.fromkeys(rows.durations, 'int'), rows.bytes_column: 'bytes'}
    if rows.status_column is not None:
        columns[rows.status_column] = 'int'
    source = ReadUrls(rows=rows, fetch=fetch, deduplicate=args.deduplicate, **options)
    return Conversion(source, columns)


def columns_of_head(tables: UrlTables) -> dict[str, str]:
    """Column name -> encoding, by the first rows of the input.

    Raises:
        MDSError: It cannot be read, or has no rows.
    """
    samples: list[Any] = []
    for element in tables.head():
        if isinstance(element, pa.RecordBatch):
            names = [name for name in element.schema.names if name != PLACE]
            return infer_columns(pa.schema([element.schema.field(name) for name in names]))
        samples.append(element)
    bad = [one for one in samples if isinstance(one, BadRecord)]
    if samples and len(bad) == len(samples):
        raise OptionError(f'the first rows cannot be read: {bad[0].message:.500}')
    return encodings_of(samples)


def _check_head(found: Mapping[str, str], rows: UrlRowOptions) -> None:
    if found and rows.url_column not in found:
        raise OptionError(
            f'the table has no column {rows.url_column!r}, only {", ".join(found):.800}: say with '
            '--url_column which one has the URL'
        )
    for name, option in (
        (rows.bytes_column, '--bytes_column'),
        (rows.status_column, '--status_column'),
    ):
        if name in found:
            raise OptionError(
                f'the table has a column {name!r} already: give {option} another name'
            )
    for name in rows.durations:
        if found and name not in found:
            raise OptionError(f'the table has no column {name!r}, which the preset takes')


def _row_options(args: argparse.Namespace, preset: _Preset) -> UrlRowOptions:
    status = args.status_column or preset.status_column
    return UrlRowOptions(
        url_column=args.url_column or preset.url_column,
        bytes_column=args.bytes_column or preset.bytes_column,
        status_column=None if status == NONE else status,
        durations=preset.durations,
        image=_image_options(args),
    )


def _image_options(args: argparse.Namespace) -> ImageOptions | None:
    """What becomes of images; None when nothing is asked for: then they are not even decoded."""
    asked = args.verify_images
    args.verify_images = asked is not False
    options = image_options(args)
    return options if asked or options != ImageOptions(verify=args.verify_images) else None


def _fetch_options(args: argparse.Namespace, preset: _Preset) -> FetchOptions:
    names = (
        'concurrency', 'per_host', 'connect_timeout', 'read_timeout', 'total_timeout', 'max_bytes',
        'max_in_flight', 'max_redirects', 'retries', 'max_retry_after', 'schemes',
        'allow_private_hosts', 'user_agent_token', 'contact', 'disallowed_header_directives',
    )  # fmt: skip
    options = {name: getattr(args, name) for name in names}
    if options['disallowed_header_directives'] == NONE:
        options['disallowed_header_directives'] = ''
    return FetchOptions(accept=args.accept or preset.accept, **options)


def _input_options(args: argparse.Namespace) -> dict[str, Any]:
    if args.resume_errors is None:
        return {**source_options(args), 'table_format': args.table_format}
    if args.input:
        raise OptionError('--resume_errors takes the place of --input: give one of them')
    if storage.absolute(args.resume_errors) == storage.absolute(errors_output(args)):
        raise OptionError(
            f'--resume_errors {args.resume_errors}: the errors of this run would take its place; '
            'give another file as --errors_output'
        )
    options = source_options(argparse.Namespace(input=[args.resume_errors], split=None))
    return {**options, 'table_format': ERRORS}


def _table_options(args: argparse.Namespace, preset: _Preset) -> dict[str, Any]:
    header = args.csv_header or preset.csv_header
    quote = args.csv_quote or preset.csv_quote
    return {
        'csv_header': 'first' if header == 'first' else header.split(','),
        'csv_quote': None if quote == NONE else quote,
    }


def _existing(args: argparse.Namespace, rows: UrlRowOptions) -> dict[str, str]:
    """The dataset whose URLs are not fetched again, and its column, for `ReadUrls`."""
    if args.if_exists != 'append':
        raise OptionError('--skip_existing needs --if_exists append')
    if args.columns and rows.url_column not in args.columns:
        raise OptionError(
            f'--skip_existing needs the column {rows.url_column!r} in the dataset: add it to '
            '--columns'
        )
    column = renames_of(args).get(rows.url_column, rows.url_column)
    return {'skip_existing': args.output, 'existing_column': column}


main = make_main('urls')

if __name__ == '__main__':
    main()

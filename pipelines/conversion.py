"""What the conversions share: options, the pipeline around a source, the dry run, the summary.

A conversion is a module of this package with `DESCRIPTION`, `EXAMPLES`, `add_options(parser)` and
`build(args)`, which gives a `Conversion`.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import apache_beam as beam

from beam_mds import EncodingError, FormatError, MDSError, OptionError, WriteToMDS
from beam_mds.format import Columns
from beam_mds.records import PLACE, BadRecord, place_text
from beam_mds.sources.fields import Rename, renamed, rows_of
from beam_mds.sources.inputs import FIELD
from beam_mds.viewing.show import printable, show_value
from pipelines.options import (
    add_rename,
    add_write_options,
    make_parser,
    parse,
    renames_of,
    write_options,
)
from pipelines.report import counters_at_end, dataset_rows, table

# How the names of counters end that tell what is no record, or is not wanted.
_LEFT_OUT = ('_dropped', '_ignored', '_passed_over', '_skipped', '_without_annotations')


class Conversion(NamedTuple):
    """What a conversion does with the options that it was given.

    Attributes:
        source: A `Source` with on_error='inline', or a transform like one: its `iterate()` gives
            the same without Beam.
        columns: Column name -> encoding, before `--rename`; `--columns` overrides it.
        key: The default of `--key` in shuffled order.
    """

    source: Any
    columns: Mapping[str, str]
    key: str | None = None


def add_options(parser: argparse.ArgumentParser, module: ModuleType) -> None:
    """Adds the options of a conversion: what all of them have, and its own."""
    group = parser.add_argument_group('the input')
    group.add_argument(
        '--input', action='append', default=[], metavar='PATH',
        help='a folder (all files below it), a glob (** crosses folders), a file, or @file: a file '
        'that lists such, one a line; local or gs://; may be given several times',
    )  # fmt: skip
    group.add_argument(
        '--columns', type=parse_columns, default={}, metavar='COLUMNS',
        help='columns to keep, like text or text=str,label=uint8 with encodings of MDS (default: '
        'see above)',
    )  # fmt: skip
    add_rename(group)
    group.add_argument(
        '--errors_output', metavar='FILE',
        help='where records that cannot be written are noted, as JSON lines; always made '
        '(default: <output>.errors.jsonl)',
    )  # fmt: skip
    group.add_argument(
        '--max_error_ratio', type=float, default=0.0, metavar='SHARE',
        help='share of the records, 0 to 1, that may be bad; with more the job fails and publishes '
        'no dataset (default: %(default)s)',
    )  # fmt: skip
    group.add_argument(
        '--dry_run_sample', type=int, metavar='N',
        help='show what the first N samples become, and write nothing',
    )  # fmt: skip
    module.add_options(parser)
    add_write_options(parser, split_pattern=True)


def parse_columns(text: str) -> dict[str, str | None]:
    """Columns as the command line has them; None where the encoding is left open.

    Example:
        >>> parse_columns('text,image=ndarray:uint8:32,32,3,label=int')
        {'text': None, 'image': 'ndarray:uint8:32,32,3', 'label': 'int'}
    """
    columns: dict[str, str | None] = {}
    for piece in re.split(r',(?!\d+(?:,|$))', text):  # a comma before a number is of a shape
        name, equals, encoding = piece.partition('=')
        name = name.strip()
        if not name or (equals and not encoding.strip()) or name in columns:
            raise argparse.ArgumentTypeError(
                f'{piece!r} is no column, or there twice: expected name or name=encoding'
            )
        columns[name] = encoding.strip() if equals else None
    return columns


def source_options(args: argparse.Namespace) -> dict[str, Any]:
    """The keyword arguments that every `Source` takes.

    Raises:
        OptionError: There is no input.
    """
    if not args.input:
        raise OptionError('--input is needed: a folder, a glob, a file, or @file')
    return {
        'inputs': args.input,
        'split': args.split if _is_pattern(args.split) else None,
        'on_error': 'inline',
    }


def split_field(args: argparse.Namespace) -> str | None:
    """The field of the input, before `--rename`, that `--split` names; None where it names none.

    A source that reads only some fields must read it too.
    """
    if args.split is None or _is_pattern(args.split):
        return None
    olds = {new: old for old, new in renames_of(args).items()}
    return str(olds.get(args.split, args.split))


def group_field(args: argparse.Namespace) -> str | None:
    """The field, before `--rename`, that tells a sample's split, of the input or of its path.

    Raises:
        OptionError: A pattern does not say which of its fields it is.
    """
    return _split_field(args.split) if _is_pattern(args.split) else split_field(args)


def columns_of(args: argparse.Namespace, conversion: Conversion) -> dict[str, str]:
    """The columns of the dataset, after `--rename`.

    Raises:
        OptionError: A column that `--columns` leaves open is not known.
    """
    known = conversion.columns
    columns = {}
    for name, encoding in (args.columns or known).items():
        if encoding is None and name not in known:
            there = 'give it as name=encoding'
            if known:
                there += f', or take one of {", ".join(known):.800}'
            raise OptionError(
                f'--columns {name}: no such column, or its encoding is not known: {there}'
            )
        columns[name] = encoding or known[name]
    return renamed(columns, renames_of(args))


def wire(pipeline: beam.Pipeline, args: argparse.Namespace, conversion: Conversion) -> None:
    """Adds the steps to a pipeline.

    Raises:
        MDSError: An option cannot work, or the input cannot be read.
    """
    columns = columns_of(args, conversion)
    args.default_key = conversion.key
    options = write_options(args)
    if _is_pattern(args.split):
        options['split'] = group_field(args)
    if options['split'] is not None and options['split'] not in columns:
        options['drop_split_column'] = True
    write = WriteToMDS(columns=columns, extra='ignore', **options).with_exception_handling(
        threshold=args.max_error_ratio, errors_output=errors_output(args)
    )
    samples = pipeline | 'Read' >> conversion.source
    if renames := renames_of(args):
        samples = samples | 'Rename' >> Rename(renames)
    _ = samples | 'WriteToMDS' >> write


def errors_output(args: argparse.Namespace) -> str:
    """The file of the dead letters."""
    path: str = args.errors_output or f'{args.output.rstrip("/")}.errors.jsonl'
    return path


def dry_run(args: argparse.Namespace, conversion: Conversion) -> None:
    """Prints what the first samples become.

    Raises:
        MDSError: An option cannot work, or the input cannot be read.
    """
    table_of = columns_of(args, conversion)
    columns = Columns(table_of)
    renames = renames_of(args)
    rows = itertools.chain.from_iterable(map(rows_of, conversion.source.iterate()))
    for number, element in enumerate(itertools.islice(rows, args.dry_run_sample)):
        if isinstance(element, BadRecord):
            print(f'record {number:,}: {place_text(element.place)}: {element.message}')
            continue
        sample = renamed(element, renames)
        place = place_text(sample.get(PLACE) or {})
        try:
            decoded = columns.decode_sample(
                columns.encode_batch([sample], ignore=None).bytes.tobytes()
            )
        except (EncodingError, FormatError) as error:
            print(f'record {number:,}: {place}: {printable(str(error))}')
            continue
        print(f'record {number:,}: {place}')
        print(
            table(
                [
                    (f'{name} ({table_of[name]})', show_value(table_of[name], value))
                    for name, value in decoded.items()
                ]
            )
        )


def summary(args: argparse.Namespace, counters: Mapping[str, int]) -> str:
    """What a job wrote.

    Args:
        args: The options.
        counters: Of the job, by name.
    """
    rows = [
        ('records read', f'{counters.get("records_read", 0):,}'),
        ('records refused', f'{refused(counters):,}'),
        *((name, f'{count:,}') for name, count in _left_out(counters)),
        *dataset_rows(args.output),
        ('dataset', args.output),
        ('errors', errors_output(args)),
    ]
    return table(rows)


def _left_out(counters: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """What a source left out on purpose, and how often."""
    for name, count in sorted(counters.items()):
        if name.endswith(_LEFT_OUT):
            yield name.replace('_', ' '), count


def refused(counters: Mapping[str, int]) -> int:
    """Records that are not in the dataset."""
    return counters.get('samples_failed', 0)


def run(name: str, argv: Sequence[str] | None = None) -> tuple[argparse.Namespace, Any]:
    """Builds a conversion's pipeline from a command line, and starts it.

    Args:
        name: Of the conversion's module.
        argv: The arguments; the process's own when None.

    Returns:
        The options, and the `PipelineResult`; None after a dry run.
    """
    module = importlib.import_module(f'pipelines.{name}')
    parser = make_parser(f'pipelines.{name}', module.DESCRIPTION)
    add_options(parser, module)
    args, beam_options = parse(parser, argv)
    pipeline = beam.Pipeline(options=beam_options)
    try:
        conversion = module.build(args)
        if args.dry_run_sample is not None:
            dry_run(args, conversion)
            return args, None
        wire(pipeline, args, conversion)
    except OptionError as error:
        parser.error(str(error))
    return args, pipeline.run()


def make_main(name: str) -> Callable[..., None]:
    """The main function of a conversion's module: runs it, waits, and prints what it wrote."""

    def main(argv: Sequence[str] | None = None) -> None:
        try:
            args, result = run(name, argv)
            if result is None:
                return
            counters = counters_at_end(result)
        except MDSError as error:
            raise SystemExit(f'python -m pipelines.{name}: {error}') from None
        print(summary(args, counters))

    return main


def _is_pattern(split: str | None) -> bool:
    return split is not None and '{' in split


def _split_field(pattern: str) -> str:
    """The field of a path pattern that names the split."""
    fields = sorted(set(FIELD.findall(pattern)))
    if len(fields) == 1:
        return str(fields[0])
    if 'split' in fields:
        return 'split'
    raise OptionError(f'--split {pattern}: one field, or one that is called {{split}}, is needed')

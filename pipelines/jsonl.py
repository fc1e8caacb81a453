"""JSON lines -> MDS (The Pile, C4, RedPajama, FineWeb, and the like).

python -m pipelines.jsonl --input 'data/*.jsonl.zst' --output gs://bucket/dataset --columns text=str
"""

from __future__ import annotations

import argparse

import pyarrow as pa

from beam_mds import ReadJsonLines
from beam_mds.sources.fields import encodings_of
from pipelines.conversion import Conversion, make_main, source_options, split_field

DESCRIPTION = """
Writes JSON lines as an MDS dataset, one sample a line. Files may be plain, gz, zst, bz2 or xz;
their content tells. meta.lang is the field lang of the object in meta. Without --columns, or for
one without an encoding, the first lines tell: texts are str, integers int, other numbers float64,
true and false uint8, all else json.
"""

EXAMPLES = """
beam-mds convert jsonl --input 'c4/*.json.gz' --output c4-mds --columns text,timestamp,url
beam-mds convert jsonl --input pile --split '{split}/*|{split}.jsonl.zst' --output pile-mds \\
    --columns text=str,meta.pile_set_name=str --rename meta.pile_set_name=pile_set_name
beam-mds convert jsonl --input data.jsonl --output mds --columns id=int,text --dry_run_sample 3
"""

# Encodings whose values Arrow's parser reads as Python's does.
_TYPES = {
    'str': pa.string(),
    **dict.fromkeys(
        ['int', 'int8', 'int16', 'int32', 'int64', 'uint8', 'uint16', 'uint32'], pa.int64()
    ),
    'float64': pa.float64(),
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds nothing: all options are those of every conversion."""
    del parser


def build(args: argparse.Namespace) -> Conversion:
    """The source and the columns.

    Raises:
        MDSError: An option cannot work, or the input cannot be read.
    """
    options = source_options(args)
    columns: dict[str, str] = {}
    if not args.columns or None in args.columns.values():
        columns = encodings_of(ReadJsonLines(fields=list(args.columns) or None, **options).head())
    encodings = {
        name: given or columns.get(name) for name, given in args.columns.items()
    } or columns
    types = {name: _TYPES.get(str(encoding)) for name, encoding in encodings.items()}
    if (split := split_field(args)) is not None:
        types.setdefault(split, pa.string())
    if None in types.values():
        return Conversion(ReadJsonLines(fields=list(types), **options), columns)
    return Conversion(ReadJsonLines(schema=pa.schema(types), **options), columns)


main = make_main('jsonl')

if __name__ == '__main__':
    main()

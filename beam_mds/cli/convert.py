"""`beam-mds convert`: the conversions of `pipelines`, by their names."""

from __future__ import annotations

import argparse
import importlib
from typing import Any

from beam_mds.cli.console import DONE, FINDINGS, add_command

# Name -> what is converted.
CONVERSIONS = {
    'jsonl': 'JSON lines, plain or compressed',
    'parquet': 'Parquet files',
    'arrow': 'Arrow IPC and Feather files',
    'csv': 'CSV and TSV files',
    'avro': 'Avro files',
    'tables': 'tables of all these formats, told by what the files hold',
    'text_tokens': 'texts as token ids, packed to one length or one sample a text',
    'images': 'image files in folders of classes, in pairs, or with annotations',
    'urls': 'tables of URLs, which are fetched',
    'webdataset': 'WebDataset tars, plain or compressed',
    'tfrecord': 'TFRecord files of tf.train.Example',
    'files': 'files of text or of any kind, or lines of text',
}

# The module in `pipelines` where it is not called as the conversion, which is its --format then.
MODULES = dict.fromkeys(('parquet', 'arrow', 'csv', 'avro'), 'tables')

_EXAMPLES = """
beam-mds convert jsonl --input 'data/*.jsonl.zst' --output dataset --columns text=str
beam-mds convert jsonl --help
"""


def add(commands: Any) -> None:
    """Adds the sub-command."""
    about = 'raw data -> MDS: ' + ', '.join(CONVERSIONS)
    add_command(commands, 'convert', _run, about, _EXAMPLES)


def fill(parser: argparse.ArgumentParser) -> None:
    """Adds the conversions with their options; apart, since Beam is imported for them."""
    from pipelines import conversion

    kinds = parser.add_subparsers(metavar='KIND', required=True, parser_class=type(parser))
    for name, about in CONVERSIONS.items():
        module = importlib.import_module(f'pipelines.{MODULES.get(name, name)}')
        kind = add_command(kinds, name, _run, f'{about}\n{module.DESCRIPTION}', module.EXAMPLES)
        kind.set_defaults(module=module)
        conversion.add_options(kind, module)
        if name in MODULES:
            kind.set_defaults(format=name)


def _run(args: argparse.Namespace) -> int:
    from beam_mds.cli.jobs import make_pipeline, run_job
    from pipelines import conversion

    plan = args.module.build(args)
    if args.dry_run_sample is not None:
        conversion.dry_run(args, plan)
        return DONE
    pipeline = make_pipeline(args.beam_options)
    conversion.wire(pipeline, args, plan)
    counters = run_job(pipeline)
    print(conversion.summary(args, counters))
    return FINDINGS if conversion.refused(counters) else DONE

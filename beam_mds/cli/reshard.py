"""`beam-mds reshard`: the pipeline of the same name."""

from __future__ import annotations

import argparse
from typing import Any

from beam_mds.cli.console import DONE, FINDINGS, add_command, samples_read

_EXAMPLES = """
beam-mds reshard --input old --output new --size_limit 256mb --compression zstd
beam-mds reshard --input old --output old --if_exists overwrite --order sorted --key id
beam-mds reshard --input old --output en --where "lang == 'en' and len(text) > 100"
beam-mds reshard --input old --output small --fraction 0.01 --columns text,label
beam-mds reshard --input gs://b/old --output gs://b/new -- --runner=DataflowRunner --project=p
"""


def add(commands: Any) -> None:
    """Adds the sub-command."""
    about = 'write datasets anew: other shards, columns or samples'
    add_command(commands, 'reshard', _run, about, _EXAMPLES)


def fill(parser: argparse.ArgumentParser) -> None:
    """Adds the options; apart, since Beam is imported for them."""
    from pipelines import reshard

    parser.description = f'{parser.description}\n{reshard.DESCRIPTION}'
    reshard.add_options(parser)


def _run(args: argparse.Namespace) -> int:
    from beam_mds.cli.jobs import make_pipeline, run_job
    from pipelines import reshard

    pipeline = make_pipeline(args.beam_options)
    reshard.wire(pipeline, args)
    with samples_read():
        counters = run_job(pipeline)
    print(reshard.summary(args, counters))
    return FINDINGS if counters.get('samples_unread') else DONE

"""Sub-commands that run as Beam jobs, with the options that follow `--`."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.pvalue import PCollection
from apache_beam.runners.runner import PipelineState

from beam_mds import storage
from beam_mds.errors import MDSError, OptionError
from beam_mds.runners import runs_here
from beam_mds.writing.letters import write_lines
from pipelines.report import counters_of


class JobError(MDSError, RuntimeError):
    """A Beam job that did not succeed."""


class Outcome(NamedTuple):
    """What a job gave.

    Attributes:
        records: What its last step emitted, in any order.
        counters: Our counters by name; empty where the runner keeps none.
    """

    records: list[Any]
    counters: dict[str, int]


def run_for_records(
    build: Callable[[beam.Pipeline], PCollection[Any]],
    beam_options: Sequence[str],
    out: str | None,
    flag: str,
) -> Outcome:
    """Runs a job and fetches its records, by way of a file of JSON lines.

    Args:
        build: Makes the steps that give records which JSON holds.
        beam_options: Options of the pipeline.
        out: The file; None for a temporary one, where the workers share this machine's files.
        flag: The option that names the file, for the error message.

    Raises:
        OptionError: The workers are elsewhere, and there is no file.
        JobError: The job failed.
        MDSError: What a step raised, where the runner passes it on.
    """
    pipeline = make_pipeline(beam_options)
    if out is None and not runs_here(pipeline):
        raise OptionError(
            f'{flag} is needed: a file that the workers of {type(pipeline.runner).__name__} can '
            'write and this program can read, like gs://bucket/folder/file.jsonl'
        )
    with tempfile.TemporaryDirectory(prefix='beam-mds-') as folder:
        path = f'{folder}/records.jsonl' if out is None else storage.absolute(out, flag)
        _ = build(pipeline) | 'ToJson' >> beam.Map(json.dumps) | 'Write' >> write_lines(path)
        counters = run_job(pipeline)
        lines = storage.read(path).splitlines()
    return Outcome([json.loads(line) for line in lines], counters)


def make_pipeline(beam_options: Sequence[str]) -> beam.Pipeline:
    """A pipeline that runs in this process, unless the options name a runner."""
    # The last of two options counts. Beam's own default may be a program that it downloads.
    return beam.Pipeline(options=PipelineOptions(['--runner=FnApiRunner', *beam_options]))


def run_job(pipeline: beam.Pipeline) -> dict[str, int]:
    """Runs a job to its end; gives our counters by name, none where the runner keeps none.

    Raises:
        JobError: The job failed.
        MDSError: What a step raised, where the runner passes it on.
    """
    try:
        result = pipeline.run()
        state = result.wait_until_finish()
    except MDSError:
        raise
    except Exception as error:  # runners raise anything
        raise JobError(f'the job failed: {error}') from error
    if state != PipelineState.DONE:
        raise JobError(f'the job ended with the state {state}')
    return counters_of(result)

"""What the tests of whole pipelines share: samples, a write in one line, what lies in a folder."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from beam_mds import WriteToMDS, read_samples

COLUMNS = {'data': 'bytes', 'name': 'str', 'number': 'int32'}

_SCHEMA = pa.schema([('data', pa.binary()), ('name', pa.string()), ('number', pa.int32())])

Sample = dict[str, Any]


def samples(count: int, *, seed: int = 0, names: int = 7, largest: int = 60) -> list[Sample]:
    """Samples of COLUMNS: `number` counts, there are few `name`s, `data` is random."""
    rng = random.Random(seed)
    return [
        {
            'data': rng.randbytes(rng.randint(0, largest)),
            'name': f'näme {rng.randrange(names)}',
            'number': number,
        }
        for number in range(count)
    ]


def batch(rows: Sequence[Sample]) -> pa.RecordBatch:
    """The samples as one Arrow element."""
    return pa.RecordBatch.from_pylist(list(rows), schema=_SCHEMA)


def table(rows: Sequence[Sample]) -> pa.Table:
    """The samples as one Arrow element of several chunks."""
    half = len(rows) // 2
    return pa.Table.from_batches([batch(rows[:half]), batch(rows[half:])])


def run(
    build: Callable[[beam.Pipeline], Any],
    *flags: str,
    runner: Any = None,
) -> Any:
    """Runs a pipeline, on FnApiRunner in memory unless told otherwise; gives Beam's result.

    With the flag `--direct_num_workers=N` its elements come in N bundles instead of one.
    """
    options = PipelineOptions(list(flags))
    with beam.Pipeline(runner=runner or FnApiRunner(), options=options) as pipeline:
        build(pipeline)
    return pipeline.result


def write(
    elements: Iterable[Any] | beam.PTransform,
    out: Any,
    columns: Mapping[str, str] = COLUMNS,
    *,
    flags: Sequence[str] = (),
    runner: Any = None,
    **options: Any,
) -> Any:
    """Runs one write; elements are a list, or a transform that gives them."""
    source = elements if isinstance(elements, beam.PTransform) else beam.Create(list(elements))
    sink = WriteToMDS(out, columns, **options)
    return run(lambda pipeline: pipeline | source | sink, *flags, runner=runner)


def read(folder: Any, **how: Any) -> list[Sample]:
    """The samples of a dataset, sorted by `number`."""
    return sorted(read_samples(folder, **how), key=lambda sample: sample['number'])


def content(folder: Path) -> dict[str, bytes]:
    """All files below a folder, by their name relative to it."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob('*'))
        if path.is_file()
    }


class LogBundles(beam.DoFn):  # type: ignore[misc]
    """Passes on what comes, and keeps the elements of each bundle; for runs in this process."""

    seen: list[list[Any]] = []  # noqa: RUF012

    def start_bundle(self) -> None:
        self._bundle: list[Any] = []
        self.seen.append(self._bundle)

    def process(self, element: Any) -> Iterable[Any]:
        self._bundle.append(element)
        yield element


# What the steps of a test saw, for runs in this process; the functions below are pickled by name.
SEEN: list[Any] = []


def see(what: Any) -> Any:
    """Passes an element on, and keeps it."""
    SEEN.append(what)
    return what


def see_with_file(what: Any, path: str) -> None:
    """Keeps an element, and what the file holds at that moment."""
    SEEN.append((what, Path(path).read_bytes()))

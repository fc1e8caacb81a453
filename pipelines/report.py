"""What a pipeline prints when it is done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from apache_beam.metrics import MetricsFilter
from apache_beam.runners.runner import PipelineState

from beam_mds.indexes import read_index

Rows = Sequence[tuple[str, str]]


def counters_of(result: Any) -> dict[str, int]:
    """beam_mds's counters after a job, by name; none where the runner keeps none."""
    totals: dict[str, int] = {}
    for counter in result.metrics().query(MetricsFilter().with_namespace('beam_mds'))['counters']:
        name = counter.key.metric.name
        totals[name] = totals.get(name, 0) + int(counter.result)
    return totals


def counters_at_end(result: Any) -> dict[str, int]:
    """Waits for a job, and gives `counters_of` it.

    Raises:
        SystemExit: The job did not succeed.
    """
    state = result.wait_until_finish()
    if state != PipelineState.DONE:
        raise SystemExit(f'the job is {state}: nothing to report')
    return counters_of(result)


def dataset_rows(path: str) -> list[tuple[str, str]]:
    """What the index of a dataset says, as rows of a table."""
    shards = read_index(path)
    raw = sum(shard.raw_data.bytes for shard in shards)
    stored = sum(shard.stored.bytes for shard in shards)
    return [
        ('samples', f'{sum(shard.samples for shard in shards):,}'),
        ('shards', f'{len(shards):,}'),
        ('raw bytes', f'{raw:,}'),
        ('stored bytes', f'{stored:,}'),
        ('compression', f'{raw / stored:.2f} : 1'),
    ]


def table(rows: Rows) -> str:
    """Two columns of plain text, the second one flush right where it is a number."""
    left = max(len(name) for name, _ in rows)
    right = max((len(text) for _, text in rows if _is_number(text)), default=0)
    return '\n'.join(
        f'  {name:<{left}}  {text:>{right}}' if _is_number(text) else f'  {name:<{left}}  {text}'
        for name, text in rows
    )


def _is_number(text: str) -> bool:
    return text[:1].isdigit()

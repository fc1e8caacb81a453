"""Promise 4: names and bytes depend only on the samples and the options."""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beam_mds import WriteToMDS
from beam_mds.indexes import read_index
from tests.helpers.runners import runner_of
from tests.helpers.writing import (
    COLUMNS,
    SEEN,
    LogBundles,
    batch,
    content,
    read,
    run,
    samples,
    see,
    table,
    write,
)

ROWS = samples(150, names=4)
BAD = {'data': None, 'name': 'bad 1', 'number': 1000}

# Options that shape the files; each has several shards of ROWS.
OPTIONS: dict[str, dict[str, Any]] = {
    'plain': {'size_limit': 1500},
    'seed': {'size_limit': 1500, 'seed': 7},
    'column': {'size_limit': 1500, 'key': 'name'},
    'function': {'size_limit': 1500, 'key': lambda sample: sample['number'] % 5},
    'shards': {'num_shards': 4, 'size_limit': None},
    'zstd': {'size_limit': 1500, 'key': 'name', 'compression': 'zstd', 'hashes': ['sha1', 'xxh64']},
    'sorted': {'size_limit': 1500, 'order': 'sorted', 'key': 'name'},
    'split': {'size_limit': 900, 'split': lambda sample: f'part/{sample["name"][-1]}'},
    'few': {'max_samples_per_shard': 11},
}
EVERY_OPTION = pytest.mark.parametrize('name', OPTIONS)


@pytest.fixture(scope='module')
def wanted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, bytes]]:
    """The files that each of OPTIONS gives: one bundle of dicts on FnApiRunner, inline."""
    files = {}
    for name, options in OPTIONS.items():
        folder = tmp_path_factory.mktemp(name)
        write(ROWS, folder, spill=False, **options)
        assert read(folder) == ROWS
        files[name] = content(folder)
        assert len(files[name]) > 4
    return files


def test_each_option_gives_other_files(wanted: dict[str, dict[str, bytes]]) -> None:
    assert len({frozenset(files) for files in wanted.values()}) == len(OPTIONS)


@pytest.mark.parametrize(
    ('name', 'spill'),
    [
        *((name, 'auto') for name in OPTIONS),
        *((name, 'runs') for name in ('plain', 'column', 'shards')),
    ],
)
def test_spilled_blocks_give_the_same_files_as_inline_ones(
    name: str, spill: str, wanted: dict[str, dict[str, bytes]], tmp_path: Path
) -> None:
    if spill != 'auto':
        spill = str(tmp_path / spill)

    write(ROWS, tmp_path / 'out', spill=spill, **OPTIONS[name])

    assert content(tmp_path / 'out') == wanted[name]
    assert content(tmp_path / 'runs') == {}


@EVERY_OPTION
def test_order_of_arrival_bundles_and_arrow_change_nothing(
    name: str, wanted: dict[str, dict[str, bytes]], tmp_path: Path
) -> None:
    mixed = random.Random(3).sample(ROWS, len(ROWS))
    elements = [
        table(mixed[:40]), *mixed[40:60], batch(mixed[60:61]), batch([]), table(mixed[61:90]),
        *mixed[90:100], batch(mixed[100:]),
    ]  # fmt: skip

    write(elements, tmp_path, flags=['--direct_num_workers=3'], **OPTIONS[name])

    assert content(tmp_path) == wanted[name]


class _Flattened(beam.PTransform):  # type: ignore[misc]
    """Each piece from a source of its own, with or without a shuffle in between."""

    def __init__(self, pieces: Iterable[Any]) -> None:
        super().__init__()
        self._pieces = list(pieces)

    def expand(self, begin: Any) -> Any:
        made = [
            begin | f'Create{number}' >> beam.Create(piece, reshuffle=number % 2 == 0)
            for number, piece in enumerate(self._pieces)
        ]
        return made | beam.Flatten() | beam.ParDo(LogBundles())


@pytest.mark.parametrize('flags', [[], ['--direct_num_workers=2']])
def test_several_sources_flattened_give_the_same_files(
    flags: list[str], wanted: dict[str, dict[str, bytes]], tmp_path: Path
) -> None:
    LogBundles.seen.clear()

    write(
        _Flattened([ROWS[100:], ROWS[:30], [], ROWS[30:100]]), tmp_path, flags=flags,
        **OPTIONS['plain'],
    )  # fmt: skip

    assert content(tmp_path) == wanted['plain']
    assert len([bundle for bundle in LogBundles.seen if bundle]) == (2 if flags else 1)


@given(data=st.data())
@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_split_into_elements_and_bundles_gives_the_same_files(
    data: st.DataObject, wanted: dict[str, dict[str, bytes]]
) -> None:
    name = data.draw(st.sampled_from(sorted(OPTIONS)), 'options')
    order = data.draw(st.randoms(use_true_random=False), 'order')
    rows = order.sample(ROWS, len(ROWS))
    cuts = sorted(data.draw(st.sets(st.integers(1, len(rows) - 1), max_size=8), 'cuts'))
    elements: list[Any] = []
    for start, end in zip([0, *cuts], [*cuts, len(rows)], strict=True):
        form = data.draw(st.sampled_from(['dicts', 'batch', 'table']), 'form')
        piece = rows[start:end]
        elements += (
            piece if form == 'dicts' else [batch(piece) if form == 'batch' else table(piece)]
        )
    bundles = data.draw(st.integers(1, 3), 'bundles')
    spill = data.draw(st.booleans(), 'spill')

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / 'out'
        write(
            elements, out, flags=[f'--direct_num_workers={bundles}'], spill=spill, **OPTIONS[name]
        )
        assert content(out) == wanted[name]


def test_workers_get_several_bundles_in_these_tests(tmp_path: Path) -> None:
    LogBundles.seen.clear()
    source = 'Source' >> beam.Create(ROWS) | 'Log' >> beam.ParDo(LogBundles())

    write(source, tmp_path, flags=['--direct_num_workers=3'], **OPTIONS['plain'])

    assert sorted(map(len, LogBundles.seen)) == [50, 50, 50]


def _write_all(folder: Path, runner: Any, flags: list[str]) -> None:
    """All datasets of ROWS, by one pipeline: a runner starts once. There is a bad sample too."""

    def build(pipeline: beam.Pipeline) -> None:
        rows = pipeline | beam.Create([*ROWS, BAD])
        for name, how in _ALL.items():
            sink = WriteToMDS(folder / name, COLUMNS, **how).with_exception_handling()
            result = rows | f'Write {name}' >> sink
            _ = (
                result.errors
                | f'Element {name}' >> beam.Map(lambda letter: json.dumps(letter.element))
                | f'Errors {name}' >> beam.io.WriteToText(str(folder / f'{name}.errors'))
            )

    run(build, *flags, runner=runner)


_ALL: dict[str, dict[str, Any]] = {
    'plain': {'spill': 'auto', **OPTIONS['plain']},
    'function': {'spill': False, **OPTIONS['function'], 'key': lambda s: see(s['number'] % 5)},
    'zstd': {'spill': True, **OPTIONS['zstd']},
    'sorted': {'spill': 'auto', **OPTIONS['sorted']},
    'split': {'spill': False, **OPTIONS['split']},
    'arrival': {'order': 'arrival', 'size_limit': 1500},
}


@pytest.mark.slow
@pytest.mark.parametrize('kind', ['processes', 'portable', 'prism'])
def test_other_runners_and_processes_give_the_same_files_and_lose_nothing_in_order_of_arrival(
    kind: str, wanted: dict[str, dict[str, bytes]], tmp_path: Path
) -> None:
    SEEN.clear()

    _write_all(tmp_path, *runner_of(kind))

    for name in _ALL:
        if name != 'arrival':
            assert content(tmp_path / name) == wanted[name]
        (line,) = (
            path.read_text() for path in tmp_path.glob(f'{name}.errors*') if path.read_text()
        )
        assert json.loads(line) == BAD
    assert read(tmp_path / 'arrival') == ROWS
    listed = [shard.stored.basename for shard in read_index(tmp_path / 'arrival')]
    assert len(set(listed)) == len(listed) > 4
    assert set(content(tmp_path / 'arrival')) == {'index.json', *listed}
    # The key function ran in this process, or in others.
    assert (SEEN == []) == (kind == 'processes')

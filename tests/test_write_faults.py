"""Promises 2 and 3: a failure leaves no index, running again works, every sample is there once."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.pipeline import PTransformOverride
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from beam_mds import EncodingError, LostSamplesError, StorageError, TargetError, WriteToMDS
from beam_mds.indexes import read_index
from tests.helpers.faulty import Fault, Faults
from tests.helpers.writing import COLUMNS, SEEN, batch, content, read, run, samples, see, write

ROWS = samples(60)
ORDERS = pytest.mark.parametrize('order', ['shuffled', 'arrival'])

# Four shards of ROWS.
LIMIT = 1200


def assert_exact(folder: Path, rows: list[Any], foreign: Iterable[str] = ()) -> None:
    """The folder holds the dataset, and nothing else but files that were never ours."""
    index = read_index(folder)
    assert read(folder) == rows
    assert set(content(folder)) == {
        'index.json',
        *(shard.stored.basename for shard in index),
        *foreign,
    }


def count_shards(faults: Faults, call: str) -> int:
    return len(faults.calls(call, r'/shard\.[^/]*\.mds$'))


@ORDERS
def test_a_shard_that_fails_at_close_fails_the_job_and_a_rerun_succeeds(
    order: str, faults: Faults
) -> None:
    out = f'{faults.folder}/out'
    faults.add(Fault('close', r'/shard\.', nth=2, error='crash', delay=0.2))

    with pytest.raises(StorageError, match=r'could not write .*out/shard\..*: RuntimeError: crash'):
        write(ROWS, out, order=order, size_limit=LIMIT)

    assert count_shards(faults, 'close') >= 2
    assert 'index.json' not in faults.files('out')
    faults.clear()
    write(ROWS, out, order=order, size_limit=LIMIT)
    assert len(read_index(out)) == 4
    assert_exact(faults.local / 'out', ROWS)


@pytest.mark.slow
@ORDERS
def test_whichever_write_fails_there_is_no_index_and_a_rerun_is_exact(
    order: str, faults: Faults
) -> None:
    def attempt() -> None:
        write(ROWS, f'{faults.folder}/{out}', order=order, size_limit=2000, spill=True)

    for nth in range(1, 6) if order == 'shuffled' else (2, 5):
        out = f'out{nth}'
        faults.clear()
        faults.add(Fault('close', nth=nth, error='enospc'))
        if nth == 5:  # two shards, the run file and the index: no fifth write
            attempt()
            assert len(faults.calls('close')) == 4
        else:
            with pytest.raises(StorageError, match='No space left'):
                attempt()
            assert 'index.json' not in faults.files(out)
            faults.clear()
            attempt()
        assert_exact(faults.local / out, ROWS)


@pytest.mark.parametrize(
    'fault',
    [
        Fault('write', r'/shard\.', nth=3, error='403'),
        Fault('close', r'/shard\.', nth=2, error='crash', after=True),
        Fault('close', r'\.run$', error='403.beam'),
        Fault('open', r'\.run$', error='404'),
        Fault('list', r'out', error='permission'),
        Fault('close', r'index.*json', error='enospc'),
        Fault('rename', r'index\.json', error='crash'),
    ],
    ids=lambda fault: f'{fault.on} {fault.error}',
)
def test_any_other_error_fails_the_job_without_an_index_and_a_rerun_is_exact(
    fault: Fault, faults: Faults
) -> None:
    out = f'{faults.folder}/out'
    faults.add(fault)

    with pytest.raises(StorageError, match=r'could not \w+( up)? fault://.*/out'):
        write(ROWS, out, size_limit=LIMIT, spill=True)

    assert 'index.json' not in faults.files('out')
    faults.clear()
    write(ROWS, out, size_limit=LIMIT, spill=True)
    assert_exact(faults.local / 'out', ROWS)


@pytest.mark.parametrize('error', ['429', '503.chain', 'reset.beam'])
def test_a_busy_store_is_asked_again_and_the_job_succeeds(error: str, faults: Faults) -> None:
    calls = {'close': r'/shard\.', 'create': r'/shard\.', 'size': r'/shard\.', 'list': r'out/$'}
    for call, path in calls.items():
        faults.add(Fault(call, path, nth=2 if call in ('create', 'close') else 1, error=error))
    faults.add(Fault('rename', error=error), Fault('open', r'\.run$', error=error))

    write(ROWS, f'{faults.folder}/out', size_limit=LIMIT, spill=True)

    assert_exact(faults.local / 'out', ROWS)
    assert count_shards(faults, 'close') == 4 + 1
    assert count_shards(faults, 'create') == 4 + 2  # again for its own fault and for close's
    assert len(faults.calls('rename')) == 1 + 1


def test_a_move_whose_reply_is_lost_counts_as_done(faults: Faults) -> None:
    faults.add(Fault('rename', error='reset', after=True))

    write(ROWS, f'{faults.folder}/out', size_limit=LIMIT)

    assert_exact(faults.local / 'out', ROWS)


@ORDERS
def test_one_bad_element_of_ten_fails_the_job_and_names_column_type_and_reason(
    order: str, faults: Faults
) -> None:
    rows = samples(10)
    rows[6]['number'] = 2**40

    with pytest.raises(EncodingError, match=r"column 'number' \(int32\): .*int.*1099511627776"):
        write(rows, f'{faults.folder}/out', order=order, size_limit=400)

    assert 'index.json' not in faults.files('out')
    write(rows[:6], f'{faults.folder}/out', order=order, size_limit=400)
    assert_exact(faults.local / 'out', rows[:6])


@pytest.mark.parametrize('element', ['text', None])
def test_an_element_that_is_no_sample_fails_the_job(element: Any, tmp_path: Path) -> None:
    with pytest.raises(EncodingError, match=r'expected a dict, beam\.Row, NamedTuple or dataclass'):
        write([*ROWS[:3], element], tmp_path)

    assert content(tmp_path) == {}


@pytest.mark.parametrize('report', [0])
def test_a_store_that_keeps_reporting_a_wrong_size_is_a_clear_error(
    report: int, faults: Faults
) -> None:
    faults.add(Fault('size', r'/shard\.', times=None, report=report))

    with pytest.raises(StorageError, match=rf'wrote \d+ bytes, the store reports {report}, also'):
        write(ROWS, f'{faults.folder}/out', size_limit='1mb')

    assert count_shards(faults, 'close') == 3
    assert 'index.json' not in faults.files('out')


@pytest.mark.parametrize(
    'fault',
    [Fault('size', r'/shard\.', nth=2, report=0), Fault('close', r'/shard\.', keep=100)],
    ids=['reported', 'really short'],
)
def test_a_file_that_came_out_short_once_is_written_again(fault: Fault, faults: Faults) -> None:
    faults.add(fault)

    write(ROWS, f'{faults.folder}/out', size_limit='1mb')

    assert_exact(faults.local / 'out', ROWS)
    assert count_shards(faults, 'close') == 2


@pytest.mark.parametrize(('order', 'report'), [('shuffled', 0), ('arrival', -1)])
def test_a_shard_that_the_listing_does_not_have_is_never_in_an_index(
    order: str, report: int, faults: Faults
) -> None:
    faults.add(Fault('list', 'out/', report=report))

    with pytest.raises(StorageError, match='are missing or have another size, so no index was pub'):
        write(ROWS, f'{faults.folder}/out', order=order, size_limit=LIMIT)

    assert 'index.json' not in faults.files('out')


def test_a_rerun_does_not_send_finished_shards_again(faults: Faults) -> None:
    faults.add(Fault('rename', error='crash'))
    with pytest.raises(StorageError, match='could not move'):
        write(ROWS, f'{faults.folder}/out', size_limit=LIMIT)
    assert count_shards(faults, 'close') == 4
    faults.clear()

    write(ROWS, f'{faults.folder}/out', size_limit=LIMIT)

    assert count_shards(faults, 'close') == 0
    assert_exact(faults.local / 'out', ROWS)


def test_a_short_shard_of_a_crashed_run_is_written_again(tmp_path: Path) -> None:
    write(ROWS, tmp_path / 'a', size_limit=LIMIT)
    name = read_index(tmp_path / 'a')[1].stored.basename
    (tmp_path / 'b').mkdir()
    (tmp_path / 'b' / name).write_bytes((tmp_path / 'a' / name).read_bytes()[:-1])

    write(ROWS, tmp_path / 'b', size_limit=LIMIT)

    assert content(tmp_path / 'b') == content(tmp_path / 'a')


def test_a_leftover_that_cannot_be_deleted_does_not_fail_the_job(faults: Faults) -> None:
    leftover = f'shard.{0:032x}.mds'
    (faults.local / 'out').mkdir()
    (faults.local / 'out' / leftover).write_bytes(b'x')
    faults.add(Fault('delete', error='403', times=None))

    write(ROWS, f'{faults.folder}/out', size_limit=LIMIT)

    assert_exact(faults.local / 'out', ROWS, [leftover])


def test_only_files_of_our_own_are_cleaned_up(tmp_path: Path) -> None:
    ours = [
        f'shard.00007.{5:016x}.mds',
        f'shard.100000.{5:016x}.mds.zstd',
        f'shard.{5:032x}.mds',
        f'shard.{5:032x}.mds.gz',
        '.beam-mds-index-0123.json',
        '.beam-mds-spill-0123/x.run',
    ]
    foreign = [
        'README.md',
        'metadata.json',
        'shard.00000.mds',
        'shard.00000.mds.zstd',
        f'shard.7.{5:016x}.mds',
        f'shard.00000.{5:015x}.mds',
        f'myshard.00000.{5:016x}.mds',
        f'shard.00000.{5:016x}.mds.zstd.bak',
        f'part/shard.00000.{5:016x}.mds',
        'part/index.json',
    ]
    for name in [*ours, *foreign]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b'x')

    write(ROWS, tmp_path, size_limit=LIMIT, spill=True)

    assert_exact(tmp_path, ROWS, foreign)
    assert os.listdir(tmp_path / 'part') != []
    assert not [name for name in os.listdir(tmp_path) if name.startswith('.')]


@ORDERS
def test_a_folder_with_a_dataset_is_refused_before_anything_is_encoded(
    order: str, faults: Faults
) -> None:
    out = f'{faults.folder}/out'
    write(ROWS, out, size_limit=LIMIT)
    before = content(faults.local / 'out')
    times = {name: (faults.local / 'out' / name).stat().st_mtime_ns for name in before}
    faults.clear()
    options: dict[str, Any] = {} if order == 'arrival' else {'key': _seen_key}
    SEEN.clear()

    with pytest.raises(TargetError, match=r'index\.json exists: it holds a dataset'):
        write([batch(samples(9, seed=1))], out, order=order, spill=True, **options)

    assert SEEN == []
    assert faults.calls('create') == faults.calls('delete') == faults.calls('rename') == []
    assert content(faults.local / 'out') == before
    assert times == {n: (faults.local / 'out' / n).stat().st_mtime_ns for n in before}
    write(ROWS[:5], f'{faults.folder}/new', key=_seen_key)
    assert len(SEEN) == 5  # the counter does count


def _seen_key(sample: Any) -> Any:
    return see(sample['number'])


def test_an_index_that_appears_meanwhile_is_left_as_it_is(tmp_path: Path) -> None:
    index = tmp_path / 'out' / 'index.json'

    def another_job(sample: Any, path: str) -> Any:
        Path(path).parent.mkdir(exist_ok=True)
        Path(path).write_text('{}')
        return sample

    def build(pipeline: beam.Pipeline) -> None:
        # The step waits for the target to be checked: the key is asked for while encoding.
        _ = (
            pipeline
            | beam.Create(ROWS)
            | WriteToMDS(
                tmp_path / 'out', COLUMNS, key=lambda sample: bool(another_job(sample, str(index)))
            )
        )

    with pytest.raises(TargetError, match='appeared or changed while this job was running'):
        run(build)

    assert index.read_text() == '{}'


class _Tampered(beam.PTransform):  # type: ignore[misc]
    """A GroupByKey of a runner that loses or repeats elements."""

    def __init__(self, tamper: Any) -> None:
        super().__init__()
        self._tamper = tamper

    def expand(self, blocks: Any) -> Any:
        return (
            blocks
            | beam.FlatMap(self._tamper).with_output_types(tuple[tuple[str, int], bytes])
            | beam.GroupByKey()
        )


class _Tamper(PTransformOverride):  # type: ignore[misc]
    def __init__(self, tamper: Any) -> None:
        self._tamper = tamper

    def matches(self, applied: Any) -> bool:
        return bool(applied.full_label.endswith('/GroupByShard'))

    def get_replacement_transform_for_applied_ptransform(self, applied: Any) -> Any:
        return _Tampered(self._tamper)


@pytest.mark.parametrize(('order', 'spill'), [('shuffled', True), ('arrival', False)])
@pytest.mark.parametrize(
    'tamper',
    [lambda pair: [pair] if pair[0][1] else [], lambda pair: [pair, pair]],
    ids=['loses', 'repeats'],
)
def test_a_runner_that_loses_or_repeats_a_block_is_caught(
    tamper: Any, order: str, spill: bool, tmp_path: Path
) -> None:
    pipeline = beam.Pipeline(runner='FnApiRunner')
    _ = (
        pipeline
        | beam.Create(ROWS)
        | WriteToMDS(tmp_path, COLUMNS, size_limit=LIMIT, spill=spill, order=order)
    )
    pipeline.replace_all([_Tamper(tamper)])

    with pytest.raises(LostSamplesError, match=r'60 samples were encoded, the shards hold \d+'):
        pipeline.run()

    assert 'index.json' not in content(tmp_path)
    write(ROWS, tmp_path, size_limit=LIMIT)
    assert_exact(tmp_path, ROWS)


def test_a_tampered_graph_that_does_nothing_writes_as_ever(tmp_path: Path) -> None:
    pipeline = beam.Pipeline(runner='FnApiRunner')
    _ = pipeline | beam.Create(ROWS) | WriteToMDS(tmp_path, COLUMNS, size_limit=LIMIT)
    pipeline.replace_all([_Tamper(lambda pair: [pair])])

    pipeline.run()

    assert_exact(tmp_path, ROWS)


@ORDERS
@pytest.mark.parametrize(
    ('flags', 'spill'),
    [((), False), (('--direct_num_workers=3',), True)],
    ids=['1 inline', '3 spilled'],
)
def test_bundles_that_run_three_times_each_neither_lose_nor_double_a_sample(
    flags: tuple[str, ...], spill: bool, order: str, tmp_path: Path
) -> None:
    write(
        ROWS, tmp_path, runner=FnApiRunner(bundle_repeat=2), flags=flags, order=order, spill=spill,
        size_limit=LIMIT,
    )  # fmt: skip

    assert_exact(tmp_path, ROWS)

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from beam_mds import StorageError
from beam_mds.format.shard import SAMPLE_OVERHEAD
from beam_mds.writing import blocks, planning
from beam_mds.writing.planning import Plan
from tests.helpers.building import Row, block, pack, rows_of

_hashes = st.one_of(st.integers(0, 2**64 - 1), st.integers(0, 3))
_rows = st.lists(st.tuples(_hashes, _hashes, st.binary(max_size=50)), min_size=1, max_size=30)
_quick = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

# Beyond the size from which inline blocks are compressed: it shrinks, or does not.
LARGE = [
    [(number, 7, b'x' * 1000) for number in range(20)],
    [(number, 7, np.random.default_rng(number).bytes(1000)) for number in range(20)],
]


def unkeyed(rows: list[Row]) -> list[Row]:
    return [(first, 0, sample) for first, _, sample in rows]


def by_position(rows: list[Row]) -> list[Row]:
    """Sorted; rows of one position keep their order."""
    return sorted(rows, key=lambda row: row[:2])


@pytest.mark.parametrize('spilled', [False, True])
@pytest.mark.parametrize('keyed', [False, True])
@_quick
@given(rows=_rows)
@example(rows=LARGE[0])
@example(rows=LARGE[1])
@example(rows=[(2**64 - 1, 2**64 - 1, b''), (0, 0, b'')])
def test_a_block_gives_back_its_samples_in_the_order_of_positions(
    tmp_path: Path, rows: list[Row], keyed: bool, spilled: bool
) -> None:
    rows = rows if keyed else unkeyed(rows)
    packed = block(rows, keyed, str(tmp_path) if spilled else None)
    assert isinstance(packed, bytes)
    assert rows_of(packed) == by_position(rows)
    assert (blocks.load(packed).second is None) == (not keyed)


@pytest.mark.parametrize('spilled', [False, True])
@pytest.mark.parametrize('keyed', [False, True])
@_quick
@given(rows=_rows)
def test_positions_are_read_without_the_samples(
    tmp_path: Path, rows: list[Row], keyed: bool, spilled: bool
) -> None:
    rows = rows if keyed else unkeyed(rows)
    packed = pack(rows, keyed, str(tmp_path) if spilled else None)
    expected = by_position(rows)
    for where in (blocks.positions(packed.block), blocks.positions(packed.where)):
        assert list(zip(where.first.tolist(), where.second.tolist(), strict=True)) == [
            row[:2] for row in expected
        ]
        assert where.sizes.tolist() == [len(row[2]) for row in expected]
        assert (where.weights - where.sizes == SAMPLE_OVERHEAD).all()
        assert where.second.dtype == np.uint64


@pytest.mark.parametrize('keyed', [False, True])
def test_positions_alone_are_small(keyed: bool) -> None:
    assert len(pack(LARGE[1], keyed).where) < 20 * 20 + 30


@pytest.mark.parametrize('spilled', [False, True])
@pytest.mark.parametrize('keyed', [False, True])
@_quick
@given(rows=_rows, cuts=st.lists(st.tuples(_hashes, _hashes), max_size=6))
@example(rows=LARGE[0], cuts=[(3, 0), (10, 0), (11, 0)])
@example(rows=LARGE[1], cuts=[(3, 0), (10, 8), (50, 0)])
@example(rows=[(5, second, b'abc') for second in range(9)], cuts=[(5, 3), (5, 6)])
def test_assigning_cuts_a_block_as_the_plan_splits_its_samples(
    tmp_path: Path, rows: list[Row], cuts: list[tuple[int, int]], keyed: bool, spilled: bool
) -> None:
    rows = rows if keyed else unkeyed(rows)
    cuts = sorted(set(cuts))
    plan = Plan(*(np.array([cut[i] for cut in cuts], np.uint64) for i in (0, 1)))
    packed = block(rows, keyed, str(tmp_path) if spilled else None)
    expected = by_position(rows)
    first, second = (np.array([row[i] for row in expected], np.uint64) for i in (0, 1))
    assert [(shard, rows_of(part)) for shard, part in blocks.assign(packed, plan)] == [
        (shard, expected[start:end]) for shard, start, end in plan.split(first, second)
    ]


@pytest.mark.parametrize('spilled', [False, True])
def test_a_part_of_a_block_can_be_cut_again(tmp_path: Path, spilled: bool) -> None:
    rows = [(number << 58, number, bytes([number]) * number) for number in range(60)]
    whole = block(rows, True, str(tmp_path) if spilled else None)
    pieces = [
        rows_of(small)
        for _, part in blocks.assign(whole, planning.even_plan(3))
        for _, small in blocks.assign(part, planning.even_plan(30))
    ]
    assert [row for piece in pieces for row in piece] == rows
    assert len(pieces) >= 28


def test_a_spilled_block_is_a_small_reference_and_its_run_file_never_looks_like_a_shard(
    tmp_path: Path,
) -> None:
    packed = block(LARGE[1], True, str(tmp_path / 'spill'))
    assert len(packed) < 100 + len(str(tmp_path))
    (run,) = (tmp_path / 'spill').iterdir()
    assert '.mds' not in run.name
    assert run.stat().st_size == 20 * (1000 + 8 + 4 + 8)
    for _, part in blocks.assign(packed, planning.even_plan(1)):
        assert len(part) == len(packed)


def test_an_inline_block_is_compressed_when_that_makes_it_smaller() -> None:
    assert len(block(LARGE[0])) < 2000
    assert 20_000 < len(block(LARGE[1])) < 21_000


def test_every_spilled_block_has_a_run_file_of_its_own(tmp_path: Path) -> None:
    packed = [block([(1, 1, b'same')], True, str(tmp_path)) for _ in range(3)]
    assert len(list(tmp_path.iterdir())) == 3
    assert [rows_of(one) for one in packed] == [[(1, 1, b'same')]] * 3


def test_a_lost_or_shortened_run_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    packed = block(LARGE[0], True, str(tmp_path))
    (run,) = tmp_path.iterdir()
    run.write_bytes(run.read_bytes()[:-1])
    with pytest.raises(StorageError, match=run.name):
        blocks.load(packed)
    run.unlink()
    with pytest.raises(StorageError, match=run.name):
        blocks.load(packed)


def test_run_files_lie_in_a_bucket_too(gcs_bucket: str) -> None:
    packed = block(LARGE[1], True, gcs_bucket + '/.spill 1')
    assert rows_of(packed) == LARGE[1]
    parts = [part for _, part in blocks.assign(packed, planning.even_plan(2))]
    assert [row for part in parts for row in rows_of(part)] == LARGE[1]

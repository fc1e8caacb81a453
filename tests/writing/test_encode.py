from __future__ import annotations

import copy
import random
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beam_mds import EncodingError, OptionError, StorageError
from beam_mds.reading.shardreader import ShardRef, read_shard
from beam_mds.writing import blocks, planning
from beam_mds.writing.batches import Batcher
from beam_mds.writing.encode import BundleEncoder, Encoded
from beam_mds.writing.options import WriteOptions
from beam_mds.writing.shardfile import Fragment
from tests.helpers.building import OVERHEAD, Row, options, rows_of
from tests.helpers.faulty import Fault, Faults
from tests.writing.test_shardfile import info_of

COLUMNS = {'key': 'str', 'n': 'int32'}

_SCHEMA = pa.schema([('key', pa.string()), ('n', pa.int32())])

_samples = st.lists(
    st.fixed_dictionaries(
        {'key': st.sampled_from(['', 'a', 'ä', 'b' * 99]), 'n': st.integers(0, 5)}
    ),
    max_size=60,
)
_quick = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

Sample = dict[str, Any]


def batch_of(samples: list[Sample]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(samples, schema=_SCHEMA)


def table_of(samples: list[Sample]) -> pa.Table:
    half = len(samples) // 2
    return pa.Table.from_batches([batch_of(samples[:half]), batch_of(samples[half:])])


def encode(
    given_options: WriteOptions, elements: Iterable[Any], spill: str | None = None
) -> Encoded:
    """One bundle."""
    batcher, encoder = Batcher(), BundleEncoder(given_options, spill)
    result = Encoded()
    for batch in [*(b for e in elements for b in batcher.add(e) or []), *batcher.finish()]:
        result.extend(encoder.add(batch.data))
    result.extend(encoder.finish())
    return result


def rows(result: Encoded) -> list[Row]:
    """All samples of all blocks with their positions, sorted."""
    return sorted(row for packed in result.packed for row in rows_of(packed.block))


def expected_rows(given_options: WriteOptions, samples: list[Sample]) -> list[tuple[int, bytes]]:
    """First hash and sample, as they are documented, of samples without a key."""
    columns, seed = given_options.config.columns, given_options.seed
    encoded = [columns.encode_sample(sample) for sample in samples]
    return sorted((xxhash.xxh3_64_intdigest(sample, seed), sample) for sample in encoded)


def shapes(samples: list[Sample], rng: random.Random) -> list[Any]:
    """The samples as dicts, batches and tables, in any order."""
    bag = list(samples)
    rng.shuffle(bag)
    elements: list[Any] = []
    while bag:
        size = rng.randint(1, len(bag))
        taken, bag = bag[:size], bag[size:]
        elements += rng.choice(
            [list, lambda part: [batch_of(part)], lambda part: [table_of(part)]]
        )(taken)
    return elements


# Counting


@pytest.mark.parametrize('spilled', [False, True])
@_quick
@given(samples=_samples, rng=st.randoms(use_true_random=False))
def test_every_sample_is_in_the_blocks_once_whatever_the_elements_are(
    tmp_path: Path, samples: list[Sample], rng: random.Random, spilled: bool
) -> None:
    checked = options(tmp_path / 'out', COLUMNS, seed=3)
    result = encode(checked, shapes(samples, rng), str(tmp_path / 'runs') if spilled else None)
    assert [(first, sample) for first, _, sample in rows(result)] == expected_rows(checked, samples)
    assert sum(map(len, result.sizes)) == len(samples)
    assert sum(int(sizes.sum()) for sizes in result.sizes) == sum(
        len(sample) for _, _, sample in rows(result)
    )
    assert result.fragments == []
    assert not (tmp_path / 'out').exists()


@pytest.mark.parametrize('spilled', [False, True])
def test_many_samples_become_several_blocks_and_none_is_lost(tmp_path: Path, spilled: bool) -> None:
    checked = options(tmp_path / 'out', {'data': 'bytes', 'n': 'int64'})
    rng = np.random.default_rng(0)
    count = 160_000 if spilled else 30_000
    values = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(1000), count, [None, pa.py_buffer(rng.bytes(1000 * count))]
    ).cast(pa.binary())
    table = pa.table({'data': values, 'n': pa.array(range(count))})
    result = encode(checked, [table], str(tmp_path / 'runs') if spilled else None)
    assert len(result.packed) >= 2
    assert sum(map(len, result.sizes)) == count
    seen: Counter[bytes] = Counter()
    for packed in result.packed:
        loaded = blocks.load(packed.block)
        assert (np.diff(loaded.first.astype(object)) >= 0).all()
        seen.update(bytes(sample[4:12]) for sample in loaded.samples)
    assert len(seen) == count
    assert set(seen.values()) == {1}


def test_an_empty_bundle_or_batch_gives_nothing(tmp_path: Path) -> None:
    for elements in ([], [batch_of([])], [table_of([]), batch_of([])]):
        assert encode(options(tmp_path, COLUMNS), elements) == Encoded()


def test_positions_and_histograms_tell_of_the_same_samples(tmp_path: Path) -> None:
    samples = [{'key': str(number % 7), 'n': number} for number in range(500)]
    for key in (None, 'key'):
        checked = options(tmp_path / 'out', COLUMNS, key=key)
        for spill in (None, str(tmp_path / 'runs')):
            result = encode(checked, samples, spill)
            found = [blocks.positions(packed.where) for packed in result.packed]
            pairs = sorted(
                pair
                for where in found
                for pair in zip(where.first.tolist(), where.second.tolist(), strict=True)
            )
            assert pairs == [row[:2] for row in rows(result)]
            histogram = planning.Histogram.merged([one for _, one in result.histograms])
            total = sum(len(row[2]) + OVERHEAD for row in rows(result))
            assert int(histogram.weights.sum()) == total
            assert sum(int(where.weights.sum()) for where in found) == total


def test_a_given_number_of_shards_needs_no_histogram(tmp_path: Path) -> None:
    checked = options(tmp_path, COLUMNS, num_shards=3)
    assert encode(checked, [{'key': 'a', 'n': 1}]).histograms == []


def test_run_files_lie_in_the_spill_folder_and_inline_blocks_write_nothing(tmp_path: Path) -> None:
    checked = options(tmp_path / 'out', COLUMNS)
    encode(checked, [{'key': 'a', 'n': 1}])
    assert list(tmp_path.iterdir()) == []
    encode(checked, [{'key': 'a', 'n': 1}], str(tmp_path / 'runs'))
    assert [path.name for path in tmp_path.iterdir()] == ['runs']
    assert len(list((tmp_path / 'runs').iterdir())) == 1


# Positions


@_quick
@given(samples=_samples, rng=st.randoms(use_true_random=False))
def test_samples_of_one_key_share_the_first_hash(
    tmp_path: Path, samples: list[Sample], rng: random.Random
) -> None:
    checked = options(tmp_path, COLUMNS, key='key')
    decode = checked.config.columns.decode_sample
    found = rows(encode(checked, shapes(samples, rng)))
    hashes: dict[str, set[int]] = {}
    for first, second, sample in found:
        hashes.setdefault(decode(sample)['key'], set()).add(first)
        assert second == xxhash.xxh3_64_intdigest(sample)
    assert all(len(firsts) == 1 for firsts in hashes.values())
    assert len(set().union(*hashes.values())) == len(hashes)
    assert found == rows(encode(checked, shapes(samples, rng)))


@pytest.mark.parametrize('key', [None, 'key', lambda sample: sample['key']])
def test_the_seed_gives_another_order_and_the_same_seed_the_same(tmp_path: Path, key: Any) -> None:
    samples = [{'key': str(number), 'n': 0} for number in range(50)]
    orders = [
        [row[2] for row in rows(encode(options(tmp_path, COLUMNS, key=key, seed=seed), samples))]
        for seed in (0, 0, 1, 2**64 - 1)
    ]
    assert orders[0] == orders[1]
    assert len({tuple(order) for order in orders}) == 3
    assert {tuple(sorted(order)) for order in orders} == {tuple(sorted(orders[0]))}


@pytest.mark.parametrize('value', ['ä\ud800', b'\xff', 3, -1.5, True, None, ('a', 1, None)])
def test_a_key_function_may_return_plain_values(tmp_path: Path, value: Any) -> None:
    checked = options(tmp_path, COLUMNS, key=lambda sample: value)
    result = rows(encode(checked, [{'key': 'a', 'n': n} for n in range(5)]))
    assert len({row[0] for row in result}) == 1
    assert len({row[1] for row in result}) == 5


def test_a_key_function_gets_the_same_sample_from_dicts_and_from_arrow(tmp_path: Path) -> None:
    samples = [{'key': 'ä', 'n': number} for number in range(30)]
    checked = options(tmp_path, COLUMNS, key=lambda sample: (sample['key'], sample['n'] % 3))
    assert rows(encode(checked, samples)) == rows(encode(checked, [table_of(samples)]))


@pytest.mark.parametrize('scalar', [np.int64(3), pa.scalar(3), np.int32(3)])
def test_a_numpy_or_arrow_number_is_the_same_key_as_a_plain_one(
    tmp_path: Path, scalar: Any
) -> None:
    samples = [{'key': 'a', 'n': 1}]
    firsts = {
        rows(encode(options(tmp_path, COLUMNS, key=lambda _, value=value: value), samples))[0][0]
        for value in (3, scalar)
    }
    assert len(firsts) == 1


@pytest.mark.parametrize('scalar', [np.int64(3), pa.scalar(3), np.str_('a'), np.float64(1)])
def test_a_numpy_or_arrow_value_inside_a_tuple_is_the_same_key_as_a_plain_one(
    tmp_path: Path, scalar: Any
) -> None:
    plain = scalar.as_py() if isinstance(scalar, pa.Scalar) else scalar.item()
    samples = [{'key': 'a', 'n': 1}]
    firsts = {
        rows(encode(options(tmp_path, COLUMNS, key=lambda _, value=value: (value, 1)), samples))[0][
            0
        ]
        for value in (plain, scalar)
    }
    assert len(firsts) == 1


@pytest.mark.parametrize('value', [[1], {'a': 1}, object(), ('a', [1]), {1}])
def test_a_key_that_has_no_stable_text_is_refused(tmp_path: Path, value: Any) -> None:
    checked = options(tmp_path, COLUMNS, key=lambda sample: value)
    with pytest.raises(OptionError, match=r'the key function returned .*: expected str, bytes'):
        encode(checked, [{'key': 'a', 'n': 1}])


# Elements


def test_elements_are_not_changed(tmp_path: Path) -> None:
    samples = [{'key': 'a', 'n': np.int64(number)} for number in range(50)]
    before = copy.deepcopy(samples)
    batch = batch_of([{'key': 'a', 'n': 1}] * 50)
    copied = pa.ipc.read_record_batch(batch.serialize(), batch.schema)
    encode(options(tmp_path, COLUMNS), [*samples, batch])
    encode(options(tmp_path, COLUMNS, order='arrival', size_limit=400), [*samples, batch])
    assert samples == before
    assert batch.equals(copied)


@pytest.mark.parametrize('element', [None, 'text', 3, [{'key': 'a', 'n': 1}], ('a', 1), b''])
def test_an_element_that_is_no_sample_is_an_error_that_says_what_is_expected(
    tmp_path: Path, element: Any
) -> None:
    with pytest.raises(EncodingError, match=r'is no sample: expected a dict, beam\.Row, Named'):
        encode(options(tmp_path, COLUMNS), [element])


@pytest.mark.parametrize('order', ['shuffled', 'arrival'])
@pytest.mark.parametrize('place', [0, 1, 17, 999])
def test_a_bad_sample_fails_the_bundle_and_names_its_column(
    tmp_path: Path, order: str, place: int
) -> None:
    samples: list[Sample] = [{'key': 'a', 'n': number} for number in range(1000)]
    samples[place] = {'key': 'a', 'n': 2**40}
    with pytest.raises(EncodingError, match='n') as caught:
        encode(options(tmp_path, COLUMNS, order=order), samples)
    assert caught.value.column == 'n'


@pytest.mark.parametrize('order', ['shuffled', 'arrival'])
def test_a_write_in_the_background_that_fails_fails_the_bundle(faults: Faults, order: str) -> None:
    faults.add(Fault('close', error='enospc', times=None))
    checked = options(faults.folder + '/out', COLUMNS, order=order, size_limit=400)
    with pytest.raises(StorageError, match='No space left'):
        encode(
            checked, [{'key': 'a', 'n': number} for number in range(1000)], faults.folder + '/runs'
        )


# Arrival order


def stored_samples(checked: WriteOptions, fragments: list[Fragment]) -> list[list[Sample]]:
    return [list(read_shard(ShardRef(checked.out, info_of(f, checked.config)))) for f in fragments]


@_quick
@given(
    sizes=st.lists(st.integers(0, 300), max_size=80),
    room=st.integers(1, 400),
    rng=st.randoms(use_true_random=False),
)
def test_in_arrival_order_shards_are_filled_one_after_another_and_the_rest_is_a_block(
    tmp_path: Path, sizes: list[int], room: int, rng: random.Random
) -> None:
    checked = options(tmp_path / 'out', COLUMNS, order='arrival', size_limit=700)
    room += checked.config.empty_size
    checked = options(tmp_path / 'out', COLUMNS, order='arrival', size_limit=room)
    samples = [{'key': 'x' * size, 'n': number} for number, size in enumerate(sizes)]
    elements: list[Any] = []
    left = list(samples)
    while left:  # in order, as dicts and as batches
        count = rng.randint(1, 30)
        taken, left = left[:count], left[count:]
        elements += taken if rng.random() < 0.5 else [batch_of(taken)]
    result = encode(checked, elements)

    shards = stored_samples(checked, result.fragments)
    flat = [sample for shard in shards for sample in shard]
    decode = checked.config.columns.decode_sample
    leftover = sorted((decode(row[2]) for row in rows(result)), key=lambda sample: sample['n'])
    assert sorted([*flat, *leftover], key=lambda sample: sample['n']) == samples
    assert sum(map(len, result.sizes)) == len(samples)
    assert all(shards)
    for fragment in result.fragments:
        assert fragment.raw_data.bytes <= room or fragment.samples == 1
    # less than a shard is left over
    assert sum(len(row[2]) + OVERHEAD for row in rows(result)) <= checked.config.capacity


def test_in_arrival_order_samples_of_one_kind_of_element_keep_their_order(tmp_path: Path) -> None:
    samples = [{'key': 'x' * (number % 50), 'n': number} for number in range(500)]
    checked = options(tmp_path, COLUMNS, order='arrival', size_limit=1000)
    for elements in (samples, [batch_of(samples[:7]), table_of(samples[7:])]):
        result = encode(checked, elements)
        flat = [s for shard in stored_samples(checked, result.fragments) for s in shard]
        assert flat == samples[: len(flat)]
        assert len(samples) - len(flat) == sum(
            len(blocks.load(p.block).first) for p in result.packed
        )


def test_in_arrival_order_only_the_next_sample_that_does_not_fit_closes_a_shard(
    tmp_path: Path,
) -> None:
    samples = [{'key': 'x' * 12, 'n': number} for number in range(100)]  # 24 bytes with the offset
    base = options(tmp_path, COLUMNS, order='arrival', size_limit=700).config.empty_size
    checked = options(tmp_path, COLUMNS, order='arrival', size_limit=base + 240)
    assert {f.samples for f in encode(checked, samples).fragments} == {10}
    assert {f.raw_data.bytes for f in encode(checked, samples).fragments} == {base + 240}


def test_two_attempts_of_a_bundle_in_arrival_order_share_no_name(tmp_path: Path) -> None:
    samples = [{'key': 'x', 'n': number} for number in range(500)]
    checked = options(tmp_path, COLUMNS, order='arrival', size_limit=400)
    names = [
        {fragment.stored.basename for fragment in encode(checked, samples).fragments}
        for _ in range(2)
    ]
    assert names[0]
    assert not names[0] & names[1]

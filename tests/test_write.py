"""WriteToMDS: what goes in comes out, and what each option does."""

from __future__ import annotations

import copy
import logging
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.metrics.metric import MetricsFilter
from apache_beam.transforms.display import DisplayData

from beam_mds import WriteToMDS, read_samples
from beam_mds.format import HASHES
from beam_mds.indexes import read_index
from tests.helpers.writing import (
    COLUMNS,
    SEEN,
    batch,
    content,
    read,
    run,
    samples,
    see,
    see_with_file,
    table,
    write,
)


@pytest.mark.parametrize(
    ('order', 'compression', 'algo'),
    [
        ('shuffled', None, 'sha1'),
        ('shuffled', 'br:1', 'blake2b'),
        ('arrival', 'br', 'md5'),
        ('shuffled', 'bz2', 'sha256'),
        ('arrival', 'gz', 'xxh64'),
        ('arrival', 'snappy', 'sha3_256'),
        ('shuffled', 'zstd', 'xxh3_64'),
        ('arrival', 'zstd:7', 'xxh128'),
    ],
)
def test_every_compression_is_read_back_with_its_hash_checked(
    order: str, compression: str | None, algo: str, tmp_path: Path
) -> None:
    rows = samples(200)

    write(
        rows, tmp_path, compression=compression, hashes=[algo], order=order, size_limit=3000,
        spill=False,
    )  # fmt: skip

    index = read_index(tmp_path)
    assert read(tmp_path, validate_hash=algo) == rows
    assert len(index) > 2
    assert {shard.config.compression for shard in index} == {compression}
    suffix = '' if compression is None else f'.{compression.partition(":")[0]}'
    assert all(shard.stored.basename.endswith(f'.mds{suffix}') for shard in index)


def test_every_hash_is_stored_and_checked(tmp_path: Path) -> None:
    rows = samples(10)

    write(rows, tmp_path, hashes=list(HASHES))

    assert {name: read(tmp_path, validate_hash=name) for name in HASHES} == dict.fromkeys(
        HASHES, rows
    )


def test_dicts_batches_and_tables_mix_in_one_input(tmp_path: Path) -> None:
    rows = samples(60)

    write([*rows[:10], batch(rows[10:30]), table(rows[30:50]), *rows[50:]], tmp_path)

    assert read(tmp_path) == rows


@pytest.mark.parametrize('order', ['shuffled', 'arrival'])
def test_batches_and_tables_without_rows_add_nothing(order: str, tmp_path: Path) -> None:
    rows = samples(3)

    write([batch([]), table([]), *rows, batch([])], tmp_path, order=order)

    assert read(tmp_path) == rows


def test_size_limit_cuts_shards(tmp_path: Path) -> None:
    rows = samples(100)
    write(rows, tmp_path / 'small', size_limit='1kb')
    write(rows, tmp_path / 'large', size_limit='1mb')

    sizes = [shard.raw_data.bytes for shard in read_index(tmp_path / 'small')]

    assert len(sizes) > 3
    assert max(sizes) <= 1024
    assert len(read_index(tmp_path / 'large')) == 1


def test_a_shuffle_is_another_order_and_a_seed_yet_another(tmp_path: Path) -> None:
    rows = samples(100)
    write(rows, tmp_path / 'a')
    write(rows, tmp_path / 'b', seed=1)
    write(rows, tmp_path / 'c', seed=2**63 - 1)

    orders = [[sample['number'] for sample in read_samples(tmp_path / name)] for name in 'abc']

    assert [sorted(order) for order in orders] == [list(range(100))] * 3
    assert len({tuple(order) for order in [*orders, range(100)]}) == 4


def test_the_largest_seed_works(tmp_path: Path) -> None:
    rows = samples(3)

    write(rows, tmp_path, seed=2**64 - 1)

    assert read(tmp_path) == rows


def test_num_shards_makes_that_many(tmp_path: Path) -> None:
    write(samples(300), tmp_path, num_shards=5)

    index = read_index(tmp_path)

    assert len(index) == 5
    assert sum(shard.samples for shard in index) == 300


def test_num_shards_of_two_with_one_sample_is_one_shard(tmp_path: Path) -> None:
    rows = samples(1)

    write(rows, tmp_path, num_shards=2)

    assert [shard.samples for shard in read_index(tmp_path)] == [1]
    assert read(tmp_path) == rows


def test_num_shards_without_a_size_limit_cuts_by_nothing_else(tmp_path: Path) -> None:
    write(samples(300), tmp_path, num_shards=2, size_limit=None)

    assert len(read_index(tmp_path)) == 2
    assert b'"size_limit": null' in (tmp_path / 'index.json').read_bytes()


def test_a_range_over_the_size_limit_becomes_several_shards(tmp_path: Path) -> None:
    rows = samples(300)

    write(rows, tmp_path, num_shards=2, size_limit=3000)

    index = read_index(tmp_path)
    assert len(index) > 4
    assert {shard.raw_data.basename[:12] for shard in index} == {'shard.00000.', 'shard.00001.'}
    assert max(shard.raw_data.bytes for shard in index) <= 3000
    assert read(tmp_path) == rows


@pytest.mark.parametrize('order', ['shuffled', 'arrival'])
def test_empty_input_fails_the_job_and_says_so(order: str, tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r'there was no sample to write to .*allow_empty=True'):
        write([], tmp_path, order=order)

    assert content(tmp_path) == {}


@pytest.mark.parametrize(
    ('elements', 'options'),
    [([], {}), ([batch([])], {}), ([], {'order': 'arrival'}), ([batch([])], {'num_shards': 3})],
    ids=['nothing', 'no rows', 'arrival', 'num_shards'],
)
def test_allow_empty_gives_no_index_and_an_empty_result(
    elements: list[Any], options: dict[str, Any], tmp_path: Path
) -> None:
    SEEN.clear()
    sink = WriteToMDS(tmp_path, COLUMNS, allow_empty=True, **options)

    def build(pipeline: beam.Pipeline) -> None:
        result = pipeline | beam.Create(elements) | sink
        _ = (result.shards, result.index) | beam.Flatten() | beam.Map(see)
        _ = pipeline | 'Ran' >> beam.Create(['ran']) | 'See' >> beam.Map(see)

    run(build)

    assert SEEN == ['ran']
    assert content(tmp_path) == {}


@pytest.mark.parametrize('order', ['shuffled', 'arrival'])
def test_the_result_comes_after_the_index_and_tells_its_shards(order: str, tmp_path: Path) -> None:
    SEEN.clear()
    index = tmp_path / 'index.json'

    def build(pipeline: beam.Pipeline) -> None:
        result = (
            pipeline
            | beam.Create(samples(100))
            | WriteToMDS(
                tmp_path, COLUMNS, order=order, size_limit=2000, compression='gz', hashes=['md5']
            )
        )
        _ = result.shards | 'Shards' >> beam.Map(see_with_file, str(index))
        _ = result.index | 'Index' >> beam.Map(see_with_file, str(index))

    run(build)

    final = index.read_bytes()
    listed = [
        (shard.stored.basename, shard.samples, shard.stored.bytes, shard.stored.hashes, '')
        for shard in read_index(tmp_path)
    ]
    assert len(listed) > 3
    assert {data for _, data in SEEN} == {final}
    assert [what for what, _ in SEEN if isinstance(what, str)] == [str(index)]
    assert [tuple(what) for what, _ in SEEN if not isinstance(what, str)] == listed


def test_the_result_names_its_outputs_for_every_runner() -> None:
    pipeline = beam.Pipeline(runner='FnApiRunner')
    result = pipeline | beam.Create(samples(1)) | WriteToMDS('nowhere', COLUMNS)

    assert set(result) == {'shards', 'index'}
    assert result.shards is result['shards']
    assert result.index is result['index']
    outputs = {
        proto.unique_name: set(proto.outputs)
        for proto in pipeline.to_runner_api().components.transforms.values()
    }
    assert outputs['WriteToMDS'] == {'shards', 'index'}


@pytest.mark.parametrize('order', ['shuffled', 'arrival'])
def test_metrics_tell_exactly_what_was_written(order: str, tmp_path: Path) -> None:
    rows = samples(100)
    result = write(rows, tmp_path, order=order, size_limit=2000, compression='zstd')

    index = read_index(tmp_path)
    found = result.metrics().query(MetricsFilter().with_namespace('beam_mds'))
    counters: dict[str, int] = {}
    for counter in found['counters']:
        name = counter.key.metric.name
        counters[name] = counters.get(name, 0) + counter.committed
    assert counters == {
        'samples_written': 100,
        'shards_written': len(index),
        'bytes_raw': sum(shard.raw_data.bytes for shard in index),
        'bytes_stored': sum(shard.stored.bytes for shard in index),
    }
    sizes = [8 + 4 + len(row['data']) + len(row['name'].encode()) for row in rows]
    raw = [shard.raw_data.bytes for shard in index]
    distributions: dict[str, list[Any]] = {}
    for cell in found['distributions']:
        distributions.setdefault(cell.key.metric.name, []).append(cell.committed)
    assert set(distributions) == {'sample_bytes', 'shard_bytes'}
    for name, wanted in [('sample_bytes', sizes), ('shard_bytes', raw)]:
        cells = distributions[name]
        assert sum(cell.count for cell in cells) == len(wanted)
        assert sum(cell.sum for cell in cells) == sum(wanted)
        assert min(cell.min for cell in cells) == min(wanted)
        assert max(cell.max for cell in cells) == max(wanted)


@pytest.mark.parametrize('order', ['shuffled', 'arrival'])
def test_each_shard_is_one_line_in_the_log(
    order: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, 'beam_mds'):
        write(samples(100), tmp_path, order=order, size_limit=2000)

    index = read_index(tmp_path)
    lines = [record.getMessage() for record in caplog.records if record.name.startswith('beam_mds')]
    wanted = [
        f'{tmp_path}/{shard.raw_data.basename}: {shard.samples} samples, '
        f'{shard.raw_data.bytes} bytes, {shard.raw_data.bytes} stored'
        for shard in index
    ]
    total = f'{tmp_path}: 100 samples in {len(index)} shards'
    assert len(index) > 3
    assert sorted(lines) == sorted([*wanted, total])


def test_display_data_has_every_option(tmp_path: Path) -> None:
    def key_of(sample: Any) -> Any:
        return sample['name']

    sink = WriteToMDS(
        tmp_path, {'name': 'str'}, compression='zstd:7', hashes=['sha1', 'md5'], size_limit='1kb',
        key=key_of, seed=5, num_shards=4, spill=tmp_path / 'spill', allow_empty=True,
    )  # fmt: skip

    shown = {item.key: item.value for item in DisplayData.create_from(sink).items}

    assert shown == {
        'out': str(tmp_path),
        'columns': "{'name': 'str'}",
        'compression': 'zstd:7',
        'hashes': 'md5,sha1',
        'size_limit': 1024,
        'key': 'key_of',
        'order': 'shuffled',
        'seed': 5,
        'num_shards': 4,
        'drop_split_column': False,
        'extra': 'error',
        'if_exists': 'error',
        'spill': str(tmp_path / 'spill'),
        'allow_empty': True,
    }


def test_a_pickle_column_warns_when_the_transform_is_made(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match=r"column 'p' is stored as pickle.*allow_unsafe_types"):
        WriteToMDS(tmp_path, {'p': 'pkl', 'q': 'int'})


def test_elements_are_not_changed(tmp_path: Path) -> None:
    columns = {'array': 'ndarray', 'fixed': 'ndarray:int32:2', 'data': 'bytes', 'doc': 'json'}
    element = {
        'array': np.arange(6, dtype='>i4').reshape(2, 3).T,
        'fixed': np.array([1, 2], np.int32),
        'data': bytearray(b'abc'),
        'doc': {'b': [1, {'c': None}], 'a': 'x'},
    }
    before = copy.deepcopy(element)
    SEEN.clear()

    def build(pipeline: beam.Pipeline) -> None:
        kept = pipeline | beam.Create([0]) | beam.Map(lambda _: element) | beam.Map(see)
        _ = kept | WriteToMDS(tmp_path, columns, key=lambda sample: bytes(sample['data']))

    run(build)

    (kept,) = SEEN
    assert list(kept) == list(before)
    assert kept['array'].dtype.str == '>i4'
    assert all(np.array_equal(kept[name], before[name]) for name in ('array', 'fixed'))
    assert [kept[name] for name in ('data', 'doc')] == [before[name] for name in ('data', 'doc')]
    assert len(list(read_samples(tmp_path))) == 1

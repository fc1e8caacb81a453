"""MDS datasets as a source: every form, path and range; what is damaged is named and not lost."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.io.restriction_trackers import OffsetRange
from apache_beam.runners.sdf_utils import RestrictionTrackerView, ThreadsafeRestrictionTracker
from apache_beam.typehints.row_type import RowTypeConstraint
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beam_mds import (
    ColumnsError,
    DamagedError,
    OptionError,
    ReadAllFromMDS,
    ReadFromMDS,
    StorageError,
    UnreadSamples,
    WriteToMDS,
)
from beam_mds.indexes import read_index
from beam_mds.reading import shardreader, steps
from beam_mds.reading.shardreader import ShardRef
from beam_mds.reading.steps import ReadOptions, ReadShards, ShardRanges, list_shards
from tests.helpers.faulty import Fault, Faults
from tests.helpers.writing import COLUMNS, Sample, run, samples, write

ROWS = samples(150, names=4)
BY_NUMBER: Callable[[Any], int] = lambda sample: int(sample['number'])  # noqa: E731

COMPRESSIONS = pytest.mark.parametrize('compression', [None, 'zstd', 'br', 'gz', 'bz2', 'snappy'])

# What the steps of a test saw; the functions below are pickled by name.
FOUND: list[Any] = []
LETTERS: list[UnreadSamples] = []


def keep(element: Any) -> None:
    FOUND.append(element)


def keep_letter(letter: UnreadSamples) -> None:
    LETTERS.append(letter)


@pytest.fixture(autouse=True)
def _nothing_found() -> None:
    FOUND.clear()
    LETTERS.clear()


def found(source: beam.PTransform, *flags: str) -> list[Any]:
    """The elements that a source gives; dead letters are in LETTERS."""

    def build(pipeline: beam.Pipeline) -> None:
        result = pipeline | source
        elements = result.samples if isinstance(result, dict) else result
        _ = elements | 'Elements' >> beam.Map(keep)
        if isinstance(result, dict):
            _ = result.errors | 'Letters' >> beam.Map(keep_letter)

    run(build, *flags)
    return FOUND


@COMPRESSIONS
def test_all_samples_come_once_whatever_the_compression(
    tmp_path: Path, compression: str | None
) -> None:
    write(ROWS, tmp_path, size_limit=1500, compression=compression, hashes=['sha1'])
    for how in ({}, {'validate_hash': 'sha1'}):
        FOUND.clear()
        assert sorted(found(ReadFromMDS(tmp_path, **how)), key=BY_NUMBER) == ROWS
    assert {type(sample['number']) for sample in FOUND} == {np.int32}


@pytest.mark.parametrize('compression', [None, 'zstd'])
def test_batches_hold_the_columns_wanted_in_arrow_s_types(
    tmp_path: Path, compression: str | None
) -> None:
    write(ROWS, tmp_path, size_limit=1500, compression=compression)
    batches = found(ReadFromMDS(tmp_path, ['number', 'name'], as_batches=True))
    assert len(batches) == len(read_index(tmp_path)) > 3
    schema = pa.schema([('name', pa.large_string()), ('number', pa.int32())])
    assert all(batch.schema.equals(schema) for batch in batches)
    rows = sorted(pa.Table.from_batches(batches).to_pylist(), key=BY_NUMBER)
    assert rows == [{'name': row['name'], 'number': row['number']} for row in ROWS]


def test_only_the_columns_wanted_are_decoded(tmp_path: Path) -> None:
    write([{'good': n, 'text': 'abc'} for n in range(9)], tmp_path, {'good': 'int', 'text': 'str'})
    (file,) = tmp_path.glob('*.mds')
    file.write_bytes(file.read_bytes().replace(b'abc', b'a\xffc'))
    assert sorted(s['good'] for s in found(ReadFromMDS(tmp_path, ['good']))) == list(range(9))
    with pytest.raises(DamagedError, match=r"column 'text' \(str\): 3 bytes do not decode"):
        found(ReadFromMDS(tmp_path, ['text']))


def test_every_way_to_name_datasets_works(tmp_path: Path, gcs_bucket: str) -> None:
    roots = [str(tmp_path / 'a [1]'), gcs_bucket]
    for root in roots:
        for number, part in enumerate((ROWS[:40], ROWS[40:90], ROWS[90:])):
            write(part, f'{root}/part-{number}/train', size_limit=1500)
    local = Path(roots[0])
    (local / 'part-3').mkdir()
    (local / 'part-3' / 'my-index.json').write_text('{}')
    (local / 'part-0' / 'index.json.bak').write_text('{}')
    first = [str(local / 'part-0' / 'train'), str(local / 'part-1' / 'train' / 'index.json')]
    for source, rows in [
        (ReadFromMDS(f'{roots[0]}/part-0/train/'), ROWS[:40]),
        (ReadFromMDS(local / 'part-0', split='train'), ROWS[:40]),
        (ReadFromMDS(f'{roots[1]}/part-1/train/index.json'), ROWS[40:90]),
        (ReadFromMDS(first), ROWS[:90]),
        (ReadFromMDS([*first, first[0] + '/']), [*ROWS[:40], *ROWS[:90]]),
        (ReadFromMDS(f'{roots[1]}/part-*', split='train'), ROWS),
        (ReadFromMDS(f'{roots[1]}/part-[01]/train/index.json'), ROWS[:90]),
        (ReadFromMDS([f'{roots[1]}/**', str(local / 'part-2/train')]), [*ROWS, *ROWS[90:]]),
        (beam.Create([f'{roots[1]}/part-?/train', first[1]]) | ReadAllFromMDS(), None),
    ]:
        FOUND.clear()
        wanted = [*ROWS, *ROWS[40:90]] if rows is None else rows
        assert sorted(found(source), key=BY_NUMBER) == sorted(wanted, key=BY_NUMBER)


def test_where_a_sample_is_from_comes_with_it(tmp_path: Path) -> None:
    write(ROWS, tmp_path, size_limit=1500)
    read = found(ReadFromMDS(tmp_path, ['number'], with_metadata=True))
    batches = pa.Table.from_batches(
        pa.RecordBatch.from_pylist([row]) if isinstance(row, dict) else row for row in read
    ).to_pylist()
    FOUND.clear()
    tables = found(ReadFromMDS(tmp_path, ['number'], with_metadata=True, as_batches=True))
    rows = pa.Table.from_batches(tables).to_pylist()
    assert sorted(rows, key=BY_NUMBER) == sorted(batches, key=BY_NUMBER)
    shards = {str(tmp_path / info.stored.basename): info for info in read_index(tmp_path)}
    assert {row['mds_shard'] for row in rows} == set(shards)
    for row in rows:
        reader = shardreader.ShardReader(ShardRef(str(tmp_path), shards[row['mds_shard']]))
        place = row['mds_sample']
        (sample,) = reader.read(place, place + 1).to_rows(['number'])
        assert sample['number'] == row['number']
        reader.close()


def test_metadata_may_not_hide_a_column(tmp_path: Path) -> None:
    write([{'mds_shard': 'x'}], tmp_path, {'mds_shard': 'str'})
    assert found(ReadFromMDS(tmp_path)) == [{'mds_shard': 'x'}]
    with pytest.raises(ColumnsError, match="it has a column 'mds_shard', which with_metadata=True"):
        found(ReadFromMDS(tmp_path, with_metadata=True))


TYPED = {
    'array': 'ndarray:int32',
    'big': 'uint64',
    'doc': 'json',
    'half': 'float16',
    'matrix': 'ndarray:float32:2,2',
    'small': 'uint8',
    'text': 'str',
}
TYPED_ROWS = [
    {
        'array': np.arange(1 + n, dtype=np.int32),
        'big': 2**64 - 1 - n,
        'doc': {'n': n},
        'half': n / 2,
        'matrix': np.full((2, 2), n, np.float32),
        'small': n,
        'text': f'text {n}',
    }
    for n in range(20)
]


def test_rows_have_a_schema_that_parquet_and_others_take(tmp_path: Path) -> None:
    write(TYPED_ROWS, tmp_path / 'mds', TYPED, size_limit=900)
    wanted = ['array', 'half', 'matrix', 'small', 'text']
    source = ReadFromMDS(tmp_path / 'mds', wanted, as_rows=True, with_metadata=True)

    def build(pipeline: beam.Pipeline) -> None:
        rows = pipeline | source
        assert isinstance(rows.element_type, RowTypeConstraint)
        assert dict(rows.element_type._fields) == {
            'array': Sequence[np.int32],
            'half': np.float32,
            'matrix': Sequence[Sequence[np.float32]],
            'small': np.int16,
            'text': str,
            'mds_shard': str,
            'mds_sample': int,
        }
        _ = rows | 'See' >> beam.Map(keep)
        # A step that needs the coder of the schema, and one that needs the schema.
        _ = rows | beam.Reshuffle() | beam.io.WriteToParquet(str(tmp_path / 'out'))

    run(build, '--direct_running_mode=in_memory')
    table = pa.concat_tables(map(pq.read_table, sorted(tmp_path.glob('out*'))))
    rows = sorted(table.to_pylist(), key=lambda row: row['small'])
    assert [{name: row[name] for name in wanted} for row in rows] == [
        {
            'array': row['array'].tolist(),
            'half': row['half'],
            'matrix': row['matrix'].tolist(),
            'small': row['small'],
            'text': row['text'],
        }
        for row in TYPED_ROWS
    ]
    assert {type(row.small) for row in FOUND} == {int}


def test_rows_hold_what_has_no_schema_type_for_python_steps(tmp_path: Path) -> None:
    write(TYPED_ROWS, tmp_path, TYPED)

    def build(pipeline: beam.Pipeline) -> None:
        rows = pipeline | ReadFromMDS(tmp_path, ['big', 'doc'], as_rows=True)
        _ = rows | beam.Reshuffle() | beam.Map(keep)

    run(build)
    assert sorted((row.big, row.doc['n']) for row in FOUND) == sorted(
        (row['big'], row['doc']['n']) for row in TYPED_ROWS
    )


def test_rows_can_be_a_dataframe(tmp_path: Path) -> None:
    from apache_beam.dataframe.convert import to_dataframe, to_pcollection

    write(ROWS, tmp_path, size_limit=1500)

    def build(pipeline: beam.Pipeline) -> None:
        frame = to_dataframe(pipeline | ReadFromMDS(tmp_path, ['name', 'number'], as_rows=True))
        sums = frame.groupby('name').sum()
        _ = to_pcollection(sums, include_indexes=True) | beam.Map(keep)

    run(build)
    wanted = Counter[str]()
    for row in ROWS:
        wanted[row['name']] += row['number']
    assert {tuple(row) for row in FOUND} == set(wanted.items())


def test_datasets_without_a_common_schema_give_no_rows(tmp_path: Path) -> None:
    write([{'a': 1}], tmp_path / 'x', {'a': 'int32'})
    write([{'a': 'one'}], tmp_path / 'y', {'a': 'str'})
    with pytest.raises(ColumnsError, match=r'x and .*y have different columns, so there is no com'):
        found(ReadFromMDS([tmp_path / 'x', tmp_path / 'y'], as_rows=True))
    assert sorted(str(s['a']) for s in found(ReadFromMDS(f'{tmp_path}/*'))) == ['1', 'one']


# Ranges


def only_shard(folder: Any, **how: Any) -> ShardRef:
    """The shard of a dataset that has one."""
    (info,) = read_index(folder)
    return ShardRef(str(folder), info, **how)


def test_an_uncompressed_shard_is_read_in_ranges_and_not_more_than_once(
    faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(samples(2000, largest=500), faults.folder)
    (info,) = read_index(faults.folder)
    size = info.raw_data.bytes
    monkeypatch.setattr(steps, '_RANGE_BYTES', size // 5)
    monkeypatch.setattr(shardreader, '_BATCH_BYTES', size // 20)
    faults.clear()
    assert len(found(ReadFromMDS(faults.folder))) == 2000
    reads = faults.reads('shard')
    assert len(faults.calls('open', 'shard')) == 5
    assert max(count for _, count in reads) < size // 10
    header = info.config.empty_size + 4 * 2000
    assert size <= sum(count for _, count in reads) <= size + 5 * header


def test_a_range_reads_only_its_own_offsets_and_samples(faults: Faults) -> None:
    write(samples(2000), faults.folder)
    shard = only_shard(faults.folder)
    faults.clear()
    reader = shardreader.ShardReader(shard, 1000, 1003)
    rows = reader.read(1001, 1003).to_rows()
    reader.close()
    assert len(rows) == 2
    config = len(shard.info.config.to_bytes())
    sample = reader.offset(1003) - reader.offset(1001)
    assert [count for _, count in faults.reads('shard')] == [8, 4 * 4, config, sample]


@pytest.mark.parametrize('how', [{'compression': 'zstd'}, {'validate': 'sha1'}])
def test_any_other_shard_is_read_once_for_a_claim(
    faults: Faults, monkeypatch: pytest.MonkeyPatch, how: dict[str, str]
) -> None:
    monkeypatch.setattr(steps, '_RANGE_BYTES', 1000)
    write(ROWS, faults.folder, compression=how.get('compression'), hashes=['sha1'])
    faults.clear()
    assert len(found(ReadFromMDS(faults.folder, validate_hash=how.get('validate')))) == len(ROWS)
    assert len(faults.calls('open', 'shard')) == 1


def test_a_busy_store_is_asked_again_and_no_sample_comes_twice(faults: Faults) -> None:
    write(ROWS, faults.folder, size_limit=1500)
    faults.add(
        Fault('open', 'shard', error='503', times=2), Fault('read', 'shard', error='reset', nth=4)
    )
    assert sorted(found(ReadFromMDS(faults.folder)), key=BY_NUMBER) == ROWS


def read_range(
    shard: ShardRef, restriction: OffsetRange, split: Callable[[Any], Any], **how: Any
) -> Iterator[tuple[list[Any], OffsetRange | None]]:
    """Runs the DoFn on one range as a runner does; `split` is asked between elements."""
    options = ReadOptions(None, 'dicts', shard.validate_hash, False, False, False)
    tracker = ThreadsafeRestrictionTracker(ShardRanges().create_tracker(restriction))
    residual = None
    elements: list[Any] = []
    progress = [0.0]
    for element in ReadShards(options).process(shard, RestrictionTrackerView(tracker)):
        elements.append(element)
        done = tracker.current_progress().fraction_completed
        assert progress[-1] <= done <= 1 or residual is not None
        progress.append(done)
        if residual is None and (parts := split(tracker)) is not None:
            residual = parts[1]
    tracker.check_done()
    size = tracker.current_restriction().size()
    assert tracker.current_progress().fraction_completed == (size - 1) / size
    yield elements, residual


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
@pytest.mark.parametrize('compression', [None, 'zstd'])
def test_a_range_can_be_split_at_any_moment_and_each_sample_comes_once(
    tmp_path: Path, compression: str | None, data: st.DataObject
) -> None:
    folder = tmp_path / 'dataset'
    if not folder.exists():
        write(samples(60, largest=5), folder, compression=compression)
    shard = only_shard(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shardreader, '_BATCH_BYTES', data.draw(st.integers(1, 400), 'batch'))

        def split(tracker: Any) -> Any:
            if data.draw(st.integers(0, 9), 'moment'):
                return None
            return tracker.try_split(data.draw(st.sampled_from([0, 0.01, 0.3, 0.9]), 'fraction'))

        waiting = [ShardRanges().initial_restriction(shard)]
        rows: list[Sample] = []
        while waiting:
            for elements, residual in read_range(shard, waiting.pop(), split):
                rows += elements
                if residual is not None:
                    waiting.append(residual)
    assert sorted(rows, key=BY_NUMBER) == samples(60, largest=5)


def test_a_split_during_a_claim_cuts_the_batch(tmp_path: Path) -> None:
    write(samples(60, largest=5), tmp_path)
    shard = only_shard(tmp_path)
    options = ReadOptions(None, 'dicts', None, False, False, False)
    tracker = ThreadsafeRestrictionTracker(
        ShardRanges().create_tracker(ShardRanges().initial_restriction(shard))
    )

    class View(RestrictionTrackerView):  # type: ignore[misc]
        def try_claim(self, position: int) -> bool:
            if position == 59:  # somebody is faster
                assert tracker.try_split(0.5)[1] == OffsetRange(29, 60)
            claimed: bool = super().try_claim(position)
            return claimed

    assert len(list(ReadShards(options).process(shard, View(tracker)))) == 29
    tracker.check_done()


def test_ranges_are_of_about_one_size_and_cover_the_shard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(ROWS, tmp_path)
    shard = only_shard(tmp_path)
    provider = ShardRanges()
    whole = provider.initial_restriction(shard)
    assert provider.restriction_size(shard, whole) == shard.info.raw_data.bytes
    monkeypatch.setattr(steps, '_RANGE_BYTES', shard.info.raw_data.bytes // 7)
    parts = list(provider.split(shard, whole))
    assert [part.start for part in parts] + [150] == [0] + [part.stop for part in parts]
    assert {part.stop - part.start for part in parts} <= {21, 22}
    monkeypatch.setattr(steps, '_RANGE_BYTES', 1)
    assert len(list(provider.split(shard, whole))) == 150


# Damage


def damage_all(folder: Path) -> tuple[list[Sample], int]:
    """Damages shards in several ways; gives the samples that are still whole, and how many not."""
    files = sorted(folder.glob('*.mds'))
    rows = {f: list(shardreader.read_shard(ref(folder, f))) for f in files}
    files[0].unlink()
    files[1].write_bytes(b'')
    data = files[2].read_bytes()
    files[2].write_bytes(data[: len(data) * 3 // 4])
    data = files[3].read_bytes()
    files[3].write_bytes(data[:4] + bytes([data[4] ^ 255]) + data[5:])
    name = rows[files[4]][5]['name'].encode()
    at = files[4].read_bytes().index(name, offset_of(folder, files[4], 5))
    data = bytearray(files[4].read_bytes())
    data[at + 1] = 0xFF
    files[4].write_bytes(data)
    cut = offset_count(folder, files[2], len(files[2].read_bytes()))
    good = rows[files[2]][:cut] + rows[files[4]][:5] + rows[files[4]][6:]
    good += [row for file in files[5:] for row in rows[file]]
    return good, sum(map(len, rows.values())) - len(good)


def ref(folder: Path, file: Path) -> ShardRef:
    infos = {info.stored.basename: info for info in read_index(folder)}
    return ShardRef(str(folder), infos[file.name])


def offset_of(folder: Path, file: Path, sample: int) -> int:
    with contextlib.closing(shardreader.ShardReader(ref(folder, file))) as reader:
        return reader.offset(sample)


def offset_count(folder: Path, file: Path, size: int) -> int:
    """How many samples end before a byte."""
    info = ref(folder, file).info
    offsets = np.frombuffer(file.read_bytes(), '<u4', info.samples + 1, 4)
    return int((offsets[1:] <= size).sum())


def test_damaged_samples_are_dead_letters_and_all_others_are_read(tmp_path: Path) -> None:
    write(ROWS, tmp_path, size_limit=1500)
    good, bad = damage_all(tmp_path)
    read = found(ReadFromMDS(tmp_path, on_error='dead_letter'))
    assert sorted(read, key=BY_NUMBER) == sorted(good, key=BY_NUMBER)
    assert sum(letter.samples for letter in LETTERS) == bad
    files = sorted(info.stored.basename for info in read_index(tmp_path))
    by_file = {Path(letter.path).name: letter for letter in LETTERS}
    assert sorted(by_file) == files[:5]
    missing, empty, short, header, sample = (by_file[name] for name in files[:5])
    assert (missing.error_type, missing.sample, missing.byte) == ('StorageError', 0, None)
    assert (empty.error_type, empty.byte) == ('DamagedError', 0)
    assert 'the file ends here, the index says that it has' in empty.message
    assert short.byte == (tmp_path / files[2]).stat().st_size
    assert (header.sample, header.error_type) == (0, 'DamagedError')
    assert (sample.sample, sample.samples) == (5, 1)
    assert sample.byte == offset_of(tmp_path, tmp_path / files[4], 5)
    assert f', sample 5, byte {sample.byte}: column' in sample.message


@pytest.mark.parametrize('form', [{}, {'as_batches': True}])
def test_a_damaged_sample_fails_the_job_and_is_named(tmp_path: Path, form: Any) -> None:
    write(ROWS, tmp_path)
    (file,) = tmp_path.glob('*.mds')
    data = bytearray(file.read_bytes())
    start = offset_of(tmp_path, file, 70)
    data[start] ^= 1
    file.write_bytes(data)
    with pytest.raises(DamagedError) as caught:
        found(ReadFromMDS(tmp_path, **form))
    assert str(caught.value).startswith(f'{file}, sample 70, byte {start}: sample has ')


def test_a_shard_of_other_columns_is_named(tmp_path: Path) -> None:
    write(ROWS, tmp_path)
    (file,) = tmp_path.glob('*.mds')
    file.write_bytes(file.read_bytes().replace(b'"number"', b'"nomber"'))
    with pytest.raises(DamagedError, match=r"its columns are \{.*'nomber'.* the index says \{"):
        found(ReadFromMDS(tmp_path))


def test_the_hash_is_checked_when_asked_for(tmp_path: Path) -> None:
    write(ROWS, tmp_path, hashes=['sha1', 'xxh64'])
    (file,) = tmp_path.glob('*.mds')
    data = bytearray(file.read_bytes())
    data[offset_of(tmp_path, file, 0) + 8] ^= 1  # of a byte string: nothing else can show it
    file.write_bytes(data)
    assert len(found(ReadFromMDS(tmp_path))) == len(ROWS)
    with pytest.raises(DamagedError, match=rf'{file.name}: xxh64 is \w+, the index says \w+'):
        found(ReadFromMDS(tmp_path, validate_hash='xxh64'))
    with pytest.raises(DamagedError, match=rf'{file.name}: the index lists no md5 hash'):
        found(ReadFromMDS(tmp_path, validate_hash='md5'))


@pytest.mark.parametrize('name', ['/etc/passwd', '../x.mds', 'a/../../x.mds', 'c:\\x', 'a//b', ''])
def test_a_basename_that_leaves_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    write(ROWS[:1], tmp_path)
    index = json.loads((tmp_path / 'index.json').read_text())
    index['shards'][0]['raw_data']['basename'] = name
    (tmp_path / 'index.json').write_text(json.dumps(index))
    with pytest.raises(ValueError, match='is no plain path below the dataset'):
        found(ReadFromMDS(tmp_path))


def test_pickles_are_refused_unless_allowed(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match='pickle'):
        sink = WriteToMDS(tmp_path, {'n': 'int', 'p': 'pkl'})
    run(lambda pipeline: pipeline | beam.Create([{'n': 1, 'p': {2}}]) | sink)
    message = f"{tmp_path}: column 'p' is stored as pickle, and reading it runs code"
    for how in ({}, {'as_batches': True}, {'columns': ['p']}):
        with pytest.raises(ColumnsError, match=message):
            found(ReadFromMDS(tmp_path, **how))
    with pytest.raises(ColumnsError, match="column 'p' is stored as pickle"):
        list(shardreader.read_samples(tmp_path))
    assert found(ReadFromMDS(tmp_path, ['n'])) == [{'n': 1}]
    FOUND.clear()
    assert found(ReadFromMDS(tmp_path, allow_pickle=True)) == [{'n': 1, 'p': {2}}]


# Errors


@pytest.mark.parametrize(
    ('how', 'message'),
    [
        ({'columns': 'text'}, "columns must be a list of names or None, got 'text'"),
        ({'columns': []}, 'columns must be a list of names'),
        ({'validate_hash': 'crc'}, "validate_hash='crc' is unknown: expected one of blake2b"),
        ({'on_error': 'skip'}, "on_error='skip' is unknown: expected 'fail' or 'dead_letter'"),
        ({'as_rows': True, 'as_batches': True}, 'as_batches and as_rows exclude each other'),
        ({'split': '../x'}, "split str '../x' is no folder's name"),
        ({'path': []}, 'path must be a path or a list of at least one'),
        ({'path': 'nope://x'}, 'Beam has no filesystem for it'),
        ({'path': 3}, 'path must be a path or a list'),
    ],
)
def test_a_wrong_option_is_refused_when_the_pipeline_is_made(
    how: dict[str, Any], message: str
) -> None:
    with pytest.raises(OptionError) as caught:
        ReadFromMDS(**{'path': 'x', **how})
    assert message in str(caught.value)


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    write(ROWS, tmp_path / 'a')
    with pytest.raises(StorageError, match=r'could not read .*nothing/index\.json'):
        found(ReadFromMDS(tmp_path / 'nothing'))
    with pytest.raises(StorageError, match=r'b\*: no folder that it matches has an index\.json'):
        found(ReadFromMDS(f'{tmp_path}/b*'))
    with pytest.raises(ColumnsError, match=r"a: no column 'x': there are data, name, number"):
        found(ReadFromMDS(tmp_path / 'a', ['x']))


def test_no_samples_are_no_error(tmp_path: Path) -> None:
    (tmp_path / 'index.json').write_text('{"version": 2, "shards": []}')
    assert found(ReadFromMDS(tmp_path)) == []
    with pytest.raises(ColumnsError, match='no shards, so there is no schema'):
        found(ReadFromMDS(tmp_path, as_rows=True))


def test_nothing_is_read_when_the_pipeline_is_made(faults: Faults) -> None:
    pipeline = beam.Pipeline(runner='FnApiRunner')
    _ = pipeline | ReadFromMDS(f'{faults.folder}/nothing', as_batches=True)
    assert faults.calls() == []


def test_read_samples_are_counted(tmp_path: Path) -> None:
    write(ROWS, tmp_path, size_limit=1500)
    damage_all(tmp_path)
    source = ReadFromMDS(tmp_path, on_error='dead_letter')
    result = run(lambda pipeline: pipeline | source)
    counts = {
        metric.key.metric.name: metric.committed
        for metric in result.metrics().query()['counters']
        if metric.key.metric.namespace == 'beam_mds'
    }
    assert counts['samples_read'] + counts['samples_unread'] == len(ROWS)
    assert set(counts) == {'samples_read', 'samples_unread', 'bytes_read'}


@pytest.mark.slow
@pytest.mark.parametrize('kind', ['processes', 'portable', 'prism'])
def test_other_runners_read_the_same(tmp_path: Path, kind: str) -> None:
    from tests.helpers.runners import runner_of

    write(ROWS, tmp_path / 'a', size_limit=1500)
    write(ROWS, tmp_path / 'b', size_limit=None, num_shards=1, compression='zstd')
    runner, flags = runner_of(kind)

    def build(pipeline: beam.Pipeline) -> None:
        for name in ('a', 'b'):
            batches = pipeline | f'Read {name}' >> ReadFromMDS(tmp_path / name, as_batches=True)
            _ = batches | f'Write {name}' >> WriteToMDS(tmp_path / f'{name}-again', COLUMNS)

    run(build, *flags, runner=runner)
    for name in ('a', 'b'):
        again = shardreader.read_samples(tmp_path / f'{name}-again')
        assert sorted(again, key=BY_NUMBER) == ROWS


def test_listing_gives_shards_with_samples_only(tmp_path: Path) -> None:
    write(ROWS[:1], tmp_path)
    index = json.loads((tmp_path / 'index.json').read_text())
    index['shards'].append({**index['shards'][0], 'samples': 0})
    (tmp_path / 'index.json').write_text(json.dumps(index))
    options = ReadOptions(None, 'dicts', None, False, False, False)
    assert [shard.info.samples for shard in list_shards(str(tmp_path), options)] == [1]

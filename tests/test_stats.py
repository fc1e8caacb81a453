"""The statistics of datasets are those of their samples, however these are read."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_mds import ColumnsError, DamagedError, MDSStats, OptionError
from beam_mds.format import INDEX_NAME, Columns, EncodedBatch, dump_index, get_encoding
from beam_mds.indexes import read_index
from beam_mds.reading import shardreader, steps
from beam_mds.stats import MAX_LETTERS, DatasetStats, batch_stats
from tests.format.values import VALUES
from tests.helpers.runners import runner_of
from tests.helpers.summing import counted, described, summed
from tests.helpers.writing import SEEN, Sample, run, samples, see, write

COLUMNS = {
    'data': 'bytes',
    'name': 'str',
    'number': 'int32',
    'score': 'float64',
    'tokens': 'ndarray:uint16',
}


@pytest.fixture(autouse=True)
def _nothing_seen() -> None:
    SEEN.clear()


def rows(count: int, seed: int = 0) -> list[Sample]:
    """Samples of COLUMNS."""
    rng = np.random.default_rng(seed)
    return [
        {
            **sample,
            'score': float('nan') if rng.random() < 0.1 else rng.normal() * 1e9,
            'tokens': rng.integers(0, 50000, rng.integers(1, 300)).astype(np.uint16),
        }
        for sample in samples(count, seed=seed)
    ]


def stats_of(stats: MDSStats, *flags: str, runner: Any = None) -> dict[str, Any]:
    """What a job says."""
    SEEN.clear()
    run(lambda pipeline: pipeline | stats | 'See' >> beam.Map(see), *flags, runner=runner)
    (found,) = SEEN
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    return dict(found)


def wanted(columns: dict[str, str], given: Sequence[Sample]) -> dict[str, Any]:
    """What a job must say of whole samples."""
    found = []
    for name, encoding in sorted(columns.items()):
        codec = get_encoding(encoding)
        items = [codec.encode(sample[name]) for sample in given]
        found.append({'name': name, 'encoding': encoding, **summed(codec, items)})
    table = Columns(columns)
    return {
        'samples': len(given),
        'bytes': sum(len(table.encode_sample({n: row[n] for n in columns})) for row in given),
        'columns': found,
        'unread_samples': 0,
        'unread': [],
    }


# Pure

SPECIAL: dict[str, st.SearchStrategy[Any]] = {
    'float16': st.floats(width=16),
    'float32': st.floats(width=32),
    'float64': st.floats(),
    'str_float': st.floats(),
    'str': st.text(max_size=66) | st.text(min_size=60, max_size=70),
    'ndarray': st.one_of(VALUES['ndarray'], VALUES['ndarray:float16'], VALUES['ndarray:int32']),
    'ndarray:int32': st.one_of(VALUES['ndarray:int32'], st.just(np.ones((2, 3), np.int32))),
}


@given(st.data())
@pytest.mark.parametrize('encoding', sorted(VALUES))
def test_a_column_is_summed_up_as_its_values_are_in_any_pieces_and_order(
    encoding: str, data: st.DataObject
) -> None:
    kind = SPECIAL.get(encoding, VALUES[encoding])
    pieces = data.draw(st.lists(st.lists(kind, min_size=1, max_size=6), min_size=1, max_size=4))
    columns = Columns({'a': encoding, 'b': 'str'})
    parts = [
        batch_stats(
            EncodedBatch(columns, columns.encode_batch([{'a': v, 'b': ''} for v in values])), ['a']
        )
        for values in pieces
    ]
    while len(parts) > 1:
        other = parts.pop(data.draw(st.integers(0, len(parts) - 1)))
        parts[data.draw(st.integers(0, len(parts) - 1))].merge(other)
    (found,) = parts[0].as_dict()['columns']
    codec = columns.encodings[0]
    items = [codec.encode(value) for values in pieces for value in values]
    assert found == {'name': 'a', 'encoding': encoding, **summed(codec, items)}


def column(encoding: str, values: Sequence[Any]) -> dict[str, Any]:
    """What is said of one column of these values."""
    columns = Columns({'a': encoding})
    batch = EncodedBatch(columns, columns.encode_batch([{'a': value} for value in values]))
    (found,) = batch_stats(batch).as_dict()['columns']
    return dict(found)


def test_texts_are_measured_in_characters_and_in_bytes() -> None:
    found = column('str', ['', 'naïve', '日本', '🙂'])
    assert found['lengths']['characters'] == described([0, 5, 2, 1])
    assert found['lengths']['bytes'] == described([0, 6, 6, 4])
    assert found['values'] == counted(['', 'naïve', '日本', '🙂'])


def test_tokens_are_counted_and_their_range_is_told() -> None:
    found = column('ndarray:int32', [np.arange(5, dtype=np.int32), np.array([-1], np.int32)])
    assert (found['lengths']['elements']['total'], found['lengths']['elements']['max']) == (6, 5)
    assert (found['numbers']['min'], found['numbers']['max']) == (-1, 4)
    assert 'shapes' not in found


def test_arrays_of_several_dtypes_and_dimensions_are_summed_up() -> None:
    found = column('ndarray', [np.ones(3), np.ones((2, 2), np.uint8), np.zeros((2, 2))])
    assert found['dtypes'] == counted(['float64', 'uint8', 'float64'])
    assert found['shapes'] == [{'value': [2, 2], 'count': 2}]
    assert found['numbers'] == described([1] * 7 + [0] * 4, floats=True)


def test_numbers_without_a_number_among_them_have_no_range() -> None:
    found = column('float32', [float('nan'), float('inf')])['numbers']
    assert found == described([float('nan'), float('inf')], floats=True)
    assert (found['count'], found['min'], found['mean'], found['percentiles']) == (0, *[None] * 3)
    assert (found['nan'], found['infinite']) == (1, 1)


@pytest.mark.parametrize('encoding', ['uint64', 'str_int'])
def test_big_integers_are_exact(encoding: str) -> None:
    found = column(encoding, [2**64 - 1, 2**64 - 2, 2**64 - 2])
    texts = encoding == 'str_int'
    assert [item['value'] for item in found['values']] == [
        str(value) if texts else value for value in (2**64 - 2, 2**64 - 1)
    ]
    if not texts:
        assert found['numbers']['max'] == 2**64 - 1
        assert found['numbers']['total'] == 3 * 2**64 - 5


def test_values_are_not_counted_when_a_text_is_long_or_they_are_many() -> None:
    assert column('str', ['é' * 64])['values'] == [{'value': 'é' * 64, 'count': 1}]
    assert column('str', ['é' * 65, 'a'])['values'] is None
    assert len(column('int', range(1000))['values']) == 1000
    assert column('int', range(1001))['values'] is None
    assert 'values' not in column('float64', [1.0])
    assert column('str_decimal', [Decimal('1.50')])['values'] == [{'value': '1.50', 'count': 1}]


def test_too_many_shapes_are_not_counted() -> None:
    shapes = [(1, n + 1) for n in range(1001)]
    arrays = [np.zeros(shape, np.uint8) for shape in shapes]
    assert column('ndarray', arrays)['shapes'] is None
    assert len(column('ndarray', arrays[1:])['shapes']) == 1000


def test_a_million_different_values_are_kept_in_little_memory() -> None:
    columns = Columns({'n': 'int', 's': 'str', 'f': 'float64', 't': 'ndarray'})
    found = DatasetStats()
    for start in range(0, 1_000_000, 50_000):
        numbers = np.arange(start, start + 50_000)
        batch = pa.record_batch(
            {
                'n': numbers * 999_999_937,
                's': pa.array(numbers).cast(pa.string()),
                'f': np.random.default_rng(start).normal(size=50_000),
                't': pa.FixedSizeListArray.from_arrays(pa.array(numbers), 1),
            }
        )
        found.merge(batch_stats(EncodedBatch(columns, columns.encode_batch(batch))))
    assert found.samples == 1_000_000
    assert len(pickle.dumps(found)) < 100_000


def test_what_is_read_last_is_merged_without_a_change_of_what_came_before() -> None:
    columns = Columns({'a': 'ndarray', 'b': 'str'})
    batch = EncodedBatch(columns, columns.encode_batch([{'a': np.ones((1, 2)), 'b': 'x'}]))
    part, total = batch_stats(batch), DatasetStats()
    before = pickle.dumps(part)
    for _ in range(3):
        total.merge(part)
    assert pickle.dumps(part) == before
    assert total.as_dict()['columns'][1]['values'] == [{'value': 'x', 'count': 3}]


# Jobs


@pytest.mark.parametrize('compression', [None, 'zstd'])
def test_a_dataset_s_statistics_are_those_of_its_samples(
    tmp_path: Path, compression: str | None
) -> None:
    given = rows(300)
    write(given, tmp_path, COLUMNS, size_limit=20_000, compression=compression)
    assert len(read_index(tmp_path)) > 3
    assert stats_of(MDSStats(tmp_path)) == wanted(COLUMNS, given)


def test_bundles_ranges_and_batches_do_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = rows(300)
    write(given, tmp_path, COLUMNS, size_limit=20_000)
    whole = wanted(COLUMNS, given)
    monkeypatch.setattr(steps, '_RANGE_BYTES', 3000)
    monkeypatch.setattr(shardreader, '_BATCH_SAMPLES', 3)
    for workers in (1, 3):
        assert stats_of(MDSStats(tmp_path), f'--direct_num_workers={workers}') == whole


@pytest.mark.parametrize('kind', ['processes', 'portable', 'prism'])
def test_other_runners_say_the_same(tmp_path: Path, kind: str) -> None:
    given = rows(100)
    write(given, tmp_path / 'data', COLUMNS, size_limit=8000)
    runner, flags = runner_of(kind)
    stats = MDSStats(tmp_path / 'data')
    out = str(tmp_path / 'stats')
    run(
        lambda pipeline: (
            pipeline
            | stats
            | beam.Map(json.dumps)
            | beam.io.WriteToText(out, shard_name_template='')
        ),
        *flags,
        runner=runner,
    )
    assert json.loads(Path(out).read_text()) == wanted(COLUMNS, given)


def test_datasets_are_summed_up_together_in_any_store(tmp_path: Path, gcs_bucket: str) -> None:
    given = rows(90)
    write(given[:30], f'{gcs_bucket}/a/train', COLUMNS)
    write(given[30:60], f'{gcs_bucket}/b/train', COLUMNS)
    write(given[60:], tmp_path / 'train', COLUMNS)
    stats = MDSStats([f'{gcs_bucket}/*', tmp_path], ['name', 'tokens'], split='train')
    found = stats_of(stats)
    whole = wanted(COLUMNS, given)
    keys = ('name', 'tokens')
    assert found['columns'] == [item for item in whole['columns'] if item['name'] in keys]
    assert (found['samples'], found['bytes']) == (whole['samples'], whole['bytes'])


def test_columns_of_one_name_and_several_encodings_stand_side_by_side(tmp_path: Path) -> None:
    write([{'a': 'x', 'b': 1}], tmp_path / '1', {'a': 'str', 'b': 'int'})
    write([{'a': b'xyz', 'b': 2}], tmp_path / '2', {'a': 'bytes', 'b': 'int'})
    found = stats_of(MDSStats([tmp_path / '1', tmp_path / '2']))['columns']
    assert [(c['name'], c['encoding'], c['count'], c['bytes']) for c in found] == [
        ('a', 'bytes', 1, 3),
        ('a', 'str', 1, 1),
        ('b', 'int', 2, 16),
    ]


def test_only_the_columns_wanted_are_decoded(tmp_path: Path) -> None:
    write([{'good': n, 'text': 'abc'} for n in range(9)], tmp_path, {'good': 'int', 'text': 'str'})
    (file,) = tmp_path.glob('*.mds')
    file.write_bytes(file.read_bytes().replace(b'abc', b'a\xffc'))
    (found,) = stats_of(MDSStats(tmp_path, ['good']))['columns']
    assert found['numbers'] == described(range(9))


class Unpickled:
    """Makes a folder when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


def test_pickles_are_measured_and_never_unpickled(tmp_path: Path) -> None:
    value = pickle.dumps(Unpickled(tmp_path / 'made'), 4)
    with pytest.warns(UserWarning, match='is stored as pickle'):
        write([{'p': value, 'i': b'no image'}], tmp_path / 'data', {'p': 'pkl', 'i': 'png'})
    image, found = stats_of(MDSStats(tmp_path / 'data'))['columns']
    assert found['lengths'] == {'bytes': described([len(value)])}
    assert image['lengths'] == {'bytes': described([8])}
    assert not (tmp_path / 'made').exists()


def test_no_samples_are_an_answer_too(tmp_path: Path) -> None:
    (tmp_path / INDEX_NAME).write_bytes(dump_index([]))
    assert stats_of(MDSStats(tmp_path)) == DatasetStats().as_dict()


def damaged(folder: Path) -> tuple[Path, Path]:
    """A file that is gone, and one with a sample that is no text; each of 10 samples."""
    given = [{'a': f'value {n:03}'} for n in range(100)]
    write(given, folder, {'a': 'str'}, max_samples_per_shard=10)
    gone, wrong = sorted(folder.glob('*.mds'))[:2]
    gone.unlink()
    data = bytearray(wrong.read_bytes())
    data[-1] = 0xFF
    wrong.write_bytes(data)
    return gone, wrong


def test_a_damaged_sample_fails_the_job_and_is_named(tmp_path: Path) -> None:
    gone, wrong = damaged(tmp_path)
    count = {i.stored.basename: i.samples for i in read_index(tmp_path)}
    index = json.loads((tmp_path / INDEX_NAME).read_text())
    index['shards'] = [s for s in index['shards'] if s['raw_data']['basename'] != gone.name]
    (tmp_path / INDEX_NAME).write_text(json.dumps(index))
    with pytest.raises(DamagedError) as caught:
        stats_of(MDSStats(tmp_path))
    last = count[wrong.name] - 1
    assert str(caught.value).startswith(f'{wrong}, sample {last}, byte ')
    assert "column 'a' (str): 9 bytes do not decode: 'utf-8' codec can't decode" in str(
        caught.value
    )


def test_damaged_samples_are_counted_and_the_others_summed_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone, wrong = damaged(tmp_path)
    count = {info.stored.basename: info.samples for info in read_index(tmp_path)}
    found = stats_of(MDSStats(tmp_path, skip_damaged=True))
    assert found['unread_samples'] == count[gone.name] + 1
    assert found['samples'] == 100 - found['unread_samples'] == found['columns'][0]['count']
    assert [(letter['path'], letter['samples']) for letter in found['unread']] == [
        (str(gone), count[gone.name]),
        (str(wrong), 1),
    ]
    assert found['unread'][1]['sample'] == count[wrong.name] - 1


def test_of_many_damaged_samples_the_first_are_told_and_all_counted(tmp_path: Path) -> None:
    write([{'a': f'{n:03}'} for n in range(60)], tmp_path, {'a': 'str'}, order='sorted', key='a')
    (file,) = tmp_path.glob('*.mds')
    file.write_bytes(file.read_bytes().replace(b'\x03\0\0\x000', b'\x03\0\0\0\xff'))
    found = stats_of(MDSStats(tmp_path, skip_damaged=True))
    assert (found['unread_samples'], found['samples'], found['columns']) == (60, 0, [])
    assert [letter['sample'] for letter in found['unread']] == list(range(MAX_LETTERS))


@pytest.mark.parametrize(
    ('given', 'message'),
    [
        ({'path': []}, 'path must be a path or a list of at least one'),
        ({'path': 'x', 'columns': 'a'}, "columns must be a list of names or None, got 'a'"),
        ({'path': 'x', 'split': '../y'}, 'split'),
    ],
)
def test_a_wrong_option_is_refused_when_the_transform_is_made(given: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        MDSStats(**given)


def test_a_column_that_is_not_there_is_named(tmp_path: Path) -> None:
    write([{'a': 1}], tmp_path, {'a': 'int'})
    with pytest.raises(ColumnsError, match="no column 'b': there are a"):
        stats_of(MDSStats(tmp_path, ['b']))


def test_options_are_shown(tmp_path: Path) -> None:
    shown = MDSStats(tmp_path, ['b', 'a'], skip_damaged=True).display_data()
    assert shown == {'path': str(tmp_path), 'columns': 'a,b', 'skip_damaged': True}

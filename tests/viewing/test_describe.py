from __future__ import annotations

import dataclasses
import json
import random
from pathlib import Path
from typing import Any

import pytest

from beam_mds import FormatError, StorageError, storage
from beam_mds.format import INDEX_NAME, Columns, Samples, ShardInfo, get_encoding
from beam_mds.viewing.describe import ColumnSummary, SplitSummary, Spread, Variant, describe
from tests.helpers.datasets import add_shard, write_dataset, write_index
from tests.helpers.faulty import Faults

ONE = {'label': 'uint8', 'text': 'str', 'where': 'ndarray:float32:2'}
TWO = {'label': 'uint8', 'text': 'str', 'title': 'str'}


def rows(count: int, *, seed: int = 0, longest: int = 40) -> list[dict[str, Any]]:
    """Samples of TWO: titles take about a tenth of the bytes of the texts."""
    rng = random.Random(seed)
    return [
        {
            'label': number % 256,
            'text': 'x' * rng.randint(0, 10 * longest),
            'title': 'ü' * rng.randint(0, longest // 2),
        }
        for number in range(count)
    ]


def ones(count: int) -> list[dict[str, Any]]:
    """Samples of ONE."""
    return [
        {'label': row['label'], 'text': row['text'], 'where': [1, number]}
        for number, row in enumerate(rows(count))
    ]


def value_bytes(samples: list[dict[str, Any]], columns: dict[str, str]) -> dict[str, int]:
    """Bytes of each column, value by value."""
    return {
        name: sum(len(get_encoding(encoding).encode(sample[name])) for sample in samples)
        for name, encoding in columns.items()
    }


def bytes_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of all reads of pieces from now on."""
    sizes: list[int] = []
    read = storage.Reader.read

    def counted(self: storage.Reader, start: int, size: int) -> bytes:
        sizes.append(size)
        return read(self, start, size)

    monkeypatch.setattr(storage.Reader, 'read', counted)
    return sizes


def test_a_summary_has_what_the_files_have(tmp_path: Path) -> None:
    shards = [ones(7), ones(3), ones(20)]
    samples = [sample for shard in shards for sample in shard]
    infos = write_dataset(
        tmp_path, shards, ONE, compression='zstd:7', hashes=['sha1', 'xxh64'], size_limit=9000
    )
    summary = describe(tmp_path)

    raw = [info.raw_data.bytes for info in infos]
    stored = [path.stat().st_size for path in sorted(tmp_path.glob('*.zstd'))]
    assert (summary.path, summary.samples, summary.shards) == (str(tmp_path), 30, 3)
    assert (summary.raw_bytes, summary.stored_bytes) == (sum(raw), sum(stored))
    assert summary.ratio == sum(raw) / sum(stored)
    assert summary.shard_samples == Spread(3, 10, 20)
    assert summary.shard_raw_bytes == Spread(min(raw), sum(raw) / 3, max(raw))
    assert summary.shard_stored_bytes == Spread(min(stored), sum(stored) / 3, max(stored))
    assert summary.fill is not None
    assert summary.fill.max == max(raw) / 9000
    assert summary.fill.mean == pytest.approx(sum(raw) / 3 / 9000)
    assert summary.size_limit == [Variant(9000, 3)]
    assert summary.compression == [Variant('zstd:7', 3)]
    assert summary.hashes == [Variant(['sha1', 'xxh64'], 3)]
    assert summary.splits == []
    sizes = value_bytes(samples, ONE)
    assert summary.columns == [
        ColumnSummary('label', 'uint8', 1, 30, sizes['label'], False),
        ColumnSummary('text', 'str', None, 30, sizes['text'], False),
        ColumnSummary('where', 'ndarray:float32:2', 8, 30, sizes['where'], False),
    ]
    # Count, offsets and config of each shard; offset and size of the text of each sample.
    headers = sum(info.config.empty_size for info in infos)
    assert summary.header_bytes == headers + 30 * (4 + 4)
    assert summary.header_bytes + sum(sizes.values()) == summary.raw_bytes
    assert json.loads(json.dumps(summary.as_dict())) == summary.as_dict()
    assert summary.as_dict()['ratio'] == summary.ratio


@pytest.mark.parametrize('count', [1000])
def test_no_shard_is_opened_where_one_column_varies(faults: Faults, count: int) -> None:
    samples = ones(4)
    infos = [add_shard(faults.local, samples, ONE) for _ in range(count)]
    write_index(faults.local, infos)
    summary = describe(faults.folder)
    assert faults.calls('open') == [INDEX_NAME]
    assert [column.bytes for column in summary.columns] == [
        count * size for size in value_bytes(samples, ONE).values()
    ]
    assert not any(column.estimated for column in summary.columns)


def test_no_shard_is_opened_where_no_column_varies(faults: Faults) -> None:
    write_dataset(faults.local, [[{'a': 1, 'b': 2}] * 5] * 2, {'a': 'uint8', 'b': 'int'})
    summary = describe(faults.folder)
    assert faults.calls('open') == [INDEX_NAME]
    assert [column.bytes for column in summary.columns] == [10, 80]


def test_three_shards_of_a_thousand_are_opened_where_two_columns_vary(faults: Faults) -> None:
    infos = [add_shard(faults.local, rows(8, seed=number), TWO) for number in range(1000)]
    write_index(faults.local, infos)
    summary = describe(faults.folder)
    places = [166, 500, 833]  # in the middle of each third
    names = [infos[place].stored.basename for place in places]
    assert faults.calls('open') == [INDEX_NAME, *names]
    # What is divided by the samples that were looked at is exact as a whole.
    label, text, title = summary.columns
    seen = [sample for place in places for sample in rows(8, seed=place)]
    parts = value_bytes(seen, TWO)
    varying = summary.raw_bytes - summary.header_bytes - 8000
    assert text.bytes == round(varying * parts['text'] / (parts['text'] + parts['title']))
    assert text.bytes + title.bytes == pytest.approx(varying, abs=1)
    assert label == ColumnSummary('label', 'uint8', 1, 8000, 8000, False)
    assert text.estimated
    assert title.estimated


@pytest.mark.parametrize('compression', [None, 'zstd'])
def test_an_estimate_is_near_the_truth(tmp_path: Path, compression: str | None) -> None:
    shards = [rows(500, seed=number) for number in range(9)]
    write_dataset(tmp_path, shards, TWO, compression=compression)
    sizes = value_bytes([sample for shard in shards for sample in shard], TWO)
    for column in describe(tmp_path).columns:
        assert column.bytes == pytest.approx(sizes[column.name], rel=0.05)


def test_of_a_raw_shard_only_the_heads_of_some_samples_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_dataset(tmp_path, [rows(3000, longest=400)], TWO)
    sizes = bytes_read(monkeypatch)
    summary = describe(tmp_path)
    # The head of the shard, the offsets of 1,000 samples, the config, and the samples' heads.
    assert sizes[:2] == [8, 4 * 1001]
    assert sizes[3:] == [8] * 1000
    assert sum(sizes) < 13_000 < summary.raw_bytes / 100


def test_of_a_compressed_shard_all_samples_count(tmp_path: Path) -> None:
    samples = rows(1500)
    write_dataset(tmp_path, [samples], TWO, compression='zstd')
    found = {column.name: column.bytes for column in describe(tmp_path).columns}
    assert found == value_bytes(samples, TWO)


def test_empty_shards_are_not_looked_into(tmp_path: Path) -> None:
    write_dataset(tmp_path, [[], [], rows(5), []], TWO)
    summary = describe(tmp_path)
    assert summary.shard_samples == Spread(0, 1.25, 5)
    assert [column.bytes for column in summary.columns] == list(value_bytes(rows(5), TWO).values())


def test_values_without_bytes_have_none(tmp_path: Path) -> None:
    for shards in ([[]], [[{'label': 1, 'text': '', 'title': ''}]]):
        write_dataset(tmp_path, shards, TWO)
        label, *others = describe(tmp_path).columns
        assert label.bytes == len(shards[0])
        assert [column.bytes for column in others] == [0, 0]


def test_an_index_without_shards_is_described(tmp_path: Path) -> None:
    write_index(tmp_path, [])
    summary = describe(tmp_path)
    assert (summary.samples, summary.shards, summary.raw_bytes) == (0, 0, 0)
    assert (summary.shard_samples, summary.shard_raw_bytes, summary.fill) == (None, None, None)
    assert (summary.columns, summary.compression, summary.ratio) == ([], [], None)


def test_shards_may_have_other_settings(tmp_path: Path) -> None:
    infos = [
        add_shard(tmp_path, ones(4), ONE),
        add_shard(tmp_path, ones(4), ONE, compression='gz', size_limit=None, hashes=['md5']),
        add_shard(tmp_path, ones(4), ONE, compression='gz', size_limit=2000),
    ]
    write_index(tmp_path, infos)
    summary = describe(tmp_path)
    assert summary.compression == [Variant('gz', 2), Variant(None, 1)]
    assert summary.size_limit == [Variant(1 << 26, 1), Variant(None, 1), Variant(2000, 1)]
    assert summary.hashes == [Variant([], 2), Variant(['md5'], 1)]
    assert summary.fill is not None
    assert summary.fill.max == infos[2].raw_data.bytes / 2000
    assert summary.fill.min == infos[0].raw_data.bytes / (1 << 26)
    assert summary.columns[1].bytes == 3 * value_bytes(ones(4), ONE)['text']


def test_without_a_size_limit_there_is_no_fill(tmp_path: Path) -> None:
    write_dataset(tmp_path, [ones(4)], ONE, size_limit=None)
    assert describe(tmp_path).fill is None


def test_shards_with_other_columns_are_counted_apart(tmp_path: Path) -> None:
    other = {'label': 'int', 'text': 'str'}
    infos = [
        add_shard(tmp_path, ones(4), ONE),
        add_shard(tmp_path, [{'label': 5, 'text': 'abc'}] * 3, other),
    ]
    write_index(tmp_path, infos)
    texts = value_bytes(ones(4), ONE)['text']
    assert describe(tmp_path).columns == [
        ColumnSummary('label', 'int', 8, 3, 24, False),
        ColumnSummary('label', 'uint8', 1, 4, 4, False),
        ColumnSummary('text', 'str', None, 7, texts + 9, False),
        ColumnSummary('where', 'ndarray:float32:2', 8, 4, 32, False),
    ]


def test_what_is_estimated_of_some_shards_is_estimated_of_all(tmp_path: Path) -> None:
    for order in ([ONE, TWO], [TWO, ONE]):
        shards = [add_shard(tmp_path, ones(4) if one is ONE else rows(4), one) for one in order]
        write_index(tmp_path, shards)
        found = {column.name: column.estimated for column in describe(tmp_path).columns}
        assert found == {'label': False, 'text': True, 'title': True, 'where': False}


def test_folders_of_shards_are_splits_in_natural_order(tmp_path: Path) -> None:
    names = ['part-10/a.mds', 'part-9/a.mds', 'part-9/b.mds', 'c.mds']
    infos = [add_shard(tmp_path, ones(4), ONE, name=name, compression='gz') for name in names]
    write_index(tmp_path, infos)
    raw, stored = infos[0].raw_data.bytes, infos[0].stored.bytes
    assert describe(tmp_path).splits == [
        SplitSummary('', 4, 1, raw, stored),
        SplitSummary('part-9', 8, 2, 2 * raw, 2 * stored),
        SplitSummary('part-10', 4, 1, raw, stored),
    ]


@pytest.mark.parametrize('compression', [None, 'br', 'bz2', 'gz', 'snappy', 'zstd:7'])
@pytest.mark.parametrize('columns', [ONE, TWO])
def test_a_shard_without_an_index_is_described_as_with_it(
    tmp_path: Path, compression: str | None, columns: dict[str, str]
) -> None:
    samples = ones(40) if columns is ONE else rows(40)
    (info,) = write_dataset(tmp_path, [samples], columns, compression=compression)
    file = tmp_path / info.stored.basename
    wanted = describe(tmp_path)
    (tmp_path / INDEX_NAME).unlink()
    found = describe(file)
    sizes = value_bytes(samples, columns)
    assert [column.bytes for column in found.columns] == [sizes[name] for name in sorted(columns)]
    if compression is not None:  # all of it was read
        assert not any(column.estimated for column in found.columns)
    assert dataclasses.replace(found, columns=[]) == dataclasses.replace(
        wanted, columns=[], path=str(file)
    )


def test_a_path_may_be_pathlike_remote_or_an_index(tmp_path: Path, gcs_bucket: str) -> None:
    (info,) = write_dataset(tmp_path, [rows(5)], TWO)
    for name in (INDEX_NAME, info.stored.basename):
        data = (tmp_path / name).read_bytes()
        storage.write(f'{gcs_bucket}/{name}', [data], len(data))
    wanted = describe(tmp_path)
    assert describe(str(tmp_path) + '/') == describe(tmp_path / INDEX_NAME) == wanted
    for path in (gcs_bucket, f'{gcs_bucket}/{INDEX_NAME}', f'{gcs_bucket}/{info.stored.basename}'):
        assert describe(path).columns == wanted.columns


def test_a_folder_may_be_named_like_a_shard(tmp_path: Path) -> None:
    write_dataset(tmp_path / 'set.mds', [ones(3)], ONE)
    assert describe(tmp_path / 'set.mds').samples == 3


def test_what_is_not_there_is_an_error_that_says_what_may_be(tmp_path: Path) -> None:
    add_shard(tmp_path, ones(3), ONE)
    with pytest.raises(StorageError) as caught:
        describe(tmp_path)
    assert str(caught.value) == (
        f'{tmp_path}: there is no index.json in it: name the folder of a dataset, its index.json, '
        'or one shard (*.mds, or *.mds.zstd and so on)'
    )
    with pytest.raises(StorageError) as caught:
        describe(tmp_path / 'x.mds.zstd')
    assert str(caught.value) == (
        f'{tmp_path}/x.mds.zstd: there is no such file, and no folder with an index.json'
    )


def test_an_index_that_cannot_be_read_is_an_error_of_its_own(tmp_path: Path) -> None:
    (tmp_path / INDEX_NAME).mkdir()
    with pytest.raises(StorageError, match=r'^could not read .*/index\.json: IsADirectoryError'):
        describe(tmp_path)


def test_a_damaged_index_or_shard_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / INDEX_NAME).write_text('{}')
    with pytest.raises(FormatError, match=r'index\.json: no MDS index'):
        describe(tmp_path)
    info = add_shard(tmp_path, rows(4), TWO)
    file = tmp_path / info.stored.basename
    good = file.read_bytes()
    for bad, reason in (
        (b'', '0 bytes are too few for a shard'),
        (good[:20], '20 bytes are too few for a shard of 4 samples'),
        (b'\xff' * 90, '90 bytes are too few for a shard of 4294967295 samples'),
        (good.replace(b'"mds"', b'"abc"'), "the config at byte 24 is no MDS config: format 'abc'"),
    ):
        for name, data in ((file.name, bad), ('x.mds.gz', bad)):
            (tmp_path / name).write_bytes(data)
            wanted = reason if name == file.name else f'gz data of {len(bad)} bytes is damaged'
            with pytest.raises(FormatError) as caught:
                describe(tmp_path / name)
            assert str(caught.value).startswith(f'{tmp_path / name}: {wanted}')


def test_sizes_in_the_index_that_cannot_be_are_an_error(tmp_path: Path) -> None:
    for columns, samples in ((ONE, ones(4)), ({'a': 'int'}, [{'a': 1}] * 4)):
        info = add_shard(tmp_path, samples, columns)
        needed = info.config.empty_size + 4 * (4 + sum(s or 4 for s in Columns(columns).sizes))
        for size in (needed - 1, needed):
            write_index(tmp_path, [resized(info, size)])
            if size == needed:
                describe(tmp_path)
                continue
            with pytest.raises(FormatError) as caught:
                describe(tmp_path)
            assert str(caught.value) == (
                f'{tmp_path}: shard {info.raw_data.basename} cannot have {size} bytes: its 4 '
                f'samples need at least {needed}'
            )


def test_a_longer_config_than_ours_counts_as_header(tmp_path: Path) -> None:
    info = add_shard(tmp_path, [{'a': 1}] * 4, {'a': 'int'})
    write_index(tmp_path, [resized(info, info.raw_data.bytes + 5)])
    summary = describe(tmp_path)
    assert summary.columns[0].bytes == 32
    assert summary.header_bytes == info.raw_data.bytes + 5 - 32


def resized(info: ShardInfo, size: int) -> ShardInfo:
    return dataclasses.replace(info, raw_data=dataclasses.replace(info.raw_data, bytes=size))


@pytest.mark.parametrize('compression', [None, 'zstd'])
def test_sizes_in_a_sample_that_cannot_be_are_an_error_that_names_it(
    tmp_path: Path, compression: str | None
) -> None:
    columns = {'text': 'str', 'title': 'str'}
    good = b'\1\0\0\0\x0a\0\0\0' + bytes(11)
    for bad, reason in (
        (b'\1\0\0\0\3\0\0\0abc', 'sample has 11 bytes, its columns need 12'),
        (b'\1\0\0\0', 'sample of 4 bytes is shorter than its head'),
    ):
        made = Samples.of([good, bad])
        info = add_shard(tmp_path, made, columns, compression=compression)
        write_index(tmp_path, [info])
        file = tmp_path / info.stored.basename
        byte = info.config.empty_size + 8 + len(good)
        for path in (tmp_path, file):
            with pytest.raises(FormatError) as caught:
                describe(path)
            wanted = f'{file}, sample 1, byte {byte}: {reason}'
            assert str(caught.value) == wanted

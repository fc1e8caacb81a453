"""img2dataset's WebDataset output becomes the samples of streaming's LAION-400M."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_mds import BadRecord, OptionError, ReadLaion, read_samples, storage
from beam_mds.records import PLACE
from beam_mds.sources.laion import COLUMNS
from pipelines import webdataset as pipeline_module
from tests.helpers.laion import META_SCHEMA, image, meta, write_shard
from tests.helpers.tars import write_tar


def read(*paths: Path, **options: Any) -> tuple[list[dict[str, Any]], list[BadRecord]]:
    good, bad = [], []
    for element in ReadLaion(list(paths), **options).iterate():
        if isinstance(element, BadRecord):
            bad.append(element)
        else:
            sample = dict(element)
            assert sample.pop(PLACE)['file']
            good.append(sample)
    return good, bad


def expected(row: dict[str, Any]) -> dict[str, Any]:
    """A sample, by the rules of streaming's script."""
    texts = {
        name: row[field] or ''
        for name, field in (
            ('nsfw', 'NSFW'), ('license', 'LICENSE'), ('caption', 'caption'), ('url', 'url'),
            ('key', 'key'), ('status', 'status'), ('error_message', 'error_message'),
            ('exif', 'exif'),
        )
    }  # fmt: skip
    sizes = ('width', 'height', 'original_width', 'original_height')
    return {
        **texts,
        **{name: row[name] or 0 for name in sizes},
        'similarity': row['similarity'],
        'jpg': image(row) or b'',
    }


def test_rows_with_and_without_images_become_samples_as_streaming_writes_them(
    tmp_path: Path,
) -> None:
    rows = [meta(n, failed=n % 3 == 1) for n in range(7)]
    write_shard(tmp_path, 0, rows)
    good, bad = read(tmp_path)
    assert bad == []
    assert set(good[0]) == set(COLUMNS)
    by_key = {sample['key']: sample for sample in good}
    assert by_key == {row['key']: expected(row) for row in rows}
    assert len(good) == 7


def test_failed_rows_can_be_skipped(tmp_path: Path) -> None:
    rows = [meta(n, failed=n % 2 == 1) for n in range(6)]
    write_shard(tmp_path, 0, rows)
    good, bad = read(tmp_path, failed='skip')
    assert ([sample['key'][-1] for sample in good], bad) == (['0', '2', '4'], [])


def test_without_a_side_file_the_json_files_tell(tmp_path: Path) -> None:
    rows = [meta(n, failed=n == 1) for n in range(3)]
    write_shard(tmp_path, 0, rows)
    with_side, _ = read(tmp_path)
    (tmp_path / '00000.parquet').unlink()
    good, bad = read(tmp_path)
    assert bad == []
    assert good == [sample for sample in with_side if sample['jpg']]


def test_nulls_are_empty_texts_zero_and_nan(tmp_path: Path) -> None:
    row = {**meta(0), 'NSFW': None, 'similarity': None, 'exif': None, 'width': None}
    write_shard(tmp_path, 0, [row])
    for _ in range(2):  # from the side file, then from the JSON file
        (sample,), _ = read(tmp_path)
        assert (sample['nsfw'], sample['exif'], sample['width']) == ('', '', 0)
        assert math.isnan(sample['similarity'])
        (tmp_path / '00000.parquet').unlink(missing_ok=True)


def test_an_image_that_the_rows_tell_of_and_the_archive_has_not_is_a_bad_record(
    tmp_path: Path,
) -> None:
    write_shard(tmp_path, 0, [meta(n) for n in range(4)])
    tar = tmp_path / '00000.tar'
    tar.write_bytes(tar.read_bytes()[: -(3072 + 8192)])
    good, bad = read(tmp_path)
    assert 0 < len(good) < 4
    assert bad[0].error_type == 'truncated'
    lost = 4 - len(good)
    assert [record.error_type for record in bad[1:]] == ['missing_image'] * lost
    assert bad[-1].message == f'the row says success, and {tar} has no such image: it is lost'
    assert bad[-1].place == {'file': str(tmp_path / '00000.parquet'), 'key': meta(3)['key']}


def test_a_spoiled_image_is_one_bad_record(tmp_path: Path) -> None:
    write_shard(tmp_path, 0, [meta(n) for n in range(2)])
    members = [(f'{meta(0)["key"]}.jpg', b'x'), (f'{meta(0)["key"]}.JPG', b'y'),
               (f'{meta(1)["key"]}.jpg', b'z')]  # fmt: skip
    write_tar(tmp_path / '00000.tar', members)
    good, bad = read(tmp_path)
    assert [sample['jpg'] for sample in good] == [b'z']
    assert [record.error_type for record in bad] == ['duplicate_member']


def test_an_image_without_a_row_is_a_bad_record(tmp_path: Path) -> None:
    write_shard(tmp_path, 0, [meta(n) for n in range(2)])
    pq.write_table(pa.Table.from_pylist([meta(0)], META_SCHEMA), tmp_path / '00000.parquet')
    good, (bad,) = read(tmp_path)
    assert len(good) == 1
    assert (bad.error_type, bad.message) == (
        'side_file',
        f"the parquet file beside the archive has no row of key '{meta(1)['key']}'",
    )


def test_a_damaged_side_file_is_told_and_the_json_files_are_read(tmp_path: Path) -> None:
    write_shard(tmp_path, 0, [meta(n) for n in range(2)])
    side = tmp_path / '00000.parquet'
    side.write_bytes(side.read_bytes()[:-20])
    good, (bad,) = read(tmp_path)
    assert len(good) == 2
    assert bad.error_type == 'side_file'
    assert bad.message.startswith('the parquet file cannot be read: ')
    pq.write_table(pa.Table.from_pylist([meta(0)] * 2, META_SCHEMA), side)
    _, (bad,) = read(tmp_path)
    assert bad.message == 'the parquet file has a key twice'
    pq.write_table(pa.table({'a': [1]}), side)
    _, (bad,) = read(tmp_path)
    assert bad.error_type == 'side_file'


def test_a_field_that_was_not_saved_is_told(tmp_path: Path) -> None:
    row = meta(0)
    del row['NSFW']
    write_shard(tmp_path, 0, [row], META_SCHEMA.remove(META_SCHEMA.get_field_index('NSFW')))
    good, (bad,) = read(tmp_path)
    assert (good, bad.error_type) == ([], 'missing_field')
    assert bad.message == (
        "the row has no field 'NSFW' for the column 'nsfw': leave the column out, or have "
        'img2dataset save it (--save_additional_columns)'
    )
    good, bads = read(tmp_path, columns={'url': 'str', 'jpg': 'bytes'})
    assert (good, bads) == ([{'url': row['url'], 'jpg': image(row)}], [])


@pytest.mark.parametrize('content', [b'{"url"', b'[1]', b'\xff'])
def test_a_json_file_that_is_none_is_told(tmp_path: Path, content: bytes) -> None:
    write_tar(tmp_path / 'a.tar', [('1.jpg', b''), ('1.json', content)])
    good, (bad,) = read(tmp_path)
    assert (good, bad.error_type) == ([], 'decode')


@pytest.mark.parametrize('name', ['00000.tar', '00000.tar.gz', '00000.tgz', '0.0.tar'])
def test_the_side_file_has_the_archives_name(tmp_path: Path, name: str) -> None:
    write_shard(tmp_path, 0, [meta(0), meta(1, failed=True)])
    (tmp_path / '00000.tar').rename(tmp_path / name)
    side = name.replace('.tar.gz', '').replace('.tgz', '').replace('.tar', '') + '.parquet'
    (tmp_path / '00000.parquet').rename(tmp_path / side)
    assert len(read(tmp_path)[0]) == 2


def test_fields_of_the_path_are_columns_too(tmp_path: Path) -> None:
    write_shard(tmp_path / 'train', 0, [meta(0), meta(1, failed=True)])
    columns = {'url': 'str', 'split': 'str'}
    good, bad = read(tmp_path, columns=columns, split='{split}/*.tar')
    assert bad == []
    assert good == [{'url': meta(n)['url'], 'split': 'train'} for n in range(2)]


def test_sizes_that_a_json_file_has_as_floats_are_integers(tmp_path: Path) -> None:
    write_shard(tmp_path, 0, [{**meta(0), 'width': 256.0, 'height': float('nan')}], None)
    (sample,), _ = read(tmp_path)
    assert (type(sample['width']), sample['width'], sample['height']) == (int, 256, 0)


def test_archives_whose_images_lie_in_a_folder_fit_their_side_file(tmp_path: Path) -> None:
    write_shard(tmp_path, 0, [meta(0)])
    write_tar(tmp_path / '00000.tar', [(f'./{meta(0)["key"]}.jpg', b'x')])
    good, bad = read(tmp_path)
    assert ([sample['jpg'] for sample in good], bad) == ([b'x'], [])


def test_archives_and_side_files_in_a_bucket_are_read(tmp_path: Path, gcs_bucket: str) -> None:
    rows = [meta(n, failed=n == 1) for n in range(3)]
    write_shard(tmp_path, 0, rows)
    for path in tmp_path.iterdir():
        data = path.read_bytes()
        storage.write(f'{gcs_bucket}/{path.name}', [data], len(data))
    good: list[Any] = list(ReadLaion([gcs_bucket]).iterate())
    assert {sample['key'] for sample in good} == {row['key'] for row in rows}
    assert {sample[PLACE]['file'] for sample in good} == {
        f'{gcs_bucket}/00000.tar',
        f'{gcs_bucket}/00000.parquet',
    }


@pytest.mark.parametrize(
    ('options', 'message'),
    [
        ({'failed': 'drop'}, "failed='drop' is unknown: expected 'keep' or 'skip'"),
        (
            {'columns': {'jpg': 'jpeg'}},
            (
                "column 'jpg': expected bytes (or jpeg with failed='skip', since a URL that gave "
                "no image has none), got 'jpeg'"
            ),
        ),
        (
            {'columns': {'url': 'json'}},
            "column 'url': a field of a row becomes str, an integer or a float, not json",
        ),
    ],
)
def test_options_that_cannot_work_are_refused_at_once(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(OptionError) as caught:
        ReadLaion(['a.tar'], **options)
    assert str(caught.value) == message
    assert ReadLaion(['a.tar'], {'jpg': 'jpeg'}, failed='skip') is not None


def test_the_preset_of_the_command_writes_streamings_columns(tmp_path: Path) -> None:
    rows = [meta(n, failed=n % 3 == 1) for n in range(7)]
    write_shard(tmp_path / 'in', 0, rows[:4])
    write_shard(tmp_path / 'in', 1, rows[4:])
    arguments = ['--input', str(tmp_path / 'in'), '--output', str(tmp_path / 'out'), '--preset',
                 'laion', '--runner', 'FnApiRunner']  # fmt: skip
    pipeline_module.main(arguments)
    index = json.loads((tmp_path / 'out/index.json').read_text())
    names, kinds = (index['shards'][0][part] for part in ('column_names', 'column_encodings'))
    assert dict(zip(names, kinds, strict=True)) == COLUMNS
    found = sorted(read_samples(str(tmp_path / 'out')), key=lambda sample: sample['key'])
    assert found == [expected(row) for row in rows]
    more = ['--if_exists', 'overwrite', '--failed', 'skip', '--columns', 'key,jpg=jpeg,status=str']
    pipeline_module.main([*arguments, *more])
    index = json.loads((tmp_path / 'out/index.json').read_text())
    assert sum(shard['samples'] for shard in index['shards']) == 5
    assert index['shards'][0]['column_encodings'] == ['jpeg', 'str', 'str']


def test_suffixes_mean_nothing_with_the_preset(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_shard(tmp_path, 0, [meta(0)])
    arguments = ['--input', str(tmp_path), '--output', str(tmp_path / 'out'), '--preset', 'laion']
    with pytest.raises(SystemExit):
        pipeline_module.main([*arguments, '--suffixes', 'image=jpg'])
    assert '--suffixes means nothing with --preset laion' in capsys.readouterr().err

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from beam_mds import storage
from beam_mds.cli import main
from beam_mds.format import INDEX_NAME
from beam_mds.viewing.describe import describe
from tests.helpers.datasets import add_shard, write_dataset, write_index

COLUMNS = {'label': 'uint8', 'text': 'str', 'title': 'str'}
SAMPLES = [
    {'label': number % 7, 'text': f'text {number} ' * 9, 'title': f'title {number}'}
    for number in range(1200)
]


def run(capsys: pytest.CaptureFixture[str], *arguments: Any) -> tuple[int, str, str]:
    """The exit code, and what `beam-mds inspect` prints to both outputs."""
    code = main(['inspect', *map(str, arguments)])
    out, err = capsys.readouterr()
    return code, out, err


def test_a_summary_reads_like_this(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = add_shard(tmp_path, SAMPLES[:1000], COLUMNS, size_limit=200_000, hashes=['sha1'])
    second = add_shard(tmp_path, SAMPLES[1000:], COLUMNS, size_limit=None, hashes=['sha1'])
    write_index(tmp_path, [first, second])
    code, out, err = run(capsys, tmp_path)
    assert (code, err) == (0, '')
    wanted = f"""\
path          {tmp_path}
samples       1,200
shards        2
raw bytes     124,946  (122.0 KiB)
stored bytes  124,946  (122.0 KiB)
compression   none
ratio         1.00 : 1
hashes        sha1
size limit    200,000  (195.3 KiB): 1 shard
              none: 1 shard

per shard         min      mean       max
samples           200       600     1,000
raw size     22.3 KiB  61.0 KiB  99.7 KiB
stored size  22.3 KiB  61.0 KiB  99.7 KiB
fill            51.1%     51.1%     51.1%

column  encoding             size    bytes   share
label   uint8                   1    1,200    1.0%
text    str                varies  ~98,010  ~78.4%
title   str                varies  ~10,890   ~8.7%
        headers and sizes           14,846   11.9%
"""
    assert out == wanted


def test_compression_splits_and_foreign_columns_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    infos = [
        add_shard(
            tmp_path, [{'a': 1}] * 5, {'a': 'int'}, compression=compression, name=f'{name}/x.mds'
        )
        for name, compression in (('train', 'gz'), ('val', 'gz'), ('test', 'zstd:7'))
    ]
    infos.append(add_shard(tmp_path, [{'b': b'x'}], {'b': 'bytes'}))
    write_index(tmp_path, infos)
    _, out, _ = run(capsys, tmp_path)
    ratio = sum(i.raw_data.bytes for i in infos) / sum(i.stored.bytes for i in infos)
    assert 'compression   gz: 2 shards\n              zstd:7: 1 shard\n' in out
    assert f'ratio         {ratio:.2f} : 1\n' in out
    assert 'hashes        none\n' in out
    assert 'a (in 15 samples)  int                     8    120' in out
    assert 'b (in 1 samples)   bytes              varies      1' in out
    table = out[out.index('split ') :].splitlines()
    assert [line.split()[:3] for line in table] == [
        ['split', 'samples', 'shards'],
        ['(none)', '1', '1'],
        ['test', '5', '1'],
        ['train', '5', '1'],
        ['val', '5', '1'],
    ]


def test_of_many_splits_twenty_are_listed_unless_all_are_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    infos = [
        add_shard(tmp_path, [{'a': 1}], {'a': 'int'}, name=f'part-{number}/x.mds')
        for number in range(23)
    ]
    write_index(tmp_path, infos)
    lines = run(capsys, tmp_path)[1].splitlines()
    assert lines[-2].startswith('part-19 ')
    assert lines[-1] == '... and 3 more: --full shows all'
    assert run(capsys, tmp_path, '--full')[1].splitlines()[-1].startswith('part-22 ')


def test_an_empty_dataset_has_no_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_index(tmp_path, [])
    out = (
        f'path          {tmp_path}\nsamples       0\nshards        0\n'
        'raw bytes     0  (0 bytes)\nstored bytes  0  (0 bytes)\n'
    )
    assert run(capsys, tmp_path) == (0, out, '')


def test_a_summary_is_printed_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_dataset(tmp_path, [SAMPLES[:10], SAMPLES[10:20]], COLUMNS, compression='zstd')
    code, out, _ = run(capsys, tmp_path, '--json')
    found = json.loads(out)
    assert code == 0
    assert found == describe(tmp_path).as_dict()
    assert [column['estimated'] for column in found['columns']] == [False, True, True]
    assert found['compression'] == [{'value': 'zstd', 'shards': 2}]
    assert found['shard_samples'] == {'min': 10, 'mean': 10, 'max': 10}


@pytest.mark.parametrize('compression', [None, 'zstd'])
def test_a_sample_reads_like_this(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], compression: str | None
) -> None:
    columns = {
        'caption': 'str',
        'id': 'bytes',
        'image': 'jpeg',
        'meta': 'json',
        'number': 'int64',
        'object': 'pkl',
        'tokens': 'ndarray:int32',
        '名前': 'str',
    }
    sample = {
        'caption': 'first line\nsecond \x1b[31mline',
        'id': b'\x00\xff',
        'image': Image.new('RGB', (640, 480)),
        'meta': {'a': [1]},
        'number': -5,
        'object': {1, 2},
        'tokens': np.arange(20, dtype=np.int32),
        '名前': '山田',
    }
    infos = write_dataset(tmp_path, [SAMPLES[:0], [sample] * 3], columns, compression=compression)
    file = tmp_path / infos[1].stored.basename
    code, out, _ = run(capsys, tmp_path, -1)
    image = infos[1].config.columns.encodings[2].encode(sample['image'])
    reason = 'it is pickled; allow_pickle decodes it, which runs code that is in the data'
    wanted = f"""\
sample  2 of 3
place   sample 2 of shard 1
file    {file}

column   encoding       bytes  value
caption  str               27  first line
                               second \\x1b[31mline
id       bytes              2  2 bytes: 00 ff
image    jpeg           {len(image):,}  JPEG 640 x 480 RGB
meta     json              10  {{
                                 "a": [
                                   1
                                 ]
                               }}
number   int64              8  -5
object   pkl               20  20 bytes, not decoded: {reason}
tokens   ndarray:int32     82  int32 of shape 20: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 ...
名前     str                6  山田
"""
    assert out == wanted
    assert code == 0
    alone = run(capsys, file, 2)[1]
    assert alone == wanted.replace('sample 2 of shard 1', 'sample 2 of shard 0')
    assert 'object   pkl               20  {1, 2}' in run(capsys, tmp_path, 0, '--allow_pickle')[1]
    assert ' 17 18 19\n' in run(capsys, tmp_path, 0, '--full')[1]


def test_a_sample_is_printed_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    samples = [{'data': bytes(40), 'text': 'a\x9b\u202e\ud7ff\n', 'x': float('nan')}]
    columns = {'data': 'bytes', 'text': 'str', 'x': 'float64'}
    (info,) = write_dataset(tmp_path, [samples], columns)
    code, out, _ = run(capsys, tmp_path, '--json', 0)
    assert code == 0
    assert json.loads(out) == {
        'number': 0,
        'samples': 1,
        'shard': 0,
        'row': 0,
        'path': str(tmp_path / info.stored.basename),
        'columns': {
            'data': {
                'encoding': 'bytes',
                'bytes': 40,
                'value': {'bytes': 40, 'hex': '00' * 32},
            },
            'text': {'encoding': 'str', 'bytes': 10, 'value': samples[0]['text']},
            'x': {'encoding': 'float64', 'bytes': 8, 'value': 'NaN'},
        },
    }
    assert r'"a\u009b\u202e' in out
    full = json.loads(run(capsys, tmp_path, '--json', 0, '--full')[1])
    assert full['columns']['data']['value']['hex'] == '00' * 40


def test_names_of_columns_and_files_are_shown_without_control_characters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_dataset(tmp_path, [[{'a\x1bb': 1}]], {'a\x1bb': 'int'}, name='\x1b]0;x\x07.mds')
    for arguments in ((), (0,), ('--json',), (0, '--json')):
        code, out, _ = run(capsys, tmp_path, *arguments)
        assert code == 0
        assert out.replace('\n', '').isprintable()


@pytest.mark.parametrize(
    ('arguments', 'code', 'message'),
    [
        (['{}', '7'], 2, '{}: no sample 7 of 3: there are from 0 to 2, or from the end -1 to -3'),
        (['{}', 'seven'], 2, "argument N: invalid int value: 'seven'"),
        (['{}/nothing'], 3, '{}/nothing: there is no index.json in it: name the folder'),
        (['{}/x.mds', '7'], 3, '{}/x.mds: 9 bytes are too few for a shard of'),
        (['nope://x'], 2, "path='nope://x': Beam has no filesystem for it"),
        ([''], 2, 'path must be a path as str or os.PathLike'),
    ],
)
def test_what_cannot_be_shown_is_an_error(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    message: str,
) -> None:
    write_dataset(tmp_path, [SAMPLES[:3]], COLUMNS)
    (tmp_path / 'x.mds').write_bytes(b'\xff' * 9)
    given = [argument.format(tmp_path) for argument in arguments]
    try:
        found = main(['inspect', *given])
    except SystemExit as error:  # argparse's own
        found = int(str(error.code))
    out, err = capsys.readouterr()
    assert (found, out) == (code, '')
    assert f': {message.format(tmp_path)}' in err
    assert 'Traceback' not in err


def test_a_remote_dataset_is_shown(
    gcs_bucket: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (info,) = write_dataset(tmp_path, [SAMPLES], COLUMNS)
    for name in (INDEX_NAME, info.stored.basename):
        data = (tmp_path / name).read_bytes()
        storage.write(f'{gcs_bucket}/{name}', [data], len(data))
    assert f'path          {gcs_bucket}\n' in run(capsys, gcs_bucket)[1]
    assert '  title 1199\n' in run(capsys, f'{gcs_bucket}/{INDEX_NAME}', -1)[1]

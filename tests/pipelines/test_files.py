from __future__ import annotations

import gzip
import hashlib
import importlib
import itertools
import json
import os
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import assert_that, equal_to

from beam_mds import EncodingError, OptionError, RecordError, StorageError, read_samples, storage
from beam_mds.indexes import read_index
from beam_mds.records import PLACE
from beam_mds.sources.files import (
    COLUMNS,
    ReadFiles,
    bytes_sample,
    decode_text,
    package_of,
    text_sample,
)
from beam_mds.sources.inputs import list_files
from pipelines import conversion, files

_FILES = {
    'os.py': b'import sys\n',
    'json/__init__.py': b'',
    'json/decoder.py': 'x = "é"\r\n'.encode(),
    'json/data/latin.py': b'# coding: latin-1\nx = "\xe9"\n',
    'notes.txt': b'\xef\xbb\xbfnotes',
    '.git/config': b'[core]',
}


@pytest.fixture
def tree(tmp_path: Path) -> str:
    return _fill(tmp_path / 'tree', _FILES)


def _fill(folder: Path, content: dict[str, bytes]) -> str:
    for name, data in content.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return str(folder)


def _store(folder: str, content: dict[str, bytes]) -> str:
    for name, data in content.items():
        with FileSystems.create(f'{folder}/{name}', compression_type='uncompressed') as file:
            file.write(data)
    return folder


def _names(source: str, **options: Any) -> list[str]:
    return sorted(file.name for file in list_files(source, **options))


def _run(*args: str) -> dict[str, dict[str, Any]]:
    """Runs the pipeline's command; the samples by path."""
    files.main([*args, '--runner=FnApiRunner'])
    output = next(arg.partition('=')[2] for arg in args if arg.startswith('--output='))
    return {sample['path']: sample for sample in read_samples(output)}


# Which files an input names.


def test_a_folder_means_all_files_below_it(tree: str) -> None:
    assert _names(tree) == sorted(_FILES)
    names = {file.path: file.name for file in list_files(tree)}
    assert names[f'{tree}/json/decoder.py'] == 'json/decoder.py'


def test_the_pattern_is_matched_by_the_name_of_a_file_at_any_depth(tree: str) -> None:
    expected = ['json/__init__.py', 'json/data/latin.py', 'json/decoder.py', 'os.py']
    assert _names(tree, pattern='*.py') == expected


def test_excluded_names_are_left_out_at_any_depth_as_files_and_as_folders(tree: str) -> None:
    left = _names(tree, exclude=['.git', 'data', '*.txt'])
    assert left == ['json/__init__.py', 'json/decoder.py', 'os.py']


def test_a_glob_gives_paths_relative_to_the_folder_before_its_first_special_character(
    tree: str,
) -> None:
    assert _names(f'{tree}/json/*.py') == ['__init__.py', 'decoder.py']
    assert _names(f'{tree}/js*/**.py') == [
        'json/__init__.py', 'json/data/latin.py', 'json/decoder.py',
    ]  # fmt: skip


def test_a_single_file_is_named_by_its_last_part(tree: str) -> None:
    (file,) = list_files(f'{tree}/json/decoder.py', pattern='*.txt')
    assert (file.path, file.name) == (f'{tree}/json/decoder.py', 'decoder.py')


def test_a_folder_whose_name_looks_like_a_glob_is_a_folder(tmp_path: Path) -> None:
    folder = _fill(tmp_path / 'data[1]*', {'a.txt': b''})
    _fill(tmp_path, {'data1.txt': b''})
    assert _names(folder) == ['a.txt']


@pytest.mark.parametrize(
    ('part', 'pattern', 'words'),
    [
        ('absent', '*', "no file there, or none whose name matches '*'"),
        ('js*/*.rs', '*', 'no file there'),
        ('json', '*.rs', "none whose name matches '*.rs'"),
    ],
)
def test_an_input_without_a_file_is_an_error_that_names_it(
    tree: str, part: str, pattern: str, words: str
) -> None:
    with pytest.raises(StorageError) as raised:
        list(list_files(f'{tree}/{part}', pattern))
    assert f'{tree}/{part}' in str(raised.value)
    assert words in str(raised.value)


def test_an_input_whose_files_are_all_excluded_is_an_error_that_says_so(tree: str) -> None:
    with pytest.raises(StorageError, match='3 are excluded'):
        list(list_files(f'{tree}/json', exclude=['*.py']))


def test_a_file_name_that_is_not_utf8_is_an_error(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b'caf\xe9.txt')).write_bytes(b'')
    with pytest.raises(StorageError, match=r"'caf\\udce9.txt' is not UTF-8"):
        list(list_files(str(tmp_path)))


def test_the_same_files_are_found_in_a_bucket(gcs_bucket: str) -> None:
    _store(gcs_bucket, _FILES)
    assert _names(gcs_bucket) == sorted(_FILES)
    assert _names(f'{gcs_bucket}/js*/**.py', exclude=['data']) == [
        'json/__init__.py', 'json/decoder.py',
    ]  # fmt: skip
    (file,) = list_files(f'{gcs_bucket}/os.py')
    assert (file.path, file.name) == (f'{gcs_bucket}/os.py', 'os.py')
    with pytest.raises(StorageError, match='no file there'):
        list(list_files(f'{gcs_bucket}/absent'))


def test_a_whole_bucket_is_a_folder_and_objects_that_stand_for_folders_are_no_files(
    gcs_bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed: list[str] = []

    def list_folder(folder: str) -> dict[str, int]:
        listed.append(folder)
        return {'': 0, 'a/': 0, 'a/b.txt': 1}

    monkeypatch.setattr(storage, 'list_folder', list_folder)
    bucket = gcs_bucket.rpartition('/')[0]
    (file,) = list_files(bucket)
    assert (file.path, file.name) == (f'{bucket}/a/b.txt', 'a/b.txt')
    assert listed == [bucket]


# What a file becomes.


@pytest.mark.parametrize(
    ('name', 'data', 'text'),
    [
        ('a.txt', 'é\r\nb\n'.encode(), 'é\r\nb\n'),
        ('a.txt', b'\xef\xbb\xbfa', 'a'),
        ('a.txt', b'# coding: latin-1', '# coding: latin-1'),
        ('a.py', b'\xef\xbb\xbfa', 'a'),
        ('a.py', b'# coding: latin-1\n\xe9', '# coding: latin-1\né'),
        ('a.pyi', b'#!/x\n# -*- coding: koi8-r -*-\n\xc1', '#!/x\n# -*- coding: koi8-r -*-\nа'),  # noqa: RUF001
        ('a.py', b'', ''),
    ],
)
def test_a_file_is_decoded_as_it_declares_and_its_newlines_stay(
    name: str, data: bytes, text: str
) -> None:
    assert decode_text(data, name) == text


@pytest.mark.parametrize(
    ('name', 'data', 'words'),
    [
        ('a.txt', b'ab\xff', "'utf-8' codec can't decode byte 0xff in position 2"),
        ('a.txt', b'# coding: latin-1\n\xe9', "'utf-8' codec can't decode"),
        ('a.py', b'\xe9', 'invalid or missing encoding declaration'),
        ('a.py', b'# coding: uft-8\n', 'unknown encoding: uft-8'),
        ('a.py', b'# coding: rot13\n', 'not a text encoding'),
        ('a.py', b'# coding: raw_unicode_escape\n\\ud800', 'surrogates not allowed'),
        ('a.py', b'# coding: ascii\n\xe9', "can't decode byte 0xe9"),
    ],
)
def test_what_is_no_text_is_an_error_with_the_reason(name: str, data: bytes, words: str) -> None:
    with pytest.raises(EncodingError, match='not text: ') as raised:
        decode_text(data, name)
    assert words in str(raised.value)


@pytest.mark.parametrize(
    ('path', 'package'),
    [
        ('json/decoder.py', 'json'),
        ('xml/sax/handler.py', 'xml'),
        ('os.py', 'os'),
        ('README', 'README'),
        ('.bashrc', '.bashrc'),
    ],
)
def test_the_package_is_the_top_folder_or_a_top_files_own_name(path: str, package: str) -> None:
    assert package_of(path) == package


def test_size_and_sha256_are_those_of_the_bytes_not_of_the_text() -> None:
    data = b'# coding: latin-1\n\xe9'
    assert text_sample('a/b.py', data) == {
        'path': 'a/b.py',
        'package': 'a',
        'size': 19,
        'sha256': hashlib.sha256(data).hexdigest(),
        'text': '# coding: latin-1\né',
    }
    assert set(COLUMNS) == set(text_sample('a', b''))


# The transform.


def test_a_file_that_two_inputs_name_is_one_sample_named_by_the_first(tree: str) -> None:
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        read = pipeline | ReadFiles([f'{tree}/json', f'{tree}/**.py'], pattern='*.py')
        paths = read | beam.Map(lambda sample: sample['path'])
        assert_that(paths, equal_to(['__init__.py', 'decoder.py', 'data/latin.py', 'os.py']))


def test_an_undecodable_file_fails_the_job_and_is_named(tree: str) -> None:
    _fill(Path(tree), {'json/bad.txt': b'\xff'})
    with (
        pytest.raises(RecordError, match=r'tree/json/bad\.txt: not text: '),
        beam.Pipeline(runner=FnApiRunner()) as pipeline,
    ):
        _ = pipeline | ReadFiles([tree])


@pytest.mark.parametrize(
    ('inputs', 'options', 'words'),
    [
        ([], {}, 'inputs must be a list of at least one path'),
        ('a', {}, 'inputs must be a list of at least one path'),
        ([''], {}, 'input must be a path'),
        (['ftp3://x'], {}, 'Beam has no filesystem'),
        (
            ['a'],
            {'content': 'words'},
            "content='words' is unknown: expected text or bytes or lines",
        ),
        (
            ['a'],
            {'content': 'lines', 'undecodable': 'skip'},
            "undecodable='skip' is for whole text files, not for content='lines'",
        ),
        (
            ['a'],
            {'undecodable': 'ignore'},
            "undecodable='ignore' is unknown: expected fail or skip",
        ),
    ],
)
def test_a_wrong_option_of_the_source_is_an_error_before_the_job(
    inputs: Any, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(OptionError, match=words):
        ReadFiles(inputs, **options)


# The command.


def test_every_file_becomes_a_sample(tree: str, tmp_path: Path) -> None:
    read = _run(f'--input={tree}', f'--output={tmp_path}/out')
    assert read == {name: text_sample(name, data) for name, data in _FILES.items()}


def test_a_bucket_is_read_and_written(gcs_bucket: str) -> None:
    _store(f'{gcs_bucket}/in', _FILES)
    read = _run(f'--input={gcs_bucket}/in', f'--output={gcs_bucket}/out', '--exclude=.git')
    assert sorted(read) == sorted(_FILES.keys() - {'.git/config'})


def test_a_skipped_file_is_logged_by_name_counted_and_printed(
    tree: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    _fill(Path(tree), {'bad.txt': b'\xff', 'json/bad.py': b'# coding: x\n'})
    read = _run(f'--input={tree}', f'--output={tmp_path}/out', '--undecodable=skip')
    assert sorted(read) == sorted(_FILES)
    assert f'{tree}/bad.txt: not text: ' in caplog.text
    assert f'{tree}/json/bad.py: not text: unknown encoding: x; skipped' in caplog.text
    printed = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ['samples', str(len(_FILES))] in printed
    assert ['files', 'skipped', '2'] in printed
    assert ['dataset', f'{tmp_path}/out'] in printed


def test_the_write_options_reach_the_dataset(tree: str, tmp_path: Path) -> None:
    _run(
        f'--input={tree}', f'--output={tmp_path}/out', '--compression=zstd:5',
        '--hashes=sha1,xxh64', '--size_limit=2kb', '--key=path', '--seed=3', '--num_shards=2',
    )  # fmt: skip
    shards = read_index(tmp_path / 'out')
    config = shards[0].config
    assert (config.compression, config.hashes, config.size_limit) == (
        'zstd:5', ('sha1', 'xxh64'), 2048,
    )  # fmt: skip
    assert len(shards) == 2


def test_files_of_one_package_stay_together_unless_key_is_none(tmp_path: Path) -> None:
    content = {f'p{number % 3}/{number}.txt': b'x' * number for number in range(60)}
    tree = _fill(tmp_path / 'tree', content)
    runs = {}
    for key in ('package', 'none'):
        extra = [] if key == 'package' else ['--key=none']
        read = _run(f'--input={tree}', f'--output={tmp_path}/{key}', *extra)
        order = [sample['package'] for sample in read.values()]
        runs[key] = sum(a != b for a, b in itertools.pairwise(order)) + 1
    assert runs['package'] == 3
    assert runs['none'] > 10


def test_arrival_order_needs_no_key(tree: str, tmp_path: Path) -> None:
    assert sorted(_run(f'--input={tree}', f'--output={tmp_path}/out', '--order=arrival')) == sorted(
        _FILES
    )


@pytest.mark.parametrize(
    ('extra', 'words'),
    [
        (['--compresion=zstd'], 'unknown option --compresion: did you mean --compression?'),
        (['--compression=zip'], "unknown compression 'zip'"),
        (['--size_limit=7gb'], 'size_limit must be below 2**32 bytes'),
        (['--order=arrival', '--key=path'], "key has no effect with order='arrival'"),
        (
            ['--key=name'],
            "key='name' is no column: expected a function of the sample, or one of package",
        ),
        (['--hashes=sha1,crc'], "unknown hash 'crc'"),
    ],
)
def test_a_wrong_or_misspelled_option_ends_the_command_with_the_reason(
    tree: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], extra: list[str], words: str
) -> None:
    with pytest.raises(SystemExit, match='2'):
        conversion.run('files', [f'--input={tree}', f'--output={tmp_path}/out', *extra])
    assert words in capsys.readouterr().err
    assert not (tmp_path / 'out').exists()


def test_importing_a_pipeline_parses_nothing_and_defines_no_options(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr('sys.argv', ['x', '--help', '--no-such-option'])
    for name in ('options', 'report', 'files', 'python_sources'):
        importlib.reload(importlib.import_module(f'pipelines.{name}'))
    modules = {option.__module__.partition('.')[0] for option in PipelineOptions.__subclasses__()}
    assert not modules & {'beam_mds', 'pipelines'}


# Files of any kind, and lines.


def test_files_of_any_kind_are_bytes(tree: str, tmp_path: Path) -> None:
    _fill(Path(tree), {'bad.bin': b'\xff\x00'})
    read = _run(f'--input={tree}', f'--output={tmp_path}/out', '--binary')
    expected = {**_FILES, 'bad.bin': b'\xff\x00'}
    assert read == {name: bytes_sample(name, data) for name, data in expected.items()}
    assert read['bad.bin']['bytes'] == b'\xff\x00'


def test_bytes_can_be_a_column_of_images(tmp_path: Path) -> None:
    tree = _fill(tmp_path / 'in', {'a.png': _PNG})
    _run(
        f'--input={tree}', f'--output={tmp_path}/out', '--binary', '--columns=path,bytes=png',
        '--rename=bytes=image',
    )  # fmt: skip
    (sample,) = read_samples(tmp_path / 'out')
    assert sample['image'].size == (1, 1)
    assert sample['path'] == 'a.png'


# One pixel.
_PNG = bytes.fromhex(
    '89504e470d0a1a0a0000000d49484452000000010000000108000000003a7e9b55'
    '0000000a49444154789c636000000002000148afa4710000000049454e44ae426082'
)


@pytest.mark.parametrize('compress', [bytes, gzip.compress])
def test_lines_are_samples_without_the_white_space_around_them(
    compress: Any, tmp_path: Path
) -> None:
    text = '\ufeff one \r\n\n \t\nzwei\u2028drei\rvier\n\u3000fünf'
    tree = _fill(tmp_path / 'in', {'a/b.txt': compress(text.encode())})
    files.main([f'--input={tree}', f'--output={tmp_path}/out', '--lines', '--runner=FnApiRunner'])
    samples = list(read_samples(tmp_path / 'out'))
    assert sorted(sample['text'] for sample in samples) == [
        'fünf', 'one', 'vier', 'zwei\u2028drei',
    ]  # fmt: skip
    assert {tuple(sample) for sample in samples} == {('text',)}
    lines = list(ReadFiles([tree], content='lines').iterate())
    assert [line[PLACE]['line'] for line in lines] == [1, 4, 4, 5]
    assert {line['path'] for line in lines} == {'a/b.txt'}


def test_a_line_that_is_no_text_is_a_bad_record_and_all_others_are_kept(tmp_path: Path) -> None:
    tree = _fill(tmp_path / 'in', {'a.txt': b'one\n\xff\nthree\n'})
    first, bad, last = ReadFiles([tree], content='lines').iterate()
    assert (first['text'], last['text']) == ('one', 'three')
    assert (bad.error_type, bad.place) == ('encoding', {'file': f'{tree}/a.txt', 'line': 2})
    assert bad.message.startswith('the line is not UTF-8: ')


def test_bad_files_are_listed_and_the_others_written_where_that_is_allowed(
    tree: str, tmp_path: Path
) -> None:
    _fill(Path(tree), {'bad.txt': b'\xff'})
    read = _run(f'--input={tree}', f'--output={tmp_path}/out', '--max_error_ratio=0.2')
    assert sorted(read) == sorted(_FILES)
    (letter,) = map(json.loads, (tmp_path / 'out.errors.jsonl').read_text().splitlines())
    assert (letter['stage'], letter['error_type']) == ('read', 'encoding')
    assert letter['place'] == {'file': f'{tree}/bad.txt'}


def test_every_sample_has_the_place_of_its_file(tree: str) -> None:
    for content in ('text', 'bytes'):
        samples = list(ReadFiles([tree], content=content).iterate())
        assert {sample[PLACE]['file'] for sample in samples} == {
            f'{tree}/{name}' for name in _FILES
        }


def test_files_get_the_fields_of_the_split_pattern(tree: str, tmp_path: Path) -> None:
    _run(f'--input={tree}/json', f'--output={tmp_path}/out', '--split={split}.py', '--exclude=data')
    assert sorted(path.name for path in (tmp_path / 'out').iterdir() if path.is_dir()) == [
        '__init__', 'decoder',
    ]  # fmt: skip

from __future__ import annotations

import json
import logging
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from beam_mds import storage
from beam_mds.checking.findings import KINDS
from beam_mds.cli import main
from beam_mds.format import INDEX_NAME
from beam_mds.indexes import read_index
from tests.helpers.damage import shards
from tests.helpers.faulty import Fault, Faults
from tests.helpers.writing import samples, write

FN_API = ['--', '--runner=FnApiRunner']


@pytest.fixture(scope='module')
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp('made')
    for name in ('a', 'b'):
        write(samples(100), folder / name, size_limit=1500, compression='zstd', hashes=['sha1'])
    return folder


@pytest.fixture
def damaged(made: Path, tmp_path: Path) -> Path:
    """A copy of one dataset: a shard with zeros, one that is gone, and a leftover."""
    folder = Path(shutil.copytree(made / 'a', tmp_path / 'a'))
    zeros, gone = shards(folder)[:2]
    zeros.write_bytes(bytes(zeros.stat().st_size))
    gone.unlink()
    (folder / 'x.mds').write_text('x')
    return folder


def checked(folder: Path) -> dict[str, int]:
    """What a summary of a whole dataset says."""
    index = read_index(folder)
    return {
        'datasets': 1,
        'shards': len(index),
        'samples': sum(info.samples for info in index),
        'bytes': sum(info.stored.bytes for info in index),
    }


@pytest.mark.parametrize('options', [[], FN_API])
def test_a_healthy_dataset_is_one_line_and_success(
    options: list[str], made: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(['verify', str(made / 'a'), f'{made}/b/index.json', '--deep', *options]) == 0
    one = checked(made / 'a')
    counts = ', '.join(f'{2 * count:,} {name}' for name, count in one.items())
    assert counts.startswith('2 datasets, ')
    assert capsys.readouterr().out == f'nothing wrong; checked: {counts}\n'


@pytest.mark.parametrize('options', [[], FN_API])
def test_each_finding_is_a_line_and_they_are_counted(
    options: list[str], damaged: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    zeros, gone = shards(damaged)[:2]
    assert main(['verify', str(damaged), *options]) == 1
    lines = capsys.readouterr().out.splitlines()
    found = [tuple(line.split(maxsplit=2)) for line in lines[:-1]]
    wanted = [
        ('extra', f'{damaged}/x.mds:'),
        ('hash', f'{zeros}:'),
        ('compression', f'{zeros}:'),
        ('missing', f'{gone}:'),
    ]
    assert sorted(one[:2] for one in found) == sorted(wanted)
    assert [one[:2] for one in found] == wanted or options
    details = {(kind, file): detail for kind, file, detail in found}
    assert details['missing', f'{gone}:'].startswith('not there; the index says that it has ')
    assert details['hash', f'{zeros}:'].startswith('sha1 is ')
    one = checked(damaged)
    index = read_index(damaged)
    one['samples'] -= index[1].samples
    one['bytes'] -= index[1].stored.bytes
    counts = ', '.join(f'{count:,} {name}' for name, count in one.items())
    counts = counts.replace('1 datasets', '1 dataset')
    assert lines[-1] == f'4 findings (1 extra, 1 missing, 1 hash, 1 compression); checked: {counts}'


@pytest.mark.parametrize('options', [[], FN_API])
def test_json_has_the_findings_and_the_summary(
    options: list[str], damaged: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(['verify', '--json', str(damaged), *options]) == 1
    told = json.loads(capsys.readouterr().out)
    assert (
        told['findings'][0]
        == {
            'file': f'{damaged}/x.mds',
            'kind': 'extra',
            'detail': '1 bytes; no index lists this',
        }
        or options
    )
    assert [one['kind'] for one in told['findings']] == [
        'extra', 'hash', 'compression', 'missing',
    ] or options  # fmt: skip
    assert told['summary']['findings'] == len(told['findings']) == 4
    assert told['summary']['shards'] == len(read_index(damaged))


def test_findings_of_a_job_are_in_natural_order(
    damaged: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ('x9.mds', 'x10.mds'):
        (damaged / name).write_text('x')
    assert main(['verify', str(damaged), *FN_API]) == 1
    names = [
        line.split()[1].rpartition('/')[2].removesuffix(':')
        for line in capsys.readouterr().out.splitlines()[:-1]
    ]
    zeros, gone = (file.name for file in shards(damaged)[:2])
    assert names == [zeros, zeros, gone, 'x9.mds', 'x10.mds', 'x.mds']


def test_deep_decodes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write([{'i': b'no image'}], tmp_path, {'i': 'png'})
    for options in ([], FN_API):
        assert main(['verify', str(tmp_path), *options]) == 0
        assert main(['verify', str(tmp_path), '--deep', *options]) == 1
        assert 'sample 0 at byte ' in capsys.readouterr().out


def test_files_that_cannot_be_read_are_another_end_than_damage(
    made: Path, faults: Faults, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(shutil.copytree(made / 'a', faults.local / 'a'))
    first, second = shards(folder)[:2]
    faults.add(Fault('read', first.name, error='permission', times=None))
    for options in ([], FN_API):
        assert main(['verify', f'{faults.folder}/a', *options]) == 3
        assert capsys.readouterr().out.startswith(f'unreadable  {faults.folder}/a/{first.name}: ')
    second.unlink()
    assert main(['verify', f'{faults.folder}/a']) == 1


@pytest.mark.parametrize('options', [[], FN_API])
def test_what_cannot_be_done_is_told(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logging.disable(logging.CRITICAL)
    try:
        assert main(['verify', f'{tmp_path}/no*', *options]) == 3
    finally:
        logging.disable(logging.NOTSET)
    message = f'beam-mds: {tmp_path}/no*: no folder that it matches has an index.json'
    assert capsys.readouterr().err.startswith(message)


def test_findings_of_a_job_stay_in_a_file_when_one_is_named(
    damaged: Path, tmp_path: Path, gcs_bucket: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for out in (str(tmp_path / 'found.jsonl'), f'{gcs_bucket}/found.jsonl'):
        for _ in range(2):  # the second time it is there
            assert main(['verify', str(damaged), '--json', '--findings', out, *FN_API]) == 1
            told = json.loads(capsys.readouterr().out)['findings']
            lines = [json.loads(line) for line in storage.read(out).splitlines()]
            assert sorted(lines) == sorted([list(one.values()) for one in told])
            assert len(lines) == 4


def test_a_job_elsewhere_needs_a_file(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ['--', '--runner=FnApiRunner', '--environment_type=DOCKER']
    assert main(['verify', str(made / 'a'), *options]) == 2
    assert capsys.readouterr().err == (
        'beam-mds: --findings is needed: a file that the workers of FnApiRunner can write and '
        'this program can read, like gs://bucket/folder/file.jsonl\n'
    )


def test_options_that_would_do_nothing_are_refused(
    made: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments, message in [
        (['--findings', 'x'], '--findings is for a Beam job: give Beam options after --, or leave'),
        (['--threads', '2', *FN_API], '--threads is for a check at once: a Beam job has its own'),
        (['--threads', '0'], 'threads must be 1 or more, got 0'),
    ]:
        assert main(['verify', str(made / 'a'), *arguments]) == 2
        assert capsys.readouterr().err.startswith(f'beam-mds: {message}')


def test_a_job_that_fails_is_told(
    made: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def crash(*_: Any, **__: Any) -> None:
        raise RuntimeError('crashed')

    monkeypatch.setattr('beam_mds.verify.check_task', crash)
    logging.disable(logging.CRITICAL)
    try:
        assert main(['verify', str(made / 'a'), *FN_API]) == 3
    finally:
        logging.disable(logging.NOTSET)
    assert capsys.readouterr().err.startswith('beam-mds: the job failed: crashed')


def test_progress_counts_the_shards_on_a_terminal(
    damaged: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, 'isatty', lambda: True)
    assert main(['verify', str(damaged), '--threads', '1']) == 1
    out, err = capsys.readouterr()
    assert f'0/{len(read_index(damaged))}' in err
    assert ' shards' in err
    assert len(out.splitlines()) == 5


def test_help_tells_the_kinds_and_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(['verify', '--help'])
    assert ended.value.code == 0
    out = capsys.readouterr().out
    for kind, meaning in KINDS.items():
        assert f'  {kind:12}{meaning}\n' in out
    assert '  beam-mds verify gs://bucket/dataset\n' in out
    assert INDEX_NAME in out

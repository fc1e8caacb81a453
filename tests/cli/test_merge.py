from __future__ import annotations

import json
from pathlib import Path

import pytest

from beam_mds.cli import console, main
from beam_mds.cli.console import DONE, FAILED, USAGE
from tests.helpers.merging import dataset, texts


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    for part in ('part-10', 'part-9', 'val/en'):
        dataset(tmp_path / part, [part], [f'{part}, 1'])
    return tmp_path


def test_it_merges_and_says_what(parts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(['merge', f'{parts}/']) == DONE
    out, err = capsys.readouterr()
    assert out == f'{parts}/index.json: 3 parts, 6 shards, 6 samples\n'
    assert err == ''
    assert texts(parts)[0] == 'part-9'

    assert main(['merge', str(parts)]) == DONE
    said = capsys.readouterr().out
    assert said == f'{parts}/index.json: 3 parts, 6 shards, 6 samples (as it was)\n'


def test_json_is_for_scripts(parts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(['merge', str(parts), '--json']) == DONE
    assert json.loads(capsys.readouterr().out) == {
        'path': f'{parts}/index.json',
        'parts': 3,
        'shards': 6,
        'samples': 6,
        'changed': True,
    }


def test_parts_may_be_named_and_overwrite_drops_the_others(
    parts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(['merge', str(parts)])
    named = [str(parts), f'{parts}/part-*', f'{parts}/val/en/index.json']
    assert main(['merge', *named]) == DONE
    assert main(['merge', *named[:2]]) == FAILED
    assert 'lists 2 shards that no given part lists, like val/en/' in capsys.readouterr().err
    assert main(['merge', *named[:2], '--overwrite']) == DONE
    assert texts(parts) == ['part-9', 'part-9, 1', 'part-10', 'part-10, 1']


@pytest.mark.parametrize('expect', ['3', 'part-9,part-10,val/en', 'part-9, ./part-10 ,val/en,'])
def test_expected_parts_that_are_there_are_merged(parts: Path, expect: str) -> None:
    assert main(['merge', str(parts), '--expect', expect]) == DONE


def test_expected_parts_may_come_from_a_file(
    parts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = parts / 'names.txt'
    names.write_text('part-9\n\npart-10 \nval/en\n')
    assert main(['merge', str(parts), '--expect', f'@{names}']) == DONE
    names.write_text('part-9\npart-10\nval/en\nval/de\n')
    assert main(['merge', str(parts), '--expect', f'@{names}']) == FAILED
    err = capsys.readouterr().err
    assert '1 of 4 expected parts have no index.json' in err
    assert f'{parts}/val/de; what writes them' in err
    names.write_bytes(b'part-9\npart-10\nval/en\nval/\xff\n')
    assert main(['merge', str(parts), '--expect', f'@{names}']) == FAILED
    assert '1 of 4 expected parts have no index.json' in capsys.readouterr().err
    assert main(['merge', str(parts), '--expect', f'@{names}2']) == FAILED
    assert 'could not read' in capsys.readouterr().err


def test_a_missing_part_is_named_and_nothing_is_written(
    parts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(['merge', str(parts), '--expect', '4']) == FAILED
    out, err = capsys.readouterr()
    assert out == ''
    assert err.startswith(
        'beam-mds: expected 4 parts, found 3 (part-9, part-10, val/en), so no index was written: '
    )
    assert main(['merge', str(parts), '--expect', 'part-9,part-10,val/en,train']) == FAILED
    assert f'{parts}/train; what writes them failed or is not done' in capsys.readouterr().err
    assert not (parts / 'index.json').exists()


def test_copy_brings_parts_from_elsewhere(parts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ['merge', str(parts / 'out'), f'{parts}/part-*']
    assert main(command) == USAGE
    err = capsys.readouterr().err
    assert f'merge into {parts}, the nearest folder above them all, or copy their shards' in err
    assert main([*command, '--copy']) == DONE
    assert texts(parts / 'out') == ['part-9', 'part-9, 1', 'part-10', 'part-10, 1']


def test_a_damaged_part_fails(parts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (parts / 'part-9' / 'shard.00001.mds').unlink()
    assert main(['merge', str(parts)]) == FAILED
    assert capsys.readouterr().err.startswith(
        f'beam-mds: {parts}/part-9/shard.00001.mds: not there, {parts}/part-9/index.json lists '
    )


@pytest.mark.parametrize(
    ('arguments', 'said'),
    [
        (['--expect', '0'], 'expect must be a number of parts'),
        (['--expect', ','], 'expect must be a number of parts, or a list of their folders, got []'),
    ],
)
def test_a_wrong_command_line_is_told(
    arguments: list[str], said: str, parts: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(['merge', str(parts), *arguments]) == USAGE
    assert said in capsys.readouterr().err


def test_no_options_of_beam_are_taken(parts: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(['merge', str(parts), '--', '--runner=FnApiRunner'])
    assert end.value.code == USAGE
    assert 'no Beam job is run here, so nothing may follow --' in capsys.readouterr().err


def test_progress_is_told_in_lines_where_there_is_no_terminal(
    parts: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, '_LINE_EVERY', 0)
    assert main(['merge', str(parts / 'out'), f'{parts}/part-*', '--copy']) == DONE
    assert capsys.readouterr().err.splitlines() == [
        '1 of 2 datasets',
        '2 of 2 datasets',
        *(f'{number} shards copied' for number in (1, 2, 3, 4)),
    ]


def test_help_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(['merge', '--help'])
    assert ended.value.code == DONE
    assert 'beam-mds merge gs://bucket/dataset --expect 12' in capsys.readouterr().out

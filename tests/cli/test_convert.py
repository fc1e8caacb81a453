"""`beam-mds convert` runs the conversions by their names."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import pipelines
from beam_mds import read_samples
from beam_mds.cli import convert, main


def _read(folder: Path) -> list[dict[str, Any]]:
    return list(read_samples(folder))


def _source(folder: Path, text: str) -> str:
    (folder / 'a.jsonl').write_text(text)
    return f'--input={folder}/a.jsonl'


def test_every_conversion_is_there_by_its_name() -> None:
    modules = [module.name for module in pkgutil.iter_modules(pipelines.__path__)]
    conversions = [
        m for m in modules if hasattr(importlib.import_module(f'pipelines.{m}'), 'build')
    ]
    there = {convert.MODULES.get(name, name) for name in convert.CONVERSIONS}
    assert there == set(conversions) - {'reshard'}


def test_a_conversion_is_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = _source(tmp_path, '{"n": 1}\n{"n": 2}\n')
    argv = ['convert', 'jsonl', source, f'--output={tmp_path}/out', '--', '--direct_num_workers=2']
    assert main(argv) == 0
    assert sorted(row['n'] for row in _read(tmp_path / 'out')) == [1, 2]
    assert 'records read 2 ' in ' '.join(capsys.readouterr().out.split())
    assert main(argv) == 3
    assert 'index.json exists' in capsys.readouterr().err


def test_refused_records_are_findings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ['convert', 'jsonl', _source(tmp_path, '{"n": 1}\n{\n'), f'--output={tmp_path}/out']
    assert main(argv) == 3
    assert '1 of 2 samples were refused' in capsys.readouterr().err
    assert main([*argv, '--max_error_ratio=0.5']) == 1


def test_a_dry_run_is_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ['convert', 'jsonl', _source(tmp_path, '{"n": 1}\n'), f'--output={tmp_path}/out']
    assert main([*argv, '--dry_run_sample', '5']) == 0
    assert 'n (int)' in capsys.readouterr().out
    assert not (tmp_path / 'out').exists()


@pytest.mark.parametrize(
    ('argv', 'message'),
    [
        (['convert'], 'the following arguments are required: KIND'),
        (['convert', 'nothing'], 'invalid choice'),
        (['convert', 'jsonl', '--output=x'], '--input is needed'),
        (['convert', 'jsonl', '--output=x', '--input=y', '--colums=n'], 'did you mean --columns?'),
        (['convert', 'jsonl', '--output=x', '--input=y', '--runner=z'], 'options for Beam follow'),
    ],
)
def test_a_wrong_command_line_is_explained(
    capsys: pytest.CaptureFixture[str], argv: list[str], message: str
) -> None:
    try:
        code = main(argv)
    except SystemExit as end:
        code = end.code  # type: ignore[assignment]
    assert code == 2
    assert message in capsys.readouterr().err


def test_help_shows_options_and_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(['convert', 'jsonl', '--help'])
    assert end.value.code == 0
    out = capsys.readouterr().out
    assert '--max_error_ratio' in out
    assert 'beam-mds convert jsonl --input' in out


def test_help_of_the_program_does_not_import_beam() -> None:
    code = (
        'import sys\n'
        'from beam_mds.cli import main\n'
        'try:\n'
        '    main(["--help"])\n'
        'except SystemExit:\n'
        '    print("apache_beam" in sys.modules)\n'
    )
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == 'False'

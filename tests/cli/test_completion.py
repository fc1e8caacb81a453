from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from beam_mds.cli import main
from beam_mds.cli.main import make_parser


def script(capsys: pytest.CaptureFixture[str], shell: str) -> str:
    assert main(['completion', shell]) == 0
    return capsys.readouterr().out


def completions(script: str, *words: str, cwd: Path | None = None) -> set[str]:
    """What bash offers for the last of these words."""
    quoted = ' '.join(f"'{word}'" for word in ('beam-mds', *words))
    lines = [
        script,
        f'COMP_WORDS=({quoted}); COMP_CWORD={len(words)}; COMP_LINE="${{COMP_WORDS[*]}}"',
        'COMP_POINT=${#COMP_LINE}',
        # The function that bash itself would call.
        'read -ra how <<< "$(complete -p beam-mds)"',
        'for at in "${!how[@]}"; do [[ ${how[at]} == -F ]] && function=${how[at + 1]}; done',
        '"$function" beam-mds "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"',
        'printf "%s\\n" "${COMPREPLY[@]}"',
    ]
    done = subprocess.run(
        ['bash'], input='\n'.join(lines), capture_output=True, text=True, check=True, cwd=cwd
    )
    return set(done.stdout.split())


def test_the_script_is_one_of_bash(capsys: pytest.CaptureFixture[str]) -> None:
    done = subprocess.run(
        ['bash', '-n'], input=script(capsys, 'bash'), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, '')


def test_bash_completes_commands_options_and_files(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    found = script(capsys, 'bash')
    commands = set(make_parser().get_default('commands'))
    assert completions(found, '') >= commands
    assert completions(found, 'insp') == {'inspect'}
    assert completions(found, 'inspect', '--j') == {'--json'}
    assert completions(found, 'completion', '') >= {'bash', 'zsh'}
    (tmp_path / 'dataset').mkdir()
    (tmp_path / 'other.mds').touch()
    assert completions(found, 'inspect', 'oth', cwd=tmp_path) == {'other.mds'}


def test_the_script_of_zsh_names_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    found = script(capsys, 'zsh')
    assert found.startswith('#compdef beam-mds')
    for command in make_parser().get_default('commands'):
        assert f"\n    {command}:'" in found
    if zsh := shutil.which('zsh'):
        done = subprocess.run([zsh, '-n'], input=found, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, '')


def test_another_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(['completion', 'cmd'])
    assert caught.value.code == 2
    assert "invalid choice: 'cmd'" in capsys.readouterr().err

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from beam_mds import FormatError, OptionError, StorageError, __version__
from beam_mds.cli import main
from beam_mds.cli.main import make_parser
from tests.cli.programs import PROGRAM, shell, use_command
from tests.helpers.datasets import write_dataset
from tests.helpers.faulty import Fault, Faults

COMMANDS: list[str] = make_parser().get_default('commands')


def exit_of(*arguments: str) -> int:
    """The exit code, also where argparse ends the program."""
    try:
        return main(arguments)
    except SystemExit as error:
        return int(str(error.code))


def raising(error: BaseException) -> Any:
    def run(_: argparse.Namespace) -> int:
        raise error

    return run


@pytest.mark.parametrize('code', [0, 1])
def test_the_exit_code_is_that_of_the_command(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    use_command(monkeypatch, lambda _: code)
    assert exit_of('try', 'x') == code


@pytest.mark.parametrize(
    ('error', 'code'),
    [
        (OptionError('wrong option'), 2),
        (FormatError('damaged'), 3),
        (StorageError('not there'), 3),
    ],
)
def test_an_error_of_ours_is_one_line_and_a_code(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: Exception,
    code: int,
) -> None:
    use_command(monkeypatch, raising(error))
    assert exit_of('try', 'x') == code
    assert capsys.readouterr() == ('', f'beam-mds: {error}\n')


def test_any_other_error_is_shown_whole_and_is_no_finding(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use_command(monkeypatch, raising(ZeroDivisionError('a bug')))
    assert exit_of('try', 'x') == 3
    err = capsys.readouterr().err
    assert err.startswith('Traceback')
    assert err.endswith('ZeroDivisionError: a bug\n')


def test_control_characters_in_an_error_are_escaped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for error in (OptionError('a \x1b[31m\n  b'), FormatError('a \x1b[31m\n  b')):
        use_command(monkeypatch, raising(error))
        exit_of('try', 'x')
        assert capsys.readouterr().err == 'beam-mds: a \\x1b[31m\n  b\n'


def test_the_exit_codes_are_documented(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_of('--help') == 0
    out = capsys.readouterr().out
    lines = out[out.index('exit codes:') :].splitlines()
    assert [line.split()[0] for line in lines[1:6]] == ['0', '1', '2', '3', '130']


@pytest.mark.parametrize('command', COMMANDS)
def test_the_help_of_each_command_has_examples(
    capsys: pytest.CaptureFixture[str], command: str
) -> None:
    assert exit_of(command, '--help') == 0
    out = capsys.readouterr().out
    examples = out[out.index('\nexamples:\n') :].splitlines()[2:]
    assert examples
    assert all(example.startswith(f'  beam-mds {command} ') for example in examples)
    assert exit_of('--help') == 0
    assert f'    {command} ' in f'{capsys.readouterr().out} '.replace('\n', ' \n')


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_of('--version') == 0
    assert capsys.readouterr().out == f'beam-mds {__version__}\n'


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        ([], 'the following arguments are required: COMMAND'),
        (['tyr', 'x'], 'no command tyr: did you mean try?'),
        (['xyzzy'], f'no command xyzzy: there are {", ".join(COMMANDS)}, try'),
        (['--flag', 'xyzzy'], 'no command xyzzy: there are'),
        (['try'], 'the following arguments are required: path'),
        (['try', 'x', '--falg'], 'no option --falg: did you mean --flag?'),
        (['try', 'x', '--flga=3'], 'no option --flga: did you mean --flag?'),
        (['try', 'x', '--fla'], 'no option --fla: did you mean --flag?'),
        (['try', 'x', '--runner=DirectRunner'], 'no option --runner (options for Beam follow --)'),
        (['try', 'x', '7', '8'], 'one argument too many: 8'),
        (['try', 'x', 'y'], "argument number: invalid int value: 'y'"),
        (['try', 'x', '--other', 'y'], "argument --other: invalid int value: 'y'"),
        (['try', 'x', '--flag=3'], "argument --flag: ignored explicit argument '3'"),
    ],
)
def test_a_wrong_command_line_is_said_to_be_so_with_a_hint(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    use_command(monkeypatch, raising(AssertionError('was run')))
    assert exit_of(*arguments) == 2
    out, err = capsys.readouterr()
    usage, *_, last = err.splitlines()
    assert out == ''
    assert usage.startswith('usage: beam-mds ')
    assert f'error: {message}' in last


def test_options_may_stand_between_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[argparse.Namespace] = []
    use_command(monkeypatch, lambda args: len(seen.append(args) or ''))
    for arguments in (
        ['x', '-7', '--flag', '--other', '3'],
        ['x', '--flag', '-7', '--other=3'],
        ['--other', '3', 'x', '--flag', '-7'],
        ['--flag', '--other', '3', 'x', '-7'],
    ):
        assert exit_of('try', *arguments) == 0
        args = seen.pop()
        assert (args.path, args.number, args.flag, args.other) == ('x', -7, True, 3)
    assert exit_of('try', 'x', '--flag') == 0
    assert seen.pop().number is None


def test_a_parser_can_be_used_again() -> None:
    parser = make_parser()
    for number in (7, 8):
        assert parser.parse_args(['inspect', 'x', '--json', str(number)]).number == number


def test_what_follows_two_dashes_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[argparse.Namespace] = []
    use_command(monkeypatch, lambda args: len(seen.append(args) or ''))
    for given, wanted in (
        ([], []),
        (['--'], []),
        (['--', '--flag', 'x', '--', '-y'], ['--flag', 'x', '--', '-y']),
    ):
        assert exit_of('try', 'x', *given) == 0
        args = seen.pop()
        assert (args.beam_options, args.flag, args.number) == (wanted, False, None)


@pytest.mark.parametrize('command', ['inspect x', 'completion bash'])
def test_a_command_without_a_job_takes_no_options_for_one(
    capsys: pytest.CaptureFixture[str], command: str
) -> None:
    assert exit_of(*command.split(), '--', '--runner=x') == 2
    out, err = capsys.readouterr()
    assert out == ''
    assert err.endswith('error: no Beam job is run here, so nothing may follow --\n')


def in_shell(command: str, **env: str) -> subprocess.CompletedProcess[str]:
    return shell(command, env={**os.environ, **env})


@pytest.mark.parametrize('command', ['completion bash | head -1', 'inspect --help | true'])
@pytest.mark.parametrize('unbuffered', ['', '1'])
def test_a_reader_that_goes_away_is_no_error(command: str, unbuffered: str) -> None:
    done = in_shell(f'set -o pipefail; beam_mds {command}', PYTHONUNBUFFERED=unbuffered)
    assert (done.returncode, done.stderr) == (0, '')


def test_what_an_output_cannot_show_is_escaped(tmp_path: Path) -> None:
    write_dataset(tmp_path, [[{'a': 'ä \u4e16'}]], {'a': 'str'})
    done = in_shell(f'beam_mds inspect {tmp_path} 0', PYTHONIOENCODING='ascii')
    assert done.returncode == 0
    assert r'\xe4 \u4e16' in done.stdout
    done = in_shell('beam_mds inspect /ä', PYTHONIOENCODING='ascii')
    assert done.stderr.startswith(r'beam-mds: /\xe4: there is no index.json')


def test_ctrl_c_ends_it_without_a_traceback(faults: Faults) -> None:
    write_dataset(faults.local, [[{'a': 1}]], {'a': 'int'})
    faults.add(Fault('open', 'index', delay=60))
    program = subprocess.Popen(
        [*PROGRAM, 'inspect', faults.folder],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Shells start what runs in the background with this signal ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )
    try:
        deadline = time.monotonic() + 60
        while not faults.calls('open') and time.monotonic() < deadline:
            time.sleep(0.05)
        program.send_signal(signal.SIGINT)
        out, err = program.communicate(timeout=30)
    finally:
        program.kill()
    assert (program.returncode, out, err) == (130, '', 'beam-mds: interrupted\n')

"""`beam-mds reshard` writes a dataset anew, and tells how that ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam_mds.cli import main
from tests.helpers.writing import read, samples, write
from tests.test_reshard import damage

ROWS = samples(60)


def test_a_dataset_is_written_anew(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(ROWS, tmp_path / 'old', size_limit=1500)
    argv = ['reshard', f'--input={tmp_path}/old', f'--output={tmp_path}/new', '--size_limit=1mb']
    assert main([*argv, '--where', 'number < 50', '--', '--direct_num_workers=2']) == 0
    assert read(tmp_path / 'new') == ROWS[:50]
    out = ' '.join(capsys.readouterr().out.split())
    assert 'samples read 60 samples 50 shards 1' in out
    assert main(argv) == 3
    assert "index.json exists: it holds a dataset, and if_exists='error'" in capsys.readouterr().err


def test_damaged_samples_that_are_left_out_are_findings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, good = damage(tmp_path / 'old')
    argv = ['reshard', f'--input={tmp_path}/old', f'--output={tmp_path}/new']
    where = ['--where', "name != 'x'"]
    assert main([*argv, *where]) == 3
    assert f'beam-mds: {tmp_path}/old/shard.' in capsys.readouterr().err
    assert main([*argv, *where, f'--errors_output={tmp_path}/errors']) == 1
    assert f'damaged samples  {150 - len(good)}' in capsys.readouterr().out.replace('   ', '')
    assert len(read(tmp_path / 'new')) == len(good)


@pytest.mark.parametrize(
    ('extra', 'code', 'message'),
    [
        (['--where', 'numbr > 1'], 2, 'numbr'),
        (['--compression', 'zip'], 2, "unknown compression 'zip'"),
        (['--input', 'nothing'], 3, 'could not read'),
    ],
)
def test_what_is_wrong_is_said(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    extra: list[str],
    code: int,
    message: str,
) -> None:
    write(ROWS, tmp_path / 'old')
    argv = ['reshard', f'--input={tmp_path}/old', f'--output={tmp_path}/new', *extra]
    assert main(argv) == code
    assert message in capsys.readouterr().err

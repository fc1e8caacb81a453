from __future__ import annotations

import sysconfig
from pathlib import Path

import pytest

from beam_mds import read_samples
from beam_mds.indexes import read_index
from pipelines import python_sources

_SOURCES = {
    'os.py': b'import sys\n',
    'json/decoder.py': b'',
    'json/tests/latin.py': b'# coding: latin-1\nx = "\xe9"\n',
    'json/tests/bad_coding.py': b'# coding: uft-8\n',
    'site-packages/numpy/__init__.py': b'',
    'dist-packages/six.py': b'',
    'json/__pycache__/odd.py': b'',
    'pydoc_data/style.css': b'',
}


@pytest.fixture
def stdlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / 'lib'
    for name, data in _SOURCES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    monkeypatch.setattr(sysconfig, 'get_path', lambda *_: str(folder))
    return folder


def test_the_demo_writes_the_standard_library_only_and_says_what_it_skipped(
    stdlib: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / 'out'
    python_sources.main([f'--output={out}'])
    paths = {sample['path'] for sample in read_samples(out, validate_hash='xxh64')}
    assert paths == {'os.py', 'json/decoder.py', 'json/tests/latin.py'}
    assert read_index(out)[0].config.compression == 'zstd'
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ['samples', '3'] in lines
    assert ['packages', '2'] in lines
    assert ['files', 'skipped', '1'] in lines
    assert ['json/tests/bad_coding.py'] in lines
    assert ['dataset', str(out)] in lines


def test_the_demo_notices_a_sample_that_is_not_its_file(stdlib: Path, tmp_path: Path) -> None:
    out = tmp_path / 'out'
    python_sources.main([f'--output={out}'])
    (stdlib / 'os.py').write_bytes(b'import syz\n')
    with pytest.raises(SystemExit, match=r'os\.py: the sample is not what the file is'):
        python_sources.check(str(out), str(stdlib))


def test_the_demo_notices_a_file_that_is_missing(stdlib: Path, tmp_path: Path) -> None:
    out = tmp_path / 'out'
    python_sources.main([f'--output={out}'])
    (stdlib / 'new.py').write_bytes(b'')
    _, left_out = python_sources.check(str(out), str(stdlib))
    assert left_out == ['json/tests/bad_coding.py', 'new.py']

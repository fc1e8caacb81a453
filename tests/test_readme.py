"""README.md does what it says: its code runs, its tables are complete, what it names is there."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
from pathlib import Path

import pytest

from beam_mds import ReadFromMDS, WriteToMDS
from beam_mds.checking.findings import KINDS
from beam_mds.cli import main
from beam_mds.format import ENCODINGS
from beam_mds.indexes import read_index
from beam_mds.schema import type_table

_ROOT = Path(__file__).parent.parent
_README = (_ROOT / 'README.md').read_text(encoding='utf-8')
_BLOCKS = re.findall(r'^```python\n(.*?)^```$', _README, re.MULTILINE | re.DOTALL)
_READER = 'from streaming import'
_INTEROP = 'BEAM_MDS_INTEROP_PYTHON'


def _section(title: str) -> str:
    found = re.search(rf'^## {title}\n(.*?)(?=^## |\Z)', _README, re.MULTILINE | re.DOTALL)
    assert found is not None, title
    return found[1]


def _rows(title: str, number: int = 0) -> list[list[str]]:
    """The rows of the first table in a section, or of a later one."""
    tables = re.findall(r'(?:^\|.*\n)+', _section(title), re.MULTILINE)
    lines = tables[number].splitlines()
    return [[cell.strip() for cell in line.strip('|').split('|')] for line in lines[2:]]


def _columns(folder: Path) -> dict[str, str]:
    (shard,) = read_index(folder)
    return shard.config.columns.as_dict()


def _run_ours(blocks: list[str]) -> None:
    """Runs the blocks that need no torch, one after another, as a reader would type them in."""
    names: dict[str, object] = {}
    for number, block in enumerate(blocks):
        if _READER not in block:
            exec(compile(block, f'README.md, block {number}', 'exec'), names)


def test_the_code_runs_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    _run_ours(_BLOCKS)
    assert (tmp_path / 'dataset' / 'index.json').exists()
    assert (tmp_path / 'by-user' / 'index.json').exists()
    assert _columns(tmp_path / 'rows') == {'id': 'int64', 'text': 'str'}
    assert _columns(tmp_path / 'users') == {'score': 'float32', 'user': 'str'}


@pytest.mark.interop
def test_the_real_reader_reads_it_as_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = os.environ.get(_INTEROP)
    if not python:
        pytest.skip(f'{_INTEROP} names no interpreter with mosaicml-streaming')
    monkeypatch.chdir(tmp_path)
    (block,) = (block for block in _BLOCKS if _READER in block)
    _run_ours(_BLOCKS[: _BLOCKS.index(block)])
    # Where torchvision does not match torch (Debian has none), a stub: it is imported, not used.
    judge = _ROOT / 'tests' / 'interop'
    ran = subprocess.run(
        [python, '-W', 'ignore', '-c', f'import judge\njudge._stub_torchvision()\n{block}'],
        capture_output=True, text=True, check=False, env={**os.environ, 'PYTHONPATH': str(judge)},
    )  # fmt: skip
    assert ran.stdout.split()[:2] == ['1000', 'text'], ran.stderr


def test_the_own_pipeline_is_about_ten_lines() -> None:
    assert len(_BLOCKS[0].splitlines()) <= 11


@pytest.mark.parametrize(
    ('title', 'transform'), [('Options', WriteToMDS), ('Reading with Beam', ReadFromMDS)]
)
def test_the_options_table_is_the_signature(title: str, transform: type) -> None:
    parameters = list(inspect.signature(transform).parameters.values())
    empty = inspect.Parameter.empty
    expected = [
        [f'`{p.name}`', '' if p.default is empty else f'`{p.default!r}`'] for p in parameters
    ]
    assert [row[:2] for row in _rows(title)] == expected


def test_the_encodings_table_has_every_encoding_of_the_format() -> None:
    named = set(re.findall(r'`([^`]+)`', ' '.join(row[0] for row in _rows('Encodings'))))
    between = {f'{sign}int{bits}' for sign in ('', 'u') for bits in (16, 32)}  # int8 ... int64
    assert {name.partition(':')[0] for name in named} | between == set(ENCODINGS)


def test_the_table_of_types_is_the_one_that_is_used() -> None:
    (table,) = re.findall(r'^<!-- types.*?-->\n(.*?)^<!--', _README, re.MULTILINE | re.DOTALL)
    assert table == type_table()


def test_the_table_of_findings_is_the_one_that_is_used() -> None:
    rows = dict(row for row in _rows('Merging, checking and mending', 1))
    assert {kind.strip('`'): meaning for kind, meaning in rows.items()} == KINDS


def test_every_command_of_the_program_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    named = {row[0].split()[1].strip('`') for row in _rows('Merging, checking and mending')}
    with pytest.raises(SystemExit):
        main(['nothing'])
    there = capsys.readouterr().err.rpartition('there are ')[2].strip().split(', ')
    assert {*named, 'completion'} == set(there)


def test_every_promise_names_tests_that_are_there() -> None:
    rows = _rows('What it promises')
    assert [row[0][:2] for row in rows] == [f'{number}.' for number in range(1, 9)]
    for promise, _, shown_by in rows:
        paths = re.findall(r'`([^`]+)`', shown_by)
        assert paths, promise
        for path in paths:
            assert (_ROOT / path).exists(), f'{promise}: {path}'


def test_links_and_commands_lead_somewhere() -> None:
    for target in re.findall(r'\]\(([^)#]+)\)', _README):
        assert (_ROOT / target).exists(), target
    headings = {
        re.sub(r'[^\w-]', '', title.lower().replace(' ', '-'))
        for title in re.findall(r'^## (.+)$', _README, re.MULTILINE)
    }
    assert set(re.findall(r'\]\(#([^)]+)\)', _README)) <= headings
    makefile = (_ROOT / 'Makefile').read_text(encoding='utf-8')
    for target in re.findall(r'^ {4}make (\w+)', _README, re.MULTILINE):
        assert re.search(rf'^{target}:', makefile, re.MULTILINE), target

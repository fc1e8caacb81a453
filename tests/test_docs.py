"""docs/ does what it says: the code runs, every conversion and all options are there."""

from __future__ import annotations

import argparse
import importlib
import re
from pathlib import Path

import pytest

from beam_mds import read_samples
from beam_mds.cli import convert
from pipelines import conversion

_CONVERSIONS = Path(__file__).parent.parent / 'docs' / 'conversions.md'
_TEXT = _CONVERSIONS.read_text(encoding='utf-8')
_BLOCKS = re.findall(r'^```python\n(.*?)^```$', _TEXT, re.MULTILINE | re.DOTALL)


def test_the_code_of_the_conversions_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in _BLOCKS:
        exec(compile(block, _CONVERSIONS.name, 'exec'), names)
    assert [sample['text'] for sample in read_samples('out')] == ['hello']
    assert len(Path('errors.jsonl').read_text().splitlines()) == 2
    assert len(list(read_samples('photos-mds'))) == 2
    assert {len(sample['tokens']) for sample in read_samples('tokens-mds')} == {64}


def test_every_conversion_has_its_section() -> None:
    modules = {convert.MODULES.get(name, name) for name in convert.CONVERSIONS}
    assert set(re.findall(r'^## (.*)$', _TEXT, re.MULTILINE)) >= modules


@pytest.mark.parametrize('name', convert.CONVERSIONS)
def test_options_in_commands_are_there(name: str) -> None:
    parser = argparse.ArgumentParser()
    module = importlib.import_module(f'pipelines.{convert.MODULES.get(name, name)}')
    conversion.add_options(parser, module)
    there = {option for action in parser._actions for option in action.option_strings}
    text = _TEXT.replace('\\\n', ' ')
    commands = re.findall(rf'^    beam-mds convert {name} (.*?)(?: -- .*)?$', text, re.MULTILINE)
    assert commands
    for command in commands:
        assert set(re.findall(r'--\w+', command)) <= there, command

"""What a user's mypy says of the public API, in strict mode."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import typing
from pathlib import Path

import pytest

from beam_mds import WriteToMDS
from beam_mds.writing.options import Order

_ROOT = Path(__file__).parent.parent
_BLOCKS = re.findall(
    r'^```python\n(.*?)^```$', (_ROOT / 'README.md').read_text('utf-8'), re.MULTILINE | re.DOTALL
)

# Beam's functions have no types. The package's own errors are not a user's.
_SETTINGS = """
[mypy]
strict = true
ignore_missing_imports = true
[mypy-apache_beam.*]
follow_imports = skip
[mypy-beam_mds.*]
follow_imports = silent
"""

_IMPORTS = """
from collections.abc import Mapping
from typing import Any

import beam_mds
import pyarrow as pa
from beam_mds import DeadLetter, WriteResult, WriteToMDS, WrittenShard, hash_split, read_samples
from typing_extensions import assert_type
"""

_RIGHT = """
def option(sample: Mapping[str, Any]) -> str:
    return str(sample['n'])

WriteToMDS('out', {'a': 'int'}, order='arrival', if_exists='append', extra='ignore')
WriteToMDS('out', {'a': 'int'}, order='sorted', key='a', hashes=['sha1'], size_limit=None)
WriteToMDS('out', {'a': ..., 'b': None}, split=option, key=option, num_shards={'train': 3})
WriteToMDS('out', pa.schema({'a': pa.int8()}), split=hash_split({'train': 1}, key='a'))
WriteToMDS('out', split=lambda sample: 'train', key=lambda sample: (1, sample['n']))
columns: dict[str, str] = {'a': 'int'}
assert_type(WriteToMDS('out', columns).with_exception_handling(threshold=0.5), WriteToMDS)

def results(result: WriteResult, shard: WrittenShard, letter: DeadLetter) -> None:
    print(result.index, result.shards, result.errors, result['index'])
    assert_type(shard.samples, int)
    assert_type(shard.hashes, dict[str, str])
    assert_type(letter.message, str)

assert_type(beam_mds.__version__, str)
assert_type(next(read_samples('out')), dict[str, Any])
assert_type(hash_split({'train': 1.0}, key='a')({'a': 1}), str)
assert_type(beam_mds.EncodingError('wrong', 'a').column, str | None)
"""

_ORDERS = "Literal['shuffled', 'arrival', 'sorted']"

_WRONG = {
    "WriteToMDS('out', {'a': 'int'}, order='sortd')": _ORDERS,
    "WriteToMDS('out', {'a': 'int'}, if_exists='replace')": (
        "Literal['error', 'overwrite', 'append']"
    ),
    "WriteToMDS('out', {'a': 'int'}, extra='drop')": "Literal['error', 'ignore']",
    "WriteToMDS('out', {'a': int})": '"str": "type[int]"',
    "WriteToMDS('out', ['a'])": '"list[str]"',
    "WriteToMDS('out', {'a': 'int'}, split=lambda sample: 3)": 'got "int", expected "str"',
    "WriteToMDS('out', {'a': 'int'}, compression=3)": 'Argument "compression"',
    "WriteToMDS('out', {'a': 'int'}, shards=3)": 'Unexpected keyword argument "shards"',
    "WriteToMDS('out', {'a': 'int'}, 'zstd')": 'Too many positional arguments',
    'WriteResult({}).nope': '"WriteResult" has no attribute "nope"',
    "hash_split({'train': 'all'}, key='a')": '"str": "str"',
    'beam_mds.WriteToMDZ': 'Module has no attribute "WriteToMDZ"',
    'from beam_mds import WriteMDS': 'has no attribute "WriteMDS"',
}

_FIRST = _IMPORTS.count('\n') + 1  # the line of the first wrong code


@pytest.fixture(scope='module')
def errors(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[int, str]]:
    """What mypy says: module -> line -> message, from one run over all."""
    folder = tmp_path_factory.mktemp('mypy')
    modules = {
        'readme': '\n'.join(_BLOCKS),
        'right': _IMPORTS + _RIGHT,
        'wrong': _IMPORTS + '\n'.join(_WRONG),
    }
    for name, code in modules.items():
        (folder / f'{name}.py').write_text(code, encoding='utf-8')
    (folder / 'mypy.ini').write_text(_SETTINGS)
    ran = subprocess.run(
        [sys.executable, '-m', 'mypy', '--no-error-summary', '--no-pretty', '--no-color-output',
         '--config-file=mypy.ini', '--cache-dir=cache', *(f'{name}.py' for name in modules)],
        cwd=folder, env={**os.environ, 'MYPYPATH': str(_ROOT)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode in (0, 1), ran.stderr
    found: dict[str, dict[int, str]] = {name: {} for name in modules}
    for name, line, message in re.findall(r'^(\w+)\.py:(\d+): error: (.*)$', ran.stdout, re.M):
        found[name][int(line)] = found[name].get(int(line), '') + message
    assert ran.stderr == ''
    return found


@pytest.mark.parametrize('module', ['readme', 'right'])
def test_right_code_passes(module: str, errors: dict[str, dict[int, str]]) -> None:
    assert errors[module] == {}


@pytest.mark.parametrize('code', _WRONG)
def test_wrong_code_is_an_error_at_its_line(code: str, errors: dict[str, dict[int, str]]) -> None:
    assert _WRONG[code] in errors['wrong'][_FIRST + list(_WRONG).index(code)]


def test_only_the_wrong_lines_are_errors(errors: dict[str, dict[int, str]]) -> None:
    assert set(errors['wrong']) == set(range(_FIRST, _FIRST + len(_WRONG)))


def test_the_types_of_the_options_can_be_had_at_run_time() -> None:
    assert typing.get_type_hints(WriteToMDS.__init__)['order'] is Order

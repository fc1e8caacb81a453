"""The judge: mosaicml-streaming in an environment of its own, asked through one process."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

_PYTHON = 'BEAM_MDS_INTEROP_PYTHON'
_VERSION = '0.13.0'


# Datasets that one judge reads before another takes its place: StreamingDataset leaves some hundred
# files open each time.
_READS = 6


class Judge:
    """Asks `judge.py`, which runs in the other environment."""

    def __init__(self, python: str, folder: Path) -> None:
        self._python, self._folder = python, folder
        self._files = self._reads = 0
        self._process = self._start()

    def _start(self) -> subprocess.Popen[str]:
        with (self._folder / 'stderr').open('a') as log:
            return subprocess.Popen(
                [self._python, '-W', 'ignore', str(Path(__file__).with_name('judge.py'))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def close(self) -> None:
        """Ends the process."""
        self._process.communicate(timeout=60)

    def ask(self, command: str, **arguments: Any) -> Any:
        """The answer to one command; paths may be Path objects."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({'command': command, **arguments}, default=str) + '\n')
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            pytest.fail(f'the judge ended with code {self._process.wait()} at {command!r}')
        answer = json.loads(line)
        if 'error' in answer:
            pytest.fail(f'the judge at {command!r}:\n{answer["error"]}')
        return answer['answer']

    def write(self, samples: Sequence[Any], out: Path, columns: dict[str, str], **how: Any) -> None:
        """Has MDSWriter write the samples."""
        self.ask('write', samples=self.store(samples), out=out, columns=columns, **how)

    def read(self, local: Path, **how: Any) -> Any:
        """What StreamingDataset gives, sample by sample, each as `judge.portable` has it."""
        if self._reads == _READS:
            self.close()
            self._process, self._reads = self._start(), 0
        self._reads += 1
        path = self.new_file()
        self.ask('read', local=local, samples=path, **how)
        return pickle.loads(path.read_bytes())

    def tokenize(self, tokenizer: Path, texts: Sequence[str]) -> list[list[int]]:
        """The ids of texts, as `transformers` gives them by default."""
        path = self.new_file()
        self.ask('tokenize', tokenizer=tokenizer, texts=self.store(list(texts)), ids=path)
        found: list[list[int]] = pickle.loads(path.read_bytes())
        return found

    def store(self, value: Any) -> Path:
        """A pickle file for the judge."""
        path = self.new_file()
        path.write_bytes(pickle.dumps(value, protocol=4))
        return path

    def new_file(self) -> Path:
        """A path that nobody uses yet."""
        self._files += 1
        return self._folder / f'{self._files}'


@pytest.fixture(scope='session')
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    """The judge, started once; tests that use it are skipped where it is not installed."""
    python = os.environ.get(_PYTHON)
    if not python:
        pytest.skip(f'{_PYTHON} names no interpreter with mosaicml-streaming {_VERSION}')
    found = subprocess.run(
        [
            python,
            '-c',
            'from importlib.metadata import version as v; print(v("mosaicml-streaming"))',
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if found.stdout.strip() != _VERSION:
        pytest.fail(
            f'{_PYTHON}={python} has mosaicml-streaming {found.stdout.strip() or "not installed"}, '
            f'expected {_VERSION} {found.stderr[-500:]}'
        )
    judge = Judge(python, tmp_path_factory.mktemp('judge'))
    yield judge
    judge.close()

"""`pipelines.text_tokens` against llm-foundry's scripts (v0.15, `llmfoundry/data/data.py` and
`llmfoundry/command_utils/data_prep/`): small raw data like theirs -> ours -> StreamingDataset.

What their scripts do is written down here once more, with ids from `transformers`, as there.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_mds.indexes import read_index
from pipelines import jsonl, text_tokens
from tests.helpers.tokens import EOS, documents, train, write_jsonl
from tests.interop.conftest import Judge
from tests.interop.judge import portable

pytestmark = pytest.mark.interop

_TEXTS = documents(150)

# Characters of a file that convert_text_to_mds tokenizes at once.
_CHUNK = 1_000_000


def _concat(ids: Iterable[list[int]], size: int, *, no_wrap: bool = False) -> list[Any]:
    """What `ConcatTokensDataset` gives, as the reader has it."""
    samples, buffer = [], []
    for document in ids:
        buffer = buffer + document
        while len(buffer) >= size:
            samples.append({'tokens': np.asarray(buffer[:size], np.int32)})
            buffer = [] if no_wrap else buffer[size:]
    return sorted(map(portable, samples), key=repr)


def _convert(source: Path, tokenizer: Path, out: Path, *options: str) -> None:
    text_tokens.main(
        [
            f'--input={source}',
            f'--tokenizer={tokenizer}',
            f'--output={out}',
            '--dtype=int32',
            '--runner=FnApiRunner',
            *options,
        ]
    )


def _read(judge: Judge, out: Path) -> list[Any]:
    for shard in read_index(str(out)):
        assert shard.config.columns.as_dict() == {'tokens': 'ndarray:int32'}
    return sorted(judge.read(out), key=repr)


@pytest.mark.parametrize('no_wrap', [False, True])
@pytest.mark.parametrize('own', [False, True])
def test_convert_dataset_json(judge: Judge, tmp_path: Path, no_wrap: bool, own: bool) -> None:
    template = '<s> $A' if own else None
    path = train(tmp_path / 'tokenizer.json', special=('<s>', EOS), template=template)
    write_jsonl(tmp_path / 'in' / '0.jsonl', _TEXTS[:90], meta={'set': 'x'})
    write_jsonl(tmp_path / 'in' / '1.jsonl', _TEXTS[90:])
    (eos,) = judge.tokenize(path, [EOS])
    ids = [found + eos[-1:] for found in judge.tokenize(path, _TEXTS)]
    wrap = ['--no_wrap'] if no_wrap else []
    how = ['--concat_tokens=128', f'--eos_text={EOS}', *wrap]
    _convert(tmp_path / 'in', path, tmp_path / 'out', *how)
    assert _read(judge, tmp_path / 'out') == _concat(ids, 128, no_wrap=no_wrap)


@pytest.mark.parametrize('kind', ['json.gz', 'parquet'])
def test_convert_dataset_hf(judge: Judge, tmp_path: Path, kind: str) -> None:
    path = train(tmp_path / 'tokenizer.json')
    splits = {'train': _TEXTS[:100], 'val': _TEXTS[100:]}
    for split, texts in splits.items():
        for number, some in enumerate((texts[:30], texts[30:])):
            file = tmp_path / 'in' / split / f'c4-{split}.{number:05}-of-00002.{kind}'
            file.parent.mkdir(parents=True, exist_ok=True)
            if kind == 'parquet':
                pq.write_table(pa.table({'text': some}), file, row_group_size=7)
            else:
                lines = [json.dumps({'text': text, 'url': 'http://x'}) + '\n' for text in some]
                file.write_bytes(gzip.compress(''.join(lines).encode()))
    how = ['--concat_tokens=100', f'--bos_text={EOS}', f'--split={{split}}/*.{kind}']
    _convert(tmp_path / 'in', path, tmp_path / 'out', *how)
    for split, texts in splits.items():
        ids = [[0, *found] for found in judge.tokenize(path, texts)]
        assert _read(judge, tmp_path / 'out' / split) == _concat(ids, 100)


def test_convert_dataset_json_and_hf_without_concat_tokens(judge: Judge, tmp_path: Path) -> None:
    write_jsonl(tmp_path / 'in' / '0.jsonl', _TEXTS)
    given = [f'--input={tmp_path / "in"}', f'--output={tmp_path / "out"}', '--columns=text=str']
    jsonl.main([*given, '--runner=FnApiRunner'])
    read = judge.read(tmp_path / 'out')
    assert sorted(read, key=repr) == sorted((portable({'text': one}) for one in _TEXTS), key=repr)


def test_convert_text_to_mds(judge: Judge, tmp_path: Path) -> None:
    path = train(tmp_path / 'tokenizer.json', special=('<s>', EOS), template='<s> $A')
    long = ('\n'.join(_TEXTS) * 30)[: 2 * _CHUNK + 77]
    files = {'a.txt': _TEXTS[0], 'b/c.txt': long, 'b/d.txt': 'one\r\ntwo\rthree'}
    for name, text in files.items():
        file = tmp_path / 'in' / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode())
    ids = []
    for name in sorted(files):
        with (tmp_path / 'in' / name).open() as file:
            chunks = list(iter(lambda file=file: file.read(_CHUNK), ''))
        first, *rest = judge.tokenize(path, chunks)
        # The tokenizer's own <s> is taken away again but from the first chunk.
        ids.append(first + [one for chunk in rest for one in chunk[1:]] + [1])
    how = ['--concat_tokens=256', f'--eos_text={EOS}']
    _convert(tmp_path / 'in', path, tmp_path / 'out', *how)
    assert _read(judge, tmp_path / 'out') == _concat(ids, 256)

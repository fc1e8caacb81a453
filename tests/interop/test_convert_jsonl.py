"""Raw layouts of JSON lines that streaming's scripts convert, read by StreamingDataset."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest
import zstandard

from beam_mds.format import INDEX_NAME
from pipelines import jsonl
from tests.interop.conftest import Judge
from tests.interop.judge import portable

pytestmark = pytest.mark.interop

_SETS = ('Pile-CC', 'ArXiv', 'Github')


def _texts(count: int, seed: int) -> list[str]:
    rng = random.Random(seed)
    return [
        f'{seed}-{number} ' + ''.join(rng.choices('ab é\n\U0001f600"\\', k=rng.randrange(200)))
        for number in range(count)
    ]


def _columns(out: Path) -> dict[str, str]:
    (shard, *_) = json.loads((out / INDEX_NAME).read_text())['shards']
    return dict(zip(shard['column_names'], shard['column_encodings'], strict=True))


def _by_text(rows: Any) -> Any:
    return sorted(rows, key=lambda row: str(row['text']))


def test_the_pile(judge: Judge, tmp_path: Path) -> None:
    """streaming/text/convert/pile.py: columns text and pile_set_name, one dataset a split."""
    raw: dict[str, list[dict[str, Any]]] = {}
    for name in ('train/00', 'train/01', 'val', 'test'):
        docs = [
            {'text': text, 'meta': {'pile_set_name': _SETS[number % 3]}}
            for number, text in enumerate(_texts(60, seed=len(raw)))
        ]
        raw.setdefault(name.partition('/')[0], []).extend(docs)
        path = tmp_path / 'raw' / f'{name}.jsonl.zst'
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(zstandard.compress(''.join(json.dumps(d) + '\n' for d in docs).encode()))
    jsonl.main(
        [
            f'--input={tmp_path}/raw',
            f'--output={tmp_path}/mds',
            '--split={split}/*.jsonl.zst|{split}.jsonl.zst',
            '--columns=text=str,meta.pile_set_name=str',
            '--rename=meta.pile_set_name=pile_set_name',
            '--compression=zstd:16',
            '--hashes=sha1,xxh64',
            '--size_limit=8kb',
            '--runner=FnApiRunner',
        ]
    )
    for split in ('train', 'val', 'test'):
        out = tmp_path / 'mds' / split
        assert _columns(out) == {'pile_set_name': 'str', 'text': 'str'}
        wanted = [
            {'text': doc['text'], 'pile_set_name': doc['meta']['pile_set_name']}
            for doc in raw[split]
        ]
        read = judge.read(out, validate_hash='sha1')
        assert _by_text(read) == _by_text([portable(row) for row in wanted])


def test_c4(judge: Judge, tmp_path: Path) -> None:
    """streaming/text/convert/c4.py: columns text, timestamp and url, all str."""
    wanted = [
        {'text': text, 'timestamp': f'2019-04-{n % 28 + 1:02}T10:00:00Z', 'url': f'http://x/{n}'}
        for n, text in enumerate(_texts(100, seed=9))
    ]
    for part in range(2):
        lines = ''.join(json.dumps(row) + '\n' for row in wanted[part::2])
        path = tmp_path / f'raw/c4-train.{part:05}-of-00002.json.gz'
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(gzip.compress(lines.encode()))
    out = tmp_path / 'mds'
    jsonl.main([f'--input={tmp_path}/raw', f'--output={out}', '--runner=FnApiRunner'])
    assert _columns(out) == {'text': 'str', 'timestamp': 'str', 'url': 'str'}
    assert _by_text(judge.read(out)) == _by_text([portable(row) for row in wanted])

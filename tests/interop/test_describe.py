"""What `inspect` shows of the datasets that MDSWriter and merge_index make."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from beam_mds.format import get_encoding
from beam_mds.viewing.describe import describe, read_sample
from tests.interop.conftest import Judge

pytestmark = pytest.mark.interop

ONE = {'label': 'uint8', 'text': 'str', 'x': 'float64'}
TWO = {'data': 'bytes', 'label': 'uint8', 'text': 'str'}


def rows(seed: int) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    return [
        {
            'data': rng.randbytes(rng.randint(0, 60)),
            'label': number % 256,
            'text': 'wörd ' * rng.randint(0, 9),
            'x': number / 3,
        }
        for number in range(300)
    ]


@pytest.mark.parametrize('compression', [None, 'zstd:7', 'br'])
@pytest.mark.parametrize('columns', [ONE, TWO])
def test_sizes_and_samples_of_merged_datasets_are_right(
    judge: Judge, tmp_path: Path, compression: str | None, columns: dict[str, str]
) -> None:
    samples = []
    for seed in range(2):
        part = [{name: row[name] for name in columns} for row in rows(seed)]
        judge.write(
            part,
            tmp_path / f'part-{seed}',
            columns,
            compression=compression,
            hashes=['sha1'],
            size_limit=3000,
        )
        samples += part
    judge.ask('merge', out=tmp_path)

    summary = describe(tmp_path)
    assert summary.samples == len(samples)
    assert summary.shards > 6
    assert [split.name for split in summary.splits] == ['part-0', 'part-1']
    for column in summary.columns:
        encoding = get_encoding(column.encoding)
        size = sum(len(encoding.encode(sample[column.name])) for sample in samples)
        assert column.bytes == (pytest.approx(size, rel=0.2) if column.estimated else size)
        assert column.estimated == (columns is TWO and encoding.size is None)
    for number in (0, 7, 299, 300, -1):
        assert read_sample(tmp_path, number)[1] == samples[number]


@pytest.mark.parametrize('compression', [None, 'br', 'bz2', 'gz', 'snappy', 'zstd'])
def test_one_shard_of_mdswriter_is_enough(
    judge: Judge, tmp_path: Path, compression: str | None
) -> None:
    samples = [{name: row[name] for name in TWO} for row in rows(5)]
    judge.write(samples, tmp_path / 'set', TWO, compression=compression)
    (file,) = (tmp_path / 'set').glob('shard.*')
    assert describe(file).samples == len(samples)
    assert describe(file).raw_bytes == describe(tmp_path / 'set').raw_bytes
    assert read_sample(file, 123)[1] == samples[123]

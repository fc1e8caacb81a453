"""What the tests of the worker's code share: options, blocks of chosen positions, shards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from beam_mds.format import Columns, Samples, ShardConfig
from beam_mds.writing import blocks
from beam_mds.writing.options import WriteOptions, make_options
from beam_mds.writing.shardfile import Fragment, gather, store_range

COLUMNS = {'data': 'bytes'}

# Bytes of a sample of COLUMNS beside its value, and what it takes in a shard beside its own bytes.
HEAD, OVERHEAD = 4, 4

# First hash, second hash, encoded sample.
Row = tuple[int, int, bytes]


# The defaults of WriteToMDS.
DEFAULTS: dict[str, Any] = {
    'compression': None,
    'hashes': None,
    'size_limit': '64mb',
    'key': None,
    'order': 'shuffled',
    'seed': 0,
    'num_shards': None,
    'max_samples_per_shard': None,
    'split': None,
    'drop_split_column': False,
    'extra': 'error',
    'spill': 'auto',
    'if_exists': 'error',
    'allow_empty': False,
}


def options(out: Any, columns: dict[str, str] = COLUMNS, **given: Any) -> WriteOptions:
    """Checked options; those that are not given are the defaults of WriteToMDS."""
    return make_options(out, columns, **{**DEFAULTS, **given})


def config(capacity: int | None = None, **given: Any) -> ShardConfig:
    """The config of a dataset of COLUMNS whose shards have room for so many bytes of samples."""
    columns = Columns(COLUMNS)
    found = ShardConfig(columns, size_limit=1 << 26, **given)
    while capacity is not None and found.capacity != capacity:  # the limit stands in the header
        limit = (found.size_limit or 0) - found.capacity + capacity
        found = ShardConfig(columns, size_limit=limit, **given)
    return found


def encoded(value: bytes) -> bytes:
    """A sample of COLUMNS."""
    return len(value).to_bytes(4, 'little') + value


def block(rows: Sequence[Row], keyed: bool = True, folder: str | None = None) -> bytes:
    """A block of these samples, inline or spilled into a folder."""
    return pack(rows, keyed, folder).block


def pack(rows: Sequence[Row], keyed: bool = True, folder: str | None = None) -> blocks.Packed:
    """These samples as a packed block."""
    first = np.array([row[0] for row in rows], np.uint64)
    second = np.array([row[1] for row in rows], np.uint64) if keyed else None
    made = blocks.Block(Samples.of([row[2] for row in rows]), first, second)
    (packed,) = blocks.pack(made, folder)
    return packed


def rows_of(packed: bytes) -> list[Row]:
    """The samples of a block with their positions."""
    loaded = blocks.load(packed)
    second = np.zeros(len(loaded.first), np.uint64) if loaded.second is None else loaded.second
    samples = map(bytes, loaded.samples)
    return list(zip(loaded.first.tolist(), second.tolist(), samples, strict=True))


def shards_of(parts: Sequence[bytes], capacity: int) -> list[list[bytes]]:
    """The encoded samples of each shard that the blocks of one range become."""
    return [[bytes(sample) for sample in shard] for shard in gather(parts, capacity).shards()]


def store(
    out: str, parts: Sequence[bytes], shard_config: ShardConfig, number: int = 0
) -> list[Fragment]:
    """Writes the shards of the blocks of one range."""
    gathered = gather(parts, shard_config.capacity)
    return store_range(with_config(out, shard_config), '', gathered, number)


def with_config(out: str, shard_config: ShardConfig) -> WriteOptions:
    """Options with this config."""
    return replace(options(out), config=shard_config)

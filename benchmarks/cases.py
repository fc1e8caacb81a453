"""What is measured: the workloads, the ways of writing them, and the bars to reach.

Imports nothing but the standard library, because both interpreters load it: the one with `beam_mds`
and the one with `mosaicml-streaming`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

FILES = 8
"""Parquet files of every workload."""

POOL_PROCESSES = 2
"""Writers of the alternative, `multiprocessing.Pool(2)`."""

SIZE_LIMIT = 1 << 26
"""Bytes of a shard: the default of `MDSWriter` and of `WriteToMDS`, stated for both."""

WARM_MEGABYTES = 2560
"""Memory that each timed write touches before its clock starts: about what the largest one uses."""

TEXT_BYTES = 500
"""Mean bytes of a text sample."""

TOKENS_PER_SAMPLE = 2049
"""A context of 2,048 and the token to predict after it."""

TOKEN_VOCABULARY = 50_257
"""Token ids are below this (GPT-2's vocabulary)."""


@dataclass(frozen=True)
class Config:
    """One way of writing a workload with `WriteToMDS`.

    Attributes:
        order: `arrival` or `shuffled`.
        compression: What `WriteToMDS` and `MDSWriter` take; the pool is run with the same.
        elements: `tables` (`pyarrow.RecordBatch`, as the Parquet reader gives them) or `dicts`.
        inline: Blocks travel in the runner's shuffle (`spill=False`) and not in run files.
        bar: Least ratio of medians, pool / ours, that issue 3 asks for; none if None.
    """

    order: str
    compression: str | None = None
    elements: str = 'tables'
    inline: bool = False
    bar: float | None = None

    @property
    def name(self) -> str:
        """Its name on the command line and in the table, such as `arrival-dicts-zstd`."""
        extras = (self.elements == 'dicts' and 'dicts', self.inline and 'inline', self.compression)
        return '-'.join([self.order, *(extra for extra in extras if extra)])


@dataclass(frozen=True)
class Case:
    """One workload.

    Attributes:
        name: Its name on the command line.
        title: Its name in the table.
        samples: Samples at scale 1.
        columns: Column name to MDS encoding.
        batch_rows: Rows that the pool's reader takes at a time. (Larger batches were slower.)
        configs: The ways of writing it that have a place in the standard table.
    """

    name: str
    title: str
    samples: int
    columns: Mapping[str, str]
    batch_rows: int
    configs: tuple[Config, ...]

    def samples_at(self, scale: float) -> int:
        """The number of samples at a fraction of the full workload, at least one per file."""
        return max(FILES, round(self.samples * scale))


TEXT = Case(
    name='text',
    title='(a) 1M texts of 500 B',
    samples=1_000_000,
    columns={'text': 'str'},
    batch_rows=2_000,
    configs=(
        Config('arrival', bar=2.5),
        Config('arrival', elements='dicts', bar=1.3),
        Config('shuffled', bar=1.3),
        Config('arrival', compression='zstd', bar=2.5),
        Config('shuffled', compression='zstd'),
    ),
)

TOKENS = Case(
    name='tokens',
    title='(b) 200k x 2,049 int32 tokens',
    samples=200_000,
    columns={'tokens': 'ndarray:int32'},
    batch_rows=500,
    configs=(
        Config('arrival', bar=1.2),
        Config('shuffled', bar=0.7),
        Config('arrival', compression='zstd', bar=1.3),
    ),
)

IMAGES = Case(
    name='images',
    title='(c) 20k JPEGs of 40 KB',
    samples=20_000,
    columns={'image': 'jpeg', 'label': 'int32'},
    batch_rows=100,
    configs=(
        Config('arrival', bar=1.2),
        Config('shuffled', bar=0.6),
    ),
)

CASES: Mapping[str, Case] = {case.name: case for case in (TEXT, TOKENS, IMAGES)}

INLINE = Config('shuffled', inline=True)
"""What a distributed engine gets, on the local runner: no bar."""

ENCODER_BAR = 10.0
"""Least ratio of our encoder to `MDSWriter.write` on samples under 50 bytes."""

ENCODER_SAMPLES = 200_000
"""Samples of the encoder's measurement, at every scale: it takes seconds."""

ENCODER_REPEATS = 3
"""Times that each process encodes them; the least time counts, so that a disturbed one does not."""

ENCODER_COLUMNS: Mapping[str, str] = {
    'id': 'int64',
    'label': 'uint16',
    'tag': 'str',
    'x': 'float32',
}
"""14 fixed bytes, the tag's 4-byte size and its 4 to 12 characters: 22 to 30 bytes a sample."""


def encoder_samples(count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Small samples as plain dicts, with values that their encodings hold exactly."""
    rng = random.Random(seed)
    return [
        {
            'id': rng.getrandbits(62),
            'label': rng.getrandbits(16),
            'tag': 'abcdefghijkl'[: rng.randint(4, 12)],
            'x': rng.randint(-(1 << 20), 1 << 20) / 256,
        }
        for _ in range(count)
    ]


READ_TITLE = '(d) 1M samples of 32 B'
"""Name of the dataset that is read."""

READ_SAMPLES = 1_000_000
"""Its samples at scale 1."""

READ_COLUMNS: Mapping[str, str] = {'number': 'int32', 'text': 'str', 'x': 'float32'}
"""8 fixed bytes, the text's 4-byte size and its 10 to 30 characters."""

READ_COMPRESSIONS = (None, 'zstd')
"""How it is stored."""

READ_FORMS: Mapping[str, float | None] = {'batches': 3.0, 'dicts': None, 'read_samples': None}
"""Ways of reading it -> least ratio to `StreamingDataset` that issue 5 asks for, if any."""


def read_samples(count: int, seed: int = 0) -> Iterator[dict[str, Any]]:
    """The samples of the dataset that is read."""
    rng = random.Random(seed)
    letters = ''.join(rng.choices('abcdefghijklmnopqrstuvwxyz  ', k=1 << 16))
    for number in range(count):
        start, size = rng.randrange(len(letters) - 30), rng.randint(10, 30)
        yield {
            'number': number,
            'text': letters[start : start + size],
            'x': rng.randint(-(1 << 20), 1 << 20) / 256,
        }

"""Makes the benchmark's input: Parquet files, once, the same for the same seed.

Everything is drawn from generators seeded by (seed, workload, file), so a file does not depend on
how many others are made. (Another version of numpy, Pillow or pyarrow may give other bytes.)

- **text**: words of a 50,000-word vocabulary drawn with Zipf frequencies, common words short, with
  punctuation and a few accented letters; log-normal lengths around 500 bytes. zstd shrinks it about
  as it shrinks English prose.
- **tokens**: 2,049 int32 ids below 50,257 with Zipf frequencies, as a `list<int32>` column.
- **images**: JPEGs of about 40 KB encoded by Pillow, each one different: two colour gradients and
  noise. `label` is an int32.

Run it alone to fill the cache: `python -m benchmarks.data --data DIR --cases text,tokens,images`.
"""

from __future__ import annotations

import argparse
import io
import itertools
import json
import os
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from benchmarks import cases

FORMAT = 1
"""Raise it when the same seed gives other samples, so that old caches are not used."""

ROW_GROUP_BYTES = 32 << 20
"""Raw bytes of a row group, the size that common Parquet writers aim at or near."""

_ZIPF_DRAWS = 1 << 20
_WORDS = 50_000
_WORDS_PER_TEXT = 90
_LETTERS = 'etaoinshrdlcumwfgypbvkjxqz'
_ENDINGS = (' ',) * 14 + (', ', '. ')
_IMAGE_SIDE = 328
_IMAGE_QUALITY = 85
_IMAGE_LABELS = 1_000

_Maker = Callable[[np.random.Generator, int], pa.Table]


def default_folder() -> Path:
    """The cache that is used when none is named: `$XDG_CACHE_HOME/beam-mds-bench`."""
    return Path(os.environ.get('XDG_CACHE_HOME', '~/.cache')).expanduser() / 'beam-mds-bench'


def ensure(case: cases.Case, folder: Path, scale: float = 1.0, seed: int = 0) -> Path:
    """Makes a workload's files unless the cache has them.

    Args:
        case: The workload.
        folder: The cache.
        scale: Fraction of the full workload.
        seed: Seed of all samples.

    Returns:
        The folder with the workload's Parquet files, and nothing else that matches `*.parquet`.
    """
    return ensure_files(case, folder, case.samples_at(scale), cases.FILES, seed)


def ensure_files(case: cases.Case, folder: Path, samples: int, files: int, seed: int) -> Path:
    """Makes `samples` samples in `files` Parquet files unless the cache has them."""
    target = folder / f'{case.name}-v{FORMAT}-{samples}x{files}-seed{seed}'
    if target.is_dir():
        return target
    staging = target.with_name(f'{target.name}.{os.getpid()}.tmp')
    staging.mkdir(parents=True)
    try:
        _make_files(case, staging, _split_evenly(samples, files), seed)
        staging.rename(target)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return target


def _split_evenly(total: int, parts: int) -> list[int]:
    """`total` as `parts` counts that differ by at most one."""
    return [total * (i + 1) // parts - total * i // parts for i in range(parts)]


def _make_files(case: cases.Case, folder: Path, counts: Sequence[int], seed: int) -> None:
    with ProcessPoolExecutor(os.cpu_count()) as executor:
        jobs = [
            executor.submit(_make_file, case.name, folder, i, n, seed) for i, n in enumerate(counts)
        ]
        for job in jobs:
            job.result()


def _make_file(name: str, folder: Path, index: int, samples: int, seed: int) -> None:
    number = list(cases.CASES).index(name)
    table = _MAKERS[name](np.random.default_rng((seed, number, index)), samples)
    rows = max(1, ROW_GROUP_BYTES * samples // max(1, table.nbytes))
    pq.write_table(table, folder / f'part-{index:05}.parquet', row_group_size=rows)


def _zipf_table(size: int) -> npt.NDArray[np.int32]:
    """Ranks below `size`, each as often as Zipf-Mandelbrot's law says, for drawing by index."""
    weights = (np.arange(size) + 2.7) ** -1.2
    edges = np.cumsum(weights) * (_ZIPF_DRAWS / weights.sum())
    return np.searchsorted(edges, np.arange(_ZIPF_DRAWS), side='right').astype(np.int32)


def _draw(
    rng: np.random.Generator, table: npt.NDArray[np.int32], count: int
) -> npt.NDArray[np.int32]:
    return table[rng.integers(0, len(table), count, dtype=np.uint32)]


def _vocabulary() -> pa.Array:
    """Distinct words, common ones short, each with every ending: entry word * endings + ending."""
    rng = np.random.default_rng(1)
    odds = 1.0 / (np.arange(len(_LETTERS)) + 2.7)
    lengths = 1 + rng.poisson(0.8 + 0.42 * np.log2(np.arange(1, 2 * _WORDS)))
    text = ''.join(rng.choice(list(_LETTERS), lengths.sum(), p=odds / odds.sum()))
    ends = np.cumsum(lengths).tolist()
    words = dict.fromkeys(text[start:end] for start, end in itertools.pairwise([0, *ends]))
    accented = [w.replace('ou', 'é') if i % 50 == 49 else w for i, w in enumerate(words)][:_WORDS]
    return pa.array([word + ending for word in accented for ending in _ENDINGS])


def make_text(rng: np.random.Generator, samples: int) -> pa.Table:
    lengths = rng.lognormal(np.log(_WORDS_PER_TEXT) - 0.125, 0.5, samples).astype(np.int64) + 1
    ends = np.concatenate(([0], np.cumsum(lengths)))
    count = int(ends[-1])
    ranks = _draw(rng, _zipf_table(_WORDS), count)
    endings = rng.integers(0, len(_ENDINGS), count, dtype=np.int32)
    # The words' own data buffer, one after the other, is the text: only the offsets differ.
    words = _vocabulary().take(pa.array(ranks * np.int32(len(_ENDINGS)) + endings))
    _, offsets, text = words.buffers()
    starts = np.frombuffer(offsets, np.int32, count + 1)[ends]
    column = pa.StringArray.from_buffers(samples, pa.py_buffer(starts), text)
    return pa.table({'text': column})


def _make_tokens(rng: np.random.Generator, samples: int) -> pa.Table:
    size = cases.TOKENS_PER_SAMPLE
    values = _draw(rng, _zipf_table(cases.TOKEN_VOCABULARY), samples * size)
    offsets = np.arange(samples + 1, dtype=np.int32) * size
    return pa.table({'tokens': pa.ListArray.from_arrays(pa.array(offsets), pa.array(values))})


def _make_images(rng: np.random.Generator, samples: int) -> pa.Table:
    images = [_make_jpeg(rng) for _ in range(samples)]
    labels = rng.integers(0, _IMAGE_LABELS, samples, dtype=np.int32)
    return pa.table({'image': pa.array(images, pa.binary()), 'label': pa.array(labels)})


def _make_jpeg(rng: np.random.Generator) -> bytes:
    """Two crossing colour gradients and noise whose strength differs from image to image."""
    ramp = np.linspace(0.0, 1.0, _IMAGE_SIDE, dtype=np.float32)
    across, down = rng.uniform(0, 90, (2, 3)).astype(np.float32)
    pixels = ramp[:, None, None] * across + ramp[None, :, None] * down
    noise = np.frombuffer(rng.bytes(_IMAGE_SIDE**2 * 3), np.uint8).reshape(pixels.shape)
    pixels += noise * np.float32(rng.uniform(0.18, 0.34))
    image = Image.fromarray(pixels.astype(np.uint8))
    out = io.BytesIO()
    image.save(out, format='JPEG', quality=_IMAGE_QUALITY)
    return out.getvalue()


_MAKERS: dict[str, _Maker] = {
    cases.TEXT.name: make_text,
    cases.TOKENS.name: _make_tokens,
    cases.IMAGES.name: _make_images,
}


def describe(folder: Path) -> dict[str, int]:
    """Counts of a made workload: files, rows, row groups and stored bytes."""
    paths = sorted(folder.glob('*.parquet'))
    metadata = [pq.read_metadata(path) for path in paths]
    return {
        'files': len(paths),
        'samples': sum(one.num_rows for one in metadata),
        'row_groups': sum(one.num_row_groups for one in metadata),
        'bytes': sum(path.stat().st_size for path in paths),
    }


def main() -> None:
    """Makes the named workloads and prints where they lie."""
    parser = argparse.ArgumentParser(description='Make the input of the benchmarks.')
    parser.add_argument('--data', type=Path, default=default_folder(), help='cache folder')
    parser.add_argument('--cases', default=','.join(cases.CASES), help='text,tokens,images')
    parser.add_argument('--scale', type=float, default=1.0, help='fraction of the full workload')
    parser.add_argument('--seed', type=int, default=0)
    args = parser.parse_args()
    for name in args.cases.split(','):
        folder = ensure(cases.CASES[name], args.data, args.scale, args.seed)
        print(folder, json.dumps(describe(folder)))


if __name__ == '__main__':
    main()

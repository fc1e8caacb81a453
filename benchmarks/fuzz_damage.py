"""Datasets with a fault in one of their files, for fuzz.py."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from beam_mds.format import Columns
from benchmarks import fuzz_inputs as inputs


def changed_index(rng: random.Random, dataset: inputs.Dataset) -> Any:
    """An index of which some part is another; now and then of all shards."""
    if rng.random() < 0.7:
        return inputs.changed(rng, dataset.index)
    fields = inputs.changed_columns(rng, dataset.config)
    if rng.random() < 0.5:
        fields = inputs.changed(rng, dataset.config)
    return {'version': 2, 'shards': [{**entry, **fields} for entry in dataset.index['shards']]}


def damaged_shard(rng: random.Random, dataset: inputs.Dataset, other: inputs.Dataset) -> bytes:
    raw = rng.choice(dataset.raw)
    if rng.random() < 0.6:
        return inputs.damaged(rng, raw, other.raw[0])
    config = inputs.changed(rng, dataset.config)
    if rng.random() < 0.5:
        config = inputs.changed_columns(rng, dataset.config)
    rows = rng.choice(dataset.rows)
    return inputs.shard_of(inputs.written(rng, config), [_damaged_row(rng, row) for row in rows])


def _damaged_row(rng: random.Random, row: bytes) -> bytes:
    return inputs.damaged(rng, row) if rng.random() < 0.3 else row


def damaged_values(rng: random.Random, columns: Columns, row: bytes) -> bytes:
    """A sample with other bytes as one value, and the size head that goes with them."""
    varying = [size is None for size in columns.sizes]
    heads = np.frombuffer(row, '<u4', sum(varying)).tolist()
    given, at = iter(heads), 4 * len(heads)
    found = []
    for size in columns.sizes:
        end = at + (next(given) if size is None else size)
        found.append(row[at:end])
        at = end
    place = rng.randrange(len(found))
    wild = inputs.hostile_value(rng, columns.encodings[place].name) if rng.random() < 0.4 else None
    value = inputs.damaged(rng, found[place], row) if wild is None else wild
    if not varying[place]:
        value = value[: len(found[place])].ljust(len(found[place]), b'\0')
    found[place] = value
    heads = [len(value) for value, vary in zip(found, varying, strict=True) if vary]
    return b''.join([np.array(heads, '<u4').tobytes(), *found])


def damaged_folder(
    rng: random.Random, seeds: Sequence[inputs.Dataset], folder: Path
) -> tuple[int, str, inputs.Dataset]:
    """Writes a dataset with a fault; gives its bytes, what it is, and the dataset without it."""
    dataset = rng.choice(seeds)
    name = dataset.compression
    files = dataset.files()
    kind = rng.randrange(4)
    if kind == 0:
        files['index.json'] = inputs.written(rng, changed_index(rng, dataset))
    elif kind == 1:  # a shard that its index knows nothing of
        path = rng.choice(sorted(set(files) - {'index.json'}))
        files[path] = inputs.damaged(rng, files[path], dataset.raw[0])
    else:  # and one that it fits
        raw = damaged_shard(rng, dataset, rng.choice(seeds))
        config = dataset.config
        if kind == 2:
            config = inputs.changed_columns(rng, config)
            rows = [inputs.damaged(rng, row) for row in dataset.rows[0]]
            raw = inputs.shard_of(json.dumps(config).encode(), rows)
        count = int.from_bytes(raw[:4], 'little')
        entry = inputs.entry_of(config, name, 0, raw, count)
        if name is not None and rng.random() < 0.3:
            data = inputs.compressed_damage(rng, name, raw)
            entry['zip_data']['bytes'] = len(data)
            files[entry['zip_data']['basename']] = data
        elif name is None and rng.random() < 0.3:
            files[entry['raw_data']['basename']] = _claimed(rng, entry, raw)
        else:
            files[(entry['zip_data'] or entry['raw_data'])['basename']] = inputs.packed(name, raw)
        index = {'version': 2, 'shards': [entry, *dataset.index['shards'][1:]]}
        files['index.json'] = json.dumps(index).encode()
    about = f'{name}, {kind}, {files!r:.4000}'
    return write_files(folder, files) + sum(map(len, dataset.raw)), about, dataset


def _claimed(rng: random.Random, entry: dict[str, Any], raw: bytes) -> bytes:
    """A shard that claims many samples, as its entry in the index then does."""
    count = rng.choice((2**20, 2**24, 2**29, 2**30 - 20))
    entry['samples'] = count
    entry['raw_data']['bytes'] = 2**32 - 1
    return count.to_bytes(4, 'little') + (4 * count + 8).to_bytes(4, 'little') + raw[8:]


def write_files(folder: Path, files: dict[str, bytes]) -> int:
    """Replaces the content of a folder; gives its bytes."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return sum(map(len, files.values()))

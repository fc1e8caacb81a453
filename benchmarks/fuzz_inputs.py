"""Input for fuzz.py: small valid datasets, and ways to damage their bytes and their JSON."""

from __future__ import annotations

import bz2
import copy
import gzip
import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import zstandard

from beam_mds.format import Columns, ShardConfig, compress, hex_digest, shard_header
from beam_mds.format.compression import suffix
from beam_mds.format.encodings.arrays import DTYPES
from tests.interop import generate

COMPRESSIONS = ('br', 'bz2', 'gz', 'snappy', 'zstd')
HASH = 'sha1'

# Bytes that a decompression bomb expands to: more than a case may use.
BOMB = 1 << 26

_SHARDS, _ROWS = 2, 6

# Integers on the edges of types, and far outside of what a file can hold.
EXTREMES = (
    -(2**63), -(2**31), -1, 0, 1, 2, 127, 128, 255, 256, 2**16 - 1, 2**16, 2**31 - 1, 2**31,
    2**32 - 1, 2**32, 2**53, 2**62, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 2**70, 10**400,
)  # fmt: skip

_VALID = sorted({encoding for encoding, _ in generate.CASES.values()})

# What an index or a config may have as the encoding of a column.
ENCODINGS = (
    '', 'foo', 'pkl', 'str:', 'jpeg:90', 'ndarray:', 'ndarray::', 'ndarray:floaty',
    'ndarray:uint8:', 'ndarray:uint8:0', 'ndarray:uint8:-1', 'ndarray:uint8:1_0', 'ndarray:uint8:٣',
    'ndarray:uint8:99999999,99999999', 'ndarray:float64:4294967295', 'ndarray:uint8:2147483648',
    'ndarray:int64:9223372036854775807', 'ndarray:int64:' + '9' * 4500,
    'ndarray:uint8:' + ','.join('2' * 64), 'ndarray:uint8:' + ','.join('1' * 5000),
    'list[list[pil]]',
    *_VALID,
)  # fmt: skip

_NAMES = (
    '',
    'a',
    '\0',
    '\ud800',
    'ä' * 99,
    'x' * 9000,
    'a/b',
    '..',
    '../index.json',
    '/etc/passwd',
)

_VALUES: tuple[Any, ...] = (
    None, True, False, [], {}, [[]], {'a': {}}, '', 'mds', 'zstd', 0.0, -0.5, 2.0, 1e308,
    float('nan'), float('inf'), 'x' * 9000, ['x'] * 100, [0] * 1000,
)  # fmt: skip


@dataclass(frozen=True)
class Dataset:
    """A valid dataset, in memory.

    Attributes:
        rows: Its encoded samples, shard by shard.
        raw: The raw shards.
        index: Its index.json, parsed.
    """

    columns: Columns
    compression: str | None
    rows: list[list[bytes]]
    raw: list[bytes]
    index: dict[str, Any]

    @property
    def config(self) -> dict[str, Any]:
        """The fields that a shard has."""
        return ShardConfig(self.columns, self.compression, (HASH,)).as_dict()

    def files(self) -> dict[str, bytes]:
        """All files by their names."""
        stored = {
            (entry['zip_data'] or entry['raw_data'])['basename']: packed(self.compression, data)
            for entry, data in zip(self.index['shards'], self.raw, strict=True)
        }
        return {'index.json': json.dumps(self.index).encode(), **stored}


def packed(compression: str | None, data: bytes) -> bytes:
    """What is stored of a raw shard."""
    return data if compression is None else compress(compression, [data])


def make_dataset(columns: dict[str, str], rows: Sequence[Any], compression: str | None) -> Dataset:
    """A dataset of these samples, in shards of a few."""
    table = Columns(columns)
    config = ShardConfig(table, compression, (HASH,))
    shards, raw, entries = [], [], []
    for number in range(_SHARDS):
        samples = table.encode_batch(rows[number::_SHARDS])
        shards.append([bytes(sample) for sample in samples])
        raw.append(shard_header(config, samples.sizes) + bytes(samples.bytes))
        entries.append(entry_of(config.as_dict(), compression, number, raw[-1], len(samples)))
    return Dataset(table, compression, shards, raw, {'version': 2, 'shards': entries})


def entry_of(
    config: dict[str, Any], compression: str | None, number: int, raw: bytes, samples: int
) -> dict[str, Any]:
    """The entry of a shard in an index; the config may be none that the library would write."""
    name = f'shard.{number:05}.mds'
    entry = {**config, 'samples': samples, 'raw_data': _file(name, raw), 'zip_data': None}
    if compression is not None:
        entry['zip_data'] = _file(name + suffix(compression), packed(compression, raw))
    return entry


def _file(name: str, data: bytes) -> dict[str, Any]:
    return {'basename': name, 'bytes': len(data), 'hashes': {HASH: hex_digest(HASH, [data])}}


def seeds() -> list[Dataset]:
    """One dataset for each encoding, and one of several columns for each compression."""
    found = [
        make_dataset({'a': encoding}, [{'a': v} for v in generate.values(make, _ROWS)], None)
        for encoding, make in generate.CASES.values()
        if 'long' not in encoding
    ]
    names = ('int32', 'str', 'float32', 'ndarray:float16', 'bytes', 'json')
    cases = {name: generate.CASES[name] for name in names}
    rng = random.Random(1)
    rows = [{name: make(rng) for name, (_, make) in cases.items()} for _ in range(4 * _ROWS)]
    columns = {name: encoding for name, (encoding, _) in cases.items()}
    return found + [make_dataset(columns, rows, name) for name in (None, *COMPRESSIONS)]


def shard_of(config: bytes, rows: Sequence[bytes]) -> bytes:
    """A shard whose header fits its samples, whatever they and the config are."""
    ends = [8 + 4 * len(rows) + len(config)]
    for row in rows:
        ends.append(ends[-1] + len(row))
    head = [len(rows), *ends]
    return b''.join([*(number.to_bytes(4, 'little') for number in head), config, *rows])


def bomb(compression: str) -> bytes:
    """A file that expands to BOMB bytes."""
    return _bombs[compression]


def claims(rng: random.Random) -> tuple[bytes, int]:
    """The start of a zstd frame, or of snappy data, that claims any size; and that size."""
    size = rng.getrandbits(rng.choice((28, 31, 40, 64)))
    if rng.random() < 0.5:
        frame = b'\x28\xb5\x2f\xfd\xe0' + size.to_bytes(8, 'little')
        return frame + rng.randbytes(rng.choice((9, 5000))), size
    sevens = [size >> 7 * at & 127 for at in range(rng.choice((1, 4, 5, 5, 9, 20_000)))]
    return bytes([*(seven | 128 for seven in sevens[:-1]), sevens[-1]]) + rng.randbytes(9), size


_zeros = bytes(BOMB)
_bombs = {
    'br': pa.Codec('brotli', 1).compress(_zeros, asbytes=True),
    'bz2': bz2.compress(_zeros, 1),
    'gz': gzip.compress(_zeros, 1),
    'snappy': pa.Codec('snappy').compress(_zeros, asbytes=True),
    'zstd': zstandard.ZstdCompressor(1).compress(_zeros),
}
del _zeros


# Bytes


def damaged(rng: random.Random, data: bytes, other: bytes = b'') -> bytes:
    """The bytes after one to four changes; `other` is what may be spliced in."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        data = rng.choice(_CHANGES)(rng, data, other)
    return data


def _place(rng: random.Random, data: bytes) -> int:
    """A position, often near the start, where headers are."""
    if rng.random() < 0.4:
        return rng.randint(0, min(len(data), 24))
    return rng.randint(0, len(data))


def _flip(rng: random.Random, data: bytes, other: bytes) -> bytes:  # noqa: ARG001
    at = min(_place(rng, data), max(len(data) - 1, 0))
    flipped = bytes(byte ^ 1 << rng.randrange(8) for byte in data[at : at + 1])
    return data[:at] + flipped + data[at + 1 :]


def _insert(rng: random.Random, data: bytes, other: bytes) -> bytes:  # noqa: ARG001
    at = _place(rng, data)
    return data[:at] + rng.randbytes(rng.choice((1, 2, 4, 100))) + data[at:]


def _delete(rng: random.Random, data: bytes, other: bytes) -> bytes:  # noqa: ARG001
    at = _place(rng, data)
    return data[:at] + data[at + rng.choice((1, 2, 4, 100)) :]


def _truncate(rng: random.Random, data: bytes, other: bytes) -> bytes:  # noqa: ARG001
    return data[: _place(rng, data)]


def _splice(rng: random.Random, data: bytes, other: bytes) -> bytes:
    at = _place(rng, other)
    return data[: _place(rng, data)] + other[at : at + rng.choice((4, 100, len(other)))]


def _duplicate(rng: random.Random, data: bytes, other: bytes) -> bytes:  # noqa: ARG001
    at = _place(rng, data)
    return data[:at] + data[at : at + rng.choice((4, 16, 300))] * rng.choice((2, 3, 50)) + data[at:]


def _number(rng: random.Random, data: bytes, other: bytes) -> bytes:  # noqa: ARG001
    width = rng.choice((1, 2, 4, 4, 4, 8))
    at = _place(rng, data) // width * width
    near = len(data) + rng.randint(-2, 2)
    several = [
        rng.choice((*EXTREMES, near, near, rng.getrandbits(63))) % (1 << 8 * width)
        for _ in range(rng.choice((1, 1, 1, 2, 3)))
    ]
    made = b''.join(value.to_bytes(width, 'little') for value in several)
    return data[:at] + made + data[at + len(made) :]


_CHANGES: tuple[Callable[[random.Random, bytes, bytes], bytes], ...] = (
    _flip, _flip, _insert, _delete, _truncate, _splice, _duplicate, _number, _number, _number
)  # fmt: skip


def hostile_value(rng: random.Random, encoding: str) -> bytes | None:
    """The bytes of a value whose head says something wild; None for encodings without a head."""
    kind, colon, _ = encoding.partition(':')
    body = rng.randbytes(rng.choice((0, 1, 2, 8, 300)))
    width = rng.randrange(4)
    count = rng.choice((0, 1, 2, 3, 16, 63))
    if kind == 'pil':
        mode, width, count = rng.choice((b'1', b'L', b'RGB', b'F', b'I;16', b'', b'XX')), 2, 2
        body = len(mode).to_bytes(4, 'little') + mode + body
    elif kind != 'ndarray':
        return None
    else:
        head = bytes([count << 2 | width])
        if not colon:
            head = bytes([rng.choice((*DTYPES.values(), 0, 255))]) + head
    sides = (rng.choice((*EXTREMES, 1, 1, 2, 3)) % (1 << (8 << width)) for _ in range(count))
    made = b''.join(side.to_bytes(1 << width, 'little') for side in sides) + body
    return made if kind == 'pil' else head + made


def compressed_damage(rng: random.Random, compression: str, data: bytes) -> bytes:
    """What may stand where a compressed file should: damaged, a bomb, or only a claim."""
    kind = rng.randrange(8)
    if kind == 0:
        return bomb(compression)
    if kind == 1:
        return damaged(rng, bomb(compression)[:5000])
    if kind == 2:
        return claims(rng)[0]
    if kind == 3:
        return packed(compression, data) * 2
    return damaged(rng, packed(compression, data), rng.choice(list(_bombs.values()))[:200])


# JSON


def hostile(rng: random.Random) -> Any:
    """A value that a field should not have."""
    kind = rng.randrange(5)
    if kind == 0:
        return rng.choice(EXTREMES)
    if kind == 1:
        return rng.choice(ENCODINGS)
    if kind == 2:
        return rng.choice(_NAMES)
    return copy.deepcopy(rng.choice(_VALUES))


def changed(rng: random.Random, value: Any) -> Any:
    """A JSON document after one to three changes of its parts; it is copied first."""
    value = copy.deepcopy(value)
    for _ in range(rng.choice((1, 1, 2, 3))):
        places = list(_places(value))
        if not places:
            return hostile(rng)
        holder, key = rng.choice(places)
        kind = rng.randrange(6)
        if kind == 0:
            del holder[key]
        elif kind == 1:
            other, name = rng.choice(places)
            holder[key] = copy.deepcopy(other[name])
        elif kind == 2 and isinstance(holder, dict):
            holder[rng.choice(_NAMES)] = holder.pop(key)
        elif kind == 3 and isinstance(holder, list):
            holder.insert(key, copy.deepcopy(holder[key]))
        elif isinstance(holder[key], str) and rng.random() < 0.2:
            holder[key] = rng.choice(_NAMES) + holder[key]
        else:
            holder[key] = hostile(rng)
    return value


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    keys: Any = value if isinstance(value, dict) else ()
    for key in range(len(value)) if isinstance(value, list) else keys:
        yield value, key
        yield from _places(value[key])


def written(rng: random.Random, value: Any) -> bytes:
    """A JSON document as a file, now and then one that json would not write."""
    text = json.dumps(value)
    kind = rng.randrange(16)
    if kind < 5:
        depth = rng.choice((5, 900, 990, 5000))
        token = rng.choice((
            '[' * depth, '[' * depth + ']' * depth, '{"a":' * depth + '0' + '}' * depth,
            '9' * 4500, '1e999', 'NaN', '-Infinity', '"\\ud800"', '"\0"',
            '[' + '{},' * 5000 + '{}]',
        ))  # fmt: skip
        spots = [at for at, char in enumerate(text) if char == ' ']
        at = rng.choice(spots) + 1 if spots else 0
        # A value instead of another, or of a name that nobody asks for.
        text = text[:at] + (token + ', ' if kind else f'"new": {token}, ') + text[at:]
    if kind == 5:
        return text.encode(rng.choice(('utf-16', 'utf-32', 'utf-8-sig', 'utf-16-be', 'cp037')))
    if kind == 6:
        text = text.replace('shard', 'sch\xe4rd')
        return text.encode(rng.choice(('latin-1', 'utf-8')))
    data = text.encode(errors='surrogatepass')
    return damaged(rng, data, data) if kind == 7 else data


def changed_columns(rng: random.Random, config: dict[str, Any]) -> dict[str, Any]:
    """A config whose columns are others, with the sizes that go with them where they are known."""
    if rng.random() < 0.2:  # the same ones with other names
        count = len(config['column_names'])
        return {**config, 'column_names': sorted(rng.sample([*_NAMES, *'bcdefgh'], count))}
    count = rng.choice((1, 2, 3, 3, 50, 1000))
    names = sorted({rng.choice((*_NAMES, 'a', 'b', f'{n}', f'{n}')) for n in range(count)})
    choice = ENCODINGS if rng.random() < 0.3 else _VALID
    encodings = [rng.choice(choice) for _ in names]
    sizes = []
    for name in encodings:
        try:
            sizes.append(Columns({'a': name}).sizes[0])
        except Exception:  # noqa: BLE001 - any size will do
            sizes.append(None)
    return {**config, 'column_names': names, 'column_encodings': encodings, 'column_sizes': sizes}

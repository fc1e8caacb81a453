"""index.json: the list of a dataset's shards, parsed, checked and written.

(mosaicml-streaming 0.13.0, `base/format/base/writer.py` and `reader.py`.)
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from beam_mds.errors import FormatError, MDSError
from beam_mds.format.encodings.base import is_utf8
from beam_mds.format.jsonstream import JsonStream
from beam_mds.format.shard import SHARD_CEILING, ShardConfig

INDEX_NAME = 'index.json'

# What stands in an index.json before, between and after its entries.
HEAD, BETWEEN, TAIL = b'{"shards": [', b', ', b'], "version": 2}'

Entry: TypeAlias = dict[str, Any]

_DUMP = json.JSONEncoder(sort_keys=True).encode

# The fields of an entry that `ShardConfig` holds.
_CONFIG = (
    'column_encodings',
    'column_names',
    'column_sizes',
    'compression',
    'format',
    'hashes',
    'size_limit',
    'version',
)

# A file's bytes, and so its samples, are fewer: no compression doubles the largest shard.
_TOO_MANY = 2 * SHARD_CEILING

# Characters of a path that any store takes.
_LONGEST_PATH = 1024


@dataclass(frozen=True)
class FileInfo:
    """One stored or raw file.

    Attributes:
        basename: Posix path relative to the folder of index.json.
        bytes: Its size.
        hashes: Hash name -> hex digest.
    """

    basename: str
    bytes: int
    hashes: dict[str, str]


@dataclass(frozen=True)
class ShardInfo:
    """One shard as the index lists it.

    Attributes:
        config: What it shares with the dataset's other shards.
        samples: How many it holds.
        raw_data: The raw file; not stored when compression is on.
        zip_data: The compressed file, or None.
    """

    config: ShardConfig
    samples: int
    raw_data: FileInfo
    zip_data: FileInfo | None = None

    @property
    def stored(self) -> FileInfo:
        """The file that lies in the folder."""
        return self.zip_data or self.raw_data


def dump_index(shards: Sequence[ShardInfo]) -> bytes:
    """The bytes of an index.json that lists these shards in this order."""
    return dump_entries([entry_of(shard) for shard in shards])


def entry_of(shard: ShardInfo) -> Entry:
    """A shard as index.json has it."""
    return {
        **shard.config.as_dict(),
        'samples': shard.samples,
        'raw_data': asdict(shard.raw_data),
        'zip_data': asdict(shard.zip_data) if shard.zip_data else None,
    }


def dump_entries(entries: Sequence[Entry]) -> bytes:
    """The bytes of an index.json with these entries."""
    return HEAD + BETWEEN.join(map(dump_entry, entries)) + TAIL


def dump_entry(entry: Entry) -> bytes:
    """The bytes of an entry in an index.json."""
    return _DUMP(entry).encode()


def parse_index(data: bytes) -> list[ShardInfo]:
    """The shards that an index.json lists.

    Raises:
        FormatError: It is no MDS index of version 2, or a basename leaves the dataset's folder.
    """
    return [shard for _, shard in parse_entries(data)]


def parse_entries(data: bytes) -> list[tuple[Entry, ShardInfo]]:
    """The shards that an index.json lists, each also as it stands there.

    Raises:
        FormatError: See `parse_index`.
    """
    return list(iter_entries([data]))


def iter_entries(pieces: Iterable[bytes]) -> Iterator[tuple[Entry, ShardInfo]]:
    """The shards that an index.json lists, one after another while it is read.

    Args:
        pieces: The file, cut anywhere; only about one piece and one shard are held.

    Raises:
        FormatError: See `parse_index`; it can come after some shards.
    """
    last: tuple[Entry, ShardInfo] | None = None
    try:
        for entry in _entries(JsonStream(pieces)):
            last = entry, parse_entry(entry, last)
            yield last
    except FormatError as error:
        raise FormatError(f'no MDS index: {error}') from error


def load_entries(data: bytes) -> list[Any]:
    """What stands in the list of an index.json, not looked at yet.

    Raises:
        FormatError: It is no JSON, of another version than 2, or has no list of shards.
    """
    try:
        return list(_entries(JsonStream([data])))
    except FormatError as error:
        raise FormatError(f'no MDS index: {error}') from error


def parse_entry(entry: Any, like: tuple[Entry, ShardInfo] | None = None) -> ShardInfo:
    """One of `load_entries` as a shard.

    Args:
        entry: Whatever stands in the list.
        like: An entry that was parsed, and its shard: a config that is the same is shared.

    Raises:
        FormatError: It is none, or a basename leaves the dataset's folder.
    """
    try:
        # To make one takes longer than all else, and most often it is that of the shard before.
        same = like is not None and all(entry[name] == like[0][name] for name in _CONFIG)
        config = like[1].config if like is not None and same else ShardConfig.from_dict(entry)
        zipped = entry['zip_data']
        return ShardInfo(
            config,
            _parse_count(entry['samples']),
            _parse_file(entry['raw_data']),
            _parse_file(zipped) if zipped else None,
        )
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        kind = '' if isinstance(error, MDSError) else f'{type(error).__name__}: '
        raise FormatError(f'{kind}{error}') from error


def _entries(index: JsonStream) -> Iterator[Any]:
    fields: dict[str, Any] = {}
    for name in index.members():
        if name in fields:
            raise FormatError(f'{name!r} is there twice')
        if name == 'shards':
            fields[name] = ...
            yield from index.items()
        else:
            fields[name] = index.value()
    index.end()
    for name in ('shards', 'version'):
        if name not in fields:
            raise FormatError(f'it has no {name!r}')
    if fields['version'] != 2:
        raise FormatError(f'version {fields["version"]!r:.80}, expected 2')


def stored_path(entry: Entry) -> str:
    """The stored file of an entry, relative to the folder of its index."""
    path: str = (entry['zip_data'] or entry['raw_data'])['basename']
    return path


def folder_of(entry: Entry) -> str:
    """The folder of an entry's stored file, relative to that of its index; empty for the same."""
    return stored_path(entry).rpartition('/')[0]


def moved_entry(entry: Entry, folder: str, *, back: bool = False) -> Entry:
    """An entry of the index in a sub-folder, for an index above it, or the other way round.

    Args:
        entry: The entry.
        folder: The sub-folder, as a relative posix path; empty for none.
        back: The entry is of the index above, and wanted for the one in the sub-folder.
    """
    prefix = f'{folder}/' if folder else ''
    moved = dict(entry)
    for name in ('raw_data', 'zip_data'):
        if file := entry[name]:
            path = file['basename']
            path = path.removeprefix(prefix) if back else prefix + path
            moved[name] = {**file, 'basename': path}
    return moved


def _parse_file(entry: dict[str, Any]) -> FileInfo:
    name = entry['basename']
    if not isinstance(name, str) or not is_plain_path(name):
        raise FormatError(f'basename {repr(name)[:80]} is no plain path below the dataset')
    hashes = dict(entry['hashes'])
    if not all(isinstance(text, str) for pair in hashes.items() for text in pair):
        raise FormatError(f'hashes {repr(hashes)[:80]} are no digests by name')
    return FileInfo(name, _parse_count(entry['bytes']), hashes)


def is_plain_path(name: str) -> bool:
    """Whether a name is a relative posix path that stays below its folder."""
    if len(name) > _LONGEST_PATH or not is_utf8(name):
        return False
    parts = name.split('/')
    return not {'\\', '\0'} & set(name) and not {'', '.', '..'} & set(parts)


def _parse_count(count: Any) -> int:
    if type(count) is not int or not 0 <= count < _TOO_MANY:
        raise FormatError(f'{repr(count)[:80]} is no count')
    return count

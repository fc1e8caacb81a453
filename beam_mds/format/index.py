"""index.json: the list of a dataset's shards, parsed, checked and written.

(mosaicml-streaming 0.13.0, `base/format/base/writer.py` and `reader.py`.)
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from beam_mds.errors import FormatError, MDSError
from beam_mds.format.encodings.base import is_utf8
from beam_mds.format.shard import SHARD_CEILING, ShardConfig

INDEX_NAME = 'index.json'

Entry: TypeAlias = dict[str, Any]

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
    return json.dumps({'shards': entries, 'version': 2}, sort_keys=True).encode()


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
    try:
        index = json.loads(data)
        if index['version'] != 2:
            raise FormatError(f'version {index["version"]!r:.80}, expected 2')
        if not isinstance(index['shards'], list):
            raise TypeError('shards is no list')
        return [(entry, _parse_shard(entry)) for entry in index['shards']]
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        kind = '' if isinstance(error, MDSError) else f'{type(error).__name__}: '
        raise FormatError(f'no MDS index: {kind}{error}') from error


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


def _parse_shard(entry: dict[str, Any]) -> ShardInfo:
    zipped = entry['zip_data']
    return ShardInfo(
        ShardConfig.from_dict(entry),
        _parse_count(entry['samples']),
        _parse_file(entry['raw_data']),
        _parse_file(zipped) if zipped else None,
    )


def _parse_file(entry: dict[str, Any]) -> FileInfo:
    name = entry['basename']
    if not isinstance(name, str) or not _is_plain_path(name):
        raise FormatError(f'basename {repr(name)[:80]} is no plain path below the dataset')
    hashes = dict(entry['hashes'])
    if not all(isinstance(text, str) for pair in hashes.items() for text in pair):
        raise FormatError(f'hashes {repr(hashes)[:80]} are no digests by name')
    return FileInfo(name, _parse_count(entry['bytes']), hashes)


def _is_plain_path(name: str) -> bool:
    if len(name) > _LONGEST_PATH or not is_utf8(name):
        return False
    parts = name.split('/')
    return not {'\\', '\0'} & set(name) and not {'', '.', '..'} & set(parts)


def _parse_count(count: Any) -> int:
    if type(count) is not int or not 0 <= count < _TOO_MANY:
        raise FormatError(f'{repr(count)[:80]} is no count')
    return count

"""A dataset's folder: what its indexes list, against what lies there."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from beam_mds import storage
from beam_mds.background import run_ahead
from beam_mds.checking.checks import CheckedIndex, check_index
from beam_mds.checking.findings import Finding
from beam_mds.errors import StorageError
from beam_mds.format import INDEX_NAME, FileInfo, ShardInfo
from beam_mds.writing import planning

# Names of what a write puts beside shards for a while.
LEFTOVER = '.beam-mds-'


class ShardTask(NamedTuple):
    """One shard to be checked.

    Attributes:
        path: The stored file's full path.
        info: The shard as the index lists it.
        found: The file's size in bytes as the store lists it; None when it is not there.
        part: Its place among the shards with its number, in its folder.
        parts: How many there are; for `checks.find_part`.
    """

    path: str
    info: ShardInfo
    found: int | None
    part: int
    parts: int


class Listed(NamedTuple):
    """A dataset before its shards are read.

    Attributes:
        findings: What its indexes and the list of its files show.
        tasks: Its shards, in the index's order.
    """

    findings: list[Finding]
    tasks: list[ShardTask]


def list_dataset(folder: str, threads: int) -> Listed:
    """Reads a dataset's index and those below it, and lists its files.

    Args:
        folder: The dataset's absolute path.
        threads: Indexes of sub-folders that are read side by side.
    """
    try:
        sizes = storage.list_folder(folder)
    except StorageError as error:
        return Listed([unreadable(folder, error)], [])
    end = f'/{INDEX_NAME}'
    places = sorted(name.removesuffix(end) for name in sizes if name.endswith(end))
    read = functools.partial(_read_index, folder)
    root = read('') if INDEX_NAME in sizes else _no_index(folder)
    below = dict(zip(places, run_ahead(read, places, threads), strict=True))
    indexes = {'': root, **below}
    findings = [
        *root.findings,
        *_compare_below(folder, root, below),
        *_leftovers(folder, sizes),
        *_unlisted(folder, sizes, indexes),
        *_bad_copies(folder, sizes, root.shards),
    ]
    return Listed(findings, _tasks(folder, sizes, root.shards))


def unreadable(path: str, error: StorageError) -> Finding:
    """The finding for a file that cannot be read, or a folder that cannot be listed."""
    return Finding(path, 'unreadable', ' '.join(str(error).split())[:300])


def _read_index(folder: str, place: str) -> CheckedIndex:
    path = _index_path(folder, place)
    try:
        return check_index(path, storage.read(path))
    except StorageError as error:
        return CheckedIndex([], [unreadable(path, error)], complete=False)


def _no_index(folder: str) -> CheckedIndex:
    detail = 'absent: there is no dataset here; rebuild-index makes one for shards that are left'
    finding = Finding(storage.join(folder, INDEX_NAME), 'index', detail)
    return CheckedIndex([], [finding], complete=False)


def _index_path(folder: str, place: str) -> str:
    return storage.join(storage.join(folder, place) if place else folder, INDEX_NAME)


def _compare_below(
    folder: str, root: CheckedIndex, below: Mapping[str, CheckedIndex]
) -> Iterator[Finding]:
    """Compares the index of a split or merged dataset with those in its sub-folders.

    Where the root lists no shard of any sub-folder with an index, those are other datasets.
    """
    above = {info.stored.basename: info for info in root.shards}
    of_place: dict[str, set[str]] = {}
    for path in above:
        if (place := _place_of(path, below)) is not None:
            of_place.setdefault(place, set()).add(path)
    for place, index in below.items() if of_place else ():
        # What is wrong with shards, the root's index shows too.
        yield from (found for found in index.findings if found.kind in ('index', 'unreadable'))
        if not (root.complete and index.complete):
            continue
        here = {info.stored.basename: info for info in (_moved(i, place) for i in index.shards)}
        path = _index_path(folder, place)
        if lost := here.keys() - above.keys():
            detail = f'lists none of {len(lost)} shards that {path} lists, such as {min(lost)}'
            yield Finding(_index_path(folder, ''), 'index', detail)
        if lost := of_place.get(place, set()) - here.keys():
            detail = f'lists none of {len(lost)} shards of its folder that the index above lists'
            yield Finding(path, 'index', f'{detail}, such as {min(lost)}')
        both = here.keys() & above.keys()
        if other := [name for name in both if here[name] != above[name]]:
            detail = f'describes {len(other)} shards otherwise than the index above'
            yield Finding(path, 'index', f'{detail}, such as {min(other)}')


def _place_of(path: str, places: Collection[str]) -> str | None:
    """The deepest of these folders that a file lies below."""
    while '/' in path:
        path = path.rpartition('/')[0]
        if path in places:
            return path
    return None


def _moved(info: ShardInfo, place: str) -> ShardInfo:
    """The shard of a sub-folder's index, as an index above it has it."""

    def moved(file: FileInfo) -> FileInfo:
        return replace(file, basename=f'{place}/{file.basename}')

    zipped = info.zip_data
    return replace(info, raw_data=moved(info.raw_data), zip_data=zipped and moved(zipped))


def _leftovers(folder: str, sizes: Mapping[str, int]) -> Iterator[Finding]:
    """What writes put beside shards for a while; a folder of it is one finding."""
    found: dict[str, list[int]] = {}
    for name, size in sizes.items():
        at = f'/{name}'.find(f'/{LEFTOVER}')
        if at >= 0:
            found.setdefault(name[: f'{name}/'.index('/', at)], []).append(size)
    for name, parts in sorted(found.items()):
        detail = f'{len(parts)} files, {sum(parts)} bytes: left by a write that failed, or in use'
        yield Finding(storage.join(folder, name), 'extra', f'{detail} by one that is running')


def _unlisted(
    folder: str, sizes: Mapping[str, int], indexes: Mapping[str, CheckedIndex]
) -> Iterator[Finding]:
    """Files with a shard's name that no index lists, where all is known that they list."""
    listed = {
        f'{place}/{file.basename}' if place else file.basename
        for place, index in indexes.items()
        for info in index.shards
        for file in (info.raw_data, info.stored)
    }
    unknown = {place for place, index in indexes.items() if not index.complete}
    if '' in unknown:
        return
    for name in sorted(sizes):
        shard = '.mds' in name.rpartition('/')[2] and f'/{LEFTOVER}' not in f'/{name}'
        if shard and name not in listed and _place_of(name, unknown) is None:
            yield Finding(
                storage.join(folder, name), 'extra', f'{sizes[name]} bytes; no index lists this'
            )


def _bad_copies(
    folder: str, sizes: Mapping[str, int], shards: Iterable[ShardInfo]
) -> Iterator[Finding]:
    """Unpacked shards beside the packed ones, of another size: readers take them as they are."""
    for info in shards:
        raw = info.raw_data
        if info.zip_data is not None and sizes.get(raw.basename, raw.bytes) != raw.bytes:
            detail = f'{sizes[raw.basename]} bytes, unpacked from {info.zip_data.basename} it has'
            path = storage.join(folder, raw.basename)
            yield Finding(path, 'size', f'{detail} {raw.bytes}')


def _tasks(folder: str, sizes: Mapping[str, int], shards: Sequence[ShardInfo]) -> list[ShardTask]:
    ranges = [range_of(info.stored.basename) for info in shards]
    parts = Counter(ranges)
    seen = {key: itertools.count() for key in parts}
    return [
        ShardTask(
            storage.join(folder, info.stored.basename),
            info,
            sizes.get(info.stored.basename),
            next(seen[key]),
            parts[key],
        )
        for info, key in zip(shards, ranges, strict=True)
    ]


def range_of(path: str) -> tuple[str, int | None]:
    """What the shards of one range have in common: the folder and the number."""
    place, _, basename = path.rpartition('/')
    named = planning.numbered(basename)
    return place, named and named[0]

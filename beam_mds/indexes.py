"""Datasets by their paths, and the index.json of each; no pipeline here."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from beam_mds import storage
from beam_mds.errors import FormatError, OptionError, StorageError
from beam_mds.format import INDEX_NAME, ShardInfo, parse_index
from beam_mds.format.index import Entry, iter_entries
from beam_mds.writing.splits import check_split

Path: TypeAlias = str | os.PathLike[str]

GLOB = re.compile(r'[*?[]')
_NUMBERS = re.compile(r'(\d+)', re.ASCII)


def natural_key(path: str) -> list[tuple[int, str]]:
    """Sorts paths with their numbers as numbers, folder by folder.

    Example:
        >>> sorted(['part-10/a', 'part-9/b', 'part/c'], key=natural_key)
        ['part/c', 'part-9/b', 'part-10/a']
    """
    # '/' sorts before every other character, so that a folder's files stay together.
    pieces = _NUMBERS.split(path.replace('/', '\0'))
    return [
        (int(piece), piece) if number % 2 else (-1, piece) for number, piece in enumerate(pieces)
    ]


def given_paths(
    path: Path | Sequence[Path], split: str | None = None, option: str = 'path'
) -> list[str]:
    """Absolute paths of what a caller names: one path, or a list of them.

    Args:
        path: Dataset folders, their index.json files, or globs of either.
        split: A sub-folder of each.
        option: What the caller calls it.

    Raises:
        OptionError: None, one that is no path, or a split that is no sub-folder.
    """
    given: Any = [path] if isinstance(path, (str, os.PathLike)) else path
    if not isinstance(given, Sequence) or not given:
        raise OptionError(f'{option} must be a path or a list of at least one, got {path!r:.80}')
    folders = [folder_of(storage.absolute(item, option)) for item in given]
    return folders if split is None else [storage.join(f, check_split(split)) for f in folders]


def is_glob(path: str) -> bool:
    """Whether a path has characters of a pattern; a name can have them too."""
    return bool(GLOB.search(path))


def dataset_folders(paths: Sequence[str]) -> list[str]:
    """The folders of the datasets that paths name; those of a glob in natural order.

    Args:
        paths: Absolute, as `given_paths` gives them, or with /index.json.

    Raises:
        StorageError: A glob matches no dataset.
    """
    found: dict[str, None] = {}
    for path in map(folder_of, paths):
        index = storage.join(path, INDEX_NAME)
        if not is_glob(path) or storage.size_of(index) is not None:
            found[path] = None
            continue
        folders = sorted(map(folder_of, storage.match(index)), key=natural_key)
        if not folders:
            raise StorageError(f'{path}: no folder that it matches has an {INDEX_NAME}')
        found.update(dict.fromkeys(folders))
    return list(found)


def read_index(path: Path) -> list[ShardInfo]:
    """The shards of a dataset.

    Args:
        path: The dataset's folder, or its index.json, on any filesystem that Beam knows.

    Raises:
        StorageError: There is no index.json, or it cannot be read.
        FormatError: It is no MDS index; the file is named.
    """
    name = storage.join(folder_of(storage.absolute(path, 'path')), INDEX_NAME)
    try:
        return parse_index(storage.read(name))
    except FormatError as error:
        raise FormatError(f'{name}: {error}') from error


def entries_of(
    path: str, pieces: Iterable[bytes] | None = None
) -> Iterator[tuple[Entry, ShardInfo]]:
    """The shards that an index.json lists, one after another while it is read.

    Args:
        path: Of the index.json.
        pieces: Its content, if it has been read already.

    Raises:
        StorageError: It cannot be read.
        FormatError: It is no MDS index; the file is named.
    """
    try:
        yield from iter_entries(storage.Pieces(path) if pieces is None else pieces)
    except FormatError as error:
        raise FormatError(f'{path}: {error}') from error


def folder_of(path: str) -> str:
    """The folder of a dataset that is named by it, or by its index.json."""
    return path.removesuffix(f'/{INDEX_NAME}')

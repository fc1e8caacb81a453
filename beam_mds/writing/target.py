"""The output folder as a write finds it: the dataset that is there, and what failed writes left.

The root's index.json is the dataset. The indexes of its splits, in sub-folders, are published just
before it, so after a failure they can be ahead of it. A journal, written before the first of them,
tells later writes which shards are such, and which files an overwrite was about to delete.
"""

from __future__ import annotations

import json
import re
import tempfile
import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from beam_mds import storage
from beam_mds.errors import FormatError, TargetError
from beam_mds.format import INDEX_NAME, ShardConfig, hex_digest
from beam_mds.format.index import Entry, folder_of, moved_entry, parse_entries, stored_path
from beam_mds.writing.options import WriteOptions

# Names of what we put beside shards for a while; all start with a dot and match no `*.mds*`.
SPILL = '.beam-mds-spill-'
JOURNAL = '.beam-mds-journal-'

# Numbers in shard names, ours and MDSWriter's.
_NUMBER = re.compile(r'shard\.(\d+)\.', re.ASCII)


@dataclass(frozen=True)
class Target:
    """The output folder before anything was encoded.

    Attributes:
        run: A token that is unique to this run.
        spill_prefix: What the paths of spill folders for this output start with; None for inline.
        digest: A hash of the entries of the dataset that was there, if one was.
        next_numbers: Split -> number of the first new shard, where that is not 0.
    """

    run: str
    spill_prefix: str | None
    digest: str
    next_numbers: Mapping[str, int]

    @property
    def spill_folder(self) -> str | None:
        """Where this run's run files go."""
        return None if self.spill_prefix is None else self.spill_prefix + self.run


@dataclass(frozen=True)
class Journal:
    """What a write was about to change.

    Attributes:
        new: Paths of its shards, relative to the dataset's root.
        old: Paths of files that it was about to delete.
    """

    new: frozenset[str] = frozenset()
    old: frozenset[str] = frozenset()

    @property
    def folders(self) -> frozenset[str]:
        """The splits that are named."""
        return frozenset(path.rpartition('/')[0] for path in (*self.new, *self.old))

    def to_bytes(self) -> bytes:
        """The journal's file."""
        return json.dumps({'new': sorted(self.new), 'old': sorted(self.old)}).encode()


@dataclass(frozen=True)
class Dataset:
    """The dataset in a folder, as its indexes tell.

    Attributes:
        entries: Its shards; basenames are relative to its root.
        configs: Their configs.
        published: Content of each index.json that was read, by sub-folder; empty for the root.
        split_paths: Sub-folder -> paths of the shards that its own index lists.
        ahead: Paths of shards that only the index of a split lists, and no failed write explains.
        journal: What failed writes left to be done.
    """

    entries: list[Entry] = field(default_factory=list)
    configs: list[ShardConfig] = field(default_factory=list)
    published: dict[str, bytes] = field(default_factory=dict)
    split_paths: dict[str, frozenset[str]] = field(default_factory=dict)
    ahead: frozenset[str] = frozenset()
    journal: Journal = field(default_factory=Journal)

    @property
    def paths(self) -> frozenset[str]:
        """All stored files that an index lists, relative to the root."""
        return frozenset(map(stored_path, self.entries)) | self.ahead


def check_target(options: WriteOptions, spill: str | None) -> Target:
    """Looks at the folder once, before the first sample is encoded.

    Args:
        options: Of the write.
        spill: `beside` the dataset, `temp` for the machine's temporary folder, a folder, or None.

    Raises:
        TargetError: The folder holds a dataset that the options do not allow to change, or one
            that only the write that failed can complete.
        StorageError, FormatError: An index cannot be read; the file is named.
    """
    found = storage.list_folder(options.out) if options.split else {}
    dataset = find_dataset(options, found)
    numbers: dict[str, int] = {}
    if options.if_exists == 'error':
        # A split whose index was published by a write that failed before the root's is no dataset.
        complete = [
            folder
            for folder in dataset.published
            if not (paths := dataset.split_paths.get(folder)) or paths - dataset.journal.new
        ]
        if complete:
            raise TargetError(
                f'{_index_path(options.out, min(complete))} exists: it holds a dataset, and '
                "if_exists='error' leaves it as it is; write to another folder, or say 'overwrite' "
                "or 'append'"
            )
    if options.if_exists == 'append':
        _check_append(options, dataset)
        numbers = _next_numbers(dataset.entries)
    prefix = None
    if spill == 'beside':
        prefix = storage.join(options.out, SPILL)
    elif spill is not None:
        folder = tempfile.gettempdir() if spill == 'temp' else spill
        mark = hex_digest('xxh3_64', [options.out.encode()])
        prefix = storage.join(folder, f'{SPILL[1:]}{mark}-')
    return Target(uuid.uuid4().hex, prefix, digest_of(dataset.entries), numbers)


def find_dataset(options: WriteOptions, found: Collection[str]) -> Dataset:
    """Reads the indexes in a folder.

    Args:
        options: Of the write. Without a split, only the root's index counts, and those in the
            sub-folders that it lists or that a failed write was about to change. With
            if_exists='error' it is not looked into.
        found: All files of the folder, relative to it.

    Raises:
        TargetError: A failed write has replaced some splits, and only running it again helps.
        StorageError, FormatError: An index cannot be read; the file is named.
    """
    published: dict[str, bytes] = {}
    listed: dict[str, list[tuple[Entry, ShardConfig]]] = {}

    def read(folder: str) -> None:
        path = _index_path(options.out, folder)
        published[folder] = storage.read(path)
        if options.if_exists == 'error' and not folder:
            return  # whatever it is, it stays
        try:
            shards = parse_entries(published[folder])
        except FormatError as error:
            raise FormatError(f'{path}: {error}') from error
        listed[folder] = [(moved_entry(entry, folder), info.config) for entry, info in shards]

    if storage.size_of(_index_path(options.out, '')) is not None:
        read('')
    end = f'/{INDEX_NAME}'
    journal = _read_journals(options.out, found)
    merged = {folder_of(entry) for entry, _ in listed.get('', ())}
    for name in sorted(found):
        folder = name.removesuffix(end)
        if name.endswith(end) and (options.split or folder in merged | journal.folders):
            read(folder)
    replaced = any('/' in path and path in found for path in journal.old)
    redone = options.split and options.if_exists == 'overwrite'
    if '' not in published and replaced and not redone:
        raise TargetError(
            f'{options.out}: an overwrite of splits that are datasets each for itself did not '
            'finish, and some are replaced: run it again first'
        )
    root = listed.pop('', None)
    below = {
        stored_path(pair[0]): pair
        for folder, pairs in listed.items()
        if options.split or folder in merged
        for pair in pairs
    }
    if root is None:  # no write of all splits was finished: what is complete is each for itself
        root = [pair for path, pair in below.items() if path not in journal.new]
    known = {stored_path(entry) for entry, _ in root}
    return Dataset(
        [entry for entry, _ in root],
        list(dict.fromkeys(config for _, config in root)),
        published,
        {name: frozenset(stored_path(e) for e, _ in pairs) for name, pairs in listed.items()},
        frozenset(below.keys() - known - journal.new - journal.old),
        journal,
    )


def digest_of(entries: Iterable[Entry]) -> str:
    """A hash of index entries, whatever their file looks like."""
    return hex_digest('xxh3_128', [json.dumps(entry, sort_keys=True).encode() for entry in entries])


def _index_path(out: str, folder: str) -> str:
    return storage.join(storage.join(out, folder) if folder else out, INDEX_NAME)


def _read_journals(out: str, found: Iterable[str]) -> Journal:
    """All journals together; one that is damaged was never acted on."""
    new: set[str] = set()
    old: set[str] = set()
    for name in found:
        if name.startswith(JOURNAL):
            try:
                content = json.loads(storage.read(storage.join(out, name)))
                parts = [frozenset(content[part]) for part in ('new', 'old')]
            except (ValueError, KeyError, TypeError, RecursionError):
                continue
            if all(isinstance(path, str) for part in parts for path in part):
                new |= parts[0]
                old |= parts[1]
    return Journal(frozenset(new), frozenset(old))


def _check_append(options: WriteOptions, dataset: Dataset) -> None:
    """Raises if the new samples do not fit the dataset that is there."""
    if dataset.ahead:
        raise TargetError(
            f'{options.out}: the index of a split lists {min(dataset.ahead)}, the index of the '
            'whole dataset does not: it was changed on its own; merge the indexes first'
        )
    wanted = options.config.columns.as_dict()
    for config in dataset.configs:
        there = config.columns.as_dict()
        if there == wanted:
            continue
        differences = [
            f'{name!r} is {there.get(name, "not there")}, to be appended: '
            f'{wanted.get(name, "not there")}'
            for name in sorted({*there, *wanted})
            if there.get(name) != wanted.get(name)
        ]
        raise TargetError(
            f'{options.out}: columns differ from those of the dataset: '
            f'{"; ".join(differences):.1000}'
        )


def _next_numbers(entries: Iterable[Entry]) -> dict[str, int]:
    """For each folder, a number above those of its shards."""
    counts: dict[str, int] = {}
    numbers: dict[str, int] = {}
    for entry in entries:
        folder, name = folder_of(entry), stored_path(entry).rpartition('/')[2]
        counts[folder] = counts.get(folder, 0) + 1
        if found := _NUMBER.match(name):
            numbers[folder] = max(numbers.get(folder, 0), int(found[1]) + 1)
    return {folder: max(count, numbers.get(folder, 0)) for folder, count in counts.items()}

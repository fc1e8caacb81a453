"""The shards of all parts of a merge, read and checked; nothing is written to storage here."""

from __future__ import annotations

import contextlib
import functools
import itertools
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from beam_mds import storage
from beam_mds.background import run_ahead
from beam_mds.errors import DamagedError, EmptyInputError, MergeError, TargetError
from beam_mds.format import INDEX_NAME, Columns
from beam_mds.format.index import Entry, folder_of, moved_entry, stored_path
from beam_mds.indexes import entries_of
from beam_mds.merging.parts import MergeOptions, Part, check_expected, find_parts, parents, shown
from beam_mds.merging.spool import EntrySpool, SpooledIndex
from beam_mds.publishing import holds

_logger = logging.getLogger(__name__)

# Parts that are read at once: most of the time of one is waiting for the store.
THREADS = 16

# Parts whose files are held at once, to be compared with those that an index above them lists.
_HELD = 8

# Tables with more columns than this are not shown whole in an error.
_FEW_COLUMNS = 8

# Items, what they are, how many there are if that is known -> the items.
Progress: TypeAlias = Callable[[Iterable[Any], str, int | None], Iterable[Any]]


class Copy(NamedTuple):
    """A shard file that is to be copied.

    Attributes:
        source: The file.
        target: Where to.
        size: Its bytes.
    """

    source: str
    target: str
    size: int


class Gathered:
    """What a merge writes. To be closed, as it has a temporary file.

    Attributes:
        parts: Datasets that are merged: those with no other below them, and folders of which an
            index above tells alone.
        unchanged: Whether the index in `out` is the merged one already.
    """

    def __init__(
        self, options: MergeOptions, paths: Sequence[str] | None, progress: Progress
    ) -> None:
        """Reads and checks everything.

        Args:
            options: Of the merge.
            paths: The parts, as absolute folders and globs; None for all at and below `out`.
            progress: Passes the parts on while they are read.

        Raises:
            MDSError: See `merge_indexes`.
        """
        self._options = options
        self._columns: tuple[Columns, str] | None = None
        self._spool = EntrySpool()
        # Folders of the merged index in which a part has shards; in order.
        self._folders: dict[Part, dict[str, None]] = {}
        self._listed = functools.lru_cache(_HELD)(self._paths_of)
        try:
            self._read(paths, progress)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Closes the temporary file."""
        self._spool.close()

    @property
    def index(self) -> SpooledIndex:
        """The merged index."""
        return self._spool.index()

    @property
    def shards(self) -> int:
        """How many it lists."""
        return self._spool.shards

    @property
    def samples(self) -> int:
        """How many they hold."""
        return self._spool.samples

    @property
    def copies(self) -> Iterator[Copy]:
        """The files that it lists and that do not lie below `out`."""
        out = self._options.out
        for part, folders in self._folders.items():
            if part.folder == out or part.folder.startswith(f'{out}/'):
                continue
            for entry in itertools.chain.from_iterable(map(self._spool.entries, folders)):
                path = stored_path(entry)
                yield Copy(
                    storage.join(part.folder, path[len(part.place) + 1 :]),
                    storage.join(out, path),
                    (entry['zip_data'] or entry['raw_data'])['bytes'],
                )

    def check_old(self) -> None:
        """Makes sure that the index in `out` is still the one that was there.

        Raises:
            TargetError: It is not.
        """
        if storage.size_of(self._options.index) != self._old_size:
            raise TargetError(
                f'{self._options.index} appeared or changed during the merge: another job wrote to '
                'the same folder; its index was left as it is'
            )

    def _read(self, paths: Sequence[str] | None, progress: Progress) -> None:
        options = self._options
        self._old_size = storage.size_of(options.index)
        self._found = {part.place: part for part in find_parts(options, paths)}
        above = {p for place in self._found for p in parents(place) if p in self._found}
        self._read_leaves([p for place, p in self._found.items() if place not in above], progress)
        for place in sorted(above - {''}, key=lambda place: -place.count('/')):
            self._read_upper(self._found[place])
        self.unchanged = self._is_there()
        if not self.unchanged:
            if '' in above:
                self._read_upper(self._found[''])
            elif '' not in self._found and not options.overwrite and self._old_size is not None:
                self._check_nothing_is_lost()
            self.unchanged = self._is_there()
        self.parts = [part for place, part in self._found.items() if place not in above]
        self.parts += [
            Part(f'{part.folder}/{folder[len(part.place) :].lstrip("/")}'.rstrip('/'), folder)
            for part in map(self._found.__getitem__, above)
            for folder in self._folders.get(part, ())
        ]
        check_expected(options, list(self._found.values()), self.parts)
        if not self.parts:
            raise EmptyInputError(
                f'no part has an {INDEX_NAME} at or below {options.out}: there is nothing to merge'
            )
        if not self.shards:
            raise EmptyInputError(
                f'none of {len(self.parts)} parts has a shard, and an index without shards is '
                f'refused by the reader, so none was written in {options.out}'
            )

    def _is_there(self) -> bool:
        index = self.index
        return self._old_size == index.size and holds(self._options.index, index, index.size)

    def _read_leaves(self, leaves: Sequence[Part], progress: Progress) -> None:
        """Reads the parts that have no other part below them."""
        missing = []
        # Closed here, should a part be refused: left to the garbage collector, which may come by in
        # any thread with any lock, its threads would be waited for there.
        with contextlib.closing(run_ahead(_fetch, leaves, THREADS)) as read:
            for part, data, files in progress(read, 'datasets', len(leaves)):
                if data is None:
                    missing.append(part.folder)
                else:
                    self._add(part, part.place, self._checked(part, [data], files))
        if missing:
            raise MergeError(
                f'no {INDEX_NAME} in {shown(missing)}, so none was written in {self._options.out}: '
                'what writes them failed or is not done'
            )

    def _read_upper(self, part: Part) -> None:
        """Reads a part that has others below it; what those list is theirs."""
        owners = self._rest(part)
        sizes = _sizes(part.folder, owners)
        gone, kept = [], set()
        for name, owner in owners.items():
            if owner is not None and name in sizes:
                raise MergeError(
                    f'{part.index} lists {name}, and {owner.index}, which has that folder, does '
                    'not: one of them is out of date, so no index was written; name the parts to '
                    "be merged, or leave out the index that is wrong (that of out: if_exists='"
                    "overwrite', --overwrite)"
                )
            # A part that was merged into out's index earlier can be gone, or another by now.
            if name not in sizes and (owner is not None or (not part.place and '/' in name)):
                gone.append(name)
            else:
                kept.add(name)
        self._warn(part, gone)
        if kept:
            # Where they would be if their folder were a part, as it may be next time.
            entries = self._checked(part, storage.Pieces(part.index), sizes, kept)
            for folder, group in itertools.groupby(entries, folder_of):
                self._add(part, folder, group)

    def _check_nothing_is_lost(self) -> None:
        """Raises if the index in `out`, which is no part, lists a shard that no part lists."""
        old = Part(self._options.out, '')
        rest = self._rest(old)
        there = _sizes(old.folder, rest)
        if there:
            raise TargetError(
                f'{old.index} lists {len(there)} shards that no given part lists, like '
                f'{min(there)}: they would be lost; give {old.folder} as a part too, or drop them '
                "with if_exists='overwrite' (--overwrite)"
            )
        self._warn(old, list(rest))

    def _rest(self, part: Part) -> dict[str, Part | None]:
        """The files that only this part lists, each with the nearest part below it that could."""
        rest: dict[str, Part | None] = {}
        for _, info in entries_of(part.index):
            name = info.stored.basename
            path = f'{part.place}/{name}' if part.place else name
            below = itertools.takewhile(lambda place: place != part.place, parents(path))
            owner = next((self._found[place] for place in below if place in self._found), None)
            if owner is None or path not in self._listed(owner.place):
                rest[name] = owner
        return rest

    def _warn(self, part: Part, gone: Sequence[str]) -> None:
        if gone:
            _logger.warning(
                '%s: %d shards that it listed are gone, and so not in the merged index: %s',
                part.index, len(gone), shown(gone),
            )  # fmt: skip

    def _paths_of(self, place: str) -> frozenset[str]:
        folders = self._folders.get(self._found[place], ())
        entries = itertools.chain.from_iterable(map(self._spool.entries, folders))
        return frozenset(map(stored_path, entries))

    def _add(self, part: Part, folder: str, entries: Iterable[Entry]) -> None:
        self._spool.add(folder, entries)
        self._folders.setdefault(part, {})[folder] = None

    def _checked(
        self,
        part: Part,
        pieces: Iterable[bytes],
        sizes: Mapping[str, int],
        kept: Collection[str] | None = None,
    ) -> Iterator[Entry]:
        """The entries of a part as the merged index has them; only those that are kept."""
        seen: set[str] = set()
        wrong: list[tuple[str, int]] = []
        config = None
        for entry, info in entries_of(part.index, pieces):
            name = info.stored.basename
            if kept is not None and name not in kept:
                continue
            if info.config is not config:
                config = info.config
                self._check_columns(part, config.columns)
            if name in seen:
                raise MergeError(f'{part.index} lists {name} twice, so no index was written')
            seen.add(name)
            if sizes.get(name) != info.stored.bytes:
                wrong.append((name, info.stored.bytes))
            yield moved_entry(entry, part.place)
        if wrong:
            name, size = wrong[0]
            found = f'{sizes[name]} bytes' if name in sizes else 'not there'
            more = f' ({len(wrong)} such files in this part)' if len(wrong) > 1 else ''
            raise DamagedError(
                storage.join(part.folder, name),
                f'{found}, {part.index} lists {size} bytes{more}; no index was written',
            )

    def _check_columns(self, part: Part, columns: Columns) -> None:
        if self._columns is None:
            self._columns = columns, part.index
        first, index = self._columns
        if columns == first:
            return
        tables = [first.as_dict(), columns.as_dict()]
        shared = set.intersection(*(set(table.items()) for table in tables))
        many = max(map(len, tables)) > _FEW_COLUMNS
        lines = [
            f'  {path}: '
            + ', '.join(f'{c[0]} {c[1]}' for c in table.items() if not (many and c in shared))[:500]
            + (f' and {len(shared)} that are the same' if many else '')
            for path, table in zip((index, part.index), tables, strict=True)
        ]
        raise MergeError(
            'different columns cannot be read as one dataset, so no index was written:\n'
            + '\n'.join(lines)
        )


class _Read(NamedTuple):
    """A part; its index.json, or None; the files at and below its folder, with their sizes."""

    part: Part
    data: bytes | None
    files: Mapping[str, int]


def _fetch(part: Part) -> _Read:
    files = storage.list_folder(part.folder)
    return _Read(part, storage.read(part.index) if INDEX_NAME in files else None, files)


def _sizes(folder: str, names: Collection[str]) -> dict[str, int]:
    """The sizes of those files that are there."""
    below = {name.rpartition('/')[0] for name in names}
    found = {}
    for place in [''] if '' in below else below:
        prefix = f'{place}/' if place else ''
        for name, size in storage.list_folder(f'{folder}/{prefix}'.rstrip('/')).items():
            if prefix + name in names:
                found[prefix + name] = size
    return found

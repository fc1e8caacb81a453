"""The end of a write: the index that completes the dataset, and what is then not part of it."""

from __future__ import annotations

import functools
import glob
import logging
import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from beam_mds import storage
from beam_mds.errors import (
    EmptyInputError,
    ErrorThresholdError,
    LostSamplesError,
    StorageError,
    TargetError,
)
from beam_mds.format import INDEX_NAME, ShardInfo
from beam_mds.format.index import (
    Entry,
    dump_entries,
    entry_of,
    folder_of,
    moved_entry,
    stored_path,
)
from beam_mds.publishing import STAGED, publish
from beam_mds.writing.options import WriteOptions
from beam_mds.writing.planning import OWN_SHARD
from beam_mds.writing.shardfile import Fragment
from beam_mds.writing.target import (
    JOURNAL,
    SPILL,
    Dataset,
    Journal,
    Target,
    digest_of,
    find_dataset,
)

_logger = logging.getLogger(__name__)

# More shards than this, under so many bytes on average, are small; an index over this is large.
_MANY, _SMALL, _LARGE_INDEX = 100, 1 << 20, 256 << 20

# Bytes of an index of the whole dataset that is read again before that of each split is published;
# of a larger one, the size must do.
_READ_OFTEN = 1 << 20

# Names in an error message, where a list may be long.
_SHOWN = 3


class Counts(NamedTuple):
    """Samples that passed the steps of a write.

    Attributes:
        collected: Given to the write.
        encoded: Encoded.
        refused: Dead letters.
    """

    collected: int
    encoded: int
    refused: int


def commit(
    options: WriteOptions, target: Target, fragments: Sequence[Fragment], counts: Counts
) -> list[Fragment]:
    """Checks that everything is there, publishes the index, and removes what is not part of it.

    Running it again after it succeeded changes nothing.

    Args:
        options: Of the write.
        target: The folder as it was.
        fragments: All shards that were written, in any order.
        counts: How many samples there were.

    Returns:
        The new shards in the index's order.

    Raises:
        LostSamplesError: The shards do not hold exactly the samples that were encoded.
        ErrorThresholdError: There are more dead letters than allowed.
        EmptyInputError: There was no sample, and that is not allowed.
        StorageError: A shard is missing or has another size, or the index could not be published.
        TargetError: Somebody else has changed the dataset since the job started.
    """
    ordered = sorted(fragments, key=lambda f: (f.split, f.number, f.part, f.stored.basename))
    _check_counts(options, counts, sum(fragment.samples for fragment in ordered))
    if ordered:
        found = _check_files(options.out, ordered)
        dataset = find_dataset(options, found)
        change = _plan_change(options, target, dataset, ordered)
        journals = [name for name in found if name.startswith(JOURNAL)]
        journals += _write_journal(options, dataset, change)
        size = _publish(options, dataset, change)
        _clean(options, dataset, change, found, journals)
        _logger.info('%s: %d samples in %d shards', options.out, counts.encoded, len(ordered))
        _advise(options, ordered, size)
        beside = storage.join(options.out, SPILL)  # a failed run can have spilled elsewhere
        if beside != target.spill_prefix and any(name.startswith(SPILL) for name in found):
            _remove_spill(beside)
    if target.spill_prefix is not None:
        _remove_spill(target.spill_prefix)
    return ordered


@dataclass(frozen=True)
class _Change:
    """What a commit does to the dataset in the folder.

    Attributes:
        indexes: Sub-folder -> the entries of its index afterwards; the root's is the last.
        new: Paths of the new shards.
        old: Paths of shards that are not part of the dataset afterwards.
    """

    indexes: dict[str, list[Entry]]
    new: frozenset[str]
    old: frozenset[str]

    @property
    def listed(self) -> frozenset[str]:
        """Paths of all shards of the dataset afterwards."""
        return frozenset(map(stored_path, self.indexes['']))


def _check_counts(options: WriteOptions, counts: Counts, written: int) -> None:
    if counts.collected != counts.encoded + counts.refused:
        raise LostSamplesError(
            f'{counts.collected} samples were given, {counts.encoded} were encoded and '
            f'{counts.refused} refused: the runner lost or repeated some on the way, so no index '
            f'was published in {options.out}'
        )
    if written != counts.encoded:
        raise LostSamplesError(
            f'{counts.encoded} samples were encoded, the shards hold {written}: the runner lost or '
            f'repeated some on the way, so no index was published in {options.out}'
        )
    if counts.refused > options.threshold * counts.collected:
        raise ErrorThresholdError(
            f'{counts.refused} of {counts.collected} samples were refused, more than the '
            f'threshold of {options.threshold:g} allows, so no index was published in '
            f'{options.out}{_told(options)}'
        )
    if not counts.encoded and not options.allow_empty:
        raise EmptyInputError(
            f'there was no sample to write to {options.out}, and an index without shards is '
            'refused by the reader; allow_empty=True makes this a success that writes no index'
        )


def _told(options: WriteOptions) -> str:
    return '' if options.errors_output is None else f'; they are listed in {options.errors_output}'


def _check_files(out: str, fragments: Sequence[Fragment]) -> dict[str, int]:
    """Checks every shard's size by one listing, which is returned."""
    found = storage.list_folder(out)
    wrong = [
        f'{f.path} ({f.stored.bytes} bytes written, {found.get(f.path, "none")} listed)'
        for f in fragments
        if found.get(f.path) != f.stored.bytes
    ]
    if wrong:
        more = f' and {len(wrong) - _SHOWN} more' if len(wrong) > _SHOWN else ''
        raise StorageError(
            f'shards in {out} are missing or have another size, so no index was published: '
            f'{", ".join(wrong[:_SHOWN])}{more}; another job may have cleaned the folder'
        )
    return found


def _plan_change(
    options: WriteOptions, target: Target, dataset: Dataset, fragments: Sequence[Fragment]
) -> _Change:
    """What is to be published, after a look at what others did meanwhile."""
    splits: dict[str, list[Entry]] = {}
    for f in fragments:
        info = ShardInfo(options.config, f.samples, f.raw_data, f.zip_data)
        splits.setdefault(f.split, []).append(entry_of(info))
    added = [moved_entry(e, split) for split, entries in splits.items() for e in entries]
    new = frozenset(map(stored_path, added))
    # An earlier attempt of this step can have published all of it or a part.
    others = [entry for entry in dataset.entries if stored_path(entry) not in new]
    kept: list[Entry] = []
    if options.if_exists == 'append':
        kept = others
        # Ahead are the indexes of splits that somebody changed after CheckTarget.
        unchanged = digest_of(others) == target.digest and not (options.split and dataset.ahead)
    elif '' not in dataset.published:
        # Splits that are datasets each for itself: in an overwrite, some can be replaced already.
        unchanged = options.if_exists == 'overwrite' or digest_of(others) == target.digest
    elif options.if_exists == 'error':
        unchanged = dataset.published[''] == dump_entries(added)
    else:
        unchanged = dataset.entries == added or digest_of(dataset.entries) == target.digest
    if not unchanged:
        raise _changed(storage.join(options.out, INDEX_NAME))
    listed = frozenset(map(stored_path, kept)) | new
    # An index that a failed write left ahead of the root's goes back, or on with the new shards.
    touched = dict.fromkeys(split for split in splits if split) | dict.fromkeys(
        folder
        for folder, paths in dataset.split_paths.items()
        if paths & dataset.journal.new - listed and any(folder_of(e) == folder for e in kept)
    )
    below = {
        split: [
            *(moved_entry(e, split, back=True) for e in kept if folder_of(e) == split),
            *splits.get(split, ()),
        ]
        for split in touched
    }
    old = dataset.paths if options.if_exists == 'overwrite' else frozenset()
    return _Change({**below, '': kept + added}, new, old - listed)


def _write_journal(options: WriteOptions, dataset: Dataset, change: _Change) -> list[str]:
    """Notes what is about to change, where a failure would leave more than unlisted shards.

    Returns:
        The names of the files that were written.
    """
    noted = change.new <= dataset.journal.new and change.old <= dataset.journal.old
    if noted or not (len(change.indexes) > 1 or change.old):
        return []
    name = f'{JOURNAL}{uuid.uuid4().hex}.json'
    journal = Journal(change.new, change.old).to_bytes()
    publish(storage.join(options.out, name), [journal], len(journal))
    return [name]


def _publish(options: WriteOptions, dataset: Dataset, change: _Change) -> int:
    """Puts the indexes in place, the root's last; returns its size."""
    root = dump_entries(change.indexes[''])
    for folder, entries in change.indexes.items():
        data = dump_entries(entries) if folder else root
        path = storage.join(options.folder_of(folder), INDEX_NAME)
        check = functools.partial(_check_unchanged, options, dataset, root, folder, data)
        if dataset.published.get(folder) != data:
            publish(path, [data], len(data), check)
        # Nothing may be cleaned under an index that is not ours: two jobs can have looked at the
        # same moment.
        if storage.read(path) != data:
            raise _changed(path)
    return len(root)


def _check_unchanged(
    options: WriteOptions, dataset: Dataset, root: bytes, folder: str, data: bytes
) -> None:
    """Raises if an index, or the root's, is neither what was there nor ours."""
    for name, ours in {'': root, folder: data}.items():
        path = storage.join(options.folder_of(name), INDEX_NAME)
        known = (dataset.published.get(name), ours)
        size = storage.size_of(path)
        if size not in [None if index is None else len(index) for index in known]:
            raise _changed(path)
        look = size is not None and (name == folder or size <= _READ_OFTEN)
        if look and storage.read(path) not in known:
            raise _changed(path)


def _changed(path: str) -> TargetError:
    return TargetError(
        f'{path} appeared or changed while this job was running: another job wrote to the same '
        'folder; its index was left as it is'
    )


def _clean(
    options: WriteOptions,
    dataset: Dataset,
    change: _Change,
    found: Collection[str],
    journals: Collection[str],
) -> None:
    """Deletes what is not part of the dataset: its old files, and what failed attempts left."""
    stale = (change.old | dataset.journal.old | dataset.journal.new) - change.listed
    others = {
        folder: paths
        for folder, paths in dataset.split_paths.items()
        if folder not in change.indexes
    }
    overwrite = options.if_exists == 'overwrite'  # an empty index is a dataset too
    gone = {f for f, paths in others.items() if paths <= stale and (paths or overwrite)}
    listed = change.listed.union(*(others[folder] for folder in others.keys() - gone))
    folders = {'', *dataset.journal.folders}
    strays = {
        name
        for name in found
        if name not in listed
        and (
            name in stale
            or (_is_ours(name) and (options.split or name.rpartition('/')[0] in folders))
        )
    }
    indexes = {f'{folder}/{INDEX_NAME}' for folder in gone}
    try:
        for names in (indexes, strays, journals):  # what lists others first, the list of all last
            storage.delete([storage.join(options.out, name) for name in sorted(names)])
    except StorageError as error:
        _logger.warning('the dataset is complete, but leftover files stay: %s', error)


def _advise(options: WriteOptions, fragments: Sequence[Fragment], size: int) -> None:
    """Warns of a dataset that is complete, but slow to read."""
    mean = sum(fragment.raw_data.bytes for fragment in fragments) // len(fragments)
    if len(fragments) > _MANY and mean < _SMALL:
        _logger.warning(
            '%s: %d shards of %d bytes on average: readers open each of them; %s',
            options.out, len(fragments), mean, _more_per_shard(options),
        )  # fmt: skip
    if size > _LARGE_INDEX:
        _logger.warning(
            '%s: index.json has %d bytes, and every reader loads it whole; %s',
            options.out, size, _more_per_shard(options),
        )  # fmt: skip


def _more_per_shard(options: WriteOptions) -> str:
    """What to set so that shards hold more."""
    if options.num_shards is not None:
        return 'set a smaller num_shards, or none'
    if options.max_samples_per_shard is not None:
        return 'set a larger max_samples_per_shard, or none'
    if options.split is not None:
        return 'set a larger size_limit, or fewer splits'
    return "set a larger size_limit: the default is '64mb'"


def _is_ours(path: str) -> bool:
    """Whether a file's name is one that only we give."""
    name = path.rpartition('/')[2]
    return bool(OWN_SHARD.fullmatch(name)) or name.startswith(STAGED)


def _remove_spill(prefix: str) -> None:
    """Deletes the spill folders of this output: this run's, and those that failed runs left."""
    try:
        if not storage.is_remote(prefix):
            for folder in glob.glob(glob.escape(prefix) + '*'):
                storage.delete_folder(folder)
            return
        parent, _, start = prefix.rpartition('/')
        names = [name for name in storage.list_folder(parent) if name.startswith(start)]
        storage.delete([storage.join(parent, name) for name in names])
    except StorageError as error:
        _logger.warning('the dataset is complete, but spilled files stay: %s', error)

"""The two ends of a write: the folder's state before it, and the index that completes it."""

from __future__ import annotations

import glob
import logging
import tempfile
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from beam_mds import storage
from beam_mds.errors import EmptyInputError, LostSamplesError, StorageError, TargetError
from beam_mds.format import INDEX_NAME, ShardInfo, dump_index, hex_digest
from beam_mds.options import WriteOptions
from beam_mds.planning import OWN_SHARD
from beam_mds.shardfile import Fragment

_logger = logging.getLogger(__name__)

# Names of what we put beside shards for a while; both start with a dot and match no `*.mds*`.
_SPILL = '.beam-mds-spill-'
_STAGED_INDEX = '.beam-mds-index-'

# Names in an error message, where a list may be long.
_SHOWN = 3


@dataclass(frozen=True)
class Target:
    """The output folder as it was before anything was encoded.

    Attributes:
        run: A token that is unique to this run.
        spill_prefix: What the paths of spill folders for this output start with; None for inline.
    """

    run: str
    spill_prefix: str | None

    @property
    def spill_folder(self) -> str | None:
        """Where this run's run files go."""
        return None if self.spill_prefix is None else self.spill_prefix + self.run


def check_target(options: WriteOptions, spill: str | None) -> Target:
    """Looks at the folder once, before the first sample is encoded.

    Args:
        options: Of the write.
        spill: `beside` the dataset, `temp` for the machine's temporary folder, a folder, or None.

    Raises:
        TargetError: The folder holds a dataset, and the options do not say what to do with it.
    """
    index = storage.join(options.out, INDEX_NAME)
    if storage.size_of(index) is not None:
        raise TargetError(
            f"{index} exists: it holds a dataset, and if_exists='error' leaves it as it is; "
            'write to another folder, or remove that one first'
        )
    prefix = None
    if spill == 'beside':
        prefix = storage.join(options.out, _SPILL)
    elif spill is not None:
        folder = tempfile.gettempdir() if spill == 'temp' else spill
        mark = hex_digest('xxh3_64', [options.out.encode()])
        prefix = storage.join(folder, f'{_SPILL[1:]}{mark}-')
    return Target(uuid.uuid4().hex, prefix)


def commit(
    options: WriteOptions, target: Target, fragments: Sequence[Fragment], encoded: int
) -> list[Fragment]:
    """Checks that everything is there, publishes the index, and removes what is not part of it.

    Running it again after it succeeded changes nothing.

    Args:
        options: Of the write.
        target: The folder as it was.
        fragments: All shards that were written, in any order.
        encoded: How many samples were encoded.

    Returns:
        The shards in the index's order.

    Raises:
        LostSamplesError: The shards do not hold exactly the samples that were encoded.
        EmptyInputError: There was no sample, and that is not allowed.
        StorageError: A shard is missing or has another size, or the index could not be published.
        TargetError: Somebody else has published an index since the job started.
    """
    ordered = sorted(fragments, key=lambda f: (f.number, f.part, f.stored.basename))
    written = sum(fragment.samples for fragment in ordered)
    if written != encoded:
        raise LostSamplesError(
            f'{encoded} samples were encoded, the shards hold {written}: the runner lost or '
            f'repeated some on the way, so no index was published in {options.out}'
        )
    if ordered:
        data = dump_index(
            [ShardInfo(options.config, f.samples, f.raw_data, f.zip_data) for f in ordered]
        )
        found = _check_files(options.out, ordered)
        _publish(options.out, target, data)
        _clean(options.out, ordered, found)
        _logger.info('%s: %d samples in %d shards', options.out, written, len(ordered))
    elif not options.allow_empty:
        raise EmptyInputError(
            f'there was no sample to write to {options.out}, and an index without shards is '
            'refused by the reader; allow_empty=True makes this a success that writes no index'
        )
    if target.spill_prefix is not None:
        _remove_spill(target.spill_prefix)
    return ordered


def _check_files(out: str, fragments: Sequence[Fragment]) -> dict[str, int]:
    """Checks every shard's size by one listing, which is returned."""
    found = storage.list_folder(out)
    wrong = [
        f'{file.basename} ({file.bytes} bytes written, {found.get(file.basename, "none")} listed)'
        for file in (fragment.stored for fragment in fragments)
        if found.get(file.basename) != file.bytes
    ]
    if wrong:
        more = f' and {len(wrong) - _SHOWN} more' if len(wrong) > _SHOWN else ''
        raise StorageError(
            f'shards in {out} are missing or have another size, so no index was published: '
            f'{", ".join(wrong[:_SHOWN])}{more}; another job may have cleaned the folder'
        )
    return found


def _publish(out: str, target: Target, data: bytes) -> None:
    path = storage.join(out, INDEX_NAME)
    if storage.size_of(path) is None:
        storage.publish(path, data, storage.join(out, f'{_STAGED_INDEX}{target.run}.json'))
    # Also what an earlier attempt of this step published is ours. Nothing may be cleaned under an
    # index that is not: two jobs can have looked at the same moment.
    if storage.read(path) != data:
        raise TargetError(
            f'{path} appeared while this job was running: another job wrote to the same folder; '
            'its index was left as it is'
        )


def _clean(out: str, fragments: Sequence[Fragment], found: dict[str, int]) -> None:
    """Deletes our own files that the index does not list: what failed attempts left."""
    listed = {fragment.stored.basename for fragment in fragments}
    stray = [
        name
        for name in found
        if name not in listed and (OWN_SHARD.fullmatch(name) or name.startswith(_STAGED_INDEX))
    ]
    try:
        storage.delete([storage.join(out, name) for name in stray])
    except StorageError as error:
        _logger.warning('the dataset is complete, but leftover files stay: %s', error)


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

"""Making the index.json of a folder of shards anew, from the shards themselves."""

from __future__ import annotations

import contextlib
import functools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from beam_mds import storage
from beam_mds.background import run_ahead
from beam_mds.checking.checks import (
    Header,
    check_samples,
    column_differences,
    find_part,
    read_header,
    unpack,
)
from beam_mds.checking.findings import CheckError, Finding
from beam_mds.checking.inventory import LEFTOVER, range_of, unreadable
from beam_mds.errors import FormatError, OptionError, StorageError, TargetError
from beam_mds.format import INDEX_NAME, FileInfo, ShardInfo, dump_index, hex_digest
from beam_mds.format.compression import OPTIONAL_SUFFIX, suffix
from beam_mds.format.hashing import check_hashes
from beam_mds.indexes import Path, given_paths, natural_key
from beam_mds.publishing import publish

# The hashes to list: names, or those that each shard's own config names.
Hashes = Sequence[str] | str | None
SAME = 'same'

_SHARD = re.compile(rf'(.+\.mds){OPTIONAL_SUFFIX}', re.DOTALL)

# Threads, each with a shard in memory.
_THREADS = 4

# Damaged files in an error message, where a list may be long.
_SHOWN = 3


@dataclass(frozen=True)
class Rebuilt:
    """What `rebuild_index` did.

    Attributes:
        index: The path of the new index.json.
        shards: How many it lists.
        samples: How many these hold.
        findings: The files that it does not list, because they are damaged.
    """

    index: str
    shards: int
    samples: int
    findings: list[Finding]


class _Files(NamedTuple):
    """The files of one shard: its raw name, and the stored files, the best first."""

    raw_name: str
    stored: list[str]


class _Kept(NamedTuple):
    """A whole shard, and which of those with its number it is, where its name tells."""

    info: ShardInfo
    part: int | None


def rebuild_index(
    folder: Path,
    *,
    hashes: Hashes = None,
    if_exists: Literal['error', 'overwrite'] = 'error',
    deep: bool = False,
    threads: int = _THREADS,
) -> Rebuilt:
    """Makes the index.json of a folder of shards anew, for a dataset whose index is lost.

    Takes every file named `*.mds`, or `*.mds.zstd` and so on, in the folder and below it. Their
    order is that of their paths, with numbers as numbers: that of the lost index for shards of
    `WriteToMDS` (but in arrival order) and of `MDSWriter`. A damaged file is never listed. Of
    `x.mds` and `x.mds.zstd`, the packed one is listed if it is whole, else the other.

    Of a raw shard only the header is read, and nothing more is checked, unless `hashes`, `deep` or
    a hash in its name, as `WriteToMDS` gives it, ask for all of it.

    Args:
        folder: The folder, on any filesystem that Beam knows.
        hashes: Names of hashes to compute and list; `same`: those that each shard was written with.
        if_exists: When there is an index.json: `error`, or `overwrite` it.
        deep: Decode every sample too; see `verify_dataset`.
        threads: Shards that are read side by side; each is in memory, and decompressed.

    Raises:
        OptionError: A hash that there is not, or another wrong option.
        TargetError: There is an index.json, no shard at all, or none that is whole.
        FormatError: The shards have different columns.
        StorageError: The folder cannot be listed, or the index not be written.
        MissingExtraError: An image is to be decoded, and Pillow is not installed.

    Example:
        >>> rebuild_index('gs://bucket/dataset', hashes='same')  # doctest: +SKIP
        Rebuilt(index='gs://bucket/dataset/index.json', shards=12, samples=3400, findings=[])
    """
    names = None if hashes == SAME else check_hashes(hashes)
    if if_exists not in ('error', 'overwrite'):
        raise OptionError(f"if_exists must be 'error' or 'overwrite', got {if_exists!r:.80}")
    (root,) = given_paths(folder)
    index = storage.join(root, INDEX_NAME)

    def check_absent() -> None:
        if if_exists == 'error' and storage.size_of(index) is not None:
            raise TargetError(
                f"{index} exists and stays as it is; if_exists='overwrite' (--overwrite) replaces "
                'it'
            )

    check_absent()
    sizes = storage.list_folder(root)
    found = _find(sizes)
    if not found:
        raise TargetError(
            f'{root}: no file in it or below is named like a shard: *.mds, *.mds.zstd, ...'
        )
    parts = Counter(range_of(stored) for files in found for stored in files.stored)
    call = functools.partial(_best, root, sizes=sizes, parts=parts, hashes=names, deep=deep)
    kept: list[_Kept] = []
    findings: list[Finding] = []
    for best, damaged in run_ahead(call, found, threads):
        kept += [] if best is None else [best]
        findings += damaged
    if not kept:
        raise TargetError(f'{root}: no shard is whole, so there is no index: {_shown(findings)}')
    kept.sort(key=_position)
    _check_columns(root, kept)
    data = dump_index([shard.info for shard in kept])
    publish(index, [data], len(data), check_absent)
    return Rebuilt(index, len(kept), sum(shard.info.samples for shard in kept), findings)


def _find(sizes: Mapping[str, int]) -> list[_Files]:
    """The shards in a list of files, in natural order."""
    found: dict[str, list[str]] = {}
    for name in sorted(sizes, reverse=True):  # the packed ones before the raw one
        shard = _SHARD.fullmatch(name)
        if shard and f'/{LEFTOVER}' not in f'/{name}':
            found.setdefault(shard[1], []).append(name)
    return [_Files(name, found[name]) for name in sorted(found, key=natural_key)]


def _best(
    root: str,
    files: _Files,
    *,
    sizes: Mapping[str, int],
    parts: Mapping[tuple[str, int | None], int],
    hashes: Sequence[str] | None,
    deep: bool,
) -> tuple[_Kept | None, list[Finding]]:
    """The first whole file of a shard, and what is wrong with those before it."""
    findings: list[Finding] = []
    for name in files.stored:
        path = storage.join(root, name)
        try:
            with contextlib.closing(storage.Reader(path)) as file:
                look = _Look(file, files.raw_name, name, sizes[name], parts[range_of(name)])
                kept, damage = look.at(hashes, deep=deep)
            findings += damage
            if kept is not None:
                return kept, findings
        except StorageError as error:
            findings.append(unreadable(path, error))
        except CheckError as error:
            findings.append(Finding(path, error.kind, error.detail))
    return None, findings


class _Look(NamedTuple):
    """A stored file that is read as far as needed.

    Attributes:
        file: The open file.
        raw_name: The raw shard, relative to the root.
        name: The file, relative to the root.
        size: Its bytes, as listed.
        parts: How many shards with its number are known.
    """

    file: storage.Reader
    raw_name: str
    name: str
    size: int
    parts: int

    def at(self, hashes: Sequence[str] | None, *, deep: bool) -> tuple[_Kept | None, list[Finding]]:
        """The shard if it is whole, or what is wrong with its samples.

        Raises:
            CheckError: Something before the samples is wrong.
            StorageError: It cannot be read.
        """
        ending = self.name.removeprefix(self.raw_name)
        data = raw = None
        if ending:
            data = self._read(0, self.size)
            raw = unpack(ending[1:], data)
        header = self._header(raw)
        config = header.config
        as_written = suffix(config.compression) == ending  # not unpacked for good
        if ending and not as_written:
            raise CheckError(
                'config', f'compression is {config.compression!r}, the name ends with {ending}'
            )
        names = config.hashes if hashes is None else hashes
        own = as_written and range_of(self.name)[1] is not None
        if raw is None and (names or deep or own):
            data = raw = self._read(0, self.size)
        part = None
        if raw is not None and data is not None:
            if damage := list(check_samples(self.file.path, header, raw, deep=deep)):
                return None, damage
            part = find_part(self.name, data, self.parts) if own else None
        info = ShardInfo(
            replace(
                config, hashes=tuple(names), compression=config.compression if ending else None
            ),
            len(header.offsets) - 1,
            _file_info(self.raw_name, self.size if raw is None else len(raw), raw, names),
            _file_info(self.name, self.size, data, names) if ending else None,
        )
        return _Kept(info, part), []

    def _header(self, raw: bytes | None) -> Header:
        if raw is None:
            return read_header(self._read, self.size)
        return read_header(lambda start, size: raw[start : start + size], len(raw))

    def _read(self, start: int, size: int) -> bytes:
        size = max(min(size, self.size - start), 0)
        data = self.file.read(start, size)
        if len(data) != size:
            raise StorageError(
                f'{self.file.path}: {len(data)} bytes from byte {start}, expected {size}'
            )
        return data


def _file_info(name: str, size: int, data: bytes | None, hashes: Sequence[str]) -> FileInfo:
    digests = {} if data is None else {algo: hex_digest(algo, [data]) for algo in hashes}
    return FileInfo(name, size, digests)


def _position(kept: _Kept) -> list[tuple[int, str]]:
    """Sorts shards by path; those of one range by their parts, which their names hide."""
    name = kept.info.stored.basename
    place, number = range_of(name)
    if number is None or kept.part is None:
        return natural_key(name)
    return natural_key(f'{place}/'.lstrip('/') + f'shard.{number:05}.{kept.part:09}')


def _check_columns(root: str, kept: Sequence[_Kept]) -> None:
    """Raises if the shards do not have the same columns."""
    first = kept[0].info
    for shard in kept:
        if shard.info.config.columns != first.config.columns:
            names = (first.stored.basename, shard.info.stored.basename)
            raise FormatError(
                f'{root}: {names[0]} and {names[1]} have different columns: '
                f'{column_differences(first.config.columns, shard.info.config.columns)}; they are '
                'not of one dataset, so there is no index: move them into folders of their own'
            )


def _shown(findings: Sequence[Finding]) -> str:
    texts = [f'{found.file} ({found.kind}: {found.detail})' for found in findings[:_SHOWN]]
    more = f' and {len(findings) - _SHOWN} more' if len(findings) > _SHOWN else ''
    return ', '.join(texts) + more

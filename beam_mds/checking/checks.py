"""What can be wrong with a dataset: bytes of its files in, findings out. No Beam here."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from beam_mds.checking.findings import CheckError, Finding
from beam_mds.errors import FormatError, MDSError
from beam_mds.format import (
    Columns,
    EncodedBatch,
    FileInfo,
    Samples,
    ShardConfig,
    ShardInfo,
    ShardLayout,
)
from beam_mds.format.compression import decompress
from beam_mds.format.decode import size_heads
from beam_mds.format.encodings.base import Offsets
from beam_mds.format.hashing import check_hashes, hex_digest
from beam_mds.format.index import load_entries, parse_entry
from beam_mds.format.shard import HEAD_BYTES, SHARD_CEILING
from beam_mds.writing import planning

# Findings of bad samples in one shard; the last one says how many more there are.
_MOST_SAMPLES = 10

# Columns that are told to differ, where there may be many.
_MOST_COLUMNS = 5

# Samples whose heads are looked at together: some MB.
_ROWS = 1 << 16

# Samples that are decoded at once.
_DECODED = 1 << 10

# Shards of one range up to which the part of each is searched for, and how many may be lost.
_MOST_PARTS, _LOST_PARTS = 256, 64

# Gives so many bytes from so far into a file.
Read = Callable[[int, int], bytes]


class CheckedIndex(NamedTuple):
    """An index.json that was looked at.

    Attributes:
        shards: Those that can be checked, each file once.
        findings: What is wrong.
        complete: Whether all that it lists is in `shards`.
    """

    shards: list[ShardInfo]
    findings: list[Finding]
    complete: bool


def check_index(path: str, data: bytes) -> CheckedIndex:
    """Looks at an index.json; one bad entry does not hide the others.

    Args:
        path: Its full path.
        data: Its bytes.
    """
    try:
        entries = load_entries(data)
    except FormatError as error:
        return CheckedIndex([], [Finding(path, 'index', str(error))], complete=False)
    listed: list[tuple[int, ShardInfo]] = []
    bad: dict[str, list[int]] = {}
    last = None
    for number, entry in enumerate(entries):
        try:
            info = _usable(parse_entry(entry, last))
            listed.append((number, info))
            last = entry, info
        except MDSError as error:
            bad.setdefault(str(error), []).append(number)
    findings = [
        Finding(path, 'index', f'shards[{numbers[0]}]{_and_more(numbers)}: {reason}')
        for reason, numbers in bad.items()
    ]
    if not entries:
        findings.append(Finding(path, 'index', 'lists no shard: StreamingDataset refuses it'))
    folder = path.rpartition('/')[0]
    shards, twice = _each_once(folder, listed)
    return CheckedIndex(shards, [*findings, *twice, *_other_columns(folder, shards)], not bad)


def check_shard(
    path: str, info: ShardInfo, data: bytes, *, part: int = 0, parts: int = 1, deep: bool = False
) -> Iterator[Finding]:
    """Compares a stored shard with its entry in the index, from the outside in.

    Args:
        path: The file's full path.
        info: The entry.
        data: The file's bytes.
        part: Which of the shards with its number it likely is; see `find_part`.
        parts: How many there are.
        deep: Whether to decode each sample.

    Raises:
        MissingExtraError: An image column is to be decoded without Pillow.
    """
    if len(data) != info.stored.bytes:
        yield Finding(path, 'size', f'{len(data)} bytes, the index says {info.stored.bytes}')
        return
    found = list(_other_hashes(path, 'hash', info.stored, data))
    try:
        raw = data
        if info.zip_data is not None:
            raw = unpack(info.config.compression, data, info.raw_data.bytes)
            found += _other_hashes(path, 'raw-hash', info.raw_data, raw)
        count = int.from_bytes(raw[:4], 'little')
        if len(raw) >= HEAD_BYTES and count != info.samples:
            raise CheckError('count', f'{count} samples, the index says {info.samples}')
        header = read_header(lambda start, size: raw[start : start + size], len(raw))
        _check_config(info, header.config)
        found += check_samples(path, header, raw, deep=deep)
        # An unpacked copy has the name of the packed file. Other findings say more.
        if not found and header.config.compression == info.config.compression:
            find_part(info.stored.basename, data, parts, part)
    except CheckError as error:
        found.append(Finding(path, error.kind, error.detail))
    yield from found


def unpack(compression: str | None, data: bytes, size: int | None = None) -> bytes:
    """Decompresses a stored shard.

    Args:
        compression: How it was compressed.
        data: The file.
        size: Its raw size, if an index says it.

    Raises:
        CheckError: It does not decompress to that.
    """
    try:
        return decompress(compression or '', data, size)
    except FormatError as error:
        raise CheckError('compression', str(error)) from error


class Header(NamedTuple):
    """What stands before the samples of a shard.

    Attributes:
        config: The shard's config.
        offsets: int64 of shape (samples + 1,), where samples start and end in the raw file.
    """

    config: ShardConfig
    offsets: Offsets


def read_header(read: Read, size: int) -> Header:
    """Reads and checks a shard's header.

    Args:
        read: Gives bytes of the raw file.
        size: Bytes of the raw file.

    Raises:
        CheckError: Of kind `header` or `config`.
    """
    try:
        layout = ShardLayout.parse(read(0, HEAD_BYTES), size)
        offsets = layout.parse_offsets(read(4, layout.config_start - 4))
    except FormatError as error:
        raise CheckError('header', str(error)) from error
    start = layout.config_start
    try:
        config = layout.parse_config(read(start, layout.samples_start - start))
        check_hashes(config.hashes)
    except MDSError as error:
        raise CheckError('config', str(error)) from error
    return Header(config, offsets)


def check_samples(path: str, header: Header, raw: bytes, *, deep: bool) -> Iterator[Finding]:
    """Looks at each sample of a shard.

    Args:
        path: The file's full path.
        header: The shard's.
        raw: The whole raw file.
        deep: Whether to decode them. Pickles are not: they could run code.

    Raises:
        MissingExtraError: An image column is to be decoded without Pillow.
    """
    columns, samples = header.config.columns, Samples(np.frombuffer(raw, np.uint8), header.offsets)
    bad = dict(_bad_heads(columns, samples))
    if deep:
        bad.update(_undecodable(columns, samples, skip=frozenset(bad)))
    for number, row in enumerate(sorted(bad), 1):
        text = f'sample {row} at byte {header.offsets[row]} of the raw shard: {bad[row]}'
        if number == _MOST_SAMPLES and number < len(bad):
            yield Finding(path, 'sample', f'{text}; and so for {len(bad) - number} samples more')
            return
        yield Finding(path, 'sample', text)


def find_part(basename: str, data: bytes, parts: int, likely: int = 0) -> int | None:
    """Checks the hash in a numbered name of ours, by finding out its seed.

    Args:
        basename: Of the stored file.
        data: Its bytes.
        parts: How many shards with this number there are in its folder.
        likely: The seed that is tried first.

    Returns:
        Which of the shards of its range it is; None for a name without a hash, and where there are
        too many to search.

    Raises:
        CheckError: Of kind `name`.
    """
    named = planning.numbered(basename.rpartition('/')[2])
    if named is None:
        return None
    part: int
    for part in (likely, *range(min(parts, _MOST_PARTS) + _LOST_PARTS)):
        if planning.content_digest([data], part) == named[1]:
            return part
    if parts > _MOST_PARTS:
        return None
    raise CheckError('name', 'the hash in its name is not that of its bytes')


def column_differences(one: Columns, other: Columns) -> str:
    """What is not the same in two column tables.

    Example:
        >>> column_differences(Columns({'a': 'int', 'b': 'str'}), Columns({'a': 'int8'}))
        "'a' is int and int8; 'b' is str and not there"
    """
    first, second = one.as_dict(), other.as_dict()
    names = [n for n in sorted({*first, *second}) if first.get(n) != second.get(n)]
    texts = [
        f'{name!r:.80} is {first.get(name, "not there"):.40} and '
        f'{second.get(name, "not there"):.40}'
        for name in names[:_MOST_COLUMNS]
    ]
    if len(names) > _MOST_COLUMNS:
        texts.append(f'and {len(names) - _MOST_COLUMNS} more')
    return '; '.join(texts)


def _usable(info: ShardInfo) -> ShardInfo:
    """The entry, once a reader can use it.

    Raises:
        MDSError: It cannot.
    """
    compression = info.config.compression
    if compression is None and info.zip_data is not None:
        raise FormatError('zip_data without compression: StreamingDataset refuses it')
    if compression is not None and info.zip_data is None:
        raise FormatError(
            f'compression {compression!r} without zip_data: StreamingDataset would delete the file'
        )
    check_hashes(info.config.hashes)
    for file in filter(None, (info.raw_data, info.zip_data)):
        check_hashes(list(file.hashes))
    if info.raw_data.bytes >= SHARD_CEILING:
        raise FormatError(f'{info.raw_data.bytes} bytes: a shard has less than {SHARD_CEILING}')
    return info


def _each_once(
    folder: str, listed: Sequence[tuple[int, ShardInfo]]
) -> tuple[list[ShardInfo], list[Finding]]:
    """The shards without those that use a file of an earlier one, and findings for these."""
    seen: dict[str, int] = {}
    shards, findings = [], []
    for number, info in listed:
        names = (info.stored.basename, info.raw_data.basename)
        if clash := [name for name in names if name in seen]:
            detail = f'shards[{seen[clash[0]]}] and shards[{number}] of the index are this file'
            findings.append(Finding(f'{folder}/{clash[0]}', 'duplicate', detail))
        if names[0] not in seen:
            shards.append(info)
        seen.update({name: seen.get(name, number) for name in names})
    return shards, findings


def _other_columns(folder: str, shards: Sequence[ShardInfo]) -> Iterator[Finding]:
    tables: dict[Columns, list[str]] = {}
    for info in shards:
        tables.setdefault(info.config.columns, []).append(info.stored.basename)
    for columns, names in list(tables.items())[1:]:
        first, others = next(iter(tables.items()))
        differences = column_differences(first, columns)
        detail = f'compared with {others[0]}, {differences}{_and_more(names)}'
        yield Finding(f'{folder}/{names[0]}', 'columns', detail)


def _other_hashes(path: str, kind: str, file: FileInfo, data: bytes) -> Iterator[Finding]:
    for name, wanted in sorted(file.hashes.items()):
        if (found := hex_digest(name, [data])) != wanted:
            yield Finding(path, kind, f'{name} is {found}, the index says {wanted:.130}')


def _check_config(info: ShardInfo, found: ShardConfig) -> None:
    """Raises if a shard's config is not that of its entry.

    Which hashes an index lists is its own affair, and so is whether a file was unpacked for good.
    """
    wanted = info.config
    if found.columns != wanted.columns:
        differences = column_differences(wanted.columns, found.columns)
        raise CheckError('config', f'columns, in the index and in the file: {differences}')
    for name in ('size_limit',) if info.zip_data is None else ('size_limit', 'compression'):
        here, listed = getattr(found, name), getattr(wanted, name)
        if here != listed:
            raise CheckError('config', f'{name} is {here!r:.80}, the index says {listed!r:.80}')


def _bad_heads(columns: Columns, samples: Samples) -> Iterator[tuple[int, str]]:
    """The samples whose bytes are more or fewer than the sizes in their heads say."""
    heads = columns.sizes.count(None)
    fixed = 4 * heads + sum(size for size in columns.sizes if size is not None)
    for first in range(0, len(samples), _ROWS):
        offsets = samples.offsets[first : first + _ROWS + 1]
        sizes = np.diff(offsets)
        needed = np.full(len(sizes), fixed, np.int64)
        whole = sizes >= 4 * heads
        if heads:
            needed[whole] += size_heads(samples.data, offsets[:-1][whole], heads).sum(axis=1)
        for row in np.flatnonzero(needed != sizes).tolist():
            yield first + row, f'it has {sizes[row]} bytes, its columns need {needed[row]}'


def _undecodable(
    columns: Columns, samples: Samples, skip: Container[int]
) -> Iterator[tuple[int, str]]:
    """The samples of which a value does not decode, with the reason."""
    encodings = columns.as_dict()
    images = [name for name, kind in encodings.items() if re.search('pil|jpeg|png', kind)]
    others = [name for name, kind in encodings.items() if kind != 'pkl' and name not in images]
    for first in range(0, len(samples), _DECODED):
        rows = range(first, min(first + _DECODED, len(samples)))
        part = samples.slice(rows.start, rows.stop)
        if not images and _decodes(EncodedBatch(columns, part), others):
            continue
        for row, data in zip(rows, part, strict=True):
            if row not in skip:
                try:
                    sample = columns.decode_sample(data, [*others, *images])
                    for name in images:
                        _load(name, sample[name])
                except FormatError as error:
                    yield row, str(error)


def _decodes(batch: EncodedBatch, names: Sequence[str]) -> bool:
    """Whether many samples decode, column by column."""
    try:
        batch.to_rows(names)
    except FormatError:
        return False
    return True


def _load(name: str, value: Any) -> None:
    """Decodes the pixels of an image, or of a list of them: Pillow does it when they are used."""
    for image in value if isinstance(value, list) else (value,):
        try:
            image.load()
        except Exception as error:  # Pillow's plugins raise anything
            raise FormatError(f'column {repr(name)[:80]}: {str(error)[:80]}') from error


def _and_more(items: Sequence[Any]) -> str:
    return f' and {len(items) - 1} more' if len(items) > 1 else ''

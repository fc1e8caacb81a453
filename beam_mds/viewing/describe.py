"""What a dataset or a single shard holds: a summary, and single samples; no pipeline here.

The summary needs nothing but the index, except how bytes are divided among the columns where two or
more vary in size: that is estimated from some samples of a few shards.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from beam_mds.errors import DamagedError, FormatError, MissingExtraError, OptionError
from beam_mds.format import Columns, EncodedBatch, ShardInfo
from beam_mds.format.decode import column_bounds
from beam_mds.format.encodings.base import Offsets
from beam_mds.indexes import Path, natural_key
from beam_mds.reading.shardreader import ShardReader, ShardRef
from beam_mds.viewing.found import Found, find
from beam_mds.viewing.show import Undecoded

# Shards of one column table that are opened, and samples of each whose sizes are looked at.
_SHARDS, _SAMPLES = 3, 1000


@dataclass(frozen=True)
class Spread:
    """Some numbers in short."""

    min: float
    mean: float
    max: float


@dataclass(frozen=True)
class Variant:
    """A setting, and how many shards have it."""

    value: Any
    shards: int


@dataclass(frozen=True)
class ColumnSummary:
    """One column.

    Attributes:
        name: Its name.
        encoding: As in the index.
        size: Bytes of each value, or None where they vary.
        samples: How many samples have it: all, in a dataset of one column table.
        bytes: Of all its values, before compression.
        estimated: Whether `bytes` is an estimate.
    """

    name: str
    encoding: str
    size: int | None
    samples: int
    bytes: int
    estimated: bool


@dataclass(frozen=True)
class SplitSummary:
    """The shards in one folder. Attributes as in `DatasetSummary`."""

    name: str
    samples: int
    shards: int
    raw_bytes: int
    stored_bytes: int


@dataclass(frozen=True)
class DatasetSummary:
    """What a dataset holds.

    Attributes:
        path: Its folder, or the shard file.
        samples: How many there are.
        shards: How many files.
        raw_bytes: Of all shards before compression.
        stored_bytes: Of all files.
        header_bytes: Of `raw_bytes` those that are no values: headers, and sizes in the samples.
        columns: Sorted by name.
        shard_samples: Samples of a shard; this and what follows are None where there are no shards.
        shard_raw_bytes: Of one shard before compression.
        shard_stored_bytes: Of one file.
        fill: `shard_raw_bytes` over the size limit, of the shards that have one.
        size_limit: Bytes or None, and how many shards have that; so also the next ones.
        compression: None, or a name like `zstd:7`.
        hashes: Lists of names.
        splits: One for each folder, where shards lie in several; the folder's own is named ''.
    """

    path: str
    samples: int
    shards: int
    raw_bytes: int
    stored_bytes: int
    header_bytes: int
    columns: list[ColumnSummary]
    shard_samples: Spread | None
    shard_raw_bytes: Spread | None
    shard_stored_bytes: Spread | None
    fill: Spread | None
    size_limit: list[Variant]
    compression: list[Variant]
    hashes: list[Variant]
    splits: list[SplitSummary]

    @property
    def ratio(self) -> float | None:
        """Raw bytes for one stored byte."""
        return self.raw_bytes / self.stored_bytes if self.stored_bytes else None

    def as_dict(self) -> dict[str, Any]:
        """All of it as what JSON holds."""
        return {**asdict(self), 'ratio': self.ratio}


@dataclass(frozen=True)
class Place:
    """Where a sample lies.

    Attributes:
        number: Of the sample in the dataset, from 0.
        samples: How many the dataset has.
        shard: Number of its shard in the index.
        row: Its number in the shard.
        path: The shard file.
        encodings: Column name -> encoding.
        sizes: Column name -> bytes of the encoded value.
    """

    number: int
    samples: int
    shard: int
    row: int
    path: str
    encodings: dict[str, str]
    sizes: dict[str, int]


def describe(path: Path) -> DatasetSummary:
    """Says what a dataset holds, by its index.

    No shard is opened where at most one column varies in size. Where more do, up to three shards
    of each column table are, and of each only the heads of up to 1,000 samples are read, or all of
    it where it is compressed; `estimated` marks what comes of that.

    Args:
        path: The dataset's folder, its index.json, or one shard file, on any filesystem that Beam
            knows. A compressed shard without an index is read as a whole.

    Raises:
        StorageError: There is no such dataset, or a file cannot be read.
        FormatError: The index is none, or a file is not what it says; the file is named.

    Example:
        >>> describe('gs://bucket/dataset').samples  # doctest: +SKIP
        1000000
    """
    found = find(path)
    shards = found.shards
    raw, stored = [s.raw_data.bytes for s in shards], [s.stored.bytes for s in shards]
    columns, values = _column_summaries(found)
    limits = [(s.raw_data.bytes, s.config.size_limit) for s in shards]
    return DatasetSummary(
        path=found.path,
        samples=sum(s.samples for s in shards),
        shards=len(shards),
        raw_bytes=sum(raw),
        stored_bytes=sum(stored),
        header_bytes=sum(raw) - values,
        columns=columns,
        shard_samples=_spread([s.samples for s in shards]),
        shard_raw_bytes=_spread(raw),
        shard_stored_bytes=_spread(stored),
        fill=_spread([size / limit for size, limit in limits if limit]),
        size_limit=_variants(limit for _, limit in limits),
        compression=_variants(s.config.compression for s in shards),
        hashes=[
            Variant(list(one.value), one.shards)
            for one in _variants(s.config.hashes for s in shards)
        ],
        splits=_splits(shards),
    )


def read_sample(
    path: Path, number: int, *, allow_pickle: bool = False
) -> tuple[Place, dict[str, Any]]:
    """Reads one sample.

    Of an uncompressed shard only its offsets and its bytes are read.

    Args:
        path: As for `describe`.
        number: Of the sample, over all shards in the order of the index; from the end if negative.
        allow_pickle: Whether to decode `pkl` columns, which runs code that is in the data.

    Returns:
        Its place, and its values by the names of their columns: decoded, or `Undecoded` where that
        is not allowed or needs a library that is not there.

    Raises:
        OptionError: There are not so many samples.
        StorageError: There is no such dataset, or a file cannot be read.
        FormatError: A file is not what the index says, or a value does not decode; the file is
            named.
    """
    found = find(path)
    ends = np.cumsum([info.samples for info in found.shards], dtype=np.int64)
    count = int(ends[-1]) if len(ends) else 0
    at = number + count if number < 0 else number
    if not 0 <= at < count:
        there = f'from 0 to {count - 1:,}, or from the end -1 to -{count:,}' if count else 'none'
        raise OptionError(f'{found.path}: no sample {number:,} of {count:,}: there are {there}')
    shard = int(np.searchsorted(ends, at, side='right'))
    info = found.shards[shard]
    row = at - int(ends[shard]) + info.samples
    ref = found.ref(info)
    batch, start = _read_row(found, ref, row)
    columns = info.config.columns
    try:
        bounds = column_bounds(batch.samples, columns.sizes)[0, 1:]
        sample = {name: _value(batch, name, allow_pickle) for name in columns.names}
    except FormatError as error:
        raise DamagedError(ref.path, str(error), row, start) from error
    sizes = dict(zip(columns.names, np.diff(bounds).tolist(), strict=True))
    return Place(at, count, shard, row, ref.path, columns.as_dict(), sizes), sample


def _read_row(found: Found, ref: ShardRef, row: int) -> tuple[EncodedBatch, int]:
    """One sample, and where in the raw file it starts."""
    if found.whole is not None:
        samples = found.whole.samples.slice(row, row + 1)
        return EncodedBatch(ref.info.config.columns, samples), int(samples.offsets[0])
    with contextlib.closing(ShardReader(ref, row, row + 1)) as reader:
        return reader.read(row, row + 1), reader.offset(row)


def _value(batch: EncodedBatch, name: str, allow_pickle: bool) -> Any:
    encoding = batch.columns.encodings[batch.columns.names.index(name)].name
    reason = 'it is pickled; allow_pickle decodes it, which runs code that is in the data'
    if encoding != 'pkl' or allow_pickle:
        try:
            return batch.to_rows([name])[0][name]
        except MissingExtraError as error:
            reason = str(error)
    return Undecoded(batch.column(name).bytes.tobytes(), reason)


def _value_bytes(found: Found, info: ShardInfo) -> int:
    """Bytes of all values in a shard, by its sizes in the index."""
    sizes = info.config.columns.sizes
    fixed = sum(size or 0 for size in sizes)
    varying = sizes.count(None)
    rest = info.raw_data.bytes - info.config.empty_size - info.samples * (4 + 4 * varying)
    least = info.samples * fixed
    if rest < least:
        raise FormatError(
            f'{found.path}: shard {info.raw_data.basename} cannot have {info.raw_data.bytes} '
            f'bytes: its {info.samples} samples need at least {info.raw_data.bytes - rest + least}'
        )
    return rest if varying else least


def _column_summaries(found: Found) -> tuple[list[ColumnSummary], int]:
    """The columns of all column tables, and the bytes of all values.

    There is one table, unless something is very wrong.
    """
    groups: dict[Columns, list[ShardInfo]] = {}
    for info in found.shards:
        groups.setdefault(info.config.columns, []).append(info)
    merged: dict[tuple[str, str], ColumnSummary] = {}
    total = 0
    for columns, shards in groups.items():
        samples = sum(info.samples for info in shards)
        values = sum(_value_bytes(found, info) for info in shards)
        total += values
        fixed = samples * sum(size or 0 for size in columns.sizes)
        shares = _shares(found, columns, shards)
        estimated = columns.sizes.count(None) > 1 and found.whole is None
        for name, encoding, share in zip(columns.names, columns.encodings, shares, strict=True):
            size = encoding.size
            part = round((values - fixed) * share) if size is None else samples * size
            known = merged.get(
                (name, encoding.name), ColumnSummary(name, encoding.name, size, 0, 0, False)
            )
            merged[name, encoding.name] = replace(
                known,
                samples=known.samples + samples,
                bytes=known.bytes + part,
                estimated=known.estimated or (estimated and size is None),
            )
    return [merged[key] for key in sorted(merged)], total


def _shares(found: Found, columns: Columns, shards: Sequence[ShardInfo]) -> list[float]:
    """Which part each column has of the bytes that the columns of no fixed size have together."""
    varies = np.array([size is None for size in columns.sizes])
    if varies.sum() < 2:
        return list(map(float, varies))
    totals = np.zeros(len(varies))
    for sizes in _measured(found, [info for info in shards if info.samples]):
        totals += np.where(varies, sizes.sum(axis=0), 0)
    return list(map(float, totals / (totals.sum() or 1)))


def _measured(found: Found, shards: Sequence[ShardInfo]) -> Iterable[Offsets]:
    """Bytes of the values of some samples, int64 of shape (samples, columns) for each shard."""
    if found.whole is not None:
        try:
            bounds = column_bounds(found.whole.samples, found.whole.config.columns.sizes)
        except FormatError as error:
            row = error.row or 0
            start = int(found.whole.samples.offsets[row])
            raise DamagedError(found.path, str(error), row, start) from error
        yield np.diff(bounds[:, 1:])
        return
    count = min(_SHARDS, len(shards))
    for number in range(count):  # from the middle of each third
        info = shards[(2 * number + 1) * len(shards) // (2 * count)]
        # Of a compressed shard all is read anyway.
        most = _SAMPLES if info.zip_data is None else info.samples
        start = max(0, (info.samples - most) // 2)
        stop = min(info.samples, start + most)
        with contextlib.closing(ShardReader(found.ref(info), start, stop)) as reader:
            yield reader.column_sizes(start, stop)


def _splits(shards: Iterable[ShardInfo]) -> list[SplitSummary]:
    """The folders of the shards, if there are several."""
    folders: dict[str, list[ShardInfo]] = {}
    for info in shards:
        folders.setdefault(info.stored.basename.rpartition('/')[0], []).append(info)
    if len(folders) < 2:
        return []
    return [
        SplitSummary(
            name,
            sum(info.samples for info in folders[name]),
            len(folders[name]),
            sum(info.raw_data.bytes for info in folders[name]),
            sum(info.stored.bytes for info in folders[name]),
        )
        for name in sorted(folders, key=natural_key)
    ]


def _spread(numbers: Sequence[float]) -> Spread | None:
    if not numbers:
        return None
    return Spread(min(numbers), sum(numbers) / len(numbers), max(numbers))


def _variants(values: Iterable[Any]) -> list[Variant]:
    """The values, the most frequent first."""
    return [Variant(value, shards) for value, shards in Counter(values).most_common()]

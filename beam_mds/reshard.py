"""ReshardMDS: datasets written anew, with other shards, columns or samples."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import apache_beam as beam
import numpy as np
from apache_beam.pvalue import PBegin

from beam_mds.errors import ColumnsError, OptionError
from beam_mds.filtering.where import Where, parse_where
from beam_mds.format import Columns, EncodedBatch, ShardConfig
from beam_mds.indexes import Path, dataset_folders, given_paths, read_index
from beam_mds.read import ReadEncoded, ReadResult, read_options
from beam_mds.reading.shardreader import check_columns
from beam_mds.write import WriteResult, WriteToMDS
from beam_mds.writing.prepare import digests

Filter: TypeAlias = str | Callable[[Mapping[str, Any]], bool]

# What `compression`, `hashes` and `size_limit` are by default: those of the dataset that is read.
SAME = 'same'

# Of the hash that a fraction is taken by: not one that an order is likely to have.
_FRACTION_SEED = 0x6D6473


@dataclass(frozen=True)
class Choice:
    """What of the samples goes on.

    Attributes:
        columns: The table that they have then.
        source: Name there -> name here.
        where: Tells of a sample whether it goes on.
        fraction: Share of the samples, by a hash.
        key: The column that is hashed; the whole sample when None.
    """

    columns: Columns
    source: dict[str, str]
    where: Where | Callable[[Mapping[str, Any]], bool] | None = None
    fraction: float | None = None
    key: str | None = None

    def __call__(self, batch: EncodedBatch) -> EncodedBatch:
        """The samples of a batch that go on, with the columns wanted.

        Raises:
            FormatError: A sample is damaged; `row` says which.
        """
        kept = np.ones(len(batch), np.bool_)
        if isinstance(self.where, Where):
            kept &= self.where.mask(batch.to_arrow(self.where.columns))
        elif self.where is not None:
            kept &= np.fromiter(map(bool, map(self.where, batch.to_rows())), np.bool_, len(batch))
        if self.fraction is not None:
            hashed = batch.samples if self.key is None else batch.column(self.key)
            kept &= digests(hashed, _FRACTION_SEED) / 2**64 < self.fraction
        if not kept.all():
            batch = batch.take(np.flatnonzero(kept))
        if batch.columns == self.columns and all(a == b for a, b in self.source.items()):
            return batch
        return batch.select(self.columns, self.source)


class ReshardMDS(beam.PTransform):
    """Writes datasets anew: other shards, compression, hashes, order, columns, samples, splits.

    Samples are copied as they are encoded; only the columns that a filter, a key or a split looks
    at are decoded. `out` may be the dataset itself, with if_exists='overwrite': it stays readable
    until the new one is complete.

    Example:
        >>> import apache_beam as beam
        >>> old, new = getfixture('tmp_path') / 'old', getfixture('tmp_path') / 'new'
        >>> with beam.Pipeline(runner='FnApiRunner') as pipeline:
        ...     rows = pipeline | beam.Create([{'n': n, 'text': f'text {n}'} for n in range(9)])
        ...     _ = rows | WriteToMDS(old, {'n': 'int', 'text': 'str'})
        >>> with beam.Pipeline(runner='FnApiRunner') as pipeline:
        ...     _ = pipeline | ReshardMDS(old, new, where='n % 2 == 1', compression='zstd')
    """

    def __init__(
        self,
        path: Path | Sequence[Path],
        out: str | os.PathLike[str],
        columns: Sequence[str] | None = None,
        *,
        rename: Mapping[str, str] | None = None,
        where: Filter | None = None,
        fraction: float | None = None,
        compression: str | None = SAME,
        hashes: Sequence[str] | str | None = SAME,
        size_limit: int | float | str | None = SAME,
        validate_hash: str | None = None,
        on_error: str = 'fail',
        allow_pickle: bool = False,
        **write: Any,
    ) -> None:
        """Makes the transform; the indexes are read when the pipeline is made.

        Args:
            path: The datasets, as `ReadFromMDS` takes them; all with the same columns.
            out: Folder of the new dataset.
            columns: The columns to keep, by their old names; all when None.
            rename: Old name -> new name.
            where: The samples to keep: a text like `"lang == 'en' and length > 100"`, see
                `beam_mds.filtering.where`, or a function of the sample. Both know the old names.
            fraction: Share of the samples to keep, 0 to 1, by a hash of the `key` column, or else
                of the sample: the same in every run, and those of a smaller share are among those
                of a larger one.
            compression: As `WriteToMDS` takes it; like that of the first shard by default.
            hashes: Likewise.
            size_limit: Likewise.
            validate_hash: A hash that the old dataset has, to check every file by.
            on_error: `fail` on damaged samples, or leave them out and give a `dead_letter`, an
                `UnreadSamples` in `result.errors`.
            allow_pickle: Whether functions may get samples with `pkl` columns, which runs code that
                is in the data.
            write: Other options of `WriteToMDS`: `key`, `order`, `split`, `if_exists`, ... They
                know the new names.

        Raises:
            OptionError: A value, or a combination, that cannot work.
        """
        super().__init__()
        self._paths = given_paths(path)
        if not (where is None or isinstance(where, str) or callable(where)):
            raise OptionError(
                f'where must be a text or a function of the sample, got {where!r:.80}'
            )
        share: Any = fraction
        if share is not None and not (isinstance(share, (int, float)) and 0 <= share <= 1):
            raise OptionError(f'fraction must be from 0 to 1, got {share!r:.80}')
        self._out, self._kept, self._rename = out, columns, dict(rename or {})
        self._where, self._fraction, self._allow_pickle = where, fraction, allow_pickle
        self._config = {'compression': compression, 'hashes': hashes, 'size_limit': size_limit}
        self._write = write
        self._read = read_options(
            None,
            'encoded',
            validate_hash=validate_hash,
            on_error=on_error,
            allow_pickle=True,  # nothing is decoded but what `where` looks at
        )

    def expand(self, pipeline: PBegin) -> WriteResult:
        """Wires the steps.

        Raises:
            StorageError, FormatError: An index cannot be read.
            ColumnsError: A column is not there, or the datasets have different ones.
            OptionError: An option of `WriteToMDS` cannot work, or `where` is wrong.
        """
        config = self._common_config()
        choice = self._choice(config.columns)
        shards: dict[str, Any] = {
            name: getattr(config, name) if given == SAME else given
            for name, given in self._config.items()
        }
        sink = WriteToMDS(self._out, choice.columns.as_dict(), **shards, **self._write)
        source = ReadEncoded(self._paths, dataclasses.replace(self._read, choose=choice))
        read = pipeline | 'ReadFromMDS' >> source
        if not isinstance(read, ReadResult):
            written: WriteResult = read | 'WriteToMDS' >> sink
            return written
        return WriteResult({**(read.samples | 'WriteToMDS' >> sink), 'errors': read.errors})

    def _common_config(self) -> ShardConfig:
        """The config of the first shard, whose columns all others have too."""
        first: tuple[str, ShardConfig] | None = None
        for folder in dataset_folders(self._paths):
            for info in read_index(folder):
                first = first or (folder, info.config)
                if info.config.columns != first[1].columns:
                    raise ColumnsError(
                        f'{first[0]} and {folder} have different columns: '
                        f'{first[1].columns.as_dict()} and {info.config.columns.as_dict()}'
                    )
        if first is None:
            raise ColumnsError(f'{", ".join(self._paths)}: there are no shards')
        return first[1]

    def _choice(self, columns: Columns) -> Choice:
        """What is to be done, by the columns that there are."""
        encodings = columns.as_dict()
        kept = [columns.names[place] for place in columns.places(self._kept)]
        if unknown := self._rename.keys() - set(kept):
            raise ColumnsError(
                f'rename has {min(unknown)!r}, which is no column that is kept: there are '
                f'{", ".join(kept)}'
            )
        source: dict[str, str] = {}
        for name in kept:
            new = self._rename.get(name, name)
            if new in source:
                raise ColumnsError(f'columns {source[new]!r} and {name!r} would both be {new!r}')
            source[new] = name
        where: Any = self._where
        if isinstance(where, str):
            where = parse_where(where, encodings)
        elif where is not None:
            check_columns(columns, None, allow_pickle=self._allow_pickle)
        table = Columns({new: encodings[old] for new, old in source.items()})
        if any(callable(self._write.get(option)) for option in ('key', 'split')):
            check_columns(table, None, allow_pickle=self._allow_pickle)
        key = self._write.get('key') if self._fraction is not None else None
        return Choice(
            table,
            source,
            where,
            self._fraction,
            source.get(key) if isinstance(key, str) else None,
        )

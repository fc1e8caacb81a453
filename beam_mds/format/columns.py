"""The column table: names and encodings, and samples encoded and decoded by it."""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, cast

import numpy as np
import pyarrow as pa

from beam_mds.errors import ColumnsError, EncodingError, FormatError
from beam_mds.format.encoded import EncodedBatch, decode_value
from beam_mds.format.encodings import Encoding, Part, Values, get_encoding
from beam_mds.format.encodings.base import (
    MARK,
    StoredText,
    decoded_dictionary,
    describe,
    is_utf8,
    python_values,
    types_of,
)
from beam_mds.format.samples import Allocate, Samples, allocate, join_columns

Sample: TypeAlias = Mapping[str, Any]
Table: TypeAlias = pa.RecordBatch | pa.Table
Batch: TypeAlias = Sequence[Sample] | Table | EncodedBatch
# Names of fields that samples may have beside the columns; None: any.
Ignore: TypeAlias = Collection[str] | None

_ARROW = (pa.RecordBatch, pa.Table)

# Batches that are no sequence of samples.
COLUMNAR = (*_ARROW, EncodedBatch)


class Columns:
    r"""What each sample of a dataset holds.

    A sample is: the uint32 size of each variable-size column, in column order; then every
    column's bytes, in column order (mosaicml-streaming 0.13.0, `MDSWriter.encode_sample`).

    Attributes:
        names: Column names in the format's order, which is sorted.
        encodings: The codec of each.

    Example:
        >>> columns = Columns({'text': 'str', 'label': 'uint8'})
        >>> columns.encode_sample({'text': 'hi', 'label': 7})
        b'\x02\x00\x00\x00\x07hi'
    """

    def __init__(self, columns: Mapping[str, str]) -> None:
        """Makes the table.

        Args:
            columns: Column name -> encoding, like `{'tokens': 'ndarray:int32'}`.

        Raises:
            ColumnsError: No columns, a name that is no text, or an encoding that is unknown or has
                a wrong parameter; the column is named.
        """
        given: Any = columns
        if not isinstance(given, Mapping) or not given:
            raise ColumnsError(
                "columns must be a dict like {'text': 'str'} with at least one column, "
                f'got {repr(given)[:80]}'
            )
        for name, encoding in given.items():
            if not (isinstance(name, str) and isinstance(encoding, str)):
                raise ColumnsError(
                    f'column {repr(name)[:80]}: name and encoding must be str, '
                    f'got encoding {repr(encoding)[:80]}'
                )
            if not is_utf8(name):
                raise ColumnsError(f'column {repr(name)[:80]}: the name has no UTF-8 form')
        self.names: list[str] = sorted(columns)
        self.encodings: list[Encoding] = [_named(name, columns[name]) for name in self.names]
        self._name_set = frozenset(columns)
        self._getters = [operator.itemgetter(name) for name in self.names]

    def __reduce__(self) -> tuple[type[Columns], tuple[dict[str, str]]]:
        """Pickles as the dict that it was made from."""
        return Columns, (self.as_dict(),)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Columns) and self.as_dict() == other.as_dict()

    def __hash__(self) -> int:
        return hash(tuple(self.as_dict().items()))

    def __repr__(self) -> str:
        return f'Columns({self.as_dict()!r})'

    def as_dict(self) -> dict[str, str]:
        """Column name -> encoding."""
        return {name: codec.name for name, codec in zip(self.names, self.encodings, strict=True)}

    @property
    def sizes(self) -> list[int | None]:
        """Bytes of each column's values, or None where they vary."""
        return [encoding.size for encoding in self.encodings]

    def encode_sample(self, sample: Sample) -> bytes:
        """Encodes one sample.

        Raises:
            EncodingError: A column is missing or extra, or its encoding cannot hold the value.
        """
        return self.encode_batch([sample]).bytes.tobytes()

    def encode_batch(
        self, batch: Batch, allocate: Allocate = allocate, ignore: Ignore = ()
    ) -> Samples:
        """Encodes many samples at once, column by column.

        Args:
            batch: Mappings, Arrow columns of equal length, or samples that are encoded already.
            allocate: Gives the buffer for the samples' bytes.
            ignore: Names that samples may have beside the columns; None: any.

        Returns:
            The samples in the batch's order.

        Raises:
            EncodingError: The first sample that cannot be held, with its row, column and reason.
        """
        try:
            return self.encode_rows(batch, allocate, ignore)
        except EncodingError as error:
            raise self._first_error(batch, error, ignore) from error.__cause__

    def encode_rows(
        self, batch: Batch, allocate: Allocate = allocate, ignore: Ignore = ()
    ) -> Samples:
        """Like `encode_batch`, but of a batch with a bad sample the error does not say which.

        Raises:
            EncodingError: A sample cannot be held; the column and the reason are named.
        """
        if isinstance(batch, EncodedBatch):
            return self._encoded_samples(batch, ignore)
        columns: list[tuple[list[Part], bool]] = []
        for name, encoding, values in zip(
            self.names, self.encodings, self._columns_of(batch, ignore), strict=True
        ):
            columns.append((_encoded(name, encoding, values), encoding.size is None))
        return join_columns(columns, len(batch), allocate)

    def encode_column(self, name: str, batch: Batch) -> Samples:
        """Encodes one column of many samples: its bytes alone, as they stand in the samples.

        Raises:
            EncodingError: A value cannot be held; the column and the reason are named.
        """
        if isinstance(batch, EncodedBatch):
            return batch.column(name)
        at = self.names.index(name)
        values = (
            _arrow_values(batch, name, self.encodings[at])
            if isinstance(batch, _ARROW)
            else list(map(self._getters[at], batch))
        )
        return join_columns([(_encoded(name, self.encodings[at], values), False)], len(batch))

    def decode_sample(
        self, data: bytes | memoryview, only: Iterable[str] | None = None
    ) -> dict[str, Any]:
        """Decodes one sample.

        Args:
            data: The sample's bytes.
            only: The columns wanted; all when None.

        Raises:
            FormatError: The bytes are no sample of these columns.
            ColumnsError: `only` names a column that there is not.
            MissingExtraError: An image column is decoded without Pillow.
        """
        wanted = frozenset(self.names[number] for number in self.places(only))
        data = bytes(data)  # no copy of what is bytes already
        heads = sum(encoding.size is None for encoding in self.encodings)
        if len(data) < 4 * heads:
            raise FormatError(f'sample of {len(data)} bytes is shorter than its head')
        given = iter(np.frombuffer(data, '<u4', heads).tolist())
        sample, at = {}, 4 * heads
        for name, encoding in zip(self.names, self.encodings, strict=True):
            end = at + (next(given) if encoding.size is None else encoding.size)
            if name in wanted and end <= len(data):
                sample[name] = decode_value(name, encoding, data[at:end])
            at = end
        if at != len(data):
            raise FormatError(f'sample has {len(data)} bytes, its columns need {at}')
        return sample

    def arrow_schema(self, only: Iterable[str] | None = None) -> pa.Schema:
        """The schema of what `EncodedBatch.to_arrow` gives.

        Raises:
            ColumnsError: The type of an `ndarray` column without a dtype depends on the values, or
                `only` names a column that there is not.
        """
        fields = []
        for number in self.places(only):
            name, encoding = self.names[number], self.encodings[number]
            if encoding.arrow_type is None:
                raise ColumnsError(
                    f'column {name!r} ({encoding.name}): only its values tell their dtype; leave '
                    'it out, or take the schema of a batch'
                )
            fields.append(pa.field(name, encoding.arrow_type, metadata={MARK: encoding.name}))
        return pa.schema(fields)

    def places(self, only: Iterable[str] | None = None) -> list[int]:
        """The places of the columns wanted among all, in the format's order.

        Raises:
            ColumnsError: `only` names a column that there is not.
        """
        wanted = self._name_set if only is None else frozenset(only)
        if unknown := wanted - self._name_set:
            raise ColumnsError(
                f'no column {min(unknown)!r:.80}: there are {", ".join(self.names):.800}'
            )
        return [number for number, name in enumerate(self.names) if name in wanted]

    def _columns_of(self, batch: Sequence[Sample] | Table, ignore: Ignore = ()) -> Iterable[Values]:
        """The values of each column, in the format's order."""
        if isinstance(batch, _ARROW):
            self._check_names(batch.schema.names, ignore)
            if len(set(batch.schema.names)) != len(batch.schema.names):
                names = batch.schema.names
                twice = next(name for name in self.names if names.count(name) > 1)
                raise EncodingError('two columns of the Arrow table have this name', twice)
            return [
                _arrow_values(batch, name, encoding)
                for name, encoding in zip(self.names, self.encodings, strict=True)
            ]
        # Only a plain dict is known to have no answer for a missing key (a defaultdict would even
        # change), so the names of anything else are compared before a value is asked for.
        plain = types_of(batch) == {dict}
        if not plain or (ignore is not None and set(map(len, batch)) != {len(self.names)}):
            self._check_samples(batch, ignore)
        try:
            # Column by column: a tuple per row would cost five times as much.
            return [list(map(value_of, batch)) for value_of in self._getters]
        except KeyError:
            self._check_samples(batch, ignore)
            raise

    def _encoded_samples(self, batch: EncodedBatch, ignore: Ignore) -> Samples:
        if batch.columns == self:
            return batch.samples
        self._check_names(batch.columns.names, ignore)
        theirs = batch.columns.as_dict()
        for name, encoding in self.as_dict().items():
            if theirs[name] != encoding:
                raise EncodingError(f'the samples are encoded as {theirs[name]}', name, encoding)
        return batch.select(self, dict(zip(self.names, self.names, strict=True))).samples

    def _check_samples(self, batch: Sequence[Sample], ignore: Ignore) -> None:
        for sample in cast('Sequence[Any]', batch):
            if not isinstance(sample, Mapping):
                raise EncodingError(f'{describe(sample)} is no sample: expected a dict')
            self._check_names(sample, ignore)

    def _check_names(self, given: Iterable[Any], ignore: Ignore) -> None:
        names = set(given)
        if missing := sorted(self._name_set - names):
            raise EncodingError('the sample has no such column', missing[0])
        extra = sorted(names - self._name_set, key=str)
        if ignore is not None and (extra := [name for name in extra if name not in ignore]):
            raise EncodingError(
                'the sample has this column, the dataset has not: drop it or add it to columns',
                str(extra[0])[:80],
            )

    def _error_of(self, batch: Batch, ignore: Ignore) -> EncodingError | None:
        """What is wrong with a batch, if anything."""
        try:
            self.encode_rows(batch, ignore=ignore)
        except EncodingError as error:
            return error
        return None

    def _first_error(self, batch: Batch, error: EncodingError, ignore: Ignore) -> EncodingError:
        """The error of the first bad sample, found by halving a batch that has one."""
        low, high = 0, len(batch)
        while high - low > 1:
            middle = (low + high) // 2
            if self._error_of(rows_of(batch, low, middle), ignore) is None:
                low = middle
            else:
                high = middle
        found = self._error_of(rows_of(batch, low, high), ignore)
        if found is None or high == 0:  # not of one sample: a wrong Arrow type and no rows
            return EncodingError(error.reason, error.column, error.encoding)
        return EncodingError(found.reason, found.column, found.encoding, low)


def rows_of(batch: Batch, start: int, stop: int) -> Batch:
    """Samples start to stop - 1 of a batch."""
    if isinstance(batch, EncodedBatch):
        return batch.slice(start, stop)
    return batch.slice(start, stop - start) if isinstance(batch, _ARROW) else batch[start:stop]


def sample_rows(batch: Batch) -> Sequence[Sample]:
    """The samples one by one; those of an Arrow or encoded batch as dicts."""
    if isinstance(batch, EncodedBatch):
        return batch.to_rows()
    rows: Sequence[Sample] = batch.to_pylist() if isinstance(batch, _ARROW) else batch
    return rows


def column_values(batch: Batch, name: str) -> Sequence[Any]:
    """The values of one column, as Python has them.

    Raises:
        EncodingError: A sample has no such column.
    """
    if isinstance(batch, EncodedBatch):
        if name not in batch.columns.names:
            raise EncodingError('the samples have no such column', name)
        return [row[name] for row in batch.to_rows([name])]
    if isinstance(batch, _ARROW):
        if name not in batch.schema.names:
            raise EncodingError('the sample has no such column', name)
        return python_values(decoded_dictionary(_one_chunk(batch.column(name))))
    missing = object()
    values = [
        sample.get(name, missing) if isinstance(sample, Mapping) else missing for sample in batch
    ]
    if any(value is missing for value in values):
        raise EncodingError('the sample has no such column', name)
    return values


def _arrow_values(batch: Table, name: str, encoding: Encoding) -> Values:
    """The values of an Arrow column as its encoding takes them."""
    column = _one_chunk(batch.column(name))
    metadata = batch.schema.field(name).metadata or {}
    if metadata.get(MARK) != encoding.name.encode() or not isinstance(encoding, StoredText):
        return column
    try:
        return encoding.from_arrow(column)
    except EncodingError as error:
        raise EncodingError(error.reason, name, encoding.name) from error.__cause__


def _one_chunk(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """An Arrow column in one piece."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    # 32-bit offsets would overflow at 2 GiB.
    if pa.types.is_string(column.type):
        column = column.cast(pa.large_string())
    elif pa.types.is_binary(column.type):
        column = column.cast(pa.large_binary())
    return column.combine_chunks()


def _named(name: str, encoding: str) -> Encoding:
    try:
        return get_encoding(encoding)
    except ColumnsError as error:
        raise ColumnsError(f'column {name!r:.80}: {error}') from None


def _encoded(name: str, encoding: Encoding, values: Values) -> list[Part]:
    try:
        return encoding.encode_column(values)
    except EncodingError as error:
        raise EncodingError(error.reason, name, encoding.name) from error.__cause__

"""Samples that are encoded, with their column table: taken apart, put together anew, decoded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_mds.errors import ColumnsError, FormatError, MissingExtraError
from beam_mds.format.decode import column_items
from beam_mds.format.encodings.base import MARK, Encoding, binary_part
from beam_mds.format.samples import Samples, join_columns

if TYPE_CHECKING:
    from beam_mds.format.columns import Columns

_T = TypeVar('_T')


@dataclass(frozen=True, eq=False)
class EncodedBatch:
    """n encoded samples of one column table.

    Attributes:
        columns: The table.
        samples: The samples.

    Example:
        >>> from beam_mds.format import Columns
        >>> columns = Columns({'text': 'str', 'label': 'uint8'})
        >>> batch = EncodedBatch(columns, columns.encode_batch([{'text': 'a', 'label': 1}]))
        >>> batch.to_arrow().to_pylist()
        [{'label': 1, 'text': 'a'}]
    """

    columns: Columns
    samples: Samples

    def __len__(self) -> int:
        """The number of samples."""
        return len(self.samples)

    @property
    def nbytes(self) -> int:
        """Bytes of all samples."""
        return self.samples.nbytes

    def slice(self, start: int, stop: int) -> EncodedBatch:
        """Samples start to stop - 1, sharing the data."""
        return EncodedBatch(self.columns, self.samples.slice(start, stop))

    def take(self, rows: npt.NDArray[np.int64]) -> EncodedBatch:
        """The samples at these positions, copied."""
        return EncodedBatch(self.columns, self.samples.take(rows))

    def column(self, name: str) -> Samples:
        """The encoded values of one column: n byte strings without the sizes of their samples.

        Raises:
            FormatError: A sample is damaged; `row` says which.
            ColumnsError: There is no such column.
        """
        (items,) = column_items(self.samples, self.columns.sizes, self.columns.places([name]))
        data, offsets = binary_part(items)
        assert offsets is not None
        return Samples(data, offsets)

    def select(self, columns: Columns, source: Mapping[str, str]) -> EncodedBatch:
        """The same samples with other columns; values are copied as they are encoded.

        Args:
            columns: The new table.
            source: New name -> the column here that it is, which has the same encoding.

        Raises:
            FormatError: A sample is damaged; `row` says which.
        """
        names = [source[name] for name in columns.names]
        places = {self.columns.names[place]: place for place in self.columns.places(names)}
        items = column_items(self.samples, self.columns.sizes, [places[name] for name in names])
        parts = [
            ([binary_part(item)], encoding.size is None)
            for item, encoding in zip(items, columns.encodings, strict=True)
        ]
        return EncodedBatch(columns, join_columns(parts, len(self)))

    def to_arrow(self, only: Iterable[str] | None = None) -> pa.RecordBatch:
        """Decodes the samples, column by column, to Arrow.

        Numbers, texts, bytes and arrays (as lists) become Arrow's; `str_int`, `str_decimal` and
        `json` the text that is stored; images and pickles the bytes that are stored, and are not
        looked into. Encoding the batch again gives the same samples.

        Args:
            only: The columns wanted; all when None.

        Returns:
            A batch of n rows, its columns in the format's order.

        Raises:
            FormatError: A sample is damaged; `row` says which.
            ColumnsError: `only` names a column that there is not, or the arrays of a column have no
                common type.
        """
        places = self.columns.places(only)
        arrays = self.decode_columns(places, lambda encoding, items: encoding.to_arrow(items))
        fields = [
            pa.field(name, array.type, metadata={MARK: encoding.name})
            for name, encoding, array in zip(
                [self.columns.names[place] for place in places],
                [self.columns.encodings[place] for place in places],
                arrays,
                strict=True,
            )
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))

    def to_rows(self, only: Iterable[str] | None = None) -> list[dict[str, Any]]:
        """Decodes the samples to dicts, with the values that `StreamingDataset` gives.

        Args:
            only: The columns wanted; all when None.

        Raises:
            FormatError: A sample is damaged; `row` says which.
            ColumnsError: `only` names a column that there is not.
            MissingExtraError: An image column is decoded without Pillow.
        """
        places = self.columns.places(only)
        columns = self.decode_columns(places, lambda encoding, items: encoding.decode_column(items))
        if not places:
            return [{} for _ in range(len(self))]
        names = [self.columns.names[place] for place in places]
        return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]

    def decode_columns(
        self, places: Sequence[int], decode: Callable[[Encoding, pa.LargeBinaryArray], _T]
    ) -> list[_T]:
        """Decodes columns by a function of their encodings and their encoded values.

        Args:
            places: Of the columns wanted, as `Columns.places` gives them.
            decode: Takes n encoded values, whose bytes lie one after another. What it raises is of
                a sample that is damaged, unless it is a `ColumnsError` or `MissingExtraError`.

        Raises:
            FormatError: A sample is damaged; `row` says which.
        """
        found = []
        for place, items in zip(
            places, column_items(self.samples, self.columns.sizes, places), strict=True
        ):
            name, encoding = self.columns.names[place], self.columns.encodings[place]
            try:
                found.append(decode(encoding, items))
            except MissingExtraError:
                raise
            except ColumnsError as error:
                raise ColumnsError(f'column {name!r:.80} ({encoding.name}): {error}') from None
            except Exception as error:
                raise _first_damage(name, encoding, items, error) from error
        return found


def _first_damage(
    name: str, encoding: Encoding, items: pa.LargeBinaryArray, error: Exception
) -> FormatError:
    """The error of the first value that does not decode."""
    for row, item in enumerate(items.to_pylist()):
        try:
            decode_value(name, encoding, item)
        except FormatError as found:
            return FormatError(str(found), row)
    return FormatError(
        f'column {name!r:.80} ({encoding.name:.80}): does not decode: {str(error)[:80]}'
    )


def decode_value(name: str, encoding: Encoding, data: bytes) -> Any:
    """Decodes one value of a column.

    Raises:
        FormatError: The bytes are no value of that encoding; the column is named.
        MissingExtraError: It is an image, and there is no Pillow.
    """
    try:
        return encoding.decode(data)
    except MissingExtraError:
        raise
    except Exception as error:  # damaged bytes can raise anything in numpy, Pillow, json or pickle
        raise FormatError(
            f'column {name!r:.80} ({encoding.name:.80}): {len(data)} bytes do not decode: '
            f'{str(error)[:80]}'
        ) from error

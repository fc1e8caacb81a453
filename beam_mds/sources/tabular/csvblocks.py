"""Whole rows of CSV in blocks of bytes, parsed by Arrow where it and Python's reader must agree.

Arrow is several times as fast, but takes what is no CSV for something. So the quotes of a block are
looked at first: where each opens a field, closes one, or is one of a pair within a field, there is
only one way to read it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pacsv

_NEWLINE, _RETURN = ord('\n'), ord('\r')

# Arrow counts the bytes of a block in 32 bits.
_LARGEST = (1 << 31) - 2


class WholeRows(NamedTuple):
    """The rows of a block that end in it.

    Attributes:
        size: Their bytes.
        lines: int64 of shape (rows,): the lines in the block before each row that is not blank.
        newlines: The lines that they have in all.
        plain: Whether all lines end with a newline; if not, `lines` is wrong.
    """

    size: int
    lines: npt.NDArray[np.int64]
    newlines: int
    plain: bool


def whole_rows(block: bytes, delimiter: str, quote: str | None) -> WholeRows | None:
    r"""The rows that end in a block, which begins with one.

    Args:
        block: UTF-8.
        delimiter: One ASCII character.
        quote: One ASCII character, or None.

    Returns:
        None where a quote stands within a field that has none around it, or text behind one that
        closes a field: where rows end then is a matter of opinion.

    Example:
        >>> whole_rows(b'1,x\n2,"y\n', ',', '"').size
        4
    """
    data = np.frombuffer(block, np.uint8)
    newlines = np.flatnonzero(data == _NEWLINE)
    ends = np.arange(len(newlines))  # which newlines end a row
    quotes = np.flatnonzero(data == ord(quote)) if quote else newlines[:0]
    if len(quotes):
        ends = np.flatnonzero(np.searchsorted(quotes, newlines) % 2 == 0)
    if not len(ends):
        return WholeRows(0, ends, 0, True)
    size = int(newlines[ends[-1]]) + 1
    if quote and not _in_place(data, quotes[: np.searchsorted(quotes, size)], delimiter, quote):
        return None
    starts = np.concatenate([[0], newlines[ends[:-1]] + 1])
    returns = np.flatnonzero(data[:size] == _RETURN)
    blank = data[starts] == _NEWLINE
    if len(returns):
        blank |= (data[starts] == _RETURN) & (newlines[ends] == starts + 1)
    lines = np.concatenate([[0], ends[:-1] + 1])[~blank]
    alone = int((data[returns + 1] != _NEWLINE).sum())  # each ends a line of its own
    return WholeRows(size, lines, int(ends[-1]) + 1 + alone, not alone)


def _in_place(
    data: npt.NDArray[np.uint8], quotes: npt.NDArray[np.int64], delimiter: str, quote: str
) -> bool:
    """Whether every quote stands where one may: they open and close fields in turn."""
    around = [ord(delimiter), ord(quote), _NEWLINE, _RETURN]
    before, behind = quotes[::2] - 1, quotes[1::2] + 1
    before = before[1:] if len(before) and before[0] < 0 else before
    return bool(np.isin(data[before], around).all() and np.isin(data[behind], around).all())


def parse_block(
    block: bytes, names: Sequence[str], delimiter: str, quote: str | None
) -> pa.RecordBatch | None:
    """The rows of a block as columns of text; None where any is not as the names have it."""
    if len(block) > _LARGEST:
        return None
    numbers = [str(number) for number in range(len(names))]  # names may be there twice
    try:
        table = pacsv.read_csv(
            pa.BufferReader(block),
            read_options=pacsv.ReadOptions(
                column_names=numbers, use_threads=False, block_size=len(block) + 1
            ),
            parse_options=pacsv.ParseOptions(
                delimiter=delimiter, quote_char=quote or False, newlines_in_values=True
            ),
            convert_options=pacsv.ConvertOptions(
                column_types=dict.fromkeys(numbers, pa.string()), strings_can_be_null=False
            ),
        )
    except pa.ArrowInvalid:
        return None
    (batch,) = table.combine_chunks().to_batches()
    return pa.RecordBatch.from_arrays(batch.columns, names=list(names))

"""Filters of samples as text, like `lang == 'en' and length > 100`, run on whole Arrow batches.

The text is parsed with Python's grammar; what it means is in `expressions`.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from beam_mds.errors import EncodingError, OptionError, WhereError
from beam_mds.filtering.expressions import Mask, Refused, Rows
from beam_mds.format import get_encoding

_ALLOWED = """allowed are:
  names of columns (those that are no plain words as column('a name')), literals, ( )
  == != < <= > >=, in and not in with a list of literals, and, or, not
  + - * / %, abs(x), isnan(x), len(x), lower(x), upper(x)
  startswith(x, 'p'), endswith(x, 's'), contains(x, 'part'), matches(x, r'regular expression')"""

# Stands for the arrays of a column without a dtype: of which dtype they are decides nothing here.
_ARRAY = pa.large_list(pa.uint8())


class Where:
    """A filter of samples; see `parse_where`.

    Attributes:
        text: As it was given.
        columns: Names of the columns that it looks at, sorted.
    """

    def __init__(self, text: str, columns: Mapping[str, str]) -> None:
        """Parses and checks the text; see `parse_where`."""
        self.text = text
        self._tree = _parse(text)
        kinds = {name: get_encoding(encoding).arrow_type for name, encoding in columns.items()}
        empty = {name: pa.array([], kind or _ARRAY) for name, kind in kinds.items()}
        rows = Rows(text, empty, np.arange(0))
        try:
            rows.condition(self._tree)  # every part of it is computed, though for no samples
        except Refused as error:
            raise OptionError(_shown(text, error)) from None
        self.columns = sorted(rows.used)
        self._encodings = {name: columns[name] for name in self.columns}

    def __repr__(self) -> str:
        return f'Where({self.text!r})'

    def __reduce__(self) -> tuple[Callable[..., Where], tuple[str, dict[str, str]]]:
        """Pickles as its text: a worker parses it anew."""
        return Where, (self.text, self._encodings)

    def mask(self, batch: pa.RecordBatch) -> Mask:
        """Which samples of a batch it holds for.

        Args:
            batch: n samples, with all of `columns`.

        Returns:
            bool of shape (n,).

        Raises:
            WhereError: It has no exact value for a sample; the row and the numbers are named.
            EncodingError: A column is missing, or has a null.
        """
        columns = {}
        for name in self.columns:
            if name not in batch.schema.names:
                raise EncodingError('the batch has no such column, and `where` looks at it', name)
            columns[name] = batch.column(name)
            if columns[name].null_count:
                raise EncodingError('the batch has a null: MDS has no nulls', name)
        try:
            return Rows(self.text, columns, np.arange(batch.num_rows)).condition(self._tree)
        except Refused as error:
            raise WhereError(_shown(self.text, error), error.row) from None


def parse_where(text: str, columns: Mapping[str, str]) -> Where:
    """Parses a filter of samples, like `lang == 'en' and length > 100`.

    The meaning is Python's, with these rules:

    - Only a comparison, a function that asks something, or what and, or, not make of them is a
      condition: `flag != 0`, not `flag`.
    - `and`, `or` and chained comparisons look at their right side only for the samples that need
      it, so `m != 0 and n / m > 2` is safe.
    - Numbers are compared by their exact values, whatever their widths. Integers are computed in
      64 bits, `/` and what has a float in it in float64.
    - What has no exact value (a division by zero, an integer beyond 64 bits, an integer beyond
      2**53 beside floats) is an error, never a wrong or a missing sample.
    - `matches` finds a regular expression (of RE2) anywhere in a text. `len` counts characters of
      a text, bytes of bytes, items of a list and of an array's first dimension. `lower` and
      `upper` change each character for itself.

    Args:
        text: The filter.
        columns: Column name -> encoding. `str`, `json`, `str_int` and `str_decimal` columns are
            texts here, `str_float` columns numbers, arrays and lists only something to ask `len`
            of, and all others that are no numbers are bytes.

    Raises:
        OptionError: It is no such filter, names a column that there is not, or compares what
            cannot be compared; the place is shown.

    Example:
        >>> where = parse_where('1 < n < 5', {'n': 'int32'})
        >>> where.mask(pa.record_batch({'n': pa.array([1, 2, 5], pa.int32())})).tolist()
        [False, True, False]
    """
    given: Any = text
    if not isinstance(given, str) or not given.strip():
        raise OptionError(f'where must be a text like "length > 100", got {given!r:.80}')
    return Where(given.strip(), columns)


def _parse(text: str) -> ast.expr:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter('error')  # a '\d' that is right by accident
            return ast.parse(text, mode='eval').body
    except SyntaxError as error:
        reason = str(error.msg)
        if 'escape sequence' in reason:
            reason += ": write r'...', which has none"
        elif text[(error.offset or 1) - 1 :].startswith('='):
            reason += ': write == to compare'
        place = (error.lineno or 1, error.offset or 1)
        raise OptionError(_shown(text, Refused(reason, place, allowed=True))) from None
    except (ValueError, MemoryError, RecursionError) as error:
        # Python's own words, of a NUL and of a text that its parser has no stack for.
        raise OptionError(f'where: {str(error) or "too many levels"}: {text[:80]!r}') from None


def _shown(text: str, error: Refused) -> str:
    """The reason, the line, and a caret below the place."""
    lines = text.split('\n')
    if isinstance(error.place, tuple):
        number, column = error.place
        line = lines[number - 1]
    else:
        line = lines[error.place.lineno - 1]
        column = len(line.encode()[: error.place.col_offset].decode()) + 1
    caret = ' ' * (max(column, 1) - 1) + '^'
    allowed = f'\n{_ALLOWED}' if error.allowed else ''
    return f'where: {error.reason}\n  {line}\n  {caret}{allowed}'

"""Columns of text -> values of other encodings, for formats that know only text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from beam_mds.errors import OptionError
from beam_mds.format import get_encoding
from beam_mds.format.encodings.base import MARK, StoredText
from beam_mds.records import BadRecord
from beam_mds.sources.tabular.parts import Found, Rows

# Encodings -> what a text is parsed as; the encoding itself checks the range.
_NUMBERS = {
    **dict.fromkeys(('int', 'int8', 'int16', 'int32', 'int64'), pa.int64()),
    **dict.fromkeys(('uint8', 'uint16', 'uint32', 'uint64'), pa.uint64()),
    **dict.fromkeys(('float16', 'float32', 'float64', 'str_float'), pa.float64()),
}


def check_typed(encodings: Mapping[str, str]) -> None:
    """Checks that a text can become a value of each encoding.

    Raises:
        OptionError: It cannot; the column is named.
    """
    for name, encoding in encodings.items():
        if encoding in ('str', 'bytes', *_NUMBERS):
            continue
        if not isinstance(get_encoding(encoding), StoredText):
            raise OptionError(
                f'column {name!r:.80}: a text of a CSV file is no {encoding}: expected str, bytes, '
                f'json, str_int, str_decimal, or one of {", ".join(_NUMBERS)}'
            )


def parsed(rows: Rows, encodings: Mapping[str, str], path: str) -> Iterator[Found]:
    """Columns of text as what their encodings take; rows that are not so become bad records.

    Numbers may have spaces around them. What does not fit a number's width is left to the encoding.

    Args:
        rows: With columns of text.
        encodings: Of the columns to parse; the others stay text.
        path: The file, for bad records.
    """
    batch = rows.batch
    bad: dict[int, str] = {}
    for at, name in enumerate(batch.schema.names):
        encoding = encodings.get(name, 'str')
        texts, field = batch.column(at), pa.field(name, pa.string())
        if kind := _NUMBERS.get(encoding):
            texts, wrong = _numbers(pc.utf8_trim_whitespace(texts), kind)
            for number, text in wrong.items():
                bad.setdefault(number, f'column {name!r:.80}: {text!r:.80} is no {encoding}')
            field = pa.field(name, kind)
        elif encoding == 'bytes':
            texts, field = texts.cast(pa.binary()), pa.field(name, pa.binary())
        elif encoding != 'str':
            field = pa.field(name, pa.string(), metadata={MARK: encoding})
        batch = batch.set_column(at, field, texts)
    if not bad:
        yield Rows(batch, rows.place)
        return
    kept = [number for number in range(batch.num_rows) if number not in bad]
    if kept:
        yield Rows(batch.take(pa.array(kept)), {k: v[kept] for k, v in rows.place.items()})
    for number, message in sorted(bad.items()):
        place: dict[str, str | int] = {'file': path}
        place |= {name: int(at[number]) for name, at in rows.place.items()}
        (element,) = rows.batch.slice(number, 1).to_pylist()
        yield BadRecord('value', message, place, element)


def _numbers(texts: pa.Array, kind: pa.DataType) -> tuple[pa.Array, dict[int, str]]:
    """The numbers, null where a text is none, and the texts that are none by their row."""
    try:
        return pc.cast(texts, kind), {}
    except pa.ArrowInvalid:
        if len(texts) == 1:
            return pa.nulls(1, kind), {0: texts[0].as_py()}
    middle = len(texts) // 2
    low, bad_low = _numbers(texts.slice(0, middle), kind)
    high, bad_high = _numbers(texts.slice(middle), kind)
    bad = bad_low | {middle + row: text for row, text in bad_high.items()}
    return pa.concat_arrays([low, high]), bad

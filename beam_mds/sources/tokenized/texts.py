"""Samples -> their texts, many at once, and notes of what is no text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

from beam_mds.errors import OptionError
from beam_mds.format.encodings.base import decoded_dictionary
from beam_mds.records import PLACE, BadRecord
from beam_mds.rows import as_dict
from beam_mds.sources.tokenizing import DTYPES, ENCODE_CHARS, TokenizerFile, dtype_for

# What a text's error can be: `missing` (no such field, or null), `type`, `encoding` (no Unicode
# text), `too_long`, `empty` (no ids).
ERROR_TYPES = ('missing', 'type', 'encoding', 'too_long', 'empty')

# Texts that are tokenized at once, however short.
_MOST_TEXTS = 8192

# Samples of one element type: one dict each, or rows.
Rows: TypeAlias = list[Mapping[str, Any]] | pa.RecordBatch


@dataclass(frozen=True)
class TextOptions:
    """How texts become ids; see `TokenizeText`.

    Raises:
        OptionError: One of them cannot work.
    """

    tokenizer: TokenizerFile
    text_field: str
    bos_text: str
    eos_text: str
    dtype: str | None
    add_special_tokens: bool
    max_chars: int
    cut_chars: int | None
    group: str | None = None

    def __post_init__(self) -> None:
        for name in ('text_field', 'bos_text', 'eos_text', 'group'):
            value = getattr(self, name)
            if value is None and name == 'group':
                continue
            if not isinstance(value, str) or (not value and not name.endswith('_text')):
                raise OptionError(f'{name} must be a text, got {value!r:.80}')
        if self.dtype is not None and self.dtype not in DTYPES:
            dtype_for(1, self.dtype)
        for name in ('max_chars', 'cut_chars'):
            value = getattr(self, name)
            if value is None and name == 'cut_chars':
                continue
            if type(value) is not int or value < 1:
                raise OptionError(f'{name} must be a number of characters above 0, got {value!r}')


class Batch(NamedTuple):
    """Texts that are tokenized at once, and the samples that they come from, in order."""

    rows: list[Rows]
    texts: list[str]


class TextBatches:
    """Collects samples into batches."""

    def __init__(self, options: TextOptions) -> None:
        """Starts with nothing.

        Args:
            options: The options.
        """
        self._options = options
        self._clear()

    def add(self, element: Any) -> Iterator[Batch | BadRecord]:
        """Takes a sample, or many: the batches that are complete by now, and what is no text."""
        if isinstance(element, BadRecord):
            yield element
        elif isinstance(element, pa.RecordBatch):
            rows = max(1, ENCODE_CHARS * len(element) // max(element.nbytes, 1))
            for start in range(0, len(element), rows):
                yield from self._add_rows(element.slice(start, rows))
        else:
            yield from self._add_sample(element)

    def finish(self) -> Iterator[Batch]:
        """The batch of what is left over, if anything is."""
        if self._texts:
            yield self._taken()

    def _clear(self) -> None:
        self._rows: list[Rows] = []
        self._texts: list[str] = []
        self._chars = 0

    def _taken(self) -> Batch:
        batch = Batch(self._rows, self._texts)
        self._clear()
        return batch

    def _full(self) -> Iterator[Batch]:
        if self._chars >= ENCODE_CHARS or len(self._texts) >= _MOST_TEXTS:
            yield self._taken()

    def _add_sample(self, element: Any) -> Iterator[Batch | BadRecord]:
        sample = as_dict(element)
        if sample is None:
            yield BadRecord('type', f'{type(element).__name__} is no sample with fields', {})
            return
        text = _field(sample, self._options.text_field)
        if problem := self._problem(text, *_groups([sample], self._options.group)):
            place = sample.get(PLACE) or {}
            rest = {name: value for name, value in sample.items() if name != PLACE}
            yield BadRecord(*problem, place, None if place else rest)
            return
        if not self._rows or isinstance(self._rows[-1], pa.RecordBatch):
            self._rows.append([])
        self._rows[-1].append(sample)
        self._texts.append(text)
        self._chars += len(text)
        yield from self._full()

    def _add_rows(self, rows: pa.RecordBatch) -> Iterator[Batch | BadRecord]:
        texts = _texts_of(rows, self._options.text_field)
        groups = _groups(rows, self._options.group)
        problems = list(map(self._problem, texts, groups))
        if any(problems):
            for row, problem in enumerate(problems):
                if problem:
                    yield bad_row(rows.slice(row, 1), problem)
            good = [problem is None for problem in problems]
            rows = rows.filter(pa.array(good, pa.bool_()))
            texts = [text for text, kept in zip(texts, good, strict=True) if kept]
        if texts:
            self._rows.append(rows)
            self._texts += texts
            self._chars += sum(map(len, texts))
        yield from self._full()

    def _problem(self, text: Any, group: Any) -> tuple[str, str] | None:
        if group is None:
            field = self._options.group
            return (
                'missing',
                f'field {field!r} is null or not there: it says what is packed together',
            )
        return text_problem(text, self._options)


def text_problem(text: Any, options: TextOptions) -> tuple[str, str] | None:
    """What is wrong with a text: the kind, of `ERROR_TYPES`, and a sentence; None if nothing is."""
    field = options.text_field
    if text is None:
        return 'missing', f'field {field!r} is null or not there: expected a text'
    if isinstance(text, Exception):
        return 'encoding', f'field {field!r} is no UTF-8: {text}'
    if not isinstance(text, str):
        return 'type', f'field {field!r} is of type {type(text).__name__}: expected a text'
    if options.cut_chars is None and len(text) > options.max_chars:
        return 'too_long', (
            f'field {field!r} has {len(text):,} characters, more than max_chars='
            f'{options.max_chars:,}, which keeps the memory of the tokenizer small: cut_chars '
            'tokenizes long texts in pieces, or allow more'
        )
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            return 'encoding', (
                f'field {field!r} has a lone surrogate at character {error.start}, which is no text'
            )
    return None


def bad_row(row: pa.RecordBatch, problem: tuple[str, str]) -> BadRecord:
    """The record of one row."""
    if PLACE in row.schema.names and (place := row.column(PLACE)[0].as_py()):
        return BadRecord(*problem, {k: v for k, v in place.items() if v is not None})
    try:
        return BadRecord(*problem, {}, row.to_pylist()[0])
    except UnicodeDecodeError:
        return BadRecord(*problem, {})


def groups_of(rows: Rows, field: str | None) -> list[str]:
    """The value of a field in each row, as text.

    Args:
        rows: n samples.
        field: The field; None: all are alike.
    """
    return list(map(str, _groups(rows, field)))


def _groups(rows: Rows, field: str | None) -> list[Any]:
    if field is None:
        return [''] * len(rows)
    if isinstance(rows, pa.RecordBatch):
        return list(_column(rows, field).to_pylist())
    return [_field(sample, field) for sample in rows]


def _field(sample: Mapping[str, Any], field: str) -> Any:
    """A field by its name, or by the names on the way to it with dots between."""
    if field in sample:
        return sample[field]
    value: Any = sample
    for name in field.split('.'):
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)
    return value


def _column(rows: pa.RecordBatch, field: str) -> pa.Array:
    """A column as `_field` finds a field; nulls where there is none."""
    if field in rows.schema.names:
        return decoded_dictionary(rows.column(field))
    first, *path = field.split('.')
    if first not in rows.schema.names:
        return pa.nulls(len(rows))
    column = rows.column(first)
    for name in path:
        if not pa.types.is_struct(column.type) or column.type.get_field_index(name) < 0:
            return pa.nulls(len(rows))
        column = column.flatten()[column.type.get_field_index(name)]
    return decoded_dictionary(column)


def _texts_of(rows: pa.RecordBatch, field: str) -> list[Any]:
    """The values of a column; one that is no UTF-8 is the error that says so."""
    column = _column(rows, field)
    try:
        return list(column.to_pylist())
    except UnicodeDecodeError:
        return [_decoded(value) for value in column]


def _decoded(value: pa.Scalar) -> Any:
    try:
        return value.as_py()
    except UnicodeDecodeError as error:
        return error

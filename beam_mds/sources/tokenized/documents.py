"""Samples with a text -> documents of token ids, many at once; no Beam steps."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from beam_mds.background import Jobs
from beam_mds.records import PLACE, BadRecord
from beam_mds.sources.tokenized.packing import Ids, assemble
from beam_mds.sources.tokenized.texts import Batch, Rows, TextBatches, TextOptions, bad_row
from beam_mds.sources.tokenizing import Int64s, Tokenizer, dtype_for, encode_texts, fitted

_logger = logging.getLogger(__name__)

# The column of token ids, named as in llm-foundry.
TOKENS = 'tokens'


class Documents(NamedTuple):
    """n tokenized samples.

    Attributes:
        rows: The samples, which still have their texts.
        ids: The ids of all of them, one after another, with what goes around each; in the
            dataset's type.
        lengths: int64 of shape (n,), ids of each.
    """

    rows: Rows
    ids: Ids
    lengths: Int64s


class Encoder:
    """Texts -> documents, by a tokenizer that is in memory.

    Attributes:
        dtype: The type of ids.
        before: The ids that go before each text.
        after: Those that go behind.
    """

    def __init__(self, options: TextOptions) -> None:
        """Loads the tokenizer, unless the process has it.

        Args:
            options: The options.

        Raises:
            MDSError: The tokenizer cannot be loaded, or its ids do not fit `options.dtype`.
        """
        self._options = options
        self._tokenizer = tokenizer = options.tokenizer.load()
        self.dtype = dtype_for(tokenizer.size, options.dtype)
        before, after = around(tokenizer, options)
        self.before, self.after = np.array(before, self.dtype), np.array(after, self.dtype)

    def encode(self, batch: Batch) -> list[Documents]:
        """The documents of a batch, in order.

        Raises:
            EncodingError: An id does not fit.
        """
        found = encode_texts(self._tokenizer, batch.texts, self._options.cut_chars)
        ids = assemble(fitted(found.ids, self.dtype), found.lengths, self.before, self.after)
        lengths = found.lengths + len(self.before) + len(self.after)
        documents, row, at = [], 0, 0
        for rows in batch.rows:
            some = lengths[row : row + len(rows)]
            count = int(some.sum())
            documents.append(Documents(rows, ids[at : at + count], some))
            row, at = row + len(rows), at + count
        return documents


def around(tokenizer: Tokenizer, options: TextOptions) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The ids that go before and behind each text.

    As in llm-foundry: bos_text and eos_text are tokenized as they are, and stand outside of the
    special tokens that the tokenizer itself adds.
    """
    bos = tokenizer.ids_of(options.bos_text) if options.bos_text else ()
    eos = tokenizer.ids_of(options.eos_text) if options.eos_text else ()
    for name, text, ids in (
        ('bos_text', options.bos_text, bos),
        ('eos_text', options.eos_text, eos),
    ):
        if len(ids) > 1:
            _logger.warning('%s=%r is no single token: it becomes the ids %s', name, text, ids)
    if not options.add_special_tokens:
        return bos, eos
    if (bos or eos) and (tokenizer.prefix or tokenizer.suffix):
        _logger.warning(
            'the tokenizer adds special tokens of its own (ids %s) to those of bos_text and '
            'eos_text (ids %s): a text may get them twice; add_special_tokens=False leaves the '
            'first out',
            [*tokenizer.prefix, *tokenizer.suffix],
            [*bos, *eos],
        )
    return (*bos, *tokenizer.prefix), (*tokenizer.suffix, *eos)


class TokenStream:
    """Samples -> documents, tokenized in threads while the next samples come.

    Two batches at most are under way: the tokenizers' own threads keep all cores busy.
    """

    def __init__(self, options: TextOptions, encoder: Encoder) -> None:
        """Starts with nothing.

        Args:
            options: The options.
            encoder: Made with the same options.
        """
        self._batches, self._encoder = TextBatches(options), encoder
        self._jobs: Jobs[list[Documents]] = Jobs()

    def add(self, element: Any) -> Iterator[Documents | BadRecord]:
        """Takes a sample, or many: what is ready by now; documents are in order."""
        for found in self._batches.add(element):
            if isinstance(found, BadRecord):
                yield found
            else:
                yield from chain.from_iterable(self._jobs.submit(self._encoder.encode, found))

    def finish(self) -> Iterator[Documents]:
        """All that is not ready yet."""
        for batch in self._batches.finish():
            yield from chain.from_iterable(self._jobs.submit(self._encoder.encode, batch))
        yield from chain.from_iterable(self._jobs.finish())


def tokenized(
    elements: Iterable[Any], options: TextOptions, encoder: Encoder
) -> Iterator[Documents | BadRecord]:
    """The documents of samples, in order; notes of bad records come as soon as they are found."""
    stream = TokenStream(options, encoder)
    for element in elements:
        yield from stream.add(element)
    yield from stream.finish()


def token_samples(documents: Documents, field: str) -> Iterator[Any]:
    """One sample a document: what it was, with its ids in the place of its text.

    Args:
        documents: The documents.
        field: The field of the text, which is left out.

    Yields:
        dicts or a `pyarrow.RecordBatch`, as the samples were, and a `BadRecord` for each document
        without ids: the format holds no array without elements.
    """
    rows, ids, lengths = documents
    ends = np.cumsum(lengths)
    problem = 'empty', f'field {field!r} has no tokens: MDS holds no array without elements'
    if not isinstance(rows, pa.RecordBatch):
        for sample, end, length in zip(rows, ends.tolist(), lengths.tolist(), strict=True):
            rest = {name: value for name, value in sample.items() if name != field}
            if length:
                yield {**rest, TOKENS: ids[end - length : end]}
            else:
                place = rest.pop(PLACE, None) or {}
                yield BadRecord(*problem, place, None if place else dict(sample))
        return
    empty = np.flatnonzero(lengths == 0)
    for row in empty.tolist():
        yield bad_row(rows.slice(row, 1), problem)
    if len(empty):
        kept = lengths != 0
        rows, lengths = rows.filter(pa.array(kept)), lengths[kept]
    if not len(rows):
        return
    names = [name for name in rows.schema.names if name not in {field, TOKENS}]
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    tokens = pa.ListArray.from_arrays(pa.array(offsets), pa.array(ids))
    yield pa.RecordBatch.from_arrays(
        [*(rows.column(name) for name in names), tokens], [*names, TOKENS]
    )

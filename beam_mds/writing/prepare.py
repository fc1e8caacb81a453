"""One batch of samples, encoded, with the order and the split of each; no Beam here."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import xxhash

from beam_mds.errors import EncodingError
from beam_mds.format import EncodedBatch, Samples
from beam_mds.format.columns import COLUMNAR, Batch, column_values, rows_of, sample_rows
from beam_mds.format.encodings.base import describe, types_of
from beam_mds.format.samples import Allocate, allocate
from beam_mds.format.shard import SAMPLE_OVERHEAD, SHARD_CEILING
from beam_mds.records import PLACE, BadRecord, place_text
from beam_mds.rows import as_dict
from beam_mds.writing.keys import key_bytes
from beam_mds.writing.options import Key, WriteOptions
from beam_mds.writing.planning import UInt64s
from beam_mds.writing.sorting import sort_bytes
from beam_mds.writing.splits import splits_of

# Characters of an error's message and of a key in a dead letter.
_SHOWN = 1000


class DeadLetter(NamedTuple):
    """One sample that was refused.

    Attributes:
        stage: What failed: `read` where the source had no sample to give (see `BadRecord`), or
            `split`, `encode` or `key`.
        column: The column, where one is to blame.
        error_type: Name of the exception's class.
        message: What it says.
        key: The sample's key as text, if the write has a key and it could be had.
        element: The sample, as it was given; a row of an Arrow element as a dict. Once mended it
            can be written like any other.
        place: Where it came from, if the source told: like `{'file': 'a.jsonl', 'line': 12}`.
    """

    stage: str
    column: str | None
    error_type: str
    message: str
    key: str | None
    element: Any
    place: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Prepared:
    """n samples on their way.

    Attributes:
        samples: The encoded samples.
        first: uint64 of shape (n,), hashes of the keys, or of the samples when there is no key;
            None in arrival and sorted order.
        second: uint64 of shape (n,), hashes of the samples; None when there is no key.
        keys: With order='sorted' the bytes of n keys.
        splits: The names that occur; one empty name when the dataset is not split.
        codes: int64 of shape (n,), the place of each sample's split; None when it is not split.
    """

    samples: Samples
    first: UInt64s | None
    second: UInt64s | None
    keys: Samples | None
    splits: list[str]
    codes: npt.NDArray[np.int64] | None

    def __len__(self) -> int:
        """The number of samples."""
        return len(self.samples)


def prepare(
    batch: Batch, options: WriteOptions, allocate: Allocate = allocate
) -> tuple[list[Prepared], list[DeadLetter]]:
    """Encodes a batch and finds each sample's position and split.

    Args:
        batch: The samples.
        options: Of the write.
        allocate: Gives the buffers for the encoded samples.

    Returns:
        The good samples, in order, and the refused ones, if `options.catch` has the error's class.

    Raises:
        EncodingError: A sample cannot be held; the first one is named.
        RecordError: A source had a record that is no sample.
        Exception: What the key or split function raised.
    """
    if isinstance(batch, list) and BadRecord in types_of(batch):
        return _prepare_others(batch, options, allocate)
    try:
        return [_prepare(batch, options, allocate)], []
    except options.catch:
        if len(batch) <= 1:
            letter = _dead_letter(batch, options) if len(batch) else None
            if letter is None:
                raise
            return [], [letter]
    # Halves, until the bad samples are alone: their neighbours cost a few more encodings.
    good, bad = [], []
    middle = len(batch) // 2
    for half in (rows_of(batch, 0, middle), rows_of(batch, middle, len(batch))):
        prepared, letters = prepare(half, options, allocate)
        good += prepared
        bad += letters
    return good, bad


def _prepare_others(
    batch: list[Any], options: WriteOptions, allocate: Allocate
) -> tuple[list[Prepared], list[DeadLetter]]:
    """Like `prepare`, of a batch that has records among its samples which could not be read."""
    samples, letters = [], []
    for element in batch:
        if type(element) is BadRecord:
            letters.append(_unread(element, options))
        else:
            samples.append(element)
    good, bad = prepare(samples, options, allocate) if samples else ([], [])
    return good, letters + bad


def _unread(record: BadRecord, options: WriteOptions) -> DeadLetter:
    try:
        raise record.as_error()
    except options.catch:
        kind, message = record.error_type, record.message[:_SHOWN]
        key = None if record.element is None else _key(record.element, options)
        return DeadLetter('read', None, kind, message, key, record.element, record.place)


def digests(samples: Samples, seed: int) -> UInt64s:
    """One 64-bit hash a sample."""
    digest: Callable[..., int] = xxhash.xxh3_64_intdigest
    return np.fromiter(map(digest, samples, itertools.repeat(seed)), np.uint64, len(samples))


def _prepare(batch: Batch, options: WriteOptions, allocate: Allocate) -> Prepared:
    batch = _as_samples(batch)
    splits, codes = _splits(batch, options)
    samples = _encode(batch, options, allocate)
    first, second, keys = _positions(batch, samples, options)
    return Prepared(samples, first, second, keys, splits, codes)


def _as_samples(batch: Batch) -> Batch:
    """The batch with dicts in the place of beam.Row, NamedTuple and dataclass."""
    if isinstance(batch, COLUMNAR) or types_of(batch) <= {dict}:
        return batch
    samples: list[Mapping[str, Any]] = []
    for row, element in enumerate(batch):
        sample = as_dict(element)
        if sample is None:
            raise EncodingError(
                f'{describe(element)} is no sample: expected a dict, beam.Row, NamedTuple or '
                'dataclass, or many samples at once as a pyarrow.RecordBatch or Table',
                row=row,
            )
        samples.append(sample)
    return samples


def _splits(batch: Batch, options: WriteOptions) -> tuple[list[str], npt.NDArray[np.int64] | None]:
    if options.split is None:
        return [''], None
    return splits_of(options.split, batch)


def _encode(batch: Batch, options: WriteOptions, allocate: Allocate) -> Samples:
    columns = options.config.columns
    # Where errors are caught, the halving of `prepare` finds the row.
    encode = columns.encode_rows if options.catch else columns.encode_batch
    try:
        samples = encode(batch, allocate, options.ignore)
    except EncodingError as error:
        if error.row is None or (place := _place(rows_of(batch, error.row, error.row + 1))) is None:
            raise
        reason = f'{error.reason} ({place_text(place)})'
        raise EncodingError(reason, error.column, error.encoding, error.row) from error.__cause__
    largest = int(samples.sizes.max()) if len(samples) else 0
    if options.config.empty_size + SAMPLE_OVERHEAD + largest >= SHARD_CEILING:
        raise EncodingError(
            f'a sample of {largest} bytes fits no shard: offsets in a shard are uint32'
        )
    return samples


def _positions(
    batch: Batch, samples: Samples, options: WriteOptions
) -> tuple[UInt64s | None, UInt64s | None, Samples | None]:
    """First and second hash, and keys, as `Prepared` has them."""
    if options.order == 'arrival':
        return None, None, None
    if options.key is None:
        return digests(samples, options.seed), None, None
    second = digests(samples, options.seed)
    if options.order == 'sorted':
        return None, second, Samples.of(list(map(sort_bytes, _keys(batch, options.key))))
    if callable(options.key):
        keys = Samples.of(list(map(key_bytes, _keys(batch, options.key))))
    else:
        keys = options.config.columns.encode_column(options.key, batch)
    return digests(keys, options.seed), second, None


def _keys(batch: Batch, key: Key) -> Sequence[Any]:
    if isinstance(key, str):
        return column_values(batch, key)
    return list(map(key, sample_rows(batch))) if key is not None else []


def _dead_letter(batch: Batch, options: WriteOptions) -> DeadLetter | None:
    """The record of a batch of one bad sample, stage by stage."""
    stages: list[tuple[str, Callable[[], Any]]] = [
        ('encode', lambda: _as_samples(batch)),
        ('split', lambda: _splits(_as_samples(batch), options)),
        ('encode', lambda: _encode(_as_samples(batch), options, allocate)),
        ('key', lambda: _positions(_as_samples(batch), Samples.empty(), options)),
    ]
    for stage, step in stages:
        try:
            step()
        except options.catch as error:
            column = error.column if isinstance(error, EncodingError) else None
            message = str(error)[:_SHOWN]
            element, place = _element(batch)
            return DeadLetter(
                stage, column, type(error).__name__, message, _key(element, options), element, place
            )
    return None


def _element(batch: Batch) -> tuple[Any, Mapping[str, Any] | None]:
    """The only sample of a batch, as it was given, and where it came from."""
    element: Any = batch
    if not isinstance(batch, COLUMNAR):
        element = batch[0]
    else:
        with contextlib.suppress(ValueError, OverflowError):  # such as text that is no UTF-8
            element = sample_rows(batch)[0]
    if not isinstance(element, dict) or PLACE not in element:
        return element, None
    return {name: value for name, value in element.items() if name != PLACE}, element[PLACE]


def _place(batch: Batch) -> Mapping[str, Any] | None:
    """Where the only sample of a batch came from, if that is known."""
    return None if isinstance(batch, EncodedBatch) else _element(batch)[1]


def _key(element: Any, options: WriteOptions) -> str | None:
    """The key of a refused sample, as far as it can be had."""
    key = options.key
    try:
        sample: Any = as_dict(element)
        value = key(sample) if callable(key) else sample.get(key)
    except Exception:  # noqa: BLE001 - the sample is bad: its key may be what is wrong with it
        return None
    return None if value is None else str(value)[:_SHOWN]

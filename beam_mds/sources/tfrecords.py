"""TFRecord files of tf.train.Example -> samples, without TensorFlow."""

from __future__ import annotations

import itertools
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from beam_mds.errors import ColumnsError, FormatError
from beam_mds.records import PLACE, BadRecord, place_text
from beam_mds.sources.base import Piece, Source
from beam_mds.sources.featurevalues import WHAT, Make, UnfitError, value_maker
from beam_mds.sources.inputs import InputFile
from beam_mds.sources.opening import open_stream
from beam_mds.sources.streams import Place, Refusal, StreamError
from beam_mds.sources.tfexamples import (
    BYTES,
    FLOATS,
    INTEGERS,
    Feature,
    features_of,
    records_of,
)
from beam_mds.writing.options import one_of, parse_size

# What is looked at to find the columns: files at the beginning of the input, and records of each.
_FILES, _RECORDS = 5, 100

# Characters of an error's message.
_SHOWN = 1000

# Kind of a feature -> the encoding of its column where it has one value, and where it has others.
_ENCODINGS = {
    INTEGERS: ('int', 'ndarray:int64'),
    FLOATS: ('float32', 'ndarray:float32'),
    BYTES: ('bytes', None),
}


class ReadTFRecords(Source):
    """Reads TFRecord files of tf.train.Example, plain or gz, zstd, bz2, xz.

    Elements are dicts with a field for each column; every record must have all of them. What a
    feature becomes follows its column's encoding; see `beam_mds.sources.featurevalues`.

    Kinds of bad records: `truncated` (the file ends too early, or its compressed data is damaged)
    and `corrupt` (what came before either is kept), `checksum` (one record is damaged),
    `too_large`, `example` (a record is no tf.train.Example), `sequence_example`,
    `missing_feature`, `unexpected_feature`, `kind`, `shape`, `value` (a feature is not what its
    column needs).

    One record is in memory.

    Example:
        >>> source = ReadTFRecords(['gs://b/train-*'], {'image/encoded': 'jpeg', 'label': 'int'})
    """

    def __init__(
        self,
        inputs: Sequence[str | os.PathLike[str]],
        columns: Mapping[str, str],
        *,
        others: str = 'ignore',
        max_record_size: int | str = '1gb',
        pattern: str = '*',
        exclude: Sequence[str] = (),
        split: str | None = None,
        on_error: str = 'fail',
    ) -> None:
        """Makes the transform; see `Source` for the arguments that all sources have.

        Args:
            inputs: Folders, globs, files or `@lists`.
            columns: Name of a feature -> the encoding that its value is for. `feature_columns`
                finds them.
            others: Features that are no columns: `ignore` them, or take the record for a bad one
                (`error`).
            max_record_size: The most bytes of a record, like `64mb`.
            pattern: What the names of files below a folder must match.
            exclude: Names, or globs of names, to leave out.
            split: A pattern of the ends of paths whose fields every sample gets.
            on_error: `fail`, `dead_letter` or `inline`.

        Raises:
            OptionError: A value that cannot work.
        """
        super().__init__(inputs, pattern=pattern, exclude=exclude, split=split, on_error=on_error)
        one_of('others', others, ('ignore', 'error'))
        self._makers = {name: value_maker(name, kind) for name, kind in columns.items()}
        self._refuse_others = others == 'error'
        self._limit = parse_size(max_record_size, 'max_record_size')

    def read(self, piece: Piece) -> Iterator[dict[str, Any] | BadRecord]:
        fields = piece.file.fields
        makers = {name: make for name, make in self._makers.items() if name not in fields}
        for found, place in self.examples(piece.file):
            sample = found if isinstance(found, Refusal) else self._sample(found, makers)
            if isinstance(sample, Refusal):
                yield BadRecord(*sample, place)
            else:
                yield {**sample, **fields, PLACE: place}

    def examples(self, file: InputFile) -> Iterator[tuple[dict[str, Feature] | Refusal, Place]]:
        """The features of each record of a file, or what is wrong with it, and where it is.

        Raises:
            StorageError: The file cannot be read.
        """
        number = -1
        with open_stream(file.path) as stream:
            try:
                for number, byte, data, refusal in records_of(stream, self._limit):
                    place: Place = {'file': file.path, 'record': number, 'byte': byte}
                    yield refusal or features_of(data), place
            except FormatError as error:
                refusal, byte = Refusal('truncated', str(error)), stream.position
                if isinstance(error, StreamError):
                    refusal, byte = Refusal(error.error_type, error.message), error.byte
                yield refusal, {'file': file.path, 'record': number + 1, 'byte': byte}

    def _sample(
        self, features: Mapping[str, Feature], makers: Mapping[str, Make]
    ) -> dict[str, Any] | Refusal:
        sample = {}
        for name, make in makers.items():
            if name not in features:
                message = (
                    f'the record has no feature {name!r}, only {", ".join(map(repr, features))}: '
                    'leave the column out, or mend the record'
                )
                return Refusal('missing_feature', message[:_SHOWN])
            try:
                sample[name] = make(features[name])
            except UnfitError as error:
                return Refusal(error.error_type, f'feature {name!r}: {error}')
        if self._refuse_others and len(features) > len(makers):
            other = next(name for name in features if name not in makers)
            message = (
                f'the record has a feature {other!r}, and no column takes it: name the columns '
                'that are wanted, with it or without it'
            )
            return Refusal('unexpected_feature', message)
        return sample


def feature_columns(
    inputs: Sequence[str | os.PathLike[str]],
    *,
    only: Collection[str] | None = None,
    max_record_size: int | str = '1gb',
    **listing: Any,
) -> dict[str, str]:
    """The columns for the features of the first records of TFRecord files.

    Numbers are scalars (`int`, `float32`) where each record has one, else arrays; byte strings are
    bytes.

    Args:
        inputs: As of `ReadTFRecords`.
        only: Names of the features to look at; all when None.
        max_record_size: As of `ReadTFRecords`.
        listing: `pattern`, `exclude` and `split`, as of `ReadTFRecords`.

    Raises:
        ColumnsError: There is no record, or a feature has no encoding that fits all of them.
        StorageError: The input cannot be read.
    """
    source = ReadTFRecords(inputs, {}, max_record_size=max_record_size, **listing)
    found: dict[str, set[tuple[str | None, int]]] = {}
    columns: dict[str, str] = {}
    bad = ''
    for file in source.files()[:_FILES]:
        for example, place in itertools.islice(source.examples(file), _RECORDS):
            if isinstance(example, Refusal):
                bad = bad or f': {place_text(place)}: {example.message}'
                continue
            columns |= dict.fromkeys(file.fields, 'str')
            for name, feature in example.items():
                found.setdefault(name, set()).add((feature.kind, len(feature.values)))
    if not found:
        raise ColumnsError(
            f'the columns cannot be found, since the input begins without a record{bad}'
        )
    return columns | {
        name: _encoding(name, shapes)
        for name, shapes in found.items()
        if only is None or name in only
    }


def _encoding(name: str, shapes: set[tuple[str | None, int]]) -> str:
    kinds = sorted({kind for kind, _ in shapes if kind})
    counts = {count for _, count in shapes}
    if len(kinds) == 1:
        one, many = _ENCODINGS[kinds[0]]
        if counts == {1}:
            return one
        if many is not None:
            return many
    what = ' and '.join(WHAT[kind] for kind in kinds) or 'values'
    raise ColumnsError(
        f'feature {name!r} has {" or ".join(map(str, sorted(counts)))} {what} in a record, which '
        'no encoding is for: name the columns that are wanted, without it, or with an encoding, '
        f'like {name}=json for a list of texts'
    )

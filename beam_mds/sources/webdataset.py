"""WebDataset archives -> samples."""

from __future__ import annotations

import itertools
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from apache_beam.metrics import Metrics

from beam_mds.errors import ColumnsError, OptionError
from beam_mds.records import PLACE, BadRecord, place_text
from beam_mds.sources.base import Piece, Source
from beam_mds.sources.opening import open_stream
from beam_mds.sources.streams import Place
from beam_mds.sources.suffixes import decoder, encoding_of
from beam_mds.sources.tarring import Member, TarReader
from beam_mds.sources.tarsamples import BadSample, TarSample, samples_of
from beam_mds.writing.options import one_of, parse_size

_logger = logging.getLogger(__name__)

# Fields of a sample that are no members: its key, and the path of its archive.
KEY, URL = '__key__', '__url__'

# Names of archives: .tar, .tar.gz, .tar.zst, .tgz and the like.
TAR_PATTERN = '*.t[ag][rz]*'

# What is looked at to find the columns: files at the beginning of the input, and samples of each.
_FILES, _SAMPLES = 5, 100


class ReadWebDataset(Source):
    """Reads WebDataset archives: tars, plain or gz, zstd, bz2, xz, one sample after another.

    A member's key is its folder and its base name up to the first dot, and the rest, in lower case,
    is its suffix: `train.v1/1.jpg` has the key `train.v1/1` and the suffix `jpg`, `22.05.png` has
    `22` and `05.png`. Members of one key must stand next to each other; they are one sample, a dict
    with a field for each suffix. `__key__` and `__url__` (the path of the archive) are fields too.
    Values are made as their columns need them: texts and JSON from UTF-8, numbers from digits,
    arrays from `.npy`; everything else stays bytes, pickles among them. Names without a dot, or
    with nothing before their first one, and folders like `__meta__` belong to no sample.

    Kinds of bad records: `truncated` (the archive ends too early, or its compressed data is
    damaged), `corrupt` and `trailing_data` (what came before any of the three is kept),
    `member_kind` (a link, device or sparse file), `member_name` (it is
    absolute, has `..` in it, or is not UTF-8), `duplicate_member`, `scattered_sample` (its members
    are apart), `missing_part`, `unexpected_part`, `too_large`, `decode` (a member is not what its
    column needs). A sample with a bad member is one bad record.

    One sample is in memory, and 16 bytes for each key of an archive.

    Example:
        >>> import io, tarfile
        >>> path = getfixture('tmp_path') / 'a.tar'
        >>> with tarfile.open(path, 'w') as tar:
        ...     for name, data in (('7.txt', b'hi'), ('7.cls', b'3')):
        ...         info = tarfile.TarInfo(name)
        ...         info.size = len(data)
        ...         tar.addfile(info, io.BytesIO(data))
        >>> source = ReadWebDataset([path], {'__key__': 'str', 'cls': 'int'})
        >>> for sample in source.iterate():
        ...     print(sample['__key__'], sample['cls'])
        7 3
    """

    def __init__(
        self,
        inputs: Sequence[str | os.PathLike[str]],
        columns: Mapping[str, str] | None = None,
        *,
        suffixes: Mapping[str, Sequence[str]] | None = None,
        others: str = 'ignore',
        max_sample_size: int | str = '1gb',
        pattern: str = TAR_PATTERN,
        exclude: Sequence[str] = (),
        split: str | None = None,
        on_error: str = 'fail',
    ) -> None:
        """Makes the transform; see `Source` for the arguments that all sources have.

        Args:
            inputs: Folders, globs, files or `@lists`.
            columns: Suffix -> the encoding that the value is for; every sample must have all of
                them. None: whatever a sample has, with the encodings of
                `beam_mds.sources.suffixes.SUFFIXES`.
            suffixes: Name of a column -> the suffixes that it stands for, where samples have one or
                another, like `{'image': ['jpg', 'png']}`.
            others: Members that no column takes: `ignore` them, or take the sample for a bad one
                (`error`).
            max_sample_size: The most bytes that the members of a sample may have, like `64mb`.
            pattern: What the names of files below a folder must match.
            exclude: Names, or globs of names, to leave out.
            split: A pattern of the ends of paths whose fields every sample gets.
            on_error: `fail`, `dead_letter` or `inline`.

        Raises:
            OptionError: A value that cannot work.
        """
        super().__init__(inputs, pattern=pattern, exclude=exclude, split=split, on_error=on_error)
        one_of('others', others, ('ignore', 'error'))
        self._columns = None if columns is None else dict(columns)
        for name, encoding in (columns or {}).items():
            decoder(name, encoding)
        self._suffixes = dict(suffixes or {})
        self._options: dict[str, Any] = {
            'limit': parse_size(max_sample_size, 'max_sample_size'),
            'refuse_others': others == 'error',
            'names': _names_of_suffixes(self._suffixes),
        }
        self._passed_over = Metrics.counter('beam_mds', 'members_passed_over')

    def encoding_of(self, name: str) -> str:
        """The encoding of a field: what the columns say, or else that of its suffix."""
        if self._columns is not None and name in self._columns:
            return self._columns[name]
        kinds = {encoding_of(suffix) for suffix in self._suffixes.get(name, [name])}
        return 'str' if name in (KEY, URL) else kinds.pop() if len(kinds) == 1 else 'bytes'

    def read(self, piece: Piece) -> Iterator[dict[str, Any] | BadRecord]:
        file, wanted = piece.file, None
        if self._columns is not None:
            wanted = [name for name in self._columns if name not in (KEY, URL, *file.fields)]
        note = _PassedOver(file.path, self._passed_over)
        with open_stream(file.path) as stream:
            for found in samples_of(TarReader(stream), wanted, passed_over=note, **self._options):
                if isinstance(found, BadSample):
                    yield bad_record(file.path, found)
                else:
                    yield self._sample(piece, found)
        note.log()

    def _sample(self, piece: Piece, found: TarSample) -> dict[str, Any] | BadRecord:
        sample: dict[str, Any] = {KEY: found.key, URL: piece.file.path}
        for name, part in found.parts.items():
            try:
                sample[name] = decoder(name, self.encoding_of(name))(part.data)
            except ValueError as error:
                place: Place = {'file': piece.file.path, 'member': part.member, 'byte': part.byte}
                return BadRecord('decode', f'column {name!r}: {error}', place)
        sample.update(piece.file.fields)
        sample[PLACE] = {'file': piece.file.path, 'member': found.member, 'byte': found.byte}
        return sample


class _PassedOver:
    """Counts the files of an archive that belong to no sample, and says so once."""

    def __init__(self, path: str, counter: Any) -> None:
        self._path, self._counter = path, counter
        self._count, self._first = 0, ''

    def __call__(self, member: Member) -> None:
        self._first = self._first or member.name
        self._count += 1
        self._counter.inc()

    def log(self) -> None:
        """Logs how many there were, if any."""
        if self._count:
            _logger.warning(
                '%s: %d files are no part of a sample, like %r: passed over',
                self._path, self._count, self._first,
            )  # fmt: skip


def columns_of(source: ReadWebDataset) -> dict[str, str]:
    """The columns that the first samples of archives have, with the encodings of their suffixes.

    Args:
        source: Without columns of its own.

    Raises:
        ColumnsError: There is no sample.
        StorageError: The input cannot be read.
    """
    columns: dict[str, str] = {}
    bad: BadRecord | None = None
    for file in source.files()[:_FILES]:
        for element in itertools.islice(source.read(next(source.pieces(file))), _SAMPLES):
            if isinstance(element, BadRecord):
                bad = bad or element
                continue
            for name in element:
                columns[name] = 'str' if name in file.fields else source.encoding_of(name)
    for name in (PLACE, URL):
        columns.pop(name, None)
    if not columns:
        why = f': {place_text(bad.place)}: {bad.message}' if bad else ''
        raise ColumnsError(
            f'the columns cannot be found, since the input begins without a sample{why}'
        )
    return columns


def bad_record(path: str, bad: BadSample) -> BadRecord:
    """The note of a bad sample."""
    place: Place = {'file': path}
    if bad.member is not None:
        place['member'] = bad.member
    return BadRecord(*bad.refusal, {**place, 'byte': bad.byte})


def _names_of_suffixes(suffixes: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Suffix -> the column that it is for."""
    names: dict[str, str] = {}
    for column, those in suffixes.items():
        if isinstance(those, str) or not those:
            raise OptionError(f'suffixes of {column!r:.80} must be a list, got {those!r:.80}')
        for suffix in those:
            if names.setdefault(suffix.lower(), column) != column:
                raise OptionError(f'suffix {suffix!r:.80} is for two columns')
    return names

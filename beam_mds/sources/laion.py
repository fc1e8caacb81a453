"""What img2dataset writes as a WebDataset -> samples with the columns of streaming's LAION-400M.

img2dataset 1.47 writes 00000.tar with key.jpg, key.txt and key.json for each image, and beside it
00000.parquet with the fields of the JSON files, and with rows of the URLs that gave no image.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from beam_mds import storage
from beam_mds.errors import ColumnsError
from beam_mds.records import PLACE, BadRecord
from beam_mds.sources.base import Piece, Source
from beam_mds.sources.opening import open_stream
from beam_mds.sources.streams import Place
from beam_mds.sources.tarring import TarReader
from beam_mds.sources.tarsamples import TarSample, key_and_suffix, samples_of
from beam_mds.sources.webdataset import TAR_PATTERN, bad_record
from beam_mds.writing.options import one_of, parse_size

# The columns that streaming's convert_and_upload.py of LAION-400M writes.
COLUMNS: dict[str, str] = {
    'nsfw': 'str',
    'similarity': 'float64',
    'license': 'str',
    'caption': 'str',
    'url': 'str',
    'key': 'str',
    'status': 'str',
    'error_message': 'str',
    'width': 'int32',
    'height': 'int32',
    'original_width': 'int32',
    'original_height': 'int32',
    'exif': 'str',
    'jpg': 'bytes',
}

# Columns whose field has another name.
_FIELDS = {'nsfw': 'NSFW', 'license': 'LICENSE'}

_IMAGE, _JSON = 'jpg', 'json'

# What the name of an archive ends with; its side file has another end there.
_TAR_SUFFIX = re.compile(r'\.(?:tar(?:\.\w+)?|t\w+)$')

# What img2dataset says of a row that has an image.
_SUCCESS = 'success'

_FAILED = ('keep', 'skip')


class ReadLaion(Source):
    """Reads img2dataset's WebDataset output, with the fields of streaming's LAION-400M.

    The fields of a sample come from the row of its key in the parquet file beside the archive
    (`00000.parquet` beside `00000.tar`), or, where there is none, from its JSON file. A null is an
    empty text, 0 or NaN, as in streaming's script, which converts img2dataset's Parquet output. So
    are the rows of URLs that gave no image: samples whose `jpg` is empty and whose `status` and
    `error_message` tell why.

    Kinds of bad records: those of `ReadWebDataset`; `missing_field` (neither file has a field),
    `missing_image` (a row says success, and the archive has no such image), `side_file` (it is
    damaged, or has a key twice).

    One image and the rows of one parquet file are in memory.

    Example:
        >>> source = ReadLaion(['gs://bucket/laion400m-data'], failed='skip')
    """

    def __init__(
        self,
        inputs: Sequence[str | os.PathLike[str]],
        columns: Mapping[str, str] | None = None,
        *,
        failed: str = 'keep',
        max_sample_size: int | str = '1gb',
        pattern: str = TAR_PATTERN,
        exclude: Sequence[str] = (),
        split: str | None = None,
        on_error: str = 'fail',
    ) -> None:
        """Makes the transform; see `Source` for the arguments that all sources have.

        Args:
            inputs: Folders, globs, files or `@lists` of archives.
            columns: Column -> encoding (bytes for `jpg`; str, integers or floats); `COLUMNS` when
                None. Other fields of the rows are columns by their own names.
            failed: What becomes of rows of URLs that gave no image: `keep` them, or `skip`.
            max_sample_size: The most bytes that the members of a sample may have, like `64mb`.
            pattern: What the names of files below a folder must match.
            exclude: Names, or globs of names, to leave out.
            split: A pattern of the ends of paths whose fields every sample gets.
            on_error: `fail`, `dead_letter` or `inline`.

        Raises:
            OptionError: A value that cannot work.
        """
        super().__init__(inputs, pattern=pattern, exclude=exclude, split=split, on_error=on_error)
        one_of('failed', failed, _FAILED)
        self._keep = failed == 'keep'
        self._columns = dict(COLUMNS if columns is None else columns)
        kind = self._columns.get(_IMAGE, 'bytes')
        if kind != 'bytes' and (kind != 'jpeg' or self._keep):
            raise ColumnsError(
                f"column {_IMAGE!r}: expected bytes (or jpeg with failed='skip', since a URL that "
                f'gave no image has none), got {kind!r:.80}'
            )
        self._values = {
            name: _value_for(name, kind) for name, kind in self._columns.items() if name != _IMAGE
        }
        self._limit = parse_size(max_sample_size, 'max_sample_size')

    def read(self, piece: Piece) -> Iterator[dict[str, Any] | BadRecord]:
        path = piece.file.path
        side = _TAR_SUFFIX.sub('', path) + '.parquet'
        rows = _rows_of(side)
        if isinstance(rows, BadRecord):
            yield rows
            rows = None
        with open_stream(path) as stream:
            # The JSON file is read only where there is no side file.
            wanted = [_IMAGE, _JSON] if rows is None else [_IMAGE]
            for found in samples_of(TarReader(stream), wanted, limit=self._limit):
                if isinstance(found, TarSample):
                    yield self._of_member(piece, found, rows)
                    continue
                named = key_and_suffix(found.member or '')
                if named is not None and rows is not None:
                    rows.pop(_base(named[0]), None)
                yield bad_record(path, found)
        for key, row in (rows or {}).items():
            place: Place = {'file': side, 'key': key}
            if row.get('status') == _SUCCESS:
                message = f'the row says success, and {path} has no such image: it is lost'
                yield BadRecord('missing_image', message, place)
            elif self._keep:
                yield self._sample(piece, row, b'', place)

    def _of_member(
        self, piece: Piece, found: TarSample, rows: dict[str, dict[str, Any]] | None
    ) -> dict[str, Any] | BadRecord:
        """The sample of an image in the archive."""
        image = found.parts[_IMAGE]
        place: Place = {'file': piece.file.path, 'member': image.member, 'byte': image.byte}
        if rows is not None:
            row = rows.pop(_base(found.key), None)
            if row is None:
                message = f'the parquet file beside the archive has no row of key {found.key!r}'
                return BadRecord('side_file', message, place)
            return self._sample(piece, row, image.data, place)
        try:
            row = json.loads(found.parts[_JSON].data)
        except (ValueError, RecursionError) as error:
            return BadRecord('decode', f'the JSON file of the image is none: {error}', place)
        if type(row) is not dict:
            return BadRecord('decode', 'the JSON file of the image holds no object', place)
        return self._sample(piece, row, image.data, place)

    def _sample(
        self, piece: Piece, row: Mapping[str, Any], image: bytes, place: Place
    ) -> dict[str, Any] | BadRecord:
        sample: dict[str, Any] = {}
        for name, value_of in self._values.items():
            if name in piece.file.fields:
                continue
            field = _FIELDS.get(name, name)
            if field not in row:
                message = (
                    f'the row has no field {field!r} for the column {name!r}: leave the column '
                    'out, or have img2dataset save it (--save_additional_columns)'
                )
                return BadRecord('missing_field', message, place)
            sample[name] = value_of(row[field])
        if _IMAGE in self._columns:
            sample[_IMAGE] = image
        sample.update(piece.file.fields)
        sample[PLACE] = place
        return sample


def _rows_of(path: str) -> dict[str, dict[str, Any]] | BadRecord | None:
    """The rows of a side file by their keys; None where there is no such file."""
    if storage.size_of(path) is None:
        return None
    try:
        table = pq.read_table(pa.BufferReader(storage.read(path)))
        rows = {row['key']: row for row in table.to_pylist()}
    except (pa.ArrowException, KeyError) as error:
        return BadRecord('side_file', f'the parquet file cannot be read: {error}', {'file': path})
    if len(rows) < len(table):
        return BadRecord('side_file', 'the parquet file has a key twice', {'file': path})
    return rows


def _base(key: str) -> str:
    return key.rpartition('/')[2]


def _value_for(name: str, encoding: str) -> Callable[[Any], Any]:
    """What makes a value of a field, which may be null."""
    if encoding == 'str':
        return _text
    if encoding.startswith(('int', 'uint')):
        return _integer
    if encoding.startswith('float'):
        return _float
    raise ColumnsError(
        f'column {name!r}: a field of a row becomes str, an integer or a float, not {encoding}'
    )


def _text(value: Any) -> Any:
    return '' if value is None else value


def _integer(value: Any) -> Any:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return 0
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _float(value: Any) -> Any:
    return math.nan if value is None else value

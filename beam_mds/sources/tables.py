"""ReadTables: Parquet, Arrow IPC, CSV and Avro files -> Arrow batches."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence

import pyarrow as pa

from beam_mds.errors import OptionError
from beam_mds.format import Columns
from beam_mds.records import BadRecord
from beam_mds.sources.base import Piece, Source
from beam_mds.sources.inputs import InputFile
from beam_mds.sources.tabular import avro, delimited, ipc, parquet
from beam_mds.sources.tabular.files import StreamFile
from beam_mds.sources.tabular.layout import MEDIA, Layout, hive_fields
from beam_mds.sources.tabular.media import image_encoding
from beam_mds.sources.tabular.parts import Found, Rows, TableError, damage_told, grouped
from beam_mds.sources.tabular.typed import check_typed, parsed

__all__ = ['ERROR_TYPES', 'FORMATS', 'MEDIA', 'ReadTables', 'TableError', 'image_encoding']

FORMATS = ('auto', 'parquet', 'arrow', 'csv', 'avro')

# Kinds of faults that bad records tell:
# - format: the file is none of the formats, or not the one that was given
# - damaged: bytes are not what the format says, or the file ends too early
# - header, schema: the columns cannot be told, or are not those that are wanted
# - csv, encoding, value: a row with more or fewer fields, bytes that are no text, a text that is no
#   number
# - media: an image or a sound that has only a path
ERROR_TYPES = ('format', 'damaged', 'header', 'schema', 'csv', 'encoding', 'value', 'media')

# How files begin; Arrow IPC has a file format and a stream format. What is none of these is told by
# its name.
_STARTS = {
    b'PAR1': 'parquet',
    b'ARROW1': 'arrow',
    b'\xff\xff\xff\xff': 'stream',
    b'Obj\x01': 'avro',
}
_CSV_NAME = re.compile(r'\.(csv|tsv|tab)(\.\w+)?$', re.IGNORECASE)

# What stands at the beginning of files that look like one of these, and are none.
_OTHERS = {
    b'PARE': 'an encrypted Parquet file, which is not read: decrypt it first',
    b'FEA1': 'a Feather file of version 1, which is not read: write it as version 2',
}
_HEAD = 8


class ReadTables(Source):
    """Reads tables as `pyarrow.RecordBatch`es of a few MB.

    The formats are told by what files hold, CSV and TSV by their names. Rows have their columns in
    Arrow's types (a CSV file's are text, unless `columns` gives encodings), columns from folders
    like `lang=en/`, and `beam_mds.records.PLACE`. Images and audio as Hugging Face's datasets
    have them, structs of bytes and a path, are columns of bytes; the path is `image.path`. A
    damaged file or part of a file, a file with other columns, and a bad row of a CSV file are bad
    records (see `ERROR_TYPES`).

    Example:
        >>> import pyarrow.parquet
        >>> path = getfixture('tmp_path') / 'a.parquet'
        >>> pyarrow.parquet.write_table(pa.table({'text': ['a', 'b'], 'n': [1, 2]}), path)
        >>> for batch in ReadTables([path], columns=['n']).iterate():
        ...     print(batch.column('n').to_pylist())
        [1, 2]
    """

    def __init__(
        self,
        inputs: Sequence[str | os.PathLike[str]],
        *,
        format: str = 'auto',  # noqa: A002 - what people call it
        columns: Mapping[str, str] | Collection[str] | None = None,
        extra: str = 'ignore',
        partitions: bool = True,
        csv_header: str | Sequence[str] = delimited.FIRST,
        csv_delimiter: str | None = None,
        csv_quote: str | None = '"',
        csv_encoding: str | None = None,
        pattern: str = '*',
        exclude: Sequence[str] = ('.*', '_*'),
        split: str | None = None,
        on_error: str = 'fail',
    ) -> None:
        """Makes the transform; see `Source` for the arguments that all sources have.

        Args:
            inputs: Folders, globs, files or `@lists`.
            format: `parquet`, `arrow` (IPC, file or stream), `csv`, `avro`, or `auto`: each file by
                what it holds.
            columns: Names of the columns wanted; all when None. `a.b` is field b of the struct a.
                A dict gives encodings too, which tell what texts of CSV files are parsed as.
            extra: Of a file with columns that are not wanted: `ignore` them, or take them for an
                `error`.
            partitions: Whether folders like `lang=en` are columns, as Hive has them.
            csv_header: `first`: the first row has the names; `none`: no row has, and the columns
                are f0, f1, ...; or the names themselves.
            csv_delimiter: One character. None: a tab in `.tsv` and `.tab` files, else a comma.
            csv_quote: One character, or None where no field is quoted.
            csv_encoding: As Python names it. None: by the byte order mark, else UTF-8.
            pattern: What the names of files below a folder must match.
            exclude: Names, or globs of names, to leave out; by default what Hadoop hides, like
                `_SUCCESS` and `.part-0.crc`.
            split: A pattern of the ends of paths whose fields every sample gets.
            on_error: `fail`, `dead_letter` or `inline`.

        Raises:
            OptionError: A value that cannot work.
            ColumnsError: An encoding is unknown; the column is named.
        """
        super().__init__(inputs, pattern=pattern, exclude=exclude, split=split, on_error=on_error)
        for name, value, known in (
            ('format', format, FORMATS),
            ('extra', extra, ('ignore', 'error')),
        ):
            if value not in known:
                raise OptionError(f'{name}={value!r:.80} is unknown: expected {", ".join(known)}')
        if isinstance(columns, str) or (columns is not None and not columns):
            raise OptionError(f'columns must be a list of names or None, got {columns!r:.80}')
        self._format, self._partitions, self._extra = format, partitions, extra == 'ignore'
        self._wanted = None if columns is None else list(columns)
        self._encodings = dict(columns) if isinstance(columns, Mapping) else {}
        if self._encodings:
            Columns(self._encodings)
        if format == 'csv':
            check_typed(self._encodings)
        self._dialect = delimited.Dialect(csv_header, csv_delimiter, csv_quote, csv_encoding)

    def schema(self) -> pa.Schema:
        """The Arrow schema of the first file as its batches have it, without `PLACE`.

        Raises:
            StorageError: An input names no file, or it cannot be read.
            TableError: It is no table, or has not the columns that are wanted.
        """
        file = self.files()[0]
        try:
            return self._layout(file, self._kind(file)).schema
        except TableError as error:
            raise TableError(error.error_type, f'{file.path}: {error}') from error

    def pieces(self, file: InputFile) -> Iterator[Piece]:
        try:
            kind = self._kind(file)
            if kind == 'parquet':
                parts = list(parquet.cut(file.path))
            elif kind == 'arrow':
                parts = list(ipc.cut(file.path, file.size))
            else:
                parts = [(0, file.size)]
        except TableError:
            parts = [(0, 0)]  # told when it is read
        for number, (start, stop) in enumerate(parts):
            yield Piece(file, start, stop, number)

    def read(self, piece: Piece) -> Iterator[pa.RecordBatch | BadRecord]:
        path = piece.file.path
        try:
            kind = self._kind(piece.file)
            layout = self._layout(piece.file, kind)
            for found in grouped(self._found(kind, piece, layout)):
                if isinstance(found, BadRecord):
                    yield found
                else:
                    yield from layout.apply(found, path)
        except TableError as error:
            yield BadRecord(error.error_type, str(error), {'file': path})

    def _found(self, kind: str, piece: Piece, layout: Layout) -> Iterator[Found]:
        path, start, stop = piece.file.path, piece.start, piece.stop
        if kind == 'parquet':
            return parquet.read(path, start, stop, layout.selection)
        if kind == 'arrow':
            return ipc.read_file(path, start, stop)
        if kind == 'stream':
            return ipc.read_stream(path)
        if kind == 'avro':
            return avro.read(path)
        return self._csv(path)

    def _csv(self, path: str) -> Iterator[Found]:
        for found in delimited.read(path, self._dialect):
            if isinstance(found, Rows):
                yield from parsed(found, self._encodings, path)
            else:
                yield found

    def _layout(self, file: InputFile, kind: str) -> Layout:
        fields = hive_fields(file.name) if self._partitions else {}
        wanted = None if self._wanted is None else dict.fromkeys([*self._wanted, *file.fields])
        schema = self._file_schema(file.path, kind)
        with damage_told('its schema is damaged'):  # such as names that are no text
            layout = Layout(schema, {**fields, **file.fields}, wanted, self._extra)
        if kind != 'csv':  # whose texts become what their encodings take
            layout.check_types(self._encodings)
        return layout

    def _file_schema(self, path: str, kind: str) -> pa.Schema:
        if kind == 'parquet':
            return parquet.read_schema(path)
        if kind in ('arrow', 'stream'):
            return ipc.read_schema(path, kind == 'stream')
        if kind == 'avro':
            return avro.read_schema(path)
        check_typed(self._encodings)
        return pa.schema(
            [(name, pa.string()) for name in delimited.read_names(path, self._dialect)]
        )

    def _kind(self, file: InputFile) -> str:
        """The format of a file: parquet, arrow, stream, csv or avro.

        Raises:
            TableError: It is none of them, or not the one that was given.
            StorageError: It cannot be read.
        """
        with StreamFile(file.path) as stream:
            with damage_told('it cannot be decompressed'):
                head = stream.read(_HEAD)
            compression = stream.compression
        kind = _kind_of(head, file.name)
        if self._format == 'csv':
            kind = 'csv'
        if kind is None or self._format not in ('auto', 'arrow' if kind == 'stream' else kind):
            known = f'a file of {kind or "another format"}' if kind or head else 'an empty file'
            known = _OTHERS.get(head[:4], known)
            wanted = f'format {self._format}' if self._format != 'auto' else 'a known format'
            raise TableError(
                'format', f'{known}, expected {wanted}; it begins with {head!r}: say its format'
            )
        if compression and kind in ('parquet', 'arrow'):
            raise TableError(
                'format',
                f'the whole file is compressed ({compression}), and {kind} files are not read from '
                'front to back: decompress it',
            )
        return kind


def _kind_of(head: bytes, name: str) -> str | None:
    for start, kind in _STARTS.items():
        if head.startswith(start):
            return kind
    return 'csv' if _CSV_NAME.search(name) else None

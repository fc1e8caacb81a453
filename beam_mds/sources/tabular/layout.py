"""Which columns of a file are read, and what they become: the same for every format."""

from __future__ import annotations

import urllib.parse
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from beam_mds.errors import EncodingError
from beam_mds.format import get_encoding
from beam_mds.records import BadRecord
from beam_mds.sources.tabular.media import plain_type, without_paths
from beam_mds.sources.tabular.parts import Rows, TableError, constant, placed

# Metadata of a field that had structs of bytes and paths, as images and audio are stored.
MEDIA = b'media'

# What stands for null in the name of a folder.
_HIVE_NULL = '__HIVE_DEFAULT_PARTITION__'


def hive_fields(name: str) -> dict[str, str | None]:
    """The columns that the folders of a path give.

    Args:
        name: Posix path relative to the input's root.

    Returns:
        Column -> value, which is None for Hive's name of null.

    Example:
        >>> hive_fields('lang=en/day=2024-01-01%2F02/part-0.parquet')
        {'lang': 'en', 'day': '2024-01-01/02'}
    """
    fields: dict[str, str | None] = {}
    for part in name.split('/')[:-1]:
        key, equals, value = part.partition('=')
        if key and equals:
            fields[urllib.parse.unquote(key)] = (
                None if value == _HIVE_NULL else urllib.parse.unquote(value)
            )
    return fields


class Column(NamedTuple):
    """One column that is read.

    Attributes:
        name: What it is called in the batches.
        path: The column in the file, and the fields of structs that lead to it.
        kind: Its type in the batches.
        media: Whether the file has structs of bytes and paths, or lists of them.
    """

    name: str
    path: tuple[str, ...]
    kind: pa.DataType
    media: bool


class Layout:
    """The columns that a file with a schema gives.

    Attributes:
        columns: Those that are read.
        fields: Those that its path gives: name -> value.
    """

    def __init__(
        self,
        schema: pa.Schema,
        fields: Mapping[str, str | None],
        wanted: Collection[str] | None = None,
        extra: bool = True,
    ) -> None:
        """Finds the columns.

        Args:
            schema: Of the file.
            fields: What its path gives.
            wanted: Names of columns, or of fields of structs as `column.field`; all columns, and
                all that the path gives, when None.
            extra: Whether the file may have columns that are not wanted.

        Raises:
            TableError: A column is missing, without a name, there twice, in the path too, or not
                wanted; it is named.
        """
        there = [*schema.names, *fields]
        for name in there if wanted is None else wanted:
            _check_name(name, there, len(schema))
        self.fields = {name: fields[name] for name in fields if wanted is None or name in wanted}
        self.columns = [
            _column(name, schema, there)
            for name in (schema.names if wanted is None else wanted)
            if name not in fields
        ]
        used = {column.path[0] for column in self.columns} | set(self.fields)
        if not extra and (more := [name for name in there if name not in used]):
            raise TableError(
                'schema',
                f'it has the column {more[0]!r:.80}, which is not in the first file: name the '
                'columns that are wanted, and the others are left out',
            )

    @property
    def schema(self) -> pa.Schema:
        """Of the batches, without their places; columns of images and audio are marked."""
        given = [
            pa.field(column.name, column.kind, metadata={MEDIA: 'yes'} if column.media else None)
            for column in self.columns
        ]
        return pa.schema([*given, *(pa.field(name, pa.string()) for name in self.fields)])

    @property
    def selection(self) -> list[str]:
        """The columns and fields to read, as `column.field`."""
        return ['.'.join(column.path) for column in self.columns]

    def check_types(self, encodings: Mapping[str, str]) -> None:
        """Checks that columns can be of the encodings that they are wanted in.

        Raises:
            TableError: One cannot; it is named.
        """
        for column in self.columns:
            if column.name in encodings:
                try:
                    get_encoding(encodings[column.name]).encode_column(pa.array([], column.kind))
                except EncodingError as error:
                    raise TableError(
                        'schema',
                        f'column {column.name!r:.80} is {column.kind}, and cannot be '
                        f'{encodings[column.name]} as the dataset has it: {error}',
                    ) from error

    def apply(self, rows: Rows, path: str) -> Iterator[pa.RecordBatch | BadRecord]:
        """The rows as samples; files of images and audio without bytes become bad records.

        Args:
            rows: As the file has them.
            path: Of the file.
        """
        count = rows.batch.num_rows
        arrays, fields = [], []
        bad: dict[int, str] = {}
        for column in self.columns:
            array = _values(rows.batch, column)
            if column.media:
                array, lost, files = without_paths(array)
                for row, file in zip(lost.tolist(), files, strict=True):
                    bad[row] = (
                        f'column {column.name!r:.80} has no bytes, only the path {file!r:.200}'
                    )
            arrays.append(array)
            metadata = rows.batch.schema.field(column.path[0]).metadata
            fields.append(pa.field(column.name, array.type, metadata=metadata))
        for name, value in self.fields.items():
            arrays.append(constant(value, count))
            fields.append(pa.field(name, arrays[-1].type))
        batch = placed(arrays, fields, rows.place, path, count)
        if bad:
            batch = batch.filter(pa.array([row not in bad for row in range(count)]))
        if batch.num_rows:
            yield batch
        for row, message in sorted(bad.items()):
            place = {name: int(numbers[row]) for name, numbers in rows.place.items()}
            yield BadRecord('media', message, {'file': path, **place})


def _check_name(name: str, there: Sequence[str], in_file: int) -> None:
    places = [at for at, other in enumerate(there) if other == name]
    if places and not name:
        raise TableError('schema', f'its column {places[0] + 1} has no name')
    if len(places) > 1:
        both = f'its columns {places[0] + 1} and {places[1] + 1} are both'
        if places[1] >= in_file:
            both = 'a column of the file and one that a folder or the split pattern gives are'
        raise TableError('schema', f'{both} called {name!r:.80}')


def _column(name: str, schema: pa.Schema, there: Sequence[str]) -> Column:
    path = _find(name, schema)
    if path is None:
        known = ', '.join(there)
        raise TableError('schema', f'it has no column {name!r:.80}: there are {known:.400}')
    kind = schema.field(path[0]).type
    for part in path[1:]:
        kind = kind.field(part).type
    if _is_extension(kind):
        kind = kind.storage_type
    return Column(name, path, plain_type(kind), plain_type(kind) != kind)


def _is_extension(kind: pa.DataType) -> bool:
    """Whether a type is another one by a special name, as UUIDs are; tensors stay what they are."""
    return isinstance(kind, pa.BaseExtensionType) and not isinstance(kind, pa.FixedShapeTensorType)


def _find(name: str, fields: Any) -> tuple[str, ...] | None:
    """The way to a column or to a field of a struct; names may have dots of their own."""
    known = {field.name: field.type for field in fields}
    if name in known:
        return (name,)
    for at, char in enumerate(name):
        if char == '.' and pa.types.is_struct(known.get(name[:at], pa.null())):
            rest = _find(name[at + 1 :], known[name[:at]])
            if rest is not None:
                return (name[:at], *rest)
    return None


def _values(batch: pa.RecordBatch, column: Column) -> pa.Array:
    array = batch.column(batch.schema.get_field_index(column.path[0]))
    for name in column.path[1:]:
        array = pc.struct_field(array, name)
    return array.storage if _is_extension(array.type) else array

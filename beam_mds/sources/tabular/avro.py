"""Avro object container files: records as Arrow batches, block by block.

The layout of files and the types are those of the Avro 1.12 specification, "Object Container
Files", "Schema Declaration" and "Logical Types"; a logical type that is not in the tables below
stands for the type that it annotates, as the specification says. The frame of the blocks is read
here, and what is in them by fastavro, which needs further libraries for most codecs.
"""

from __future__ import annotations

import bz2
import functools
import io
import json
import lzma
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import IO, Any, NamedTuple, cast

import fastavro
import pyarrow as pa

from beam_mds.format.compression import decompress
from beam_mds.records import BadRecord
from beam_mds.sources.tabular.files import StreamFile
from beam_mds.sources.tabular.parts import Found, TableError, damage_told, sliced

_TYPES = {
    'null': pa.null(),
    'boolean': pa.bool_(),
    'int': pa.int32(),
    'long': pa.int64(),
    'float': pa.float32(),
    'double': pa.float64(),
    'bytes': pa.binary(),
    'string': pa.string(),
    'enum': pa.string(),
}
_LOGICAL = {
    ('int', 'date'): pa.date32(),
    ('int', 'time-millis'): pa.time32('ms'),
    ('long', 'time-micros'): pa.time64('us'),
    ('long', 'timestamp-millis'): pa.timestamp('ms', 'UTC'),
    ('long', 'timestamp-micros'): pa.timestamp('us', 'UTC'),
    ('long', 'timestamp-nanos'): pa.timestamp('ns', 'UTC'),
    ('long', 'local-timestamp-millis'): pa.timestamp('ms'),
    ('long', 'local-timestamp-micros'): pa.timestamp('us'),
    ('long', 'local-timestamp-nanos'): pa.timestamp('ns'),
}


# What stands before the blocks.
_HEADER = fastavro.parse_schema(
    {
        'type': 'record',
        'name': 'Header',
        'fields': [
            {'name': 'magic', 'type': {'type': 'fixed', 'name': 'Magic', 'size': 4}},
            {'name': 'meta', 'type': {'type': 'map', 'values': 'bytes'}},
            {'name': 'sync', 'type': {'type': 'fixed', 'name': 'Sync', 'size': 16}},
        ],
    }
)

# Digits of the largest decimal128.
_DECIMAL128 = 38


def arrow_schema(schema: Any) -> pa.Schema:
    """The Arrow schema of records.

    Args:
        schema: An Avro schema as JSON values.

    Raises:
        TableError: It is no record, or a field has no Arrow type; the field is named.

    Example:
        >>> arrow_schema({'type': 'record', 'name': 'r', 'fields': [{'name': 'n', 'type': 'int'}]})
        n: int32
    """
    parsed: Any = fastavro.parse_schema(schema)
    if not isinstance(parsed, dict) or parsed['type'] != 'record':
        raise TableError('schema', 'its values are no records, so that they have no columns')
    return pa.schema(list(_arrow_type(parsed, '', {})))


def _arrow_type(kind: Any, where: str, names: dict[str, pa.DataType]) -> pa.DataType:
    """The Arrow type of an Avro type.

    Args:
        kind: As `fastavro.parse_schema` gives it, with full names.
        where: The field, for errors.
        names: The named types so far; those in `kind` are added.
    """
    if isinstance(kind, list):
        return _union_type(kind, where, names)
    if isinstance(kind, str):
        if kind not in _TYPES and kind not in names:
            raise TableError('schema', f'field {where}: its type {kind} contains itself')
        return _TYPES[kind] if kind in _TYPES else names[kind]
    base = kind['type']
    if base == 'record':
        prefix = f'{where}.' if where else ''
        fields = [(field['name'], field['type']) for field in kind['fields']]
        made = pa.struct([(name, _arrow_type(of, prefix + name, names)) for name, of in fields])
    elif base == 'array':
        made = pa.list_(_arrow_type(kind['items'], where, names))
    elif base == 'map':
        made = pa.map_(pa.string(), _arrow_type(kind['values'], where, names))
    elif kind.get('logicalType') == 'decimal':
        decimal = pa.decimal128 if kind['precision'] <= _DECIMAL128 else pa.decimal256
        made = decimal(kind['precision'], kind.get('scale', 0))
    elif base == 'fixed':
        made = pa.binary(kind['size'])
    elif isinstance(base, str):
        made = _LOGICAL.get((base, kind.get('logicalType', ''))) or _TYPES[base]
    else:
        made = _arrow_type(base, where, names)
    if 'name' in kind:
        names[kind['name']] = made
    return made


def _union_type(kinds: list[Any], where: str, names: dict[str, pa.DataType]) -> pa.DataType:
    some = [kind for kind in kinds if kind != 'null']
    if len(some) > 1:
        shown = ', '.join(str(kind) for kind in some)
        raise TableError('schema', f'field {where}: a union of {shown:.200} has no Arrow type')
    return _arrow_type(some[0], where, names) if some else pa.null()


def read_schema(path: str) -> pa.Schema:
    """The Arrow schema of a file.

    Raises:
        TableError: It is no Avro file, or a field has no Arrow type.
        StorageError: It cannot be read.
    """
    with StreamFile(path) as raw:
        return _read_header(raw).schema


def read(path: str) -> Iterator[Found]:
    """The rows of a file; those of a damaged block are lost, and those behind it are read.

    Raises:
        TableError: It is no Avro file, or a field has no Arrow type.
        StorageError: It cannot be read.
    """
    row = 0
    with StreamFile(path) as raw:
        header = _read_header(raw)
        while True:
            try:
                with damage_told(f'damaged, or it ends too early: {row} rows could be read'):
                    block = _read_block(raw, header.sync)
            except TableError as error:
                yield BadRecord(error.error_type, str(error), {'file': path, 'row': row})
                return
            if block is None:
                return
            count, data = block
            try:
                with damage_told(f'a block is damaged, and its {count} rows are lost'):
                    batch = _batch(header.decode(count, header.decompress(data)), header.schema)
            except TableError as error:
                yield BadRecord(error.error_type, str(error), {'file': path, 'row': row})
            else:
                yield from sliced(batch, row)
            row += count


class _Header(NamedTuple):
    """What stands at the beginning of a file.

    Attributes:
        schema: Of the records.
        decompress: The data of a block -> its records' bytes.
        decode: The number of records and their bytes -> the records.
        sync: The bytes behind each block.
    """

    schema: pa.Schema
    decompress: Callable[[bytes], bytes]
    decode: Callable[[int, bytes], list[Any]]
    sync: bytes


def _read_header(raw: StreamFile) -> _Header:
    with damage_told('not an Avro file, or damaged'):
        header: Any = fastavro.schemaless_reader(cast('IO[bytes]', raw), _HEADER, None)
        meta = header['meta']
        given = json.loads(meta['avro.schema'])
        schema, decode = arrow_schema(given), _decoder(given)
        codec = meta.get('avro.codec', b'null').decode()
    if codec not in _CODECS:
        raise TableError('format', f'its codec {codec} is unknown: there are {", ".join(_CODECS)}')
    return _Header(schema, _CODECS[codec], decode, header['sync'])


def _read_block(raw: StreamFile, sync: bytes) -> tuple[int, bytes] | None:
    """The number of records and the data of the next block; None at the end.

    Raises:
        ValueError: The block is not whole.
    """
    count = _read_long(raw)
    if count is None:
        return None
    size = _read_long(raw)
    if size is None or size < 0 or count < 0:
        raise ValueError(f'a block of {count} records and {size} bytes')
    data = raw.read(size)
    if len(data) < size or raw.read(len(sync)) != sync:
        raise ValueError(f'no end of the block of {size} bytes where it should be')
    return count, data


def _read_long(raw: StreamFile) -> int | None:
    """A zigzag number, 7 bits a byte; None at the end of the file."""
    number = shift = 0
    while byte := raw.read(1):
        number |= (byte[0] & 0x7F) << shift
        shift += 7
        if byte[0] < 0x80:
            return (number >> 1) ^ -(number & 1)
    if shift:
        raise ValueError('the file ends within a number')
    return None


def _decoder(schema: Any) -> Callable[[int, bytes], list[Any]]:
    """What decodes the records of a block: all at once, as the items of an array."""
    array = fastavro.parse_schema({'type': 'array', 'items': schema})

    def decode(count: int, data: bytes) -> list[Any]:
        if not count:
            return []
        source = io.BytesIO(_long(count) + data + _long(0))
        records: Any = fastavro.schemaless_reader(source, array, None)
        if len(records) != count or source.read(1):
            raise ValueError('more bytes than its records have')
        return list(records)

    return decode


def _long(number: int) -> bytes:
    """A number that is not negative, as `_read_long` reads it."""
    number <<= 1
    data = bytearray()
    while number > 0x7F:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    data.append(number)
    return bytes(data)


def _unsnappy(data: bytes) -> bytes:
    raw = decompress('snappy', data[:-4])
    if zlib.crc32(raw).to_bytes(4, 'big') != data[-4:]:
        raise ValueError('its checksum is wrong')
    return raw


_CODECS: dict[str, Callable[[bytes], bytes]] = {
    'null': bytes,
    'deflate': lambda data: zlib.decompress(data, -zlib.MAX_WBITS),
    'snappy': _unsnappy,
    'bzip2': bz2.decompress,
    'xz': lzma.decompress,
    'zstandard': functools.partial(decompress, 'zstd'),
}


def _batch(records: list[dict[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    arrays = []
    for field in schema:
        values = [record[field.name] for record in records]
        if convert := _converter(field.type):
            values = list(map(convert, values))
        arrays.append(pa.array(values, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _converter(kind: pa.DataType) -> Callable[[Any], Any] | None:
    """What makes values that Arrow takes of those that fastavro gives; None where they are so."""
    convert: Callable[[Any], Any]
    if pa.types.is_string(kind):  # a text, or of a logical type an UUID
        convert = str
    elif pa.types.is_list(kind) and (item := _converter(kind.value_type)):
        convert = functools.partial(_each, item)
    elif pa.types.is_map(kind):
        convert = functools.partial(_pairs, _converter(kind.item_type) or _same)
    elif pa.types.is_struct(kind):
        convert = functools.partial(
            _fields, {field.name: _converter(field.type) or _same for field in kind}
        )
    else:
        return None
    return lambda value: None if value is None else convert(value)


def _same(value: Any) -> Any:
    return value


def _each(convert: Callable[[Any], Any], values: list[Any]) -> list[Any]:
    return list(map(convert, values))


def _pairs(convert: Callable[[Any], Any], values: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [(key, convert(value)) for key, value in values.items()]


def _fields(converts: Mapping[str, Callable[[Any], Any]], value: Mapping[str, Any]) -> Any:
    return {name: convert(value[name]) for name, convert in converts.items()}

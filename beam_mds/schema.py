"""Beam and Arrow types -> columns; `RULES` is the table.

What the table does not name cannot be inferred, and is an error that says how to give it. Why
these encodings:

- `int` is `int64`, not `int`: eight bytes both, but so a dataset's columns are the same whether
  its samples come as Python ints, numpy ints or from Parquet.
- Dates, times and durations are `int64` in microseconds, Python's unit for them: the format has
  no such type, and a text would have to be parsed for each sample that is read. Nanoseconds that
  are no whole microseconds are an error when encoded, and so is null everywhere.
- Lists of bool are `json`: the format's arrays hold no bool.
- A struct is `json` when all its fields are JSON values that come back equal, so without bytes,
  decimals, dates and times.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import datetime as dt
import decimal
import types
import typing
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin

import numpy as np
import pyarrow as pa
from apache_beam.typehints import typehints
from apache_beam.typehints.native_type_compatibility import convert_to_python_type
from apache_beam.typehints.row_type import RowTypeConstraint
from apache_beam.utils.timestamp import Duration, Timestamp

from beam_mds.errors import ColumnsError
from beam_mds.format.encodings.arrays import DTYPES
from beam_mds.format.encodings.base import is_binary, is_list, is_text
from beam_mds.records import PLACE
from beam_mds.rows import is_named_tuple

if typing.TYPE_CHECKING:
    from types import EllipsisType


class Rule(NamedTuple):
    """One line of the table.

    Attributes:
        python: Types of Python, numpy and Beam.
        arrow: Types of Arrow.
        encoding: What a column of them is encoded as.
        reads: What a reader gets.
    """

    python: str
    arrow: str
    encoding: str
    reads: str


_MICROS = 'microseconds as numpy.int64'

RULES = (
    *(
        Rule(f'numpy.{name}', name, name, f'numpy.{name}')
        for name in ('int8', 'int16', 'int32', 'uint8', 'uint16', 'uint32', 'uint64')
    ),
    Rule('int, numpy.int64', 'int64', 'int64', 'numpy.int64'),
    Rule('numpy.float16', 'halffloat', 'float16', 'numpy.float16'),
    Rule('numpy.float32', 'float', 'float32', 'numpy.float32'),
    Rule('float, numpy.float64', 'double', 'float64', 'numpy.float64'),
    Rule('bool, numpy.bool_', 'bool', 'uint8', '1 or 0 as numpy.uint8'),
    Rule('str, numpy.str_', 'string, large_string, string_view', 'str', 'str'),
    Rule(
        'bytes, bytearray, memoryview',
        'binary, large_binary, fixed_size_binary, binary_view',
        'bytes',
        'bytes',
    ),
    Rule(
        'decimal.Decimal',
        'decimal32, decimal64, decimal128, decimal256',
        'str_decimal',
        'decimal.Decimal',
    ),
    Rule(
        'datetime.date, datetime.datetime, numpy.datetime64, Timestamp of Beam',
        'date32, date64, timestamp',
        'int64',
        f'{_MICROS}, since 1970-01-01 UTC',
    ),
    Rule('datetime.time', 'time32, time64', 'int64', f'{_MICROS}, since midnight'),
    Rule(
        'datetime.timedelta, numpy.timedelta64, Duration of Beam',
        'duration',
        'int64',
        _MICROS,
    ),
    Rule('numpy.ndarray', '', 'ndarray', 'numpy.ndarray'),
    Rule(
        'numpy.ndarray of numbers, list of numbers, Sequence of numbers, tuple of numbers',
        'list of numbers, large_list of numbers, list_view of numbers, large_list_view of numbers',
        'ndarray:<dtype>',
        'numpy.ndarray; lists of lists must be rectangular',
    ),
    Rule(
        '',
        'fixed_size_list of numbers, fixed_shape_tensor',
        'ndarray:<dtype>:<shape>',
        'numpy.ndarray',
    ),
    Rule(
        'dict, Mapping, list of str, list of bool, list of dict',
        'struct, map, list of string, list of bool, list of struct',
        'json',
        'dict, list',
    ),
    Rule('T | None', 'dictionary of T', "T's", "T's"),
)

# Arrow's and Python's number types -> numpy's name.
_ARROW_NUMBERS = {pa.from_numpy_dtype(name): name for name in DTYPES}
_NUMBERS: dict[Any, str] = {np.dtype(name).type: name for name in DTYPES}
_NUMBERS |= {int: 'int64', float: 'float64'}

_SCALARS: dict[Any, str] = {
    **_NUMBERS,
    **dict.fromkeys((bool, np.bool_), 'uint8'),
    **dict.fromkeys((str, np.str_), 'str'),
    **dict.fromkeys((bytes, bytearray, memoryview), 'bytes'),
    decimal.Decimal: 'str_decimal',
    **dict.fromkeys((dt.date, dt.datetime, dt.time, dt.timedelta), 'int64'),
    **dict.fromkeys((np.datetime64, np.timedelta64, Timestamp, Duration), 'int64'),
    np.ndarray: 'ndarray',
}

_LISTS = (list, collections.abc.Sequence, collections.abc.MutableSequence)
_DICTS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
_JSON_SCALARS = (*_NUMBERS, str, bool, np.bool_, type(None), Any)

# Fields that an error's example shows next to the wrong one.
_SHOWN = 3


def type_table() -> str:
    """The table of types and encodings, as Markdown."""
    lines = ['| Python, numpy, Beam | Arrow | encoding | is read as |', '|---|---|---|---|']
    lines += [
        f'| {rule.python} | {rule.arrow} | `{rule.encoding}` | {rule.reads} |' for rule in RULES
    ]
    return '\n'.join(line.replace('T | None', r'T \| None') for line in lines) + '\n'


def infer_columns(
    kind: Any,
    given: Mapping[str, str | EllipsisType | None] | pa.Schema | None = None,
) -> dict[str, str]:
    """The column table of samples that have a schema.

    Args:
        kind: A `pyarrow.Schema`, or what `PCollection.element_type` is when its elements have
            fields: a NamedTuple, a dataclass, or the type of `beam.Row(...)`. Not looked at when
            `given` says it all.
        given: The columns wanted, with their encodings; those with `...` or None are inferred. All
            fields are columns when it is None or empty. A `pyarrow.Schema` here stands for `kind`.

    Returns:
        Column name -> encoding, in the order of `given` or of the schema.

    Raises:
        ColumnsError: There is no schema, a field's type is not in the table, or `given` leaves open
            a column that the schema has not; the error shows how to say it.

    Example:
        >>> infer_columns(pa.schema({'text': pa.string(), 'label': pa.int8()}), {'label': ...})
        {'label': 'int8'}
    """
    if isinstance(given, pa.Schema):
        kind, given = given, None
    columns: Any = given or {}
    if not isinstance(columns, Mapping):
        raise ColumnsError(
            "columns must be a dict like {'text': 'str'} or a pyarrow.Schema, "
            f'got {repr(columns)[:80]}'
        )
    if columns and not any(map(is_open, columns.values())):
        return dict(columns)
    fields = _fields(kind)
    columns = columns or dict.fromkeys(name for name in fields if name != PLACE)
    for name, encoding in columns.items():
        if is_open(encoding) and name not in fields:
            raise ColumnsError(
                f'column {name!r} is not in the schema, so that its encoding cannot be inferred: '
                f'the fields are {", ".join(fields)}'
            )
    return {
        name: _inferred(name, fields[name], list(columns)) if is_open(encoding) else encoding
        for name, encoding in columns.items()
    }


def is_open(encoding: Any) -> bool:
    """Whether an encoding is left open, for the schema to tell."""
    return encoding is None or encoding is ...


def _fields(kind: Any) -> dict[str, Any]:
    """The type of each field: Arrow's, or Python's."""
    if isinstance(kind, pa.Schema):
        if twice := [name for name in kind.names if kind.names.count(name) > 1]:
            raise ColumnsError(f'field {twice[0]!r} is more than once in the Arrow schema')
        return dict(zip(kind.names, kind.types, strict=True))
    if isinstance(kind, RowTypeConstraint):
        fields = dict(kind._fields)
        if any(isinstance(field, (str, typing.ForwardRef)) for field in fields.values()):
            return _fields(kind.user_type)
        return fields
    if is_named_tuple(kind):
        hints = _hints(kind)
        return {name: hints.get(name, Any) for name in kind._fields}
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        hints = _hints(kind)
        return {field.name: hints[field.name] for field in dataclasses.fields(kind)}
    if kind in (pa.RecordBatch, pa.Table):
        raise ColumnsError(
            f'the columns of {_name(kind)} elements are known only when they arrive: say them with '
            'columns=schema (a pyarrow.Schema) or columns={...}'
        )
    raise ColumnsError(
        f'elements of type {_name(kind)} have no fields to infer columns from: say them with '
        "columns={'name': 'encoding', ...}, or make the elements beam.Row(...), a NamedTuple or a "
        'dataclass and tell Beam with .with_output_types(...)'
    )


def _hints(kind: type) -> dict[str, Any]:
    try:
        return typing.get_type_hints(kind)
    except (NameError, TypeError) as error:
        raise ColumnsError(
            f'the annotations of {_name(kind)} cannot be resolved, so that no columns can be '
            f"inferred: {error}; say them with columns={{'name': 'encoding', ...}}"
        ) from None


def _inferred(name: str, kind: Any, names: list[str]) -> str:
    """The encoding of a field, or an error that shows how to give it."""
    encoding = _of_arrow(kind) if isinstance(kind, pa.DataType) else _of_python(kind)
    if encoding is not None:
        return encoding
    others = [other for other in names if other != name]
    example = ', '.join(f'{other!r}: ...' for other in others[:_SHOWN])
    example = f', {example}' if example else ''
    more = ', and so on for the others' if len(others) > _SHOWN else ''
    encoding, why = 'str', ''
    if _name(kind).startswith('PIL.'):
        encoding, why = 'png', " (or 'jpeg', or 'pil')"
    elif isinstance(kind, RowTypeConstraint) or is_named_tuple(kind):
        encoding, why = 'json', ' and make the value a dict'
    elif kind in (pa.null(), type(None)):
        why = ', or drop the field: MDS has no nulls'
    raise ColumnsError(
        f'field {name!r} has type {_name(kind)}: its encoding cannot be inferred; say it with '
        f'columns={{{name!r}: {encoding!r}{example}}}{more}{why}'
    )


def _name(kind: Any) -> str:
    """A type for an error message."""
    if isinstance(kind, RowTypeConstraint):
        kind = kind.user_type or kind
    if isinstance(kind, type) and kind is not Any and not get_args(kind):
        module = '' if kind.__module__ == 'builtins' else f'{kind.__module__}.'
        return module + kind.__qualname__
    return str(kind).removeprefix('typing.')[:80]


def _of_arrow(kind: pa.DataType) -> str | None:
    while pa.types.is_dictionary(kind):
        kind = kind.value_type
    if kind in _ARROW_NUMBERS:
        return _ARROW_NUMBERS[kind]
    if isinstance(kind, pa.FixedShapeTensorType):
        order = kind.permutation or range(len(kind.shape))
        return _array(kind.value_type, [kind.shape[axis] for axis in order])
    for holds, encoding in (
        (pa.types.is_boolean, 'uint8'),
        (is_text, 'str'),
        (is_binary, 'bytes'),
        (pa.types.is_decimal, 'str_decimal'),
        (pa.types.is_date, 'int64'),
        (pa.types.is_timestamp, 'int64'),
        (pa.types.is_time, 'int64'),
        (pa.types.is_duration, 'int64'),
    ):
        if holds(kind):
            return encoding
    if pa.types.is_map(kind):
        return 'json' if is_text(kind.key_type) and _is_arrow_json(kind.item_type) else None
    if is_list(kind):
        return _of_arrow_list(kind)
    return 'json' if pa.types.is_struct(kind) and _is_arrow_json(kind) else None


def _of_arrow_list(kind: pa.DataType) -> str | None:
    """The encoding of lists, also nested: of numbers an array, of JSON values JSON."""
    item = kind
    sides: list[Any] = []
    while is_list(item):
        sides.append(item.list_size if pa.types.is_fixed_size_list(item) else None)
        item = item.value_type
    while pa.types.is_dictionary(item):
        item = item.value_type
    if item in _ARROW_NUMBERS:
        return f'ndarray:{_ARROW_NUMBERS[item]}' if None in sides else _array(item, sides)
    return None if pa.types.is_null(item) or not _is_arrow_json(kind) else 'json'


def _array(item: pa.DataType, shape: list[int]) -> str | None:
    """The encoding of arrays of one shape."""
    if item not in _ARROW_NUMBERS or 0 in shape:
        return None
    return f'ndarray:{_ARROW_NUMBERS[item]}:{",".join(map(str, shape))}'


def _is_arrow_json(kind: pa.DataType) -> bool:
    """Whether the values are lists and dicts of what comes back equal from JSON."""
    if pa.types.is_dictionary(kind) or is_list(kind):
        return _is_arrow_json(kind.value_type)
    if pa.types.is_struct(kind):
        return all(_is_arrow_json(field.type) for field in kind)
    return (
        kind in _ARROW_NUMBERS
        or bool(pa.types.is_boolean(kind) or pa.types.is_null(kind))
        or is_text(kind)
    )


def _of_python(kind: Any) -> str | None:
    kind = _plain_type(kind)
    origin, args = get_origin(kind) or kind, get_args(kind)
    if origin is np.ndarray and args:
        dtype = _NUMBERS.get(next(iter(get_args(args[1])), None))
        return f'ndarray:{dtype}' if dtype else 'ndarray'
    if origin in _DICTS:
        return 'json' if _is_json(kind) else None
    if origin is tuple or origin in _LISTS:
        return _of_list(kind)
    return _SCALARS.get(kind) if isinstance(kind, type) else None


def _of_list(kind: Any) -> str | None:
    """The encoding of lists, also nested: of numbers an array, of JSON values JSON."""
    item = kind
    while (origin := get_origin(item)) is tuple or origin in _LISTS:
        items = set(get_args(item)) - {...}
        if len(items) != 1:
            return None
        item = _plain_type(items.pop())
    if isinstance(item, type) and item in _NUMBERS:
        return f'ndarray:{_NUMBERS[item]}'
    return 'json' if item not in (Any, *_LISTS) and _is_json(kind) else None


def _is_json(kind: Any) -> bool:
    """Whether the values are what comes back equal from JSON, as far as the type tells."""
    kind = _plain_type(kind)
    origin, args = get_origin(kind) or kind, get_args(kind)
    if origin in _DICTS:
        return (not args or _plain_type(args[0]) in (str, Any)) and all(map(_is_json, args[1:]))
    if origin in (*_LISTS, Union, types.UnionType):
        return all(map(_is_json, args))
    return kind in _JSON_SCALARS


def _plain_type(kind: Any) -> Any:
    """Python's type for Beam's; T for `T | None`, as a missing value is an error when encoded."""
    if isinstance(kind, typehints.TypeConstraint) and not isinstance(kind, RowTypeConstraint):
        try:
            kind = convert_to_python_type(kind)
        except ValueError:
            return kind
    if isinstance(kind, typing.TypeVar):  # of a bare Dict or List, as Beam has them
        return Any
    origin, args = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _plain_type(args[0])
    if origin in (Union, types.UnionType):
        some = [arg for arg in args if arg is not type(None)]
        if len(some) == 1:
            return _plain_type(some[0])
    return kind

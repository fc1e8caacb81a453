"""Elements with fields: beam.Row, NamedTuple and dataclass as dicts, and samples as beam.Row."""

from __future__ import annotations

import dataclasses
import decimal
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import apache_beam as beam
import numpy as np

from beam_mds.format import Columns, Encoding
from beam_mds.format.encodings.arrays import NDArray


def as_dict(element: Any) -> Mapping[str, Any] | None:
    """The fields of a sample by name, not to be changed; what is in them is not copied.

    Args:
        element: A Mapping, which is returned as it is, a `beam.Row`, a NamedTuple or a dataclass.

    Returns:
        None when the element is none of these.
    """
    kind: Any = type(element)  # mypy takes no type for hashable
    return _reader(kind)(element)


@functools.lru_cache(1024)
def _reader(kind: Any) -> Callable[[Any], Mapping[str, Any] | None]:
    """What makes a dict of an element of this type."""
    if issubclass(kind, Mapping):
        return lambda element: element
    if issubclass(kind, beam.Row):
        return vars
    if is_named_tuple(kind):
        as_named: Callable[[Any], dict[str, Any]] = kind._asdict
        return as_named
    if dataclasses.is_dataclass(kind):
        names = [field.name for field in dataclasses.fields(kind)]
        return lambda element: {name: getattr(element, name) for name in names}
    return lambda _: None


def is_named_tuple(kind: Any) -> bool:
    """Whether a type is a NamedTuple."""
    return isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, '_fields')


# Encodings -> types of the fields of a beam.Row. Beam has no unsigned and no 16-bit floating types.
_ROW_TYPES: dict[str, Any] = {
    'bytes': bytes,
    'float16': np.float32,
    'float32': np.float32,
    'float64': np.float64,
    'int': np.int64,
    'int8': np.int8,
    'int16': np.int16,
    'int32': np.int32,
    'int64': np.int64,
    'str': str,
    'str_decimal': decimal.Decimal,
    'str_float': np.float64,
    'uint8': np.int16,
    'uint16': np.int32,
    'uint32': np.int64,
}


def row_fields(columns: Columns, only: Iterable[str] | None = None) -> list[tuple[str, Any]]:
    """The fields of the `beam.Row` that a sample becomes, with their types.

    Lists stand for arrays. What Beam's schemas have no type for (`json`, `str_int`, `uint64`,
    images, arrays of any dtype) is `Any`, which only Python steps can read.

    Args:
        columns: Of the dataset.
        only: The columns wanted; all when None.
    """
    return [
        (columns.names[place], _row_type(columns.encodings[place]))
        for place in columns.places(only)
    ]


def row_maker(columns: Columns) -> Callable[[dict[str, Any]], beam.Row]:
    """What makes a `beam.Row` of a decoded sample, which may have further fields."""
    arrays = [
        name
        for name, encoding in zip(columns.names, columns.encodings, strict=True)
        if isinstance(encoding, NDArray) and encoding.dtype is not None
    ]
    wide = [
        name
        for name, encoding in zip(columns.names, columns.encodings, strict=True)
        if encoding.name in _ROW_TYPES and encoding.name.startswith(('uint', 'float16'))
    ]

    def make(sample: dict[str, Any]) -> beam.Row:
        for name in arrays:
            if name in sample:
                sample[name] = sample[name].tolist()
        for name in wide:
            if name in sample:
                sample[name] = sample[name].item()
        return beam.Row(**sample)

    return make


def _row_type(encoding: Encoding) -> Any:
    if not isinstance(encoding, NDArray) or encoding.dtype is None:
        return _ROW_TYPES.get(encoding.name, Any)
    kind: Any = _ROW_TYPES.get(encoding.dtype.name, Any)
    for _ in encoding.shape or (0,):
        kind = Sequence[kind]
    return kind

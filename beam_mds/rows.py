"""Elements with fields as dicts: beam.Row, NamedTuple, dataclass."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import apache_beam as beam


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

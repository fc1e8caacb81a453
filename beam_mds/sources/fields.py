"""The fields of samples: their encodings as their values tell, and other names for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import PCollection

from beam_mds.coders import ELEMENTS
from beam_mds.errors import OptionError
from beam_mds.records import PLACE, BadRecord

_T = TypeVar('_T')

# An encoding, and the types of values that it is for.
_TYPES_OF_VALUES = (('str', {str}), ('uint8', {bool}), ('int', {int}), ('float64', {int, float}))


def renamed(fields: Mapping[str, _T], renames: Mapping[str, str]) -> dict[str, _T]:
    """The fields with their new names; one that is not there is nobody's.

    Raises:
        OptionError: Two fields would have one name.

    Example:
        >>> renamed({'a': 1, 'b': 2}, {'a': 'c'})
        {'c': 1, 'b': 2}
    """
    new = {renames.get(name, name): value for name, value in fields.items()}
    if len(new) < len(fields):
        names = [renames.get(name, name) for name in fields]
        twice = next(name for name in names if names.count(name) > 1)
        raise OptionError(f'two columns would be called {twice!r}')
    return new


def encodings_of(samples: Iterable[Any]) -> dict[str, str]:
    """Column name -> encoding, from the values of some samples.

    Example:
        >>> encodings_of([{'a': 1, 'b': 'x'}, {'a': 2.5}])
        {'a': 'float64', 'b': 'str'}
    """
    kinds: dict[str, set[type]] = {}
    for sample in samples:
        if isinstance(sample, Mapping):
            for name, value in sample.items():
                if name != PLACE:
                    kinds.setdefault(name, set()).add(type(value))
    return {name: _encoding(found - {type(None)}) for name, found in kinds.items()}


def _encoding(kinds: set[type]) -> str:
    for encoding, of in (
        ('str', {str}),
        ('uint8', {bool}),
        ('int', {int}),
        ('float64', {int, float}),
    ):
        if kinds and kinds <= of:
            return encoding
    return 'json'


def rows_of(element: Any) -> Iterator[Any]:
    """The rows of an element, one by one; the note of a row that could not be read as it is."""
    if isinstance(element, (pa.RecordBatch, pa.Table)):
        yield from element.to_pylist()
    else:
        yield element


class Rename(beam.PTransform):
    """Gives fields of samples, or columns of batches, other names."""

    def __init__(self, renames: Mapping[str, str]) -> None:
        """Makes the transform.

        Args:
            renames: Old name -> new name.
        """
        super().__init__()
        self._renames = dict(renames)

    def expand(self, samples: PCollection[Any]) -> PCollection[Any]:
        """Wires the step."""
        return samples | 'RenameFields' >> beam.Map(rename_fields, self._renames).with_output_types(
            ELEMENTS
        )


def rename_fields(element: Any, renames: Mapping[str, str]) -> Any:
    """A sample, or a batch, with the new names of its fields; the note of a bad record as it is."""
    if type(element) is BadRecord:
        return element
    if isinstance(element, pa.RecordBatch):
        names = renamed(dict.fromkeys(element.schema.names), renames)
        return element.rename_columns(list(names))
    return renamed(element, renames)

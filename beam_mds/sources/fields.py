"""The fields of samples: other names for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import PCollection

from beam_mds.coders import ELEMENTS
from beam_mds.errors import OptionError
from beam_mds.records import BadRecord

_T = TypeVar('_T')


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
        return samples | 'RenameFields' >> beam.Map(_rename, self._renames).with_output_types(
            ELEMENTS
        )


def _rename(element: Any, renames: Mapping[str, str]) -> Any:
    if type(element) is BadRecord:
        return element
    if isinstance(element, pa.RecordBatch):
        names = renamed(dict.fromkeys(element.schema.names), renames)
        return element.rename_columns(list(names))
    return renamed(element, renames)

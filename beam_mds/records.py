"""Where samples come from, and the notes of input that could not become one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from beam_mds.errors import RecordError

# A field of a sample, or a column of a batch, that tells where it came from, like
# `{'file': 'gs://b/a.jsonl', 'line': 12}`. It is never written: it is for errors.
PLACE = '__place__'


class BadRecord(NamedTuple):
    """The note of a record of the input that could not become a sample.

    `WriteToMDS` takes it as an element: it fails the job, or is a dead letter and counts as one.

    Attributes:
        error_type: What kind of fault it is; each source has a closed set.
        message: What is wrong.
        place: Where, like `{'file': 'gs://b/a.jsonl', 'line': 12}`.
        element: What can be given to the source again; None where the place says it all.
    """

    error_type: str
    message: str
    place: Mapping[str, str | int]
    element: Any = None

    def as_error(self) -> RecordError:
        """The error that it is where it is no dead letter."""
        return RecordError(self.message, place_text(self.place), self.error_type)


def place_text(place: Mapping[str, Any]) -> str:
    """A place for people.

    Example:
        >>> place_text({'file': 'a.jsonl', 'line': 12})
        'a.jsonl, line 12'
    """
    return ', '.join(
        str(value) if name in ('file', 'url') else f'{name} {value}'
        for name, value in place.items()
        if value is not None
    )

"""Dead letters as lines of JSON: one object a line.

`stage`, `column`, `error_type`, `message` and `key` as in `DeadLetter`; `place`, an object like
`{"file": "gs://b/a.jsonl", "line": 12}`, or null; `element`, the sample as far as JSON holds it
(see `letter_json`).
"""

from __future__ import annotations

import base64
import json
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PCollection

from beam_mds.rows import as_dict
from beam_mds.writing.prepare import DeadLetter

# Characters of an element's JSON; the place tells where to find a larger one.
_LARGEST = 1 << 16


def letter_json(letter: DeadLetter) -> str:
    """A dead letter as one line of JSON.

    Bytes are `{"base64": ...}`. An element whose JSON is over 64 Ki characters, or that has values
    with no JSON form, is null.

    Example:
        >>> letter_json(DeadLetter('key', None, 'KeyError', "'id'", None, {'n': b'x'}))
        '{"stage": "key", "column": null, ..., "element": {"n": {"base64": "eA=="}}, "place": null}'
    """
    record = letter._asdict()
    fields = as_dict(letter.element)
    element = letter.element if fields is None else dict(fields)
    try:
        if len(json.dumps(element, default=_as_json)) > _LARGEST:
            element = None
    except (TypeError, ValueError):
        element = None
    return json.dumps({**record, 'element': element}, default=_as_json)


def _as_json(value: Any) -> Any:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {'base64': base64.b64encode(value).decode()}
    if hasattr(value, 'tolist'):  # numpy
        return value.tolist()
    raise TypeError(f'{type(value).__name__} has no JSON form')


class WriteLetters(beam.PTransform):
    """Writes dead letters to one file, which is there even when there are none."""

    def __init__(self, path: str) -> None:
        """Makes the transform.

        Args:
            path: The file, absolute.
        """
        super().__init__()
        self._path = path

    def expand(self, letters: PCollection[DeadLetter]) -> PCollection[Any]:
        """Gives one element, once the file is complete."""
        return letters | 'ToJson' >> beam.Map(letter_json) | 'WriteLines' >> write_lines(self._path)


def write_lines(path: str) -> beam.PTransform:
    """What writes texts as lines of one file, which is there even when there are none."""
    return beam.io.WriteToText(path, num_shards=1, shard_name_template='', skip_if_empty=False)

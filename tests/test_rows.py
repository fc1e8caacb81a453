from __future__ import annotations

import collections
import dataclasses
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest

from beam_mds.rows import as_dict


class Named(NamedTuple):
    text: str
    label: np.int8
    tokens: list[int]


@dataclasses.dataclass
class Data:
    text: str
    weight: float


def test_the_dict_of_an_element_has_its_fields() -> None:
    @dataclasses.dataclass(frozen=True)
    class Slotted:
        __slots__ = ('text',)
        text: str

    tokens = [1, 2]

    named = as_dict(Named('x', np.int8(1), tokens))
    assert named == {'text': 'x', 'label': 1, 'tokens': [1, 2]}
    assert named['tokens'] is tokens
    row = as_dict(beam.Row(a=1, b=tokens))
    assert row == {'a': 1, 'b': [1, 2]}
    assert row['b'] is tokens
    data = Data('x', 0.5)
    data.extra = 1  # type: ignore[attr-defined]
    assert as_dict(data) == {'text': 'x', 'weight': 0.5}
    assert as_dict(Slotted('x')) == {'text': 'x'}
    assert type(as_dict(beam.Row(a=1))) is type(as_dict(data)) is dict


@pytest.mark.parametrize('element', [{'a': 1}, collections.OrderedDict(a=1), {}])
def test_a_mapping_is_its_own_dict(element: Any) -> None:
    assert as_dict(element) is element


@pytest.mark.parametrize('element', [1, 'a', None, (1, 2), [1], Named, pa.table({'a': [1]})])
def test_what_has_no_fields_has_no_dict(element: Any) -> None:
    assert as_dict(element) is None

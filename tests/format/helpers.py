"""What the tests of several encodings share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from beam_mds.errors import EncodingError
from beam_mds.format import Columns, get_encoding


def encode_list(encoding: str, values: Sequence[Any]) -> list[bytes]:
    """The encoded values, as a column of dicts gives them."""
    columns = Columns({'a': encoding})
    return _without_heads(columns, columns.encode_batch([{'a': value} for value in values]))


def encode_arrow(encoding: str, array: pa.Array | pa.ChunkedArray) -> list[bytes]:
    """The encoded values, as an Arrow column gives them."""
    columns = Columns({'a': encoding})
    return _without_heads(columns, columns.encode_batch(pa.table({'a': array})))


def encode_each(encoding: str, values: Sequence[Any]) -> list[bytes]:
    """The encoded values, one by one."""
    return [get_encoding(encoding).encode(value) for value in values]


def error_of(encoding: str, value: Any) -> str:
    """The message about a value, which is the same alone, in a batch and from the codec itself."""
    columns = Columns({'a': encoding})
    with pytest.raises(EncodingError) as alone:
        columns.encode_sample({'a': value})
    with pytest.raises(EncodingError) as twice:
        columns.encode_batch([{'a': value}, {'a': value}])
    with pytest.raises(EncodingError) as direct:
        get_encoding(encoding).encode(value)
    assert str(alone.value) == str(twice.value) == f"column 'a' ({encoding}): {direct.value}"
    assert (alone.value.row, alone.value.column, alone.value.encoding) == (0, 'a', encoding)
    return str(direct.value)


def arrow_error_of(encoding: str, array: pa.Array) -> EncodingError:
    """The error about an Arrow column."""
    with pytest.raises(EncodingError) as caught:
        Columns({'a': encoding}).encode_batch(pa.table({'a': array}))
    return caught.value


def round_trip(encoding: str, value: Any) -> Any:
    """The value after encoding and decoding."""
    columns = Columns({'a': encoding})
    return columns.decode_sample(columns.encode_sample({'a': value}))['a']


def _without_heads(columns: Columns, samples: Any) -> list[bytes]:
    head = 0 if columns.encodings[0].size else 4
    return [bytes(sample)[head:] for sample in samples]

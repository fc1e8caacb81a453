"""What the tests of filters share: a batch that has every kind of column."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from beam_mds.filtering.where import parse_where

COLUMNS = {
    'a name': 'int',
    'big': 'uint64',
    'data': 'bytes',
    'half': 'float16',
    'image': 'jpeg',
    'images': 'list[jpeg]',
    'json': 'json',
    'lang': 'str',
    'matrix': 'ndarray',
    'm': 'uint8',
    'n': 'int32',
    'price': 'str_decimal',
    'rate': 'str_float',
    'tokens': 'ndarray:int32',
    'x': 'float64',
}
BATCH = pa.record_batch(
    {
        'a name': pa.array([1, 2, 3, 4]),
        'big': pa.array([0, 1, 2**63, 2**64 - 1], pa.uint64()),
        'data': pa.array([b'', b'a\xff', b'b', b'abc'], pa.large_binary()),
        'half': pa.array(np.array([0.1, 0.5, 1, 2], np.float16)),
        'image': pa.array([b'\xff\xd8', b'', b'x', b'y'], pa.large_binary()),
        'images': pa.array([[], [b'x'], [], []], pa.large_list(pa.large_binary())),
        'json': pa.array(['{"a": 1}', '[]', '1', '""'], pa.large_string()),
        'lang': pa.array(['en', 'dé', 'EN', ''], pa.large_string()),
        'matrix': pa.array([[[1]], [[1, 2]], [[1], [2]], [[1]]]),
        'm': pa.array([0, 1, 2, 3], pa.uint8()),
        'n': pa.array([1, 2, -3, 4], pa.int32()),
        'price': pa.array(['1.0', '2', '10', '3'], pa.large_string()),
        'rate': pa.array([0.5, 1, 2, 3], pa.float64()),
        'tokens': pa.array([[1], [1, 2], [1, 2, 3], [4] * 9], pa.large_list(pa.int32())),
        'x': pa.array([0.5, float('nan'), -0.0, float('inf')], pa.float64()),
    }
)


def mask(text: str, batch: pa.RecordBatch = BATCH) -> str:
    """The rows that a filter holds for, like `1010`."""
    found = parse_where(text, COLUMNS).mask(batch)
    assert found.dtype == bool
    return ''.join(str(int(one)) for one in found)

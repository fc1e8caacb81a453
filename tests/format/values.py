"""Values of every encoding, for tests by hypothesis."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

_floats = st.floats(width=16, allow_nan=False)
_texts = st.text(st.characters(exclude_categories=['Cs']), max_size=9)
_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | _texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_texts, inner, max_size=3),
    max_leaves=6,
).filter(lambda value: value is not None)


def _arrays(dtype: str, ndims: tuple[int, ...] = (1, 2, 3)) -> st.SearchStrategy[Any]:
    """Arrays whose number of dimensions is one of a few, with sides from 1 to 300."""
    sides = st.one_of(
        *(
            st.tuples(*[st.sampled_from([1, 2, 3]), *[st.sampled_from([1, 2])] * (n - 1)])
            for n in ndims
        ),
        st.just((300,)) if 1 in ndims else st.nothing(),
    )
    return sides.map(lambda shape: (np.arange(np.prod(shape)) % 7).astype(dtype).reshape(shape))


VALUES: dict[str, st.SearchStrategy[Any]] = {
    'bytes': st.binary(max_size=9),
    'str': _texts,
    'int': st.integers(-(2**63), 2**63 - 1),
    **{
        name: st.integers(int(np.iinfo(name).min), int(np.iinfo(name).max))
        for name in ('uint8', 'uint16', 'uint32', 'uint64', 'int8', 'int16', 'int32', 'int64')
    },
    'float16': _floats,
    'float32': _floats,
    'float64': st.floats(allow_nan=False),
    'str_int': st.integers(-(10**30), 10**30),
    'str_float': st.floats(allow_nan=False),
    'str_decimal': st.decimals(allow_nan=False),
    'json': _json,
    'pkl': st.lists(st.integers(), max_size=3),
    'ndarray': _arrays('int16', (1,)),
    'ndarray:int32': _arrays('int32', (1,)),
    'ndarray:float16': _arrays('float16', (3,)),
    'ndarray:uint8:2,3': st.just((np.arange(6) % 5).astype(np.uint8).reshape(2, 3)),
    'jpeg': st.binary(max_size=9),
    'png': st.binary(max_size=9),
    'pil': st.binary(max_size=9),
    'jpeg_array': st.lists(st.binary(max_size=5), min_size=1, max_size=3),
    'jpegarray': st.lists(st.binary(max_size=5), min_size=1, max_size=3),
    **{
        f'list[{kind}]': st.lists(st.binary(max_size=5), max_size=3)
        for kind in ('pil', 'jpeg', 'png')
    },
}

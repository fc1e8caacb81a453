"""Images and audio as Hugging Face's datasets store them: structs of bytes and a path.

`datasets` writes an `Image`, `Audio` or `Video` feature as `struct<bytes: binary, path: string>`,
and a list of them as a list of such structs (`datasets` 3, `features/image.py`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from beam_mds.format.encodings.base import is_binary, is_list, is_text

# How image files begin, for the encodings that hold them as they are.
_IMAGES = {'jpeg': b'\xff\xd8\xff', 'png': b'\x89PNG\r\n\x1a\n'}


def is_media(kind: pa.DataType) -> bool:
    """Whether a type is the struct of one file."""
    if not pa.types.is_struct(kind) or kind.num_fields != 2:
        return False
    fields = {field.name: field.type for field in kind}
    return (
        set(fields) == {'bytes', 'path'} and is_binary(fields['bytes']) and is_text(fields['path'])
    )


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type of a column without the paths; other types stay."""
    if is_media(kind):
        return kind.field('bytes').type
    if is_list(kind) and is_media(kind.value_type):
        return pa.large_list(plain_type(kind.value_type))
    return kind


def without_paths(column: pa.Array) -> tuple[pa.Array, npt.NDArray[np.int64], list[str]]:
    """A column of files as one of bytes.

    Args:
        column: Of n structs of bytes and path, or lists of such structs.

    Returns:
        The bytes, or large lists of bytes; the rows of files that have a path and no bytes, and the
        path of each.
    """
    if not is_list(column.type):
        data, path = pc.struct_field(column, 'bytes'), pc.struct_field(column, 'path')
        missing = pc.and_(pc.is_null(data), pc.is_valid(path))
        return data, np.flatnonzero(missing), path.filter(missing).to_pylist()
    column = column.cast(pa.large_list(column.type.value_type))
    flat = pc.list_flatten(column)
    data, lost, paths = without_paths(flat)
    parents = pc.list_parent_indices(column).to_numpy()
    sizes = pc.fill_null(pc.list_value_length(column), 0).to_numpy()
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    made = pa.LargeListArray.from_arrays(pa.array(offsets), data, mask=column.is_null())
    return made, parents[lost], paths


def image_encoding(value: Any) -> str:
    r"""The encoding of a column of files, by its first value; `bytes` where it is no known image.

    Example:
        >>> image_encoding(b'\xff\xd8\xff\xe0'), image_encoding([b'\x89PNG\r\n\x1a\n'])
        ('jpeg', 'list[png]')
    """
    first = value[0] if isinstance(value, list) and value else value
    name = next(
        (
            name
            for name, start in _IMAGES.items()
            if isinstance(first, bytes) and first.startswith(start)
        ),
        'bytes',
    )
    return f'list[{name}]' if isinstance(value, list) else name

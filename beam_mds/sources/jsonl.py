"""JSON lines -> samples: one object a line, plain or compressed."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from beam_mds.background import read_ahead, run_ahead
from beam_mds.errors import OptionError
from beam_mds.records import PLACE, BadRecord
from beam_mds.sources.base import Piece, Source
from beam_mds.sources.inputs import InputFile
from beam_mds.sources.lines import Block, line_blocks, line_pieces

# Arrow's parser works without the interpreter lock: so many blocks are parsed at once.
_THREADS = 2

# orjson makes floats of integers from 2**64 on and below -2**63, where Python's parser keeps them.
_LARGE = 2.0**63

# Integers below are exact as float64.
_EXACT = 2.0**53

# Types that Arrow's parser reads as Python's does.
_COLUMNAR = (pa.string(), pa.int64(), pa.float64(), pa.bool_())


class ReadJsonLines(Source):
    """Reads files of JSON lines: one object a line, UTF-8, plain or gz, zstd, bz2, xz.

    Elements are dicts, or batches where `schema` is given. Blank lines are nobody's, and so is a
    byte order mark. A line that is no object is a bad record with its file and line; of a large
    file without compression, which is read in several pieces, with the offset of its first byte.
    Kinds: `json`, `encoding` (not UTF-8), `truncated` (the compressed data ends too early or is
    damaged).

    Example:
        >>> path = getfixture('tmp_path') / 'a.jsonl'
        >>> _ = path.write_text('{"text": "hi", "meta": {"lang": "en"}}')
        >>> for sample in ReadJsonLines([path], fields=['text', 'meta.lang']).iterate():
        ...     print(sample['text'], sample['meta.lang'])
        hi en
    """

    def __init__(
        self,
        inputs: Sequence[str | os.PathLike[str]],
        *,
        fields: Sequence[str] | None = None,
        schema: pa.Schema | None = None,
        pattern: str = '*',
        exclude: Sequence[str] = (),
        split: str | None = None,
        on_error: str = 'fail',
    ) -> None:
        """Makes the transform; see `Source` for the arguments that all sources have.

        Args:
            inputs: Folders, globs, files or `@lists`.
            fields: Names of the fields wanted; all when None. `a.b` is field b of the object in a,
                unless there is a field of that whole name. One that a line has not is absent from
                its sample.
            schema: In the place of `fields`, their names and types (string, int64, float64, bool):
                elements are `pyarrow.RecordBatch`es then, which is faster. Lines that are not of
                the schema come as dicts all the same.
            pattern: What the names of files below a folder must match.
            exclude: Names, or globs of names, to leave out.
            split: A pattern of the ends of paths whose fields every sample gets.
            on_error: `fail`, `dead_letter` or `inline`.

        Raises:
            OptionError: A value that cannot work.
        """
        super().__init__(inputs, pattern=pattern, exclude=exclude, split=split, on_error=on_error)
        if fields is not None and (isinstance(fields, str) or not fields):
            raise OptionError(f'fields must be a list of names or None, got {fields!r:.80}')
        if schema is not None and fields is not None:
            raise OptionError('give either fields or schema')
        for field in schema or ():
            if field.type not in _COLUMNAR:
                raise OptionError(
                    f'schema: field {field.name!r} has type {field.type}: expected one of '
                    f'{", ".join(map(str, _COLUMNAR))}'
                )
        names = schema.names if schema is not None else fields
        self._schema = schema
        self._paths = None if names is None else {name: name.split('.') for name in names}

    def pieces(self, file: InputFile) -> Iterator[Piece]:
        return line_pieces(file)

    def read(self, piece: Piece) -> Iterator[dict[str, Any] | pa.RecordBatch | BadRecord]:
        with (
            contextlib.closing(read_ahead(line_blocks(piece))) as blocks,
            contextlib.closing(run_ahead(self._parsed, blocks, _THREADS)) as parsed,
        ):
            for block, batch in parsed:
                if batch is None:
                    yield from self._one_by_one(block)
                else:
                    yield batch

    def _parsed(self, block: Block | BadRecord) -> tuple[Block | BadRecord, pa.RecordBatch | None]:
        """A block, and its lines as one batch if they all are what the schema says."""
        if self._schema is None or isinstance(block, BadRecord):
            return block, None
        return block, parse_block(block, self._schema)

    def _one_by_one(self, block: Block | BadRecord) -> Iterator[dict[str, Any] | BadRecord]:
        if isinstance(block, BadRecord):
            yield block
            return
        for place, line in block.lines():
            element = parse_line(line)
            if isinstance(element, str):
                yield BadRecord(*_reason(line, element), place)
                continue
            sample = element if self._paths is None else _picked(element, self._paths)
            sample.update(block.file.fields)
            sample[PLACE] = place
            yield sample


def parse_line(line: bytes) -> dict[str, Any] | str:
    """The object in a line, or what is wrong with it.

    NaN, Infinity and halves of surrogate pairs are taken, as Python writes them, and so are
    integers of any size.

    Example:
        >>> parse_line(b'{"n": 123456789012345678901}'), parse_line(b'[1]')
        ({'n': 123456789012345678901}, 'list, where an object is expected: {"name": value, ...}')
    """
    try:
        value = orjson.loads(line)
        if _may_be_large(value):
            value = json.loads(line)
    except ValueError:
        try:
            value = json.loads(line.decode())
        except json.JSONDecodeError as error:
            return f'{error.msg}, at character {error.pos + 1}'
        except (ValueError, RecursionError) as error:
            return str(error)
    if type(value) is dict:
        return value
    return f'{type(value).__name__}, where an object is expected: {{"name": value, ...}}'


def _may_be_large(value: Any) -> bool:
    """Whether there is a float in a value that may have been an integer."""
    kind = type(value)
    if kind is dict:
        return any(map(_may_be_large, value.values()))
    if kind is list:
        return any(map(_may_be_large, value))
    return kind is float and abs(value) >= _LARGE


def _reason(line: bytes, message: str) -> tuple[str, str]:
    try:
        line.decode()
    except UnicodeDecodeError as error:
        return 'encoding', f'the line is not UTF-8: {error}'
    return 'json', f'the line is no JSON object: {message}'


def _picked(element: Mapping[str, Any], paths: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """The fields wanted, by their whole names."""
    picked = {}
    for name, path in paths.items():
        if name in element:
            picked[name] = element[name]
            continue
        value: Any = element
        for part in path:
            if type(value) is not dict or part not in value:
                break
            value = value[part]
        else:
            picked[name] = value
    return picked


def parse_block(block: Block, schema: pa.Schema) -> pa.RecordBatch | None:
    """The lines of a block as one batch, with their places.

    Args:
        block: The lines.
        schema: Names, also dotted ones, and types.

    Returns:
        None where any line is not an object of that schema, or is blank: they are then to be parsed
        one by one, which tells what is wrong.
    """
    data, size = block.data, len(block.data)
    starts, lines = block.starts, len(block.starts) - 1
    if not _one_object_each(data, starts):
        return None
    try:
        offsets = pa.py_buffer(np.array([0, size], np.int64))
        text = pa.LargeStringArray.from_buffers(1, offsets, pa.py_buffer(data))
        text.validate(full=True)  # Arrow's parser takes bytes that are no UTF-8
        table = pyarrow.json.read_json(
            pa.BufferReader(data),
            read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=size + 1),
            parse_options=pyarrow.json.ParseOptions(
                explicit_schema=_nested(schema), unexpected_field_behavior='ignore'
            ),
        )
    except pa.ArrowInvalid:
        return None
    if table.num_rows != lines:
        return None
    columns = {name: _column(table, name) for name in schema.names}
    if any(array is None or _may_be_rounded(array) for array in columns.values()):
        return None
    for name, value in block.file.fields.items():
        columns[name] = pa.repeat(value, lines)
    columns[PLACE] = _places(block, starts[:-1])
    return pa.record_batch(columns)


def _places(block: Block, starts: npt.NDArray[np.int64]) -> pa.StructArray:
    """Where each line is, as `Block.lines` tells it."""
    lines = len(starts)
    path = pa.DictionaryArray.from_arrays(
        pa.repeat(pa.scalar(0, pa.int8()), lines), [block.file.path]
    )
    if block.line is not None:
        numbers = np.arange(block.line + 1, block.line + 1 + lines)
        return pa.StructArray.from_arrays([path, pa.array(numbers)], ['file', 'line'])
    return pa.StructArray.from_arrays([path, pa.array(block.start + starts)], ['file', 'byte'])


def _one_object_each(data: bytes, starts: npt.NDArray[np.int64]) -> bool:
    """Whether every line begins and ends as an object does; Arrow does not mind line ends."""
    found = np.frombuffer(data, np.uint8)
    last = starts[1:] - 2
    last = last - (found[last] == ord('\r'))
    return bool((found[starts[:-1]] == ord('{')).all() and (found[last] == ord('}')).all())


def _nested(schema: pa.Schema) -> pa.Schema:
    """The types of the objects that have such fields; of a dotted one also by its whole name."""
    tree: dict[str, Any] = {}
    for field in schema:
        *path, last = field.name.split('.')
        if path:
            tree[field.name] = field.type
        branch = tree
        for part in path:
            branch = branch.setdefault(part, {})
            if not isinstance(branch, dict):
                raise pa.ArrowInvalid('a field and a part of it')
        branch[last] = field.type
    return pa.schema(_arrow_fields(tree))


def _arrow_fields(tree: Mapping[str, Any]) -> list[pa.Field]:
    return [
        pa.field(name, pa.struct(_arrow_fields(kind)) if isinstance(kind, dict) else kind)
        for name, kind in tree.items()
    ]


def _may_be_rounded(array: pa.Array) -> bool:
    """Whether there may be integers among floats that have lost digits."""
    if not pa.types.is_floating(array.type):
        return False
    largest = pc.max(pc.abs(array)).as_py()
    return largest is not None and largest >= _EXACT


def _column(table: pa.Table, name: str) -> pa.Array | None:
    """The values of a field; None where some lines have a field of the whole dotted name."""
    path = name.split('.')
    if len(path) > 1 and table.column(name).null_count < table.num_rows:
        return None
    array = table.column(path[0]).chunk(0)  # of one block
    return pc.struct_field(array, path[1:]) if len(path) > 1 else array

"""Which files the inputs of a source name, and what their paths say."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from beam_mds import storage
from beam_mds.errors import OptionError, StorageError
from beam_mds.format.encodings.base import is_utf8
from beam_mds.indexes import GLOB, natural_key

# A part of a path pattern that gives a field: `{split}`.
FIELD = re.compile(r'\{(\w+)\}')

# Before a pattern of the ends of paths.
_ANY_START = '(?:.*/)?'

# What stands before the path of a file that lists inputs, one a line.
_LIST = '@'


class InputFile(NamedTuple):
    """One file of the input.

    Attributes:
        path: Absolute, on any filesystem that Beam knows.
        name: Posix path relative to the folder, the glob's root, or, of a single file, the folder
            that it lies in.
        size: In bytes.
        number: Its place among all files of the input, which are in natural order of their paths.
        fields: What the path says: of `{split}` in a pattern.
    """

    path: str
    name: str
    size: int
    number: int = 0
    fields: Mapping[str, str] = {}


def check_inputs(inputs: Sequence[str | os.PathLike[str]], split: str | None = None) -> list[str]:
    """Absolute inputs, once they are known to be a list of paths; nothing is looked up.

    Raises:
        OptionError: They are not, or the split's pattern has no field.
    """
    given: Any = inputs
    if isinstance(given, (str, os.PathLike)) or not given:
        raise OptionError(f'inputs must be a list of at least one path, got {given!r:.80}')
    if split is not None:
        _path_patterns(split)
    return [_absolute(item) for item in given]


def _absolute(item: Any) -> str:
    listed = isinstance(item, str) and item.startswith(_LIST)
    path = storage.absolute(item[1:] if listed else item, 'input')
    return _LIST + path if listed else path


def list_inputs(
    inputs: Sequence[str],
    *,
    pattern: str = '*',
    exclude: Sequence[str] = (),
    split: str | None = None,
) -> list[InputFile]:
    """The files of all inputs, each once, in natural order of their paths.

    Args:
        inputs: Folders, globs, files, or `@file`, a file that lists such, one a line. Absolute.
        pattern: What the names of files below a folder must match, like `*.jsonl`.
        exclude: Names, or globs of names, of files and folders to leave out at any depth.
        split: A pattern of paths that gives fields, like `{split}/*.jsonl`: a field is one or more
            characters of one name. It is to fit the path below the input, or else the end of the
            whole path. Or several with `|` between them: the first that fits counts.

    Raises:
        StorageError: An input names no file, a path is not UTF-8, or does not fit `split`.
    """
    found: dict[str, InputFile] = {}
    for source in _listed(inputs):
        for file in list_files(source, pattern, exclude):
            found.setdefault(file.path, file)
    fits = [] if split is None else _path_patterns(split)
    files = sorted(found.values(), key=lambda file: natural_key(file.path))
    return [
        file._replace(number=number, fields=_fields(file, fits, split) if fits else {})
        for number, file in enumerate(files)
    ]


def list_files(source: str, pattern: str = '*', exclude: Sequence[str] = ()) -> Iterator[InputFile]:
    """The files that one input names, in no particular order.

    Args:
        source: A folder: all files below it. A glob (`*` and `?` match within one name, `**` across
            folders): the files that match; the folder before its first special character is its
            root. Or a single file. Absolute.
        pattern: What the names of files below a folder must match, like `*.py`.
        exclude: Names, or globs of names, of files and folders to leave out at any depth.

    Raises:
        StorageError: There is no such file, or a name is not UTF-8.
    """
    if (size := _size_of_file(source)) is not None:
        yield InputFile(source, source.rpartition('/')[2], size)
        return
    found = _glob(source) or _below(source, pattern)
    kept = [file for file in found if not _excluded(file.name, exclude)]
    if not kept:
        left = f'; {len(found)} are excluded' if found else ''
        raise StorageError(
            f'input {source}: no file there, or none whose name matches {pattern!r}{left}'
        )
    for file in kept:
        if not is_utf8(file.path):
            raise StorageError(
                f'input {source}: the name {file.name!a} is not UTF-8: rename or exclude it'
            )
        yield file


def _listed(inputs: Sequence[str]) -> Iterator[str]:
    """The inputs, with those that a list names in its place."""
    for source in inputs:
        if not source.startswith(_LIST):
            yield source
            continue
        path = source[1:]
        try:
            lines = storage.read(path).decode('utf-8-sig').splitlines()
        except UnicodeDecodeError as error:
            raise StorageError(f'input {source}: the list is not UTF-8: {error}') from None
        paths = [line.strip() for line in lines if line.strip()]
        if not paths:
            raise StorageError(f'input {source}: the list is empty')
        yield from (storage.absolute(item, 'input') for item in paths)


def _path_patterns(split: str) -> list[str]:
    for pattern in (patterns := split.split('|')):
        if not FIELD.search(pattern):
            raise OptionError(
                f'the split pattern {pattern!r:.80} has no field: expected one like '
                '{split}/*.jsonl'
            )
    return [_path_pattern(pattern, 'split') for pattern in patterns]


def path_end(pattern: str, option: str) -> re.Pattern[str]:
    """What the end of a path must be, with a group for each field.

    Args:
        pattern: Like `images/{split}/{key}.jpg`. A field, `*` and `?` stay within one name, `**`
            crosses folders.
        option: What it is, for errors.

    Raises:
        OptionError: A field is there twice, or has no name.

    Example:
        >>> path_end('{split}/*.jpg', 'split').fullmatch('/data/val/1.jpg').groupdict()
        {'split': 'val'}
    """
    return re.compile(_ANY_START + _path_pattern(pattern, option))


def _path_pattern(pattern: str, option: str) -> str:
    """The regular expression of a path pattern."""
    parts = []
    for number, piece in enumerate(FIELD.split(pattern)):
        if number % 2:
            parts.append(f'(?P<{piece}>[^/]+?)')
        else:
            parts += [
                {'*': '[^/]*', '**': '.*', '?': '[^/]'}.get(item, re.escape(item))
                for item in re.split(r'(\*\*|\*|\?)', piece)
            ]
    try:
        return re.compile(''.join(parts)).pattern
    except re.error as error:
        raise OptionError(f'the {option} pattern {pattern!r:.80} is wrong: {error}') from None


def _fields(file: InputFile, fits: Sequence[str], split: str | None) -> dict[str, str]:
    for text, start in (file.name, ''), (file.path, _ANY_START):
        for pattern in fits:
            if found := re.fullmatch(start + pattern, text):
                return found.groupdict()
    raise StorageError(
        f'{file.path} does not fit the split pattern {split}: change the pattern, or '
        'leave the file out of the input'
    )


def _size_of_file(source: str) -> int | None:
    """The size of a file; None where there is none, or a folder."""
    if not storage.is_remote(source):
        return os.path.getsize(source) if os.path.isfile(source) else None
    _, _, rest = source.partition('://')
    return storage.size_of(source) if '/' in rest else None


def _glob(source: str) -> list[InputFile]:
    """What a glob matches; nothing for what is none, or is a folder."""
    special = GLOB.search(source)
    if special is None or os.path.isdir(source):
        return []
    root = source[: special.start()].rpartition('/')[0]
    return [
        InputFile(path, path[len(root) + 1 :], size)
        for path, size in storage.match(source).items()
        if not path.endswith('/')
    ]


def _below(folder: str, pattern: str) -> list[InputFile]:
    """The files below a folder."""
    return [
        InputFile(storage.join(folder, name), name, size)
        for name, size in storage.list_folder(folder).items()
        # Object stores have empty objects that stand for folders.
        if name and not name.endswith('/')
        if fnmatch.fnmatchcase(name.rpartition('/')[2], pattern)
    ]


def _excluded(name: str, exclude: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(part, glob) for part in name.split('/') for glob in exclude)

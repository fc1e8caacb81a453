"""The parts of a merge: which datasets they are, and where in the result the shards of each lie."""

from __future__ import annotations

import itertools
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from beam_mds import storage
from beam_mds.errors import MergeError, OptionError
from beam_mds.format import INDEX_NAME
from beam_mds.format.index import is_plain_path
from beam_mds.indexes import Path, dataset_folders, given_paths, is_glob, natural_key

IfExists: TypeAlias = Literal['error', 'overwrite']
Expect: TypeAlias = int | Sequence[Path] | None

# Names in an error message, where a list may be long.
_SHOWN = 5

# A path up to its last number, the number, and the rest.
_LAST_NUMBER = re.compile(r'(.*?)(\d+)(\D*)', re.ASCII | re.DOTALL)


@dataclass(frozen=True)
class MergeOptions:
    """The options of a merge, checked.

    Attributes:
        out: The folder of the merged index.
        paths: The parts, as absolute folders and globs; None for all below `out`.
        expect: How many parts there must be, or which, as absolute folders; None for any.
        overwrite: Whether what only the index in `out` lists is dropped.
        copy: Whether shards that are not below `out` are copied there.
    """

    out: str
    paths: tuple[str, ...] | None
    expect: int | tuple[str, ...] | None
    overwrite: bool
    copy: bool

    @property
    def index(self) -> str:
        """The path of the merged index."""
        return storage.join(self.out, INDEX_NAME)


@dataclass(frozen=True)
class Part:
    """A dataset that is merged.

    Attributes:
        folder: Its folder, absolute.
        place: Where its shards are in the result, relative to `out`; empty for `out` itself.
    """

    folder: str
    place: str

    @property
    def index(self) -> str:
        """The path of its index."""
        return storage.join(self.folder, INDEX_NAME)


def make_merge_options(
    out: Path,
    parts: Path | Sequence[Path] | None,
    expect: Expect,
    if_exists: IfExists,
    copy: bool,
) -> MergeOptions:
    """Checks the options; see `merge_indexes`.

    Raises:
        OptionError: A value, or a combination, that cannot work.
    """
    folder = storage.absolute(out)
    if if_exists not in get_args(IfExists):
        raise OptionError(f"if_exists must be 'error' or 'overwrite', got {if_exists!r:.80}")
    if not isinstance(copy, bool):
        raise OptionError(f'copy must be True or False, got {copy!r:.80}')
    paths = None if parts is None else tuple(given_paths(parts, option='parts'))
    options = MergeOptions(folder, paths, _expected(folder, expect), if_exists == 'overwrite', copy)
    literal = [path for path in paths or () if not is_glob(path)]
    _check_above(options, literal)
    return options


def find_parts(options: MergeOptions, paths: Sequence[str] | None) -> list[Part]:
    """Looks for the datasets.

    Args:
        options: Of the merge.
        paths: Absolute folders and globs; None for all datasets at and below `out`.

    Returns:
        In the order of the result: by place, numbers as numbers.

    Raises:
        MergeError: One is given twice, there is none, or it has a name that an index cannot list.
        OptionError: `out` is not above them all.
    """
    if paths is None:
        places = storage.find(options.out, INDEX_NAME)
        if options.overwrite:  # the index in out is what is to be replaced
            places = [place for place in places if place]
        found = [Part(storage.join(options.out, p) if p else options.out, p) for p in places]
    else:
        if twice := {path for path, count in Counter(paths).items() if count > 1}:
            raise MergeError(
                f'{shown(twice)}: given twice, so each of its shards would be listed twice'
            )
        folders = dataset_folders(paths)
        _check_above(options, folders)
        found = [Part(folder, place) for folder, place in _places(options, folders).items()]
    for part in found:
        if part.place and not is_plain_path(part.place):
            raise MergeError(f'{part.folder}: readers refuse {part.place!r} as a path in an index')
    return sorted(found, key=lambda part: natural_key(part.place))


def parents(path: str) -> Iterator[str]:
    """The folders above a relative path, nearest first; the last is the empty one."""
    while path:
        path = path.rpartition('/')[0]
        yield path


def shown(names: Iterable[str]) -> str:
    """Names for an error message, in natural order; only the first of many."""
    ordered = [name or '.' for name in sorted(names, key=natural_key)]
    more = f' and {len(ordered) - _SHOWN} more' if len(ordered) > _SHOWN else ''
    return f'{", ".join(ordered[:_SHOWN])}{more}'


def check_expected(options: MergeOptions, found: Sequence[Part], counted: Sequence[Part]) -> None:
    """Compares the parts with those that the caller expects.

    Args:
        options: Of the merge.
        found: All of them.
        counted: Those that count: with no other below them, or of which one above tells alone.

    Raises:
        MergeError: One is missing, or there is one more; it is named as well as can be.
    """
    expect = options.expect
    if expect is None:
        return
    if isinstance(expect, int):
        if len(counted) != expect:
            raise MergeError(
                f'expected {expect} parts, found {len(counted)} '
                f'({shown(part.place for part in counted) if counted else "none"}), so no index '
                f'was written: {_difference(options, expect, counted)}'
            )
        return
    folders = {part.folder for part in found}
    if missing := [folder for folder in expect if folder not in folders]:
        raise MergeError(
            f'{len(missing)} of {len(expect)} expected parts have no {INDEX_NAME}, so none was '
            f'written in {options.out}: {shown(missing)}; what writes them failed or is not done'
        )
    known = set(expect)
    surplus = [part.folder for part in counted if not known & {part.folder, *parents(part.folder)}]
    if surplus:
        raise MergeError(
            f'there are parts beside the {len(expect)} expected ones, so no index was written in '
            f'{options.out}: {shown(surplus)}; expect them too, or give the parts to be merged'
        )


def _expected(out: str, expect: Expect) -> int | tuple[str, ...] | None:
    given: Any = expect
    if given is None:
        return None
    if isinstance(given, int) and not isinstance(given, bool) and given > 0:
        return given
    if isinstance(given, (str, bytes, int)) or not isinstance(given, Sequence) or not given:
        raise OptionError(
            f'expect must be a number of parts, or a list of their folders, got {given!r:.80}'
        )
    folders = []
    for item in given:
        text = os.fspath(item) if isinstance(item, (str, os.PathLike)) else item
        relative = isinstance(text, str) and text and not text.startswith(('/', '~'))
        if relative and not storage.is_remote(text):
            text = storage.join(out, text.removeprefix('./'))
        folders += given_paths([text], option='expect')
    if len(set(folders)) != len(folders):
        raise OptionError(f'expect names a part twice: {given!r:.80}')
    return tuple(folders)


def _check_above(options: MergeOptions, folders: Sequence[str]) -> None:
    """Raises if the index would have to list a shard that is not below its folder."""
    out = options.out
    outside = [folder for folder in folders if not _is_at_or_below(folder, out)]
    containing = [folder for folder in outside if _is_at_or_below(out, folder)]
    if not (containing or (outside and not options.copy)):
        return
    first = containing or outside
    ways = []
    if nearest := _nearest(folders):
        ways.append(f'merge into {nearest}, the nearest folder above them all')
    if not containing:
        ways.append(f'copy their shards into {out} with copy=True (--copy)')
    raise OptionError(
        f'an index lists shards below its own folder only, and {out} is not above {shown(first)}: '
        f'{", or ".join(ways) or "no folder is above them all"}'
    )


def _nearest(folders: Sequence[str]) -> str | None:
    """The nearest folder at or above all; None if that is the root of all files."""
    pieces = _common(folder.split('/') for folder in folders)
    bucket = 3 if pieces and pieces[0].endswith(':') else 2  # gs: // bucket, or / folder
    return '/'.join(pieces) if len(pieces) >= bucket else None


def _common(paths: Iterable[Sequence[str]]) -> list[str]:
    """The first components, as far as they are those of all paths."""
    pieces = zip(*paths, strict=False)
    return [same[0] for same in itertools.takewhile(lambda same: len(set(same)) == 1, pieces)]


def _is_at_or_below(folder: str, other: str) -> bool:
    return folder == other or folder.startswith(f'{other}/')


def _places(options: MergeOptions, folders: Sequence[str]) -> dict[str, str]:
    """Where in the result the shards of each folder are."""
    out = options.out
    inside = {f: f[len(out) + 1 :] for f in folders if _is_at_or_below(f, out)}
    outside = [folder for folder in folders if folder not in inside]
    above = _common(folder.split('/')[:-1] for folder in outside)
    for shared in (len(above), 0):
        copied = {folder: _name(folder, shared) for folder in outside}
        if len(set(copied.values())) == len(copied) and not any(
            _is_at_or_below(place, copy) or _is_at_or_below(copy, place)
            for place in inside.values()
            for copy in copied.values()
        ):
            return {**inside, **copied}
    raise MergeError(
        f'{shown(outside)}: no names for copies in {out} that no other part has; use another out'
    )


def _name(folder: str, shared: int) -> str:
    """A folder's path without its first components, as a relative one."""
    pieces = folder.split('/')
    if not shared:  # what differs can be the scheme: gs: or, of a local path, nothing
        pieces[0] = pieces[0].removesuffix(':') or 'file'
    return '/'.join(filter(None, pieces[shared:]))


def _difference(options: MergeOptions, expect: int, counted: Sequence[Part]) -> str:
    """What is known about parts that are missing, or too many."""
    short = expect - len(counted)
    if short < 0:
        return 'expect them all, or give the parts to be merged'
    gaps, ends = _gaps([part.place for part in counted], short)
    known = []
    if unfinished := _unfinished(options.out):
        known.append(
            f'there are shards but no {INDEX_NAME} in {shown(unfinished)}, so what writes them '
            'failed or is not done'
        )
    if gaps:
        known.append(f'their numbers leave out {shown(gaps)}')
    elif ends and short == 1 and not known:
        known.append(f'perhaps {" or ".join(ends)} is missing')
    return '; '.join(known) or 'expect a list of folders to have those that are missing named'


def _unfinished(out: str) -> set[str]:
    """Folders with shards that have no index, and are in none that has one."""
    names = [path.rpartition('/') for path in storage.list_folder(out)]
    complete = {folder for folder, _, name in names if name == INDEX_NAME}
    return {
        folder
        for folder in {folder for folder, _, name in names if '.mds' in name} - complete
        if not any(above in complete for above in parents(folder) if above)
    }


def _gaps(places: Sequence[str], most: int) -> tuple[list[str], list[str]]:
    """Names that numbered names leave out, and those at the ends.

    Example:
        >>> _gaps(['part-08', 'part-09', 'part-11'], 2)
        (['part-10'], ['part-07', 'part-12'])
    """
    groups: dict[tuple[str, str], dict[int, int]] = {}
    for place in places:
        if match := _LAST_NUMBER.fullmatch(place):
            start, number, end = match.groups()
            width = len(number) if number.startswith('0') and len(number) > 1 else 0
            groups.setdefault((start, end), {})[int(number)] = width
    gaps, ends = [], []
    for (start, end), widths in groups.items():
        width = max(widths.values())
        first, last = min(widths), max(widths)
        if last - first + 1 - len(widths) <= most:
            inner = [number for number in range(first, last) if number not in widths]
            gaps += [f'{start}{number:0{width}}{end}' for number in inner]
        if len(groups) == 1:
            outer = [number for number in (first - 1, last + 1) if number >= 0]
            ends += [f'{start}{number:0{width}}{end}' for number in outer]
    return (gaps if len(gaps) <= most else []), ends

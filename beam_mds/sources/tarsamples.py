"""Members of a tar -> samples, as WebDataset groups them; no Beam here.

A member's key is its folder and its base name up to the first dot; the rest is its suffix, in lower
case. Members of one key that stand next to each other are one sample.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import xxhash

from beam_mds.errors import FormatError
from beam_mds.sources.streams import Refusal, StreamError
from beam_mds.sources.tarring import BLOCK, Member, TarReader

# Suffixes that no column takes, in an error's message.
_SHOWN = 10

# Keys that are kept in a dict before they go into arrays.
_RECENT = 1 << 16


class Part(NamedTuple):
    """One member of a sample.

    Attributes:
        data: Its content.
        member: Its name.
        byte: Where its headers start in the decompressed archive.
    """

    data: bytes
    member: str
    byte: int


class TarSample(NamedTuple):
    """One sample.

    Attributes:
        key: What its members' names have in common.
        member: The name of its first member.
        byte: Where that starts in the decompressed archive.
        parts: By suffix, in the archive's order.
    """

    key: str
    member: str
    byte: int
    parts: dict[str, Part]


class BadSample(NamedTuple):
    """A sample, a member or the rest of an archive that was not taken.

    Attributes:
        refusal: Why.
        member: The name of the member to blame; None where the archive itself is.
        byte: Where in the decompressed archive.
    """

    refusal: Refusal
    member: str | None
    byte: int


def key_and_suffix(name: str) -> tuple[str, str] | None:
    """The key and the suffix of a member's name.

    Returns:
        None for a name that belongs to no sample: without a dot, with nothing before or behind its
        first dot, or in a folder like `__meta__`.

    Example:
        >>> key_and_suffix('train.v1/1.JPG'), key_and_suffix('22.05.png'), key_and_suffix('README')
        (('train.v1/1', 'jpg'), ('22', '05.png'), None)
    """
    folder, slash, base = name.rpartition('/')
    stem, _, suffix = base.partition('.')
    if not stem or not suffix or _is_special(name.partition('/')[0]):
        return None
    return f'{folder}{slash}{stem}', suffix.lower()


def samples_of(
    reader: TarReader,
    wanted: Collection[str] | None,
    *,
    limit: int,
    refuse_others: bool = False,
    names: Mapping[str, str] = MappingProxyType({}),
    passed_over: Callable[[Member], None] = lambda _: None,
) -> Iterator[TarSample | BadSample]:
    """Groups the members of an archive, in order; one sample is in memory.

    Args:
        reader: The archive.
        wanted: Suffixes that every sample must have; other members are passed over. None: all are
            taken, and a sample may have any.
        limit: The most bytes of a sample; each of its members counts for a block more than it has.
        refuse_others: Whether a member that is not wanted spoils its sample.
        names: Suffix -> what it is called instead, where several stand for one.
        passed_over: Is told of files that belong to no sample; see `key_and_suffix`.

    Yields:
        Samples, and what was not taken. When the archive cannot be read on, what is wrong with it
        comes last. `wanted` tells whether the sample that was being read then is whole.
    """
    opened: _Open | None = None
    seen = SeenKeys()
    try:
        for member in reader:
            named = key_and_suffix(member.name) if member.is_file else None
            if named is None:
                if member.refusal:
                    yield BadSample(member.refusal, member.name, member.byte)
                elif member.is_file:
                    passed_over(member)
                continue
            key, suffix = named
            if opened is None or key != opened.key:
                if opened is not None:
                    yield opened.result(wanted)
                opened = _opened(key, member, seen)
            suffix = names.get(suffix, suffix)
            opened.add(suffix, member, reader, wanted, limit, refuse_others)
    except FormatError as error:
        yield from _last_of(opened, wanted, _broken(error, reader))
    else:
        if opened is not None:
            yield opened.result(wanted)


class SeenKeys:
    """Where the keys of an archive came first: 16 bytes a key, however many there are.

    A key is known by its 64-bit hash: of ten million keys two have the same one with a probability
    of 3 in a million.
    """

    def __init__(self) -> None:
        """Knows none yet."""
        self._recent: dict[int, int] = {}
        self._hashes: npt.NDArray[np.uint64] = np.empty(0, np.uint64)
        self._bytes: npt.NDArray[np.int64] = np.empty(0, np.int64)

    def first(self, key: str, byte: int) -> int | None:
        """Where a key was before; None, and notes where it is, when it is new."""
        digest = xxhash.xxh3_64_intdigest(key.encode())
        before = self._recent.setdefault(digest, byte)
        if before != byte:
            return before
        place = int(np.searchsorted(self._hashes, np.uint64(digest)))
        if place < len(self._hashes) and int(self._hashes[place]) == digest:
            del self._recent[digest]
            return int(self._bytes[place])
        if len(self._recent) >= _RECENT:
            self._settle()
        return None

    def _settle(self) -> None:
        count = len(self._recent)
        hashes = np.fromiter(self._recent.keys(), np.uint64, count)
        places = np.fromiter(self._recent.values(), np.int64, count)
        hashes = np.concatenate([self._hashes, hashes])
        order = np.argsort(hashes, kind='stable')
        self._hashes = hashes[order]
        self._bytes = np.concatenate([self._bytes, places])[order]
        self._recent = {}


@dataclass
class _Open:
    """The sample that is being read."""

    key: str
    member: str
    byte: int
    parts: dict[str, Part] = field(default_factory=dict)
    size: int = 0
    others: list[str] = field(default_factory=list)
    refusal: BadSample | None = None

    def add(
        self,
        suffix: str,
        member: Member,
        reader: TarReader,
        wanted: Collection[str] | None,
        limit: int,
        refuse_others: bool,
    ) -> None:
        """Takes a member, or notes why the sample cannot be used."""
        is_wanted = wanted is None or suffix in wanted
        size = self.size + BLOCK + (member.size if is_wanted else 0)
        if self.refusal is not None:
            return
        if member.refusal:
            self.refuse(member, *member.refusal)
        elif _is_special(suffix):
            self.refuse(member, 'member_name', f'the suffix {suffix!r} is kept for fields; rename')
        elif suffix in self.parts:
            self.refuse(
                member,
                'duplicate_member',
                f'sample {self.key!r} has a second member with the suffix {suffix!r}; the first '
                f'one is at byte {self.parts[suffix].byte}',
            )
        elif not is_wanted and refuse_others:
            self.refuse(
                member,
                'unexpected_part',
                f'sample {self.key!r} has a member {suffix!r}, and no column takes it: name the '
                'columns that are wanted, with it or without it',
            )
        elif size > limit:
            self.refuse(
                member,
                'too_large',
                f'sample {self.key!r} has more than {limit} bytes with its member {suffix!r} of '
                f'{member.size} bytes: raise max_sample_size, or leave the column out',
            )
        elif is_wanted:
            self.size = size
            self.parts[suffix] = Part(reader.read(), member.name, member.byte)
        elif len(self.others) < _SHOWN:
            self.others.append(suffix)

    def refuse(self, member: Member, error_type: str, message: str) -> None:
        """Notes why the sample cannot be used; its parts are let go."""
        self.refusal = BadSample(Refusal(error_type, message), member.name, member.byte)
        self.parts = {}

    def result(self, wanted: Collection[str] | None) -> TarSample | BadSample:
        """The sample, or why it is none."""
        if self.refusal is not None:
            return self.refusal
        if missing := [name for name in wanted or () if name not in self.parts]:
            message = (
                f'sample {self.key!r} has no member {", ".join(map(repr, missing))}, only '
                f'{", ".join(map(repr, [*self.parts, *self.others]))}: a column needs it; leave '
                'the column out, or put the members of a sample next to each other '
                '(tar --sort=name does)'
            )
            return BadSample(Refusal('missing_part', message), self.member, self.byte)
        return TarSample(self.key, self.member, self.byte, self.parts)


def _opened(key: str, member: Member, seen: SeenKeys) -> _Open:
    opened = _Open(key, member.name, member.byte)
    before = seen.first(key, member.byte)
    if before is not None:
        opened.refuse(
            member,
            'scattered_sample',
            f'members of sample {key!r} are at byte {before} and, behind other samples, at byte '
            f'{member.byte}: put the members of a sample next to each other (tar --sort=name '
            'does)',
        )
    return opened


def _last_of(
    opened: _Open | None, wanted: Collection[str] | None, broken: BadSample
) -> Iterator[TarSample | BadSample]:
    """What is left of an archive that cannot be read on."""
    if opened is None:
        yield broken
        return
    last = opened.result(wanted)
    is_known = broken.refusal.error_type == 'trailing_data' or opened.refusal is not None
    if is_known or (wanted is not None and isinstance(last, TarSample)):
        yield last
        yield broken
        return
    lost = f'; sample {opened.key!r}, at byte {opened.byte}, is not whole and is lost'
    refusal = broken.refusal._replace(message=broken.refusal.message + lost)
    yield broken._replace(refusal=refusal)


def _broken(error: FormatError, reader: TarReader) -> BadSample:
    if isinstance(error, StreamError):
        return BadSample(Refusal(error.error_type, error.message), None, error.byte)
    return BadSample(Refusal('truncated', str(error)), None, reader.byte)


def _is_special(folder: str) -> bool:
    """Whether WebDataset keeps what is no sample under this name."""
    return len(folder) >= 4 and folder.startswith('__') and folder.endswith('__')

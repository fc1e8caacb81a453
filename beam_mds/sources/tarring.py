"""Tar archives -> their members, read once from front to back; no Beam here.

The formats of old tar (V7), POSIX (ustar and pax) and GNU, as `pax(1)` of POSIX.1-2001 and
GNU tar's manual have them. Python's tarfile is not used: it takes a damaged header, and a file that
is cut off between two members, for the archive's end and says nothing, so that samples would be
lost in silence; and it needs several times as long for a small member.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from beam_mds.sources.streams import Cursor, Readable, Refusal, StreamError

# Headers and contents are filled up to whole blocks.
BLOCK = 512
_ZEROS = bytes(BLOCK)

# The most bytes that a pax header or a long name may have.
_LONGEST_HEADER = 1 << 20

# Of a size: 2**64 has as many.
_MOST_DIGITS = 20

# The length of a pax header's record, with its digits and the newline.
_PAX_LENGTH = re.compile(rb'([1-9][0-9]{0,7}) ')

# Types of members. Of those without contents the size means nothing (of hard links GNU tar says so,
# of the others POSIX).
_FILES = b'0\x007'
_FOLDERS = b'5D'
_NO_CONTENT = b'123456'
_LABEL = b'V'
_PAX, _PAX_GLOBAL, _LONG_NAME, _LONG_LINK = b'xX', b'g', b'L', b'K'
_KINDS = {
    b'1': 'a hard link',
    b'2': 'a symbolic link',
    b'3': 'a character device',
    b'4': 'a block device',
    b'6': 'a named pipe',
    b'S': 'a sparse file',
    b'M': 'the rest of a file from another volume',
}


class Member(NamedTuple):
    """One member of an archive.

    Attributes:
        name: As it is stored; what is not UTF-8 in it is shown escaped.
        size: Bytes of its content.
        byte: Where its headers start, in the decompressed archive.
        is_file: Whether it is a file; else it is a folder or the archive's label.
        refusal: Why it is not to be used, or None.
    """

    name: str
    size: int
    byte: int
    is_file: bool
    refusal: Refusal | None


class TarReader:
    """The members of an archive; the content of each can be read until the next one is asked for.

    Example:
        >>> import io, tarfile
        >>> data = io.BytesIO()
        >>> with tarfile.open(fileobj=data, mode='w') as tar:
        ...     info = tarfile.TarInfo('a.txt')
        ...     info.size = 2
        ...     tar.addfile(info, io.BytesIO(b'hi'))
        >>> reader = TarReader(io.BytesIO(data.getvalue()))
        >>> [(member.name, reader.read()) for member in reader]
        [('a.txt', b'hi')]
    """

    def __init__(self, stream: Readable) -> None:
        """Reads nothing yet.

        Args:
            stream: The decompressed archive.
        """
        self._cursor = Cursor(stream)
        self._left = self._padding = 0  # bytes of the content that are not read, and behind it
        self._globals: dict[bytes, bytes] = {}

    @property
    def byte(self) -> int:
        """How many bytes of the archive were read."""
        return self._cursor.at

    def __iter__(self) -> Iterator[Member]:
        """The members, in order.

        Raises:
            StreamError: The archive is damaged, cut off, or has something behind its end.
        """
        while (member := self._next()) is not None:
            yield member

    def read(self) -> bytes:
        """The content of the member that was given last.

        Raises:
            StreamError: The archive ends before it does.
        """
        size, self._left = self._left, 0
        return self._exactly(size)

    def _next(self) -> Member | None:
        """The next member, with what the headers before its own say; None at the end."""
        start: int | None = None
        fields: dict[bytes, bytes] = {}
        while True:
            block = self._block()
            byte = self._cursor.at - BLOCK
            if block == _ZEROS:
                if start is not None:
                    message = 'the archive ends behind a header that belongs to a member'
                    raise StreamError('corrupt', message, byte)
                self._finish()
                return None
            header = _Header(block, byte)
            if header.kind == _PAX_GLOBAL:
                self._globals |= _pax_fields(self._header_content(header, byte), byte)
                continue
            start = byte if start is None else start
            if header.kind == _LONG_NAME:
                fields[b'path'] = self._header_content(header, byte).partition(b'\0')[0]
            elif header.kind in _PAX:
                fields |= _pax_fields(self._header_content(header, byte), byte)
            elif header.kind == _LONG_LINK:
                self._header_content(header, byte)
            else:
                return self._member(header, self._globals | fields, start)

    def _member(self, header: _Header, fields: dict[bytes, bytes], start: int) -> Member:
        raw = fields.get(b'GNU.sparse.name') or fields.get(b'path') or header.name
        size = header.size
        if text := fields.get(b'size'):
            if not text.isdigit() or len(text) > _MOST_DIGITS:
                raise StreamError('corrupt', f'a pax header says size={text[:40]!a}', start)
            size = int(text)
        while header.extended_sparse:  # further blocks of an old GNU sparse header
            header.extended_sparse = self._exactly(BLOCK)[504] != 0
        kind = header.kind
        self._left = 0 if kind in _NO_CONTENT else size
        self._padding = -self._left % BLOCK
        is_folder = kind in _FOLDERS or (kind == b'\0' and raw.endswith(b'/'))
        refusal = _kind_refusal(kind, fields) or _name_refusal(raw)
        name = raw.decode('utf-8', 'backslashreplace')
        return Member(name, self._left, start, not is_folder and kind != _LABEL, refusal)

    def _header_content(self, header: _Header, byte: int) -> bytes:
        if header.size > _LONGEST_HEADER:
            raise StreamError(
                'corrupt',
                f'a header claims a name or fields of {header.size} bytes; '
                f'the most that is read is {_LONGEST_HEADER}',
                byte,
            )
        self._padding = -header.size % BLOCK
        return self._exactly(header.size)

    def _block(self) -> bytes:
        """The next header block, behind what was not read of the last content."""
        left, self._left = self._left, 0
        if not self._cursor.skip(left):
            raise self._too_short()
        padding, self._padding = self._padding, 0
        data = self._cursor.take(padding + BLOCK)
        if len(data) == padding + BLOCK:
            return data[padding:]
        if len(data) == padding:
            raise StreamError(
                'truncated',
                'the archive ends without the blocks of zeros that every tar ends with: '
                'what came behind is lost',
                self._cursor.at,
            )
        raise self._too_short()

    def _finish(self) -> None:
        """Reads what is behind the end, so that a compressed stream is checked as a whole."""
        while piece := self._cursor.piece():
            if rest := piece.lstrip(b'\0'):
                raise StreamError(
                    'trailing_data',
                    'there is more behind the end of the archive, which is not read; were '
                    'archives put together with cat?',
                    self._cursor.at - len(rest),
                )

    def _exactly(self, size: int) -> bytes:
        data = self._cursor.take(size)
        if len(data) < size:
            raise self._too_short()
        return data

    def _too_short(self) -> StreamError:
        message = 'the archive ends within a member: what came behind is lost'
        return StreamError('truncated', message, self._cursor.at)


class _Header:
    """One header block."""

    def __init__(self, block: bytes, byte: int) -> None:
        # Zeros add nothing, and most bytes are zeros.
        text = (block[:148] + block[156:]).replace(b'\0', b'')
        stored = _number(block[148:156])
        total = sum(text) + 8 * ord(' ')
        # Some old programs added bytes up as signed.
        if stored != total and stored != total - 256 * sum(value > 127 for value in text):
            message = (
                'this is no header of a member (its checksum is wrong): what comes behind is lost'
            )
            if not byte:
                message = (
                    'this is no tar archive: it begins without a header (the checksum is wrong)'
                )
            raise StreamError('corrupt', message, byte)
        self.kind = block[156:157]
        size = _number(block[124:136])
        if size is None:
            raise StreamError('corrupt', f'a header has the size {block[124:136]!a}', byte)
        self.size = size
        name = block[:100].partition(b'\0')[0]
        # GNU's own headers have other things where POSIX has the folder of a long name.
        if block[257:263] == b'ustar\0' and block[345]:
            name = block[345:500].partition(b'\0')[0] + b'/' + name
        self.name = name
        self.extended_sparse = self.kind == b'S' and block[482] != 0


def _number(field: bytes) -> int | None:
    """A number: octal digits, or GNU's binary form; None where it is neither, or negative."""
    if field[0] == 0x80:
        return int.from_bytes(field[1:], 'big')
    text = field.partition(b'\0')[0].strip(b' ')
    try:
        return int(text, 8) if text.isdigit() else None if text else 0
    except ValueError:  # 8 or 9
        return None


def _pax_fields(content: bytes, byte: int) -> dict[bytes, bytes]:
    r"""The fields of a pax header; its records are `<length of the record> <name>=<value>\n`."""
    fields, at = {}, 0
    while at < len(content) and content[at]:
        length = _PAX_LENGTH.match(content, at)
        end = at + int(length[1]) if length else 0
        record = content[length.end() : end] if length else b''
        name, equals, value = record[:-1].partition(b'=')
        if end > len(content) or not equals or record[-1:] != b'\n':
            raise StreamError(
                'corrupt', f'a pax header has the record {content[at : at + 40]!a}', byte
            )
        fields[name] = value
        at = end
    return fields


def _kind_refusal(kind: bytes, fields: dict[bytes, bytes]) -> Refusal | None:
    if kind in _FILES and any(name.startswith(b'GNU.sparse.') for name in fields):
        kind = b'S'
    if kind in _FILES + _FOLDERS + _LABEL:
        return None
    what = _KINDS.get(kind) or f'of the unknown type {kind!a}'
    return Refusal('member_kind', f'the member is {what}: only files are read; write it as a file')


def _name_refusal(name: bytes) -> Refusal | None:
    why = ''
    if name.startswith(b'/'):
        why = 'is absolute'
    elif b'..' in name.split(b'/'):
        why = "has '..' in it"
    elif b'\0' in name:
        why = 'has a NUL in it'
    else:
        try:
            name.decode()
        except UnicodeDecodeError:
            why = 'is not UTF-8'
    return Refusal('member_name', f"the member's name {why}; rename it") if why else None

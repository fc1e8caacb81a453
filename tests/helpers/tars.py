"""Tar archives for tests, made by Python's tarfile or block by block."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Members = Iterable[tuple[str, bytes]]


def tar(members: Members, format: int = tarfile.GNU_FORMAT, **info: Any) -> bytes:  # noqa: A002
    """An archive with these files, in this order; `info` are attributes of each TarInfo."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode='w', format=format) as archive:
        for name, content in members:
            add(archive, name, content, **info)
    return data.getvalue()


def add(archive: tarfile.TarFile, name: str, content: bytes = b'', **info: Any) -> None:
    """Adds one member."""
    member = tarfile.TarInfo(name)
    member.size = len(content)
    for attribute, value in info.items():
        setattr(member, attribute, value)
    archive.addfile(member, io.BytesIO(content))


def write_tar(path: Path, members: Members, **how: Any) -> Path:
    """Writes an archive."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(tar(members, **how))
    return path


def header(name: bytes, size: int = 0, kind: bytes = b'0', **fields: bytes) -> bytes:
    """One header block; `fields` are bytes by the place they start at, like `at345=b'folder'`."""
    block = bytearray(512)
    block[: len(name)] = name
    block[100:108] = b'0000644\0'
    block[124:136] = f'{size:011o}\0'.encode()
    block[156:157] = kind
    block[257:265] = b'ustar\x0000'
    for place, value in fields.items():
        at = int(place.removeprefix('at'))
        block[at : at + len(value)] = value
    block[148:156] = b' ' * 8
    block[148:156] = f'{sum(block):06o}\0 '.encode()
    return bytes(block)


def filled(content: bytes) -> bytes:
    """A content, filled up to whole blocks."""
    return content + bytes(-len(content) % 512)


END = bytes(1024)

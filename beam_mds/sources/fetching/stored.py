"""URLs of files on Beam's filesystems: file://, gs:// and what else is installed."""

from __future__ import annotations

import asyncio
import contextlib
import urllib.parse
from concurrent.futures import Executor

from beam_mds import storage
from beam_mds.errors import MDSError
from beam_mds.sources.fetching.limits import Held
from beam_mds.sources.fetching.outcomes import Failed

_LOCAL = ('', 'localhost')


def path_of(url: str) -> str:
    """The path of a file as Beam has it.

    Raises:
        Failed: It is a file of another machine.

    Example:
        >>> path_of('file:///data/a%20b.jpg'), path_of('gs://bucket/a%20b.jpg')
        ('/data/a b.jpg', 'gs://bucket/a%20b.jpg')
    """
    scheme, _, rest = url.partition('://')
    if scheme.lower() != 'file':
        return url
    host, _, path = rest.partition('/')
    if host.lower() not in _LOCAL:
        raise Failed('bad_url', f'{url[:200]!r} is a file of another machine, {host[:80]}')
    return '/' + urllib.parse.unquote(path)


async def read(url: str, limit: int, held: Held, executor: Executor | None) -> bytes:
    """A whole file.

    Args:
        url: Where.
        limit: Most bytes.
        held: What the file holds of the memory.
        executor: Where it is read.

    Raises:
        Failed: It cannot be read, or is too large.
    """
    path = path_of(url)
    loop = asyncio.get_running_loop()
    try:
        size = await loop.run_in_executor(executor, storage.size_of, path)
        if size is None:
            raise Failed('storage', f'{path}: no such file')
        if size > limit:
            raise Failed('too_large', f'{size} bytes, the limit is {limit}')
        await held.cover(size)
        # It may have grown since; a byte more shows that.
        data = await loop.run_in_executor(executor, _read, path, size + 1)
    except (MDSError, OSError, ValueError) as error:
        raise Failed('storage', str(error)[:500]) from None
    if len(data) != size:
        raise Failed('storage', f'{path}: its size changed while it was read', retry=True)
    return data


def _read(path: str, size: int) -> bytes:
    with contextlib.closing(storage.Reader(path)) as file:
        return file.read(0, size)

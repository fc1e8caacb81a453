"""Files put in place in one step: an index that replaces another, the copy of a shard."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterable
from typing import Any

from apache_beam.io.filesystems import FileSystems

from beam_mds.errors import StorageError
from beam_mds.retries import retried
from beam_mds.storage import Pieces, Reader, escape, look_up, size_of, write

# Names of what is written beside its place and then moved there start with this; no `*.mds*` does.
STAGED = '.beam-mds-index-'

# The store whose own copy appears in one step, and says so when it fails. (Beam's for s3 hides
# errors, that for azfs returns before it is done, a local one is there before it is whole.)
_COPIES_WHOLE = 'gs'


def publish(
    path: str, parts: Iterable[Any], size: int, check: Callable[[], None] = lambda: None
) -> None:
    """Puts a file in place in one step: written under a name beside it, then moved.

    Args:
        path: The final name; a file there is replaced.
        parts: Bytes-like objects that stand one after another; gone through anew for each attempt.
        size: Bytes of all of them.
        check: Called as the last before the move; raises where that may not be done.

    Raises:
        StorageError: It could not be written or moved.
    """
    # A name of this attempt alone: a second one at the same time may not write into its file.
    staging = f'{path.rpartition("/")[0]}/{STAGED}{uuid.uuid4().hex}.json'

    def attempt() -> None:
        try:
            FileSystems.rename([staging], [path])
            return
        except Exception as error:  # noqa: BLE001 - raised again, unless the move was done
            failure = error
        # A repeated move finds its source gone: done, when the target is what we wrote. (Outside of
        # the handler: an error in here would have the move's as its context, and seem transient.)
        if size_of(staging) is not None or not holds(path, parts, size):
            raise failure

    try:
        write(staging, parts, size)
        check()
        retried(attempt, f'move {staging} to {path}')
    except Exception:
        # Asked once: a store that does not answer has been waited for already.
        with contextlib.suppress(Exception):
            FileSystems.delete([escape(staging)])
        raise


def holds(path: str, parts: Iterable[Any], size: int) -> bool:
    """Whether a file is there with exactly this content.

    Args:
        path: The file.
        parts: Bytes-like objects that stand one after another.
        size: Bytes of all of them.

    Raises:
        StorageError: It cannot be read.
    """
    if size_of(path) != size:
        return False
    with contextlib.closing(Reader(path)) as file:
        at = 0
        for part in parts:
            wanted = memoryview(part).cast('B')
            if file.read(at, len(wanted)) != wanted:
                return False
            at += len(wanted)
    return True


def copy(source: str, target: str, size: int) -> bool:
    """Copies a file, unless its copy is there; a file with other bytes is left as it is.

    What is there counts as the copy if it has the size and is younger than the source, or holds the
    same bytes.

    Args:
        source: The file, on any filesystem.
        target: Where to, on any filesystem.
        size: Bytes of the source.

    Returns:
        Whether anything was sent.

    Raises:
        StorageError: It could not be read or written, or another file has the target's name.
    """
    there = look_up(target)
    if there is not None:
        if there.size_in_bytes != size or not (
            _is_younger(there, look_up(source)) or holds(target, Pieces(source), size)
        ):
            raise StorageError(
                f'{target} is there and is no copy of {source}: it is left as it is; delete it, or '
                'copy to another folder'
            )
        return False
    if {FileSystems.get_scheme(path) for path in (source, target)} == {_COPIES_WHOLE}:
        retried(lambda: FileSystems.copy([source], [target]), f'copy {source} to {target}')
        if (seen := size_of(target)) != size:
            raise StorageError(f'{target}: {seen} bytes, copied from {source}, expected {size}')
    else:
        publish(target, Pieces(source), size)
    return True


def _is_younger(file: Any, other: Any) -> bool:
    return other is not None and bool(file.last_updated_in_seconds > other.last_updated_in_seconds)

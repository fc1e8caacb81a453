"""A store that fails on demand: `fault://` paths over local files, for storage and pipeline tests.

It behaves like an object store: a file appears when it is closed, renames replace, folders are only
prefixes. Faults and the log of calls live in files, so they work across worker processes too; the
`faults` fixture (tests/conftest.py) sets all of that up:

    def test_something(faults):
        faults.add(Fault('close', r'shard', nth=2, error='reset'))  # 2nd close of a shard fails
        with pytest.raises(...):
            write_to(faults.folder + '/out')            # fault:///tmp/.../out
        assert faults.calls('close', r'shard') == [...]  # paths, in order, whole process tree
        faults.clear()                                   # the store is well again; log is emptied
        assert (faults.local / 'out' / 'index.json').exists()

Calls that can fail (`Fault.on`): `create`, `write`, `close` (of a file that is written), `open`,
`read`, `rename` (matched by its target), `list` (matched by the folder), `delete`, `size`
(metadata), `exists`. What can happen is told by the other fields of `Fault`.

A write asks `size` before it sends anything and once after: with no file there, the first one is
answered by `exists` alone, and nth=1 of `size` is the check after the write. Waits between retries
start at `beam_mds.retries._FIRST_WAIT` seconds; the fixture makes them short in this process.
Under `multi_processing` the fixture's environment reaches the workers; their first wait
stays 0.5 s.
"""

from __future__ import annotations

import errno
import fcntl
import io
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from apache_beam.io.filesystem import BeamIOError, FileMetadata
from apache_beam.io.localfilesystem import LocalFileSystem
from google.api_core import exceptions as google

SCHEME = 'fault'

# Names the folder with the rules and the log.
ENVIRONMENT = 'BEAM_MDS_TEST_FAULTS'

# How a process ends that was killed.
KILLED = 9


class Killed(BaseException):
    """Ends a write without ending the process."""


# The path that failed -> the exception.
ERRORS: dict[str, Callable[[str], BaseException]] = {
    '429': google.TooManyRequests,
    '503': google.ServiceUnavailable,
    '403': google.Forbidden,
    '404': google.NotFound,
    'reset': lambda path: ConnectionResetError(errno.ECONNRESET, 'Connection reset by peer', path),
    'timeout': lambda path: TimeoutError(errno.ETIMEDOUT, 'Connection timed out', path),
    'enospc': lambda path: OSError(errno.ENOSPC, 'No space left on device', path),
    'permission': lambda path: PermissionError(errno.EACCES, 'Permission denied', path),
    'crash': lambda path: RuntimeError(f'crashed at {path}'),
    'kill': lambda _: os._exit(KILLED),  # the whole process, and nothing of it cleans up
    'dead': Killed,  # the same, with times=None: no call from there on is done
}


@dataclass(frozen=True)
class Fault:
    """What happens at some calls.

    Attributes:
        on: The call: `create`, `write`, `close`, `open`, `read`, `rename`, `list`, ... (see above);
            empty for any.
        path: Regular expression, searched in the path.
        nth: The first matching call that it happens at, from 1.
        times: At how many calls from there; None for all.
        error: A key of ERRORS; with `.beam` behind it, inside a BeamIOError's details, where Beam
            hides causes; with `.chain`, as the cause of a RuntimeError. None: no exception.
        after: Whether the call is done before it raises (a reply that got lost).
        keep: For `close` and `read`: only so many bytes arrive.
        report: For `size` and `list`: the size that is told; -1 hides the file.
        delay: Seconds to wait first.
    """

    on: str
    path: str = ''
    nth: int = 1
    times: int | None = 1
    error: str | None = None
    after: bool = False
    keep: int | None = None
    report: int | None = None
    delay: float = 0.0

    def exception(self, path: str) -> BaseException:
        name, _, wrapped = (self.error or '').partition('.')
        error = ERRORS[name](path)
        if wrapped == 'beam':
            return BeamIOError(f'{self.on} operation failed', {path: error})
        if wrapped == 'chain':
            outer = RuntimeError(f'{self.on} failed')
            outer.__cause__ = error
            return outer
        return error


class Faults:
    """The test's handle: what fails, and what was called."""

    def __init__(self, state: Path, local: Path) -> None:
        self._state = state
        self.local = local
        self.folder = f'{SCHEME}://{local}'
        self.clear()

    def add(self, *faults: Fault) -> None:
        """Adds faults, also while a pipeline runs."""
        known = _rules(self._state) + list(faults)
        (self._state / 'rules.json').write_text(json.dumps([asdict(fault) for fault in known]))

    def clear(self) -> None:
        """Ends all faults, and empties the log."""
        for file in self._state.iterdir():
            file.unlink()
        (self._state / 'rules.json').write_text('[]')

    def calls(self, on: str = '', path: str = '') -> list[str]:
        """The paths below the folder of the calls so far; without `on`, like `close out/a.mds`."""
        log = self._state / 'log'
        lines = log.read_text().splitlines() if log.exists() else []
        entries = [json.loads(line) for line in lines]
        return [
            target if on else f'{call} {target}'
            for call, target in ((call, self._below(where)) for call, where in entries)
            if on in ('', call) and re.search(path, target)
        ]

    def reads(self, path: str) -> list[tuple[int, int]]:
        """The first byte and the number of bytes of each read of the files so far."""
        log = self._state / 'reads'
        lines = log.read_text().splitlines() if log.exists() else []
        return [
            (start, size)
            for where, start, size in map(json.loads, lines)
            if re.search(path, self._below(where))
        ]

    def files(self, folder: str = '') -> list[str]:
        """What lies below a folder now, sorted."""
        root = self.local / folder
        return sorted(str(p.relative_to(root)) for p in root.rglob('*') if p.is_file())

    def _below(self, path: str) -> str:
        return path.removeprefix(self.folder).lstrip('/')


class FaultyFileSystem(LocalFileSystem):
    """Registered with Beam by being defined: `FileSystems` finds subclasses by their scheme."""

    @classmethod
    def scheme(cls) -> str:
        return SCHEME

    def has_dirs(self) -> bool:
        return False

    def mkdirs(self, path: str) -> None:
        pass  # an object store has no folders

    def join(self, basepath: str, *paths: str) -> str:
        return '/'.join([basepath.rstrip('/'), *paths])

    def split(self, path: str) -> tuple[str, str]:
        head, _, tail = path.rpartition('/')
        return head, tail

    def create(self, path: str, *args: Any, **kwargs: Any) -> Any:
        with _call('create', path):
            return _Writer(path)

    def open(self, path: str, *args: Any, **kwargs: Any) -> Any:
        with _call('open', path):
            return _Reader(path)

    def rename(self, sources: Sequence[str], targets: Sequence[str]) -> None:
        failed = {}
        for source, target in zip(sources, targets, strict=True):
            try:
                with _call('rename', target):
                    os.makedirs(os.path.dirname(_local(target)), exist_ok=True)
                    os.replace(_local(source), _local(target))
            except Exception as error:  # noqa: BLE001 - told in the end, as Beam's stores do
                failed[source, target] = error
        if failed:
            raise BeamIOError('Rename operation failed', failed)

    def copy(self, sources: Sequence[str], targets: Sequence[str]) -> None:
        raise NotImplementedError('nothing copies')

    def exists(self, path: str) -> bool:
        with _call('exists', path):
            return os.path.isfile(_local(path))

    def metadata(self, path: str) -> FileMetadata:
        with _call('size', path) as fault:
            if not os.path.isfile(_local(path)):
                raise BeamIOError('Metadata operation failed', {path: FileNotFoundError(path)})
            size = os.path.getsize(_local(path))
            return FileMetadata(path, size if fault.report is None else fault.report)

    def delete(self, paths: Sequence[str]) -> None:
        failed = {}
        for match in self.match(paths):
            for found in match.metadata_list:
                try:
                    with _call('delete', found.path):
                        os.remove(_local(found.path))
                except Exception as error:  # noqa: BLE001 - told in the end, as Beam's stores do
                    failed[found.path] = error
        if failed:
            raise BeamIOError('Delete operation failed', failed)

    def _list(self, dir_or_prefix: str) -> Iterator[FileMetadata]:
        with _call('list', dir_or_prefix) as fault:
            prefix = _local(dir_or_prefix)
            for folder, _, names in os.walk(os.path.dirname(prefix)):
                for path in (os.path.join(folder, name) for name in names):
                    if path.startswith(prefix) and fault.report != -1:
                        size = os.path.getsize(path) if fault.report is None else fault.report
                        yield FileMetadata(f'{SCHEME}://{path}', size)


class _Writer(io.BytesIO):
    """Nothing is stored before close(), and then all of it."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path

    def write(self, data: Any) -> int:
        with _call('write', self._path):
            return super().write(data)

    def close(self) -> None:
        if self.closed:
            return
        data = self.getvalue()
        super().close()
        with _call('close', self._path) as fault:
            os.makedirs(os.path.dirname(_local(self._path)), exist_ok=True)
            temporary = f'{_local(self._path)}.{os.getpid()}.{id(self)}'
            Path(temporary).write_bytes(data[: fault.keep])
            os.replace(temporary, _local(self._path))


class _Reader(io.BytesIO):
    def __init__(self, path: str) -> None:
        super().__init__(Path(_local(path)).read_bytes())
        self._path = path

    def read(self, size: int | None = -1) -> bytes:
        start = self.tell()
        with _call('read', self._path) as fault:
            data = super().read(size)[: fault.keep]
            self.seek(start + len(data))
            if state := os.environ.get(ENVIRONMENT):  # tests without the fixture keep no log
                with (Path(state) / 'reads').open('a') as log:
                    log.write(json.dumps([self._path, start, len(data)]) + '\n')
            return data

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


class _call:  # noqa: N801 - a context manager that reads like a function
    """One call of the store: logged, delayed, failed before or after it is done."""

    def __init__(self, on: str, path: str) -> None:
        self._path = path
        self._fault = _next_fault(on, path)

    def __enter__(self) -> Fault:
        if self._fault.delay:
            time.sleep(self._fault.delay)
        if self._fault.error and not self._fault.after:
            raise self._fault.exception(self._path)
        return self._fault

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if error is None and self._fault.error:
            raise self._fault.exception(self._path)


def _next_fault(on: str, path: str) -> Fault:
    """Counts this call, and tells what happens at it."""
    state = Path(os.environ[ENVIRONMENT])
    chosen = Fault(on)
    with (state / 'log').open('a') as log:
        fcntl.flock(log, fcntl.LOCK_EX)
        log.write(json.dumps([on, path]) + '\n')
        for number, rule in enumerate(_rules(state)):
            if rule.on not in ('', on) or not re.search(rule.path, path):
                continue
            counter = state / f'{number}.count'
            count = 1 + (int(counter.read_text()) if counter.exists() else 0)
            counter.write_text(str(count))
            if rule.nth <= count and (rule.times is None or count < rule.nth + rule.times):
                chosen = rule
    return chosen


def _rules(state: Path) -> list[Fault]:
    rules = state / 'rules.json'
    return [Fault(**rule) for rule in json.loads(rules.read_text())] if rules.exists() else []


def _local(path: str) -> str:
    return path.removeprefix(f'{SCHEME}://')

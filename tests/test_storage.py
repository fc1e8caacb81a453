from __future__ import annotations

import gc
import os
import uuid
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from beam_mds import OptionError, StorageError, retries, storage
from beam_mds.publishing import publish
from tests.helpers.faulty import Fault, Faults
from tests.helpers.memory import peak_of

# What a glob, a URL or a shell could take for something else.
NASTY = 'ä ß[b]*?#+!^{}%20&=~,;@'

# The emulator's own links do not quote these, so what they name cannot be read there.
UNREADABLE_IN_EMULATOR = '?#%;'

_names = st.text(st.sampled_from('ab.-' + NASTY), min_size=1, max_size=12).filter(
    lambda name: name.strip('.') and not name[-1].isspace() and not name[0].isspace()
)
_quick = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture
def out(faults: Faults) -> str:
    return faults.folder + '/out'


def put(path: str, parts: list[Any]) -> bool:
    return storage.write(path, parts, sum(memoryview(part).nbytes for part in parts))


def get(path: str, start: int, size: int) -> bytes:
    data = np.zeros(size, np.uint8)
    storage.read_into(data, path, start)
    return data.tobytes()


# Paths of any spelling


def _is_readable(path: str) -> bool:
    return not (path.startswith('gs:') and set(UNREADABLE_IN_EMULATOR) & set(path))


@_quick
@given(folder=_names, name=_names, data=st.binary(max_size=100))
@example(folder='a[b]', name='*', data=b'x')
@example(folder='[!a]', name='?', data=b'x')
@example(folder='a[', name=']', data=b'x')
@example(folder='100%', name='a#b+c%20', data=b'x')
def test_a_file_of_any_name_is_written_found_read_and_deleted(
    root: str, folder: str, name: str, data: bytes
) -> None:
    out = f'{root}/{uuid.uuid4().hex}/{folder}'
    path = storage.join(out, name)
    assert storage.size_of(path) is None
    assert put(path, [data])
    assert storage.size_of(path) == len(data)
    if _is_readable(path):
        assert storage.read(path) == data
    assert storage.list_folder(out) == {name: len(data)}
    storage.delete([path])
    assert storage.size_of(path) is None
    assert storage.list_folder(out) == {}


@pytest.mark.parametrize('folder', ['[ab]', 'a*', 'a?', '[!b]', 'a[b]c*', '**', '[', ']', '[]'])
def test_a_sibling_that_a_pattern_could_match_is_neither_listed_nor_deleted(
    root: str, folder: str
) -> None:
    siblings = ['a', 'b', 'aa', 'ab', 'abc', 'abcd', 'a*x', folder + 'x', 'x' + folder]
    for sibling in siblings:
        put(f'{root}/{sibling}/f', [sibling.encode()])
    put(f'{root}/{folder}/f', [b'mine'])
    assert storage.list_folder(f'{root}/{folder}') == {'f': 4}
    storage.delete([f'{root}/{folder}/f'])
    assert storage.list_folder(f'{root}/{folder}') == {}
    assert sorted(storage.list_folder(root)) == sorted({f'{sibling}/f' for sibling in siblings})


@pytest.mark.parametrize('name', ['[ab]', 'a*', 'a?', '*', '**', '[!b]x'])
def test_deleting_a_file_spares_those_that_its_name_would_match_as_a_pattern(
    root: str, name: str
) -> None:
    others = [other for other in ('a', 'b', 'aa', 'ab', 'ax') if other != name]
    for other in [name, *others]:
        put(f'{root}/{other}', [b'x'])
    storage.delete([f'{root}/{name}'])
    assert sorted(storage.list_folder(root)) == sorted(others)


def test_a_listing_goes_down_into_sub_folders_and_names_are_relative(root: str) -> None:
    out = f'{root}/data set'
    for name in ('a', 'sub/b', 'sub/deep er/c[1]', '.hidden/d'):
        put(storage.join(out, name), [name.encode()])
    put(f'{root}/data set 2/z', [b'z'])
    expected = {'a': 1, 'sub/b': 5, 'sub/deep er/c[1]': 16, '.hidden/d': 9}
    assert storage.list_folder(out) == expected


def test_a_folder_that_does_not_exist_is_empty(root: str) -> None:
    assert storage.list_folder(f'{root}/nothing here') == {}


@pytest.mark.parametrize('folder', ['a[b]', 'spill *', 'plain'])
def test_deleting_a_folder_takes_all_that_is_below_and_nothing_beside(
    root: str, folder: str
) -> None:
    for name in ('x', 'sub/y'):
        put(f'{root}/{folder}/{name}', [b'x'])
    for sibling in ('ab', 'spill 2', folder + '2'):
        put(f'{root}/{sibling}/x', [b'x'])
    storage.delete_folder(f'{root}/{folder}')
    storage.delete_folder(f'{root}/{folder}')  # gone already
    assert sorted(storage.list_folder(root)) == sorted({'ab/x', 'spill 2/x', folder + '2/x'})


def test_deleting_what_is_gone_or_nothing_is_fine(root: str) -> None:
    put(f'{root}/a', [b'x'])
    storage.delete([])
    storage.delete([f'{root}/none', f'{root}/a'])
    assert storage.list_folder(root) == {}


# Reading and writing


@given(data=st.binary(min_size=1, max_size=200), bounds=st.tuples(st.integers(), st.integers()))
@_quick
def test_a_range_of_a_file_is_read(root: str, data: bytes, bounds: tuple[int, int]) -> None:
    start, end = sorted(bound % (len(data) + 1) for bound in bounds)
    path = f'{root}/{uuid.uuid4().hex}'
    put(path, [data])
    assert get(path, start, end - start) == data[start:end]


def test_a_file_that_ends_too_early_is_an_error_with_its_name(root: str) -> None:
    path = f'{root}/short'
    put(path, [b'12345'])
    with pytest.raises(StorageError, match=r'short: 2 bytes from byte 3, expected 4'):
        get(path, 3, 4)


def test_reading_a_missing_file_is_an_error_with_its_name(root: str) -> None:
    with pytest.raises(StorageError, match=r'could not read .*/missing\.bin') as caught:
        storage.read(f'{root}/missing.bin')
    assert caught.value.__cause__ is not None


def test_parts_of_any_buffer_type_stand_one_after_another(root: str) -> None:
    parts = [b'a', bytearray(b'bc'), memoryview(b'de'), np.frombuffer(b'fg', '<u2'), b'']
    put(f'{root}/f', parts)
    assert storage.read(f'{root}/f') == b'abcdefg'


def test_suffixes_of_compressed_files_do_not_make_beam_compress(root: str) -> None:
    for suffix in ('gz', 'bz2', 'zstd', 'zst', 'deflate', 'lzma'):
        path = f'{root}/shard.mds.{suffix}'
        put(path, [b'as it is'])
        assert storage.size_of(path) == 8
        assert storage.read(path) == b'as it is'


def test_a_file_that_is_there_with_its_size_is_not_sent_again(faults: Faults, out: str) -> None:
    assert put(f'{out}/f', [b'12', b'3'])
    assert not put(f'{out}/f', [b'123'])
    assert faults.calls('create') == ['out/f']


def test_a_file_that_is_there_with_another_size_is_written_over(faults: Faults, out: str) -> None:
    put(f'{out}/f', [b'1'])
    assert put(f'{out}/f', [b'123'])
    assert storage.read(f'{out}/f') == b'123'


# Finding and reading in pieces


def test_folders_are_found_by_a_file_of_exactly_that_name(root: str) -> None:
    names = ['index.json', 'a/index.json', 'a[b]/c d/index.json', '.x/index.json']
    others = ['my-index.json', 'b/my-index.json', 'b/index.json.bak', 'metadata.json']
    for name in [*names, *others]:
        put(f'{root}/out *[/{name}', [b'x'])
    put(f'{root}/out 2/index.json', [b'x'])
    assert sorted(storage.find(f'{root}/out *[', 'index.json')) == ['', '.x', 'a', 'a[b]/c d']
    assert storage.find(f'{root}/none', 'index.json') == []


@pytest.mark.parametrize('size', [0, 1, 9, 10, 11, 25, 30])
def test_the_pieces_of_a_file_are_all_of_it_each_time(
    root: str, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(storage, '_PIECE', 10)
    data = bytes(range(size))
    put(f'{root}/f', [data])
    pieces = storage.Pieces(f'{root}/f')
    for _ in range(2):
        found = list(pieces)
        assert b''.join(found) == data
        assert all(0 < len(piece) <= 10 for piece in found)


# Faults

_CALLS: dict[str, Callable[[str], object]] = {
    'create': lambda out: put(f'{out}/new', [b'data']),
    'write': lambda out: put(f'{out}/new', [b'data']),
    'close': lambda out: put(f'{out}/new', [b'data']),
    'exists': lambda out: storage.size_of(f'{out}/new'),
    'size': lambda out: storage.size_of(f'{out}/old'),
    'open': lambda out: storage.read(f'{out}/old'),
    'read': lambda out: get(f'{out}/old', 1, 2),
    'list': storage.list_folder,
    'delete': lambda out: storage.delete([f'{out}/old']),
    'rename': lambda out: publish(f'{out}/new', [b'data'], 4),
}


@pytest.mark.parametrize('error', ['429', '503', 'reset', 'timeout', '429.beam', 'reset.chain'])
@pytest.mark.parametrize('call', _CALLS)
def test_a_store_that_is_busy_or_breaks_off_is_asked_again(
    faults: Faults, out: str, call: str, error: str
) -> None:
    put(f'{out}/old', [b'data'])
    undisturbed = _CALLS[call](out)
    faults.clear()
    put(f'{out}/old', [b'data'])
    storage.delete([f'{out}/new'])
    faults.clear()
    faults.add(Fault(call, error=error, times=2))
    result = _CALLS[call](out)
    assert str(result) == str(undisturbed)
    assert len(faults.calls(call)) >= 3
    if call in ('create', 'write', 'close', 'rename'):
        assert storage.read(f'{out}/new') == b'data'


@pytest.mark.parametrize(
    'error', ['permission', '403', '403.beam', 'enospc', 'crash', 'enospc.chain']
)
@pytest.mark.parametrize('call', _CALLS)
def test_other_errors_fail_at_once_and_name_the_path_and_the_cause(
    faults: Faults, out: str, call: str, error: str
) -> None:
    put(f'{out}/old', [b'data'])
    faults.clear()
    faults.add(Fault(call, error=error, times=None))
    with pytest.raises(StorageError, match=f'could not .*{out}') as caught:
        _CALLS[call](out)
    assert len(faults.calls(call)) <= 2  # a delete that fails looks at what is left, with `size`
    assert caught.value.__cause__ is not None
    assert type(caught.value.__cause__).__name__ in str(caught.value)
    assert isinstance(caught.value, OSError)
    assert isinstance(caught.value, ValueError)


def test_a_failed_close_leaves_no_file_under_the_name(faults: Faults, out: str) -> None:
    faults.add(Fault('close', error='enospc', times=None))
    with pytest.raises(StorageError, match=r'could not write .*No space left on device'):
        put(f'{out}/f', [b'data'])
    assert faults.files() == []


def test_waits_grow_are_jittered_and_end(
    faults: Faults, out: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    monkeypatch.setattr('time.sleep', lambda seconds: waits.append(seconds) if seconds else None)
    monkeypatch.setattr(retries, '_FIRST_WAIT', 0.5)
    monkeypatch.setattr(retries, '_LONGEST_WAIT', 20.0)
    monkeypatch.setattr(retries, '_GIVE_UP_AFTER', 180.0)
    faults.add(Fault('create', error='503', times=8))
    put(f'{out}/f', [b'data'])
    assert len(waits) == 8
    assert max(waits) > 2
    assert max(waits) <= 40
    assert len({round(wait, 6) for wait in waits}) == 8

    monkeypatch.setattr(retries, '_GIVE_UP_AFTER', 0.0)
    faults.add(Fault('create', 'never', error='503', times=None))
    with pytest.raises(StorageError, match=r'could not write .*never'):
        put(f'{out}/never', [b'data'])


@pytest.mark.parametrize('fault', [Fault('size', report=0), Fault('close', keep=3)], ids=str)
def test_a_wrong_size_after_a_good_write_is_written_again(
    faults: Faults, out: str, fault: Fault
) -> None:
    # Before there is a file, the first look asks `size` too, in vain.
    nth = 2 if fault.on == 'size' else 1
    faults.add(Fault(fault.on, nth=nth, report=fault.report, keep=fault.keep))
    assert put(f'{out}/f', [b'data'])
    assert faults.calls('close') == ['out/f'] * 2
    assert storage.read(f'{out}/f') == b'data'


def test_a_size_that_stays_wrong_is_a_clear_error(faults: Faults, out: str) -> None:
    faults.add(Fault('size', report=0, times=None))
    with pytest.raises(StorageError) as caught:
        put(f'{out}/f', [b'data'])
    assert str(caught.value) == (
        f'{out}/f: wrote 4 bytes, the store reports 0, also after 3 attempts'
    )


def test_a_short_read_is_never_taken_for_the_range(faults: Faults, out: str) -> None:
    put(f'{out}/f', [b'0123456789'])
    faults.add(Fault('read', keep=2, times=1), Fault('read', nth=2, keep=0, times=None))
    with pytest.raises(StorageError, match='f: 2 bytes from byte 1, expected 5'):
        get(f'{out}/f', 1, 5)


def test_a_range_that_arrives_in_pieces_is_whole(faults: Faults, out: str) -> None:
    put(f'{out}/f', [b'0123456789'])
    faults.add(Fault('read', keep=2, times=None))
    assert get(f'{out}/f', 1, 5) == b'12345'


def test_more_than_a_file_has_is_not_allocated(tmp_path: Path) -> None:
    put(f'{tmp_path}/f', [b'0123456789'])
    file = storage.Reader(f'{tmp_path}/f')
    assert peak_of(lambda: file.read(0, 1 << 30)) < 16 << 20
    assert file.read(2, 1 << 30) == b'23456789'
    file.close()


# Paths as options


def test_a_path_may_be_str_or_pathlike_and_relative(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for given_path in ('a/b', 'a/b/', './a/../a/b', Path('a/b'), tmp_path / 'a' / 'b'):
        assert storage.absolute(given_path) == str(tmp_path / 'a' / 'b')
    assert storage.absolute('~/a') == os.path.expanduser('~/a')


def test_a_remote_path_loses_only_trailing_slashes() -> None:
    assert storage.absolute('gs://bucket/a b//') == 'gs://bucket/a b'
    assert storage.absolute('gs://bucket') == 'gs://bucket'


@pytest.mark.parametrize('path', [b'a', b'', '', '  ', None, 3, ['a']])
def test_what_is_no_path_is_refused(path: object) -> None:
    with pytest.raises(OptionError, match=r'out must be a path as str or os\.PathLike, got'):
        storage.absolute(path)  # type: ignore[arg-type]


def test_an_unknown_scheme_is_refused_with_the_option_named() -> None:
    with pytest.raises(OptionError, match="spill='nope://b/x': Beam has no filesystem for it"):
        storage.absolute('nope://b/x', 'spill')


def test_a_write_leaves_nothing_for_the_garbage_collector_that_holds_on_to_its_bytes(
    tmp_path: Path,
) -> None:
    data = np.zeros(1 << 20, np.uint8)
    held = weakref.ref(data)
    gc.collect()
    gc.disable()
    try:
        storage.write(str(tmp_path / 'file'), [data], data.nbytes)
        del data
        assert held() is None
    finally:
        gc.enable()

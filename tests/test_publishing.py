from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from beam_mds import StorageError, TargetError, publishing, storage
from beam_mds.publishing import STAGED, copy, holds
from tests.helpers.faulty import Fault, Faults

# When files of these tests were made; seconds.
EARLIER, LATER = 1_000_000_000, 1_100_000_000


@pytest.fixture
def out(faults: Faults) -> str:
    return faults.folder + '/out'


def put(path: str, data: bytes) -> None:
    storage.write(path, [data], len(data))


def publish(path: str, data: bytes, **how: Any) -> None:
    publishing.publish(path, [data], len(data), **how)


def test_publishing_replaces_the_file_and_leaves_nothing_beside(root: str) -> None:
    path = f'{root}/a [1]/index.json'
    for data in (b'one', b'one', b'another'):  # twice on purpose
        publish(path, data)
        assert storage.list_folder(root) == {'a [1]/index.json': len(data)}
        assert storage.read(path) == data


def test_a_file_is_published_by_one_move_and_not_written_in_place(faults: Faults, out: str) -> None:
    publish(f'{out}/index.json', b'data')
    (staging,) = faults.calls('create')
    assert staging.startswith(f'out/{STAGED}')
    assert faults.calls('rename') == ['out/index.json']


def test_what_is_published_may_come_in_parts_that_are_made_anew_for_each_attempt(
    faults: Faults, out: str
) -> None:
    class Parts:
        def __iter__(self) -> Iterator[bytes]:
            yield from (b'on', b'', b'e')

    faults.add(Fault('create', error='503'), Fault('rename', error='503', after=True))
    publishing.publish(f'{out}/f', Parts(), 3)
    assert storage.read(f'{out}/f') == b'one'
    assert faults.files('out') == ['f']


@pytest.mark.parametrize('error', ['503', '503.beam', 'reset.chain'])
def test_a_move_whose_reply_is_lost_counts_as_done(faults: Faults, out: str, error: str) -> None:
    faults.add(Fault('rename', error=error, after=True))
    publish(f'{out}/index.json', b'data')
    assert faults.files('out') == ['index.json']
    assert storage.read(f'{out}/index.json') == b'data'
    assert len(faults.calls()) < 20  # the check of the target is not taken for a busy store


def test_a_move_that_fails_for_good_leaves_the_old_file_alone(faults: Faults, out: str) -> None:
    publish(f'{out}/index.json', b'old!')
    faults.add(Fault('rename', error='permission', times=None))
    with pytest.raises(StorageError, match=rf'could not move .*{STAGED}.* to .*index\.json'):
        publish(f'{out}/index.json', b'new!')
    assert faults.files('out') == ['index.json']
    assert storage.read(f'{out}/index.json') == b'old!'


def test_a_check_that_raises_leaves_the_old_file_alone(faults: Faults, out: str) -> None:
    def check() -> None:
        assert len(faults.files('out')) == 2  # all but the move is done
        raise TargetError('changed')

    publish(f'{out}/index.json', b'old!')
    with pytest.raises(TargetError, match='changed'):
        publish(f'{out}/index.json', b'new!', check=check)
    assert faults.files('out') == ['index.json']
    assert storage.read(f'{out}/index.json') == b'old!'


def test_a_staged_file_that_cannot_be_removed_hides_no_error(faults: Faults, out: str) -> None:
    faults.add(Fault('rename', error='permission', times=None), Fault('delete', error='crash'))
    with pytest.raises(StorageError, match=r'could not move .*PermissionError'):
        publish(f'{out}/index.json', b'new!')


def test_a_move_whose_source_vanished_is_no_success_when_the_target_is_another(
    faults: Faults, out: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(f'{out}/index.json', b'old!')
    monkeypatch.setattr(publishing, 'write', lambda *arguments: True)  # somebody took the source
    with pytest.raises(StorageError, match='could not move'):
        publish(f'{out}/index.json', b'new!')
    assert storage.read(f'{out}/index.json') == b'old!'


@pytest.mark.parametrize(
    ('parts', 'same'),
    [
        ([b'0123', b'', b'456789'], True),
        ([np.frombuffer(b'0123456789', '<u2')], True),
        ([b'0123456788', b''], False),
        ([b'1', b'123456789'], False),
        ([b'012345678'], False),
        ([b'0123456789', b'0'], False),
    ],
    ids=str,
)
def test_a_file_holds_these_bytes_and_no_others(root: str, parts: list[Any], same: bool) -> None:
    put(f'{root}/f', b'0123456789')
    assert holds(f'{root}/f', parts, sum(memoryview(part).nbytes for part in parts)) == same


def test_no_file_holds_nothing(root: str) -> None:
    assert not holds(f'{root}/f', [], 0)


def test_a_copy_is_there_whole_and_is_sent_once(root: str) -> None:
    put(f'{root}/a [1]/f', b'data')
    assert copy(f'{root}/a [1]/f', f'{root}/b/f', 4)
    assert not copy(f'{root}/a [1]/f', f'{root}/b/f', 4)
    assert storage.read(f'{root}/b/f') == b'data'
    assert sorted(storage.list_folder(root)) == ['a [1]/f', 'b/f']


def test_a_copy_goes_from_store_to_store(tmp_path: Path, gcs_bucket: str, faults: Faults) -> None:
    put(f'{tmp_path}/0', b'data')
    hops = [f'{tmp_path}/0', f'{gcs_bucket}/1', f'{gcs_bucket}/2', f'{faults.folder}/3']
    hops += [f'{faults.folder}/4', f'{tmp_path}/5']
    for source, target in itertools.pairwise(hops):
        assert copy(source, target, 4)
        assert storage.read(target) == b'data'


def test_files_do_not_leave_a_store_that_copies_itself(
    gcs_bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(f'{gcs_bucket}/f', b'data')
    monkeypatch.setattr(storage, 'Reader', None)
    assert copy(f'{gcs_bucket}/f', f'{gcs_bucket}/g', 4)
    assert storage.size_of(f'{gcs_bucket}/g') == 4


def test_a_copy_arrives_in_pieces_and_under_its_name_only_when_whole(
    faults: Faults, out: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, '_PIECE', 10)
    put(f'{out}/f', bytes(range(25)))
    faults.clear()
    faults.add(Fault('write', nth=3, error='crash'))
    with pytest.raises(StorageError, match='crashed'):
        copy(f'{out}/f', f'{out}/g', 25)
    assert len(faults.calls('write')) == 3
    assert faults.files('out') == ['f']
    copy(f'{out}/f', f'{out}/g', 25)
    assert storage.read(f'{out}/g') == bytes(range(25))


@pytest.mark.parametrize('other', [b'DATA', b'data2', b''])
def test_another_file_under_the_name_of_a_copy_is_an_error_and_stays(
    tmp_path: Path, other: bytes
) -> None:
    source, target = tmp_path / 'f', tmp_path / 'g'
    source.write_bytes(b'data')
    target.write_bytes(other)
    os.utime(target, (EARLIER, EARLIER))
    with pytest.raises(StorageError, match=f'{target} is there and is no copy of {source}'):
        copy(str(source), str(target), 4)
    assert target.read_bytes() == other


def test_an_older_file_with_the_same_bytes_is_the_copy(tmp_path: Path) -> None:
    source, target = tmp_path / 'f', tmp_path / 'g'
    for file in (source, target):
        file.write_bytes(b'data')
    os.utime(target, (EARLIER, EARLIER))
    assert not copy(str(source), str(target), 4)


def test_a_younger_file_of_the_same_size_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = tmp_path / 'f', tmp_path / 'g'
    for file, time in ((source, EARLIER), (target, LATER)):
        file.write_bytes(b'data')
        os.utime(file, (time, time))
    monkeypatch.setattr(publishing, 'Reader', None)
    assert not copy(str(source), str(target), 4)


def test_a_copy_of_a_file_that_is_shorter_than_told_is_an_error(
    root: str, short_waits: None
) -> None:
    put(f'{root}/f', b'dat')
    with pytest.raises(StorageError, match='3'):
        copy(f'{root}/f', f'{root}/g', 4)

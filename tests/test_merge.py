"""Indexes become one: what it lists, in which order, and what is refused before it is written."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from google.cloud import storage as gcs

from beam_mds import (
    DamagedError,
    EmptyInputError,
    FormatError,
    MergedIndex,
    MergeError,
    TargetError,
    merge_indexes,
    storage,
)
from beam_mds.format.index import dump_entries
from tests.helpers.faulty import Faults
from tests.helpers.merging import dataset, files, listed, put, texts
from tests.helpers.writing import batch, read, samples, write


def without_index(folder: str | Path) -> dict[str, bytes]:
    return {name: data for name, data in files(folder).items() if name != 'index.json'}


# What is merged


@pytest.mark.parametrize('slash', ['', '/'])
def test_shards_at_any_depth_below_the_index_are_listed_by_their_path_and_readable(
    root: str, slash: str
) -> None:
    dataset(root, ['0'])
    dataset(f'{root}/a', ['1', '2'], ['3'])
    dataset(f'{root}/x/y z/ß[1]', ['4'], below='deep')
    before = without_index(root)

    merged = merge_indexes(root + slash)

    assert merged == MergedIndex(f'{root}/index.json', 3, 4, 5, changed=True)
    assert texts(root) == ['0', '1', '2', '3', '4']
    assert listed(root) == [
        'shard.00000.mds',
        'a/shard.00000.mds',
        'a/shard.00001.mds',
        'x/y z/ß[1]/deep/shard.00000.mds',
    ]
    assert without_index(root) == before


def test_merging_again_changes_nothing_and_sends_nothing(root: str) -> None:
    dataset(root, ['0'])
    for part in ('a/part0', 'b/part0', 'b/part0/below'):
        dataset(f'{root}/{part}', [part])
    merged = merge_indexes(root)
    before = files(root)

    assert merge_indexes(root) == merged._replace(changed=False)
    assert merge_indexes(root, [f'{root}/**', root]) == merged._replace(changed=False)
    assert files(root) == before
    assert texts(root) == ['0', 'a/part0', 'b/part0', 'b/part0/below']


def test_a_second_merge_creates_no_file(faults: Faults) -> None:
    out = f'{faults.folder}/out'
    for part in ('a', 'b'):
        dataset(f'{out}/{part}', [part])
    merge_indexes(out)
    faults.clear()
    merge_indexes(out)
    assert faults.calls('create') == faults.calls('rename') == []


def test_parts_are_folders_indexes_or_globs(root: str) -> None:
    for part in ('a-1', 'a-2', 'b', 'c', 'd'):
        dataset(f'{root}/{part}', [part])

    merge_indexes(root, [f'{root}/a-*', f'{root}/b/', f'{root}/c/index.json', f'{root}/?-1'])

    assert texts(root) == ['a-1', 'a-2', 'b', 'c']
    merge_indexes(root, f'{root}/*/index.json', if_exists='overwrite')
    assert texts(root) == ['a-1', 'a-2', 'b', 'c', 'd']


def test_the_index_can_lie_far_above_the_parts(root: str) -> None:
    dataset(f'{root}/x/y/a', ['a'])
    dataset(f'{root}/x/z', ['z'])

    merge_indexes(root, [f'{root}/x/z', f'{root}/x/y/a'])

    assert listed(root) == ['x/y/a/shard.00000.mds', 'x/z/shard.00000.mds']


def test_only_files_named_exactly_index_json_count(root: str) -> None:
    dataset(f'{root}/a', ['a'])
    for name in ('metadata.json', 'my-index.json', 'index.json.bak', 'INDEX.JSON', '_index.json'):
        put(f'{root}/{name}', b'no index')
        put(f'{root}/a/{name}', b'no index')
        put(f'{root}/b/{name}', b'no index')

    assert merge_indexes(root).parts == 1
    assert merge_indexes(root, f'{root}/**').parts == 1


def test_parts_are_in_the_order_of_their_numbers_and_shards_stay_in_that_of_their_part(
    tmp_path: Path,
) -> None:
    for part in (11, 3, 0, 10, 7, 5, 1, 2, 9, 4, 8, 6):
        dataset(tmp_path / f'part-{part}', *[[f'{part} {shard}'] for shard in range(9, -1, -1)])

    merge_indexes(tmp_path)

    assert texts(tmp_path) == [f'{part} {n}' for part in range(12) for n in range(9, -1, -1)]
    assert len(listed(tmp_path)) == 120


def test_parts_in_folders_are_in_the_order_of_the_folders(tmp_path: Path) -> None:
    names = [
        '2024-9/b',
        '2024-9/b/1',
        '2024-9/b-1',
        '2024-10/a',
        '2024-10/b2',
        '2024-10/b010',
        '2024-10/b10',
    ]
    for name in names:
        dataset(tmp_path / name, [name])

    merge_indexes(tmp_path)

    assert texts(tmp_path) == names


def test_the_merged_index_of_splits_is_the_one_that_the_write_made(tmp_path: Path) -> None:
    rows = samples(300)
    write([batch(rows)], tmp_path, split='name', size_limit=2000, hashes=['sha1'])
    wanted = (tmp_path / 'index.json').read_bytes()

    assert merge_indexes(tmp_path) == MergedIndex(
        f'{tmp_path}/index.json', 7, len(listed(tmp_path)), 300, changed=False
    )
    (tmp_path / 'index.json').unlink()
    merge_indexes(tmp_path)

    assert (tmp_path / 'index.json').read_bytes() == wanted
    assert read(tmp_path) == rows


def test_compression_hashes_and_size_limits_may_differ(tmp_path: Path) -> None:
    dataset(tmp_path / 'a', ['a'])
    dataset(tmp_path / 'b', ['b'], compression='zstd', hashes=('md5', 'sha1'))
    dataset(tmp_path / 'c', ['c'], compression='gz')
    write([{'text': 'd'}], tmp_path / 'd', {'text': 'str'}, size_limit='1kb')

    merge_indexes(tmp_path)

    assert texts(tmp_path) == ['a', 'b', 'c', 'd']


def test_fields_that_we_do_not_know_stay_in_the_index(tmp_path: Path) -> None:
    dataset(tmp_path / 'a', ['a'])
    index = json.loads((tmp_path / 'a' / 'index.json').read_text())
    index['shards'][0]['note'] = 'ä'
    (tmp_path / 'a' / 'index.json').write_text(json.dumps(index, indent=2, ensure_ascii=False))

    merge_indexes(tmp_path)

    index['shards'][0]['raw_data']['basename'] = 'a/shard.00000.mds'
    assert (tmp_path / 'index.json').read_bytes() == dump_entries(index['shards'])


# Parts above parts


def test_a_shard_that_an_index_and_one_below_it_list_is_listed_once_where_the_lower_one_is(
    tmp_path: Path,
) -> None:
    for part in ('a/10', 'a/9', 'b'):
        dataset(tmp_path / part, [f'{part}, 0'], [f'{part}, 1'])
    merge_indexes(tmp_path / 'a')
    put(tmp_path / 'a' / 'own.mds', b'')
    dataset(tmp_path / 'a' / '5', ['a/5'])  # was not there when a was merged

    merged = merge_indexes(tmp_path)

    assert merged.parts == 4  # a only lists what is in others
    assert texts(tmp_path) == ['a/5', 'a/9, 0', 'a/9, 1', 'a/10, 0', 'a/10, 1', 'b, 0', 'b, 1']


def test_an_index_above_others_gives_the_shards_that_none_below_it_lists(root: str) -> None:
    dataset(root, ['0'], ['1'])
    dataset(f'{root}/a', ['a'])
    dataset(f'{root}/b', ['b'])
    merge_indexes(root)
    storage.delete([f'{root}/b/index.json'])
    dataset(f'{root}/c', ['c'])

    merged = merge_indexes(root)

    assert merged.parts == 4  # the index above is the only one that tells of b
    assert texts(root) == ['0', '1', 'a', 'b', 'c']
    assert merge_indexes(root) == merged._replace(changed=False)


def test_indexes_may_lie_above_indexes_above_others(tmp_path: Path) -> None:
    for part in ('x/y/a', 'x/y/b', 'z'):
        dataset(tmp_path / part, [part])
    for folder in ('x/y', 'x', '.'):
        merge_indexes(tmp_path / folder)
    (tmp_path / 'x/y/b/index.json').unlink()
    (tmp_path / 'index.json').unlink()

    assert merge_indexes(tmp_path).parts == 3

    assert texts(tmp_path) == ['x/y/a', 'x/y/b', 'z']


@pytest.mark.parametrize(
    ('own', 'listings'),
    [(['0'], ['out/', 'out/', 'out/c/']), ([], ['out/', 'out/a/', 'out/b/', 'out/c/'])],
)
def test_files_that_only_an_index_above_lists_are_looked_up_by_one_listing_each(
    own: list[str], listings: list[str], faults: Faults
) -> None:
    out = f'{faults.folder}/out'
    dataset(out, *filter(None, [own]))
    for part in ('a', 'b'):
        dataset(f'{out}/{part}', [part])
    merge_indexes(out)
    storage.delete([f'{out}/a/index.json', f'{out}/b/index.json'])
    dataset(f'{out}/c', ['c'])
    faults.clear()

    merge_indexes(out)

    assert sorted(faults.calls('list')) == listings
    assert texts(out) == [*own, 'a', 'b', 'c']


def test_explicit_parts_above_others_count_once_too(tmp_path: Path) -> None:
    for part in ('x/a', 'x/b'):
        dataset(tmp_path / part, [part])
    merge_indexes(tmp_path / 'x')
    given = [tmp_path / 'x' / 'b', tmp_path / 'x', tmp_path / 'x' / 'a']

    assert merge_indexes(tmp_path, given).parts == 2
    assert texts(tmp_path) == ['x/a', 'x/b']

    # What is not given does not count.
    merge_indexes(tmp_path, tmp_path / 'x', if_exists='overwrite')
    assert texts(tmp_path) == ['x/a', 'x/b']


def test_shards_of_a_part_that_is_gone_or_was_written_anew_are_dropped_with_a_warning(
    root: str, caplog: pytest.LogCaptureFixture
) -> None:
    for part in ('a', 'b', 'x/c', 'x/d'):
        dataset(f'{root}/{part}', [f'{part}, 0'], [f'{part}, 1'])
    merge_indexes(f'{root}/x')
    merge_indexes(root)
    storage.delete_folder(f'{root}/a')
    for part in ('b', 'x/c'):
        storage.delete_folder(f'{root}/{part}')
        dataset(f'{root}/{part}', [f'{part}, new'])

    merge_indexes(root)

    assert texts(root) == ['b, new', 'x/c, new', 'x/d, 0', 'x/d, 1']
    messages = [record.getMessage() for record in caplog.records if 'gone' in record.msg]
    said = 'index.json: {} shards that it listed are gone, and so not in the merged index: {}'
    gone = 'a/shard.00000.mds, a/shard.00001.mds, b/shard.00001.mds, x/c/shard.00001.mds'
    assert messages == [
        f'{root}/x/{said.format(1, "c/shard.00001.mds")}',
        f'{root}/{said.format(4, gone)}',
    ]


def test_a_shard_in_the_folder_of_a_part_that_does_not_list_it_is_an_error(
    tmp_path: Path,
) -> None:
    dataset(tmp_path / 'a', ['0'], ['1'])
    merge_indexes(tmp_path)
    dataset(tmp_path / 'a', ['new'])  # its second shard stays
    before = files(tmp_path)

    with pytest.raises(MergeError) as caught:
        merge_indexes(tmp_path)

    assert str(caught.value) == (
        f'{tmp_path}/index.json lists a/shard.00001.mds, and {tmp_path}/a/index.json, which has '
        'that folder, does not: one of them is out of date, so no index was written; name the '
        "parts to be merged, or leave out the index that is wrong (that of out: if_exists='"
        "overwrite', --overwrite)"
    )
    assert files(tmp_path) == before
    merge_indexes(tmp_path, if_exists='overwrite')
    assert texts(tmp_path) == ['new']


# The index that is there


def test_shards_of_the_index_that_is_there_are_not_lost(tmp_path: Path) -> None:
    for part in ('a', 'b'):
        dataset(tmp_path / part, [part])
    merge_indexes(tmp_path)
    before = files(tmp_path)

    with pytest.raises(TargetError) as caught:
        merge_indexes(tmp_path, tmp_path / 'a')

    assert str(caught.value) == (
        f'{tmp_path}/index.json lists 1 shards that no given part lists, like b/shard.00000.mds: '
        f'they would be lost; give {tmp_path} as a part too, or drop them with '
        "if_exists='overwrite' (--overwrite)"
    )
    assert files(tmp_path) == before
    assert not merge_indexes(tmp_path, [tmp_path, tmp_path / 'a']).changed
    assert merge_indexes(tmp_path, tmp_path / 'a', if_exists='overwrite').changed
    assert texts(tmp_path) == ['a']


def test_explicit_parts_replace_an_index_of_which_they_list_all(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for part in ('a', 'b', 'c'):
        dataset(tmp_path / part, [part])
    merge_indexes(tmp_path, [tmp_path / 'a', tmp_path / 'b'])
    storage.delete_folder(str(tmp_path / 'b'))

    merge_indexes(tmp_path, [tmp_path / 'a', tmp_path / 'c'])

    assert texts(tmp_path) == ['a', 'c']
    assert 'b/shard.00000.mds' in caplog.text


def test_overwrite_without_parts_takes_those_below_only(tmp_path: Path) -> None:
    dataset(tmp_path, ['0'])
    dataset(tmp_path / 'a', ['a'])

    assert merge_indexes(tmp_path, if_exists='overwrite').parts == 1

    assert texts(tmp_path) == ['a']
    storage.delete_folder(str(tmp_path / 'a'))
    with pytest.raises(EmptyInputError, match=r'no part has an index\.json at or below'):
        merge_indexes(tmp_path, if_exists='overwrite')


def test_overwrite_replaces_what_is_no_index(tmp_path: Path) -> None:
    dataset(tmp_path / 'a', ['a'])
    for parts in (None, tmp_path / 'a'):
        put(tmp_path / 'index.json', b'{}')
        with pytest.raises(FormatError, match=f'^{tmp_path}/index.json: no MDS index: it has no'):
            merge_indexes(tmp_path, parts)
        merge_indexes(tmp_path, parts, if_exists='overwrite')
        assert texts(tmp_path) == ['a']


def test_an_index_that_appears_or_changes_during_the_merge_is_left_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset(tmp_path / 'a', ['a'])
    index = tmp_path / 'index.json'
    write_file = storage.write

    def write_meanwhile(path: str, *arguments: Any) -> bool:
        put_file = write_file(path, *arguments)
        index.write_bytes(b'other')
        return put_file

    for there in (None, b'before'):
        if there is not None:
            index.write_bytes(there)
        with monkeypatch.context() as patch:
            patch.setattr('beam_mds.publishing.write', write_meanwhile)
            with pytest.raises(TargetError, match=f'{index} appeared or changed during the merge'):
                merge_indexes(tmp_path, if_exists='overwrite')
        assert index.read_bytes() == b'other'
    assert sorted(files(tmp_path)) == ['a/index.json', 'a/shard.00000.mds', 'index.json']


# What is refused; nothing is written then


def assert_refused(kind: type[Exception], out: str | Path, *arguments: Any, **how: Any) -> str:
    before = files(out)
    with pytest.raises(kind) as caught:
        merge_indexes(out, *arguments, **how)
    assert files(out) == before
    return str(caught.value)


def test_parts_with_different_columns_are_an_error_that_shows_both(tmp_path: Path) -> None:
    dataset(tmp_path / 'a', ['a'], columns={'text': 'str', 'label': 'uint8'})
    dataset(tmp_path / 'b', ['b'], columns={'text': 'str', 'label': 'uint8'})
    for columns in ({'text': 'str', 'label': 'int32'}, {'text': 'str'}, {'test': 'str'}):
        dataset(tmp_path / 'c', ['c'], columns=columns)
        assert assert_refused(MergeError, tmp_path) == (
            'different columns cannot be read as one dataset, so no index was written:\n'
            f'  {tmp_path}/a/index.json: label uint8, text str\n'
            f'  {tmp_path}/c/index.json: '
            + ', '.join(f'{k} {v}' for k, v in sorted(columns.items()))
        )


def test_a_merge_that_refuses_a_part_waits_for_its_threads(tmp_path: Path) -> None:
    for part in range(20):
        dataset(tmp_path / f'{part}', ['a'], columns={'a': 'str' if part else 'bytes'})
    before = set(threading.enumerate())
    with pytest.raises(MergeError) as caught:
        merge_indexes(tmp_path)
    assert set(threading.enumerate()) <= before  # while the error holds on to all frames
    del caught


def test_long_columns_are_cut_in_the_error_about_them(tmp_path: Path) -> None:
    dataset(tmp_path / 'a', ['a'], columns={'x' * 9999: 'str'})
    dataset(tmp_path / 'b', ['b'], columns={'y' * 9999: 'str'})
    message = assert_refused(MergeError, tmp_path)
    assert 1000 < len(message) < 1500
    assert 'b/index.json: yyy' in message


def test_a_part_whose_own_shards_have_different_columns_is_an_error(tmp_path: Path) -> None:
    entries = []
    for part, columns in (('a', {'text': 'str'}), ('b', {'text': 'str', 'label': 'int'})):
        dataset(tmp_path / part, [part], columns=columns)
        (entry,) = json.loads((tmp_path / part / 'index.json').read_text())['shards']
        entry['raw_data']['basename'] = f'{part}/{entry["raw_data"]["basename"]}'
        entries.append(entry)
    put(tmp_path / 'index.json', dump_entries(entries))
    assert assert_refused(MergeError, tmp_path, tmp_path).splitlines()[1:] == [
        f'  {tmp_path}/index.json: text str',
        f'  {tmp_path}/index.json: label int, text str',
    ]


def test_of_large_column_tables_only_what_differs_is_shown(tmp_path: Path) -> None:
    columns = {f'c{number}': 'int' for number in range(30)}
    dataset(tmp_path / 'a', ['a'], columns={**columns, 'more': 'str'})
    dataset(tmp_path / 'b', ['b'], columns={**columns, 'c7': 'int8'})
    assert assert_refused(MergeError, tmp_path).splitlines()[1:] == [
        f'  {tmp_path}/a/index.json: c7 int, more str and 29 that are the same',
        f'  {tmp_path}/b/index.json: c7 int8 and 29 that are the same',
    ]


@pytest.mark.parametrize(
    ('data', 'reason'),
    [(b'', 'no MDS index: expected'), (b'{"version": 1, "shards": []}', 'no MDS index: version 1')],
)
def test_a_part_whose_index_is_none_is_named(tmp_path: Path, data: bytes, reason: str) -> None:
    dataset(tmp_path / 'a', ['a'])
    put(tmp_path / 'b' / 'index.json', data)
    message = assert_refused(FormatError, tmp_path)
    assert message.startswith(f'{tmp_path}/b/index.json: {reason}')


def test_a_part_that_lists_a_file_outside_of_its_folder_is_refused(tmp_path: Path) -> None:
    dataset(tmp_path / 'a', ['a'])
    put(tmp_path / 'a' / 'index.json', (tmp_path / 'a/index.json').read_bytes().replace(
        b'"shard.', b'"../a/shard.'
    ))  # fmt: skip
    message = assert_refused(FormatError, tmp_path)
    assert message.startswith(f"{tmp_path}/a/index.json: no MDS index: basename '../a/shard.000")


def test_a_shard_that_is_not_there_or_has_another_size_is_named(root: str) -> None:
    dataset(f'{root}/a', ['a'])
    dataset(f'{root}/b', ['0'], ['1'], ['2'])
    size = storage.size_of(f'{root}/b/shard.00001.mds')
    put(f'{root}/b/shard.00001.mds', b'short')
    assert assert_refused(DamagedError, root) == (
        f'{root}/b/shard.00001.mds: 5 bytes, {root}/b/index.json lists {size} bytes; no index was '
        'written'
    )
    storage.delete([f'{root}/b/shard.00000.mds'])
    assert assert_refused(DamagedError, root) == (
        f'{root}/b/shard.00000.mds: not there, {root}/b/index.json lists {size} bytes (2 such '
        'files in this part); no index was written'
    )


def test_a_missing_shard_of_the_root_s_own_is_an_error_too(tmp_path: Path) -> None:
    dataset(tmp_path, ['0'], ['1'])
    dataset(tmp_path / 'a', ['a'])
    merge_indexes(tmp_path)
    (tmp_path / 'shard.00001.mds').unlink()
    message = assert_refused(DamagedError, tmp_path)
    assert message.startswith(f'{tmp_path}/shard.00001.mds: not there, {tmp_path}/index.json lists')


def test_only_the_index_in_out_may_list_shards_of_a_folder_that_is_gone(tmp_path: Path) -> None:
    for part in ('x/a', 'x/b'):
        dataset(tmp_path / part, [part])
    merge_indexes(tmp_path / 'x')
    storage.delete_folder(str(tmp_path / 'x' / 'b'))
    message = assert_refused(DamagedError, tmp_path)
    assert message.startswith(f'{tmp_path}/x/b/shard.00000.mds: not there, {tmp_path}/x/index.json')
    merge_indexes(tmp_path / 'x')
    merge_indexes(tmp_path)
    assert texts(tmp_path) == ['x/a']


def test_a_shard_that_one_index_lists_twice_is_an_error(tmp_path: Path) -> None:
    dataset(tmp_path / 'a', ['a'])
    (entry,) = json.loads((tmp_path / 'a/index.json').read_text())['shards']
    put(tmp_path / 'a/index.json', dump_entries([entry, entry]))
    assert assert_refused(MergeError, tmp_path) == (
        f'{tmp_path}/a/index.json lists shard.00000.mds twice, so no index was written'
    )


def test_a_folder_that_is_given_twice_is_an_error(tmp_path: Path) -> None:
    dataset(tmp_path / 'a', ['a'])
    dataset(tmp_path / 'b', ['b'])
    given = [tmp_path / 'a', tmp_path / 'b', f'{tmp_path}/a/index.json']
    assert assert_refused(MergeError, tmp_path, given) == (
        f'{tmp_path}/a: given twice, so each of its shards would be listed twice'
    )


def test_a_given_part_without_an_index_is_named(root: str) -> None:
    dataset(f'{root}/a', ['a'])
    put(f'{root}/b/shard.00000.mds', b'x')
    put(f'{root}/c/my-index.json', b'x')
    given = [f'{root}/{name}' for name in 'abcd']
    assert assert_refused(MergeError, root, given) == (
        f'no index.json in {root}/b, {root}/c, {root}/d, so none was written in {root}: what '
        'writes them failed or is not done'
    )


def test_an_empty_part_is_counted_and_lists_nothing(tmp_path: Path) -> None:
    dataset(tmp_path / 'a', ['a'])
    dataset(tmp_path / 'b')

    assert merge_indexes(tmp_path, expect=2) == MergedIndex(
        f'{tmp_path}/index.json', 2, 1, 1, changed=True
    )
    assert texts(tmp_path) == ['a']


def test_without_any_shard_there_is_an_error_and_no_index(tmp_path: Path) -> None:
    assert assert_refused(EmptyInputError, tmp_path) == (
        f'no part has an index.json at or below {tmp_path}: there is nothing to merge'
    )
    dataset(tmp_path / 'a')
    dataset(tmp_path / 'b')
    assert assert_refused(EmptyInputError, tmp_path) == (
        'none of 2 parts has a shard, and an index without shards is refused by the reader, so '
        f'none was written in {tmp_path}'
    )


def made_bucket(name: str) -> str:
    client = gcs.Client()
    if not client.bucket(f'beam-mds-{name}').exists():
        client.create_bucket(f'beam-mds-{name}')
    return f'gs://beam-mds-{name}'


def test_the_index_may_lie_at_the_root_of_a_bucket(gcs_emulator: str) -> None:
    bucket = made_bucket('root')
    for part in ('b', 'a/c'):
        dataset(f'{bucket}/{part}', [part])
    for slash in ('', '/'):
        assert merge_indexes(bucket + slash).path == f'{bucket}/index.json'
        assert merge_indexes(bucket + slash, [f'{bucket}/*', f'{bucket}/a/c/']).parts == 2
    assert texts(bucket) == ['a/c', 'b']


def test_two_buckets_with_the_same_keys_do_not_collide(gcs_bucket: str) -> None:
    buckets = [made_bucket('a'), made_bucket('b')]
    for bucket in buckets:
        dataset(f'{bucket}/x/train', [bucket])
    parts = [f'{bucket}/x/train' for bucket in buckets]

    for _ in range(2):
        merge_indexes(f'{gcs_bucket}/all', parts, copy=True)
        assert texts(f'{gcs_bucket}/all') == buckets

    assert listed(f'{gcs_bucket}/all') == [
        'beam-mds-a/x/train/shard.00000.mds',
        'beam-mds-b/x/train/shard.00000.mds',
    ]

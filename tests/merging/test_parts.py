"""Which datasets a merge takes, which it misses, and where their shards are in the result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from beam_mds import MergeError, OptionError, merge_indexes, storage
from beam_mds.merging.parts import Part, find_parts, make_merge_options, shown
from tests.helpers.merging import dataset, files, listed, put, texts

DEFAULTS: dict[str, Any] = {'parts': None, 'expect': None, 'if_exists': 'error', 'copy': False}


def options(out: Any, **given: Any) -> Any:
    return make_merge_options(out, **{**DEFAULTS, **given})


def places(out: str, *folders: str) -> list[str]:
    """Where copies of these parts go."""
    given = options(out, parts=folders, copy=True)
    return [part.place for part in find_parts(given, given.paths)]


# Expected parts


def numbered(root: str, count: int, *without: int, name: str = 'part-{}') -> None:
    for number in range(count):
        if number not in without:
            dataset(f'{root}/{name.format(number)}', [str(number)])


def refused(root: str, *arguments: Any, kind: Any = MergeError, **how: Any) -> str:
    before = files(root)
    with pytest.raises(kind) as caught:
        merge_indexes(root, *arguments, **how)
    assert files(root) == before
    return str(caught.value)


def test_as_many_parts_as_expected_are_merged(root: str) -> None:
    numbered(root, 12)
    for _ in range(2):  # the second time there is the index of all, which is no part
        assert merge_indexes(root, expect=12).parts == 12
    assert merge_indexes(root, [f'{root}/part-1', root], expect=12).parts == 12


def test_a_missing_part_whose_writer_failed_is_named(root: str) -> None:
    numbered(root, 12, 7)
    put(f'{root}/part-7/shard.00000.mds', b'x')
    put(f'{root}/notes/a.txt', b'x')
    assert refused(root, expect=12) == (
        'expected 12 parts, found 11 (part-0, part-1, part-2, part-3, part-4 and 6 more), so no '
        'index was written: there are shards but no index.json in part-7, so what writes them '
        'failed or is not done; their numbers leave out part-7'
    )


@pytest.mark.parametrize(
    ('name', 'missing', 'said'),
    [
        ('part-{}', (7,), 'their numbers leave out part-7'),
        ('part-{:03}', (7,), 'their numbers leave out part-007'),
        ('2024/{}-of-12/x', (7, 9), 'their numbers leave out 2024/7-of-12/x'),
        ('{}', (3, 4, 9), 'their numbers leave out 3, 4, 9'),
        ('part-{}', (11,), 'perhaps part-11 is missing'),
        ('part-{}', (0,), 'perhaps part-0 or part-12 is missing'),
        ('part-{}', (0, 11), 'expect a list of folders to have those that are missing named'),
    ],
)
def test_a_missing_part_is_named_by_its_number(
    tmp_path: Path, name: str, missing: tuple[int, ...], said: str
) -> None:
    numbered(str(tmp_path), 12, *missing, name=name)
    message = refused(str(tmp_path), expect=12)
    assert message.startswith(f'expected 12 parts, found {12 - len(missing)} (')
    if name.startswith('2024'):  # 12 is the last number of all
        said = 'expect a list of folders to have those that are missing named'
    assert message.endswith(f', so no index was written: {said}')


def test_a_missing_part_that_is_found_by_its_shards_is_not_guessed_as_well(tmp_path: Path) -> None:
    numbered(str(tmp_path), 11)
    put(tmp_path / 'part-11' / 'shard.00000.mds', b'x')
    assert refused(str(tmp_path), expect=12).endswith(
        ': there are shards but no index.json in part-11, so what writes them failed or is not done'
    )


def test_shards_below_the_folder_of_their_index_belong_to_a_part(tmp_path: Path) -> None:
    dataset(tmp_path / 'a', ['a'], below='deep/er')
    assert refused(str(tmp_path), expect=2).endswith(
        ': expect a list of folders to have those that are missing named'
    )


def test_numbers_of_one_kind_of_name_say_nothing_of_another_s(tmp_path: Path) -> None:
    for name in ('a-1', 'a-3', 'b-1', 'b-1000000000000'):
        dataset(tmp_path / name, [name])
    assert refused(str(tmp_path), expect=5).endswith(': their numbers leave out a-2')


def test_dates_that_leave_out_more_than_are_missing_name_none(tmp_path: Path) -> None:
    for name in ('2024-01-31', '2024-02-01', '2024-02-29', '2024-03-01'):
        dataset(tmp_path / name, [name])
    assert refused(str(tmp_path), expect=5).endswith(': expect a list of folders to have those '
        'that are missing named')  # fmt: skip


def test_no_part_at_all_is_told_as_missing(tmp_path: Path) -> None:
    put(tmp_path / 'a' / 'shard.00000.mds.zstd', b'x')
    assert refused(str(tmp_path), expect=2) == (
        'expected 2 parts, found 0 (none), so no index was written: there are shards but no '
        'index.json in a, so what writes them failed or is not done'
    )


def test_more_parts_than_expected_are_an_error(tmp_path: Path) -> None:
    numbered(str(tmp_path), 3)
    assert refused(str(tmp_path), expect=2) == (
        'expected 2 parts, found 3 (part-0, part-1, part-2), so no index was written: expect them '
        'all, or give the parts to be merged'
    )


def test_expected_parts_are_named_relative_to_out_or_as_they_are(root: str) -> None:
    for part in ('a', 'x/b', '12'):
        dataset(f'{root}/{part}', [part])
    for expect in (
        ['a', 'x/b', '12'],
        ['./12/', 'x/b/index.json', f'{root}/a'],
        [f'{root}/x/b/', f'{root}/12', f'{root}/a/index.json'],
    ):
        merge_indexes(root, expect=expect)
    assert texts(root) == ['12', 'a', 'x/b']


def test_every_expected_part_that_is_missing_is_named(root: str) -> None:
    numbered(root, 12, 7, 9)
    put(f'{root}/part-9/metadata.json', b'x')
    assert refused(root, expect=[f'part-{number}' for number in range(12)]) == (
        f'2 of 12 expected parts have no index.json, so none was written in {root}: {root}/part-7, '
        f'{root}/part-9; what writes them failed or is not done'
    )


def test_parts_beside_the_expected_ones_are_named(tmp_path: Path) -> None:
    numbered(str(tmp_path), 3)
    dataset(tmp_path / 'part-1' / 'below', ['below'])
    assert refused(str(tmp_path), expect=['part-1']) == (
        f'there are parts beside the 1 expected ones, so no index was written in {tmp_path}: '
        f'{tmp_path}/part-0, {tmp_path}/part-2; expect them too, or give the parts to be merged'
    )


def test_an_expected_part_may_have_parts_below_it(tmp_path: Path) -> None:
    for part in ('a/train', 'a/val', 'b'):
        dataset(tmp_path / part, [part])
    merge_indexes(tmp_path / 'a')
    assert merge_indexes(tmp_path, expect=['a', 'b']).parts == 3


# Where parts lie


def test_an_index_that_is_not_above_all_parts_is_refused_with_the_nearest_folder_that_is(
    tmp_path: Path,
) -> None:
    for part in ('x/a', 'x/y/b', 'x/y/c'):
        dataset(tmp_path / part, [part])
    given = [tmp_path / 'x' / 'a', tmp_path / 'x' / 'y' / 'b']
    out = tmp_path / 'x' / 'y'
    assert refused(str(out), given, kind=OptionError) == (
        f'an index lists shards below its own folder only, and {out} is not above {tmp_path}/x/a: '
        f'merge into {tmp_path}/x, the nearest folder above them all, or copy their shards into '
        f'{out} with copy=True (--copy)'
    )
    # Those of a glob are known only when it is looked up.
    message = refused(str(out), [f'{tmp_path}/x/[ab]', f'{tmp_path}/x/y/?'], kind=OptionError)
    assert f'{out} is not above {tmp_path}/x/a: merge into {tmp_path}/x, the nearest' in message
    merge_indexes(tmp_path / 'x', given)
    assert texts(tmp_path / 'x') == ['x/a', 'x/y/b']


@pytest.mark.parametrize(
    ('out', 'parts', 'ways'),
    [
        ('/o', ['/a/x', '/a/x/y', '/a/xy'], 'merge into /a, the nearest folder above them all, or'),
        ('/o', ['/a/x', '/b/x'], 'copy their shards into /o'),
        ('gs://o/o', ['gs://a/x', 'gs://a/y'], 'merge into gs://a, the nearest folder'),
        ('gs://o/o', ['gs://a/x', 'gs://b/x'], 'copy their shards into gs://o/o'),
        ('gs://o/o', ['gs://a/x', '/b/x'], 'copy their shards into gs://o/o'),
        ('/o', ['/o2/x'], 'merge into /o2/x, the nearest folder above them all, or copy'),
    ],
)
def test_the_alternative_is_the_nearest_folder_if_there_is_one(
    out: str, parts: list[str], ways: str
) -> None:
    with pytest.raises(OptionError, match=f'{out} is not above .*{parts[0]}.*: {ways}'):
        options(out, parts=parts)


def test_a_part_above_the_index_cannot_be_copied_either(tmp_path: Path) -> None:
    dataset(tmp_path / 'a', ['a'])
    with pytest.raises(OptionError, match=f'not above {tmp_path}/a: merge into {tmp_path}/a, the'):
        merge_indexes(tmp_path / 'a' / 'merged', tmp_path / 'a', copy=True)


# Copies


@pytest.mark.parametrize('store', ['local', 'gs'])
def test_shards_that_do_not_lie_below_the_index_are_copied(
    store: str, tmp_path: Path, gcs_bucket: str
) -> None:
    out = str(tmp_path / 'out') if store == 'local' else f'{gcs_bucket}/out'
    for part in ('a/train', 'b/train', 'b/2'):
        dataset(f'{gcs_bucket}/from/{part}', [f'{part}, 0'], [f'{part}, 1'], hashes=('md5',))
    dataset(f'{out}/inside', ['inside'])
    before = files(f'{gcs_bucket}/from')
    given = [f'{gcs_bucket}/from/**', f'{out}/inside']

    merged = merge_indexes(out, given, copy=True)

    assert merged[1:] == (4, 7, 7, True)
    wanted = [f'{part}, {shard}' for part in ('a/train', 'b/2', 'b/train') for shard in (0, 1)]
    assert texts(out) == [*wanted, 'inside']
    assert listed(out)[:3] == [
        'a/train/shard.00000.mds', 'a/train/shard.00001.mds', 'b/2/shard.00000.mds',
    ]  # fmt: skip
    assert files(f'{gcs_bucket}/from') == before
    there = files(out)
    assert sorted(there) == sorted([*listed(out), 'index.json', 'inside/index.json'])
    # Once more; and without the parts, of which only the index in out tells now.
    assert merge_indexes(out, given, copy=True) == merged._replace(changed=False)
    assert merge_indexes(out).changed is False
    assert files(out) == there


def test_a_copy_that_is_there_is_not_sent_again(faults: Any) -> None:
    source, out = f'{faults.folder}/from', f'{faults.folder}/out'
    dataset(source, ['0'], ['1'])
    merge_indexes(out, source, copy=True)
    storage.delete([f'{out}/index.json', f'{out}/from/shard.00001.mds'])
    faults.clear()

    merge_indexes(out, source, copy=True)

    moved = faults.calls('rename')
    assert moved == ['out/from/shard.00001.mds', 'out/index.json']
    assert texts(out) == ['0', '1']


def test_a_copy_never_replaces_another_file(tmp_path: Path) -> None:
    dataset(tmp_path / 'from', ['new'])
    put(tmp_path / 'out/from/shard.00000.mds', b'mine')
    out = str(tmp_path / 'out')
    message = refused(out, tmp_path / 'from', copy=True, kind=storage.StorageError)
    assert message.startswith(f'{out}/from/shard.00000.mds is there and is no copy of')


def test_a_part_that_was_rewritten_in_the_same_size_is_not_taken_for_its_copy(
    tmp_path: Path,
) -> None:
    dataset(tmp_path / 'from', ['old'])
    merge_indexes(tmp_path / 'out', tmp_path / 'from', copy=True)
    dataset(tmp_path / 'from', ['new'])
    message = refused(
        str(tmp_path / 'out'), tmp_path / 'from', copy=True, kind=storage.StorageError
    )
    assert 'is there and is no copy of' in message
    assert texts(tmp_path / 'out') == ['old']


def test_nothing_is_copied_when_anything_is_wrong(tmp_path: Path) -> None:
    dataset(tmp_path / 'a', ['a'])
    dataset(tmp_path / 'b', ['b'], columns={'other': 'str'})
    given = [tmp_path / 'a', tmp_path / 'b']
    assert 'different columns' in refused(str(tmp_path / 'out'), given, copy=True)
    assert 'expected 2 parts' in refused(str(tmp_path / 'out'), given[:1], copy=True, expect=2)
    assert files(tmp_path / 'out') == {}


def test_copies_of_parts_above_parts_keep_their_places(tmp_path: Path) -> None:
    for part in ('a/train', 'a/val'):
        dataset(tmp_path / 'from' / part, [part])
    merge_indexes(tmp_path / 'from' / 'a')
    dataset(tmp_path / 'from' / 'a' / 'more', ['more'])
    (tmp_path / 'from/a/train/index.json').unlink()

    merged = merge_indexes(tmp_path / 'out', f'{tmp_path}/from/**', copy=True)

    assert merged.parts == 3
    assert texts(tmp_path / 'out') == ['more', 'a/train', 'a/val']
    assert [name.rpartition('/')[0] for name in listed(tmp_path / 'out')] == [
        'a/more', 'a/train', 'a/val',
    ]  # fmt: skip


@pytest.mark.parametrize(
    ('parts', 'wanted'),
    [
        (['/x/train'], ['train']),
        (['/x/a/train', '/x/b/train'], ['a/train', 'b/train']),
        (['/x/a', '/x/a/b'], ['a', 'a/b']),
        (['gs://a/x/train', 'gs://b/x/train'], ['a/x/train', 'b/x/train']),
        (['gs://a', 'gs://b'], ['a', 'b']),
        (['gs://a/x/train', 's3://a/x/train'], ['gs/a/x/train', 's3/a/x/train']),
        (['gs://a/x', '/a/x', '/gs/a/x'], ['file/a/x', 'file/gs/a/x', 'gs/a/x']),
        (['/o/a', '/x/a'], ['a', 'file/x/a']),
        (['/o/a/b', '/x/a', '/x/c'], ['a/b', 'file/x/a', 'file/x/c']),
        (['/o/a', '/x/a/b', '/x/c'], ['a', 'a/b', 'c']),
        (['/o', '/x/a'], ['', 'a']),
        (['/x/10', '/x/9', '/o/9a'], ['9', '9a', '10']),
    ],
)
def test_copies_have_names_by_what_differs_in_their_paths(
    parts: list[str], wanted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, 'absolute', lambda path, option='out': path)  # needs no s3 client
    given = options('/o', copy=True)
    if wanted == ['a', 'a/b', 'c']:  # would lie in another part's folder
        wanted = ['a', 'file/x/a/b', 'file/x/c']
    assert [part.place for part in find_parts(given, parts)] == wanted


def test_copies_that_would_have_one_name_are_refused() -> None:
    with pytest.raises(MergeError, match='no names for copies in /o that no other part has'):
        places('/o', 'gs://a/x', 'gs://a//x')


def test_a_name_that_no_index_can_list_is_refused(tmp_path: Path) -> None:
    dataset(tmp_path / 'a\\b', ['a'])
    assert refused(str(tmp_path)) == (
        f"{tmp_path}/a\\b: readers refuse 'a\\\\b' as a path in an index"
    )


# Options


@pytest.mark.parametrize(
    ('given', 'message'),
    [
        ({'out': ''}, "out must be a path as str or os.PathLike, got ''"),
        ({'out': 'nope://x'}, "out='nope://x': Beam has no filesystem for it"),
        ({'parts': []}, 'parts must be a path or a list of at least one, got []'),
        ({'parts': ['/o/a', 3]}, 'parts must be a path as str or os.PathLike, got 3'),
        ({'expect': 0}, 'expect must be a number of parts, or a list of their folders, got 0'),
        ({'expect': True}, 'expect must be a number of parts, or a list of their folders, got'),
        ({'expect': []}, 'expect must be a number of parts, or a list of their folders, got []'),
        ({'expect': 'a,b'}, 'expect must be a number of parts, or a list of their folders, got'),
        ({'expect': 2.0}, 'expect must be a number of parts, or a list of their folders, got 2.0'),
        ({'expect': ['a', None]}, 'expect must be a path as str or os.PathLike, got None'),
        ({'expect': ['a', '/o/a']}, "expect names a part twice: ['a', '/o/a']"),
        ({'if_exists': 'append'}, "if_exists must be 'error' or 'overwrite', got 'append'"),
        ({'copy': 'yes'}, "copy must be True or False, got 'yes'"),
        ({'parts': ['/x/a', '/o/*']}, '/o is not above /x/a'),
    ],
    ids=str,
)
def test_options_are_checked_before_anything_is_read(given: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError) as caught:
        options(**{'out': '/o', **given})
    assert message in str(caught.value)


def test_paths_are_relative_to_the_working_folder_and_expected_ones_to_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    dataset(tmp_path / 'out' / 'a', ['a'])
    assert merge_indexes('out', 'out/a', expect=['a']).path == f'{tmp_path}/out/index.json'
    assert merge_indexes(Path('out'), [Path('out', 'a')], expect=[Path('a')]).parts == 1


def test_an_error_shows_a_few_names_in_natural_order() -> None:
    assert shown([f'part-{n}' for n in (10, 9, 11)]) == 'part-9, part-10, part-11'
    assert shown(['', *'gfedcb']) == '., b, c, d, e and 2 more'
    assert Part('/a/b', 'b').index == '/a/b/index.json'

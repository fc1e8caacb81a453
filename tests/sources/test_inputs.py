from __future__ import annotations

from pathlib import Path

import pytest

from beam_mds import OptionError, StorageError
from beam_mds.sources.inputs import check_inputs, list_inputs


def _fill(folder: Path, *names: str) -> str:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())
    return str(folder)


def _paths(*inputs: str, **options: object) -> list[str]:
    return [file.path for file in list_inputs(check_inputs(inputs), **options)]  # type: ignore[arg-type]


def test_files_of_all_inputs_come_once_in_natural_order(tmp_path: Path) -> None:
    root = _fill(tmp_path, 'b/part-10', 'b/part-9', 'a/x')
    files = list_inputs([f'{root}/b', root, f'{root}/b/part-9'])
    assert [file.path for file in files] == [
        f'{root}/{n}' for n in ('a/x', 'b/part-9', 'b/part-10')
    ]
    assert [file.number for file in files] == [0, 1, 2]
    assert [file.size for file in files] == [3, 8, 9]
    assert [file.name for file in files] == ['a/x', 'part-9', 'part-10']


def test_a_list_stands_for_the_inputs_in_it(tmp_path: Path) -> None:
    root = _fill(tmp_path / 'data', 'a.txt', 'sub/b.txt', 'sub/c.bin')
    (tmp_path / 'list').write_text(f'\ufeff{root}/a.txt\r\n\n  {root}/sub/*.txt\n')
    assert _paths(f'@{tmp_path}/list') == [f'{root}/a.txt', f'{root}/sub/b.txt']


def test_an_empty_list_and_one_that_is_no_text_are_errors(tmp_path: Path) -> None:
    (tmp_path / 'empty').write_text('\n \n')
    with pytest.raises(StorageError, match=r'input @.*empty: the list is empty'):
        _paths(f'@{tmp_path}/empty')
    (tmp_path / 'latin').write_bytes(b'/a/\xe9')
    with pytest.raises(StorageError, match=r'the list is not UTF-8: .* position 3'):
        _paths(f'@{tmp_path}/latin')


def test_a_split_pattern_gives_fields_from_the_ends_of_paths(tmp_path: Path) -> None:
    root = _fill(tmp_path, 'train/en/0.jsonl', 'train/de/0.jsonl', 'val/en/0.jsonl')
    files = list_inputs([root], split='{split}/{lang}/*.jsonl')
    assert [file.fields for file in files] == [
        {'split': 'train', 'lang': 'de'},
        {'split': 'train', 'lang': 'en'},
        {'split': 'val', 'lang': 'en'},
    ]


@pytest.mark.parametrize(
    ('pattern', 'name', 'fields'),
    [
        ('{split}.jsonl', 'a/train.jsonl', {'split': 'train'}),
        ('{split}/**', 'x/train/a/b', {'split': 'x'}),
        ('{split}-?.txt', 'val-1.txt', {'split': 'val'}),
        ('{split}/[a].txt', 'val/[a].txt', {'split': 'val'}),  # no sets of characters
        ('part.{split}.gz', 'part.a.b.gz', {'split': 'a.b'}),
    ],
)
def test_patterns_are_globs_with_fields(
    tmp_path: Path, pattern: str, name: str, fields: dict[str, str]
) -> None:
    root = _fill(tmp_path, name)
    pattern = pattern if '**' not in pattern else f'{tmp_path}/{pattern}'
    (file,) = list_inputs([root], split=pattern)
    assert file.fields == fields


def test_of_several_patterns_the_first_that_fits_counts(tmp_path: Path) -> None:
    root = _fill(tmp_path, 'train/00.jsonl', 'val.jsonl', 'test.jsonl')
    files = list_inputs([root], split='train/{part}.jsonl|{split}.jsonl')
    assert [file.fields for file in files] == [{'split': 'test'}, {'part': '00'}, {'split': 'val'}]


def test_a_path_that_does_not_fit_the_split_pattern_is_an_error(tmp_path: Path) -> None:
    root = _fill(tmp_path, 'train/0.jsonl', 'README')
    with pytest.raises(StorageError, match=r'README does not fit the split pattern \{split\}/\*'):
        list_inputs([root], split='{split}/*.jsonl')


def test_a_split_pattern_without_a_field_is_refused_before_anything_is_read() -> None:
    with pytest.raises(OptionError, match=r"pattern 'train/\*' has no field: expected one like"):
        check_inputs(['absent'], split='train/*')
    with pytest.raises(OptionError, match='is wrong'):
        check_inputs(['absent'], split='{a}/{a}')


@pytest.mark.parametrize('inputs', ['/a', [], [3], ['']])
def test_inputs_are_a_list_of_paths(inputs: object) -> None:
    with pytest.raises(OptionError, match='input'):
        check_inputs(inputs)  # type: ignore[arg-type]


def test_inputs_on_an_object_store(gcs_bucket: str, tmp_path: Path) -> None:
    from beam_mds import storage

    for name in ('train/a.jsonl', 'val/b.jsonl'):
        storage.write(f'{gcs_bucket}/in/{name}', [b'xy'], 2)
    files = list_inputs([f'{gcs_bucket}/in/*/*.jsonl'], split='{split}/*')
    assert [(file.name, file.size, file.fields['split']) for file in files] == [
        ('train/a.jsonl', 2, 'train'),
        ('val/b.jsonl', 2, 'val'),
    ]

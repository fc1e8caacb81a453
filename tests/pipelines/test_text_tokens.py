from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_mds import OptionError, read_samples
from beam_mds.cli import main as beam_mds
from beam_mds.sources.inputs import InputFile
from pipelines import text_tokens
from tests.helpers.tokens import (
    EOS,
    PATTERN,
    documents,
    library_ids,
    one_buffer,
    rank_file,
    train,
    write_jsonl,
)

_TEXTS = [text for text in documents(90) if text]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return train(tmp_path / 'tokenizer.json')


@pytest.fixture
def source(tmp_path: Path) -> Path:
    write_jsonl(tmp_path / 'in' / 'a.jsonl', _TEXTS[:40], id='a')
    file = write_jsonl(tmp_path / 'in' / 'b.jsonl', _TEXTS[40:], id='b')
    file.with_suffix('.json.gz').write_bytes(gzip.compress(file.read_bytes()))
    file.unlink()
    return tmp_path / 'in'


def _convert(source: Path, path: Path, out: Path, *options: str) -> list[dict[str, Any]]:
    """Runs the conversion; its samples."""
    given = [f'--input={source}', f'--tokenizer={path}', f'--output={out}']
    text_tokens.main([*given, '--runner=FnApiRunner', *options])
    return list(read_samples(out))


def _ids(path: Path, texts: list[str], eos: bool = True) -> list[list[int]]:
    return [[*ids, 0] if eos else ids for ids in library_ids(path, texts)]


def _sorted(samples: list[dict[str, Any]]) -> list[list[int]]:
    return sorted(sample['tokens'].tolist() for sample in samples)


def test_texts_are_packed_and_written(source: Path, path: Path, tmp_path: Path) -> None:
    samples = _convert(source, path, tmp_path / 'out', '--concat_tokens=64', f'--eos_text={EOS}')
    assert _sorted(samples) == sorted(one_buffer(_ids(path, _TEXTS), 64, wrap=True))
    assert {sample['tokens'].dtype.name for sample in samples} == {'uint16'}
    assert set(samples[0]) == {'tokens'}


def test_no_wrap_and_dtype_do_what_they_say(source: Path, path: Path, tmp_path: Path) -> None:
    how = ['--concat_tokens=64', f'--eos_text={EOS}', '--no_wrap', '--dtype=int32']
    samples = _convert(source, path, tmp_path / 'out', *how)
    assert _sorted(samples) == sorted(one_buffer(_ids(path, _TEXTS), 64, wrap=False))
    assert {sample['tokens'].dtype.name for sample in samples} == {'int32'}


def test_the_encoding_of_the_columns_option_decides_the_type(
    source: Path, path: Path, tmp_path: Path
) -> None:
    how = ['--concat_tokens=64', f'--eos_text={EOS}', '--columns=tokens=ndarray:uint32:64']
    samples = _convert(source, path, tmp_path / 'out', *how)
    assert {sample['tokens'].dtype.name for sample in samples} == {'uint32'}
    assert len(samples) == len(one_buffer(_ids(path, _TEXTS), 64, wrap=True))


def test_without_packing_each_text_is_a_sample_and_other_columns_may_stay(
    source: Path, path: Path, tmp_path: Path
) -> None:
    samples = _convert(source, path, tmp_path / 'out', '--columns=tokens,id=str')
    assert _sorted(samples) == sorted(_ids(path, _TEXTS, eos=False))
    assert sorted(sample['id'] for sample in samples) == ['a'] * 40 + ['b'] * (len(_TEXTS) - 40)


def test_each_split_is_packed_by_itself(tmp_path: Path, path: Path) -> None:
    write_jsonl(tmp_path / 'in' / 'train' / 'x.jsonl', _TEXTS[:50])
    write_jsonl(tmp_path / 'in' / 'val' / 'x.jsonl', _TEXTS[50:])
    how = ['--concat_tokens=64', f'--eos_text={EOS}', '--split={split}/*.jsonl']
    _convert(tmp_path / 'in', path, tmp_path / 'out', *how)
    for split, texts in (('train', _TEXTS[:50]), ('val', _TEXTS[50:])):
        samples = list(read_samples(tmp_path / 'out' / split))
        assert _sorted(samples) == sorted(one_buffer(_ids(path, texts), 64, wrap=True))
        assert set(samples[0]) == {'tokens'}


def test_a_field_may_be_the_split(source: Path, path: Path, tmp_path: Path) -> None:
    how = ['--concat_tokens=64', f'--eos_text={EOS}', '--split=id', '--columns=tokens,id=str']
    _convert(source, path, tmp_path / 'out', *how)
    samples = list(read_samples(tmp_path / 'out' / 'b'))
    assert _sorted(samples) == sorted(one_buffer(_ids(path, _TEXTS[40:]), 64, wrap=True))
    assert {sample['id'] for sample in samples} == {'b'}


def test_text_files_are_one_text_each_and_long_ones_are_cut(tmp_path: Path, path: Path) -> None:
    texts = ['short', 'x y ' * 50, 'end']
    for number, text in enumerate(texts):
        file = tmp_path / 'in' / f'{number}.txt'
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    how = ['--concat_tokens=10', f'--eos_text={EOS}', '--cut_chars=33']
    samples = _convert(tmp_path / 'in', path, tmp_path / 'out', *how)
    pieces = [[text[at : at + 33] for at in range(0, len(text), 33)] for text in texts]
    ids = [[*(one for ids in library_ids(path, some) for one in ids), 0] for some in pieces]
    assert _sorted(samples) == sorted(one_buffer(ids, 10, wrap=True))


def test_tables_are_read_too(tmp_path: Path, path: Path) -> None:
    (tmp_path / 'in').mkdir()
    table = pa.table({'content': _TEXTS, 'other': list(range(len(_TEXTS)))})
    pq.write_table(table, tmp_path / 'in' / 'a.parquet', row_group_size=20)
    how = ['--concat_tokens=64', f'--eos_text={EOS}', '--text_field=content']
    samples = _convert(tmp_path / 'in', path, tmp_path / 'out', *how)
    assert _sorted(samples) == sorted(one_buffer(_ids(path, _TEXTS), 64, wrap=True))


def test_a_rank_file_of_tiktoken_has_its_pattern_and_special_tokens_as_options(
    source: Path, tmp_path: Path
) -> None:
    ranks = rank_file(tmp_path / 'a.tiktoken')
    how = [f'--tiktoken_pattern={PATTERN}', f'--special_token={EOS}=300']
    samples = _convert(source, ranks, tmp_path / 'out', f'--eos_text={EOS}', *how)
    assert len(samples) == len(_TEXTS)
    assert {int(sample['tokens'][-1]) for sample in samples} == {300}


def test_bad_texts_are_dead_letters_with_their_places(tmp_path: Path, path: Path) -> None:
    file = write_jsonl(tmp_path / 'in' / 'a.jsonl', _TEXTS)
    file.write_text(file.read_text() + '{"text": null}\n')
    how = ['--concat_tokens=64', f'--eos_text={EOS}', '--max_error_ratio=0.5']
    samples = _convert(tmp_path / 'in', path, tmp_path / 'out', *how)
    assert _sorted(samples) == sorted(one_buffer(_ids(path, _TEXTS), 64, wrap=True))
    (letter,) = map(json.loads, (tmp_path / 'out.errors.jsonl').read_text().splitlines())
    assert (letter['stage'], letter['error_type']) == ('read', 'missing')
    assert letter['place'] == {'file': str(file), 'line': len(_TEXTS) + 1}


def test_a_text_that_is_too_long_is_a_dead_letter_unless_it_is_cut(
    tmp_path: Path, path: Path
) -> None:
    write_jsonl(tmp_path / 'in' / 'a.jsonl', ['short', 'x' * 101])
    how = ['--max_chars=100', '--max_error_ratio=0.5']
    assert _sorted(_convert(tmp_path / 'in', path, tmp_path / 'a', *how)) == _ids(
        path, ['short'], eos=False
    )
    samples = _convert(tmp_path / 'in', path, tmp_path / 'b', '--max_chars=100', '--cut_chars=101')
    assert _sorted(samples) == sorted(_ids(path, ['short', 'x' * 101], eos=False))


def test_ids_wait_where_spill_says(source: Path, path: Path, tmp_path: Path) -> None:
    (tmp_path / 'file').write_text('')
    how = ['--concat_tokens=64', f'--eos_text={EOS}', f'--spill={tmp_path}/file']
    with pytest.raises(SystemExit, match=r'could not write .*/file/beam-mds-tokens-'):
        _convert(source, path, tmp_path / 'out', *how)


def test_a_dry_run_shows_samples_and_writes_nothing(
    source: Path, path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    how = ['--concat_tokens=4', f'--eos_text={EOS}', '--dry_run_sample=2']
    text_tokens.main(
        [f'--input={source}', f'--tokenizer={path}', f'--output={tmp_path / "out"}', *how]
    )
    shown = capsys.readouterr().out
    (first, second, *_) = one_buffer(_ids(path, _TEXTS), 4, wrap=True)
    assert 'record 0: sample 0' in shown
    assert ' '.join(map(str, first)) in shown
    assert ' '.join(map(str, second)) in shown
    assert not (tmp_path / 'out').exists()


def test_the_program_has_the_conversion(source: Path, path: Path, tmp_path: Path) -> None:
    given = ['convert', 'text_tokens', f'--input={source}', f'--tokenizer={path}']
    assert beam_mds([*given, f'--output={tmp_path / "out"}', '--', '--runner=FnApiRunner']) == 0
    assert len(list(read_samples(tmp_path / 'out'))) == len(_TEXTS)


# Options


@pytest.mark.parametrize(
    ('options', 'message'),
    [
        (['--concat_tokens=64'], 'nothing would stand between joined texts'),
        (
            ['--concat_tokens=64', '--bos_text=x', '--columns=tokens,id=str'],
            '--columns id: samples',
        ),
        (['--dtype=uint32', '--no_wrap'], 'no_wrap is for packed samples'),
        (['--tiktoken_pattern=x'], 'has a pattern and special tokens of its own'),
        (['--special_token=x'], "--special_token must be like '<|endoftext|>=50256', got x"),
        (['--special_token=x=-1'], 'must be like'),
        (['--cut_chars=-5'], 'cut_chars must be a number of characters above 0'),
    ],
)
def test_options_that_cannot_work_are_told(
    source: Path, path: Path, tmp_path: Path, options: list[str], message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    with pytest.raises(SystemExit):
        _convert(source, path, tmp_path / 'out', *options)
    assert message in capsys.readouterr().err


def test_a_tokenizer_that_adds_its_own_tokens_needs_no_others(source: Path, tmp_path: Path) -> None:
    path = train(tmp_path / 'own.json', special=('<s>', EOS), template='<s> $A')
    samples = _convert(source, path, tmp_path / 'out', '--concat_tokens=64')
    assert _sorted(samples) == sorted(one_buffer(library_ids(path, _TEXTS), 64, wrap=True))
    without = ['--concat_tokens=64', '--no-add_special_tokens']
    with pytest.raises(SystemExit):
        _convert(source, path, tmp_path / 'b', *without)
    samples = _convert(source, path, tmp_path / 'b', *without, f'--eos_text={EOS}')
    ids = [[*found, 1] for found in library_ids(path, _TEXTS, special=False)]
    assert _sorted(samples) == sorted(one_buffer(ids, 64, wrap=True))


@pytest.mark.parametrize(
    ('names', 'kind'),
    [
        (['a.jsonl', 'b.JSON.GZ', 'c.ndjson.zst'], 'jsonl'),
        (['a.parquet', 'b.csv.gz', 'c.avro'], 'table'),
        (['a.txt', 'b.md', 'c.text.xz'], 'text'),
    ],
)
def test_the_kind_of_the_files_is_told_by_their_names(names: list[str], kind: str) -> None:
    assert text_tokens.kind_of([InputFile(f'/d/{name}', name, 1) for name in names]) == kind


def test_files_of_several_kinds_or_of_none_are_refused() -> None:
    files = [InputFile(f'/d/{name}', name, 1) for name in ('a.jsonl', 'b.txt')]
    with pytest.raises(OptionError, match=r'/d/a\.jsonl \(jsonl\), /d/b\.txt \(text\)'):
        text_tokens.kind_of(files)
    with pytest.raises(OptionError, match=r'/d/a\.bin: its name does not tell what it holds'):
        text_tokens.kind_of([InputFile('/d/a.bin', 'a.bin', 1)])

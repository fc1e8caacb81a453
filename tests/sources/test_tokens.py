from __future__ import annotations

import base64
import bz2
import gzip
import logging
import pickle
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.metrics import MetricsFilter
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.runners.runner import PipelineRunner
from apache_beam.testing.util import assert_that

from beam_mds import (
    BadRecord,
    OptionError,
    ReadJsonLines,
    ReadTokens,
    RecordError,
    TokenizerFile,
    TokenizeText,
)
from beam_mds.records import PLACE
from beam_mds.sources.base import Piece
from beam_mds.sources.inputs import InputFile
from beam_mds.sources.lines import line_pieces
from beam_mds.sources.textfiles import ReadTextFiles
from beam_mds.sources.tokenized import blocks, texts
from tests.helpers.runners import runner_of
from tests.helpers.tokens import (
    EOS,
    PATTERN,
    SPECIAL,
    documents,
    library_ids,
    one_buffer,
    rank_file,
    rows_of,
    train,
    write_jsonl,
)


@pytest.fixture(scope='session')
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tmp_path_factory.mktemp('tokenizer') / 'tokenizer.json')


@pytest.fixture(scope='session')
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files whose natural order is not that of their names' characters; some are compressed."""
    folder = tmp_path_factory.mktemp('corpus')
    texts = documents(400)
    for number, name in enumerate(['a2', 'a10', 'b', 'c']):
        write_jsonl(folder / f'{name}.jsonl', texts[number * 100 : (number + 1) * 100])
    for name, compress in (('b', gzip.compress), ('c', bz2.compress)):
        file = folder / f'{name}.jsonl'
        file.write_bytes(compress(file.read_bytes()))
    return folder


def _expected(path: Path, size: int, *, wrap: bool = True) -> list[list[int]]:
    ids = [[*found, 0] for found in library_ids(path, documents(400))]
    return one_buffer(ids, size, wrap=wrap)


def _in_order(rows: list[dict[str, Any]]) -> list[list[int]]:
    """The samples by their numbers, which must be all."""
    rows = sorted(rows, key=lambda row: row[PLACE]['sample'])
    assert [row[PLACE]['sample'] for row in rows] == list(range(len(rows)))
    return [row['tokens'] for row in rows]


def _elements(
    transform: beam.PTransform,
    elements: list[Any] | None = None,
    runner: PipelineRunner | None = None,
    flags: list[str] | None = None,
) -> tuple[list[Any], dict[str, int]]:
    """What a transform gives, of a pipeline or of some elements, and the counters."""
    pipeline = beam.Pipeline(runner=runner or 'FnApiRunner', options=PipelineOptions(flags or []))
    given = pipeline if elements is None else pipeline | beam.Create(elements, reshuffle=False)
    with tempfile.TemporaryDirectory() as folder:
        _ = (
            given
            | 'Transform' >> transform
            | 'Pickled' >> beam.Map(lambda one: base64.b64encode(pickle.dumps(one)).decode())
            | 'Write' >> beam.io.WriteToText(f'{folder}/elements')
        )
        result = pipeline.run()
        result.wait_until_finish()
        lines = [line for file in Path(folder).iterdir() for line in file.read_text().splitlines()]
    found = result.metrics().query(MetricsFilter().with_namespace('beam_mds'))['counters']
    counters = {one.key.metric.name: int(one.committed or 0) for one in found}
    return [pickle.loads(base64.b64decode(line)) for line in lines], counters


def _run(
    transform: beam.PTransform, runner: PipelineRunner | None = None, flags: list[str] | None = None
) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """The rows of the samples, and the counters."""
    elements, counters = _elements(transform, None, runner, flags)
    return rows_of(elements), counters


class _InPieces(ReadJsonLines):
    """JSON lines in small pieces."""

    def pieces(self, file: InputFile) -> Iterator[Piece]:
        return line_pieces(file, 30_000)


def _tokens(corpus: Path, path: Path, **options: Any) -> ReadTokens:
    return ReadTokens(ReadJsonLines([corpus]), path, **{'eos_text': EOS, **options})


# Packed samples


@pytest.mark.parametrize('wrap', [True, False])
@pytest.mark.parametrize('task', [16 << 20, 20_000, 1])
@pytest.mark.parametrize(('texts_at_once', 'held'), [(8192, 1 << 20), (13, 300)])
def test_packed_samples_are_those_of_one_process_whatever_the_tasks_and_blocks(
    corpus: Path, path: Path, wrap: bool, task: int, texts_at_once: int, held: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(texts, '_MOST_TEXTS', texts_at_once)
    monkeypatch.setattr(blocks, '_TASK_BYTES', task)
    monkeypatch.setattr(blocks, '_HELD_IDS', held)
    monkeypatch.setattr(blocks, '_HELD_SAMPLES', 1)
    transform = ReadTokens(
        _InPieces([corpus]), path, concat_tokens=128, eos_text=EOS, no_wrap=not wrap
    )
    rows, _ = _run(transform)
    expected = _expected(path, 128, wrap=wrap)
    assert _in_order(rows) == expected
    assert len(expected) > 100


@pytest.mark.slow
@pytest.mark.parametrize('kind', ['processes', 'portable', 'prism'])
def test_packed_samples_are_the_same_on_every_runner(corpus: Path, path: Path, kind: str) -> None:
    runner, flags = runner_of(kind)
    rows, _ = _run(_tokens(corpus, path, concat_tokens=100), runner, flags)
    assert _in_order(rows) == _expected(path, 100)


@pytest.mark.parametrize('size', [1, 7, 20_000, 10**9])
def test_samples_may_be_of_any_length(corpus: Path, path: Path, size: int) -> None:
    rows, _ = _run(_tokens(corpus, path, concat_tokens=size))
    assert _in_order(rows) == _expected(path, size)


@pytest.mark.parametrize('wrap', [True, False])
def test_without_beam_the_samples_are_the_same_in_the_order_of_the_input(
    corpus: Path, path: Path, wrap: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(texts, '_MOST_TEXTS', 13)
    monkeypatch.setattr(blocks, '_HELD_IDS', 1000)
    rows = rows_of(_tokens(corpus, path, concat_tokens=128, no_wrap=not wrap).iterate())
    assert [row['tokens'] for row in rows] == _expected(path, 128, wrap=wrap)
    assert [row[PLACE]['sample'] for row in rows] == list(range(len(rows)))


def test_the_type_of_the_ids_is_kept_on_all_ways(corpus: Path, path: Path) -> None:
    for dtype, arrow in (('int32', pa.int32()), ('uint32', pa.uint32()), (None, pa.uint16())):
        found = list(_tokens(corpus, path, concat_tokens=64, dtype=dtype).iterate())
        kinds = {
            one.schema.field('tokens').type.value_type
            if isinstance(one, pa.RecordBatch)
            else pa.from_numpy_dtype(one['tokens'].dtype)
            for one in found
        }
        assert kinds == {arrow}


def test_what_was_read_was_packed_or_dropped(corpus: Path, path: Path) -> None:
    for no_wrap in (False, True):
        rows, counters = _run(_tokens(corpus, path, concat_tokens=128, no_wrap=no_wrap))
        total = sum(len(ids) + 1 for ids in library_ids(path, documents(400)))
        assert counters['records_read'] == 400
        assert counters['tokens_read'] == total
        assert counters['tokens_dropped'] == total - 128 * len(rows)


def test_documents_of_different_groups_are_packed_apart(
    corpus: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(texts, '_MOST_TEXTS', 13)
    monkeypatch.setattr(blocks, '_HELD_IDS', 300)
    monkeypatch.setattr(blocks, '_HELD_SAMPLES', 1)
    folder = corpus.parent / 'groups'
    folder.mkdir(exist_ok=True)
    given = documents(300)
    rng = np.random.default_rng(1)
    groups = rng.integers(0, 3, len(given)).astype(str).tolist()
    for text, group in zip(given, groups, strict=True):
        with (folder / 'a.jsonl').open('a') as file:
            file.write(write_jsonl(folder / 'one', [text], lang=group).read_text())
    (folder / 'one').unlink()
    transform = _tokens(folder, path, concat_tokens=64, group='lang')
    rows, _ = _run(transform)
    for group in '012':
        ids = [[*found, 0] for found in library_ids(path, _of(given, groups, group))]
        expected = one_buffer(ids, 64, wrap=True)
        assert _in_order([row for row in rows if row['lang'] == group]) == expected
        alone = [row for row in rows_of(transform.iterate()) if row['lang'] == group]
        assert [row['tokens'] for row in alone] == expected


def _of(texts: list[str], groups: list[str], group: str) -> list[str]:
    return [text for text, one in zip(texts, groups, strict=True) if one == group]


def test_a_rank_file_of_tiktoken_is_packed_too(corpus: Path, tmp_path: Path) -> None:
    file = TokenizerFile(str(rank_file(tmp_path / 'a.tiktoken')), PATTERN, (SPECIAL,))
    transform = ReadTokens(ReadJsonLines([corpus]), file, concat_tokens=100, eos_text=EOS)
    rows, _ = _run(transform)
    ids = [[*file.load().ids_of(text), 300] for text in documents(400)]
    assert _in_order(rows) == one_buffer(ids, 100, wrap=True)


# Bad records


@pytest.fixture
def spoiled(tmp_path: Path) -> Path:
    file = write_jsonl(tmp_path / 'spoiled' / 'a.jsonl', documents(50)[:20])
    lines = file.read_text().splitlines()
    lines[3:3] = ['{"text": null}', '{broken', '{"text": 5}', '{"other": "x"}']
    file.write_text('\n'.join(lines))
    return file.parent


def _spoiled_rows(path: Path) -> list[list[int]]:
    return one_buffer([[*ids, 0] for ids in library_ids(path, documents(50)[:20])], 50, wrap=True)


_KINDS = {('missing', 4), ('json', 5), ('type', 6), ('missing', 7)}


def test_bad_records_are_dead_letters_and_the_others_are_packed_as_if_they_were_not_there(
    spoiled: Path, path: Path
) -> None:
    def check_errors(errors: list[BadRecord]) -> None:
        assert {(one.error_type, one.place['line']) for one in errors} == _KINDS

    def check_samples(samples: list[Any]) -> None:
        assert _in_order(rows_of(samples)) == _spoiled_rows(path)

    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        result = pipeline | _tokens(spoiled, path, concat_tokens=50, on_error='dead_letter')
        assert_that(result.errors, check_errors, label='errors')
        assert_that(result.samples, check_samples, label='samples')


@pytest.mark.parametrize('concat', [50, None])
def test_bad_records_stay_among_the_samples_inline(
    spoiled: Path, path: Path, concat: int | None
) -> None:
    def check(elements: list[Any]) -> None:
        bad = [one for one in elements if isinstance(one, BadRecord)]
        kinds = {(one.error_type, one.place['line']) for one in bad}
        assert kinds - {('empty', 18)} == _KINDS
        assert len(elements) > len(bad)

    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        eos = EOS if concat else ''
        found = pipeline | _tokens(
            spoiled, path, concat_tokens=concat, eos_text=eos, on_error='inline'
        )
        assert_that(found, check)


@pytest.mark.parametrize('concat', [50, None])
def test_a_bad_record_fails_the_job_otherwise(
    spoiled: Path, path: Path, concat: int | None
) -> None:
    with pytest.raises(RecordError, match=r'/a\.jsonl, line [45]: '):
        _run(_tokens(spoiled, path, concat_tokens=concat))


def test_without_beam_bad_records_are_among_the_samples(spoiled: Path, path: Path) -> None:
    for concat in (50, None):
        found = list(_tokens(spoiled, path, concat_tokens=concat).iterate())
        bad = {(one.error_type, one.place['line']) for one in found if isinstance(one, BadRecord)}
        assert bad == _KINDS


# Files in between


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / 'temporary'
    folder.mkdir()
    monkeypatch.setattr(tempfile, 'tempdir', str(folder))
    return folder


def test_on_a_local_runner_ids_wait_in_the_temporary_folder_and_are_deleted(
    corpus: Path, path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = _watch(monkeypatch)
    rows, _ = _run(_tokens(corpus, path, concat_tokens=64))
    assert rows
    assert written
    assert all(one.startswith(f'{temporary}/beam-mds-tokens-') for one in written)
    assert list(temporary.iterdir()) == []


def test_ids_wait_in_the_folder_that_is_given(
    corpus: Path, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = _watch(monkeypatch)
    rows, _ = _run(_tokens(corpus, path, concat_tokens=64, spill=tmp_path / 'spill'))
    assert _in_order(rows) == _expected(path, 64)
    assert written
    assert all(one.startswith(f'{tmp_path}/spill/beam-mds-tokens-') for one in written)
    assert list(tmp_path.glob('spill/*')) == []


def test_ids_may_wait_in_a_bucket(corpus: Path, path: Path, gcs_bucket: str) -> None:
    rows, _ = _run(_tokens(corpus, path, concat_tokens=64, spill=f'{gcs_bucket}/spill'))
    assert _in_order(rows) == _expected(path, 64)


def _watch(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that blocks are written to."""
    written: list[str] = []
    write = blocks.storage.write

    def watched(path: str, parts: Any, size: int) -> bool:
        written.append(path)
        return write(path, parts, size)

    monkeypatch.setattr(blocks.storage, 'write', watched)
    return written


class _Cluster(PipelineRunner):
    """A runner of which nothing is known."""


def test_a_runner_whose_workers_share_no_known_folder_needs_one(corpus: Path, path: Path) -> None:
    pipeline = beam.Pipeline(runner=_Cluster())
    with pytest.raises(OptionError, match='spill: no folder is known that all workers'):
        _ = pipeline | _tokens(corpus, path, concat_tokens=64)
    pipeline = beam.Pipeline(
        runner=_Cluster(), options=PipelineOptions(['--temp_location=gs://bucket/temp'])
    )
    _ = pipeline | _tokens(corpus, path, concat_tokens=64)


# One sample a text


def test_without_packing_each_text_is_a_sample_with_its_other_fields(
    tmp_path: Path, path: Path
) -> None:
    texts = [text for text in documents(50) if text]
    write_jsonl(tmp_path / 'in' / 'a.jsonl', texts, id=5)
    rows, counters = _run(_tokens(tmp_path / 'in', path))
    assert sorted(row['tokens'] for row in rows) == sorted(
        [*ids, 0] for ids in library_ids(path, texts)
    )
    assert {row['id'] for row in rows} == {5}
    assert not any('text' in row for row in rows)
    assert all(row[PLACE]['line'] for row in rows)
    assert counters['records_read'] == len(texts)


def _tokenize(
    elements: list[Any], path: Path, **options: Any
) -> tuple[list[dict[str, Any]], list[BadRecord]]:
    """The rows that TokenizeText gives, and the notes."""
    found, _ = _elements(TokenizeText(path, on_error='inline', **options), elements)
    return rows_of(found), [one for one in found if isinstance(one, BadRecord)]


def test_samples_of_all_kinds_are_tokenized(path: Path) -> None:
    elements = [
        {'text': 'one', 'n': 1},
        beam.Row(text='two', n=2),
        pa.RecordBatch.from_pydict({'text': ['three', 'four'], 'n': [3, 4]}),
    ]
    rows, bad = _tokenize(elements, path)
    assert bad == []
    ids = library_ids(path, ['one', 'two', 'three', 'four'])
    assert sorted(rows, key=lambda row: row['n']) == [
        {'tokens': found, 'n': number} for number, found in enumerate(ids, 1)
    ]


def test_a_text_without_tokens_is_a_bad_record(path: Path) -> None:
    elements = [
        {'text': '', 'n': 1},
        {'text': 'a', 'n': 2},
        pa.RecordBatch.from_pydict({'text': ['', 'b'], 'n': [3, 4]}),
    ]
    rows, bad = _tokenize(elements, path)
    assert sorted(row['n'] for row in rows) == [2, 4]
    assert {(one.error_type, one.element['n']) for one in bad} == {('empty', 1), ('empty', 3)}
    assert bad[0].message == ("field 'text' has no tokens: MDS holds no array without elements")
    assert len(_tokenize(elements, path, eos_text=EOS)[0]) == 4


def test_dead_letters_of_tokenize_text_are_apart(path: Path) -> None:
    def check_errors(errors: list[BadRecord]) -> None:
        assert [one.error_type for one in errors] == ['missing']

    def check_samples(samples: list[Mapping[str, Any]]) -> None:
        assert [one['tokens'].dtype.name for one in samples] == ['int32']

    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        result = (
            pipeline
            | beam.Create([{'text': 'a'}, {'text': None}])
            | TokenizeText(path, dtype='int32', on_error='dead_letter')
        )
        assert_that(result.errors, check_errors, label='errors')
        assert_that(result.samples, check_samples, label='samples')


def test_a_bad_sample_fails_tokenize_text_otherwise(path: Path) -> None:
    pipeline = beam.Pipeline(runner=FnApiRunner())
    _ = pipeline | beam.Create([{'text': 5}]) | TokenizeText(path)
    with pytest.raises(RecordError, match="field 'text' is of type int"):
        pipeline.run()


# Text files


def test_text_files_are_read_whole_with_ends_of_lines_as_python_has_them(tmp_path: Path) -> None:
    folder = tmp_path / 'texts'
    for name, data in {
        'b/two.txt': b'\xef\xbb\xbftwo\r\n2\rx',
        'a.txt.gz': gzip.compress('é\n'.encode()),
        'empty.txt': b'',
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    found = list(ReadTextFiles([folder]).iterate())
    assert [(one['path'], one['text']) for one in found] == [
        ('a.txt.gz', 'é\n'),
        ('b/two.txt', 'two\n2\nx'),
        ('empty.txt', ''),
    ]
    assert found[0][PLACE] == {'file': f'{folder}/a.txt.gz'}


def test_a_file_that_is_no_text_or_damaged_is_a_bad_record(tmp_path: Path) -> None:
    (tmp_path / 'latin.txt').write_bytes(b'caf\xe9')
    (tmp_path / 'short.txt').write_bytes(gzip.compress(b'x' * 10_000 + bytes(range(256)))[:-9])
    found = list(ReadTextFiles([tmp_path]).iterate())
    assert [one.error_type for one in found] == ['encoding', 'truncated']
    assert found[0].place == {'file': f'{tmp_path}/latin.txt'}
    assert found[0].message.startswith('the file is not UTF-8: ')


def test_fields_of_the_path_are_fields_of_the_text(tmp_path: Path) -> None:
    (tmp_path / 'train').mkdir()
    (tmp_path / 'train' / 'a.txt').write_text('x')
    (found,) = ReadTextFiles([tmp_path], split='{split}/*.txt').iterate()
    assert found['split'] == 'train'


# Options


@pytest.mark.parametrize(
    ('options', 'message'),
    [
        ({'concat_tokens': 0}, 'concat_tokens must be a number of tokens above 0, got 0'),
        ({'concat_tokens': 2.5}, 'concat_tokens must be a number of tokens above 0, got 2.5'),
        ({'no_wrap': True}, 'no_wrap is for packed samples: it needs concat_tokens'),
        ({'group': 'split'}, 'group is for packed samples: it needs concat_tokens'),
        ({'concat_tokens': 8, 'group': 'tokens'}, "group='tokens' is the column of the tokens"),
        ({'text_field': ''}, "text_field must be a text, got ''"),
        ({'eos_text': None}, 'eos_text must be a text, got None'),
        ({'concat_tokens': 8, 'group': 3}, 'group must be a text, got 3'),
        ({'dtype': 'int64'}, "dtype='int64' is unknown"),
        ({'max_chars': 0}, 'max_chars must be a number of characters above 0, got 0'),
        ({'cut_chars': -1}, 'cut_chars must be a number of characters above 0, got -1'),
        ({'spill': 3}, 'spill must be a path'),
        ({'on_error': 'skip'}, "on_error='skip' is unknown"),
    ],
)
def test_an_option_that_cannot_work_is_refused_at_once(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        _tokens(tmp_path, tmp_path / 'none.json', **options)


def test_the_source_is_a_source(path: Path) -> None:
    with pytest.raises(OptionError, match='source must be a Source like ReadJsonLines, got'):
        ReadTokens(beam.Create([]), path)  # type: ignore[arg-type]


def test_nothing_is_read_before_the_pipeline_runs(tmp_path: Path) -> None:
    pipeline = beam.Pipeline(runner=FnApiRunner())
    _ = pipeline | _tokens(tmp_path / 'none', tmp_path / 'none.json', concat_tokens=8)


def test_the_options_are_shown_by_runners(corpus: Path, path: Path) -> None:
    shown = _tokens(corpus, path, concat_tokens=8).display_data()
    assert shown['concat_tokens'] == '8'
    assert shown['tokenizer'] == str(path)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.getLogger('apache_beam').setLevel(logging.ERROR)
    yield
    logging.getLogger('apache_beam').setLevel(logging.NOTSET)

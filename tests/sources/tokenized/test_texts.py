from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from beam_mds.records import PLACE, BadRecord
from beam_mds.sources.tokenized import texts as texts_module
from beam_mds.sources.tokenized.documents import Documents, Encoder, tokenized
from beam_mds.sources.tokenized.texts import ERROR_TYPES, TextOptions, groups_of
from beam_mds.sources.tokenizing import tokenizer_file
from tests.helpers.tokens import documents, library_ids, train


class _Named(NamedTuple):
    text: str


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return train(tmp_path / 'tokenizer.json')


def _options(path: Path, **options: Any) -> TextOptions:
    given: dict[str, Any] = {
        'text_field': 'text', 'bos_text': '', 'eos_text': '', 'dtype': None,
        'add_special_tokens': True, 'max_chars': 5000, 'cut_chars': None,
    }  # fmt: skip
    return TextOptions(tokenizer_file(path), **{**given, **options})


def _tokenized(
    path: Path, elements: list[Any], **options: Any
) -> tuple[list[list[int]], list[BadRecord]]:
    """The ids of each document, and the notes."""
    chosen = _options(path, **options)
    lists, bad = [], []
    for found in tokenized(elements, chosen, Encoder(chosen)):
        if isinstance(found, BadRecord):
            bad.append(found)
            continue
        assert len(found.rows) == len(found.lengths)
        ends = np.cumsum(found.lengths)
        lists += [ids.tolist() for ids in np.split(found.ids, ends[:-1])]
    return lists, bad


def _batch(texts: Any, **columns: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({'text': texts, **columns})


def test_documents_come_in_the_order_of_the_samples_whatever_these_are(path: Path) -> None:
    texts = documents(40)
    elements = [
        *({'text': text} for text in texts[:10]),
        _batch(texts[10:20]),
        _Named(texts[20]),
        _batch(pa.array(texts[21:30], pa.large_string())),
        _batch(pa.array(texts[30:35]).dictionary_encode()),
        *({'text': text} for text in texts[35:]),
    ]
    assert _tokenized(path, elements) == (library_ids(path, texts), [])


def test_many_batches_give_what_one_gives(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts_module, 'ENCODE_CHARS', 900)
    monkeypatch.setattr(texts_module, '_MOST_TEXTS', 5)
    texts = documents(60)
    elements = [_batch(texts[:30]), *({'text': text} for text in texts[30:])]
    assert _tokenized(path, elements) == (library_ids(path, texts), [])


def test_bos_and_eos_stand_around_each_text_outside_of_the_tokenizers_own_tokens(
    tmp_path: Path,
) -> None:
    path = train(tmp_path / 'a.json', special=('<s>', '</s>', '<b>', '<e>'), template='<s> $A </s>')
    (plain,) = library_ids(path, ['hello'], special=False)
    how = {'bos_text': '<b>', 'eos_text': '<e>'}
    assert _tokenized(path, [{'text': 'hello'}], **how)[0] == [[2, 0, *plain, 1, 3]]
    assert _tokenized(path, [{'text': 'hello'}])[0] == library_ids(path, ['hello'])
    without = _tokenized(path, [{'text': 'hello'}], add_special_tokens=False, **how)[0]
    assert without == [[2, *plain, 3]]


def test_bos_and_eos_that_are_no_single_token_are_told(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (stop,) = library_ids(path, ['STOP'])
    (found,), _ = _tokenized(path, [{'text': ''}], eos_text='STOP')
    assert found == stop
    assert f"eos_text='STOP' is no single token: it becomes the ids {tuple(stop)}" in caplog.text


def test_special_tokens_that_a_text_may_get_twice_are_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = train(tmp_path / 'a.json', special=('<s>',), template='<s> $A')
    assert _tokenized(path, [{'text': ''}], bos_text='<s>')[0] == [[0, 0]]
    assert 'the tokenizer adds special tokens of its own (ids [0])' in caplog.text


_PLACE = {'file': 'a.jsonl', 'line': 3}


@pytest.mark.parametrize(
    ('value', 'kind', 'message'),
    [
        (None, 'missing', "field 'text' is null or not there: expected a text"),
        (7, 'type', "field 'text' is of type int: expected a text"),
        (b'bytes', 'type', "field 'text' is of type bytes: expected a text"),
        ('a\ud800', 'encoding', "field 'text' has a lone surrogate at character 1, which is no"),
        ('x' * 5001, 'too_long', "field 'text' has 5,001 characters, more than max_chars=5,000,"),
    ],
)
def test_what_is_no_text_is_a_bad_record_with_its_place(
    path: Path, value: Any, kind: str, message: str
) -> None:
    good = {'text': 'good', PLACE: {'file': 'a.jsonl', 'line': 2}}
    found, (bad,) = _tokenized(path, [good, {'text': value, PLACE: _PLACE}, good])
    assert found == library_ids(path, ['good', 'good'])
    assert (bad.error_type, bad.place, bad.element) == (kind, _PLACE, None)
    assert bad.message.startswith(message)
    assert kind in ERROR_TYPES


def test_a_sample_without_a_place_is_kept_in_its_note(path: Path) -> None:
    _, bad = _tokenized(path, [{'text': None, 'id': 5}, {'id': 6}, 8])
    assert [record.element for record in bad] == [{'text': None, 'id': 5}, {'id': 6}, None]
    assert bad[2].message == 'int is no sample with fields'


def test_a_text_that_is_cut_may_be_of_any_length(path: Path) -> None:
    found, bad = _tokenized(path, [{'text': 'x' * 6000}], cut_chars=1000)
    assert bad == []
    assert found == [library_ids(path, ['x' * 1000])[0] * 6]


def test_bad_rows_of_a_batch_are_bad_records_and_the_others_are_not(path: Path) -> None:
    places = [{'file': 'a.parquet', 'row': row} for row in range(4)]
    batch = _batch(['one', None, 'x' * 5001, 'two'], n=[1, 2, 3, 4], **{PLACE: places})
    found, bad = _tokenized(path, [batch])
    assert found == library_ids(path, ['one', 'two'])
    assert [(one.error_type, one.place) for one in bad] == [
        ('missing', places[1]),
        ('too_long', places[2]),
    ]
    _, (bad_row,) = _tokenized(path, [_batch([None], n=[5])])
    assert bad_row.element == {'text': None, 'n': 5}


def test_a_column_of_another_type_or_no_column_makes_every_row_bad(path: Path) -> None:
    assert [one.error_type for one in _tokenized(path, [_batch([1, 2])])[1]] == ['type', 'type']
    other = pa.RecordBatch.from_pydict({'a': ['x']})
    assert [one.error_type for one in _tokenized(path, [other])[1]] == ['missing']


def test_a_row_whose_text_is_no_utf_8_is_a_bad_record(path: Path) -> None:
    wrong = pa.array([b'ok', b'\xff', b'fine'], pa.binary()).view(pa.string())
    found, (bad,) = _tokenized(path, [_batch(wrong)])
    assert found == library_ids(path, ['ok', 'fine'])
    assert bad.error_type == 'encoding'
    assert bad.message.startswith("field 'text' is no UTF-8: ")


def test_notes_of_the_source_pass(path: Path) -> None:
    note = BadRecord('json', 'broken', _PLACE)
    assert _tokenized(path, [note, {'text': 'a'}]) == (library_ids(path, ['a']), [note])


@pytest.mark.parametrize(
    'element',
    [
        {'a': {'b': 'deep'}},
        {'a.b': 'deep', 'a': {'b': 'other'}},
        pa.RecordBatch.from_pydict({'a': [{'b': 'deep'}]}),
        pa.RecordBatch.from_pydict({'a.b': ['deep'], 'a': [{'b': 'other'}]}),
    ],
)
def test_a_dotted_field_is_inside_of_another_unless_there_is_one_of_that_name(
    path: Path, element: Any
) -> None:
    found = _tokenized(path, [element], text_field='a.b')
    assert found == (library_ids(path, ['deep']), [])


@pytest.mark.parametrize(
    'element', [{'a': 3}, {'a': {}}, pa.RecordBatch.from_pydict({'a': [{'c': 'x'}]})]
)
def test_a_dotted_field_that_leads_nowhere_is_missing(path: Path, element: Any) -> None:
    _, (bad,) = _tokenized(path, [element], text_field='a.b')
    assert bad.error_type == 'missing'


def test_groups_are_texts_and_a_sample_without_one_is_bad(path: Path) -> None:
    assert groups_of([{'s': 'x'}, {'s': 3}], 's') == ['x', '3']
    assert groups_of(pa.RecordBatch.from_pydict({'s': ['x', 'y']}), 's') == ['x', 'y']
    assert groups_of([{}, {}], None) == ['', '']
    batch = _batch(['a', 'b'], s=['x', None])
    elements = [batch, {'text': 'c', 's': 'x'}, {'text': 'd'}]
    found, bad = _tokenized(path, elements, group='s')
    assert found == library_ids(path, ['a', 'c'])
    assert [one.message for one in bad] == [
        "field 's' is null or not there: it says what is packed together"
    ] * 2


def test_documents_keep_their_samples(path: Path) -> None:
    options = _options(path)
    elements = [{'text': 'a', 'n': 1}, _batch(['b', None, 'c'], n=[2, 3, 4])]
    found = [
        one for one in tokenized(elements, options, Encoder(options)) if isinstance(one, Documents)
    ]
    assert [list(one.rows) for one in found[:1]] == [[{'text': 'a', 'n': 1}]]
    assert found[1].rows.column('n').to_pylist() == [2, 4]

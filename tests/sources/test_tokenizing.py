from __future__ import annotations

import base64
import json
import sys
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import tiktoken

from beam_mds import (
    EncodingError,
    FormatError,
    MissingExtraError,
    OptionError,
    StorageError,
    TokenizerFile,
    storage,
)
from beam_mds.sources import tokenizing
from beam_mds.sources.tokenizing import (
    Tokenizer,
    dtype_for,
    encode_texts,
    fitted,
    tokenizer_file,
)
from tests.helpers.tokens import (
    EOS,
    PATTERN,
    SPECIAL,
    documents,
    library_ids,
    rank_file,
    train,
)

_TEXTS = documents(60)


def _lists(tokenizer: Tokenizer, texts: list[str], cut_chars: int | None = None) -> list[list[int]]:
    found = encode_texts(tokenizer, texts, cut_chars)
    ends = np.cumsum(found.lengths)
    assert len(found.ids) == ends[-1]
    return [ids.tolist() for ids in np.split(found.ids, ends[:-1])]


@pytest.fixture
def json_file(tmp_path: Path) -> Path:
    return train(tmp_path / 'tokenizer.json')


@pytest.fixture
def ranks(tmp_path: Path) -> TokenizerFile:
    return TokenizerFile(str(rank_file(tmp_path / 'a.tiktoken')), PATTERN, (SPECIAL,))


# tokenizer.json


def test_a_tokenizer_json_gives_the_ids_that_its_library_gives(json_file: Path) -> None:
    tokenizer = tokenizer_file(json_file).load()
    assert _lists(tokenizer, _TEXTS) == library_ids(json_file, _TEXTS)
    assert tokenizer.size == 1000


def test_a_special_token_that_is_written_in_a_text_becomes_its_id(json_file: Path) -> None:
    assert tokenizer_file(json_file).load().ids_of(f'{EOS}{EOS}') == (0, 0)


def test_a_tokenizer_json_that_says_to_cut_and_fill_up_texts_does_neither(
    json_file: Path, tmp_path: Path
) -> None:
    content = json.loads(json_file.read_text())
    content['truncation'] = {
        'direction': 'Right', 'max_length': 5, 'strategy': 'LongestFirst', 'stride': 0,
    }  # fmt: skip
    content['padding'] = {
        'strategy': {'Fixed': 5000}, 'direction': 'Right', 'pad_to_multiple_of': None, 'pad_id': 0,
        'pad_type_id': 0, 'pad_token': EOS,
    }  # fmt: skip
    other = tmp_path / 'cuts.json'
    other.write_text(json.dumps(content))
    assert _lists(tokenizer_file(other).load(), _TEXTS) == library_ids(json_file, _TEXTS)


def test_what_a_tokenizer_puts_around_a_text_is_known_apart_from_it(tmp_path: Path) -> None:
    path = train(
        tmp_path / 'tokenizer.json', special=('<s>', '</s>', '<m>'), template='<s> <m> $A </s>'
    )
    tokenizer = tokenizer_file(path).load()
    assert (tokenizer.prefix, tokenizer.suffix) == ((0, 2), (1,))
    assert _lists(tokenizer, _TEXTS) == library_ids(path, _TEXTS, special=False)


def test_the_size_is_above_the_highest_id_where_ids_are_left_out(
    json_file: Path, tmp_path: Path
) -> None:
    content = json.loads(json_file.read_text())
    vocabulary = content['model']['vocab']
    last = max(vocabulary, key=vocabulary.get)
    vocabulary[last] = 70_000
    other = tmp_path / 'far.json'
    other.write_text(json.dumps(content))
    assert tokenizer_file(other).load().size == 70_001


# tiktoken


def test_a_rank_file_gives_the_ids_that_tiktoken_gives(ranks: TokenizerFile) -> None:
    tokenizer = ranks.load()
    lines = Path(ranks.path).read_text().splitlines()
    known = {base64.b64decode(line.split()[0]): int(line.split()[1]) for line in lines}
    library = tiktoken.Encoding(
        'x', pat_str=PATTERN, mergeable_ranks=known, special_tokens=dict([SPECIAL])
    )
    expected = [library.encode(text, allowed_special='all') for text in _TEXTS]
    assert _lists(tokenizer, _TEXTS) == expected
    assert tokenizer.ids_of(EOS) == (300,)
    assert tokenizer.size == 301
    assert (tokenizer.prefix, tokenizer.suffix) == ((), ())


def test_a_rank_file_needs_a_pattern(ranks: TokenizerFile) -> None:
    with pytest.raises(OptionError, match='a rank file of tiktoken, which needs the pattern'):
        tokenizer_file(ranks.path).load()


def test_a_tokenizer_json_takes_no_pattern(json_file: Path) -> None:
    with pytest.raises(OptionError, match='has a pattern and special tokens of its own'):
        TokenizerFile(str(json_file), PATTERN).load()


def test_a_special_token_cannot_have_the_id_of_another_token(ranks: TokenizerFile) -> None:
    with pytest.raises(OptionError, match=r'id 7 is that of a token of .*: give another'):
        ranks._replace(special_tokens=((EOS, 7),)).load()


def test_a_pattern_that_is_no_regular_expression_is_refused(ranks: TokenizerFile) -> None:
    with pytest.raises(OptionError, match=r"pattern='\(a' does not work"):
        ranks._replace(pattern='(a').load()


def test_a_rank_file_without_a_byte_is_refused(ranks: TokenizerFile, tmp_path: Path) -> None:
    lines = Path(ranks.path).read_text().splitlines(keepends=True)
    path = tmp_path / 'less.tiktoken'
    path.write_text(''.join(lines[:65] + lines[66:]))
    with pytest.raises(FormatError, match='no rank for the byte 0x41: texts with it'):
        ranks._replace(path=str(path)).load()


# Other files


@pytest.mark.parametrize('content', [b'hello\n', b'QQ== 0\nQg== x\n', b'QQ==\n', b'\xff\xfe\n'])
def test_a_file_of_neither_kind_is_refused_with_its_line(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / 'tokenizer'
    path.write_bytes(content)
    with pytest.raises(FormatError, match=r'tokenizer, line \d: expected a token in base64'):
        tokenizer_file(path).load()


def test_a_json_that_is_no_tokenizer_is_refused(tmp_path: Path) -> None:
    path = tmp_path / 'a.json'
    path.write_text('{"a": 1}')
    with pytest.raises(FormatError, match=r'a\.json: no tokenizer\.json that can be read'):
        tokenizer_file(path).load()


def test_a_tokenizer_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r'none\.json'):
        tokenizer_file(tmp_path / 'none.json').load()


def test_a_tokenizer_may_be_on_any_filesystem(json_file: Path, gcs_bucket: str) -> None:
    path = f'{gcs_bucket}/tokenizer.json'
    data = json_file.read_bytes()
    storage.write(path, [data], len(data))
    assert tokenizer_file(path).load().size == 1000


def test_a_process_loads_a_tokenizer_once(json_file: Path) -> None:
    assert tokenizer_file(json_file).load() is tokenizer_file(str(json_file)).load()


def test_a_tokenizer_that_was_trained_anew_takes_the_place_of_the_old_one(json_file: Path) -> None:
    old = tokenizer_file(json_file).load()
    train(json_file, special=('<a>', EOS))
    assert old.ids_of(EOS) == (0,)
    assert tokenizer_file(json_file).load().ids_of(EOS) == (1,)


@pytest.mark.parametrize('library', ['tokenizers', 'tiktoken'])
def test_a_missing_library_is_named_with_what_installs_it(
    library: str, json_file: Path, ranks: TokenizerFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizing._load.cache_clear()
    monkeypatch.setitem(sys.modules, library, None)
    file = tokenizer_file(json_file) if library == 'tokenizers' else ranks
    with pytest.raises(
        MissingExtraError, match=rf"needs {library}, .*: pip install 'beam-mds\[tokens\]'"
    ):
        file.load()


@pytest.mark.parametrize(
    'tokenizer',
    [
        TokenizerFile('a', special_tokens=((EOS,),)),  # type: ignore[arg-type]
        TokenizerFile('a', special_tokens=(('', 1),)),
        TokenizerFile('a', special_tokens=((EOS, -1),)),
        TokenizerFile('a', special_tokens=((EOS, True),)),
        TokenizerFile('a', special_tokens=(EOS,)),  # type: ignore[arg-type]
    ],
)
def test_special_tokens_are_pairs_of_a_text_and_an_id(tokenizer: TokenizerFile) -> None:
    with pytest.raises(OptionError, match='special_tokens must be pairs like'):
        tokenizer_file(tokenizer)


def test_special_tokens_may_be_a_dict(ranks: TokenizerFile) -> None:
    given = ranks._replace(special_tokens=dict([SPECIAL]))  # type: ignore[arg-type]
    assert tokenizer_file(given) == ranks


def test_a_pattern_is_a_text() -> None:
    with pytest.raises(OptionError, match='pattern must be a regular expression as text, got 3'):
        tokenizer_file(TokenizerFile('a', 3))  # type: ignore[arg-type]


def test_a_tokenizer_is_a_path() -> None:
    with pytest.raises(OptionError, match='tokenizer must be a path'):
        tokenizer_file(3)  # type: ignore[arg-type]


# Types


@pytest.mark.parametrize(
    ('size', 'wanted', 'expected'),
    [
        (1, None, 'uint16'),
        (65_536, None, 'uint16'),
        (65_537, None, 'uint32'),
        (65_536, 'uint16', 'uint16'),
        (100, 'int32', 'int32'),
        (2**31, 'int32', 'int32'),
        (100, 'uint32', 'uint32'),
    ],
)
def test_the_type_of_ids_is_the_smallest_for_the_vocabulary_or_what_is_wanted(
    size: int, wanted: str | None, expected: str
) -> None:
    assert dtype_for(size, wanted) == expected


def test_a_type_that_not_all_ids_fit_is_refused_with_the_numbers() -> None:
    message = "dtype='uint16' holds ids up to 65,535, and .* has ids up to 65,536: use 'uint32'"
    with pytest.raises(OptionError, match=message):
        dtype_for(65_537, 'uint16')
    with pytest.raises(OptionError, match="dtype='int32' holds ids up to 2,147,483,647"):
        dtype_for(2**31 + 1, 'int32')


def test_an_unknown_type_is_refused() -> None:
    with pytest.raises(OptionError, match="dtype='int64' is unknown: expected uint16, uint32, int"):
        dtype_for(100, 'int64')


def test_an_id_that_does_not_fit_is_an_error_and_never_another_id() -> None:
    with pytest.raises(EncodingError, match='token id 65,536 does not fit uint16'):
        fitted(np.array([3, 65_536], np.uint32), 'uint16')
    assert fitted(np.array([3, 65_535], np.uint32), 'uint16').tolist() == [3, 65_535]


# Long texts


def test_a_long_text_is_tokenized_in_pieces_and_stays_one_document(json_file: Path) -> None:
    tokenizer = tokenizer_file(json_file).load()
    texts = ['short', 'x' * 25 + ' and more', '', 'abcdefghij']
    pieces = [[text[at : at + 10] for at in range(0, len(text), 10)] for text in texts]
    expected = [list(chain(*library_ids(json_file, some))) for some in pieces]
    assert _lists(tokenizer, texts, cut_chars=10) == expected
    assert expected[1] != library_ids(json_file, texts)[1]


def test_pieces_of_long_texts_are_not_tokenized_all_at_once(
    json_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Counting(Tokenizer):
        most = 0

        def encode(self, texts):  # type: ignore[no-untyped-def]
            self.most = max(self.most, sum(map(len, texts)))
            return inner.encode(texts)

    inner, counting = tokenizer_file(json_file).load(), Counting()
    monkeypatch.setattr(tokenizing, 'ENCODE_CHARS', 100)
    text = 'word ' * 400
    assert _lists(counting, [text, 'b'], 10) == _lists(inner, [text, 'b'], 10)
    assert counting.most <= 100

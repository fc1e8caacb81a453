"""Text -> token ids: tokenizers from their files, and the types that hold their ids; no Beam steps.

Two kinds of files are known, told apart by their content: `tokenizer.json` of the library
`tokenizers` (what Hugging Face tokenizers are saved as), and the rank files of `tiktoken`, whose
lines are `base64 of the bytes, space, rank`.
"""

from __future__ import annotations

import base64
import binascii
import functools
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from beam_mds import storage
from beam_mds.errors import EncodingError, FormatError, MissingExtraError, OptionError

DTYPES = ('uint16', 'uint32', 'int32')

# Characters of texts that are tokenized at once: `tokenizers` takes about 120 bytes for each.
ENCODE_CHARS = 1_000_000

# A text that tells the ids that a tokenizer puts around each text from the text's own.
_PROBE = 'a'

UInt32s = npt.NDArray[np.uint32]
Int64s = npt.NDArray[np.int64]


class Tokens(NamedTuple):
    """The ids of n texts, one text after another.

    Attributes:
        ids: uint32 of shape (ids of all texts,).
        lengths: int64 of shape (n,), the number of ids of each text.
    """

    ids: UInt32s
    lengths: Int64s


class Tokenizer(ABC):
    """A tokenizer that is in memory.

    Special tokens that are written in a text, like `<|endoftext|>`, become their ids.

    Attributes:
        size: All its ids are below it.
        prefix: The ids that it puts before each text where special tokens are added.
        suffix: Those that it puts behind.
    """

    size: int
    prefix: tuple[int, ...] = ()
    suffix: tuple[int, ...] = ()

    @abstractmethod
    def encode(self, texts: Sequence[str]) -> Tokens:
        """The ids of texts, on all cores; without prefix and suffix, never cut or padded.

        Args:
            texts: Each of them Unicode that UTF-8 has a form for.
        """

    def ids_of(self, text: str) -> tuple[int, ...]:
        """The ids of one short text, like `<|endoftext|>`."""
        return tuple(self.encode([text]).ids.tolist())


class _Json(Tokenizer):
    """A `tokenizer.json`."""

    def __init__(self, path: str, data: bytes) -> None:
        try:
            import tokenizers
        except ImportError:
            raise _missing('tokenizers', path) from None
        try:
            self._tokenizer = tokenizers.Tokenizer.from_buffer(data)
        except ValueError as error:
            raise FormatError(f'{path}: no tokenizer.json that can be read: {error}') from None
        # A file can say that texts are cut or filled up: no id of a text may be lost or made up.
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self.size = max(self._tokenizer.get_vocab(with_added_tokens=True).values(), default=-1) + 1
        bare = self._tokenizer.encode(_PROBE, add_special_tokens=False).ids
        whole = self._tokenizer.encode(_PROBE, add_special_tokens=True).ids
        self.prefix, self.suffix = _around(whole, bare, path)

    def encode(self, texts: Sequence[str]) -> Tokens:
        found = self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        lengths = np.fromiter(map(len, found), np.int64, len(found))
        ids = chain.from_iterable(one.ids for one in found)
        return Tokens(np.fromiter(ids, np.uint32, int(lengths.sum())), lengths)


class _Tiktoken(Tokenizer):
    """A rank file, with its pattern and its special tokens."""

    def __init__(
        self, path: str, data: bytes, pattern: str, special_tokens: Mapping[str, int]
    ) -> None:
        try:
            import tiktoken
        except ImportError:
            raise _missing('tiktoken', path) from None
        ranks = _ranks(path, data)
        taken = sorted(set(ranks.values()) & set(special_tokens.values()))
        if taken:
            raise OptionError(
                f'special_tokens: id {taken[0]} is that of a token of {path}: give another'
            )
        try:
            self._encoding = tiktoken.Encoding(
                path, pat_str=pattern, mergeable_ranks=ranks, special_tokens=dict(special_tokens)
            )
        except ValueError as error:
            raise OptionError(f'pattern={pattern!r:.200} does not work: {error}') from None
        self.size = self._encoding.max_token_value + 1

    def encode(self, texts: Sequence[str]) -> Tokens:
        # Each call releases the interpreter lock.
        found = list(_threads().map(self._ids, texts))
        lengths = np.fromiter(map(len, found), np.int64, len(found))
        return Tokens(np.concatenate([np.empty(0, np.uint32), *found]), lengths)

    def _ids(self, text: str) -> UInt32s:
        ids: UInt32s = self._encoding.encode_to_numpy(text, allowed_special='all')
        return ids


class TokenizerFile(NamedTuple):
    r"""Where a tokenizer is; small, and the same on every worker.

    Attributes:
        path: A `tokenizer.json` or a rank file of tiktoken, on any filesystem that Beam knows.
        pattern: What texts are split by before tokens are formed; a rank file needs it, and a
            `tokenizer.json` has its own.
        special_tokens: Of a rank file: (text, id) of each.

    Example:
        >>> gpt2 = TokenizerFile(
        ...     'gs://bucket/gpt2.tiktoken',
        ...     r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
        ...     (('<|endoftext|>', 50256),),
        ... )
    """

    path: str
    pattern: str | None = None
    special_tokens: tuple[tuple[str, int], ...] = ()

    def load(self) -> Tokenizer:
        """Reads the tokenizer; once per process, whoever asks, unless the file has changed.

        Raises:
            StorageError: The file cannot be read.
            FormatError: It is of neither kind.
            OptionError: A rank file without a pattern, or with special tokens that cannot be.
            MissingExtraError: The library is not installed.
        """
        found = storage.look_up(self.path)
        stamp = (0, 0.0) if found is None else (found.size_in_bytes, found.last_updated_in_seconds)
        return _load(self, stamp)


def tokenizer_file(
    tokenizer: str | os.PathLike[str] | TokenizerFile, option: str = 'tokenizer'
) -> TokenizerFile:
    """What a user gave as a tokenizer, checked, with an absolute path.

    Raises:
        OptionError: It is no path, or no pattern and special tokens.
    """
    if not isinstance(tokenizer, TokenizerFile):
        return TokenizerFile(storage.absolute(tokenizer, option))
    path, pattern, special = tokenizer
    pairs: tuple[Any, ...] = (
        tuple(special.items()) if isinstance(special, Mapping) else tuple(special)
    )
    for pair in pairs:
        text, number = pair if isinstance(pair, tuple) and len(pair) == 2 else (None, None)
        if not (isinstance(text, str) and text and type(number) is int and 0 <= number < 2**32):
            raise OptionError(
                f"special_tokens must be pairs like ('<|endoftext|>', 50256), got {pair!r:.80}"
            )
    if pattern is not None and not isinstance(pattern, str):
        raise OptionError(f'pattern must be a regular expression as text, got {pattern!r:.80}')
    return TokenizerFile(storage.absolute(path, option), pattern, pairs)


def smallest_dtype(size: int) -> str:
    """The smallest type for ids below `size`: uint16 up to 65,536, uint32 above.

    Example:
        >>> smallest_dtype(50_257), smallest_dtype(128_256)
        ('uint16', 'uint32')
    """
    return 'uint16' if size <= 1 << 16 else 'uint32'


def dtype_for(size: int, dtype: str | None = None) -> str:
    """The type of a dataset's ids.

    Args:
        size: All ids are below it.
        dtype: What is wanted; None for the smallest.

    Raises:
        OptionError: It is unknown, or some ids would not fit.

    Example:
        >>> dtype_for(50_257), dtype_for(50_257, 'int32')
        ('uint16', 'int32')
    """
    if dtype is None:
        return smallest_dtype(size)
    if dtype not in DTYPES:
        raise OptionError(f'dtype={dtype!r:.80} is unknown: expected {", ".join(DTYPES)} or None')
    if size - 1 > int(np.iinfo(dtype).max):
        raise OptionError(
            f'dtype={dtype!r} holds ids up to {int(np.iinfo(dtype).max):,}, and the tokenizer has '
            f'ids up to {size - 1:,}: use {smallest_dtype(size)!r}'
        )
    return dtype


def fitted(ids: UInt32s, dtype: str) -> npt.NDArray[Any]:
    """Ids in the type of the dataset.

    Raises:
        EncodingError: One does not fit; which a tokenizer's size should have told before.
    """
    limit = int(np.iinfo(dtype).max)
    if len(ids) and int(ids.max()) > limit:
        raise EncodingError(f'token id {int(ids.max()):,} does not fit {dtype} (up to {limit:,})')
    return ids.astype(dtype)


def encode_texts(tokenizer: Tokenizer, texts: Sequence[str], cut_chars: int | None) -> Tokens:
    """The ids of texts, of which long ones are tokenized in pieces.

    Args:
        tokenizer: The tokenizer.
        texts: n texts.
        cut_chars: Characters of a piece; None for whole texts. No token crosses the end of a piece,
            so the ids there may differ from those of the whole text.
    """
    if cut_chars is None or all(len(text) <= cut_chars for text in texts):
        return tokenizer.encode(texts)
    pieces: list[str] = []
    firsts = []
    for text in texts:
        firsts.append(len(pieces))
        pieces += [text[at : at + cut_chars] for at in range(0, len(text) or 1, cut_chars)]
    # A long text at once would take memory as if nothing were cut.
    some = max(1, ENCODE_CHARS // cut_chars)
    found = [tokenizer.encode(pieces[at : at + some]) for at in range(0, len(pieces), some)]
    lengths = np.concatenate([one.lengths for one in found])
    return Tokens(np.concatenate([one.ids for one in found]), np.add.reduceat(lengths, firsts))


@functools.lru_cache(8)
def _load(file: TokenizerFile, stamp: tuple[int, float]) -> Tokenizer:
    del stamp  # a changed file is another tokenizer
    data = storage.read(file.path)
    if data.lstrip()[:1] == b'{':
        if file.pattern is not None or file.special_tokens:
            raise OptionError(
                f'{file.path} is a tokenizer.json, which has a pattern and special tokens of its '
                'own: leave them out'
            )
        return _Json(file.path, data)
    if file.pattern is None:
        _ranks(file.path, data)  # a file that is none of both is told first
        raise OptionError(
            f'{file.path} is a rank file of tiktoken, which needs the pattern that texts are split '
            'by: give it, and the special tokens'
        )
    return _Tiktoken(file.path, data, file.pattern, dict(file.special_tokens))


def _ranks(path: str, data: bytes) -> dict[bytes, int]:
    """The tokens of a rank file."""
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(data.splitlines(), 1):
        if not line.strip():
            continue
        try:
            token, rank = line.split()
            ranks[base64.b64decode(token, validate=True)] = int(rank)
        except (ValueError, binascii.Error):
            raise FormatError(
                f'{path}, line {number}: expected a token in base64 and its rank, got '
                f'{line[:80]!r}: it is neither a tokenizer.json nor a rank file of tiktoken'
            ) from None
    absent = next((value for value in range(256) if bytes([value]) not in ranks), None)
    if absent is not None:
        raise FormatError(
            f'{path}: no rank for the byte {absent:#04x}: texts with it would have no tokens'
        )
    return ranks


def _around(whole: Sequence[int], bare: Sequence[int], path: str) -> tuple[Any, Any]:
    """The ids before and after `bare` in `whole`."""
    for at in range(len(whole) - len(bare) + 1):
        if whole[at : at + len(bare)] == bare:
            return tuple(whole[:at]), tuple(whole[at + len(bare) :])
    raise FormatError(
        f'{path}: its special tokens are not put before and after a text, which has no support'
    )


def _missing(library: str, path: str) -> MissingExtraError:
    return MissingExtraError(
        f"{path} needs {library}, which is not installed: pip install 'beam-mds[tokens]'"
    )


@functools.cache
def _threads() -> ThreadPoolExecutor:
    """Threads for tokenizers that have none of their own, one a core."""
    return ThreadPoolExecutor(os.cpu_count(), thread_name_prefix='beam-mds-tokens')

"""Tokenizers made from local text, and what one process makes of a corpus."""

from __future__ import annotations

import base64
import functools
import json
import sysconfig
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from beam_mds.records import BadRecord

EOS = '<|endoftext|>'

# What GPT-2 splits texts by.
PATTERN = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"

# Tokens of the rank file, behind the 256 bytes.
_MERGES = (b'th', b'the', b' th', b' the', b'in', b'ing', b'er', b'    ')

SPECIAL = (EOS, 300)


@functools.cache
def stdlib_texts() -> tuple[str, ...]:
    """Modules of the standard library."""
    folder = Path(sysconfig.get_paths()['stdlib'])
    names = sorted(path for kind in ('json', 'email') for path in (folder / kind).glob('*.py'))
    return tuple(path.read_text() for path in names)


def documents(count: int, length: int = 700) -> list[str]:
    """Pieces of these texts, with some that are short, empty or not ASCII among them."""
    whole = [
        text[at : at + length] for text in stdlib_texts() for at in range(0, len(text), length)
    ]
    odd = ['', 'x', 'é 中文 🙂', f'before {EOS} after', '\r\n\t', 'a' * 3000]
    return [
        odd[row % len(odd)] if row % 7 == 3 else whole[row % len(whole)] for row in range(count)
    ]


def train(path: Path, *, special: Sequence[str] = (EOS,), template: str | None = None) -> Path:
    """Trains a tokenizer and saves it.

    Args:
        path: Its `tokenizer.json`.
        special: Its special tokens, whose ids are 0, 1, ...
        template: What it puts around a text, like `<s> $A </s>`.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=1000,
        special_tokens=list(special),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(stdlib_texts()[:5], trainer)
    if template is not None:
        ids = [(name, number) for number, name in enumerate(special)]
        tokenizer.post_processor = processors.TemplateProcessing(
            single=template, special_tokens=ids
        )
    tokenizer.save(str(path))
    return path


def rank_file(path: Path) -> Path:
    """Writes a rank file of tiktoken."""
    tokens = [bytes([value]) for value in range(256)] + list(_MERGES)
    lines = [f'{base64.b64encode(token).decode()} {rank}\n' for rank, token in enumerate(tokens)]
    path.write_text(''.join(lines))
    return path


def library_ids(path: Path, texts: Iterable[str], *, special: bool = True) -> list[list[int]]:
    """The ids that the library itself gives, text by text."""
    tokenizer = Tokenizer.from_file(str(path))
    return [tokenizer.encode(text, add_special_tokens=special).ids for text in texts]


def one_buffer(documents: Iterable[list[int]], size: int, *, wrap: bool) -> list[list[int]]:
    """The samples of one buffer that all documents go through: the rule, as plain as it can be."""
    samples, buffer = [], []
    for document in documents:
        buffer += document
        while len(buffer) >= size:
            samples.append(buffer[:size])
            buffer = buffer[size:] if wrap else []
    return samples


def write_jsonl(path: Path, texts: Iterable[str], **fields: Any) -> Path:
    """Writes a file of JSON lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(''.join(json.dumps({'text': text, **fields}) + '\n' for text in texts))
    return path


def rows_of(elements: Iterable[Any]) -> list[dict[str, Any]]:
    """Samples and batches as dicts, with tokens as lists; no notes."""
    rows: list[dict[str, Any]] = []
    for element in elements:
        if isinstance(element, pa.RecordBatch):
            rows += element.to_pylist()
        elif not isinstance(element, BadRecord):
            rows.append({**element, 'tokens': np.asarray(element['tokens']).tolist()})
    return rows

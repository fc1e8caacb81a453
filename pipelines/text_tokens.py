r"""Texts -> MDS of token ids, packed to one length or one sample a text.

python -m pipelines.text_tokens --input 'c4/*.json.gz' --tokenizer tokenizer.json \
    --concat_tokens 2048 --eos_text '<|endoftext|>' --output gs://bucket/dataset
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from beam_mds import (
    OptionError,
    ReadJsonLines,
    ReadTables,
    ReadTokens,
    Source,
    TokenizerFile,
)
from beam_mds.sources.inputs import InputFile, check_inputs, list_inputs
from beam_mds.sources.textfiles import ReadTextFiles
from beam_mds.sources.tokenized.documents import TOKENS
from beam_mds.sources.tokenizing import DTYPES, Tokenizer, dtype_for, tokenizer_file
from beam_mds.sources.tokens import MAX_CHARS
from pipelines.conversion import (
    Conversion,
    group_field,
    make_main,
    source_options,
    split_field,
)

DESCRIPTION = """
Tokenizes texts and writes their ids as the column tokens. With --concat_tokens the texts are
joined in the order of the input and cut to samples of that length, as llm-foundry's scripts do it:
the same input gives the same samples with any runner. Without it each text is a sample. The ids are
uint16 where the tokenizer has up to 65,536, uint32 otherwise; llm-foundry writes int32: --dtype.
"""

EXAMPLES = """
beam-mds convert text_tokens --input 'c4/*.json.gz' --tokenizer tokenizer.json \\
    --concat_tokens 2048 --eos_text '<|endoftext|>' --output c4-tokens
beam-mds convert text_tokens --input 'books/**.txt' --tokenizer tokenizer.json \\
    --concat_tokens 8192 --bos_text '<s>' --no-add_special_tokens --dtype int32 --output books
beam-mds convert text_tokens --input data.parquet --text_field content --columns tokens,id=str \\
    --tokenizer tokenizer.json --output by-document
"""

# How the names of files of each kind end, before the suffix of a compression.
_SUFFIXES = {
    'jsonl': ('jsonl', 'json', 'ndjson'),
    'table': ('parquet', 'arrow', 'feather', 'ipc', 'csv', 'tsv', 'tab', 'avro'),
    'text': ('txt', 'text', 'md'),
}
_COMPRESSED = re.compile(r'\.(gz|zst|zstd|bz2|xz)$', re.IGNORECASE)

# Characters of a text file that are tokenized at once, as in llm-foundry's convert_text_to_mds.
_FILE_CHARS = 1_000_000


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the pipeline's options."""
    group = parser.add_argument_group('the texts and the tokenizer')

    def add(option: str, text: str, **how: Any) -> None:
        group.add_argument(option, help=text, **how)

    add(
        '--format', 'of the files: jsonl; table (Parquet, Arrow, CSV, Avro); text: each file is '
        'one text; auto: by their names (default: %(default)s)',
        choices=['auto', *_SUFFIXES], default='auto',
    )  # fmt: skip
    add(
        '--text_field', 'the field, or column, of the text; not for text files '
        '(default: %(default)s)',
        default='text', metavar='NAME',
    )  # fmt: skip
    add(
        '--tokenizer', 'a tokenizer.json, or a rank file of tiktoken; local or gs://',
        required=True, metavar='PATH',
    )  # fmt: skip
    add(
        '--tiktoken_pattern', 'of a rank file: what texts are split by before tokens are formed',
        metavar='REGEX',
    )  # fmt: skip
    add(
        '--special_token', "of a rank file: a special token and its id, '<|endoftext|>=50256'; "
        'several times for several',
        action='append', default=[], metavar='TEXT=ID',
    )  # fmt: skip
    add(
        '--concat_tokens', 'join the texts, and cut them to samples of N tokens (default: one '
        'sample a text)',
        type=int, metavar='N',
    )  # fmt: skip
    add('--bos_text', 'what goes before each text (default: nothing)', default='', metavar='TEXT')
    add(
        '--eos_text', 'what goes behind each text, like <|endoftext|> (default: nothing)',
        default='', metavar='TEXT',
    )  # fmt: skip
    add(
        '--no_wrap', 'drop the rest of a text once a sample is full, where it would begin the next',
        action='store_true',
    )  # fmt: skip
    add(
        '--add_special_tokens', 'let the tokenizer add its own special tokens to each text, as '
        'llm-foundry does',
        action=argparse.BooleanOptionalAction, default=True,
    )  # fmt: skip
    add(
        '--dtype', 'of the ids (default: uint16 if all ids of the tokenizer fit, else uint32)',
        choices=DTYPES,
    )  # fmt: skip
    add(
        '--max_chars', 'characters of the longest text that is taken where texts are not cut: a '
        'tokenizer takes about 120 bytes of memory for each (default: %(default)s)',
        type=int, default=MAX_CHARS, metavar='N',
    )  # fmt: skip
    add(
        '--cut_chars', 'tokenize longer texts in pieces of N characters; 0: never (default: '
        f'{_FILE_CHARS} for text files, as llm-foundry does, 0 for others)',
        type=int, metavar='N',
    )  # fmt: skip
    add(
        '--spill', "with --concat_tokens: the folder where ids wait to be counted (default: the "
        "machine's temporary folder if the runner is local, else --temp_location)",
        metavar='FOLDER',
    )  # fmt: skip


def build(args: argparse.Namespace) -> Conversion:
    """The source and the columns.

    Raises:
        MDSError: An option cannot work, or the tokenizer or the input cannot be read.
    """
    file = tokenizer_file(
        TokenizerFile(args.tokenizer, args.tiktoken_pattern, _special_tokens(args.special_token))
    )
    tokenizer = file.load()
    dtype = dtype_for(tokenizer.size, args.dtype or _dtype_of(args.columns.get(TOKENS)))
    if args.concat_tokens is not None:
        _check_separated(tokenizer, args)
    source, kind = _source(args)
    cut_chars = args.cut_chars
    if cut_chars is None and kind == 'text':
        cut_chars = _FILE_CHARS
    tokens = ReadTokens(
        source,
        file,
        text_field='text' if kind == 'text' else args.text_field,
        concat_tokens=args.concat_tokens,
        bos_text=args.bos_text,
        eos_text=args.eos_text,
        no_wrap=args.no_wrap,
        dtype=dtype,
        add_special_tokens=args.add_special_tokens,
        group=None if args.concat_tokens is None else group_field(args),
        max_chars=args.max_chars,
        cut_chars=cut_chars or None,
        spill=args.spill,
        on_error=source_options(args)['on_error'],
    )
    return Conversion(tokens, {TOKENS: f'ndarray:{dtype}'})


def _source(args: argparse.Namespace) -> tuple[Source, str]:
    """What reads the texts, and what kind of files they are in."""
    options = source_options(args)
    kind = args.format
    if kind == 'auto':
        inputs = check_inputs(options['inputs'], options['split'])
        kind = kind_of(list_inputs(inputs, split=options['split']))
    others = [name for name in args.columns if name != TOKENS]
    if args.concat_tokens is not None:
        mixed = [name for name in others if name != group_field(args)]
        if mixed:
            raise OptionError(
                f'--columns {mixed[0]}: samples of --concat_tokens are joined from many texts and '
                f'have only {TOKENS}'
            )
    if kind == 'text':
        return ReadTextFiles(**options), kind
    fields = list(dict.fromkeys([args.text_field, *others]))
    if (split := split_field(args)) is not None and split not in fields:
        fields.append(split)
    if kind == 'jsonl':
        if others:
            return ReadJsonLines(fields=fields, **options), kind
        return ReadJsonLines(schema=pa.schema(dict.fromkeys(fields, pa.string())), **options), kind
    return ReadTables(columns=fields, **options), kind


def kind_of(files: Sequence[InputFile]) -> str:
    """What kind of files they are, by their names: jsonl, table or text.

    Raises:
        OptionError: They are of several kinds, or of none that is known.

    Example:
        >>> kind_of([InputFile('/data/c4.json.gz', 'c4.json.gz', 1)])
        'jsonl'
    """
    kinds: dict[str, str] = {}
    for file in files:
        suffix = _COMPRESSED.sub('', file.name).rpartition('.')[2].lower()
        kind = next((kind for kind, known in _SUFFIXES.items() if suffix in known), None)
        if kind is None:
            raise OptionError(
                f'{file.path}: its name does not tell what it holds: give --format jsonl, table or '
                'text'
            )
        kinds.setdefault(kind, file.path)
    if len(kinds) > 1:
        (one, first), (other, second) = list(kinds.items())[:2]
        raise OptionError(
            f'the input has files of several kinds: {first} ({one}), {second} ({other}): convert '
            'them one kind at a time, or give --format for all'
        )
    return next(iter(kinds))


def _special_tokens(given: Sequence[str]) -> tuple[tuple[str, int], ...]:
    pairs = []
    for pair in given:
        text, equals, number = pair.rpartition('=')
        if not (equals and text and number.isascii() and number.isdecimal()):
            raise OptionError(f"--special_token must be like '<|endoftext|>=50256', got {pair}")
        pairs.append((text, int(number)))
    return tuple(pairs)


def _dtype_of(encoding: str | None) -> str | None:
    """The dtype that `--columns tokens=ndarray:...` asks for."""
    dtype = (encoding or '').removeprefix('ndarray:').partition(':')[0]
    return dtype if dtype in DTYPES else None


def _check_separated(tokenizer: Tokenizer, args: argparse.Namespace) -> None:
    """Raises where nothing would stand between two texts, as llm-foundry does."""
    own = args.add_special_tokens and (tokenizer.prefix or tokenizer.suffix)
    if not (own or args.bos_text or args.eos_text):
        raise OptionError(
            'nothing would stand between joined texts: the tokenizer adds no special tokens; give '
            "--eos_text or --bos_text, like --eos_text '<|endoftext|>'"
        )


main = make_main('text_tokens')

if __name__ == '__main__':
    main()

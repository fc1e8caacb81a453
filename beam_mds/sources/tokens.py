"""TokenizeText and ReadTokens: texts -> samples of token ids."""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import GoogleCloudOptions
from apache_beam.pvalue import AsIter, AsSingleton, PBegin, PCollection

from beam_mds import storage
from beam_mds.errors import OptionError
from beam_mds.read import ReadResult
from beam_mds.records import BadRecord
from beam_mds.runners import runs_here
from beam_mds.sources.base import Source, check_on_error, sorted_outputs
from beam_mds.sources.tokenized import steps
from beam_mds.sources.tokenized.blocks import Block, BlockBuilder, Packing, Task, runs_of, tasks_of
from beam_mds.sources.tokenized.documents import (
    TOKENS,
    Documents,
    Encoder,
    token_samples,
    tokenized,
)
from beam_mds.sources.tokenized.texts import TextOptions
from beam_mds.sources.tokenizing import TokenizerFile, tokenizer_file

# Characters of a text that is not cut: the tokenizer takes about 120 bytes for each.
MAX_CHARS = 10_000_000


class TokenizeText(beam.PTransform):
    """Tokenizes a text of each sample: `tokens`, a numpy array, takes its place.

    Elements are dicts, beam.Row, NamedTuple or dataclass, or `pyarrow.RecordBatch`es; other fields
    stay. Texts are tokenized many at once, on all cores. A sample whose text is null, no text, too
    long or without tokens is a bad record. `ReadTokens` packs texts to samples of one length.

    Example:
        >>> import apache_beam as beam
        >>> with beam.Pipeline(runner='FnApiRunner') as pipeline:  # doctest: +SKIP
        ...     samples = (
        ...         pipeline
        ...         | beam.Create([{'id': 1, 'text': 'hello'}])
        ...         | TokenizeText('gs://bucket/tokenizer.json', eos_text='<|endoftext|>')
        ...     )
    """

    def __init__(
        self,
        tokenizer: str | os.PathLike[str] | TokenizerFile,
        *,
        text_field: str = 'text',
        bos_text: str = '',
        eos_text: str = '',
        dtype: str | None = None,
        add_special_tokens: bool = True,
        max_chars: int = MAX_CHARS,
        cut_chars: int | None = None,
        on_error: str = 'fail',
    ) -> None:
        """Makes the transform; nothing is read before the pipeline runs.

        Args:
            tokenizer: A `tokenizer.json`, or a `TokenizerFile` for a rank file of tiktoken.
            text_field: The field; `a.b` is field b of a, unless there is a field of that name.
            bos_text: What goes before each text, like `<|endoftext|>`; it is tokenized by itself.
            eos_text: What goes behind each text.
            dtype: `uint16`, `uint32` or `int32`; None for the smallest that holds all ids of the
                tokenizer: uint16 up to 65,536 of them, uint32 above.
            add_special_tokens: Whether the tokenizer adds those of its own, if it has any.
            max_chars: A text with more characters is a bad record, unless it is cut: a tokenizer
                takes about 120 bytes of memory for each.
            cut_chars: Longer texts are tokenized in pieces of so many characters. No token crosses
                the end of a piece.
            on_error: `fail` the job at the first bad record, or make each a `dead_letter`.

        Raises:
            OptionError: A value that cannot work.
        """
        super().__init__()
        self._options = TextOptions(
            tokenizer_file(tokenizer),
            text_field,
            bos_text,
            eos_text,
            dtype,
            add_special_tokens,
            max_chars,
            cut_chars,
        )
        self._on_error = check_on_error(on_error)

    def expand(self, samples: PCollection[Any]) -> PCollection[Any] | ReadResult:
        """Wires the step."""
        step = beam.ParDo(steps.TokenizeSamples(self._options, self._on_error))
        read = samples | 'Tokenize' >> step.with_outputs('errors', main='samples')
        return sorted_outputs(read, self._on_error)


class ReadTokens(beam.PTransform):
    """Reads a source's texts as samples of token ids, of one length each where they are packed.

    With `concat_tokens=N` all texts, in the order of the input, are one stream of ids, which is cut
    into samples of N as llm-foundry's `ConcatTokensDataset` does it in one process: the same input
    gives the same samples, whatever the runner, its bundles and workers. The samples have `tokens`
    and, if there is one, the `group`.

    The work is parallel: tasks of about 16 MB are tokenized into blocks; their lengths tell where
    each begins in the stream, and then each is cut by itself. In between, the ids wait in files (2
    or 4 bytes each), which are deleted; a job that fails leaves them.

    Example:
        >>> from beam_mds import ReadJsonLines
        >>> source = ReadJsonLines(['gs://bucket/*.jsonl.zst'])
        >>> samples = ReadTokens(source, 'gs://bucket/tokenizer.json', concat_tokens=2048)
    """

    def __init__(
        self,
        source: Source,
        tokenizer: str | os.PathLike[str] | TokenizerFile,
        *,
        text_field: str = 'text',
        concat_tokens: int | None = None,
        bos_text: str = '',
        eos_text: str = '',
        no_wrap: bool = False,
        dtype: str | None = None,
        add_special_tokens: bool = True,
        group: str | None = None,
        max_chars: int = MAX_CHARS,
        cut_chars: int | None = None,
        spill: str | os.PathLike[str] | None = None,
        on_error: str = 'fail',
    ) -> None:
        """Makes the transform; nothing is read before the pipeline runs.

        Args:
            source: Where the texts are; its own `on_error` does not count.
            tokenizer: As for `TokenizeText`.
            text_field: As for `TokenizeText`.
            concat_tokens: Tokens of a sample. None: one sample a text, with the other fields, as
                `TokenizeText` makes it.
            bos_text: As for `TokenizeText`.
            eos_text: As for `TokenizeText`.
            no_wrap: Whether the rest of a text, once a sample is full, is dropped; it begins the
                next sample otherwise. What is left over at the end is dropped always.
            dtype: As for `TokenizeText`.
            add_special_tokens: As for `TokenizeText`.
            group: A field whose values are packed apart, such as the split.
            max_chars: As for `TokenizeText`.
            cut_chars: As for `TokenizeText`.
            spill: The folder where ids wait, which all workers reach. None: the machine's temporary
                folder where they share it, else the job's `temp_location`.
            on_error: As for `TokenizeText`.

        Raises:
            OptionError: A value that cannot work.
        """
        super().__init__()
        if not isinstance(source, Source):
            raise OptionError(f'source must be a Source like ReadJsonLines, got {source!r:.80}')
        self._source = source
        self._options = TextOptions(
            tokenizer_file(tokenizer),
            text_field,
            bos_text,
            eos_text,
            dtype,
            add_special_tokens,
            max_chars,
            cut_chars,
            group,
        )
        self._packing = _check_packing(concat_tokens, no_wrap, group)
        self._spill = None if spill is None else storage.absolute(spill, 'spill')
        self._on_error = check_on_error(on_error)

    def iterate(self) -> Iterator[Any]:
        """What the transform gives, in the order of the input, without Beam.

        Raises:
            MDSError: The input or the tokenizer cannot be read.
        """
        encoder = Encoder(self._options)
        documents = tokenized(self._source.iterate(), self._options, encoder)
        if self._packing is None:
            for found in documents:
                if isinstance(found, BadRecord):
                    yield found
                else:
                    yield from token_samples(found, self._options.text_field)
            return
        bad: list[BadRecord] = []
        for sample in steps.packed(_blocks(documents, self._packing, bad), self._packing):
            yield from bad
            bad.clear()
            yield sample
        yield from bad

    def expand(self, pipeline: PBegin) -> PCollection[Any] | ReadResult:
        """Wires the steps."""
        start = pipeline | 'Start' >> beam.Impulse()
        tasks = (
            start
            | 'ListFiles' >> beam.FlatMap(lambda _, source: runs_of(source.files()), self._source)
            # (number, list[InputFile])
            | 'SpreadFiles' >> beam.Reshuffle()
            | 'CutFiles' >> beam.FlatMap(tasks_of, self._source)
            # Task
            | 'SpreadTasks' >> beam.Reshuffle()
        )
        if self._packing is None:
            step = beam.ParDo(steps.ReadSamples(self._source, self._options, self._on_error))
            read = tasks | 'Tokenize' >> step.with_outputs('errors', main='samples')
            return sorted_outputs(read, self._on_error)
        return self._packed(start, tasks, self._packing)

    def _packed(
        self, start: PCollection[bytes], tasks: PCollection[Task], packing: Packing
    ) -> PCollection[Any] | ReadResult:
        parent = self._spill or _shared_folder(start.pipeline)
        folder = AsSingleton(start | 'NewFolder' >> beam.Map(_new_folder, parent))
        step = beam.ParDo(
            steps.ReadBlocks(self._source, self._options, packing, self._on_error), folder
        )
        # StoredBlock; and with on_error='inline', BadRecord
        read = tasks | 'Tokenize' >> step.with_outputs('errors', main='blocks')
        # once: what to cut each block into
        cuttings = start | 'PlanSamples' >> beam.ParDo(
            steps.PlanSamples(packing), AsIter(read.blocks)
        )
        cut = beam.ParDo(steps.CutBlock(packing), AsSingleton(cuttings))
        found = read.blocks | 'CutBlocks' >> cut.with_outputs('done', main='samples')
        _ = start | 'DeleteFolder' >> beam.Map(_delete_folder, folder, AsIter(found.done))
        outputs = ReadResult(samples=found.samples, errors=read.errors)
        return sorted_outputs(outputs, self._on_error)

    def display_data(self) -> dict[str, Any]:
        """The options, for the runner's user interface."""
        options, packing = self._options, self._packing
        return {
            'source': type(self._source).__name__,
            'tokenizer': options.tokenizer.path,
            'text_field': options.text_field,
            'concat_tokens': 'none' if packing is None else str(packing.size),
        }


def _check_packing(size: int | None, no_wrap: bool, group: str | None) -> Packing | None:
    if size is None:
        if no_wrap or group is not None:
            name = 'no_wrap' if no_wrap else 'group'
            raise OptionError(f'{name} is for packed samples: it needs concat_tokens')
        return None
    if type(size) is not int or not 0 < size < 2**31:
        raise OptionError(f'concat_tokens must be a number of tokens above 0, got {size!r:.80}')
    if group == TOKENS:
        raise OptionError(f'group={group!r} is the column of the tokens: take another field')
    return Packing(size, not no_wrap, group)


def _blocks(
    documents: Iterable[Documents | BadRecord], packing: Packing, bad: list[BadRecord]
) -> Iterator[Block]:
    """The blocks of documents; the notes that are among these go to a list."""
    builder = BlockBuilder(packing)
    for one in documents:
        if isinstance(one, BadRecord):
            bad.append(one)
        else:
            yield from builder.add(one)
    yield from builder.finish()


def _shared_folder(pipeline: beam.Pipeline) -> str:
    """A folder that the workers share.

    Raises:
        OptionError: None is known.
    """
    if runs_here(pipeline):
        return tempfile.gettempdir()
    folder = pipeline.options.view_as(GoogleCloudOptions).temp_location
    if not folder:
        raise OptionError(
            'spill: no folder is known that all workers of this runner share, where ids wait while '
            'they are counted: give one, or --temp_location'
        )
    return storage.absolute(folder, 'temp_location')


def _new_folder(_: bytes, parent: str) -> str:
    return storage.join(parent, f'beam-mds-tokens-{uuid.uuid4().hex}')


def _delete_folder(_: bytes, folder: str, done: Iterable[bool]) -> None:
    del done  # a side input: all blocks were read
    storage.delete_folder(folder)

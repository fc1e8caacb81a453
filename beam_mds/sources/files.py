"""Text files -> samples, one a file."""

from __future__ import annotations

import hashlib
import io
import logging
import os
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any

import apache_beam as beam
from apache_beam.metrics import Metrics

from beam_mds import storage
from beam_mds.errors import EncodingError, OptionError
from beam_mds.sources.inputs import list_files

_logger = logging.getLogger(__name__)

# The columns of `text_sample`.
COLUMNS = {'path': 'str', 'package': 'str', 'size': 'int64', 'sha256': 'str', 'text': 'str'}

UNDECODABLE = ('skip', 'fail')

# Files that say in their first two lines which encoding they have (PEP 263).
_PYTHON = ('.py', '.pyi', '.pyw')


def decode_text(data: bytes, name: str) -> str:
    r"""A file's text: Python sources by PEP 263, everything else as UTF-8; newlines as they are.

    A byte order mark is not part of the text.

    Args:
        data: The file's content.
        name: Its name, which tells whether it is Python.

    Raises:
        EncodingError: The bytes are no text in that encoding.

    Example:
        >>> decode_text(b'# coding: latin-1\nx = "\xe9"', 'a.py')
        '# coding: latin-1\nx = "é"'
    """
    try:
        encoding = 'utf-8-sig'
        if name.endswith(_PYTHON):
            encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        text = data.decode(encoding)
        text.encode('utf-8')  # some encodings give lone surrogates, which a str column cannot hold
    except (LookupError, SyntaxError, UnicodeError) as error:
        raise EncodingError(f'not text: {str(error)[:120]}', 'text', 'str') from None
    return text


def package_of(path: str) -> str:
    """The top package: the first folder of a relative path, or a top file's name without suffix.

    Example:
        >>> package_of('json/decoder.py'), package_of('os.py')
        ('json', 'os')
    """
    parts = PurePosixPath(path).parts
    return parts[0] if len(parts) > 1 else PurePosixPath(path).stem


def text_sample(path: str, data: bytes) -> dict[str, Any]:
    """The sample of one file, with `COLUMNS`.

    Args:
        path: Posix path relative to the input's root.
        data: The file's content.

    Returns:
        `path`; `package`, see `package_of`; `size` in bytes and `sha256` (hex), both of the file's
        bytes; `text`, see `decode_text`.

    Raises:
        EncodingError: The file is no text.
    """
    return {
        'path': path,
        'package': package_of(path),
        'size': len(data),
        'sha256': hashlib.sha256(data).hexdigest(),
        'text': decode_text(data, path),
    }


class ReadFiles(beam.PTransform):
    """Reads text files whole, one sample a file, with the columns `COLUMNS`.

    A file that several inputs name is one sample; its path is relative to the first of them.

    Example:
        >>> import apache_beam as beam
        >>> with beam.Pipeline(runner='FnApiRunner') as pipeline:  # doctest: +SKIP
        ...     samples = pipeline | ReadFiles(['src', 'gs://bucket/more/**.py'], pattern='*.py')
    """

    def __init__(
        self,
        inputs: Sequence[str | os.PathLike[str]],
        *,
        pattern: str = '*',
        exclude: Sequence[str] = (),
        undecodable: str = 'skip',
    ) -> None:
        """Makes the transform; nothing is listed or read before the pipeline runs.

        Args:
            inputs: Folders, globs and single files; see `list_files`.
            pattern: What the names of files below a folder must match.
            exclude: Names, or globs of names, of files and folders to leave out.
            undecodable: What happens to a file that is no text: `skip` it, which is logged with its
                name and counted (`files_skipped`), or `fail`.

        Raises:
            OptionError: No input, one that is no path, or an unknown `undecodable`.
        """
        super().__init__()
        if isinstance(inputs, (str, os.PathLike)) or not inputs:
            raise OptionError(f'inputs must be a list of at least one path, got {inputs!r:.80}')
        if undecodable not in UNDECODABLE:
            raise OptionError(
                f'undecodable={undecodable!r:.80} is unknown: expected {" or ".join(UNDECODABLE)}'
            )
        self._inputs = [storage.absolute(path, 'input') for path in inputs]
        self._pattern, self._exclude, self._undecodable = pattern, tuple(exclude), undecodable

    def expand(self, pipeline: beam.Pipeline) -> beam.PCollection[dict[str, Any]]:
        """Wires the steps."""
        return (
            pipeline
            | 'Inputs' >> beam.Create(list(enumerate(self._inputs)))
            # (number of the input, input)
            | 'ListFiles' >> beam.FlatMap(_list_numbered, self._pattern, self._exclude)
            # (path, (number of the input, path relative to its root))
            | 'OncePerFile' >> beam.GroupByKey()
            | 'ReadEach' >> beam.ParDo(_ReadFile(self._undecodable))
        )


def _list_numbered(
    numbered: tuple[int, str], pattern: str, exclude: Sequence[str]
) -> Iterator[tuple[str, tuple[int, str]]]:
    number, source = numbered
    for file in list_files(source, pattern, exclude):
        yield file.path, (number, file.name)


class _ReadFile(beam.DoFn):
    """(path, its names in the inputs) -> its sample."""

    def __init__(self, undecodable: str) -> None:
        self._undecodable = undecodable
        self._read = Metrics.counter('beam_mds', 'files_read')
        self._skipped = Metrics.counter('beam_mds', 'files_skipped')

    def process(self, element: tuple[str, Iterable[tuple[int, str]]]) -> Iterator[dict[str, Any]]:
        path, names = element
        _, name = min(names)
        try:
            sample = text_sample(name, storage.read(path))
        except EncodingError as error:
            if self._undecodable == 'fail':
                raise EncodingError(
                    f'{path}: {error.reason}', error.column, error.encoding
                ) from None
            _logger.warning('%s: %s; skipped', path, error.reason)
            self._skipped.inc()
            return
        self._read.inc()
        yield sample

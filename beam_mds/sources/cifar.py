"""CIFAR-10: the batches of its binary and its Python version."""

from __future__ import annotations

import io
import pickle
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from beam_mds import storage
from beam_mds.errors import StorageError
from beam_mds.records import PLACE, BadRecord
from beam_mds.sources.base import Element
from beam_mds.sources.images import count_ignored
from beam_mds.sources.imaging import load_pillow
from beam_mds.sources.inputs import InputFile
from beam_mds.sources.planned import PlannedSource

# An image: 32 x 32 pixels, first all of red, then green, then blue; a record of the binary version
# has one byte with the label before it. (cs.toronto.edu/~kriz/cifar.html)
_SIDE, _CLASSES = 32, 10
_IMAGE = 3 * _SIDE * _SIDE
_RECORD = 1 + _IMAGE

# The files, and the split that each belongs to; the Python version has no suffix.
_TRAIN = re.compile(r'data_batch_\d+(\.bin)?')
_VAL = re.compile(r'test_batch(\.bin)?')

_UInt8s = npt.NDArray[np.uint8]


class CifarWork(NamedTuple):
    """One batch file.

    Attributes:
        split: `train` or `val`.
        before: The files of the split that come before it.
        file: The file.
        size: Its bytes.
    """

    split: str
    before: list[InputFile]
    file: InputFile
    size: int


class ReadCifar10(PlannedSource[CifarWork]):
    """Reads CIFAR-10 from its batch files: `data_batch_*` (`train`) and `test_batch` (`val`).

    Both versions are read: the binary one (`.bin`), and the Python one, whose pickles are taken
    apart without running anything that they name. Elements are dicts: `image` (a PIL image of mode
    RGB), `label` (0 to 9), `index` (the number of the image in its split, from 0) and `split`.

    Kinds of bad records: `label`: a label that is none of the ten; `truncated`: a file that ends
    too early; `format`: one that is no batch of the Python version.

    Example:
        >>> import apache_beam as beam
        >>> with beam.Pipeline(runner='FnApiRunner') as pipeline:  # doctest: +SKIP
        ...     samples = pipeline | ReadCifar10(['cifar-10-batches-bin'])
    """

    def plan(self) -> Iterator[CifarWork | BadRecord]:
        """One piece of work for each batch file."""
        files = self.files()
        splits: dict[str, list[InputFile]] = {'train': [], 'val': []}
        for file in files:  # in natural order: data_batch_2 before data_batch_10
            base = file.name.rpartition('/')[2]
            if _TRAIN.fullmatch(base):
                splits['train'].append(file)
            elif _VAL.fullmatch(base):
                splits['val'].append(file)
        count = sum(map(len, splits.values()))
        if not count:
            raise StorageError(
                f'{len(files)} files like {files[0].path}, and none is a batch of CIFAR-10: '
                'data_batch_1 or data_batch_1.bin, test_batch or test_batch.bin'
            )
        if len({file.path.rpartition('/')[0] for some in splits.values() for file in some}) > 1:
            raise StorageError(
                'batches of CIFAR-10 lie in several folders: give the one that is meant, so that '
                'no image comes twice'
            )
        count_ignored(len(files) - count)
        for split, batches in splits.items():
            for number, file in enumerate(batches):
                yield CifarWork(split, batches[:number], file, file.size)

    def read_work(self, work: CifarWork) -> list[Element]:
        """The images of a batch."""
        pillow, path = load_pillow(), work.file.path
        batch = read_batch(path)
        index = sum(map(_count, work.before))
        elements: list[Element] = []
        for row, (image, label) in enumerate(zip(batch.images, batch.labels.tolist(), strict=True)):
            place: dict[str, str | int] = {'file': path, 'row': row}
            if not 0 <= label < _CLASSES:
                message = f'the label is {label}, expected 0 to {_CLASSES - 1}'
                elements.append(BadRecord('label', message, place))
                continue
            sample = {
                **work.file.fields,
                'image': pillow.fromarray(image),
                'label': label,
                'index': index + row,
                'split': work.split,
                PLACE: place,
            }
            elements.append(sample)
        if batch.fault is not None:
            elements.append(BadRecord(*batch.fault, {'file': path, 'row': len(batch.labels)}))
        return elements


class Batch(NamedTuple):
    """What a batch file holds.

    Attributes:
        images: uint8 of shape (n, 32, 32, 3).
        labels: int64 of shape (n,).
        fault: Kind and message of what is wrong with the file behind them.
    """

    images: _UInt8s
    labels: npt.NDArray[np.int64]
    fault: tuple[str, str] | None = None


def read_batch(path: str) -> Batch:
    """Reads a batch file.

    Args:
        path: Of either version; the name's `.bin` tells.

    Raises:
        StorageError: It cannot be read.
    """
    data = storage.read(path)
    fault: tuple[str, str] | None = None
    if path.endswith('.bin'):
        count, rest = divmod(len(data), _RECORD)
        if rest:
            message = f'{len(data)} bytes, which is no whole number of records of {_RECORD} bytes'
            fault = 'truncated', message
        records = np.frombuffer(data, np.uint8, count * _RECORD).reshape(-1, _RECORD)
        planes, labels = records[:, 1:], records[:, 0].astype(np.int64)
    else:
        try:
            planes, labels = _unpickled(data)
        except Exception as error:  # noqa: BLE001 - bytes that are no pickle fail in many ways
            planes, labels = np.empty((0, _IMAGE), np.uint8), np.empty(0, np.int64)
            message = f'no batch of the Python version of CIFAR-10: {str(error)[:200]}'
            fault = 'truncated' if 'truncated' in message else 'format', message
    images = planes.reshape(-1, 3, _SIDE, _SIDE).transpose(0, 2, 3, 1)
    return Batch(np.ascontiguousarray(images), labels, fault)


def _count(file: InputFile) -> int:
    """The images of a batch file."""
    if file.path.endswith('.bin'):
        return file.size // _RECORD
    return len(read_batch(file.path).labels)


class _Array:
    """Stands for what a pickle calls when it makes a numpy array, and runs nothing of numpy's."""

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Unpickler(pickle.Unpickler):
    """Reads pickles of dicts, lists, texts, numbers and numpy arrays; whatever else is refused."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ('_codecs', 'encode'):  # how Python 3 writes bytes for Python 2
            return _encoded
        if name == '_reconstruct' and module in ('numpy.core.multiarray', 'numpy._core.multiarray'):
            return _Array
        if module == 'numpy' and name in ('ndarray', 'dtype'):
            return _Array
        raise pickle.UnpicklingError(f'it names {module}.{name}, which such a batch does not')


def _encoded(text: str, _: str) -> bytes:
    return text.encode('latin1')


def _unpickled(data: bytes) -> tuple[_UInt8s, npt.NDArray[np.int64]]:
    """Planes of pixels, uint8 of shape (n, 3072), and labels."""
    batch = _Unpickler(io.BytesIO(data), encoding='latin1').load()
    # numpy.ndarray.__setstate__: version, shape, dtype, Fortran order, bytes.
    _, shape, dtype, fortran, raw = batch['data'].state
    labels = np.array(batch['labels'], np.int64)
    if dtype.arguments[0] != 'u1' or fortran or tuple(shape) != (len(labels), _IMAGE):
        raise ValueError(
            f'its data has dtype {dtype.arguments[0]!r:.20} and shape {shape}, with {len(labels)} '
            'labels'
        )
    pixels = raw.encode('latin1') if isinstance(raw, str) else raw
    return np.frombuffer(pixels, np.uint8).reshape(shape), labels

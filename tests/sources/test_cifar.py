"""Tests of the source of CIFAR-10's batches."""

from __future__ import annotations

import os
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from beam_mds import BadRecord, ReadCifar10, StorageError
from beam_mds.records import PLACE
from tests.helpers.pictures import put, through_beam


def batch(seed: int, count: int = 3) -> tuple[np.ndarray, list[int]]:
    """Planes of pixels, uint8 of shape (count, 3072), and labels."""
    random = np.random.default_rng(seed)
    return random.integers(0, 256, (count, 3072), np.uint8), random.integers(0, 10, count).tolist()


def binary(seed: int, count: int = 3) -> bytes:
    """A batch of the binary version."""
    planes, labels = batch(seed, count)
    return b''.join(
        bytes([label]) + plane.tobytes() for label, plane in zip(labels, planes, strict=True)
    )


def python2(seed: int, count: int = 3) -> bytes:
    """A batch as Python 2 and its numpy wrote it: texts are byte strings."""

    def text(value: bytes) -> bytes:
        return b'T' + struct.pack('<i', len(value)) + value  # BINSTRING

    planes, labels = batch(seed, count)
    dtype = b'cnumpy\ndtype\n(' + text(b'u1') + b'K\x00K\x01tR(K\x03' + text(b'|') + b'NNNJ'
    dtype += b'\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb'
    array = b'cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00t' + text(b'b') + b'tR('
    array += b'K\x01(' + b'M' + struct.pack('<H', count) + b'M\x00\x0ct' + dtype
    array += b'\x89' + text(planes.tobytes()) + b'tb'
    numbers = b'](' + b''.join(b'K' + bytes([label]) for label in labels) + b'e'
    items = text(b'batch_label') + text(b'testing batch') + text(b'labels') + numbers
    return b'\x80\x02}(' + items + text(b'data') + array + b'u.'


def python3(seed: int, protocol: int = 2) -> bytes:
    planes, labels = batch(seed)
    return pickle.dumps({'data': planes, 'labels': labels, 'filenames': ['a']}, protocol)


def expected(seed: int, split: str, first: int = 0) -> list[tuple[Any, ...]]:
    planes, labels = batch(seed)
    images = planes.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return [
        (split, first + row, label, image.tobytes())
        for row, (image, label) in enumerate(zip(images, labels, strict=True))
    ]


def shown(elements: Any) -> list[tuple[Any, ...]]:
    return [(s['split'], s['index'], s['label'], s['image'].tobytes()) for s in elements]


@pytest.mark.parametrize(
    ('make', 'suffix'),
    [(binary, '.bin'), (python2, ''), (python3, ''), (lambda seed: python3(seed, 4), '')],
)
def test_both_versions_give_images_labels_and_their_places_in_the_split(
    tmp_path: Path, make: Any, suffix: str
) -> None:
    root = put(
        tmp_path / 'cifar',
        {
            f'data_batch_1{suffix}': make(1),
            f'data_batch_2{suffix}': make(2),
            f'data_batch_10{suffix}': make(3),
            f'test_batch{suffix}': make(4),
            'batches.meta': b'x',
            'readme.html': b'x',
        },
    )
    source = ReadCifar10([root])
    elements = list(source.iterate())
    assert shown(elements) == [
        *expected(1, 'train'),
        *expected(2, 'train', 3),
        *expected(3, 'train', 6),
        *expected(4, 'val'),
    ]
    assert (elements[0]['image'].mode, elements[0]['image'].size) == ('RGB', (32, 32))
    assert elements[4][PLACE] == {'file': f'{root}/data_batch_2{suffix}', 'row': 1}
    assert sorted(shown(through_beam(source))) == sorted(shown(elements))


def test_python2_is_what_pickle_reads() -> None:
    found = pickle.loads(python2(1), encoding='latin1')
    planes, labels = batch(1)
    np.testing.assert_array_equal(found['data'], planes)
    assert found['labels'] == labels


class Evil:
    def __reduce__(self) -> Any:
        return os.system, ('touch evil',)


@pytest.mark.parametrize('key', ['data', 'labels', 'other'])
def test_a_pickle_that_names_anything_else_is_refused_and_not_run(
    tmp_path: Path, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    planes, labels = batch(1)
    content: dict[str, Any] = {'data': planes, 'labels': labels, key: Evil()}
    root = put(tmp_path / 'cifar', {'data_batch_1': pickle.dumps(content, 2)})
    (note,) = ReadCifar10([root], on_error='inline').iterate()
    assert note == BadRecord(
        'format',
        'no batch of the Python version of CIFAR-10: it names posix.system, which such a batch '
        'does not',
        {'file': f'{root}/data_batch_1', 'row': 0},
    )
    assert not (tmp_path / 'evil').exists()


def test_objects_are_no_pixels(tmp_path: Path) -> None:
    wrong = {
        'labels of another number': {'data': batch(1)[0], 'labels': [1]},
        'dtype': {'data': batch(1)[0].astype(np.int64), 'labels': [1, 2, 3]},
        'objects': {'data': np.array([[None] * 3072] * 3, object), 'labels': [1, 2, 3]},
        'columns': {'data': np.asfortranarray(batch(1)[0]), 'labels': [1, 2, 3]},
        'no data': {'labels': [1, 2, 3]},
        'a list': [1],
    }
    for content in wrong.values():
        root = put(tmp_path / 'cifar', {'data_batch_1': pickle.dumps(content, 2)})
        (note,) = ReadCifar10([root], on_error='inline').iterate()
        assert note.error_type == 'format'


def test_a_file_that_ends_too_early_gives_what_is_whole_and_a_note(tmp_path: Path) -> None:
    root = put(tmp_path, {'data_batch_1.bin': binary(1)[:-1], 'data_batch_2.bin': binary(2)})
    *samples, note = ReadCifar10([root], pattern='*_1.bin', on_error='inline').iterate()
    assert shown(samples) == expected(1, 'train')[:2]
    assert note == BadRecord(
        'truncated',
        '9218 bytes, which is no whole number of records of 3073 bytes',
        {'file': f'{root}/data_batch_1.bin', 'row': 2},
    )
    both = ReadCifar10([root], on_error='inline').iterate()
    assert shown(s for s in both if not isinstance(s, BadRecord))[2:] == expected(2, 'train', 2)


def test_a_pickle_that_ends_too_early_is_a_note(tmp_path: Path) -> None:
    root = put(tmp_path, {'data_batch_1': python2(1)[:-50], 'data_batch_2': python2(2)})
    note, *samples = ReadCifar10([root], on_error='inline').iterate()
    assert note.error_type == 'truncated'
    assert shown(samples) == expected(2, 'train')


def test_a_label_that_is_none_of_the_ten_is_a_note(tmp_path: Path) -> None:
    data = bytearray(binary(1))
    data[3073] = 10
    root = put(tmp_path, {'test_batch.bin': bytes(data)})
    first, note, last = ReadCifar10([root], on_error='inline').iterate()
    assert note == BadRecord(
        'label', 'the label is 10, expected 0 to 9', {'file': f'{root}/test_batch.bin', 'row': 1}
    )
    assert (first['index'], last['index']) == (0, 2)


def test_other_files_and_two_versions_at_once_are_errors(tmp_path: Path) -> None:
    root = put(tmp_path / 'a', {'readme.html': b'x'})
    with pytest.raises(StorageError, match='none is a batch of CIFAR-10: data_batch_1 or data_'):
        list(ReadCifar10([root]).iterate())
    put(root, {'bin/test_batch.bin': binary(1), 'py/test_batch': python2(1)})
    with pytest.raises(StorageError, match='batches of CIFAR-10 lie in several folders'):
        list(ReadCifar10([root]).iterate())

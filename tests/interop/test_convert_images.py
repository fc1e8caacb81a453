"""The presets of pipelines.images give what mosaicml-streaming's conversion scripts give.

Each test makes a small copy of the raw layout, and states what the script makes of it: the samples
of each split, in the order of their numbers. MDSWriter writes those; the conversion, told to sort
by the number, must give the same shard to the byte, and streaming's own dataset of that name reads
it.
"""

from __future__ import annotations

import io
import json
import pickle
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from beam_mds.indexes import read_index
from pipelines import images
from tests.helpers.pictures import mask, picture, put
from tests.interop.conftest import Judge
from tests.interop.judge import portable
from tests.sources.test_cifar import batch, binary, python2
from tests.sources.test_coco import box

pytestmark = pytest.mark.interop

Samples = list[dict[str, Any]]


def opened(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data))


def check(
    judge: Judge,
    tmp_path: Path,
    preset: str,
    key: str,
    columns: dict[str, str],
    reference: dict[str, Samples],
    reader: str,
    items: Callable[[dict[str, Any]], Any],
) -> None:
    """Converts `tmp_path/raw`, and compares with what the script would have written."""
    out = tmp_path / 'out'
    images.main(
        [
            f'--preset={preset}', f'--input={tmp_path / "raw"}', f'--output={out}',
            '--order=sorted', f'--key={key}', '--runner=FnApiRunner',
        ]
    )  # fmt: skip
    assert (tmp_path / 'out.errors.jsonl').read_bytes() == b''
    assert sorted(path.name for path in out.iterdir()) == ['index.json', *sorted(reference)]
    for split, samples in reference.items():
        judge.write(samples, tmp_path / 'upstream' / split, columns)
        (ours,) = read_index(str(out / split))
        (theirs,) = read_index(str(tmp_path / 'upstream' / split))
        # The head of a shard holds the columns and their encodings.
        assert (out / split / ours.raw_data.basename).read_bytes() == (
            tmp_path / 'upstream' / split / theirs.raw_data.basename
        ).read_bytes()
        path = judge.new_file()
        judge.ask('read_vision', kind=reader, local=out, split=split, samples=path)
        assert pickle.loads(path.read_bytes()) == [portable(items(sample)) for sample in samples]
    assert len(judge.read(out)) == sum(map(len, reference.values()))


def numbered(samples: Iterable[dict[str, Any]]) -> Samples:
    return [{'i': number, **sample} for number, sample in enumerate(samples)]


def test_imagenet(judge: Judge, tmp_path: Path) -> None:
    files = {
        f'{split}/{wnid}/{name}.JPEG': picture(seed)
        for seed, (split, wnid, name) in enumerate(
            (split, wnid, name)
            for split, names in {
                'train': lambda wnid: [f'{wnid}_{number}' for number in (10026, 9, 88)],
                'val': lambda wnid: [f'ILSVRC2012_val_000000{ord(wnid[-1])}'],
            }.items()
            for wnid in ('n01440764', 'n01443537', 'n15075141')
            for name in names(wnid)
        )
    }
    # As in the real one: a PNG and a CMYK file that are called JPEG.
    files['train/n01443537/n01443537_9.JPEG'] = picture(50, kind='PNG')
    inks = io.BytesIO()
    opened(picture(51)).convert('CMYK').save(inks, 'JPEG')
    files['val/n15075141/ILSVRC2012_val_00000049.JPEG'] = inks.getvalue()
    put(tmp_path / 'raw', files)
    # The script numbers the sorted paths of a split, and their folders as they come.
    reference = {}
    for split in ('train', 'val'):
        paths = sorted(name for name in files if name.startswith(split))
        folders = list(dict.fromkeys(path.split('/')[1] for path in paths))
        reference[split] = numbered(
            {'x': files[path], 'y': folders.index(path.split('/')[1])} for path in paths
        )
    check(
        judge,
        tmp_path,
        'imagenet',
        'i',
        {'i': 'int', 'x': 'jpeg', 'y': 'int'},
        reference,
        'StreamingImageNet',
        lambda sample: (opened(sample['x']), sample['y']),
    )


def test_ade20k(judge: Judge, tmp_path: Path) -> None:
    wanted = {
        'train': ['00000001', '00000002', '00001701', '00003020', '00008455', '00020210'],
        'val': ['00000001', '00001701'],
    }
    folders = {'train': 'training', 'val': 'validation'}
    files = {'objectInfo150.txt': b'Idx', 'sceneCategories.txt': b'x'}
    reference: dict[str, Samples] = {}
    for split, uids in wanted.items():
        for seed, uid in enumerate(uids):
            image, annotation = picture(seed), mask(seed)
            files[f'images/{folders[split]}/ADE_{split}_{uid}.jpg'] = image
            files[f'annotations/{folders[split]}/ADE_{split}_{uid}.png'] = annotation
            # The script leaves out four damaged ones of train.
            if split == 'val' or uid not in ('00001701', '00003020', '00008455', '00013508'):
                sample = {'uid': uid.encode(), 'x': image, 'y': annotation}
                reference.setdefault(split, []).append(sample)
    put(tmp_path / 'raw', files)
    check(
        judge,
        tmp_path,
        'ade20k',
        'uid',
        {'uid': 'bytes', 'x': 'jpeg', 'y': 'png'},
        reference,
        'StreamingADE20K',
        lambda sample: (opened(sample['x']), opened(sample['y'])),
    )


def test_coco(judge: Judge, tmp_path: Path) -> None:
    categories = [{'supercategory': 'x', 'id': number, 'name': 'x'} for number in (1, 3, 90, 44)]
    reference: dict[str, Samples] = {}
    files: dict[str, bytes] = {}
    for split, count in (('train', 6), ('val', 3)):
        rng = np.random.default_rng(count)
        found: dict[str, Any] = {
            'info': {},
            'licenses': [{'id': 1}],
            'images': [],
            'annotations': [],
            'categories': categories,
        }
        for number in rng.permutation(count).tolist():
            width, height = 12 + number, 9 + number
            name = f'{number:012}.jpg'
            data = picture(number, width, height)
            files[f'{split}2017/{name}'] = data
            found['images'].append(
                {'license': 1, 'file_name': name, 'height': height, 'width': width, 'id': number}
            )
            boxes = rng.uniform(0, 8, (number, 4)).round(2).tolist()
            kinds = rng.integers(0, 4, number).tolist()
            found['annotations'] += [
                box(int(rng.integers(1e6)), number, categories[kind]['id'], *sides)
                for kind, sides in zip(kinds, boxes, strict=True)
            ]
            if not boxes:  # the script leaves them out
                continue
            reference.setdefault(split, []).append(
                {
                    'img': data,
                    'img_id': number,
                    'htot': height,
                    'wtot': width,
                    'bbox_sizes': np.array(
                        [
                            (x / width, y / height, (x + w) / width, (y + h) / height)
                            for x, y, w, h in boxes
                        ],
                        np.float32,
                    ),
                    'bbox_labels': np.array([1 + kind for kind in kinds], np.int64),
                }
            )
        reference[split].sort(key=lambda sample: sample['img_id'])
        files[f'annotations/instances_{split}2017.json'] = json.dumps(found).encode()
        files[f'annotations/captions_{split}2017.json'] = b'{}'
    put(tmp_path / 'raw', files)
    check(
        judge,
        tmp_path,
        'coco',
        'img_id',
        {
            'img': 'jpeg',
            'img_id': 'int',
            'htot': 'int',
            'wtot': 'int',
            'bbox_sizes': 'ndarray:float32',
            'bbox_labels': 'ndarray:int64',
        },
        reference,
        'StreamingCOCO',
        lambda sample: (
            opened(sample['img']).convert('RGB'),
            sample['img_id'],
            (sample['htot'], sample['wtot']),
            sample['bbox_sizes'],
            sample['bbox_labels'],
        ),
    )


@pytest.mark.parametrize(('make', 'suffix'), [(python2, ''), (binary, '.bin')])
def test_cifar10(judge: Judge, tmp_path: Path, make: Any, suffix: str) -> None:
    files = {f'data_batch_{number}{suffix}': make(number) for number in range(1, 6)}
    folder = 'cifar-10-batches-bin' if suffix else 'cifar-10-batches-py'
    put(tmp_path / 'raw' / folder, {**files, f'test_batch{suffix}': make(6), 'readme.html': b'x'})
    reference = {
        split: numbered(
            {'x': Image.fromarray(plane.reshape(3, 32, 32).transpose(1, 2, 0)), 'y': label}
            for seed in seeds
            for plane, label in zip(*batch(seed), strict=True)
        )
        for split, seeds in {'train': range(1, 6), 'val': [6]}.items()
    }
    check(
        judge,
        tmp_path,
        'cifar10',
        'i',
        {'i': 'int', 'x': 'pil', 'y': 'int'},
        reference,
        'StreamingCIFAR10',
        lambda sample: (sample['x'], sample['y']),
    )

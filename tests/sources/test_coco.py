"""Tests of the source of COCO's images and annotations."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pytest

from beam_mds import BadRecord, FormatError, ImageOptions, OptionError, ReadCoco, StorageError
from beam_mds.records import PLACE
from beam_mds.sources.cocofile import read_annotations
from tests.helpers.pictures import bad, good, picture, put, through_beam


def box(number: int, image: int, category: int, *sides: float, **more: Any) -> dict[str, Any]:
    """An annotation as COCO has it."""
    return {
        'segmentation': [[1.5, 2.5, 3.5, 4.5, 5.5, 6.5]],
        'area': 20.5,
        'iscrowd': 0,
        'image_id': image,
        'bbox': list(sides),
        'category_id': category,
        'id': number,
        **more,
    }


def image(number: int, name: str, height: int = 9, width: int = 12) -> dict[str, Any]:
    return {'license': 1, 'file_name': name, 'height': height, 'width': width, 'id': number}


def instances(**changed: Any) -> dict[str, Any]:
    """A small annotations file: three images, of which the third has no box."""
    return {
        'info': {'year': 2017},
        'licenses': [],
        'images': [image(9, '9.jpg'), image(5, '5.jpg'), image(7, '7.jpg')],
        'annotations': [
            box(100, 5, 18, 1, 2, 3, 4),
            box(101, 9, 44, 0, 0, 12, 9),
            box(102, 5, 44, 0.5, 0.25, 1.125, 3.0),
        ],
        'categories': [{'id': 44, 'name': 'bottle'}, {'id': 18, 'name': 'dog'}],
        **changed,
    }


def coco(root: Path, found: dict[str, Any] | None = None, split: str = 'val') -> Path:
    found = found or instances()
    return put(
        root,
        {
            f'annotations/instances_{split}2017.json': json.dumps(found).encode(),
            f'annotations/captions_{split}2017.json': b'{}',
            **{f'{split}2017/{number}.jpg': picture(number) for number in (5, 7, 9)},
        },
    )


def test_an_image_has_its_boxes_as_shares_of_its_sides_and_their_labels(tmp_path: Path) -> None:
    root = coco(tmp_path / 'coco')
    source = ReadCoco([root], empty='keep')
    found = {sample['img_id']: sample for sample in source.iterate()}
    assert list(found) == [9, 5, 7]
    sample = found[5]
    assert sample['img'] == picture(5)
    assert (sample['htot'], sample['wtot'], sample['split']) == (9, 12, 'val')
    assert sample['file_name'] == '5.jpg'
    assert sample[PLACE] == {'file': f'{root}/val2017/5.jpg'}
    expected = [
        (1 / 12, 2 / 9, 4 / 12, 6 / 9),
        (0.5 / 12, 0.25 / 9, 1.625 / 12, 3.25 / 9),
    ]
    np.testing.assert_array_equal(sample['bbox_sizes'], np.array(expected, np.float32))
    assert sample['bbox_sizes'].dtype == np.float32
    assert sample['bbox_labels'].tolist() == [2, 1]  # by the order of the categories, not their ids
    assert sample['bbox_labels'].dtype == np.int64
    assert found[7]['bbox_sizes'].shape == (0, 4)
    assert found[7]['bbox_labels'].shape == (0,)


def test_images_without_boxes_are_dropped_and_counted_or_kept(tmp_path: Path) -> None:
    root = coco(tmp_path / 'coco')
    with beam.Pipeline(runner='FnApiRunner') as pipeline:
        _ = pipeline | ReadCoco([root])
    counters = pipeline.result.metrics().query()['counters']
    found = {counter.key.metric.name: counter.result for counter in counters}
    assert (found['records_read'], found['images_without_annotations']) == (2, 1)
    assert len(list(ReadCoco([root], empty='keep').iterate())) == 3


def test_the_boxes_of_an_image_come_in_the_order_of_the_file(tmp_path: Path) -> None:
    boxes = [box(i, (5, 7, 9)[i % 3], (44, 18)[i % 2], i, 0, 1, 1) for i in range(300)]
    root = coco(tmp_path / 'coco', instances(annotations=boxes))
    for sample in ReadCoco([root]).iterate():
        first = (5, 7, 9).index(sample['img_id'])
        assert (sample['bbox_sizes'][:, 0] * 12).round().tolist() == list(range(first, 300, 3))
        assert sample['bbox_labels'].tolist() == [1 + i % 2 for i in range(first, 300, 3)]


def test_files_that_are_left_out_are_counted(tmp_path: Path) -> None:
    root = put(coco(tmp_path / 'coco'), {'test2017/1.jpg': picture(1), 'readme.txt': b'x'})
    with beam.Pipeline(runner='FnApiRunner') as pipeline:
        _ = pipeline | ReadCoco([root])
    counters = pipeline.result.metrics().query()['counters']
    found = {counter.key.metric.name: counter.result for counter in counters}
    assert found['files_ignored'] == 3  # with the captions


def test_several_splits_are_read_each_with_its_own_annotations(tmp_path: Path) -> None:
    root = coco(tmp_path / 'coco')
    train = instances(images=[image(5, '5.jpg')], annotations=[box(1, 5, 44, 0, 0, 6, 3)])
    coco(root, train, 'train')
    put(root, {'test2017/1.jpg': picture(1)})
    elements = list(ReadCoco([root], on_error='inline').iterate())
    assert [(s['split'], s['img_id'], len(s['bbox_labels'])) for s in good(elements)] == [
        ('train', 5, 1),
        ('val', 9, 1),
        ('val', 5, 2),
    ]
    assert bad(elements, root) == {
        f'train2017/{number}.jpg': (
            'not_annotated',
            'ROOT/annotations/instances_train2017.json has no such image',
        )
        for number in (7, 9)
    }


def test_a_pipeline_gives_what_the_source_gives_alone(tmp_path: Path) -> None:
    root = coco(tmp_path / 'coco')
    put(root, {'val2017/9.jpg': b'broken', 'val2017/extra.jpg': picture()})
    source = ReadCoco([root], on_error='inline')
    assert sorted(map(repr, through_beam(source))) == sorted(map(repr, source.iterate()))


def test_annotations_and_images_may_lie_in_any_folders_and_be_compressed(tmp_path: Path) -> None:
    root = put(
        tmp_path,
        {
            'notes/boxes.json.gz': gzip.compress(json.dumps(instances()).encode()),
            **{f'pictures/{number}.jpg': picture(number) for number in (5, 7, 9)},
        },
    )
    source = ReadCoco(
        [root / 'pictures', root / 'notes' / 'boxes.json.gz'],
        annotations='boxes.json.gz',
        images='',
    )
    assert [sample['img_id'] for sample in source.iterate()] == [9, 5]


def test_names_in_sub_folders_are_found(tmp_path: Path) -> None:
    found = instances(images=[image(5, 'a/5.jpg')], annotations=[])
    root = put(tmp_path, {'b.json': json.dumps(found).encode(), 'i/a/5.jpg': picture(5)})
    (sample,) = ReadCoco([root], annotations='b.json', images='i', empty='keep').iterate()
    assert sample['file_name'] == 'a/5.jpg'


def notes(root: Path, found: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    elements = list(ReadCoco([coco(root, found)], on_error='inline').iterate())
    return [
        (note.error_type, note.message, {k: v for k, v in note.place.items() if k != 'file'})
        for note in elements
        if isinstance(note, BadRecord)
    ]


def test_an_image_that_is_not_there_is_named(tmp_path: Path) -> None:
    found = instances(images=[image(3, '3.jpg'), *instances()['images']])
    assert notes(tmp_path, found) == [
        ('no_image', '3.jpg is not in the folder of the images', {'id': 3})
    ]


@pytest.mark.parametrize(
    ('annotation', 'message'),
    [
        (box(1, 5, 99, 1, 2, 3, 4), 'annotation 1: there is no category 99'),
        (box(1, 5, 44, 1, 2, 3), 'annotation 1: bbox=[1, 2, 3], expected four numbers'),
        (box(1, 5, 44, 1, 2, 3, None), 'annotation 1: bbox=[1, 2, 3, None], expected four numbers'),
        (box(1, 5, 44, bbox=None), 'annotation 1: bbox=None, expected four numbers'),
        (box(1, 5, 44, 1, 2, 3, float('nan')), 'annotation 1: bbox=[1, 2, 3, nan], expected'),
        (box(1, 5, 44, 1, 2, 3, 4, category_id='x'), "annotation 1: category_id='x'"),
    ],
)
def test_an_image_with_a_wrong_annotation_is_refused_not_written_without_it(
    tmp_path: Path, annotation: dict[str, Any], message: str
) -> None:
    found = instances(annotations=[annotation, *instances()['annotations']])
    ((kind, text, place),) = notes(tmp_path, found)
    assert kind == 'annotation'
    assert text.startswith(message)
    assert place == {'id': 5, 'image': '5.jpg'}


def test_an_annotation_of_no_image_is_named(tmp_path: Path) -> None:
    lost = [
        box(1, 4, 44, 1, 2, 3, 4),
        box(2, 4, 44, 1, 2, 3, 4, image_id='5'),
        box(3, 6, 44, 1, 2),
        box(4, 8, 99, 1, 2, 3, 4),
    ]
    found = instances(annotations=[*lost, *instances()['annotations']])
    assert [(kind, text) for kind, text, _ in notes(tmp_path, found)] == [
        ('no_image', "annotation 2 has image_id='5'"),
        ('no_image', 'annotation 1 is of image 4, which is not there'),
        ('no_image', 'annotation 4 is of image 8, which is not there'),
        (
            'no_image',
            'annotation 3: bbox=[1, 2], expected four numbers; and its image 6 is not there',
        ),
    ]


def test_an_image_without_a_size_or_twice_there_is_refused(tmp_path: Path) -> None:
    images = [*instances()['images'], image(9, 'again.jpg'), image(8, '5.jpg')]
    images[1] = image(5, '5.jpg', height=0)
    assert [(kind, text) for kind, text, _ in notes(tmp_path, instances(images=images))] == [
        ('no_image', 'image 9 is there twice, as again.jpg too'),
        ('annotation', 'height=0 and width=12 are no size'),
        ('duplicate', '5.jpg is the image of several ids'),
    ]


@pytest.mark.parametrize(
    ('text', 'message'),
    [
        ('{"images": [', 'expected a value: Expecting value, at character 12'),
        ('[]', "expected '{', found '[', at character 0"),
        ('{"images": [], "annotations": []}', "it has no list 'categories'"),
        ('{"images": {}}', "expected '[', found '{', at character 11"),
        ('{"annotations": [3]}', 'annotations has an item that is no object: 3'),
        ('{"images": [{"id": "a"}]}', "an image without id or file_name: {'id': 'a'}"),
        (
            '{"categories": [{"id": 1}, {"id": 1}]}',
            "a category without an id of its own: {'id': 1}",
        ),
        ('', "expected '{', found '', at character 0"),
        ('{"images": []} x', "expected the end, found 'x', at character 15"),
    ],
)
def test_annotations_that_cannot_be_read_are_a_clear_error(
    tmp_path: Path, text: str, message: str
) -> None:
    root = coco(tmp_path)
    path = root / 'annotations' / 'instances_val2017.json'
    path.write_text(text)
    with pytest.raises(FormatError) as caught:
        list(ReadCoco([root], on_error='inline').iterate())
    assert str(caught.value) == f'{path}: no annotations file of COCO: {message}'


def test_the_lists_may_come_in_any_order_and_be_longer_than_a_block(tmp_path: Path) -> None:
    many = instances(
        images=[image(number, f'{number}.jpg') for number in range(20_000)],
        annotations=[box(i, i * 7 % 20_000, 44, i % 5, 0, 1, 1) for i in range(40_000)],
    )
    path = tmp_path / 'a.json'
    path.write_text(json.dumps(dict(reversed(many.items()))))
    found = read_annotations(str(path))
    assert path.stat().st_size > 5 << 20
    assert len(found.images) == 20_000
    assert found.box_images.tolist() == [i * 7 % 20_000 for i in range(40_000)]
    assert found.boxes[:, 0].tolist() == [i % 5 for i in range(40_000)]
    assert not found.bad_images
    assert not found.lost


def test_two_files_of_one_name_are_an_error(tmp_path: Path) -> None:
    root = coco(tmp_path)
    put(root, {'a/1.jpg': picture(), 'b/1.jpg': picture()})
    with pytest.raises(StorageError) as caught:
        list(ReadCoco([root / 'a', root / 'b', root]).iterate())
    assert str(caught.value) == (
        f'{root}/b/1.jpg and {root}/a/1.jpg are called 1.jpg below their inputs: give the folder '
        'that holds both as the input'
    )


def test_an_input_without_annotations_is_an_error(tmp_path: Path) -> None:
    root = put(tmp_path, {'a/1.jpg': picture()})
    with pytest.raises(StorageError, match='no file of the input is an annotations file: its path'):
        list(ReadCoco([root]).iterate())


@pytest.mark.parametrize(
    ('options', 'message'),
    [
        (
            {'options': ImageOptions(9, 'center_crop')},
            'options: center_crop, border and exif=apply',
        ),
        ({'options': ImageOptions(9, 'border')}, 'options: center_crop, border and exif=apply'),
        ({'options': ImageOptions(exif='apply')}, 'options: center_crop, border and exif=apply'),
        ({'empty': 'no'}, "empty='no' is unknown: expected drop or keep"),
        ({'images': '{kind}'}, "images='{kind}' has a field that annotations='annotations/inst"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError) as caught:
        ReadCoco(['in'], **options)
    assert str(caught.value).startswith(message)


def test_boxes_stay_right_when_images_are_resized(tmp_path: Path) -> None:
    root = coco(tmp_path)
    plain = {sample['img_id']: sample for sample in ReadCoco([root]).iterate()}
    options = ImageOptions(6, 'keep_ratio_largest')
    for sample in ReadCoco([root], options=options).iterate():
        assert (sample['width'], sample['height']) == (6, 4)
        expected = plain[sample['img_id']]
        np.testing.assert_array_equal(sample['bbox_sizes'], expected['bbox_sizes'])
        assert (sample['htot'], sample['wtot']) == (9, 12)

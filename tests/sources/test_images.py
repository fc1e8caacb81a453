"""Tests of the sources of image folders and image pairs."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to

from beam_mds import (
    BadRecord,
    ImageOptions,
    OptionError,
    ReadImageFolders,
    ReadImagePairs,
    RecordError,
    StorageError,
)
from beam_mds.records import PLACE
from beam_mds.sources import images, planned
from tests.helpers import faulty
from tests.helpers.pictures import bad, good, mask, picture, put, through_beam


def folders(root: Path) -> Path:
    return put(
        root / 'data',
        {
            'train/dog/2.jpg': picture(1),
            'train/dog/10.jpg': picture(2),
            'train/cat/a.PNG': picture(3, kind='PNG'),
            'val/eel/1.jpg': picture(4, 20, 10),
            'val/dog/3.webp': picture(5, kind='WEBP'),
            'train/dog/notes.txt': b'no image',
            'train/dog/._2.jpg': b'what macOS leaves in archives',
            'train/dog/Thumbs.db': b'x',
        },
    )


def test_a_class_is_numbered_by_its_sorted_name_over_all_splits(tmp_path: Path) -> None:
    root = folders(tmp_path)
    source = ReadImageFolders([root], split='{split}/*/*', on_error='inline')
    found = {sample['name']: sample for sample in source.iterate()}
    assert {name: (sample['label'], sample['class']) for name, sample in found.items()} == {
        'train/cat/a.PNG': (0, 'cat'),
        'train/dog/10.jpg': (1, 'dog'),
        'train/dog/2.jpg': (1, 'dog'),
        'val/dog/3.webp': (1, 'dog'),
        'val/eel/1.jpg': (2, 'eel'),
    }


def test_a_sample_has_the_bytes_of_its_file_and_where_it_came_from(tmp_path: Path) -> None:
    root = folders(tmp_path)
    source = ReadImageFolders([root], split='{split}/*/*', on_error='inline')
    found = {sample['name']: sample for sample in source.iterate()}
    for name, sample in found.items():
        assert sample['image'] == (root / name).read_bytes()
        assert sample[PLACE] == {'file': str(root / name)}
    assert (found['val/eel/1.jpg']['width'], found['val/eel/1.jpg']['height']) == (20, 10)


def test_the_index_is_the_place_in_the_sorted_names_of_the_split(tmp_path: Path) -> None:
    source = ReadImageFolders([folders(tmp_path)], split='{split}/*/*', on_error='inline')
    assert [(s['split'], s['index'], s['name']) for s in source.iterate()] == [
        ('train', 0, 'train/cat/a.PNG'),
        ('train', 1, 'train/dog/10.jpg'),
        ('train', 2, 'train/dog/2.jpg'),
        ('val', 0, 'val/dog/3.webp'),
        ('val', 1, 'val/eel/1.jpg'),
    ]
    one = ReadImageFolders([tmp_path / 'data'])
    assert [sample['index'] for sample in one.iterate()] == [0, 1, 2, 3, 4]


def test_a_pipeline_gives_what_the_source_gives_alone(tmp_path: Path) -> None:
    root = folders(tmp_path)
    put(root, {'train/dog/0.jpg': b'broken'})
    source = ReadImageFolders([root], on_error='inline')
    key = repr
    assert sorted(through_beam(source), key=key) == sorted(source.iterate(), key=key)


def test_a_list_of_classes_gives_their_numbers_and_refuses_others(tmp_path: Path) -> None:
    root = folders(tmp_path)
    source = ReadImageFolders([root], classes=['eel', 'fox', 'dog'], on_error='inline')
    elements = list(source.iterate())
    assert {sample['class']: sample['label'] for sample in good(elements)} == {'eel': 0, 'dog': 2}
    assert bad(elements, root) == {
        'train/cat/a.PNG': ('unknown_class', "'cat' is not one of the classes")
    }


def test_an_image_beside_the_folders_of_classes_has_no_class(tmp_path: Path) -> None:
    root = put(
        tmp_path / 'data',
        {'train/dog/1.jpg': picture(), 'train/stray.jpg': picture(), 'top.jpg': picture()},
    )
    elements = list(ReadImageFolders([root], on_error='inline').iterate())
    assert [(sample['class'], sample['label']) for sample in good(elements)] == [('dog', 0)]
    assert bad(elements, root) == {
        'train/stray.jpg': (
            'no_class',
            "the image lies beside folders of images: 'train' is no class",
        ),
        'top.jpg': ('no_class', "the image lies beside folders of images: 'data' is no class"),
    }


def test_broken_images_are_bad_records_with_their_file_and_the_others_stay(tmp_path: Path) -> None:
    data = picture(1, 64, 64)
    root = put(
        tmp_path / 'data',
        {
            'a/1.jpg': data,
            'a/2.jpg': data[: len(data) // 2],
            'a/3.jpg': b'',
            'a/4.jpg': b'<html>gone</html>',
        },
    )
    elements = list(ReadImageFolders([root], on_error='inline').iterate())
    assert [sample['name'] for sample in good(elements)] == ['a/1.jpg']
    assert {name: kind for name, (kind, _) in bad(elements, root).items()} == {
        'a/2.jpg': 'truncated',
        'a/3.jpg': 'unknown_format',
        'a/4.jpg': 'unknown_format',
    }


def test_a_bad_image_fails_the_job_unless_it_is_a_dead_letter(tmp_path: Path) -> None:
    root = put(tmp_path, {'a/1.jpg': b'no image', 'a/2.jpg': picture()})
    with pytest.raises(RecordError, match=rf'{root}/a/1.jpg: 8 bytes that are no image of a'):
        through_beam(ReadImageFolders([root]))
    with beam.Pipeline(runner='FnApiRunner') as pipeline:
        result = pipeline | ReadImageFolders([root], on_error='dead_letter')
        assert_that(
            result.samples | 'Names' >> beam.Map(lambda sample: sample['name']),
            equal_to(['a/2.jpg']),
        )
        assert_that(
            result.errors | beam.Map(lambda note: (note.error_type, note.place['file'])),
            equal_to([('unknown_format', f'{root}/a/1.jpg')]),
            label='Errors',
        )


def test_images_are_changed_as_the_options_say(tmp_path: Path) -> None:
    root = put(tmp_path, {'a/1.jpg': picture(1, 40, 30), 'a/2.jpg': picture(2, 5, 4)})
    options = ImageOptions(20, 'keep_ratio', min_image_size=8)
    elements = list(ReadImageFolders([root], options=options, on_error='inline').iterate())
    assert [(s['width'], s['height']) for s in good(elements)] == [(27, 20)]
    assert bad(elements, root) == {'a/2.jpg': ('too_small', '5 x 4 pixels: min_image_size is 8')}


def test_fields_get_other_names(tmp_path: Path) -> None:
    root = put(tmp_path, {'a/1.jpg': picture(), 'a/2.jpg': b'x'})
    names = {'image': 'x', 'label': 'y', 'index': 'i'}
    elements = list(ReadImageFolders([root], names=names, on_error='inline').iterate())
    assert set(elements[0]) == {'x', 'y', 'i', 'class', 'name', 'width', 'height', PLACE}
    assert isinstance(elements[1], BadRecord)


def test_files_that_are_left_out_are_counted(tmp_path: Path) -> None:
    with beam.Pipeline(runner='FnApiRunner') as pipeline:
        _ = pipeline | ReadImageFolders([folders(tmp_path)])
    counters = pipeline.result.metrics().query()['counters']
    found = {counter.key.metric.name: counter.result for counter in counters}
    assert (found['files_ignored'], found['records_read']) == (3, 5)


def test_an_input_without_images_is_an_error_that_says_what_is_expected(tmp_path: Path) -> None:
    root = put(tmp_path, {'a/notes.txt': b'x'})
    with pytest.raises(StorageError) as caught:
        list(ReadImageFolders([root]).iterate())
    assert str(caught.value).startswith(
        f'1 files like {root}/a/notes.txt, and none has the name of an image: expected one of .avif'
    )


@pytest.mark.parametrize('name', ['gs', 'local'])
def test_images_are_read_from_any_store(name: str, tmp_path: Path, request: Any) -> None:
    from apache_beam.io.filesystems import FileSystems

    root = request.getfixturevalue('gcs_bucket') if name == 'gs' else str(tmp_path / 'in')
    for path in ('a/1.jpg', 'b/2.jpg'):
        if name == 'local':
            (tmp_path / 'in' / path).parent.mkdir(parents=True)
        with FileSystems.create(f'{root}/{path}') as file:
            file.write(picture(1))
    found = through_beam(ReadImageFolders([root]))
    assert sorted((s['name'], s['label'], s['image'] == picture(1)) for s in found) == [
        ('a/1.jpg', 0, True),
        ('b/2.jpg', 1, True),
    ]


def test_a_store_that_is_busy_is_asked_again(faults: faulty.Faults) -> None:
    put(faults.local, {'data/a/1.jpg': picture(1)})
    faults.add(faulty.Fault('open', r'1\.jpg', error='503', times=2))
    (sample,) = ReadImageFolders([f'{faults.folder}/data']).iterate()
    assert sample['image'] == picture(1)
    assert len(faults.calls('open', r'1\.jpg')) == 3


def test_a_file_that_cannot_be_read_fails_the_job_and_is_no_bad_image(
    faults: faulty.Faults,
) -> None:
    put(faults.local, {'data/a/1.jpg': picture(1)})
    faults.add(faulty.Fault('open', r'1\.jpg', error='403', times=None))
    with pytest.raises(StorageError, match=r'could not read .*/a/1\.jpg'):
        list(ReadImageFolders([f'{faults.folder}/data'], on_error='inline').iterate())


def test_several_files_of_a_batch_are_read_at_the_same_time_and_come_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = put(tmp_path, {f'a/{number}.jpg': picture(number) for number in range(10, 30)})
    running, most, lock = 0, 0, threading.Lock()
    read = images.storage.read

    def slow(path: str) -> bytes:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.02)
        with lock:
            running -= 1
        return read(path)

    monkeypatch.setattr(images.storage, 'read', slow)
    source = ReadImageFolders([root], threads=4)
    (batch,) = source.batches()
    names = [sample['name'] for sample in source.read_batch(batch)]
    assert names == [f'a/{number}.jpg' for number in range(10, 30)]
    assert most == 4


def test_batches_end_at_a_number_of_files_or_of_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = put(tmp_path, {f'a/{number}.jpg': picture(number) for number in range(10)})
    source = ReadImageFolders([root])
    monkeypatch.setattr(planned, '_BATCH_FILES', 4)
    assert [len(batch) for batch in source.batches()] == [4, 4, 2]
    monkeypatch.setattr(planned, '_BATCH_BYTES', int(2.5 * len(picture(0))))
    assert [len(batch) for batch in source.batches()] == [3, 3, 3, 1]


@pytest.mark.parametrize(
    ('options', 'message'),
    [
        ({'classes': 'dog'}, "classes must be a list of names or None, got 'dog'"),
        ({'classes': []}, 'classes must be a list of names or None, got []'),
        ({'classes': ['a', 'a']}, 'classes: a name is there twice, so its number is not clear'),
        ({'threads': 0}, 'threads must be a whole number from 1 on, got 0'),
    ],
)
def test_wrong_options_of_folders_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError) as caught:
        ReadImageFolders(['in'], **options)
    assert str(caught.value) == message


def test_pairs_of_two_folders_belong_together_by_name(tmp_path: Path) -> None:
    root = put(
        tmp_path / 'data',
        {
            'images/a.b.jpg': picture(1),
            'images/c.png': picture(2, kind='PNG'),
            'masks/a.b.png': mask(1),
            'masks/c.tif': mask(2),
            'preview.jpg': picture(3),
        },
    )
    source = ReadImagePairs([root], on_error='inline')
    elements = list(source.iterate())
    assert good(elements) == [
        {
            'key': 'a.b',
            'name': 'images/a.b.jpg',
            'image': picture(1),
            'mask': mask(1),
            'width': 12,
            'height': 9,
        },
        {
            'key': 'c',
            'name': 'images/c.png',
            'image': picture(2, kind='PNG'),
            'mask': mask(2),
            'width': 12,
            'height': 9,
        },
    ]
    assert elements[0][PLACE] == {'file': f'{root}/images/a.b.jpg'}
    key = repr
    assert sorted(through_beam(source), key=key) == sorted(elements, key=key)


def test_images_that_fit_no_pattern_are_counted(tmp_path: Path) -> None:
    root = put(
        tmp_path,
        {'images/1.jpg': picture(), 'masks/1.png': mask(), 'a.jpg': b'x', 'b.jpg': b'x', 'c': b''},
    )
    with beam.Pipeline(runner='FnApiRunner') as pipeline:
        _ = pipeline | ReadImagePairs([root])
    counters = pipeline.result.metrics().query()['counters']
    found = {counter.key.metric.name: counter.result for counter in counters}
    assert (found['files_ignored'], found['records_read']) == (3, 1)


def test_pairs_of_one_folder_are_told_by_their_suffixes(tmp_path: Path) -> None:
    root = put(
        tmp_path,
        {'x/1.png': picture(1, kind='PNG'), 'x/1_mask.png': mask(1), 'x/1_mask.txt': b'x'},
    )
    source = ReadImagePairs([root], image_pattern='{key}.png', mask_pattern='{key}_mask.png')
    (sample,) = source.iterate()
    assert (sample['key'], sample['mask']) == ('1', mask(1))


def test_all_fields_of_the_patterns_make_a_pair(tmp_path: Path) -> None:
    root = put(
        tmp_path,
        {
            'img/train/rome/1_i.png': picture(1, kind='PNG'),
            'img/train/oslo/1_i.png': picture(2, kind='PNG'),
            'gt/train/rome/1_m.png': mask(1),
            'gt/train/oslo/1_m.png': mask(2),
        },
    )
    source = ReadImagePairs(
        [root],
        image_pattern='img/{split}/{city}/{key}_i.png',
        mask_pattern='gt/{split}/{city}/{key}_m.png',
        as_bytes=['key'],
    )
    assert [(s['split'], s['city'], s['key'], s['mask']) for s in source.iterate()] == [
        ('train', 'oslo', b'1', mask(2)),
        ('train', 'rome', b'1', mask(1)),
    ]


def test_what_has_no_partner_or_several_is_named(tmp_path: Path) -> None:
    root = put(
        tmp_path / 'data',
        {
            'images/alone.jpg': picture(),
            'masks/lost.png': mask(),
            'images/two.jpg': picture(),
            'images/two.png': picture(kind='PNG'),
            'masks/two.png': mask(),
            'images/ok.jpg': picture(),
            'masks/ok.png': mask(),
        },
    )
    elements = list(ReadImagePairs([root], on_error='inline').iterate())
    assert [sample['key'] for sample in good(elements)] == ['ok']
    assert bad(elements, root) == {
        'images/alone.jpg': ('no_mask', 'the image has no mask with key=alone'),
        'masks/lost.png': ('no_image', 'the mask has no image with key=lost'),
        'images/two.jpg': (
            'duplicate',
            'belongs together with ROOT/images/two.png: which one to take is not clear',
        ),
        'images/two.png': (
            'duplicate',
            'belongs together with ROOT/images/two.jpg: which one to take is not clear',
        ),
    }


def test_a_mask_must_be_as_large_as_its_image_unless_any_size_is_right(tmp_path: Path) -> None:
    root = put(tmp_path / 'data', {'images/1.jpg': picture(), 'masks/1.png': mask(1, 9, 12)})
    elements = list(ReadImagePairs([root], on_error='inline').iterate())
    assert bad(elements, root) == {
        'masks/1.png': ('size', 'the mask has 9 x 12 pixels, its image 12 x 9')
    }
    (sample,) = ReadImagePairs([root], same_size=False, on_error='inline').iterate()
    assert sample['mask'] == mask(1, 9, 12)


def test_an_image_that_is_turned_upright_fits_the_mask_of_what_people_see(tmp_path: Path) -> None:
    from PIL import Image

    exif = Image.Exif()
    exif[0x0112] = 6
    root = put(
        tmp_path / 'data',
        {'images/1.jpg': picture(exif=exif), 'masks/1.png': mask(1, 9, 12)},
    )
    turned = ReadImagePairs([root], options=ImageOptions(exif='apply'))
    (sample,) = turned.iterate()
    assert (sample['width'], sample['height']) == (9, 12)
    stored = list(ReadImagePairs([root], on_error='inline').iterate())
    assert stored[0].error_type == 'size'


def test_a_resized_mask_keeps_its_values(tmp_path: Path) -> None:
    import io

    import numpy as np
    from PIL import Image

    root = put(tmp_path, {'images/1.jpg': picture(1, 40, 30), 'masks/1.png': mask(1, 40, 30)})
    options = ImageOptions(10, 'center_crop')
    nearest = ImageOptions(
        10, 'center_crop', downscale_interpolation='nearest', upscale_interpolation='nearest'
    )
    (sample,) = ReadImagePairs([root], options=options, mask_options=nearest).iterate()
    small = np.asarray(Image.open(io.BytesIO(sample['mask'])))
    source = Image.open(io.BytesIO(mask(1, 40, 30))).resize((13, 10), Image.Resampling.NEAREST)
    np.testing.assert_array_equal(small, np.asarray(source)[:, 1:11])


@pytest.mark.parametrize(
    ('options', 'message'),
    [
        (
            {'image_pattern': 'a/{key}', 'mask_pattern': 'b/{id}'},
            "image_pattern='a/{key}' and mask_pattern='b/{id}' must have the same fields",
        ),
        (
            {'image_pattern': 'a/*.jpg', 'mask_pattern': 'b/*.png'},
            "image_pattern='a/*.jpg' and mask_pattern='b/*.png' must have the same fields",
        ),
        ({'image_pattern': '{a}/{a}'}, "the path pattern '{a}/{a}' is wrong: redefinition"),
        ({'as_bytes': ['uid']}, "as_bytes: the patterns have no field 'uid'"),
        (
            {'mask_options': ImageOptions(9, 'fixed')},
            'mask_options: another interpolation than nearest makes values that the mask has not',
        ),
        (
            {'mask_options': ImageOptions(encode_format='jpg')},
            'mask_options: jpg changes the values of a mask: take png',
        ),
    ],
)
def test_wrong_options_of_pairs_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError) as caught:
        ReadImagePairs(['in'], **options)
    assert str(caught.value).startswith(message)


def test_patterns_that_fit_no_image_are_an_error(tmp_path: Path) -> None:
    root = put(tmp_path, {'a/1.jpg': picture()})
    with pytest.raises(StorageError) as caught:
        list(ReadImagePairs([root]).iterate())
    assert str(caught.value) == 'no path of the 1 images ends like images/{key} or masks/{key}'

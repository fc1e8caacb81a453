"""Tests of the command `pipelines.images`."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from beam_mds import read_samples
from pipelines import images
from tests.helpers.pictures import encoded, mask, picture, put
from tests.sources.test_cifar import binary
from tests.sources.test_coco import coco


def convert(root: Path, *args: str, out: str = 'out') -> list[dict[str, Any]]:
    """Runs the command; the samples."""
    output = root.parent / out
    images.main([f'--input={root}', f'--output={output}', '--runner=FnApiRunner', *args])
    return list(read_samples(str(output)))


def dead_letters(root: Path, out: str = 'out') -> list[dict[str, Any]]:
    lines = (root.parent / f'{out}.errors.jsonl').read_text().splitlines()
    return [json.loads(line) for line in lines]


def refused(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    with pytest.raises(SystemExit):
        images.main(['--input=in', '--output=out', *args])
    return capsys.readouterr().err.splitlines()[-1].partition('error: ')[2]


def classes(root: Path) -> Path:
    return put(
        root / 'in',
        {
            'dog/1.jpg': picture(1, 40, 30),
            'dog/2.jpg': picture(2, 30, 40),
            'cat/3.png': picture(3, 20, 20, kind='PNG'),
        },
    )


def test_folders_give_image_label_class_and_name(tmp_path: Path) -> None:
    found = {sample['name']: sample for sample in convert(classes(tmp_path))}
    assert {name: (s['label'], s['class']) for name, s in found.items()} == {
        'cat/3.png': (0, 'cat'),
        'dog/1.jpg': (1, 'dog'),
        'dog/2.jpg': (1, 'dog'),
    }
    assert set(found['dog/1.jpg']) == {'image', 'label', 'class', 'name'}
    assert found['cat/3.png']['image'].format == 'PNG'  # the reader opens files of any kind
    assert dead_letters(tmp_path / 'in') == []


def test_other_columns_are_there_for_the_asking(tmp_path: Path) -> None:
    found = convert(classes(tmp_path), '--columns=index=int,width=uint16,height=uint16,image')
    assert sorted((s['index'], s['width'], s['height']) for s in found) == [
        (0, 20, 20),
        (1, 40, 30),
        (2, 30, 40),
    ]


def test_the_options_of_images_reach_them(tmp_path: Path) -> None:
    found = convert(
        classes(tmp_path),
        '--resize_mode=border',
        '--image_size=16',
        '--border_value=7',
        '--encode_format=png',
        '--encode_quality=1',
    )
    for sample in found:
        assert (sample['image'].format, sample['image'].size) == ('PNG', (16, 16))
    index = json.loads((tmp_path / 'out' / 'index.json').read_text())
    assert index['shards'][0]['column_encodings'] == ['str', 'png', 'int', 'str']
    wide = next(sample['image'] for sample in found if sample['name'] == 'dog/1.jpg')
    assert set(np.asarray(wide)[0].flat) == {7}


def test_each_option_of_images_is_passed_on() -> None:
    import argparse

    from beam_mds import ImageOptions
    from pipelines.image_options import add_image_options, image_options

    parser = argparse.ArgumentParser()
    add_image_options(parser)
    assert image_options(parser.parse_args([])) == ImageOptions()
    line = (
        '--image_size 9 --resize_mode fixed --resize_only_if_bigger --downscale_interpolation '
        'bicubic --upscale_interpolation nearest --border_value 3 --min_image_size 4 '
        '--max_image_area 500 --max_aspect_ratio 2.5 --encode_format webp --encode_quality 11 '
        '--no-skip_reencode --exif drop --no-verify_images --max_pixels 1000'
    )
    args = parser.parse_args(line.split())
    assert image_options(args) == ImageOptions(
        9, 'fixed', True, 'bicubic', 'nearest', 3, 4, 500, 2.5, 'webp', 11, False, 'drop', False,
        1000,
    )  # fmt: skip


def test_a_file_of_classes_gives_the_labels(tmp_path: Path) -> None:
    names = tmp_path / 'classes.txt'
    names.write_text('fox\ndog\n\ncat\n')
    found = convert(classes(tmp_path), f'--classes={names}')
    assert {sample['class']: sample['label'] for sample in found} == {'dog': 1, 'cat': 2}


def test_broken_images_are_dead_letters_up_to_the_share_that_is_allowed(tmp_path: Path) -> None:
    root = put(classes(tmp_path), {'cat/4.jpg': picture(4, 64, 64)[:-500], 'cat/.hidden': b'x'})
    with pytest.raises(SystemExit, match='1 of 4 samples were refused'):
        convert(root, out='strict')
    assert not (tmp_path / 'strict' / 'index.json').exists()
    found = convert(root, '--max_error_ratio=0.25')
    assert len(found) == 3
    (letter,) = dead_letters(root)
    assert (letter['stage'], letter['error_type'], letter['place']) == (
        'read',
        'truncated',
        {'file': f'{root}/cat/4.jpg'},
    )
    assert len(convert(root, '--no-verify_images', out='unverified')) == 4


def test_an_excluded_name_is_left_out(tmp_path: Path) -> None:
    assert len(convert(classes(tmp_path), '--exclude=cat', '--read_threads=1')) == 2


def test_a_pattern_of_paths_gives_the_sub_folders(tmp_path: Path) -> None:
    root = put(tmp_path / 'in', {'a/x/1.jpg': picture(1), 'b/x/2.jpg': picture(2)})
    convert(root, '--split={split}/*/*')
    assert len(list(read_samples(str(tmp_path / 'out' / 'a')))) == 1
    preset = convert(root, '--preset=imagenet', out='preset')
    assert (tmp_path / 'preset' / 'b' / 'index.json').exists()
    assert sorted(preset[0]) == ['i', 'x', 'y']
    convert(root, '--preset=imagenet', '--split=none', out='whole')
    assert not (tmp_path / 'whole' / 'b').exists()
    assert sorted(s['i'] for s in read_samples(str(tmp_path / 'whole'))) == [0, 1]


def test_pairs_have_the_fields_of_their_patterns(tmp_path: Path) -> None:
    root = put(
        tmp_path / 'in',
        {
            'i/oslo/1.jpg': picture(1, 40, 30),
            'm/oslo/1_m.png': mask(1, 40, 30),
            'm/oslo/2_m.png': mask(2),
        },
    )
    found = convert(
        root,
        '--layout=pairs',
        '--image_pattern=i/{city}/{key}.jpg',
        '--mask_pattern=m/{city}/{key}_m.png',
        '--max_error_ratio=0.5',
        '--resize_mode=border',
        '--image_size=20',
        '--mask_border_value=200',
        '--encode_format=jpg',
    )
    (sample,) = found
    assert (sample['city'], sample['key'], sample['name']) == ('oslo', '1', 'i/oslo/1.jpg')
    assert (sample['image'].format, sample['image'].size) == ('JPEG', (20, 20))
    assert (sample['mask'].format, sample['mask'].size) == ('PNG', (20, 20))
    values = np.asarray(sample['mask'])
    assert set(values[0].tolist()) == {200}
    original = np.asarray(Image.open(io.BytesIO(mask(1, 40, 30))))
    assert set(values[3:17].flat) <= set(original.flat)
    assert [letter['error_type'] for letter in dead_letters(root)] == ['no_image']


def test_masks_of_any_size_are_taken_when_that_is_asked_for(tmp_path: Path) -> None:
    root = put(tmp_path / 'in', {'images/1.jpg': picture(1), 'masks/1.png': mask(1, 5, 5)})
    assert len(convert(root, '--layout=pairs', '--any_mask_size')) == 1
    with pytest.raises(SystemExit, match='1 of 1 samples were refused'):
        convert(root, '--layout=pairs', out='strict')
    assert [letter['error_type'] for letter in dead_letters(root, 'strict')] == ['size']


def test_a_resized_mask_is_stored_without_loss(tmp_path: Path) -> None:
    values = Image.open(io.BytesIO(mask(1, 16, 16)))
    root = put(
        tmp_path / 'in',
        {'images/1.jpg': picture(1, 16, 16), 'masks/1.jpg': encoded(values, 'JPEG')},
    )
    (kept,) = convert(root, '--layout=pairs')
    (small,) = convert(root, '--layout=pairs', '--resize_mode=fixed', '--image_size=8', out='small')
    assert (kept['mask'].format, small['mask'].format) == ('JPEG', 'PNG')
    assert small['image'].format == 'JPEG'
    source = kept['mask'].resize((8, 8), Image.Resampling.NEAREST)
    np.testing.assert_array_equal(np.asarray(small['mask']), np.asarray(source))


def test_the_patterns_of_a_preset_can_be_replaced(tmp_path: Path) -> None:
    root = put(tmp_path / 'in', {'a/train_7.jpg': picture(1), 'b/train_7.png': mask(1)})
    patterns = ['--image_pattern=a/{split}_{uid}.jpg', '--mask_pattern=b/{split}_{uid}.png']
    (sample,) = convert(root, '--preset=ade20k', *patterns)
    assert sample['uid'] == b'7'
    assert (tmp_path / 'out' / 'train' / 'index.json').exists()


def test_coco_leaves_out_images_without_boxes(tmp_path: Path) -> None:
    root = coco(tmp_path / 'in')
    for number, layout in enumerate(('--layout=coco', '--preset=coco')):
        found = convert(root, layout, out=f'out{number}')
        assert sorted(sample['img_id'] for sample in found) == [5, 9]
        assert dead_letters(root, f'out{number}') == []


def test_the_files_of_coco_may_lie_elsewhere(tmp_path: Path) -> None:
    root = coco(tmp_path / 'in')
    (root / 'annotations' / 'instances_val2017.json').rename(root / 'boxes.json')
    (root / 'val2017').rename(root / 'pictures')
    found = convert(root, '--layout=coco', '--annotations=boxes.json', '--image_folder=pictures')
    assert len(found) == 2


def test_cifar10_gives_pixels(tmp_path: Path) -> None:
    root = put(tmp_path / 'in', {'data_batch_1.bin': binary(1), 'test_batch.bin': binary(2)})
    assert len(convert(root, '--layout=cifar10')) == 6
    found = convert(root, '--preset=cifar10', out='preset')
    assert {tuple(sorted(sample)) for sample in found} == {('i', 'x', 'y')}
    assert len(list(read_samples(str(tmp_path / 'preset' / 'val')))) == 3


def test_a_dry_run_shows_samples_and_what_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = put(tmp_path / 'in', {'a/1.jpg': b'broken', 'a/2.jpg': picture(1)})
    images.main([f'--input={root}', f'--output={tmp_path / "out"}', '--dry_run_sample=2'])
    known = 'no image of a known format: they start with'
    assert capsys.readouterr().out.splitlines() == [
        f"record 0: {root}/a/1.jpg: 6 bytes that are {known} b'broken'",
        f'record 1: {root}/a/2.jpg',
        '  class (str)   a',
        '  image (jpeg)  JPEG 12 x 9 RGB',
        '  label (int)   0',
        '  name (str)    a/2.jpg',
    ]
    assert not (tmp_path / 'out').exists()


@pytest.mark.parametrize(
    ('args', 'message'),
    [
        (
            ['--preset=coco', '--layout=pairs'],
            '--preset coco has --layout coco, got pairs',
        ),
        (['--classes=x', '--layout=coco'], '--classes is for --layout folders, not coco'),
        (['--annotations=x'], '--annotations is for --layout coco, not folders'),
        (['--any_mask_size'], '--any_mask_size is for --layout pairs, not folders'),
        (
            ['--layout=cifar10', '--exif=drop'],
            '--layout cifar10 takes no options of images: its pixels are no files',
        ),
        (['--image_size=9'], "size=9 with resize_mode='no': a resize needs both a size and a mode"),
        (['--read_threads=0'], 'threads must be a whole number from 1 on, got 0'),
        (
            ['--layout=coco', '--resize_mode=border', '--image_size=9'],
            'options: center_crop, border and exif=apply would move the boxes of COCO',
        ),
        (['--mask_patern=x'], 'unknown option --mask_patern: did you mean --mask_pattern?'),
    ],
)
def test_options_that_do_not_go_together_are_refused_before_anything_is_read(
    capsys: pytest.CaptureFixture[str], args: list[str], message: str
) -> None:
    assert refused(capsys, *args).startswith(message)

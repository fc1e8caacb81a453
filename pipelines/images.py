"""Image files -> MDS: folders of classes, pairs of image and mask, COCO, CIFAR-10.

python -m pipelines.images --input imagenet --preset imagenet --output gs://bucket/dataset
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from beam_mds import (
    ImageOptions,
    OptionError,
    ReadCifar10,
    ReadCoco,
    ReadImageFolders,
    ReadImagePairs,
    storage,
)
from beam_mds.sources.images import IMAGE_PATTERN
from beam_mds.sources.inputs import path_end
from beam_mds.sources.planned import THREADS
from pipelines.conversion import Conversion, make_main, source_options
from pipelines.image_options import add_image_options, image_options
from pipelines.options import NONE

DESCRIPTION = """
Writes image files as an MDS dataset. The files stay as they are to the byte, unless a resize,
another format or an EXIF orientation asks for a change; broken ones are refused.

Layouts. folders: image, label (int: the place of the folder's name among all sorted ones), class
(the folder's name), name (the path). pairs: image, mask, name, and the fields of the patterns.
coco: img, img_id, htot, wtot, bbox_sizes, bbox_labels; images without boxes are left out, since MDS
holds no empty arrays. cifar10: image, label, index, from the batch files of the binary or the
Python version. All but cifar10 can also give width=int and height=int, folders index=int: the
number of the file in its split.

Presets give the columns, and the sub-folders train and val, of mosaicml-streaming's own scripts:
imagenet (i, x, y), ade20k (uid, x, y), coco, cifar10 (i, x, y).

Images are in columns of the encoding jpeg, png where that is the --encode_format: the bytes are
those of the file, and StreamingDataset opens any kind.
"""

EXAMPLES = """
beam-mds convert images --preset imagenet --input imagenet --output imagenet-mds
beam-mds convert images --input photos --output mds --resize_mode center_crop --image_size 256 \\
    --encode_format jpg --encode_quality 90 --exif apply --max_error_ratio 0.01
beam-mds convert images --layout pairs --input roads --output roads-mds \\
    --image_pattern 'images/{key}.jpg' --mask_pattern 'masks/{key}_mask.png'
"""


class _Preset(NamedTuple):
    """What a preset stands for.

    Attributes:
        layout: Its layout.
        columns: The columns; an image has the encoding of the option.
        names: The names of fields, before -> after.
        split: `--split`.
        options: Options of the layout.
        exclude: Names that are left out.
    """

    layout: str
    columns: tuple[str, ...]
    names: Mapping[str, str] = {}
    split: str = 'split'
    options: Mapping[str, Any] = {}
    exclude: tuple[str, ...] = ()


_PRESETS = {
    'ade20k': _Preset(
        'pairs',
        ('uid', 'image', 'mask'),
        {'image': 'x', 'mask': 'y'},
        options={
            'image_pattern': 'images/*/ADE_{split}_{uid}.jpg',
            'mask_pattern': 'annotations/*/ADE_{split}_{uid}.png',
            'as_bytes': ['uid'],
        },
        # Known to be damaged, and left out by mosaicml-streaming's script too.
        exclude=tuple(
            f'ADE_train_{uid}.*' for uid in ('00001701', '00003020', '00008455', '00013508')
        ),
    ),
    'cifar10': _Preset(
        'cifar10', ('index', 'image', 'label'), {'index': 'i', 'image': 'x', 'label': 'y'}
    ),
    'coco': _Preset(
        'coco',
        ('img', 'img_id', 'htot', 'wtot', 'bbox_sizes', 'bbox_labels'),
    ),
    'imagenet': _Preset(
        'folders',
        ('index', 'image', 'label'),
        {'index': 'i', 'image': 'x', 'label': 'y'},
        '{split}/*/*',
    ),
}

_Sources = ReadCifar10 | ReadCoco | ReadImageFolders | ReadImagePairs

# The options that only one layout has.
_OWN = {
    'folders': ('classes',),
    'pairs': ('image_pattern', 'mask_pattern', 'mask_border_value', 'any_mask_size'),
    'coco': ('annotations', 'image_folder'),
    'cifar10': (),
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the layout's options, and those of the images."""
    group = parser.add_argument_group('the layout')

    def add(option: str, text: str, **how: Any) -> None:
        group.add_argument(option, help=text, **how)

    add('--layout', 'how the files lie (default: folders)', choices=list(_OWN))
    add('--preset', 'a layout with the columns of a well-known dataset', choices=list(_PRESETS))
    add(
        '--exclude', 'name, or glob of a name, of files and folders to leave out at any depth; may '
        'be given several times', action='append', default=[], metavar='NAME',
    )  # fmt: skip
    add(
        '--read_threads', 'files that each worker thread reads at the same time '
        '(default: %(default)s)', type=int, default=THREADS, metavar='N',
    )  # fmt: skip
    add(
        '--classes', 'folders: a file with the names of all classes, one a line, in the order of '
        'their labels (default: the sorted names of the folders)', metavar='FILE',
    )  # fmt: skip
    add(
        '--image_pattern', 'pairs: what the paths of images end like (default: images/{key}); '
        'fields in braces name the pair', metavar='PATTERN',
    )  # fmt: skip
    add(
        '--mask_pattern', 'pairs: the same of masks, with the same fields (default: masks/{key})',
        metavar='PATTERN',
    )  # fmt: skip
    add(
        '--mask_border_value', 'pairs: value of the bars of masks, where they are resized with '
        'border (default: 255)', type=int, metavar='VALUE',
    )  # fmt: skip
    add(
        '--any_mask_size', 'pairs: take masks of another size than their image',
        action='store_true', default=None,
    )  # fmt: skip
    add(
        '--annotations', 'coco: what the paths of annotations files end like '
        '(default: annotations/instances_{split}2017.json)', metavar='PATTERN',
    )  # fmt: skip
    add(
        '--image_folder', 'coco: the folder of the images of such a file '
        '(default: {split}2017)', metavar='FOLDER',
    )  # fmt: skip
    add_image_options(parser)


def build(args: argparse.Namespace) -> Conversion:
    """The source and the columns.

    Raises:
        MDSError: An option cannot work, or the file of the classes cannot be read.
    """
    preset = _PRESETS.get(args.preset, _Preset(args.layout or 'folders', ()))
    layout = preset.layout
    if args.layout not in (None, layout):
        raise OptionError(f'--preset {args.preset} has --layout {layout}, got {args.layout}')
    for other, options in _OWN.items():
        for option in options:
            if other != layout and getattr(args, option) is not None:
                raise OptionError(f'--{option} is for --layout {other}, not {layout}')
    if args.split is None and args.preset is not None:
        args.split = preset.split
    if args.split == NONE:
        args.split = None
    common = {
        **source_options(args),
        'exclude': [*preset.exclude, *args.exclude],
        'names': preset.names,
        'threads': args.read_threads,
    }
    source, columns = _LAYOUTS[layout](args, {**common, **preset.options}, image_options(args))
    if args.preset is not None:
        columns = {
            preset.names.get(name, name): columns.get(name, 'int') for name in preset.columns
        }
    return Conversion(source, columns)


def _folders(
    args: argparse.Namespace, common: dict[str, Any], options: ImageOptions
) -> tuple[_Sources, dict[str, str]]:
    classes = None
    if args.classes is not None:
        lines = storage.read(storage.absolute(args.classes, '--classes')).decode('utf-8-sig')
        classes = [line.strip() for line in lines.splitlines() if line.strip()]
    columns = {'image': _encoding(options), 'label': 'int', 'class': 'str', 'name': 'str'}
    return ReadImageFolders(classes=classes, options=options, **common), columns


def _pairs(
    args: argparse.Namespace, common: dict[str, Any], options: ImageOptions
) -> tuple[_Sources, dict[str, str]]:
    for name in ('image_pattern', 'mask_pattern'):
        if getattr(args, name) is not None:
            common[name] = getattr(args, name)
    image_pattern = common.get('image_pattern', IMAGE_PATTERN)
    changed = options.resize_mode != 'no'
    mask_options = dataclasses.replace(
        options,
        downscale_interpolation='nearest',
        upscale_interpolation='nearest',
        border_value=255 if args.mask_border_value is None else args.mask_border_value,
        encode_format='png' if changed else None,
        encode_quality=None,
    )
    source = ReadImagePairs(
        options=options, mask_options=mask_options, same_size=not args.any_mask_size, **common
    )
    fields = path_end(image_pattern, '--image_pattern').groupindex
    kinds = {name: 'bytes' if name in common.get('as_bytes', ()) else 'str' for name in fields}
    return source, {'image': _encoding(options), 'mask': 'png', 'name': 'str', **kinds}


def _coco(
    args: argparse.Namespace, common: dict[str, Any], options: ImageOptions
) -> tuple[_Sources, dict[str, str]]:
    given = {'annotations': args.annotations, 'images': args.image_folder}
    common |= {name: value for name, value in given.items() if value is not None}
    return ReadCoco(options=options, **common), {
        'img': _encoding(options),
        'img_id': 'int',
        'htot': 'int',
        'wtot': 'int',
        'bbox_sizes': 'ndarray:float32',
        'bbox_labels': 'ndarray:int64',
    }


def _cifar10(
    args: argparse.Namespace, common: dict[str, Any], options: ImageOptions
) -> tuple[_Sources, dict[str, str]]:
    del args
    if options != ImageOptions():
        raise OptionError('--layout cifar10 takes no options of images: its pixels are no files')
    return ReadCifar10(**common), {'index': 'int', 'image': 'pil', 'label': 'int'}


_LAYOUTS: dict[str, Callable[..., tuple[_Sources, dict[str, str]]]] = {
    'folders': _folders,
    'pairs': _pairs,
    'coco': _coco,
    'cifar10': _cifar10,
}


def _encoding(options: ImageOptions) -> str:
    """The encoding of a column of images: the reader opens a file of any kind in both."""
    return 'png' if options.encode_format == 'png' else 'jpeg'


main = make_main('images')

if __name__ == '__main__':
    main()

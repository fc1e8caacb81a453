"""The annotations files of COCO, read as streams."""

from __future__ import annotations

import array
import math
from typing import Any, NamedTuple, TypeGuard

import numpy as np
import numpy.typing as npt

from beam_mds.errors import FormatError
from beam_mds.format.jsonstream import JsonStream
from beam_mds.sources.opening import open_stream


class Annotations(NamedTuple):
    """What an annotations file holds, without the outlines of objects.

    Attributes:
        images: Image id -> (file name, height, width), in the order of the file.
        box_images: int64 of shape (boxes,), the image's id of each box, in the order of the file.
        boxes: float64 of shape (boxes, 4): left, top, width, height in pixels.
        labels: int64 of shape (boxes,), the place of each box's category in the file, from 1.
        bad_images: Image id -> what is wrong with one of its annotations.
        lost: What is wrong with annotations and images that belong to no image.
    """

    images: dict[int, tuple[str, int, int]]
    box_images: npt.NDArray[np.int64]
    boxes: npt.NDArray[np.float64]
    labels: npt.NDArray[np.int64]
    bad_images: dict[int, str]
    lost: list[str]


def shares(boxes: npt.NDArray[np.float64], width: int, height: int) -> npt.NDArray[np.float32]:
    """Boxes as shares of an image's sides.

    Args:
        boxes: float64 of shape (n, 4): left, top, width, height in pixels.
        width: Of the image.
        height: Of the image.

    Returns:
        float32 of shape (n, 4): left, top, right, bottom.

    Example:
        >>> shares(np.array([[10.0, 20, 30, 40]]), 100, 200).tolist()
        [[0.10000000149011612, 0.10000000149011612, 0.4000000059604645, 0.30000001192092896]]
    """
    corners = np.concatenate([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], axis=1)
    return (corners / np.array([width, height, width, height], np.float64)).astype(np.float32)


def read_annotations(path: str) -> Annotations:
    """Reads an annotations file, as a stream.

    Args:
        path: On any filesystem that Beam knows; plain or compressed.

    Raises:
        FormatError: It is no JSON, or has not COCO's lists.
        StorageError: It cannot be read.
    """
    with open_stream(path) as stream:
        try:
            return _Reader().read(JsonStream(stream.blocks()))
        except FormatError as error:
            raise FormatError(f'{path}: no annotations file of COCO: {error}') from None


class _Reader:
    """Gathers the lists of an annotations file, whatever their order."""

    def __init__(self) -> None:
        self._images: dict[int, tuple[str, int, int]] = {}
        self._labels: dict[int, int] = {}
        self._of, self._kinds, self._ids = (array.array('q') for _ in range(3))
        self._boxes = array.array('d')
        self._bad: dict[int, str] = {}
        self._lost: list[str] = []

    def read(self, stream: JsonStream) -> Annotations:
        lists = {
            'images': self._image,
            'annotations': self._annotation,
            'categories': self._category,
        }
        missing = set(lists)
        for name in stream.members():
            if name not in lists:
                stream.value()
                continue
            missing.discard(name)
            for item in stream.items():
                if not isinstance(item, dict):
                    raise FormatError(f'{name} has an item that is no object: {repr(item)[:80]}')
                lists[name](item)
        stream.end()
        if missing:
            raise FormatError(f'it has no list {min(missing)!r}')
        return self._joined()

    def _image(self, item: dict[str, Any]) -> None:
        number, name = item.get('id'), item.get('file_name')
        height, width = item.get('height'), item.get('width')
        if not _is_int(number) or not isinstance(name, str):
            raise FormatError(f'an image without id or file_name: {repr(item)[:200]}')
        if number in self._images:
            self._lost.append(f'image {number} is there twice, as {name} too')
        elif _is_int(height) and _is_int(width) and min(height, width) > 0:
            self._images[number] = name, height, width
        else:
            self._images[number] = name, 0, 0
            self._bad[number] = f'height={height!r:.40} and width={width!r:.40} are no size'

    def _annotation(self, item: dict[str, Any]) -> None:
        owner, number = item.get('image_id'), item.get('id')
        category, box = item.get('category_id'), item.get('bbox')
        if not _is_int(owner):
            self._lost.append(f'annotation {number!r:.40} has image_id={owner!r:.40}')
        elif not _is_int(category):
            self._bad[owner] = f'annotation {number}: category_id={category!r:.40}'
        elif not _is_box(box):
            self._bad[owner] = f'annotation {number}: bbox={box!r:.80}, expected four numbers'
        else:
            self._of.append(owner)
            self._kinds.append(category)
            self._ids.append(number if _is_int(number) else -1)
            self._boxes.extend(box)

    def _category(self, item: dict[str, Any]) -> None:
        number = item.get('id')
        if not _is_int(number) or number in self._labels:
            raise FormatError(f'a category without an id of its own: {repr(item)[:200]}')
        self._labels[number] = len(self._labels) + 1

    def _joined(self) -> Annotations:
        owners = np.frombuffer(self._of, np.int64)
        categories = np.frombuffer(self._kinds, np.int64)
        numbers = np.frombuffer(self._ids, np.int64)
        known = np.array(sorted(self._labels), np.int64)
        images = np.array(list(self._images), np.int64)
        self._lost += [
            f'annotation {numbers[row]} is of image {owners[row]}, which is not there'
            for row in np.flatnonzero(~np.isin(owners, images))
        ]
        self._lost += [
            f'{message}; and its image {number} is not there'
            for number, message in self._bad.items()
            if number not in self._images
        ]
        for row in np.flatnonzero(~np.isin(categories, known)):
            self._bad[int(owners[row])] = (
                f'annotation {numbers[row]}: there is no category {categories[row]}'
            )
        places = np.searchsorted(known, categories)
        numbered = np.array([self._labels[number] for number in known.tolist()] + [0], np.int64)
        boxes = np.frombuffer(self._boxes, np.float64).reshape(-1, 4)
        return Annotations(self._images, owners, boxes, numbered[places], self._bad, self._lost)


def _is_int(value: Any) -> TypeGuard[int]:
    return type(value) is int and abs(value) < 2**63


def _is_box(value: Any) -> TypeGuard[list[float]]:
    return (
        isinstance(value, list)
        and len(value) == 4
        and all(type(side) in (int, float) and math.isfinite(side) for side in value)
    )

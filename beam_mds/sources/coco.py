"""COCO: images, and the annotations of a JSON file that names them by their ids."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from apache_beam.metrics import Metrics

from beam_mds.errors import OptionError, StorageError
from beam_mds.records import BadRecord
from beam_mds.sources.cocofile import read_annotations, shares
from beam_mds.sources.image_options import ImageOptions
from beam_mds.sources.images import ImageSource, ImageWork, count_ignored, is_image
from beam_mds.sources.inputs import InputFile, path_end
from beam_mds.sources.planned import THREADS

# Resize modes after which boxes, as shares of the sides, lie where they did.
_BOXES_STAY = ('no', 'keep_ratio', 'keep_ratio_largest', 'fixed')

_EMPTY = ('drop', 'keep')


class ReadCoco(ImageSource):
    """Reads images with the boxes of COCO's annotations files (instances_*.json).

    Elements are dicts: `img` (bytes of the file), `img_id`, `htot` and `wtot` (height and width by
    the annotations), `bbox_sizes` (float32 of shape (boxes, 4): left, top, right, bottom as shares
    of the sides), `bbox_labels` (int64 of shape (boxes,): the place of the category in the file,
    from 1), `file_name`, `width` and `height` (of the stored image), and the fields of the
    patterns.

    One worker reads the annotations as a stream, and keeps about 50 bytes for a box; outlines are
    not kept. Images in other folders than those of the annotations are left out and counted.

    Kinds of bad records: those of `ImageError`; `no_image`: an annotation, or an entry of an image,
    without the image; `not_annotated`: an image that the annotations do not name; `annotation`: an
    image with an annotation that is wrong; `duplicate`: an image that is there twice.

    Example:
        >>> import apache_beam as beam
        >>> with beam.Pipeline(runner='FnApiRunner') as pipeline:  # doctest: +SKIP
        ...     samples = pipeline | ReadCoco(['coco'])
    """

    def __init__(
        self,
        inputs: Sequence[str | os.PathLike[str]],
        *,
        annotations: str = 'annotations/instances_{split}2017.json',
        images: str = '{split}2017',
        options: ImageOptions | None = None,
        empty: str = 'drop',
        names: Mapping[str, str] | None = None,
        threads: int = THREADS,
        pattern: str = '*',
        exclude: Sequence[str] = (),
        split: str | None = None,
        on_error: str = 'fail',
    ) -> None:
        """Makes the transform; see `Source` for the arguments that all sources have.

        Args:
            inputs: Folders, globs, files or `@lists`.
            annotations: What the ends of the paths of annotations files are like; every sample gets
                the fields. They may be compressed.
            images: The folder, below an input, of the images that an annotations file names, with
                the fields of its path; empty: the input itself.
            options: What is done with the images; by default they are checked, and kept. What would
                move the boxes is refused.
            empty: `drop` images without boxes and count them (`images_without_annotations`), since
                an MDS dataset holds no empty arrays; or `keep` them.
            names: Other names for fields of the samples: old -> new.
            threads: Files of one batch that are read at the same time.
            pattern: What the names of files below a folder must match.
            exclude: Names, or globs of names, to leave out.
            split: A pattern of the ends of paths whose fields every sample gets.
            on_error: `fail`, `dead_letter` or `inline`.

        Raises:
            OptionError: A value that cannot work.
        """
        super().__init__(
            inputs, names=names, threads=threads, pattern=pattern, exclude=exclude, split=split,
            on_error=on_error,
        )  # fmt: skip
        options = options or ImageOptions()
        if options.resize_mode not in _BOXES_STAY or options.exif == 'apply':
            raise OptionError(
                'options: center_crop, border and exif=apply would move the boxes of COCO'
            )
        if empty not in _EMPTY:
            raise OptionError(f'empty={empty!r:.80} is unknown: expected {" or ".join(_EMPTY)}')
        self._options = {'img': options}
        self._annotations, self._images, self._empty = annotations, images.strip('/'), empty
        self._fits = path_end(annotations, 'annotations')
        try:
            self._images.format(**dict.fromkeys(self._fits.groupindex, 'x'))
        except (KeyError, IndexError, ValueError):
            raise OptionError(
                f'images={images!r:.80} has a field that annotations={annotations!r:.80} has not'
            ) from None

    def plan(self) -> Iterator[ImageWork | BadRecord]:
        """One piece of work for each image that an annotations file names."""
        sources: list[tuple[InputFile, dict[str, str]]] = []
        images: dict[str, InputFile] = {}
        ignored = 0
        for file in self.files():
            if (found := self._fits.fullmatch(file.path)) is not None:
                sources.append((file, found.groupdict()))
            elif not is_image(file.name):
                ignored += 1
            elif images.setdefault(file.name, file) is not file:
                raise StorageError(
                    f'{file.path} and {images[file.name].path} are called {file.name} below their '
                    'inputs: give the folder that holds both as the input'
                )
        if not sources:
            raise StorageError(
                f'no file of the input is an annotations file: its path would end like '
                f'{self._annotations}'
            )
        for file, fields in sources:
            folder = self._images.format(**fields)
            prefix = f'{folder}/' if folder else ''
            there = {
                name[len(prefix) :]: images.pop(name)
                for name in list(images)
                if name.startswith(prefix)
            }
            yield from self._planned(file, fields, there)
        count_ignored(ignored + len(images))

    def _planned(
        self, source: InputFile, fields: Mapping[str, str], there: dict[str, InputFile]
    ) -> Iterator[ImageWork | BadRecord]:
        """The work of one annotations file, and of the images in its folder."""
        found = read_annotations(source.path)
        for message in found.lost:
            yield BadRecord('no_image', message, {'file': source.path})
        order = np.argsort(found.box_images, kind='stable')
        owners = found.box_images[order]
        seen: set[str] = set()
        dropped = 0
        for number, (name, height, width) in found.images.items():
            place: dict[str, str | int] = {'file': source.path, 'id': number}
            if name in seen:
                yield BadRecord('duplicate', f'{name} is the image of several ids', place)
                continue
            seen.add(name)
            file = there.pop(name, None)
            if file is None:
                yield BadRecord('no_image', f'{name} is not in the folder of the images', place)
                continue
            if number in found.bad_images:
                yield BadRecord('annotation', found.bad_images[number], {**place, 'image': name})
                continue
            first, last = np.searchsorted(owners, [number, number + 1])
            if first == last and self._empty == 'drop':
                dropped += 1
                continue
            rows = order[first:last]
            sample = {
                **fields,
                **file.fields,
                'img_id': number,
                'htot': height,
                'wtot': width,
                'bbox_sizes': shares(found.boxes[rows], width, height),
                'bbox_labels': found.labels[rows],
                'file_name': name,
            }
            yield ImageWork(sample, {'img': file.path}, file.size)
        Metrics.counter('beam_mds', 'images_without_annotations').inc(dropped)
        for file in there.values():
            yield BadRecord(
                'not_annotated', f'{source.path} has no such image', {'file': file.path}
            )

"""Image files -> samples: folders of classes, and pairs of an image and its mask."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from apache_beam.metrics import Metrics

from beam_mds import storage
from beam_mds.errors import ImageError, OptionError, StorageError
from beam_mds.records import PLACE, BadRecord
from beam_mds.sources.base import Element
from beam_mds.sources.image_options import ImageOptions
from beam_mds.sources.imaging import process_image
from beam_mds.sources.inputs import InputFile, path_end
from beam_mds.sources.planned import THREADS, PlannedSource

_logger = logging.getLogger(__name__)

# Files with other names are no images: they are left out, and counted (`files_ignored`).
IMAGE_SUFFIXES = (
    '.avif', '.bmp', '.gif', '.jp2', '.jpeg', '.jpg', '.pbm', '.pgm', '.png', '.ppm', '.tif',
    '.tiff', '.webp',
)  # fmt: skip


IMAGE_PATTERN, MASK_PATTERN = 'images/{key}', 'masks/{key}'


class ImageWork(NamedTuple):
    """One sample to be read.

    Attributes:
        fields: What is known of it before.
        files: Field -> path, of the image files that are read into it; the first is its place.
        size: Bytes of the files.
    """

    fields: dict[str, Any]
    files: dict[str, str]
    size: int


class ImageSource(PlannedSource[ImageWork]):
    """Base of the sources that read image files into fields of samples.

    Kinds of bad records: those of `ImageError`, and what each source says.
    """

    # What is done with the image of each field.
    _options: Mapping[str, ImageOptions]

    def images(self) -> list[InputFile]:
        """The image files of the input, sorted by name and then path; the others are counted.

        Raises:
            StorageError: There is none.
        """
        files = self.files()
        images = [file for file in files if is_image(file.name)]
        if not images:
            raise StorageError(
                f'{len(files)} files like {files[0].path}, and none has the name of an image: '
                f'expected one of {" ".join(IMAGE_SUFFIXES)}'
            )
        count_ignored(len(files) - len(images))
        return sorted(images, key=lambda file: (file.name, file.path))

    def read_work(self, work: ImageWork) -> list[Element]:
        """The sample."""
        sample = dict(work.fields)
        for field, path in work.files.items():
            try:
                result = process_image(storage.read(path), self._options[field])
            except ImageError as error:
                return [BadRecord(error.category, error.reason, {'file': path})]
            sample[field] = result.data
            sample.setdefault('width', result.width)
            sample.setdefault('height', result.height)
            bad = self.check(sample, field, path, (result.width, result.height))
            if bad is not None:
                return [bad]
        sample[PLACE] = {'file': next(iter(work.files.values()))}
        return [sample]

    def check(
        self, sample: Mapping[str, Any], field: str, path: str, size: tuple[int, int]
    ) -> BadRecord | None:
        """What is wrong with an image that fits its options; nothing by default."""


class ReadImageFolders(ImageSource):
    """Reads folders of images whose names are the classes, like ImageNet's.

    Elements are dicts: `image` (bytes of the file), `label` (the number of the class), `class` (its
    name), `index` (the number of the file in the sorted names of its split, from 0), `name` (the
    path below the input), `width`, `height`, and the fields of `split`.

    A class is the folder that an image lies in. Names of classes are sorted and numbered from 0,
    over all inputs and splits together. A folder that has images and, somewhere below it, further
    folders with images is no class. Files without the suffix of an image, and hidden ones, are left
    out and counted.

    Kinds of bad records: those of `ImageError`; `no_class`, `unknown_class`.

    Example:
        >>> import apache_beam as beam
        >>> with beam.Pipeline(runner='FnApiRunner') as pipeline:  # doctest: +SKIP
        ...     samples = pipeline | ReadImageFolders(['imagenet'], split='{split}/*/*')
    """

    def __init__(
        self,
        inputs: Sequence[str | os.PathLike[str]],
        *,
        options: ImageOptions | None = None,
        classes: Sequence[str] | None = None,
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
            options: What is done with the images; by default they are checked, and kept.
            classes: Names of all classes, in the order of their numbers; None: those that are
                there, sorted.
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
        self._options = {'image': options or ImageOptions()}
        if classes is not None and (isinstance(classes, str) or not classes):
            raise OptionError(f'classes must be a list of names or None, got {classes!r:.80}')
        if classes is not None and len(set(classes)) < len(classes):
            raise OptionError('classes: a name is there twice, so its number is not clear')
        self._classes = None if classes is None else list(classes)

    def plan(self) -> Iterator[ImageWork | BadRecord]:
        """One piece of work for each image."""
        images = self.images()
        folders = {file.path.rpartition('/')[0] for file in images}
        above = _above(folders)
        found = sorted({folder.rpartition('/')[2] for folder in folders - above})
        labels = {name: label for label, name in enumerate(self._classes or found)}
        indexes: dict[tuple[str, ...], int] = {}
        for file in images:
            split = tuple(file.fields.values())
            index = indexes.get(split, 0)
            indexes[split] = index + 1
            folder = file.path.rpartition('/')[0]
            name = folder.rpartition('/')[2]
            place = {'file': file.path}
            if folder in above:
                yield BadRecord(
                    'no_class', f'the image lies beside folders of images: {name!r} is no class',
                    place,
                )  # fmt: skip
            elif name not in labels:
                yield BadRecord('unknown_class', f'{name!r} is not one of the classes', place)
            else:
                fields = {'label': labels[name], 'class': name, 'index': index, 'name': file.name}
                yield ImageWork({**file.fields, **fields}, {'image': file.path}, file.size)


class ReadImagePairs(ImageSource):
    """Reads images and their masks (or depths, or edges), which belong together by name.

    Elements are dicts: `image` and `mask` (bytes of the files), the fields of the two patterns,
    `name` (the image's path below the input), `width` and `height` (of the image), and the fields
    of `split`. An image and a mask belong together when all fields of the patterns are equal. Files
    that fit neither pattern, or have not the suffix of an image, are left out and counted.

    Kinds of bad records: those of `ImageError`; `no_mask`, `no_image`: a file has no partner;
    `duplicate`: several files have the same fields; `size`: image and mask differ.

    Example:
        >>> import apache_beam as beam
        >>> with beam.Pipeline(runner='FnApiRunner') as pipeline:  # doctest: +SKIP
        ...     samples = pipeline | ReadImagePairs(
        ...         ['cityscapes'],
        ...         image_pattern='leftImg8bit/{split}/{city}/{key}_leftImg8bit.png',
        ...         mask_pattern='gtFine/{split}/{city}/{key}_gtFine_labelIds.png',
        ...     )
    """

    def __init__(
        self,
        inputs: Sequence[str | os.PathLike[str]],
        *,
        image_pattern: str = IMAGE_PATTERN,
        mask_pattern: str = MASK_PATTERN,
        options: ImageOptions | None = None,
        mask_options: ImageOptions | None = None,
        same_size: bool = True,
        as_bytes: Sequence[str] = (),
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
            image_pattern: What the ends of the paths of images are like, with fields that name the
                pair: `{key}_image.png`, `images/{split}/{key}.jpg`. Without a suffix in its last
                part, that of any image fits.
            mask_pattern: The same of masks, with the same fields. A file that fits both is a mask.
            options: What is done with the images; by default they are checked, and kept.
            mask_options: The same of masks. A mask must be resized with `nearest`, and not as jpg,
                or its values become others.
            same_size: Refuse pairs whose image and mask have not the same width and height (when
                all is done).
            as_bytes: Fields of the patterns that samples get as UTF-8 bytes, not as str.
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
        self._options = {'image': options or ImageOptions(), 'mask': mask_options or ImageOptions()}
        _check_mask(self._options['mask'])
        self._fits = {'mask': _fitting(mask_pattern), 'image': _fitting(image_pattern)}
        image_fields, mask_fields = (set(self._fits[kind].fields) for kind in ('image', 'mask'))
        if image_fields != mask_fields or not image_fields:
            raise OptionError(
                f'image_pattern={image_pattern!r:.80} and mask_pattern={mask_pattern!r:.80} must '
                'have the same fields, and at least one, like {key}'
            )
        if wrong := set(as_bytes) - image_fields:
            raise OptionError(f'as_bytes: the patterns have no field {min(wrong)!r}')
        self._same_size, self._as_bytes = same_size, tuple(as_bytes)
        self._patterns = image_pattern, mask_pattern

    def plan(self) -> Iterator[ImageWork | BadRecord]:
        """One piece of work for each pair; what has no partner is noted."""
        pairs: dict[tuple[str, ...], dict[str, list[InputFile]]] = {}
        ignored = 0
        for file in self.images():
            for kind, fitting in self._fits.items():
                if (key := fitting.key(file.path)) is not None:
                    pairs.setdefault(key, {}).setdefault(kind, []).append(file)
                    break
            else:
                ignored += 1
        if not pairs:
            raise StorageError(
                f'no path of the {ignored} images ends like {self._patterns[0]} or '
                f'{self._patterns[1]}'
            )
        count_ignored(ignored)
        fields = sorted(self._fits['image'].fields)
        for key, files in pairs.items():
            yield from self._pair(dict(zip(fields, key, strict=True)), files)

    def _pair(
        self, fields: dict[str, Any], files: Mapping[str, Sequence[InputFile]]
    ) -> Iterator[ImageWork | BadRecord]:
        several = [file for some in files.values() if len(some) > 1 for file in some]
        if several:
            for file in several:
                others = ', '.join(other.path for other in several if other is not file)
                message = f'belongs together with {others:.500}: which one to take is not clear'
                yield BadRecord('duplicate', message, {'file': file.path})
            return
        for kind, other in (('image', 'mask'), ('mask', 'image')):
            if other not in files:
                (file,) = files[kind]
                named = ', '.join(f'{name}={value}' for name, value in fields.items())
                yield BadRecord(
                    f'no_{other}', f'the {kind} has no {other} with {named}', {'file': file.path}
                )
                return
        (image,), (mask,) = files['image'], files['mask']
        for name in self._as_bytes:
            fields[name] = fields[name].encode()
        yield ImageWork(
            {**image.fields, **fields, 'name': image.name},
            {'image': image.path, 'mask': mask.path},
            image.size + mask.size,
        )

    def check(
        self, sample: Mapping[str, Any], field: str, path: str, size: tuple[int, int]
    ) -> BadRecord | None:
        """Whether the mask is as large as the image."""
        image = sample['width'], sample['height']
        if field == 'image' or size == image or not self._same_size:
            return None
        return BadRecord(
            'size',
            f'the mask has {size[0]} x {size[1]} pixels, its image {image[0]} x {image[1]}',
            {'file': path},
        )


class _Fitting(NamedTuple):
    """A pattern of paths."""

    regex: re.Pattern[str]
    any_suffix: bool

    @property
    def fields(self) -> Iterable[str]:
        return self.regex.groupindex

    def key(self, path: str) -> tuple[str, ...] | None:
        """The values of the fields, in the order of their names, of a path that fits."""
        found = self.regex.fullmatch(os.path.splitext(path)[0] if self.any_suffix else path)
        return None if found is None else tuple(found[name] for name in sorted(self.fields))


def _fitting(pattern: str) -> _Fitting:
    return _Fitting(path_end(pattern, 'path'), '.' not in pattern.rpartition('/')[2])


def _check_mask(options: ImageOptions) -> None:
    ways = {options.downscale_interpolation, options.upscale_interpolation}
    if options.resize_mode != 'no' and ways != {'nearest'}:
        raise OptionError(
            'mask_options: another interpolation than nearest makes values that the mask has not'
        )
    if options.encode_format == 'jpg':
        raise OptionError('mask_options: jpg changes the values of a mask: take png')


def is_image(name: str) -> bool:
    """Whether a file's name is that of an image, and it is not hidden.

    Example:
        >>> is_image('a/b.JPEG'), is_image('a/._b.jpg'), is_image('a/notes.txt')
        (True, False, False)
    """
    base = name.rpartition('/')[2]
    return not base.startswith('.') and base.lower().endswith(IMAGE_SUFFIXES)


def count_ignored(files: int) -> None:
    """Counts files of the input that are left out because of their names."""
    if files:
        _logger.info('%d files are left out: they have not the name of an image', files)
    Metrics.counter('beam_mds', 'files_ignored').inc(files)


def _above(folders: Iterable[str]) -> set[str]:
    """All folders that have one of these below them."""
    found: set[str] = set()
    for folder in folders:
        parent = folder.rpartition('/')[0]
        while parent and parent not in found:
            found.add(parent)
            parent = parent.rpartition('/')[0]
    return found

"""The exceptions of beam_mds: one small tree, grouped by what a handler would do.

The base is also a `ValueError`, so that `except ValueError` catches all of it.
"""

from __future__ import annotations


class MDSError(ValueError):
    """Base of every error that beam_mds raises on purpose."""


class OptionError(MDSError):
    """An option, or a combination of options, that cannot work; raised before the job starts."""


class ColumnsError(OptionError):
    """A column table that is wrong: an unknown encoding, a bad parameter, no columns at all."""


class EncodingError(MDSError):
    """A sample that the column table cannot hold.

    Attributes:
        reason: What is wrong with the value, without the column's name.
        column: The column's name, or None while it is not known.
        encoding: The column's encoding as it was given, or None.
        row: Position of the sample in the batch that was encoded, or None.
    """

    def __init__(
        self,
        reason: str,
        column: str | None = None,
        encoding: str | None = None,
        row: int | None = None,
    ) -> None:
        """Makes the error; see the class for the arguments."""
        self.reason, self.column, self.encoding, self.row = reason, column, encoding, row
        where = '' if column is None else f'column {column!r}'
        if encoding is not None:
            where += f' ({encoding})'
        super().__init__(f'{where}: {reason}' if where else reason)

    def __reduce__(self) -> tuple[type[EncodingError], tuple[object, ...]]:
        """Pickles by the constructor's arguments: errors cross process borders in Beam."""
        return EncodingError, (self.reason, self.column, self.encoding, self.row)


class WhereError(MDSError):
    """A sample that a `where` has no exact value for: a division by zero, a number too large.

    Attributes:
        message: What is wrong, with the place in the text and the numbers.
        row: Position of the sample in its batch.
    """

    def __init__(self, message: str, row: int | None = None) -> None:
        """Makes the error; see the class for the arguments."""
        self.message, self.row = message, row
        super().__init__(message if row is None else f'row {row}: {message}')

    def __reduce__(self) -> tuple[type[WhereError], tuple[object, ...]]:
        """Pickles by the constructor's arguments: errors cross process borders in Beam."""
        return WhereError, (self.message, self.row)


class FormatError(MDSError):
    """Bytes that are not what the MDS format or their index says.

    Attributes:
        row: Position of the damaged sample in the batch that was decoded, or None.
    """

    def __init__(self, message: str, row: int | None = None) -> None:
        """Makes the error; see the class for the arguments."""
        self.row = row
        super().__init__(message)

    def __reduce__(self) -> tuple[type[FormatError], tuple[object, ...]]:
        """Pickles by the constructor's arguments: errors cross process borders in Beam."""
        return type(self), (str(self), self.row)


class DamagedError(FormatError):
    """A file of a dataset that does not hold what it should, and where in it that shows.

    Attributes:
        path: The file.
        reason: What is wrong.
        sample: The sample's place in its shard, or None when it is not about one sample.
        byte: The first wrong byte as far as that is known, from the start of the raw file.
    """

    def __init__(
        self, path: str, reason: str, sample: int | None = None, byte: int | None = None
    ) -> None:
        """Makes the error; see the class for the arguments."""
        self.path, self.reason, self.sample, self.byte = path, reason, sample, byte
        where = '' if sample is None else f', sample {sample}'
        where += '' if byte is None else f', byte {byte}'
        super().__init__(f'{path}{where}: {reason}')

    def __reduce__(self) -> tuple[type[DamagedError], tuple[object, ...]]:
        """Pickles by the constructor's arguments."""
        return DamagedError, (self.path, self.reason, self.sample, self.byte)


class RecordError(MDSError):
    """A record of the input that cannot become a sample.

    Attributes:
        message: What is wrong, without the place.
        place: Where, as text.
        error_type: What kind of fault it is; each source has a closed set.
    """

    def __init__(self, message: str, place: str = '', error_type: str = '') -> None:
        """Makes the error; see the class for the arguments."""
        self.message, self.place, self.error_type = message, place, error_type
        super().__init__(f'{place}: {message}' if place else message)

    def __reduce__(self) -> tuple[type[RecordError], tuple[object, ...]]:
        """Pickles by the constructor's arguments."""
        return RecordError, (self.message, self.place, self.error_type)


class ImageError(MDSError):
    """An image file that cannot be used.

    Attributes:
        category: One of `unknown_format`, `broken`, `truncated`, `bomb` (more pixels than allowed),
            `too_small`, `too_large`, `aspect_ratio` (refused by the options), and `encode` (it
            cannot be stored in the wanted format).
        reason: What is wrong.
    """

    def __init__(self, category: str, reason: str) -> None:
        """Makes the error; see the class for the arguments."""
        self.category, self.reason = category, reason
        super().__init__(f'{category}: {reason}')

    def __reduce__(self) -> tuple[type[ImageError], tuple[object, ...]]:
        """Pickles by the constructor's arguments."""
        return ImageError, (self.category, self.reason)


class MissingExtraError(MDSError, ImportError):
    """An optional library that this column or option needs is not installed."""


class TargetError(MDSError):
    """The output folder is not in the state that the job needs."""


class MergeError(MDSError):
    """Datasets that cannot be merged: one is missing, listed twice, or has other columns."""


class StorageError(MDSError, OSError):
    """A file could not be written, read back or published, after every retry."""


class EmptyInputError(MDSError):
    """There was no sample to write, and `allow_empty` was not set; or no shard to merge."""


class LostSamplesError(MDSError, RuntimeError):
    """The samples that arrived at the end are not those that were encoded."""


class ErrorThresholdError(MDSError, RuntimeError):
    """More samples were refused than the threshold of the error handling allows."""

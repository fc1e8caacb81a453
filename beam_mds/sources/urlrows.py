"""Rows with a URL -> what is fetched, the sample that comes of it, or the note of why not."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from beam_mds.errors import ImageError, OptionError
from beam_mds.records import PLACE, BadRecord
from beam_mds.sources.fetching.outcomes import FETCHED, Outcome
from beam_mds.sources.image_options import ImageOptions

Row = Mapping[str, Any]

_DURATION = re.compile(r'PT(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?')


@dataclass(frozen=True)
class UrlRowOptions:
    """What the columns of rows and samples are.

    Attributes:
        url_column: Has the URL.
        bytes_column: Gets what was fetched.
        status_column: Gets the HTTP status, 0 where there was none; None: no column does.
        durations: Columns of durations like `PT00H01M30S` (ISO 8601) that become seconds.
        image: What becomes of images; None: they stay as they came, unseen.
    """

    url_column: str = 'url'
    bytes_column: str = 'content'
    status_column: str | None = 'status'
    durations: Sequence[str] = ()
    image: ImageOptions | None = None

    def __post_init__(self) -> None:
        """Checks the names.

        Raises:
            OptionError: One is no name, or there twice.
        """
        names = [self.url_column, self.bytes_column]
        if self.status_column is not None:
            names.append(self.status_column)
        given: tuple[Any, ...] = (*names, *self.durations)
        for name in given:
            if not isinstance(name, str) or not name or name == PLACE:
                raise OptionError(f'{name!r:.80} is no name of a column')
        if len(set(names)) < len(names):
            raise OptionError(f'the columns of URL, bytes and status must differ, got {names}')

    @property
    def made(self) -> list[str]:
        """The columns that rows must not have."""
        return [name for name in (self.bytes_column, self.status_column) if name is not None]


def seconds_of(duration: str) -> int:
    """Seconds of a duration with hours, minutes and seconds.

    Raises:
        ValueError: It is none.

    Example:
        >>> seconds_of('PT00H01M30S')
        90
    """
    found = _DURATION.fullmatch(duration)
    if found is None:
        raise ValueError(f'{duration!r:.80} is no duration like PT00H01M30S')
    hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return hours * 3600 + minutes * 60 + seconds


def url_of(row: Row, options: UrlRowOptions) -> str | BadRecord:
    """The URL of a row, or the note of what is wrong with the row."""
    url = row.get(options.url_column)
    if not isinstance(url, str) or not url.strip():
        kind = 'no value' if url is None else 'an empty text' if url == '' else repr(url)[:80]
        return _bad_row(row, f'column {options.url_column!r} has {kind} where a URL is expected')
    for name in options.made:
        if name in row:
            return _bad_row(
                row, f'it has a column {name!r} already: let another one get the result', url
            )
    for name in options.durations:
        try:
            seconds_of(row[name])
        except (KeyError, TypeError, ValueError) as error:
            return _bad_row(row, f'column {name!r}: {error}', url)
    return url


def result_of(row: Row, url: str, outcome: Outcome, options: UrlRowOptions) -> Any:
    """The sample of a row whose URL was fetched, or the note of why it was not."""
    if outcome.category != FETCHED:
        return bad_record(row, url, outcome.category, outcome.message)
    data = outcome.data
    if options.image is not None:
        from beam_mds.sources.imaging import process_image

        try:
            data = process_image(data, options.image).data
        except ImageError as error:
            return bad_record(row, url, 'image', str(error))
    sample = {**row, options.bytes_column: data, PLACE: _place(row, url)}
    for name in options.durations:
        sample[name] = seconds_of(row[name])
    if options.status_column is not None:
        sample[options.status_column] = outcome.status
    return sample


def bad_record(row: Row, url: str | None, category: str, message: str) -> BadRecord:
    """The note of a row; its element is the row, which can be given in again."""
    element = {name: value for name, value in row.items() if name != PLACE}
    return BadRecord(category, message, _place(row, url), element)


def _bad_row(row: Row, message: str, url: str | None = None) -> BadRecord:
    return bad_record(row, url, 'bad_row', message)


def _place(row: Row, url: str | None) -> dict[str, str | int]:
    place = dict(row.get(PLACE) or {})
    if url is not None:
        place['url'] = url
    return place

from __future__ import annotations

import pytest

from beam_mds.sources.fetching.options import DISALLOWED
from beam_mds.sources.fetching.robots import opted_out


@pytest.mark.parametrize(
    ('headers', 'found'),
    [
        ([], None),
        (['all'], None),
        (['nofollow, noarchive'], None),
        (['noai'], 'noai'),
        (['NoIndex'], 'noindex'),
        (['nofollow , noImageAI'], 'noimageai'),
        (['nofollow', 'noimageindex'], 'noimageindex'),
        # For one robot.
        (['googlebot: noindex'], None),
        (['beam-mds: noai'], 'noai'),
        (['Beam-MDS : nofollow, NOAI'], 'noai'),
        (['googlebot: nofollow', 'noai'], 'noai'),
        # Headers that a proxy has joined.
        (['googlebot: noindex, noai'], None),
        (['googlebot: noindex, beam-mds: noai'], 'noai'),
        (['noai, googlebot: noindex'], 'noai'),
        # Directives with values are no robots.
        (['max-snippet: 20, noai'], 'noai'),
        (['unavailable_after: 25 Jun 2030 15:00:00 PST, noindex'], 'noindex'),
        (['max-image-preview: none'], None),
        (['beam-mds: max-snippet: 20, noai'], 'noai'),
        (['noaiplease'], None),
    ],
)
def test_a_directive_holds_for_everyone_or_for_the_robot_that_is_named(
    headers: list[str], found: str | None
) -> None:
    assert opted_out(headers, 'beam-mds', DISALLOWED) == found


def test_only_directives_that_are_disallowed_count() -> None:
    assert opted_out(['noai, noindex'], 'x', ['noindex']) == 'noindex'
    assert opted_out(['noai, noindex'], 'x', []) is None

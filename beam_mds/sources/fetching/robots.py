"""X-Robots-Tag: what a server says its content may not be used for."""

from __future__ import annotations

from collections.abc import Iterable

# Directives with a value after a colon, which is no name of a robot.
_WITH_VALUES = frozenset(
    {'max-image-preview', 'max-snippet', 'max-video-preview', 'unavailable_after'}
)


def opted_out(headers: Iterable[str], token: str, disallowed: Iterable[str]) -> str | None:
    """The directive by which a server refuses this use, if there is one.

    A directive after `name:` holds for the robot of that name only, up to the next name.

    Args:
        headers: The values of all X-Robots-Tag headers of an answer.
        token: Our own name as a robot.
        disallowed: Directives that refuse, in lower case.

    Example:
        >>> opted_out(['googlebot: noindex, noai', 'noimageai'], 'beam-mds', ['noai', 'noimageai'])
        'noimageai'
    """
    token, disallowed = token.lower(), frozenset(disallowed)
    for value in headers:
        applies = True
        for part in value.lower().split(','):
            name, colon, rest = part.partition(':')
            directive = part.strip()
            if colon and name.strip() not in _WITH_VALUES:
                applies, directive = name.strip() == token, rest.strip()
            if applies and directive in disallowed:
                return directive
    return None

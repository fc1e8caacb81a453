from __future__ import annotations

from typing import Any

import pytest

from beam_mds import OptionError, __version__
from beam_mds.sources.fetching.options import FetchOptions


def test_sizes_and_lists_may_be_texts() -> None:
    options = FetchOptions(max_bytes='1MiB', max_in_flight=5, accept=' Image/*, video/mp4 ,')
    assert (options.max_bytes, options.max_in_flight) == (1 << 20, 5)
    assert options.accept == ('image/*', 'video/mp4')
    assert FetchOptions(disallowed_header_directives='').disallowed_header_directives == ()


def test_the_user_agent_is_a_name_a_version_and_a_contact() -> None:
    assert FetchOptions().user_agent == f'beam-mds/{__version__}'
    named = FetchOptions(user_agent_token='crawl', contact='https://example.org/bot')
    assert named.user_agent == f'crawl/{__version__} (+https://example.org/bot)'


@pytest.mark.parametrize(
    ('options', 'message'),
    [
        ({'concurrency': 0}, 'concurrency must be an integer of at least 1, got 0'),
        ({'per_host': 1.5}, 'per_host must be an integer of at least 1, got 1.5'),
        ({'concurrency': True}, 'concurrency must be an integer of at least 1, got True'),
        ({'retries': -1}, 'retries must be an integer of at least 0, got -1'),
        ({'max_redirects': -1}, 'max_redirects must be an integer of at least 0, got -1'),
        ({'connect_timeout': 0}, 'connect_timeout must be seconds above 0, got 0'),
        ({'read_timeout': '5'}, "read_timeout must be seconds as a number, got '5'"),
        ({'total_timeout': float('inf')}, 'total_timeout must be seconds above 0, got inf'),
        ({'max_bytes': '5 cows'}, 'max_bytes must be a positive number of bytes, or a text like'),
        ({'max_in_flight': 0}, 'max_in_flight must be a positive number of bytes'),
        ({'accept': ['image']}, "accept='image' is no type: expected one like image/*, video/mp4"),
        ({'accept': 5}, 'accept must be a list of texts, got 5'),
        ({'accept': [5]}, r'accept must be a list of texts, got \[5\]'),
        ({'schemes': ''}, 'schemes is empty: no URL could be fetched'),
        ({'schemes': 'ht tp'}, "schemes='ht tp' is no scheme: expected one like https"),
        ({'user_agent_token': 'my bot'}, "user_agent_token='my bot' is no name of a client"),
        ({'user_agent_token': 'a:b'}, "user_agent_token='a:b' is no name of a client"),
        ({'contact': 'x\r\nCookie: 1'}, 'is no line of text'),
        ({'contact': 'mé'}, "contact='mé' must be ASCII without parentheses"),
    ],
)
def test_a_value_that_cannot_work_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message.replace('*', r'\*')):
        FetchOptions(**options)

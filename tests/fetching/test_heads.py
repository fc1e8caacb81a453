from __future__ import annotations

import pytest

from beam_mds.sources.fetching.heads import Head


def head_of(*lines: str) -> Head:
    head = Head()
    for line in lines:
        head.add(f'{line}\r\n'.encode('latin-1'))
    return head


def test_the_last_answer_counts_and_its_headers_only() -> None:
    head = head_of(
        'HTTP/1.1 302 Found', 'Content-Length: 7', 'Location: /b', '',
        'HTTP/2 200 ', 'CONTENT-TYPE:image/jpg', 'content-encoding: GZIP', '',
        'Content-Length: 9',
    )  # fmt: skip
    assert (head.status, head.reason, head.length) == (200, '', None)
    assert (head.kind, head.encoding) == ('image/jpeg', 'gzip')
    assert head.complete
    assert head.is_good


@pytest.mark.parametrize('text', ['', '-1', '1e3', '٣', '5, 5'])
def test_a_length_that_is_no_number_is_none(text: str) -> None:
    assert (
        head_of('HTTP/1.1 200 OK', f'Content-Length: {text}'.encode().decode('latin-1')).length
        is None
    )


def test_what_is_no_http_has_no_status() -> None:
    assert head_of('220 mail.example.org ESMTP').refusal().category == 'protocol'


def test_a_refusal_tells_the_status_and_how_long_to_wait() -> None:
    outcome = head_of('HTTP/1.1 503 Busy now', 'Retry-After: 7', '').refusal()
    assert (outcome.category, outcome.message) == ('http_5xx', 'HTTP 503 Busy now')
    assert (outcome.retry, outcome.wait) == (True, 7.0)

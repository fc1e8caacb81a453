"""What becomes of a URL, with real servers that misbehave."""

from __future__ import annotations

import datetime as dt
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from beam_mds import __version__, storage
from beam_mds.sources.fetching import transfers, waits
from beam_mds.sources.fetching.fetcher import Fetcher
from beam_mds.sources.fetching.options import FetchOptions
from beam_mds.sources.fetching.outcomes import FAILURES, FETCHED, Outcome
from tests.helpers.web import JPEG, MP4, PNG, Web, serve


@pytest.fixture
def web() -> Iterator[Web]:
    with serve() as server:
        yield server


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waits, '_FIRST', 0.02)


def fetch(*urls: str, **options: Any) -> list[Outcome]:
    """The outcomes of URLs that are asked for together, in their order."""
    options.setdefault('allow_private_hosts', True)
    with Fetcher(FetchOptions(**options)) as fetcher:
        batch = fetcher.batch()
        for number, url in enumerate(urls):
            batch.submit(number, url)
        outcomes = dict(batch.rest())
        assert_nothing_is_held(fetcher)
    for outcome in outcomes.values():
        assert outcome.category in {FETCHED, *FAILURES}
    return [outcomes[number] for number in range(len(urls))]


def one(url: str, **options: Any) -> Outcome:
    (outcome,) = fetch(url, **options)
    return outcome


def assert_nothing_is_held(fetcher: Fetcher) -> None:
    deadline = time.monotonic() + 5
    while fetcher.client.memory.held and time.monotonic() < deadline:
        time.sleep(0.01)
    assert fetcher.client.memory.held == 0
    assert not fetcher.client.memory._excess.locked()


def summary(outcome: Outcome) -> tuple[str, int]:
    return outcome.category, outcome.status


# Bodies.


def test_a_body_comes_as_the_server_has_it(web: Web) -> None:
    outcome = one(web.url('/jpeg/1'))
    assert outcome == Outcome(FETCHED, '', 200, JPEG)


@pytest.mark.parametrize(
    'path', ['/chunked/3', '/unsized/', '/gzip/', '/deflate/', '/unsaid/', '/bytes/3000000']
)
def test_bodies_of_all_forms_are_whole(web: Web, path: str) -> None:
    outcome = one(web.url(path), accept='image/*')
    assert summary(outcome) == (FETCHED, 200)
    wanted = {
        '/chunked/3': JPEG[:4] + bytes(3 * 65536 - 4),
        '/unsaid/': PNG,
        '/bytes/3000000': JPEG[:4].ljust(3000000, b'x'),
    }
    assert outcome.data == wanted.get(path, JPEG)


def test_bodies_of_requests_at_once_are_not_mixed_up(web: Web) -> None:
    sizes = [1000 + 7919 * number for number in range(60)]
    outcomes = fetch(*(web.url(f'/bytes/{size}') for size in sizes), concurrency=7)
    assert [len(outcome.data) for outcome in outcomes] == sizes


def test_a_body_shorter_than_its_length_is_a_failure(web: Web) -> None:
    outcome = one(web.url('/short/'), retries=1)
    assert summary(outcome) == ('short_body', 200)
    assert 'bytes' in outcome.message
    assert web.seen['/short/'] == 2
    assert summary(one(web.url('/cut/'), retries=0)) == ('short_body', 200)


def test_a_body_that_is_whole_the_second_time_is_fetched(web: Web) -> None:
    assert summary(one(web.url('/short/1'))) == (FETCHED, 200)


def test_an_empty_body_is_a_failure(web: Web) -> None:
    assert summary(one(web.url('/empty/'))) == ('empty_body', 200)


@pytest.mark.parametrize('path', ['/bytes/1001', '/chunked/1'])
def test_a_body_over_the_limit_is_a_failure(web: Web, path: str) -> None:
    outcome = one(web.url(path), max_bytes=1000)
    assert summary(outcome) == ('too_large', 200)
    assert '1000' in outcome.message
    assert web.seen[path] == 1
    assert one(web.url('/bytes/1000'), max_bytes=1000).category == FETCHED


def test_a_body_without_a_length_is_not_read_beyond_the_limit(web: Web) -> None:
    start = time.monotonic()
    # 6.4 GB, if it were read.
    assert one(web.url('/chunked/100000'), max_bytes='1mb').category == 'too_large'
    assert time.monotonic() - start < 10


def test_a_body_that_grows_over_the_limit_when_it_is_decompressed_is_a_failure(web: Web) -> None:
    outcome = one(web.url('/bomb/'), max_bytes='1mb')
    assert summary(outcome) == ('too_large', 0)
    assert outcome.message == 'over 1048576 bytes once decompressed (gzip)'


@pytest.mark.parametrize(
    ('path', 'words'), [('/brotli/', "'br' was not asked for"), ('/damaged/', 'it ends too early')]
)
def test_a_body_that_cannot_be_decompressed_is_a_failure(web: Web, path: str, words: str) -> None:
    outcome = one(web.url(path))
    assert outcome.category == 'content_encoding'
    assert words in outcome.message


# Answers.


@pytest.mark.parametrize(
    ('status', 'category'),
    [
        (404, 'http_404'), (410, 'http_404'), (401, 'http_denied'), (403, 'http_denied'),
        (451, 'http_denied'), (400, 'http_4xx'), (418, 'http_4xx'), (204, 'http_other'),
        (206, 'http_other'), (300, 'redirect'), (304, 'redirect'),
    ],
)  # fmt: skip
def test_an_answer_that_is_no_success_is_a_failure_at_once(
    web: Web, status: int, category: str
) -> None:
    outcome = one(web.url(f'/status/{status}'))
    assert summary(outcome) == (category, status)
    assert f'HTTP {status}' in outcome.message
    assert web.seen[f'/status/{status}'] == 1


@pytest.mark.parametrize(
    ('status', 'category'),
    [(408, 'http_4xx'), (425, 'http_4xx'), (429, 'http_429'), (500, 'http_5xx'), (503, 'http_5xx')],
)
def test_an_answer_that_may_change_is_retried_and_then_a_failure(
    web: Web, status: int, category: str
) -> None:
    path = f'/busy/{status}/9/'
    assert summary(one(web.url(path), retries=2)) == (category, status)
    assert web.seen[path] == 3


@pytest.mark.parametrize('status', [408, 425, 429, 502])
def test_an_answer_that_changes_is_fetched(web: Web, status: int) -> None:
    assert summary(one(web.url(f'/busy/{status}/2/'), retries=2)) == (FETCHED, 200)


def test_retry_after_is_waited_for_and_by_all_requests_to_that_host(web: Web) -> None:
    url, other = web.url('/busy/429/1/1'), web.url('/jpeg/other')
    start = time.monotonic()
    # The other one waits for the only slot, and then for the host.
    outcomes = fetch(url, other, per_host=1)
    assert [outcome.category for outcome in outcomes] == [FETCHED, FETCHED]
    for times in (web.times['/busy/429/1/1'][1:], web.times['/jpeg/other']):
        assert times[0] - start >= 1


def test_retry_after_is_granted_up_to_a_limit(web: Web) -> None:
    start = time.monotonic()
    assert one(web.url('/busy/503/1/3600'), max_retry_after=0.2).category == FETCHED
    assert 0.2 <= time.monotonic() - start < 5


def test_the_body_of_an_answer_that_is_no_success_keeps_its_connection(web: Web) -> None:
    urls = [web.url(f'/status/404/{number}') for number in range(10)]
    assert {o.category for o in fetch(*urls, concurrency=1)} == {'http_404'}
    assert web.connections == 1


def test_connections_are_used_again(web: Web) -> None:
    fetch(*(web.url(f'/jpeg/{number}') for number in range(30)), concurrency=3, per_host=3)
    assert web.connections <= 3


# Broken connections and time.


def test_a_connection_that_is_reset_is_retried_and_then_a_failure(web: Web) -> None:
    assert one(web.url('/reset/'), retries=2).category == 'connection'
    assert web.seen['/reset/'] == 3
    assert one(web.url('/reset/2'), retries=2).category == FETCHED


def test_a_port_where_nobody_listens_is_a_failure() -> None:
    with socket.socket() as unused:
        unused.bind(('127.0.0.1', 0))
        url = f'http://127.0.0.1:{unused.getsockname()[1]}/a'
        outcome = one(url, retries=1)
    assert outcome.category == 'connection'
    assert outcome.message


def test_a_host_that_does_not_exist_is_a_failure() -> None:
    outcome = one('http://no-such-host.invalid/a.jpg')
    assert outcome.category == 'dns'
    assert 'no-such-host.invalid' in outcome.message


def test_an_answer_that_is_no_http_is_a_failure(web: Web) -> None:
    assert one(web.url('/garbage/')).category == 'protocol'


@pytest.mark.parametrize('path', ['/hang/', '/stall/'])
def test_a_server_that_says_no_more_is_left_after_the_read_timeout(web: Web, path: str) -> None:
    start = time.monotonic()
    outcome = one(web.url(path), read_timeout=0.5, retries=0)
    assert (outcome.category, outcome.message) == ('timeout', 'no byte for 0.5 s')
    assert 0.5 <= time.monotonic() - start < 3


def test_a_server_that_hangs_is_asked_again(web: Web) -> None:
    assert one(web.url('/hang/'), read_timeout=0.3, retries=1).category == 'timeout'
    assert web.seen['/hang/'] == 2


def test_a_server_that_drips_is_left_after_the_total_timeout(web: Web) -> None:
    start = time.monotonic()
    outcome = one(web.url('/drip/'), total_timeout=0.6, retries=3)
    assert (outcome.category, outcome.message) == ('timeout', 'not complete after 0.6 s')
    assert 0.6 <= time.monotonic() - start < 5
    assert web.seen['/drip/'] == 1


def test_a_server_that_sends_now_and_then_is_not_left(web: Web) -> None:
    outcome = one(web.url('/drops/0.15/8'), read_timeout=0.5, total_timeout=20, retries=0)
    assert (outcome.category, outcome.data) == (FETCHED, JPEG)


def test_a_host_that_does_not_greet_is_left_after_the_connect_timeout() -> None:
    with socket.socket() as deaf:
        deaf.bind(('127.0.0.1', 0))
        deaf.listen(0)
        address = deaf.getsockname()
        with socket.create_connection(address), socket.socket() as second:
            second.setblocking(False)
            second.connect_ex(address)  # the queue is full
            start = time.monotonic()
            outcome = one(f'http://127.0.0.1:{address[1]}/', connect_timeout=0.5, retries=0)
    assert outcome.category == 'timeout'
    assert 0.5 <= time.monotonic() - start < 5


# How many at once.


def test_no_more_requests_are_under_way_than_allowed(web: Web) -> None:
    fetch(*(web.url(f'/slow/0.05/{n}') for n in range(20)), concurrency=4, per_host=50)
    assert web.most == 4


def test_no_more_requests_go_to_one_host_than_allowed(web: Web) -> None:
    with serve() as other:
        urls = [server.url(f'/slow/0.05/{n}') for n in range(10) for server in (web, other)]
        start = time.monotonic()
        fetch(*urls, concurrency=50, per_host=2)
        # Ports do not make hosts: both servers are one.
        assert web.most <= 2
        assert other.most <= 2
        assert time.monotonic() - start >= 0.5


def test_a_host_that_is_waited_for_does_not_keep_others_waiting(web: Web) -> None:
    with serve() as other:
        busy = [web.url(f'/busy/429/1/1/{number}') for number in range(8)]
        free = [other.url(f'/jpeg/{number}', 'localhost') for number in range(8)]
        fetch(*busy, *free, concurrency=2)
        last = max(other.times[f'/jpeg/{number}'][0] for number in range(8))
        assert last < min(web.times[f'/busy/429/1/1/{number}'][1] for number in range(8))


# Types.


@pytest.mark.parametrize(
    ('path', 'words'),
    [
        ('/html/', 'the server calls it text/html'),
        ('/liar/', 'it begins like text/html'),
        ('/mislabelled/', 'the server calls it text/plain'),
        ('/video/', 'the server calls it video/mp4'),
    ],
)
def test_a_type_that_is_not_accepted_is_a_failure(web: Web, path: str, words: str) -> None:
    outcome = one(web.url(path), accept='image/*')
    assert summary(outcome) == ('wrong_type', 200)
    assert words in outcome.message
    assert one(web.url(path)).category == FETCHED


def test_videos_are_accepted_beside_images(web: Web) -> None:
    outcome = one(web.url('/video/'), accept='image/*,video/*')
    assert outcome.data == MP4


# Opt-outs.


@pytest.mark.parametrize('tags', ['noai', 'all;noimageindex', 'other-bot:%20all;me:%20noindex'])
def test_a_server_that_opts_out_is_respected(web: Web, tags: str) -> None:
    outcome = one(web.url(f'/tagged/{tags}'), user_agent_token='me')
    assert summary(outcome) == ('opted_out', 200)
    assert outcome.message.startswith('X-Robots-Tag: no')


def test_directives_for_others_and_those_that_are_not_disallowed_do_not_count(web: Web) -> None:
    assert one(web.url('/tagged/other-bot:%20noai')).category == FETCHED
    ours = {'disallowed_header_directives': ['noindex']}
    assert one(web.url('/tagged/noai'), **ours).category == FETCHED
    assert one(web.url('/tagged/noindex'), **ours).category == 'opted_out'


def test_the_server_sees_who_asks_and_what_for(web: Web) -> None:
    one(
        web.url('/jpeg/'),
        user_agent_token='crawl',
        contact='mailto:a@example.org',
        accept='image/*',
    )
    head = web.heads['/jpeg/']
    assert head['User-Agent'] == f'crawl/{__version__} (+mailto:a@example.org)'
    assert (head['Accept'], head['Accept-Encoding']) == ('image/*', 'identity')
    assert head['Cookie'] is None


# Redirects.


def test_redirects_are_followed_up_to_a_limit(web: Web) -> None:
    assert one(web.url('/hops/3'), max_redirects=3).category == FETCHED
    outcome = one(web.url('/hops/4'), max_redirects=3)
    assert outcome.category == 'redirect'
    assert 'redirects' in outcome.message
    assert summary(one(web.url('/hops/1'), max_redirects=0)) == ('redirect', 301)


@pytest.mark.parametrize('path', ['/loop/', '/nowhere/'])
def test_a_redirect_that_leads_nowhere_is_a_failure(web: Web, path: str) -> None:
    assert one(web.url(path)).category == 'redirect'
    assert web.seen[path] <= 6


@pytest.mark.parametrize(
    'target', ['file:///etc/passwd', 'gopher://localhost/a', 'ftp://localhost/a', 'http://']
)
def test_a_redirect_to_another_scheme_is_a_failure(web: Web, target: str) -> None:
    assert one(web.url(f'/to/{target}'), schemes='http,https,file').category == 'redirect'


def test_a_redirect_from_https_to_a_scheme_that_is_not_allowed_is_a_failure(
    web: Web, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv('SSL_CERT_FILE', str(certificate))
    with serve(certificate=certificate) as secure:
        outcome = one(secure.url(f'/to/{web.url("/jpeg/")}', 'localhost'), schemes='https')
    assert outcome.category == 'redirect'
    assert not web.seen


def test_the_opt_out_of_a_redirect_counts(web: Web) -> None:
    assert one(web.url('/optredirect/')).category == 'opted_out'


# Addresses.


@pytest.mark.parametrize('host', ['127.0.0.1', 'localhost', '2130706433', '0x7f.1', '0'])
def test_a_host_on_the_loopback_is_not_connected_to(web: Web, host: str) -> None:
    outcome = one(web.url('/jpeg/', host), allow_private_hosts=False)
    assert outcome.category == 'refused_address'
    assert 'is not on the public internet' in outcome.message
    assert web.connections == 0
    assert one(web.url('/jpeg/', host)).category == FETCHED


@pytest.mark.parametrize('host', ['::1', '::ffff:127.0.0.1'])
def test_a_host_on_the_ipv6_loopback_is_not_connected_to(host: str) -> None:
    try:
        server = serve('::1' if host == '::1' else '::')
        with server as web:
            outcome = one(web.url('/jpeg/', host), allow_private_hosts=False)
            assert outcome.category == 'refused_address'
            assert web.connections == 0
            assert one(web.url('/jpeg/', host)).category == FETCHED
    except OSError:
        pytest.skip('no IPv6 here')


def test_a_redirect_to_a_private_address_is_not_followed(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfers, 'is_public', lambda address: address == '127.0.0.1')
    with serve('127.0.0.2') as inner:
        outcome = one(web.url(f'/to/{inner.url("/jpeg/")}'), allow_private_hosts=False)
        assert outcome.category == 'refused_address'
        assert outcome.message == '127.0.0.2 is not on the public internet'
        assert inner.connections == 0
        assert one(web.url('/jpeg/'), allow_private_hosts=False).category == FETCHED


def test_proxies_of_the_environment_are_not_used(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    with serve() as proxy:
        for name in ('http_proxy', 'HTTP_PROXY', 'ALL_PROXY', 'all_proxy', 'https_proxy'):
            monkeypatch.setenv(name, proxy.url(''))
        assert one(web.url('/jpeg/')).category == FETCHED
        assert proxy.connections == 0


# TLS.


@pytest.fixture(scope='session')
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of localhost, which nobody has signed, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, 'localhost')])
    now = dt.datetime.now(dt.timezone.utc)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName('localhost')]), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp('tls') / 'both.pem'
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + signed.public_bytes(serialization.Encoding.PEM)
    )
    return path


def test_a_certificate_that_nobody_signed_is_refused(certificate: Path) -> None:
    with serve(certificate=certificate) as web:
        outcome = one(web.url('/jpeg/', 'localhost'))
    assert outcome.category == 'tls'
    assert not web.seen


def test_a_certificate_that_the_system_trusts_is_taken_for_its_name_only(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv('SSL_CERT_FILE', str(certificate))
    with serve(certificate=certificate) as web:
        assert one(web.url('/jpeg/', 'localhost')).category == FETCHED
        assert one(web.url('/jpeg/', '127.0.0.1')).category == 'tls'


def test_a_server_without_tls_is_no_https_server(web: Web) -> None:
    assert one(web.url('/jpeg/').replace('http:', 'https:')).category == 'tls'


# URLs.


@pytest.mark.parametrize(
    ('url', 'words'),
    [
        ('example.org/a.jpg', "'example.org/a.jpg' is no URL: expected one like https://host/file"),
        ('http://', "'http://' is no URL"),
        ('http:///a.jpg', 'it has no host'),
        ('http://[::1/a.jpg', 'is no URL'),
        ('http://a\nb/', 'it has control characters'),
        ('data:image/png;base64,AAAA', 'is no URL'),
    ],
)
def test_what_is_no_url_is_a_failure(url: str, words: str) -> None:
    outcome = one(url)
    assert outcome.category == 'bad_url'
    assert words in outcome.message


def test_a_port_that_is_none_is_a_failure() -> None:
    assert one('http://localhost:99999/a').category == 'bad_url'
    assert one('http://localhost:x/a').category == 'bad_url'


def test_schemes_that_are_not_allowed_are_refused(tmp_path: Path) -> None:
    (tmp_path / 'a.jpg').write_bytes(JPEG)
    for url in ('ftp://example.org/a', f'file://{tmp_path}/a.jpg', 'gs://bucket/a.jpg'):
        outcome = one(url)
        assert outcome.category == 'scheme'
        assert f'{url.partition(":")[0]}:// is not allowed, only http, https' in outcome.message


@pytest.mark.parametrize(
    ('path', 'sent'),
    [
        ('/jpeg/a b/ü?q=ä', '/jpeg/a%20b/%C3%BC?q=%C3%A4'),
        ('/jpeg/%7E%2F~?sig=a%2Bb+c', '/jpeg/%7E%2F~?sig=a%2Bb+c'),
        ('/jpeg/x#part', '/jpeg/x'),
        ('/jpeg/"<>|', '/jpeg/%22%3C%3E%7C'),
    ],
)
def test_a_url_is_sent_as_it_is_but_for_what_no_url_may_have(
    web: Web, path: str, sent: str
) -> None:
    assert one(f' {web.url(path)}\n').category == FETCHED
    assert list(web.seen) == [sent]


# Files of Beam's filesystems.


def test_files_are_read_where_their_scheme_is_allowed(tmp_path: Path, gcs_bucket: str) -> None:
    (tmp_path / 'a b.jpg').write_bytes(JPEG)
    storage.write(f'{gcs_bucket}/a b.jpg', [PNG], len(PNG))
    outcomes = fetch(
        f'file://{tmp_path}/a%20b.jpg', f'file://localhost{tmp_path}/a%20b.jpg',
        f'{gcs_bucket}/a b.jpg', schemes='file,gs', accept='image/*',
    )  # fmt: skip
    assert [outcome.data for outcome in outcomes] == [JPEG, JPEG, PNG]
    assert {outcome.status for outcome in outcomes} == {0}


def test_what_holds_for_bodies_holds_for_files(tmp_path: Path) -> None:
    for name, data in (('large', JPEG), ('empty', b''), ('text.jpg', b'words')):
        (tmp_path / name).write_bytes(data)
    base = f'file://{tmp_path}'
    outcomes = fetch(
        f'{base}/absent', f'{base}/large', f'{base}/empty', f'{base}/text.jpg',
        'file://elsewhere/a', schemes='file', accept='image/*', max_bytes=1000,
    )  # fmt: skip
    assert [outcome.category for outcome in outcomes] == [
        'storage', 'too_large', 'empty_body', 'wrong_type', 'bad_url',
    ]  # fmt: skip
    assert outcomes[0].message == f'{tmp_path}/absent: no such file'
    assert one(base, schemes='file').category == 'storage'

"""A web server on a free loopback port that misbehaves as its paths say."""

from __future__ import annotations

import collections
import contextlib
import gzip
import http.server
import socket
import ssl
import struct
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

JPEG = b'\xff\xd8\xff\xe0' + bytes(range(256)) * 4
PNG = b'\x89PNG\r\n\x1a\n' + b'pixels' * 50
MP4 = b'\0\0\0\x18ftypmp42\0\0\0\0mp42isom' + b'frames' * 50
HTML = b'<!DOCTYPE html><html><body>not found</body></html>'


class Web(http.server.ThreadingHTTPServer):
    """The server; see `Handler` for what its paths do.

    Attributes:
        seen: Paths, with how often each was asked for.
        heads: The headers of the last request for each path.
        connections: How many were made.
        most: Most requests at once.
    """

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, address: str = '127.0.0.1', certificate: Path | None = None) -> None:
        if ':' in address:
            self.address_family = socket.AF_INET6
        super().__init__((address, 0), Handler)
        self.seen: collections.Counter[str] = collections.Counter()
        self.times: dict[str, list[float]] = collections.defaultdict(list)
        self.heads: dict[str, Any] = {}
        self.connections = self.most = self.now = 0
        self.lock = threading.Lock()
        self.ended = threading.Event()
        self.scheme = 'http'
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.socket = context.wrap_socket(
                self.socket, server_side=True, do_handshake_on_connect=False
            )
            self.scheme = 'https'

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def url(self, path: str, host: str | None = None) -> str:
        host = host or str(self.server_address[0])
        return f'{self.scheme}://{f"[{host}]" if ":" in host else host}:{self.port}{path}'

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections += 1
        super().process_request(request, client_address)

    def handle_error(self, *_: Any) -> None:
        """Clients that go away are what is tested."""

    def shutdown_request(self, request: Any) -> None:
        with contextlib.suppress(OSError):
            super().shutdown_request(request)


@contextlib.contextmanager
def serve(address: str = '127.0.0.1', certificate: Path | None = None) -> Iterator[Web]:
    """A server while the block runs."""
    with Web(address, certificate) as web:
        thread = threading.Thread(target=web.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield web
        finally:
            web.ended.set()
            web.shutdown()
            thread.join()


class Handler(http.server.BaseHTTPRequestHandler):
    """`/name/argument/...` calls the method `do_name(argument)`."""

    protocol_version = 'HTTP/1.1'
    server: Web
    disable_nagle_algorithm = True

    def log_message(self, *_: Any) -> None:
        """Says nothing."""

    def do_GET(self) -> None:
        web = self.server
        with web.lock:
            web.seen[self.path] += 1
            web.times[self.path].append(time.monotonic())
            self.count = web.seen[self.path]
            web.heads[self.path] = self.headers
            web.now += 1
            web.most = max(web.most, web.now)
        try:
            name, _, argument = self.path.lstrip('/').partition('/')
            getattr(self, f'do_{name}')(argument)
        except OSError:
            self.close_connection = True
        finally:
            with web.lock:
                web.now -= 1

    def answer(
        self, body: bytes = JPEG, kind: str | None = 'image/jpeg', status: int = 200, **heads: Any
    ) -> None:
        self.send_response(status)
        if kind is not None:
            self.send_header('Content-Type', kind)
        self.send_header('Content-Length', str(heads.pop('length', len(body))))
        for head, value in heads.items():
            for one in value if isinstance(value, list) else [value]:
                self.send_header(head.replace('_', '-'), one)
        self.end_headers()
        self.wfile.write(body)

    def do_jpeg(self, _: str) -> None:
        self.answer()

    def do_bytes(self, size: str) -> None:
        """As many bytes, the first ones of a JPEG."""
        self.answer(JPEG[:4].ljust(int(size.partition('/')[0]), b'x'))

    def do_late(self, size: str) -> None:
        """As many bytes, after a moment in which others ask too."""
        self.server.ended.wait(0.3)
        self.do_bytes(size)

    def do_video(self, _: str) -> None:
        self.answer(MP4, 'video/mp4')

    def do_slow(self, seconds: str) -> None:
        self.server.ended.wait(float(seconds.partition('/')[0]))
        self.answer()

    def do_status(self, status: str) -> None:
        self.answer(HTML, 'text/html', int(status.partition('/')[0]))

    def do_busy(self, argument: str) -> None:
        """STATUS/TIMES/RETRY-AFTER: refuses so many times."""
        status, times, wait, *_ = argument.split('/')
        if self.count > int(times):
            return self.answer()
        heads = {'Retry_After': wait} if wait else {}
        return self.answer(b'busy', 'text/plain', int(status), **heads)

    def do_hang(self, _: str) -> None:
        self.server.ended.wait(30)
        self.close_connection = True

    def do_stall(self, _: str) -> None:
        """Half a body, and then nothing."""
        self.answer(JPEG[:500], length=len(JPEG))
        self.wfile.flush()
        self.server.ended.wait(30)
        self.close_connection = True

    def do_drip(self, _: str) -> None:
        """Some bytes at a time, without an end."""
        self.answer(JPEG[:4], length=100_000)
        while not self.server.ended.wait(0.05):
            self.wfile.write(b'xx')

    def do_drops(self, argument: str) -> None:
        """SECONDS/PARTS: a body in parts, with pauses."""
        seconds, count = argument.split('/')
        size = len(JPEG) // int(count) + 1
        self.answer(b'', length=len(JPEG))
        for start in range(0, len(JPEG), size):
            self.wfile.write(JPEG[start : start + size])
            self.server.ended.wait(float(seconds))

    def do_short(self, argument: str) -> None:
        """A body that ends before its length, each time or so many times."""
        if argument and self.count > int(argument.partition('/')[0]):
            return self.answer()
        self.close_connection = True
        return self.answer(JPEG[:100], length=len(JPEG))

    def do_cut(self, _: str) -> None:
        """A chunked body without its end."""
        self.chunks([JPEG], end=b'')
        self.close_connection = True

    def do_chunked(self, count: str) -> None:
        """64 KiB as often."""
        self.chunks([JPEG[:4] + bytes(65532), *([bytes(65536)] * (int(count) - 1))])

    def chunks(self, parts: list[bytes], end: bytes = b'0\r\n\r\n') -> None:
        self.send_response(200)
        self.send_header('Content-Type', 'image/jpeg')
        self.send_header('Transfer-Encoding', 'chunked')
        self.end_headers()
        for part in parts:
            self.wfile.write(b'%x\r\n%s\r\n' % (len(part), part))
        self.wfile.write(end)

    def do_unsized(self, _: str) -> None:
        """A body that ends with its connection."""
        self.wfile.write(b'HTTP/1.0 200 OK\r\nContent-Type: image/jpeg\r\n\r\n' + JPEG)
        self.close_connection = True

    def do_reset(self, argument: str) -> None:
        """A connection that is reset, each time or so many times."""
        if argument and self.count > int(argument.partition('/')[0]):
            return self.answer()
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
        self.connection.close()
        self.close_connection = True
        return None

    def do_garbage(self, _: str) -> None:
        self.wfile.write(b'220 mail.example.org ESMTP\r\n')
        self.close_connection = True

    def do_loop(self, _: str) -> None:
        self.answer(b'', None, 302, Location=self.path)

    def do_hops(self, argument: str) -> None:
        """COUNT/...: so many redirects, and then an image."""
        left = int(argument.partition('/')[0])
        self.answer(b'', None, 301, Location=f'/hops/{left - 1}' if left > 1 else '/jpeg/end')

    def do_to(self, target: str) -> None:
        """A redirect to any URL."""
        self.answer(HTML, 'text/html', 302, Location=target)

    def do_optredirect(self, _: str) -> None:
        self.answer(b'', None, 302, Location='/jpeg/', X_Robots_Tag='noai')

    def do_nowhere(self, _: str) -> None:
        self.answer(b'', None, 302)

    def do_html(self, _: str) -> None:
        self.answer(HTML, 'text/html; charset=utf-8')

    def do_liar(self, _: str) -> None:
        self.answer(HTML, 'image/jpeg')

    def do_unsaid(self, _: str) -> None:
        self.answer(PNG, 'application/octet-stream')

    def do_mislabelled(self, _: str) -> None:
        self.answer(JPEG, 'text/plain')

    def do_empty(self, _: str) -> None:
        self.answer(b'')

    def do_tagged(self, tags: str) -> None:
        """X-Robots-Tag headers, separated by semicolons."""
        values = [tag.replace('%20', ' ') for tag in tags.split(';')]
        self.answer(X_Robots_Tag=values)

    def do_gzip(self, _: str) -> None:
        self.answer(gzip.compress(JPEG), Content_Encoding='gzip')

    def do_zipped(self, size: str) -> None:
        """A body of so many bytes, in few."""
        body = gzip.compress(JPEG[:4].ljust(int(size.partition('/')[0]), b'x'), 1)
        self.answer(body, Content_Encoding='gzip')

    def do_deflate(self, _: str) -> None:
        self.answer(zlib.compress(JPEG)[2:-4], Content_Encoding='deflate')

    def do_brotli(self, _: str) -> None:
        self.answer(JPEG, Content_Encoding='br')

    def do_bomb(self, _: str) -> None:
        """64 MiB of nothing in 64 KiB."""
        self.answer(gzip.compress(JPEG[:4] + bytes(64 << 20), 1), Content_Encoding='gzip')

    def do_damaged(self, _: str) -> None:
        self.answer(gzip.compress(JPEG)[:-20], Content_Encoding='gzip')

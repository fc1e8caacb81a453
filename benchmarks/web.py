"""A local nginx that serves small JPEG files, for the benchmark of fetching."""

from __future__ import annotations

import contextlib
import io
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image

from benchmarks import process

# Pictures that are drawn; the files differ by a comment in them.
_DRAWN = 64

# Makes a noisy picture of 256 x 256 about 30 KB.
_NOISE, _QUALITY = 24, 90

_CONFIG = """
worker_processes 1;
daemon off;
{user}
pid {folder}/pid;
error_log {folder}/error.log;
events {{ worker_connections 4096; }}
http {{
  access_log off;
  types {{ image/jpeg jpg; }}
  sendfile on;
  tcp_nopush on;
  keepalive_requests 1000000;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  server {{ listen 127.0.0.1:{port} backlog=1024; root {root}; }}
}}
"""


def ensure_images(folder: Path, count: int) -> Path:
    """Makes JPEG files of about 30 KB, no two equal, unless they are there."""
    target = folder / f'urls-v1-{count}'
    if target.is_dir():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(30)
    drawn = [_draw(rng) for _ in range(_DRAWN)]
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        staging = Path(scratch, 'images')
        staging.mkdir(parents=True)
        for number in range(count):
            picture = drawn[number % _DRAWN]
            comment = f'{number:08}'.encode()
            head = b'\xff\xd8\xff\xfe' + (len(comment) + 2).to_bytes(2, 'big') + comment
            (staging / f'{number:06}.jpg').write_bytes(head + picture[2:])
        os.chmod(scratch, 0o755)
        staging.rename(target)
    return target


def _draw(rng: np.random.Generator) -> bytes:
    coarse = rng.integers(0, 256, (16, 16, 3), dtype=np.uint8)
    smooth = np.asarray(Image.fromarray(coarse).resize((256, 256), Image.Resampling.BICUBIC))
    noisy = smooth.astype(np.int16) + rng.integers(-_NOISE, _NOISE + 1, smooth.shape)
    out = io.BytesIO()
    Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(out, 'JPEG', quality=_QUALITY)
    return out.getvalue()


@contextlib.contextmanager
def serve(root: Path) -> Iterator[str]:
    """The URL of a folder, while the block runs.

    Raises:
        process.MeasurementError: There is no nginx, or it does not start.
    """
    program = shutil.which('nginx', path=f'{os.environ.get("PATH", "")}:/usr/sbin')
    if program is None:
        raise process.MeasurementError('there is no nginx: apt-get install nginx-light')
    with socket.socket() as free:
        free.bind(('127.0.0.1', 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        # As root it would give its workers to a user who may not read the files.
        user = f'user {pwd.getpwuid(os.getuid()).pw_name};' if os.getuid() == 0 else ''
        config = Path(folder, 'nginx.conf')
        config.write_text(_CONFIG.format(folder=folder, port=port, root=root, user=user))
        server = subprocess.Popen([program, '-c', str(config)], stderr=subprocess.DEVNULL)
        try:
            _wait_for(port, server, Path(folder, 'error.log'))
            yield f'http://127.0.0.1:{port}'
        finally:
            server.terminate()
            server.wait()


def version() -> str:
    """What serves."""
    program = shutil.which('nginx', path=f'{os.environ.get("PATH", "")}:/usr/sbin') or 'nginx'
    told = subprocess.run([program, '-v'], capture_output=True, text=True, check=False).stderr
    return told.strip().rpartition(' ')[2]


def _wait_for(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(100):
        if server.poll() is not None:
            break
        with contextlib.suppress(OSError), socket.create_connection(('127.0.0.1', port), 1):
            return
        time.sleep(0.05)
    text = log.read_text() if log.exists() else ''
    raise process.MeasurementError(f'nginx does not start: {text}')

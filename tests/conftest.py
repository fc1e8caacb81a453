"""Fixtures for all tests: nobody's real cloud account, a gs:// in this process, a faulty store."""

from __future__ import annotations

import json
import os
import socket
import time
import urllib.error
import urllib.request
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from gcp_storage_emulator.server import create_server

from beam_mds import retries
from tests.helpers import attempts, faulty

if TYPE_CHECKING:
    from collections.abc import Iterator

_HOST = '127.0.0.1'
_BUCKET = 'beam-mds-tests'
_START_TIMEOUT_SEC = 20

# Without a credentials file, Google's client asks the metadata server first: 20 s in each process.
_CREDENTIALS = {
    'type': 'authorized_user',
    'client_id': 'x',
    'client_secret': 'x',
    'refresh_token': 'x',
    'token': 'x',
    'expiry': '2099-01-01T00:00:00Z',
    'quota_project_id': 'test-project',
}


@pytest.fixture(scope='session', autouse=True)
def no_real_cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Replace the developer's cloud account, for every test: Beam keeps the first one it finds."""
    credentials = tmp_path_factory.mktemp('credentials') / 'credentials.json'
    credentials.write_text(json.dumps(_CREDENTIALS))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv('GOOGLE_APPLICATION_CREDENTIALS', str(credentials))
        patch.setenv('GOOGLE_CLOUD_PROJECT', 'test-project')
        yield


@pytest.fixture(scope='session')
def gcs_emulator(no_real_cloud: None) -> Iterator[str]:
    """Run a Cloud Storage emulator, in memory; worker processes reach it too. Gives its URL."""
    port = _free_port()
    url = f'http://{_HOST}:{port}'
    server = create_server(_HOST, port, in_memory=True, default_bucket=_BUCKET)
    server.start()
    try:
        _wait_until_it_answers(f'{url}/storage/v1/b/{_BUCKET}')
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv('STORAGE_EMULATOR_HOST', url)
            yield url
    finally:
        server.stop()


@pytest.fixture
def gcs_bucket(gcs_emulator: str) -> str:
    """Give a gs:// folder that no other test has: no trailing slash, nothing in it."""
    return f'gs://{_BUCKET}/{uuid.uuid4().hex}'


@pytest.fixture
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let retries in this process wait for milliseconds, and end after a second."""
    monkeypatch.setattr(retries, '_FIRST_WAIT', 0.001)
    monkeypatch.setattr(retries, '_LONGEST_WAIT', 0.01)
    monkeypatch.setattr(retries, '_GIVE_UP_AFTER', 1.0)


@pytest.fixture(params=['local', 'gs'])
def root(request: pytest.FixtureRequest, short_waits: None) -> str:
    """Give a fresh folder on each kind of store."""
    if request.param == 'local':
        return str(request.getfixturevalue('tmp_path'))
    folder: str = request.getfixturevalue('gcs_bucket')
    return folder


@pytest.fixture
def faults(tmp_path: Path, short_waits: None, monkeypatch: pytest.MonkeyPatch) -> faulty.Faults:
    """Give a store that fails on demand; tests/helpers/faulty.py tells how."""
    state, local, site = (tmp_path / name for name in ('faults', 'store', 'site'))
    for folder in (state, local, site):
        folder.mkdir()
    monkeypatch.setenv(faulty.ENVIRONMENT, str(state))
    # Worker processes know the scheme only if they import it.
    (site / 'sitecustomize.py').write_text('import tests.helpers.faulty\n')
    root = str(Path(__file__).parent.parent)
    paths = [str(site), root, os.environ.get('PYTHONPATH', '')]
    monkeypatch.setenv('PYTHONPATH', os.pathsep.join(filter(None, paths)))
    return faulty.Faults(state, local)


@pytest.fixture
def store(tmp_path: Path, short_waits: None, monkeypatch: pytest.MonkeyPatch) -> attempts.Store:
    """Give a store where one call of a write without a pipeline is failed, or is the last."""
    made = attempts.Store(tmp_path / 'out')
    monkeypatch.setattr(faulty, '_next_fault', made.next_fault)
    return made


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_until_it_answers(url: str) -> None:
    deadline = time.monotonic() + _START_TIMEOUT_SEC
    while True:
        try:
            with urllib.request.urlopen(url, timeout=1):
                return
        except (urllib.error.URLError, OSError) as error:
            if time.monotonic() > deadline:
                raise RuntimeError(f'the storage emulator does not answer at {url}') from error
            time.sleep(0.05)

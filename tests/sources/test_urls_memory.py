from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from beam_mds.indexes import read_index
from tests.helpers.web import serve

_BODIES = 600


@pytest.mark.slow
@pytest.mark.parametrize('path', ['/late/2000000/{}', '/chunked/30'])
def test_a_worker_with_64_requests_for_2_mb_at_once_stays_below_a_gib(
    tmp_path: Path, path: str
) -> None:
    table, out = tmp_path / 'list.txt', tmp_path / 'out'
    with serve() as web:
        table.write_text('\n'.join(web.url(path.format(number)) for number in range(_BODIES)))
        done = subprocess.run(
            [sys.executable, '-m', 'tests.helpers.fetched', str(table), str(out)],
            cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True,
        )  # fmt: skip
    if 'late' in path:
        assert web.most > 48
    index = read_index(out)
    assert sum(shard.samples for shard in index) == _BODIES
    # What it would have held without a bound.
    assert sum(shard.raw_data.bytes for shard in index) > 1_100_000_000
    assert int(done.stdout.split()[-1]) < 1 << 30

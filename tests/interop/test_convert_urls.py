"""Tables of URLs that people crawl, fetched, and read by StreamingDataset."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_mds.indexes import read_index
from pipelines import urls
from tests.helpers.web import JPEG, MP4, PNG, Web, serve
from tests.interop.conftest import Judge
from tests.interop.judge import portable

pytestmark = pytest.mark.interop

_WEBVID = {
    'videoid': 'str', 'name': 'str', 'page_idx': 'str', 'page_dir': 'str', 'duration': 'int',
    'contentUrl': 'str', 'content': 'bytes',
}  # fmt: skip


def _convert(preset: str, table: Path, out: Path, *more: str) -> None:
    urls.main([
        f'--preset={preset}', f'--input={table}', f'--output={out}', '--allow_private_hosts',
        '--runner=FnApiRunner', *more,
    ])  # fmt: skip


def _webvid(web: Web, path: Path) -> list[dict[str, Any]]:
    """Writes a table like those of WebVid; what its script makes of it, sorted by the video's id.

    A row whose URL does not answer 200 is left out; the others get the bytes in `content`, and the
    duration as seconds. Everything else stays the text that it is.
    """
    wanted = []
    with path.open('w', newline='') as file:
        table = csv.writer(file)
        table.writerow(['videoid', 'name', 'page_idx', 'page_dir', 'duration', 'contentUrl'])
        for number in range(40):
            good = number % 8 != 3
            row = {
                'videoid': f'{1000 + number}',
                'name': f'Video {number}, "quoted", é 中',
                'page_idx': f'{number // 10}',
                'page_dir': f'{number:06}_{number + 50:06}',
                'contentUrl': web.url(f'/video/{number}.mp4' if good else '/status/404'),
            }
            seconds = 7 * number
            text = f'PT{seconds // 3600:02}H{seconds // 60 % 60:02}M{seconds % 60:02}S'
            table.writerow([*list(row.values())[:4], text, row['contentUrl']])
            if good:
                wanted.append({**row, 'duration': seconds, 'content': MP4})
    return wanted


def test_webvid(judge: Judge, tmp_path: Path) -> None:
    """streaming/multimodal/convert/webvid/crawl_webvid.py: the same shard to the byte."""
    table, out = tmp_path / 'results_10M_val.csv', tmp_path / 'out'
    with serve() as web:
        wanted = _webvid(web, table)
        _convert('webvid', table, out, '--max_error_ratio=0.2', '--order=sorted', '--key=videoid')
    judge.write(wanted, tmp_path / 'upstream', _WEBVID)
    (ours,), (theirs,) = read_index(str(out)), read_index(str(tmp_path / 'upstream'))
    assert (out / ours.raw_data.basename).read_bytes() == (
        tmp_path / 'upstream' / theirs.raw_data.basename
    ).read_bytes()
    assert judge.read(out) == [portable(sample) for sample in wanted]


def test_laion(judge: Judge, tmp_path: Path) -> None:
    """A part of LAION-400M's metadata: the names that img2dataset's output has."""
    table, out = tmp_path / 'part-00000.snappy.parquet', tmp_path / 'out'
    bodies = {'/jpeg/1': JPEG, '/unsaid/2': PNG}
    with serve() as web:
        rows = [
            {
                'SAMPLE_ID': float(number), 'URL': web.url(path), 'TEXT': f'é {path}',
                'HEIGHT': 10 * number, 'WIDTH': 20, 'LICENSE': '?', 'NSFW': 'UNLIKELY',
                'similarity': 0.3 + number,
            }
            for number, path in enumerate([*bodies, '/tagged/noai', '/html/', '/status/410'])
        ]  # fmt: skip
        pq.write_table(pa.Table.from_pylist(rows), table, compression='snappy')
        _convert('laion', table, out, '--max_error_ratio=0.7', '--order=sorted', '--key=SAMPLE_ID')
    wanted = []
    for row, body in zip(rows, bodies.values(), strict=False):
        sample: dict[str, Any] = {**row, 'url': row['URL'], 'caption': row['TEXT']}
        del sample['URL'], sample['TEXT']
        wanted.append({**sample, 'jpg': body, 'status': 200})
    assert [_plain(sample) for sample in judge.read(out)] == [_plain(portable(s)) for s in wanted]


def test_cc12m(judge: Judge, tmp_path: Path) -> None:
    table, out = tmp_path / 'cc12m.tsv', tmp_path / 'out'
    with serve() as web:
        pairs = [(web.url(f'/jpeg/{number}'), f'a "car" {number}') for number in range(5)]
        table.write_text(''.join(f'{url}\t{caption}\n' for url, caption in pairs))
        _convert('cc12m', table, out, '--order=sorted', '--key=caption')
    assert judge.read(out) == [
        portable({'url': url, 'caption': caption, 'jpg': JPEG, 'status': 200})
        for url, caption in pairs
    ]


def _plain(sample: dict[str, Any]) -> dict[str, Any]:
    """Numbers without their types: the reader gives numpy's."""
    import numpy as np

    plain = {}
    for name, value in sample.items():
        plain[name] = np.frombuffer(value[3], value[1])[0] if len(value) == 4 else value[1]
    return plain

"""What img2dataset 1.47 writes with --output_format webdataset, on a small scale."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.helpers.tars import write_tar

_TEXTS = ('url', 'caption', 'NSFW', 'LICENSE', 'key', 'status', 'error_message', 'exif')
_SIZES = ('width', 'height', 'original_width', 'original_height')

# The types that its downloader gives the fields.
META_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in _TEXTS),
        *((name, pa.int32()) for name in _SIZES),
        ('similarity', pa.float64()),
    ]
)


def meta(number: int, *, failed: bool = False) -> dict[str, Any]:
    """The fields of one URL; those of one that gave no image are null."""
    return {
        'url': f'https://example.com/{number}.jpg',
        'caption': f'cäption {number}' if number else None,
        'NSFW': ('UNLIKELY', None)[number % 2],
        'similarity': 0.25 + number,
        'LICENSE': '?',
        'key': f'{number:09d}',
        'status': 'failed_to_download' if failed else 'success',
        'error_message': 'HTTP Error 404: Not Found' if failed else None,
        'width': None if failed else 256,
        'height': None if failed else 100 + number,
        'original_width': None if failed else 512,
        'original_height': None if failed else 200 + number,
        'exif': None if failed else '{}',
    }


def image(row: dict[str, Any]) -> bytes | None:
    """The image of a row, if it has one."""
    return b'\xff\xd8' + row['key'].encode() * 50 if row['status'] == 'success' else None


def write_shard(
    folder: Path,
    number: int,
    rows: Sequence[dict[str, Any]],
    schema: pa.Schema | None = META_SCHEMA,
) -> None:
    """Writes an archive and, with a schema, the parquet file beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    members = []
    for row in rows:
        data = image(row)
        if data is not None:
            members += [
                (f'{row["key"]}.jpg', data),
                (f'{row["key"]}.json', json.dumps(row, indent=4).encode()),
                (f'{row["key"]}.txt', (row['caption'] or '').encode()),
            ]
    write_tar(folder / f'{number:05d}.tar', members)
    if schema is not None:
        table = pa.Table.from_pylist(list(rows), schema)
        pq.write_table(table, folder / f'{number:05d}.parquet')

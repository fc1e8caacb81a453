"""img2dataset's output, converted, is to StreamingDataset what streaming's script makes of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pipelines import webdataset
from tests.helpers.laion import META_SCHEMA, image, meta, write_shard
from tests.interop.conftest import Judge

pytestmark = pytest.mark.interop

# examples/multimodal/laion400m/convert_and_upload.py of streaming: a column, its encoding, and the
# column of img2dataset's table that it is made of.
_UPSTREAM = [
    ('nsfw', 'str', 'NSFW'),
    ('similarity', 'float64', 'similarity'),
    ('license', 'str', 'LICENSE'),
    ('caption', 'str', 'caption'),
    ('url', 'str', 'url'),
    ('key', 'str', 'key'),
    ('status', 'str', 'status'),
    ('error_message', 'str', 'error_message'),
    ('width', 'int32', 'width'),
    ('height', 'int32', 'height'),
    ('original_width', 'int32', 'original_width'),
    ('original_height', 'int32', 'original_height'),
    ('exif', 'str', 'exif'),
    ('jpg', 'bytes', 'jpg'),
]


def reference(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The samples of the script: it goes through img2dataset's table (here with its images)."""
    schema = META_SCHEMA.append(pa.field('jpg', pa.binary()))
    table = pa.Table.from_pylist([{**row, 'jpg': image(row)} for row in rows], schema).to_pandas()
    samples = []
    for _, row in table.iterrows():
        sample: dict[str, Any] = {}
        for name, encoding, field in _UPSTREAM:
            value = row[field]
            if encoding == 'int32':
                sample[name] = 0 if np.isnan(value) else int(value)
            elif encoding == 'float64':
                sample[name] = value
            else:
                sample[name] = value or (b'' if encoding == 'bytes' else '')
        samples.append(sample)
    return samples


def test_img2dataset_output_is_what_streamings_laion400m_script_writes(
    judge: Judge, tmp_path: Path
) -> None:
    rows = [meta(n, failed=n % 4 == 1) for n in range(23)]
    rows[6]['similarity'] = None
    for number in range(3):
        write_shard(tmp_path / 'in', number, rows[number * 8 : number * 8 + 8])
    columns = {name: encoding for name, encoding, _ in _UPSTREAM}
    judge.write(reference(rows), tmp_path / 'theirs', columns, hashes=['sha1', 'xxh64'])
    webdataset.main(
        ['--input', str(tmp_path / 'in'), '--output', str(tmp_path / 'ours'), '--preset', 'laion',
         '--hashes', 'sha1,xxh64', '--order', 'sorted', '--key', 'key', '--runner', 'FnApiRunner']
    )  # fmt: skip
    assert judge.read(tmp_path / 'ours') == judge.read(tmp_path / 'theirs')
    ours, theirs = (
        json.loads((tmp_path / name / 'index.json').read_text())['shards'][0]
        for name in ('ours', 'theirs')
    )
    for part in ('column_names', 'column_encodings', 'column_sizes', 'hashes', 'samples'):
        assert ours[part] == theirs[part]

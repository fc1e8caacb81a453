"""streaming's enwiki_txt conversion (0.13.0, `streaming/text/convert/enwiki_text.py`), as we do it.

Its input is English Wikipedia as `part-00000-of-00500` and so on for the split `train`, `eval.txt`
for `val`: UTF-8 text, one paragraph a line. It writes each line that is not blank, without the
white space around it, as `{'text': 'str'}`.
"""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from beam_mds.indexes import read_index
from pipelines import conversion
from tests.interop.conftest import Judge

pytestmark = pytest.mark.interop

_RAW = {
    'part-00000-of-00500': 'Anarchism is a political philosophy.\n\n  It holds that\tthe state '
    'is undesirable. \n\n\n',
    'part-00001-of-00500': 'Autism is a disorder.\r\n\r\nIts signs: é, 中文, 🙂.\r\n',
    'part-00002-of-00500': '\n \n\u3000Albedo is the measure\u2028of reflection.\xa0\nlast line',
    'eval.txt': 'An apple is a fruit.\n\nA pear, too.\n',
}


def _reference(text: str) -> list[str]:
    """What the upstream script makes of a file: its lines in text mode, stripped, if not blank."""
    lines = io.TextIOWrapper(io.BytesIO(text.encode()), encoding='utf-8')
    return [stripped for line in lines if (stripped := line.strip())]


def test_enwiki_txt_is_what_streaming_makes_of_it(tmp_path: Path, judge: Judge) -> None:
    for name, text in _RAW.items():
        (tmp_path / name).write_bytes(text.encode())
    for split, pattern in (('train', 'part-*'), ('val', 'eval.txt')):
        out = tmp_path / 'out' / split
        _, result = conversion.run(
            'files',
            [
                f'--input={tmp_path}/{pattern}', f'--output={out}', '--lines',
                '--compression=zstd:7', '--hashes=sha1,xxh64', '--size_limit=32mb',
                '--runner=FnApiRunner',
            ],
        )  # fmt: skip
        result.wait_until_finish()
        expected = [
            line
            for name, text in sorted(_RAW.items())
            if name.startswith(pattern.rstrip('*'))
            for line in _reference(text)
        ]
        (config,) = {shard.config for shard in read_index(out)}
        assert config.columns.as_dict() == {'text': 'str'}
        assert (config.compression, config.hashes) == ('zstd:7', ('sha1', 'xxh64'))
        samples = judge.read(out)
        assert [list(sample) for sample in samples] == [['text']] * len(expected)
        assert sorted(sample['text'] for sample in samples) == sorted(
            ['str', line] for line in expected
        )

from __future__ import annotations

import json
from pathlib import Path

import pytest

from beam_mds.cli import main
from beam_mds.format import INDEX_NAME
from beam_mds.indexes import read_index
from tests.helpers.damage import shards
from tests.helpers.writing import samples, write


@pytest.fixture
def lost(tmp_path: Path) -> Path:
    """A dataset whose index was renamed."""
    write(samples(100), tmp_path / 'a', size_limit=1500, hashes=['sha1'])
    (tmp_path / 'a' / INDEX_NAME).rename(tmp_path / INDEX_NAME)
    return tmp_path / 'a'


def test_a_lost_index_is_made_anew(lost: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(['rebuild-index', str(lost), '--hashes', 'same']) == 0
    assert (lost / INDEX_NAME).read_bytes() == (lost.parent / INDEX_NAME).read_bytes()
    count = len(read_index(lost))
    assert count > 3
    assert capsys.readouterr().out == f'{lost}/index.json: {count} shards, 100 samples\n'


def test_one_shard_and_one_sample_are_told_as_such(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(samples(1), tmp_path)
    assert main(['rebuild-index', str(tmp_path), '--overwrite']) == 0
    assert capsys.readouterr().out == f'{tmp_path}/index.json: 1 shard, 1 sample\n'


def test_hashes_are_those_that_are_named(lost: Path) -> None:
    for arguments, hashes in (([], ()), (['--hashes', 'xxh64,md5'], ('md5', 'xxh64'))):
        assert main(['rebuild-index', str(lost), '--overwrite', *arguments]) == 0
        assert {info.config.hashes for info in read_index(lost)} == {hashes}
        assert {tuple(sorted(info.stored.hashes)) for info in read_index(lost)} == {hashes}


def test_damaged_shards_are_printed(lost: Path, capsys: pytest.CaptureFixture[str]) -> None:
    victim = min(lost.iterdir())
    victim.write_bytes(victim.read_bytes()[:-1])
    assert main(['rebuild-index', str(lost)]) == 1
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith(f'header      {victim}: offset ')
    index = read_index(lost)
    count = sum(info.samples for info in index)
    assert second == f'{lost}/index.json: {len(index)} shards, {count} samples'
    assert victim not in shards(lost)


def test_json_has_all_of_it(lost: Path, capsys: pytest.CaptureFixture[str]) -> None:
    victim = min(lost.iterdir())
    victim.write_bytes(b'')
    assert main(['rebuild-index', '--json', str(lost)]) == 1
    index = read_index(lost)
    assert json.loads(capsys.readouterr().out) == {
        'index': f'{lost}/index.json',
        'shards': len(index),
        'samples': sum(info.samples for info in index),
        'findings': [
            {
                'file': str(victim),
                'kind': 'header',
                'detail': '0 bytes are too few for a shard',
            }
        ],
    }


def test_deep_decodes(tmp_path: Path) -> None:
    write(({'t': f'text {n}'} for n in range(9)), tmp_path, {'t': 'str'}, num_shards=3)
    victim = shards(tmp_path)[0].rename(tmp_path / 'x.mds')
    victim.write_bytes(victim.read_bytes().replace(b'text', b'\xffext'))
    (tmp_path / INDEX_NAME).unlink()
    assert main(['rebuild-index', str(tmp_path)]) == 0
    assert main(['rebuild-index', str(tmp_path), '--deep', '--overwrite']) == 1
    assert victim not in shards(tmp_path)


def test_what_is_refused_is_told(lost: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(['rebuild-index', str(lost), '--hashes', 'sha0']) == 2
    assert capsys.readouterr().err.startswith("beam-mds: unknown hash 'sha0'")
    assert main(['rebuild-index', str(lost / 'nothing')]) == 3
    assert 'no file in it or below is named like a shard' in capsys.readouterr().err
    (lost / INDEX_NAME).write_text('mine')
    assert main(['rebuild-index', str(lost)]) == 3
    assert "if_exists='overwrite' (--overwrite) replaces it" in capsys.readouterr().err
    assert (lost / INDEX_NAME).read_text() == 'mine'
    with pytest.raises(SystemExit) as ended:
        main(['rebuild-index', str(lost), '--', '--runner=FnApiRunner'])
    assert ended.value.code == 2
    assert 'no Beam job is run here' in capsys.readouterr().err


def test_help_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(['rebuild-index', '--help'])
    assert '  beam-mds rebuild-index out/dataset --hashes same --over' in capsys.readouterr().out

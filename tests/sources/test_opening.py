from __future__ import annotations

import bz2
import gzip
import lzma
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from beam_mds import FormatError, StorageError
from beam_mds.sources.opening import open_stream, sniff
from tests.helpers.faulty import Fault

_DATA = random.Random(1).randbytes(150_000) + b'abc' * 50_000

_COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    'gz': gzip.compress,
    'bz2': bz2.compress,
    'xz': lzma.compress,
    'zstd': lambda data: zstandard.ZstdCompressor(write_checksum=True).compress(data),
}


def _read(path: Path, size: int = 10_007) -> bytes:
    with open_stream(str(path)) as stream:
        data = b''.join(stream.blocks(size))
        assert stream.position == len(data)
    return data


@pytest.mark.parametrize('name', _COMPRESS)
def test_the_content_tells_the_compression_not_the_name(tmp_path: Path, name: str) -> None:
    path = tmp_path / 'data.jsonl'
    path.write_bytes(_COMPRESS[name](_DATA))
    assert sniff(str(path)) == name
    assert _read(path) == _DATA


@pytest.mark.parametrize('content', [b'', b'\x1f', b'plain', _DATA])
def test_other_files_are_as_they_are(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / 'data.gz'
    path.write_bytes(content)
    assert sniff(str(path)) is None
    assert _read(path) == content


@pytest.mark.parametrize('name', _COMPRESS)
def test_members_one_after_another_and_zeros_at_the_end_are_read(tmp_path: Path, name: str) -> None:
    path = tmp_path / 'data'
    packed = _COMPRESS[name](_DATA)
    path.write_bytes(packed + _COMPRESS[name](b'') + packed + bytes(100_000))
    assert _read(path) == _DATA * 2


def test_a_skippable_frame_of_zstd_may_come_first(tmp_path: Path) -> None:
    path = tmp_path / 'data'
    path.write_bytes(b'\x50\x2a\x4d\x18\x03\0\0\0abc' + _COMPRESS['zstd'](b'text'))
    assert _read(path) == b'text'


def test_a_zstd_frame_with_a_large_window_is_read(tmp_path: Path) -> None:
    path = tmp_path / 'data'
    parameters = zstandard.ZstdCompressionParameters.from_level(
        1, window_log=28, enable_ldm=True, write_content_size=False
    )
    machine = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    path.write_bytes(machine.compress(_DATA) + machine.flush())
    assert _read(path) == _DATA


@pytest.mark.parametrize('name', _COMPRESS)
@pytest.mark.parametrize('cut', [1, 7, 5000])
def test_of_a_truncated_file_all_that_is_there_is_read_then_it_is_an_error(
    tmp_path: Path, name: str, cut: int
) -> None:
    path = tmp_path / 'data'
    path.write_bytes(_COMPRESS[name](_DATA)[:-cut])
    found = []
    with open_stream(str(path)) as stream:
        with pytest.raises(FormatError, match=rf'the {name} data ends too early; [\d,]+ decompre'):
            found.extend(stream.blocks())
        with pytest.raises(FormatError, match='ends too early'):
            stream.read(1)
    data = b''.join(found)
    assert _DATA.startswith(data)
    # Of what is compressed in blocks, whole blocks.
    assert len(data) >= {'gz': 140_000, 'xz': 140_000, 'zstd': 131_072, 'bz2': 0}[name]


@pytest.mark.parametrize('name', _COMPRESS)
def test_damaged_data_is_an_error(tmp_path: Path, name: str) -> None:
    path = tmp_path / 'data'
    packed = bytearray(_COMPRESS[name](_DATA))
    packed[60_000:60_100] = os.urandom(100)
    path.write_bytes(packed)
    with pytest.raises(FormatError, match=rf'the {name} data is damaged \(.+\); [\d,]+ decompre'):
        _read(path)


def test_what_is_behind_compressed_data_must_be_compressed_too(tmp_path: Path) -> None:
    path = tmp_path / 'data'
    path.write_bytes(gzip.compress(b'text') + b'no gzip')
    with pytest.raises(FormatError, match='damaged'):
        _read(path)


def test_an_uncompressed_file_is_read_from_any_byte(tmp_path: Path) -> None:
    path = tmp_path / 'data'
    path.write_bytes(_DATA)
    with open_stream(str(path), 1000) as stream:
        assert (stream.position, stream.compression) == (1000, None)
        assert stream.read(5) == _DATA[1000:1005]
        assert stream.position == 1005


def test_a_busy_store_is_asked_again(faults: object, tmp_path: Path) -> None:
    (faults.local / 'a.gz').write_bytes(gzip.compress(_DATA))  # type: ignore[attr-defined]
    faults.add(Fault('read', 'a.gz', nth=2, error='reset'))  # type: ignore[attr-defined]
    with open_stream(f'{faults.folder}/a.gz') as stream:  # type: ignore[attr-defined]
        assert stream.read(1 << 30) == _DATA


def test_an_absent_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match='absent'):
        open_stream(f'{tmp_path}/absent')


def test_a_bomb_is_never_whole_in_memory(tmp_path: Path) -> None:
    import tracemalloc

    path = tmp_path / 'bomb'
    path.write_bytes(zstandard.compress(bytes(512 << 20), 1))
    assert path.stat().st_size > 16_000
    tracemalloc.start()
    with open_stream(str(path)) as stream:
        assert len(stream.read(1 << 20)) == 1 << 20
        peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 350 << 20

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import zstandard

from beam_mds.errors import FormatError, OptionError
from beam_mds.format import compress, compression, decompress
from beam_mds.format.compression import check_compression, suffix
from tests.helpers.memory import peak_of

FAMILIES = ('br', 'bz2', 'gz', 'snappy', 'zstd')
DATA = b''.join(random.Random(0).choices([b'spam', b'eggs', b'bacon'], k=60_000))

# compress(name, b'abc' * 5) of mosaicml-streaming 0.13.0, streaming/base/compression.py
GOLDEN = {
    'br': '1b0e00f825c3c4c6229b208006',
    'bz2': '425a6839314159265359783187ca00000201003800200030cc089a49924e2ee48a70a120f0630f94',
    'gz': '1f8b08006b4f0e6b02ff4b4c4a4e444200a38c27d30f000000',
    'snappy': '0f38616263616263616263616263616263',
    'zstd': '28b52ffd200f4d0000186162630100726e08',
}


@pytest.mark.parametrize('name', [*FAMILIES, 'br:0', 'bz2:1', 'gz:0', 'gz:9', 'zstd:1', 'zstd:22'])
def test_what_is_compressed_in_pieces_comes_back_whole(name: str) -> None:
    pieces = [DATA[:5], memoryview(DATA)[5:1000], np.frombuffer(DATA, np.uint8)[1000:], b'']

    made = compress(name, pieces)

    assert decompress(name, made, len(DATA)) == DATA
    assert compress(name, [np.frombuffer(DATA, np.uint8)]) == compress(name, [DATA])
    assert len(made) < len(DATA) or name == 'gz:0'


@pytest.mark.parametrize('name', FAMILIES)
def test_nothing_is_compressed_and_comes_back(name: str) -> None:
    assert decompress(name, compress(name, []), 0) == b''


def test_a_higher_level_makes_smaller_files() -> None:
    for low, high in (
        ('br:0', 'br:11'),
        ('bz2:1', 'bz2:9'),
        ('gz:1', 'gz:9'),
        ('zstd:1', 'zstd:19'),
    ):
        assert len(compress(low, [DATA])) > len(compress(high, [DATA]))


def test_a_zstd_frame_carries_its_content_size() -> None:
    for parts in ([DATA], [DATA[:9], DATA[9:]]):
        assert zstandard.get_frame_parameters(compress('zstd', parts)).content_size == len(DATA)


def test_a_gz_file_has_no_time_in_it() -> None:
    assert compress('gz', [DATA])[4:8] == bytes(4)


@pytest.mark.parametrize('name', FAMILIES)
def test_damaged_or_short_or_long_data_is_a_format_error(name: str) -> None:
    data = compress(name, [DATA])

    for bad, size in (
        (data[:-5], len(DATA)),
        (b'', len(DATA)),
        (b'\xff' * 50, len(DATA)),
        (data, len(DATA) - 1),
        (data, len(DATA) + 1),
        (data, 0),
    ):
        with pytest.raises(FormatError, match=rf'^{name} data (of \d+ bytes is damaged|gives)'):
            decompress(name, bad, size)


@pytest.mark.parametrize('name', FAMILIES)
def test_the_raw_size_need_not_be_known(name: str) -> None:
    assert decompress(name, compress(name, [DATA])) == DATA
    assert decompress(name, compress(name, [])) == b''
    for bad in (b'', compress(name, [DATA])[:-5], b'\xff' * 50, compress(name, [DATA]) + b'more'):
        with pytest.raises(FormatError, match=rf'^{name} data of {len(bad)} bytes is damaged'):
            decompress(name, bad)


@pytest.mark.parametrize('name', FAMILIES)
@pytest.mark.parametrize('size', [None, 1000])
def test_more_than_a_shard_can_be_or_the_index_says_is_not_decompressed(
    name: str, size: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compression, '_LARGEST', 1000)
    monkeypatch.setattr(compression, '_PIECE', 100)
    monkeypatch.setattr(pa, 'CompressedInputStream', _Counted)
    _Counted.given = 0

    with pytest.raises(FormatError) as caught:
        decompress(name, compress(name, [bytes(100_000)]), size)

    if name == 'snappy':
        assert str(caught.value).endswith('is damaged: it claims to hold 100000 bytes')
    else:
        limit = 'a shard has at most 1000' if size is None else 'the index says 1000'
        assert str(caught.value) == f'{name} data gives too many bytes: {limit}'
        assert _Counted.given == 1100


class _Counted(pa.CompressedInputStream):  # type: ignore[misc]
    """A stream that counts what it gives."""

    given = 0

    def read(self, size: int) -> Any:
        piece = super().read(size)
        _Counted.given += len(piece)
        return piece


@pytest.mark.parametrize(
    'data',
    [
        b'\xff\xff\xff\xff\x0f' + bytes(10),  # 4 GiB, from 15 bytes
        b'\xff' * 100_000,  # a size without end
    ],
)
def test_a_size_that_snappy_data_only_claim_is_not_allocated(data: bytes) -> None:
    for size in (None, 2**32 - 1):
        with pytest.raises(FormatError, match='it claims to hold'):
            decompress('snappy', data, size)


def test_a_size_that_a_zstd_frame_only_claims_is_not_allocated() -> None:
    frame = bytes.fromhex('28b52ffd') + b'\xe0' + (2**50).to_bytes(8, 'little') + bytes(9)
    assert zstandard.frame_content_size(frame) == 2**50
    for size in (None, 2**32 - 1, 100):
        with pytest.raises(FormatError, match='is damaged'):
            decompress('zstd', frame, size)


@pytest.mark.parametrize('name', GOLDEN)
def test_the_readers_compressed_bytes_are_read(name: str) -> None:
    assert decompress(name, bytes.fromhex(GOLDEN[name]), 15) == b'abc' * 5


@pytest.mark.parametrize(
    ('name', 'message'),
    [
        (
            'lz4',
            "unknown compression 'lz4': expected one of br, bz2, gz, snappy, zstd, or one with",
        ),
        ('', "unknown compression ''"),
        ('zst', "unknown compression 'zst'"),
        (7, 'unknown compression 7'),
        ('ZSTD', "unknown compression 'ZSTD'"),
        ('zstd:23', "compression 'zstd' has levels 1 to 22, got '23'"),
        ('zstd:0', "compression 'zstd' has levels 1 to 22, got '0'"),
        ('zstd:07', "compression 'zstd' has levels 1 to 22, got '07'"),
        ('zstd:٣', "compression 'zstd' has levels 1 to 22, got '٣'"),
        ('zstd:', "compression 'zstd' has levels 1 to 22, got ''"),
        ('zstd:high', "compression 'zstd' has levels 1 to 22, got 'high'"),
        ('br:12', "compression 'br' has levels 0 to 11, got '12'"),
        ('snappy:1', "compression 'snappy' has no levels, got '1'"),
    ],
)
def test_an_unknown_name_or_level_is_refused_with_what_there_is(name: str, message: str) -> None:
    with pytest.raises(OptionError) as caught:
        check_compression(name)

    assert str(caught.value).startswith(message)


def test_a_known_name_is_kept_and_gives_the_files_suffix() -> None:
    assert [check_compression(name) for name in (None, 'zstd:7', 'gz')] == [None, 'zstd:7', 'gz']
    assert [suffix(name) for name in (None, 'zstd:7', 'gz')] == ['', '.zstd', '.gz']


@pytest.mark.parametrize(
    ('name', 'data', 'size'),
    [
        *((name, compress(name, [bytes(1 << 26)]), 1000) for name in FAMILIES),
        ('snappy', b'\xff\xff\xff\xff\x0f' + bytes(10), 2**32 - 1),
        ('zstd', bytes.fromhex('28b52ffde0') + (2**31).to_bytes(8, 'little') + bytes(9), 2**31),
        *((name, compress(name, [DATA]), 2**40) for name in FAMILIES),
    ],
)
def test_memory_follows_what_there_is_and_not_what_is_claimed(
    name: str, data: bytes, size: int
) -> None:
    def refused() -> None:
        with pytest.raises(FormatError):
            decompress(name, data, size)

    assert peak_of(refused) < 4 * (len(data) + len(DATA)) + (8 << 20)

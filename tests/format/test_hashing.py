from __future__ import annotations

import numpy as np
import pytest

from beam_mds.errors import OptionError
from beam_mds.format import HASHES, hex_digest
from beam_mds.format.hashing import check_hashes

# get_hash(name, b'abc') of mosaicml-streaming 0.13.0, streaming/base/hashing.py
GOLDEN = {
    'blake2s': '508c5e8c327c14e2e1a72ba34eeb452f37458b209ed63a294d999b4c86675982',
    'md5': '900150983cd24fb0d6963f7d28e17f72',
    'sha1': 'a9993e364706816aba3e25717850c26c9cd0d89d',
    'sha256': 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad',
    'sha3_224': 'e642824c3f8cf24ad09234ee7d3c766fc9a3a5168d0c94ad73b46fdf',
    'xxh128': '06b05ab6733a618578af5f94892f3950',
    'xxh32': '32d153ff',
    'xxh3_128': '06b05ab6733a618578af5f94892f3950',
    'xxh3_64': '78af5f94892f3950',
    'xxh64': '44bc2cf5ad770999',
}


@pytest.mark.parametrize('name', GOLDEN)
def test_a_hash_has_the_digest_that_the_reader_computes(name: str) -> None:
    assert hex_digest(name, [b'abc']) == GOLDEN[name]


@pytest.mark.parametrize('name', HASHES)
def test_pieces_hash_like_the_whole(name: str) -> None:
    whole = bytes(range(256)) * 9
    pieces = [whole[:3], memoryview(whole)[3:99], np.frombuffer(whole, np.uint8)[99:], b'']

    assert hex_digest(name, pieces) == hex_digest(name, [whole])


def test_hash_names_are_sorted() -> None:
    assert check_hashes(['xxh64', 'md5']) == ['md5', 'xxh64']
    assert check_hashes('sha1') == ['sha1']
    assert check_hashes(None) == check_hashes([]) == []
    assert list(HASHES) == sorted(HASHES)


@pytest.mark.parametrize('name', ['sha0', 'shake_128', 'SHA1', '', 5])
def test_an_unknown_hash_is_refused_with_what_there_is(name: str) -> None:
    with pytest.raises(OptionError) as caught:
        check_hashes([name])

    assert str(caught.value).startswith(f'unknown hash {name!r}: expected one of blake2b, blake2s,')


def test_a_hash_that_stands_twice_is_refused() -> None:
    with pytest.raises(OptionError, match='hashes must not repeat'):
        check_hashes(['md5', 'md5'])


def test_an_error_about_hashes_is_short_however_long_they_are() -> None:
    for names in (['x' * 10_000], ['md5'] * 10_000):
        with pytest.raises(OptionError) as caught:
            check_hashes(names)
        assert len(str(caught.value)) < 400

from __future__ import annotations

import gzip
import itertools
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beam_mds import BadRecord
from beam_mds.sources.inputs import InputFile
from beam_mds.sources.lines import Block, line_blocks, line_pieces, line_starts
from beam_mds.sources.opening import sniff


def _file(path: Path, data: bytes) -> InputFile:
    path.write_bytes(data)
    return InputFile(str(path), path.name, len(data))


def _lines(file: InputFile, piece: int = 64 << 20, block: int = 4 << 20) -> list[tuple[int, bytes]]:
    """The offset or number of each line, and the line."""
    found = []
    for part in line_pieces(file, piece):
        for item in line_blocks(part, block):
            assert isinstance(item, Block)
            found += [(int(place[next(reversed(place))]), line) for place, line in item.lines()]
    return found


def _numbered(data: bytes) -> list[tuple[int, bytes]]:
    lines = data.removeprefix(b'\xef\xbb\xbf').split(b'\n')
    return [(number + 1, line) for number, line in enumerate(lines) if line.strip()]


_TEXTS = st.lists(st.binary(max_size=12), max_size=30).map(b'\n'.join)


@given(data=_TEXTS, block=st.integers(1, 40))
@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
def test_lines_are_numbered_whatever_the_blocks(tmp_path: Path, data: bytes, block: int) -> None:
    file = _file(tmp_path / 'a', data)
    assert sniff(file.path) or _lines(file, block=block) == _numbered(data)


@given(data=_TEXTS, piece=st.integers(1, 40), block=st.integers(1, 40))
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
def test_each_line_is_in_one_piece_at_its_byte(
    tmp_path: Path, data: bytes, piece: int, block: int
) -> None:
    file = _file(tmp_path / 'a', data)
    if len(data) <= piece or sniff(file.path):
        return
    found = _lines(file, piece, block)
    assert [line for _, line in found] == [line for _, line in _numbered(data)]
    assert all(data[at:].startswith(line) for at, line in found)
    assert [at for at, _ in found] == sorted({at for at, _ in found})


def test_a_small_file_and_a_compressed_one_are_one_piece(tmp_path: Path) -> None:
    small = _file(tmp_path / 'a', b'x' * 100)
    assert len(list(line_pieces(small, 100))) == 1
    assert [(p.start, p.stop, p.number) for p in line_pieces(small, 40)] == [
        (0, 40, 0), (40, 80, 1), (80, 100, 2),
    ]  # fmt: skip
    packed = _file(tmp_path / 'b', gzip.compress(bytes(range(256)) * 9))
    assert len(list(line_pieces(packed, 100))) == 1


def test_a_line_longer_than_a_block_is_whole(tmp_path: Path) -> None:
    data = b'a\n' + b'x' * 20_000_000 + b'\nb'
    found = _lines(_file(tmp_path / 'a', data))
    assert [(number, len(line)) for number, line in found] == [(1, 1), (2, 20_000_000), (3, 1)]


def test_of_a_truncated_file_whole_lines_come_and_then_a_note(tmp_path: Path) -> None:
    data = b''.join(b'%09d\n' % number for number in range(10_000))
    file = _file(tmp_path / 'a.gz', gzip.compress(data)[:-2000])
    (piece,) = line_pieces(file)
    *blocks, note = line_blocks(piece, 1000)
    lines = [line for block in blocks if isinstance(block, Block) for _, line in block.lines()]
    assert b''.join(line + b'\n' for line in lines) == data[: 10 * len(lines)]
    assert len(lines) > 8000
    assert isinstance(note, BadRecord)
    assert note.error_type == 'truncated'
    assert note.place == {'file': file.path, 'line': len(lines) + 1}
    assert note.message.startswith('the gz data ends too early')
    assert note.message.endswith('the lines from here on are lost')


@pytest.mark.parametrize('data', [b'', b'\n', b'a', b'a\n', b'a\nb', b'\n\n\n'])
def test_the_starts_of_lines_are_found(data: bytes) -> None:
    starts = line_starts(data).tolist()
    assert [data[start:end] for start, end in itertools.pairwise(starts)] == data.splitlines(True)


def test_blank_lines_count_but_are_not_given(tmp_path: Path) -> None:
    assert _lines(_file(tmp_path / 'a', b'\n \t\r\nx\r\n\ny')) == [(3, b'x\r'), (5, b'y')]


def _texts(items: Iterable[tuple[int, bytes]]) -> list[bytes]:
    return [line for _, line in items]


def test_a_byte_order_mark_is_not_part_of_the_first_line(tmp_path: Path) -> None:
    file = _file(tmp_path / 'a', b'\xef\xbb\xbfx\n\xef\xbb\xbfy\n')
    assert _texts(_lines(file)) == [b'x', b'\xef\xbb\xbfy']
    assert _texts(_lines(file, piece=2)) == [b'x', b'\xef\xbb\xbfy']

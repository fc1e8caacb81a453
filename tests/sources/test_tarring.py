"""Tar archives are read as tarfile and GNU tar write them, and nothing is lost in silence."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_mds.sources.streams import StreamError
from beam_mds.sources.tarring import Member, TarReader
from tests.helpers.tars import END, add, filled, header, tar

FORMATS = [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]

_LONG = 'folder/' * 30 + 'n' * 120 + '.jpg'


def members_of(data: bytes) -> list[tuple[Member, bytes]]:
    reader = TarReader(io.BytesIO(data))
    return [(member, reader.read()) for member in reader]


def contents(data: bytes) -> list[tuple[str, bytes]]:
    return [(member.name, content) for member, content in members_of(data)]


def refusal_of(data: bytes) -> tuple[str, str]:
    ((member, _),) = members_of(data)
    assert member.refusal is not None
    return member.refusal


def failure_of(data: bytes) -> StreamError:
    with pytest.raises(StreamError) as caught:
        members_of(data)
    return caught.value


@pytest.mark.parametrize('layout', FORMATS)
def test_what_tarfile_writes_is_read_in_order(layout: int) -> None:
    files = [('a.txt', b'x' * 511), ('b/ü.txt', b''), ('c.bin', bytes(range(256)) * 5)]
    files.append(('p' * 90 + '/' + 'q' * 90 + '.txt', b'prefix'))
    assert contents(tar(files, layout)) == files


@pytest.mark.parametrize('layout', [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_names_of_any_length_are_read(layout: int) -> None:
    files = [('a', b'1'), (_LONG, b'2'), ('b', b'3'), (_LONG + '2', b'4')]
    assert contents(tar(files, layout)) == files


_names = st.text(st.characters(codec='utf-8', exclude_characters='\0/'), min_size=1, max_size=150)
_paths = st.lists(_names.filter(lambda name: name not in ('.', '..')), min_size=1, max_size=3)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(_paths.map('/'.join), st.binary(max_size=1600)), max_size=6),
    st.sampled_from([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]),
)
def test_any_files_come_back_from_any_layout(files: list[tuple[str, bytes]], layout: int) -> None:
    assert contents(tar(files, layout)) == files


@pytest.mark.parametrize('layout', ['v7', 'oldgnu', 'gnu', 'ustar', 'pax'])
def test_what_gnu_tar_writes_is_read(tmp_path: Path, layout: str) -> None:
    if shutil.which('tar') is None:
        pytest.skip('no tar program')
    name = 'd/' + 'n' * (80 if layout in ('v7', 'ustar') else 130) + '.txt'
    (tmp_path / 'd').mkdir()
    (tmp_path / name).write_bytes(b'hello' * 300)
    command = ['tar', '--format', layout, '-cf', '-', '-C', str(tmp_path), 'd']
    found = members_of(subprocess.run(command, capture_output=True, check=True).stdout)
    assert [(m.name.rstrip('/'), m.is_file, data) for m, data in found] == [
        ('d', False, b''),
        (name, True, b'hello' * 300),
    ]


@pytest.mark.parametrize('layout', ['oldgnu', 'pax'])
def test_a_sparse_file_of_gnu_tar_is_refused_and_the_next_member_is_read(
    tmp_path: Path, layout: str
) -> None:
    if shutil.which('tar') is None:
        pytest.skip('no tar program')
    with (tmp_path / 'a.bin').open('wb') as file:
        for number in range(60):  # more holes than one header has room for
            file.seek(number << 20)
            file.write(b'x')
    (tmp_path / 'b.txt').write_bytes(b'after')
    if os.stat(tmp_path / 'a.bin').st_blocks * 512 >= 60 << 20:
        pytest.skip('the file system stores the holes')
    command = ['tar', '--format', layout, '-S', '-cf', '-', '-C', str(tmp_path), 'a.bin', 'b.txt']
    sparse, after = members_of(subprocess.run(command, capture_output=True, check=True).stdout)
    assert (sparse[0].name, sparse[0].refusal) == (
        'a.bin',
        ('member_kind', 'the member is a sparse file: only files are read; write it as a file'),
    )
    assert after == (Member('b.txt', 5, after[0].byte, True, None), b'after')


def test_the_folder_field_is_not_taken_from_gnu_headers_which_have_times_there() -> None:
    gnu = header(b'a.txt', at257=b'ustar  \0', at345=b'14723456701')
    posix = header(b'a.txt', at345=b'folder')
    assert [name for name, _ in contents(gnu + posix + END)] == ['a.txt', 'folder/a.txt']


def test_a_size_of_more_than_33_bits_is_read() -> None:
    big = (1 << 33) + 5
    block = header(b'a.bin', at124=b'\x80' + big.to_bytes(11, 'big'))
    member = next(iter(TarReader(io.BytesIO(block))))
    assert member.size == big


def test_checksums_of_signed_bytes_are_taken() -> None:
    block = bytearray(header('ü.txt'.encode()))
    block[148:156] = b' ' * 8
    signed = sum(value - 256 if value > 127 else value for value in block)
    block[148:156] = f'{signed:06o}\0 '.encode()
    assert contents(bytes(block) + END) == [('ü.txt', b'')]


@pytest.mark.parametrize(
    ('kind', 'what'),
    [
        (b'1', 'a hard link'),
        (b'2', 'a symbolic link'),
        (b'3', 'a character device'),
        (b'4', 'a block device'),
        (b'6', 'a named pipe'),
        (b'S', 'a sparse file'),
        (b'M', 'the rest of a file from another volume'),
        (b'Q', "of the unknown type b'Q'"),
    ],
)
def test_what_is_no_file_is_refused(kind: bytes, what: str) -> None:
    message = f'the member is {what}: only files are read; write it as a file'
    assert refusal_of(header(b'a.jpg', kind=kind) + END) == ('member_kind', message)


def test_the_size_of_a_link_is_not_that_of_a_content() -> None:
    link = header(b'a.jpg', size=700, kind=b'1')
    assert [name for name, _ in contents(link + header(b'b.jpg') + END)] == ['a.jpg', 'b.jpg']


@pytest.mark.parametrize(
    ('name', 'why'),
    [
        (b'/etc/a.jpg', 'is absolute'),
        (b'a/../../b.jpg', "has '..' in it"),
        (b'..', "has '..' in it"),
        (b'\xe4.jpg', 'is not UTF-8'),
    ],
)
def test_names_that_escape_or_are_no_text_are_refused(name: bytes, why: str) -> None:
    assert refusal_of(header(name) + END) == (
        'member_name',
        f"the member's name {why}; rename it",
    )


def test_a_name_of_a_pax_header_is_refused_too() -> None:
    record = b'20 path=/etc/passwd\n'
    data = header(b'x', len(record), b'x') + filled(record) + header(b'a.jpg') + END
    assert refusal_of(data)[1] == "the member's name is absolute; rename it"
    record = b'15 path=a\0.jpg\n'
    data = header(b'x', len(record), b'x') + filled(record) + header(b'a.jpg') + END
    assert refusal_of(data)[1] == "the member's name has a NUL in it; rename it"


def test_dots_within_names_are_no_way_up() -> None:
    ((member, _),) = members_of(tar([('a..b/c..jpg', b'')]))
    assert member.refusal is None


def test_pax_sizes_win_over_those_of_headers() -> None:
    record = b'10 size=3\n'
    data = header(b'x', len(record), b'x') + filled(record) + header(b'a.txt') + filled(b'abc')
    assert contents(data + END) == [('a.txt', b'abc')]


def test_a_global_pax_header_is_for_all_members_behind_it() -> None:
    record = b'18 comment=a repo\n'
    data = header(b'g', len(record), b'g') + filled(record) + tar([('a.txt', b'x'), ('b', b'')])
    assert contents(data) == [('a.txt', b'x'), ('b', b'')]


def test_a_field_of_a_global_pax_header_holds_until_a_member_has_its_own() -> None:
    everywhere, own = b'10 size=3\n', b'10 size=2\n'
    data = header(b'g', len(everywhere), b'g') + filled(everywhere)
    data += header(b'a.txt') + filled(b'abc')
    data += header(b'x', len(own), b'x') + filled(own) + header(b'b.txt') + filled(b'de')
    data += header(b'c.txt') + filled(b'fgh')
    assert contents(data + END) == [('a.txt', b'abc'), ('b.txt', b'de'), ('c.txt', b'fgh')]


@pytest.mark.parametrize('layout', [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_a_member_starts_with_the_first_of_its_headers(layout: int) -> None:
    data = tar([('a.txt', b'x'), (_LONG, b'y'), ('b.txt', b'')], layout)
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        places = [member.offset for member in archive]
    assert [member.byte for member, _ in members_of(data)] == places


@pytest.mark.parametrize(
    'record', [b'99 path=a\n', b'path=a\n', b'9 path=ab\n', b'8 pathx\n', b'0 path=a\n']
)
def test_a_damaged_pax_header_ends_the_reading(record: bytes) -> None:
    data = header(b'x', len(record), b'x') + filled(record) + header(b'a.txt') + END
    error = failure_of(data)
    assert (error.error_type, error.byte) == ('corrupt', 0)
    assert error.message == f'a pax header has the record {record!a}'


def test_a_pax_size_that_is_no_number_ends_the_reading() -> None:
    record = b'11 size=-3\n'
    data = header(b'x', len(record), b'x') + filled(record) + header(b'a.txt') + END
    assert failure_of(data).message == "a pax header says size=b'-3'"


def test_a_header_that_claims_a_huge_name_is_not_believed() -> None:
    error = failure_of(header(b'././@LongLink', (1 << 20) + 1, b'L') + END)
    assert error.message == (
        'a header claims a name or fields of 1048577 bytes; the most that is read is 1048576'
    )


def test_an_archive_that_ends_behind_a_header_of_a_name_says_so() -> None:
    data = header(b'././@LongLink', 5, b'L') + filled(b'a.txt') + END
    assert failure_of(data).message == 'the archive ends behind a header that belongs to a member'


def test_what_was_not_read_is_passed_over_in_bounded_memory() -> None:
    asked = []

    class Recorder(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            asked.append(size)
            return super().read(size)

    data = tar([('a.bin', bytes(5 << 20)), ('b.txt', b'x')])
    assert [member.name for member in TarReader(Recorder(data))] == ['a.bin', 'b.txt']
    assert set(asked) == {1 << 20}


def test_a_claim_of_a_large_member_allocates_nothing() -> None:
    block = header(b'a.bin', at124=b'\x80' + (1 << 60).to_bytes(11, 'big'))
    error = failure_of(block + b'only this')
    assert (error.error_type, error.byte) == ('truncated', 521)


def test_every_truncation_is_told_and_what_came_before_is_kept() -> None:
    files = [('a.txt', b'x' * 700), ('b.txt', b''), ('c.txt', b'y' * 512)]
    data = tar(files)
    end = len(data.rstrip(b'\0'))
    end += -end % 512  # behind the last member
    for cut in range(end + 512):
        read: list[tuple[str, bytes]] = []
        reader = TarReader(io.BytesIO(data[:cut]))
        with pytest.raises(StreamError) as caught:
            read.extend((member.name, reader.read()) for member in reader)
        assert caught.value.error_type == 'truncated', cut
        assert caught.value.byte == cut
        assert read == files[: len(read)]
        assert len(read) == sum(cut >= size for size in (512 + 700, 2048 + 0, 2560 + 512)), cut
    for cut in (end + 512, end + 513, end + 1024, len(data)):
        assert contents(data[:cut]) == files


def test_an_archive_without_its_end_is_truncated_where_tarfile_says_nothing() -> None:
    data = tar([('a.txt', b'x'), ('b.txt', b'y')])
    between = data[:1024]  # behind a.txt
    with tarfile.open(fileobj=io.BytesIO(between), mode='r|') as archive:
        assert archive.getnames() == ['a.txt']
    assert failure_of(between).message == (
        'the archive ends without the blocks of zeros that every tar ends with: what came behind '
        'is lost'
    )


@pytest.mark.parametrize('at', [0, 1024])
def test_a_damaged_header_is_told_where_tarfile_says_nothing(at: int) -> None:
    data = bytearray(tar([('a.txt', b'x'), ('b.txt', b'y')]))
    data[at] ^= 1
    error = failure_of(bytes(data))
    assert (error.error_type, error.byte) == ('corrupt', at)
    if at:
        with tarfile.open(fileobj=io.BytesIO(bytes(data)), mode='r|') as archive:
            assert archive.getnames() == ['a.txt']
        assert error.message == (
            'this is no header of a member (its checksum is wrong): what comes behind is lost'
        )
    else:
        assert error.message == (
            'this is no tar archive: it begins without a header (the checksum is wrong)'
        )


def test_a_header_with_a_size_that_is_no_number_is_told() -> None:
    for text in (b'00000000008\0', b'-0000000001\0', b'\xff' * 12):
        error = failure_of(header(b'a.txt', at124=text) + END)
        assert (error.error_type, error.message) == ('corrupt', f'a header has the size {text!a}')


def test_what_stands_behind_the_end_is_told() -> None:
    first = tar([('a.txt', b'x')])
    error = failure_of(first + tar([('b.txt', b'y')]))
    assert (error.error_type, error.byte) == ('trailing_data', len(first))
    assert error.message == (
        'there is more behind the end of the archive, which is not read; were archives put '
        'together with cat?'
    )


def test_a_content_that_is_cut_off_while_it_is_passed_over_is_told_as_such() -> None:
    for size in (1024, 1000):
        data = tar([('a.bin', bytes(size))])[: 512 + 700]
        with pytest.raises(StreamError, match='ends within a member'):
            list(TarReader(io.BytesIO(data)))


def test_a_header_without_a_name_is_not_the_end() -> None:
    assert [name for name, _ in contents(header(b'') + header(b'a.txt') + END)] == ['', 'a.txt']


def test_an_empty_file_is_no_archive() -> None:
    assert failure_of(b'').error_type == 'truncated'


def test_an_archive_without_members_has_none() -> None:
    assert members_of(tar([])) == []


def test_folders_and_labels_are_no_files() -> None:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode='w') as archive:
        add(archive, 'd', type=tarfile.DIRTYPE)
        add(archive, 'label', type=b'V')
    found = members_of(data.getvalue() + b'')
    assert [(member.name.rstrip('/'), member.is_file, member.refusal) for member, _ in found] == [
        ('d', False, None),
        ('label', False, None),
    ]


def test_the_old_form_of_a_folder_is_known_by_its_slash() -> None:
    ((member, _),) = members_of(header(b'd/', kind=b'\0') + END)
    assert not member.is_file


@pytest.mark.parametrize('make', [bytes, lambda size: b'x' * size])
def test_contents_larger_than_what_is_read_at_once_come_whole(make: Callable[[int], bytes]) -> None:
    content = make((3 << 20) + 7)
    assert contents(tar([('a.bin', content), ('b', b'z')])) == [('a.bin', content), ('b', b'z')]

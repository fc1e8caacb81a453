"""WebDataset archives become samples; what is no sample is told with its place."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import pickle
import random
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pytest
import webdataset
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_mds import BadRecord, OptionError, ReadWebDataset, WriteToMDS, read_samples
from beam_mds.records import PLACE
from beam_mds.sources.tarring import TarReader
from beam_mds.sources.tarsamples import SeenKeys, TarSample, key_and_suffix, samples_of
from beam_mds.sources.webdataset import columns_of
from pipelines import webdataset as pipeline_module
from tests.helpers.faulty import Fault, Faults
from tests.helpers.memory import peak_of
from tests.helpers.tars import add, tar, write_tar
from tests.helpers.writing import run

COLUMNS = {'__key__': 'str', 'jpg': 'jpeg', 'cls': 'int'}


def read(*paths: Path, columns: Any = COLUMNS, **options: Any) -> tuple[list[Any], list[BadRecord]]:
    """Samples without their places, and bad records."""
    good, bad = [], []
    for element in ReadWebDataset(list(paths), columns, **options).iterate():
        if isinstance(element, BadRecord):
            bad.append(element)
        else:
            sample = dict(element)
            assert set(sample.pop(PLACE)) == {'file', 'member', 'byte'}
            assert sample.pop('__url__') in map(str, paths)
            good.append(sample)
    return good, bad


def pairs(*keys: str) -> list[tuple[str, bytes]]:
    """Whole samples of COLUMNS."""
    return [
        part
        for number, key in enumerate(keys)
        for part in ((f'{key}.cls', str(number).encode()), (f'{key}.jpg', key.encode()))
    ]


def bytes_of(path: Path, member: str) -> int:
    """Where a member's header starts, by tarfile."""
    with tarfile.open(path) as archive:
        return archive.getmember(member).offset


# Names.


@pytest.mark.parametrize(
    'name',
    ['a.jpg', '22.05.png', 'train.v1/1.jpg', './a.b.c', 'a/b.c/d.JPG', 'README', 'd/README', '.git',
     '__meta__/a.json', '__m__', 'x__/a.txt', '__a__.jpg', 'd/__a__/b.jpg', '____/a.jpg'],
)  # fmt: skip
def test_keys_and_suffixes_are_those_of_the_webdataset_library(name: str) -> None:
    sink = [{'stream': io.BytesIO(tar([(name, b'')])), 'url': 'x'}]
    files = webdataset.tariterators.tar_file_expander(sink)
    samples = list(webdataset.tariterators.group_by_keys(files))
    theirs = None
    if samples:
        ((suffix, _),) = [item for item in samples[0].items() if not item[0].startswith('__')]
        theirs = (samples[0]['__key__'], suffix)
    assert key_and_suffix(name) == theirs


@pytest.mark.parametrize('name', ['d/.hidden', 'd/._1.jpg', 'a.', 'd/'])
def test_names_without_a_key_or_a_suffix_belong_to_no_sample(name: str) -> None:
    assert key_and_suffix(name) is None


def test_case_23_keys_go_up_to_the_first_dot_of_the_base_name(tmp_path: Path) -> None:
    path = write_tar(tmp_path / 'a.tar', [('22.05.png', b'P'), ('train.v1/1.jpg', b'J')])
    with_png, bad = read(path, columns={'__key__': 'str', '05.png': 'png'})
    assert with_png == [{'__key__': '22', '05.png': b'P'}]
    assert [record.error_type for record in bad] == ['missing_part']
    good, _ = read(path, columns=None)
    assert good == [
        {'__key__': '22', '05.png': b'P'},
        {'__key__': 'train.v1/1', 'jpg': b'J'},
    ]


# Samples whose members are apart, doubled, missing, too large.


def test_case_23_members_that_are_apart_are_no_samples_and_both_places_are_told(
    tmp_path: Path,
) -> None:
    members = [('a.jpg', b'A'), ('b.jpg', b'B'), ('a.cls', b'0'), ('b.cls', b'1')]
    path = write_tar(tmp_path / 'a.tar', [*members, *pairs('c')])
    good, bad = read(path)
    assert good == [{'__key__': 'c', 'cls': 0, 'jpg': b'c'}]
    assert [(r.error_type, r.place['member']) for r in bad] == [
        ('missing_part', 'a.jpg'),
        ('missing_part', 'b.jpg'),
        ('scattered_sample', 'a.cls'),
        ('scattered_sample', 'b.cls'),
    ]
    assert bad[2] == BadRecord(
        'scattered_sample',
        "members of sample 'a' are at byte 0 and, behind other samples, at byte 2048: put the "
        'members of a sample next to each other (tar --sort=name does)',
        {'file': str(path), 'member': 'a.cls', 'byte': 2048},
    )


def test_a_whole_sample_whose_key_comes_again_is_never_doubled(tmp_path: Path) -> None:
    path = write_tar(tmp_path / 'a.tar', pairs('a', 'b', 'a'))
    good, bad = read(path)
    assert [sample['__key__'] for sample in good] == ['a', 'b']
    assert [record.error_type for record in bad] == ['scattered_sample']


def test_a_missing_member_is_told_with_what_is_there(tmp_path: Path) -> None:
    members = [*pairs('a'), ('b.jpg', b''), ('b.txt', b''), *pairs('c')]
    path = write_tar(tmp_path / 'a.tar', members)
    good, bad = read(path)
    assert [sample['__key__'] for sample in good] == ['a', 'c']
    assert bad == [
        BadRecord(
            'missing_part',
            "sample 'b' has no member 'cls', only 'jpg', 'txt': a column needs it; leave the "
            'column out, or put the members of a sample next to each other (tar --sort=name does)',
            {'file': str(path), 'member': 'b.jpg', 'byte': bytes_of(path, 'b.jpg')},
        )
    ]


def test_the_first_thing_that_is_wrong_with_a_sample_is_told(tmp_path: Path) -> None:
    members = [('a.jpg', b'x'), ('a.jpg', b'y'), ('a.mp4', b'')]
    _, (bad,) = read(write_tar(tmp_path / 'a.tar', members), others='error')
    assert bad.error_type == 'duplicate_member'


def test_a_spoiled_sample_in_which_an_archive_ends_is_told_beside_the_end(tmp_path: Path) -> None:
    path = write_tar(tmp_path / 'a.tar', [('a.jpg', b'x'), ('a.jpg', b'y'), ('a.cls', b'1')])
    path.write_bytes(path.read_bytes()[:2100])
    good, bad = read(path)
    assert (good, [record.error_type for record in bad]) == ([], ['duplicate_member', 'truncated'])
    assert 'not whole' not in bad[1].message


def test_a_suffix_that_comes_twice_spoils_the_sample(tmp_path: Path) -> None:
    path = write_tar(tmp_path / 'a.tar', [('a.cls', b'1'), ('a.jpg', b'x'), ('a.JPG', b'y')])
    good, (bad,) = read(path)
    assert good == []
    assert bad.error_type == 'duplicate_member'
    assert bad.message == (
        "sample 'a' has a second member with the suffix 'jpg'; the first one is at byte 1024"
    )
    assert bad.place['member'] == 'a.JPG'


def test_a_large_sample_is_refused_without_being_read(tmp_path: Path) -> None:
    members = [*pairs('a'), ('b.cls', b'1'), ('b.jpg', bytes(3000)), *pairs('c')]
    path = write_tar(tmp_path / 'a.tar', members)
    good, (bad,) = read(path, max_sample_size=4000)
    assert [sample['__key__'] for sample in good] == ['a', 'c']
    assert bad.error_type == 'too_large'
    assert bad.message == (
        "sample 'b' has more than 4000 bytes with its member 'jpg' of 3000 bytes: raise "
        'max_sample_size, or leave the column out'
    )
    assert len(read(path, max_sample_size=4025)[0]) == 3  # 3001 bytes and two blocks


def test_other_members_do_not_count_for_the_size_and_are_not_kept(tmp_path: Path) -> None:
    path = write_tar(tmp_path / 'a.tar', [*pairs('a'), ('a.mp4', bytes(9000))])
    good, bad = read(path, max_sample_size=4000)
    assert (good, bad) == ([{'__key__': 'a', 'cls': 0, 'jpg': b'a'}], [])


def test_other_members_spoil_the_sample_when_asked_for(tmp_path: Path) -> None:
    path = write_tar(tmp_path / 'a.tar', [*pairs('a', 'b'), ('b.mp4', b'')])
    good, (bad,) = read(path, others='error')
    assert [sample['__key__'] for sample in good] == ['a']
    assert (bad.error_type, bad.message) == (
        'unexpected_part',
        (
            "sample 'b' has a member 'mp4', and no column takes it: name the columns that are "
            'wanted, with it or without it'
        ),
    )


def test_a_link_spoils_its_sample_and_that_only(tmp_path: Path) -> None:
    path = tmp_path / 'a.tar'
    with tarfile.open(path, 'w') as archive:
        for name, data in pairs('a'):
            add(archive, name, data)
        add(archive, 'b.cls', b'1')
        add(archive, 'b.jpg', type=tarfile.SYMTYPE, linkname='/etc/passwd')
        for name, data in pairs('c'):
            add(archive, name, data)
    good, (bad,) = read(path)
    assert [sample['__key__'] for sample in good] == ['a', 'c']
    assert bad == BadRecord(
        'member_kind',
        'the member is a symbolic link: only files are read; write it as a file',
        {'file': str(path), 'member': 'b.jpg', 'byte': bytes_of(path, 'b.jpg')},
    )


def test_names_that_escape_are_bad_records(tmp_path: Path) -> None:
    path = write_tar(tmp_path / 'a.tar', [*pairs('a'), ('../b.jpg', b''), *pairs('c')])
    good, (bad,) = read(path)
    assert len(good) == 2
    assert (bad.error_type, bad.place['member']) == ('member_name', '../b.jpg')


def test_a_suffix_that_is_called_like_a_field_is_refused(tmp_path: Path) -> None:
    path = write_tar(tmp_path / 'a.tar', [('a.jpg', b''), ('a.__place__', b'{}')])
    good, (bad,) = read(path, columns=None)
    assert good == []
    assert (bad.error_type, bad.message) == (
        'member_name',
        "the suffix '__place__' is kept for fields; rename",
    )


def test_files_that_belong_to_no_sample_are_passed_over_and_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    members = [('README', b'x'), *pairs('a'), ('__meta__/info.json', b'{}'), ('d/.x', b'')]
    path = write_tar(tmp_path / 'a.tar', members)
    good, bad = read(path)
    assert (len(good), bad) == (1, [])
    assert caplog.messages == [
        f"{path}: 3 files are no part of a sample, like 'README': passed over"
    ]


# Archives that end early or are damaged.


def test_case_23_a_truncated_archive_keeps_what_came_before(tmp_path: Path) -> None:
    path = write_tar(tmp_path / 'a.tar', pairs('a', 'b'))
    cut = bytes_of(path, 'b.jpg') + 512
    path.write_bytes(path.read_bytes()[:cut])
    good, (bad,) = read(path)
    assert [sample['__key__'] for sample in good] == ['a']
    assert bad.error_type == 'truncated'
    assert bad.message == (
        "the archive ends within a member: what came behind is lost; sample 'b', at byte 2048, is "
        'not whole and is lost'
    )
    assert bad.place == {'file': str(path), 'byte': cut}


@pytest.mark.parametrize('columns', [COLUMNS, None])
def test_cut_at_any_byte_an_archive_gives_whole_samples_and_one_bad_record(
    tmp_path: Path, columns: Any
) -> None:
    data = tar(pairs('a', 'b', 'c'))
    path = tmp_path / 'a.tar'
    path.write_bytes(data)
    whole, bad = read(path, columns=columns)
    assert bad == []
    end = 6 * 1024 + 512
    for cut in range(0, end + 1, 31):
        path.write_bytes(data[:cut])
        good, bad = read(path, columns=columns)
        assert good == whole[: len(good)]
        if cut >= end:
            assert (len(good), bad) == (3, [])
            continue
        ((kind, message, place, _),) = bad
        assert (kind, place['byte']) == ('truncated', cut)
        # A content of one byte is there before the block is full; without columns nobody knows
        # whether a sample has more members.
        sizes = [2048 * n + 1024 + 513 for n in range(3)] if columns else [2048, 4096, 9999]
        done = sum(cut >= size for size in sizes)
        if columns is None:
            done = sum(cut >= size + 512 for size in sizes)
        assert len(good) == done, cut
        assert ('not whole' in message) == (done < 3 and cut >= 2048 * done + 512), cut


def test_a_damaged_header_loses_what_comes_behind_and_says_so(tmp_path: Path) -> None:
    path = write_tar(tmp_path / 'a.tar', pairs('a', 'b', 'c'))
    data = bytearray(path.read_bytes())
    data[bytes_of(path, 'b.jpg')] ^= 1
    path.write_bytes(data)
    good, (bad,) = read(path)
    assert [sample['__key__'] for sample in good] == ['a']
    assert (bad.error_type, bad.place['byte']) == ('corrupt', 3072)
    assert bad.message.endswith("; sample 'b', at byte 2048, is not whole and is lost")


def test_archives_put_together_keep_the_samples_of_the_first(tmp_path: Path) -> None:
    path = write_tar(tmp_path / 'a.tar', pairs('a', 'b'))
    path.write_bytes(path.read_bytes() + tar(pairs('c')))
    for columns in (COLUMNS, None):
        good, (bad,) = read(path, columns=columns)
        assert [sample['__key__'] for sample in good] == ['a', 'b']
        assert bad.error_type == 'trailing_data'
    path.write_bytes(tar([('a.jpg', b'')]) + tar(pairs('c')))
    _, (missing, _) = read(path)
    assert missing.error_type == 'missing_part'


_COMPRESSORS: list[Callable[[bytes], bytes]] = [
    gzip.compress,
    zstandard.ZstdCompressor().compress,
    bz2.compress,
    lzma.compress,
]


@pytest.mark.parametrize('compress', _COMPRESSORS)
def test_compressed_archives_are_known_by_their_content(
    tmp_path: Path, compress: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / 'a.tar'
    path.write_bytes(compress(tar(pairs('a', 'b'))))
    good, bad = read(path)
    assert (len(good), bad) == (2, [])


@pytest.mark.parametrize('compress', _COMPRESSORS)
def test_a_truncated_compressed_archive_keeps_what_came_before(
    tmp_path: Path, compress: Callable[[bytes], bytes]
) -> None:
    noise = random.Random(0).randbytes(3 << 20)
    data = compress(tar([*pairs('a'), ('b.bin', noise), *pairs('c')]))
    path = tmp_path / 'a.tar'
    path.write_bytes(data[: len(data) // 2])
    good, (bad,) = read(path)
    assert [sample['__key__'] for sample in good] == ['a']
    assert bad.error_type == 'truncated'
    assert 'data ends too early' in bad.message
    assert 'not whole' in bad.message
    assert int(bad.place['byte']) > 1024


def test_a_gz_archive_whose_checksum_is_wrong_is_told(tmp_path: Path) -> None:
    data = bytearray(
        gzip.compress(tar([*pairs('a'), ('b.bin', random.Random(0).randbytes(3 << 20))]))
    )
    data[-8] ^= 1
    path = tmp_path / 'a.tar'
    path.write_bytes(data)
    good, (bad,) = read(path)
    assert (len(good), bad.error_type) == (1, 'truncated')


# Values.


def test_values_follow_the_encodings_of_their_columns(tmp_path: Path) -> None:
    array = np.arange(6, dtype='>i4').reshape(2, 3, order='F')
    file = io.BytesIO()
    np.save(file, array)
    members = [
        ('a.jpg', b'\xff\xd8'), ('a.cls', b' 7\n'), ('a.txt', 'ä\n'.encode()), ('a.json', b'[1]'),
        ('a.npy', file.getvalue()), ('a.pyd', pickle.dumps(1)), ('a.x', b'1.5'), ('a.id', b'12'),
    ]  # fmt: skip
    path = write_tar(tmp_path / 'a.tar', members)
    columns = {'jpg': 'jpeg', 'cls': 'uint8', 'txt': 'str', 'json': 'json', 'npy': 'ndarray:int32',
               'pyd': 'pkl', 'x': 'float32', 'id': 'str'}  # fmt: skip
    (sample,), _ = read(path, columns=columns)
    npy = sample.pop('npy')
    assert npy.tolist() == array.tolist()
    assert npy.shape == (2, 3)
    del sample['__key__']
    assert sample == {'jpg': b'\xff\xd8', 'cls': 7, 'txt': 'ä\n', 'json': [1], 'x': 1.5,
                      'pyd': pickle.dumps(1), 'id': '12'}  # fmt: skip
    (sample,), _ = read(path, columns=None)
    assert (sample['id'], sample['pyd'], sample['cls']) == (12, pickle.dumps(1), 7)


def test_a_member_that_is_not_what_its_column_needs_is_a_bad_record(tmp_path: Path) -> None:
    path = write_tar(tmp_path / 'a.tar', [('a.jpg', b''), ('a.cls', b'cat'), *pairs('b')])
    good, bad = read(path)
    assert [sample['__key__'] for sample in good] == ['b']
    assert bad == [
        BadRecord(
            'decode',
            "column 'cls': not an integer: 'cat'",
            {'file': str(path), 'member': 'a.cls', 'byte': 512},
        )
    ]


def test_several_suffixes_can_stand_for_one_column(tmp_path: Path) -> None:
    path = write_tar(tmp_path / 'a.tar', [('a.jpg', b'1'), ('b.PNG', b'2'), ('c.jpeg', b'3')])
    suffixes = {'image': ['jpg', 'jpeg', 'png']}
    good, bad = read(path, columns={'image': 'bytes'}, suffixes=suffixes)
    assert ([sample['image'] for sample in good], bad) == ([b'1', b'2', b'3'], [])
    assert ReadWebDataset([path], suffixes=suffixes).encoding_of('image') == 'bytes'
    alike = ReadWebDataset([path], suffixes={'image': ['jpg', 'jpeg']})
    assert alike.encoding_of('image') == 'jpeg'
    path = write_tar(tmp_path / 'b.tar', [('a.jpg', b'1'), ('a.png', b'2')])
    _, (twice,) = read(path, columns={'image': 'bytes'}, suffixes=suffixes)
    assert twice.error_type == 'duplicate_member'


def test_fields_of_the_path_are_fields_of_every_sample(tmp_path: Path) -> None:
    for split in ('train', 'val'):
        write_tar(tmp_path / split / 'a.tar', pairs(split))
    source = ReadWebDataset([tmp_path], {**COLUMNS, 'split': 'str'}, split='{split}/*.tar')
    assert [(s['split'], s['__key__']) for s in source.iterate()] == [
        ('train', 'train'),
        ('val', 'val'),
    ]


def test_of_a_folder_only_archives_are_read(tmp_path: Path) -> None:
    for name in ('a.tar', 'd/b.tar.gz', 'c.tgz', 'e.tar.zst'):
        write_tar(tmp_path / name, pairs(name.replace('.', '_')))
    (tmp_path / 'a.parquet').write_bytes(b'no tar')
    (tmp_path / 'a_stats.json').write_bytes(b'{}')
    assert len(list(ReadWebDataset([tmp_path], COLUMNS).iterate())) == 4


@pytest.mark.parametrize(
    ('options', 'message'),
    [
        ({'others': 'skip'}, "others='skip' is unknown: expected 'ignore' or 'error'"),
        ({'suffixes': {'image': 'jpg'}}, "suffixes of 'image' must be a list, got 'jpg'"),
        ({'suffixes': {'a': ['x'], 'b': ['X']}}, "suffix 'X' is for two columns"),
        ({'max_sample_size': 0}, 'max_sample_size must be a positive number of bytes'),
        ({'columns': {'jpg': 'pil'}}, "column 'jpg': a file in a tar cannot become pil; images"),
        ({'columns': {'jpg': 'jpg'}}, "unknown encoding 'jpg'"),
        ({'on_error': 'skip'}, "on_error='skip' is unknown"),
    ],
)
def test_options_that_cannot_work_are_refused_at_once(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(OptionError) as caught:
        ReadWebDataset(['a.tar'], **options)
    assert str(caught.value).startswith(message)


# The columns.


def test_the_first_samples_tell_the_columns(tmp_path: Path) -> None:
    write_tar(tmp_path / '1.tar', [*pairs('a'), ('a.seg.png', b'')])
    write_tar(tmp_path / '2.tar', [('b.caption', b''), ('b.mp4', b'')])
    assert columns_of(ReadWebDataset([tmp_path])) == {
        '__key__': 'str', 'cls': 'int', 'jpg': 'jpeg', 'seg.png': 'png', 'caption': 'str',
        'mp4': 'bytes',
    }  # fmt: skip


def test_without_a_sample_no_columns_are_found_and_the_reason_is_told(tmp_path: Path) -> None:
    path = tmp_path / 'a.tar'
    path.write_bytes(b'PK\x03\x04' * 300)
    with pytest.raises(OptionError) as caught:
        columns_of(ReadWebDataset([path]))
    assert str(caught.value) == (
        'the columns cannot be found, since the input begins without a sample: '
        f'{path}, byte 0: this is no tar archive: it begins without a header (the checksum is '
        'wrong)'
    )


# Keys that were seen.


def test_a_key_is_known_again_after_any_number_of_others() -> None:
    seen = SeenKeys()
    count = (1 << 17) + 10  # two times what is kept in the dict
    assert all(seen.first(str(number), number) is None for number in range(count))
    for number in (0, 70_000, count - 1):
        for place in (1 << 40, 1 << 41):  # the first place is told, however often it comes
            assert seen.first(str(number), place) == number


def test_the_keys_of_an_archive_take_16_bytes_each() -> None:
    seen = SeenKeys()
    for number in range(1 << 17):
        seen.first(str(number), number)
    assert seen._hashes.nbytes + seen._bytes.nbytes == 16 << 17


# Any layout.


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(['a', 'b', 'd/a', 'c.d/e']), st.sampled_from(['x', 'y', 'z.x'])),
        max_size=10,
    )
)
def test_any_order_of_members_gives_samples_that_are_whole_or_told(
    names: list[tuple[str, str]],
) -> None:
    members = [(f'{key}.{suffix}', f'{n}'.encode()) for n, (key, suffix) in enumerate(names)]
    found = list(samples_of(TarReader(io.BytesIO(tar(members))), ['x', 'y'], limit=1 << 20))
    # The same by a plain rule: runs of one key; the first run of a key, if it has x and y, and
    # nothing twice.
    runs: list[tuple[str, list[tuple[str, bytes]]]] = []
    for (key, suffix), (_, data) in zip(names, members, strict=True):
        if not runs or runs[-1][0] != key:
            runs.append((key, []))
        runs[-1][1].append((suffix, data))
    expected, seen = [], set()
    for key, parts in runs:
        suffixes = [suffix for suffix, _ in parts if suffix in ('x', 'y')]
        good = key not in seen and sorted(suffixes) == ['x', 'y']
        expected.append((key, {s: d for s, d in parts if s in ('x', 'y')}) if good else None)
        seen.add(key)
    assert expected == [
        (sample.key, {name: part.data for name, part in sample.parts.items()})
        if isinstance(sample, TarSample)
        else None
        for sample in found
    ]


_FULL = tar([*pairs('a'), ('x' * 120 + '.jpg', b'1'), ('ü.cls', b'2')], tarfile.PAX_FORMAT)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, len(_FULL) - 1), st.binary(min_size=1, max_size=12))),
    st.integers(0, len(_FULL)),
)
def test_any_damage_gives_samples_and_notes_and_never_an_exception(
    changes: list[tuple[int, bytes]], end: int
) -> None:
    data = bytearray(_FULL)
    for at, text in changes:
        data[at : at + len(text)] = text
    for found in samples_of(TarReader(io.BytesIO(data[:end])), None, limit=1 << 20):
        assert found.member is None or isinstance(found.member.encode(), bytes)


# The library's own writer, and GNU tar.


def test_archives_of_the_webdataset_library_give_what_it_reads_from_them(tmp_path: Path) -> None:
    path = tmp_path / 'a.tar'
    with webdataset.TarWriter(str(path)) as writer:
        for number in range(20):
            writer.write(
                {
                    '__key__': f'train.v1/{number:05d}',
                    'cls': number,
                    'txt': f'text {number}',
                    'json': {'n': number},
                    'npy': np.arange(number + 1),
                    'seg.png': np.full((2, 3), number, np.uint8),
                }
            )
    decode = webdataset.autodecode.Decoder([])
    files = webdataset.tariterators.tar_file_expander(
        [{'stream': io.BytesIO(path.read_bytes()), 'url': 'x'}]
    )
    theirs = list(map(decode, webdataset.tariterators.group_by_keys(files)))
    for sample in theirs:
        del sample['__url__']
    ours, bad = read(path, columns=None)
    assert bad == []
    assert len(ours) == len(theirs) == 20
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.keys() == other.keys()
        assert mine.pop('npy').tolist() == other.pop('npy').tolist()
        assert mine == other


def test_what_gnu_tar_sorts_by_name_is_read(tmp_path: Path) -> None:
    if shutil.which('tar') is None:
        pytest.skip('no tar program')
    for key in ('b', 'a', 'd/c'):
        for name, data in pairs(key):
            (tmp_path / 'in' / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / 'in' / name).write_bytes(data)
    path = tmp_path / 'a.tar.gz'
    command = ['tar', '--sort=name', '-czf', str(path), '-C', str(tmp_path / 'in'), '.']
    subprocess.run(command, check=True)
    good, bad = read(path)
    assert ([sample['__key__'] for sample in good], bad) == (['./a', './b', './d/c'], [])


# On a runner.


def test_reads_that_fail_are_tried_again(faults: Faults) -> None:
    write_tar(faults.local / 'a.tar', [*pairs('a'), ('a.big', bytes(3 << 20)), *pairs('b')])
    path = f'{faults.folder}/a.tar'
    faults.add(Fault('read', 'a.tar', nth=2, error='503'), Fault('open', 'a.tar', error='reset'))
    samples = list(ReadWebDataset([path], COLUMNS).iterate())
    assert [sample['__key__'] for sample in samples] == ['a', 'b']
    assert len(faults.calls('open', 'a.tar')) == 3


def test_a_job_without_dead_letters_fails_at_the_first_bad_record(tmp_path: Path) -> None:
    path = write_tar(tmp_path / 'a.tar', [*pairs('a'), ('b.jpg', b'')])
    with pytest.raises(Exception, match="sample 'b' has no member 'cls'") as caught:
        run(lambda pipeline: pipeline | ReadWebDataset([path], COLUMNS))
    assert str(path) in str(caught.value)


def test_inputs_are_written_samples_and_dead_letters(tmp_path: Path) -> None:
    write_tar(tmp_path / 'in/1.tar', [*pairs('a', 'b'), ('c.jpg', b''), *pairs('d')])
    cut = write_tar(tmp_path / 'in/2.tar', pairs('e', 'f'))
    cut.write_bytes(cut.read_bytes()[:3000])
    out = str(tmp_path / 'out')
    errors = tmp_path / 'errors.jsonl'
    columns = {**COLUMNS, 'jpg': 'bytes'}

    def build(pipeline: beam.Pipeline) -> None:
        source = ReadWebDataset([tmp_path / 'in'], columns, on_error='dead_letter')
        result = pipeline | source
        write = WriteToMDS(out, columns, extra='ignore').with_exception_handling(
            errors_output=errors
        )
        _ = (result.samples, result.errors) | beam.Flatten() | write

    run(build)
    assert sorted(sample['__key__'] for sample in read_samples(out)) == ['a', 'b', 'd', 'e']
    letters = [json.loads(line) for line in errors.read_text().splitlines()]
    assert sorted((letter['stage'], letter['error_type']) for letter in letters) == [
        ('read', 'missing_part'),
        ('read', 'truncated'),
    ]
    assert {letter['place']['file'] for letter in letters} == {
        str(tmp_path / 'in/1.tar'),
        str(tmp_path / 'in/2.tar'),
    }


def test_a_value_that_the_column_refuses_is_a_letter_with_the_place_of_its_sample(
    tmp_path: Path,
) -> None:
    path = write_tar(tmp_path / 'in/1.tar', [*pairs('a'), ('b.cls', b'300'), ('b.jpg', b'')])
    arguments = ['--input', str(path), '--output', str(tmp_path / 'out'), '--runner', 'FnApiRunner',
                 '--columns', 'cls=uint8', '--max_error_ratio', '0.5']  # fmt: skip
    pipeline_module.main(arguments)
    (letter,) = map(json.loads, (tmp_path / 'out.errors.jsonl').read_text().splitlines())
    assert letter['column'] == 'cls'
    assert letter['place'] == {'file': str(path), 'member': 'b.cls', 'byte': 2048}


def test_the_command_writes_what_the_archives_hold(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_tar(tmp_path / 'in/1.tar', pairs('a', 'b'))
    write_tar(tmp_path / 'in/2.tar', pairs('c'))
    out = tmp_path / 'out'
    arguments = ['--input', str(tmp_path / 'in'), '--output', str(out), '--runner', 'FnApiRunner']
    pipeline_module.main([*arguments, '--columns', '__key__,jpg=bytes,cls', '--order', 'arrival'])
    assert sorted(read_samples(str(out)), key=lambda sample: sample['__key__']) == [
        {'__key__': 'a', 'cls': 0, 'jpg': b'a'},
        {'__key__': 'b', 'cls': 1, 'jpg': b'b'},
        {'__key__': 'c', 'cls': 0, 'jpg': b'c'},
    ]
    assert 'records read' in capsys.readouterr().out


def test_a_suffix_that_the_first_samples_had_not_fails_the_job(tmp_path: Path) -> None:
    members = [part for n in range(150) for part in pairs(f'{n:03}')]
    path = write_tar(tmp_path / 'a.tar', [*members, ('149.txt', b'late')])
    arguments = ['--input', str(path), '--output', str(tmp_path / 'out'), '--runner', 'FnApiRunner']
    with pytest.raises(SystemExit, match='1 of 150'):
        pipeline_module.main(arguments)
    (letter,) = map(json.loads, (tmp_path / 'out.errors.jsonl').read_text().splitlines())
    assert letter['error_type'] == 'unexpected_part'
    assert not (tmp_path / 'out/index.json').exists()


def test_suffixes_of_the_command_line_are_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_tar(tmp_path / 'a.tar', [('a.jpg', b'1'), ('b.png', b'2')])
    arguments = ['--input', str(path), '--output', str(tmp_path / 'out'), '--runner', 'FnApiRunner']
    pipeline_module.main([*arguments, '--suffixes', 'image=jpg,png'])
    assert sorted(sample['image'] for sample in read_samples(str(tmp_path / 'out'))) == [b'1', b'2']
    for wrong in ('image', 'image=', '=jpg', 'image=jpg,,png'):
        with pytest.raises(SystemExit):
            pipeline_module.main([*arguments, '--suffixes', wrong])
        assert f'--suffixes must be like image=jpg,png, got {wrong}' in capsys.readouterr().err


def test_one_sample_is_in_memory_and_not_an_archive(tmp_path: Path) -> None:
    path = tmp_path / 'a.tar'
    with tarfile.open(path, 'w') as archive:
        for number in range(20):
            add(archive, f'{number}.bin', bytes(4 << 20))
            add(archive, f'{number}.other', bytes(4 << 20))
    source = ReadWebDataset([path], {'bin': 'bytes'})

    def go() -> None:
        assert sum(len(sample['bin']) for sample in source.iterate()) == 20 * (4 << 20)

    assert peak_of(go) < 24 << 20

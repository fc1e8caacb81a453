"""TFRecord files become samples, without TensorFlow; what is damaged is told with its place."""

from __future__ import annotations

import gzip
import io
import json
import struct
from pathlib import Path
from typing import Any

import apache_beam as beam
import google_crc32c
import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_mds import BadRecord, OptionError, ReadTFRecords, WriteToMDS, read_samples
from beam_mds.records import PLACE
from beam_mds.sources.streams import Refusal, StreamError
from beam_mds.sources.tfexamples import features_of, masked_crc, records_of
from beam_mds.sources.tfrecords import feature_columns
from pipelines import tfrecord as pipeline_module
from tests.helpers.faulty import Fault, Faults
from tests.helpers.memory import peak_of
from tests.helpers.tfrecords import crc32c, example, field, masked, record, write_records
from tests.helpers.writing import run

COLUMNS = {'label': 'int', 'image': 'bytes'}
DATA = Path(__file__).parent.parent / 'data/tfrecord'

# What tests/data/make_tfrecords.py had TensorFlow write.
GOLDEN_COLUMNS = {
    'image/encoded': 'jpeg', 'label': 'int', 'score': 'float32', 'ids': 'ndarray:int64',
    'embedding': 'ndarray:float32', 'tags': 'json', 'pixels': 'ndarray:uint16:1,2',
}  # fmt: skip
GOLDEN = [
    {
        'image/encoded': b'\xff\xd8\xff' + bytes([i]) * i,
        'label': i - 2,
        'score': float(np.float32(i / 3)),
        'ids': list(range(-i, i + 1)),
        'embedding': np.float32([i / 2, 1.25, -3e30]).tolist(),
        'tags': ['ä', 'b'][: i % 3],
        'pixels': [[i, 300]],
    }
    for i in range(5)
]


def numbered(count: int, **more: Any) -> list[bytes]:
    return [example({'label': n, 'image': bytes([n]), **more}) for n in range(count)]


def read(
    *paths: Path, columns: Any = COLUMNS, **options: Any
) -> tuple[list[dict[str, Any]], list[BadRecord]]:
    good, bad = [], []
    for element in ReadTFRecords(list(paths), columns, **options).iterate():
        if isinstance(element, BadRecord):
            bad.append(element)
        else:
            sample = dict(element)
            assert set(sample.pop(PLACE)) == {'file', 'record', 'byte'}
            good.append(sample)
    return good, bad


def plain(sample: dict[str, Any]) -> dict[str, Any]:
    return {n: v.tolist() if hasattr(v, 'tolist') else v for n, v in sample.items()}


# The files.


def test_the_checksum_is_the_one_of_a_bitwise_reference_and_is_computed_in_c() -> None:
    assert crc32c(b'123456789') == 0xE3069283  # RFC 3720's polynomial, the usual check value
    for data in (b'', b'a', bytes(range(256)) * 3):
        assert struct.pack('<I', masked_crc(data)) == masked(data)
    assert google_crc32c.implementation == 'c'


@pytest.mark.parametrize('name', ['plain', 'gzip'])
def test_what_tensorflow_wrote_is_read(name: str) -> None:
    good, bad = read(DATA / f'{name}.tfrecord', columns=GOLDEN_COLUMNS)
    assert bad == []
    assert list(map(plain, good)) == GOLDEN


def test_the_bytes_of_the_tests_writer_are_tensorflows() -> None:
    data = (DATA / 'plain.tfrecord').read_bytes()
    records = [found.data for found in records_of(io.BytesIO(data), 1 << 20)]
    assert b''.join(map(record, records)) == data


def test_what_beam_writes_is_read(tmp_path: Path) -> None:
    run(
        lambda pipeline: (
            pipeline
            | beam.Create(numbered(10))
            | beam.io.WriteToTFRecord(str(tmp_path / 'a'), file_name_suffix='.tfrecord.gz')
        )
    )
    good, bad = read(tmp_path)
    assert (sorted(sample['label'] for sample in good), bad) == (list(range(10)), [])


def test_a_record_with_a_wrong_checksum_is_bad_and_the_next_is_read(tmp_path: Path) -> None:
    records = list(map(record, numbered(3)))
    damaged = bytearray(records[1])
    damaged[14] ^= 1
    path = tmp_path / 'a.tfrecord'
    path.write_bytes(records[0] + bytes(damaged) + records[2])
    good, bad = read(path)
    assert [sample['label'] for sample in good] == [0, 2]
    assert bad == [
        BadRecord(
            'checksum',
            'record 1 is damaged: its checksum is wrong',
            {'file': str(path), 'record': 1, 'byte': len(records[0])},
        )
    ]


def test_a_wrong_length_loses_what_comes_behind_and_says_so(tmp_path: Path) -> None:
    records = list(map(record, numbered(3)))
    damaged = bytearray(records[1])
    damaged[0] ^= 1
    path = tmp_path / 'a.tfrecord'
    path.write_bytes(records[0] + bytes(damaged) + records[2])
    good, bad = read(path)
    assert [sample['label'] for sample in good] == [0]
    assert bad == [
        BadRecord(
            'corrupt',
            'record 1 is damaged: the checksum of its length is wrong; it and what comes behind '
            'are lost',
            {'file': str(path), 'record': 1, 'byte': len(records[0])},
        )
    ]


def test_what_is_no_tfrecord_file_says_so(tmp_path: Path) -> None:
    path = tmp_path / 'a.tfrecord'
    path.write_bytes(b'{"a": 1}\n' * 5)
    _, (bad,) = read(path)
    assert bad.message == (
        'this is no TFRecord file, or it is damaged or compressed with ZLIB: the checksum of the '
        'first length is wrong'
    )


def test_cut_at_any_byte_a_file_gives_whole_records_and_one_bad_record(tmp_path: Path) -> None:
    records = list(map(record, numbered(3)))
    data = b''.join(records)
    bounds = [0, len(records[0]), len(records[0]) * 2, len(data)]
    path = tmp_path / 'a.tfrecord'
    for cut in range(len(data) + 1):
        path.write_bytes(data[:cut])
        good, bad = read(path)
        done = sum(cut >= end for end in bounds[1:])
        assert [sample['label'] for sample in good] == list(range(done))
        if cut in bounds:
            assert bad == []
            continue
        assert bad == [
            BadRecord(
                'truncated',
                f'the file ends within record {done}: it and what came behind are lost',
                {'file': str(path), 'record': done, 'byte': bounds[done]},
            )
        ]


def test_an_empty_file_has_no_records(tmp_path: Path) -> None:
    assert read(write_records(tmp_path / 'a', [])) == ([], [])


def test_a_large_record_is_passed_over(tmp_path: Path) -> None:
    large = example({'label': 1, 'image': bytes(5 << 20)})
    path = write_records(tmp_path / 'a', [*numbered(1), large, *numbered(1)])
    good, (bad,) = read(path, max_record_size='1mb')
    assert len(good) == 2
    assert len(read(path, max_record_size=len(large))[0]) == 3
    assert (bad.error_type, bad.message) == (
        'too_large',
        f'record 1 has {len(large)} bytes, more than 1048576: raise max_record_size',
    )


def test_a_claim_of_a_huge_record_allocates_nothing() -> None:
    length = struct.pack('<Q', 1 << 62)
    with pytest.raises(StreamError):
        list(records_of(io.BytesIO(length + masked(length)), 1 << 63))


@pytest.mark.parametrize('compress', [gzip.compress, zstandard.ZstdCompressor().compress])
def test_compressed_files_are_known_by_their_content(tmp_path: Path, compress: Any) -> None:
    data = b''.join(map(record, numbered(4)))
    path = tmp_path / 'a.tfrecord'
    path.write_bytes(compress(data))
    assert len(read(path)[0]) == 4
    path.write_bytes(compress(data)[:-12])
    _, (bad,) = read(path)
    assert bad.error_type == 'truncated'
    assert 'data ends too early' in bad.message
    assert bad.place['byte'] == int(bad.message.split(';')[1].split()[0])


# The messages.


def test_lists_that_are_not_packed_are_read_too(tmp_path: Path) -> None:
    features = {'a': [1, -2, 3], 'b': [0.5, 2.0]}
    found = features_of(example(features, packed=False))
    assert isinstance(found, dict)
    assert {name: list(f.values) for name, f in found.items()} == features


def test_features_come_in_the_order_of_their_names() -> None:
    names = [f'{n:02}' for n in range(40)]
    assert list(features_of(example(dict.fromkeys(reversed(names), 1)))) == names


@pytest.mark.parametrize('data', [b'\xff', b'hello world', field(1, b'\xff\xff')])
def test_what_is_no_message_is_refused(data: bytes) -> None:
    assert features_of(data) == Refusal('example', 'the record is no tf.train.Example')


@pytest.mark.parametrize('data', [b'', field(1, b''), field(7, b'x')])
def test_a_message_without_features_is_refused(data: bytes) -> None:
    assert features_of(data) == Refusal(
        'example', 'the record has no features: it is no tf.train.Example'
    )


def test_sequence_examples_are_refused() -> None:
    _, (bad,) = read(DATA / 'sequence.tfrecord', columns={'ids': 'ndarray:int64'})
    assert (bad.error_type, bad.message) == (
        'sequence_example',
        (
            'the record is a tf.train.SequenceExample, which is not read: write its lists of '
            'features as features of a tf.train.Example'
        ),
    )


_features = st.dictionaries(
    st.text(st.characters(codec='utf-8'), max_size=6),
    st.one_of(
        st.lists(st.binary(max_size=9), min_size=1, max_size=4),
        st.lists(st.integers(-(1 << 63), (1 << 63) - 1), min_size=1, max_size=9),
        st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=9),
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=150, deadline=None)
@given(_features, st.booleans())
def test_any_features_come_back(features: dict[str, Any], packed: bool) -> None:
    found = features_of(example(features, packed=packed))
    assert isinstance(found, dict)
    assert {name: list(f.values) for name, f in found.items()} == features


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=60), st.integers(0, 60))
def test_any_bytes_are_features_or_a_refusal(data: bytes, at: int) -> None:
    whole = example({'a': [1, 2], 'b': b'xyz', 'c': [0.5]})
    for mixed in (data, whole[:at] + data + whole[at + len(data) :]):
        assert isinstance(features_of(mixed), (dict, Refusal))


# Samples.


def test_a_missing_feature_is_told(tmp_path: Path) -> None:
    path = write_records(tmp_path / 'a', [*numbered(1), example({'label': 1, 'x': 2})])
    good, (bad,) = read(path)
    assert len(good) == 1
    assert (bad.error_type, bad.message) == (
        'missing_feature',
        (
            "the record has no feature 'image', only 'label', 'x': leave the column out, or mend "
            'the record'
        ),
    )


def test_a_later_record_of_another_shape_is_told_with_file_record_and_feature(
    tmp_path: Path,
) -> None:
    path = write_records(tmp_path / 'a', [*numbered(2), example({'label': [1, 2], 'image': b''})])
    good, (bad,) = read(path)
    assert len(good) == 2
    assert bad.error_type == 'shape'
    assert bad.message.startswith("feature 'label': 2 integers, where int needs one")
    assert (bad.place['file'], bad.place['record']) == (str(path), 2)


def test_other_features_are_ignored_or_spoil_the_record(tmp_path: Path) -> None:
    path = write_records(tmp_path / 'a', [*numbered(1), *numbered(1, extra=1)])
    assert len(read(path)[0]) == 2
    good, (bad,) = read(path, others='error')
    assert len(good) == 1
    assert (bad.error_type, bad.message) == (
        'unexpected_feature',
        (
            "the record has a feature 'extra', and no column takes it: name the columns that are "
            'wanted, with it or without it'
        ),
    )


def test_fields_of_the_path_are_fields_of_every_sample(tmp_path: Path) -> None:
    for split in ('train', 'val'):
        write_records(tmp_path / split / 'a', numbered(1))
    source = ReadTFRecords([tmp_path], {**COLUMNS, 'split': 'str'}, split='{split}/*')
    assert [sample['split'] for sample in source.iterate()] == ['train', 'val']


@pytest.mark.parametrize(
    ('options', 'message'),
    [
        ({'others': 'skip'}, "others='skip' is unknown: expected 'ignore' or 'error'"),
        ({'max_record_size': '9x'}, 'max_record_size must be a positive number of bytes'),
        ({'columns': {'a': 'pil'}}, "column 'a': a feature cannot become pil"),
    ],
)
def test_options_that_cannot_work_are_refused_at_once(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(OptionError) as caught:
        ReadTFRecords(['a'], **{'columns': COLUMNS, **options})
    assert str(caught.value).startswith(message)


# The columns.


def test_the_first_records_tell_the_columns(tmp_path: Path) -> None:
    first = {'i': 1, 'f': 0.5, 'is': [1, 2], 'fs': [0.5], 'b': b'x', 'late': 1}
    second = {'i': 2, 'f': 1.5, 'is': [1], 'fs': [0.5, 1.0], 'b': b'', 'late': [1, 2]}
    path = write_records(tmp_path / 'a', [example(first), example(second)])
    assert feature_columns([path]) == {
        'i': 'int', 'f': 'float32', 'is': 'ndarray:int64', 'fs': 'ndarray:float32', 'b': 'bytes',
        'late': 'ndarray:int64',
    }  # fmt: skip


@pytest.mark.parametrize(
    ('values', 'what'),
    [
        ([[b'a', b'b'], [b'a']], '1 or 2 byte strings'),
        ([1, 0.5], '1 floats and integers'),
        ([None], '0 values'),
    ],
)
def test_a_feature_that_no_encoding_fits_is_told(
    tmp_path: Path, values: list[Any], what: str
) -> None:
    path = write_records(tmp_path / 'a', [example({'a': 1, 't': value}) for value in values])
    with pytest.raises(OptionError) as caught:
        feature_columns([path])
    assert str(caught.value) == (
        f"feature 't' has {what} in a record, which no encoding is for: name the columns that are "
        'wanted, without it, or with an encoding, like t=json for a list of texts'
    )
    assert feature_columns([path], only=['a']) == {'a': 'int'}


def test_without_a_record_no_columns_are_found_and_the_reason_is_told() -> None:
    with pytest.raises(OptionError) as caught:
        feature_columns([DATA / 'sequence.tfrecord'])
    assert str(caught.value).startswith(
        'the columns cannot be found, since the input begins without a record: '
        f'{DATA / "sequence.tfrecord"}, record 0, byte 0: the record is a tf.train.SequenceExample'
    )


# On a runner.


def test_reads_that_fail_are_tried_again(faults: Faults) -> None:
    write_records(faults.local / 'a', [example({'label': 1, 'image': bytes(3 << 20)})] * 2)
    faults.add(Fault('read', 'a', nth=3, error='503'), Fault('open', 'a', error='reset'))
    source = ReadTFRecords([f'{faults.folder}/a'], COLUMNS)
    assert len(list(source.iterate())) == 2
    assert len(faults.calls('open', '^a')) == 3


def test_inputs_are_written_samples_and_dead_letters(tmp_path: Path) -> None:
    write_records(tmp_path / 'in/1', [*numbered(3), example({'label': 1}), b'\xff'])
    cut = write_records(tmp_path / 'in/2', numbered(3))
    cut.write_bytes(cut.read_bytes()[:-1])
    out, errors = str(tmp_path / 'out'), tmp_path / 'errors.jsonl'

    def build(pipeline: beam.Pipeline) -> None:
        result = pipeline | ReadTFRecords([tmp_path / 'in'], COLUMNS, on_error='dead_letter')
        write = WriteToMDS(out, COLUMNS, extra='ignore').with_exception_handling(
            errors_output=errors
        )
        _ = (result.samples, result.errors) | beam.Flatten() | write

    run(build)
    assert sorted(sample['label'] for sample in read_samples(out)) == [0, 0, 1, 1, 2]
    letters = [json.loads(line) for line in errors.read_text().splitlines()]
    assert sorted((letter['stage'], letter['error_type']) for letter in letters) == [
        ('read', 'example'),
        ('read', 'missing_feature'),
        ('read', 'truncated'),
    ]


def test_the_command_writes_what_tensorflow_wrote(tmp_path: Path) -> None:
    out = tmp_path / 'out'
    columns = ','.join(
        f'{name}={kind}' if name in ('image/encoded', 'tags', 'pixels') else name
        for name, kind in {**GOLDEN_COLUMNS, 'image/encoded': 'bytes'}.items()
    )
    pipeline_module.main(
        ['--input', str(DATA / 'plain.tfrecord'), '--input', str(DATA / 'gzip.tfrecord'),
         '--output', str(out), '--columns', columns, '--runner', 'FnApiRunner']
    )  # fmt: skip
    found = sorted(map(plain, read_samples(str(out))), key=lambda sample: sample['label'])
    assert found == [sample for sample in GOLDEN for _ in range(2)]


def test_a_feature_that_the_first_records_had_not_fails_the_job(tmp_path: Path) -> None:
    path = write_records(tmp_path / 'a', [*numbered(120), *numbered(1, late=1)])
    arguments = ['--input', str(path), '--output', str(tmp_path / 'out'), '--runner', 'FnApiRunner']
    with pytest.raises(SystemExit, match='1 of 121'):
        pipeline_module.main(arguments)
    assert not (tmp_path / 'out/index.json').exists()


def test_a_column_that_no_record_has_is_a_usage_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_records(tmp_path / 'a', numbered(2))
    with pytest.raises(SystemExit):
        pipeline_module.main(
            ['--input', str(path), '--output', str(tmp_path / 'out'), '--columns', 'label,nosuch']
        )
    assert '--columns nosuch: no such column' in capsys.readouterr().err


def test_one_record_is_in_memory_and_not_a_file(tmp_path: Path) -> None:
    path = tmp_path / 'a'
    data = example({'label': 1, 'image': bytes(4 << 20)})
    length = struct.pack('<Q', len(data))
    one = length + masked(length) + data + struct.pack('<I', masked_crc(data))
    path.write_bytes(one * 20)
    source = ReadTFRecords([path], COLUMNS)
    assert peak_of(lambda: [len(sample['image']) for sample in source.iterate()]) < 32 << 20

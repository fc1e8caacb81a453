"""TFRecord files -> records -> features of tf.train.Example, without TensorFlow; no Beam here.

The file format is that of TensorFlow's `core/lib/io/record_writer.h`: uint64 length, its masked
CRC32C, the data, their masked CRC32C, all little-endian. The messages are those of
`core/example/example.proto` and `feature.proto`, built at run time under a name of our own, so that
they stand beside TensorFlow's where that is loaded too.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import google_crc32c
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from beam_mds.sources.streams import Cursor, Readable, Refusal, StreamError

# uint64 length and its uint32 checksum; the uint32 checksum of the data.
_HEAD = struct.Struct('<QI')
_CHECKSUM = struct.Struct('<I')

# TensorFlow's masking of checksums: rotated right by 15 bits, plus this.
_MASK_DELTA = 0xA282EAD8

# The kinds of features.
BYTES, FLOATS, INTEGERS = 'bytes_list', 'float_list', 'int64_list'


class Record(NamedTuple):
    """One record of a file.

    Attributes:
        number: Its place in the file, from 0.
        byte: Where its length stands in the decompressed file.
        data: Its bytes; empty when it is refused.
        refusal: Why it is not to be used, or None.
    """

    number: int
    byte: int
    data: bytes
    refusal: Refusal | None = None


class Feature(NamedTuple):
    """One feature of an Example.

    Attributes:
        kind: `bytes_list`, `float_list`, `int64_list`, or None when none of them is set.
        values: Its values; of protobuf's own type, a sequence.
    """

    kind: str | None
    values: Sequence[Any]


def records_of(stream: Readable, limit: int) -> Iterator[Record]:
    """The records of a TFRecord file, in order.

    Args:
        stream: The decompressed file.
        limit: The most bytes of a record; larger ones are refused, and passed over.

    Raises:
        StreamError: The file is cut off, or damaged where a length stands, so that the next record
            cannot be found.
    """
    cursor = Cursor(stream)
    number = 0
    while True:
        byte = cursor.at
        head = cursor.take(_HEAD.size)
        if not head:
            return
        if len(head) < _HEAD.size:
            raise _too_short(number, byte)
        length, checksum = _HEAD.unpack(head)
        if masked_crc(head[:8]) != checksum:
            raise _bad_length(number, byte)
        refusal, data = None, b''
        if length > limit:
            whole = cursor.skip(length + _CHECKSUM.size)
            message = (
                f'record {number} has {length} bytes, more than {limit}: raise max_record_size'
            )
            refusal = Refusal('too_large', message)
        else:
            data, tail = cursor.take(length), cursor.take(_CHECKSUM.size)
            whole = len(tail) == _CHECKSUM.size
            if whole and masked_crc(data) != _CHECKSUM.unpack(tail)[0]:
                message = f'record {number} is damaged: its checksum is wrong'
                refusal, data = Refusal('checksum', message), b''
        if not whole:
            raise _too_short(number, byte)
        yield Record(number, byte, data, refusal)
        number += 1


def masked_crc(data: bytes) -> int:
    """TensorFlow's checksum of some bytes.

    Example:
        >>> hex(masked_crc(b'123456789'))
        '0xc78ab0e5'
    """
    crc: int = google_crc32c.value(data)
    return (((crc >> 15) | (crc << 17)) + _MASK_DELTA) & 0xFFFFFFFF


def features_of(data: bytes) -> dict[str, Feature] | Refusal:
    """The features of a serialized tf.train.Example, in the order of their names."""
    try:
        example = _example_class().FromString(data)
    except DecodeError:
        return Refusal('example', 'the record is no tf.train.Example')
    if example.HasField('feature_lists'):
        return Refusal(
            'sequence_example',
            'the record is a tf.train.SequenceExample, which is not read: write its lists of '
            'features as features of a tf.train.Example',
        )
    found = {}
    # protobuf's maps have another order in each process.
    for name, feature in sorted(example.features.feature.items(), key=itemgetter(0)):
        kind = feature.WhichOneof('kind')
        found[name] = Feature(kind, getattr(feature, kind).value if kind else ())
    return found or Refusal('example', 'the record has no features: it is no tf.train.Example')


@functools.cache
def _example_class() -> Any:
    """The message class of Example; field 2 is what only a SequenceExample has."""
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name='beam_mds/example.proto', package='beam_mds', syntax='proto3'
    )

    def message(name: str) -> Any:
        return file.message_type.add(name=name)

    def add(owner: Any, name: str, number: int, kind: Any, of: str = '', **more: Any) -> None:
        more.setdefault('label', kinds.LABEL_OPTIONAL)
        if of:
            more['type_name'] = f'.beam_mds.{of}'
        owner.field.add(name=name, number=number, type=kind, **more)

    for name, kind in (
        ('BytesList', kinds.TYPE_BYTES),
        ('FloatList', kinds.TYPE_FLOAT),
        ('Int64List', kinds.TYPE_INT64),
    ):
        add(message(name), 'value', 1, kind, label=kinds.LABEL_REPEATED)
    feature = message('Feature')
    feature.oneof_decl.add(name='kind')
    for number, (name, of) in enumerate(
        ((BYTES, 'BytesList'), (FLOATS, 'FloatList'), (INTEGERS, 'Int64List')), start=1
    ):
        add(feature, name, number, kinds.TYPE_MESSAGE, of, oneof_index=0)
    features = message('Features')
    entry = features.nested_type.add(name='FeatureEntry')
    entry.options.map_entry = True
    add(entry, 'key', 1, kinds.TYPE_STRING)
    add(entry, 'value', 2, kinds.TYPE_MESSAGE, 'Feature')
    add(features, 'feature', 1, kinds.TYPE_MESSAGE, 'Features.FeatureEntry',
        label=kinds.LABEL_REPEATED)  # fmt: skip
    example = message('Example')
    add(example, 'features', 1, kinds.TYPE_MESSAGE, 'Features')
    example.oneof_decl.add(name='_feature_lists')
    add(example, 'feature_lists', 2, kinds.TYPE_BYTES, oneof_index=0, proto3_optional=True)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName('beam_mds.Example'))


def _too_short(number: int, byte: int) -> StreamError:
    message = f'the file ends within record {number}: it and what came behind are lost'
    return StreamError('truncated', message, byte)


def _bad_length(number: int, byte: int) -> StreamError:
    if not number:
        message = (
            'this is no TFRecord file, or it is damaged or compressed with ZLIB: the checksum of '
            'the first length is wrong'
        )
    else:
        message = (
            f'record {number} is damaged: the checksum of its length is wrong; it and what comes '
            'behind are lost'
        )
    return StreamError('corrupt', message, byte)

"""TFRecord files for tests, byte by byte: nothing here uses what is tested."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

# CRC-32C, reflected polynomial.
_POLYNOMIAL = 0x82F63B78


def crc32c(data: bytes) -> int:
    """The checksum, bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (_POLYNOMIAL if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data: bytes) -> bytes:
    """The checksum as it is stored."""
    crc = crc32c(data)
    return struct.pack('<I', ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def record(data: bytes) -> bytes:
    """One record."""
    length = struct.pack('<Q', len(data))
    return length + masked(length) + data + masked(data)


def write_records(path: Path, records: Iterable[bytes]) -> Path:
    """Writes a file of records."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b''.join(map(record, records)))
    return path


def varint(value: int) -> bytes:
    """A varint; negative numbers as 64-bit two's complement."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def field(number: int, data: bytes) -> bytes:
    """A field of wire type 2."""
    return varint(number << 3 | 2) + varint(len(data)) + data


def feature(values: Any, *, packed: bool = True) -> bytes:
    """A Feature: of bytes, ints or floats, told by the first value; no kind for None."""
    if values is None:
        return b''
    values = values if isinstance(values, Sequence) and not isinstance(values, bytes) else [values]
    if values and isinstance(values[0], bytes):
        return field(1, b''.join(field(1, value) for value in values))
    if values and isinstance(values[0], float):
        floats = [struct.pack('<f', value) for value in values]
        if packed:
            return field(2, field(1, b''.join(floats)))
        return field(2, b''.join(varint(1 << 3 | 5) + value for value in floats))
    numbers = list(map(varint, values))
    if packed:
        return field(3, field(1, b''.join(numbers)) if numbers else b'')
    return field(3, b''.join(varint(1 << 3) + number for number in numbers))


def example(features: dict[str, Any], **how: Any) -> bytes:
    """A tf.train.Example."""
    entries = (
        field(1, field(1, name.encode()) + field(2, feature(values, **how)))
        for name, values in features.items()
    )
    return field(1, b''.join(entries))

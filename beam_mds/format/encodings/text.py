"""Byte strings and texts: bytes, str, str_int, str_float, str_decimal, json, pkl."""

from __future__ import annotations

import decimal
import json
import math
import pickle
from typing import Any

import numpy as np
import pyarrow as pa

from beam_mds.errors import EncodingError
from beam_mds.format.encodings.base import (
    Encoding,
    Part,
    StoredText,
    Values,
    as_bytes,
    bad_arrow_type,
    bad_value,
    binary_part,
    decoded_dictionary,
    is_binary,
    is_text,
    null_value,
    offsets_of,
    plain,
    python_values,
    require_no_nulls,
    types_of,
)
from beam_mds.format.encodings.scalars import as_int

# What MDSWriter's pickle.dumps() uses on every Python that it supports; fixed here, so that
# the same input gives the same files on any Python.
_PICKLE_PROTOCOL = 4


class Bytes(Encoding):
    """Byte strings as they are: bytes, bytearray, memoryview, Arrow binary."""

    name = 'bytes'

    def encode(self, value: Any) -> bytes:
        data = as_bytes(plain(value))
        if data is None:
            raise bad_value(value, 'is not bytes')
        return data

    def decode(self, data: bytes) -> bytes:
        return data

    def decode_column(self, items: pa.LargeBinaryArray) -> list[Any]:
        values: list[bytes] = items.to_pylist()
        return values

    def encode_column(self, values: Values) -> list[Part]:
        if isinstance(values, pa.Array):
            values = decoded_dictionary(values)
            require_no_nulls(values)
            if not is_binary(values.type):
                raise bad_arrow_type(values.type, 'a binary type')
            return [binary_part(values)]
        if types_of(values) <= {bytes}:
            return [binary_part(pa.array(values, pa.large_binary()))]
        return super().encode_column(values)


class Str(Encoding):
    """Text as UTF-8: str, np.str_, Arrow strings; bytes are refused, whatever they hold."""

    name = 'str'
    arrow_type = pa.large_string()

    def encode(self, value: Any) -> bytes:
        value = plain(value)
        if not isinstance(value, str):
            raise bad_value(value, 'is not str')
        try:
            return value.encode('utf-8')
        except UnicodeEncodeError as error:
            raise bad_value(value, f'has no UTF-8 form: {error.reason}') from None

    def decode(self, data: bytes) -> str:
        return data.decode('utf-8')

    def decode_column(self, items: pa.LargeBinaryArray) -> list[Any]:
        values: list[str] = items.cast(pa.large_string()).to_pylist()
        return values

    def to_arrow(self, items: pa.LargeBinaryArray) -> pa.Array:
        return items.cast(pa.large_string())

    def encode_column(self, values: Values) -> list[Part]:
        if isinstance(values, pa.Array):
            values = decoded_dictionary(values)
            require_no_nulls(values)
            if not is_text(values.type):
                raise bad_arrow_type(values.type, 'a string type')
            try:
                values.validate(full=True)  # Parquet readers take any bytes for text
            except pa.ArrowInvalid:
                raise EncodingError(f'Arrow {values.type} holds bytes that are not UTF-8') from None
            return [binary_part(values)]
        try:
            text = ''.join(values)  # refuses all but str by itself
            if text.isascii():
                sizes = np.fromiter(map(len, values), np.int64, len(values))
                return [Part(np.frombuffer(text.encode(), np.uint8), offsets_of(sizes))]
            return [binary_part(pa.array(values, pa.large_string()))]
        except (TypeError, UnicodeEncodeError, pa.ArrowInvalid):
            return super().encode_column(values)  # which names the value


class StrInt(StoredText):
    """Integers of any size as decimal digits."""

    name = 'str_int'

    def encode(self, value: Any) -> bytes:
        number = as_int(value)
        try:
            return str(number).encode('ascii')
        except ValueError:  # Python's limit on digits, which holds for the reader too
            raise EncodingError(
                f'int of {number.bit_length()} bits has more digits than Python converts'
            ) from None

    def decode(self, data: bytes) -> int:
        return int(data.decode('utf-8'))


class StrFloat(Encoding):
    """Floats as their shortest exact text."""

    name = 'str_float'
    arrow_type = pa.float64()

    def encode(self, value: Any) -> bytes:
        value = plain(value)
        if isinstance(value, (float, np.floating)):
            number = float(value)
            if number == value or math.isnan(number):
                return str(number).encode('ascii')
        raise bad_value(value, 'is not a float of at most 64 bits')

    def decode(self, data: bytes) -> float:
        return float(data.decode('utf-8'))

    def to_arrow(self, items: pa.LargeBinaryArray) -> pa.Array:
        return pa.array(self.decode_column(items), pa.float64())


class StrDecimal(StoredText):
    """`decimal.Decimal` as its text."""

    name = 'str_decimal'

    def encode(self, value: Any) -> bytes:
        value = plain(value)
        if not isinstance(value, decimal.Decimal):
            raise bad_value(value, 'is not a decimal.Decimal')
        return str(value).encode('ascii')

    def decode(self, data: bytes) -> decimal.Decimal:
        return decimal.Decimal(data.decode('utf-8'))


class Json(StoredText):
    """JSON values that come back equal: dict with str keys, list, str, int, float, bool.

    numpy numbers become the Python number of the same value, and an array at the top its nested
    list, as `MDSWriter` does. Refused: None (as in every encoding; inside a value it is fine), NaN
    and infinity (not JSON), tuples, dicts with other keys, arrays inside a value, bytes. An Arrow
    column of maps is one of dicts.
    """

    name = 'json'

    def encode(self, value: Any) -> bytes:
        value = plain(value)
        if isinstance(value, np.ndarray):
            value = value.tolist()
        if value is None:
            raise null_value()
        try:
            text = json.dumps(value, default=_json_number, allow_nan=False)
            same = bool(json.loads(text) == value)
        except (TypeError, ValueError, RecursionError) as error:
            raise bad_value(value, f'is not JSON: {str(error)[:80]}') from None
        if not same:
            raise bad_value(value, 'changes on the way through JSON (tuple, or key that is no str)')
        return text.encode('ascii')

    def decode(self, data: bytes) -> Any:
        return json.loads(data.decode('utf-8'))

    def encode_column(self, values: Values) -> list[Part]:
        if isinstance(values, pa.Array) and pa.types.is_map(values.type):
            values = [_map_dict(items) for items in python_values(values)]
        return super().encode_column(values)


def _map_dict(items: list[tuple[Any, Any]] | None) -> dict[Any, Any] | None:
    if items is None:
        return None
    made = dict(items)
    if len(made) != len(items):
        raise EncodingError('a map that has a key twice')
    return made


def _json_number(value: Any) -> Any:
    if isinstance(value, (np.number, np.bool_)):
        return value.item()
    raise TypeError(f'{type(value).__name__} inside the value')


class Pickle(Encoding):
    """Any Python object, by pickle: the reader must be told to allow unsafe types."""

    name = 'pkl'

    def encode(self, value: Any) -> bytes:
        value = plain(value)
        if value is None:
            raise null_value()
        if isinstance(value, bytes):
            return bytes(value)
        try:
            return pickle.dumps(value, protocol=_PICKLE_PROTOCOL)
        except Exception as error:  # noqa: BLE001 - a class's own __reduce__ may raise anything
            raise bad_value(value, f'cannot be pickled: {str(error)[:80]}') from None

    def decode(self, data: bytes) -> Any:
        return pickle.loads(data)  # noqa: S301 - the column says pkl; readers gate it

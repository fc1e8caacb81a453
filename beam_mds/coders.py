"""How batches of samples travel between the steps of a pipeline.

Beam has no coder for Arrow's types and takes pickle, which writes all of a table that a batch is a
slice of. It does so even where nothing leaves the process, to tell the sizes of some elements; all
coders here tell them without encoding.
"""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
from apache_beam.coders import Coder, FastPrimitivesCoder, registry
from apache_beam.typehints.typehints import AnyTypeConstraint

from beam_mds.format import EncodedBatch
from beam_mds.writing.batches import ElementBatch


class ArrowCoder(Coder):
    """Base of the coders of Arrow's types, in its IPC stream format."""

    def encode(self, value: pa.RecordBatch | pa.Table) -> bytes:
        """The element as an Arrow IPC stream: its own rows only."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, value.schema) as stream:
            stream.write(value)
        encoded: bytes = sink.getvalue().to_pybytes()
        return encoded

    def estimate_size(self, value: pa.RecordBatch | pa.Table) -> int:
        """Bytes of its values."""
        return int(value.nbytes)

    def is_deterministic(self) -> bool:
        """No: equal rows can lie in memory in many ways."""
        return False


class RecordBatchCoder(ArrowCoder):
    """The coder of `pyarrow.RecordBatch`."""

    def decode(self, encoded: bytes) -> pa.RecordBatch:
        """The batch."""
        return pa.ipc.open_stream(encoded).read_next_batch()

    def to_type_hint(self) -> Any:
        """The type that it is for."""
        return pa.RecordBatch


class TableCoder(ArrowCoder):
    """The coder of `pyarrow.Table`."""

    def decode(self, encoded: bytes) -> pa.Table:
        """The table."""
        return pa.ipc.open_stream(encoded).read_all()

    def to_type_hint(self) -> Any:
        """The type that it is for."""
        return pa.Table


class PickledCoder(Coder):
    """Base of the coders of our own batches."""

    def encode(self, value: Any) -> bytes:
        """The batch, pickled."""
        return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)

    def decode(self, encoded: bytes) -> Any:
        """The batch."""
        return pickle.loads(encoded)  # noqa: S301 - from another step of the job

    def estimate_size(self, value: Any) -> int:
        """Bytes of its samples, about."""
        return int(value.nbytes)

    def is_deterministic(self) -> bool:
        """No."""
        return False


class EncodedBatchCoder(PickledCoder):
    """The coder of `EncodedBatch`."""

    def to_type_hint(self) -> Any:
        """The type that it is for."""
        return EncodedBatch


class ElementBatchCoder(PickledCoder):
    """The coder of `ElementBatch`."""

    def to_type_hint(self) -> Any:
        """The type that it is for."""
        return ElementBatch


class AnyElements(AnyTypeConstraint):
    """The type of a PCollection that has samples, batches of samples and notes side by side.

    As `Any` it fits every step; unlike `Any` it has a coder that knows batches.
    """


ELEMENTS = AnyElements()


class ElementsCoder(Coder):
    """The coder of `ELEMENTS`: batches as `RecordBatchCoder` has them, all else as Beam has it."""

    def __init__(self) -> None:
        self._batches, self._others = RecordBatchCoder(), FastPrimitivesCoder()

    def encode(self, value: Any) -> bytes:
        """The element, after a byte that tells its kind."""
        if isinstance(value, pa.RecordBatch):
            return b'B' + self._batches.encode(value)
        encoded: bytes = b'A' + self._others.encode(value)
        return encoded

    def decode(self, encoded: bytes) -> Any:
        """The element."""
        coder = self._batches if encoded[:1] == b'B' else self._others
        return coder.decode(encoded[1:])

    def estimate_size(self, value: Any) -> int:
        """Bytes of its values."""
        if isinstance(value, pa.RecordBatch):
            return int(value.nbytes)
        return int(self._others.estimate_size(value))

    def is_deterministic(self) -> bool:
        """No."""
        return False

    def to_type_hint(self) -> Any:
        """The type that it is for."""
        return ELEMENTS

    @classmethod
    def from_type_hint(cls, typehint: Any, registry: Any) -> ElementsCoder:  # noqa: ARG003 - Beam's
        """The coder."""
        return cls()


def register() -> None:
    """Makes these the coders of PCollections of these types, unless somebody has set others."""
    registry.register_coder(AnyElements, ElementsCoder)  # Beam finds it by the class of the type
    for coder in (RecordBatchCoder, TableCoder, EncodedBatchCoder, ElementBatchCoder):
        kind = coder().to_type_hint()
        if type(registry.get_coder(kind)) is type(registry.get_coder(object)):  # the fallback
            registry.register_coder(kind, coder)

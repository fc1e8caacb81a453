"""The worker's side of encoding: batches in, blocks and full shards out; no Beam here."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash

from beam_mds import blocks, planning
from beam_mds.background import Jobs
from beam_mds.batches import BATCH_BYTES
from beam_mds.errors import OptionError
from beam_mds.format import Samples
from beam_mds.format.columns import Batch
from beam_mds.format.encodings.base import describe, plain
from beam_mds.format.samples import Chunks
from beam_mds.format.shard import SAMPLE_OVERHEAD
from beam_mds.options import WriteOptions
from beam_mds.planning import Histogram, Int64s, UInt64s
from beam_mds.shardfile import Fragment, store_shard

# Batches that may wait to be encoded: enough to go on reading meanwhile.
_BATCHES_AHEAD = 4

# Bytes of samples in a block: a run file is cut into as many slices as there are shards, so it is
# large; an inline block is held by the runner and by every buffer on its way.
_RUN_BYTES, _INLINE_BYTES = 64 << 20, 16 << 20

# What a key function may return: values whose repr() is the same in every process.
_KEY_TYPES = (str, bytes, int, float, bool, type(None))


@dataclass
class Encoded:
    """What came out of some elements.

    Attributes:
        blocks: Blocks of sorted samples.
        positions: The same without the samples' bytes.
        histograms: Bytes by position, when the plan needs them.
        fragments: Shards that are written already (order='arrival').
        sizes: Bytes of each sample, in chunks of int64 arrays.
    """

    blocks: list[bytes] = field(default_factory=list)
    positions: list[bytes] = field(default_factory=list)
    histograms: list[Histogram] = field(default_factory=list)
    fragments: list[Fragment] = field(default_factory=list)
    sizes: list[Int64s] = field(default_factory=list)

    def extend(self, other: Encoded) -> None:
        """Appends what another holds."""
        self.blocks += other.blocks
        self.positions += other.positions
        self.histograms += other.histograms
        self.fragments += other.fragments
        self.sizes += other.sizes


class BundleEncoder:
    """Encodes the batches of one bundle; gives results when there are any."""

    def __init__(self, options: WriteOptions, spill_folder: str | None) -> None:
        """Starts a bundle.

        Args:
            options: Of the write.
            spill_folder: Where run files go; None for inline blocks.
        """
        self._options = options
        self._columns = options.config.columns
        self._spill_folder = spill_folder
        self._block_bytes = _INLINE_BYTES if spill_folder is None else _RUN_BYTES
        # Batches are encoded one after another by a thread of the bundle's own; what follows is
        # that thread's, and nobody else's until it is done.
        self._batches: Jobs[Encoded] = Jobs(ThreadPoolExecutor(1), _BATCHES_AHEAD)
        self._waiting: list[Samples] = []
        self._waiting_bytes = 0
        self._hashes: list[tuple[UInt64s, UInt64s | None]] = []
        # One block is enough to write while the next is filled; shards are also compressed.
        in_flight = 2 if options.order == 'arrival' else 1
        self._jobs: Jobs[Encoded] = Jobs(in_flight=in_flight)
        self._chunks = self._new_chunks()

    def add(self, batch: Batch) -> Encoded:
        """Takes a batch of samples.

        Returns:
            What is ready by now, of this batch or earlier ones.

        Raises:
            EncodingError: A sample, of this batch or an earlier one, cannot be held.
        """
        result = Encoded()
        for done in self._batches.submit(self._encode, batch):
            result.extend(done)
        return result

    def finish(self) -> Encoded:
        """Ends the bundle: what is left over becomes blocks, and all jobs are waited for."""
        result = Encoded()
        for done in self._batches.finish():
            result.extend(done)
        if self._waiting:
            result.extend(self._flush_block())
        for done in self._jobs.finish():
            result.extend(done)
        return result

    def _encode(self, batch: Batch) -> Encoded:
        samples = self._columns.encode_batch(batch, self._chunks)
        result = Encoded(sizes=[samples.sizes])
        if self._options.order == 'arrival':
            result.extend(self._fill_shards(samples))
        else:
            self._hashes.append(self._hash(batch, samples))
            self._wait(samples)
            if self._waiting_bytes >= self._block_bytes:
                result.extend(self._flush_block())
        return result

    def _new_chunks(self) -> Chunks:
        """Buffers for samples; those of a block lie side by side in one."""
        if self._options.order == 'arrival':
            return Chunks()
        return Chunks(self._block_bytes + 2 * BATCH_BYTES)

    def _wait(self, samples: Samples) -> None:
        self._waiting.append(samples)
        self._waiting_bytes += samples.nbytes + SAMPLE_OVERHEAD * len(samples)

    def _fill_shards(self, samples: Samples) -> Encoded:
        """Adds samples to the shard that is filling; writes it when the next one does not fit."""
        result = Encoded()
        capacity = self._options.config.capacity
        total = np.cumsum(samples.sizes + SAMPLE_OVERHEAD)
        start, used = 0, 0
        while True:
            end = int(np.searchsorted(total, used + capacity - self._waiting_bytes, side='right'))
            if end >= len(samples):
                break
            if not self._waiting and end <= start:
                end = start + 1  # larger than a shard: it gets its own
            if end > start:
                self._wait(samples.slice(start, end))
                start, used = end, int(total[end - 1])
            for done in self._jobs.submit(self._store, self._waiting):
                result.extend(done)
            self._waiting, self._waiting_bytes = [], 0
        if start < len(samples):
            self._wait(samples.slice(start, len(samples)))
        return result

    def _store(self, samples: Sequence[Samples]) -> Encoded:
        return Encoded(fragments=[store_shard(self._options.out, self._options.config, samples)])

    def _flush_block(self) -> Encoded:
        """Turns the waiting samples into a block, in the background."""
        result = Encoded()
        waiting, hashes = self._waiting, self._hashes
        self._waiting, self._hashes, self._waiting_bytes = [], [], 0
        self._chunks = self._new_chunks()
        for done in self._jobs.submit(self._make_block, waiting, hashes):
            result.extend(done)
        return result

    def _make_block(
        self, waiting: list[Samples], hashes: list[tuple[UInt64s, UInt64s | None]]
    ) -> Encoded:
        if not hashes:  # left over in arrival order
            hashes = [(self._digests(samples), None) for samples in waiting]
        first = np.concatenate([pair[0] for pair in hashes])
        seconds = [pair[1] for pair in hashes if pair[1] is not None]
        second = np.concatenate(seconds) if seconds else None
        block = blocks.Block(Samples.concat(waiting), first, second)
        result = Encoded()
        if self._spill_folder is None:
            result.blocks.append(blocks.inline(block))
            result.positions.append(blocks.positions_only(block))
        else:
            result.blocks.append(blocks.spill(block, self._spill_folder))
            result.positions.append(result.blocks[0])
        if self._options.num_shards is None:
            weights = block.samples.sizes + SAMPLE_OVERHEAD
            result.histograms.append(planning.measure(first, weights))
        return result

    def _hash(self, batch: Batch, samples: Samples) -> tuple[UInt64s, UInt64s | None]:
        """The position of each sample."""
        key = self._options.key
        if key is None:
            return self._digests(samples), None
        if callable(key):
            rows = batch.to_pylist() if isinstance(batch, (pa.RecordBatch, pa.Table)) else batch
            keys = Samples.of([_key_bytes(key(row)) for row in rows])
        else:
            keys = self._columns.encode_column(key, batch)
        return self._digests(keys), self._digests(samples)

    def _digests(self, samples: Samples) -> UInt64s:
        """One 64-bit hash a sample."""
        digest: Callable[..., int] = xxhash.xxh3_64_intdigest
        seeds = itertools.repeat(self._options.seed)
        return np.fromiter(map(digest, samples, seeds), np.uint64, len(samples))


def _key_bytes(key: Any) -> bytes:
    """What a key is hashed by."""
    items = tuple(map(_plain, key)) if isinstance(key, tuple) else (_plain(key),)
    if not all(isinstance(item, _KEY_TYPES) for item in items):
        raise OptionError(
            f'the key function returned {describe(key)}: expected str, bytes, int, float, bool, '
            'None, or a tuple of them'
        )
    return repr(items if isinstance(key, tuple) else items[0]).encode('utf-8', 'surrogatepass')


def _plain(value: Any) -> Any:
    """The Python value of a numpy or Arrow scalar."""
    return value.item() if isinstance(value, np.generic) else plain(value)

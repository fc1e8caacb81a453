"""The worker's side of encoding: batches in, blocks and full shards out; no Beam here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from beam_mds.background import Jobs
from beam_mds.format import Samples
from beam_mds.format.columns import Batch
from beam_mds.format.samples import Chunks
from beam_mds.format.shard import SAMPLE_OVERHEAD
from beam_mds.writing import blocks, planning
from beam_mds.writing.batches import BATCH_BYTES
from beam_mds.writing.blocks import Packed
from beam_mds.writing.options import WriteOptions
from beam_mds.writing.planning import Histogram, Int64s, UInt64s
from beam_mds.writing.prepare import DeadLetter, Prepared, digests, prepare
from beam_mds.writing.shardfile import Fragment, store_shard
from beam_mds.writing.sorting import ChosenKeys, ranks

# Batches that may wait to be encoded: enough to go on reading meanwhile.
_BATCHES_AHEAD = 4

# Bytes of samples in a block: a run file is cut into as many slices as there are shards, so it is
# large; an inline block is held by the runner and by every buffer on its way.
_RUN_BYTES, _INLINE_BYTES = 64 << 20, 16 << 20


@dataclass
class Encoded:
    """What came out of some batches.

    Attributes:
        packed: Blocks of sorted samples.
        histograms: Split and bytes by position, when the plan needs them.
        chosen: Split and keys that may become bounds, with order='sorted'.
        fragments: Shards that are written already (order='arrival').
        sizes: Bytes of each sample, in chunks of int64 arrays.
        refused: The samples that could not be encoded.
    """

    packed: list[Packed] = field(default_factory=list)
    histograms: list[tuple[str, Histogram]] = field(default_factory=list)
    chosen: list[tuple[str, ChosenKeys]] = field(default_factory=list)
    fragments: list[Fragment] = field(default_factory=list)
    sizes: list[Int64s] = field(default_factory=list)
    refused: list[DeadLetter] = field(default_factory=list)

    def extend(self, other: Encoded) -> None:
        """Appends what another holds."""
        self.packed += other.packed
        self.histograms += other.histograms
        self.chosen += other.chosen
        self.fragments += other.fragments
        self.sizes += other.sizes
        self.refused += other.refused


@dataclass
class _Filling:
    """The samples of a shard that is being filled, in arrival order."""

    samples: list[Samples] = field(default_factory=list)
    nbytes: int = 0
    count: int = 0


class BundleEncoder:
    """Encodes the batches of one bundle; gives results when there are any."""

    def __init__(self, options: WriteOptions, spill_folder: str | None) -> None:
        """Starts a bundle.

        Args:
            options: Of the write.
            spill_folder: Where run files go; None for inline blocks.
        """
        self._options = options
        self._spill_folder = spill_folder
        self._block_bytes = _INLINE_BYTES if spill_folder is None else _RUN_BYTES
        # Batches are encoded one after another by a thread of the bundle's own; what follows is
        # that thread's, and nobody else's until it is done.
        self._batches: Jobs[Encoded] = Jobs(ThreadPoolExecutor(1), _BATCHES_AHEAD)
        self._waiting: list[Prepared] = []
        self._filling: dict[str, _Filling] = {}
        self._waiting_bytes = 0  # in blocks or shards to come
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
        if self._waiting_bytes:
            result.extend(self._flush_block())
        for done in self._jobs.finish():
            result.extend(done)
        return result

    def _encode(self, batch: Batch) -> Encoded:
        pieces, refused = prepare(batch, self._options, self._chunks)
        result = Encoded(refused=refused)
        for piece in pieces:
            result.sizes.append(piece.samples.sizes)
            if self._options.order == 'arrival':
                for split, samples in _by_split(piece):
                    result.extend(self._fill_shards(split, samples))
                # With many splits, many shards are open at once: what waits has a limit.
                enough = max(self._block_bytes, self._options.config.capacity)
            else:
                self._waiting.append(piece)
                self._waiting_bytes += _room_of(piece.samples)
                enough = self._block_bytes
            if self._waiting_bytes > enough:
                result.extend(self._flush_block())
        return result

    def _new_chunks(self) -> Chunks:
        """Buffers for samples; those of a block lie side by side in one."""
        if self._options.order == 'arrival':
            return Chunks()
        return Chunks(self._block_bytes + 2 * BATCH_BYTES)

    def _fill_shards(self, split: str, samples: Samples) -> Encoded:
        """Adds samples to the shard that is filling; writes it when the next one does not fit."""
        result = Encoded()
        capacity, most = self._options.config.capacity, self._options.most
        filling = self._filling.setdefault(split, _Filling())
        total = np.cumsum(samples.sizes + SAMPLE_OVERHEAD)
        start, used = 0, 0
        while True:
            end = int(np.searchsorted(total, used + capacity - filling.nbytes, side='right'))
            end = min(end, start + most - filling.count)
            full = end < len(samples)
            if full and end <= start and not filling.samples:
                end = start + 1  # larger than a shard: it gets its own
            if end > start:
                piece = samples.slice(start, end)
                filling.samples.append(piece)
                filling.nbytes += _room_of(piece)
                filling.count += len(piece)
                self._waiting_bytes += _room_of(piece)
                start, used = end, int(total[end - 1])
            if not full:
                return result
            for done in self._jobs.submit(self._store, split, filling.samples):
                result.extend(done)
            self._waiting_bytes -= filling.nbytes
            filling = self._filling[split] = _Filling()

    def _store(self, split: str, samples: Sequence[Samples]) -> Encoded:
        return Encoded(fragments=[store_shard(self._options, split, samples)])

    def _flush_block(self) -> Encoded:
        """Turns the waiting samples into blocks, in the background."""
        result = Encoded()
        waiting = self._waiting + [
            Prepared(samples, None, None, None, [split], None)
            for split, filling in self._filling.items()
            for samples in filling.samples
        ]
        self._waiting, self._filling, self._waiting_bytes = [], {}, 0
        self._chunks = self._new_chunks()
        for done in self._jobs.submit(self._make_blocks, waiting):
            result.extend(done)
        return result

    def _make_blocks(self, waiting: Sequence[Prepared]) -> Encoded:
        samples = Samples.concat([piece.samples for piece in waiting])
        seconds = [piece.second for piece in waiting if piece.second is not None]
        parts = [piece.keys for piece in waiting if piece.keys is not None]
        keys = Samples.concat(parts) if parts else None
        if keys is not None:
            first = ranks(keys)
        else:
            first = np.concatenate([self._first(piece) for piece in waiting])
        block = blocks.Block(samples, first, np.concatenate(seconds) if seconds else None, keys)
        splits = sorted({name for piece in waiting for name in piece.splits})
        codes = None
        if len(splits) > 1:
            codes = np.concatenate([_codes_of(piece, splits) for piece in waiting])
        result = Encoded(packed=blocks.pack(block, self._spill_folder, splits, codes))
        for packed in result.packed:
            split, weights = packed.split, packed.weights
            if packed.keys is not None:
                chosen = ChosenKeys.of(packed.keys, packed.second, weights)
                result.chosen.append((split, chosen))
            elif self._options.shards_of(split) is None:
                result.histograms.append((split, planning.measure(packed.first, weights)))
        return result

    def _first(self, piece: Prepared) -> UInt64s:
        if piece.first is None:  # left over in arrival order
            return digests(piece.samples, self._options.seed)
        return piece.first


def _room_of(samples: Samples) -> int:
    """Bytes that samples take in a shard."""
    return samples.nbytes + SAMPLE_OVERHEAD * len(samples)


def _by_split(piece: Prepared) -> Iterator[tuple[str, Samples]]:
    if piece.codes is None or len(piece.splits) == 1:
        yield piece.splits[0], piece.samples
        return
    for code, split in enumerate(piece.splits):
        yield split, piece.samples.take(np.flatnonzero(piece.codes == code))


def _codes_of(piece: Prepared, splits: Sequence[str]) -> Int64s:
    """The place of each sample's split in another list of names."""
    places = np.array([splits.index(name) for name in piece.splits], np.int64)
    return np.full(len(piece), places[0]) if piece.codes is None else places[piece.codes]

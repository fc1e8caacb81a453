"""What fuzz.py feeds damaged bytes to, and what must hold of it whatever they are."""

from __future__ import annotations

import itertools
import json
import pickle
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from apache_beam.io.restriction_trackers import OffsetRange
from apache_beam.pvalue import TaggedOutput
from apache_beam.runners.sdf_utils import RestrictionTrackerView, ThreadsafeRestrictionTracker

from beam_mds import read_samples
from beam_mds.errors import ColumnsError, MDSError, MissingExtraError
from beam_mds.format import Columns, EncodedBatch, Shard, decompress, dump_index, parse_index
from beam_mds.format.encodings.text import Pickle
from beam_mds.format.index import dump_entries, iter_entries, parse_entries
from beam_mds.reading.steps import (
    ReadOptions,
    ReadShards,
    ShardRanges,
    UnreadSamples,
    list_shards,
)
from beam_mds.writing.target import check_target
from benchmarks import fuzz_inputs as inputs
from benchmarks.fuzz_damage import (
    changed_index,
    damaged_folder,
    damaged_shard,
    damaged_values,
    write_files,
)
from tests.helpers.building import options as write_options
from tests.interop.judge import portable

# Characters of an error message, beside a path in it.
MESSAGE = 1500

_IMAGES = ('pil', 'jpeg', 'png', 'jpeg_array', 'jpegarray', 'list[pil]', 'list[jpeg]', 'list[png]')


class Fault(BaseException):
    """Something that must not happen; no handler for errors of the data catches it."""


@dataclass(frozen=True)
class Case:
    """One input and what to do with it.

    Attributes:
        size: Bytes of the input, unpacked as far as it is honest about it.
        run: Feeds it; raises Fault, or an error that is not ours, when something is wrong.
        about: The input in a few words.
    """

    size: int
    run: Callable[[], None]
    about: str


Target: TypeAlias = Callable[[random.Random, Sequence[inputs.Dataset], Path], Case]


@contextmanager
def own_errors() -> Iterator[list[MDSError]]:
    """Lets errors of ours pass, which must be short and cross process borders; they are listed."""
    found: list[MDSError] = []
    try:
        yield found
    except MDSError as error:
        if isinstance(error, MissingExtraError):
            raise Fault(f'Pillow is there: {error}') from error
        text = str(error)
        if len(text) > MESSAGE:
            raise Fault(f'a message of {len(text)} characters: {text[:300]}') from error
        if str(pickle.loads(pickle.dumps(error))) != text:  # noqa: S301 - what we just pickled
            raise Fault(f'another message after pickling: {text[:300]}') from error
        found.append(error)


@contextmanager
def no_pickles() -> Iterator[None]:
    """Makes it a fault to decode a pickled value."""

    def refuse(*_: object) -> Any:
        raise Fault('a pickle was decoded')

    decode = Pickle.decode
    Pickle.decode = refuse  # type: ignore[method-assign]
    try:
        yield
    finally:
        Pickle.decode = decode  # type: ignore[method-assign]


def index(rng: random.Random, seeds: Sequence[inputs.Dataset], folder: Path) -> Case:  # noqa: ARG001
    """An index.json is parsed; what is accepted must be written and parsed again to the same."""
    data = inputs.written(rng, changed_index(rng, rng.choice(seeds)))
    cuts = [0, *sorted(rng.choices(range(len(data) + 1), k=3)), len(data)]

    def run() -> None:
        pieces: list[Any] = []
        entries: list[Any] = []
        with own_errors() as found:
            pieces += iter_entries(data[a:b] for a, b in itertools.pairwise(cuts))
        with own_errors() as again:
            entries = parse_entries(data)
        if bool(found) != bool(again) or (not found and pieces != entries):
            raise Fault(f'in pieces {found or pieces!r:.500}, whole {again or entries!r:.500}')
        shards = [shard for _, shard in entries]
        if parse_index(dump_entries([entry for entry, _ in entries])) != shards:
            raise Fault('the entries are not what they were parsed from')
        if parse_index(dump_index(shards)) != shards:
            raise Fault('the shards are not what was written of them')
        hash(tuple(shard.config for shard in shards))

    return Case(len(data), run, repr(data[:2000]))


def shard(rng: random.Random, seeds: Sequence[inputs.Dataset], folder: Path) -> Case:  # noqa: ARG001
    """A raw shard is decoded sample by sample and column by column, with the same result."""
    data = damaged_shard(rng, rng.choice(seeds), rng.choice(seeds))

    def run() -> None:
        with own_errors():
            check_batch(EncodedBatch(Shard(data).config.columns, Shard(data).samples))

    return Case(len(data), run, repr(data[:2000]))


def values(rng: random.Random, seeds: Sequence[inputs.Dataset], folder: Path) -> Case:  # noqa: ARG001
    """Values are damaged in samples that are whole otherwise."""
    dataset = rng.choice(seeds)
    columns = dataset.columns
    rows = [damaged_values(rng, columns, row) for row in rng.choice(dataset.rows)]
    data = inputs.shard_of(json.dumps(dataset.config).encode(), rows)

    def run() -> None:
        with own_errors():
            check_batch(EncodedBatch(columns, Shard(data).samples))

    return Case(len(data), run, repr(rows)[:2000])


def compressed(rng: random.Random, seeds: Sequence[inputs.Dataset], folder: Path) -> Case:  # noqa: ARG001
    """A compressed file gives as many bytes as the index says, or an error."""
    raw = rng.choice(seeds).raw[0]
    name = rng.choice(inputs.COMPRESSIONS)
    data = inputs.compressed_damage(rng, name, raw)
    size = rng.choice((len(raw), len(raw), 0, 1))
    if rng.random() < 0.3:  # as large as the data may claim to be, and is not
        data, size = inputs.claims(rng)
        if rng.random() < 0.5:
            data = inputs.damaged(rng, inputs.packed(name, raw))
            size = rng.choice((2**31, 2**32 - 1, 2**40, 2**70))

    def run() -> None:
        with own_errors():
            if len(decompress(name, data, size)) != size:
                raise Fault('another size than asked for')

    # What an index and a zstd frame agree on may be allocated, though not filled, where a frame of
    # those bytes can hold it.
    agreed = min(size, len(data) << 15) if name == 'zstd' else 0
    about = f'{name}, size {size}, data {data[:2000]!r}'
    return Case(len(data) + len(raw) + agreed, run, about)


def folder(rng: random.Random, seeds: Sequence[inputs.Dataset], folder: Path) -> Case:
    """A dataset of which one file is damaged is read sample by sample."""
    size, about, dataset = damaged_folder(rng, seeds, folder)
    validate = inputs.HASH if rng.random() < 0.2 else None
    pickled = any(encoding.name == 'pkl' for encoding in dataset.columns.encodings)

    def run() -> None:
        with own_errors():
            for _ in read_samples(folder, validate_hash=validate):
                if pickled:
                    raise Fault('a sample with a pickle was read')

    return Case(size, run, about)


def pipeline(rng: random.Random, seeds: Sequence[inputs.Dataset], folder: Path) -> Case:
    """The steps of ReadFromMDS, with dead letters: no sample is lost or read twice."""
    size, about, dataset = damaged_folder(rng, seeds, folder)
    form: Any = rng.choice(('dicts', 'rows', 'batches', 'encoded'))
    columns = tuple(dataset.columns.names[:1]) if form != 'encoded' and rng.random() < 0.3 else None
    validate = inputs.HASH if rng.random() < 0.2 else None
    placed = form != 'encoded' and rng.random() < 0.5
    options = ReadOptions(columns, form, validate, placed, True, False)
    cut = rng.random()

    def run() -> None:
        refs = []
        with own_errors():
            refs += list_shards(str(folder), options)
        for ref in refs:
            with own_errors() as found:
                count = sum(map(_count, _read_ref(ref, options, cut)))
                if count != ref.info.samples:
                    raise Fault(f'{count} of {ref.info.samples} samples')
            # Arrays without a common Arrow type are no damage; all that is, is a letter.
            if found and not isinstance(found[0], ColumnsError):
                raise Fault(f'no letter: {found[0]!r:.300}')

    return Case(size, run, f'{form}, {about}')


def writer(rng: random.Random, seeds: Sequence[inputs.Dataset], folder: Path) -> Case:
    """A write looks at the dataset that is in its folder."""
    dataset = rng.choice(seeds)
    files = {'index.json': inputs.written(rng, changed_index(rng, dataset))}
    if rng.random() < 0.3:
        files['a/index.json'] = inputs.written(rng, changed_index(rng, dataset))
    if rng.random() < 0.3:
        journal = {'new': ['a/shard.00000.mds'], 'old': ['shard.00000.mds']}
        files['.beam-mds-journal-0'] = inputs.written(rng, inputs.changed(rng, journal))
    size = write_files(folder, files)
    given: dict[str, Any] = {'if_exists': rng.choice(('append', 'overwrite', 'error'))}
    if rng.random() < 0.5:
        given['split'] = dataset.columns.names[0]
    checked = write_options(str(folder), dataset.columns.as_dict(), **given)

    def run() -> None:
        with own_errors():
            check_target(checked, None)

    return Case(size, run, f'{given}, {files!r:.4000}')


TARGETS: dict[str, Target] = {
    one.__name__: one for one in (index, shard, values, compressed, folder, pipeline, writer)
}


def check_batch(batch: EncodedBatch) -> None:
    """Decodes samples in all ways; both ways to rows must agree on what is damaged.

    Raises:
        MDSError: The whole cannot be decoded to Arrow.
    """
    columns, samples = batch.columns, batch.samples
    wanted = [
        name
        for name, encoding in zip(columns.names, columns.encodings, strict=True)
        if encoding.name != 'pkl'
    ]
    each: list[Any] = []
    for sample in samples:
        each.append(None)
        with own_errors():
            each[-1] = columns.decode_sample(sample, wanted)
    rows = None
    with own_errors() as found:
        rows = batch.to_rows(wanted)
    if (None in each) != (rows is None):
        raise Fault(f'sample by sample {each!r:.500}, as columns {found or rows!r:.500}')
    row = getattr(found[0], 'row', None) if found else None
    if found and (row is None or each[row] is not None):
        raise Fault(f'row {row} of {each!r:.500}: {found[0]}')
    if rows is not None and _plain(columns, rows) != _plain(columns, each):
        raise Fault(f'sample by sample {each!r:.500}, as columns {rows!r:.500}')
    with own_errors():
        batch.select(Columns({'b': columns.encodings[0].name}), {'b': columns.names[0]})
    with own_errors():
        batch.column(columns.names[-1])
        batch.take(np.arange(len(batch))[::-1]).to_arrow()
    batch.to_arrow()


def _plain(columns: Columns, rows: Sequence[Any]) -> Any:
    """The values that can be compared: images are not."""
    kinds = columns.as_dict()
    return [
        {name: portable(value) for name, value in row.items() if kinds[name] not in _IMAGES}
        for row in rows
    ]


def _read_ref(ref: Any, options: ReadOptions, cut: float) -> Iterator[Any]:
    """What the DoFn gives for a shard in two parts."""
    provider = ShardRanges()
    whole = provider.initial_restriction(ref)
    (*_, last) = provider.split(ref, whole)
    if last.stop != whole.stop:
        raise Fault(f'the last range ends at {last.stop}')
    middle = int(whole.stop * cut)
    for part in (OffsetRange(0, middle), OffsetRange(middle, whole.stop)):
        tracker = ThreadsafeRestrictionTracker(provider.create_tracker(part))
        yield from ReadShards(options).process(ref, RestrictionTrackerView(tracker))
        tracker.check_done()


def _count(element: Any) -> int:
    """Samples that an element stands for."""
    if isinstance(element, TaggedOutput):
        letter: UnreadSamples = element.value
        if len(letter.message) > MESSAGE:
            raise Fault(f'a letter of {len(letter.message)} characters')
        return letter.samples
    return 1 if isinstance(element, dict) or hasattr(element, 'as_dict') else len(element)

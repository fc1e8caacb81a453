"""WriteToMDS: samples in, a complete MDS dataset out."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PortableOptions
from apache_beam.pvalue import AsIter, AsSingleton, PCollection
from apache_beam.transforms.display import DisplayDataItem
from apache_beam.transforms.window import GlobalWindows

from beam_mds import blocks, coders, planning, steps
from beam_mds.batches import ElementBatch
from beam_mds.commit import check_target
from beam_mds.errors import OptionError
from beam_mds.format import INDEX_NAME
from beam_mds.options import Key, WriteOptions, make_options
from beam_mds.planning import Histogram, Plan
from beam_mds.steps import WrittenShard
from beam_mds.storage import is_remote, join

# Runners whose workers share the machine, and so its temporary folder, with the launching process.
_LOCAL_RUNNERS = frozenset(
    {
        'DirectRunner',
        'SwitchingDirectRunner',
        'BundleBasedDirectRunner',
        'FnApiRunner',
        'PrismRunner',
    }
)

_NO_BYTES = Histogram.merged([])

coders.register()


class WriteResult(dict[str, PCollection[Any]]):
    """What `WriteToMDS` gives; emitted only after the index is published.

    A dict, so that every runner and Beam YAML see the outputs by name.
    """

    @property
    def shards(self) -> PCollection[WrittenShard]:
        """One `WrittenShard` for each shard, in the index's order."""
        return self['shards']

    @property
    def index(self) -> PCollection[str]:
        """The path of index.json; nothing when the input was empty and that was allowed."""
        return self['index']


class WriteToMDS(beam.PTransform):
    """Writes samples as a MosaicML Streaming (MDS) dataset that `StreamingDataset` reads.

    Elements are dicts, or many samples at once as `pyarrow.RecordBatch` or `pyarrow.Table`, which
    is several times as fast. `index.json` appears last, in one step, and lists only complete
    shards; a job that fails leaves no index, and can be run again.

    Example:
        >>> import apache_beam as beam
        >>> with beam.Pipeline(runner='FnApiRunner') as pipeline:
        ...     result = (
        ...         pipeline
        ...         | beam.Create([{'text': 'hello', 'label': 1}])
        ...         | WriteToMDS(getfixture('tmp_path'), {'text': 'str', 'label': 'uint8'})
        ...     )
    """

    def __init__(
        self,
        out: str | os.PathLike[str],
        columns: Mapping[str, str],
        *,
        compression: str | None = None,
        hashes: Sequence[str] | str | None = None,
        size_limit: int | float | str | None = '64mb',
        key: Key = None,
        order: str = 'shuffled',
        seed: int = 0,
        num_shards: int | None = None,
        if_exists: str = 'error',
        spill: bool | str | os.PathLike[str] = 'auto',
        allow_empty: bool = False,
    ) -> None:
        """Makes the transform; nothing is read or written before the pipeline runs.

        Args:
            out: Folder of the dataset, on any filesystem that Beam knows.
            columns: Column name -> MDS encoding, like `{'tokens': 'ndarray:int32'}`.
            compression: `br`, `bz2`, `gz`, `snappy`, `zstd`, or one with a level like `zstd:7`.
            hashes: Names of hashes to store for each file, like `['sha1', 'xxh64']`.
            size_limit: Largest raw size of a shard: bytes, or a text like `64mb` or `1GiB` (powers
                of 1024). A sample that is larger gets a shard of its own. None, which needs
                `num_shards`, leaves only the format's limit of 2**32 - 1 bytes.
            key: Samples of one key stay together: a column's name, or a function of the sample that
                returns str, bytes, int, float, bool, None or a tuple of those. By default the
                sample itself, which is a shuffle.
            order: `shuffled`: by the hash of the key; names and bytes of the files depend on
                nothing but the samples and these options. `arrival`: as the samples come; the
                fastest, and no promise about order or names.
            seed: Gives another shuffled order; 0 to 2**64 - 1.
            num_shards: Cuts the shuffled order into this many equal ranges, without the pass that
                measures the data. A range over `size_limit` becomes several shards, an empty one
                none.
            if_exists: `error`: fail before anything is encoded when `out` holds an index.json.
            spill: Where samples lie between encoding and writing: False, in the runner's shuffle;
                True, in files beside the dataset; a folder; `auto`, in files except on Dataflow.
            allow_empty: Whether no samples at all is a success, which writes no index. By default
                the job fails, since the reader refuses an index without shards.

        Raises:
            OptionError: A value, or a combination, that cannot work.
        """
        super().__init__()
        self._options = make_options(
            out,
            columns,
            compression=compression,
            hashes=hashes,
            size_limit=size_limit,
            key=key,
            order=order,
            seed=seed,
            num_shards=num_shards,
            spill=spill,
            if_exists=if_exists,
            allow_empty=allow_empty,
        )
        for name, encoding in self._options.config.columns.as_dict().items():
            if encoding == 'pkl':
                warnings.warn(
                    f'column {name!r} is stored as pickle: readers run code from it, and '
                    'StreamingDataset needs allow_unsafe_types=True',
                    stacklevel=2,
                )

    def expand(self, samples: PCollection[Any]) -> WriteResult:
        """Wires the steps.

        Raises:
            OptionError: The input is unbounded.
        """
        if not samples.is_bounded:
            raise OptionError(
                'WriteToMDS writes one dataset from a bounded PCollection; this one is not'
            )
        options, pipeline = self._options, samples.pipeline
        if not samples.windowing.is_default():
            samples = samples | 'ToGlobalWindow' >> beam.WindowInto(GlobalWindows())

        start = pipeline | 'Start' >> beam.Impulse()
        target = AsSingleton(
            start
            | 'CheckTarget'
            >> beam.Map(lambda _, o, s: check_target(o, s), options, _spill_mode(options, pipeline))
        )
        # blocks: bytes; positions: bytes; histograms: Histogram; fragments: Fragment; counts: int
        encoded = (
            samples
            | 'CollectBatches' >> beam.ParDo(steps.CollectBatches()).with_output_types(ElementBatch)
            | 'EncodeSamples'
            >> beam.ParDo(steps.EncodeSamples(options), target).with_outputs(
                'positions', 'histograms', 'fragments', 'counts', main='blocks'
            )
        )
        plan = _plan(options, start, encoded)
        written = (
            encoded.blocks
            | 'AssignShards'
            >> beam.FlatMap(blocks.assign, AsSingleton(plan)).with_output_types(tuple[int, bytes])
            # (shard number, block of the samples that belong to it)
            | 'GroupByShard' >> beam.GroupByKey()
            | 'WriteShards' >> beam.ParDo(steps.WriteShards(options))
        )
        fragments = (written, encoded.fragments) | 'Fragments' >> beam.Flatten()
        # list[Fragment], once
        committed = start | 'Commit' >> beam.Map(
            steps.publish, options, target, AsIter(fragments), AsIter(encoded.counts)
        )
        index = join(options.out, INDEX_NAME)
        return WriteResult(
            shards=committed
            | 'Shards' >> beam.FlatMap(steps.records).with_output_types(WrittenShard),
            index=committed
            | 'IndexPath'
            >> beam.FlatMap(lambda shards: [index] if shards else []).with_output_types(str),
        )

    def display_data(self) -> dict[str, Any]:
        """Every option, for the runner's user interface."""
        options = self._options
        key = getattr(options.key, '__name__', options.key)
        shown = {
            'out': options.out,
            'columns': str(options.config.columns.as_dict()),
            'compression': options.config.compression,
            'hashes': ','.join(options.config.hashes) or None,
            'size_limit': options.config.size_limit,
            'key': None if key is None else str(key),
            'order': options.order,
            # display data hold signed 64-bit integers
            'seed': options.seed if options.seed < 2**63 else str(options.seed),
            'num_shards': options.num_shards,
            'if_exists': options.if_exists,
            'spill': str(options.spill),
            'allow_empty': options.allow_empty,
        }
        return {name: DisplayDataItem(value).drop_if_none() for name, value in shown.items()}


def _spill_mode(options: WriteOptions, pipeline: beam.Pipeline) -> str | None:
    """Where run files go: `beside` the dataset, in the `temp` folder, in a folder; None: inline."""
    if options.spill is False:
        return None
    if options.spill is True:
        return 'beside'
    if options.spill != 'auto':
        return options.spill
    runner = type(pipeline.runner).__name__
    if 'Dataflow' in runner:
        return None
    environment = pipeline.options.view_as(PortableOptions).environment_type
    local = (
        environment == 'LOOPBACK'
        if runner == 'PortableRunner' or environment
        else runner in _LOCAL_RUNNERS
    )
    return 'temp' if local and is_remote(options.out) else 'beside'


def _plan(
    options: WriteOptions, start: PCollection[bytes], encoded: Mapping[str, PCollection[Any]]
) -> PCollection[Plan]:
    """The ranges of positions, as one element."""
    if options.num_shards is not None:
        return start | 'PlanShards' >> beam.Map(
            lambda _, n: planning.even_plan(n), options.num_shards
        )
    capacity = options.config.capacity
    add_up = beam.CombineGlobally(steps.AddHistograms()).without_defaults()
    coarse = AsSingleton(encoded['histograms'] | 'Histogram' >> add_up, _NO_BYTES)
    hot = start | 'FindHotBuckets' >> beam.Map(
        lambda _, histogram: planning.hot_buckets(histogram, capacity), coarse
    )
    fine = (
        encoded['positions']
        | 'MeasureHotBuckets' >> beam.FlatMap(steps.measure_hot, AsSingleton(hot))
        | 'HotHistogram' >> add_up
    )
    return start | 'PlanShards' >> beam.Map(
        lambda _, coarse, fine: planning.full_plan(coarse, fine, capacity),
        coarse,
        AsSingleton(fine, _NO_BYTES),
    )

"""Apache Beam transforms that write, read and check MosaicML Streaming (MDS) datasets.

`beam_mds.format` is the file format itself and needs no Beam; so the transforms are imported only
when they are asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from beam_mds._version import __version__
from beam_mds.errors import (
    ColumnsError,
    DamagedError,
    EmptyInputError,
    EncodingError,
    ErrorThresholdError,
    FormatError,
    ImageError,
    LostSamplesError,
    MDSError,
    MergeError,
    MissingExtraError,
    OptionError,
    RecordError,
    StorageError,
    TargetError,
    WhereError,
)

if TYPE_CHECKING:
    from beam_mds.checking.findings import Finding
    from beam_mds.merge import MergedIndex, MergeMDSIndex, merge_indexes
    from beam_mds.read import ReadAllFromMDS, ReadFromMDS, ReadResult
    from beam_mds.reading.shardreader import read_samples
    from beam_mds.reading.steps import UnreadSamples
    from beam_mds.rebuild import rebuild_index
    from beam_mds.records import BadRecord
    from beam_mds.reshard import ReshardMDS
    from beam_mds.sources.base import Source
    from beam_mds.sources.cifar import ReadCifar10
    from beam_mds.sources.coco import ReadCoco
    from beam_mds.sources.fetching.options import FetchOptions
    from beam_mds.sources.files import ReadFiles
    from beam_mds.sources.image_options import ImageOptions
    from beam_mds.sources.images import ReadImageFolders, ReadImagePairs
    from beam_mds.sources.imaging import ImageResult, check_image, process_image
    from beam_mds.sources.jsonl import ReadJsonLines
    from beam_mds.sources.laion import ReadLaion
    from beam_mds.sources.tables import ReadTables
    from beam_mds.sources.tfrecords import ReadTFRecords
    from beam_mds.sources.tokenizing import TokenizerFile
    from beam_mds.sources.tokens import ReadTokens, TokenizeText
    from beam_mds.sources.urlrows import UrlRowOptions
    from beam_mds.sources.urls import FetchUrls, ReadUrls
    from beam_mds.sources.webdataset import ReadWebDataset
    from beam_mds.stats import MDSStats
    from beam_mds.verify import VerifyMDS, verify_dataset
    from beam_mds.write import WriteResult, WriteToMDS
    from beam_mds.writing.prepare import DeadLetter
    from beam_mds.writing.splits import hash_split
    from beam_mds.writing.steps import WrittenShard

__all__ = [
    'BadRecord',
    'ColumnsError',
    'DamagedError',
    'DeadLetter',
    'EmptyInputError',
    'EncodingError',
    'ErrorThresholdError',
    'FetchOptions',
    'FetchUrls',
    'Finding',
    'FormatError',
    'ImageError',
    'ImageOptions',
    'ImageResult',
    'LostSamplesError',
    'MDSError',
    'MDSStats',
    'MergeError',
    'MergeMDSIndex',
    'MergedIndex',
    'MissingExtraError',
    'OptionError',
    'ReadAllFromMDS',
    'ReadCifar10',
    'ReadCoco',
    'ReadFiles',
    'ReadFromMDS',
    'ReadImageFolders',
    'ReadImagePairs',
    'ReadJsonLines',
    'ReadLaion',
    'ReadResult',
    'ReadTFRecords',
    'ReadTables',
    'ReadTokens',
    'ReadUrls',
    'ReadWebDataset',
    'RecordError',
    'ReshardMDS',
    'Source',
    'StorageError',
    'TargetError',
    'TokenizeText',
    'TokenizerFile',
    'UnreadSamples',
    'UrlRowOptions',
    'VerifyMDS',
    'WhereError',
    'WriteResult',
    'WriteToMDS',
    'WrittenShard',
    '__version__',
    'check_image',
    'hash_split',
    'merge_indexes',
    'process_image',
    'read_samples',
    'rebuild_index',
    'verify_dataset',
]

_MODULES = {
    'BadRecord': 'beam_mds.records',
    'DeadLetter': 'beam_mds.writing.prepare',
    'FetchOptions': 'beam_mds.sources.fetching.options',
    'FetchUrls': 'beam_mds.sources.urls',
    'Finding': 'beam_mds.checking.findings',
    'ImageOptions': 'beam_mds.sources.image_options',
    'ImageResult': 'beam_mds.sources.imaging',
    'MDSStats': 'beam_mds.stats',
    'MergeMDSIndex': 'beam_mds.merge',
    'MergedIndex': 'beam_mds.merge',
    'ReadAllFromMDS': 'beam_mds.read',
    'ReadCifar10': 'beam_mds.sources.cifar',
    'ReadCoco': 'beam_mds.sources.coco',
    'ReadFiles': 'beam_mds.sources.files',
    'ReadFromMDS': 'beam_mds.read',
    'ReadImageFolders': 'beam_mds.sources.images',
    'ReadImagePairs': 'beam_mds.sources.images',
    'ReadJsonLines': 'beam_mds.sources.jsonl',
    'ReadLaion': 'beam_mds.sources.laion',
    'ReadResult': 'beam_mds.read',
    'ReadTFRecords': 'beam_mds.sources.tfrecords',
    'ReadTables': 'beam_mds.sources.tables',
    'ReadTokens': 'beam_mds.sources.tokens',
    'ReadUrls': 'beam_mds.sources.urls',
    'ReadWebDataset': 'beam_mds.sources.webdataset',
    'ReshardMDS': 'beam_mds.reshard',
    'Source': 'beam_mds.sources.base',
    'TokenizeText': 'beam_mds.sources.tokens',
    'TokenizerFile': 'beam_mds.sources.tokenizing',
    'UnreadSamples': 'beam_mds.reading.steps',
    'UrlRowOptions': 'beam_mds.sources.urlrows',
    'VerifyMDS': 'beam_mds.verify',
    'WriteResult': 'beam_mds.write',
    'WriteToMDS': 'beam_mds.write',
    'WrittenShard': 'beam_mds.writing.steps',
    'check_image': 'beam_mds.sources.imaging',
    'hash_split': 'beam_mds.writing.splits',
    'merge_indexes': 'beam_mds.merge',
    'process_image': 'beam_mds.sources.imaging',
    'read_samples': 'beam_mds.reading.shardreader',
    'rebuild_index': 'beam_mds.rebuild',
    'verify_dataset': 'beam_mds.verify',
}

if not TYPE_CHECKING:  # a type checker would take any name for one that is there

    def __getattr__(name: str) -> Any:
        """Imports a transform's module when its name is first used."""
        import importlib

        if name not in _MODULES:
            raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
        return getattr(importlib.import_module(_MODULES[name]), name)

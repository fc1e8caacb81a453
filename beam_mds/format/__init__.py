"""The MDS format without Beam: encode and decode samples, build and read shards and indexes."""

from beam_mds.format.columns import Columns
from beam_mds.format.compression import compress, decompress
from beam_mds.format.encoded import EncodedBatch
from beam_mds.format.encodings import ENCODINGS, Encoding, get_encoding
from beam_mds.format.hashing import HASHES, hex_digest
from beam_mds.format.index import INDEX_NAME, FileInfo, ShardInfo, dump_index, parse_index
from beam_mds.format.samples import Samples
from beam_mds.format.shard import Shard, ShardConfig, ShardLayout, cut_points, shard_header

__all__ = [
    'ENCODINGS',
    'HASHES',
    'INDEX_NAME',
    'Columns',
    'EncodedBatch',
    'Encoding',
    'FileInfo',
    'Samples',
    'Shard',
    'ShardConfig',
    'ShardInfo',
    'ShardLayout',
    'compress',
    'cut_points',
    'decompress',
    'dump_index',
    'get_encoding',
    'hex_digest',
    'parse_index',
    'shard_header',
]

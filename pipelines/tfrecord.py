"""TFRecord files of tf.train.Example -> MDS, without TensorFlow.

python -m pipelines.tfrecord --input 'data/train-*' --output gs://bucket/dataset
"""

from __future__ import annotations

import argparse

from beam_mds import ReadTFRecords
from beam_mds.sources.tfrecords import feature_columns
from pipelines.conversion import Conversion, make_main, source_options

DESCRIPTION = """
Writes the records of TFRecord files as an MDS dataset, one sample a tf.train.Example. Files may be
plain, gz, zst, bz2 or xz; their content tells. Without --columns, or for one without an encoding,
the first records tell: features of one integer are int, of one float float32, of more
ndarray:int64 and ndarray:float32, of one byte string bytes; a record that is otherwise is a bad
record. With --columns a byte string can be str, jpeg, png or an array (ndarray:uint8:28,28), and a
feature of several texts json.
"""

EXAMPLES = """
beam-mds convert tfrecord --input 'imagenet/train-*' --output imagenet-mds \\
    --columns image/encoded=jpeg,image/class/label \\
    --rename image/encoded=x --rename image/class/label=y
beam-mds convert tfrecord --input data.tfrecord.gz --output mds --dry_run_sample 3
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this conversion."""
    group = parser.add_argument_group('the records')
    group.add_argument(
        '--max_record_size', default='1gb', metavar='SIZE',
        help='largest record, like 64mb; a larger one is a bad record (default: %(default)s)',
    )  # fmt: skip


def build(args: argparse.Namespace) -> Conversion:
    """The source and the columns.

    Raises:
        MDSError: An option cannot work, or the input cannot be read.
    """
    options = source_options(args) | {'max_record_size': args.max_record_size}
    found: dict[str, str] = {}
    left_open = [name for name, encoding in args.columns.items() if encoding is None]
    if left_open or not args.columns:
        found = feature_columns(only=left_open or None, **options)
    columns = {
        name: encoding or found[name]
        for name, encoding in (args.columns or found).items()
        if encoding or name in found
    }
    others = 'ignore' if args.columns else 'error'
    return Conversion(ReadTFRecords(columns=columns, others=others, **options), columns)


main = make_main('tfrecord')

if __name__ == '__main__':
    main()

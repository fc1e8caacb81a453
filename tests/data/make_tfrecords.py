"""Makes tests/data/tfrecord with TensorFlow itself, in an environment that has it.

python tests/data/make_tfrecords.py tests/data/tfrecord

The files that are there were made by tensorflow-cpu 2.21.0.
"""

from __future__ import annotations

import sys
from pathlib import Path

import tensorflow as tf


def feature(**values: list) -> tf.train.Feature:
    ((kind, items),) = values.items()
    make = {
        'bytes_list': tf.train.BytesList,
        'float_list': tf.train.FloatList,
        'int64_list': tf.train.Int64List,
    }[kind]
    return tf.train.Feature(**{kind: make(value=items)})


def features(i: int) -> tf.train.Features:
    return tf.train.Features(
        feature={
            'image/encoded': feature(bytes_list=[b'\xff\xd8\xff' + bytes([i]) * i]),
            'label': feature(int64_list=[i - 2]),
            'score': feature(float_list=[i / 3]),
            'ids': feature(int64_list=list(range(-i, i + 1))),
            'embedding': feature(float_list=[i / 2, 1.25, -3e30]),
            'tags': feature(bytes_list=['ä'.encode(), b'b'][: i % 3]),
            'pixels': feature(bytes_list=[tf.constant([i, 300], tf.uint16).numpy().tobytes()]),
        }
    )


def main(folder: Path) -> None:
    for name, how in (('plain.tfrecord', None), ('gzip.tfrecord', 'GZIP')):
        with tf.io.TFRecordWriter(str(folder / name), options=how) as file:
            for i in range(5):
                file.write(tf.train.Example(features=features(i)).SerializeToString())
    lists = tf.train.FeatureLists(
        feature_list={'ids': tf.train.FeatureList(feature=[feature(int64_list=[1])])}
    )
    sequence = tf.train.SequenceExample(context=features(1), feature_lists=lists)
    with tf.io.TFRecordWriter(str(folder / 'sequence.tfrecord')) as file:
        file.write(sequence.SerializeToString())


if __name__ == '__main__':
    main(Path(sys.argv[1]))

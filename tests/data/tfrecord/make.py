"""Writes the files of this folder with TensorFlow, and the values that TensorFlow reads from them: `python make.py`."""

import json
import pathlib

import tensorflow as tf

FOLDER = pathlib.Path(__file__).parent


def example(**features):
    def feature(values):
        if isinstance(values[0], bytes):
            return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
        if isinstance(values[0], float):
            return tf.train.Feature(float_list=tf.train.FloatList(value=values))
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))

    known = {name: feature(values) if values else tf.train.Feature() for name, values in features.items() if values is not None}
    return tf.train.Example(features=tf.train.Features(feature=known))


def samples(first, count):
    for n in range(first, first + count):
        yield example(
            label=[n - 2],
            score=[n / 7],
            text=["ä".encode() * (n % 3)],
            image=[bytes([255, n]) * n],
            box=[n / 2, n / 3, 0.5, 1e30],
            ids=[(-1) ** n * 2**n for n in range(n % 5 + 1)],
            names=[b"a", b"b"][: n % 2 + 1],
            caption=[b"c%d" % n] if n % 4 else None,
            empty=[],
        )


def write(name, records, options=None):
    with tf.io.TFRecordWriter(str(FOLDER / name), options) as writer:
        for record in records:
            writer.write(record if isinstance(record, bytes) else record.SerializeToString())


def values(path, compression=""):
    """Values that TensorFlow reads, as texts and numbers."""
    found = []
    for record in tf.data.TFRecordDataset(str(path), compression_type=compression):
        features = tf.train.Example.FromString(record.numpy()).features.feature
        row = {}
        for name, feature in features.items():
            kind = feature.WhichOneof("kind")
            if kind:
                items = list(getattr(feature, kind).value)
                row[name] = [item.hex() if isinstance(item, bytes) else item for item in items]
        found.append(row)
    return found


for part in range(3):
    write(f"set.tfrecord-{part:05}-of-00003", samples(10 * part, [10, 7, 1][part]))
write("packed.tfrecord.gz", samples(0, 6), "GZIP")
write("zlib.tfrecord", samples(0, 6), "ZLIB")
write("plain.tfrecord", [b"no example", b"", b"\xff" * 300])
write("empty.tfrecord", [])
sequence = tf.train.SequenceExample(context=tf.train.Features(), feature_lists=tf.train.FeatureLists(feature_list={"x": tf.train.FeatureList()}))
write("sequence.tfrecord", [sequence])
read = {path.name: values(path) for path in sorted(FOLDER.glob("set.*"))}
read["packed.tfrecord.gz"] = values(FOLDER / "packed.tfrecord.gz", "GZIP")
read["zlib.tfrecord"] = values(FOLDER / "zlib.tfrecord", "ZLIB")
(FOLDER / "values.json").write_text(json.dumps(read, sort_keys=True) + "\n")

"""Mistakes that a type checker finds, each in a line that ends with `# mistake`. It is not run."""

from typing import TypedDict

import forebay as fb
from forebay import checkpoint


class Batch(TypedDict):
    """Outputs of `typed`."""

    x: list[str]


loader = fb.Loader(remote="s3://bucket/set", batch_size=4)
framework = fb.Loader(remote="s3://bucket/set", batch_size=4, framework="pytorch")  # mistake
skip = fb.Loader(remote="s3://bucket/set", batch_size=4, skip="errors")  # mistake
flat = fb.Loader(remote="s3://bucket/set", batch_size=4, num_canonical_nodes=2)  # mistake
extra = fb.Loader(remote="s3://bucket/set", batch_size=4, extra=["sample_key"])  # mistake
dtype = fb.Scalar("class", dtype="int46")  # mistake
device = fb.Loader(remote="s3://bucket/set", batch_size=4, device="gpu")  # mistake
algorithm = fb.Loader(remote="s3://bucket/set", batch_size=4, order=fb.Order(shuffle_algo="py1"))  # mistake
unknown = fb.Loader(remote="s3://bucket/set", batch_size=4, num_workers=8)  # mistake
size = fb.Loader(remote="s3://bucket/set", batch_size="4")  # mistake
layout = fb.Image("jpg", layout="NCWH")  # mistake
operation = fb.Image("jpg", fb.Scalar("class"))  # mistake
fields = fb.Loader(remote="s3://bucket/set", batch_size=4, fields={"x": "jpeg"})  # mistake
for batch in loader:
    attribute = batch.x  # mistake
    place = batch[0]  # mistake
figure = loader.stats()["bottlneck"]  # mistake
stage = loader.stats()["stages"]["decode"]["busy"]  # mistake
name = loader.stats()["stages"]["decod"]["busy_s"]  # mistake
method = loader.statistics()  # mistake
kind = fb.Map(lambda sample, rng: sample, kind="thread")  # mistake
shard = fb.load_files("s3://bucket/", shard="rank")  # mistake
files = fb.Stream(remote="s3://bucket/set", files="all")  # mistake
errors = fb.Loader(remote="s3://bucket/set", batch_size=4, on_error="skip")  # mistake
columns = fb.MDSWriter(out="out", columns=["x", "y"])  # mistake
no_columns = fb.MDSWriter(out="out")  # mistake
crop = fb.Image("jpg", fb.RandomResizeCrop(224))  # mistake
typed: fb.Loader[Batch] = fb.Loader(remote="s3://bucket/set", batch_size=4)
for named in typed:
    value = named["y"]  # mistake
for _, data in fb.load_files("s3://bucket/", failed="return"):
    length = len(data)  # mistake
saving = checkpoint.save({}, "run/step-1", wait=False).step  # mistake
opened = fb.open("s3://bucket/a.txt", "rw")  # mistake
hashes = fb.MDSWriter(out="out", columns={"x": "int"}, hashes=["xxhash"])  # mistake
row = fb.ShardReader("folder")["x"]  # mistake
newest = checkpoint.latest(3)  # mistake
removed = checkpoint.remove(["run/step-1"])  # mistake

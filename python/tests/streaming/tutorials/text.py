"""The synthetic text tutorial's steps: numbers and their words, written compressed, read back in order and in batches."""

import os

import numpy as np
from streaming import MDSWriter, StreamingDataset
from torch.utils.data import DataLoader

ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
).split()
TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()


def words_of(number):
    """A number's words."""
    if number < 0:
        return ["negative", *words_of(-number)]
    if number < 20:
        return [ONES[number]]
    if number < 100:
        return [TENS[number // 10 - 2], *([ONES[number % 10]] if number % 10 else [])]
    for unit, name in ((1000, "thousand"), (100, "hundred")):
        if number >= unit:
            return [*words_of(number // unit), name, *(words_of(number % unit) if number % unit else [])]
    raise AssertionError(number)


def samples(first, end):
    generator = np.random.default_rng(first)
    signed = [int(n) * (1 if generator.random() < 0.8 else -1) for n in range(first, end)]
    return [{"number": n, "words": " ".join(words_of(n))} for n in signed]


splits = {"train": samples(0, 10_000), "val": samples(10_000, 12_000)}
for split, rows in splits.items():
    columns = {"number": "int", "words": "str"}
    hashes = ["sha1", "xxh3_64"]
    with MDSWriter(
        out=os.path.join("./sds", split), columns=columns, compression="zstd:12", hashes=hashes, size_limit=1 << 16
    ) as out:
        for row in rows:
            out.write(row)

for split, rows in splits.items():
    dataset = StreamingDataset(remote="./sds", local="./local", split=split, shuffle=False, batch_size=1)
    assert all(old == new for old, new in zip(rows, dataset, strict=True))
    for at in (10, -1, slice(-1, -10, -2)):
        assert dataset[at] == rows[at]
    assert dataset[[12, -14]] == [rows[12], rows[-14]]
    assert dataset[np.array([10, -20])] == [rows[10], rows[-20]]
    assert dataset.num_samples == len(rows) == sum(dataset.samples_per_shard)
    assert len(dataset.shards) == len(dataset.samples_per_shard) > 1

# With the batch size, workers get whole batches: at most one is short.
dataset = StreamingDataset(remote="./sds/train", local="./local/batches", shuffle=False, batch_size=512)
loader = DataLoader(dataset, batch_size=512, num_workers=2, drop_last=True)
assert sum(len(batch["number"]) for batch in loader) == 10_000 // 512 * 512

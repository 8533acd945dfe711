"""forebay: `Tokenize` in a Loader, of documents or of packs."""

import collections
import dataclasses
import os

import forebay as fb
import textpeer

check = textpeer.check


def versions():
    return {"forebay": fb.__version__}


def build(config):
    # Offsets of the lines and lengths in tokens are made again by each process.
    os.environ["XDG_CACHE_HOME"] = config["scratch"]
    ids = fb.Tokenize("text", config["tokenizer"], add_bos=False, add_eos=False)
    fields, options = {"ids": ids}, {"window": fb.Pack(config["length"], form="segments")}
    if config["kind"] == "ids":
        fields, options = {"ids": dataclasses.replace(ids, pad=0), "mask": fb.AttentionMask("ids")}, {}
    return fb.Loader(
        remote=os.path.join(config["jsonl"], "*.jsonl"),
        fields=fields,
        batch_size=config["rows"],
        shuffle=True,
        threads=config["workers"],
        framework="numpy",
        **options,
    )


def batches(loader):
    for batch in loader:
        yield batch["ids"], collections.Counter(slots=batch["ids"].size)


def mask_of(batch):
    return batch["mask"] if "mask" in batch else batch["segment_ids"] > 0


def digest(loader):
    rows = (zip(batch["ids"], mask_of(batch), strict=True) for batch in loader)
    return textpeer.digest((row[mask] for row, mask in batch) for batch in rows)

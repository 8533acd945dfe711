"""Texts as lines of JSON, a tokenizer, and packs of their documents in each form that a trainer takes."""

import json
import random

from tokenizers import ByteLevelBPETokenizer

import forebay as fb

LENGTH = 64
"""Tokens of a pack."""

END = "<|endoftext|>"


def write_texts(folder, count=300):
    """Writes the texts of `folder`/corpus and `folder`/tokenizer.json."""
    draws = random.Random(5)
    (folder / "corpus").mkdir()
    for part in range(2):
        with open(folder / f"corpus/part-{part}.jsonl", "w") as file:
            for number in range(part, count, 2):
                words = " ".join(str(draws.randrange(1000)) for _ in range(draws.randrange(1, 14)))
                file.write(json.dumps({"text": f"{number}: {words}"}) + "\n")
    tokenizer = ByteLevelBPETokenizer()
    paths = [str(path) for path in sorted((folder / "corpus").iterdir())]
    tokenizer.train(paths, vocab_size=300, special_tokens=[END], show_progress=False)
    tokenizer.save(str(folder / "tokenizer.json"))


def loader_of(folder, form, **arguments):
    """Loader of packs of the texts."""
    ids = fb.Tokenize("text", str(folder / "tokenizer.json"), add_eos=END, dtype="int64")
    arguments = {"shuffle": True, "drop_last": True, "threads": 1, "engine": fb.Engine(memory="64mb")} | arguments
    return fb.Loader(remote=f"{folder}/corpus/*.jsonl", fields={"input_ids": ids}, window=fb.Pack(LENGTH, form=form), **arguments)


def documents(batch):
    """The documents of a batch of packs, each as the text of its ids."""
    if "cu_seq_lens_q" in batch:
        starts = batch["cu_seq_lens_q"].tolist()
        ids = batch["input_ids"][0].tolist()
        found = [ids[first:end] for first, end in zip(starts, starts[1:], strict=False)]
    else:
        numbers, none = (batch["segment_ids"], 0) if "segment_ids" in batch else (batch.get("sequence_id", batch.get("document_ids")), -1)
        found = []
        for ids, of in zip(batch["input_ids"].tolist(), numbers.tolist(), strict=True):
            for number in sorted({*of} - {none}):
                found.append([id for id, its in zip(ids, of, strict=True) if its == number])
    return [" ".join(map(str, ids)) for ids in found]

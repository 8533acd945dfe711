"""tiktoken: `encode_ordinary_batch`, with the vocabulary and the pattern of a byte-level `tokenizer.json`."""

import json
import unicodedata

import textpeer
import tiktoken

check = textpeer.check


def versions():
    return {"tiktoken": tiktoken.__version__}


def byte_of():
    """The byte of each character in which byte-level vocabularies are written."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [byte for byte in range(256) if byte not in printable]
    return {**{chr(byte): byte for byte in printable}, **{chr(256 + number): byte for number, byte in enumerate(rest)}}


def build(config):
    with open(config["tokenizer"], encoding="utf-8") as file:
        tokenizer = json.load(file)
    parts = tokenizer["pre_tokenizer"].get("pretokenizers", [])
    pattern = next((part["pattern"]["Regex"] for part in parts if part["type"] == "Split"), None)
    if tokenizer["model"]["type"] != "BPE" or pattern is None:
        raise ValueError("its tokenizers are byte-level BPE with a pattern")
    byte = byte_of()
    ranks = {bytes(byte[c] for c in token): rank for token, rank in tokenizer["model"]["vocab"].items()}
    encoding = tiktoken.Encoding("bench", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    is_normalised = (tokenizer["normalizer"] or {}).get("type") == "NFC"
    return config, encoding, is_normalised


def batches(loader):
    config, encoding, is_normalised = loader
    for texts in textpeer.groups(textpeer.texts(config), config["batch"]):
        if is_normalised:
            texts = [unicodedata.normalize("NFC", text) for text in texts]
        ids = encoding.encode_ordinary_batch(texts, num_threads=config["workers"])
        yield ids, None


def digest(loader):
    return textpeer.digest(ids for ids, _ in batches(loader))

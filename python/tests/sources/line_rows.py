"""Texts with a record in each line, and their samples."""

import bz2
import csv
import gzip
import io
import json

import brotli
import zstd

import forebay as fb

FIELDS = {"number": fb.Scalar("number"), "text": fb.Text("text"), "score": fb.Scalar("score", default=float("-inf"))}

WORDS = ["plain", "a, b", 'with "quotes"', "two\nlines", "é 名前", "", "tab\there", "back\\slash", " spaces ", "0042"]

SAMPLES = [
    (n, f"{WORDS[n % 10]} {n}" if n % 10 != 5 else f"{n}", float("-inf") if n % 7 == 0 else n / 4) for n in range(128)
]


def rows(batch):
    """The samples of a batch of `FIELDS`, in the form of `SAMPLES`."""
    return list(zip(batch["number"].tolist(), batch["text"], batch["score"].tolist(), strict=True))


def json_lines(samples, ends="\n"):
    def line(number, text, score):
        row = {"number": number, "text": text, "meta": {"url": f"http://x/{number}", "tags": [text]}}
        return json.dumps(row if score == float("-inf") else {**row, "score": score}, ensure_ascii=number % 2 == 0)

    return ends.join(line(*sample) for sample in samples) + ends


def cells(samples, ends="\n", delimiter=","):
    out = io.StringIO()
    table = csv.writer(out, lineterminator=ends, delimiter=delimiter)
    table.writerow(["text", "number", "score"])
    table.writerows([text, number, "" if score == float("-inf") else score] for number, text, score in samples)
    return out.getvalue()


TEXTS = {
    ".jsonl": json_lines,
    ".ndjson": lambda samples: "\ufeff" + json_lines(samples, "\r\n\n"),
    ".csv": cells,
    ".tsv": lambda samples: "\ufeff" + cells(samples, "\r\n", "\t"),
}


PACKED = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".br": brotli.compress, ".zst": zstd.compress}


def write_set(folder, end=".jsonl", packed="", samples=SAMPLES, per_file=13):
    """Writes texts; returns their wildcard."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, at in enumerate(range(0, len(samples), per_file)):
        body = TEXTS[end](samples[at : at + per_file]).encode()
        (folder / f"part-{number:02}{end}{packed}").write_bytes(PACKED[packed](body))
    return f"*{end}{packed}"

"""Lengths in tokens: equal to the ids that a loader delivers, counted once, and counted again after any change."""

import dataclasses
import io
import json
import os
import pathlib
import subprocess
import sys
import tarfile

import megatron_files
import numpy as np
import pytest

import forebay as fb
from forebay.errors import ConfigError, DecodeError, Error
from forebay.__main__ import main
from forebay.index import index_lengths

PARQUET = pathlib.Path(__file__).parents[2] / "tests/data/parquet"

WORDS = ["the", "quick", "fox", "sample", "0"]

TEXTS = [" ".join(WORDS[(number + place) % 5] for place in range(number * 7 % 23)) for number in range(97)]


def special(number, content):
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": number, "content": content, "special": True, **flags}


def words(*more):
    """A tokenizer of words and digits, with <s> before each text."""
    vocabulary = {word: number for number, word in enumerate(["<s>", "</s>", "?", *WORDS, *more])}
    template = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]}},
    }
    document = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [special(0, "<s>"), special(1, "</s>")],
        "normalizer": None,
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": template,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "?"},
    }
    return json.dumps(document)


def tokenize(column="text", **options):
    return fb.Tokenize(column, words(), **options)


def counted(source, field):
    """The lengths, and the number of shards that were read for them."""
    seen = []
    report = index_lengths(source, field, progress=lambda read, shards: seen.append((read, shards)))
    lengths = np.asarray(report.lengths)
    assert (report.samples, report.tokens, report.longest) == (len(lengths), lengths.sum(), lengths.max())
    assert report.lengths.itemsize == 4 and seen[-1][0] <= seen[-1][1]
    return lengths.tolist(), seen[-1][0]


def delivered(source, field, **options):
    """Lengths of the rows of a loader, which pads with an id that no tokenizer has."""
    options = {"fields": {"ids": field, "same": field}, "batch_size": 10, "framework": "numpy", **options}
    with fb.Loader(**({"streams": [source]} if isinstance(source, fb.Stream) else {"remote": source}), **options) as loader:
        return np.concatenate([(batch["ids"] >= 0).sum(1) for batch in loader]).tolist()


def write_jsonl(folder, texts=TEXTS, files=4):
    folder.mkdir(exist_ok=True)
    for number in range(files):
        lines = [json.dumps({"text": text, "meta": {"body": text + " fox"}}) for text in texts[number::files]]
        (folder / f"{number}.jsonl").write_text("\n".join(lines) + "\n")
    return f"{folder}/*.jsonl"


def jsonl(folder):
    return write_jsonl(folder / "texts"), tokenize(pad=-1)


def documents(folder):
    return write_jsonl(folder / "documents"), tokenize("meta", path="body", pad=-1, add_eos="</s>")


def mds(folder):
    with fb.MDSWriter(out=str(folder / "mds"), columns={"number": "int", "text": "str"}, size_limit=1 << 11) as writer:
        for number, text in enumerate(TEXTS):
            writer.write({"number": number, "text": text})
    return str(folder / "mds"), tokenize(pad=-1, add_bos=False)


def packed_mds(folder):
    options = {"columns": {"text": "str"}, "size_limit": 1 << 11, "compression": "zstd"}
    with fb.MDSWriter(out=str(folder / "packed"), **options) as writer:
        for text in TEXTS:
            writer.write({"text": text})
    return str(folder / "packed"), tokenize(pad=-1)


def tars(folder):
    for part in range(3):
        with tarfile.open(folder / f"{part}.tar", "w") as tar:
            for number in range(part, len(TEXTS), 3):
                for name, content in ((f"{number:03}.cls", b"7"), (f"{number:03}.txt", TEXTS[number].encode())):
                    info = tarfile.TarInfo(name)
                    info.size = len(content)
                    tar.addfile(info, io.BytesIO(content))
    return f"{folder}/{{0..2}}.tar", tokenize("txt", pad=-1)


def files(folder):
    for number, text in enumerate(TEXTS):
        path = folder / f"files/{number % 3}/{number:03}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return fb.Stream(remote=folder / "files", files="each"), tokenize("file", pad=-1)


def parquet(folder):
    for number in (0, 1):
        (folder / f"set-{number}.parquet").write_bytes((PARQUET / f"set-{number}.parquet").read_bytes())
    return f"{folder}/set-*.parquet", tokenize(pad=-1)


def parquet_lists(folder):
    return parquet(folder)[0], fb.Tokens("tokens", pad=-1)


def megatron(folder):
    megatron_files.write(folder / "a", megatron_files.random_documents(1, 70))
    megatron_files.write(folder / "b", megatron_files.random_documents(2, 50))
    return f"{folder}/*.bin", fb.Tokens("tokens", pad=-1)


def ids_in_bytes(folder):
    with fb.MDSWriter(out=str(folder / "ids"), columns={"number": "int", "ids": "bytes"}, size_limit=1 << 10) as writer:
        for number in range(90):
            writer.write({"number": number, "ids": np.arange(1 + number % 17, dtype=np.uint16).tobytes()})
    return str(folder / "ids"), fb.Tokens("ids", stored="uint16", pad=-1)


def ids_in_arrays(folder):
    with fb.MDSWriter(out=str(folder / "arrays"), columns={"ids": "ndarray:uint16"}, size_limit=1 << 10) as writer:
        for number in range(90):
            writer.write({"ids": np.arange(1 + number % 17, dtype=np.uint16)})
    return str(folder / "arrays"), fb.Tokens("ids", pad=-1)


def ids_of_one_length(folder):
    with fb.MDSWriter(out=str(folder / "fixed"), columns={"name": "str", "ids": "ndarray:int32:8"}, size_limit=1 << 10) as writer:
        for number in range(40):
            writer.write({"name": "x" * number, "ids": np.arange(8, dtype=np.int32)})
    return str(folder / "fixed"), fb.Tokens("ids", pad=-1)


SOURCES = [
    jsonl,
    documents,
    mds,
    packed_mds,
    tars,
    files,
    parquet,
    parquet_lists,
    megatron,
    ids_in_bytes,
    ids_in_arrays,
    ids_of_one_length,
]


@pytest.mark.parametrize("source", SOURCES)
def test_lengths_are_those_of_delivered_rows_and_are_counted_once(source, tmp_path):
    remote, field = source(tmp_path)
    lengths, read = counted(remote, field)
    assert read > 0 and lengths == delivered(remote, field) and len(set(lengths)) > (source is not ids_of_one_length)
    assert counted(remote, field) == (lengths, 0)


@pytest.mark.parametrize("source", [jsonl, mds, tars, parquet, megatron, ids_in_bytes])
def test_lengths_of_objects_are_those_of_files(source, tmp_path, bucket, bucket_environment):
    (tmp_path / "set").mkdir()
    remote, field = source(tmp_path / "set")
    prefix = f"lengths-{source.__name__}"
    for path in (tmp_path / "set").rglob("*"):
        if path.is_file():
            bucket.objects[f"{prefix}/{path.relative_to(tmp_path / 'set')}"] = path.read_bytes()
    url = remote.replace(str(tmp_path / "set"), f"s3://bucket/{prefix}")
    lengths, _ = counted(url, field)
    assert lengths == counted(remote, field)[0]
    assert counted(url, field) == (lengths, 0)


@pytest.mark.parametrize("source", [megatron, ids_in_bytes])
def test_no_ids_are_fetched_for_lengths_that_sizes_show(source, tmp_path, bucket, bucket_environment):
    (tmp_path / "set").mkdir()
    remote, field = source(tmp_path / "set")
    prefix = f"sizes-{source.__name__}"
    for path in (tmp_path / "set").rglob("*"):
        if path.is_file():
            bucket.objects[f"{prefix}/{path.relative_to(tmp_path / 'set')}"] = path.read_bytes()
    local = tmp_path / "local"
    stream = fb.Stream(remote=remote.replace(str(tmp_path / "set"), f"s3://bucket/{prefix}"), local=local)
    counted(stream, field)
    kept = [path for path in local.rglob("*") if path.is_file() and path.suffix != ".json" and "lengths-" not in str(path)]
    assert sum(path.stat().st_size for path in kept) == 0, kept


def test_a_selection_has_the_lengths_of_its_samples(tmp_path):
    remote, field = jsonl(tmp_path)
    lengths, _ = counted(remote, field)
    for subset in ("3:50", "0:4, 60:97"):
        stream = fb.Stream(remote=remote, select=fb.Select(subset=subset))
        numbers = [n for part in subset.split(",") for n in range(*map(int, part.split(":")))]
        assert counted(stream, field) == ([lengths[n] for n in numbers], 0)


CHANGES = {
    "tokenizer": lambda folder: fb.Tokenize("text", words("more")),
    "bos": lambda folder: tokenize(add_bos=False),
    "eos": lambda folder: tokenize(add_eos="</s>"),
    "special": lambda folder: tokenize(allowed_special=["</s>"]),
    "utf8": lambda folder: tokenize(errors="replace"),
    "path": lambda folder: tokenize("meta", path="body"),
    "file": lambda folder: write_jsonl(folder / "texts", [*TEXTS[1:], "the quick"]) and tokenize(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_any_change_gives_new_lengths(change, tmp_path):
    remote, field = jsonl(tmp_path)
    counted(remote, field)
    changed = CHANGES[change](tmp_path)
    lengths, read = counted(remote, changed)
    assert read == 4
    rows = dataclasses.replace(changed, pad=-1)
    assert lengths == delivered(remote, rows)


def test_the_form_of_the_rows_does_not_count(tmp_path):
    remote, _ = jsonl(tmp_path)
    lengths, _ = counted(remote, tokenize())
    for rows in ({"length": 3, "pad": 0, "truncate": True}, {"dtype": "uint16"}, {"pad": 1, "pad_to_multiple": 8}):
        assert counted(remote, tokenize(**rows)) == (lengths, 0)


@pytest.mark.parametrize("source", [jsonl, parquet])
def test_fields_of_a_loader_do_not_count(source, tmp_path):
    remote, field = source(tmp_path)
    with fb.Loader(remote=remote, fields={"text": fb.Text("text"), "ids": field}, batch_size=4) as loader:
        next(iter(loader))
    lengths, _ = counted(remote, field)
    assert counted(remote, field) == (lengths, 0)


def test_damage_of_the_kept_lengths_anywhere_is_made_good(tmp_path, user_cache):
    remote, field = jsonl(tmp_path)
    lengths, _ = counted(remote, field)
    (path,) = user_cache.rglob("lengths-*/answers")
    whole = path.read_bytes()
    for place in range(0, len(whole), 29):
        for damaged in (whole[:place], whole[:place] + bytes([whole[place] ^ 255]) + whole[place + 1 :], b"foreign"):
            path.write_bytes(damaged)
            assert counted(remote, field)[0] == lengths
            assert counted(remote, field) == (lengths, 0)


CHILD = """
import sys
from test_length_index import fb, index_lengths, tokenize
index_lengths(fb.Stream(remote=sys.argv[1], local=sys.argv[2]), tokenize())
"""


def started(remote, local):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path])}
    return subprocess.Popen([sys.executable, "-c", CHILD, remote, local], env=env, stderr=subprocess.PIPE)


def records(path, sizes):
    """Shards in a file of lengths: a record has the number of its shard, the lengths and a digest."""
    found, content = [], path.read_bytes() if path.exists() else b""
    place = len(b"forebay filter 1\n")
    while place < len(content):
        shard = int.from_bytes(content[place : place + 4], "little")
        place += 4 + 4 * sizes[shard] + 16
        found.append(shard)
    return found


def test_a_pass_that_was_killed_continues(tmp_path, bucket, bucket_environment):
    remote, field = mds(tmp_path)
    for path in pathlib.Path(remote).iterdir():
        bucket.objects[f"killed/{path.name}"] = path.read_bytes()
    sizes = [shard["samples"] for shard in json.loads((tmp_path / "mds/index.json").read_text())["shards"]]
    local = tmp_path / "local"
    bucket.holds = lambda machine, method, key: key == "killed/shard.00002.mds"
    try:
        with started("s3://bucket/killed", str(local)) as process:
            # One thread waits for the shard, and the rest read all others.
            while not (found := [records(path, sizes) for path in local.glob("lengths-*/answers")]) or len(found[0]) < len(sizes) - 1:
                assert process.poll() is None, process.stderr.read().decode()
                os.sched_yield()
            process.kill()
    finally:
        bucket.holds = lambda *_: False
    stream = fb.Stream(remote="s3://bucket/killed", local=local)
    field = dataclasses.replace(field, add_bos=None)
    lengths, read = counted(stream, field)
    assert read == 1 and lengths == counted(remote, field)[0]


def test_processes_of_a_machine_share_one_pass(tmp_path, bucket, bucket_environment):
    remote, _ = mds(tmp_path)
    for path in pathlib.Path(remote).iterdir():
        bucket.objects[f"shared/{path.name}"] = path.read_bytes()
    sizes = [shard["samples"] for shard in json.loads((tmp_path / "mds/index.json").read_text())["shards"]]
    local = tmp_path / "local"
    processes = [started("s3://bucket/shared", str(local)) for _ in range(3)]
    for process in processes:
        _, errors = process.communicate()
        assert process.returncode == 0, errors.decode()
    (path,) = local.glob("lengths-*/answers")
    assert sorted(records(path, sizes)) == list(range(len(sizes)))


@pytest.mark.parametrize(
    ("source", "names"),
    [
        (mds, "sample 1, shard shard.00000.mds"),
        (jsonl, "sample 1, shard 0.jsonl"),
        (parquet, "row_group 0, row 1, file set-0.parquet"),
        (tars, "sample 1, shard 0.tar"),
        (files, "file 0/003.txt"),
    ],
)
def test_a_sample_that_cannot_be_encoded_is_an_error_that_names_it(source, names, tmp_path):
    remote, field = source(tmp_path)
    strict = words().replace('"unk_token": "?"', '"unk_token": "none"').replace('"fox"', '"wolf"')
    with pytest.raises(DecodeError) as caught:
        index_lengths(remote, dataclasses.replace(field, tokenizer=strict))
    assert "cannot be tokenised" in str(caught.value) and names in str(caught.value)


def test_damage_in_the_middle_names_the_sample_and_keeps_the_rest(tmp_path):
    texts = [text.encode() for text in TEXTS]
    texts[53] = b"fox \xff fox"
    with fb.MDSWriter(out=str(tmp_path / "mds"), columns={"text": "bytes"}, size_limit=1 << 11) as writer:
        for text in texts:
            writer.write({"text": text})
    remote = str(tmp_path / "mds")
    sizes = [shard["samples"] for shard in json.loads((tmp_path / "mds/index.json").read_text())["shards"]]
    shard = next(n for n in range(len(sizes)) if sum(sizes[: n + 1]) > 53)
    with pytest.raises(DecodeError) as caught:
        counted(remote, tokenize())
    message = str(caught.value)
    assert f"sample {53 - sum(sizes[:shard])}" in message and f"shard.{shard:05}" in message and "byte 4" in message
    replaced = tokenize(errors="replace", pad=-1)
    assert counted(remote, replaced)[0] == delivered(remote, replaced)


def test_a_column_that_does_not_suit_names_those_that_there_are(tmp_path):
    remote, _ = mds(tmp_path)
    for field, message in [
        (tokenize("body"), "no such column"),
        (tokenize("number"), "needs a column of text"),
        (fb.Tokens("text"), "needs an ndarray or bytes column"),
    ]:
        with pytest.raises(ConfigError, match=message):
            index_lengths(remote, field)
    with pytest.raises(ConfigError, match="a Tokenize, Tokens or Chat field"):
        index_lengths(remote, fb.Text("text"))


def test_under_a_cache_limit_shards_are_read_one_after_the_other(tmp_path, bucket, bucket_environment):
    (tmp_path / "set").mkdir()
    remote, field = mds(tmp_path / "set")
    for path in pathlib.Path(remote).iterdir():
        bucket.objects[f"limited/{path.name}"] = path.read_bytes()
    whole = sum(path.stat().st_size for path in pathlib.Path(remote).glob("*.mds"))
    stream = fb.Stream(remote="s3://bucket/limited", local=tmp_path / "local")
    lengths = index_lengths(stream, field, cache_limit=40_000).lengths.tolist()
    assert lengths == counted(remote, field)[0]
    assert sum(path.stat().st_size for path in (tmp_path / "local").glob("*.mds")) < max(whole, 40_000)


def test_the_command_shows_the_numbers(tmp_path, capsys):
    remote, field = documents(tmp_path)
    (tmp_path / "tokenizer.json").write_text(words())
    options = ["--tokenizer", str(tmp_path / "tokenizer.json"), "--column", "meta", "--path", "body", "--add-eos", "</s>"]
    assert main(["index", remote, *options]) == 0
    lengths, read = counted(remote, field)
    assert read == 0
    expected = f"{len(lengths)} samples, {sum(lengths)} tokens, the longest has {max(lengths)}"
    assert capsys.readouterr().out.splitlines()[-1] == expected
    assert main(["index", remote, "--tokenizer", str(tmp_path / "none.json")]) == 2
    assert main(["index", remote, *options[:2], "--column", "body"]) == 2
    assert "error: " in capsys.readouterr().err


def test_errors_of_the_data_set_are_the_loaders(tmp_path):
    with pytest.raises(Error):
        index_lengths(tmp_path / "none", tokenize())

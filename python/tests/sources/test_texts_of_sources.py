"""Texts of record files, LitData's chunks and folders of files as token ids: the ids of `tokenizers`, alone and in packs."""

import litdata
import pytest
import tokenizers
from litdata.streaming import Cache
from test_length_index import TEXTS, words
from test_packs import run, sequences
from test_packs import loader as packs
from tf_examples import example, record

import forebay as fb

assert litdata  # Its writer is a part of the package.

EXPECTED = [encoding.ids for encoding in tokenizers.Tokenizer.from_str(words()).encode_batch(TEXTS)]


def of_records(folder):
    for part in range(3):
        records = [record(example({"text": [text.encode()], "number": [1]})) for text in TEXTS[part * 33 : (part + 1) * 33]]
        (folder / f"texts.tfrecord-{part:05}-of-00003").write_bytes(b"".join(records))
    return {"remote": f"{folder}/texts.tfrecord-*"}, "text"


def of_litdata(folder):
    cache = Cache(str(folder / "chunks"), chunk_size=13)
    for number, text in enumerate(TEXTS):
        cache._add_item(number, {"number": number, "text": text})
    cache.done()
    cache.merge()
    return {"remote": str(folder / "chunks")}, "text"


def of_files(folder):
    for number, text in enumerate(TEXTS):
        path = folder / f"files/{number // 33}/{number:03}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return {"streams": [fb.Stream(remote=folder / "files", files="each")]}, "file"


@pytest.fixture(params=[of_records, of_litdata, of_files])
def texts(request, tmp_path, monkeypatch):
    monkeypatch.setenv("LITDATA_CACHE_DIR", str(tmp_path / "litdata"))
    return request.param(tmp_path)


def test_texts_have_the_ids_of_tokenizers(texts):
    data, column = texts
    ids = fb.Tokenize(column, words(), pad=-1)
    with fb.Loader(**data, fields={"ids": ids}, batch_size=10, framework="numpy") as loader:
        assert [[token for token in row.tolist() if token >= 0] for batch in loader for row in batch["ids"]][: len(TEXTS)] == EXPECTED
    short = fb.Tokenize(column, words(), length=4, pad=-1, truncate=True, dtype="int32")
    with fb.Loader(**data, fields={"ids": short}, batch_size=10, framework="numpy") as loader:
        rows = [row.tolist() for batch in loader for row in batch["ids"]]
    assert rows[: len(TEXTS)] == [(ids + [-1] * 4)[:4] for ids in EXPECTED]


def test_texts_are_packed_alike_on_any_number_of_ranks(texts):
    data, column = texts
    field = fb.Tokenize(column, words())
    with packs(data, field, pack={"length": 32}, shuffle=False, order=fb.Order(num_canonical_nodes=1)) as loader:
        named = [sample for step in range(len(loader)) for sample in loader.samples_of(step)]
        found = [ids for batch in loader for ids in sequences(batch)]
    assert found == [EXPECTED[sample.number] for sample in named]
    assert {sample.number for sample in named} == set(range(len(TEXTS)))
    whole, _ = run(data, field, 1, drop_last=True)
    before, state = run(data, field, 2, steps=2)
    assert before == whole[:2]
    assert run(data, field, 4, state, drop_last=True)[0] == whole[2:]

"""Ids of tokenizers with parts of every kind, in random combinations: they are equal to the ids of `tokenizers`."""

import pytest

import forebay as fb

tokenizers = pytest.importorskip("tokenizers")

from made_tokenizers import made, strings  # noqa: E402

EQUAL = "its normalizer makes the added tokens"
"""`tokenizers` finds one of equal added tokens at random."""


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    values = list(strings(0, 300))
    folder = tmp_path_factory.mktemp("texts") / "set"
    with fb.MDSWriter(out=str(folder), columns={"text": "str"}) as writer:
        for value in values:
            writer.write({"text": value})
    return str(folder), values


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_ids_of_any_tokenizer_are_those_of_tokenizers(texts, first):
    remote, values = texts
    for seed in range(first, first + 10):
        document = made(seed)
        tokenizer = tokenizers.Tokenizer.from_str(document)
        tokenizer.no_padding()
        tokenizer.no_truncation()
        for allowed in ((), "all"):
            tokenizer.encode_special_tokens = allowed == ()
            try:
                expected = [encoding.ids for encoding in tokenizer.encode_batch(values)]
            except Exception as error:
                assert "unk" in str(error).lower()  # Some vocabularies have no id for an unknown word.
                continue
            fields = {"ids": fb.Tokenize("text", document, pad=-1, allowed_special=allowed)}
            try:
                with fb.Loader(remote=remote, fields=fields, batch_size=100, framework="numpy") as loader:
                    found = [row[row >= 0].tolist() for batch in loader for row in batch["ids"]]
            except fb.ConfigError as error:
                assert EQUAL in str(error)
                continue
            assert found == expected, (seed, allowed)

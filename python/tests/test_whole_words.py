"""Masks of whole words: the words come from the tokenizer, and the draws belong to the document."""

import json
import random

import numpy as np
import pytest

import forebay as fb
from forebay.errors import ConfigError

tokenizers = pytest.importorskip("tokenizers")

ENDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]

WORDS = ["the", "masking", "of", "unbelievable", "words,", "is", "not:", "wordpieces", "drawn!", "separately"]


def texts(count=60):
    draws = random.Random(3)
    return [" ".join(draws.choice(WORDS) for _ in range(draws.randrange(3, 40))) for _ in range(count)]


def trained(kind):
    """A tokenizer with few tokens, so that most words have several."""
    models = tokenizers.models
    made = {
        "bert": lambda: tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]")),
        "byte_level": lambda: tokenizers.Tokenizer(models.BPE()),
        "unigram": lambda: tokenizers.Tokenizer(models.Unigram()),
    }[kind]()
    options = {"vocab_size": 300 if kind == "byte_level" else 60, "special_tokens": ENDS, "show_progress": False}
    if kind == "bert":
        made.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
        made.train_from_iterator(texts(), tokenizers.trainers.WordPieceTrainer(**options))
        made.post_processor = tokenizers.processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    elif kind == "byte_level":
        made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        made.train_from_iterator(texts(), tokenizers.trainers.BpeTrainer(initial_alphabet=made.pre_tokenizer.alphabet(), **options))
    else:
        made.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
        made.train_from_iterator(texts(), tokenizers.trainers.UnigramTrainer(unk_token="[UNK]", **options))
    return made


def words_of(kind, tokenizer, text):
    """The number of the word of each token; None for a special token."""
    encoding = tokenizer.encode(text)
    if kind == "bert":
        return encoding.ids, encoding.word_ids
    spaces = [text[:end].count(" ") for _, end in encoding.offsets]
    return encoding.ids, spaces


def rows(folder, mask, field=None, **options):
    folder.mkdir(exist_ok=True)
    path = folder / "texts.jsonl"
    if not path.exists():
        path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts()))
    with fb.Loader(remote=str(path), batch_size=1, shuffle=False, framework="numpy", fields={"ids": field(mask)}, **options) as loader:
        return [(batch["ids"][0], batch["labels"][0]) for batch in loader]


@pytest.mark.parametrize("kind", ["bert", "byte_level", "unigram"])
def test_all_tokens_of_a_drawn_word_have_labels(kind, tmp_path):
    tokenizer = trained(kind)
    mask = fb.MaskedLM(mask=4, vocab_size=60, special=[0, 1, 2, 3], whole_words=True, probability=0.3, mask_replace=0.5, random_replace=0.2)
    found = rows(tmp_path, mask, lambda mask: fb.Tokenize("text", tokenizer.to_str(), pad=0, mask=mask))
    drawn, tokens, longest = 0, 0, 0
    for text, (ids, labels) in zip(texts(), found, strict=True):
        before, words = words_of(kind, tokenizer, text)
        chosen = labels != -100
        assert (np.where(chosen, labels, ids) == before).all()
        by_word = {}
        for word, is_chosen in zip(words, chosen, strict=True):
            by_word.setdefault(word, set()).add(bool(is_chosen))
            tokens += 1
        longest = max(longest, max(words.count(word) for word in by_word if word is not None))
        assert by_word.pop(None, {False}) == {False}
        assert all(len(each) == 1 for each in by_word.values()), (text, words, chosen)
        drawn += chosen.sum()
    assert longest > 3 and 0.25 < drawn / tokens < 0.35


def test_the_mask_of_transformers_for_whole_words_adds_no_token(tmp_path):
    collators = pytest.importorskip("transformers.data.data_collator")
    tokenizer = trained("bert")
    mask = fb.MaskedLM(mask=4, vocab_size=60, special=[0, 1, 2, 3], whole_words=True, mask_replace=1, random_replace=0)
    found = rows(tmp_path, mask, lambda mask: fb.Tokenize("text", tokenizer.to_str(), pad=0, mask=mask))
    for text, (ids, labels) in zip(texts(), found, strict=True):
        words = np.array([[-1 if word is None else word for word in tokenizer.encode(text).word_ids]])
        chosen = labels != -100
        theirs = collators.DataCollatorForLanguageModeling._whole_word_mask(words, chosen[None])
        assert (theirs[0] == chosen).all() and (ids[chosen] == 4).all()


def test_words_are_these_of_a_file_or_a_list_of_ids(tmp_path):
    tokenizer = trained("bert")
    (tmp_path / "tokenizer.json").write_text(tokenizer.to_str())
    continues = [id for token, id in tokenizer.get_vocab().items() if token.startswith("##")]
    arguments = {"mask": 4, "vocab_size": 60, "special": [2, 3]}
    field = lambda mask: fb.Tokenize("text", tokenizer.to_str(), pad=0, mask=mask)
    whole = [rows(tmp_path, fb.MaskedLM(whole_words=words, **arguments), field) for words in (True, tmp_path / "tokenizer.json", continues)]
    for others in whole[1:]:
        assert all((a[0] == b[0]).all() and (a[1] == b[1]).all() for a, b in zip(whole[0], others, strict=True))
    single = rows(tmp_path, fb.MaskedLM(**arguments), field)
    assert any((a[1] != b[1]).any() for a, b in zip(whole[0], single, strict=True))
    # Of a field of ids as well, and with the same draws in every run.
    with fb.MDSWriter(out=str(tmp_path / "mds"), columns={"ids": "ndarray:int64"}) as writer:
        for text in texts():
            writer.write({"ids": np.array(tokenizer.encode(text).ids)})
    ids = fb.Tokens("ids", pad=0, mask=fb.MaskedLM(whole_words=continues, **arguments))
    load = lambda: list(fb.Loader(remote=str(tmp_path / "mds"), batch_size=1, shuffle=False, framework="numpy", fields={"ids": ids}))
    first, second = load(), load()
    assert all((a["labels"][0] == b[1]).all() for a, b in zip(first, whole[0], strict=True))
    assert all((a["ids"] == b["ids"]).all() for a, b in zip(first, second, strict=True))


def test_words_that_cannot_be_known_are_named(tmp_path):
    field = lambda mask: fb.Tokenize("text", trained("bert").to_str(), pad=0, mask=mask)
    suffixed = json.loads(trained("byte_level").to_str())
    suffixed["model"]["end_of_word_suffix"] = "</w>"
    (tmp_path / "suffixed.json").write_text(json.dumps(suffixed))
    for words, make, message in [
        (True, lambda mask: fb.Tokens("text", pad=0, mask=mask), "path of a tokenizer.json"),
        (tmp_path / "suffixed.json", field, "marks neither"),
        (b"{}", field, "needs a tokenizer.json"),
        ([1, -2], field, r"whole_words\[1\]"),
        (3, field, "whole_words of MaskedLM"),
    ]:
        with pytest.raises(ConfigError, match=message):
            rows(tmp_path, fb.MaskedLM(mask=4, vocab_size=60, whole_words=words), make)

"""Masked language modelling: labels of rows and of packs, the same on any number of ranks and after a resume."""

import numpy as np
import pytest
from test_packs import DOCUMENTS, loader, of_ids, run

import forebay as fb
from forebay.errors import ConfigError

MASK = 60_001
MASKED = fb.MaskedLM(mask=MASK, vocab_size=60_000, special=[5])


def field(mask=MASKED, **options):
    return fb.Tokens("ids", stored="uint16", mask=mask, **options)


def rows(data, **options):
    """Rows of an epoch with their labels, by the number of the document, padding included."""
    options = {"batch_size": 16, "drop_last": False, "framework": "numpy", "threads": 2, "shuffle": True, **options}
    with fb.Loader(**data, **options) as each:
        found, batches = {}, list(each)
        for step, batch in enumerate(batches):
            for row, sample in enumerate(each.samples_of(step, epoch=0)):
                found[sample.number] = (batch["ids"][row], batch["labels"][row])
        assert list(batches[0]) == ["ids", "labels"]
    return found


def test_rows_of_any_length_have_labels_of_their_tokens(tmp_path):
    data = {"remote": of_ids(tmp_path)}
    fixed = rows(data, fields={"ids": field(length=40, pad=7)})
    padded = rows(data, fields={"ids": field(pad=7, pad_to_multiple=8)})
    cut = rows(data, fields={"ids": field(length=4, pad=7, truncate=True)})
    drawn = masked = 0
    for number, document in enumerate(DOCUMENTS):
        ids, labels = fixed[number]
        size = len(document)
        assert ids.shape == labels.shape == (40,) and labels.dtype == np.int64
        chosen = labels != -100
        assert (np.where(chosen, labels, ids)[:size] == document).all()
        assert (ids[size:] == 7).all() and not chosen[size:].any()
        assert not (labels == 5).any()
        drawn += chosen.sum()
        masked += (ids == MASK).sum()
        for others in (padded, cut):
            count = min(size, len(others[number][0]))
            assert (others[number][0][:count] == ids[:count]).all() and (others[number][1][:count] == labels[:count]).all()
            assert (others[number][1][count:] == -100).all()
        assert len(padded[number][0]) % 8 == 0
    assert 0.12 < drawn / sum(map(len, DOCUMENTS)) < 0.18
    assert 0.75 < masked / drawn < 0.85


@pytest.mark.parametrize("form", ["padding_free", "indexed_mask", "segments", "sequence_id"])
def test_packs_have_the_labels_of_the_documents(form, tmp_path):
    data = {"remote": of_ids(tmp_path)}
    options = {"drop_last": False, "framework": "numpy", "shuffle": True}
    with fb.Loader(**data, **options, batch_size=500, fields={"ids": field(length=40, pad=7)}) as each:
        batch, named = next(iter(each)), each.samples_of(0)
        alone = {sample.number: (batch["ids"][row], batch["labels"][row]) for row, sample in enumerate(named)}
    # The draws belong to the field's name.
    with fb.Loader(**data, **options, batch_size=8, fields={"ids": field()}, window=fb.Pack(16, form=form, pad=7)) as each:
        for step, batch in enumerate(each):
            end = 0
            for sample in each.samples_of(step, epoch=0):
                start = end if form == "padding_free" else sample.row * 16 + sample.offset
                end = start + sample.tokens
                for name, whole in zip(("ids", "labels"), alone[sample.number], strict=True):
                    part = whole[sample.first_token : sample.first_token + sample.tokens]
                    assert (batch[name].reshape(-1)[start:end] == part).all()
            assert batch["labels"].shape == batch["ids"].shape and batch["labels"].dtype == np.int64
            is_pad = batch["ids"] == 7
            assert (batch["labels"][is_pad] == -100).all()


def test_masks_are_the_same_on_any_number_of_ranks_after_a_resume_and_differ_between_epochs(tmp_path):
    data = {"remote": of_ids(tmp_path)}
    whole, _ = run(data, field(), 1, drop_last=True)
    assert run(data, field(), 4, drop_last=True)[0] == whole
    before, state = run(data, field(), 2, steps=3)
    assert before == whole[:3] and run(data, field(), 3, state, drop_last=True)[0] == whole[3:]
    first, second = (rows_of_epoch(data, epoch) for epoch in range(2))
    assert any((first[number] != second[number]).any() for number in range(50))


def rows_of_epoch(data, epoch):
    with fb.Loader(**data, batch_size=500, drop_last=False, fields={"ids": field(length=40, pad=7)}, framework="numpy") as each:
        batches = [next(iter(each)) for _ in range(epoch + 1)]
        return {sample.number: batches[epoch]["labels"][row] for row, sample in enumerate(each.samples_of(0, epoch=epoch))}


def test_a_model_of_bert_trains_on_a_batch(tmp_path):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    ids = field(fb.MaskedLM(mask=103, vocab_size=60_000), pad=0)
    fields = {"input_ids": ids, "attention_mask": fb.AttentionMask("input_ids", "int64")}
    with fb.Loader(remote=of_ids(tmp_path), batch_size=8, fields=fields) as each:
        batch = next(iter(each))
    assert (batch["labels"][batch["attention_mask"] == 0] == -100).all()
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    torch.manual_seed(0)
    model = transformers.BertForMaskedLM(transformers.BertConfig(vocab_size=60_000, **sizes)).eval()
    with torch.no_grad():
        found = model(**batch)
    expected = torch.nn.functional.cross_entropy(found.logits.flatten(0, 1), batch["labels"].flatten())
    assert found.loss.item() == pytest.approx(expected.item())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"field": field(fb.MaskedLM(mask=1, vocab_size=0))}, "vocab_size of MaskedLM is a whole number, at least 1"),
        ({"field": field(fb.MaskedLM(mask=1, vocab_size=9, random_replace=0.3))}, "mask_replace \\+ random_replace of mask"),
        ({"field": field(0.15)}, "mask of Tokens is a MaskedLM"),
        ({"field": field(fim=fb.FillInMiddle(rate=1, prefix=1, middle=2, suffix=3))}, "pass one"),
        ({"field": field(dtype="uint16")}, "signed `dtype`"),
        ({"field": field(), "pack": {"form": "thd"}}, "shifts labels"),
        ({"field": field(), "pack": {"form": "document_ids"}}, "shifts labels"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(options, message, tmp_path):
    with pytest.raises(ConfigError, match=message):
        loader({"remote": of_ids(tmp_path)}, **options)

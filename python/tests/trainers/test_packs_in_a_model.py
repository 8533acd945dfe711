"""Loss of a language model over packs, compared with its loss over each document alone."""

import numpy as np
import pytest

pytest.importorskip("accelerate", reason="the trainers are not installed: python/scripts/frameworks.sh")

import torch  # noqa: E402
from torch.nn.attention.flex_attention import create_block_mask, create_mask  # noqa: E402
from transformers import LlamaConfig, LlamaForCausalLM  # noqa: E402

import forebay as fb  # noqa: E402


@pytest.fixture(scope="module")
def documents():
    draws = np.random.default_rng(1)
    return [draws.integers(3, 60, draws.integers(2, 40)).astype(np.int32) for _ in range(40)]


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    return LlamaForCausalLM(LlamaConfig(vocab_size=64, attn_implementation="sdpa", **sizes)).eval()


def mean_loss(model, batches):
    """Mean over the tokens that a token of the same document precedes, and their number."""
    total, count = 0.0, 0
    with torch.no_grad():
        for batch in batches:
            labelled = int((batch["labels"][:, 1:] != -100).sum())
            # A cache of keys would hide the boundaries of documents from a batch without a mask.
            total += model(**batch, use_cache=False).loss.item() * labelled
            count += labelled
    return total / count, count


def block_mask(sequences):
    """Mask of attention to earlier tokens of the same sequence, by the numbers of the sequences."""
    length = sequences.shape[1]
    return (sequences[:, :, None] == sequences[:, None, :]) & torch.ones(length, length).tril().bool()


def unshifted(labels):
    """Labels for a model that shifts them."""
    return torch.nn.functional.pad(labels[:, :-1], (1, 0), value=-100)


def arguments(form, batch):
    """The model's arguments, as the trainers make them from a batch of `form`."""
    if form == "padding_free":
        return {name: batch[name] for name in ("input_ids", "labels", "position_ids")}
    if form == "indexed_mask":
        mask = block_mask(batch["attention_mask"])[:, None]
        return {name: batch[name] for name in ("input_ids", "labels", "position_ids")} | {"attention_mask": mask}
    if form == "document_ids":
        # The mask of FlexAttention, whole: a block of one token. The model shifts labels itself.
        documents = batch["document_ids"]

        def is_seen(row, _, query, key):
            return (query >= key) & (documents[row, query] == documents[row, key])

        rows, length = documents.shape
        mask = create_mask(is_seen, rows, 1, length, length, device="cpu")
        assert torch.equal(mask[:, 0], block_mask(documents))
        blocks = create_block_mask(is_seen, rows, None, length, length, device="cpu", BLOCK_SIZE=16)
        assert blocks.shape == (rows, 1, length, length)
        return {"input_ids": batch["input_ids"], "labels": unshifted(batch["labels"]), "position_ids": batch["positions"], "attention_mask": mask}
    if form == "thd":
        # Transformer Engine's attention: by the starts with padding, and the tokens of each.
        starts, tokens = batch["cu_seqlens_padded"], batch["cu_seqlens"].diff()
        assert starts[-1] == batch["input_ids"].shape[1] and batch["max_seqlen"] == starts.diff().max()
        numbers = torch.full_like(batch["input_ids"], -1)
        for number, (start, count) in enumerate(zip(starts.tolist(), tokens.tolist(), strict=False)):
            numbers[0, start : start + count] = number
        assert torch.equal(batch["loss_mask"] == 1, batch["labels"] != -100)
        mask = block_mask(numbers)[:, None]
        return {"input_ids": batch["input_ids"], "labels": unshifted(batch["labels"]), "position_ids": batch["position_ids"], "attention_mask": mask}
    sequences, positions = batch["segment_ids"], batch["positions"].long()
    labels = batch["input_ids"].masked_fill((positions == 0) | (sequences == 0), -100)
    mask = block_mask(sequences)[:, None]
    return {"input_ids": batch["input_ids"], "labels": labels, "position_ids": positions, "attention_mask": mask}


@pytest.mark.parametrize("form", ["padding_free", "indexed_mask", "segments", "thd", "document_ids"])
def test_the_loss_over_packs_is_the_loss_over_the_documents(form, documents, model, tmp_path):
    with fb.MDSWriter(out=tmp_path / "data", columns={"ids": "ndarray:int32"}) as writer:
        for ids in documents:
            writer.write({"ids": ids})
    alone = [{"input_ids": (ids := torch.tensor(document[None], dtype=torch.int64)), "labels": ids} for document in documents]
    fields = {"input_ids": fb.Tokens("ids", dtype="int64")}
    window = fb.Pack(64, form=form, pad_sequences_to=8 if form == "thd" else 1)
    with fb.Loader(remote=str(tmp_path / "data"), batch_size=4, drop_last=False, fields=fields, window=window) as loader:
        packed, count = mean_loss(model, (arguments(form, batch) for batch in loader))
    loss, tokens = mean_loss(model, alone)
    assert count == tokens
    assert packed == pytest.approx(loss, abs=1e-5)

"""A small language model on packs of raw text, in the loop of each trainer."""

import importlib
import json
import os
import sys

import torch
from jobs import EPOCHS, SAVED, main
from texts import LENGTH, documents, loader_of

import forebay as fb


def language_model():
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    return LlamaForCausalLM(LlamaConfig(vocab_size=300, attn_implementation="sdpa", **sizes))


def make_loader(rank, form, **arguments):
    return loader_of(rank.folder, form, batch_size=rank.batch_size, **arguments)


def arguments(rank):
    """Arguments of Hugging Face's trainers."""
    return {
        "output_dir": rank.saves,
        "use_cpu": True,
        "num_train_epochs": EPOCHS,
        "save_steps": SAVED,
        "report_to": [],
        "disable_tqdm": True,
        "ddp_backend": "gloo",
    }


def recording(trainer, rank):
    """Subclass of `trainer` that records the documents of each step."""

    class Recording(trainer):
        def training_step(self, model, inputs, *others, **named):
            rank.record(documents(inputs))
            return super().training_step(model, inputs, *others, **named)

    return Recording


def transformers(rank):
    from transformers import TrainingArguments

    from forebay.integrations.transformers import Trainer

    settings = TrainingArguments(**arguments(rank))
    trainer = recording(Trainer, rank)(language_model(), settings, train_dataset=make_loader(rank, "padding_free"))
    trainer.train(resume_from_checkpoint=rank.resumes)


def trl(rank):
    from transformers import PreTrainedTokenizerFast
    from trl import SFTConfig, SFTTrainer

    from forebay.integrations.transformers import LoaderTrainer

    class Trainer(LoaderTrainer, SFTTrainer):
        pass

    end = "<|endoftext|>"
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(rank.folder / "tokenizer.json"), eos_token=end, pad_token=end)
    trainer = recording(Trainer, rank)(
        language_model(),
        SFTConfig(**arguments(rank)),
        train_dataset=make_loader(rank, "padding_free"),
        processing_class=tokenizer,
    )
    trainer.train(resume_from_checkpoint=rank.resumes)


def composer(rank):
    """Composer's Trainer with the batches of llm-foundry."""
    from composer import ComposerModel, Trainer

    from forebay.integrations.torch import DataLoader

    class Model(ComposerModel):
        def __init__(self):
            super().__init__()
            self.model = language_model()

        def forward(self, batch):
            rank.record(documents(batch))
            numbers = batch["sequence_id"]
            mask = (numbers[:, :, None] == numbers[:, None, :]) & torch.ones(LENGTH, LENGTH).tril().bool()
            return self.model(input_ids=batch["input_ids"], attention_mask=mask[:, None], labels=batch["labels"])

        def loss(self, outputs, batch):
            return outputs.loss

    Trainer(
        model=Model(),
        train_dataloader=DataLoader(make_loader(rank, "sequence_id")),
        max_duration=f"{EPOCHS}ep",
        device="cpu",
        save_folder=str(rank.saves),
        save_interval=f"{SAVED}ba",
        save_filename="{batch}.pt",
        load_path=str(rank.saves / f"{SAVED}.pt") if rank.resumes else None,
        save_overwrite=True,
        progress_bar=False,
    ).fit()


def torchtitan(rank):
    """torchtitan's data loader, which repeats epochs, in a loop over steps as its trainer's."""
    from torch.nn.parallel import DistributedDataParallel
    from torchtitan_job import Batches

    texts = make_loader(rank, "document_ids", transform=lambda batch: (batch, batch["labels"]))
    loader = Batches.Config().build(loader=texts)
    model = DistributedDataParallel(torch.nn.Embedding(300, 300))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step, saved = 0, rank.folder / "torchtitan.pt"
    if rank.resumes:
        state = torch.load(saved)
        loader.load_state_dict(state["loader"])
        step = SAVED
    batches = iter(loader)
    while step < EPOCHS * len(texts):
        step += 1
        inputs, labels = next(batches)
        rank.record(documents(inputs))
        torch.nn.functional.cross_entropy(model(inputs["input_ids"]).flatten(0, 1), labels.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()
        if rank.rank == 0 and step == SAVED and rank.job == "killed":
            torch.save({"loader": loader.state_dict()}, saved)


def jax(rank):
    """A loop of JAX on each process; the processes share no arrays."""
    import jax
    import jax.numpy as jnp

    @jax.jit
    def train_step(weights, ids, segments):
        def loss(weights):
            scores = jax.nn.log_softmax(weights[ids[:, :-1]])
            losses = -jnp.take_along_axis(scores, ids[:, 1:, None], 2)[:, :, 0]
            return jnp.where((segments[:, 1:] == segments[:, :-1]) & (segments[:, 1:] > 0), losses, 0).sum()

        return weights - 1e-3 * jax.grad(loss)(weights)

    loader = make_loader(rank, "segments", framework="jax")
    weights, saved = jnp.zeros((300, 300)), rank.folder / "jax.json"
    if rank.resumes:
        loader.load_state_dict(json.loads(saved.read_text()))
    for _ in range(loader.epoch, EPOCHS):
        for step, batch in enumerate(loader, loader.first_batch + 1):
            rank.record(documents(batch))
            weights = train_step(weights, batch["input_ids"], batch["segment_ids"])
            if rank.rank == 0 and step == SAVED and rank.job == "killed":
                saved.write_text(json.dumps(loader.state_dict()))
            torch.distributed.barrier()


LLAMA = "transformers.models.llama.modeling_llama"

LIBRARIES = {
    composer: ["composer", LLAMA],
    jax: ["jax.numpy"],
    torchtitan: ["torchtitan_job"],
    transformers: ["forebay.integrations.transformers", LLAMA],
    trl: ["trl.trainer.sft_trainer", "forebay.integrations.transformers", LLAMA],
}
"""Modules that every rank needs, which are imported once for all of them."""

if __name__ == "__main__":
    os.environ["JAX_PLATFORMS"] = "cpu"
    (trainer,) = (trainer for trainer in LIBRARIES if trainer.__name__ == sys.argv[2])
    for module in LIBRARIES[trainer]:
        importlib.import_module(module)
    main(trainer)

"""Hugging Face's Trainer, with its own checkpoints and gradient accumulation."""

import pytest
import torch
from jobs import EPOCHS, OTHER_BATCHES, SAVED, main
from transformers import TrainingArguments

import forebay as fb
from forebay.integrations.transformers import Trainer


class Model(torch.nn.Module):
    def __init__(self, rank):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.rank = rank

    def forward(self, x):
        return {"loss": self.layer(self.rank.step({"x": x})).square().mean()}


def train(rank):
    arguments = TrainingArguments(
        output_dir=rank.saves,
        use_cpu=True,
        num_train_epochs=EPOCHS,
        gradient_accumulation_steps=2,
        save_steps=SAVED // 2,
        report_to=[],
        disable_tqdm=True,
        ddp_backend="gloo",
    )
    trainer = Trainer(Model(rank), arguments, train_dataset=rank.loader())
    saved = str(rank.saves / f"checkpoint-{SAVED // 2}") if rank.resumes else None
    if rank.job in OTHER_BATCHES:
        # Trainer counts the steps of the whole training in batches.
        with pytest.raises(fb.ConfigError, match="resume with the global batch size"):
            trainer.train(resume_from_checkpoint=saved)
    else:
        trainer.train(resume_from_checkpoint=saved)


if __name__ == "__main__":
    main(train, OTHER_BATCHES)

"""Hugging Face's Trainer, with its own checkpoints and gradient accumulation."""

import torch
from jobs import EPOCHS, SAVED, main
from transformers import TrainingArguments

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
    trainer.train(resume_from_checkpoint=str(rank.saves / f"checkpoint-{SAVED // 2}") if rank.resumes else None)


if __name__ == "__main__":
    main(train)

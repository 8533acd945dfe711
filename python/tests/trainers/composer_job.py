"""Composer's Trainer, with its own checkpoints."""

import torch
from composer import ComposerModel, Trainer
from jobs import EPOCHS, OTHER_BATCHES, SAVED, main

from forebay.integrations.torch import DataLoader


class Model(ComposerModel):
    def __init__(self, rank):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.rank = rank

    def forward(self, batch):
        return self.layer(self.rank.step(batch))

    def loss(self, outputs, batch):
        return outputs.square().mean()


def train(rank):
    trainer = Trainer(
        model=Model(rank),
        train_dataloader=DataLoader(rank.loader()),
        max_duration=f"{EPOCHS}ep",
        device="cpu",
        save_folder=str(rank.saves),
        save_interval=f"{SAVED}ba",
        save_filename="{batch}.pt",
        load_path=str(rank.saves / f"{SAVED}.pt") if rank.resumes else None,
        save_overwrite=True,
        progress_bar=False,
    )
    trainer.fit()


if __name__ == "__main__":
    main(train, OTHER_BATCHES)

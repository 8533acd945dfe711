"""Lightning's Trainer, with its own checkpoints."""

import warnings

import lightning
import torch
from jobs import EPOCHS, OTHER_BATCHES, SAVED, main
from lightning.pytorch.callbacks import ModelCheckpoint

warnings.filterwarnings("ignore", module="lightning")


class Module(lightning.LightningModule):
    def __init__(self, rank):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.rank = rank

    def training_step(self, batch, batch_index):
        return self.layer(self.rank.step(batch)).square().mean()

    def validation_step(self, batch, batch_index):
        self.log("loss", self.layer(batch["x"].float()[:, None]).mean(), sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=1e-3)


def fit(module, rank, *loaders):
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=rank.ranks,
        strategy="ddp",
        max_epochs=EPOCHS,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[ModelCheckpoint(rank.saves, "{step}", every_n_train_steps=SAVED, save_top_k=-1)],
    )
    saved = rank.saves / f"step={SAVED}.ckpt" if rank.resumes else None
    trainer.fit(module, *loaders, ckpt_path=saved)


def train(rank):
    fit(Module(rank), rank, rank.loader(), rank.loader(shuffle=False))


if __name__ == "__main__":
    main(train, OTHER_BATCHES)

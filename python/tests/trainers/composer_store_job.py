"""Composer's Trainer, with checkpoints on the store that the variable SAVES names."""

import os
import tempfile

from composer import Trainer
from composer_job import Model
from jobs import EPOCHS, SAVED, main

from forebay.integrations.composer import CheckpointSaver
from forebay.integrations.torch import DataLoader


def train(rank):
    # A process that is killed leaves its files there.
    tempfile.tempdir = str(rank.folder)
    # Only the checkpoint is certain that training has waited for before the kill.
    saves = CheckpointSaver(os.environ["SAVES"] + "/{run_name}", save_interval=f"{SAVED}ba", wait=True)
    trainer = Trainer(
        model=Model(rank),
        train_dataloader=DataLoader(rank.loader()),
        max_duration=f"{EPOCHS}ep",
        device="cpu",
        callbacks=[saves],
        run_name="whole" if rank.job == "whole" else "run",
        autoresume=True,
        progress_bar=False,
    )
    trainer.fit()
    trainer.close()


if __name__ == "__main__":
    main(train)

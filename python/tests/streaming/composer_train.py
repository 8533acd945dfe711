"""Trains with Composer's Trainer, as its users write it, and records which samples each step saw. Run by
test_composer.py."""

import argparse
import json
import os

import torch
from composer import ComposerModel, Trainer
from composer.core import Callback
from streaming import StreamingDataLoader, StreamingDataset


class Regression(ComposerModel):
    """Linear model of the numbers: the test only needs a model that trains."""

    def __init__(self):
        super().__init__()
        self.line = torch.nn.Linear(1, 1)

    def forward(self, batch):
        return self.line(batch["number"].float()[:, None] / 1000)

    def loss(self, outputs, batch):
        return torch.nn.functional.mse_loss(outputs[:, 0], batch["number"].float() / 1000)


class Record(Callback):
    """Appends the samples of each step, and Composer's position of the training."""

    def __init__(self, path):
        self.file = open(path, "a")

    def batch_end(self, state, logger):
        time = state.timestamp
        step = {"epoch": int(time.epoch), "numbers": state.batch["number"].tolist()}
        self.file.write(json.dumps(step) + "\n")
        self.file.flush()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--remote", required=True)
    parser.add_argument("--cache", required=True)
    parser.add_argument("--record", required=True)
    parser.add_argument("--save", required=True)
    parser.add_argument("--load")
    parser.add_argument("--until", required=True)
    parser.add_argument("--global-batch", type=int, default=8)
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    batch = args.global_batch // int(os.environ.get("WORLD_SIZE", 1))
    dataset = StreamingDataset(
        remote=args.remote, local=args.cache, batch_size=batch, shuffle=True, num_canonical_nodes=2
    )
    trainer = Trainer(
        model=Regression(),
        train_dataloader=StreamingDataLoader(dataset, batch_size=batch, num_workers=args.workers),
        max_duration=args.until,
        callbacks=[Record(f"{args.record}.{os.environ.get('RANK', 0)}")],
        save_folder=args.save,
        save_interval="1ba",
        save_filename="{batch}.pt",
        save_latest_filename=None,
        save_num_checkpoints_to_keep=-1,
        load_path=args.load,
        device="cpu",
        progress_bar=False,
        log_to_console=False,
    )
    trainer.fit()
    trainer.close()


if __name__ == "__main__":
    main()

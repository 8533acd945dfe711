"""Lightning's Trainer, which starts the remaining processes of a job itself: it runs this file again for each of them."""

import argparse
import os
import signal
import subprocess
import sys
from pathlib import Path

import torch
from jobs import RANKS, Rank
from lightning_job import Module, fit


class WithLoaders(Module):
    """Makes its loaders in hooks, after Lightning has made the process group."""

    def train_dataloader(self):
        return self.rank.loader()

    def val_dataloader(self):
        return self.rank.loader(shuffle=False)


def train(rank):
    torch.set_num_threads(1)
    fit(WithLoaders(rank), rank)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--job", choices=RANKS)
    arguments = parser.parse_args()
    if arguments.job is None:
        # Without the undisturbed job: each start imports Lightning in every process.
        for job in ("killed", "resumed"):
            code = subprocess.run([sys.executable, __file__, str(arguments.folder), "--job", job]).returncode
            assert code == -signal.SIGKILL if job == "killed" else code == 0, f"the job {job} ended with {code}"
    else:
        train(Rank(arguments.job, int(os.environ.get("LOCAL_RANK", 0)), RANKS[arguments.job], arguments.folder))

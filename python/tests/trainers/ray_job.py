"""Ray Train: a worker is killed, and a run of the same name resumes Ray's last checkpoint on more workers."""

import argparse
import os
import tempfile
from pathlib import Path

import ray
import ray.train.torch
import torch
from jobs import EPOCHS, RANKS, SAVED, Rank


def train(config):
    context = ray.train.get_context()
    rank = Rank(config["job"], context.get_world_rank(), context.get_world_size(), Path(config["folder"]))
    model = ray.train.torch.prepare_model(torch.nn.Linear(1, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    loader = rank.loader()
    if checkpoint := ray.train.get_checkpoint():
        with checkpoint.as_directory() as folder:
            saved = torch.load(Path(folder, "state.pt"))
        model.load_state_dict(saved["model"])
        loader.load_state_dict(saved["loader"])
    for _ in range(loader.epoch, EPOCHS):
        for step, batch in enumerate(loader, loader.first_batch + 1):
            model(rank.step(batch)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            if rank.job == "killed" and step == SAVED:
                report({"model": model.state_dict(), "loader": loader.state_dict()}, {"step": step})


def report(state, metrics):
    with tempfile.TemporaryDirectory() as folder:
        torch.save(state, Path(folder, "state.pt"))
        leads = ray.train.get_context().get_world_rank() == 0
        ray.train.report(metrics, checkpoint=ray.train.Checkpoint.from_directory(folder) if leads else None)
    # Waits until the checkpoint is registered, after which the worker is killed.
    ray.train.get_all_reported_checkpoints()


def run(job, folder):
    ray.train.torch.TorchTrainer(
        train,
        train_loop_config={"job": job, "folder": str(folder)},
        torch_config=ray.train.torch.TorchConfig(backend="gloo"),
        scaling_config=ray.train.ScalingConfig(num_workers=RANKS[job]),
        run_config=ray.train.RunConfig(name="run", storage_path=str(folder)),
    ).fit()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    os.environ["RAY_TRAIN_V2_ENABLED"] = "1"
    ray.init(num_cpus=max(RANKS.values()), include_dashboard=False, log_to_driver=False)
    try:
        run("killed", folder)
    except ray.train.WorkerGroupError:
        run("resumed", folder)

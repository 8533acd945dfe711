"""Trains a small language model on tokens in a bucket, from the newest checkpoint in that bucket on.

A job that was killed continues wherever this program is started next: in a different cloud, on a different number of machines and
processes. Every step has the samples of a job that was never killed, and on processors of one kind the weights are the
same, bit for bit. `torchrun.sh`, `slurm.sh`, `kubernetes.yaml` and `skypilot.yaml` start it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

import forebay as fb
from forebay import checkpoint

TOKENS, LENGTH = 256, 33
"""Different tokens, and tokens of a sample."""

CANONICAL_NODES = 12
"""Units of the sample order: the same number in every cloud, and a multiple of the machines of each."""

SCALE = 2.0**32
"""Steps per unit of a gradient in fixed point: whole numbers have the same sum in any order."""


class Model(torch.nn.Module):
    """Predicts the next token. It draws nothing at random: dropout would need the state of its generator."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(TOKENS, 32)
        self.memory = torch.nn.GRU(32, 32, batch_first=True)
        self.head = torch.nn.Linear(32, TOKENS)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        predicted = self.head(self.memory(self.embedding(tokens[:, :-1]))[0])
        return torch.nn.functional.cross_entropy(predicted.flatten(0, 1), tokens[:, 1:].flatten())


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="data set, such as s3://bucket/tokens")
    parser.add_argument("--checkpoints", required=True, help="folder for them, such as s3://bucket/run")
    parser.add_argument("--shards", required=True, help="folder for them on this machine's disk")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--global-batch", type=int, default=24, help="samples of a step, on all processes together")
    parser.add_argument("--save-every", type=int, default=3, help="steps from a checkpoint to the next")
    parser.add_argument("--keep", type=int, default=3, help="number of checkpoints that stay")
    return parser.parse_args(given)


def train(args: argparse.Namespace, before_step: Callable[[int, Any], None] = lambda step, batch: None) -> None:
    """Trains to the end of the last epoch. The process group exists.

    Args:
        args: The arguments of the command.
        before_step: Called with the number of each step, from 1, and its batch.
    """
    if args.global_batch % dist.get_world_size():
        raise SystemExit(f"--global-batch {args.global_batch} has to be a multiple of the {dist.get_world_size()} processes")
    torch.set_num_threads(1)  # The order of the sums within a product depends on the number of threads.
    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    loader = fb.Loader(
        remote=args.data,
        local=args.shards,
        batch_size=args.global_batch // dist.get_world_size(),
        drop_last=True,
        shuffle=True,
        order=fb.Order(num_canonical_nodes=CANONICAL_NODES),
        fields={"tokens": fb.Tokens("tokens", LENGTH), "id": fb.Scalar("id")},
    )
    step = saved = 0
    if (last := newest(args.checkpoints)) is not None:
        state = last.load()
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        loader.load_state_dict(last.data)
        step = saved = last.step or 0
    with loader:
        for _ in range(loader.epoch, args.epochs):
            for batch in loader:
                step += 1
                before_step(step, batch)
                learn(model, optimizer, batch["tokens"], args.global_batch)
                if step % args.save_every == 0:
                    save(model, optimizer, loader, step, args)
                    saved = step
        if saved < step:
            save(model, optimizer, loader, step, args)


def newest(checkpoints: str) -> checkpoint.Checkpoint | None:
    """Returns the newest checkpoint that is whole: the one that rank 0 finds, on every rank."""
    found: list[str | None] = [None]
    if dist.get_rank() == 0 and (last := checkpoint.latest(checkpoints)) is not None:
        found = [last.url]
    dist.broadcast_object_list(found)
    return None if found[0] is None else checkpoint.Checkpoint.open(found[0])


def save(model: Model, optimizer: torch.optim.Optimizer, loader: fb.Loader, step: int, args: argparse.Namespace) -> None:
    """Saves a checkpoint. All ranks call it."""
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    checkpoint.save(state, f"{args.checkpoints}/step-{step:06}", step=step, data=loader, keep=args.keep)


def learn(model: Model, optimizer: torch.optim.Optimizer, tokens: torch.Tensor, global_batch: int) -> None:
    """Takes a step with the mean gradient of the global batch; `tokens` are this rank's samples of it.

    Floats have a different sum in a different order, and the ranks decide the order. So each sample has a separate
    gradient, whatever else is in the batch, and the sum is one of whole numbers.
    """
    parameters = list(model.parameters())
    total = torch.zeros(sum(parameter.numel() for parameter in parameters), dtype=torch.int64)
    for sample in tokens:
        gradients = torch.autograd.grad(model(sample[None]), parameters)
        fixed = torch.cat([gradient.flatten() for gradient in gradients]).double() * SCALE
        # False for NaN as well: a value without a fixed-point form would become any number.
        if not fixed.abs().max() * global_batch < 2.0**63:
            raise SystemExit("a gradient is too large, or is not a number")
        total += fixed.round().long()
    dist.all_reduce(total)
    mean = (total.double() / (SCALE * global_batch)).float()
    for parameter, gradient in zip(parameters, mean.split([parameter.numel() for parameter in parameters])):
        parameter.grad = gradient.view_as(parameter)
    optimizer.step()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    train(arguments())
    dist.destroy_process_group()

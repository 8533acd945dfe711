"""torchtitan's data loader and checkpoint manager, in a loop over steps as its trainer's."""

from dataclasses import dataclass

import torch
from jobs import OTHER_BATCHES, SAVED, main
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict, set_optimizer_state_dict
from torch.nn.parallel import DistributedDataParallel
from torchtitan.components.checkpoint import CheckpointManager
from torchtitan.components.dataloader import BaseDataLoader


class Batches(BaseDataLoader):
    """Pairs of inputs and labels, epoch after epoch: torchtitan's trainer stops where its data loader ends."""

    @dataclass(kw_only=True, slots=True)
    class Config(BaseDataLoader.Config):
        pass

    def __init__(self, config, *, loader):
        self.loader = loader

    def __iter__(self):
        while True:
            yield from self.loader

    def state_dict(self):
        return self.loader.state_dict()

    def load_state_dict(self, state):
        self.loader.load_state_dict(state)


class Optimizer:
    def __init__(self, model, optimizer):
        self.parts = model, optimizer

    def state_dict(self):
        return get_optimizer_state_dict(*self.parts)

    def load_state_dict(self, state):
        set_optimizer_state_dict(*self.parts, state)


class Trainer:
    """Part of torchtitan's trainer that has a state."""

    step = 0

    def state_dict(self):
        return {"step": self.step}

    def load_state_dict(self, state):
        self.step = state["step"]


def train(rank):
    model = DistributedDataParallel(torch.nn.Linear(1, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    trainer, loader = Trainer(), Batches.Config().build(loader=rank.loader(transform=lambda batch: ({"input": batch}, batch["x"])))
    schedule = torch.optim.lr_scheduler.ConstantLR(optimizer)
    checkpoints = CheckpointManager.Config(enable=True, folder=str(rank.saves), interval=SAVED, keep_latest_k=0).build(
        dataloader=loader,
        model_parts=[model.module],
        optimizers=Optimizer(model, optimizer),
        lr_schedulers=schedule,
        states={"train_state": trainer},
        sd_adapter=None,
    )
    assert checkpoints.load() == rank.resumes
    batches = iter(loader)
    while trainer.step < rank.steps:
        trainer.step += 1
        inputs, labels = next(batches)
        (model(rank.step(inputs["input"])) - labels[:, None]).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        checkpoints.save(trainer.step)
    checkpoints.close()


if __name__ == "__main__":
    main(train, OTHER_BATCHES)

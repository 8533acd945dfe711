"""Loop over steps: everything with a state is saved by torch.distributed.checkpoint."""

import torch
import torch.distributed.checkpoint as dcp
from jobs import OTHER_BATCHES, SAVED, main
from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
from torch.nn.parallel import DistributedDataParallel


class Progress:
    """Steps of the loop and the model's weights."""

    def __init__(self, model):
        self.model, self.step = model, 0

    def state_dict(self):
        return {"model": get_model_state_dict(self.model), "step": torch.tensor(self.step)}

    def load_state_dict(self, state):
        set_model_state_dict(self.model, state["model"])
        self.step = int(state["step"])


def forever(loader):
    while True:
        yield from loader


def train(rank):
    model = DistributedDataParallel(torch.nn.Linear(1, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    loader, progress = rank.loader(), Progress(model)
    states = {"progress": progress, "dataloader": loader}
    if rank.resumes:
        dcp.load(states, checkpoint_id=rank.saves / f"step-{SAVED}")
    batches = forever(loader)
    while progress.step < rank.steps:
        model(rank.step(next(batches))).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        progress.step += 1
        if progress.step % SAVED == 0:
            dcp.save(states, checkpoint_id=rank.saves / f"step-{progress.step}")


if __name__ == "__main__":
    main(train, OTHER_BATCHES)

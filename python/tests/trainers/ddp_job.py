"""Plain DistributedDataParallel and `torch.save`."""

import torch
from jobs import EPOCHS, OTHER_BATCHES, SAVED, main
from torch.nn.parallel import DistributedDataParallel


def train(rank):
    model = DistributedDataParallel(torch.nn.Linear(1, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    loader = rank.loader()
    if rank.resumes:
        saved = torch.load(rank.saves)
        model.load_state_dict(saved["model"])
        loader.load_state_dict(saved["loader"])
    for _ in range(loader.epoch, EPOCHS):
        for step, batch in enumerate(loader, loader.first_batch + 1):
            model(rank.step(batch)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            if rank.job == "killed" and step == SAVED and rank.rank == 0:
                torch.save({"model": model.state_dict(), "loader": loader.state_dict()}, rank.saves)


if __name__ == "__main__":
    main(train, OTHER_BATCHES)

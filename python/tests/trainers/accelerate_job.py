"""Accelerate, with `prepare`, `save_state` and `load_state`."""

import torch
from accelerate import Accelerator
from jobs import EPOCHS, OTHER_BATCHES, SAVED, main

from forebay.integrations.accelerate import DataLoader


def train(rank):
    accelerator = Accelerator(cpu=True)
    model = torch.nn.Linear(1, 1)
    model, optimizer, loader = accelerator.prepare(
        model, torch.optim.SGD(model.parameters(), lr=1e-3), DataLoader(rank.loader())
    )
    step, start = 0, 0
    if rank.resumes:
        accelerator.load_state(rank.saves)
        step, start = SAVED, 0
    for epoch in range(start, EPOCHS):
        loader.set_epoch(epoch)
        for batch in loader:
            loss = model(rank.step(batch)).square().mean()
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            step += 1
            if step == SAVED:
                accelerator.save_state(rank.saves)


if __name__ == "__main__":
    main(train, OTHER_BATCHES)

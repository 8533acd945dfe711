"""Figures of a training step, and of its wait for batches."""

import time

from . import peers, rates
from .setting import crops, each


def steps(setting, source):
    """Measures steps of the scale's torchvision model in bf16 on batches of `source`, which yields pictures and labels
    on the device: pictures per second, and the share of time in which steps waited for their batch. The first steps do
    not count, and none starts after `seconds` of the steps that count.
    """
    import torchvision.models

    framework, scale = setting.framework, setting.scale
    torch = framework.torch
    model = torchvision.models.get_model(scale.model).to(framework.on, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    waited, begun, done = 0.0, None, 0
    for step in range(scale.warm_up + scale.steps):
        if step == scale.warm_up:
            waited, begun, cpu = 0.0, time.perf_counter(), rates.cpu_seconds()
        asked = time.perf_counter()
        if done and asked - begun > scale.training_seconds:
            break
        pictures, labels = next(source)
        # The copy of the batch may be in flight while the device is idle after the last step.
        framework.synchronize()
        waited += time.perf_counter() - asked
        with torch.autocast(framework.on, dtype=torch.bfloat16):
            pictures = pictures.to(memory_format=torch.channels_last).float() / 255
            loss = torch.nn.functional.cross_entropy(model(pictures), labels % 1000)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        # At most one step ahead, so that a wait for a batch is measured as a wait.
        framework.synchronize()
        done += step >= scale.warm_up
    wall, cpu = time.perf_counter() - begun, rates.cpu_seconds() - cpu
    rate = done * scale.batch / wall
    return {"steps": done, "pictures_per_s": rate, "share_waiting_for_data": waited / wall, "cpus_busy": cpu / wall}


def _synthetic(setting, data, workers, row):
    torch, scale = setting.framework.torch, setting.scale
    pictures = torch.randint(0, 256, (scale.batch, 3, scale.side, scale.side), dtype=torch.uint8, device=setting.framework.on)
    labels = torch.zeros(scale.batch, dtype=torch.int64, device=setting.framework.on)
    while True:
        yield pictures, labels


def _forebay(setting, data, workers, row, device_decode=False):
    scale, taken = setting.scale, 0
    kwargs = {"fields": crops(scale.side), "batch_size": scale.batch, "drop_last": True}
    engine = {"memory": setting.memory(), "device_decode": device_decode}
    with rates.warnings(row), setting.on_device(data.folder, times=scale.times, engine=engine, **kwargs) as batches:
        try:
            while True:
                for batch in each(batches):
                    taken += 1
                    yield batch["x"], batch["y"]
        finally:
            stats = batches.stats()
            row |= {name: stats[name] for name in ("counters", "notes", "stages")}
            if device_decode:
                row |= rates.fell_back(stats, taken * scale.batch, scale.batch)


def _forebay_device_decode(*arguments):
    return _forebay(*arguments, device_decode=True)


def _data_loader(setting, data, workers, row):
    row["workers"] = workers
    while True:
        for pictures, labels in peers.data_loader(setting, data, workers):
            yield pictures.to(setting.framework.on, non_blocking=True), labels.to(setting.framework.on, non_blocking=True)


SOURCES = {
    "synthetic": _synthetic,
    "forebay": _forebay,
    "forebay, device_decode": _forebay_device_decode,
    "DataLoader": _data_loader,
}
"""Sources of batches by name."""


def training(setting, data, name, workers, synthetic_rate=None):
    """Measures steps with the source `name`, also as a share of the rate without loading."""
    row = {}
    source = SOURCES[name](setting, data, workers, row)
    try:
        found = steps(setting, source)
    finally:
        # A loader's statistics are complete at its end.
        source.close()
    if synthetic_rate:
        found["of_synthetic"] = found["pictures_per_s"] / synthetic_rate
    return {**found, **row}

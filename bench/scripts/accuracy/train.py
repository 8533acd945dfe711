"""Trains a small ResNet on the pictures of one loader and reports its accuracy after every epoch.

    train.py CONFIG-AS-JSON

CONFIG: `loader` (forebay or pillow), `recipe`, `seed`, `train` and `val` (folders with MDS shards), `classes`, `epochs`, `batch`,
`batches` (per epoch), `crop` (pixels), `cpus`. Both loaders deliver the same samples in the same order, and each draws its own numbers for the recipe;
the network starts from the same weights. The last line on standard output is a JSON object: `curve` (for each epoch: validation
accuracy in percent, training loss), `order` (a digest of the labels in the order they came in), `seconds`, `versions`.
"""

import hashlib
import json
import os
import sys
import time

import recipes
import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    """Two convolutions with a skip connection."""

    def __init__(self, inside, out, stride):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(inside, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU())
        self.second = nn.Sequential(nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out))
        same = stride == 1 and inside == out
        around = nn.Sequential(nn.Conv2d(inside, out, 1, stride, bias=False), nn.BatchNorm2d(out))
        self.around = nn.Identity() if same else around

    def forward(self, x):
        return functional.relu(self.second(self.first(x)) + self.around(x))


def network(classes):
    """A ResNet-10 with a quarter of the usual channels."""
    widths = (16, 32, 64, 128)
    stem = nn.Sequential(nn.Conv2d(3, widths[0], 3, 2, 1, bias=False), nn.BatchNorm2d(widths[0]), nn.ReLU())
    blocks = [Block(a, b, 2 if a != b else 1) for a, b in zip((widths[0], *widths), widths)]
    return nn.Sequential(stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], classes))


def forebay_batches(config, train):
    """Batches of `forebay.Loader`, without end for training: pictures, their classes (mixed or not), their classes."""
    import forebay as fb

    crop = config["crop"]
    if train:
        fields = recipes.forebay_fields(config, "image", "class")
    else:
        ops = (fb.Resize(crop + crop // 7), fb.CenterCrop(crop), fb.Normalize(*recipes.NORMALISED))
        fields = {"x": fb.Image("image", *ops), "y": fb.Scalar("class", dtype="int64")}
    loader = fb.Loader(
        local=config["train" if train else "val"],
        batch_size=config["batch"],
        shuffle=train,
        seed=config["seed"],
        fields={**fields, "class": fb.Scalar("class", dtype="int64")},
        threads=1,
    )
    return lambda: ((batch["x"], batch["y"], batch["class"]) for batch in loader)


def pillow_batches(config, train):
    """Batches of MosaicML streaming: Pillow decodes, torchvision transforms."""
    from streaming import StreamingDataset
    from torch.utils.data import DataLoader, default_collate
    from torchvision.transforms import v2

    crop = config["crop"]
    if train:
        transform, mix = recipes.torchvision_transform(config), recipes.torchvision_mix(config)
    else:
        to_floats = [v2.PILToTensor(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(*recipes.NORMALISED)]
        transform, mix = v2.Compose([v2.Resize(crop + crop // 7), v2.CenterCrop(crop), *to_floats]), None

    class Pictures(StreamingDataset):
        def __getitem__(self, at):
            sample = super().__getitem__(at)
            return transform(sample["image"].convert("RGB")), sample["class"]

    def collate(samples):
        x, y = default_collate(samples)
        return (x, y, y) if mix is None else (*mix(samples), y)

    dataset = Pictures(
        local=config["train" if train else "val"],
        batch_size=config["batch"],
        shuffle=train,
        seed=config["seed"],
    )
    return DataLoader(dataset, config["batch"], num_workers=1, persistent_workers=True, collate_fn=collate).__iter__


def versions(loader):
    found = {"torch": torch.__version__}
    if loader == "forebay":
        import forebay

        return {**found, "forebay": forebay.__version__}
    import PIL
    import streaming
    import torchvision

    more = {"pillow": PIL.__version__, "streaming": streaming.__version__, "torchvision": torchvision.__version__}
    return {**found, **more}


def main():
    config = json.loads(sys.argv[1])
    os.sched_setaffinity(0, config["cpus"])
    torch.set_num_threads(len(config["cpus"]))
    make = {"forebay": forebay_batches, "pillow": pillow_batches}[config["loader"]]
    train, val = make(config, True), make(config, False)
    torch.manual_seed(config["seed"])
    model = network(config["classes"]).to(memory_format=torch.channels_last)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4, nesterov=True)
    steps = config["epochs"] * config["batches"]
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 0.1, total_steps=steps + 1)
    held_out = list(val())
    start, order, curve = time.perf_counter(), hashlib.sha256(), []
    for epoch in range(1, config["epochs"] + 1):
        model.train()
        losses = []
        for x, y, classes in train():
            order.update(classes.numpy().tobytes())
            loss = functional.cross_entropy(model(x.contiguous(memory_format=torch.channels_last)), y)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            schedule.step()
            losses.append(loss.item())
        model.eval()
        with torch.no_grad():
            hits = sum(int((model(x).argmax(1) == y).sum()) for x, y, _ in held_out)
        accuracy = 100 * hits / sum(len(y) for _, y, _ in held_out)
        curve.append({"accuracy": accuracy, "loss": sum(losses) / len(losses)})
        print(f"  epoch {epoch} of {config['epochs']}: {accuracy:.1f} % right", file=sys.stderr, flush=True)
    report = {"curve": curve, "order": order.hexdigest(), "seconds": time.perf_counter() - start}
    print(json.dumps({**report, "versions": versions(config["loader"])}))


if __name__ == "__main__":
    main()

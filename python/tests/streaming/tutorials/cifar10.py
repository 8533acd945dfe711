"""The CIFAR-10 tutorial's steps: small pictures are written, streamed in batches, and a network is trained on them."""

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from streaming import MDSWriter, StreamingDataset
from torch import nn
from torch.utils.data import DataLoader
from torchvision import transforms


def pictures(count, seed):
    """Pairs of a picture and its class, which its colour determines."""
    generator = np.random.default_rng(seed)
    for _ in range(count):
        kind = int(generator.integers(10))
        noise = generator.integers(0, 25, (32, 32, 3), np.uint8)
        yield Image.fromarray(noise + np.uint8(20 * kind)), kind


def write(samples, folder):
    with MDSWriter(out=folder, columns={"x": "pil", "y": "int"}, hashes=["sha1", "xxh64"], size_limit=1 << 16) as out:
        for x, y in samples:
            out.write({"x": x, "y": y})


class Pictures(StreamingDataset):
    def __init__(self, remote, local, shuffle, batch_size, transforms):
        super().__init__(local=local, remote=remote, shuffle=shuffle, batch_size=batch_size)
        self.transforms = transforms

    def __getitem__(self, idx):
        obj = super().__getitem__(idx)
        return self.transforms(obj["x"]), obj["y"]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(3, 6, 5, stride=4)
        self.last = nn.Linear(6 * 7 * 7, 10)

    def forward(self, x):
        return self.last(torch.flatten(F.relu(self.convolution(x)), 1))


def run(model, loader, optimizer=None):
    """One pass over `loader`: its loss, its pictures, and how many of them were right."""
    loss_sum, right, seen = 0.0, 0, 0
    with torch.set_grad_enabled(optimizer is not None):
        for images, labels in loader:
            scores = model(images)
            loss = F.cross_entropy(scores, labels)
            if optimizer is not None:
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            loss_sum += loss.item() * len(labels)
            right += int((scores.argmax(1) == labels).sum())
            seen += len(labels)
    return loss_sum / len(loader.dataset), right, seen


torch.manual_seed(0)
write(pictures(400, 1), "./sds/train")
write(pictures(100, 2), "./sds/test")
to_tensor = transforms.Compose(
    [transforms.ToTensor(), transforms.Normalize((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010))]
)
train = Pictures("./sds/train", "./local/train", True, batch_size=32, transforms=to_tensor)
test = Pictures("./sds/test", "./local/test", False, batch_size=32, transforms=to_tensor)
train_loader, test_loader = DataLoader(train, batch_size=32), DataLoader(test, batch_size=32)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4)
losses = []
for _ in range(4):
    loss, _, seen = run(model, train_loader, optimizer)
    assert seen == 400
    losses.append(loss)
    _, right, seen = run(model, test_loader)
    assert seen == 100
assert losses[-1] < 0.8 * losses[0] and right > 30, (losses, right)

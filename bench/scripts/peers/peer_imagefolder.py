"""torchvision's ImageFolder through torch's DataLoader."""

import recipes
import torchpeer
import torchvision
from torchvision.datasets import ImageFolder

RECIPES = recipes.NAMES


def versions():
    return torchpeer.versions(torchvision=torchvision.__version__)


def read(path):
    with open(path, "rb") as f:
        return f.read()


def build(config):
    more = {"loader": read} if config["kind"] == "bytes" else {}
    dataset = ImageFolder(config["files"], torchpeer.transform(config), **more)
    return torchpeer.loader(dataset, config, shuffle=True)


def batches(loader):
    for x, y in loader:
        yield x["x"] if isinstance(x, dict) else x, y

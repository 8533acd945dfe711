"""torchvision's ImageFolder through torch's DataLoader."""

import torchpeer
import torchvision
from torchvision.datasets import ImageFolder


def versions():
    return torchpeer.versions(torchvision=torchvision.__version__)


def build(config):
    dataset = ImageFolder(config["files"], torchpeer.crop_and_flip(config))
    return torchpeer.loader(dataset, config, shuffle=True)


def batches(loader):
    return loader

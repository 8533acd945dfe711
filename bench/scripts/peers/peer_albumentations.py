"""Albumentations on pictures that OpenCV decodes, through torch's DataLoader."""

import importlib.metadata
import os

import albumentations as A
import cv2
import numpy as np
import recipes
import torch
import torchpeer
from torchvision.datasets import ImageFolder

RECIPES = ("crop", "simclr")
"""It has neither TrivialAugmentWide nor RandAugment."""

# One thread for each worker: the workers are as many as the CPUs.
cv2.setNumThreads(0)
os.environ.setdefault("NO_ALBUMENTATIONS_UPDATE", "1")


def versions():
    package = "albumentationsx" if _is_installed("albumentationsx") else "albumentations"
    return torchpeer.versions(opencv=cv2.__version__, **{package: A.__version__})


def _is_installed(package):
    try:
        importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def build(config):
    side = config["crop"]
    steps = [A.RandomResizedCrop((side, side)), A.HorizontalFlip()]
    if config["recipe"] == "simclr":
        names = ("brightness", "contrast", "saturation")
        jitter = {name: (1 - amount, 1 + amount) for name, amount in zip(names, recipes.JITTER["simclr"])}
        hue = recipes.JITTER["simclr"][3]
        steps.append(A.ColorJitter(**jitter, hue=(-hue, hue), p=recipes.JITTERED))
        steps.append(A.ToGray(p=recipes.GREY))
        limits = (recipes.BLUR_SIDE, recipes.BLUR_SIDE)
        steps.append(A.GaussianBlur(blur_limit=limits, sigma_limit=recipes.BLUR_SIGMA, p=recipes.BLURRED))
        steps.append(A.Normalize(recipes.MEAN, recipes.STD))
    transform = A.Compose(steps)

    def read(path):
        return cv2.imread(path, cv2.IMREAD_COLOR_RGB)

    def tensor(picture):
        done = transform(image=picture)["image"]
        return torch.from_numpy(np.ascontiguousarray(done.transpose(2, 0, 1)))

    return torchpeer.loader(ImageFolder(config["files"], tensor, loader=read), config, shuffle=True)


def batches(loader):
    return loader

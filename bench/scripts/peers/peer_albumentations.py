"""Albumentations on pictures that OpenCV decodes, through torch's DataLoader."""

import functools
import importlib.metadata
import os

import albumentations as A
import cv2
import numpy as np
import recipes
import torch
import torchpeer
from torchvision.datasets import ImageFolder

RECIPES = ("crop", "simclr", "dino")
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


# `strict`: an argument that the installed version does not know is an error, not a warning.


def jitter(brightness, contrast, saturation, hue):
    def around(amount):
        return 1 - amount, 1 + amount

    ranges = {"brightness_range": around(brightness), "contrast_range": around(contrast), "saturation_range": around(saturation)}
    return A.ColorJitter(**ranges, hue_range=(-hue, hue), p=recipes.JITTERED, strict=True)


def blur(side, p):
    return A.GaussianBlur(sigma_range=recipes.BLUR_SIGMA, blur_range=(side, side), p=p, strict=True)


def dino(config):
    """Returns a function from a picture to a dict of the views."""

    def transform(view):
        level = recipes.SOLARIZED_FROM / 255
        return A.Compose(
            [
                A.RandomResizedCrop((view.side, view.side), view.scale),
                A.HorizontalFlip(),
                jitter(*recipes.DINO_JITTER),
                A.ToGray(p=recipes.GREY),
                blur(view.blur_side, view.blurred),
                A.Solarize(threshold_range=(level, level), p=view.solarized, strict=True),
                A.Normalize(recipes.MEAN, recipes.STD),
            ]
        )

    return recipes.dino_crops(config, lambda view: functools.partial(tensor, transform(view)))


def tensor(transform, picture):
    done = transform(image=picture)["image"]
    return torch.from_numpy(np.ascontiguousarray(done.transpose(2, 0, 1)))


def one_picture(config):
    """Returns a function from a picture to a tensor."""
    side = config["crop"]
    steps = [A.RandomResizedCrop((side, side)), A.HorizontalFlip()]
    if config["recipe"] == "simclr":
        steps.append(jitter(*recipes.JITTER["simclr"]))
        steps.append(A.ToGray(p=recipes.GREY))
        steps.append(blur(recipes.BLUR_SIDE, recipes.BLURRED))
        steps.append(A.Normalize(recipes.MEAN, recipes.STD))
    transform = A.Compose(steps)
    return lambda picture: tensor(transform, picture)


def read(path):
    return cv2.imread(path, cv2.IMREAD_COLOR_RGB)


def build(config):
    transform = (dino if config["recipe"] == "dino" else one_picture)(config)
    return torchpeer.loader(ImageFolder(config["files"], transform, loader=read), config, shuffle=True)


def batches(loader):
    for x, y in loader:
        yield x["x"] if isinstance(x, dict) else x, y

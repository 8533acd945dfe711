"""Pictures of odd sizes, and torchvision's results for steps of the engine."""

import os

import numpy as np
import torch
from PIL import Image, ImageFilter
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional

import forebay as fb

SEED = 11
"""Seed of the loaders and their draws."""

NAME = "x"
"""Name of the field."""

PICTURES = os.environ.get("FOREBAY_TEST_PICTURES")
"""Number of pictures that replaces each test's own number."""

SIDES = [1, 2, 3, 5, 7, 8, 13, 16, 17, 31, 33, 48, 61]


def pictures(count):
    """Returns noise, ramps, pictures of one colour and of few levels, of all sizes."""
    rng = np.random.default_rng(3)
    for number in range(count):
        height, width = (int(side) for side in rng.choice(SIDES, 2))
        kind = number % 4
        if kind == 0:
            yield rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
        elif kind == 1:
            small = Image.fromarray(rng.integers(0, 256, (3, 3, 3), dtype=np.uint8))
            yield np.asarray(small.resize((width, height), Image.Resampling.BICUBIC))
        elif kind == 2:
            yield np.full((height, width, 3), rng.integers(0, 256, 3), np.uint8)
        else:
            levels = rng.integers(0, 256, 3)
            yield rng.choice(levels, (height, width, 3)).astype(np.uint8)


def write_odd_pictures(folder, count):
    """Writes a data set of them with labels, and returns its folder and the pictures."""
    made = list(pictures(int(PICTURES or count)))
    with fb.MDSWriter(out=str(folder), columns={"image": "png", "label": "png", "number": "int"}) as writer:
        for number, pixels in enumerate(made):
            label = Image.fromarray(pixels[:, :, 0])
            writer.write({"image": Image.fromarray(pixels), "label": label, "number": number})
    return str(folder), made


def augmented(folder, *ops, kind=fb.Image, column="image", **options):
    """Returns the pixels of each sample as the engine makes them, by the sample's number."""
    options = {"batch_size": 16, "framework": "numpy", "seed": SEED} | options
    fields = {NAME: kind(column, *ops), "number": fb.Scalar("number")}
    with fb.Loader(local=folder, fields=fields, **options) as loader:
        rows = [pair for batch in loader for pair in zip(batch["number"].tolist(), batch[NAME], strict=True)]
    return {number: np.array(row) for number, row in rows}


def drawn_steps(field, pixels, number, epoch=0):
    """Returns the steps of a sample that is not shuffled."""
    return fb.drawn(field, pixels.shape[:2], name=NAME, augment_seed=SEED, epoch=epoch, draw=number)


def in_torchvision(picture, steps, is_label=False):
    """Returns torchvision's result for a picture of Pillow with the numbers of `steps`."""
    start = mixture = None
    channels = len(picture.getbands())
    for step in steps:
        arguments = {name: value for name, value in step.items() if name not in ("action", "endpoints")}
        action = step.get("action")
        if action is None:
            picture = _staged(picture, step)
            continue
        if "interpolation" in arguments:
            arguments["interpolation"] = InterpolationMode("nearest" if is_label else arguments["interpolation"])
            arguments["fill"] = arguments["fill"][:channels]
        if is_label and action not in ("horizontal_flip", "vertical_flip", "rotate", "affine", "perspective", "transform"):
            continue
        if action in PILLOW:
            picture = PILLOW[action](picture, **arguments)
            continue
        if action.startswith("adjust_"):
            picture = getattr(functional, action)(picture, arguments["factor"])
        elif action == "rgb_to_grayscale":
            picture = functional.rgb_to_grayscale(picture, num_output_channels=channels)
        elif action == "gaussian_blur":
            picture = functional.gaussian_blur(picture, arguments["kernel_size"], [arguments["sigma"]] * 2)
        elif action == "posterize" and arguments["bits"] == 0:
            picture = Image.new(picture.mode, picture.size)  # Pillow refuses to keep no bits. torchvision has black tensors.
        elif action == "perspective":
            picture = functional.perspective(picture, None, None, **arguments)
        elif action == "start_mixture":
            start, mixture = picture, arguments["weight"] * functional.pil_to_tensor(picture)
        elif action == "add_to_mixture":
            mixture = mixture + arguments["weight"] * functional.pil_to_tensor(picture)
            picture = start
        elif action == "end_mixture":
            picture = functional.to_pil_image(mixture.to(torch.uint8))
        elif action == "blend_mixture":
            picture = Image.blend(start, functional.to_pil_image(mixture.to(torch.uint8)), arguments["share"])
        else:
            picture = getattr(functional, action)(picture, **arguments)
    return picture


def _transform(picture, matrix, interpolation, fill):
    sampling = Image.Resampling[interpolation.value.upper()]
    return picture.transform(picture.size, Image.Transform.AFFINE, matrix, sampling, fillcolor=tuple(fill) if len(fill) > 1 else fill[0])


PILLOW = {
    "transform": _transform,
    "solarize_add": lambda picture, add, threshold: picture.point(
        [min(255, level + add) if level < threshold else level for level in range(256)] * len(picture.getbands())
    ),
    "radius_blur": lambda picture, radius: picture.filter(ImageFilter.GaussianBlur(radius)),
}
"""Actions of timm's policies, by functions of Pillow."""


def _staged(picture, stage):
    """Returns the result of a stage. Bilinear resizes of the engine may differ by a grey level."""
    top, left, height, width = stage["crop"]
    picture = picture.crop((left, top, left + width, top + height))
    picture = functional.resize(picture, stage["resized"], InterpolationMode(stage["interpolation"]))
    top, left, height, width = stage["window"]
    borders = [max(-left, 0), max(-top, 0), max(left + width - picture.width, 0), max(top + height - picture.height, 0)]
    fill = stage["fill"] if picture.mode == "RGB" else stage["fill"][:1]
    picture = functional.pad(picture, borders, fill=fill, padding_mode=stage["padding_mode"])
    picture = functional.crop(picture, top + borders[1], left + borders[0], height, width)
    return functional.horizontal_flip(picture) if stage["flip"] else picture


def levels_apart(got, expected):
    """Returns the largest difference of two pictures of one size, in grey levels."""
    assert got.shape == expected.shape
    return int(np.abs(got.astype(int) - expected.astype(int)).max(initial=0))

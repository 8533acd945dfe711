"""Times operations of torchvision v2 on pictures of Pillow, in one thread, and translates them for forebay.

    torchvision_operations.py CONFIG-AS-JSON

CONFIG: `files` (paths of JPEGs), `crop` (side of the pictures, pixels), `rounds`. The last line on standard output is a JSON
object: `crop`, the engine's form of a random crop and flip; `operations`, each with a `name`, the microseconds `us` of CPU time per
picture in the best round, and the engine's form `ops` of the crop, the flip and the operation; `versions`.
"""

import json
import sys
import time

import forebay
import PIL.Image
import torch
import torchvision
from torchvision.transforms import v2

BILINEAR, BICUBIC = v2.InterpolationMode.BILINEAR, v2.InterpolationMode.BICUBIC

OPERATIONS = {
    "RandomVerticalFlip": v2.RandomVerticalFlip(1),
    "RandomGrayscale": v2.RandomGrayscale(1),
    "RandomInvert": v2.RandomInvert(1),
    "RandomPosterize": v2.RandomPosterize(4, 1),
    "RandomSolarize": v2.RandomSolarize(128, 1),
    "RandomAutocontrast": v2.RandomAutocontrast(1),
    "RandomEqualize": v2.RandomEqualize(1),
    "RandomAdjustSharpness": v2.RandomAdjustSharpness(2, 1),
    "ColorJitter, brightness": v2.ColorJitter(brightness=0.5),
    "ColorJitter, contrast": v2.ColorJitter(contrast=0.5),
    "ColorJitter, saturation": v2.ColorJitter(saturation=0.5),
    "ColorJitter, hue": v2.ColorJitter(hue=0.2),
    "GaussianBlur of 23 pixels": v2.GaussianBlur(23, (0.1, 2.0)),
    "RandomRotation, nearest": v2.RandomRotation(30),
    "RandomRotation, bilinear": v2.RandomRotation(30, BILINEAR),
    "RandomAffine, bicubic": v2.RandomAffine(30, (0.1, 0.1), (0.8, 1.2), 10, BICUBIC),
    "RandomPerspective, bilinear": v2.RandomPerspective(0.5, 1),
    "TrivialAugmentWide": v2.TrivialAugmentWide(),
    "RandAugment": v2.RandAugment(),
    "AutoAugment": v2.AutoAugment(),
    "AugMix": v2.AugMix(),
}
"""Operations by their name in the table. Those that have a probability are applied to all pictures."""


def microseconds(operation, pictures, rounds):
    """Returns the CPU time per picture in the best round."""
    best = float("inf")
    for _ in range(rounds):
        start = time.thread_time()
        for picture in pictures:
            operation(picture)
        best = min(best, time.thread_time() - start)
    return best / len(pictures) * 1e6


def engine_form(*operations):
    """Returns the engine's form of operations of torchvision."""
    return [operation._spec() for operation in forebay.from_torchvision(v2.Compose(operations))]


def main():
    config = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    torch.manual_seed(7)
    crop, flip = v2.RandomResizedCrop(config["crop"]), v2.RandomHorizontalFlip()
    pictures = [crop(PIL.Image.open(path).convert("RGB")) for path in config["files"]]
    operations = []
    for name, operation in OPERATIONS.items():
        us = microseconds(operation, pictures, config["rounds"])
        operations.append({"name": name, "us": us, "ops": engine_form(crop, flip, operation)})
    versions = {"torch": torch.__version__, "torchvision": torchvision.__version__, "pillow": PIL.__version__}
    print(json.dumps({"crop": engine_form(crop, flip), "operations": operations, "versions": versions}))


if __name__ == "__main__":
    main()

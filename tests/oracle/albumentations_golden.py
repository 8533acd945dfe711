"""Records the attributes of albumentations' transforms, under tests/data/albumentations: one file for each version.

    python tests/oracle/albumentations_golden.py    # with albumentations 1.4.18, and again with 2.0.8

The translation reads nothing else, so the tests need not install albumentations. For borders the file has the results as well.
"""

import json
import os

import albumentations as A
import cv2
import numpy as np
from albumentations.pytorch import ToTensorV2

IS_OLD = A.__version__.startswith("1.")
FILL = {"value": 9, "mask_value": 255} if IS_OLD else {"fill": 9, "fill_mask": 255}
PADS = [(20, 30), (33, 8), (5, 41)]

RECIPES = {
    "training": A.Compose(
        [
            A.RandomResizedCrop(size=(20, 30), scale=(0.2, 1.0), ratio=(0.5, 2.0), interpolation=cv2.INTER_CUBIC, p=0.7),
            A.HorizontalFlip(p=0.3),
            A.VerticalFlip(),
            A.OneOf([A.ColorJitter(0.4, 0.4, 0.2, 0.1, p=0.75), A.ToGray(p=0.25)], p=0.9),
            A.GaussianBlur((3, 7), 0 if IS_OLD else (0.1, 2.0), p=0.5),
            A.HueSaturationValue(10, 20, 30, p=0.4),
            A.Normalize((0.1, 0.2, 0.3), (0.4, 0.5, 0.6)),
            ToTensorV2(),
        ]
    ),
    "evaluation": A.Compose(
        [
            A.SmallestMaxSize(40),
            A.LongestMaxSize(99, interpolation=cv2.INTER_NEAREST),
            A.PadIfNeeded(20, 30, border_mode=cv2.BORDER_CONSTANT, **FILL),
            A.CenterCrop(20, 30),
            A.RandomCrop(10, 12),
            A.Resize(8, 9),
            A.Compose([A.HorizontalFlip(p=1.0)], p=0.5),
        ]
    ),
    "boxes": A.Compose([A.HorizontalFlip()], bbox_params=A.BboxParams("coco", label_fields=["classes"], min_area=12)),
    "unknown": A.Compose(
        [
            A.CoarseDropout(p=0.5),
            A.GridDistortion(),
            A.PadIfNeeded(20, 30, border_mode=cv2.BORDER_REFLECT_101),
            A.Resize(8, 9, interpolation=cv2.INTER_AREA),
            A.OneOf([A.RandomBrightnessContrast(), A.HorizontalFlip()]),
        ]
    ),
}


def attributes(value):
    """Returns a transform as JSON: its class, module and attributes."""
    if type(value).__module__.split(".")[0] == "albumentations" and hasattr(value, "__dict__") and not callable(getattr(value, "mro", None)):
        own = {name: attributes(one) for name, one in vars(value).items() if not name.startswith("_") and name not in ("random_generator", "py_random")}
        return {"class": type(value).__name__, "attributes": {name: one for name, one in own.items() if one is not ...}}
    if isinstance(value, (list, tuple)):
        return [attributes(one) for one in value]
    if isinstance(value, dict):
        return {str(name): attributes(one) for name, one in value.items()}
    if isinstance(value, np.generic):
        return value.item()
    return value if value is None or isinstance(value, (bool, int, float, str)) else ...


def clean(value):
    """Leaves out attributes that JSON does not have."""
    if isinstance(value, dict):
        return {name: clean(one) for name, one in value.items() if one is not ...}
    return [clean(one) for one in value if one is not ...] if isinstance(value, list) else value


def padded(size):
    """Returns the borders that PadIfNeeded adds to a picture of 13 x 17 pixels: top, left, height and width."""
    pad = A.PadIfNeeded(*size, border_mode=cv2.BORDER_CONSTANT, **FILL)
    out = pad(image=np.full((13, 17, 3), 200, np.uint8))["image"]
    rows, columns = np.nonzero(out[:, :, 0] == 200)
    return {"size": size, "top": int(rows.min()), "left": int(columns.min()), "shape": out.shape[:2]}


def main():
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../data/albumentations")
    recipes = {name: clean(attributes(recipe)) for name, recipe in RECIPES.items()}
    with open(os.path.join(folder, f"{A.__version__}.json"), "w") as file:
        json.dump({"recipes": recipes, "borders": [padded(size) for size in PADS]}, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()

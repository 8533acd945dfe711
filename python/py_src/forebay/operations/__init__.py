"""Augmentation: operations on the pixels of a picture after its first crop and resize.

Names, arguments and distributions are the same as in `torchvision.transforms.v2`, and the pixels are the ones that it gives for
pictures of Pillow. The engine draws and applies them in its decode threads.
"""

from .by_chance import (
    RandomAdjustSharpness,
    RandomAutocontrast,
    RandomEqualize,
    RandomGrayscale,
    RandomInvert,
    RandomPosterize,
    RandomSolarize,
    RandomVerticalFlip,
)
from .colour import ColorJitter, GaussianBlur, RadiusBlur, RandomChannelPermutation, RandomPhotometricDistort
from .compose import RandomApply, RandomChoice, RandomOrder
from .corrupt import JPEG, GaussianNoise
from .drawn import drawn
from .elastic import ElasticTransform
from .erase import RandomErasing
from .framing import (
    CenterCropOrPad,
    FixedSizeCrop,
    PadIfSmaller,
    RandomCropOrPad,
    RandomIoUCrop,
    RandomShortestSize,
    RandomZoomOut,
    ResizeKeepRatio,
    ScaleJitter,
    TrimBorder,
)
from .from_albumentations import from_albumentations
from .from_timm import from_timm
from .from_torchvision import from_torchvision
from .geometric import RandomAffine, RandomPerspective, RandomRotation
from .hsv import HueSaturationValue, RandomHSV
from .levels import LevelAugment
from .linear import LinearTransformation
from .mix import CutMix, Mix, MixUp, MultiHot, OneHot
from .policies import AugMix, AutoAugment, RandAugment, TrivialAugmentWide

__all__ = [
    "JPEG",
    "AugMix",
    "AutoAugment",
    "CenterCropOrPad",
    "ColorJitter",
    "CutMix",
    "ElasticTransform",
    "FixedSizeCrop",
    "GaussianBlur",
    "GaussianNoise",
    "HueSaturationValue",
    "LevelAugment",
    "LinearTransformation",
    "Mix",
    "MixUp",
    "MultiHot",
    "OneHot",
    "PadIfSmaller",
    "RadiusBlur",
    "RandAugment",
    "RandomAdjustSharpness",
    "RandomAffine",
    "RandomApply",
    "RandomAutocontrast",
    "RandomChannelPermutation",
    "RandomChoice",
    "RandomCropOrPad",
    "RandomEqualize",
    "RandomErasing",
    "RandomGrayscale",
    "RandomHSV",
    "RandomInvert",
    "RandomIoUCrop",
    "RandomOrder",
    "RandomPerspective",
    "RandomPhotometricDistort",
    "RandomPosterize",
    "RandomRotation",
    "RandomShortestSize",
    "RandomSolarize",
    "RandomVerticalFlip",
    "RandomZoomOut",
    "ResizeKeepRatio",
    "ScaleJitter",
    "TrimBorder",
    "TrivialAugmentWide",
    "drawn",
    "from_albumentations",
    "from_timm",
    "from_torchvision",
]

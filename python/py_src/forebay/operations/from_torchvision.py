"""Translation of torchvision's transforms to operations of the engine.

The transforms are recognised by their classes' names, of both of torchvision's interfaces, so torchvision is not imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .. import fields as native
from ..errors import ConfigError
from . import by_chance, colour, compose, erase, geometric, policies

__all__ = ["from_torchvision"]


def from_torchvision(transforms: Any) -> list[native.ImageOp]:
    """Returns the operations of `Image` that do what torchvision's transforms do: `fb.Image("jpg", *fb.from_torchvision(...))`.

    Accepts a `Compose`, a list, or one transform, of `torchvision.transforms` or its `v2`. Conversions to tensors need no
    operation. A conversion to floats without `Normalize` becomes a `Normalize` that changes nothing, so that the pixels are
    floats from 0 to 1.

    Pixels are those that torchvision gives for pictures of Pillow. For tensors its results differ by a grey level here and
    there.

    Args:
        transforms: The transforms.

    Raises:
        ConfigError: With every transform that has no translation, and the reason.
    """
    found: list[native.ImageOp] = []
    problems: list[str] = []
    is_float = False
    for number, transform in enumerate(_flat(transforms)):
        try:
            is_float = is_float or _makes_floats(transform)
            found += _translate(transform)
        except ConfigError as error:
            problems.append(f"number {number}, {_shown(transform)}: {error}")
    if problems:
        raise ConfigError("from_torchvision cannot translate " + "; ".join(problems))
    normalised = [place for place, op in enumerate(found) if isinstance(op, native.Normalize)]
    if is_float and not normalised:
        found.append(native.Normalize((0.0, 0.0, 0.0), (1.0, 1.0, 1.0)))
    return found


def _flat(transforms: Any) -> Iterator[Any]:
    """Returns the transforms of a composition, one after the other."""
    if type(transforms).__name__ in ("Compose", "Sequential", "ModuleList"):
        transforms = getattr(transforms, "transforms", transforms)
    elif _is_torchvision(transforms) or not isinstance(transforms, Iterable):
        yield transforms
        return
    for transform in transforms:
        yield from _flat(transform)


def _is_torchvision(transform: Any) -> bool:
    return type(transform).__module__.split(".")[0] == "torchvision"


def _shown(transform: Any) -> str:
    text = " ".join(repr(transform).split())
    return text if len(text) <= 80 else f"{text[:77]}..."


def _makes_floats(transform: Any) -> bool:
    """Returns True for a conversion to floats from 0 to 1; rejects others that pictures cannot have."""
    name = type(transform).__name__
    if not _is_torchvision(transform) or name not in ("ToTensor", "ConvertImageDtype", "ToDtype"):
        return False
    if name == "ToTensor":
        return True
    dtype = transform.dtype
    if isinstance(dtype, dict):
        raise ConfigError("a type for each kind of data is not known: pass one type")
    kind = str(dtype).removeprefix("torch.")
    if kind == "uint8":
        return False
    if kind != "float32":
        raise ConfigError(f'convert to float32, and pass dtype="{kind}" to Image')
    if name == "ToDtype" and not transform.scale:
        raise ConfigError("floats are from 0 to 1 here: pass scale=True")
    return True


def _translate(transform: Any) -> list[native.ImageOp]:
    """Returns the operations of one transform."""
    name = type(transform).__name__
    if not _is_torchvision(transform):
        raise ConfigError("only torchvision's transforms are known: call it in the loader's transform")
    if name in _CONVERSIONS:
        return []
    if name in ("MixUp", "CutMix"):
        raise ConfigError(f"it mixes the samples of a batch: use forebay.Mix(forebay.{name}(...), x=Image(...), y=OneHot(...))")
    make = _MAKERS.get(name)
    if make is None:
        raise ConfigError("there is no such operation: leave it out, or call it in the loader's transform")
    op = make(transform)
    op._spec()  # Arguments that torchvision accepts, but the engine does not.
    return [op]


_CONVERSIONS = frozenset(
    ("ToTensor", "ConvertImageDtype", "ToDtype", "PILToTensor", "ToImage", "ToImageTensor", "ToPureTensor", "ToPILImage", "RGB", "Identity")
)
"""Conversions between forms of a picture. The engine's pixels are already RGB, and become a tensor."""


def _is_bilinear(transform: Any) -> None:
    if getattr(transform.interpolation, "value", transform.interpolation) not in ("bilinear", 2):
        raise ConfigError("pictures are resized by bilinear interpolation")
    if transform.antialias is False:
        raise ConfigError("pictures are resized with antialias=True")


def _is_black(transform: Any) -> None:
    fill = transform.fill if isinstance(transform.fill, (list, tuple)) else [transform.fill]
    if transform.padding_mode != "constant" or isinstance(transform.fill, dict) or any(level not in (0, None) for level in fill):
        raise ConfigError("borders are black: leave out fill and padding_mode")


def _resized_crop(transform: Any) -> native.ImageOp:
    _is_bilinear(transform)
    return native.RandomResizedCrop(transform.size, tuple(transform.scale), tuple(transform.ratio))


def _resize(transform: Any) -> native.ImageOp:
    _is_bilinear(transform)
    size = transform.size
    if size is None or transform.max_size is not None:
        raise ConfigError("a size without max_size is needed")
    return native.Resize(size[0] if not isinstance(size, int) and len(size) == 1 else size)


def _pad(transform: Any) -> native.ImageOp:
    _is_black(transform)
    return native.Pad(transform.padding)


def _crop(transform: Any) -> native.ImageOp:
    padding = transform.padding or 0
    if padding or transform.pad_if_needed:
        _is_black(transform)
    if ".v2" in type(transform).__module__ and padding:
        left, right, top, bottom = padding
        padding = (left, top, right, bottom)
    return native.RandomCrop(transform.size, padding, transform.pad_if_needed)


def _grayscale(transform: Any) -> native.ImageOp:
    if transform.num_output_channels != 3:
        raise ConfigError("pictures have three channels: pass num_output_channels=3")
    return native.Grayscale()


def _erasing(transform: Any) -> native.ImageOp:
    value = "random" if transform.value is None else transform.value
    return erase.RandomErasing(transform.p, tuple(transform.scale), tuple(transform.ratio), value)


def _inner(transform: Any) -> list[native.ImageOp]:
    """Returns the operations that a composition holds, one for each."""
    inner = []
    for part in transform.transforms:
        ops = [op for flat in _flat(part) for op in _translate(flat)]
        if not ops and type(transform).__name__ == "RandomChoice":
            raise ConfigError(f"{_shown(part)} is no operation, so it cannot be chosen")
        # A list in a list is applied as one.
        inner += ops if len(ops) < 2 else [compose.RandomApply(ops, p=1.0)]
    return inner


def _same(kind: type, *names: str) -> Callable[[Any], native.ImageOp]:
    """Returns the maker of an operation whose arguments have the same names as the transform's attributes."""

    def make(transform: Any) -> native.ImageOp:
        values = {name: getattr(transform, name) for name in names}
        if isinstance(values.get("fill"), dict):
            raise ConfigError("a colour for each kind of data is not known: give the Mask of a Joint another operation")
        return kind(**values)

    return make


_MAKERS: dict[str, Callable[[Any], native.ImageOp]] = {
    "RandomResizedCrop": _resized_crop,
    "Resize": _resize,
    "CenterCrop": _same(native.CenterCrop, "size"),
    "Pad": _pad,
    "RandomCrop": _crop,
    "Grayscale": _grayscale,
    "RandomHorizontalFlip": _same(native.RandomHorizontalFlip, "p"),
    "Normalize": _same(native.Normalize, "mean", "std"),
    "RandomVerticalFlip": _same(by_chance.RandomVerticalFlip, "p"),
    "RandomGrayscale": _same(by_chance.RandomGrayscale, "p"),
    "RandomInvert": _same(by_chance.RandomInvert, "p"),
    "RandomPosterize": _same(by_chance.RandomPosterize, "bits", "p"),
    "RandomSolarize": _same(by_chance.RandomSolarize, "threshold", "p"),
    "RandomAutocontrast": _same(by_chance.RandomAutocontrast, "p"),
    "RandomEqualize": _same(by_chance.RandomEqualize, "p"),
    "RandomAdjustSharpness": _same(by_chance.RandomAdjustSharpness, "sharpness_factor", "p"),
    "ColorJitter": _same(colour.ColorJitter, "brightness", "contrast", "saturation", "hue"),
    "GaussianBlur": _same(colour.GaussianBlur, "kernel_size", "sigma"),
    "RandomErasing": _erasing,
    "RandomRotation": _same(geometric.RandomRotation, "degrees", "interpolation", "expand", "center", "fill"),
    "RandomAffine": _same(geometric.RandomAffine, "degrees", "translate", "scale", "shear", "interpolation", "fill", "center"),
    "RandomPerspective": _same(geometric.RandomPerspective, "distortion_scale", "p", "interpolation", "fill"),
    "RandomApply": lambda transform: compose.RandomApply(_inner(transform), transform.p),
    "RandomChoice": lambda transform: compose.RandomChoice(_inner(transform), transform.p),
    "RandomOrder": lambda transform: compose.RandomOrder(_inner(transform)),
    "TrivialAugmentWide": _same(policies.TrivialAugmentWide, "num_magnitude_bins", "interpolation", "fill"),
    "RandAugment": _same(policies.RandAugment, "num_ops", "magnitude", "num_magnitude_bins", "interpolation", "fill"),
    "AutoAugment": _same(policies.AutoAugment, "policy", "interpolation", "fill"),
    "AugMix": _same(
        policies.AugMix, "severity", "mixture_width", "chain_depth", "alpha", "all_ops", "interpolation", "fill"
    ),
}
"""Makers by the names of torchvision's classes."""

"""Translation of torchvision's transforms to operations of the engine.

The transforms are recognised by their classes' names, of both of torchvision's interfaces, so torchvision is not imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from .. import fields as native
from ..errors import ConfigError
from ..fields.checks import listed
from . import by_chance, colour, compose, erase, geometric, policies

__all__ = ["from_torchvision"]


def from_torchvision(transforms: Any) -> list[native.ImageOp]:
    """Returns the operations of `Image` that do what torchvision's transforms do: `fb.Image("jpg", *fb.from_torchvision(...))`.

    Accepts a `Compose`, a list, or one transform, of `torchvision.transforms` or its `v2`. Conversions to tensors need no
    operation. A conversion to floats without `Normalize` becomes a `Normalize` that changes nothing, so that the pixels are
    floats from 0 to 1. After `Normalize` there can only be `RandomErasing`.

    Pixels are those that torchvision gives for pictures of Pillow. For tensors its results differ by a grey level here and
    there.

    Args:
        transforms: The transforms.

    Raises:
        ConfigError: With every transform that has no translation, and the reason.
    """
    return translated(transforms, "from_torchvision")


@dataclass(frozen=True)
class Library:
    """Transforms of a library that are used with torchvision's."""

    name: str
    """First part of its modules' names."""
    floats: frozenset[str]
    """Conversions to floats from 0 to 1."""
    conversions: frozenset[str]
    """All conversions between forms of a picture."""
    makers: dict[str, Callable[[Any], native.ImageOp]]
    """Makers by the names of its classes."""

    def has(self, transform: Any) -> bool:
        return _module(transform) == self.name


def translated(transforms: Any, caller: str, library: Library | None = None) -> list[native.ImageOp]:
    """Returns the operations of torchvision's transforms, and of those of another `library`."""
    found: list[native.ImageOp] = []
    problems: list[str] = []
    is_float, last = False, ""
    for number, transform in enumerate(_flat(transforms, library)):
        try:
            was_float, is_float = is_float, _is_float_after(transform, is_float, library)
            if is_float:
                _has_no_levels(transform)
            ops = _translate(transform, library)
            if last and (was_float != is_float or any(not isinstance(op, erase.RandomErasing) for op in ops)):
                raise ConfigError(f"put it before {last}: only RandomErasing can be after Normalize or RandomErasing")
            found += ops
            if any(isinstance(op, (native.Normalize, erase.RandomErasing)) for op in ops):
                last = f"number {number}, {type(transform).__name__}"
        except ConfigError as error:
            problems.append(f"number {number}, {_shown(transform)}: {error}")
    if problems:
        raise ConfigError(f"{caller} cannot translate " + "; ".join(problems))
    if is_float and not any(isinstance(op, native.Normalize) for op in found):
        erasing = (place for place, op in enumerate(found) if isinstance(op, erase.RandomErasing))
        found.insert(next(erasing, len(found)), native.Normalize((0.0, 0.0, 0.0), (1.0, 1.0, 1.0)))
    return found


_IN_A_MAP = (
    "leave it out of the list, and call it for each sample, after the operations: "
    'Loader(..., map=lambda sample, rng: sample | {"x": transform(sample["x"])})'
)
"""Way to use a transform without a translation."""


def _flat(transforms: Any, library: Library | None = None) -> Iterator[Any]:
    """Returns the transforms of a composition, one after the other."""
    if type(transforms).__name__ in ("Compose", "Sequential", "ModuleList"):
        transforms = getattr(transforms, "transforms", transforms)
    elif _is_known(transforms, library) or isinstance(transforms, (str, bytes)) or not isinstance(transforms, Iterable):
        yield transforms
        return
    for transform in transforms:
        yield from _flat(transform, library)


def _module(transform: Any) -> str:
    return type(transform).__module__.split(".")[0]


def _is_torchvision(transform: Any) -> bool:
    return _module(transform) == "torchvision"


def _is_known(transform: Any, library: Library | None) -> bool:
    return _is_torchvision(transform) or library is not None and library.has(transform)


def _shown(transform: Any) -> str:
    text = " ".join(repr(transform).split())
    return text if len(text) <= 80 else f"{text[:77]}..."


def _is_float_after(transform: Any, is_float: bool, library: Library | None) -> bool:
    """Returns True if pixels are floats from 0 to 1 after a transform; rejects conversions that pictures cannot have."""
    name = type(transform).__name__
    if library is not None and library.has(transform):
        return is_float or name in library.floats
    if not _is_torchvision(transform) or name not in _CHANGES_OF_TYPE:
        return is_float
    if name == "ToPILImage" and transform.mode not in (None, "RGB"):
        raise ConfigError(f'pass mode="{transform.mode}" to Image, and leave the transform out')
    if name in ("ToTensor", "ToPILImage"):
        return name == "ToTensor"
    dtype = transform.dtype
    if isinstance(dtype, dict):
        raise ConfigError("a type for each kind of data is not known: pass one type")
    kind = str(dtype).removeprefix("torch.")
    if kind not in ("uint8", "float32"):
        raise ConfigError(f'convert to float32, and pass dtype="{kind}" to Image')
    if is_float != (kind == "float32") and name == "ToDtype" and not transform.scale:
        raise ConfigError("floats are from 0 to 1 here: pass scale=True")
    return kind == "float32"


def _has_no_levels(transform: Any) -> None:
    """Rejects levels from 0 to 1: operations run before the conversion to floats, on levels from 0 to 255."""
    for part in (transform, *_parts(transform)):
        if type(part).__name__ == "RandomSolarize" or _has_colour(getattr(part, "fill", None)):
            raise ConfigError(
                f"{type(part).__name__} has a level from 0 to 1 after a conversion to floats: "
                "put it before the conversion, with a level from 0 to 255"
            )


def _parts(transform: Any) -> Iterator[Any]:
    """Returns all transforms inside a composition that draws."""
    if _is_torchvision(transform) and type(transform).__name__ in ("RandomApply", "RandomChoice", "RandomOrder"):
        for part in _flat(list(transform.transforms)):
            yield part
            yield from _parts(part)


def _has_colour(fill: Any) -> bool:
    return any(level not in (0, None) for level in (fill if isinstance(fill, (list, tuple)) else [fill]))


def _translate(transform: Any, library: Library | None = None) -> list[native.ImageOp]:
    """Returns the operations of one transform."""
    name = type(transform).__name__
    if library is not None and library.has(transform):
        return _translate_other(transform, library)
    if _module(transform) == "timm":
        raise ConfigError("pass the transforms to from_timm, which knows those of timm and of torchvision")
    if not _is_torchvision(transform):
        raise ConfigError(f"only torchvision's transforms are known: {_IN_A_MAP}")
    if name in _CONVERSIONS:
        return []
    if name in ("MixUp", "CutMix"):
        raise ConfigError(f"it mixes the samples of a batch: use forebay.Mix(forebay.{name}(...), x=Image(...), y=OneHot(...))")
    if name == "ImageClassification":  # Of `Weights.transforms()`.
        short, crop = (size[0] if len(size) == 1 else size for size in (transform.resize_size, transform.crop_size))
        return [native.Resize(short, _filter(transform)), native.CenterCrop(crop), _normalize(transform)]
    if hasattr(transform, "transforms") and name not in _MAKERS:
        raise ConfigError("it is a class around a list of transforms: pass its attribute `transforms`")
    make = _MAKERS.get(name)
    if make is None:
        raise ConfigError(f"there is no such operation: {_IN_A_MAP}")
    op = make(transform)
    if isinstance(op, (compose.RandomApply, compose.RandomOrder)) and not op.transforms:
        return []  # It held conversions only.
    op._spec()  # Arguments that torchvision accepts, but the engine does not.
    return [op]


def _translate_other(transform: Any, library: Library) -> list[native.ImageOp]:
    """Returns the operations of a transform of another library."""
    name = type(transform).__name__
    if name in library.conversions:
        return []
    make = library.makers.get(name)
    if make is None:
        raise ConfigError(f"there is no such operation: {_IN_A_MAP}")
    op = make(transform)
    op._spec()  # Arguments that the library accepts, but the engine does not.
    return [op]


_CHANGES_OF_TYPE = frozenset(("ToTensor", "ConvertImageDtype", "ToDtype", "ToPILImage"))
"""Conversions that can change the type of the pixels."""

_CONVERSIONS = _CHANGES_OF_TYPE | {"PILToTensor", "ToImage", "ToImageTensor", "ToPureTensor", "RGB", "Identity"}
"""Conversions between forms of a picture. The engine's pixels are already RGB, and become a tensor."""


def _filter(transform: Any) -> Any:
    if transform.antialias is False:
        raise ConfigError("pictures are resized with antialias=True")
    return transform.interpolation


def _normalize(transform: Any) -> native.ImageOp:
    # torchvision has one number for all channels, and the pictures have three.
    mean, std = (listed(values) for values in (transform.mean, transform.std))
    return native.Normalize(*(values * 3 if len(values) == 1 else values for values in (mean, std)))


def _rotation(transform: Any) -> native.ImageOp:
    if transform.expand and transform.center is not None:
        raise ConfigError("with expand it turns about the middle here, so that the whole picture is in the result: leave out center")
    names = ("degrees", "interpolation", "expand", "center", "fill")
    return _same(geometric.RandomRotation, *names)(transform)


def _resized_crop(transform: Any) -> native.ImageOp:
    return native.RandomResizedCrop(transform.size, tuple(transform.scale), tuple(transform.ratio), _filter(transform))


def _resize(transform: Any) -> native.ImageOp:
    size = transform.size
    if isinstance(size, Sequence) and len(size) == 1:
        size = size[0]
    return native.Resize(size, _filter(transform), transform.max_size)


def _crop(transform: Any) -> native.ImageOp:
    padding = transform.padding or 0
    is_v2 = ".v2" in type(transform).__module__
    if is_v2 and padding:
        left, right, top, bottom = padding
        padding = (left, top, right, bottom)
    if not is_v2 and padding and transform.pad_if_needed and transform.padding_mode in ("reflect", "symmetric"):
        raise ConfigError("it mirrors the borders of `padding` again where a picture is still too small: use the one of v2")
    _has_one_colour(transform.fill)
    return native.RandomCrop(transform.size, padding, transform.pad_if_needed, transform.fill, transform.padding_mode)


def _has_one_colour(fill: Any) -> None:
    if isinstance(fill, dict):
        raise ConfigError("a colour for each kind of data is not known: give the Mask of a Joint another operation")


def _ten_crop(transform: Any) -> native.ImageOp:
    if transform.vertical_flip:
        raise ConfigError("the second five crops are those of the picture mirrored left to right: pass vertical_flip=False")
    return native.TenCrop(transform.size)


def _grayscale(transform: Any) -> native.ImageOp:
    if transform.num_output_channels != 3:
        raise ConfigError('pictures have three channels: pass num_output_channels=3, or leave it out and use Image(mode="L")')
    return native.Grayscale()


def _erasing(transform: Any) -> native.ImageOp:
    value = "random" if transform.value is None else transform.value
    return erase.RandomErasing(transform.p, tuple(transform.scale), tuple(transform.ratio), value)


def _inner(transform: Any) -> list[native.ImageOp]:
    """Returns the operations that a composition holds, one for each."""
    for part in _parts(transform):
        if type(part).__name__ in _CHANGES_OF_TYPE:
            raise ConfigError(f"{_shown(part)} cannot be in a composition: put it before or after")
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
        _has_one_colour(values.get("fill"))
        return kind(**values)

    return make


_MAKERS: dict[str, Callable[[Any], native.ImageOp]] = {
    "RandomResizedCrop": _resized_crop,
    "Resize": _resize,
    "RandomResize": lambda transform: native.RandomResize(transform.min_size, transform.max_size, _filter(transform)),
    "CenterCrop": _same(native.CenterCrop, "size"),
    "FiveCrop": _same(native.FiveCrop, "size"),
    "TenCrop": _ten_crop,
    "Pad": _same(native.Pad, "padding", "fill", "padding_mode"),
    "RandomCrop": _crop,
    "Grayscale": _grayscale,
    "RandomHorizontalFlip": _same(native.RandomHorizontalFlip, "p"),
    "Normalize": _normalize,
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
    "RandomPhotometricDistort": _same(colour.RandomPhotometricDistort, "brightness", "contrast", "saturation", "hue", "p"),
    "RandomChannelPermutation": _same(colour.RandomChannelPermutation),
    "RandomErasing": _erasing,
    "RandomRotation": _rotation,
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

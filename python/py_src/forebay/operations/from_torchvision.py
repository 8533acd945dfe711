"""Translation of torchvision's transforms to operations of the engine.

The transforms are recognised by their classes' names, of both of torchvision's interfaces, so torchvision is not imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, overload

from .. import fields as native
from ..errors import ConfigError
from ..fields.base import spec_of
from ..fields.checks import listed
from ..fields.pictures import Member
from . import compose, pixels, row
from .torchvision_makers import MAKERS, Kind, in_a_map, maker_of_script, moved_by, normalize, of_kind, resize_filter, text_of, with_fill


@overload
def from_torchvision(transforms: Any) -> list[native.ImageOp]: ...


@overload
def from_torchvision(transforms: Any, **fields: Member) -> native.Joint: ...


def from_torchvision(transforms: Any, **fields: Member) -> list[native.ImageOp] | native.Joint:
    """Returns the operations of `Image` that do the same as torchvision's transforms: `fb.Image("jpg", *fb.from_torchvision(...))`.

    With fields it returns a `Joint` of them, in which pictures, masks and boxes follow the transforms together:
    `fb.from_torchvision(recipe, image=fb.Image("jpg"), boxes=fb.Boxes("boxes"), labels=fb.BoxLabels("classes"))`. The operations follow
    those that a field already has. A `Mask` has the `fill` that a dict has for masks; `ConvertBoundingBoxFormat` becomes `to` of `Boxes`
    and `SanitizeBoundingBoxes` their `min_size` and `min_area`, where these are not set.

    Accepts a `Compose`, a list, or one transform, of `torchvision.transforms` or its `v2`, operations of forebay among them, and the presets
    of torchvision's reference scripts for `v2`. Conversions to tensors need no
    operation. A conversion to floats without `Normalize` becomes a `Normalize` that changes nothing, so that the pixels are
    floats from 0 to 1. After `Normalize` there can only be `LinearTransformation` and then `RandomErasing`; one with a value may be before it.

    Pixels are those that torchvision gives for pictures of Pillow. For tensors its results differ by a grey level here and
    there.

    Args:
        transforms: The transforms.
        **fields: Each output's name and its `Image`, `Mask`, `Boxes`, `BoxLabels`, `KeyPoints`, `ObjectMasks` or `ClassMap`.

    Raises:
        ConfigError: With every transform that has no translation, and the reason.
    """
    return _joint(transforms, fields) if fields else translated(transforms, "from_torchvision", Context())


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


@dataclass
class _OfBoxes:
    """Arguments of `Boxes` that transforms have set, and the type of masks."""

    to: str | None = None
    min_size: float | None = None
    min_area: float | None = None
    mask_dtype: str | None = None
    is_sanitized: bool = False
    """True if boxes have been left out, which the engine does after all operations."""
    keeps_labels: bool = False
    """True if labels of boxes that are left out stay."""


@dataclass(frozen=True)
class Context:
    """Kind of data that transforms are translated for."""

    library: Library | None = None
    kind: Kind = "image"
    boxes: _OfBoxes | None = None
    """Arguments of boxes, if the picture is in a `Joint`."""
    found: list[native.ImageOp] = field(default_factory=list)
    """Operations so far."""


def translated(transforms: Any, caller: str, context: Context) -> list[native.ImageOp]:
    """Returns the operations of torchvision's transforms, or of a library that adds its own."""
    found, problems = context.found, []
    is_float, last = False, ""
    for number, transform in enumerate(_flat(transforms, context.library)):
        try:
            was_float, is_float = is_float, _is_float_after(transform, is_float, context)
            if is_float:
                _has_no_levels(transform)
            ops = _translate(transform, context)
            if context.boxes and context.boxes.is_sanitized and not all(isinstance(op, _KEEPS_BOXES) for op in ops):
                raise ConfigError("put it before SanitizeBoundingBoxes: boxes are left out by their sizes after all operations")
            if context.kind == "mask":
                found += [op for op in ops if not isinstance(op, _NOT_FOR_MASKS)]
                continue
            if last and was_float == is_float and _are_erased_before(found, ops):
                _normalize_values(found, ops[0])
                continue
            if last and (was_float != is_float or not all(_may_follow(op, found) for op in ops)):
                raise ConfigError(f"put it before {last}: only LinearTransformation and then RandomErasing can be after Normalize")
            if not is_float and any(isinstance(op, row.LinearTransformation) for op in ops):
                raise ConfigError("its picture has floats from 0 to 1 here: put it after a ToDtype(torch.float32, scale=True)")
            found += ops
            if any(isinstance(op, (native.Normalize, *_AFTER_NORMALIZE)) for op in ops):
                last = f"number {number}, {type(transform).__name__}"
        except ConfigError as error:
            problems.append(f"number {number}, {text_of(transform)}: {error}")
    if problems:
        raise ConfigError(f"{caller} cannot translate " + "; ".join(problems))
    if is_float and not any(isinstance(op, native.Normalize) for op in found):
        found.insert(_first(found, *_AFTER_NORMALIZE), native.Normalize((0.0, 0.0, 0.0), (1.0, 1.0, 1.0)))
    return found


def _first(ops: list[native.ImageOp], *kinds: type) -> int:
    """Returns the index of the first operation of these kinds; the number of operations if there is none."""
    return next((index for index, op in enumerate(ops) if isinstance(op, kinds)), len(ops))


def _may_follow(op: native.ImageOp, found: list[native.ImageOp]) -> bool:
    """Returns True for an operation that can be after a `Normalize` or the operations that follow it."""
    is_linear = isinstance(op, row.LinearTransformation)
    return isinstance(op, row.RandomErasing) or (is_linear and _first(found, *_AFTER_NORMALIZE) == len(found))


def _are_erased_before(found: list[native.ImageOp], ops: list[native.ImageOp]) -> bool:
    """Returns True for a `Normalize` that follows boxes of constant values from 0 to 1."""
    is_one = len(ops) == 1 and isinstance(ops[0], native.Normalize)
    is_erased = _first(found, row.RandomErasing) < len(found)
    return is_one and is_erased and not any(isinstance(op, (native.Normalize, row.LinearTransformation)) for op in found)


def _normalize_values(found: list[native.ImageOp], normalized: Any) -> None:
    """Adds a `Normalize` before the erased boxes of `found`, with the values that it makes of theirs."""
    first = _first(found, row.RandomErasing)
    for index in range(first, len(found)):
        op: Any = found[index]
        if isinstance(op.value, str):
            raise ConfigError("it would change the noise of RandomErasing: put RandomErasing after it")
        values = listed(op.value)
        values = values * 3 if len(values) == 1 else values
        each = zip(values, normalized.mean, normalized.std, strict=True)
        found[index] = replace(op, value=tuple((value - mean) / std for value, mean, std in each))
    found.insert(first, normalized)


def _joint(transforms: Any, fields: Mapping[str, Any]) -> native.Joint:
    """Returns a `Joint` of fields that follow transforms."""
    caller, boxes = "from_torchvision", _OfBoxes()
    native.Joint(**fields)  # Rejects fields that cannot be in one.
    transforms = list(_flat(transforms))  # An iterator would be empty for the second field.
    ops: dict[Kind, list[native.ImageOp]] = {"image": translated(transforms, caller, Context(None, "image", boxes))}
    boxes.is_sanitized = False
    if any(isinstance(of, native.Mask) for of in fields.values()):
        ops["mask"] = translated(transforms, caller, Context(None, "mask", boxes))
    made = moved_by(fields, ops.__getitem__)
    for name, of in fields.items():
        if isinstance(of, native.Boxes):
            changed = {key: getattr(boxes, key) for key in ("to", "min_size", "min_area") if getattr(of, key) is None}
            made[name] = replace(of, **changed)
        if isinstance(of, native.BoxLabels) and boxes.keeps_labels:
            raise ConfigError("SanitizeBoundingBoxes with labels_getter=None keeps the labels of boxes that it leaves out: leave out BoxLabels")
        if isinstance(of, (native.Mask, native.ClassMap)) and boxes.mask_dtype not in (None, str(of.dtype).removeprefix("torch.")):
            what = type(of).__name__
            raise ConfigError(f'{name}: ToDtype converts masks to {boxes.mask_dtype}: pass dtype="{boxes.mask_dtype}" to the {what}')
    return native.Joint(**made)


_JOINT_IN_A_MAP = (
    "leave it out of the list, and call it for each sample in the loader's map, on the picture together with its masks and boxes, which are "
    "tv_tensors for it: a call for the picture alone would move it without them"
)
"""Way to use a transform without a translation in a `Joint`."""

_AROUND = "it is a class around a list of transforms: pass its attribute `transforms`"

_FOR_BOXES = frozenset(("ConvertBoundingBoxFormat", "ClampBoundingBoxes", "SanitizeBoundingBoxes"))
"""Transforms of only boxes."""

_AFTER_NORMALIZE = (row.LinearTransformation, row.RandomErasing)
"""Operations that can follow `Normalize`."""

_NOT_FOR_MASKS = (native.Normalize, native.Grayscale, *_AFTER_NORMALIZE)
"""Operations that leave labels as they are."""

_KEEPS_BOXES = (
    *(native.RandomHorizontalFlip, *_NOT_FOR_MASKS),
    *(getattr(pixels, name) for name in pixels.__all__),
)
"""Operations that leave the sizes of boxes."""


def _in_a_map(context: Context) -> str:
    return in_a_map('transform(sample["x"])') if context.boxes is None else _JOINT_IN_A_MAP


def _flat(transforms: Any, library: Library | None = None) -> Iterator[Any]:
    """Returns the transforms of a composition, in sequence."""
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


def _is_float_after(transform: Any, is_float: bool, context: Context) -> bool:
    """Returns True if pixels are floats from 0 to 1 after a transform; rejects conversions that pictures cannot have."""
    name, library = type(transform).__name__, context.library
    if library is not None and library.has(transform):
        return is_float or name in library.floats
    if not _is_torchvision(transform) or name not in _CHANGES_OF_TYPE:
        return is_float
    if name == "ToPILImage" and transform.mode not in (None, "RGB"):
        raise ConfigError(f'pass mode="{transform.mode}" to Image, and leave the transform out')
    if context.kind == "mask":
        _type_of_masks(transform, context.boxes)
        return False
    if name in ("ToTensor", "ToPILImage"):
        return name == "ToTensor"
    dtype = of_kind(transform.dtype, "image")
    if dtype is None:
        return is_float
    kind = str(dtype).removeprefix("torch.")
    if kind not in ("uint8", "float32"):
        raise ConfigError(f'convert to float32, and pass dtype="{kind}" to Image')
    if is_float != (kind == "float32") and name == "ToDtype" and not transform.scale:
        raise ConfigError("floats are from 0 to 1 here: pass scale=True")
    return kind == "float32"


def _type_of_masks(transform: Any, boxes: _OfBoxes | None) -> None:
    """Keeps the type that `ToDtype` has for masks; one type alone is for pictures."""
    dtype = getattr(transform, "dtype", None)
    dtype = of_kind(dtype, "mask") if isinstance(dtype, Mapping) else None
    if dtype is not None and boxes is not None:
        boxes.mask_dtype = str(dtype).removeprefix("torch.")


def _has_no_levels(transform: Any) -> None:
    """Rejects levels from 0 to 1: operations run before the conversion to floats, on levels from 0 to 255."""
    for part in (transform, *_parts(transform)):
        if type(part).__name__ == "GaussianNoise" and _is_torchvision(part):
            raise ConfigError("GaussianNoise adds to levels from 0 to 255: put it before the conversion to floats")
        if not isinstance(part, native.ImageOp) and (
            type(part).__name__ == "RandomSolarize" or _has_colour(of_kind(getattr(part, "fill", None), "image"))
        ):
            raise ConfigError(
                f"{type(part).__name__} has a level from 0 to 1 after a conversion to floats: "
                "put it before the conversion, with a level from 0 to 255"
            )


def _parts(transform: Any) -> Iterator[Any]:
    """Returns all transforms inside a composition that draws."""
    if _is_torchvision(transform) and type(transform).__name__ in _COMPOSITIONS:
        for part in _flat(list(transform.transforms)):
            yield part
            yield from _parts(part)


def _has_colour(fill: Any) -> bool:
    return any(level not in (0, None) for level in (fill if isinstance(fill, (list, tuple)) else [fill]))


def _translate(transform: Any, context: Context) -> list[native.ImageOp]:
    """Returns the operations of one transform."""
    name, library = type(transform).__name__, context.library
    if isinstance(transform, native.ImageOp):
        spec_of(transform)
        return [transform]
    if library is not None and library.has(transform):
        return _made(library.makers.get(name), transform, context) if name not in library.conversions else []
    if _module(transform) == "timm":
        raise ConfigError("pass the transforms to from_timm, which knows the transforms of timm and torchvision")
    if not _is_torchvision(transform):
        if (make := maker_of_script(transform)) is not None:
            return _made(make, transform, context)
        if type(getattr(transform, "transforms", None)).__name__ == "Compose":  # As the presets of torchvision's scripts.
            raise ConfigError(_AROUND)
        if name in MAKERS or name in _CONVERSIONS:
            raise ConfigError(
                f"it is a script's own class with the name of one of torchvision: use torchvision.transforms.v2.{name}, which the presets of "
                f"torchvision's reference scripts have with use_v2=True; {_in_a_map(context)}"
            )
        if name == "SimpleCopyPaste":
            raise ConfigError("it pastes objects of one sample of a batch into a second one: call it on the batches, in the training loop")
        raise ConfigError(f"only torchvision's transforms are known: {_in_a_map(context)}")
    if name in _CONVERSIONS:
        return []
    if name in _FOR_BOXES:
        _set_boxes(transform, context)
        return []
    if name in ("MixUp", "CutMix"):
        raise ConfigError(f"it mixes the samples of a batch: use forebay.Mix(forebay.{name}(...), x=Image(...), y=OneHot(...))")
    if name == "ImageClassification":  # Of `Weights.transforms()`.
        short, crop = (size[0] if len(size) == 1 else size for size in (transform.resize_size, transform.crop_size))
        return [native.Resize(short, resize_filter(transform)), native.CenterCrop(crop), normalize(transform)]
    if name in _COMPOSITIONS:
        inner = _inner(transform, context)
        if not inner and name != "RandomChoice":
            return []  # It held conversions only.
        return _made(lambda transform: _COMPOSITIONS[name](transform, inner), transform, context)
    if hasattr(transform, "transforms") and name not in MAKERS:
        raise ConfigError(_AROUND)
    return _made(MAKERS.get(name), transform, context)


def _made(make: Callable[[Any], native.ImageOp] | None, transform: Any, context: Context) -> list[native.ImageOp]:
    """Returns the operation that a maker makes of a transform."""
    if make is None:
        raise ConfigError(f"there is no such operation: {_in_a_map(context)}")
    op = make(with_fill(transform, context.kind))
    spec_of(op)  # Arguments that the library accepts, but the engine does not.
    return [op]


def _set_boxes(transform: Any, context: Context) -> None:
    """Keeps the arguments of a transform of boxes."""
    name, boxes = type(transform).__name__, context.boxes
    if boxes is None:
        raise ConfigError(
            "it is for boxes: pass the fields of the picture and its boxes, as in from_torchvision(transforms, "
            'image=Image("jpg"), boxes=Boxes("boxes"), labels=BoxLabels("classes"))'
        )
    if name == "ConvertBoundingBoxFormat":
        boxes.to = str(getattr(transform.format, "value", transform.format)).lower()
    if name == "SanitizeBoundingBoxes":
        boxes.min_size, boxes.min_area = float(transform.min_size), float(getattr(transform, "min_area", 1.0))
        boxes.keeps_labels = transform.labels_getter is None
        boxes.is_sanitized = True


_CHANGES_OF_TYPE = frozenset(("ToTensor", "ConvertImageDtype", "ToDtype", "ToPILImage"))
"""Conversions that can change the type of the pixels."""

_CONVERSIONS = _CHANGES_OF_TYPE | {"PILToTensor", "ToImage", "ToImageTensor", "ToPureTensor", "RGB", "Identity"}
"""Conversions between forms of a picture. The engine's pixels are already RGB, and become a tensor."""

_COMPOSITIONS: dict[str, Callable[[Any, list[native.ImageOp]], native.ImageOp]] = {
    "RandomApply": lambda transform, inner: compose.RandomApply(inner, transform.p),
    "RandomChoice": lambda transform, inner: compose.RandomChoice(inner, transform.p),
    "RandomOrder": lambda transform, inner: compose.RandomOrder(inner),
}
"""Makers of compositions, by the names of torchvision's classes."""


def _inner(transform: Any, context: Context) -> list[native.ImageOp]:
    """Returns the operations that a composition holds, one for each."""
    for part in _parts(transform):
        if type(part).__name__ in _CHANGES_OF_TYPE | _FOR_BOXES:
            raise ConfigError(f"{text_of(part)} cannot be in a composition: put it before or after")
    inner = []
    for part in transform.transforms:
        ops = [op for flat in _flat(part) for op in _translate(flat, context)]
        if not ops and type(transform).__name__ == "RandomChoice":
            raise ConfigError(f"{text_of(part)} is not an operation, so it cannot be chosen: put it before or after the RandomChoice")
        # A list in a list is applied as one.
        inner += ops if len(ops) < 2 else [compose.RandomApply(ops, p=1.0)]
    return inner

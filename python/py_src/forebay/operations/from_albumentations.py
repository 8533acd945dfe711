"""Translation of albumentations' transforms to operations of the engine. They are recognised by their names: albumentations is not imported."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, overload

from .. import fields as native
from ..errors import ConfigError
from ..fields.base import spec_of
from ..fields.checks import listed
from ..fields.pictures import Member
from . import compose, framing, pixels
from .torchvision_makers import Kind, in_a_map, moved_by, normalize, text_of


@overload
def from_albumentations(transforms: Any) -> list[native.ImageOp]: ...


@overload
def from_albumentations(transforms: Any, **fields: Member) -> native.Joint: ...


def from_albumentations(transforms: Any, **fields: Member) -> list[native.ImageOp] | native.Joint:
    """Returns the operations of `Image` that act as albumentations' transforms: `fb.Image("jpg", *fb.from_albumentations(Compose([...])))`.

    With fields it returns a `Joint` of them, in which pictures, masks and boxes follow the transforms together. `min_area`, `min_width` and
    `min_height` of `bbox_params` become `min_area` and `min_size` of the `Boxes`, which leave boxes out by their sizes after all operations.
    `keypoint_params` are for columns and rows that are kept: `KeypointParams("xy", remove_invisible=False)`. `KeyPoints` are distances from the edge of
    the picture, as boxes are, and albumentations counts pixels: add 0.5.

    Numbers are drawn from the same distributions, by the engine. Pixels are as by Pillow and torchvision: a resize is antialiased and
    OpenCV's is not, changes of colours and blurs differ by a level here and there, and the odd pixel that a `CenterCrop` cuts off may be at
    the other side. `HueSaturationValue`, flips, random crops, borders and `Normalize` have the same pixels for the same numbers.

    Args:
        transforms: A `Compose`, a list, or one transform, of albumentations 1.4 or 2.0.
        **fields: Each output's name and its `Image`, `Mask`, `Boxes`, `BoxLabels`, `KeyPoints`, `ObjectMasks` or `ClassMap`.

    Raises:
        ConfigError: With every transform that has no translation, and the reason.
    """
    if not fields:
        return _translated(transforms, "image")
    native.Joint(**fields)  # Rejects fields that cannot be in one.
    processors: Mapping[str, Any] = getattr(transforms, "processors", {})
    boxes = processors["bboxes"].params if "bboxes" in processors else None
    if "keypoints" in processors:
        _check_points(processors["keypoints"].params, fields)
    # An iterator would be empty for the second field.
    transforms = transforms if hasattr(transforms, "transforms") or _name(transforms) in _MAKERS else list(transforms)
    made = moved_by(fields, lambda kind: _translated(transforms, kind))
    for name, of in fields.items():
        if isinstance(of, native.Boxes) and boxes is not None:
            made[name] = _with_params(name, of, boxes)
    return native.Joint(**made)


def _name(transform: Any) -> str:
    return type(transform).__name__


def _translated(transforms: Any, kind: Kind) -> list[native.ImageOp]:
    problems: list[str] = []
    if getattr(transforms, "transforms", None) is None and not isinstance(transforms, (list, tuple)):
        transforms = [transforms]
    ops = _list(transforms, kind, problems, "")
    for index, op in enumerate(ops[:-1]):
        if isinstance(op, native.Normalize):
            problems.append(f"number {index}, Normalize: put it last, before ToTensorV2 only")
    if problems:
        raise ConfigError("from_albumentations cannot translate " + "; ".join(problems))
    return ops


def _list(transforms: Any, kind: Kind, problems: list[str], before: str) -> list[native.ImageOp]:
    """Returns the operations of a list of transforms."""
    ops: list[native.ImageOp] = []
    for number, transform in enumerate(getattr(transforms, "transforms", transforms)):
        label = f"{before}{number}"
        try:
            ops += _one(transform, kind, problems, label)
        except ConfigError as error:
            problems.append(f"number {label}, {text_of(transform)}: {error}")
    if p := _less_than_one(transforms):
        ops = [compose.RandomApply(ops, p)] if ops else []
    return ops


def _less_than_one(transform: Any) -> float | None:
    """Returns the probability of a transform that is not certain."""
    p = float(getattr(transform, "p", 1.0))
    return None if p >= 1.0 or getattr(transform, "always_apply", False) else p


def _one(transform: Any, kind: Kind, problems: list[str], label: str, is_forced: bool = False) -> list[native.ImageOp]:
    """Returns the operations of one transform; one that `is_forced` ignores its own probability."""
    if isinstance(transform, native.ImageOp):
        spec_of(transform)
        return [transform]
    name = _name(transform)
    if type(transform).__module__.split(".")[0] != "albumentations":
        raise ConfigError("only albumentations' transforms are known: " + _IN_A_MAP)
    if name in ("Compose", "Sequential"):
        return _list(transform, kind, problems, f"{label}.")
    if name == "OneOf":
        return _one_of(transform, kind, problems, label, is_forced)
    if name in ("ToTensorV2", "NoOp"):
        return []
    make = _MAKERS.get(name)
    if make is None:
        raise ConfigError(f"there is no such operation: {_REASONS.get(name, _IN_A_MAP)}")
    op = make(transform, kind)
    p = None if is_forced else _less_than_one(transform)
    if isinstance(op, native.Normalize):
        if p is not None:
            raise ConfigError("all pictures of a field are normalised: pass p=1")
        return [] if kind == "mask" else [op]
    spec_of(op)  # Arguments that the library accepts, but the engine does not.
    if hasattr(op, "p"):
        return [replace(op, p=1.0 if p is None else p)]
    return [op if p is None else compose.RandomApply([op], p)]


def _one_of(transform: Any, kind: Kind, problems: list[str], label: str, is_forced: bool) -> list[native.ImageOp]:
    """Returns a choice: the chosen transform is applied, whatever its own probability, which is its weight."""
    ops = []
    for number, part in enumerate(transform.transforms):
        try:
            of_part = _one(part, kind, problems, f"{label}.{number}", True)
            if not of_part:
                raise ConfigError("it is not an operation, so it cannot be chosen: put it before or after the OneOf")
            ops += of_part if len(of_part) == 1 else [compose.RandomApply(of_part, p=1.0)]
        except ConfigError as error:
            problems.append(f"number {label}.{number}, {text_of(part)}: {error}")
    if problems:
        return []
    choice = compose.RandomChoice(ops, [float(weight) for weight in transform.transforms_ps])
    p = None if is_forced else _less_than_one(transform)
    return [choice if p is None else compose.RandomApply([choice], p)]


_IN_A_MAP = in_a_map('transform(image=sample["x"])["image"]')
"""Way to use a transform without a translation."""

_REASONS = {
    "CoarseDropout": "its holes have sides in pixels, and RandomErasing draws shares of the area: put forebay.RandomErasing after the list",
    "RandomBrightnessContrast": "it adds to levels; ColorJitter multiplies them",
}
"""Reasons, and the nearest operations."""


def _filter(transform: Any) -> Any:
    names = {0: "nearest", 1: "bilinear", 2: "bicubic"}
    if transform.interpolation not in names:
        raise ConfigError("interpolation is cv2.INTER_NEAREST, INTER_LINEAR or INTER_CUBIC here")
    return names[transform.interpolation]


def _side(transform: Any) -> int:
    """Returns the one size of a transform that may draw from several."""
    sizes = listed(transform.max_size) if transform.max_size is not None else []
    if len(sizes) != 1:
        raise ConfigError("pass one number as max_size")
    return int(sizes[0])


def _resized_crop(transform: Any, kind: Kind) -> native.ImageOp:
    return native.RandomResizedCrop(tuple(transform.size), tuple(transform.scale), tuple(transform.ratio), _filter(transform))


def _pad(transform: Any, kind: Kind) -> native.ImageOp:
    if transform.pad_height_divisor is not None or transform.pad_width_divisor is not None:
        raise ConfigError("pass min_height and min_width, not a divisor")
    if transform.border_mode != 0:
        raise ConfigError("its borders have one colour here: pass border_mode=cv2.BORDER_CONSTANT")
    position = str(getattr(transform.position, "value", transform.position))
    if position not in ("center", "top_left"):
        raise ConfigError('position is "center" or "top_left" here')
    names = ("fill", "value") if kind == "image" else ("fill_mask", "mask_value")
    fill = next((getattr(transform, name) for name in names if getattr(transform, name, None) is not None), 0)
    levels = tuple(int(level) for level in listed(fill))
    size = (transform.min_height, transform.min_width)
    return framing.PadIfSmaller(size, levels[0] if len(levels) == 1 else levels, position)


def _crop(transform: Any, kind: Kind) -> native.ImageOp:
    if getattr(transform, "pad_if_needed", False):
        raise ConfigError("it adds borders as well: put a PadIfNeeded before it, with pad_if_needed=False")
    kind_of = native.CenterCrop if _name(transform) == "CenterCrop" else native.RandomCrop
    return kind_of((transform.height, transform.width))


def _normalize(transform: Any, kind: Kind) -> native.ImageOp:
    if transform.normalization != "standard":
        raise ConfigError('it depends on each picture: pass normalization="standard"')
    if transform.max_pixel_value != 255 or transform.mean is None or transform.std is None:
        raise ConfigError("pass max_pixel_value=255, and mean and std for levels from 0 to 1")
    return normalize(transform)


def _blur(transform: Any, kind: Kind) -> native.ImageOp:
    """Returns a choice of blurs: the size of the kernel is drawn, and an even one becomes the next odd one."""
    low, high = (int(bound) for bound in transform.blur_limit)
    if low < 1:
        raise ConfigError("pass odd numbers as blur_limit, such as (3, 7): 0 is a size by sigma")
    sizes = [size if size % 2 else (size + 1) % (high + 1) for size in range(low, high + 1)]
    if 0 in sizes:
        raise ConfigError("pass an odd upper bound of blur_limit")
    blurs, weights = [], []
    for size in sorted(set(sizes)):
        sigma = tuple(float(bound) for bound in transform.sigma_limit)
        # OpenCV's choice for 0.
        sigma = (0.3 * ((size - 1) * 0.5 - 1) + 0.8,) * 2 if sigma == (0.0, 0.0) else sigma
        if sigma[0] <= 0:
            raise ConfigError("pass a sigma_limit above 0, or 0 for a deviation by the size of the kernel")
        blurs.append(pixels.GaussianBlur(size, sigma))
        weights.append(float(sizes.count(size)))
    return blurs[0] if len(blurs) == 1 else compose.RandomApply([compose.RandomChoice(blurs, weights)], 1.0)


def _gray(transform: Any, kind: Kind) -> native.ImageOp:
    if transform.num_output_channels != 3 or transform.method != "weighted_average":
        raise ConfigError('pass num_output_channels=3 and method="weighted_average"')
    return pixels.RandomGrayscale()


def _of_ranges(kind_of: type[Any], *names: str) -> Callable[[Any, Kind], native.ImageOp]:
    """Returns the maker of an operation with ranges that have the names of the transform's attributes."""
    return lambda transform, kind: kind_of(**{name: tuple(getattr(transform, name)) for name in names})


_MAKERS: dict[str, Callable[[Any, Kind], native.ImageOp]] = {
    "HorizontalFlip": lambda transform, kind: native.RandomHorizontalFlip(),
    "VerticalFlip": lambda transform, kind: pixels.RandomVerticalFlip(),
    "RandomResizedCrop": _resized_crop,
    "Resize": lambda transform, kind: native.Resize((transform.height, transform.width), _filter(transform)),
    "SmallestMaxSize": lambda transform, kind: native.Resize(_side(transform), _filter(transform)),
    "LongestMaxSize": lambda transform, kind: native.Resize(None, _filter(transform), _side(transform)),
    "PadIfNeeded": _pad,
    "CenterCrop": _crop,
    "RandomCrop": _crop,
    "Normalize": _normalize,
    "ColorJitter": _of_ranges(pixels.ColorJitter, "brightness", "contrast", "saturation", "hue"),
    "GaussianBlur": _blur,
    "ToGray": _gray,
    "HueSaturationValue": _of_ranges(pixels.HueSaturationValue, "hue_shift_limit", "sat_shift_limit", "val_shift_limit"),
}
"""Makers by the names of albumentations' classes."""


def _check_points(params: Any, fields: Mapping[str, Any]) -> None:
    """Refuses parameters of key points that the fields do not have."""
    if not any(isinstance(of, native.KeyPoints) for of in fields.values()):
        raise ConfigError("from_albumentations: the transforms have keypoint_params: pass the points, as in points=KeyPoints(...)")
    if params.format != "xy":
        raise ConfigError(f'keypoint_params has the format {params.format!r}, and points are columns and rows here: pass format="xy"')
    if params.remove_invisible:
        message = "keypoint_params removes points outside of the picture, which moves the numbers of the points after them: pass remove_invisible=False."
        raise ConfigError(f"{message} With a third number, the visibility, such a point becomes (0, 0, 0)")


def _with_params(name: str, of: native.Boxes, params: Any) -> native.Boxes:
    """Returns boxes with the parameters of a `Compose`."""
    form = {"coco": "xywh", "pascal_voc": "xyxy"}.get(params.format)
    if form is None:
        raise ConfigError(f'{name}: bbox_params has the format {params.format!r}, and boxes are in pixels here: pass "coco" or "pascal_voc"')
    if of.format != form:
        raise ConfigError(f'{name}: bbox_params has the format {params.format!r}: pass format="{form}" to the Boxes')
    if params.min_visibility > 0:
        raise ConfigError(f"{name}: boxes are not left out by the share that is visible: pass min_visibility=0")
    if params.min_width != params.min_height:
        raise ConfigError(f"{name}: boxes have one smallest side: pass the same min_width and min_height")
    least = {"min_size": float(params.min_width), "min_area": max(float(params.min_area), 1e-6)}
    return replace(of, **{key: value for key, value in least.items() if getattr(of, key) is None})

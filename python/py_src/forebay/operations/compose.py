"""Compositions: operations that draw which of their operations are applied, and the numbers that were drawn for a picture."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from .._arguments import U32, reals, shown, text, whole, within
from ..errors import ConfigError
from ..fields import FiveCrop, Image, ImageOp, Joint, Mask, Normalize, TenCrop
from ..fields.base import spec_of
from .._forebay import drawn_operations
from .row import RandomErasing

__all__ = ["RandomApply", "RandomChoice", "RandomOrder", "drawn"]

_OUTSIDE = (FiveCrop, Normalize, RandomErasing, TenCrop)
"""Operations that are part of writing the row, or that make several pictures."""


_LEVELS_MAX = 32
"""Upper bound of the levels of compositions: documents of the engine have about twice as many."""


def _inner(name: str, transforms: Any) -> list[dict[str, Any]]:
    owner = name.rpartition(" ")[2]
    if not isinstance(transforms, tuple):
        raise ConfigError(f"{name} is a list of operations, but it is {shown(transforms)}")
    specs = []
    for op in transforms:
        if not isinstance(op, ImageOp):
            raise ConfigError(f"{owner}: {op!r} is not an operation of forebay, such as ColorJitter(0.4)")
        if isinstance(op, _OUTSIDE):
            raise ConfigError(
                f"{owner} cannot hold {type(op).__name__}, since it is not drawn together with operations: put it after the composition"
            )
        with within(owner):
            specs.append(op._spec())
    return specs


class _Composition(ImageOp):
    """Operation that holds operations."""

    _CHECKS = {"transforms": _inner}

    def __post_init__(self) -> None:
        # An iterator would be empty the second time.
        if isinstance(self.transforms, Iterable) and not isinstance(self.transforms, str):
            object.__setattr__(self, "transforms", tuple(self.transforms))
        if self._levels() > _LEVELS_MAX:
            raise ConfigError(
                f"{type(self).__name__}: compositions are nested more than {_LEVELS_MAX} levels deep: put some of them one after the other"
            )

    def _levels(self) -> int:
        """Returns the compositions from this one down to the innermost one."""
        inner = self.transforms if isinstance(self.transforms, tuple) else ()
        return 1 + max((op._levels() for op in inner if isinstance(op, _Composition)), default=0)


class RandomApply(_Composition):
    """Applies all operations of a list, or none, as in `RandomApply([GaussianBlur(5)], p=0.3)`.

    Args:
        transforms: Operations in order.
        p: Probability of all.
    """

    transforms: Sequence[ImageOp]
    p: float = 0.5


class RandomChoice(_Composition):
    """Applies one operation of a list, as in `RandomChoice([RandomCrop(32), CenterCrop(32)])`.

    Args:
        transforms: The operations.
        p: Weight of each. None: 1.
    """

    transforms: Sequence[ImageOp]
    p: Sequence[float] | None = None

    def _spec(self) -> dict[str, Any]:
        inner = _inner("transforms of RandomChoice", self.transforms)
        weights = {} if self.p is None else {"p": reals("p of RandomChoice", self.p, len(inner))}
        return {"op": "random_choice", "transforms": inner} | weights


class RandomOrder(_Composition):
    """Applies all operations of a list, in a drawn order.

    Args:
        transforms: The operations.
    """

    transforms: Sequence[ImageOp]


def drawn(
    field: Image | Mask,
    size: tuple[int, int],
    *,
    name: str,
    augment_seed: int,
    epoch: int = 0,
    stream: int = 0,
    draw: int = 0,
    view: int = 0,
    boxes: Sequence[Sequence[float]] | None = None,
) -> list[dict[str, Any]]:
    """Returns the steps of a field's operations for one sample, with the numbers that the engine draws.

    A step is a dict. `{"crop": ..., "resized": ..., "window": ..., "flip": ...}` cuts a box, resizes it with `interpolation`,
    keeps a part, which may have borders (`padding_mode`, `fill`), and mirrors it. The remaining ones have the name of a function of torchvision as their `action`, such as `adjust_brightness`, with its
    arguments; `transform`, `solarize_add` and `radius_blur` are functions of Pillow.

    Args:
        field: `Image` or `Mask`.
        size: (height, width) of the stored picture.
        name: The field's name in `fields`; for a field of a `Joint` the name of the `Joint`.
        augment_seed: The loader's `augment_seed`.
        epoch: The epoch, from 0.
        stream: The stream's number, from 0.
        draw: The sample's number in the epoch, before it is distributed to ranks.
        view: Number of the view, from 0, of an `Image` with `views`.
        boxes: Left, top, right and bottom of the sample's boxes, for a field with `RandomIoUCrop`.
    """
    if not isinstance(field, (Image, Mask)):
        expected = "the Image or the Mask in the Joint" if isinstance(field, Joint) else "an Image or a Mask"
        raise ConfigError(f"drawn needs {expected}, but the field is {shown(field)}")
    try:
        height, width = size
    except (TypeError, ValueError):
        raise ConfigError(f"size of drawn is (height, width) of the stored picture, but it is {shown(size)}") from None
    steps = drawn_operations(
        json.dumps(spec_of(field)),
        text("name of drawn", name),
        whole("augment_seed", augment_seed),
        (whole("epoch", epoch), whole("stream", stream, 0, U32), whole("draw", draw), whole("view", view, 0, U32)),
        (whole("width", width, 1, U32), whole("height", height, 1, U32)),
        None if boxes is None else [reals(f"boxes[{index}] of drawn", box, 4) for index, box in enumerate(boxes)],
    )
    return json.loads(steps)

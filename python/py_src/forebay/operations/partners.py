"""Operations that make one sample of several: `Mosaic` and `CopyPaste`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Union

from .._arguments import real, reals, whole, within
from ..errors import ConfigError
from ..fields import BoxLabels, Boxes, ClassMap, Field, Image, KeyPoints, Mask, ObjectMasks
from ..fields.checks import Fill, Size, fill_of, pair_of

__all__ = ["CopyPaste", "Mosaic"]

Member = Union[Image, Mask, Boxes, BoxLabels, KeyPoints, ObjectMasks, ClassMap]
"""Field of a picture or of its objects."""


class _Composed(Field):
    """Fields as those of a `Joint`, where each sample is composed with partners."""

    __slots__ = ("fields", "p")

    def __init__(self, p: float, fields: dict[str, Any], arguments: dict[str, Any]) -> None:
        name = type(self).__name__
        for argument, value in (arguments | {"p": p}).items():
            if isinstance(value, Field):
                raise ConfigError(f"{argument} of {name} is an argument, but it is a field: give the {type(value).__name__} a different name")
        for output, field in fields.items():
            if not isinstance(field, (Image, Mask, Boxes, BoxLabels, KeyPoints, ObjectMasks, ClassMap)):
                raise ConfigError(
                    f"{name}: {output} is {field!r}, but it holds Image, Mask, Boxes, BoxLabels, KeyPoints, ObjectMasks and ClassMap: leave "
                    f"the remaining fields in the loader's fields, next to the {name}"
                )
        self.p: float = p
        self.fields: dict[str, Any] = fields

    def _arguments(self) -> dict[str, Any]:
        raise NotImplementedError

    def __repr__(self) -> str:
        shown = {name: getattr(self, name) for name in (*type(self).__slots__, "p")} | self.fields
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in shown.items())})"

    def _spec(self) -> dict[str, Any]:
        specs = []
        for name, field in self.fields.items():
            with within(name):
                specs.append([name, field._spec()])
        return {"kind": "compose", "fields": specs, "by": self._arguments(), "p": real(f"p of {type(self).__name__}", self.p)}


class Mosaic(_Composed):
    """Four pictures that meet at a random point, as for YOLO, with their boxes, masks and key points.

        Mosaic(640, x=Image("jpg", Resize(None, max_size=640), RandomHorizontalFlip()), boxes=Boxes("objects", "boxes"))

    The picture of the sample is above and left of the point, and its partners are in the remaining quarters. Each picture has the size that its own
    operations end at, and a corner at the point: `Resize(None, max_size=640)` gives the geometry of YOLO, and `ScaleJitter` varies the sizes. Parts outside of
    the result are cut off.

    Args:
        size: Pixels of the result: one number for a square, or (height, width).
        fill: Grey level or (red, green, blue) of places without a picture.
        fill_mask: Label of these places in a `Mask`. A `ClassMap` has its background there.
        center_range: Smallest and largest position of the point, divided by the sides.
        p: Probability that a sample is composed. Otherwise its own picture is in the middle of the result, and no partner is read.
        **fields: Each output's name and its field, as in a `Joint`.

    The partners of a sample are drawn from its neighbours in the shuffled order, at most 1023 samples away. They depend on the seed, the epoch and the
    sample, and so are the same on any number of ranks and after a resume. A box without an area in the result is left out, and so is one below the `min_size`
    or `min_area` of its `Boxes`, with its label, mask and key points. A damaged partner counts as a bad sample, see `Skip`; its quarter is empty then.
    """

    __slots__ = ("center_range", "fill", "fill_mask", "size")

    def __init__(
        self,
        size: Size,
        *,
        fill: Fill = 114,
        fill_mask: int = 0,
        center_range: Sequence[float] = (0.0, 1.0),
        p: float = 1.0,
        **fields: Member,
    ) -> None:
        super().__init__(p, fields, {"size": size, "fill": fill, "fill_mask": fill_mask, "center_range": center_range})
        self.size: Size = size
        self.fill: Fill = fill
        self.fill_mask: int = fill_mask
        self.center_range: Sequence[float] = center_range

    def _arguments(self) -> dict[str, Any]:
        return {
            "op": "mosaic",
            "size": pair_of("size of Mosaic", self.size),
            "fill": fill_of("fill of Mosaic", self.fill),
            "fill_mask": whole("fill_mask of Mosaic", self.fill_mask, 0, 256),
            "center_range": reals("center_range of Mosaic", self.center_range, 2),
        }


class CopyPaste(_Composed):
    """Objects of a second picture, pasted by their masks, as torchvision's reference for detection does (without its blending).

        size = (ScaleJitter((1024, 1024)), FixedSizeCrop(1024), RandomHorizontalFlip())
        CopyPaste(
            x=Image("jpg", *size),
            boxes=Boxes("objects", "boxes", min_size=1),
            masks=ObjectMasks("objects", "segmentations"),
            labels=BoxLabels("objects", "labels"),
        )

    As many objects of the partner are drawn as it has, with replacement, and each one that was drawn is pasted once, at its place. Objects of
    the sample lose the pixels that are covered: one without a pixel left is left out, and a box becomes the box of the remaining pixels. A `Mask` or a
    `ClassMap` gets the partner's labels where it is covered; key points stay.

    Args:
        p: Probability that objects are pasted. Otherwise no partner is read.
        **fields: Each output's name and its field, as in a `Joint`, with `ObjectMasks` and pictures of one size.

    Partners are drawn as those of a `Mosaic`. A damaged partner counts as a bad sample; nothing is pasted then.
    """

    __slots__ = ()

    def __init__(self, *, p: float = 1.0, **fields: Member) -> None:
        super().__init__(p, fields, {})

    def _arguments(self) -> dict[str, Any]:
        return {"op": "copy_paste"}

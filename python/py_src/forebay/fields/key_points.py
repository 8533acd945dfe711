"""Points of the objects of a picture: a field of a `Joint`."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Union

from .._arguments import U32, by_name, shown, text, whole
from ..errors import ConfigError
from .base import Field, column_of, path_of, size_of


@by_name(flip_idx="flip", flip_indices="flip", kpt_shape="points", num_keypoints="points")
@dataclass(frozen=True)
class KeyPoints(Field):
    """Points of objects, such as joints of persons, which follow the operations of a picture in the same `Joint`: a list of N float32 arrays
    (n, k, 2 or 3), or (k, 2 or 3) where a sample has the points of one object.

    They are moved by crops, resizes, borders, flips, rotations, affine and perspective transforms, as the corners of `Boxes` are: the left
    and upper edge of the picture is 0, and the right edge its width. The middle of a pixel is half a pixel from its edge, so add 0.5 to numbers of pixels.

        Joint(
            image=Image("jpg", RandomResizedCrop(256), RandomHorizontalFlip()),
            boxes=Boxes("json", "objects.boxes", format="xywh", min_size=1),
            points=KeyPoints("json", "objects.keypoints", flip=[(1, 2), (3, 4)]),
        )

    With a third number, the visibility, a point outside of the picture or with a visibility of 0 becomes (0, 0, 0), as in COCO. With two, positions outside
    of the picture stay as they are. The points of an object are left out where `Boxes` leave out its box.

    Args:
        column: Column with an array of two or three numbers per point (column and row in pixels, visibility), a file of numpy, or a JSON document. COCO's lists
            of 3 k numbers per object are points as well.
        path: Path to the list inside a JSON document, as in `Json`. None: the document is the list.
        flip: Left and right points of an object, which are exchanged when the picture is mirrored left to right: pairs of their numbers from 0,
            as [(1, 2), (3, 4)], or the number of each point's opposite, as [0, 2, 1, 4, 3]. None: none are.
        points: Number of the points of an object; a different number is an error. None: any.
        of: Name of the picture or mask. None: the first one of the `Joint`.
        boxes: Name of the `Boxes` of the objects. None: the first ones of the `Joint`, if it has some.
        size: As in `Boxes`.
    """

    column: str
    path: str | Sequence[str | int] | None = None
    flip: Sequence[Union[int, Sequence[int]]] | None = None
    points: int | None = None
    of: str | None = None
    boxes: str | None = None
    size: str | Sequence[str | int] | None = "size"

    def _spec(self) -> dict[str, Any]:
        spec = {"kind": "key_points", "column": column_of(self), **path_of(self)}
        if self.size != "size":
            spec["size"] = size_of(self)
        if self.flip is not None:
            spec["flip"] = _pairs(self.flip)
        if self.points is not None:
            spec["points"] = whole("points of KeyPoints", self.points, 1, U32)
        for name in ("of", "boxes"):
            if getattr(self, name) is not None:
                spec[name] = text(f"{name} of KeyPoints", getattr(self, name), "a field's name")
        return spec


def _pairs(flip: Any) -> list[list[int]]:
    """Returns the pairs of points that are exchanged."""
    name = "a number in flip of KeyPoints"
    example = f"flip of KeyPoints is pairs of points, as [(1, 2), (3, 4)], or the opposite of each, as [0, 2, 1, 4, 3], but it is {shown(flip)}"
    try:
        found = list(flip)
    except TypeError:
        raise ConfigError(example) from None
    if isinstance(flip, (str, bytes)):
        raise ConfigError(example)
    if not any(isinstance(each, numbers.Integral) for each in found):
        pairs = [list(each) if isinstance(each, Sequence) and not isinstance(each, (str, bytes)) else [] for each in found]
        if any(len(pair) != 2 for pair in pairs):
            raise ConfigError(example)
        return [[whole(name, number, 0, U32) for number in pair] for pair in pairs]
    opposite = [whole(name, number, 0, U32) for number in found]
    if any(number >= len(opposite) or opposite[number] != place for place, number in enumerate(opposite)):
        raise ConfigError(f"{example}: the opposite of each point's opposite is the point")
    return [[place, number] for place, number in enumerate(opposite) if place < number]

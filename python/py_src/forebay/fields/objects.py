"""Boxes, key points and masks of the objects of a picture, and their labels: fields of a `Joint`."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from functools import partial
from typing import Any, Union, get_args

from .._arguments import U32, none_or, one_of, real, shown, whole
from .._choices import BoxFormat, DType
from ..errors import ConfigError
from .base import ColumnField, json_path

_format = partial(one_of, choices=get_args(BoxFormat))
_pixels = partial(none_or, partial(real, expected="a number of pixels, at least 0", least=0))
_level = partial(whole, below=256)


def _size(name: str, value: Any) -> Any:
    # The usual path is the engine's own.
    return None if value in ("size", None) else json_path(name, value)


class _Annotated(ColumnField):
    """Field of a document that may have the size of its picture."""

    _CHECKS = ColumnField._CHECKS | {"size": _size}

    def _spec(self) -> dict[str, Any]:
        return super()._spec() | ({"size": None} if vars(self)["size"] is None else {})


class Boxes(_Annotated):
    """Boxes around objects, which follow the operations of a picture in the same `Joint`: a list of N float32 arrays (k, 4).

    They are moved by crops, resizes, borders, flips, rotations, affine and perspective transforms as torchvision moves
    `BoundingBoxes`, to the box around the moved corners, and clamped to the picture. A box that a crop leaves out has no area.

        Joint(
            image=Image("jpg", RandomResizedCrop(512), RandomHorizontalFlip()),
            boxes=Boxes("json", "objects.boxes", format="xywh", min_size=1),
            classes=BoxLabels("json", "objects.classes"),
        )

    Args:
        column: Column with an array of four numbers per box, a file of numpy, or a JSON document.
        path: Path to the list of boxes inside a JSON document, as in `Json`. None: the document is the list.
        format: "xyxy": left, top, right and bottom; "xywh": left, top, width and height; "cxcywh": column and row of the
            middle, width and height. In pixels, of the column.
        of: Name of the picture or mask. None: the first one of the `Joint`. Boxes are in the coordinates of the picture as
            it is without `ops`: turned, if `apply_exif_orientation` is set.
        min_size: Leave out boxes with a smaller width, height or area, as torchvision's `SanitizeBoundingBoxes` does; pixels. `BoxLabels`
            leave out the same. None: keep all.
        to: The same of the result: `Boxes("objects", "boxes", format="xywh", to="xyxy")`. None: as `format`.
        min_area: Leave out boxes with a smaller area. None: `min_size`.
        size: Path to [height, width] of the annotated picture in the document. A picture of a different size is a `DecodeError`: its
            boxes would be elsewhere. A document without two integers there is not compared; None: none is.
    """

    column: str
    path: str | Sequence[str | int] | None = None
    format: BoxFormat = "xyxy"
    of: str | None = None
    min_size: float | None = None
    to: BoxFormat | None = None
    min_area: float | None = None
    size: str | Sequence[str | int] | None = "size"

    _CHECKS = _Annotated._CHECKS | {"format": _format, "to": partial(none_or, _format), "min_size": _pixels, "min_area": _pixels}


class BoxLabels(ColumnField):
    """A number or an array for each box of the same `Joint`, such as its class: a list of N arrays (k, ...), except for boxes
    that are left out. An example is in `Boxes`.

    Args:
        column: Column with an array, a file of numpy, or a JSON document. Its first dimension is the number of boxes.
        path: Path to a list of numbers inside a JSON document, as in `Json`. None: the document is the list.
        dtype: Type of the result. None: the array's own type, and "int64" for JSON.
        of: Name of the boxes. None: the first ones of the `Joint`.
    """

    column: str
    path: str | Sequence[str | int] | None = None
    dtype: DType | None = None
    of: str | None = None


def _pairs(argument: str, flip: Any) -> list[list[int]]:
    """Returns the pairs of points that are exchanged."""
    name = f"a number in {argument}"
    example = f"{argument} is pairs of points, as [(1, 2), (3, 4)], or the opposite of each, as [0, 2, 1, 4, 3], but it is {shown(flip)}"
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


class KeyPoints(_Annotated, elsewhere={"flip_idx": "flip", "flip_indices": "flip", "kpt_shape": "points", "num_keypoints": "points"}):
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

    _CHECKS = _Annotated._CHECKS | {"flip": partial(none_or, _pairs)}


class ObjectMasks(_Annotated):
    """Masks of the objects of a picture in the same `Joint`: a list of N uint8 arrays (k, H, W), 1 inside of an object and 0 outside.

    They are drawn from COCO's segmentations with the pixels of pycocotools, in the size of the stored picture, and follow the operations of the
    picture as a `Mask` does; borders are 0. They are in the order of the `Boxes` of the `Joint`, and masks of boxes that are left out are left out.

        Joint(
            image=Image("file", RandomResizedCrop(512), RandomHorizontalFlip()),
            boxes=Boxes("objects", "boxes", format="xywh", min_size=1),
            labels=BoxLabels("objects", "labels"),
            masks=ObjectMasks("objects", "segmentations"),
        )

    A segmentation is a list of polygons, `[[x, y, x, y, ..], ..]`, and its pixels are inside of at least one; or it is run lengths
    `{"counts": .., "size": [height, width]}`, column by column, as a list or as pycocotools' text. One that pycocotools refuses is a
    `DecodeError`, and so are an object without a segmentation and a size that is not the picture's.

    Args:
        column: Column with a JSON document.
        path: Path to the list of segmentations in the document, as in `Json`. None: the document is the list.
        of: Name of the boxes of the same objects. None: the first ones of the `Joint`; without boxes all objects of the first picture.
        size: Path to [height, width] of the annotated picture in the document. A picture of a different size is a `DecodeError`: its
            polygons would be in wrong positions. A document without the path, or None: not compared.
    """

    column: str
    path: str | Sequence[str | int] | None = None
    of: str | None = None
    size: str | Sequence[str | int] | None = "size"


class ClassMap(_Annotated):
    """The class of each pixel of a picture in the same `Joint`, painted object by object: a tensor (N, H, W), or a list of N arrays (H, W) if
    the operations of the picture do not end at a fixed size.

    Segmentations are as in `ObjectMasks`. The map follows the operations of the picture, and borders have the class `background`.

        ClassMap("objects", "segmentations", "category_ids")  # 0: no object
        ClassMap("objects", "segmentations", "labels", background=255, overlap=255)

    Args:
        column: Column with a JSON document.
        path: Path to the list of segmentations in the document, as in `Json`. None: the document is the list.
        labels: Path to the list of the objects' classes in the document.
        background: Class of pixels without an object, 0 to 255. An object with this class is a `DecodeError`.
        overlap: Class of pixels of several objects. None: the class of the last one of these.
        of: Name of the picture or mask. None: the first one of the `Joint`.
        size: As in `ObjectMasks`.
        dtype: Integer type that can represent 255. A class that does not fit is a `DecodeError`.
    """

    column: str
    path: str | Sequence[str | int] | None
    labels: str | Sequence[str | int]
    background: int = 0
    overlap: int | None = None
    of: str | None = None
    size: str | Sequence[str | int] | None = "size"
    dtype: DType = "uint8"

    _CHECKS = _Annotated._CHECKS | {"labels": json_path, "background": _level, "overlap": partial(none_or, _level)}

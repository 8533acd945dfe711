"""Boxes around the objects of a picture, and their labels: fields of a `Joint`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .._arguments import by_name, one_of, real, text
from .._choices import BoxFormat, DType
from .base import Field, column_of, dtype_of, path_of, size_of

_FORMATS = ("xyxy", "xywh", "cxcywh")


@by_name()
@dataclass(frozen=True)
class Boxes(Field):
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

    def _spec(self) -> dict[str, Any]:
        spec = {
            "kind": "boxes",
            "column": column_of(self),
            "format": one_of("format of Boxes", self.format, _FORMATS),
            **path_of(self),
            **of_field(self),
        }
        if self.size != "size":
            spec["size"] = size_of(self)
        if self.to is not None:
            spec["to"] = one_of("to of Boxes", self.to, _FORMATS)
        for name in ("min_size", "min_area"):
            if getattr(self, name) is not None:
                spec[name] = real(f"{name} of Boxes", getattr(self, name), "a number of pixels, at least 0", least=0)
        return spec


@by_name()
@dataclass(frozen=True)
class BoxLabels(Field):
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

    def _spec(self) -> dict[str, Any]:
        return {"kind": "box_labels", "column": column_of(self), "dtype": dtype_of(self.dtype), **path_of(self), **of_field(self)}


def of_field(field: Any) -> dict[str, Any]:
    """Returns the engine's form of the name of the field that this one follows, if it has one."""
    return {} if field.of is None else {"of": text(f"of {type(field).__name__}", field.of, "a field's name")}

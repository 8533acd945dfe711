"""Masks of the objects of a picture, by the segmentations of COCO: fields of a `Joint`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .._arguments import by_name, whole
from .._choices import DType
from .base import Field, column_of, dtype_of, path_of, size_of
from .boxes import of_field


@by_name()
@dataclass(frozen=True)
class ObjectMasks(Field):
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

    def _spec(self) -> dict[str, Any]:
        return {"kind": "object_masks", "column": column_of(self), **path_of(self), **of_field(self), "size": size_of(self)}


@by_name()
@dataclass(frozen=True)
class ClassMap(Field):
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

    def _spec(self) -> dict[str, Any]:
        spec = {
            "kind": "class_map",
            "column": column_of(self),
            **path_of(self),
            **path_of(self, "labels", is_needed=True),
            "background": whole("background of ClassMap", self.background, 0, 256),
            **of_field(self),
            "size": size_of(self),
            "dtype": dtype_of(self.dtype),
        }
        if self.overlap is not None:
            spec["overlap"] = whole("overlap of ClassMap", self.overlap, 0, 256)
        return spec

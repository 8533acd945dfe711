"""Fields of pictures and masks, and of both together."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Union, get_args

from .._arguments import U32, by_name, flag, one_of, whole
from .._choices import DType, Layout, Mode
from ..errors import ConfigError
from .base import Field, ImageOp, column_of, dtype_of, pairs_of
from .objects import BoxLabels, Boxes, ClassMap, KeyPoints, ObjectMasks
from .crops import Normalize

_OF_OPERATIONS = dict.fromkeys(
    ("augment", "crop", "ops", "resize", "size", "transform", "transforms"),
    ". operations follow the column, as in Image('jpg', RandomResizedCrop(224), RandomHorizontalFlip())",
)
"""Advice for arguments that are operations."""


@by_name(**_OF_OPERATIONS)
class Image(Field):
    """A picture: a JPEG, PNG, WebP, BMP, GIF, TIFF, PBM, PGM or PPM file, or one of the raw image encodings, as a tensor of pixels.

        Image("jpg", RandomResizedCrop(224), Normalize(IMAGENET_MEAN, IMAGENET_STD))     # (N, 3, 224, 224), "float32"

    The result is (N, C, H, W) for `layout="NCHW"` and (N, H, W, C) for `layout="NHWC"`, with the channels of its
    `mode`: three for "RGB". Grey is repeated, transparency is dropped, 16-bit values keep the upper 8 bits (all with mode "I;16"), and animations give the first frame. The type
    is "float32" with `Normalize` and otherwise "uint8", unless `dtype` names a different type. "uint8" has grey levels 0 to 255;
    float types have them divided by 255, before `Normalize`. If `ops` does not end at a fixed
    size, the result is a list of N pictures of different sizes.

    A column with several pictures in each sample ("jpeg_array", "list[jpeg]", "list[png]", "list[pil]") gives a list of
    N arrays, in which the pictures are the first dimension. `ops` draws once per sample, so that the frames of a video
    are cut alike, and must give all pictures of a sample one size.

    Args:
        column: Column with the encoded picture or pictures.
        *ops: Operations in this order. `Normalize` must be the last, before any `RandomErasing`.
        dtype: "uint8", "float32", "float16" or "bfloat16". None: "float32" with `Normalize`, else "uint8". Mode "I;16" has "uint16"
            or "int32" instead of "uint8".
        layout: "NCHW" or "NHWC"; `x.permute(0, 3, 1, 2)` of the latter is torch's channels_last, without a copy.
        tolerant: Decode damaged and truncated JPEG files as far as libjpeg-turbo can, with the rest mostly grey, and
            count them as `pictures_damaged` in `stats()`. By default they are errors. Damage below the part that the
            operations need is not detected in either case.
        apply_exif_orientation: Turn and mirror files by their EXIF or XMP data, before `ops`, as Pillow's
            `ImageOps.exif_transpose` does. By default they stay as stored, as in Pillow and torchvision. Masks always
            stay as stored. Set this if the mask of a `Joint` was drawn on the turned picture.
        scaled_decode: Decode a JPEG file at a half, a quarter or an eighth of its size if `ops` start with a resize, or
            crop and resize, that reduces both sides by at least that factor, like Pillow's `draft`. Large photographs
            decode faster: 1.1 to 2.7 times for 1 to 12 megapixels and crops to 224, in addition to the gain of a row
            index. The pixels are not exact: on photographs of a megapixel they differ by about one grey level on
            average, single ones by tens. `pictures_scaled` in `stats()` counts the pictures. Pictures that a CUDA
            device decodes (`Engine(device_decode=)`) are decoded in full.
        views: Pictures that are made of each sample, each with its own random draws, as a dimension V after N: (N, V, C, H,
            W), or (N, V, H, W, C). The first view has the draws of the field without views. `ops` must end at a fixed size,
            and the column must have one picture per sample. None: one picture, without this dimension. Views, and fields of
            the same column, share the decode of a file where that takes less time. For the crops of DINO:
            `{"global": Image("jpg", RandomResizedCrop(224, scale=(0.4, 1)), views=2), "local": Image("jpg",
            RandomResizedCrop(96, scale=(0.05, 0.4)), views=6)}`. `FiveCrop` and `TenCrop` among `ops` make views of their own kind.
        mode: "RGB"; "L" for one channel of grey levels; or "RGBA" for colours and opacity, which is 255 in files without one and 0 in
            borders: the result of Pillow's `convert`, before `ops`. Colours among the arguments of `ops`, such as `fill`, are
            then one number. "RGBA" takes crops, resizes, borders, flips, `Normalize` of four numbers and `RandomErasing`. "I;16" has one
            channel of 16 bits: the stored values of grey files of 16 or 8 bits (PNG, TIFF, PGM), and of "pil" columns of modes I;16 and L. Float types
            have them divided by 65535. It takes the operations of "RGBA", with `Normalize` of one number; `fill` and `value` are at most
            255. "RGBA" and "I;16" decode a file for each of its views.
    """

    __slots__ = ("apply_exif_orientation", "column", "dtype", "layout", "mode", "ops", "scaled_decode", "tolerant", "views")
    _CHOICES = ("tolerant", "apply_exif_orientation", "scaled_decode")

    def __init__(
        self,
        column: str,
        *ops: ImageOp,
        dtype: DType | None = None,
        layout: Layout = "NCHW",
        tolerant: bool = False,
        apply_exif_orientation: bool = False,
        scaled_decode: bool = False,
        views: int | None = None,
        mode: Mode = "RGB",
    ) -> None:
        self.column: str = column
        self.tolerant: bool = tolerant
        self.apply_exif_orientation: bool = apply_exif_orientation
        self.scaled_decode: bool = scaled_decode
        self.views: int | None = views
        self.mode = mode
        self.ops: tuple[ImageOp, ...] = _operations("Image", column, ops)
        self.layout = layout
        if dtype is None:
            levels = "uint16" if mode == "I;16" else "uint8"
            dtype = "float32" if any(isinstance(op, Normalize) for op in ops) else levels
        self.dtype = dtype

    def __repr__(self) -> str:
        parts = [repr(self.column), *map(repr, self.ops), f"dtype={self.dtype!r}", f"layout={self.layout!r}"]
        parts += [f"{name}=True" for name in self._CHOICES if getattr(self, name)]
        parts += [] if self.views is None else [f"views={self.views}"]
        parts += [] if self.mode == "RGB" else [f"mode={self.mode!r}"]
        return f"Image({', '.join(parts)})"

    def _spec(self) -> dict[str, Any]:
        spec: dict[str, Any] = {
            "kind": "image",
            "column": column_of("column of Image", self.column),
            "ops": [op._spec() for op in self.ops],
            "dtype": dtype_of("dtype of Image", self.dtype),
            "layout": one_of("layout of Image", self.layout, get_args(Layout)),
        }
        if self.views is not None:
            spec["views"] = whole("views of Image", self.views, 1, U32)
        if self.mode != "RGB":
            spec["mode"] = one_of("mode of Image", self.mode, get_args(Mode))
        return spec | {name: True for name in self._CHOICES if flag(f"{name} of Image", getattr(self, name))}


@by_name(**_OF_OPERATIONS)
class Mask(Field):
    """A picture of labels, as for segmentation, resized by nearest neighbour: a tensor of shape (N, H, W).

        Mask("png", Resize((256, 256)), dtype="uint8")

    Args:
        column: Column with PNG, TIFF, BMP, GIF or PGM files of one channel (grey or palette), or raw pixels of mode L, P or I;16.
        *ops: Operations in this order, without `Normalize`, `Grayscale` and `RandomErasing`. In a `Joint` they use the random
            draws of the picture, and operations that only change colours may be left out.
        dtype: Integer type that can represent 255. Stored values are not changed. A value of 16 bits that does not fit is a
            `DecodeError`.
    """

    __slots__ = ("column", "dtype", "ops")

    def __init__(self, column: str, *ops: ImageOp, dtype: DType = "int64") -> None:
        self.column: str = column
        self.ops: tuple[ImageOp, ...] = _operations("Mask", column, ops)
        self.dtype = dtype

    def __repr__(self) -> str:
        return f"Mask({', '.join([repr(self.column), *map(repr, self.ops), f'dtype={self.dtype!r}'])})"

    def _spec(self) -> dict[str, Any]:
        column, dtype = column_of("column of Mask", self.column), dtype_of("dtype of Mask", self.dtype)
        return {"kind": "mask", "column": column, "ops": [op._spec() for op in self.ops], "dtype": dtype}


def followed_by(field: Image | Mask, ops: Sequence[ImageOp]) -> Image | Mask:
    """Returns a field with more operations. Levels become floats if one of them is `Normalize`."""
    changed = copy.copy(field)
    changed.ops = (*field.ops, *ops)
    if field.dtype in ("uint8", "uint16") and any(isinstance(op, Normalize) for op in ops):
        changed.dtype = "float32"
    return changed


def _operations(kind: str, column: str, ops: tuple[ImageOp, ...]) -> tuple[ImageOp, ...]:
    for op in ops:
        if isinstance(op, (list, tuple)):
            raise ConfigError(f"{kind}({column!r}): pass the operations one by one, not as a {type(op).__name__}")
        if not isinstance(op, ImageOp):
            raise ConfigError(f"{kind}({column!r}): {op!r} is not an operation of forebay, such as Resize(256): {_instead(op)}")
    return ops


def _instead(op: Any) -> str:
    """Returns the way to use an operation that an `Image` cannot have, as the end of a sentence."""
    if type(op).__module__.split(".")[0] == "torchvision":
        return "pass *from_torchvision(...) of torchvision's transforms, which translates them"
    if isinstance(op, type) and issubclass(op, ImageOp):
        return f"write {op.__name__}(...), with its arguments"
    if type(op).__name__ in ("MixUp", "CutMix"):
        return f"it mixes the samples of a batch: write Mix({type(op).__name__}(...), x=Image(...), y=OneHot(...)) in the loader's fields"
    if isinstance(op, int):
        return f"write Resize({op}), RandomResizedCrop({op}) or CenterCrop({op})"
    return "call the operations of other libraries for each sample, in the loader's map"


Member = Union[Image, Mask, Boxes, BoxLabels, KeyPoints, ObjectMasks, ClassMap]
"""Field of a picture or of its objects."""

MEMBERS = get_args(Member)
"""Classes of these fields."""


class Members(Field):
    """Fields that follow the operations of a picture together, and further arguments: the slots of a class."""

    __slots__ = ("fields",)

    def __init__(self, fields: dict[str, Member]) -> None:
        owner = type(self).__name__
        for name, field in fields.items():
            if not isinstance(field, MEMBERS):
                raise ConfigError(
                    f"{owner}: {name} is {field!r}, but it holds Image, Mask, Boxes, BoxLabels, KeyPoints, ObjectMasks and ClassMap: leave "
                    f"the remaining fields in the loader's fields, next to the {owner}"
                )
        self.fields: dict[str, Member] = fields

    def __repr__(self) -> str:
        slots = [slot for kind in type(self).__mro__[:-2] for slot in kind.__slots__ if slot != "fields"]
        arguments = {name: getattr(self, name) for name in slots} | self.fields
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in arguments.items())})"


class Joint(Members):
    """Pictures that share their random draws, such as a photograph and its mask: the same crop, the same flip. Boxes, key points and masks of
    objects follow them.

        Joint(photo=Image("jpg", RandomResizedCrop(224)), mask=Mask("png", RandomResizedCrop(224)))

    Args:
        **fields: Each output's name and its `Image`, `Mask`, `Boxes`, `BoxLabels`, `KeyPoints`, `ObjectMasks` or `ClassMap`.

    A mask may be smaller or larger than its picture, with the same aspect ratio up to a rounding: its crop shows the part that the crop of the first
    picture shows. Before a `RandomCrop`, a rotation or a policy, which count pixels, both need the same size. Otherwise the sample
    is an error. Masks ignore EXIF orientation, see `Image`.

    The outputs are in the batch under their own names. The name of the `Joint` in `fields` is part of the key of its
    draws.
    """

    __slots__ = ()

    def __init__(self, **fields: Member) -> None:
        super().__init__(fields)

    def _spec(self) -> dict[str, Any]:
        return {"kind": "joint", "fields": pairs_of(self.fields)}

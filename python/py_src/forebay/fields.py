"""Fields of a batch, one per output. Each is made from one column of the samples.

A field has a column, operations and a result type. It is a plain value: the engine checks it when the loader is made,
and decodes.

Shapes below are those of a batch: N rows, H and W in pixels, C channels.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union

from .arguments import U32, by_name, flag, one_of, real, reals, shown, text, whole, within
from .convert.ragged import DTYPES
from .errors import ConfigError

__all__ = [
    "IMAGENET_MEAN",
    "IMAGENET_STD",
    "Array",
    "Bytes",
    "CenterCrop",
    "Field",
    "Grayscale",
    "Image",
    "ImageOp",
    "Joint",
    "Json",
    "Length",
    "Mask",
    "Normalize",
    "Pad",
    "RandomCrop",
    "RandomHorizontalFlip",
    "RandomResizedCrop",
    "Resize",
    "Scalar",
    "Text",
    "Tokens",
]

IMAGENET_MEAN = (0.485, 0.456, 0.406)
"""Mean of ImageNet's red, green and blue, for pixels in 0..1."""

IMAGENET_STD = (0.229, 0.224, 0.225)
"""Standard deviation of ImageNet's red, green and blue, for pixels in 0..1."""


# Classes and not unions: a type checker finds them as the common type of the values of a dict or of a list.
class Field:
    """Type of the values of `fields`."""

    __slots__ = ()

    def _spec(self) -> dict[str, Any]:
        """Returns the engine's form."""
        raise NotImplementedError


class ImageOp:
    """Operation of an `Image`."""

    __slots__ = ()

    def _spec(self) -> dict[str, Any]:
        """Returns the engine's form."""
        raise NotImplementedError


Size = Union[int, Sequence[int]]
"""Pixels: one number for a square, or (height, width)."""


def _pair(op: str, size: Size) -> list[int]:
    """Returns (height, width) of an operation's size."""
    pair = list(size) if isinstance(size, Sequence) and not isinstance(size, str) else [size, size]
    if len(pair) != 2:
        raise ConfigError(f"size of {op} is a whole number of pixels or (height, width), but it is {size!r}")
    return [whole(f"size of {op}", side, 1, U32) for side in pair]


def _borders(op: str, padding: Union[int, Sequence[int]]) -> list[int]:
    """Returns (left, top, right, bottom) of an operation's padding."""
    sides = list(padding) if isinstance(padding, Sequence) and not isinstance(padding, str) else [padding]
    if len(sides) not in (1, 2, 4):
        raise ConfigError(
            f"padding of {op} is a number of pixels, (left and right, top and bottom) or (left, top, right, bottom), but it is "
            f"{padding!r}"
        )
    return [whole(f"padding of {op}", side, 0, U32) for side in sides] * (4 // len(sides))


def _dtype(value: Any) -> str | None:
    """Returns the name of a type, which may be an object of torch or numpy."""
    if value is None:
        return None
    name = value if isinstance(value, str) else getattr(value, "name", None) or getattr(value, "__name__", None) or str(value)
    name = name.removeprefix("torch.")
    if name not in DTYPES:
        raise ConfigError(f"{value!r} is no type of a field; these are: {', '.join(DTYPES)}")
    return name


def _column(field: Any) -> str:
    """Checks the column of a field."""
    return text(f"column of {type(field).__name__}", field.column, "a column's name")


def _default(field: Any) -> dict[str, Any]:
    """Returns the engine's form of the default of a field, if it has one."""
    if field.default is None:
        return {}
    name = f"default of {type(field).__name__}"

    def plain(value: Any) -> Any:
        if isinstance(value, (str, bool)) or value is None:
            return value
        if isinstance(value, bytes):
            return list(value)
        if isinstance(value, Mapping):
            return {text(f"a key in {name}", key): plain(item) for key, item in value.items()}
        if hasattr(value, "tolist"):  # An array or a number of numpy or torch.
            return plain(value.tolist())
        if isinstance(value, Iterable):
            return [plain(item) for item in value]
        if isinstance(value, numbers.Integral):
            return whole(name, value, -(1 << 63))
        if isinstance(value, numbers.Real):
            return float(value) if math.isfinite(value) else str(float(value))
        raise ConfigError(f"{name} is a number, text, bytes or a list of numbers, but it is {shown(value)}")

    return {"default": plain(field.default)}


@by_name()
@dataclass(frozen=True)
class RandomResizedCrop(ImageOp):
    """Cuts a random rectangle and resizes it to `size`, with torchvision's distribution.

    Args:
        size: Pixels of the result: one number for a square, or (height, width).
        scale: Bounds of the rectangle's share of the image's area.
        ratio: Bounds of its width divided by its height, drawn on a logarithmic scale.
    """

    size: Size
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3.0 / 4.0, 4.0 / 3.0)

    def _spec(self) -> dict[str, Any]:
        return {
            "op": "random_resized_crop",
            "size": _pair("RandomResizedCrop", self.size),
            "scale": reals("scale of RandomResizedCrop", self.scale, 2),
            "ratio": reals("ratio of RandomResizedCrop", self.ratio, 2),
        }


@by_name()
@dataclass(frozen=True)
class RandomCrop(ImageOp):
    """Adds black borders, and cuts `size` pixels at a random place, without a resize.

    Args:
        size: Pixels of the result: one number for a square, or (height, width).
        padding: Pixels of the borders: one number, (left and right, top and bottom), or (left, top, right, bottom).
        pad_if_needed: Pad a picture that is smaller than `size`, on both sides by what it lacks. By default such a picture
            is a `DecodeError`.
    """

    size: Size
    padding: Union[int, Sequence[int]] = 0
    pad_if_needed: bool = False

    def _spec(self) -> dict[str, Any]:
        return {
            "op": "random_crop",
            "size": _pair("RandomCrop", self.size),
            "padding": _borders("RandomCrop", self.padding),
            "pad_if_needed": flag("pad_if_needed of RandomCrop", self.pad_if_needed),
        }


@by_name()
@dataclass(frozen=True)
class Pad(ImageOp):
    """Adds black borders.

    Args:
        padding: Pixels: one number, (left and right, top and bottom), or (left, top, right, bottom).
    """

    padding: Union[int, Sequence[int]]

    def _spec(self) -> dict[str, Any]:
        return {"op": "pad", "padding": _borders("Pad", self.padding)}


@by_name()
@dataclass(frozen=True)
class Grayscale(ImageOp):
    """Makes the three channels equal: the luma that Pillow's mode L has."""

    def _spec(self) -> dict[str, Any]:
        return {"op": "grayscale"}


@by_name()
@dataclass(frozen=True)
class RandomHorizontalFlip(ImageOp):
    """Mirrors left and right with probability `p`."""

    p: float = 0.5

    def _spec(self) -> dict[str, Any]:
        return {"op": "random_horizontal_flip", "p": real("p of RandomHorizontalFlip", self.p)}


@by_name()
@dataclass(frozen=True)
class Resize(ImageOp):
    """Resizes with antialiased bilinear interpolation, as Pillow does.

    Args:
        size: One number is the shorter side, and the longer one keeps the aspect ratio; (height, width) sets both.
    """

    size: Size

    def _spec(self) -> dict[str, Any]:
        pair = _pair("Resize", self.size)
        return {"op": "resize", "size": pair if isinstance(self.size, Sequence) else pair[0]}


@by_name()
@dataclass(frozen=True)
class CenterCrop(ImageOp):
    """Cuts `size` pixels, one number or (height, width), from the centre."""

    size: Size

    def _spec(self) -> dict[str, Any]:
        return {"op": "center_crop", "size": _pair("CenterCrop", self.size)}


@by_name()
@dataclass(frozen=True)
class Normalize(ImageOp):
    """Maps every pixel to `(pixel / 255 - mean) / std`, channel by channel.

    The result is "float32", or the floating-point type that `Image` names as its `dtype`.

    Args:
        mean: One number per channel, for pixels in 0..1.
        std: One number per channel, for pixels in 0..1.
    """

    mean: Sequence[float]
    std: Sequence[float]

    def _spec(self) -> dict[str, Any]:
        mean, std = reals("mean of Normalize", self.mean, 3), reals("std of Normalize", self.std, 3)
        return {"op": "normalize", "mean": mean, "std": std}


@by_name()
class Image(Field):
    """A picture: JPEG, PNG or WebP bytes, or one of the raw image encodings, as a tensor of pixels.

    The result is (N, C, H, W) for `layout="NCHW"` and (N, H, W, C) for `layout="NHWC"`, with three channels. Grey is
    repeated, transparency is dropped, 16-bit values keep the upper 8 bits, and animations give the first frame. The type
    is "float32" with `Normalize` and otherwise "uint8", unless `dtype` names another. "uint8" has grey levels 0 to 255;
    float types have them divided by 255, before `Normalize`. If `ops` does not end at a fixed
    size, the result is a list of N pictures of different sizes.

    A column with several pictures in each sample ("jpeg_array", "list[jpeg]", "list[png]", "list[pil]") gives a list of
    N arrays, in which the pictures are the first dimension. `ops` draws once per sample, so that the frames of a video
    are cut alike, and must give all pictures of a sample one size.

    Args:
        column: Column with the encoded picture or pictures.
        *ops: Operations in this order. `Normalize` must be the last, before any `RandomErasing`.
        dtype: "uint8", "float32", "float16" or "bfloat16". None: "float32" with `Normalize`, else "uint8".
        layout: "NCHW" or "NHWC"; `x.permute(0, 3, 1, 2)` of the latter is torch's channels_last, without a copy.
        tolerant: Decode damaged and truncated JPEG files as far as libjpeg-turbo can, with the rest mostly grey, and
            count them as `pictures_damaged` in `stats()`. By default they are errors. Damage below the part that the
            operations need is not detected in either case.
        apply_exif_orientation: Turn and mirror JPEG files by their EXIF data, before `ops`. By default they stay as
            stored, as in Pillow and torchvision. PNG and WebP files, and masks, always stay as stored. Set this if the
            mask of a `Joint` was drawn on the turned picture.
        scaled_decode: Decode a JPEG file at a half, a quarter or an eighth of its size if `ops` start with a resize, or
            crop and resize, that reduces both sides by at least that factor, like Pillow's `draft`. Large photographs
            decode faster: 1.1 to 2.7 times for 1 to 12 megapixels and crops to 224, in addition to the gain of a row
            index. The pixels are not exact: on photographs of a megapixel they differ by about one grey level on
            average, single ones by tens. `pictures_scaled` in `stats()` counts the pictures. Pictures that a CUDA
            device decodes (`device_decode`) are decoded in full.
    """

    __slots__ = ("apply_exif_orientation", "column", "dtype", "layout", "ops", "scaled_decode", "tolerant")
    _CHOICES = ("tolerant", "apply_exif_orientation", "scaled_decode")

    def __init__(
        self,
        column: str,
        *ops: ImageOp,
        dtype: str | None = None,
        layout: str = "NCHW",
        tolerant: bool = False,
        apply_exif_orientation: bool = False,
        scaled_decode: bool = False,
    ) -> None:
        self.column = column
        self.tolerant = tolerant
        self.apply_exif_orientation = apply_exif_orientation
        self.scaled_decode = scaled_decode
        self.ops = _operations("Image", column, ops)
        self.layout = layout
        if dtype is None:
            dtype = "float32" if any(isinstance(op, Normalize) for op in ops) else "uint8"
        self.dtype = dtype

    def __repr__(self) -> str:
        parts = [repr(self.column), *map(repr, self.ops), f"dtype={self.dtype!r}", f"layout={self.layout!r}"]
        parts += [f"{name}=True" for name in self._CHOICES if getattr(self, name)]
        return f"Image({', '.join(parts)})"

    def _spec(self) -> dict[str, Any]:
        spec = {
            "kind": "image",
            "column": _column(self),
            "ops": [op._spec() for op in self.ops],
            "dtype": _dtype(self.dtype),
            "layout": one_of("layout of Image", self.layout, ("NCHW", "NHWC")),
        }
        return spec | {name: True for name in self._CHOICES if flag(f"{name} of Image", getattr(self, name))}


@by_name()
class Mask(Field):
    """A picture of labels, as for segmentation, resized by nearest neighbour: a tensor of shape (N, H, W).

    Args:
        column: Column with PNG files of one channel (grey or palette), or raw pixels of mode L or P.
        *ops: Operations in this order, without `Normalize`, `Grayscale` and `RandomErasing`. In a `Joint` they use the random
            draws of the picture, and operations that only change colours may be left out.
        dtype: Integer type that can represent 255. Stored values are not changed.
    """

    __slots__ = ("column", "dtype", "ops")

    def __init__(self, column: str, *ops: ImageOp, dtype: str = "int64") -> None:
        self.column = column
        self.ops = _operations("Mask", column, ops)
        self.dtype = dtype

    def __repr__(self) -> str:
        return f"Mask({', '.join([repr(self.column), *map(repr, self.ops), f'dtype={self.dtype!r}'])})"

    def _spec(self) -> dict[str, Any]:
        return {"kind": "mask", "column": _column(self), "ops": [op._spec() for op in self.ops], "dtype": _dtype(self.dtype)}


def _operations(kind: str, column: str, ops: tuple[ImageOp, ...]) -> tuple[ImageOp, ...]:
    for op in ops:
        if isinstance(op, (list, tuple)):
            raise ConfigError(f"{kind}({column!r}): pass the operations one after the other, not as a {type(op).__name__}")
        if not isinstance(op, ImageOp):
            raise ConfigError(
                f"{kind}({column!r}): {op!r} is not an operation of forebay, such as Resize(256): call those of other libraries in "
                "the loader's transform"
            )
    return ops


@by_name()
@dataclass(frozen=True)
class Scalar(Field):
    """A number: a tensor of shape (N,).

    Args:
        column: Column with the number.
        dtype: Type of the result, such as "int64" or "float32"; a value out of its range is an error. None: the
            column's type.
        default: Number of samples without the column, such as tars without a file of this name. None: such a sample is an
            error.
    """

    column: str
    dtype: str | None = None
    default: float | None = None

    def _spec(self) -> dict[str, Any]:
        return {"kind": "scalar", "column": _column(self), "dtype": _dtype(self.dtype)} | _default(self)


@by_name()
@dataclass(frozen=True)
class Tokens(Field):
    """Token ids: a tensor of shape (N, length).

    `Length` of the same column has the number of ids of each sample, from which a mask of the padding follows:
    `torch.arange(length) < batch["lengths"][:, None]`.

    Args:
        column: Column with the ids, as an array or as raw little-endian bytes.
        length: Ids in a row. A longer sample is a `DecodeError`, unless `truncate` is set. A shorter sample is filled
            with `pad`; without `pad` it is a `DecodeError`.
        dtype: Type of the result. Narrower ids, such as uint16, are widened without a copy in Python.
        pad: Id that fills a short row.
        stored: Type of the ids in a column of raw bytes, such as "uint16". Arrays have their own type.
        truncate: Keep only the first `length` ids of a longer sample.
    """

    column: str
    length: int
    dtype: str = "int64"
    pad: int | None = None
    stored: str | None = None
    truncate: bool = False

    def _spec(self) -> dict[str, Any]:
        return {
            "kind": "tokens",
            "column": _column(self),
            "length": whole("length of Tokens", self.length, 1),
            "dtype": _dtype(self.dtype),
            "pad": None if self.pad is None else whole("pad of Tokens", self.pad, -(1 << 63), 1 << 63),
            "stored": _dtype(self.stored),
        } | ({"truncate": True} if flag("truncate of Tokens", self.truncate) else {})


@by_name()
@dataclass(frozen=True)
class Length(Field):
    """The length of each sample's array, before truncation and padding: an int64 tensor of shape (N,).

    Args:
        column: Column with an array, of which the first dimension counts, or with raw bytes.
        stored: Type of the elements in a column of raw bytes, such as "uint16". None: bytes are counted.
    """

    column: str
    stored: str | None = None

    def _spec(self) -> dict[str, Any]:
        return {"kind": "length", "column": _column(self), "stored": _dtype(self.stored)}


@by_name()
@dataclass(frozen=True)
class Array(Field):
    """An array: a tensor of shape (N, *shape) if the column's encoding or `shape` fixes the shape, else a list of N arrays.

    Files of numpy (`.npy`) are read with their own type and shape; booleans become "uint8".

    Args:
        column: Column with the array. Columns of raw bytes are read as files of numpy.
        dtype: Type of the result. None: the column's or the file's type.
        shape: Shape of every array. A sample with another one is a `DecodeError`. Files of numpy need `dtype`, too.
        default: Array of samples without the column; a number fills `shape`. None: such a sample is an error.
    """

    column: str
    dtype: str | None = None
    shape: Sequence[int] | None = None
    default: Any = None

    def _spec(self) -> dict[str, Any]:
        spec = {"kind": "array", "column": _column(self), "dtype": _dtype(self.dtype)}
        if self.shape is not None:
            spec["shape"] = [whole("shape of Array", length) for length in _lengths("Array", self.shape)]
        return spec | _default(self)


@by_name()
@dataclass(frozen=True)
class Text(Field):
    """UTF-8 text: a list of N `str`.

    Args:
        column: Column with the text.
        default: Text of samples without the column, such as "". None: such a sample is an error.
    """

    column: str
    default: str | None = None

    def _spec(self) -> dict[str, Any]:
        return {"kind": "text", "column": _column(self)} | _default(self)


@by_name()
@dataclass(frozen=True)
class Bytes(Field):
    """The stored bytes of the column: a list of N `bytes`.

    Args:
        column: The column.
        default: Bytes of samples without the column. None: such a sample is an error.
    """

    column: str
    default: bytes | None = None

    def _spec(self) -> dict[str, Any]:
        return {"kind": "bytes", "column": _column(self)} | _default(self)


@by_name()
@dataclass(frozen=True)
class Json(Field):
    """A value inside a JSON document: text, a number, or lists of numbers.

        Json("json", "caption")                                    # a list of N str
        Json("json", "meta.width", "int64")                        # a tensor of shape (N,)
        Json("json", "boxes[0]", "float32", shape=(4,))            # a tensor of shape (N, 4)
        Json("json", "boxes", "float32", shape=(None, 4))          # a list of N arrays

    Args:
        column: Column with the document: JSON, text or bytes.
        path: Keys with dots between them, and places in lists in brackets; or a list of both, such as ["a.b", 0], for keys
            with dots. None: the whole document.
        dtype: "str" for text, a type such as "int64" for numbers, or "json" for any value as its JSON text. None: "str",
            and "json" for the whole document.
        shape: Lengths of nested lists of numbers, the outermost first; None for those that differ from sample to sample.
        default: Value of samples without the column, without a value at `path`, or with null there; a number fills
            `shape`. None: such a sample is an error.
    """

    column: str
    path: str | Sequence[str | int] | None = None
    dtype: str | None = None
    shape: Sequence[int | None] | None = None
    default: Any = None

    def _spec(self) -> dict[str, Any]:
        spec: dict[str, Any] = {"kind": "json", "column": _column(self)}
        if isinstance(self.path, str):
            spec["path"] = self.path
        elif isinstance(self.path, Sequence) and not isinstance(self.path, bytes):
            spec["path"] = [part if isinstance(part, str) else whole("a place in path of Json", part) for part in self.path]
        elif self.path is not None:
            raise ConfigError(f"path of Json is text such as 'meta.width', or a list of keys and places, but it is {self.path!r}")
        if self.dtype is not None:
            named = "str" if self.dtype is str else self.dtype
            spec["dtype"] = named if named in ("str", "json") else _dtype(named)
        if self.shape is not None:
            lengths = _lengths("Json", self.shape)
            spec["shape"] = [None if length is None else whole("shape of Json", length) for length in lengths]
        return spec | _default(self)


def _lengths(kind: str, shape: Any) -> Sequence[Any]:
    """Checks that a shape is a list."""
    if isinstance(shape, (str, bytes)) or not isinstance(shape, Sequence):
        raise ConfigError(f"shape of {kind} is a list of lengths, such as (3, 224), but it is {shown(shape)}")
    return shape


class Joint(Field):
    """Pictures that share their random draws, such as a photograph and its mask: the same crop, the same flip.

    Args:
        **fields: Each output's name and its `Image` or `Mask`.

    A mask may be smaller or larger than its picture, but must have the same aspect ratio; otherwise the sample is an
    error. Masks ignore EXIF orientation, see `Image`.

    The outputs are in the batch under their own names. The name of the `Joint` in `fields` is part of the key of its
    draws.
    """

    __slots__ = ("fields",)

    def __init__(self, **fields: Image | Mask) -> None:
        for name, field in fields.items():
            if not isinstance(field, (Image, Mask)):
                raise ConfigError(f"Joint: {name} is {field!r}, but only an Image or a Mask has random draws to share")
        self.fields = fields

    def __repr__(self) -> str:
        return f"Joint({', '.join(f'{name}={field!r}' for name, field in self.fields.items())})"

    def _spec(self) -> dict[str, Any]:
        specs = []
        for name, field in self.fields.items():
            with within(name):
                specs.append([name, field._spec()])
        return {"kind": "joint", "fields": specs}


def specs(fields: Mapping[str, Field] | None) -> list[list[Any]] | None:
    """Returns the engine's form of `fields`: pairs of name and description, in the batch's order."""
    if fields is None:
        return None
    if not isinstance(fields, Mapping):
        raise ConfigError(f"fields maps names to fields, such as {{'x': Image('jpg')}}, but it is {fields!r}")
    pairs = []
    for name, field in fields.items():
        if not isinstance(field, Field):
            raise ConfigError(f"fields: {name} is {field!r}, which is not a field such as Image('jpg')")
        with within(f"fields[{name!r}]"):
            pairs.append([text("its name", name), field._spec()])
    return pairs

"""Samples that are made of several samples: mixes in a batch, with their classes, and partners from the plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Literal, Union

from .._arguments import Check, one_of, real, reals, shown, whole
from .._choices import DType
from ..errors import ConfigError
from ..fields import Array, Field, Image, Scalar
from ..fields.base import ColumnField, Described, dtype_of, pairs_of
from ..fields.checks import Fill, Size, fill_of, pair_of
from ..fields.pictures import Member, Members

__all__ = ["CopyPaste", "CutMix", "Mix", "MixUp", "Mosaic", "MultiHot", "OneHot"]


class _BatchOp(Described):
    """Operation of a `Mix`."""

    _KEY = "op"


class MixUp(_BatchOp):
    """Blends every sample of a batch with the one before it; the share is drawn once per batch.

    Args:
        alpha: Parameter of the Beta distribution of the share.
    """

    alpha: float = 1.0


class CutMix(_BatchOp):
    """Replaces a box of every picture by the same box of the picture before it; the box is drawn once per batch.

    Args:
        alpha: Parameter of the Beta distribution of the box's area.
        minmax: Bounds of the box's sides divided by the picture's, instead of a drawn area, as timm's `cutmix_minmax`.
        correct_lam: Mix labels by the area of the box inside of the picture, as torchvision does. False: by the drawn area, which a side of the
            picture may have cut off, as timm's `correct_lam=False`. With `minmax` it is True.
    """

    alpha: float = 1.0
    minmax: Sequence[float] | None = None
    correct_lam: bool = True

    def _spec(self) -> dict[str, Any]:
        spec = super()._spec()
        return spec | {"keeps_share": not spec.pop("correct_lam")}


def _probability(name: str, value: Any) -> str:
    return one_of(name, dtype_of(name, value), ("float32", "float16", "bfloat16"))


_OF_CLASSES = ColumnField._CHECKS | {
    "classes": partial(whole, least=1),
    "dtype": _probability,
    "smoothing": partial(real, expected="a number from 0 to 1", least=0),
}


class OneHot(ColumnField):
    """A class as probabilities: a tensor of shape (N, classes), 1 for the class and 0 for the rest, as in `OneHot("class", 1000)`.

    Args:
        column: Column with the number of the class, from 0.
        classes: Number of classes.
        dtype: "float32", "float16" or "bfloat16".
        smoothing: Label smoothing: the share that is taken from the class and spread evenly over all classes.
    """

    column: str
    classes: int
    dtype: Literal["float32", "float16", "bfloat16"] | DType = "float32"
    smoothing: float = 0.0

    _CHECKS = _OF_CLASSES


class MultiHot(ColumnField, elsewhere={"num_classes": "classes", "label_smoothing": "smoothing"}):
    """The classes of a sample, several or none, as probabilities: a tensor of shape (N, classes), 1 for its classes and
    0 for the rest.

    Args:
        column: Column with an array of the numbers of the classes, from 0, a file of numpy, or a JSON document.
        path: Path to the list of numbers inside a JSON document, as in `Json`. None: the document is the list.
        classes: Number of classes.
        dtype: "float32", "float16" or "bfloat16".
        smoothing: Label smoothing: the share by which each probability moves to 0.5, as in timm's `Mixup` with `multi_label`.
    """

    column: str
    path: str | Sequence[str | int] | None = None
    classes: int = 0
    dtype: Literal["float32", "float16", "bfloat16"] | DType = "float32"
    smoothing: float = 0.0

    _CHECKS = _OF_CLASSES


def _refuse_fields(owner: str, arguments: Mapping[str, Any], example: str = "") -> None:
    """Raises ConfigError for an argument that is a field: an output has the name of the argument."""
    for name, value in arguments.items():
        if isinstance(value, Field):
            kind = type(value).__name__
            raise ConfigError(f"{name} of {owner} is an argument, but it is a field: give the {kind} a different name{example}")


class Mix(Field):
    """Pictures and their classes, mixed within each batch, as in torchvision's MixUp and CutMix.

        Mix(MixUp(0.2), x=Image("jpg", RandomResizedCrop(224)), y=OneHot("class", 1000))

    A sample is mixed with the one before it in the batch, the first with the last. The draws belong to the batch's first
    sample. So a batch is the same in every run and after a resume on the same number of ranks; a different number of ranks
    makes different batches, and with them different mixtures.

    Args:
        by: `MixUp`, `CutMix`, or a list of them, and one is drawn for each batch.
        p: Probability that a batch is mixed; of a pair of samples or a sample, if `mode` is "pair" or "elem".
        mode: "previous": a sample is mixed with the one before it, as in torchvision. The remaining modes are from timm's `Mixup`, with its boxes: a
            sample is mixed with the one as far from the end of the batch as it is from the start; "batch" draws once, "pair" for each pair
            and "elem" for each sample. "half" is as "elem", and all outputs of the batch keep only the first half of its samples.
        weights: Weight of each operation of the list. None: 1.
        **fields: Each output's name and its `Image`, of a fixed size and for `MixUp` of a float type, `OneHot` or `MultiHot`.

    The outputs are in the batch under their own names, with the crops that they have without the `Mix`.
    """

    __slots__ = ("by", "fields", "mode", "p", "weights")

    def __init__(
        self,
        by: Union[MixUp, CutMix, Sequence[Union[MixUp, CutMix]]],
        p: float = 1.0,
        mode: Literal["previous", "batch", "pair", "elem", "half"] = "previous",
        weights: Sequence[float] | None = None,
        **fields: Image | OneHot | MultiHot,
    ) -> None:
        example = ', as in Mix(MixUp(0.2), x=Image("image", ...), y=OneHot("class", 1000))'
        _refuse_fields("Mix", {"by": by, "p": p, "mode": mode, "weights": weights}, example)
        for name, field in fields.items():
            if not isinstance(field, (Image, OneHot, MultiHot)):
                raise ConfigError(f"Mix: {name} is {field!r}, but only an Image, a OneHot or a MultiHot can be mixed{_mixable(field)}")
        self.by: Union[MixUp, CutMix, Sequence[Union[MixUp, CutMix]]] = by
        self.p: float = p
        self.mode = mode
        self.weights: Sequence[float] | None = weights
        self.fields: dict[str, Image | OneHot | MultiHot] = fields

    def __repr__(self) -> str:
        options = {"p": self.p, "mode": self.mode, "weights": self.weights}
        shown = {name: value for name, value in options.items() if name == "p" or value not in ("previous", None)}
        return f"Mix({self.by!r}, {', '.join(f'{name}={value!r}' for name, value in (shown | self.fields).items())})"

    def _spec(self) -> dict[str, Any]:
        ops = list(self.by) if isinstance(self.by, Sequence) else [self.by]
        by = []
        for op in ops:
            if not isinstance(op, (MixUp, CutMix)):
                example = "MixUp(0.2)" if op is not CutMix else "CutMix(1.0)"
                raise ConfigError(
                    f"by of Mix is forebay.MixUp, forebay.CutMix or a list of them, such as {example}, but it is {shown(self.by)}"
                )
            by.append(op._spec())
        spec = {"kind": "mix", "fields": pairs_of(self.fields), "by": by, "p": real("p of Mix", self.p)}
        mode = one_of("mode of Mix", self.mode, ("previous", "batch", "pair", "elem", "half"))
        weights = {} if self.weights is None else {"weights": reals("weights of Mix", self.weights, len(by))}
        return spec | ({"mode": mode} if mode != "previous" else {}) | weights


def _mixable(field: Any) -> str:
    """Returns the field that can be mixed instead of `field`, as the end of a sentence."""
    if isinstance(field, Scalar):
        return f": write OneHot({field.column!r}, classes=...), with the number of classes"
    if isinstance(field, Array):
        return f": write MultiHot({field.column!r}, classes=...) for a list of classes, with the number of all classes"
    return ": leave it in the loader's fields, next to the Mix"


class _Composed(Members):
    """Fields as those of a `Joint`, where each sample is composed with partners."""

    __slots__ = ("p",)
    _OP: ClassVar[str]
    _CHECKS: ClassVar[Mapping[str, Check]] = {}

    def __init__(self, p: float, fields: dict[str, Any], arguments: dict[str, Any]) -> None:
        _refuse_fields(type(self).__name__, arguments | {"p": p})
        super().__init__(fields)
        self.p: float = p

    def _spec(self) -> dict[str, Any]:
        kind = type(self).__name__
        by = {name: check(f"{name} of {kind}", getattr(self, name)) for name, check in self._CHECKS.items()}
        return {"kind": "compose", "fields": pairs_of(self.fields), "by": {"op": self._OP} | by, "p": real(f"p of {kind}", self.p)}


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
    _OP = "mosaic"
    _CHECKS = {"size": pair_of, "fill": fill_of, "fill_mask": partial(whole, below=256), "center_range": partial(reals, count=2)}

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
    _OP = "copy_paste"

    def __init__(self, *, p: float = 1.0, **fields: Member) -> None:
        super().__init__(p, fields, {})

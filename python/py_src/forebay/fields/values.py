"""Fields of numbers, arrays, text and documents."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

from .._arguments import Check, Value, flag, none_or, shown, text, whole
from .._choices import DType
from .._convert.ragged import Padding
from ..errors import ConfigError
from .base import ColumnField, Field, column_of, dtype_of, is_pair
from .documents import FillInMiddle, MaskedLM, spec_of_changes


class Scalar(ColumnField):
    """A number: a tensor of shape (N,), as in `Scalar("class", dtype="int32", default=-1)`.

    Args:
        column: Column with the number. An array of numpy's files may have one number; `dtype` names its type.
        dtype: Type of the result, such as "int64" or "float32"; a value out of its range is an error. None: the
            column's type.
        default: Number of samples without the column, such as tars without a file of this name. None: such a sample is an
            error.
    """

    column: str
    dtype: DType | None = None
    default: float | None = None


class TokenField(ColumnField):
    """Field of token ids, with the options of `token_rows`."""

    def _padding(self) -> Padding | None:
        return padding_of(self) if self.length is None else None

    def _has_labels(self) -> bool:
        return self.mask is not None


class Tokens(TokenField, elsewhere={"padding": "pad"}):
    """Token ids: a tensor of shape (N, length), or (N, L) where L is the length of the longest row of the batch.

        Tokens("ids", 1024, pad=0, truncate=True)                       # (N, 1024)
        Tokens("ids", pad=0, pad_to_multiple=8, max_length=1024)        # (N, L), L a multiple of 8

    `AttentionMask` marks the ids that are not padding, and `Length` of the same column has the number of ids of each sample.

    Args:
        column: Column with the ids, as an array or as raw little-endian bytes.
        length: Ids in a row. A longer sample is a `DecodeError`, unless `truncate` is set. A shorter sample is filled
            with `pad`; without `pad` it is a `DecodeError`. None: rows are as long as the longest one of the batch, and `pad`
            fills the shorter ones.
        dtype: Type of the result. Narrower ids, such as uint16, are widened without a copy in Python.
        pad: Id that fills a short row.
        stored: Type of the ids in a column of raw bytes, such as "uint16". Arrays have their own type.
        truncate: Keep only the first `length` ids of a longer sample.
        pad_to_multiple: Without `length`, the length of rows is a multiple of it.
        max_length: Without `length`, keep only this many ids of a sample.
        fim: Fill-in-the-middle, before rows are cut and filled. None: samples stay as they are.
        mask: Masked language modelling, with an additional output `labels`. None: tokens stay as they are.
    """

    column: str
    length: int | None = None
    dtype: DType = "int64"
    pad: int | None = None
    stored: DType | None = None
    truncate: bool = False
    pad_to_multiple: int | None = None
    max_length: int | None = None
    fim: FillInMiddle | None = None
    mask: MaskedLM | None = None

    def _spec(self) -> dict[str, Any]:
        columns = {"column": column_of("column of Tokens", self.column), "stored": dtype_of("stored of Tokens", self.stored)}
        return {"kind": "tokens", **columns, **token_rows(self)}


class AttentionMask(Value, Field):
    """Mask of the padding of an output, with the shape (N, L): 1 for its values, and 0 for the padding.

        fields={"input_ids": Tokens("ids", pad=0), "attention_mask": AttentionMask("input_ids", "int64")}

    Args:
        of: Name of the output of a `Tokens` without a length, an `Array` or a `Json`, with `pad`. For rows of a fixed length compare
            `torch.arange(length)` with a `Length`.
        dtype: Type of the mask: "bool", as `torch.nn.functional.scaled_dot_product_attention` takes it, or a number's.
    """

    of: str
    dtype: Literal["bool"] | DType = "bool"

    def _spec(self) -> None:
        return None

    def _mask_of(self) -> tuple[str, str]:
        is_bool = isinstance(self.dtype, type) and self.dtype.__name__ in ("bool", "bool_")
        dtype = "bool" if is_bool or str(self.dtype).removeprefix("torch.") == "bool" else dtype_of("dtype of AttentionMask", self.dtype)
        if dtype in (None, "bfloat16"):
            raise ConfigError(f'dtype of AttentionMask is "bool" or a type such as "int64", but it is {self.dtype!r}')
        return text("of AttentionMask", self.of, "the name of an output"), dtype


class Length(ColumnField):
    """The length of each sample's array, before truncation and padding: an int64 tensor of shape (N,), as in `Length("ids")`.

    Args:
        column: Column with an array (the size of its first dimension counts), or with raw bytes.
        stored: Type of the elements in a column of raw bytes, such as "uint16". None: bytes are counted.
    """

    column: str
    stored: DType | None = None


def _lengths(name: str, shape: Any, check: Check = whole) -> list[Any] | None:
    """Checks the lengths of a shape. None stays."""
    if shape is None:
        return None
    if isinstance(shape, (str, bytes)) or not isinstance(shape, Sequence):
        raise ConfigError(f"{name} is a list of lengths, such as (3, 224), but it is {shown(shape)}")
    return [check(name, length) for length in shape]


def _json_type(name: str, value: Any) -> str | None:
    named = "str" if value is str else value
    return named if named in ("str", "json") else dtype_of(name, named)


def _of_package(name: str, value: Any) -> None:
    """Leaves out an argument that the engine does not have."""


_PADDED = ColumnField._CHECKS | {"shape": _lengths} | dict.fromkeys(("pad", "pad_to_multiple", "max_length"), _of_package)
"""Checks of fields with padding."""


class Array(ColumnField):
    """An array: a tensor of shape (N, *shape) if the column's encoding or `shape` fixes the shape, else a list of N arrays.

    `Array("embedding", dtype="float32", shape=(16,))` is a tensor of shape (N, 16). Files of numpy (`.npy`) are read with their own type and shape; booleans become "uint8".

    Args:
        column: Column with the array. Columns of raw bytes are read as files of numpy.
        dtype: Type of the result. None: the column's or the file's type.
        shape: Shape of every array. A sample with a different shape is a `DecodeError`. Files of numpy need `dtype`, too.
        default: Array of samples without the column; a number fills `shape`. None: such a sample is an error.
        pad: Value that fills arrays of different lengths up to the longest one of the batch, so that the result is a tensor of shape
            (N, L, ...). Later dimensions and the type are the same in all arrays of a batch, else the batch is a `ConfigError`.
            `AttentionMask` marks the padding.
        pad_to_multiple: With `pad`, L is a multiple of it.
        max_length: With `pad`, keep only this many elements of the first dimension.
    """

    column: str
    dtype: DType | None = None
    shape: Sequence[int] | None = None
    default: Any = None
    pad: float | None = None
    pad_to_multiple: int | None = None
    max_length: int | None = None

    _CHECKS = _PADDED

    def _padding(self) -> Padding | None:
        if self.pad is not None and self.shape is not None:
            raise ConfigError("pad of Array fills arrays of different lengths, but `shape` fixes the length: leave one of them out")
        return padding_of(self)


class Text(ColumnField):
    """UTF-8 text: a list of N `str`, as in `Text("caption")`.

    Args:
        column: Column with the text, or with bytes that are UTF-8.
        default: Text of samples without the column, such as "". None: such a sample is an error.
    """

    column: str
    default: str | None = None


class Bytes(ColumnField):
    """The stored bytes of the column: a list of N `bytes`, as in `Bytes("wav")`.

    Args:
        column: The column.
        default: Bytes of samples without the column. None: such a sample is an error.
    """

    column: str
    default: bytes | None = None


class Json(ColumnField):
    """A value inside a JSON document: text, a number, or lists of numbers.

        Json("json", "caption")                                    # a list of N str
        Json("json", "meta.width", "int64")                        # a tensor of shape (N,)
        Json("json", "boxes[0]", "float32", shape=(4,))            # a tensor of shape (N, 4)
        Json("json", "boxes", "float32", shape=(None, 4))          # a list of N arrays

    Args:
        column: Column with the document: JSON, text or bytes.
        path: Keys with dots between them, and indexes of lists in brackets; or a list of both, such as ["a.b", 0], for keys
            with dots. None: the whole document.
        dtype: "str" for text, a type such as "int64" for numbers, or "json" for any value as its JSON text. None: "str",
            and "json" for the whole document.
        shape: Lengths of nested lists of numbers, the outermost first; None for those that differ from sample to sample.
        default: Value of samples without the column, without a value at `path`, or with null there; a number fills
            `shape`. None: such a sample is an error.
        pad: Value that fills arrays of a `shape` that begins with None up to the longest one of the batch, as in `Array`.
        pad_to_multiple: As in `Array`.
        max_length: As in `Array`.
    """

    column: str
    path: str | Sequence[str | int] | None = None
    dtype: Literal["str", "json"] | DType | None = None
    shape: Sequence[int | None] | None = None
    default: Any = None
    pad: float | None = None
    pad_to_multiple: int | None = None
    max_length: int | None = None

    _CHECKS = _PADDED | {"dtype": _json_type, "shape": partial(_lengths, check=partial(none_or, whole))}

    def _padding(self) -> Padding | None:
        if self.pad is not None and (not self.shape or self.shape[0] is not None):
            raise ConfigError("pad of Json fills arrays of different lengths: pass a shape that begins with None, such as (None, 4)")
        return padding_of(self)


def token_rows(field: Any) -> dict[str, Any]:
    """Checks the options of rows of token ids, and returns the engine's form."""
    kind = type(field).__name__
    spec = {"dtype": dtype_of(f"dtype of {kind}", field.dtype), **spec_of_changes(field)}
    truncates = flag(f"truncate of {kind}", field.truncate)
    pad = None if field.pad is None else whole(f"pad of {kind}", field.pad, -(1 << 63), 1 << 63)
    if field.length is None:
        if truncates:
            raise ConfigError(f"truncate of {kind} cuts at `length`, which is not set: pass max_length instead of truncate")
        if pad is None and not is_pair(field):
            raise ConfigError(f"{kind} needs a length, or pad to fill rows up to the longest one of the batch: pass one of them")
        return spec
    for name in ("pad_to_multiple", "max_length"):
        if getattr(field, name) is not None:
            raise ConfigError(f"{name} of {kind} is for rows as long as the longest one of the batch: leave out {name} or length")
    spec |= {"length": whole(f"length of {kind}", field.length, 1), "pad": pad}
    return spec | ({"truncate": True} if truncates else {})


_MULTIPLE_MAX = 1 << 20
"""Largest multiple of a padded length."""


def padding_of(field: Any) -> Padding | None:
    """Checks and returns the padding of a field, if it has one."""
    name = type(field).__name__
    if field.pad is None:
        for option in ("pad_to_multiple", "max_length"):
            if getattr(field, option) is not None:
                raise ConfigError(f"{option} of {name} is for rows that are padded: pass `pad` too")
        return None
    max_length = None if field.max_length is None else whole(f"max_length of {name}", field.max_length, 1)
    return checked_padding(name, field.pad, field.pad_to_multiple, max_length)


def checked_padding(owner: str, pad: Any, pad_to_multiple: Any, max_length: int | None = None) -> Padding:
    """Checks the options of a padding, and returns it; `owner` has them."""
    is_whole = isinstance(pad, numbers.Integral) and not isinstance(pad, bool)
    value = whole(f"pad of {owner}", pad, -(1 << 63)) if is_whole else _number(f"pad of {owner}", pad)
    multiple = 1 if pad_to_multiple is None else whole(f"pad_to_multiple of {owner}", pad_to_multiple, 1, _MULTIPLE_MAX + 1)
    return Padding(value, multiple, max_length)


def _number(name: str, value: Any) -> float:
    """Checks a number, which need not be finite."""
    if isinstance(value, (bool, str, bytes)) or not isinstance(value, numbers.Real):
        raise ConfigError(f"{name} is a number, but it is {shown(value)}")
    return float(value)

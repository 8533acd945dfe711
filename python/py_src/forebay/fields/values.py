"""Fields of numbers, arrays, text and documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..arguments import by_name, flag, whole
from ..errors import ConfigError
from .base import Field, column_of, default_of, dtype_of, lengths_of

__all__ = ["Array", "Bytes", "Json", "Length", "Scalar", "Text", "Tokens"]


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
        return {"kind": "scalar", "column": column_of(self), "dtype": dtype_of(self.dtype)} | default_of(self)


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
            "column": column_of(self),
            "length": whole("length of Tokens", self.length, 1),
            "dtype": dtype_of(self.dtype),
            "pad": None if self.pad is None else whole("pad of Tokens", self.pad, -(1 << 63), 1 << 63),
            "stored": dtype_of(self.stored),
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
        return {"kind": "length", "column": column_of(self), "stored": dtype_of(self.stored)}


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
        spec = {"kind": "array", "column": column_of(self), "dtype": dtype_of(self.dtype)}
        if self.shape is not None:
            spec["shape"] = [whole("shape of Array", length) for length in lengths_of("Array", self.shape)]
        return spec | default_of(self)


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
        return {"kind": "text", "column": column_of(self)} | default_of(self)


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
        return {"kind": "bytes", "column": column_of(self)} | default_of(self)


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
        spec: dict[str, Any] = {"kind": "json", "column": column_of(self)}
        if isinstance(self.path, str):
            spec["path"] = self.path
        elif isinstance(self.path, Sequence) and not isinstance(self.path, bytes):
            spec["path"] = [part if isinstance(part, str) else whole("a place in path of Json", part) for part in self.path]
        elif self.path is not None:
            raise ConfigError(f"path of Json is text such as 'meta.width', or a list of keys and places, but it is {self.path!r}")
        if self.dtype is not None:
            named = "str" if self.dtype is str else self.dtype
            spec["dtype"] = named if named in ("str", "json") else dtype_of(named)
        if self.shape is not None:
            lengths = lengths_of("Json", self.shape)
            spec["shape"] = [None if length is None else whole("shape of Json", length) for length in lengths]
        return spec | default_of(self)

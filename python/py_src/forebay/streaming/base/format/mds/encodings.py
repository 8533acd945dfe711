"""Encodings of MDS columns.

`_encodings` holds the classes by name. A class that is added to it is an encoding for the writers and readers of this
process. The part of an encoding's name after a colon is passed to the class's `from_str`.
"""

from __future__ import annotations

import functools
import json
import pickle
from decimal import Decimal
from typing import Any

import numpy as np

from ._encoding import Encoding
from ._images import JPEG, PIL, PNG, JPEGArray, JPEGList, List, PILList, PNGList
from ._ndarray import NDArray

__all__ = [
    "JPEG",
    "JSON",
    "PIL",
    "PNG",
    "Bytes",
    "Encoding",
    "Float16",
    "Float32",
    "Float64",
    "Int",
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "JPEGArray",
    "JPEGList",
    "List",
    "NDArray",
    "PILList",
    "PNGList",
    "Pickle",
    "Scalar",
    "Str",
    "StrDecimal",
    "StrEncoding",
    "StrFloat",
    "StrInt",
    "UInt8",
    "UInt16",
    "UInt32",
    "UInt64",
    "get_mds_encoded_size",
    "get_mds_encodings",
    "is_mds_encoding",
    "is_mds_encoding_safe",
    "mds_decode",
    "mds_encode",
]


class Bytes(Encoding):
    """Stores bytes unchanged."""

    def encode(self, obj: bytes) -> bytes:
        self._validate(obj, bytes)
        return obj

    def decode(self, data: bytes) -> bytes:
        return data


class Str(Encoding):
    """Stores text as UTF-8."""

    def encode(self, obj: str) -> bytes:
        self._validate(obj, str)
        return obj.encode("utf-8")

    def decode(self, data: bytes) -> str:
        return data.decode("utf-8")


class Int(Encoding):
    """Stores Python's int as int64."""

    size = 8

    def encode(self, obj: int) -> bytes:
        self._validate(obj, int)
        return int(obj).to_bytes(8, "little", signed=True)

    def decode(self, data: bytes) -> int:
        return int(np.frombuffer(data, np.int64)[0])


class Scalar(Encoding):
    """Stores a number of a numpy type, and decodes to that type.

    Args:
        dtype: The type.
    """

    def __init__(self, dtype: type[np.generic]) -> None:
        self.dtype = dtype
        self.size = np.dtype(dtype).itemsize

    def encode(self, obj: Any) -> bytes:
        return self.dtype(obj).tobytes()

    def decode(self, data: bytes) -> Any:
        return np.frombuffer(data, self.dtype)[0]


def _scalar(name: str, dtype: type[np.generic]) -> type[Scalar]:
    """Makes a class without arguments for one type."""

    def __init__(self: Scalar) -> None:
        Scalar.__init__(self, dtype)

    members = {"__init__": __init__, "__doc__": f"Stores {dtype.__name__}.", "__module__": __name__}
    return type(name, (Scalar,), members)


UInt8 = _scalar("UInt8", np.uint8)
UInt16 = _scalar("UInt16", np.uint16)
UInt32 = _scalar("UInt32", np.uint32)
UInt64 = _scalar("UInt64", np.uint64)
Int8 = _scalar("Int8", np.int8)
Int16 = _scalar("Int16", np.int16)
Int32 = _scalar("Int32", np.int32)
Int64 = _scalar("Int64", np.int64)
Float16 = _scalar("Float16", np.float16)
Float32 = _scalar("Float32", np.float32)
Float64 = _scalar("Float64", np.float64)


class StrEncoding(Encoding):
    """Stores numbers of any precision as their digits."""

    kind: type
    """Returns the stored text."""

    def encode(self, obj: Any) -> bytes:
        self._validate(obj, self.kind)
        return str(obj).encode("utf-8")

    def decode(self, data: bytes) -> Any:
        return self.kind(data.decode("utf-8"))


class StrInt(StrEncoding):
    """Stores int as digits."""

    kind = int


class StrFloat(StrEncoding):
    """Stores float as digits that restore it exactly."""

    kind = float


class StrDecimal(StrEncoding):
    """Stores decimal.Decimal as digits."""

    kind = Decimal


class Pickle(Encoding):
    """Stores any object as a pickle. Reading a pickle can run code: the data set must be trusted."""

    def encode(self, obj: Any) -> bytes:
        return pickle.dumps(obj)

    def decode(self, data: bytes) -> Any:
        return pickle.loads(data)


class JSON(Encoding):
    """Stores values that JSON can represent; arrays as lists."""

    def encode(self, obj: Any) -> bytes:
        text = json.dumps(obj.tolist() if isinstance(obj, np.ndarray) else obj)
        self._is_valid(obj, text)
        return text.encode("utf-8")

    def decode(self, data: bytes) -> Any:
        return json.loads(data.decode("utf-8"))

    def _is_valid(self, original: Any, converted: str) -> None:
        try:
            json.loads(converted)
        except json.JSONDecodeError as error:
            error.msg = f"Invalid JSON data: {original}"
            raise


_encodings: dict[str, type[Encoding]] = {
    "bytes": Bytes,
    "str": Str,
    "int": Int,
    "ndarray": NDArray,
    "uint8": UInt8,
    "uint16": UInt16,
    "uint32": UInt32,
    "uint64": UInt64,
    "int8": Int8,
    "int16": Int16,
    "int32": Int32,
    "int64": Int64,
    "float16": Float16,
    "float32": Float32,
    "float64": Float64,
    "str_int": StrInt,
    "str_float": StrFloat,
    "str_decimal": StrDecimal,
    "pil": PIL,
    "jpeg": JPEG,
    "jpeg_array": JPEGArray,
    "jpegarray": JPEGArray,
    "png": PNG,
    "list[pil]": PILList,
    "list[jpeg]": JPEGList,
    "list[png]": PNGList,
    "pkl": Pickle,
    "json": JSON,
}

_unsafe_encodings = {"pkl"}


@functools.lru_cache(maxsize=1024)
def _coder_of(cls: type[Encoding], config: str | None) -> Encoding:
    return cls() if config is None else cls.from_str(config)


def _get_coder(encoding: str) -> Encoding | None:
    """Returns the object that encodes and decodes values of `encoding`; None if it is unknown."""
    name, colon, config = encoding.partition(":")
    if colon:
        return _coder_of(_encodings[name], config)
    cls = _encodings.get(name)
    return None if cls is None else _coder_of(cls, None)


def _find_coder(encoding: str) -> Encoding:
    coder = _get_coder(encoding)
    if coder is None:
        raise ValueError(f"Unsupported encoding: {encoding}.")
    return coder


def get_mds_encodings() -> set[str]:
    """Returns the names of all encodings."""
    return set(_encodings)


def is_mds_encoding(encoding: str) -> bool:
    """Returns true if `encoding` is the name of an encoding, with or without arguments."""
    return _get_coder(encoding) is not None


def is_mds_encoding_safe(encoding: str) -> bool:
    """Returns true if decoding values of `encoding` cannot run code."""
    return encoding not in _unsafe_encodings


def mds_encode(encoding: str, obj: Any) -> bytes:
    """Encodes a value. Bytes are stored unchanged with every encoding.

    Raises:
        AttributeError: The value has a wrong type.
        ValueError: There is no such encoding.
    """
    return obj if isinstance(obj, bytes) else _find_coder(encoding).encode(obj)


def mds_decode(encoding: str, data: bytes) -> Any:
    """Decodes bytes of `mds_encode`.

    Raises:
        ValueError: There is no such encoding.
    """
    return _find_coder(encoding).decode(data)


def get_mds_encoded_size(encoding: str) -> int | None:
    """Returns the bytes of every value of `encoding`. None: variable.

    Raises:
        ValueError: There is no such encoding.
    """
    return _find_coder(encoding).size

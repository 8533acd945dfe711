"""Encodings of columns of separated values."""

from __future__ import annotations

from abc import ABC
from typing import Any, ClassVar

__all__ = ["Encoding", "Float", "Int", "Str", "is_xsv_encoding", "xsv_decode", "xsv_encode"]


class Encoding(ABC):
    """Type with values that can be restored from text."""

    kind: ClassVar[type]
    """Python type."""

    @classmethod
    def encode(cls, obj: Any) -> str:
        """Converts a value to text.

        Raises:
            AttributeError: The value has a wrong type.
        """
        cls._validate(obj, cls.kind)
        return str(obj)

    @classmethod
    def decode(cls, obj: str) -> Any:
        """Converts text to a value."""
        return cls.kind(obj)

    @staticmethod
    def _validate(data: Any, expected_type: type) -> None:
        if not isinstance(data, expected_type):
            raise AttributeError(f"data should be of type {expected_type}, but instead, found as {type(data)}")


class Str(Encoding):
    """Stores str."""

    kind = str


class Int(Encoding):
    """Stores int."""

    kind = int


class Float(Encoding):
    """Stores float."""

    kind = float


_encodings: dict[str, type[Encoding]] = {"str": Str, "int": Int, "float": Float}


def is_xsv_encoding(encoding: str) -> bool:
    """Returns true if the encoding exists."""
    return encoding in _encodings


def xsv_encode(encoding: str, value: Any) -> str:
    """Converts a value to text.

    Raises:
        AttributeError: The value has a wrong type.
        KeyError: There is no such encoding.
    """
    return _encodings[encoding].encode(value)


def xsv_decode(encoding: str, value: str) -> Any:
    """The value of a text.

    Raises:
        KeyError: There is no such encoding.
    """
    return _encodings[encoding].decode(value)

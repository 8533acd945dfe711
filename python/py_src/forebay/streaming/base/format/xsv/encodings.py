"""How the values of a column of separated values become text and back."""

from __future__ import annotations

from abc import ABC
from typing import Any, ClassVar

__all__ = ["Encoding", "Float", "Int", "Str", "is_xsv_encoding", "xsv_decode", "xsv_encode"]


class Encoding(ABC):
    """A type whose text gives the value back."""

    kind: ClassVar[type]
    """The type."""

    @classmethod
    def encode(cls, obj: Any) -> str:
        """The text of a value.

        Raises:
            AttributeError: The value has another type.
        """
        cls._validate(obj, cls.kind)
        return str(obj)

    @classmethod
    def decode(cls, obj: str) -> Any:
        """The value of a text."""
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
    """Whether there is such an encoding."""
    return encoding in _encodings


def xsv_encode(encoding: str, value: Any) -> str:
    """The text of a value.

    Raises:
        AttributeError: The value has another type.
        KeyError: There is no such encoding.
    """
    return _encodings[encoding].encode(value)


def xsv_decode(encoding: str, value: str) -> Any:
    """The value of a text.

    Raises:
        KeyError: There is no such encoding.
    """
    return _encodings[encoding].decode(value)

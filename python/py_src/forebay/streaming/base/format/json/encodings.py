"""Types of a JSON column."""

from __future__ import annotations

from abc import ABC
from typing import Any, ClassVar

__all__ = ["Encoding", "Float", "Int", "Str", "is_json_encoded", "is_json_encoding"]


class Encoding(ABC):
    """Type that JSON has too."""

    kind: ClassVar[type]
    """Python type."""

    @classmethod
    def is_encoded(cls, obj: Any) -> bool:
        """Returns true for a value of the type.

        Raises:
            AttributeError: The value has a wrong type.
        """
        return cls._validate(obj, cls.kind)

    @staticmethod
    def _validate(data: Any, expected_type: type) -> bool:
        if not isinstance(data, expected_type):
            raise AttributeError(f"data should be of type {expected_type}, but instead, found as {type(data)}")
        return True


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


def is_json_encoded(encoding: str, value: Any) -> bool:
    """Returns true for a value of `encoding`.

    Raises:
        AttributeError: The value has a wrong type.
        KeyError: There is no such encoding.
    """
    return _encodings[encoding].is_encoded(value)


def is_json_encoding(encoding: str) -> bool:
    """Returns true if the encoding exists."""
    return encoding in _encodings

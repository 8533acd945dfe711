"""What every MDS encoding is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

__all__ = ["Encoding"]


class Encoding(ABC):
    """Turns values of one type into bytes and back."""

    size: int | None = None
    """Bytes of every encoded value. None: they vary."""

    @abstractmethod
    def encode(self, obj: Any) -> bytes:
        """The bytes of a value.

        Raises:
            AttributeError: The value has another type.
        """
        raise NotImplementedError

    @abstractmethod
    def decode(self, data: bytes) -> Any:
        """The value of bytes that `encode` made."""
        raise NotImplementedError

    @staticmethod
    def _validate(data: Any, expected_type: type) -> None:
        if not isinstance(data, expected_type):
            raise AttributeError(f"data should be of type {expected_type}, but instead, found as {type(data)}")

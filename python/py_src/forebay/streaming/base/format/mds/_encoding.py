"""Base class of the MDS encodings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

__all__ = ["Encoding"]


class Encoding(ABC):
    """Conversion of values of one type to bytes and back."""

    size: int | None = None
    """Bytes of every encoded value. None: variable."""

    @abstractmethod
    def encode(self, obj: Any) -> bytes:
        """Encodes a value.

        Raises:
            AttributeError: The value has a wrong type.
        """
        raise NotImplementedError

    @abstractmethod
    def decode(self, data: bytes) -> Any:
        """Decodes bytes of `encode`."""
        raise NotImplementedError

    @staticmethod
    def _validate(data: Any, expected_type: type) -> None:
        if not isinstance(data, expected_type):
            raise AttributeError(f"data should be of type {expected_type}, but instead, found as {type(data)}")

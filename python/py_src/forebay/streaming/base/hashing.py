"""Hashes of files by the names in an index."""

from __future__ import annotations

from ... import _forebay

__all__ = ["get_hash", "get_hashes", "is_hash"]

_HASHES = frozenset(_forebay.hashes())


def get_hashes() -> set[str]:
    """Returns the names of all hashes."""
    return set(_HASHES)


def is_hash(algo: str) -> bool:
    """Returns true if `algo` is the name of a hash."""
    return algo in _HASHES


def get_hash(algo: str, data: bytes) -> str:
    """Returns the hash of `data` in hexadecimal digits.

    Raises:
        ValueError: There is no such hash.
    """
    if algo not in _HASHES:
        raise ValueError(f"{algo} is not a supported hash algorithm.")
    return _forebay.hex_digest(algo, data)

"""Options that several commands have."""

from __future__ import annotations

import argparse


def positive(text: str) -> int:
    """Number of an option, at least 1."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {number}")
    return number

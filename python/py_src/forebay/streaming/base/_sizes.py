"""Numbers written with a unit: "100kb", "64m"."""

from __future__ import annotations

__all__ = ["bytes_to_int", "number_abbrev_to_int"]

_BYTES = {f"{prefix}b": 1024**power for power, prefix in enumerate("kmgtpezy", start=1)}
_NUMBERS = {"k": 10**3, "m": 10**6, "b": 10**9, "t": 10**12}


def bytes_to_int(bytes_str: int | float | str) -> int:
    """Parses a number of bytes: a number, or text such as "100kb" or "1.5gb", in powers of 1024.

    Raises:
        ValueError: The text is not a number.
    """
    return _with_unit(bytes_str, _BYTES, plain="b")


def number_abbrev_to_int(abbrev_str: int | float | str) -> int:
    """Parses a number: a number, or text such as "100k", "64m", "77b" or "1.5t", in powers of 1000.

    Raises:
        ValueError: The text is not a number.
    """
    return _with_unit(abbrev_str, _NUMBERS)


def _with_unit(value: int | float | str, units: dict[str, int], plain: str = "") -> int:
    """Parses `value` with a unit at its end. `plain` is the suffix without a factor."""
    if isinstance(value, (int, float)):
        return int(value)
    text = value.strip().lower()
    unit = next((unit for unit in units if text.endswith(unit)), None)
    if unit is not None:
        try:
            return int(float(text.removesuffix(unit)) * units[unit])
        except ValueError:
            pass
    elif text.removesuffix(plain).isdigit():
        return int(text.removesuffix(plain))
    known = [*filter(None, [plain]), *units]
    raise ValueError(f"Unsupported value/suffix {value}. Supported suffix are {known}.")

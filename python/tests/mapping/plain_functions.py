"""Functions for maps in interpreters, which have no numpy."""

import sys


def counts(sample, rng):
    """Arrays, numbers and text of the standard library."""
    assert "numpy" not in sys.modules
    pixels = sample["x"]
    doubled = memoryview(bytes(min(2 * value, 255) for value in pixels.tobytes())).cast("B", pixels.shape)
    return {"number": sample["number"], "unit": rng.random(), "text": sample["name"].upper(), "doubled": doubled, "shape": pixels.shape}


def fails_at_three(sample, rng):
    if sample["number"] == 3:
        raise ValueError("the number 3 is bad")
    return {"number": sample["number"]}


def plain_rows(sample, rng):
    """The sample with a list, of plain Python."""
    return {"a": sample["a"], "ids": [1] * (len(sample["a"]) % 3)}

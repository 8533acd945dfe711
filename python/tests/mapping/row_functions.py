"""Functions for maps with rows of different lengths. Processes import this file, so it imports nothing large."""

import numpy as np


def ragged(sample, rng):
    """An array, a list of numbers and a text; the first two have as many elements as the number modulo 5."""
    length = int(sample["number"]) % 5
    frames = np.full((length, 2), length, "float32")
    return {"frames": frames, "ids": list(range(length)), "text": "x" * length, "kept": [frames]}


def ragged_tensors(sample, rng):
    """A tensor and a list of as many elements as the number modulo 5."""
    import torch

    length = int(sample["number"]) % 5
    return {"frames": torch.full((length, 2), length, dtype=torch.bfloat16), "ids": list(range(length))}


def passes_on(sample, rng):
    """The sample as it is."""
    return sample


def adds_to_the_array(sample, rng):
    """The sample with an array that was changed without a copy."""
    sample["a"] += 1
    return sample

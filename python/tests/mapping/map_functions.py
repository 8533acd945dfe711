"""Functions for maps. Processes import this file, so it imports nothing large."""

import os
import signal

import numpy as np


def draws(sample, rng):
    """Numbers, arrays and text that depend on the sample and its generator."""
    number = int(sample["number"])
    noise = rng.normal(size=(4, 3)).astype("float32")
    return {"number": number, "unit": rng.random(), "noise": noise + number, "text": f"{number}:{rng.integers(1 << 40)}"}


def with_picture(sample, rng):
    """The sample with a picture that is turned without a copy."""
    sample["x"] = np.ascontiguousarray(np.rot90(sample["x"], int(rng.integers(4)), (1, 2)))
    return sample


def torch_rows(sample, rng):
    """Tensors, and one more of a type that numpy does not have."""
    import torch

    assert all(isinstance(value, torch.Tensor) for value in sample.values()), sample
    return {"x": sample["x"] + rng.random(), "half": sample["x"][0].to(torch.bfloat16), "number": sample["number"]}


class LocalError(Exception):
    """Cannot be loaded after it was pickled."""

    def __init__(self, first, second):
        super().__init__(f"{first} and {second}")


def fails_for_fives(sample, rng):
    number = int(sample["number"])
    if number % 5 == 3:
        raise ValueError(f"the number {number} is bad")
    return {"number": number, "unit": rng.random()}


def raises_an_error_that_cannot_be_pickled(sample, rng):
    raise LocalError("this", "that")


def returns_a_value_that_cannot_be_pickled(sample, rng):
    return {"number": sample["number"], "lock": (lambda: 0)}


def kills_itself(sample, rng):
    if int(sample["number"]) == 20:
        os.kill(os.getpid(), signal.SIGKILL)
    return {"number": sample["number"]}


def dies_once(sample, rng):
    """Ends its process at one sample, unless a file marks that it has done so."""
    mark = os.environ["FOREBAY_TEST_MARK"]
    if int(sample["number"]) == 20 and not os.path.exists(mark):
        open(mark, "w").close()
        os._exit(3)
    return {"number": sample["number"]}


def never_returns(sample, rng):
    """Names its process in a file, then waits for a signal."""
    with open(os.environ["FOREBAY_TEST_MARK"] + f".{os.getpid()}", "w"):
        pass
    while True:
        signal.pause()


def has_no_memory(sample, rng):
    if int(sample["number"]) == 3:
        raise MemoryError("for 3")
    return {"number": sample["number"]}


def conjugates(sample, rng):
    """A tensor that torch conjugates when it is read, and one that it negates."""
    import torch

    value = torch.full((300,), int(sample["number"]) + 2j).conj()
    return {"value": value, "negative": value.imag}


class Elsewhere:
    """Can only be loaded in the process that has pickled it."""

    def __reduce__(self):
        return (load_elsewhere, (os.getpid(),))


def load_elsewhere(process):
    if process != os.getpid():
        raise OSError("not in this process")
    return Elsewhere()


def returns_a_value_that_cannot_be_loaded(sample, rng):
    number = int(sample["number"])
    return {"number": number, "value": Elsewhere() if number == 5 else 0}


class NeverLoads:
    """A function that never finishes loading; it names its process in a file first."""

    def __reduce__(self):
        return (never_returns, (None, None))

    def __call__(self, sample, rng):
        return sample

"""Description of a map."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, get_args

from .._arguments import U32, by_name, none_or, one_of, shown, text, whole, within
from .._choices import MapKind
from ..errors import ConfigError
from ..fields import AttentionMask, ImageOp

PREFETCH_MAX = 64
"""Upper bound of the batches that are mapped ahead. The engine's states reach back further, see `HELD_MAX`."""


@by_name(
    num_workers="workers",
    fn="function",
    prefetch_factor="prefetch",
    worker_type="kind",
    padding="pad",
    pad_to_multiple_of="pad_to_multiple",
)
@dataclass(frozen=True)
class Map:
    """A program's own function of each sample, called in workers ahead of the loop.

        def augment(sample, rng):
            sample["x"] = sample["x"] + rng.normal(0, 0.1, sample["x"].shape).astype("float32")
            return sample

        Loader(..., framework="numpy", map=Map(augment, workers=8))

    The function gets a dict with one row of each output: an array (a view), or a tensor with `framework="torch"`, text, or
    bytes. Its second argument is the sample's own `numpy.random.Generator`, which `sample_generator` returns too: equal on any
    number of ranks and workers, and after a resume. It returns a dict. The types of its values decide their form in a
    batch of N rows, and the shapes never do:

    - arrays and tensors of a shape S: one array or tensor of shape (N, *S) and the same type. Rows of unequal shape or type are a
      `ConfigError`, unless `pad` fills them.
    - numbers: shape (N,), of the type int64, float64 or bool for Python's; numpy's keep their type.
    - text, bytes, lists, tuples, times and all remaining objects: a list of N values.
    - an array that the function got from a field with varying shapes, and returns as it is for all rows, itself changed or not: a
      list, as without a map.

    Args:
        function: Function of a sample and its generator that returns a dict, with the same names for all samples. A value of
            the sample that it returns as it is, itself changed or not, is not copied again (threads). Tensors and padded arrays can
            be changed themselves: after an error the next try gets them as they were.
        inputs: Names of the outputs that it gets. The rest stay in the batch as they are, and so do the outputs that name
            rows, such as `sample_keys`, unless it returns outputs of these names. None: all.
        workers: Number of workers. None: the CPUs of this process, shared by all ranks of the node.
        kind: "threads", for functions that release Python's lock (most of numpy, torch, OpenCV and Pillow) and for
            free-threaded Python; "processes", for all the rest: the function is pickled, and arrays go through shared memory;
            or "interpreters" (Python 3.14 and newer), for functions that need neither numpy nor torch.
        prefetch: Batches that are mapped ahead of the loop, at most 64. None: as many as the loader's `prefetch`, or 3.
        pad: Value that fills the rows of an output, by its name, up to the longest one of the batch, so that the batch has the shape
            (N, L, ...). The rows are arrays, tensors or lists of numbers, of one type, with shapes that differ in the first
            dimension alone. An `AttentionMask` under a name of its own marks the padding:
            `pad={"ids": 0, "mask": AttentionMask("ids")}`.
        pad_to_multiple: With `pad`, L is a multiple of it.
    """

    function: Callable[[dict[str, Any], Any], dict[str, Any]]
    inputs: Sequence[str] | None = None
    workers: int | None = None
    kind: MapKind = "threads"
    prefetch: int | None = None
    pad: Mapping[str, float | AttentionMask] | None = None
    pad_to_multiple: int | None = None

    @property
    def name(self) -> str:
        """Name of the function, for messages."""
        return getattr(self.function, "__qualname__", None) or type(self.function).__name__


def checked(value: Any) -> Map:
    """Returns the map of the loader's argument: a `Map`, or a function."""
    options = value if isinstance(value, Map) else Map(value)
    with within("map"):
        if not callable(options.function):
            instead = ": pass operations of pictures to Image" if isinstance(options.function, ImageOp) else ""
            raise ConfigError(f"it is a Map or a function of a sample and its generator, but it is {shown(options.function)}{instead}")
        _check_arguments(options)
        one_of("kind of Map", options.kind, get_args(MapKind))
        if options.inputs is not None:
            if isinstance(options.inputs, str) or not isinstance(options.inputs, Sequence) or not options.inputs:
                raise ConfigError(f"inputs of Map is a list of names of outputs, but it is {shown(options.inputs)}")
            for index, name in enumerate(options.inputs):
                text(f"inputs[{index}] of Map", name)
        none_or(partial(whole, least=1, below=U32), "workers of Map", options.workers)
        none_or(partial(whole, least=1, below=PREFETCH_MAX + 1), "prefetch of Map", options.prefetch)
    return options


def _check_arguments(options: Map) -> None:
    """Raises ConfigError for a function that cannot be called with two arguments. Of some functions they are not known."""
    try:
        signature = inspect.signature(options.function, follow_wrapped=False)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(None, None)
    except TypeError as error:
        raise ConfigError(
            f"{options.name} is called with a sample and its generator, but has different arguments ({error}): write def f(sample, rng), or "
            "lambda sample, rng: f(sample)"
        ) from None

"""Facts about a loader's batches that converters need, and the conversion of each output by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .._forebay import Ragged, Tensor
from ..errors import ConfigError
from .ragged import ANSWERS, Paddings, array

Convert = Callable[[dict[str, Any]], dict[str, Any]]
"""Function of the engine's outputs by name that returns the framework's."""


@dataclass(frozen=True)
class Batch:
    """Batches of a loader."""

    devices: list[str]
    """Names of the devices, one for each batch of a step."""
    fields: list[list[Any]] | None
    """Outputs in the engine's form. Without them no output is bfloat16, because no column is."""
    rows: int
    """Rows of a full batch."""
    sharding: Any = None
    """Sharding of the arrays, for JAX."""
    is_full: bool = False
    """True if every batch is full: no short last batch, no skipped samples."""
    padding: Paddings | None = None
    """Padding of outputs, if there is any."""
    marks: Sequence[str] = ()
    """Names of the outputs after the fields, such as `repeat`, which marks rows that are repeats."""

    @property
    def is_on_host(self) -> bool:
        return self.devices == ["cpu"] * len(self.devices)

    def dtypes(self) -> list[tuple[str, str | None]]:
        """Names of the outputs of `fields`, with their types where the program gave them."""
        pairs = []
        for name, field in self.fields or ():
            pairs += [(output, spec.get("dtype")) for output, spec in field.get("fields", [[name, field]])]
            pairs += [("labels", field.get("dtype"))] if "mask" in field or field.get("part") == "ids" else []
            if field.get("part") == "pair" and (self.padding is None or name not in self.padding.pairs):
                pairs += [(answers, field.get("dtype")) for answers in ANSWERS]
        return pairs

    def outputs(self) -> list[str]:
        """Names of all outputs; empty without `fields`, where the columns of the data set are the outputs."""
        names = [name for name, _ in self.dtypes()]
        if self.padding is not None:
            names += self.padding.masks
        return [*names, *self.marks] if names else names

    def require_host(self, owner: str, others: str) -> None:
        """Raises ConfigError if the tensors are on a device; `owner` begins the message, `others` are frameworks."""
        if not self.is_on_host:
            raise ConfigError(
                f'{owner} are in host memory, but device is {", ".join(self.devices)}: use framework={others}, or device="cpu"'
            )


def each(
    tensor: Callable[[Tensor], Any], row: Callable[[bytes | bytearray], Any], padded: Callable[[Any], Any] = lambda rows: rows
) -> Convert:
    """Returns a converter that applies `tensor` to tensors, `row` to each ragged array, and `padded` to arrays of numpy, which
    are padded rows. Lists stay as they are."""

    def convert(value: Any) -> Any:
        if isinstance(value, Tensor):
            return tensor(value)
        if isinstance(value, Ragged):
            return [row(each) for each in value.rows]
        # Numbers of the batch as a whole are plain ones.
        return value if isinstance(value, (list, int)) else padded(value)

    return lambda outputs: {name: convert(value) for name, value in outputs.items()}


def on_host(value: Any, bfloat16: Any) -> Any:
    """Returns an output as arrays of numpy, or as it is; `bfloat16` is the type for such arrays."""
    import numpy

    if isinstance(value, Tensor):
        return numpy.from_dlpack(value.bits()).view(bfloat16) if value.dtype == "bfloat16" else numpy.from_dlpack(value)
    return [array(row, bfloat16) for row in value.rows] if isinstance(value, Ragged) else value

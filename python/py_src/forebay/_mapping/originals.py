"""Values of a row before the function's call, for a second try after an error."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any


class Originals:
    """Copies of the arrays and tensors of a row that the function itself can change.

    Arrays of `framework="numpy"`, "jax" and "tensorflow" are read-only, and need none, unless their rows are padded.
    """

    def __init__(self, sample: Mapping[str, Any]) -> None:
        import numpy  # Not with the package, which works without it.

        torch = sys.modules.get("torch")
        # Views, because the function may change the shapes of its own ones.
        self._pairs: list[tuple[Any, Any]] = []
        for value in sample.values():
            if isinstance(value, numpy.ndarray):
                if value.flags.writeable:
                    self._pairs.append((value.view(), value.copy()))
            elif torch is not None and isinstance(value, torch.Tensor):
                self._pairs.append((value.detach(), value.detach().clone()))

    def restore(self) -> None:
        """Writes the copies back."""
        for view, copy in self._pairs:
            view[...] = copy

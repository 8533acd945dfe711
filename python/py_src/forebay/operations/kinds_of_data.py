"""Arguments of torchvision's transforms that differ between pictures and masks."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Literal

from ..errors import ConfigError
from ..fields.checks import listed

Kind = Literal["image", "mask"]
"""Kind of data that a transform may treat differently."""


def of_kind(value: Any, kind: Kind) -> Any:
    """Returns the argument for a kind of data: a dict has one for each, by torchvision's types, or by "others"."""
    if not isinstance(value, Mapping):
        return value
    by_name = {getattr(key, "__name__", key): one for key, one in value.items()}
    for name in {"image": ("Image", "Tensor"), "mask": ("Mask",)}[kind]:
        if name in by_name:
            return by_name[name]
    if "others" in by_name:
        return by_name["others"]
    default = getattr(value, "default_factory", None)  # Of a defaultdict.
    if default is None:
        raise ConfigError(f'its dict has no entry for {"pictures" if kind == "image" else "masks"}: add one for "others"')
    return default()


def with_fill(transform: Any, kind: Kind) -> Any:
    """Returns a transform with the colour for the kind of data that it is translated for."""
    fill = getattr(transform, "fill", None)
    chosen = of_kind(fill, kind)
    if kind == "mask":
        if type(transform).__name__ == "FixedSizeCrop":
            chosen = 0  # As in the scripts.
        if len(levels := listed(0 if chosen is None else chosen)) > 1:
            if len(set(levels)) > 1:
                raise ConfigError("masks have labels, not colours: pass fill as a dict with a number for tv_tensors.Mask")
            chosen = levels[0]
    if chosen is fill:
        return transform
    transform = copy.copy(transform)
    transform.fill = chosen
    return transform

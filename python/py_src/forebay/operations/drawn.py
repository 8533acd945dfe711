"""Numbers that were drawn for a picture."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from .._forebay import drawn_operations
from .._arguments import U32, reals, shown, text, whole
from ..errors import ConfigError
from ..fields import Image, Joint, Mask
from ..fields.base import spec_of


def drawn(
    field: Image | Mask,
    size: tuple[int, int],
    *,
    name: str,
    augment_seed: int,
    epoch: int = 0,
    stream: int = 0,
    draw: int = 0,
    view: int = 0,
    boxes: Sequence[Sequence[float]] | None = None,
) -> list[dict[str, Any]]:
    """Returns the steps of a field's operations for one sample, with the numbers that the engine draws.

    A step is a dict. `{"crop": ..., "resized": ..., "window": ..., "flip": ...}` cuts a box, resizes it with `interpolation`,
    keeps a part, which may have borders (`padding_mode`, `fill`), and mirrors it. The remaining ones have the name of a function of torchvision as their `action`, such as `adjust_brightness`, with its
    arguments; `transform`, `solarize_add` and `radius_blur` are functions of Pillow.

    Args:
        field: `Image` or `Mask`.
        size: (height, width) of the stored picture.
        name: The field's name in `fields`; for a field of a `Joint` the name of the `Joint`.
        augment_seed: The loader's `augment_seed`.
        epoch: The epoch, from 0.
        stream: The stream's number, from 0.
        draw: The sample's number in the epoch, before it is distributed to ranks.
        view: Number of the view, from 0, of an `Image` with `views`.
        boxes: Left, top, right and bottom of the sample's boxes, for a field with `RandomIoUCrop`.
    """
    if not isinstance(field, (Image, Mask)):
        expected = "the Image or the Mask in the Joint" if isinstance(field, Joint) else "an Image or a Mask"
        raise ConfigError(f"drawn needs {expected}, but the field is {shown(field)}")
    try:
        height, width = size
    except (TypeError, ValueError):
        raise ConfigError(f"size of drawn is (height, width) of the stored picture, but it is {shown(size)}") from None
    steps = drawn_operations(
        json.dumps(spec_of(field)),
        text("name of drawn", name),
        whole("augment_seed", augment_seed),
        (whole("epoch", epoch), whole("stream", stream, 0, U32), whole("draw", draw), whole("view", view, 0, U32)),
        (whole("width", width, 1, U32), whole("height", height, 1, U32)),
        None if boxes is None else [reals(f"boxes[{index}] of drawn", box, 4) for index, box in enumerate(boxes)],
    )
    return json.loads(steps)

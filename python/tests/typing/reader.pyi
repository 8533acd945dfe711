"""Names that pages use without a definition: the reader's files, network and training step, as in `test_docs.py`."""

from collections.abc import Callable

from torch import Tensor, nn

files: list[tuple[str, int]]
network: nn.Module
train_step: Callable[[Tensor, Tensor], object]

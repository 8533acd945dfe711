"""Names of torch that modules export without an import of torch before the first use."""

from torch import Tensor
from torch import distributed as dist

__all__ = ["Tensor", "dist"]

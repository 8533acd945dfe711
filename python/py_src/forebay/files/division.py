"""Check that files are not divided among workers twice."""

from __future__ import annotations

import sys
import warnings
from typing import Any


def warn_of_second_division(source: Any, whole: str) -> None:
    """Warns in a worker of a DataLoader if a DataPipe divides the items of `source`, which are a share already.

    Args:
        source: The data set.
        whole: Argument with which it returns everything.
    """
    info = getattr(sys.modules.get("torch.utils.data"), "get_worker_info", lambda: None)()
    if info is None or info.id > 0 or info.num_workers < 2 or not _divides_again(getattr(info, "dataset", None), type(source)):
        return
    name = type(source).__name__
    warnings.warn(
        f"a sharding_filter behind {name} divides each worker's share again, so files are left out: leave out the filter, or pass "
        f"{whole} where the {name} is made",
        stacklevel=3,
    )


def _divides_again(pipe: Any, source: type) -> bool:
    """Returns true if `pipe` is or has a DataPipe that divides samples of a `source`."""
    from torch.utils.data import IterDataPipe, MapDataPipe
    from torch.utils.data.graph import traverse_dps
    from torch.utils.data.graph_settings import _is_sharding_datapipe, get_all_graph_pipes

    if not isinstance(pipe, (IterDataPipe, MapDataPipe)):
        return False
    for divider in filter(_is_sharding_datapipe, get_all_graph_pipes(traverse_dps(pipe))):
        before = get_all_graph_pipes(traverse_dps(divider))
        if any(isinstance(value, source) for one in before for value in vars(one).values()):
            return True
    return False

"""Data sets of the library `datasets` that are already on this machine, as lists of their Arrow files."""

from collections.abc import Mapping
from typing import Any

from ._arguments import quoted
from .errors import ConfigError

# Changes in memory after which the files still have the rows and the columns that remain.
_HARMLESS = {"replace_schema_metadata", "select", "drop", "remove_column"}


def is_dataset(value: Any) -> bool:
    """Returns True for a `datasets.Dataset`."""
    return hasattr(value, "cache_files") and hasattr(value, "flatten_indices")


def is_dataset_dict(value: Any) -> bool:
    """Returns True for a `datasets.DatasetDict`."""
    return isinstance(value, Mapping) and len(value) > 0 and all(map(is_dataset, value.values()))


def dataset_of(datasets: Mapping[str, Any], split: str | None) -> Any:
    """Returns the split of a `datasets.DatasetDict`, or its only one.

    Raises:
        ConfigError: There is no such split, or more than one to choose from.
    """
    if split is None and len(datasets) == 1:
        return next(iter(datasets.values()))
    if split not in datasets:
        known = ", ".join(datasets)
        has = "has more than one split" if split is None else f"has no split {split!r}"
        raise ConfigError(f'the datasets.DatasetDict {has}; there are {known}: choose one, as in split="{next(iter(datasets))}"')
    return datasets[split]


def arrow_files(dataset: Any) -> str:
    """Returns the files of a `datasets.Dataset` as a `remote`.

    Raises:
        ConfigError: Its rows are not the rows of its files.
    """
    if dataset._indices is not None:
        raise ConfigError(
            "the rows of the datasets.Dataset are selected or in a different order: pass dataset.flatten_indices(), or pass the "
            "whole data set with shuffle=True"
        )
    table = dataset.data
    files = []
    for blocks in getattr(table, "blocks", [[table]]):
        path = getattr(blocks[0], "path", None)
        if len(blocks) > 1 or path is None:
            raise _changed("is in memory, or has columns of several files")
        changes = {name for name, *_ in blocks[0].replays} - _HARMLESS
        if changes:
            raise _changed(f"was changed after its files were written ({', '.join(sorted(changes))})")
        files.append(path)
    if not files:
        raise ConfigError("the datasets.Dataset has no files: it is empty")
    return "::".join(map(quoted, files))


def _changed(how: str) -> ConfigError:
    return ConfigError(f"the datasets.Dataset {how}: write it with dataset.save_to_disk(folder), and pass the folder")

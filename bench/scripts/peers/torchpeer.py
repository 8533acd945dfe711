"""Transform and DataLoader of the peers that run in torch's DataLoader."""

import recipes
import torch
from torch.utils.data import DataLoader


def transform(config):
    """torchvision's operations on a PIL image, as a tensor (channels first); None for bytes."""
    return None if config["kind"] == "bytes" else recipes.torchvision_transform(config)


def loader(dataset, config, cls=DataLoader, **more):
    """Worker processes that outlive the epoch, as a training run would have them."""
    return cls(
        dataset,
        batch_size=more.pop("batch_size", config["batch"]),
        num_workers=config["workers"],
        persistent_workers=config["workers"] > 0,
        **more,
    )


def versions(**more):
    """Returns torch's version and the peer's."""
    return {**more, "torch": torch.__version__}

"""Transform and DataLoader of the peers that run in torch's DataLoader."""

import recipes
import torch
from torch.utils.data import DataLoader


def transform(config):
    """torchvision's operations on a PIL image, as a tensor (channels first); None for bytes."""
    return None if config["kind"] == "bytes" else recipes.torchvision_transform(config)


def collate(config):
    """Returns the function that makes a batch of samples and mixes it; None for the DataLoader's own."""
    return None if config["kind"] != "images" else recipes.torchvision_mix(config)


def loader(dataset, config, cls=DataLoader, **more):
    """Worker processes that outlive the epoch, as a training run would have them."""
    mix = collate(config)
    if mix is not None and more.get("batch_size", True):
        more["collate_fn"] = mix
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

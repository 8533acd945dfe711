"""Transform and DataLoader of the peers that run in torch's DataLoader."""

import torch
from torch.utils.data import DataLoader


def crop_and_flip(config):
    """torchvision's random resized crop and flip on a PIL image, as a uint8 tensor (channels first); None for bytes."""
    if config["kind"] == "bytes":
        return None
    from torchvision import transforms

    return transforms.Compose(
        [
            transforms.RandomResizedCrop(config["crop"]),
            transforms.RandomHorizontalFlip(),
            transforms.PILToTensor(),
        ]
    )


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

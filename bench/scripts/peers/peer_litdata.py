"""LitData. Its own format is made once, next to the remaining forms of the data set, from the same files."""

import os

import litdata
import torchpeer
from litdata import StreamingDataLoader, StreamingDataset


def versions():
    return torchpeer.versions(litdata=litdata.__version__)


class Images(StreamingDataset):
    """JPEG bytes decoded by Pillow, as for all peers."""

    def __init__(self, transform, **more):
        super().__init__(**more)
        self.crop = transform

    def __getitem__(self, index):
        import io

        from PIL import Image

        data, label = super().__getitem__(index)
        return self.crop(Image.open(io.BytesIO(data)).convert("RGB")), label


def build(config):
    dataset = Images(torchpeer.transform(config), input_dir=config["litdata"], shuffle=True)
    return torchpeer.loader(dataset, config, cls=StreamingDataLoader)


def batches(loader):
    return loader


def _sample(pair):
    path, label = pair
    with open(path, "rb") as f:
        return f.read(), label


def convert(config):
    """Makes the LitData form of the files."""
    from torchvision.datasets import ImageFolder

    litdata.optimize(
        fn=_sample,
        inputs=ImageFolder(config["files"]).samples,
        output_dir=config["litdata"],
        chunk_bytes="64MB",
        num_workers=1,
    )

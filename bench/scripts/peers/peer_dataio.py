"""dataio-rs: its own decoder and transforms in native threads. Its resize is bilinear, as for all peers."""

import glob
import importlib.metadata
import os

import dataio
import recipes
import torch


def versions():
    return {"dataio-rs": importlib.metadata.version("dataio-rs"), "torch": torch.__version__}


def build(config):
    size, batch = config["crop"], dataio.batch(config["batch"])
    image = dataio.slot("jpg").decode_image(mode="rgb")
    image = image.random_resized_crop(h=size, w=size, interp="bilinear").hflip()
    recipe = config["recipe"]
    if recipe == "resnet":
        image = image.trivial_augment_wide()
    elif recipe == "deit":
        image = image.rand_augment(n=recipes.RAND_AUGMENT["num_ops"], m=recipes.RAND_AUGMENT["magnitude"])
        image = image.color_jitter(**jitter(recipe))
    elif recipe == "simclr":
        blur = dataio.transforms.gaussian_blur(
            kernel_size=recipes.BLUR_SIDE, sigma_lo=recipes.BLUR_SIGMA[0], sigma_hi=recipes.BLUR_SIGMA[1]
        )
        image = image.sometimes(dataio.transforms.color_jitter(**jitter(recipe)), prob=recipes.JITTERED)
        image = image.grayscale(prob=recipes.GREY).sometimes(blur, prob=recipes.BLURRED)
    if recipe in recipes.ERASED:
        image = image.random_erasing(prob=recipes.ERASED[recipe])
    if recipe != "crop":
        image = image.normalize(mean=recipes.MEAN, std=recipes.STD)
    stages = [image, dataio.slot("cls").decode_bytes(), batch]
    if recipe in recipes.MIXED:
        stages.append(dataio.map(dataio.batch_transforms.mixup(alpha=recipes.MIXED[recipe][0], slot="jpg")))
    pipeline = dataio.pipeline(*stages)
    records = dataio.webdataset(sorted(glob.glob(os.path.join(config["tar"], "*.tar"))))
    return pipeline.bind(records.shuffle(seed=7, buffer_size=1000)).run("torch")


def jitter(recipe):
    return dict(zip(("brightness", "contrast", "saturation", "hue"), recipes.JITTER[recipe]))


def batches(loader):
    for batch in loader:
        yield batch["jpg"], batch["cls"]

"""NVIDIA DALI on the CPU: its own decoder, which decodes only the crop, and its own threads."""

import glob
import os

import recipes
import torch
from nvidia import dali
from nvidia.dali import fn, pipeline_def, types
from nvidia.dali.auto_aug import rand_augment, trivial_augment
from nvidia.dali.plugin.pytorch import DALIGenericIterator, LastBatchPolicy

RECIPES = recipes.NAMES


def versions():
    return {"dali": dali.__version__, "torch": torch.__version__}


def augmented(images, config):
    """Returns the pictures after the operations of the recipe."""
    recipe, side = config["recipe"], config["crop"]
    if recipe == "resnet":
        images = trivial_augment.trivial_augment_wide(images, shape=[side, side])
    elif recipe == "deit":
        numbers = {"n": recipes.RAND_AUGMENT["num_ops"], "m": recipes.RAND_AUGMENT["magnitude"]}
        images = jittered(rand_augment.rand_augment(images, shape=[side, side], **numbers), *recipes.JITTER[recipe])
    elif recipe == "simclr":
        images = coloured(images, recipes.JITTER[recipe], recipes.BLURRED, recipes.BLUR_SIDE)
    return images


def coloured(images, jitter, blurred, blur_side):
    """Returns the pictures with changed colours, in grey, and blurred, each by chance, as SimCLR and DINO have them."""
    if fn.random.coin_flip(probability=recipes.JITTERED, dtype=types.BOOL):
        images = jittered(images, *jitter)
    if fn.random.coin_flip(probability=recipes.GREY, dtype=types.BOOL):
        images = fn.saturation(images, saturation=0.0)
    if fn.random.coin_flip(probability=blurred, dtype=types.BOOL):
        images = fn.gaussian_blur(images, window_size=blur_side, sigma=fn.random.uniform(range=recipes.BLUR_SIGMA))
    return images


def jittered(images, brightness, contrast, saturation, hue):
    def around(amount):
        return fn.random.uniform(range=[1 - amount, 1 + amount])

    degrees = {"hue": fn.random.uniform(range=[-360 * hue, 360 * hue])} if hue else {}
    factors = {"brightness": around(brightness), "contrast": around(contrast), "saturation": around(saturation)}
    return fn.color_twist(images, **factors, **degrees)


def normalised(images, config):
    mean, std = [255 * each for each in recipes.MEAN], [255 * each for each in recipes.STD]
    images = fn.crop_mirror_normalize(images, dtype=types.FLOAT, output_layout="CHW", mean=mean, std=std)
    if config["recipe"] not in recipes.ERASED:
        return images
    is_erased = fn.random.coin_flip(probability=recipes.ERASED[config["recipe"]], dtype=types.BOOL)
    if is_erased:
        # Squares of 2 to 33 % of the area, as RandomErasing has on the average of its ratios.
        side = config["crop"] * fn.random.uniform(range=[0.14, 0.57])
        anchor = fn.random.uniform(range=[0.0, 0.43], shape=[2]) * config["crop"]
        images = fn.erase(images, anchor=anchor, shape=fn.stack(side, side), axis_names="HW", fill_value=0)
    return images


def mixed(images, alpha):
    """Returns the pictures blended with pictures of the batch, as MixUp does."""
    share = fn.random.beta(alpha=alpha, beta=alpha)
    return share * images + (1 - share) * fn.permute_batch(images, indices=fn.batch_permutation())


def dino(encoded, config):
    """Returns the views in sequence: the picture is decoded once, and cut as often as there are views."""
    whole = fn.decoders.image(encoded, device="cpu", output_type=types.RGB)
    return [view_of(whole, view, config) for view in recipes.dino_views(config) for _ in range(view.count)]


def view_of(whole, view, config):
    images = fn.random_resized_crop(
        whole, size=[view.side, view.side], random_area=list(view.scale), random_aspect_ratio=[3 / 4, 4 / 3], num_attempts=10
    )
    images = fn.flip(images, horizontal=fn.random.coin_flip(probability=0.5))
    images = coloured(images, recipes.DINO_JITTER, view.blurred, view.blur_side)
    if view.solarized:
        if fn.random.coin_flip(probability=view.solarized, dtype=types.BOOL):
            is_light = fn.cast(images >= recipes.SOLARIZED_FROM, dtype=types.UINT8)
            images = fn.cast(images + is_light * (255 - 2 * fn.cast(images, dtype=types.INT16)), dtype=types.UINT8)
    return normalised(images, config)


@pipeline_def(enable_conditionals=True)
def crops(config):
    if config["source"] == "tar":
        encoded, label = fn.readers.webdataset(
            paths=sorted(glob.glob(os.path.join(config["tar"], "*.tar"))),
            ext=["jpg", "cls"],
            missing_component_behavior="error",
            random_shuffle=True,
            name="reader",
        )
    else:
        encoded, label = fn.readers.file(file_root=config["files"], random_shuffle=True, name="reader")
    if config["recipe"] == "dino":
        return tuple(dino(encoded, config)) + ((label,) if config["source"] == "files" else ())
    images = fn.decoders.image_random_crop(
        encoded,
        device="cpu",
        output_type=types.RGB,
        random_area=[0.08, 1.0],
        random_aspect_ratio=[3 / 4, 4 / 3],
        num_attempts=10,
    )
    images = fn.resize(images, size=[config["crop"], config["crop"]], interp_type=types.INTERP_LINEAR)
    images = fn.flip(images, horizontal=fn.random.coin_flip(probability=0.5))
    if config["recipe"] != "crop":
        images = normalised(augmented(images, config), config)
    if config["recipe"] in recipes.MIXED:
        images = mixed(images, recipes.MIXED[config["recipe"]][0])
    return (images, label) if config["source"] == "files" else (images,)


def build(config):
    pipe = crops(config, batch_size=config["batch"], num_threads=config["workers"], device_id=None, seed=7)
    names = ["x"]
    if config["recipe"] == "dino":
        names += [f"view {number}" for number in range(1, sum(view.count for view in recipes.dino_views(config)))]
    names += ["y"] if config["source"] == "files" else []
    return DALIGenericIterator(
        [pipe], names, reader_name="reader", last_batch_policy=LastBatchPolicy.PARTIAL, auto_reset=True
    )


def batches(loader):
    for batch in loader:
        yield batch[0]["x"], batch[0].get("y")

"""Recipes of training: operations on a picture between its decode and the batch, in torchvision and in forebay.

`crop` is a random crop and a flip, as uint8 unless the configuration has `normalised`. The rest have more operations after
these, and are normalised float32.
"""

from typing import NamedTuple

NAMES = ("crop", "resnet", "deit", "simclr", "dino")
OF_ONE_VIEW = NAMES[:-1]

NORMALISED = MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

RAND_AUGMENT = {"num_ops": 2, "magnitude": 9}
JITTER = {"deit": (0.3, 0.3, 0.3, 0.0), "simclr": (0.8, 0.8, 0.8, 0.2)}
JITTERED = 0.8
"""Share of SimCLR's pictures with changed colours."""
GREY = 0.2
BLUR_SIDE, BLUR_SIGMA, BLURRED = 23, (0.1, 2.0), 0.5
ERASED = {"resnet": 0.1, "deit": 0.25}
"""Shares of the pictures in which a rectangle is erased."""
MIXED = {"resnet": (0.2, 1.0)}
"""Parameters of MixUp and of CutMix. One of them is drawn for each batch."""


DINO_JITTER = (0.4, 0.4, 0.2, 0.1)
SOLARIZED, SOLARIZED_FROM = 0.2, 128


class View(NamedTuple):
    """One of DINO's crops, or several that differ only in their draws."""

    name: str
    count: int
    side: int
    scale: tuple
    blurred: float
    solarized: float

    @property
    def blur_side(self):
        """Pixels of the blur, an odd number: SimCLR's for the large crops."""
        return BLUR_SIDE if self.name != "local" else BLUR_SIDE * 3 // 7


def dino_views(config):
    """Returns DINO's two large crops and its six small ones, for large crops of the configuration's side."""
    side = config["crop"]
    return [
        View("x", 1, side, (0.4, 1.0), 1.0, 0.0),
        View("x2", 1, side, (0.4, 1.0), 0.1, SOLARIZED),
        View("local", 6, side * 3 // 7, (0.05, 0.4), 0.5, 0.0),
    ]


def dino_crops(config, transform):
    """Returns a function from a picture to a dict of the views. `transform` returns, for a View, one from a picture to a tensor."""
    import torch

    transforms = [(view, transform(view)) for view in dino_views(config)]

    def crops(picture):
        made = {view.name: [of(picture) for _ in range(view.count)] for view, of in transforms}
        return {name: torch.stack(tensors) if len(tensors) > 1 else tensors[0] for name, tensors in made.items()}

    return crops


def is_normalised(config):
    return config["recipe"] != "crop" or config.get("normalised", False)


def torchvision_dino(config):
    """Returns a function from a PIL image to a dict of the views."""
    import torch
    from torchvision.transforms import v2

    def transform(view):
        return v2.Compose(
            [
                v2.RandomResizedCrop(view.side, view.scale),
                v2.RandomHorizontalFlip(),
                v2.RandomApply([v2.ColorJitter(*DINO_JITTER)], JITTERED),
                v2.RandomGrayscale(GREY),
                v2.RandomApply([v2.GaussianBlur(view.blur_side, BLUR_SIGMA)], view.blurred),
                v2.RandomSolarize(SOLARIZED_FROM, view.solarized),
                v2.PILToTensor(),
                v2.ToDtype(torch.float32, scale=True),
                v2.Normalize(MEAN, STD),
            ]
        )

    return dino_crops(config, transform)


def torchvision_transform(config):
    """Returns a function from a PIL image to a tensor (channels first), or to a dict of these for DINO."""
    import torch
    from torchvision.transforms import v2

    recipe = config["recipe"]
    if recipe == "dino":
        return torchvision_dino(config)
    steps = [v2.RandomResizedCrop(config["crop"]), v2.RandomHorizontalFlip()]
    if recipe == "resnet":
        steps.append(v2.TrivialAugmentWide())
    elif recipe == "deit":
        steps += [v2.RandAugment(**RAND_AUGMENT), v2.ColorJitter(*JITTER[recipe])]
    elif recipe == "simclr":
        steps.append(v2.RandomApply([v2.ColorJitter(*JITTER[recipe])], JITTERED))
        steps.append(v2.RandomGrayscale(GREY))
        steps.append(v2.RandomApply([v2.GaussianBlur(BLUR_SIDE, BLUR_SIGMA)], BLURRED))
    steps.append(v2.PILToTensor())
    if is_normalised(config):
        steps += [v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)]
    if recipe in ERASED:
        steps.append(v2.RandomErasing(ERASED[recipe]))
    return v2.Compose(steps)


def torchvision_mix(config):
    """Returns a function from the samples of a batch, each (x, y) or a dict of these, to the batch, which is mixed; None for a recipe
    without it."""
    from torch.utils.data import default_collate
    from torchvision.transforms import v2

    if config["recipe"] not in MIXED:
        return None
    mix_up, cut_mix = MIXED[config["recipe"]]
    classes = config["classes"]
    mix = v2.RandomChoice([v2.MixUp(alpha=mix_up, num_classes=classes), v2.CutMix(alpha=cut_mix, num_classes=classes)])

    def mixed(samples):
        batch = default_collate(samples)
        if not isinstance(batch, dict):
            return mix(*batch)
        x, y = mix(batch["x"], batch["y"])
        return {"x": x, "y": y}

    return mixed


def forebay_dino(config, image):
    """Returns the fields of the views."""
    import forebay as fb

    def picture(view):
        return fb.Image(
            image,
            fb.RandomResizedCrop(view.side, view.scale),
            fb.RandomHorizontalFlip(),
            fb.RandomApply([fb.ColorJitter(*DINO_JITTER)], JITTERED),
            fb.RandomGrayscale(GREY),
            fb.RandomApply([fb.GaussianBlur(view.blur_side, BLUR_SIGMA)], view.blurred),
            fb.RandomSolarize(SOLARIZED_FROM, view.solarized),
            fb.Normalize(MEAN, STD),
            views=view.count if view.count > 1 else None,
        )

    return {view.name: picture(view) for view in dino_views(config)}


def forebay_fields(config, image, label):
    """Returns the fields `x`, the pictures, and `y`, their classes, of the columns `image` and `label`; for DINO also further views."""
    import forebay as fb

    recipe = config["recipe"]
    if recipe == "dino":
        return {**forebay_dino(config, image), "y": fb.Scalar(label, dtype="int64")}
    steps = [fb.RandomResizedCrop(config["crop"]), fb.RandomHorizontalFlip()]
    if recipe == "resnet":
        steps.append(fb.TrivialAugmentWide())
    elif recipe == "deit":
        steps += [fb.RandAugment(**RAND_AUGMENT), fb.ColorJitter(*JITTER[recipe])]
    elif recipe == "simclr":
        steps.append(fb.RandomApply([fb.ColorJitter(*JITTER[recipe])], JITTERED))
        steps.append(fb.RandomGrayscale(GREY))
        steps.append(fb.RandomApply([fb.GaussianBlur(BLUR_SIDE, BLUR_SIGMA)], BLURRED))
    if is_normalised(config):
        steps.append(fb.Normalize(MEAN, STD))
    if recipe in ERASED:
        steps.append(fb.RandomErasing(ERASED[recipe]))
    pictures = fb.Image(image, *steps)
    if recipe not in MIXED:
        return {"x": pictures, "y": fb.Scalar(label, dtype="int64")}
    mix_up, cut_mix = MIXED[recipe]
    classes = fb.OneHot(label, config["classes"])
    return {"mixed": fb.Mix([fb.MixUp(mix_up), fb.CutMix(cut_mix)], x=pictures, y=classes)}

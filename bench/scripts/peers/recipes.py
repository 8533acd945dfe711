"""Recipes as torchvision has them: operations on a picture between its decode and the batch.

`crop` is a random crop and a flip, as uint8. The others have more operations after these, and are normalised float32.
"""

ALL = ("crop", "resnet", "deit", "simclr")

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

RAND_AUGMENT = {"num_ops": 2, "magnitude": 9}
JITTER = {"deit": (0.3, 0.3, 0.3, 0.0), "simclr": (0.8, 0.8, 0.8, 0.2)}
JITTERED = 0.8
"""Share of SimCLR's pictures whose colours are changed."""
GREY = 0.2
BLUR_SIDE, BLUR_SIGMA, BLURRED = 23, (0.1, 2.0), 0.5
ERASED = {"resnet": 0.1, "deit": 0.25}
"""Shares of the pictures in which a rectangle is erased."""


def torchvision_transform(config):
    """Returns a function from a PIL image to a tensor (channels first)."""
    import torch
    from torchvision.transforms import v2

    recipe = config["recipe"]
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
    if recipe != "crop":
        steps += [v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)]
    if recipe in ERASED:
        steps.append(v2.RandomErasing(ERASED[recipe]))
    return v2.Compose(steps)

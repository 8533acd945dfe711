"""Arguments of operations: wrong ones are errors that name them, before any sample is read."""

import dataclasses

import numpy as np
import pytest
from odd_pictures import NAME, write_odd_pictures

import forebay as fb
from forebay import fields, operations
from forebay.fields import specs
from forebay.fields.checks import BY_ANNOTATION

NORM = fb.Normalize(fb.IMAGENET_MEAN, fb.IMAGENET_STD)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_odd_pictures(tmp_path_factory.mktemp("arguments") / "set", 8)[0]


@pytest.mark.parametrize(
    ("op", "sentence"),
    [
        (fb.ColorJitter(brightness=-1), "brightness of ColorJitter is a number, at least 0, but it is -1"),
        (fb.ColorJitter(contrast=(1, 2, 3)), "contrast of ColorJitter is a list of 2 numbers"),
        (fb.ColorJitter(hue="red"), "hue of ColorJitter is a list of 2 numbers"),
        (fb.RandomPosterize(9), "bits of RandomPosterize is a whole number, at most 8, but it is 9"),
        (fb.RandomSolarize("a"), "threshold of RandomSolarize is a number, but it is 'a'"),
        (fb.GaussianBlur((3, 3, 3)), "kernel_size of GaussianBlur is a number of pixels or (columns, rows)"),
        (fb.Pad({1, 2}), "padding of Pad is a number of pixels, (left and right, top and bottom)"),
        (fb.RandomRotation(-3), "degrees of RandomRotation is a number of degrees, at least 0"),
        (fb.RandomRotation(3, "cubic"), 'interpolation of RandomRotation is "nearest", "bilinear" or "bicubic", but it is \'cubic\''),
        (fb.RandomRotation(3, fill=300), "fill of RandomRotation is a whole number, at most 255, but it is 300"),
        (fb.RandomRotation(3, fill=0.9), "fill of RandomRotation is a whole number, at least 0, but it is 0.9"),
        (fb.RandomRotation(3, fill=float("nan")), "fill of RandomRotation is a number, but it is nan"),
        (fb.RandomRotation(3, fill=float("inf")), "fill of RandomRotation is a number, but it is inf"),
        (fb.RandomRotation(3, fill=(1, 2)), "fill of RandomRotation is a grey level or (red, green, blue)"),
        (fb.RandomAffine(3, shear=(1, 2, 3)), "shear of RandomAffine is one number, or two or four numbers"),
        (fb.RandAugment(num_ops=-1), "num_ops of RandAugment is a whole number, at least 0, but it is -1"),
        (fb.TrivialAugmentWide(1), "num_magnitude_bins of TrivialAugmentWide is a whole number, at least 2"),
        (fb.AutoAugment("mnist"), 'policy of AutoAugment is "imagenet", "cifar10" or "svhn"'),
        (fb.RandomApply(fb.RandomInvert()), "transforms of RandomApply is a list of operations"),
        (fb.RandomApply([3]), "RandomApply: 3 is not an operation of forebay"),
        (fb.RandomOrder([NORM]), "RandomOrder cannot hold Normalize"),
        (fb.RandomChoice([fb.RandomApply([fb.FiveCrop(3)])]), "RandomChoice: RandomApply cannot hold FiveCrop"),
        (fb.RandomChoice([fb.RandomInvert()], [1, 2]), "p of RandomChoice is a list of 1 numbers"),
        (fb.RandomErasing(value="noise"), "value of RandomErasing is a list of 3 numbers"),
    ],
)
def test_an_argument_of_the_wrong_kind_is_named_with_its_operation(op, sentence):
    with pytest.raises(fb.ConfigError) as caught:
        specs({"x": fb.Image("image", op)})
    assert str(caught.value).startswith(f"fields['x']: {sentence}")


def test_numbers_of_numpy_and_iterators_are_arguments():
    pairs = [
        (fb.RandomErasing(value=np.zeros(3)), fb.RandomErasing(value=(0, 0, 0))),
        (fb.RandomErasing(value=np.array(2.0)), fb.RandomErasing(value=2)),
        (fb.GaussianBlur(np.array([3, 5]), np.array(2.0)), fb.GaussianBlur((3, 5), 2.0)),
        (fb.RandomRotation(3, fill=np.float32(7)), fb.RandomRotation(3, fill=7)),
        (fb.RandomRotation(3, fill=np.array([1, 2, 3])), fb.RandomRotation(3, fill=(1, 2, 3))),
        (fb.RandomApply(op for op in [fb.RandomInvert()]), fb.RandomApply([fb.RandomInvert()])),
    ]
    for given, plain in pairs:
        assert given._spec() == given._spec() == plain._spec()


def test_every_argument_of_every_operation_has_a_check():
    found = {getattr(module, name) for module in (fields, operations) for name in module.__all__}
    kinds = {kind for kind in found if isinstance(kind, type) and issubclass(kind, fields.ImageOp)}
    with_own_form = {fields.ImageOp, fb.LinearTransformation, fb.Normalize, fb.RandomApply, fb.RandomChoice, fb.RandomOrder}
    assert len(kinds) > 40
    for kind in kinds - with_own_form:
        assert {field.name for field in dataclasses.fields(kind) if field.type not in BY_ANNOTATION} <= kind._CHECKS.keys(), kind


def test_a_size_that_is_no_pair_is_an_error_of_drawn():
    with pytest.raises(fb.ConfigError, match="size of drawn is"):
        fb.drawn(fb.Image("image"), (3,), name="x", augment_seed=1)


def test_an_output_of_a_mix_cannot_have_the_name_of_an_argument():
    with pytest.raises(fb.ConfigError, match="p of Mix is an argument"):
        fb.Mix(fb.MixUp(), p=fb.OneHot("class", 3))


@pytest.mark.parametrize(
    ("ops", "sentence"),
    [
        ([fb.ColorJitter(hue=0.6)], "ColorJitter needs `hue` from -0.5 to 0.5"),
        ([fb.ColorJitter(brightness=(2, 1))], "`brightness` as the smallest and the largest value"),
        ([fb.RandomInvert(1.5)], "RandomInvert needs `p` from 0 to 1"),
        ([fb.RandomSolarize(300)], "RandomSolarize needs `threshold` from 0 to 256"),
        ([fb.RandomAdjustSharpness(-1)], "RandomAdjustSharpness needs `sharpness_factor` at least 0"),
        ([fb.GaussianBlur(4)], "odd sides of `kernel_size`"),
        ([fb.GaussianBlur(1001)], "at most 255"),
        ([fb.GaussianBlur(3, 0)], "GaussianBlur needs `sigma`"),
        ([fb.RandomRotation((0, 1e9))], "RandomRotation needs `degrees`"),
        ([fb.RandomAffine(0, (0, 2))], "RandomAffine needs `translate` from 0 to 1"),
        ([fb.RandomAffine(0, scale=(0, 1))], "RandomAffine needs `scale`"),
        ([fb.RandomPerspective(2)], "`distortion_scale` from 0 to 1"),
        ([fb.RandAugment(magnitude=31)], "`magnitude` below `num_magnitude_bins`"),
        ([fb.RandAugment(num_ops=10**6)], "`num_ops` from 0 to 1024"),
        ([fb.AugMix(severity=11)], "AugMix needs `severity` from 1 to 10"),
        ([fb.AugMix(mixture_width=65)], "`mixture_width` from 1 to 64"),
        ([fb.AugMix(alpha=0)], "AugMix needs `alpha`"),
        ([fb.LevelAugment([[("Invert", 1, 0)]], width=65)], "LevelAugment needs a `width` of at most 64"),
        ([fb.LevelAugment([[("Invert", 1, 0)]], 65, width=2)], "and a `count` of chains too"),
        ([fb.LevelAugment([[("Invert", 1, 0)]], width=2, alpha=0)], "LevelAugment needs `alpha`"),
        ([fb.RandomApply([])], "RandomApply needs 1 to 64 operations"),
        ([fb.RandomOrder([fb.RandomInvert()] * 65)], "RandomOrder needs 1 to 64 operations"),
        ([fb.RandomChoice([fb.RandomInvert()], [-1])], "a weight `p` of at least 0"),
        ([fb.RandomOrder([fb.RandomApply([fb.RandomInvert(2)])])], "RandomInvert needs `p`"),
        ([fb.RandomErasing(scale=(0.5, 0.1))], "`scale` as the smallest and the largest"),
        ([fb.RandomErasing(value=0.5)], "a level from 0 to 255"),
        ([fb.RandomErasing(count=2, min_count=3)], "`min_count` from 1 to its `count`, 2"),
        ([fb.RandomErasing(), fb.RandomInvert()], "RandomErasing must be the last operation"),
        ([NORM, fb.RandomInvert()], "Normalize must be the last operation, except for LinearTransformation"),
    ],
)
def test_an_argument_outside_of_its_range_is_an_error_of_the_loader_and_of_drawn(folder, ops, sentence):
    with pytest.raises(fb.ConfigError) as caught:
        fb.Loader(local=folder, batch_size=2, fields={NAME: fb.Image("image", *ops)})
    assert sentence in str(caught.value) and f"field {NAME}" in str(caught.value)


def test_drawn_describes_crops_and_actions():
    field = fb.Image("image", fb.RandomResizedCrop(8), fb.RandomHorizontalFlip(1.0), fb.RandomInvert(1.0), fb.CenterCrop(4))
    steps = fb.drawn(field, (30, 40), name="x", augment_seed=1)
    stage = ["crop", "fill", "flip", "interpolation", "padding_mode", "resized", "window"]
    assert [sorted(step) for step in steps] == [stage, ["action"], stage]
    assert steps[0]["resized"] == [8, 8] and steps[0]["flip"] and steps[2]["window"] == [2, 2, 4, 4]
    with pytest.raises(fb.ConfigError, match="drawn needs an Image or a Mask"):
        fb.drawn(fb.Scalar("y"), (30, 40), name="x", augment_seed=1)
    with pytest.raises(fb.ConfigError, match="RandAugment needs a `magnitude`"):
        fb.drawn(fb.Image("image", fb.RandAugment(2, 40)), (30, 40), name="x", augment_seed=1)
    with pytest.raises(fb.ConfigError, match="height is a whole number"):
        fb.drawn(field, (0, 40), name="x", augment_seed=1)


def test_a_picture_that_a_rotation_makes_too_large_is_an_error_of_the_sample(tmp_path):
    from PIL import Image

    folder = str(tmp_path / "set")
    with fb.MDSWriter(out=folder, columns={"image": "png"}) as writer:
        writer.write({"image": Image.new("RGB", (30000, 10))})
    field = fb.Image("image", fb.RandomRotation((45, 45), expand=True))
    with fb.Loader(local=folder, batch_size=1, fields={"x": field}) as loader:
        with pytest.raises(fb.DecodeError, match="more pixels than the limit"):
            next(iter(loader))

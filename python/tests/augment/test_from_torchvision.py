"""Translation of torchvision's transforms."""

import inspect

import numpy as np
import pytest
import torch
import torchvision.transforms as v1
from odd_pictures import NAME, SEED, write_odd_pictures
from torchvision.transforms import InterpolationMode, v2
from torchvision.transforms._presets import ImageClassification

import forebay as fb
from forebay.fields import specs

MEAN, STD = fb.IMAGENET_MEAN, fb.IMAGENET_STD


def spec(ops):
    return specs({"x": fb.Image("image", *ops)})[0][1]


@pytest.mark.parametrize("of", [v1, v2])
def test_the_recipe_of_torchvision_s_reference_script_is_translated(of):
    recipe = of.Compose(
        [
            of.RandomResizedCrop(176, interpolation=InterpolationMode.BILINEAR, antialias=True),
            of.RandomHorizontalFlip(0.5),
            of.TrivialAugmentWide(interpolation=InterpolationMode.BILINEAR),
            of.PILToTensor(),
            of.ConvertImageDtype(torch.float),
            of.Normalize(mean=MEAN, std=STD),
            of.RandomErasing(p=0.1),
        ]
    )
    expected = [
        fb.RandomResizedCrop(176),
        fb.RandomHorizontalFlip(),
        fb.TrivialAugmentWide(interpolation="bilinear"),
        fb.Normalize(MEAN, STD),
        fb.RandomErasing(0.1),
    ]
    assert spec(fb.from_torchvision(recipe)) == spec(expected)


@pytest.mark.parametrize("of", [v1, v2])
def test_every_operation_has_the_arguments_of_its_transform(of):
    pairs = [
        (of.Resize(256), fb.Resize(256)),
        (of.Resize((3, 4)), fb.Resize((3, 4))),
        (of.Resize([5], InterpolationMode.BICUBIC, max_size=9), fb.Resize(5, "bicubic", 9)),
        (of.Resize(5, InterpolationMode.NEAREST), fb.Resize(5, "nearest")),
        (of.Resize(5, InterpolationMode.NEAREST_EXACT), fb.Resize(5, "nearest")),
        (of.RandomResizedCrop(224, interpolation=InterpolationMode.BICUBIC), fb.RandomResizedCrop(224, interpolation="bicubic")),
        (of.RandomResizedCrop(8, (0.1, 1), (1, 2), 0), fb.RandomResizedCrop(8, (0.1, 1), (1, 2), "nearest")),
        (of.CenterCrop(8), fb.CenterCrop(8)),
        (of.FiveCrop(8), fb.FiveCrop(8)),
        (of.TenCrop((8, 9)), fb.TenCrop((8, 9))),
        (of.Pad((1, 2)), fb.Pad((1, 2))),
        (of.RandomCrop(32, padding=(1, 2, 3, 4), pad_if_needed=True), fb.RandomCrop(32, (1, 2, 3, 4), True)),
        (of.RandomCrop(32, padding=4), fb.RandomCrop(32, 4)),
        (of.RandomCrop(32, 4, fill=(1, 2, 3)), fb.RandomCrop(32, 4, fill=(1, 2, 3))),
        (of.RandomCrop(32, 4, padding_mode="reflect"), fb.RandomCrop(32, 4, padding_mode="reflect")),
        (of.Pad((1, 2, 3, 4), 9, "edge"), fb.Pad((1, 2, 3, 4), 9, "edge")),
        (of.Pad(1, padding_mode="symmetric"), fb.Pad(1, 0, "symmetric")),
        (of.Grayscale(3), fb.Grayscale()),
        (of.RandomVerticalFlip(0.3), fb.RandomVerticalFlip(0.3)),
        (of.RandomGrayscale(0.3), fb.RandomGrayscale(0.3)),
        (of.RandomInvert(0.3), fb.RandomInvert(0.3)),
        (of.RandomPosterize(3, 0.3), fb.RandomPosterize(3, 0.3)),
        (of.RandomSolarize(99.5, 0.3), fb.RandomSolarize(99.5, 0.3)),
        (of.RandomAutocontrast(0.3), fb.RandomAutocontrast(0.3)),
        (of.RandomEqualize(0.3), fb.RandomEqualize(0.3)),
        (of.RandomAdjustSharpness(2, 0.3), fb.RandomAdjustSharpness(2, 0.3)),
        (of.ColorJitter(0.4, (0.5, 0.6), 0, 0.1), fb.ColorJitter(0.4, (0.5, 0.6), 0, 0.1)),
        (of.GaussianBlur((5, 3), (0.1, 3)), fb.GaussianBlur((5, 3), (0.1, 3))),
        (of.GaussianBlur(5, 2.0), fb.GaussianBlur(5, 2.0)),
        (of.RandomRotation(10, expand=True, fill=3), fb.RandomRotation(10, expand=True, fill=3)),
        (of.RandomAffine(10, (0.1, 0.2), (0.5, 2), 3, fill=(1, 2, 3)), fb.RandomAffine(10, (0.1, 0.2), (0.5, 2), 3, fill=(1, 2, 3))),
        (of.RandomAffine((0, 9), shear=(1, 2, 3, 4), center=(1, 2)), fb.RandomAffine((0, 9), shear=(1, 2, 3, 4), center=(1, 2))),
        (of.RandomPerspective(0.3, 0.2, InterpolationMode.NEAREST), fb.RandomPerspective(0.3, 0.2, "nearest")),
        (of.RandAugment(3, 7, 11), fb.RandAugment(3, 7, 11)),
        (of.AutoAugment(v1.AutoAugmentPolicy.SVHN), fb.AutoAugment("svhn")),
        (of.AugMix(2, 4, 1, 0.5, False), fb.AugMix(2, 4, 1, 0.5, False)),
        (of.RandomApply([of.ColorJitter(0.1), of.RandomInvert()], 0.3), fb.RandomApply([fb.ColorJitter(0.1), fb.RandomInvert()], 0.3)),
        (of.RandomOrder([of.RandomInvert(), of.RandomEqualize()]), fb.RandomOrder([fb.RandomInvert(), fb.RandomEqualize()])),
        (of.RandomErasing(0.2, (0.1, 0.2), (1, 2), "random"), fb.RandomErasing(0.2, (0.1, 0.2), (1, 2), "random")),
        (of.RandomErasing(value=(1, 2, 3)), fb.RandomErasing(value=(1, 2, 3))),
    ]
    for theirs, ours in pairs:
        assert spec(fb.from_torchvision([theirs])) == spec([ours]), theirs


def test_operations_of_the_second_interface_have_the_arguments_of_their_transforms():
    for theirs, ours in [
        (v2.RandomResize(8, 20, InterpolationMode.BICUBIC), fb.RandomResize(8, 20, "bicubic")),
        (v2.RandomPhotometricDistort(p=0.3), fb.RandomPhotometricDistort(p=0.3)),
        (v2.RandomPhotometricDistort((0, 1), (1, 2), (2, 3), (0, 0.1)), fb.RandomPhotometricDistort((0, 1), (1, 2), (2, 3), (0, 0.1))),
        (v2.RandomChannelPermutation(), fb.RandomChannelPermutation()),
        (v2.Resize(None, max_size=9), fb.Resize(None, max_size=9)),
    ]:
        assert spec(fb.from_torchvision([theirs])) == spec([ours]), theirs


def test_a_list_inside_a_choice_stays_one_operation():
    flips = v2.Compose([v2.RandomHorizontalFlip(), v2.RandomVerticalFlip()])
    [choice] = fb.from_torchvision(v2.RandomChoice([flips, v2.RandomInvert(1.0)], p=[3, 1]))
    inner = fb.RandomApply([fb.RandomHorizontalFlip(), fb.RandomVerticalFlip()], 1.0)
    assert choice == fb.RandomChoice([inner, fb.RandomInvert(1.0)], [0.75, 0.25])


def test_a_conversion_to_floats_without_normalisation_gives_floats(tmp_path):
    folder, made = write_odd_pictures(tmp_path / "set", 4)
    ops = fb.from_torchvision(v1.Compose([v1.CenterCrop(9), v1.ToTensor()]))
    with fb.Loader(local=folder, batch_size=4, fields={NAME: fb.Image("image", *ops)}, order=fb.Order(augment_seed=SEED)) as loader:
        [batch] = loader
    expected = torch.stack([v1.Compose([v1.ToTensor(), v1.CenterCrop(9)])(pixels.copy()) for pixels in made])
    assert torch.allclose(batch[NAME], expected, atol=1e-6)


FLOATS, BYTES = v2.ToDtype(torch.float32, scale=True), v2.ToDtype(torch.uint8, scale=True)
NEUTRAL = fb.Normalize((0, 0, 0), (1, 1, 1))


@pytest.mark.parametrize(
    ("transforms", "expected"),
    [
        ([v1.ToTensor(), v1.RandomErasing()], [NEUTRAL, fb.RandomErasing()]),
        (
            [ImageClassification(crop_size=224, resize_size=232)],
            [fb.Resize(232), fb.CenterCrop(224), fb.Normalize(fb.IMAGENET_MEAN, fb.IMAGENET_STD)],
        ),
        ([v1.ToTensor(), v1.Normalize([0.5], 0.25)], [fb.Normalize((0.5,) * 3, (0.25,) * 3)]),
        ([FLOATS, v2.RandomInvert(), BYTES, v2.RandomSolarize(99)], [fb.RandomInvert(), fb.RandomSolarize(99)]),
        ([FLOATS, v2.ToDtype(torch.float32), v2.RandomInvert()], [fb.RandomInvert(), NEUTRAL]),
        ([v1.ToTensor(), v1.ToPILImage(), v1.RandomRotation(3, fill=9)], [fb.RandomRotation(3, fill=9)]),
        ([v2.RandomApply([v2.ToImage()]), v2.RandomOrder([v2.RandomApply([v2.Identity()])])], []),
    ],
)
def test_the_last_conversion_decides_the_type(transforms, expected):
    assert spec(fb.from_torchvision(transforms)) == spec(expected)


@pytest.mark.parametrize(
    ("transforms", "sentence"),
    [
        ([FLOATS, v2.RandomSolarize(0.5)], "number 1, RandomSolarize.*put it before the conversion"),
        ([v1.ToTensor(), v1.RandomRotation(30, fill=1.0)], "number 1, RandomRotation.*put it before the conversion"),
        ([FLOATS, v2.RandomApply([v2.RandomOrder([v2.RandomSolarize(0.5)])])], "number 1, RandomApply.*Solarize has a level"),
        ([FLOATS, v2.TrivialAugmentWide(fill=[0.5, 0, 0])], "number 1, TrivialAugmentWide.*has a level"),
        ([v1.ToTensor(), v1.Normalize(MEAN, STD), v1.RandomHorizontalFlip()], "number 2, RandomHorizontalFlip.*before number 1"),
        ([v1.ToTensor(), v1.RandomErasing(), v1.RandomInvert()], "number 2, RandomInvert.*before number 1, RandomErasing"),
        ([v2.RandomErasing(), FLOATS], "number 1, ToDtype.*before number 0, RandomErasing"),
        ([FLOATS, v2.ToDtype(torch.uint8)], "number 1, ToDtype.*scale=True"),
        ([v2.RandomApply([v2.ToDtype(torch.float32), v2.RandomInvert()])], "number 0, RandomApply.*ToDtype.*in a composition"),
        ([v2.RandomOrder([v2.RandomApply([v2.ToDtype(torch.float16)])])], "number 0, RandomOrder.*ToDtype.*in a composition"),
        ([v1.ToPILImage("L")], 'number 0, ToPILImage.*pass mode="L" to Image'),
        ([v2.RandomRotation(9, expand=True, center=(0, 0))], "number 0, RandomRotation.*leave out center"),
        ("abc", "number 0, 'abc': only torchvision"),
    ],
)
def test_a_list_that_would_give_different_pixels_is_an_error_that_names_the_transform(transforms, sentence):
    with pytest.raises(fb.ConfigError, match=sentence):
        fb.from_torchvision(transforms)


def test_transforms_in_an_image_are_an_error_that_names_the_translation():
    for wrong, sentence in [
        (v2.RandomInvert(), r"pass \*from_torchvision\(...\)"),
        (v2.Compose([v2.RandomInvert()]), r"pass \*from_torchvision\(...\)"),
        (fb.Grayscale, r"write Grayscale\(...\), with its arguments"),
        (str.upper, "in the loader's map"),
    ]:
        with pytest.raises(fb.ConfigError, match=rf"(?s)is not an operation of forebay, such as .*: .*{sentence}"):
            fb.Image("image", wrong)


def test_every_transform_without_a_translation_is_named():
    transforms = [v2.UniformTemporalSubsample(3), v2.RandomInvert(), lambda x: x, v2.Resize(9, interpolation=InterpolationMode.BOX)]
    with pytest.raises(fb.ConfigError) as caught:
        fb.from_torchvision(transforms)
    message = str(caught.value)
    assert "number 0, UniformTemporalSubsample(" in message and "no such operation: leave it out of the list" in message
    assert 'map=lambda sample, rng: sample | {"x": transform(sample["x"])}' in message
    assert "number 2, <function" in message and "only torchvision's transforms are known" in message
    assert "number 3, Resize(" in message and "interpolation of Resize" in message
    assert "number 1" not in message


@pytest.mark.parametrize(
    ("transform", "sentence"),
    [
        (v2.RandomResizedCrop(8, antialias=False), "antialias=True"),
        (v2.Resize(8, antialias=False), "antialias=True"),
        (v2.Pad(-1), "padding of Pad"),
        (v1.RandomCrop(9, 2, pad_if_needed=True, padding_mode="reflect"), "use RandomCrop of torchvision.transforms.v2"),
        (v2.Grayscale(1), "three channels"),
        (v2.TenCrop(8, vertical_flip=True), "pass vertical_flip=False"),
        (v2.ToDtype(torch.float32), "scale=True"),
        (v2.ToDtype(torch.float16, scale=True), 'pass dtype="float16" to Image'),
        (v2.MixUp(num_classes=3), "mixes the samples of a batch"),
        (v2.RandomRotation(3, fill={torch.nn.Module: 3}), "add one for"),
        (v2.RandomApply([v2.FiveCrop(8)]), "RandomApply cannot hold FiveCrop"),
    ],
)
def test_an_argument_without_a_translation_has_a_reason(transform, sentence):
    with pytest.raises(fb.ConfigError, match=sentence):
        fb.from_torchvision(v2.Compose([v2.RandomInvert(), transform]))


OTHERS = (
    *("CopyPaste", "HueSaturationValue", "LevelAugment", "Mix", "Mosaic", "MultiHot", "OneHot", "RadiusBlur", "RandomHSV", "drawn", "from_albumentations", "from_timm", "from_torchvision"),
    *("CenterCropOrPad", "FixedSizeCrop", "PadIfSmaller", "RandomCropOrPad", "ResizeKeepRatio", "TrimBorder"),
)
"""Names that torchvision does not have."""


def test_the_operations_have_the_names_and_defaults_of_torchvision():
    for name in fb.operations.__all__:
        ours, theirs = getattr(fb, name), getattr(v2, name, None)
        if theirs is None:
            assert name in OTHERS
            continue
        parameters = inspect.signature(theirs).parameters
        for argument in inspect.signature(ours).parameters.values():
            if (name, argument.name) in (("RandomErasing", "count"), ("RandomErasing", "min_count"), ("CutMix", "minmax"), ("CutMix", "correct_lam")):
                continue  # timm's.
            default = parameters[argument.name].default
            default = getattr(default, "value", default)
            assert argument.default == default or (argument.default, default) == (None, 0), (name, argument.name)


def test_an_erased_box_is_torchvision_s(tmp_path):
    folder, made = write_odd_pictures(tmp_path / "set", 60)
    for dtype, layout in [("float32", "NCHW"), ("float16", "NHWC"), ("bfloat16", "NCHW"), ("uint8", "NHWC")]:
        value = (9, 0, 255) if dtype == "uint8" else (0.5, -1, 2)
        erasing = fb.RandomErasing(0.8, value=value)
        plain, erased = fb.Image("image", dtype=dtype, layout=layout), fb.Image("image", erasing, dtype=dtype, layout=layout)
        fields = {"plain": plain, NAME: erased}
        with fb.Loader(local=folder, batch_size=1, fields=fields, order=fb.Order(augment_seed=SEED)) as loader:
            for number, batch in enumerate(loader):
                expected = torch.as_tensor(np.asarray(batch["plain"][0]) if dtype == "uint8" else batch["plain"][0])
                expected = expected.permute(2, 0, 1).clone() if layout == "NHWC" else expected.clone()
                steps = fb.drawn(erased, made[number].shape[:2], name=NAME, augment_seed=SEED, draw=number)
                for step in steps:
                    if step.get("action") == "erase":
                        v = torch.tensor(step["value"])[:, None, None].to(expected.dtype)
                        expected = v2.functional.erase(expected, step["i"], step["j"], step["h"], step["w"], v)
                got = torch.as_tensor(batch[NAME][0])
                assert torch.equal(got.permute(2, 0, 1) if layout == "NHWC" else got, expected)


def test_erased_boxes_have_torchvision_s_distribution():
    stats = pytest.importorskip("scipy.stats")
    size, field = (60, 91), fb.Image("image", fb.RandomErasing(1.0))
    found = [fb.drawn(field, size, name=NAME, augment_seed=1, draw=draw) for draw in range(2000)]
    ours = [step for steps in found for step in steps if step.get("action") == "erase"]
    torch.manual_seed(3)
    theirs = [v2.RandomErasing(1.0).make_params([torch.zeros(3, *size)]) for _ in range(2000)]
    theirs = [params for params in theirs if params["v"] is not None]
    for name in "ijhw":
        assert stats.ks_2samp([box[name] for box in ours], [box[name] for box in theirs]).pvalue > 1e-3


def test_noise_is_normally_distributed_in_each_erased_box(tmp_path):
    stats = pytest.importorskip("scipy.stats")
    folder = str(tmp_path / "set")
    with fb.MDSWriter(out=folder, columns={"image": "pil"}) as writer:
        from PIL import Image

        for _ in range(20):
            writer.write({"image": Image.new("RGB", (64, 64))})
    field = fb.Image("image", fb.CenterCrop(64), fb.Normalize((0, 0, 0), (1, 1, 1)), fb.RandomErasing(1.0, (0.2, 0.3), value="random"))
    with fb.Loader(local=folder, batch_size=20, fields={NAME: field}, order=fb.Order(augment_seed=SEED)) as loader:
        [batch] = loader
    boxes = [row[row != 0] for row in batch[NAME]]
    noise = torch.cat(boxes).numpy()
    assert len(noise) > 20 * 64 * 64 * 3 * 0.15
    assert stats.kstest(noise[::7], stats.norm.cdf).pvalue > 1e-3
    assert not torch.equal(boxes[0][:9], boxes[1][:9])
    with pytest.raises(fb.ConfigError, match="has no grey levels: add Normalize"):
        fb.Loader(local=folder, batch_size=2, fields={NAME: fb.Image("image", fb.RandomErasing(value="random"))})

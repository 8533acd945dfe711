"""Recipes of torchvision for pictures with boxes and masks, translated to a `Joint`."""

from collections import defaultdict

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision import tv_tensors
from torchvision.transforms import v2

import forebay as fb
from forebay.fields import specs

MEAN = (123.0, 117.0, 104.0)


class FixedSizeCrop:
    """The attributes of the class of torchvision's scripts."""

    def __init__(self, size, fill):
        (self.crop_height, self.crop_width), self.fill, self.padding_mode = size, fill, "constant"


class PadIfSmaller:
    """The attributes of the class of torchvision's scripts."""

    def __init__(self, size, fill):
        self.size, self.fill = size, fill


FLIP = v2.RandomHorizontalFlip(0.5)

ENDS = [
    v2.ToImage(),
    v2.ToDtype(torch.float, scale=True),
    v2.ConvertBoundingBoxFormat(tv_tensors.BoundingBoxFormat.XYXY),
    v2.SanitizeBoundingBoxes(),
    v2.ToPureTensor(),
]

DETECTION = {
    "hflip": ([FLIP], []),
    "lsj": (
        [v2.ScaleJitter((64, 48)), FixedSizeCrop((64, 64), MEAN), FLIP],
        [fb.ScaleJitter((64, 48)), fb.FixedSizeCrop(64, (123, 117, 104))],
    ),
    "multiscale": (
        [v2.RandomShortestSize((48, 51, 54), max_size=133), FLIP],
        [fb.RandomShortestSize((48, 51, 54), 133)],
    ),
    "ssd": (
        [
            v2.RandomPhotometricDistort(),
            v2.RandomZoomOut(fill=defaultdict(lambda: MEAN, {tv_tensors.Mask: 0})),
            v2.RandomIoUCrop(),
            FLIP,
        ],
        [fb.RandomPhotometricDistort(), fb.RandomZoomOut((123, 117, 104)), fb.RandomIoUCrop(sampler_options=(0, 0.1, 0.3, 0.5, 0.7, 0.9, 1))],
    ),
    "ssdlite": ([v2.RandomIoUCrop(), FLIP], [fb.RandomIoUCrop(sampler_options=(0, 0.1, 0.3, 0.5, 0.7, 0.9, 1))]),
}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder, rng = str(tmp_path_factory.mktemp("recipes") / "set"), np.random.default_rng(1)
    with fb.MDSWriter(out=folder, columns={"image": "png", "mask": "png", "boxes": "ndarray:float32", "classes": "ndarray:int64"}) as writer:
        for number in range(40):
            pixels = rng.integers(0, 200, (50 + number, 80, 3), dtype=np.uint8)
            boxes = np.array([[5, 6, 30, 20], [40, 20, 30, 25], [70, 2, 0.5, 40]], np.float32)
            mask = np.full(pixels.shape[:2], 7, np.uint8)
            classes = np.array([1, 2, 3])
            writer.write({"image": Image.fromarray(pixels), "mask": Image.fromarray(mask), "boxes": boxes, "classes": classes})
    return folder


def fields():
    return {
        "image": fb.Image("image"),
        "mask": fb.Mask("mask"),
        "boxes": fb.Boxes("boxes", format="xywh"),
        "labels": fb.BoxLabels("classes"),
    }


@pytest.mark.parametrize("name", DETECTION)
def test_the_presets_for_detection_are_translated(data, name):
    transforms, ops = DETECTION[name]
    joint = fb.from_torchvision(v2.Compose([*transforms, *ENDS]), **fields())
    of_mask = [type(op)(**{**vars(op), "fill": 0}) if hasattr(op, "fill") else op for op in ops]
    expected = fb.Joint(
        image=fb.Image("image", *ops, fb.RandomHorizontalFlip(), fb.Normalize((0, 0, 0), (1, 1, 1))),
        mask=fb.Mask("mask", *of_mask, fb.RandomHorizontalFlip()),
        boxes=fb.Boxes("boxes", format="xywh", to="xyxy", min_size=1, min_area=1),
        labels=fb.BoxLabels("classes"),
    )
    assert specs({"x": joint}) == specs({"x": expected})
    count = 0
    with fb.Loader(local=data, batch_size=5, shuffle=True, fields={"scene": joint}) as loader:
        for batch in loader:
            for image, mask, boxes, labels in zip(batch["image"], batch["mask"], batch["boxes"], batch["labels"], strict=True):
                assert image.shape[1:] == mask.shape and image.dtype == torch.float32 and 0 <= image.min() and image.max() <= 1
                assert set(mask.unique().tolist()) <= {0, 7}
                assert boxes.shape == (len(labels), 4) and len(boxes) <= 2 and set(labels.tolist()) <= {1, 2}
                assert (boxes[:, 2:] - boxes[:, :2] >= 1).all() and (boxes >= 0).all()
                assert (boxes <= torch.tensor([image.shape[2], image.shape[1]] * 2)).all()
                count += len(boxes)
    assert 20 < count <= 80


def test_the_preset_for_segmentation_is_translated(data):
    recipe = v2.Compose(
        [
            v2.RandomResize(min_size=26, max_size=104),
            FLIP,
            PadIfSmaller(48, {tv_tensors.Mask: 255, "others": 0}),
            v2.RandomCrop(48),
            v2.ToImage(),
            v2.ToDtype({tv_tensors.Image: torch.float32, tv_tensors.Mask: torch.int64, "others": None}, scale=True),
            v2.Normalize(fb.IMAGENET_MEAN, fb.IMAGENET_STD),
            v2.ToPureTensor(),
        ]
    )
    joint = fb.from_torchvision(recipe, image=fb.Image("image"), target=fb.Mask("mask"))
    moves = [fb.RandomResize(26, 104), fb.RandomHorizontalFlip()]
    expected = fb.Joint(
        image=fb.Image("image", *moves, fb.PadIfSmaller(48), fb.RandomCrop(48), fb.Normalize(fb.IMAGENET_MEAN, fb.IMAGENET_STD)),
        target=fb.Mask("mask", *moves, fb.PadIfSmaller(48, 255), fb.RandomCrop(48)),
    )
    assert specs({"x": joint}) == specs({"x": expected})
    with fb.Loader(local=data, batch_size=40, shuffle=True, fields={"pair": joint}) as loader:
        [batch] = loader
    assert batch["image"].shape == (40, 3, 48, 48) and batch["image"].dtype == torch.float32
    assert batch["target"].shape == (40, 48, 48) and set(batch["target"].unique().tolist()) == {7, 255}
    black = (torch.tensor([0.0, 0.0, 0.0]) - torch.tensor(fb.IMAGENET_MEAN)) / torch.tensor(fb.IMAGENET_STD)
    outside = batch["target"] == 255
    assert torch.allclose(batch["image"].permute(0, 2, 3, 1)[outside], black, atol=1e-5)


def test_arguments_of_a_field_stay():
    joint = fb.from_torchvision([FLIP, *ENDS], image=fb.Image("image", fb.Resize(9)), boxes=fb.Boxes("boxes", to="cxcywh", min_size=4))
    assert joint.fields["boxes"] == fb.Boxes("boxes", to="cxcywh", min_size=4.0, min_area=1.0)
    assert joint.fields["image"].ops[0] == fb.Resize(9) and len(joint.fields["image"].ops) == 3


class Elastic:
    """A transform of a user."""


@pytest.mark.parametrize(
    ("transforms", "sentence"),
    [
        ([v2.UniformTemporalSubsample(3)], "number 0, UniformTemporalSubsample.*together with its masks and boxes"),
        ([Elastic()], "number 0, .*Elastic.*together with its masks and boxes"),
        ([v2.SanitizeBoundingBoxes(), v2.Resize(8)], "number 1, Resize.*put it before SanitizeBoundingBoxes"),
        ([v2.SanitizeBoundingBoxes(labels_getter=None)], "keeps the labels"),
        ([v2.RandomZoomOut(fill=(1, 2, 3))], "number 0, RandomZoomOut.*number for tv_tensors.Mask"),
        ([v2.RandomZoomOut(fill={tv_tensors.Image: 3})], 'number 0, RandomZoomOut.*add one for "others"'),
        ([v2.ToDtype({tv_tensors.Mask: torch.uint8, "others": None})], 'pass dtype="uint8" to the Mask'),
        ([v2.RandomApply([v2.SanitizeBoundingBoxes()])], "number 0, RandomApply.*cannot be in a composition"),
    ],
)
def test_a_recipe_that_would_part_a_picture_from_its_boxes_is_an_error(transforms, sentence):
    with pytest.raises(fb.ConfigError, match=f"(?s){sentence}"):
        fb.from_torchvision(transforms, **fields())


def test_a_preset_names_its_list():
    class DetectionPresetTrain:
        transforms = v2.Compose([FLIP])

    with pytest.raises(fb.ConfigError, match="pass its attribute `transforms`"):
        fb.from_torchvision(DetectionPresetTrain(), **fields())
    assert fb.from_torchvision(DetectionPresetTrain().transforms) == [fb.RandomHorizontalFlip(0.5)]


def test_boxes_in_a_list_for_one_image_are_an_error():
    with pytest.raises(fb.ConfigError, match="number 1, SanitizeBoundingBoxes.*pass the fields of the picture and its boxes"):
        fb.from_torchvision([FLIP, v2.SanitizeBoundingBoxes()])


def test_a_value_is_normalised_with_the_boxes_that_it_fills(data):
    recipe = v2.Compose(
        [v2.Resize((30, 30)), v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.RandomErasing(1.0, value=[0.5, 0.25, 1.0])]
    )
    normalize = v2.Normalize((0.5, 0.4, 0.3), (0.2, 0.25, 0.5))
    loaders = {}
    for name, transforms in (("plain", [recipe]), ("normalised", [recipe, normalize])):
        with fb.Loader(local=data, batch_size=40, fields={"x": fb.Image("image", *fb.from_torchvision(transforms))}) as loader:
            loaders[name] = next(iter(loader))["x"]
    assert torch.allclose(normalize(loaders["plain"]), loaders["normalised"], atol=1e-5)
    assert (loaders["plain"] == torch.tensor([0.5, 0.25, 1.0])[:, None, None]).all(1).any((1, 2)).all()
    with pytest.raises(fb.ConfigError, match="it would change the noise"):
        fb.from_torchvision([v2.ToDtype(torch.float32, scale=True), v2.RandomErasing(value="random"), normalize])


def test_operations_of_forebay_may_be_among_transforms():
    blur = fb.RadiusBlur((0.1, 2.0))
    assert fb.from_torchvision([v2.RandomResizedCrop(9), v2.RandomApply([blur], 0.5)])[1] == fb.RandomApply([blur], 0.5)



def test_own_classes_of_scripts_are_known_by_their_attributes():
    def own(kind, **attributes):
        return type(kind, (), attributes)()

    for transform, expected in [
        (own("GaussianBlur", prob=0.5, radius_min=0.1, radius_max=2.0), fb.RandomApply([fb.RadiusBlur((0.1, 2.0))], 0.5)),  # DINO, DeiT III
        (own("GaussianBlur", sigma=[0.1, 2.0]), fb.RadiusBlur((0.1, 2.0))),  # MoCo v3
        (own("Solarization", p=0.2), fb.RandomSolarize(128, 0.2)),
        (own("gray_scale", p=0.2, transf=v2.Grayscale(3)), fb.RandomGrayscale(0.2)),
    ]:
        assert fb.from_torchvision([transform]) == [expected]
    for kind, sentence in [
        ("RandomIoUCrop", r"torchvision.transforms.v2.RandomIoUCrop, .* with use_v2=True"),
        ("RandomHorizontalFlip", r"torchvision.transforms.v2.RandomHorizontalFlip, .* with use_v2=True"),
        ("PILToTensor", r"torchvision.transforms.v2.PILToTensor"),
        ("SimpleCopyPaste", "in the training loop"),
        ("GaussianBlur", "use torchvision.transforms.v2.GaussianBlur"),
        ("Elsewhere", "only torchvision's transforms are known"),
    ]:
        with pytest.raises(fb.ConfigError, match=sentence):
            fb.from_torchvision([own(kind)])

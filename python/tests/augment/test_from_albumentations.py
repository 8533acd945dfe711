"""Translation of albumentations' recipes: objects with the attributes that its versions have, see tests/oracle/albumentations_golden.py."""

import json
import types
from pathlib import Path

import numpy as np
import pytest

import forebay as fb

DATA = Path(__file__).parents[3] / "tests/data/albumentations"
VERSIONS = ["1.4.18", "2.0.8"]


def made_of(value):
    """Returns an object with the class, the module and the attributes of a transform."""
    if isinstance(value, list):
        return [made_of(one) for one in value]
    if not isinstance(value, dict):
        return value
    if set(value) != {"class", "attributes"}:
        return {name: made_of(one) for name, one in value.items()}
    kind = type(value["class"], (), {"__module__": "albumentations.core", "__repr__": lambda self: f"{type(self).__name__}()"})
    made = kind()
    vars(made).update({name: made_of(one) for name, one in value["attributes"].items()})
    return made


@pytest.fixture(params=VERSIONS)
def golden(request):
    return json.loads((DATA / f"{request.param}.json").read_text()) | {"version": request.param}


def recipe(golden, name):
    return made_of(golden["recipes"][name])


def specs(ops):
    return [op._spec() for op in ops]


def test_a_training_recipe_is_translated(golden):
    if golden["version"].startswith("1."):
        blurs = [fb.GaussianBlur(size, (0.3 * ((size - 1) * 0.5 - 1) + 0.8,) * 2) for size in (3, 5, 7)]
    else:
        blurs = [fb.GaussianBlur(size, (0.1, 2.0)) for size in (3, 5, 7)]
    jitter = fb.ColorJitter((0.6, 1.4), (0.6, 1.4), (0.8, 1.2), (-0.1, 0.1))
    blur = fb.RandomChoice(blurs, [1.0, 2.0, 2.0])
    assert specs(fb.from_albumentations(recipe(golden, "training"))) == specs(
        [
            fb.RandomApply([fb.RandomResizedCrop((20, 30), (0.2, 1.0), (0.5, 2.0), "bicubic")], 0.7),
            fb.RandomHorizontalFlip(0.3),
            fb.RandomVerticalFlip(0.5),
            fb.RandomApply([fb.RandomChoice([jitter, fb.RandomGrayscale(1.0)], [0.75, 0.25])], 0.9),
            fb.RandomApply([blur], 0.5),
            fb.HueSaturationValue(10, 20, 30, p=0.4),
            fb.Normalize((0.1, 0.2, 0.3), (0.4, 0.5, 0.6)),
        ]
    )


def test_an_evaluation_recipe_is_translated(golden):
    assert specs(fb.from_albumentations(recipe(golden, "evaluation"))) == specs(
        [
            fb.Resize(40),
            fb.Resize(None, "nearest", 99),
            fb.PadIfSmaller((20, 30), 9, "center"),
            fb.CenterCrop((20, 30)),
            fb.RandomCrop((10, 12)),
            fb.Resize((8, 9)),
            fb.RandomApply([fb.RandomHorizontalFlip(1.0)], 0.5),
        ]
    )


def test_masks_have_their_own_colour_and_no_normalisation(golden):
    joint = fb.from_albumentations(recipe(golden, "evaluation"), x=fb.Image("image"), y=fb.Mask("label"))
    fields = dict(joint._spec()["fields"])
    assert fields["x"]["ops"][2]["fill"] == [9, 9, 9] and fields["y"]["ops"][2]["fill"] == [255, 255, 255]
    joint = fb.from_albumentations(recipe(golden, "training"), x=fb.Image("image", dtype="float32"), y=fb.Mask("label"))
    fields = dict(joint._spec()["fields"])
    assert len(fields["x"]["ops"]) == 7 and len(fields["y"]["ops"]) == 6


def test_parameters_of_boxes_become_their_own(golden):
    boxes = fb.Boxes("boxes", format="xywh")
    joint = fb.from_albumentations(recipe(golden, "boxes"), x=fb.Image("image"), boxes=boxes, labels=fb.BoxLabels("classes"))
    spec = dict(joint._spec()["fields"])["boxes"]
    assert (spec["min_area"], spec["min_size"]) == (12.0, 0.0)
    with pytest.raises(fb.ConfigError, match='boxes: bbox_params has the format \'coco\': pass format="xywh"'):
        fb.from_albumentations(recipe(golden, "boxes"), x=fb.Image("image"), boxes=fb.Boxes("boxes"))


def with_points(**params):
    """A Compose as albumentations has it, with keypoint_params."""
    processors = {"keypoints": types.SimpleNamespace(params=types.SimpleNamespace(**{"format": "xy", "remove_invisible": False} | params))}
    return types.SimpleNamespace(transforms=[fb.RandomHorizontalFlip()], processors=processors, p=1.0)


def test_parameters_of_key_points_are_compared_with_the_field():
    fields = {"x": fb.Image("image"), "points": fb.KeyPoints("points")}
    joint = fb.from_albumentations(with_points(), **fields)
    assert dict(joint._spec()["fields"])["points"] == fields["points"]._spec()
    with pytest.raises(fb.ConfigError, match=r"pass the points, as in points=KeyPoints\(...\)"):
        fb.from_albumentations(with_points(), x=fb.Image("image"))
    with pytest.raises(fb.ConfigError, match="has the format 'yx', and points are columns and rows"):
        fb.from_albumentations(with_points(format="yx"), **fields)
    with pytest.raises(fb.ConfigError, match="pass remove_invisible=False"):
        fb.from_albumentations(with_points(remove_invisible=True), **fields)


def test_borders_are_where_albumentations_has_them(golden):
    for case in golden["borders"]:
        field = fb.Image("image", fb.PadIfSmaller(tuple(case["size"]), 9, "center"))
        [stage] = fb.drawn(field, (13, 17), name="x", augment_seed=1)
        assert stage["window"] == [-case["top"], -case["left"], *case["shape"]]


def test_every_transform_without_a_translation_is_named(golden):
    with pytest.raises(fb.ConfigError) as caught:
        fb.from_albumentations(recipe(golden, "unknown"))
    for sentence in [
        "number 0, CoarseDropout(): there is no such operation: its holes have sides in pixels",
        "number 1, GridDistortion(): there is no such operation: leave it out of the list",
        "number 2, PadIfNeeded(): its borders have one colour here: pass border_mode=cv2.BORDER_CONSTANT",
        "number 3, Resize(): interpolation is cv2.INTER_NEAREST",
        "number 4.0, RandomBrightnessContrast(): there is no such operation: it adds to levels",
    ]:
        assert sentence in str(caught.value)


def test_a_class_of_a_different_library_is_named():
    with pytest.raises(fb.ConfigError, match="number 0, .*only albumentations' transforms are known"):
        fb.from_albumentations([np.zeros(3)])
    assert fb.from_albumentations([fb.RandomInvert()]) == [fb.RandomInvert()]

"""Key points that follow their picture, against torchvision's for the same numbers."""

import numpy as np
import pytest
import torch
from odd_pictures import SEED
from PIL import Image
from test_boxes import CROP, FLIP, LISTS, PAIR, delivered
from torchvision import tv_tensors
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional

import forebay as fb

if not hasattr(tv_tensors, "KeyPoints"):
    pytest.skip("this torchvision has no key points", allow_module_level=True)

COUNT, POINTS = 60, 5

FLIPPED = [(0, 1), (2, 4)]


def samples():
    """Returns pictures with the points of some objects; some pictures have none."""
    rng = np.random.default_rng(8)
    for number in range(COUNT):
        height, width = (int(side) for side in rng.integers(30, 120, 2))
        points = rng.uniform(0.1, 0.9, (number % 4, POINTS, 3)) * (width, height, 1)
        points[..., 2] = rng.integers(0, 3, points.shape[:2])
        yield np.full((height, width, 3), number, np.uint8), points.astype(np.float32)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder, made = tmp_path_factory.mktemp("points") / "set", list(samples())
    columns = {"image": "png", "points": "ndarray", "one": "ndarray", "info": "json", "number": "int"}
    with fb.MDSWriter(out=str(folder), columns=columns) as writer:
        for number, (pixels, points) in enumerate(made):
            low, high = points[..., :2].min(1), points[..., :2].max(1)
            info = {
                "points": points.tolist(),
                "coco": points.reshape(len(points), 3 * POINTS).tolist(),
                "boxes": np.concatenate([low, high], -1).tolist(),
            }
            # MDS has no arrays without elements: those samples have JSON alone.
            stored = points if len(points) else np.zeros((1, POINTS, 3), np.float32)
            one = stored[0, :, :2].copy()
            writer.write({"image": Image.fromarray(pixels), "points": stored, "one": one, "info": info, "number": number})
    return str(folder), made


def inside(places, size, margin):
    """Returns True for positions inside of a picture and at least a margin from its sides."""
    return ((places >= margin) & (places <= np.array(size[::-1]) - margin)).all(-1)


def moved(points, size, steps):
    """Returns the positions after steps by torchvision's functions, those that no step has cut off for sure and perhaps, and if the picture
    is mirrored."""
    places, is_mirrored = points.astype(np.float64), False
    surely, perhaps = (inside(places, size, margin) for margin in (1e-2, -1e-2))
    for step in steps:
        action = step.get("action")
        canvases = []
        if action is None:
            top, left, *size = step["crop"]
            canvases.append((places - (left, top), size))
            places = canvases[-1][0] * np.array(step["resized"][::-1]) / np.array(size[::-1])
            top, left, *size = step["window"]
            places = places - (left, top)
        elif action in ("rotate", "affine", "perspective"):
            followed = tv_tensors.KeyPoints(torch.tensor(places), canvas_size=tuple(size))
            names = {"rotate": ("angle", "expand", "center"), "affine": ("angle", "translate", "scale", "shear", "center")}
            arguments = {name: step[name] for name in names.get(action, ())}
            if action == "perspective":
                arguments = {"startpoints": None, "endpoints": None, "coefficients": step["coefficients"]}
            followed = getattr(functional, action)(followed, **arguments)
            places, size = followed.numpy(), followed.canvas_size
        if step.get("flip") or action == "horizontal_flip":
            places, is_mirrored = np.stack([size[1] - places[..., 0], places[..., 1]], -1), not is_mirrored
        if action == "vertical_flip":
            places = np.stack([places[..., 0], size[0] - places[..., 1]], -1)
        for canvas in [*canvases, (places, size)]:
            surely, perhaps = surely & inside(*canvas, 1e-2), perhaps & inside(*canvas, -1e-2)
    return places, surely, perhaps, is_mirrored


@pytest.mark.parametrize("name", LISTS)
def test_points_are_moved_as_by_torchvision(data, name):
    folder, made = data
    image = fb.Image("image", *LISTS[name])
    rows = delivered(folder, "points", "plain", image=image, points=fb.KeyPoints("info", "points", flip=FLIPPED), plain=fb.KeyPoints("one"))
    seen = 0
    for number, (got, plain) in rows.items():
        pixels, points = made[number]
        if not len(points):
            assert got.shape == (0, 3)
            continue
        steps = fb.drawn(image, pixels.shape[:2], name=PAIR, augment_seed=SEED, draw=number)
        places, surely, perhaps, is_mirrored = moved(points[..., :2], pixels.shape[:2], steps)
        assert np.abs(plain - places[0]).max() < 1e-2
        order = [1, 0, 4, 3, 2] if is_mirrored else list(range(POINTS))
        places, visibility = places[:, order], points[:, order, 2]
        is_seen = surely[:, order] & (visibility > 0)
        assert got.shape == points.shape and got.dtype == np.float32
        assert np.abs(got[..., :2] - places)[is_seen].max(initial=0) < 1e-2
        assert (got[is_seen][:, 2] == visibility[is_seen]).all()
        assert (got[(visibility == 0) | ~perhaps[:, order]] == 0).all()
        seen += is_seen.sum()
    assert seen > 20


def test_lists_of_coco_and_arrays_have_the_same_points(data):
    folder, made = data
    fields = {"a": fb.KeyPoints("points"), "b": fb.KeyPoints("info", "points"), "c": fb.KeyPoints("info", "coco", points=POINTS)}
    for number, (a, b, c) in delivered(folder, *"abc", image=fb.Image("image", CROP, FLIP), **fields).items():
        if len(made[number][1]):
            assert np.array_equal(a, b) and np.array_equal(b, c)
        else:
            assert c.shape == (0, POINTS, 3)


def test_numbers_of_opposites_are_pairs(data):
    folder, _ = data
    image = fb.Image("image", fb.RandomHorizontalFlip(1.0))
    pairs, opposites = (fb.KeyPoints("points", flip=flip) for flip in (FLIPPED, np.array([1, 0, 4, 3, 2])))
    assert pairs._spec() == opposites._spec()
    for number, (a, b) in delivered(folder, "a", "b", image=image, a=pairs, b=fb.KeyPoints("points")).items():
        assert np.array_equal(a, b[:, [1, 0, 4, 3, 2]]), number


def test_points_of_objects_without_a_box_are_left_out(data):
    folder, made = data
    image, boxes = fb.Image("image", fb.RandomResizedCrop(30, (0.1, 0.3))), fb.Boxes("info", "boxes", min_size=3)
    left_out = 0
    for number, (points, kept) in delivered(folder, "points", "boxes", image=image, boxes=boxes, points=fb.KeyPoints("info", "points")).items():
        assert len(points) == len(kept)
        left_out += len(made[number][1]) - len(kept)
        for object_, (left, top, right, bottom) in zip(points, kept, strict=True):
            x, y, _ = object_[object_[:, 2] > 0].T
            assert ((x >= left - 1e-3) & (x <= right + 1e-3) & (y >= top - 1e-3) & (y <= bottom + 1e-3)).all()
    assert left_out > 10


def test_a_recipe_of_torchvision_takes_key_points(data):
    scene = fb.from_torchvision([v2.RandomHorizontalFlip(1.0)], image=fb.Image("image"), points=fb.KeyPoints("points", flip=FLIPPED))
    assert scene.fields["image"].ops == (fb.RandomHorizontalFlip(1.0),) and isinstance(scene.fields["points"], fb.KeyPoints)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"points": fb.KeyPoints("points", flip=[(0, 1), (1, 2)])}, "a point in one pair at most"),
        ({"points": fb.KeyPoints("points", flip=[(0, 9)], points=5)}, "`flip` of KeyPoints"),
        ({"points": fb.KeyPoints("points", flip=[1, 2, 0])}, "the opposite of each point's opposite"),
        ({"points": fb.KeyPoints("points", flip="left")}, "flip of KeyPoints is pairs of points"),
        ({"points": fb.KeyPoints("points", points=0)}, "points of KeyPoints is a whole number"),
        ({"points": fb.KeyPoints("points", of="photo")}, "the Joint has no Image or Mask with this name"),
        ({"points": fb.KeyPoints("points", boxes="objects")}, "the Joint has no Boxes with this name"),
        ({"points": fb.KeyPoints("number")}, "need a column of arrays"),
    ],
)
def test_arguments_that_do_not_fit_have_a_reason(data, fields, sentence):
    with pytest.raises(fb.ConfigError, match=sentence):
        fb.Loader(local=data[0], batch_size=2, fields={"scene": fb.Joint(image=fb.Image("image"), **fields)})


def test_key_points_belong_into_a_joint(data):
    with pytest.raises(fb.ConfigError, match="are fields of a Joint"):
        fb.Loader(local=data[0], batch_size=2, fields={"points": fb.KeyPoints("points")})


@pytest.mark.parametrize(
    ("field", "sentence"),
    [
        (fb.KeyPoints("info", "boxes"), "key points are two or three numbers each"),
        (fb.KeyPoints("points", points=4), "differs from `points` of KeyPoints"),
        (fb.KeyPoints("points", flip=[(0, 5)]), "a point that the objects do not have"),
    ],
)
def test_points_of_a_sample_that_do_not_fit_are_its_error(data, field, sentence):
    fields = {"scene": fb.Joint(image=fb.Image("image"), points=field)}
    with fb.Loader(local=data[0], batch_size=2, fields=fields) as loader, pytest.raises(fb.DecodeError, match=sentence):
        list(loader)


def test_other_libraries_names_of_arguments_are_suggested():
    with pytest.raises(TypeError, match="flip"):
        fb.KeyPoints("points", flip_idx=[0])

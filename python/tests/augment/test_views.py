"""Several pictures of one sample, and fields that share the decode of a file."""

import io

import numpy as np
import pytest
from odd_pictures import SEED
from PIL import Image
from torchvision.transforms.v2 import functional as F

import forebay as fb

COUNT = 24

GLOBAL = (
    fb.RandomResizedCrop(48, scale=(0.4, 1.0)),
    fb.RandomHorizontalFlip(),
    fb.RandomApply([fb.ColorJitter(0.4, 0.4, 0.2, 0.1)], 0.8),
    fb.RandomGrayscale(0.2),
)
LOCAL = (fb.RandomResizedCrop(20, scale=(0.05, 0.4)), fb.RandomHorizontalFlip(), fb.Normalize((0.5,) * 3, (0.25,) * 3))

FIELDS = {
    "global": fb.Image("image", *GLOBAL, views=2),
    "local": fb.Image("image", *LOCAL, views=6, layout="NHWC"),
    "number": fb.Scalar("number"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("views") / "set"
    rng = np.random.default_rng(5)
    with fb.MDSWriter(out=str(out), columns={"image": "jpeg", "number": "int"}) as writer:
        for number in range(COUNT):
            small = Image.fromarray(rng.integers(0, 256, (6, 8, 3), dtype=np.uint8))
            file = io.BytesIO()
            size = tuple(int(side) for side in rng.integers(60, 200, 2))
            options = {"quality": 90, "subsampling": number % 3, "progressive": number % 5 == 0}
            small.resize(size, Image.Resampling.BICUBIC).save(file, "JPEG", **options)
            writer.write({"image": file.getvalue(), "number": number})
    return str(out)


def batches_of(folder, fields, **options):
    options = {"batch_size": 6, "framework": "numpy", "seed": SEED} | options
    with fb.Loader(local=folder, fields=fields, **options) as loader:
        batches = [{name: np.array(rows) for name, rows in batch.items()} for batch in loader]
        return batches, loader.stats()["counters"]


def by_number(batches, name):
    return {number: row for batch in batches for number, row in zip(batch["number"].tolist(), batch[name], strict=True)}


def same(rows, others):
    return rows.keys() == others.keys() and all(np.array_equal(row, others[number]) for number, row in rows.items())


@pytest.fixture(scope="module")
def alone(folder):
    return batches_of(folder, FIELDS, shuffle=True, order=fb.Order(num_canonical_nodes=2))


def test_views_are_a_dimension_after_the_batch(alone):
    batches, counters = alone
    assert all(batch["global"].shape == (6, 2, 3, 48, 48) and batch["global"].dtype == np.uint8 for batch in batches)
    assert all(batch["local"].shape == (6, 6, 20, 20, 3) and batch["local"].dtype == np.float32 for batch in batches)
    assert counters["decodes_shared"] == 7 * COUNT


def test_fields_that_share_a_decode_have_the_pixels_of_those_alone(folder, alone):
    for name in ("global", "local"):
        separate, _ = batches_of(
            folder, {name: FIELDS[name], "number": FIELDS["number"]}, shuffle=True, order=fb.Order(num_canonical_nodes=2)
        )
        assert same(by_number(alone[0], name), by_number(separate, name))
    single, counters = batches_of(
        folder,
        {"global": fb.Image("image", *GLOBAL), "number": fb.Scalar("number")},
        shuffle=True,
        order=fb.Order(num_canonical_nodes=2),
    )
    assert counters["decodes_shared"] == 0
    first = {number: row[0] for number, row in by_number(alone[0], "global").items()}
    assert same(first, by_number(single, "global"))


def test_each_view_is_the_picture_of_the_draws_that_are_described(folder):
    batches, _ = batches_of(folder, FIELDS)
    files = files_of(folder)
    for number, views in by_number(batches, "local").items():
        picture = Image.open(io.BytesIO(files[number]))
        for view, row in enumerate(views):
            (step,) = fb.drawn(FIELDS["local"], (picture.height, picture.width), name="local", augment_seed=SEED, draw=number, view=view)
            top, left, height, width = step["crop"]
            box = (left, top, left + width, top + height)
            expected = picture.crop(box).resize((20, 20), Image.Resampling.BILINEAR)
            expected = expected.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if step["flip"] else expected
            levels = (row * 0.25 + 0.5) * 255
            assert np.abs(levels - np.asarray(expected, np.float32)).max() < 1.01, (number, view)


@pytest.mark.parametrize("ranks", [2, 8])
def test_views_are_the_same_on_any_number_of_ranks(folder, alone, ranks):
    batches = []
    for rank in range(ranks):
        world = fb.World(rank=rank, world_size=ranks, local_rank=rank, local_world_size=ranks)
        batches += batches_of(folder, FIELDS, shuffle=True, order=fb.Order(num_canonical_nodes=2), batch_size=1, world=world)[0]
    for name in ("global", "local"):
        assert same(by_number(alone[0], name), by_number(batches, name))


def test_views_are_the_same_after_a_resume(folder):
    options = {
        "local": folder,
        "fields": FIELDS,
        "batch_size": 4,
        "shuffle": True,
        "order": fb.Order(augment_seed=SEED),
        "framework": "numpy",
    }

    def copies(batches):
        return [{name: np.array(rows) for name, rows in batch.items()} for batch in batches]

    with fb.Loader(**options) as loader:
        whole = copies(loader)
    with fb.Loader(**options) as loader:
        batches = iter(loader)
        first = copies(next(batches) for _ in range(2))
        state = loader.state_dict()
    with fb.Loader(**options) as loader:
        loader.load_state_dict(state)
        rest = copies(loader)
    for name in ("global", "local"):
        assert same(by_number(whole, name), by_number(first + rest, name))


CROPS = [(fb.FiveCrop((40, 33)), F.five_crop), (fb.TenCrop((40, 33)), F.ten_crop)]


def files_of(folder):
    with fb.Loader(local=folder, fields={"file": fb.Bytes("image")}, batch_size=6, framework="numpy") as loader:
        return [bytes(file) for batch in loader for file in batch["file"]]


def rgb(file):
    return Image.open(io.BytesIO(file)).convert("RGB")


@pytest.mark.parametrize("op, crops_of", CROPS)
def test_crops_of_the_corners_and_the_centre_are_torchvision_s(folder, op, crops_of):
    batches, counters = batches_of(folder, {"x": fb.Image("image", op, layout="NHWC"), "number": fb.Scalar("number")})
    files = files_of(folder)
    for number, rows in by_number(batches, "x").items():
        expected = [np.asarray(crop) for crop in crops_of(rgb(files[number]), [40, 33])]
        assert np.array_equal(rows, expected), number
    assert counters["decodes_shared"] > 0


@pytest.mark.parametrize("op, crops_of", CROPS)
def test_all_crops_have_the_same_draws(folder, op, crops_of):
    field = fb.Image("image", fb.Resize(64), fb.RandomHorizontalFlip(), op, fb.RandomInvert(), layout="NHWC")
    batches, _ = batches_of(folder, {"x": field, "number": fb.Scalar("number")})
    flips, files = set(), files_of(folder)
    for number, rows in by_number(batches, "x").items():
        picture = rgb(files[number])
        size = picture.height, picture.width
        steps = [
            fb.drawn(field, size, name="x", augment_seed=SEED, draw=number, view=view) for view in range(len(rows))
        ]
        first = steps[0][0]["flip"]
        assert all((view[0]["flip"] ^ (place >= 5)) == first for place, view in enumerate(steps))
        inverted = len(steps[0]) > 1
        assert all((len(view) > 1) == inverted for view in steps)
        flips.add((first, inverted))
        resized = F.resize(picture, [64], antialias=True)
        crops = crops_of(F.hflip(resized) if first else resized, [40, 33])
        expected = np.stack([np.asarray(crop, np.int64) for crop in crops])
        assert np.abs(rows.astype(np.int64) - (255 - expected if inverted else expected)).max() <= 1, number
    assert len(flips) == 4


def test_a_picture_that_is_smaller_than_its_crops_is_an_error(folder):
    with fb.Loader(local=folder, fields={"x": fb.Image("image", fb.FiveCrop((40, 500)))}, batch_size=2) as loader:
        with pytest.raises(fb.DecodeError, match="put a Resize before it"):
            next(iter(loader))


@pytest.mark.parametrize(
    "field, message",
    [
        (fb.Image("image", fb.FiveCrop(32), views=2), "leave out `views`"),
        (fb.Image("image", fb.FiveCrop(32), fb.TenCrop(8)), "at most one FiveCrop or TenCrop"),
        (fb.Image("image", fb.FiveCrop(32), fb.Resize(8), fb.RandomRotation(9, expand=True)), "end its operations at a fixed size"),
        (fb.Joint(a=fb.Image("image", fb.TenCrop(32))), "nor FiveCrop or TenCrop"),
        (fb.Joint(a=fb.Image("image", fb.CenterCrop(32)), m=fb.Mask("image", fb.FiveCrop(32))), "a Mask belongs to one picture"),
        (fb.Mix(fb.CutMix(), x=fb.Image("image", fb.FiveCrop(32))), "nor FiveCrop or TenCrop"),
        (fb.Image("image", fb.Resize(32), views=2), "end its operations at a fixed size"),
        (fb.Image("image", fb.CenterCrop(32), views=2000), "1 to 1024 views"),
        (fb.Image("image", fb.CenterCrop(32), views=0), "views of Image"),
        (fb.Joint(a=fb.Image("image", fb.CenterCrop(32), views=2)), "has no `views`"),
        (fb.Mix(fb.CutMix(), x=fb.Image("image", fb.CenterCrop(32), views=2)), "has no `views`"),
    ],
)
def test_views_that_cannot_be_made_are_errors(folder, field, message):
    with pytest.raises(fb.ConfigError, match=message):
        fb.Loader(local=folder, fields={"x": field}, batch_size=2)


def test_a_view_that_the_field_does_not_have_is_an_error():
    field = fb.Image("image", fb.CenterCrop(32), views=2)
    with pytest.raises(fb.ConfigError, match="view"):
        fb.drawn(field, (40, 40), name="x", augment_seed=1, view=2)
    assert repr(field) == "Image('image', CenterCrop(size=32), dtype='uint8', layout='NCHW', views=2)"

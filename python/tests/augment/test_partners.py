"""Mosaic and CopyPaste, against compositions by numpy: each pixel of a picture has its picture's number, its column and its row."""

import json

import numpy as np
import pytest
from PIL import Image
from test_object_masks import rectangle

import forebay as fb

COUNT = 48
LARGE = (100, 120)
FILL = 114


def samples():
    """Returns numbered pictures of different sizes, each with its objects, which may overlap."""
    rng = np.random.default_rng(11)
    for number in range(COUNT):
        height, width = (int(side) for side in rng.integers(30, 90, 2))
        boxes = []
        for _ in range(number % 4):
            left, top = int(rng.integers(0, width - 8)), int(rng.integers(0, height - 8))
            boxes.append([left, top, int(rng.integers(left + 4, width + 1)), int(rng.integers(top + 4, height + 1))])
        yield pixels_of(number, (height, width)), boxes


def pixels_of(number, size):
    rows, columns = np.indices(size)
    return np.stack([np.full(size, number), columns, rows], axis=2).astype(np.uint8)


def document_of(number, boxes, size):
    return {
        "boxes": boxes,
        "labels": [10 * number + place for place in range(len(boxes))],
        "segmentations": [[rectangle(*box)] for box in boxes],
        "points": [[[box[0] + 1, box[1] + 1, 2], [0, 0, 0]] for box in boxes],
        "size": list(size),
    }


def damaged_like(document):
    """Returns a document of the same length without boxes, so that the shards and with them the order are the same."""
    damaged = {"boxes": 1, "pad": ""}
    return damaged | {"pad": "x" * (len(json.dumps(document)) - len(json.dumps(damaged)))}


def write(folder, made, damaged=(), **options):
    columns = {"image": "png", "mask": "png", "objects": "json", "number": "int", "name": "str"}
    with fb.MDSWriter(out=folder, columns=columns, size_limit=6_000, **options) as writer:
        for number, (pixels, boxes) in enumerate(made):
            document = document_of(number, boxes, pixels.shape[:2])
            writer.write(
                {
                    "image": Image.fromarray(pixels),
                    "mask": Image.fromarray(pixels[..., 0] + 100),
                    "objects": damaged_like(document) if number in damaged else document,
                    "number": number,
                    "name": f"sample {number}",
                }
            )
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    made = list(samples())
    return write(str(tmp_path_factory.mktemp("partners") / "set"), made), made


@pytest.fixture(scope="module")
def equal(tmp_path_factory):
    """Pictures of one size."""
    rng = np.random.default_rng(12)
    made = []
    for number in range(COUNT):
        corners = np.sort(rng.integers(0, 40, (number % 5, 2, 2)), axis=1)
        made.append((pixels_of(number, (40, 40)), [[int(n) for n in (*low, *(high + 3).clip(max=40))] for low, high in corners]))
    return write(str(tmp_path_factory.mktemp("partners") / "equal"), made), made


def members(*ops, mask=True):
    labels = {"mask": fb.Mask("mask", *ops, dtype="uint8")} if mask else {}
    return labels | {
        "x": fb.Image("image", *ops),
        "boxes": fb.Boxes("objects", "boxes", min_size=1),
        "labels": fb.BoxLabels("objects", "labels"),
        "masks": fb.ObjectMasks("objects", "segmentations"),
        "points": fb.KeyPoints("objects", "points", points=2),
    }


def mosaic(*ops, **options):
    return fb.Mosaic(LARGE, **options, **members(*ops))


def loader_of(folder, composed, batch_size=8, **options):
    """Returns a loader that has fields of its samples before and after the composed ones."""
    fields = {"name": fb.Text("name"), "composed": composed, "number": fb.Scalar("number")}
    options = {"shuffle": True, "seed": 5, "local": folder} | options
    return fb.Loader(fields=fields, batch_size=batch_size, framework="numpy", **options)


NAMES = ("name", "number", "x", "mask", "boxes", "labels", "masks", "points")


def rows_of(batch):
    return [{name: np.array(batch[name][row]) for name in NAMES if name in batch} for row in range(len(batch["number"]))]


def same(one, other):
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


def placed(row, made):
    """Returns the number and the place of each picture in a mosaic, and the quarter that it is in."""
    picture = row["x"]
    found = {}
    for y, x in np.argwhere((picture != FILL).any(axis=0)):
        number, column, line = (int(value) for value in picture[:, y, x])
        found.setdefault((number, int(x) - column, int(y) - line), []).append((int(x), int(y)))
    places = []
    for (number, left, top), covered in found.items():
        (first, last), size = (np.min(covered, axis=0), np.max(covered, axis=0)), made[number][0].shape
        places.append((number, left, top, (*first, *(last + 1)), size))
        assert len(covered) == np.prod(last + 1 - first), "a rectangle"
    return places


def expected(row, made, places):
    """Composes the pictures at these places by numpy."""
    height, width = LARGE
    picture, mask = np.full((3, height, width), FILL, np.uint8), np.full((height, width), 7, np.uint8)
    boxes, labels, masks, points = [], [], [], []
    for number, left, top, (x0, y0, x1, y1), _ in places:
        part = (slice(y0 - top, y1 - top), slice(x0 - left, x1 - left))
        pixels = made[number][0]
        picture[:, y0:y1, x0:x1] = pixels[part].transpose(2, 0, 1)
        mask[y0:y1, x0:x1] = pixels[part][..., 0] + 100
        for place, box in enumerate(made[number][1]):
            moved = np.clip(np.array(box) + [left, top, left, top], [x0, y0, x0, y0], [x1, y1, x1, y1])
            if (moved[2:] - moved[:2] < 1).any():
                continue
            boxes.append(moved)
            labels.append(10 * number + place)
            masks.append(np.zeros((height, width), np.uint8))
            masks[-1][moved[1] : moved[3], moved[0] : moved[2]] = 1
            x, y = box[0] + 1 + left, box[1] + 1 + top
            points.append([[x, y, 2] if x0 <= x <= x1 and y0 <= y <= y1 else [0, 0, 0], [0, 0, 0]])
    by_label = np.argsort(labels)
    return {
        "x": picture,
        "mask": mask,
        "boxes": np.array(boxes, np.float32).reshape(-1, 4)[by_label],
        "labels": np.array(labels, np.int64)[by_label],
        "masks": np.array(masks, np.uint8).reshape(-1, height, width)[by_label],
        "points": np.array(points, np.float32).reshape(-1, 2, 3)[by_label],
    }


def by_label(row):
    order = np.argsort(row["labels"])
    return row | {name: row[name][order] for name in ("boxes", "labels", "masks", "points")}


def test_a_mosaic_is_four_pictures_at_a_point_with_their_objects(data):
    folder, made = data
    counts, partners, points = [], set(), set()
    with loader_of(folder, mosaic(fill_mask=7)) as loader:
        rows = [row for batch in loader for row in rows_of(batch)]
    assert sorted(row["number"].tolist() for row in rows) == list(range(COUNT))
    for row in rows:
        number = int(row["number"])
        assert row["name"] == f"sample {number}"
        places = placed(row, made)
        counts.append(len(places))
        partners |= {place[0] for place in places} - {number}
        # Every picture has a corner at one point.
        corners = [{(x, y) for x in (left, left + size[1]) for y in (top, top + size[0])} for _, left, top, _, size in places]
        (common,) = set.intersection(*corners) if len(places) > 2 else {next(iter(corners[0]))}
        points.add(common)
        own = [place for place in places if place[0] == number]
        assert len(places) < 3 or any((left + size[1], top + size[0]) == common for _, left, top, _, size in own) or 0 in common
        wanted, found = expected(row, made, places), by_label(row)
        for name, values in wanted.items():
            assert found[name].dtype == values.dtype and np.array_equal(found[name], values), name
    assert max(counts) == 4 and counts.count(4) > COUNT // 2
    assert len(partners) > COUNT // 2 and len(points) > COUNT // 2


def test_a_sample_without_partners_is_in_the_middle(data):
    folder, made = data
    with loader_of(folder, mosaic(fb.Resize((50, 64)), p=0)) as loader:
        rows = [row for batch in loader for row in rows_of(batch)]
    with loader_of(folder, fb.Joint(**members(fb.Resize((50, 64))))) as loader:
        alone = {int(row["number"]): row for batch in loader for row in rows_of(batch)}
    for row in rows:
        own = alone[int(row["number"])]
        assert np.array_equal(row["x"][:, 25:75, 28:92], own["x"]) and (row["x"][:, :25] == FILL).all()
        assert np.array_equal(row["boxes"], own["boxes"] + np.float32([28, 25, 28, 25]))
        assert np.array_equal(row["masks"][:, 25:75, 28:92], own["masks"]) and np.array_equal(row["labels"], own["labels"])
    with loader_of(folder, mosaic(p=0.5)) as loader:
        parts = [len(placed(row, made)) for batch in loader for row in rows_of(batch)]
    assert 0.2 < parts.count(1) / COUNT < 0.8


def test_a_mosaic_of_floats_has_its_normalised_colour(data):
    folder, _ = data
    ops = (fb.Resize(None, max_size=60), fb.Normalize(fb.IMAGENET_MEAN, fb.IMAGENET_STD))
    for layout, axis in (("NCHW", 0), ("NHWC", 2)):
        composed = fb.Mosaic(LARGE, fill=(10, 20, 30), x=fb.Image("image", *ops, layout=layout))
        plain = fb.Mosaic(LARGE, fill=(10, 20, 30), x=fb.Image("image", ops[0], layout=layout))
        with loader_of(folder, composed) as loader, loader_of(folder, plain) as levels:
            for batch, grey in zip(loader, levels, strict=True):
                shape = [3 if place == axis else 1 for place in range(3)]
                mean, std = (np.array(numbers, np.float32).reshape(shape) for numbers in (fb.IMAGENET_MEAN, fb.IMAGENET_STD))
                assert np.allclose(batch["x"], (grey["x"] / np.float32(255) - mean) / std, atol=1e-5)


def random_mosaic():
    return mosaic(fb.ScaleJitter((90, 90), (0.5, 1.5)), fb.RandomHorizontalFlip(), p=0.8)


def pasted():
    return fb.CopyPaste(p=0.8, **members(fb.ScaleJitter((40, 40), (0.7, 1.4)), fb.FixedSizeCrop(40), fb.RandomHorizontalFlip()))


COMPOSED = {"mosaic": random_mosaic, "copy_paste": pasted}


def global_rows(folder, composed, ranks, state=None, **options):
    rows = {}
    for rank in range(ranks):
        place = fb.World(rank=rank, world_size=ranks, local_rank=rank, local_world_size=ranks)
        with loader_of(folder, composed(), 8 // ranks, world=place, **options) as loader:
            if state is not None:
                loader.load_state_dict(state, strict=False)
            rows |= {int(row["number"]): row for batch in loader for row in rows_of(batch)}
    return rows


@pytest.mark.parametrize("name", COMPOSED)
def test_compositions_are_the_same_on_any_number_of_ranks_and_threads_and_after_a_resume(data, name, tmp_path):
    folder, composed = data[0], COMPOSED[name]
    whole = global_rows(folder, composed, 1, threads=1)
    assert len(whole) == COUNT
    with loader_of(folder, composed()) as loader:
        taken = iter(loader)
        first = [row for _ in range(2) for row in rows_of(next(taken))]
        state = json.loads(json.dumps(loader.state_dict()))
        again = rows_of(loader.replay(1, epoch=0))
        names = loader.samples_of(1, epoch=0)
    assert all(same(row, whole[int(row["number"])]) for row in first)
    assert len(again) == len(names) == 8 and all(same(*rows) for rows in zip(again, first[8:], strict=True))
    for ranks, threads in ((2, 3), (4, 2)):
        rows = global_rows(folder, composed, ranks, threads=threads)
        assert rows.keys() == whole.keys() and all(same(rows[number], whole[number]) for number in whole)
        rows = global_rows(folder, composed, ranks, state, threads=threads)
        assert len(rows) == COUNT - 16 and all(same(rows[number], whole[number]) for number in rows)
    other = global_rows(folder, composed, 1, seed=6)
    assert not all(same(other[number], whole[number]) for number in whole)
    # A partner's shard may have been evicted, or not have been fetched.
    stream = {"remote": folder, "local": str(tmp_path / name), "cache_limit": 26_000}
    with loader_of(folder, composed(), **stream) as loader:
        rows = {int(row["number"]): row for batch in loader for row in rows_of(batch)}
        assert loader.stats()["counters"]["cache_evicted"] > 0
    assert rows.keys() == whole.keys() and all(same(rows[number], whole[number]) for number in whole)


def test_pasted_objects_cover_the_sample_and_its_objects(equal):
    folder, made = equal
    with loader_of(folder, fb.CopyPaste(**members(fb.CenterCrop(40)))) as loader:
        rows = [row for batch in loader for row in rows_of(batch)]
    with_partner = 0
    for row in rows:
        number = int(row["number"])
        others = set(row["labels"][row["labels"] // 10 != number].tolist())
        masks = {}
        for owner in {number} | {label // 10 for label in others}:
            for place, (left, top, right, bottom) in enumerate(made[owner][1]):
                masks[10 * owner + place] = np.zeros((40, 40), np.uint8)
                masks[10 * owner + place][top:bottom, left:right] = 1
        covered = np.zeros((40, 40), np.uint8)
        for label in others:
            covered |= masks[label]
        owners = {label // 10 for label in others}
        assert len(owners) <= 1
        with_partner += len(owners)
        picture = pixels_of(number, (40, 40)).transpose(2, 0, 1)
        for owner in owners:
            picture = np.where(covered, pixels_of(owner, (40, 40)).transpose(2, 0, 1), picture)
        assert np.array_equal(row["x"], picture) and np.array_equal(row["mask"], picture[0] + 100)
        wanted = {}
        for place, box in enumerate(made[number][1]):
            rest = masks[10 * number + place] & ~covered
            if rest.any():
                ys, xs = np.nonzero(rest)
                wanted[10 * number + place] = rest, [xs.min(), ys.min(), xs.max() + 1, ys.max() + 1]
                assert (masks[10 * number + place] != rest).any() or wanted[10 * number + place][1] == box
        wanted |= {label: (masks[label], made[label // 10][1][label % 10]) for label in others}
        assert sorted(row["labels"].tolist()) == sorted(wanted)
        assert len(row["points"]) == len(wanted)
        for label, box, mask in zip(row["labels"].tolist(), row["boxes"].tolist(), row["masks"], strict=True):
            assert np.array_equal(mask, wanted[label][0]) and box == list(wanted[label][1])
    # A fifth of the partners have no objects.
    assert with_partner > COUNT // 2


def test_a_damaged_partner_is_left_out_or_an_error(data, tmp_path):
    made, damaged = data[1], (3, 11, 12)
    folder = write(str(tmp_path / "set"), made, damaged)
    with pytest.raises(fb.DecodeError, match="boxes"), loader_of(folder, mosaic()) as loader:
        list(loader)
    with loader_of(folder, mosaic(fill_mask=7), skip=fb.Skip(errors=1000), threads=1) as loader:
        rows = {int(row["number"]): row for batch in loader for row in rows_of(batch)}
        skipped = loader.stats()["counters"]["samples_skipped"]
    assert rows.keys() == set(range(COUNT)) - set(damaged)
    with loader_of(data[0], mosaic(fill_mask=7)) as loader:
        whole = {int(row["number"]): row for batch in loader for row in rows_of(batch)}
    lost = 0
    for number, row in rows.items():
        full = placed(whole[number], made)
        places = [place for place in full if place[0] not in damaged]
        lost += len(full) - len(places)
        wanted, found = expected(row, made, places), by_label(row)
        assert all(np.array_equal(found[name], values) for name, values in wanted.items())
    assert 0 < lost and len(damaged) + lost <= skipped


def test_a_batch_that_lost_its_sample_is_composed_of_a_different_one(data, tmp_path):
    made = data[1]
    folder = write(str(tmp_path / "set"), made, damaged=range(0, COUNT, 5))
    place = fb.World(rank=0, world_size=2, local_rank=0, local_world_size=2)
    with loader_of(folder, mosaic(fill_mask=7), 1, world=place, skip=fb.Skip(errors=1000), extra=["repeat"]) as loader:
        batches = list(loader)
        assert loader.stats()["counters"]["batches_refilled"] > 0
    assert len(batches) == COUNT // 2 and any(batch["repeat"][0] for batch in batches)
    for batch in batches:
        (row,) = rows_of(batch)
        assert int(row["number"]) % 5
        places = placed(row, made)
        wanted, found = expected(row, made, places), by_label(row)
        assert all(np.array_equal(found[name], values) for name, values in wanted.items())


def test_partners_are_of_the_samples_that_a_loader_keeps(data):
    folder, made = data
    kept = list(range(0, COUNT, 3))
    with loader_of(folder, mosaic(), select=fb.Select(subset=kept)) as loader:
        rows = [row for batch in loader for row in rows_of(batch)]
    assert {place[0] for row in rows for place in placed(row, made)} == set(kept)


def test_mistakes_name_the_change(data):
    folder, _ = data
    image = fb.Image("image", fb.Resize((40, 40)))
    for composed, problem in (
        (lambda: fb.Mosaic(0, x=image), "size of Mosaic"),
        (lambda: fb.Mosaic(64, center_range=(0.8, 0.2), x=image), "smallest and the largest"),
        (lambda: fb.Mosaic(64, p=2, x=image), "p"),
        (lambda: fb.Mosaic(64, x=image, y=fb.Scalar("number")), "next to the Mosaic"),
        (lambda: fb.Mosaic(64, boxes=fb.Boxes("objects", "boxes")), "Image or Mask"),
        (lambda: fb.Mosaic(64, p=image), "argument, but it is a field"),
        (lambda: fb.Mosaic(64, x=fb.Image("image", mode="RGBA")), "mode"),
        (lambda: fb.CopyPaste(x=image), "ObjectMasks"),
        (lambda: fb.CopyPaste(x=fb.Image("image"), m=fb.ObjectMasks("objects", "segmentations")), "one size"),
    ):
        with pytest.raises(fb.ConfigError, match=problem):
            loader_of(folder, composed()).close()
    with pytest.raises(fb.ConfigError, match="one Mosaic or CopyPaste"):
        fb.Loader(local=folder, batch_size=2, fields={"a": fb.Mosaic(64, x=image), "b": fb.Mosaic(64, y=image)})
    sizes = fb.Mosaic(64, x=image, mask=fb.Mask("mask", fb.Resize((20, 20))))
    with pytest.raises(fb.DecodeError, match="different sizes"), loader_of(folder, sizes) as loader:
        next(iter(loader))

"""Resizes with each filter, and borders, compared with torchvision's on pictures of Pillow."""

import io

import numpy as np
import pytest
from odd_pictures import NAME, SEED, drawn_steps, in_torchvision, levels_apart, write_odd_pictures
from PIL import Image, ImageOps
from torchvision.transforms import InterpolationMode, v2

import forebay as fb

COUNT = 500

APART = {"nearest": 0, "bilinear": 1, "bicubic": 0}
"""Largest difference to torchvision, in grey levels."""

FILTERS = sorted(APART)


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    return write_odd_pictures(tmp_path_factory.mktemp("odd") / "set", COUNT)


def rows_of(folder, **fields):
    """Returns the pixels of every field, sample by sample."""
    options = {"batch_size": 1, "framework": "numpy", "order": fb.Order(augment_seed=SEED)}
    with fb.Loader(local=folder, fields=fields, **options) as loader:
        for batch in loader:
            yield {name: np.asarray(batch[name][0]).copy() for name in fields}


def channels_last(row):
    return row.transpose(1, 2, 0)


@pytest.mark.parametrize("name", FILTERS)
def test_resizes_of_a_fixed_size_are_torchvision_s(odd, name):
    folder, made = odd
    mode = InterpolationMode(name)
    recipes = {
        "larger": [v2.Resize((70, 45), mode)],
        "smaller": [v2.Resize((5, 9), mode)],
        "wide": [v2.Resize((3, 200), mode)],
        "one": [v2.Resize((1, 1), mode)],
        "middle": [v2.Resize(24, mode), v2.CenterCrop(20)],
        "bounded": [v2.Resize(24, mode, max_size=30)],
        "border": [v2.Resize((20, 20), mode), v2.Pad(3), v2.CenterCrop(24)],
        "twice": [v2.Resize((33, 21), mode), v2.Resize((20, 40), mode)],
        "mirrored": [v2.RandomHorizontalFlip(1.0), v2.Resize((24, 31), mode)],
        "halved": [v2.RandomHorizontalFlip(1.0), v2.Resize((8, 8), mode), v2.RandomHorizontalFlip(1.0)],
    }
    fields = {key: fb.Image("image", *fb.from_torchvision(recipe)) for key, recipe in recipes.items()}
    for pixels, row in zip(made, rows_of(folder, **fields), strict=True):
        for key, recipe in recipes.items():
            picture = Image.fromarray(pixels)
            if key == "bounded" and min(v2.functional.get_size(picture)) * 30 < max(v2.functional.get_size(picture)):
                assert min(row[key].shape[1:]) == 1, "torchvision has no such picture"
                continue
            expected = np.asarray(v2.Compose(recipe)(picture))
            # Each bilinear resize of a chain may add a difference.
            assert levels_apart(channels_last(row[key]), expected) <= APART[name] * (1 + (key == "twice")), (key, pixels.shape)


def test_the_luma_is_taken_before_the_resizes_and_borders_after_it(odd):
    folder, made = odd
    recipes = {
        "resize": [v2.Grayscale(3), v2.Resize((41, 37), InterpolationMode.BICUBIC)],
        "border": [v2.Grayscale(3), v2.Pad(3, fill=(255, 0, 0))],
        "last": [v2.Resize((41, 37), InterpolationMode.BICUBIC), v2.Grayscale(3), v2.CenterCrop(50), v2.Pad(2, fill=7)],
    }
    fields = {key: fb.Image("image", *fb.from_torchvision(recipe)) for key, recipe in recipes.items()}
    for pixels, row in zip(made[:100], rows_of(folder, **fields), strict=False):
        for key, recipe in recipes.items():
            expected = np.asarray(v2.Compose(recipe)(Image.fromarray(pixels)))
            assert levels_apart(channels_last(row[key]), expected) == 0, (key, pixels.shape)


@pytest.mark.parametrize("name", FILTERS)
def test_random_crops_are_resized_as_torchvision_does(odd, name):
    folder, made = odd
    lists = {
        "plain": [fb.RandomResizedCrop(24, interpolation=name)],
        "mirrored": [fb.RandomHorizontalFlip(), fb.RandomResizedCrop((17, 40), interpolation=name), fb.RandomHorizontalFlip()],
        "any": [fb.RandomHorizontalFlip(), fb.RandomResize(7, 30, name)],
        "part": [fb.RandomResizedCrop(48, (0.3, 1), interpolation=name), fb.CenterCrop((50, 31))],
    }
    for key, ops in lists.items():
        field = fb.Image("image", *ops)
        for number, (pixels, row) in enumerate(zip(made, rows_of(folder, **{NAME: field}), strict=True)):
            expected = np.asarray(in_torchvision(Image.fromarray(pixels), drawn_steps(field, pixels, number)))
            assert levels_apart(channels_last(row[NAME]), expected) <= APART[name], (key, number)


MODES = ["constant", "edge", "reflect", "symmetric"]


@pytest.mark.parametrize("mode", MODES)
def test_borders_are_torchvision_s(odd, mode):
    folder, made = odd
    recipes = {
        "same": [v2.Pad(3, (9, 8, 7), mode)],
        "sides": [v2.Pad((1, 0, 30, 70), 200, mode)],
        "cut": [v2.Pad(9, 5, mode), v2.CenterCrop((31, 12))],
        "outside": [v2.Pad((0, 0, 90, 0), 5, mode), v2.RandomHorizontalFlip(1.0), v2.CenterCrop(11)],
        "twice": [v2.Pad(2, 1, mode), v2.Pad((1, 4), 2, mode)],
        "resized": [v2.Resize((20, 30), InterpolationMode.BICUBIC), v2.Pad(5, 3, mode), v2.Resize((9, 7), InterpolationMode.BICUBIC)],
        "mirrored": [v2.RandomHorizontalFlip(1.0), v2.Resize((9, 7), InterpolationMode.BICUBIC), v2.Pad((7, 1, 2, 0), 3, mode)],
    }
    fields = {key: fb.Image("image", *fb.from_torchvision(recipe)) for key, recipe in recipes.items()}
    for pixels, row in zip(made, rows_of(folder, **fields), strict=True):
        for key, recipe in recipes.items():
            expected = np.asarray(v2.Compose(recipe)(Image.fromarray(pixels)))
            assert np.array_equal(channels_last(row[key]), expected), (key, pixels.shape)


@pytest.mark.parametrize("mode", MODES)
def test_a_random_crop_shows_torchvision_s_borders(odd, mode):
    folder, made = odd
    for crop in [fb.RandomCrop(32, 4, True, 77, mode), fb.RandomCrop((50, 9), (1, 2, 3, 4), True, (1, 2, 3), mode)]:
        field, places = fb.Image("image", fb.RandomHorizontalFlip(), crop), set()
        for number, (pixels, row) in enumerate(zip(made, rows_of(folder, **{NAME: field}), strict=True)):
            steps = drawn_steps(field, pixels, number)
            expected = np.asarray(in_torchvision(Image.fromarray(pixels), steps))
            assert np.array_equal(channels_last(row[NAME]), expected), (crop, number)
            places.add(tuple(steps[-1]["window"][:2]))
        assert len(places) > 50


def test_a_mask_has_its_own_colour_and_the_same_borders(odd):
    folder, _ = odd
    crop = {"size": 32, "padding": 4, "pad_if_needed": True}
    bordered = 0
    for mode in MODES:
        picture = fb.Image("image", fb.RandomCrop(**crop, fill=(1, 2, 3), padding_mode=mode))
        mask = fb.Mask("label", fb.RandomCrop(**crop, fill=255, padding_mode=mode))
        with fb.Loader(local=folder, batch_size=1, fields={NAME: fb.Joint(x=picture, y=mask)}, framework="numpy") as loader:
            for batch in loader:
                shown, labels = batch["x"][0].transpose(1, 2, 0), batch["y"][0]
                # The pictures have labels of this value, too.
                is_border = (labels == 255) & (shown == (1, 2, 3)).all(axis=2) & (mode == "constant")
                assert np.array_equal(shown[:, :, 0][~is_border], labels[~is_border])
                bordered += is_border.any()
    assert bordered > COUNT / 2
    other = fb.Joint(x=picture, y=fb.Mask("label", fb.RandomCrop(**crop, padding_mode="edge")))
    with pytest.raises(fb.ConfigError, match="need the same random operations"):
        fb.Loader(local=folder, batch_size=1, fields={NAME: other})


def test_labels_keep_their_values_with_every_filter(odd):
    folder, made = odd
    ops = [fb.RandomHorizontalFlip(), fb.Resize((25, 33), "bicubic"), fb.RandomResizedCrop(20, interpolation="bicubic")]
    field = fb.Mask("label", *ops)
    for number, (pixels, row) in enumerate(zip(made, rows_of(folder, **{NAME: field}), strict=True)):
        steps = drawn_steps(field, pixels, number)
        assert {step["interpolation"] for step in steps if step["crop"][2:] != step["resized"]} <= {"nearest"}
        expected = np.asarray(in_torchvision(Image.fromarray(pixels[:, :, 0]), steps, is_label=True))
        assert np.array_equal(row[NAME], expected), number


def test_a_picture_and_its_mask_may_have_different_filters(odd):
    folder, _ = odd
    crop = {"size": 24, "scale": (0.3, 1.0)}
    pair = fb.Joint(
        x=fb.Image("image", fb.RandomResizedCrop(**crop, interpolation="nearest")), y=fb.Mask("label", fb.RandomResizedCrop(**crop))
    )
    with fb.Loader(local=folder, batch_size=50, fields={"pair": pair}, framework="numpy") as loader:
        for batch in loader:
            assert np.array_equal(batch["x"][:, 0], batch["y"])


ORIENTATION = 0x112


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    """Data set of JPEGs with smooth shapes, noise and every orientation, and their files."""
    rng = np.random.default_rng(8)
    files = []
    for number in range(64):
        height, width = (int(side) for side in rng.integers(20, 300, 2))
        small = rng.integers(0, 256, (int(rng.integers(2, 24)), int(rng.integers(2, 24)), 3), dtype=np.uint8)
        picture = Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)
        file, exif = io.BytesIO(), Image.Exif()
        exif[ORIENTATION] = number % 8 + 1
        picture.save(file, "JPEG", quality=92, subsampling=number % 3, progressive=number % 5 == 0, exif=exif)
        files.append(file.getvalue())
    folder = str(tmp_path_factory.mktemp("photographs") / "set")
    with fb.MDSWriter(out=folder, columns={"image": "jpeg"}) as writer:
        for file in files:
            writer.write({"image": file})
    return folder, files


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("turned", [False, True])
def test_a_part_of_a_jpeg_is_resized_as_the_whole(photographs, name, turned):
    folder, files = photographs
    mode = InterpolationMode(name)
    recipes = {
        "middle": [v2.Resize(64, mode), v2.CenterCrop(24)],
        "larger": [v2.CenterCrop(17), v2.Resize((60, 50), mode)],
        "corner": [v2.Resize((150, 130), mode), v2.Pad((0, 0, 200, 200)), v2.CenterCrop((40, 60))],
    }
    fields = {
        key: fb.Image("image", *fb.from_torchvision(recipe), apply_exif_orientation=turned) for key, recipe in recipes.items()
    }
    for file, row in zip(files, rows_of(folder, **fields), strict=True):
        picture = Image.open(io.BytesIO(file))
        picture = ImageOps.exif_transpose(picture) if turned else picture
        for key, recipe in recipes.items():
            expected = np.asarray(v2.Compose(recipe)(picture))
            assert levels_apart(channels_last(row[key]), expected) <= APART[name], (key, picture.size)


def test_a_jpeg_that_is_decoded_at_a_reduced_size_is_nearly_the_same(photographs):
    folder, _ = photographs
    apart = {}
    for name in FILTERS:
        ops = [fb.Resize((12, 12), name)]
        fields = {"exact": fb.Image("image", *ops), "scaled": fb.Image("image", *ops, scaled_decode=True)}
        with fb.Loader(local=folder, batch_size=64, fields=fields, framework="numpy") as loader:
            [batch] = loader
            scaled = loader.stats()["counters"]["pictures_scaled"]
        apart[name] = np.abs(batch["exact"].astype(int) - batch["scaled"].astype(int)).mean()
        # The nearest pixel of a reduced picture would be a mean of its neighbours.
        assert (scaled > 0) == (name != "nearest")
    assert apart["nearest"] == 0
    assert 0 < apart["bicubic"] < 2 * apart["bilinear"], apart


def test_compositions_have_a_bound_of_levels(odd):
    op = fb.RandomInvert()
    for _ in range(32):
        op = fb.RandomApply([op])
    fb.Loader(local=odd[0], batch_size=1, fields={"x": fb.Image("image", op)}).close()
    with pytest.raises(fb.ConfigError, match="RandomOrder: compositions are nested more than 32 levels"):
        fb.RandomOrder([op])


@pytest.mark.parametrize(
    ("op", "sentence"),
    [
        (lambda: fb.Resize(None), "needs a `size`, or a `max_size` for the long side"),
        (lambda: fb.Resize((3, 4), max_size=9), "leave it out, since .height, width. sets both sides"),
        (lambda: fb.Resize(9, max_size=9), "`max_size` of Resize must be above `size`"),
        (lambda: fb.Resize(9, "lanczos"), 'interpolation of Resize is "nearest", "bilinear" or "bicubic"'),
        (lambda: fb.RandomResize(9, 9), "RandomResize needs a `max_size` above `min_size`"),
        (lambda: fb.RandomResizedCrop(9, interpolation=True), "interpolation of RandomResizedCrop"),
        (lambda: fb.Pad(1, (1, 2)), "fill of Pad is a grey level or .red, green, blue."),
        (lambda: fb.RandomCrop(1, padding_mode="mirror"), "padding_mode of RandomCrop"),
        (lambda: fb.ColorJitter(hue=0.7), r"ColorJitter needs `hue` from -0.5 to 0.5.*\[-0.7, 0.7\]"),
        (lambda: fb.RandomApply([fb.RandomHorizontalFlip(2)]), "RandomHorizontalFlip needs `p` from 0 to 1"),
    ],
)
def test_arguments_of_resizes_are_checked(odd, op, sentence):
    with pytest.raises(fb.ConfigError, match=sentence):
        fb.Loader(local=odd[0], batch_size=1, fields={"x": fb.Image("image", op())})

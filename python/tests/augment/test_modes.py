"""Pictures of modes L and RGBA: equal to Pillow for files, and to torchvision for the operations."""

import io
import itertools

import numpy as np
import pytest
import torch
from odd_pictures import NAME, SEED, drawn_steps, in_torchvision, levels_apart, pictures
from PIL import Image

import forebay as fb

COUNT = 160

JITTER = fb.ColorJitter(brightness=0.6, contrast=0.6, saturation=0.6, hue=0.2)

OPERATIONS = {
    "nothing": (),
    "flip": (fb.RandomHorizontalFlip(), fb.RandomVerticalFlip()),
    "crop": (fb.RandomCrop(9, padding=3, pad_if_needed=True),),
    "jitter": (JITTER,),
    "grey": (fb.RandomGrayscale(1.0), fb.RandomInvert()),
    "greyscale": (fb.Grayscale(),),
    "tables": (fb.RandomPosterize(3), fb.RandomSolarize(100), fb.RandomEqualize(), fb.RandomAutocontrast()),
    "sharpness": (fb.RandomAdjustSharpness(2.5),),
    "rotation": (fb.RandomRotation(40, interpolation="bilinear", fill=90),),
    "affine": (fb.RandomAffine(20, (0.2, 0.1), (0.7, 1.3), 10, fill=(7, 7, 7)),),
    "perspective": (fb.RandomPerspective(0.6, 0.8, fill=33),),
    "trivial": (fb.TrivialAugmentWide(fill=12),),
    "rand": (fb.RandAugment(),),
    "auto": (fb.AutoAugment(),),
    "mix": (fb.AugMix(),),
}


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    folder, made = tmp_path_factory.mktemp("odd") / "set", list(pictures(COUNT))
    with fb.MDSWriter(out=str(folder), columns={"image": "png", "number": "int"}) as writer:
        for number, pixels in enumerate(made):
            writer.write({"image": Image.fromarray(pixels), "number": number})
    return str(folder), made


def rows_of(folder, field, **options):
    """Returns the rows of a field by the sample's number."""
    options = {"batch_size": 16, "framework": "numpy", "order": fb.Order(augment_seed=SEED)} | options
    with fb.Loader(local=folder, fields={NAME: field, "number": fb.Scalar("number")}, **options) as loader:
        return {n: np.array(row) for batch in loader for n, row in zip(batch["number"].tolist(), batch[NAME], strict=True)}


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_on_grey_levels_are_torchvision_s(odd, name):
    folder, made = odd
    field = fb.Image("image", *OPERATIONS[name], mode="L")
    rows, exact = rows_of(folder, field), name not in ("perspective", "trivial", "rand", "auto", "mix")
    for number, pixels in enumerate(made):
        grey = Image.fromarray(pixels).convert("L")
        expected = np.asarray(in_torchvision(grey, drawn_steps(field, pixels, number)))
        apart = levels_apart(rows[number], expected[None])
        assert apart == 0 if exact else apart <= 1, (name, number)


def saved(picture, **options):
    out = io.BytesIO()
    picture.save(out, **options)
    return out.getvalue()


def files():
    """Returns files of every kind by their names, of one size."""
    rng = np.random.default_rng(8)
    colours = Image.fromarray(rng.integers(0, 256, (21, 34, 4), dtype=np.uint8), "RGBA")
    rgb, grey = colours.convert("RGB"), colours.convert("L")
    smooth = Image.fromarray(rng.integers(0, 256, (4, 4, 3), dtype=np.uint8)).resize((34, 21), Image.Resampling.BICUBIC)
    palette = rgb.quantize(200)
    made = {
        "png RGB": saved(rgb, format="PNG"),
        "png RGBA": saved(colours, format="PNG"),
        "png L": saved(grey, format="PNG"),
        "png LA": saved(colours.convert("LA"), format="PNG"),
        "png 1": saved(grey.convert("1"), format="PNG"),
        "png P": saved(palette, format="PNG"),
        "png P of 16 colours": saved(rgb.quantize(16), format="PNG", bits=4),
        "png P with transparency": saved(palette, format="PNG", transparency=7),
        "png P with alphas": saved(palette, format="PNG", transparency=bytes(range(0, 200))),
        "png RGB with transparency": saved(rgb, format="PNG", transparency=rgb.getpixel((3, 4))),
        "png L with transparency": saved(grey, format="PNG", transparency=100),
        "webp lossless": saved(colours, format="WEBP", lossless=True),
        "webp": saved(smooth, format="WEBP", quality=90),
        "webp lossy with opacity": saved(colours.resize((34, 21), Image.Resampling.BICUBIC), format="WEBP", quality=90),
        "jpeg L": saved(smooth.convert("L"), format="JPEG", quality=90),
        "jpeg CMYK": saved(smooth.convert("CMYK"), format="JPEG", quality=90),
    }
    for subsampling, progressive in itertools.product(range(3), (False, True)):
        made[f"jpeg {subsampling} {progressive}"] = saved(smooth, format="JPEG", subsampling=subsampling, progressive=progressive)
    return made


@pytest.fixture(scope="module")
def kinds(tmp_path_factory):
    folder, made = tmp_path_factory.mktemp("kinds") / "set", files()
    with fb.MDSWriter(out=str(folder), columns={"image": "bytes", "number": "int"}) as writer:
        for number, file in enumerate(made.values()):
            writer.write({"image": file, "number": number})
    return str(folder), made


@pytest.mark.parametrize("mode", ["L", "RGBA"])
def test_every_file_has_the_pixels_of_pillow(kinds, mode):
    folder, made = kinds
    whole = rows_of(folder, fb.Image("image", mode=mode))
    cropped = rows_of(folder, fb.Image("image", fb.CenterCrop((13, 20)), mode=mode, layout="NHWC"))
    for number, (name, file) in enumerate(made.items()):
        expected = np.atleast_3d(np.asarray(Image.open(io.BytesIO(file)).convert(mode)))
        assert np.array_equal(whole[number], expected.transpose(2, 0, 1)), name
        assert np.array_equal(cropped[number], expected[4:17, 7:27]), name


@pytest.mark.parametrize("interpolation", ["nearest", "bilinear", "bicubic"])
def test_colours_are_weighted_by_their_opacity_as_in_pillow(kinds, interpolation):
    folder, made = kinds
    for size in ((9, 14), (40, 11), (3, 34), (21, 70)):
        resized = fb.RandomResizedCrop(size, interpolation=interpolation)
        ops = (resized, fb.RandomHorizontalFlip(), fb.RandomVerticalFlip(), fb.Pad((2, 1, 0, 3)))
        field = fb.Image("image", *ops, mode="RGBA")
        for number, row in rows_of(folder, field).items():
            picture = Image.open(io.BytesIO(list(made.values())[number])).convert("RGBA")
            for step in fb.drawn(field, (21, 34), name=NAME, augment_seed=SEED, draw=number):
                if step.get("action") == "vertical_flip":
                    picture = picture.transpose(Image.Transpose.FLIP_TOP_BOTTOM)
                    continue
                top, left, height, width = step["crop"]
                picture = picture.crop((left, top, left + width, top + height))
                picture = picture.resize(step["resized"][::-1], Image.Resampling[interpolation.upper()])
                top, left, height, width = step["window"]
                picture = picture.crop((left, top, left + width, top + height))
                picture = picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if step["flip"] else picture
            assert np.array_equal(row, np.asarray(picture).transpose(2, 0, 1)), (size, number)


def test_opacity_is_normalised_and_erased_as_colours_are(kinds):
    folder, _ = kinds
    levels = rows_of(folder, fb.Image("image", fb.CenterCrop(20), mode="RGBA"))
    mean, std = (0.1, 0.2, 0.3, 0.4), (0.5, 0.6, 0.7, 0.8)
    for layout, dtype in itertools.product(("NCHW", "NHWC"), ("float32", "float16")):
        field = fb.Image(
            "image", fb.CenterCrop(20), fb.Normalize(mean, std), fb.RandomErasing(1.0, value=3), mode="RGBA", layout=layout, dtype=dtype
        )
        for number, row in rows_of(folder, field).items():
            expected = (levels[number] / 255 - np.array(mean)[:, None, None]) / np.array(std)[:, None, None]
            step = fb.drawn(field, (21, 34), name=NAME, augment_seed=SEED, draw=number)[-1]
            expected[:, step["i"] : step["i"] + step["h"], step["j"] : step["j"] + step["w"]] = 3
            got = row if layout == "NCHW" else row.transpose(2, 0, 1)
            assert got.shape == (4, 20, 20) and np.abs(got.astype(np.float64) - expected).max() < (1e-6 if dtype == "float32" else 3e-3)


def test_grey_rows_have_one_channel_in_every_type(odd):
    folder, _ = odd
    levels = rows_of(folder, fb.Image("image", fb.CenterCrop(20), mode="L"))
    assert all(row.shape == (1, 20, 20) for row in levels.values())
    ops = (fb.CenterCrop(20), fb.Normalize((0.3,), (0.6,)))
    for layout, dtype in itertools.product(("NCHW", "NHWC"), ("float32", "float16")):
        rows = rows_of(folder, fb.Image("image", *ops, mode="L", layout=layout, dtype=dtype))
        for number, row in rows.items():
            assert row.shape == ((1, 20, 20) if layout == "NCHW" else (20, 20, 1)) and row.dtype == dtype
            expected = (levels[number].reshape(row.shape) / 255 - 0.3) / 0.6
            assert np.abs(row.astype(np.float64) - expected).max() < (1e-6 if dtype == "float32" else 2e-3)


def test_grey_rows_are_erased_and_mixed(odd):
    folder, _ = odd
    ops = (fb.CenterCrop(20), fb.RandomErasing(1.0, value=77))
    plain = rows_of(folder, fb.Image("image", fb.CenterCrop(20), mode="L"))
    field = fb.Image("image", *ops, mode="L", layout="NHWC")
    for number, row in rows_of(folder, field).items():
        (step,) = [s for s in fb.drawn(field, (20, 20), name=NAME, augment_seed=SEED, draw=number) if s.get("action") == "erase"]
        expected = plain[number].reshape(20, 20, 1).copy()
        expected[step["i"] : step["i"] + step["h"], step["j"] : step["j"] + step["w"]] = 77
        assert np.array_equal(row, expected)
    for layout in ("NCHW", "NHWC"):
        grey = fb.Image("image", fb.CenterCrop(20), mode="L", layout=layout)
        colour = fb.Image("image", fb.CenterCrop(20), fb.Grayscale(), layout=layout)
        mixed = [
            fb.Loader(
                local=folder,
                fields={"m": fb.Mix(fb.CutMix(), x=field)},
                batch_size=16,
                framework="numpy",
                order=fb.Order(augment_seed=SEED),
            )
            for field in (grey, colour)
        ]
        for one, three in zip(*mixed, strict=True):
            same = three["x"][:, :1] if layout == "NCHW" else three["x"][..., :1]
            assert np.array_equal(one["x"], same)


def test_numbers_of_normalize_are_arrays_of_any_kind():
    for channels in (1, 3, 4):
        numbers = [0.5] * channels
        for kind in (tuple, np.array, torch.tensor):
            assert fb.Normalize(kind(numbers), kind(numbers))._spec() == {"op": "normalize", "mean": numbers, "std": numbers}
    with pytest.raises(fb.ConfigError, match="mean of Normalize"):
        fb.Normalize(0.5, 0.5)._spec()


@pytest.mark.parametrize(
    "field, message",
    [
        (lambda: fb.Image("image", mode="HSV"), "mode of Image"),
        (lambda: fb.Image("image", fb.Normalize((0.5,), (0.5,))), "for each channel"),
        (lambda: fb.Image("image", fb.Normalize((0.5,) * 3, (0.5,) * 3), mode="L"), "for each channel"),
        (lambda: fb.Image("image", fb.RandomRotation(9, fill=(1, 2, 3)), mode="L"), "one grey level"),
        (lambda: fb.Image("image", fb.RandomApply([fb.RandomRotation(9, fill=(1, 2, 3))]), mode="L"), "one grey level"),
        (lambda: fb.Image("image", fb.CenterCrop(9), fb.RandomErasing(value=(1, 2, 3)), mode="L"), "one grey level"),
        (lambda: fb.Image("image", fb.Normalize((0.5,) * 3, (0.5,) * 3), mode="RGBA"), "for each channel"),
        (lambda: fb.Image("image", fb.Pad(2, fill=9), mode="RGBA"), "leave `fill` at 0"),
        (lambda: fb.Image("image", fb.ColorJitter(0.4), mode="RGBA"), "for modes RGB and L"),
        (lambda: fb.Image("image", fb.Grayscale(), mode="RGBA"), "for modes RGB and L"),
        (lambda: fb.Image("image", fb.CenterCrop(9), fb.RandomErasing(value=(1, 2, 3)), mode="RGBA"), "one grey level"),
    ],
)
def test_arguments_for_wrong_channels_are_errors(odd, field, message):
    with pytest.raises(fb.ConfigError, match=message):
        fb.Loader(local=odd[0], fields={"x": field()}, batch_size=2)


def test_the_mode_is_part_of_the_text_of_a_field():
    assert repr(fb.Image("image", mode="L")) == "Image('image', dtype='uint8', layout='NCHW', mode='L')"


@pytest.fixture(scope="module", params=["png", "pil"])
def deep(request, tmp_path_factory):
    """Pictures of 16 bits, with odd sizes, the smallest and the largest values."""
    folder, made = tmp_path_factory.mktemp("deep") / "set", []
    rng = np.random.default_rng(8)
    with fb.MDSWriter(out=str(folder), columns={"image": request.param, "number": "int"}) as writer:
        for number in range(60):
            height, width = (int(side) for side in rng.integers(1, 70, 2))
            small = Image.fromarray(rng.integers(0, 1 << 16, (1 + height // 9, 1 + width // 9), dtype=np.uint16))
            values = np.array(small.resize((width, height), number % 4))
            values.flat[rng.integers(values.size)], values.flat[rng.integers(values.size)] = 0, 65535
            writer.write({"image": Image.fromarray(values), "number": number})
            made.append(values)
    return str(folder), made


def in_pillow(values, step):
    """Does the crop, resize, window and flip of a step."""
    top, left, height, width = step["crop"]
    picture = Image.fromarray(values[top : top + height, left : left + width])
    picture = picture.resize(step["resized"][::-1], Image.Resampling[step["interpolation"].upper()])
    top, left, height, width = step["window"]
    values = np.asarray(picture)
    borders = [(max(0, -top), max(0, top + height - len(values))), (max(0, -left), max(0, left + width - values.shape[1]))]
    mode = {"edge": "edge", "reflect": "reflect", "symmetric": "symmetric"}.get(step["padding_mode"], "constant")
    values = np.pad(values, borders, mode)[max(0, top) :][:height, max(0, left) :][:, :width]
    return values[:, ::-1] if step["flip"] else values


DEEP = {
    "nothing": (),
    "crop": (fb.RandomCrop(9, padding=3, pad_if_needed=True), fb.RandomHorizontalFlip()),
    "borders": (fb.Pad((1, 2, 3, 4), padding_mode="symmetric"), fb.RandomHorizontalFlip()),
    **{
        name: (fb.RandomResizedCrop((21, 34), interpolation=name), fb.RandomHorizontalFlip())
        for name in ("nearest", "bilinear", "bicubic")
    },
    "centre": (fb.Resize(40, "bicubic"), fb.CenterCrop(50)),
    "longer": (fb.Resize(None, max_size=90), fb.RandomCrop(30, pad_if_needed=True, padding_mode="edge")),
}


@pytest.mark.parametrize("name", DEEP)
def test_pictures_of_16_bits_are_pillow_s(deep, name):
    folder, made = deep
    field = fb.Image("image", *DEEP[name], mode="I;16")
    for number, row in rows_of(folder, field).items():
        assert row.dtype == np.uint16 and row.shape[0] == 1
        expected, steps = made[number], drawn_steps(field, made[number], number)
        for step in steps:
            expected = in_pillow(expected, step)
        assert np.array_equal(row[0], expected), number


def test_values_of_16_bits_are_turned_over_and_normalised(deep):
    folder, made = deep
    plain = rows_of(folder, fb.Image("image", mode="I;16", dtype="int32"))
    assert all(np.array_equal(row[0], made[number]) for number, row in plain.items())
    over = rows_of(folder, fb.Image("image", fb.RandomVerticalFlip(1.0), mode="I;16", layout="NHWC"))
    assert all(np.array_equal(row[..., 0], made[number][::-1]) for number, row in over.items())
    for dtype, most in {"float32": 2e-7, "float16": 2e-3}.items():
        rows = rows_of(folder, fb.Image("image", fb.Normalize((0.25,), (0.5,)), mode="I;16", dtype=dtype))
        for number, row in rows.items():
            expected = (made[number] / 65535 - 0.25) / 0.5
            assert row.dtype == dtype and np.abs(row[0] - expected).max() <= most
    erased = rows_of(folder, fb.Image("image", fb.RandomErasing(1.0, value=40_001), mode="I;16"))
    changed = [row[0][row[0] != made[number]] for number, row in erased.items()]
    assert sum(map(len, changed)) > 1000 and all((values == 40_001).all() for values in changed)


def test_a_joint_cuts_depths_as_its_pictures(deep):
    crop = fb.RandomResizedCrop(24, interpolation="nearest"), fb.RandomHorizontalFlip()
    fields = {
        "depth": fb.Image("image", *crop, mode="I;16"),
        "mask": fb.Mask("image", fb.RandomResizedCrop(24), fb.RandomHorizontalFlip(), dtype="int32"),
    }
    with fb.Loader(local=deep[0], fields={"j": fb.Joint(**fields)}, batch_size=60, framework="numpy") as loader:
        batch = next(iter(loader))
    assert batch["depth"].shape == (60, 1, 24, 24) and np.array_equal(batch["depth"][:, 0], batch["mask"])


def test_torch_gets_pictures_of_16_bits(deep):
    folder, made = deep
    with fb.Loader(local=folder, fields={"x": fb.Image("image", mode="I;16")}, batch_size=1) as loader:
        row = next(iter(loader))["x"]
    assert row[0].dtype == torch.uint16 and np.array_equal(row[0][0].numpy(), made[0])


def test_masks_have_labels_of_16_bits(deep):
    folder, made = deep
    crop = fb.RandomCrop(40, padding=5, pad_if_needed=True, fill=255)
    field = fb.Mask("image", fb.RandomHorizontalFlip(), crop)
    for number, row in rows_of(folder, field).items():
        (step,) = drawn_steps(field, made[number], number)
        top, left, height, width = step["window"]
        values = np.pad(made[number].astype(np.int64), 200, constant_values=255)[200 + top :][:height, 200 + left :][:, :width]
        assert row.dtype == np.int64 and np.array_equal(row, values[:, ::-1] if step["flip"] else values)
    # A label of a border is the first number of its colour, and fields with different types are checked on their own.
    colours = fb.Mask("image", fb.Pad(1, fill=(7, 8, 9)), fb.RandomRotation(45, fill=(5, 6, 7)))
    rows = rows_of(folder, colours)
    assert all(row[0, 0] in (5, 7) and set(np.unique(row)) <= {0, 5, 7, *made[n].flat} for n, row in rows.items())
    with pytest.raises(fb.DecodeError, match="does not hold"):
        pair = {"a": fb.Mask("image"), "b": fb.Mask("image", dtype="uint8")}
        next(iter(fb.Loader(local=folder, fields=pair, batch_size=60)))
    for dtype in ("uint8", "int16"):
        with pytest.raises(fb.DecodeError, match='a label that its dtype does not hold: pass dtype="int32"'):
            rows_of(folder, fb.Mask("image", dtype=dtype))


def test_a_long_picture_of_16_bits_is_resized_where_it_is_shown(tmp_path):
    values = np.arange(3000, dtype=np.uint16)[None] * 21
    with fb.MDSWriter(out=str(tmp_path / "set"), columns={"image": "png", "number": "int"}) as writer:
        writer.write({"image": Image.fromarray(values), "number": 0})
    for op in (fb.Resize(200), fb.Resize(200, "bicubic")):
        row = rows_of(str(tmp_path / "set"), fb.Image("image", op, fb.CenterCrop(50), mode="I;16"))[0]
        resized = Image.fromarray(values).resize((600_000, 200), Image.Resampling[op.interpolation.upper()])
        expected = np.asarray(resized)[75:125, 299_975:300_025]
        assert np.array_equal(row[0], expected)


@pytest.mark.parametrize(
    "field, message",
    [
        (fb.Image("image", fb.ColorJitter(0.4), mode="I;16"), "remaining operations are for modes RGB and L"),
        (fb.Image("image", fb.Pad(2, fill=(1, 2, 3)), mode="I;16"), "one number for all channels"),
        (fb.Image("image", fb.RandomErasing(value=65_536), mode="I;16"), "a level from 0 to 65535"),
        (fb.Image("image", mode="I;16", dtype="uint8"), "must be uint16, int32"),
        (fb.Image("image", fb.Normalize((0.5,), (0.5,)), mode="I;16", dtype="uint16"), "Normalize needs a float dtype"),
        (fb.Image("image", fb.Normalize((0.5,) * 3, (0.5,) * 3), mode="I;16"), "mean and a standard deviation for each channel"),
        (fb.Image("image", fb.RandomErasing(value="random"), mode="I;16"), "the noise of RandomErasing"),
    ],
)
def test_impossible_operations_on_16_bits_are_an_error(deep, field, message):
    with pytest.raises(fb.ConfigError, match=message):
        fb.Loader(local=deep[0], fields={"x": field}, batch_size=2)


def test_files_without_grey_values_are_not_of_16_bits(odd, pictures):
    with fb.Loader(local=odd[0], fields={"x": fb.Image("image", mode="I;16")}, batch_size=2) as loader:
        with pytest.raises(fb.UnsupportedError, match="needs a grey PNG of 8 or 16 bits"):
            next(iter(loader))
    with pytest.raises(fb.ConfigError, match="a JPEG has 8 bits"):
        fb.Loader(local=pictures, fields={"x": fb.Image("image", mode="I;16")}, batch_size=2)

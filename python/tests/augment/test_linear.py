"""Linear transformations of pictures against torchvision's."""

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.transforms import v2

import forebay as fb

COUNT, SIZE = 12, (6, 8)

NUMBERS = 3 * SIZE[0] * SIZE[1]

FLOATS = v2.ToDtype(torch.float32, scale=True)

NORMALIZE = fb.Normalize(fb.IMAGENET_MEAN, fb.IMAGENET_STD)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    rng = np.random.default_rng(5)
    folder, made = str(tmp_path_factory.mktemp("linear") / "set"), []
    with fb.MDSWriter(out=folder, columns={"image": "png"}) as writer:
        for _ in range(COUNT):
            made.append(rng.integers(0, 256, (*SIZE, 3), dtype=np.uint8))
            writer.write({"image": Image.fromarray(made[-1])})
    return folder, made


def whitening(made, normalize=None):
    """Returns the matrix and the mean that whiten the pictures, from their covariance."""
    rows = np.stack([pixels.transpose(2, 0, 1).ravel() for pixels in made]) / 255.0
    mean = rows.mean(0)
    u, s, _ = np.linalg.svd(np.cov(rows - mean, rowvar=False))
    return torch.tensor(u @ np.diag(1 / np.sqrt(s + 0.1)) @ u.T, dtype=torch.float32), torch.tensor(mean, dtype=torch.float32)


def rows(folder, *ops, **options):
    with fb.Loader(local=folder, batch_size=COUNT, fields={"x": fb.Image("image", *ops, **options)}) as loader:
        return next(iter(loader))["x"]


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_a_whitened_picture_is_torchvision_s(data, layout):
    folder, made = data
    of = whitening(made)
    got = rows(folder, fb.Resize(SIZE), fb.LinearTransformation(*of), dtype="float32", layout=layout)
    got = got.permute(0, 3, 1, 2) if layout == "NHWC" else got
    floats = torch.stack([torch.tensor(pixels).permute(2, 0, 1) for pixels in made]).float() / 255
    assert torch.allclose(got, v2.LinearTransformation(*of)(floats), atol=1e-5)
    assert torch.allclose(got.flatten(1).mean(0), torch.zeros(NUMBERS), atol=1e-5)


def test_it_is_applied_after_normalize_and_before_an_erased_box(data):
    folder, made = data
    of = whitening(made)
    plain = rows(folder, fb.Resize(SIZE), NORMALIZE)
    got = rows(folder, fb.Resize(SIZE), NORMALIZE, fb.LinearTransformation(*of), fb.RandomErasing(1.0, value=7))
    expected = v2.LinearTransformation(*of)(plain)
    is_erased = got == 7
    assert is_erased.any() and torch.allclose(got[~is_erased], expected[~is_erased], atol=2e-5)


def test_pictures_of_one_channel_have_their_own_matrix(data):
    folder, _ = data
    half = SIZE[0] * SIZE[1]
    got = rows(folder, fb.Resize(SIZE), fb.LinearTransformation(np.eye(half)[::-1], np.zeros(half)), dtype="float32", mode="L")
    assert torch.allclose(got, rows(folder, fb.Resize(SIZE), dtype="float32", mode="L").flatten(1).flip(1).view_as(got), atol=1e-6)


@pytest.mark.parametrize("normalize", [[], [v2.Normalize(fb.IMAGENET_MEAN, fb.IMAGENET_STD)]])
def test_a_recipe_of_torchvision_is_translated(data, normalize):
    folder, made = data
    of = v2.LinearTransformation(*whitening(made))
    recipe = v2.Compose([v2.Resize(SIZE), v2.ToImage(), FLOATS, *normalize, of])
    got = rows(folder, *fb.from_torchvision(recipe))
    assert torch.allclose(got, torch.stack([recipe(Image.fromarray(pixels)) for pixels in made]), atol=2e-5)


@pytest.mark.parametrize(
    ("ops", "options", "sentence"),
    [
        ([fb.Resize(SIZE), fb.LinearTransformation(np.eye(3), np.zeros(3))], {"dtype": "float32"}, "a row for each number of a picture"),
        ([fb.Resize(4), fb.LinearTransformation(np.eye(48), np.zeros(48))], {"dtype": "float32"}, "pictures of one size"),
        ([fb.Resize((4, 4)), fb.LinearTransformation(np.eye(48), np.zeros(48))], {}, 'pass dtype="float32"'),
        ([fb.LinearTransformation(np.eye(48), np.zeros(4))], {}, "transformation_matrix of LinearTransformation is square"),
        ([fb.LinearTransformation("eye", np.zeros(4))], {}, "transformation_matrix of LinearTransformation is an array of numbers"),
        ([fb.LinearTransformation(np.zeros((5000, 5000), np.float32), np.zeros(5000))], {}, "at most 4096 numbers"),
        ([fb.LinearTransformation(np.eye(1) * np.nan, np.zeros(1))], {}, "finite numbers"),
        ([fb.LinearTransformation(np.eye(1), np.zeros(1)), NORMALIZE], {}, "LinearTransformation must be the last operation"),
        ([fb.RandomErasing(), fb.LinearTransformation(np.eye(1), np.zeros(1))], {}, "must be before RandomErasing"),
        ([fb.RandomApply([fb.LinearTransformation(np.eye(1), np.zeros(1)), fb.CenterCrop(1)])], {}, "cannot hold"),
    ],
)
def test_a_matrix_that_does_not_fit_has_a_reason(data, ops, options, sentence):
    with pytest.raises(fb.ConfigError, match=sentence):
        fb.Loader(local=data[0], batch_size=2, fields={"x": fb.Image("image", *ops, **options)})


def test_a_mask_cannot_have_it(data):
    with pytest.raises(fb.ConfigError, match="would change them"):
        fb.Loader(local=data[0], batch_size=2, fields={"x": fb.Mask("image", fb.Resize((1, 1)), fb.LinearTransformation(np.eye(1), np.zeros(1)))})


def test_a_translation_that_cannot_be_has_a_reason(data):
    of = v2.LinearTransformation(torch.eye(3), torch.zeros(3))
    for recipe, sentence in [
        ([of], "put it after a ToDtype"),
        ([FLOATS, of, v2.RandomInvert()], "put it before number 1, LinearTransformation"),
        ([FLOATS, of, v2.Normalize((0.5,) * 3, (0.5,) * 3)], "put it before number 1, LinearTransformation"),
        ([FLOATS, of, of], "put it before number 1, LinearTransformation"),
    ]:
        with pytest.raises(fb.ConfigError, match=sentence):
            fb.from_torchvision(recipe)


def test_normalize_for_more_channels_than_pictures_have_names_the_field_of_arrays():
    with pytest.raises(fb.ConfigError, match=r'mean of Normalize has 6 numbers.* Array\("column", dtype="float32"\)'):
        fb.Normalize([0.5] * 6, [0.5] * 6)._spec()

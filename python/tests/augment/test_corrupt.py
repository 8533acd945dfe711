"""Noise and compression, compared with torchvision's."""

import numpy as np
import pytest
import torch
from odd_pictures import augmented, drawn_steps, in_torchvision, write_odd_pictures
from PIL import Image
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional

import forebay as fb

COUNT = 120


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    return write_odd_pictures(tmp_path_factory.mktemp("corrupt") / "set", COUNT)


@pytest.mark.parametrize("op", [fb.JPEG((1, 100)), fb.JPEG(75), fb.RandomApply([fb.JPEG(5), fb.RandomInvert(1.0)], 0.7)])
@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_a_jpeg_has_the_pixels_of_pillow_s(odd, op, mode):
    folder, made = odd
    kind = fb.Image if mode == "RGB" else lambda column, *ops: fb.Image(column, *ops, mode="L")
    rows, field = augmented(folder, op, kind=kind), kind("image", op)
    for number, pixels in enumerate(made):
        picture = Image.fromarray(pixels).convert(mode)
        expected = np.asarray(in_torchvision(picture, drawn_steps(field, pixels, number)))
        expected = expected.transpose(2, 0, 1) if mode == "RGB" else expected[None]
        assert np.array_equal(rows[number], expected), pixels.shape


def test_qualities_are_equally_frequent():
    field = fb.Image("image", fb.JPEG((10, 14)))
    found = [step["quality"] for draw in range(1000) for step in fb.drawn(field, (8, 8), name="x", augment_seed=1, draw=draw) if "action" in step]
    counts = np.unique(found, return_counts=True)
    assert counts[0].tolist() == [10, 11, 12, 13, 14] and (counts[1] > 150).all()


@pytest.fixture(scope="module")
def grey(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("grey") / "set")
    with fb.MDSWriter(out=folder, columns={"image": "png"}) as writer:
        for level in (128, 20, 250):
            writer.write({"image": Image.new("RGB", (64, 64), (level, level, level))})
    return folder


@pytest.mark.parametrize("noise", [fb.GaussianNoise(), fb.GaussianNoise(0.1, 0.03), fb.GaussianNoise(-0.2, 0.2, clip=False)])
def test_noise_has_torchvision_s_distribution(grey, noise):
    stats = pytest.importorskip("scipy.stats")
    torch.manual_seed(2)
    with fb.Loader(local=grey, batch_size=3, fields={"x": fb.Image("image", fb.CenterCrop(64), noise)}) as loader:
        [batch] = loader
    for level, row in zip((128, 20, 250), batch["x"], strict=True):
        same = torch.full((3, 64, 64), level, dtype=torch.uint8)
        expected = functional.gaussian_noise(same, noise.mean, noise.sigma, noise.clip)
        assert stats.ks_2samp(row.flatten().numpy(), expected.flatten().numpy()).pvalue > 1e-3
        assert not torch.equal(row[0], row[1])
    assert not torch.equal(batch["x"][0].float() - 128, batch["x"][1].float() - 20)


def test_a_grey_picture_has_one_channel_of_noise(grey):
    with fb.Loader(local=grey, batch_size=3, fields={"x": fb.Image("image", fb.CenterCrop(64), fb.GaussianNoise(), mode="L")}) as loader:
        [batch] = loader
    assert batch["x"].shape == (3, 1, 64, 64) and batch["x"][0].float().std() == pytest.approx(25.5, abs=1.5)


def test_a_mask_keeps_its_labels(odd):
    folder, made = odd
    for number, row in augmented(folder, fb.GaussianNoise(), fb.JPEG(3), kind=fb.Mask, column="label").items():
        assert np.array_equal(row, made[number][:, :, 0])


def test_noise_is_the_same_in_every_run(odd):
    folder, _ = odd
    first, second = (augmented(folder, fb.GaussianNoise()) for _ in range(2))
    assert all(np.array_equal(row, second[number]) for number, row in first.items())


@pytest.mark.parametrize(
    ("op", "sentence"),
    [
        (fb.GaussianNoise(sigma=-1), "GaussianNoise needs `sigma` from 0 to 10"),
        (fb.GaussianNoise(mean=11), "GaussianNoise needs `mean` from -10 to 10"),
        (fb.JPEG(0), "quality of JPEG"),
        (fb.JPEG((1, 2, 3)), "quality of JPEG"),
        (fb.JPEG((90, 10)), "the smallest one first"),
    ],
)
def test_an_argument_out_of_range_is_an_error(odd, op, sentence):
    with pytest.raises(fb.ConfigError, match=sentence):
        fb.Loader(local=odd[0], batch_size=2, fields={"x": fb.Image("image", op)})


def test_transforms_of_torchvision_are_translated():
    assert fb.from_torchvision([v2.GaussianNoise(0.1, 0.2, False), v2.JPEG((3, 9)), v2.JPEG(50)]) == [
        fb.GaussianNoise(0.1, 0.2, False),
        fb.JPEG((3, 9)),
        fb.JPEG((50, 50)),
    ]
    with pytest.raises(fb.ConfigError, match="put it before the conversion to floats"):
        fb.from_torchvision([v2.ToDtype(torch.float32, scale=True), v2.GaussianNoise()])

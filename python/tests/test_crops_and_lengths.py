"""Crops in pixels, borders, grey, and rows of varying length, compared with torchvision and numpy."""

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.transforms.v2 import functional

import forebay as fb

SIZES = [(17, 23), (32, 32), (40, 31), (64, 48), (33, 90)]


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Data set of noise, so that a crop has one possible position, with its pictures."""
    rng = np.random.default_rng(5)
    pictures = [rng.integers(0, 256, (h, w, 3), dtype=np.uint8) for w, h in SIZES]
    folder = str(tmp_path_factory.mktemp("photos") / "set")
    with fb.MDSWriter(out=folder, columns={"image": "png", "label": "png"}) as writer:
        for pixels in pictures:
            writer.write({"image": Image.fromarray(pixels), "label": Image.fromarray(pixels[:, :, 0])})
    return folder, pictures


def rows(folder, *ops, epochs=1, kind=fb.Image):
    column = "image" if kind is fb.Image else "label"
    with fb.Loader(local=folder, batch_size=1, framework="numpy", fields={"x": kind(column, *ops)}) as loader:
        return [[np.asarray(batch["x"][0]).copy() for batch in loader] for _ in range(epochs)]


def channels_first(pixels):
    return torch.from_numpy(pixels.copy()).permute(2, 0, 1)


@pytest.mark.parametrize("padding", [3, (1, 2), (4, 3, 2, 1)])
def test_borders_and_grey_are_torchvision_s(photos, padding):
    folder, pictures = photos
    sides = list(padding) if isinstance(padding, tuple) else padding
    for got, pixels in zip(rows(folder, fb.Pad(padding))[0], pictures, strict=True):
        assert np.array_equal(got, functional.pad(channels_first(pixels), sides))
    for got, pixels in zip(rows(folder, fb.Grayscale(), fb.Pad(padding))[0], pictures, strict=True):
        grey = functional.to_grayscale(Image.fromarray(pixels), num_output_channels=3)
        assert np.array_equal(got, functional.pad(channels_first(np.asarray(grey)), sides))


def test_a_random_crop_is_a_part_of_the_padded_picture_and_differs_in_each_epoch(photos):
    folder, pictures = photos
    for crop, border in [(fb.RandomCrop((16, 15)), 0), (fb.RandomCrop(16, padding=2), 2)]:
        places = [set() for _ in pictures]
        for epoch in rows(folder, crop, epochs=6):
            for seen, got, pixels in zip(places, epoch, pictures, strict=True):
                padded = np.pad(pixels, ((border, border), (border, border), (0, 0))).transpose(2, 0, 1)
                windows = np.lib.stride_tricks.sliding_window_view(padded, got.shape)[0]
                found = np.argwhere((windows == got).all(axis=(2, 3, 4)))
                assert len(found) == 1
                seen.add(tuple(found[0]))
        assert all(len(seen) > 1 for seen in places)


def test_a_picture_that_is_too_small_is_padded_or_an_error(photos):
    folder, pictures = photos
    got = rows(folder, fb.RandomCrop(100, pad_if_needed=True))[0]
    for row, pixels in zip(got, pictures, strict=True):
        assert row.shape == (3, 100, 100)
        assert row.astype(int).sum() == pixels.astype(int).sum()
    with pytest.raises(fb.DecodeError, match="smaller than its random crop: set `pad_if_needed`"):
        rows(folder, fb.RandomCrop(100))


def test_a_picture_and_its_mask_are_cropped_alike(photos):
    folder, _ = photos
    crop = fb.RandomCrop(16, padding=4)
    pair = fb.Joint(x=fb.Image("image", crop, fb.RandomHorizontalFlip()), y=fb.Mask("label", crop, fb.RandomHorizontalFlip()))
    with fb.Loader(local=folder, batch_size=5, shuffle=True, fields={"pair": pair}) as loader:
        for batch in loader:
            assert torch.equal(batch["x"][:, 0].long(), batch["y"])


def test_labels_are_not_made_grey(photos):
    with pytest.raises(fb.ConfigError, match="a Mask holds labels: Grayscale would change them"):
        rows(photos[0], fb.Grayscale(), kind=fb.Mask)


@pytest.fixture(scope="module")
def sentences(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("sentences") / "set")
    columns = {"ids": "ndarray:int32", "raw": "bytes", "table": "ndarray:uint8"}
    with fb.MDSWriter(out=folder, columns=columns) as writer:
        for n in range(1, 9):
            ids = np.arange(n, dtype=np.int32)
            writer.write({"ids": ids, "raw": ids.astype(np.uint16).tobytes(), "table": np.zeros((n, 2), np.uint8)})
    return folder


def test_long_rows_are_cut_and_lengths_equal_the_lengths_of_the_stored_arrays(sentences):
    fields = {
        "ids": fb.Tokens("ids", 5, pad=-1, truncate=True),
        "raw": fb.Tokens("raw", 5, pad=-1, truncate=True, stored="uint16"),
        "n_ids": fb.Length("ids"),
        "n_raw": fb.Length("raw", stored="uint16"),
        "n_bytes": fb.Length("raw"),
        "n_rows": fb.Length("table"),
    }
    with fb.Loader(local=sentences, batch_size=8, fields=fields) as loader:
        batch = next(iter(loader))
    lengths = torch.arange(1, 9)
    assert [list(batch[name]) for name in ("n_ids", "n_raw", "n_rows")] == [list(lengths)] * 3
    assert torch.equal(batch["n_bytes"], 2 * lengths)
    expected = torch.where(torch.arange(5) < lengths[:, None], torch.arange(5), -1)
    assert torch.equal(batch["ids"], expected)
    assert torch.equal(batch["raw"], expected)


def test_long_rows_are_errors_by_default_and_a_number_has_no_length(sentences, pictures):
    with pytest.raises(fb.DecodeError, match="raise `length` of Tokens, or set `truncate`"):
        list(fb.Loader(local=sentences, batch_size=8, fields={"ids": fb.Tokens("ids", 5, pad=0)}))
    with pytest.raises(fb.ConfigError, match="a Length field needs an ndarray or bytes column"):
        fb.Loader(local=pictures, batch_size=8, fields={"n": fb.Length("class")})

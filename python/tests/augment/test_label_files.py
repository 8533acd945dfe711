"""Masks in the files of public data sets: indexes of palettes, values of 16 bits, and 255 for pixels to ignore."""

import io

import numpy as np
import pytest
from PIL import Image

import forebay as fb

LABELS = np.tile(np.array([*range(21), 255, 200, 254], np.uint8), (12, 2))
"""Classes of VOC, its border, and further labels, in columns."""


def palette():
    """Returns the colours of VOC's classes."""
    colours = []
    for label in range(256):
        bits = [[label >> (3 * bit + channel) & 1 for bit in range(3)] for channel in range(3)]
        colours += [sum(value << (7 - bit) for bit, value in enumerate(channel)) for channel in bits]
    return colours


def saved(labels, kind="PNG", **options):
    picture = Image.frombytes("P", labels.shape[::-1], labels.tobytes())
    picture.putpalette(palette())
    file = io.BytesIO()
    picture.save(file, kind, **options)
    return file.getvalue()


def grey(labels):
    file = io.BytesIO()
    Image.fromarray(labels).save(file, "PNG")
    return file.getvalue()


FILES = {
    "VOC": (saved(LABELS), LABELS),
    "optimised": (saved(LABELS, optimize=True), LABELS),
    "transparent": (saved(LABELS, transparency=0), LABELS),
    "alphas": (saved(LABELS, transparency=bytes(range(256))), LABELS),
    "4 bits": (saved(LABELS % 16, bits=4), LABELS % 16),
    "2 bits": (saved(LABELS % 4, bits=2), LABELS % 4),
    "1 bit": (saved(LABELS % 2, bits=1), LABELS % 2),
    "ADE20K": (grey(LABELS), LABELS),
    "16 bits": (grey(LABELS.astype(np.uint16) * 257), LABELS.astype(np.int64) * 257),
    "TIFF": (saved(LABELS, "TIFF"), LABELS),
    "BMP": (saved(LABELS, "BMP"), LABELS),
    "GIF": (saved(LABELS % 16, "GIF"), LABELS % 16),
}


@pytest.mark.parametrize("name", FILES)
def test_labels_are_the_stored_numbers_and_not_colours(tmp_path, name):
    file, labels = FILES[name]
    with fb.MDSWriter(out=str(tmp_path / "set"), columns={"image": "png", "mask": "bytes"}) as writer:
        writer.write({"image": Image.new("RGB", LABELS.shape[::-1]), "mask": file})
    ops = (fb.Resize((24, 96)), fb.RandomHorizontalFlip(p=1.0))
    fields = {"whole": fb.Mask("mask"), "joint": fb.Joint(x=fb.Image("image", *ops), mask=fb.Mask("mask", *ops))}
    with fb.Loader(local=str(tmp_path / "set"), fields=fields, batch_size=1, framework="numpy") as loader:
        batch = next(iter(loader))
    assert np.array_equal(batch["whole"][0], labels)
    assert np.array_equal(batch["mask"][0], labels.repeat(2, 0).repeat(2, 1)[:, ::-1])


def test_a_mask_of_colours_is_an_error(tmp_path):
    colours = io.BytesIO()
    Image.open(io.BytesIO(saved(LABELS))).convert("RGB").save(colours, "PNG")
    with fb.MDSWriter(out=str(tmp_path / "set"), columns={"mask": "bytes"}) as writer:
        writer.write({"mask": colours.getvalue()})
    with fb.Loader(local=str(tmp_path / "set"), fields={"mask": fb.Mask("mask")}, batch_size=1) as loader:
        with pytest.raises((fb.DecodeError, fb.UnsupportedError), match="one channel|labels"):
            next(iter(loader))


def test_a_folder_of_voc_is_pairs_by_stem(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    root = tmp_path / "VOC2012"
    for folder in ("JPEGImages", "SegmentationClass"):
        (root / folder).mkdir(parents=True)
    stems = ["2007_000032", "2007_000039", "2007_000063"]
    lines = ["file_name,mask_file_name"]
    for number, stem in enumerate(stems):
        Image.new("RGB", LABELS.shape[::-1], (number, 0, 0)).save(root / f"JPEGImages/{stem}.jpg")
        (root / f"SegmentationClass/{stem}.png").write_bytes(saved(np.roll(LABELS, number, 1)))
        lines.append(f"JPEGImages/{stem}.jpg,SegmentationClass/{stem}.png")
    (root / "train.csv").write_text("\n".join(lines))
    fields = {"pair": fb.Joint(x=fb.Image("file"), mask=fb.Mask("mask", dtype="uint8"))}
    streams = [fb.Stream(remote=str(root), manifest=str(root / "train.csv"))]
    with fb.Loader(streams=streams, fields=fields, batch_size=3, framework="numpy") as loader:
        batch = next(iter(loader))
    for number in range(3):
        assert np.array_equal(batch["mask"][number], np.roll(LABELS, number, 1)) and batch["x"][number].shape[1:] == LABELS.shape

"""Modes of a Mix, which timm's Mixup has too: partners, draws, boxes and label smoothing."""

import numpy as np
import pytest
import torch
from PIL import Image

import forebay as fb

COUNT, SIZE = 50, (12, 20)

MODES = ["batch", "pair", "elem"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    rng = np.random.default_rng(2)
    folder = str(tmp_path_factory.mktemp("mix") / "set")
    with fb.MDSWriter(out=folder, columns={"image": "png", "class": "int"}) as writer:
        for number in range(COUNT):
            writer.write({"image": Image.fromarray(rng.integers(0, 256, (*SIZE, 3), dtype=np.uint8)), "class": number})
    return folder


IMAGE = fb.Image("image", fb.CenterCrop(SIZE), dtype="float32")


def batches(folder, by, rows=8, epochs=1, smoothing=0.0, **options):
    """Returns pairs of batches, without and with the mix. Each sample has its own class."""
    mix = fb.Mix(by, x=IMAGE, y=fb.OneHot("class", COUNT, smoothing=smoothing), **options)
    arguments = {"local": folder, "batch_size": rows, "shuffle": True}
    with (
        fb.Loader(fields={"x": IMAGE, "y": fb.OneHot("class", COUNT)}, **arguments) as plain,
        fb.Loader(fields={"mix": mix}, **arguments) as mixed,
    ):
        for _ in range(epochs):
            for a, b in zip(plain, mixed, strict=True):
                yield {name: a[name].clone() for name in a}, {name: b[name].clone() for name in b}


def shares_of(plain, mixed):
    """Returns the share of the row itself in each row of the labels."""
    return (plain["y"] * mixed["y"]).sum(1)


def assert_drawn(mode, shares):
    """Compares the draws of the rows of a batch."""
    half = shares[: len(shares) // 2]
    if mode == "batch":
        assert (half - half[0]).abs().max() < 1e-6
    if mode == "pair":
        assert len(set(half.tolist())) == len(half) and torch.allclose(half, shares.flip(0)[: len(half)], atol=1e-6)
    if mode == "elem":
        assert len(set(shares.tolist())) == len(shares)


@pytest.mark.parametrize("mode", MODES)
def test_a_row_is_blended_with_the_one_as_far_from_the_end(folder, mode):
    for plain, mixed in batches(folder, fb.MixUp(0.8), mode=mode):
        if len(plain["y"]) % 2:
            continue
        share = shares_of(plain, mixed)
        assert_drawn(mode, share)
        for name in ("x", "y"):
            by = share.reshape(-1, *[1] * (plain[name].dim() - 1))
            assert torch.allclose(mixed[name], plain[name] * by + plain[name].flip(0) * (1 - by), atol=1e-5)


@pytest.mark.parametrize("mode", MODES)
def test_a_box_is_cut_from_the_row_as_far_from_the_end(folder, mode):
    boxes = set()
    for plain, mixed in batches(folder, fb.CutMix(), epochs=2, mode=mode):
        for row, (own, other, got, share) in enumerate(zip(plain["x"], plain["x"].flip(0), mixed["x"], shares_of(plain, mixed), strict=True)):
            is_other = (got != own).any(0)
            rows, columns = is_other.any(1).nonzero().flatten(), is_other.any(0).nonzero().flatten()
            if not len(rows):
                continue
            box = (slice(None), slice(int(rows[0]), int(rows[-1]) + 1), slice(int(columns[0]), int(columns[-1]) + 1))
            expected = own.clone()
            expected[box] = other[box]
            assert torch.equal(got, expected)
            assert float(share) == pytest.approx(1 - len(rows) * len(columns) / (SIZE[0] * SIZE[1]), abs=1e-5)
            boxes.add((row if mode == "elem" else 0, str(box)))
    assert len(boxes) > 6


def test_the_middle_row_of_an_odd_batch_stays(folder):
    for plain, mixed in batches(folder, fb.MixUp(0.8), rows=5, mode="pair"):
        assert torch.equal(plain["x"][2], mixed["x"][2]) and torch.equal(plain["y"][2], mixed["y"][2])
        assert not torch.equal(plain["x"][1], mixed["x"][1])


def test_sides_of_a_box_are_between_bounds(folder):
    sides = set()
    for plain, mixed in batches(folder, fb.CutMix(minmax=(0.3, 0.8)), epochs=10, mode="elem"):
        for own, got in zip(plain["x"], mixed["x"], strict=True):
            is_other = (got != own).any(0)
            if is_other.any():
                sides.add((int(is_other.any(1).sum()), int(is_other.any(0).sum())))
    assert {height for height, _ in sides} == set(range(3, 9)) and {width for _, width in sides} == set(range(6, 16))


def test_labels_are_smoothed(folder):
    for smoothing in (0.1, 1.0):
        for plain, mixed in batches(folder, fb.MixUp(), p=0.5, smoothing=smoothing, mode="batch"):
            share = float(((plain["x"] - plain["x"].flip(0)) * (mixed["x"] - plain["x"].flip(0))).sum() / ((plain["x"] - plain["x"].flip(0)) ** 2).sum())
            smooth = plain["y"] * (1 - smoothing) + smoothing / COUNT
            assert torch.allclose(mixed["y"], smooth * share + smooth.flip(0) * (1 - share), atol=1e-4)


def test_weights_and_probabilities_count_for_each_row(folder):
    kinds = {"plain": 0, "blended": 0, "cut": 0}
    for plain, mixed in batches(folder, [fb.MixUp(), fb.CutMix(minmax=(0.4, 0.9))], epochs=10, mode="elem", p=0.8, weights=[1, 3]):
        for own, got in zip(plain["x"], mixed["x"], strict=True):
            changed = float((own != got).float().mean())
            kinds["plain" if changed == 0 else "blended" if changed > 0.9 else "cut"] += 1
    total = sum(kinds.values())
    assert abs(kinds["plain"] / total - 0.2) < 0.08 and abs(kinds["blended"] / total - 0.2) < 0.08


@pytest.mark.parametrize("rows", [8, 5])
def test_half_of_a_batch_keeps_the_mixed_rows(folder, rows):
    mix = fb.Mix([fb.MixUp(0.8)], mode="half", x=IMAGE, y=fb.OneHot("class", COUNT))
    arguments = {"local": folder, "batch_size": rows, "shuffle": True}
    fields = {"mix": mix, "class": fb.Scalar("class"), "list": fb.Image("image", fb.RandomResize(4, 9))}
    with (
        fb.Loader(fields={"x": IMAGE, "y": fb.OneHot("class", COUNT)}, **arguments) as plain,
        fb.Loader(fields=fields, **arguments) as mixed,
    ):
        shares = set()
        for number, (a, b) in enumerate(zip(plain, mixed, strict=True)):
            count = (len(a["x"]) + 1) // 2
            assert len(b["x"]) == len(b["y"]) == len(b["class"]) == len(b["list"]) == count
            assert torch.equal(b["class"], a["y"][:count].argmax(1))
            share = (a["y"][:count] * b["y"]).sum(1)
            share[a["y"][:count].argmax(1) == a["y"].flip(0)[:count].argmax(1)] = 1.0  # The middle row of an odd batch.
            for name in ("x", "y"):
                by = share.reshape(-1, *[1] * (a[name].dim() - 1))
                assert torch.allclose(b[name], a[name][:count] * by + a[name].flip(0)[:count] * (1 - by), atol=1e-5)
            shares |= set(share.tolist())
            state = mixed.state_dict() if number == 1 else None
            kept = (state, {name: b[name].clone() for name in ("x", "y")}) if state else kept if number > 1 else None
            following = {name: b[name].clone() for name in ("x", "y")} if number == 2 else following if number > 2 else None
        assert len(shares) > COUNT // 3
    with fb.Loader(fields=fields, **arguments) as resumed:
        resumed.load_state_dict(kept[0])
        batch = next(iter(resumed))
        assert all(torch.equal(batch[name], following[name]) for name in following)


@pytest.mark.parametrize("mode", ["previous", "elem"])
def test_labels_may_keep_the_drawn_share_of_a_box_that_is_cut_off(folder, mode):
    found = {True: [], False: []}
    for is_corrected in found:
        for plain, mixed in batches(folder, fb.CutMix(correct_lam=is_corrected), epochs=2, mode=mode):
            partners = plain["x"].roll(1, 0) if mode == "previous" else plain["x"].flip(0)
            for own, other, got, share in zip(plain["x"], partners, mixed["x"], shares_of(plain, mixed), strict=True):
                if (own != other).any():
                    found[is_corrected].append((float((got != own).any(0).float().mean()), float(share)))
    for (area, share), (same_area, drawn) in zip(found[True], found[False], strict=True):
        assert area == same_area and share == pytest.approx(1 - area, abs=1e-5)
        # The drawn box is at least as large, up to a row and a column that rounding adds.
        assert drawn <= share + 0.1
    assert sum(abs(share - drawn) > 0.02 for (_, share), (_, drawn) in zip(found[True], found[False], strict=True)) > 5


@pytest.fixture(scope="module")
def multi_label(tmp_path_factory):
    """Samples with several classes, and their matrix."""
    rng = np.random.default_rng(3)
    folder, labels = str(tmp_path_factory.mktemp("multi") / "set"), torch.zeros(COUNT, 9)
    with fb.MDSWriter(out=folder, columns={"image": "png", "ids": "ndarray:int32", "info": "json", "number": "int"}) as writer:
        for number in range(COUNT):
            ids = rng.choice(9, number % 4 + 1, replace=False).astype(np.int32)
            labels[number, ids] = 1
            picture = Image.fromarray(rng.integers(0, 256, (*SIZE, 3), dtype=np.uint8))
            info = {"ids": [*ids.tolist(), int(ids[0])] if number % 5 else []}
            writer.write({"image": picture, "ids": ids, "info": info, "number": number})
    return folder, labels


def test_several_classes_of_a_sample_are_mixed(multi_label):
    folder, labels = multi_label
    fields = {
        "mix": fb.Mix(fb.MixUp(), mode="elem", x=IMAGE, y=fb.MultiHot("ids", classes=9, smoothing=0.2)),
        "z": fb.MultiHot("info", "ids", classes=9, dtype="float16"),
        "number": fb.Scalar("number"),
    }
    with fb.Loader(local=folder, batch_size=10, fields=fields) as loader, fb.Loader(local=folder, batch_size=10, fields={"x": IMAGE}) as plain:
        for batch, own in zip(loader, plain, strict=True):
            smooth = labels[batch["number"]] * 0.8 + 0.1
            x, other = own["x"], own["x"].flip(0)
            share = ((x - other) * (batch["x"] - other)).flatten(1).sum(1) / ((x - other) ** 2).flatten(1).sum(1)
            assert torch.allclose(batch["y"], smooth * share[:, None] + smooth.flip(0) * (1 - share[:, None]), atol=1e-4)
            expected = labels[batch["number"]] * (batch["number"] % 5 > 0)[:, None]
            assert batch["z"].dtype == torch.float16 and torch.equal(batch["z"].float(), expected)


@pytest.mark.parametrize(
    ("field", "sentence"),
    [
        (fb.MultiHot("ids", classes=0), "classes of MultiHot is a whole number"),
        (fb.MultiHot("ids"), "classes of MultiHot is a whole number"),
        (fb.MultiHot("ids", classes=3, dtype="int64"), "dtype of MultiHot"),
        (fb.MultiHot("ids", classes=3, smoothing=2), "MultiHot needs `smoothing` from 0 to 1"),
        (fb.MultiHot("number", classes=3), "lists of classes need a column of arrays"),
    ],
)
def test_classes_that_cannot_be_have_a_reason(multi_label, field, sentence):
    with pytest.raises(fb.ConfigError, match=sentence):
        fb.Loader(local=multi_label[0], batch_size=2, fields={"y": field})


def test_a_class_outside_of_the_field_is_an_error_of_its_sample(multi_label):
    with fb.Loader(local=multi_label[0], batch_size=10, fields={"y": fb.MultiHot("ids", classes=3)}) as loader, pytest.raises(fb.DecodeError, match="raise `classes`"):
        list(loader)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: fb.Mix(fb.MixUp(), mode="quarter", x=IMAGE), "mode of Mix"),
        (lambda: fb.Mix(fb.MixUp(), x=IMAGE, y=fb.Array("class")), r"write MultiHot\('class', classes=...\)"),
        (lambda: fb.Mix(fb.CutMix(correct_lam=0.5), x=IMAGE), "correct_lam of CutMix"),
        (lambda: fb.Mix(fb.MixUp(), weights=[1, 2], x=IMAGE), "weights of Mix is a list of 1 numbers"),
        (lambda: fb.Mix(fb.MixUp(), weights=[0], x=IMAGE), "needs a weight of at least 0"),
        (lambda: fb.Mix(fb.CutMix(minmax=(0.5, 0.2)), x=IMAGE), "`minmax` as the smallest and the largest"),
        (lambda: fb.OneHot("class", COUNT, smoothing=1.5), "OneHot needs `smoothing` from 0 to 1"),
    ],
)
def test_a_mode_that_cannot_be_used_has_a_reason(folder, make, sentence):
    with pytest.raises(fb.ConfigError, match=sentence):
        fb.Loader(local=folder, batch_size=2, fields={"field": make()})

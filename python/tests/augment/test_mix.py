"""Samples of a batch that are mixed, compared with torchvision's functions for the same numbers."""

import io

import numpy as np
import pytest
import torch
from PIL import Image
from scipy import stats

import forebay as fb

COUNT, CLASSES, BATCH = 60, 5, 8

OPS = (fb.RandomResizedCrop((12, 20)), fb.RandomHorizontalFlip())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    rng = np.random.default_rng(2)
    folder = str(tmp_path_factory.mktemp("mix") / "set")
    with fb.MDSWriter(out=folder, columns={"image": "png", "class": "int"}) as writer:
        for number in range(COUNT):
            pixels = rng.integers(0, 256, (30, 40, 3), dtype=np.uint8)
            writer.write({"image": Image.fromarray(pixels), "class": number % CLASSES})
    return folder


def picture(dtype="float32", layout="NCHW"):
    normalise = () if dtype == "uint8" else (fb.Normalize(fb.IMAGENET_MEAN, fb.IMAGENET_STD),)
    return fb.Image("image", *OPS, *normalise, dtype=dtype, layout=layout)


def batches(folder, by, epochs=1, image=None, p=1.0, **options):
    """Returns pairs of batches, without and with the mix."""
    image, label = image or picture(), fb.OneHot("class", CLASSES)
    options = {"local": folder, "batch_size": BATCH, "shuffle": True, "order": fb.Order(augment_seed=3)} | options
    with (
        fb.Loader(fields={"x": image, "y": label}, **options) as plain,
        fb.Loader(fields={"mix": fb.Mix(by, p, x=image, y=label)}, **options) as mixed,
    ):
        for _ in range(epochs):
            for a, b in zip(plain, mixed, strict=True):
                yield {name: a[name].clone() for name in a}, {name: b[name].clone() for name in b}


def test_repeats_of_a_sample_are_not_mixed_together(folder):
    for rows in (9, 12):
        fields = {"mix": fb.Mix(fb.MixUp(0.5), x=picture(), y=fb.OneHot("class", CLASSES)), "class": fb.Scalar("class")}
        options = {"local": folder, "batch_size": rows, "shuffle": True, "order": fb.Order(repeat_augment=3, augment_seed=3)}
        with fb.Loader(fields=fields, **options) as loader:
            for batch in loader:
                partners = batch["class"].roll(3)
                both = torch.nn.functional.one_hot(batch["class"], CLASSES) + torch.nn.functional.one_hot(partners, CLASSES)
                assert torch.equal(batch["y"] > 0, both > 0)
    # Of one sample alone.
    with fb.Loader(fields=fields, **options | {"batch_size": 3}) as loader:
        assert all((batch["y"].amax(1) > 0.999).all() for batch in loader)


def share_of(plain, mixed):
    """Returns the share of the row itself in the labels, and None for a batch in which it cannot be seen."""
    for own, other, row in zip(plain["y"], plain["y"].roll(1, 0), mixed["y"], strict=True):
        if not torch.equal(own, other):
            return float(row[own.argmax()])
    return None


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_a_blend_is_torchvision_s(folder, layout):
    shares = []
    for plain, mixed in batches(folder, fb.MixUp(0.5), 3, picture(layout=layout)):
        share = share_of(plain, mixed)
        for name in ("x", "y"):
            expected = plain[name].roll(1, 0).mul(1.0 - share).add(plain[name].mul(share))
            assert torch.allclose(mixed[name], expected, atol=1e-6)
        shares.append(share)
    assert len(set(shares)) == len(shares)


@pytest.mark.parametrize(("dtype", "layout"), [("float32", "NCHW"), ("float16", "NHWC"), ("bfloat16", "NCHW"), ("uint8", "NHWC")])
def test_a_box_is_cut_from_the_row_before(folder, dtype, layout):
    for plain, mixed in batches(folder, fb.CutMix(), 2, picture(dtype, layout)):
        x, other, got = (t.permute(0, 3, 1, 2) if layout == "NHWC" else t for t in (plain["x"], plain["x"].roll(1, 0), mixed["x"]))
        is_other = (got != x).any(1).any(0)
        rows, columns = is_other.any(1).nonzero().flatten(), is_other.any(0).nonzero().flatten()
        share = share_of(plain, mixed)
        if not len(rows):
            assert share == 1.0
            continue
        box = (slice(None), slice(None), slice(int(rows[0]), int(rows[-1]) + 1), slice(int(columns[0]), int(columns[-1]) + 1))
        expected = x.clone()
        expected[box] = other[box]
        assert torch.equal(got, expected)
        assert share == pytest.approx(1 - len(rows) * len(columns) / (x.shape[2] * x.shape[3]), abs=1e-6)
        assert torch.allclose(mixed["y"], plain["y"] * share + plain["y"].roll(1, 0) * (1 - share), atol=1e-6)


@pytest.mark.parametrize("alpha", [0.4, 1.0])
def test_shares_have_the_beta_distribution(folder, alpha):
    shares = [share_of(*pair) for pair in batches(folder, fb.MixUp(alpha), 40)]
    assert stats.kstest(shares, stats.beta(alpha, alpha).cdf).pvalue > 1e-3


def test_a_list_of_operations_and_a_probability_are_drawn_for_each_batch(folder):
    kinds = {"plain": 0, "blended": 0, "cut": 0}
    for plain, mixed in batches(folder, [fb.MixUp(), fb.CutMix()], 40, p=0.8):
        if torch.equal(plain["y"], mixed["y"]) and torch.equal(plain["x"], mixed["x"]):
            kinds["plain"] += 1
        else:
            whole = (plain["x"] != mixed["x"]).flatten(1).float().mean() > 0.9
            kinds["blended" if whole else "cut"] += 1
    total = sum(kinds.values())
    # A box may be empty, or the whole picture: the bounds are wide.
    assert 0.1 * total < kinds["plain"] < 0.4 * total
    assert min(kinds["blended"], kinds["cut"]) > 0.25 * total


def test_a_resumed_loader_mixes_the_same_way(folder):
    options = {"local": folder, "batch_size": BATCH, "shuffle": True, "order": fb.Order(augment_seed=3)}
    fields = {"mix": fb.Mix([fb.MixUp(), fb.CutMix()], x=picture(), y=fb.OneHot("class", CLASSES))}
    with fb.Loader(fields=fields, **options) as loader:
        whole = [batch["x"].clone() for batch in loader]
    with fb.Loader(fields=fields, **options) as loader:
        rows = iter(loader)
        first = [next(rows)["x"].clone() for _ in range(3)]
        state = loader.state_dict()
    with fb.Loader(fields=fields, **options) as loader:
        loader.load_state_dict(state)
        rest = [batch["x"].clone() for batch in loader]
    assert all(torch.equal(a, b) for a, b in zip(whole, first + rest, strict=True))


def test_every_rank_mixes_its_batches_with_draws_that_differ(folder):
    parts = []
    for rank in range(2):
        world = fb.World(rank=rank, world_size=2, local_rank=rank, local_world_size=2)
        parts.append([share_of(*pair) for pair in batches(folder, fb.MixUp(), world=world)])
    assert all(a != b for a, b in zip(*parts, strict=True))


@pytest.mark.parametrize(
    ("field", "sentence"),
    [
        (fb.Mix(fb.MixUp(), x=fb.Image("image", *OPS), y=fb.OneHot("class", 5)), "MixUp needs pictures of a float type"),
        (fb.Mix(fb.MixUp(), x=fb.Image("image", dtype="float32")), "end the operations at a fixed size"),
        (fb.Mix(fb.MixUp(), y=fb.OneHot("class", 5)), "Mix needs an Image"),
        (fb.Mix(fb.MixUp(0), x=picture()), r"MixUp needs `alpha` from 0.01 to 1000 \(alpha 0,"),
        (fb.Mix([fb.MixUp(), fb.CutMix(-1)], x=picture()), r"CutMix needs `alpha` from 0.01 to 1000 \(alpha -1,"),
        (fb.Mix(fb.MixUp("0.2"), x=picture()), "alpha of MixUp is a number, but it is '0.2'"),
        (fb.Mix(fb.MixUp, x=picture()), r"such as MixUp\(0.2\), but it is <class"),
        (fb.Mix(0.2, x=picture()), r"such as MixUp\(0.2\), but it is 0.2"),
        (fb.Mix([], x=picture()), "Mix needs MixUp, CutMix or a list of them"),
        (fb.Mix(fb.CutMix(), 1.5, x=picture()), r"Mix needs `p` from 0 to 1 \(p 1.5,"),
        (fb.Mix("mixup", x=picture()), "by of Mix is forebay.MixUp, forebay.CutMix or a list"),
        (fb.OneHot("image", 5), "needs a column of numbers"),
    ],
)
def test_a_mix_that_cannot_be_made_has_a_reason(folder, field, sentence):
    with pytest.raises(fb.ConfigError, match=sentence):
        fb.Loader(local=folder, batch_size=2, fields={"field": field})


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: fb.Mix(fb.MixUp(), x=fb.Scalar("class")), r"only an Image, a OneHot or a MultiHot can be mixed: write OneHot\('class', classes=...\)"),
        (lambda: fb.Mix(fb.MixUp(), x=fb.Text("name")), "only an Image, a OneHot or a MultiHot can be mixed: leave it in the loader's fields"),
        (lambda: fb.Mix(fb.MixUp(), picture()), r'p of Mix is an argument, .* a different name, as in Mix\(MixUp\(0.2\), x=Image'),
        (lambda: fb.Image("image", fb.MixUp()), r"write Mix\(MixUp\(...\), x=Image\(...\), y=OneHot\(...\)\) in the loader's fields"),
    ],
)
def test_a_field_that_cannot_be_mixed_names_the_one_to_write(make, sentence):
    with pytest.raises(fb.ConfigError, match=sentence):
        make()


def test_a_class_beyond_the_last_is_an_error(folder):
    with fb.Loader(local=folder, batch_size=COUNT, fields={"y": fb.OneHot("class", CLASSES - 1)}) as loader:
        with pytest.raises(fb.DecodeError, match="raise `classes`"):
            next(iter(loader))


def test_rows_that_were_skipped_are_no_partners(tmp_path):
    folder = str(tmp_path / "set")
    with fb.MDSWriter(out=folder, columns={"image": "bytes", "class": "int"}) as writer:
        for number in range(16):
            file = io.BytesIO()
            Image.fromarray(np.full((20, 20, 3), 10 * number, np.uint8)).save(file, "PNG")
            writer.write({"image": b"damaged" if number in (0, 7, 15) else file.getvalue(), "class": 0})
    image = fb.Image("image", fb.CenterCrop(16), dtype="float32")
    options = {"local": folder, "batch_size": 16, "skip": fb.Skip(errors=10)}
    with (
        fb.Loader(fields={"x": image}, **options) as plain,
        fb.Loader(fields={"m": fb.Mix(fb.CutMix(), x=image)}, **options) as mixed,
    ):
        [[a], [b]] = (list(plain), list(mixed))
    assert len(a["x"]) == len(b["x"]) == 13
    changed = (a["x"] != b["x"]).flatten(1).any(1)
    assert changed.all() or not changed.any()
    rolled = a["x"].roll(1, 0)
    assert ((b["x"] == a["x"]) | (b["x"] == rolled)).all()

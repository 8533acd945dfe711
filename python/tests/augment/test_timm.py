"""timm's own transforms, translated: recipes, strengths, and the pixels of an evaluation."""

import math

import numpy as np
import pytest
from odd_pictures import augmented, drawn_steps, in_torchvision, write_odd_pictures
from PIL import Image
from policy_spaces import LEVEL_NAMES

import forebay as fb
from forebay.fields import specs

data = pytest.importorskip("timm.data", reason="timm is in the environment of python/scripts/frameworks.sh alone")
module = pytest.importorskip("timm.data.auto_augment")


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    return write_odd_pictures(tmp_path_factory.mktemp("odd") / "set", 40)


def spec(ops):
    return specs({"x": fb.Image("image", *ops)})[0][1]


RECIPES = [
    {},
    {"input_size": 224, "is_training": False, "crop_pct": 0.9, "interpolation": "bicubic"},
    {"is_training": False, "crop_mode": "squash"},
    {"is_training": True, "no_aug": True},
    {"is_training": True},
    {"is_training": True, "interpolation": "random", "re_prob": 0.25, "re_mode": "pixel"},
    {"is_training": True, "auto_augment": "rand-m9-mstd0.5-inc1", "re_prob": 0.25, "re_mode": "pixel", "re_count": 1},
    {"is_training": True, "auto_augment": "rand-m9-mstd0.5-inc1", "interpolation": "bicubic", "re_mode": "rand", "re_prob": 0.1},
    {"is_training": True, "re_mode": "rand", "re_prob": 0.9, "re_count": 3},
    {"is_training": True, "auto_augment": "rand-m7-n3-mstd101-mmax20", "vflip": 0.5},
    {"is_training": True, "auto_augment": "rand-m6-tweights"},
    {"is_training": True, "auto_augment": "3a", "color_jitter": 0.3},
    {"is_training": True, "auto_augment": "v0r-mstd0.5"},
    {"is_training": True, "auto_augment": "original"},
    {"is_training": True, "auto_augment": "augmix-m5-w4-d2"},
    {"is_training": True, "auto_augment": "augmix-b1-mstd0.5"},
    {"is_training": True, "color_jitter_prob": 0.8, "grayscale_prob": 0.2, "gaussian_blur_prob": 0.5},
    {"is_training": True, "normalize": False},
    {"is_training": True, "separate": True, "auto_augment": "rand-m9"},
    {"is_training": False, "crop_mode": "border", "crop_pct": 0.9},
    {"is_training": True, "train_crop_mode": "rkrc"},
    {"is_training": True, "train_crop_mode": "rkrr"},
    {"is_training": True, "re_prob": 0.25, "re_mode": "pixel", "re_num_splits": 3},
    {"is_training": False, "crop_border_pixels": 4},
    {"is_training": True, "use_prefetcher": True, "normalize": False, "scale": (0.2, 1.0), "ratio": (1.0, 1.0), "hflip": 0.0},
    # DeiT, MAE and ConvNeXt.
    {"is_training": True, "color_jitter": 0.3, "auto_augment": "rand-m9-mstd0.5-inc1", "interpolation": "bicubic", "re_prob": 0.25, "re_mode": "pixel"},
    {"is_training": True, "color_jitter": None, "auto_augment": "rand-m9-mstd0.5-inc1", "interpolation": "bicubic", "mean": (0.5,) * 3, "std": (0.5,) * 3},
]


@pytest.mark.parametrize("recipe", RECIPES)
def test_recipes_of_timm_are_translated(odd, recipe):
    ops = fb.from_timm(data.create_transform(**{"input_size": 224} | recipe))
    first, second = [op for op in ops if not isinstance(op, fb.TrimBorder)][:2]
    size = first.size if isinstance(first, fb.RandomResizedCrop) else second.size
    assert tuple(np.ravel([size])) in ((224, 224), (224,))
    folder, made = odd
    has_border = "crop_border_pixels" in recipe
    rows = augmented(folder, *ops, **({"skip": fb.Skip(errors=40)} if has_border else {}))
    large = [pixels for pixels in made if not has_border or min(pixels.shape[:2]) > 8]
    assert len(rows) == len(large) > 9 and all(row.shape == (3, 224, 224) for row in rows.values())
    assert next(iter(rows.values())).dtype == (np.uint8 if recipe.get("normalize") is False else np.float32)


@pytest.mark.parametrize("mode", ["center", "squash", "border"])
@pytest.mark.parametrize("border", [None, 3])
def test_evaluation_has_the_pixels_of_timm(odd, mode, border):
    folder, made = odd
    transform = data.create_transform(64, interpolation="bicubic", crop_pct=0.9, crop_mode=mode, crop_border_pixels=border)
    options = {} if border is None else {"skip": fb.Skip(errors=len(made))}  # Of small pictures nothing is left.
    for number, row in augmented(folder, *fb.from_timm(transform), **options).items():
        expected = transform(Image.fromarray(made[number])).numpy()
        assert np.abs(row - expected).max() < 1e-5, number


@pytest.mark.parametrize("name", LEVEL_NAMES)
@pytest.mark.parametrize("level", [0, 3, 9, 10])
def test_strengths_are_as_in_timm(name, level):
    hparams = {"translate_const": 100, "img_mean": (1, 2, 3), "interpolation": Image.Resampling.BICUBIC}
    op = module.AugmentOp(name, 1.0, level, hparams)
    function = "Random" if name == "GaussianBlurRand" else op.level_fn
    picture = Image.fromarray(np.random.default_rng(1).integers(0, 256, (30, 40, 3), dtype=np.uint8))
    field = fb.Image("image", *fb.from_timm(module.RandAugment([op], 1)))
    mine = {in_torchvision(picture, drawn_steps(field, np.asarray(picture), draw)).tobytes() for draw in range(30)}
    if function == "Random":
        return
    if name.startswith("Posterize") and op.level_fn(level, hparams)[0] == 0:
        return  # Pillow refuses to keep no bits.
    assert mine == {op(picture).tobytes() for _ in range(30)}


def test_policies_are_drawn_as_by_timm():
    hparams = {"translate_const": 100, "img_mean": (1, 2, 3)}
    weighted = fb.from_timm(module.rand_augment_transform("rand-m5-n2-t3aw-mstd0.7-inc1", dict(hparams)))[0]
    assert weighted.count == 2 and math.isclose(sum(weighted.weights), 1) and weighted.magnitude_std == 0.7
    assert {choice[0][0] for choice in weighted.choices} >= {"Desaturate", "GaussianBlur"}
    auto = fb.from_timm(module.auto_augment_transform("original", dict(hparams)))[0]
    assert len(auto.choices) == 25 and auto.count == 1 and auto.fill == (1, 2, 3) and auto.translate_const == 100
    uniform = fb.from_timm(module.rand_augment_transform("rand-m9-mstd101", dict(hparams)))[0]
    assert uniform.is_uniform and uniform.magnitude_std == 0


def chains_of(steps):
    """Returns the chains of a mixture, with their weights, and the mixture's share of the blend."""
    chains, chain = [], []
    steps = [step for step in steps if "action" in step]
    assert steps[0] == {"action": "start_mixture", "weight": 0.0}
    for step in steps[1:-1]:
        chain.append(step)
        if step["action"] == "add_to_mixture":
            chains.append((chain[:-1], step["weight"]))
            chain = []
    assert steps[-1]["action"] == "blend_mixture" and not chain
    return chains, steps[-1]["share"]


def test_mixtures_have_the_pixels_of_timm(odd, monkeypatch):
    folder, made = odd
    mixing = module.augment_and_mix_transform("augmix-m5-w4-d2", {"translate_pct": 0.3, "img_mean": (1, 2, 3)})
    ops = fb.from_timm([mixing])
    field = fb.Image("image", *ops)
    for number, row in augmented(folder, *ops).items():
        chains, share = chains_of(drawn_steps(field, made[number], number))
        queue = [[lambda picture, step=step: in_torchvision(picture, [step]) for step in chain] for chain, _ in chains]
        monkeypatch.setattr(module.np.random, "choice", lambda *_, queue=queue, **__: queue.pop(0))
        picture = Image.fromarray(made[number])
        expected = mixing._apply_basic(picture, np.float32([weight for _, weight in chains]), np.float32(share))
        assert np.abs(row.transpose(1, 2, 0).astype(int) - np.asarray(expected)).max() <= 1, number
        assert not queue


def test_mixtures_are_drawn_as_by_timm():
    stats = pytest.importorskip("scipy.stats")
    for text, depths in [("augmix-m5-w4-d2", {2}), ("augmix-w2", {1, 2, 3})]:
        mixing = module.augment_and_mix_transform(text, {"translate_pct": 0.3})
        field = fb.Image("image", *fb.from_timm(mixing))
        ours = [chains_of(fb.drawn(field, (200, 100), name="x", augment_seed=1, draw=draw)) for draw in range(600)]
        shares = np.random.default_rng(1).beta(1, 1, 2000)
        assert stats.ks_2samp([share for _, share in ours], shares).pvalue > 1e-3
        weights = np.random.default_rng(2).dirichlet([1.0] * mixing.width, 2000)[:, 0]
        assert stats.ks_2samp([chains[0][1] for chains, _ in ours], weights).pvalue > 1e-3
        assert all(len(chains) == mixing.width and math.isclose(sum(weight for _, weight in chains), 1) for chains, _ in ours)
        # A posterisation to 8 bits changes nothing, and has no step.
        assert max(len(chain) for chains, _ in ours for chain, _ in chains) == max(depths)
        assert {len(chain) for chains, _ in ours for chain, _ in chains} >= depths


@pytest.mark.parametrize(("least", "most"), [(3, 3), (2, 5), (1, 3)])
def test_erased_boxes_are_as_many_and_as_large_as_timm_draws(least, most):
    stats = pytest.importorskip("scipy.stats")
    # A box of a share that small is never drawn in vain.
    erasing = pytest.importorskip("timm.data.random_erasing").RandomErasing(1.0, 0.1, 0.2, min_count=least, max_count=most, device="cpu")
    (op,) = fb.from_timm([erasing])
    assert (op.min_count, op.count) == (least, most)
    field = fb.Image("image", op)
    ours = [[step for step in fb.drawn(field, (200, 100), name="x", augment_seed=1, draw=draw) if step.get("action") == "erase"] for draw in range(600)]
    counts = [len(boxes) for boxes in ours]
    assert set(counts) == set(range(least, most + 1))
    if least < most:
        assert stats.chisquare([counts.count(number) for number in range(least, most + 1)]).pvalue > 1e-3
    for boxes in ours:
        assert all(0.08 <= box["h"] * box["w"] * len(boxes) / 20000 <= 0.22 for box in boxes)


def test_transforms_without_a_translation_are_named():
    transforms = pytest.importorskip("timm.data.transforms")
    assert fb.from_timm([transforms.TrimBorder(3)]) == [fb.TrimBorder(3)]
    with pytest.raises(fb.ConfigError, match="from_timm cannot translate .*OtherTensor.*there is no such operation"):
        fb.from_timm([type("OtherTensor", (), {"__module__": transforms.__name__})()])
    with pytest.raises(fb.ConfigError, match="pass the transforms to from_timm"):
        fb.from_torchvision(data.create_transform(224))


def test_torch_normalises_as_timm(odd):
    ops = fb.from_timm(data.create_transform(32, mean=(0.5,) * 3, std=(0.25,) * 3))
    assert spec(ops) == spec([fb.Resize(36), fb.CenterCrop(32), fb.Normalize((0.5,) * 3, (0.25,) * 3)])


def mixup(**arguments):
    return pytest.importorskip("timm.data.mixup").Mixup(**{"num_classes": 9, "label_smoothing": 0.1} | arguments)


def test_a_mixup_is_translated():
    x, y = fb.Image("image", fb.CenterCrop(8), dtype="float32"), fb.OneHot("class", 9)
    smooth = fb.OneHot("class", 9, smoothing=0.1)
    for arguments, expected in [
        ({"mixup_alpha": 0.8, "cutmix_alpha": 1.0}, fb.Mix([fb.MixUp(0.8), fb.CutMix(1.0)], 1.0, "batch", [0.5, 0.5], x=x, y=smooth)),
        ({"mixup_alpha": 0.2, "mode": "elem", "prob": 0.7}, fb.Mix([fb.MixUp(0.2)], 0.7, "elem", x=x, y=smooth)),
        ({"mixup_alpha": 0.0, "cutmix_minmax": [0.2, 0.8], "mode": "pair"}, fb.Mix([fb.CutMix(1.0, (0.2, 0.8))], 1.0, "pair", x=x, y=smooth)),
    ]:
        assert fb.from_timm(mixup(**arguments), x=x, y=y)._spec() == expected._spec()
    cut = {"cutmix_alpha": 1.0, "mixup_alpha": 0.0}
    kept = fb.Mix([fb.CutMix(1.0, correct_lam=False)], 1.0, "batch", x=x, y=smooth)
    assert fb.from_timm(mixup(**cut, correct_lam=False), x=x, y=y)._spec() == kept._spec()
    # The class takes an unknown mode for "batch", and its collation keeps half of the batch.
    assert fb.from_timm(mixup(mode="half"), x=x, y=y).mode == "batch"
    collate = pytest.importorskip("timm.data.mixup").FastCollateMixup
    assert fb.from_timm(collate(mode="half", num_classes=9), x=x, y=y).mode == "half"
    with pytest.raises(fb.ConfigError, match="it mixes nothing"):
        fb.from_timm(mixup(mixup_alpha=0.0), x=x, y=y)
    several = fb.MultiHot("class", classes=9)
    with pytest.raises(fb.ConfigError, match="write a OneHot, or pass multi_label=True"):
        fb.from_timm(mixup(), x=x, y=several)
    if hasattr(mixup(), "multi_label"):
        mixed = fb.from_timm(mixup(multi_label=True), x=x, y=several)
        assert mixed.fields["y"] == fb.MultiHot("class", classes=9, smoothing=0.1)
        with pytest.raises(fb.ConfigError, match="write a MultiHot"):
            fb.from_timm(mixup(multi_label=True), x=x, y=y)
    with pytest.raises(fb.ConfigError, match="num_classes=9"):
        fb.from_timm(mixup(), x=x, y=fb.OneHot("class", 8))
    with pytest.raises(fb.ConfigError, match="only for timm's Mixup"):
        fb.from_timm(data.create_transform(224), x=x)


def test_boxes_of_a_mix_have_timm_s_distribution(odd):
    stats = pytest.importorskip("scipy.stats")
    rand_bbox = pytest.importorskip("timm.data.mixup").rand_bbox
    size, ours = (30, 41), []
    image = fb.Image("image", fb.Resize(size), dtype="float32")
    options = {"local": odd[0], "batch_size": 10, "shuffle": True}
    with (
        fb.Loader(fields={"x": image}, **options) as plain,
        fb.Loader(fields={"mix": fb.Mix(fb.CutMix(), mode="elem", x=image)}, **options) as mixed,
    ):
        for _ in range(60):
            for a, b in zip(plain, mixed, strict=True):
                for own, other, got in zip(a["x"], a["x"].flip(0), b["x"], strict=True):
                    if (own != other).any(0).all():  # Otherwise the box cannot be seen.
                        rows, columns = ((got != own).any(0).any(axis).nonzero().flatten() for axis in (1, 0))
                        ours.append((rows[0], rows[-1] + 1, columns[0], columns[-1] + 1) if len(rows) else None)
    rng = np.random.default_rng(1)
    np.random.seed(4)
    theirs = [rand_bbox((3, *size), rng.beta(1.0, 1.0)) for _ in range(1500)]
    theirs = [box for box in theirs if box[0] < box[1] and box[2] < box[3]]
    ours = [box for box in ours if box is not None]
    assert len(ours) > 300
    for mine, other in zip(np.array(ours, float).T, np.array(theirs, float).T, strict=True):
        assert stats.ks_2samp(mine, other).pvalue > 1e-3

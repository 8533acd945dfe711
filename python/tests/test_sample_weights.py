"""Weights of samples and balanced classes: draws with replacement, on any number of ranks and after a resume."""

import io
import json
import tarfile
from collections import Counter

import numpy as np
import pytest
from loaders import NUMBER, numbers, ordered
from picture_set import CLASSES, SAMPLES, write_pictures

import forebay as fb
from forebay import streaming
from forebay.__main__ import main

torch = pytest.importorskip("torch")

EPOCHS = 60
CLASS_SAMPLES = [300, 100, 30, 10, 3]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    return write_pictures(tmp_path_factory.mktemp("weighted") / "set")


@pytest.fixture(scope="module")
def classes(tmp_path_factory):
    """Classes of different sizes, as numbers and text, with weights."""
    folder = tmp_path_factory.mktemp("classes") / "set"
    order = np.random.default_rng(2).permutation(np.repeat(np.arange(len(CLASS_SAMPLES)), CLASS_SAMPLES))
    columns = {"number": "int", "class": "int", "name": "str", "w": "float32", "many": "ndarray:int32"}
    with fb.MDSWriter(out=folder, columns=columns, size_limit=1 << 12) as writer:
        for number, label in enumerate(order.tolist()):
            row = {"number": number, "class": label, "name": f"class {label}", "w": np.float32(number % 4)}
            writer.write(row | {"many": np.arange(number % 5 + 1, dtype=np.int32)})
    return str(folder), order


def chi_square(counts, weights):
    """Deviation of counts from weights, in standard deviations of chi-square."""
    expected = np.asarray(weights, float) / np.sum(weights) * np.sum(counts)
    assert not np.any(np.asarray(counts)[expected == 0])
    counts, expected = np.asarray(counts)[expected > 0], expected[expected > 0]
    freedom = len(expected) - 1
    return (np.sum((counts - expected) ** 2 / expected) - freedom) / np.sqrt(2 * freedom)


def drawn(folder, epochs=EPOCHS, samples=SAMPLES, **select):
    """Draws of each sample in some epochs, for the numbers of `samples`."""
    with ordered(folder, shuffle=True, select=fb.Select(**select)) as loader:
        found = Counter(number for _ in range(epochs) for batch in numbers(loader) for number in batch)
    return np.array([found[number] for number in range(samples)])


WEIGHTS = np.random.default_rng(5).gamma(0.7, size=SAMPLES)
WEIGHTS[::9] = 0


def test_draws_are_in_proportion_to_the_weights_as_in_torch(pictures):
    ours = drawn(pictures, weights=WEIGHTS)
    generator = torch.Generator().manual_seed(1)
    sampler = torch.utils.data.WeightedRandomSampler(WEIGHTS, SAMPLES * EPOCHS, replacement=True, generator=generator)
    theirs = np.bincount(np.array(list(sampler)), minlength=SAMPLES)
    assert ours.sum() == theirs.sum()
    # Seeds are fixed, so that the deviations are always the same.
    assert abs(chi_square(ours, WEIGHTS)) < 4 and abs(chi_square(theirs, WEIGHTS)) < 4


def test_draws_of_one_epoch_are_independent_as_in_torch(pictures):
    """The number of samples that an epoch draws twice, thrice and so on, with equal weights."""

    def repeats(epochs):
        return np.mean([np.bincount(list(Counter(epoch).values()), minlength=9)[:9] for epoch in epochs], axis=0)

    with ordered(pictures, shuffle=True, select=fb.Select(weights=[1.0] * SAMPLES)) as loader:
        ours = repeats([sum(numbers(loader), []) for _ in range(EPOCHS)])
    generator = torch.Generator().manual_seed(1)
    sampler = torch.utils.data.WeightedRandomSampler([1.0] * SAMPLES, SAMPLES, replacement=True, generator=generator)
    theirs = repeats([list(sampler) for _ in range(EPOCHS)])
    # 200 draws of 200 samples: about 74 samples once, 37 twice, 12 three times.
    assert np.all(np.abs(ours - theirs) < 3), (ours, theirs)


@pytest.mark.parametrize("form", ["list", "array", "tensor", "float32", "file", "path"])
def test_weights_are_lists_arrays_tensors_and_files(pictures, tmp_path, form):
    np.save(tmp_path / "weights.npy", WEIGHTS)
    forms = {
        "list": WEIGHTS.tolist(),
        "array": WEIGHTS,
        "tensor": torch.tensor(WEIGHTS),
        "float32": WEIGHTS.astype(np.float32),
        "file": str(tmp_path / "weights.npy"),
        "path": tmp_path / "weights.npy",
    }
    assert drawn(pictures, 2, weights=forms[form]).tolist() == drawn(pictures, 2, weights=WEIGHTS).tolist()


def global_batches(folder, ranks, state=None, batch=16, **arguments):
    steps = []
    for rank in range(ranks):
        world = fb.World(rank=rank, world_size=ranks, local_rank=rank, local_world_size=ranks)
        with ordered(folder, shuffle=True, batch_size=batch // ranks, world=world, **arguments) as loader:
            if state is not None:
                loader.load_state_dict(state)
            steps.append(numbers(loader))
    assert len({len(of_rank) for of_rank in steps}) == 1
    return [sorted(sum(step, [])) for step in zip(*steps, strict=True)]


@pytest.mark.parametrize("algo", ["py1e", "py1s", "naive"])
def test_global_batches_are_equal_on_any_number_of_ranks_and_after_a_resume(pictures, algo):
    options = {"select": fb.Select(weights=WEIGHTS), "order": fb.Order(shuffle_algo=algo, num_canonical_nodes=2)}
    whole = global_batches(pictures, 1, **options)
    for ranks in (2, 8):
        assert global_batches(pictures, ranks, **options)[:-1] == whole[:-1]
    world = fb.World(rank=0, world_size=2, local_rank=0, local_world_size=2)
    with ordered(pictures, shuffle=True, world=world, batch_size=8, **options) as loader:
        batches = iter(loader)
        for _ in range(5):
            next(batches)
        state = json.loads(json.dumps(loader.state_dict()))
        assert len(json.dumps(state)) < 1000
    for ranks in (1, 4):
        assert global_batches(pictures, ranks, state, **options)[:-1] == whole[5:-1]


def test_an_epoch_has_as_many_draws_as_epoch_size_or_samples(pictures):
    for size in (None, 57, 1000):
        with ordered(pictures, select=fb.Select(weights=WEIGHTS), order=fb.Order(epoch_size=size)) as loader:
            assert sum(len(batch) for batch in numbers(loader)) == (size or SAMPLES)


def test_repeats_of_a_draw_have_their_own_crops(pictures):
    crop = {"x": fb.Image("image", fb.RandomResizedCrop(16)), **NUMBER}
    weights = np.zeros(SAMPLES)
    weights[7] = 1
    with fb.Loader(
        local=pictures,
        select=fb.Select(weights=weights),
        fields=crop,
        batch_size=32,
        framework="numpy",
        order=fb.Order(epoch_size=32),
    ) as loader:
        (batch,) = loader
        assert batch["number"].tolist() == [7] * 32
        assert len({row.tobytes() for row in np.asarray(batch["x"])}) == 32


def test_weights_combine_with_the_mix_of_streams(pictures):
    streams = [
        fb.Stream(local=pictures, select=fb.Select(weights=WEIGHTS), proportion=3),
        fb.Stream(local=pictures, select=fb.Select(subset="0:10"), proportion=1),
    ]
    with fb.Loader(
        streams=streams, fields=NUMBER, order=fb.Order(epoch_size=400), batch_size=16, shuffle=True, extra=["sample_ids"]
    ) as loader:
        batches = [(batch["sample_ids"][:, 0], batch["number"]) for batch in loader]
    stream, number = (torch.cat(part) for part in zip(*batches, strict=True))
    assert [int((stream == place).sum()) for place in range(2)] == [300, 100]
    assert int(number[stream == 1].max()) < 10 and not set(number[stream == 0].tolist()) & set(range(0, SAMPLES, 9))
    # The loader's weights are the weights of the streams without any.
    streams = [fb.Stream(local=pictures, select=fb.Select(balance="class")), fb.Stream(local=pictures)]
    with fb.Loader(streams=streams, select=fb.Select(weights=WEIGHTS), fields=NUMBER, batch_size=16) as loader:
        assert len(sum(numbers(loader), [])) == 2 * SAMPLES


@pytest.mark.parametrize("column", ["class", "name"])
def test_balanced_classes_are_drawn_equally_often(classes, column):
    folder, order = classes
    counts = drawn(folder, 20, len(order), balance=column)
    by_class = np.bincount(order, weights=counts)
    assert by_class.sum() == 20 * len(order)
    assert abs(chi_square(by_class, np.ones(len(CLASS_SAMPLES)))) < 4
    assert abs(chi_square(counts, (1 / np.array(CLASS_SAMPLES))[order])) < 4
    with ordered(folder, select=fb.Select(balance=column)) as loader:
        numbers(loader)
        assert "filter_shards_read" not in loader.stats()["counters"], "the answers were kept"


def test_classes_are_counted_among_the_samples_that_are_kept(classes):
    folder, order = classes
    kept = np.flatnonzero((order != 0) | (np.arange(len(order)) < 50))
    counts = drawn(folder, 20, len(order), balance="class", subset=kept, filter="class < 3")
    kept = kept[order[kept] < 3]
    assert set(np.flatnonzero(counts)) <= set(kept.tolist())
    by_class = np.bincount(order, weights=counts)[:3]
    assert abs(chi_square(by_class, np.ones(3))) < 4


def test_a_column_of_weights_equals_an_array_of_them(classes):
    folder, order = classes
    weights = np.arange(len(order)) % 4
    by_column = drawn(folder, 2, len(order), weights="w")
    assert by_column.tolist() == drawn(folder, 2, len(order), weights=weights).tolist()
    with ordered(folder, select=fb.Select(weights="w")) as one, ordered(folder, select=fb.Select(weights=weights)) as other:
        other.load_state_dict(one.state_dict())
    # An array has a number for every sample, kept or not.
    subset = np.arange(100, 300)
    assert drawn(folder, 2, len(order), weights="w", subset=subset).tolist() == drawn(folder, 2, len(order), weights=weights, subset=subset).tolist()


@pytest.mark.parametrize("kind", ["jsonl", "csv", "tar"])
def test_weights_and_classes_are_columns_of_more_formats(tmp_path, kind):
    weights = (np.arange(120) % 3).tolist()
    fields = NUMBER
    if kind == "tar":
        with tarfile.open(tmp_path / "set.tar", "w") as tar:
            for number, weight in enumerate(weights):
                body = json.dumps({"number": number, "w": weight, "kind": f"kind {weight}"}).encode()
                info = tarfile.TarInfo(f"{number:03}.json")
                info.size = len(body)
                tar.addfile(info, io.BytesIO(body))
        remote, fields = str(tmp_path / "set.tar"), {"number": fb.Json("json", "number", dtype="int64")}
        columns = ("json.w", "json.kind")
    else:
        made = {"jsonl": streaming.JSONWriter, "csv": streaming.CSVWriter}[kind]
        with made(out=str(tmp_path / "set"), columns={"number": "int", "w": "float", "kind": "str"}, size_limit=1 << 10) as writer:
            for number, weight in enumerate(weights):
                writer.write({"number": number, "w": float(weight), "kind": f"kind {weight}"})
        remote, columns = str(tmp_path / "set"), ("w", "kind")

    def epoch(**arguments):
        with fb.Loader(
            remote=remote, fields=fields, batch_size=10, shuffle=True, order=fb.Order(epoch_size=3000), **arguments
        ) as loader:
            return sum(numbers(loader), [])

    found = epoch(select=fb.Select(weights=columns[0]))
    assert found == epoch(select=fb.Select(weights=weights)) and all(weights[number] for number in found)
    by_kind = Counter(weights[number] for number in epoch(select=fb.Select(balance=columns[1])))
    assert abs(chi_square([by_kind[weight] for weight in range(3)], [1, 1, 1])) < 4


def test_weights_that_are_none_are_rejected_with_the_change(pictures, classes, tmp_path):
    bad = np.ones(SAMPLES)

    def changed(number, value):
        weights = bad.copy()
        weights[number] = value
        return weights

    np.save(tmp_path / "square.npy", bad.reshape(2, -1))
    (tmp_path / "text.npy").write_text("1\n2\n")
    for weights, message in [
        (changed(3, -1), r"and not -1 \(number 3"),
        (changed(3, np.nan), r"and not NaN \(number 3"),
        (changed(3, np.inf), r"and not inf \(number 3"),
        (changed(3, -1).tolist(), r"weights\[3\] is a number"),
        (np.zeros(SAMPLES), "weights of all samples are 0"),
        (bad[:-1], r"a different length \(.*numbers 199, samples 200"),
        (bad.reshape(2, -1), "one dimension"),
        (np.array(["a"] * SAMPLES), "array of <U1"),
        (tmp_path / "square.npy", "with one dimension"),
        (tmp_path / "text.npy", "a different kind of file"),
        (tmp_path / "weights.txt", "ends with .npy"),
        ("nothing.npy", "a name that ends with .npy is a file"),
        ("x", r'weights cannot be "x": there is no column `x`'),
        ("name", r'weights cannot be "name": the column has text'),
        ("image", r'weights cannot be "image": the column `image` is jpeg'),
        (3, "a number for each sample"),
        ({}, "a number for each sample"),
        (set(range(SAMPLES)), "a number for each sample"),
        (dict.fromkeys(range(SAMPLES)).keys(), "a number for each sample"),
    ]:
        with pytest.raises((fb.ConfigError, fb.errors.NotFoundError), match=message):
            ordered(pictures, select=fb.Select(weights=weights))
    with pytest.raises(fb.ConfigError, match=r'balance cannot be "many": the column `many`'):
        ordered(classes[0], select=fb.Select(balance="many"))
    with pytest.raises(fb.ConfigError, match="only one of weights and balance"):
        ordered(pictures, select=fb.Select(weights=bad, balance="class"))
    with pytest.raises(fb.ConfigError, match="weights of all samples are 0"):
        ordered(pictures, select=fb.Select(weights=WEIGHTS, subset=[0, 9, 18]))


def test_a_sample_without_its_number_is_named(tmp_path):
    with fb.MDSWriter(out=tmp_path / "set", columns={"number": "int", "w": "json", "meta": "json"}) as writer:
        for number in range(20):
            writer.write({"number": number, "w": {"v": "much" if number == 12 else 1.5}, "meta": {} if number == 13 else {"class": 1}})
    folder = str(tmp_path / "set")
    with pytest.raises(fb.ConfigError, match=r"a sample has no number in the column `w.v`: leave such samples out .*sample 12"):
        ordered(folder, select=fb.Select(weights="w.v"))
    with pytest.raises(fb.ConfigError, match=r"no value that is a class in the column `meta.class`.*sample 13"):
        ordered(folder, select=fb.Select(balance="meta.class"))
    with ordered(folder, select=fb.Select(balance="meta.class", filter="meta.class is not null")) as loader:
        assert 13 not in sum(numbers(loader), [])
    # The number in the stream, and not among the kept samples.
    with pytest.raises(fb.ConfigError, match="sample 12"):
        ordered(folder, select=fb.Select(weights="w.v", subset="10:20"))


def test_a_state_is_of_its_weights(pictures):
    with (
        ordered(pictures, select=fb.Select(weights=WEIGHTS)) as weighted,
        ordered(pictures) as plain,
        ordered(pictures, select=fb.Select(balance="class")) as balanced,
    ):
        for one, other, message in [
            (weighted, plain, "sample weights was weights=an array and is none"),
            (plain, weighted, "sample weights was none and is weights=an array"),
            (weighted, balanced, 'sample weights was weights=an array and is balance="class"'),
        ]:
            with pytest.raises(fb.StateError, match=message):
                other.load_state_dict(one.state_dict())


def test_samples_of_a_step_its_replay_and_the_file_of_a_run_are_those_that_were_delivered(pictures, tmp_path, capfd):
    with ordered(pictures, select=fb.Select(weights=WEIGHTS), shuffle=True) as loader:
        delivered = numbers(loader)
        loader.save_run(tmp_path / "run.json")
        for step in (0, 3, 11):
            assert [sample.number for sample in loader.samples_of(step)] == delivered[step]
            assert loader.replay(step)["number"].tolist() == delivered[step]
    assert main(["which", "--json", str(tmp_path / "run.json"), "--step", "3"]) == 0
    assert [json.loads(line)["number"] for line in capfd.readouterr().out.splitlines()] == delivered[3]


def test_classes_of_pictures_are_balanced(pictures):
    counts = drawn(pictures, 20, balance="class")
    by_class = np.bincount(np.arange(SAMPLES) % CLASSES, weights=counts)
    assert abs(chi_square(by_class, np.ones(CLASSES))) < 4

"""Parts of streams: the samples that are kept, on any number of ranks, and checkpoints of them."""

import io
import json
import os
import tarfile

import numpy as np
import pytest
from loaders import NUMBER, numbers, ordered
from picture_set import SAMPLES, write_pictures

import forebay as fb
from forebay import streaming

torch = pytest.importorskip("torch")

WEIGHTS = [{}, {"repeat": 1.5}, {"choose": 37}]


def mds(folder, kept, sizes):
    """Writes the samples `kept` with shards of `sizes`, the rest in the last one."""
    index = {"version": 2, "shards": []}
    kept = list(kept)
    os.makedirs(folder)
    for shard, size in enumerate(sizes):
        part, kept = (kept[:size], kept[size:]) if shard + 1 < len(sizes) else (kept, [])
        if not part:
            continue
        with fb.MDSWriter(out=folder / f"{shard}", columns={"number": "int", "pad": "bytes"}) as writer:
            for number in part:
                writer.write({"number": number, "pad": b"."})
        (entry,) = json.loads((folder / f"{shard}/index.json").read_text())["shards"]
        entry["raw_data"]["basename"] = f"{shard}/{entry['raw_data']['basename']}"
        index["shards"].append(entry)
    (folder / "index.json").write_text(json.dumps(index))
    return str(folder)


def jsonl(folder, count):
    with streaming.JSONWriter(out=str(folder), columns={"number": "int"}, size_limit=1 << 10) as writer:
        for number in range(count):
            writer.write({"number": number})
    return str(folder)


def csv(folder, count):
    with streaming.CSVWriter(out=str(folder), columns={"number": "int"}, size_limit=1 << 10) as writer:
        for number in range(count):
            writer.write({"number": number})
    return str(folder)


def splitmix(seed, count):
    """The documented order of a fraction, in numpy."""

    def mix(x):
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))

    with np.errstate(over="ignore"):
        state = mix(np.full(1, seed, np.uint64))
        return mix(state + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15))


def part(bounds, seed, count):
    """Mask of a fraction, from the sorted hashes."""
    order = np.argsort(splitmix(seed, count))
    first, end = (round(bound * count) for bound in bounds)
    mask = np.zeros(count, bool)
    mask[order[first:end]] = True
    return mask


def epoch(folder, world_size=1, **arguments):
    """The numbers of an epoch on all ranks."""
    ranks = []
    for rank in range(world_size):
        world = fb.World(rank=rank, world_size=world_size, local_rank=rank, local_world_size=world_size)
        with ordered(folder, world=world, order=fb.Order(num_canonical_nodes=1), **arguments) as loader:
            ranks.append(numbers(loader))
    return ranks


def test_a_subset_is_a_mask_of_the_stream_on_any_number_of_ranks(pictures, tmp_path):
    generator = np.random.default_rng(3)
    masks = [generator.random(SAMPLES) < share for share in (0.02, 0.5, 0.9)] + [np.arange(SAMPLES) // 50 % 2 == 1]
    for number, mask in enumerate(masks):
        kept = np.flatnonzero(mask).tolist()
        np.save(tmp_path / f"{number}.npy", mask)
        for subset in (kept, np.flatnonzero(mask).astype(np.int32), torch.tensor(kept), tmp_path / f"{number}.npy"):
            with ordered(pictures, select=fb.Select(subset=subset)) as loader:
                assert sum(numbers(loader), []) == kept
        for ranks in (1, 2, 4, 8):
            delivered = sum(sum(epoch(pictures, ranks, select=fb.Select(subset=kept), shuffle=True, batch_size=4), []), [])
            assert set(delivered) == set(kept) and len(delivered) - len(kept) < ranks


@pytest.mark.parametrize("empty", [False, True], ids=["full", "an empty shard"])
def test_the_order_equals_the_order_of_a_data_set_with_only_the_kept_samples(tmp_path, empty):
    sizes = [40, 30, 50, 80]
    whole = mds(tmp_path / "whole", range(200), sizes)
    mask = np.random.default_rng(6).random(200) < 0.4
    mask[40:70] &= not empty
    starts = np.cumsum([0, *sizes])
    kept = np.flatnonzero(mask)
    small = mds(tmp_path / "small", kept.tolist(), [int(mask[a:b].sum()) for a, b in zip(starts, starts[1:])])
    for algo in ("py1e", "py1br", "py1s", "py2s", "naive"):
        # Draws of single samples depend on shards without any, as in the reference.
        for weights in WEIGHTS[:1] if empty else WEIGHTS:
            order = {
                "shuffle": True,
                "order": fb.Order(shuffle_algo=algo, num_canonical_nodes=2),
                "batch_size": 8,
                "fields": NUMBER,
            }
            found = []
            for stream in (fb.Stream(local=whole, select=fb.Select(subset=kept), **weights), fb.Stream(local=small, **weights)):
                with fb.Loader(streams=[stream], **order) as loader:
                    found.append([numbers(loader) for _ in range(2)])
            assert found[0] == found[1], (algo, weights)


@pytest.mark.parametrize("write", [jsonl, csv])
def test_all_formats_have_subsets_too(tmp_path, write):
    folder = write(tmp_path / "set", 500)
    assert len(os.listdir(folder)) > 3
    kept = np.flatnonzero(np.random.default_rng(1).random(500) < 0.3)
    assert set(sum(sum(epoch(folder, 2, select=fb.Select(subset=kept), shuffle=True), []), [])) == set(kept.tolist())


def test_fractions_are_exact_parts_that_numpy_finds_too(pictures):
    for seed in (None, 0, 17):
        parts = []
        for bounds in ((0, 0.55), (0.55, 0.9), (0.9, 1)):
            with ordered(pictures, select=fb.Select(fraction=bounds, fraction_seed=seed)) as loader:
                parts.append(sum(numbers(loader), []))
            assert parts[-1] == np.flatnonzero(part(bounds, seed or 0, SAMPLES)).tolist(), (seed, bounds)
        assert sorted(sum(parts, [])) == list(range(SAMPLES)) and [len(p) for p in parts] == [110, 70, 20]
    subset = np.arange(50, 150)
    with ordered(pictures, select=fb.Select(fraction=(0, 0.5), subset=subset)) as loader:
        both = np.flatnonzero(part((0, 0.5), 0, SAMPLES))
        assert sum(numbers(loader), []) == [number for number in both if number in subset]


def test_a_checkpoint_of_a_subset_resumes_on_a_different_number_of_ranks(pictures):
    order = {"shuffle": True, "select": fb.Select(subset="3:150", fraction=(0.1, 0.8)), "batch_size": 4}
    (whole,) = epoch(pictures, **order)
    with ordered(pictures, order=fb.Order(num_canonical_nodes=1), **order) as loader:
        batches = iter(loader)
        first = [next(batches)["number"].tolist() for _ in range(6)]
        state = json.loads(json.dumps(loader.state_dict()))
        assert len(json.dumps(state)) < 1000
    assert first == whole[:6]
    for ranks in (1, 2):
        rest = []
        for rank in range(ranks):
            world = fb.World(rank=rank, world_size=ranks, local_rank=rank, local_world_size=ranks)
            with ordered(pictures, order=fb.Order(num_canonical_nodes=1), world=world, **order | {"batch_size": 4 // ranks}) as loader:
                loader.load_state_dict(state)
                rest.append(numbers(loader))
        assert set(sum(sum(rest, []), [])) == set(sum(whole[6:], []))


def test_a_checkpoint_of_different_samples_is_rejected_with_both_selections(pictures):
    def state(**arguments):
        with ordered(pictures, **arguments) as loader:
            return loader.state_dict()

    def load(state, **arguments):
        with ordered(pictures, **arguments) as loader:
            loader.load_state_dict(state)

    with pytest.raises(fb.StateError, match=r"selection was subset=.0:100. and is subset=.50:150."):
        load(state(select=fb.Select(subset="0:100")), select=fb.Select(subset="50:150"))
    with pytest.raises(fb.StateError, match=r"selection was fraction=\(0, 0.5\) and is fraction=\(0, 0.5\), fraction_seed=4"):
        load(state(select=fb.Select(fraction=(0, 0.5))), select=fb.Select(fraction=(0, 0.5), fraction_seed=4))
    with pytest.raises(fb.StateError, match="selection was all samples and is subset="):
        load(state(), select=fb.Select(subset="0:100"))
    with pytest.raises(fb.StateError, match="selection was subset=.0:100. and is all samples"):
        load(state(select=fb.Select(subset="0:100")))
    # The samples count, and not the arguments.
    load(state(select=fb.Select(subset="0:100")), select=fb.Select(subset=list(range(100))))
    load(state(), select=fb.Select(subset="0:200", fraction=(0, 1)))


def test_streams_have_their_own_parts_or_the_loader_s(pictures):
    def streams(*own, **common):
        streams = [fb.Stream(local=pictures, **arguments) for arguments in own]
        with fb.Loader(streams=streams, fields=NUMBER, batch_size=16, **common) as loader:
            return sum(numbers(loader), [])

    assert streams({}, {"select": fb.Select(subset=[5])}, select=fb.Select(subset="0:3")) == [0, 1, 2, 5]
    train = np.flatnonzero(part((0, 0.9), 2, SAMPLES)).tolist()
    test = np.flatnonzero(part((0.9, 1), 2, SAMPLES)).tolist()
    assert (
        streams({"select": fb.Select(fraction=(0.9, 1))}, {}, select=fb.Select(fraction=(0, 0.9), fraction_seed=2)) == test + train
    )
    assert streams({"select": fb.Select(subset="0:10"), "repeat": 2}) == [*range(10), *range(10)]


def test_shards_without_kept_samples_are_not_fetched(tmp_path):
    remote = write_pictures(tmp_path / "remote", size_limit=1 << 14)
    shards = json.loads((tmp_path / "remote/index.json").read_text())["shards"]
    first = shards[0]["samples"] + shards[1]["samples"]
    subset = [*range(first, first + shards[2]["samples"]), SAMPLES - 1]
    for shard in set(range(len(shards))) - {2, len(shards) - 1}:
        os.remove(tmp_path / "remote" / shards[shard]["raw_data"]["basename"])
    local = tmp_path / "local"
    with fb.Loader(
        remote=remote, local=local, select=fb.Select(subset=subset), shuffle=True, fields=NUMBER, batch_size=4
    ) as loader:
        for _ in range(2):
            assert sorted(sum(numbers(loader), [])) == subset
    here = {name for name in os.listdir(local) if name.endswith(".mds")}
    assert here == {shards[2]["raw_data"]["basename"], shards[-1]["raw_data"]["basename"]}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"select": fb.Select(subset="0:201")}, "`0:201` is outside of the stream: its samples have the numbers from 0 to 199"),
        ({"select": fb.Select(subset="1:2:3")}, "`1:2:3` is neither the number of a sample nor a range"),
        ({"select": fb.Select(subset="")}, "the subset lists no samples"),
        ({"select": fb.Select(subset=[])}, "the subset lists no samples"),
        ({"select": fb.Select(subset=[3, 3])}, r"lists a sample twice.*number 3"),
        ({"select": fb.Select(subset=np.array([7, 1, 7]))}, r"lists a sample twice.*number 7"),
        ({"select": fb.Select(subset=[-1])}, r"subset\[0\] is a whole number, at least 0"),
        ({"select": fb.Select(subset=np.array([-1, 5]))}, "the least of subset is a whole number, at least 0"),
        ({"select": fb.Select(subset=np.array([0.5]))}, "an array of whole numbers"),
        ({"select": fb.Select(subset=np.array([[1]]))}, "one dimension"),
        ({"select": fb.Select(subset=np.zeros(200, bool))}, "flatnonzero"),
        ({"select": fb.Select(subset=5)}, "subset is a text such as"),
        ({"select": fb.Select(subset={1: 2})}, "subset is a text such as"),
        ({"select": fb.Select(fraction=0.9)}, "fraction has two bounds, such as [(]0, 0.9[)]"),
        ({"select": fb.Select(fraction=(0.5, 0.5))}, "0 <= first < end <= 1"),
        ({"select": fb.Select(fraction=(0, 2))}, "0 <= first < end <= 1"),
        ({"select": fb.Select(fraction=(0, float("nan")))}, "number"),
        ({"select": fb.Select(fraction=(0, 0.001))}, "no sample of the stream is kept by"),
        ({"select": fb.Select(fraction_seed=3)}, "fraction_seed is the seed of fraction"),
        ({"select": fb.Select(fraction=(0, 0.5), fraction_seed=-1)}, "fraction_seed is a whole number"),
        ({"select": fb.Select(subset="0:1", fraction=(0.0, 0.01))}, "no sample of the stream is kept by subset="),
    ],
    ids=str,
)
def test_parts_that_are_wrong_are_rejected_with_the_reason(pictures, arguments, message):
    with pytest.raises(fb.ConfigError, match=message):
        ordered(pictures, **arguments)


def test_files_that_are_no_numbers_are_rejected_with_their_names(pictures, tmp_path):
    def rejected(name, write, error, message):
        write(tmp_path / name)
        with pytest.raises(error, match=message) as caught:
            ordered(pictures, select=fb.Select(subset=tmp_path / name))
        assert name in str(caught.value)

    rejected("float.npy", lambda p: np.save(p, np.array([0.5])), fb.FormatError, "whole numbers or bools")
    rejected("flat.npy", lambda p: np.save(p, np.array([[1, 2]])), fb.FormatError, "one dimension")
    rejected("short.npy", lambda p: np.save(p, np.zeros(199, bool)), fb.ConfigError, "different number of bools")
    rejected("far.npy", lambda p: np.save(p, np.array([3, 200])), fb.ConfigError, "outside of the stream.*number 200")
    rejected("none.npy", lambda p: np.save(p, np.zeros(200, bool)), fb.ConfigError, "lists no samples")
    rejected("cut.npy", lambda p: p.write_bytes(b"\x93NUMPY\1\0\xff\xff{"), fb.FormatError, "the file is cut off")
    rejected("bytes", lambda p: p.write_bytes(bytes(range(128, 136)) + b"\xff"), fb.FormatError, "array of numpy or text")
    rejected("lines.txt", lambda p: p.write_text("1\n2 # two\nthree\n"), fb.ConfigError, "`three` is neither.*line 3")
    with pytest.raises(fb.NotFoundError, match="absent.npy"):
        ordered(pictures, select=fb.Select(subset="absent.npy"))


def test_a_text_file_lists_numbers_and_ranges(pictures, tmp_path):
    (tmp_path / "kept.txt").write_text("# kept\n5\n\n10:12, 7\n198: # the end\n")
    with ordered(pictures, select=fb.Select(subset=tmp_path / "kept.txt")) as loader:
        assert sum(numbers(loader), []) == [5, 7, 10, 11, 198, 199]


def test_a_subset_of_tars_takes_their_samples_by_number(tmp_path):
    for shard in range(3):
        with tarfile.open(tmp_path / f"{shard}.tar", "w") as tar:
            for number in range(10 * shard, 10 * shard + 10):
                member = tarfile.TarInfo(f"{number:04}.cls")
                member.size = len(str(number))
                tar.addfile(member, io.BytesIO(str(number).encode()))
    address = str(tmp_path / "{0..2}.tar")
    with fb.Loader(
        remote=address, select=fb.Select(subset="7:23"), fields={"n": fb.Text("cls")}, batch_size=4, local=tmp_path / "c"
    ) as loader:
        assert [int(n) for batch in loader for n in batch["n"]] == list(range(7, 23))

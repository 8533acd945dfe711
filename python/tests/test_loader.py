"""forebay.Loader as the API and the README document it: the example, arguments, statistics."""

import json
import os
import pickle

import numpy as np
import pytest
from loaders import numbers, ordered
from picture_set import CLASSES, SAMPLES

import forebay as fb

torch = pytest.importorskip("torch")


def test_the_example_of_the_api_runs(packed, tmp_path):
    """The example of API and README, smaller: same calls, same shapes of use."""
    model = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(3, CLASSES))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    norm = fb.Normalize(fb.IMAGENET_MEAN, fb.IMAGENET_STD)
    remote, split = os.path.split(packed)
    checkpoint = tmp_path / "ckpt.pt"
    train = fb.Loader(
        remote=remote,
        split=split,
        streams=None,
        local=tmp_path / "train",
        fields={
            "x": fb.Image("image", fb.RandomResizedCrop(32), fb.RandomHorizontalFlip(), norm, dtype="float32", layout="NCHW"),
            "y": fb.Scalar("class", dtype="int64"),
        },
        transform=None,
        framework="torch",
        batch_size=32,
        drop_last=False,
        extra=(),
        shuffle=True,
        seed=9176,
        order=fb.Order(
            augment_seed=None,
            shuffle_algo="py1e",
            shuffle_block_size=None,
            partition_algo="relaxed",
            num_canonical_nodes=None,
            replication=None,
            epoch_size=None,
            sampling_method="balanced",
            sampling_granularity=1,
            batching_method="random",
        ),
        device="cpu",
        world=fb.World(rank=None, world_size=None, local_rank=None, local_world_size=None),
        threads=None,
        engine=fb.Engine(prefetch=3, memory="256mb", predownload=None, stall_timeout=600.0, allow_unsafe_types=False),
        cache_limit=None,
        fetch=fb.Fetch(keep_zip=False, validate_hash=None, retry=2, timeout=60.0),
        skip=None,
    )
    val = fb.Loader(
        remote=remote,
        split=split,
        local=tmp_path / "val",
        batch_size=32,
        extra=["repeat"],
        engine=fb.Engine(memory="256mb"),
        fields={"x": fb.Image("image", fb.Resize(40), fb.CenterCrop(32), norm), "y": fb.Scalar("class")},
    )
    for epoch in range(train.epoch, 2):
        assert train.epoch == epoch
        seen = 0
        for step, b in enumerate(train):
            assert b["x"].shape[1:] == (3, 32, 32) and b["x"].dtype == torch.float32 and b["y"].dtype == torch.int64
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(model(b["x"]), b["y"]).backward()
            optimiser.step()
            seen += len(b["y"])
            if step == 3:
                torch.save({"model": model.state_dict(), "loader": train.state_dict()}, checkpoint)
        assert seen == SAMPLES and step + 1 == len(train)
        with torch.no_grad():
            hits = sum(int(((model(b["x"]).argmax(1) == b["y"]) & ~b["repeat"]).sum()) for b in val)
        assert 0 <= hits <= SAMPLES
    train.load_state_dict(torch.load(checkpoint)["loader"])
    assert train.epoch == 1
    assert sum(len(b["y"]) for b in train) == SAMPLES - 4 * 32
    train.close()
    val.close()


def test_a_loader_inside_a_dataloader_is_an_error_that_names_the_fix(pictures):
    from torch.utils.data import DataLoader

    with ordered(pictures) as loader:
        with pytest.raises(TypeError, match="instead of a DataLoader"):
            next(iter(DataLoader(loader, batch_size=None)))
        with pytest.raises(TypeError, match="state_dict"):
            pickle.dumps(loader)
    assert repr(loader) == "<forebay.Loader, closed>"


def test_numbers_and_types_of_numpy_and_torch_are_accepted(pictures):
    fields = {
        "x": fb.Image("image", fb.Resize((np.int64(8), 8)), dtype=torch.float16),
        "y": fb.Scalar("class", dtype=np.int32),
        "z": fb.Scalar("class", dtype=np.dtype("float32")),
    }
    with fb.Loader(local=pictures, batch_size=np.int64(4), shuffle=np.bool_(False), fields=fields) as loader:
        batch = next(iter(loader))
    assert [batch[name].dtype for name in "xyz"] == [torch.float16, torch.int32, torch.float32]


def test_stats_have_the_figures_of_the_stages(pictures):
    with ordered(pictures, engine=fb.Engine(trace=True)) as loader:
        numbers(loader)
        stats = loader.stats()
        assert stats["stages"]["decode"]["items"] == SAMPLES
        assert set(stats["stages"]["read"]) == {"busy_s", "input_s", "output_s", "items", "bytes"}
        assert 'forebay_stage_items_total{stage="decode",rank="0"}' in loader.prometheus()
        assert json.loads(loader.trace_json())["traceEvents"]
    with ordered(pictures) as loader:
        assert loader.trace_json() is None


def test_wrong_arguments_are_errors_with_a_sentence(pictures, tmp_path):
    with pytest.raises(TypeError, match="batch_size"):
        fb.Loader(local=pictures)
    with pytest.raises(fb.ConfigError, match="batch_size"):
        fb.Loader(local=pictures, batch_size=0)
    with pytest.raises(ValueError, match="memory"):
        fb.Loader(local=pictures, batch_size=1, engine=fb.Engine(memory="lots"))
    with pytest.raises(fb.ConfigError, match="either streams"):
        fb.Loader(local=pictures, streams=[], batch_size=1)
    with pytest.raises(fb.ConfigError, match="shuffle_algo|nonsense"):
        fb.Loader(local=pictures, batch_size=1, shuffle=True, order=fb.Order(shuffle_algo="nonsense"))
    with pytest.raises(fb.Error, match="nocolumn"):
        fb.Loader(local=pictures, batch_size=1, fields={"x": fb.Scalar("nocolumn")})
    with pytest.raises(fb.ConfigError, match="device"):
        fb.Loader(local=pictures, batch_size=1, device="tpu")
    with pytest.raises(FileNotFoundError):
        fb.Loader(local=tmp_path / "nothing", batch_size=1)


def test_a_closed_loader_has_no_open_file_and_keeps_its_statistics(pictures):
    def open_here():
        links = (os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd"))
        return [link for link in links if link.startswith(str(os.path.realpath(pictures)))]

    with fb.Loader(local=str(pictures), batch_size=4, engine=fb.Engine(trace=True)) as loader:
        batches = iter(loader)
        next(batches)
        assert open_here()
    assert not open_here()
    assert loader.stats()["stages"]["next"]["items"] == 1 and loader.trace_json() and "rank" in loader.prometheus()
    assert (loader.epoch, repr(loader)) == (1, "<forebay.Loader, closed>")
    del batches

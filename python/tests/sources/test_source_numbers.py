"""Weights, classes and lengths of sources that are read as they are: Parquet, folders of files, tars and manifests."""

import io
import pathlib
import tarfile
from collections import Counter

import numpy as np
import pytest

import forebay as fb

PARQUET = pathlib.Path(__file__).parents[3] / "tests/data/parquet"
SAMPLES = 1120


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def parquet(where, bucket):
    if where == "folder":
        return f"{PARQUET}/set-{{0,1}}.parquet"
    for path in PARQUET.glob("set-*.parquet"):
        bucket.objects[f"numbered/{path.name}"] = path.read_bytes()
    return "s3://bucket/numbered/set-*.parquet"


def batches(remote, name, field, ranks=1, **arguments):
    """The values of a field in each step of all ranks."""
    steps = []
    for rank in range(ranks):
        world = {
            "world": fb.World(rank=rank, world_size=ranks, local_rank=rank, local_world_size=ranks),
            "order": fb.Order(num_canonical_nodes=1),
        }
        options = {"fields": {name: field}, "batch_size": 16 // ranks, "framework": "numpy", "shuffle": True}
        with fb.Loader(remote=remote, **options | world | arguments) as loader:
            steps.append([list(batch[name]) for batch in loader])
    return [sorted(sum(step, [])) for step in zip(*steps, strict=True)]


@pytest.mark.parametrize("where", ["folder", "bucket"])
def test_columns_of_parquet_that_no_field_has_are_weights_classes_and_lengths(where, bucket, bucket_environment):
    remote, number = parquet(where, bucket), fb.Scalar("id")
    weighted = batches(remote, "id", number, select=fb.Select(weights="id"))
    drawn = np.array(sum(weighted, []))
    # The mean of draws in proportion to n, of n below 1120, is two thirds of it.
    assert len(drawn) == SAMPLES and abs(drawn.mean() / SAMPLES - 2 / 3) < 0.03 and 0 not in drawn
    assert weighted == batches(remote, "id", number, ranks=2, select=fb.Select(weights=np.arange(SAMPLES)))
    # Text repeats "sample n " up to four times.
    bucketed = batches(remote, "id", number, ranks=2, order=fb.Order(bucket_by="text", bucket_batches=10))
    lengths = [[len(f"sample {n} ") * (int(n) % 5) for n in batch] for batch in bucketed]
    assert sorted(sum(bucketed, [])) == list(range(SAMPLES))
    assert np.mean([max(of_batch) - min(of_batch) for of_batch in lengths]) < 12
    texts = Counter(
        int(n) % 5 == 0
        for n in sum(batches(remote, "id", number, select=fb.Select(balance="text"), order=fb.Order(epoch_size=2240)), [])
    )
    # The empty text is one class of 897, and an epoch draws each equally often.
    assert texts[True] < 20


def test_of_parquet_only_the_column_is_fetched_and_once(bucket, bucket_environment, tmp_path):
    remote = parquet("bucket", bucket)
    whole = sum(len(body) for key, body in bucket.objects.items() if key.startswith("numbered/"))
    options = {"remote": remote, "fields": {"tokens": fb.Array("tokens")}, "batch_size": 4, "local": tmp_path / "local"}
    for first in (True, False):
        with fb.Loader(select=fb.Select(weights="id"), **options) as loader:
            counters = loader.stats()["counters"]
            assert ("filter_shards_read" in counters) == first
            assert loader.stats()["stages"]["fetch"]["bytes"] < whole / 4


@pytest.fixture
def folder(tmp_path):
    sizes = {}
    for number in range(90):
        name = f"{'red' if number < 60 else 'blue'}/{number:03}.jpg"
        path = tmp_path / "files" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        sizes[name] = 3 + number * 37 % 90
        path.write_bytes(b"\xff\xd8" + b"." * (sizes[name] - 2))
    return tmp_path / "files", sizes


def test_classes_of_a_folder_are_balanced_and_its_files_have_lengths(folder, tmp_path):
    folder, sizes = folder
    path = fb.Text("path")
    drawn = sum(batches(folder, "path", path, select=fb.Select(balance="class"), order=fb.Order(epoch_size=4000)), [])
    reds = sum(name.startswith("red") for name in drawn)
    assert abs(reds - 2000) < 4 * np.sqrt(1000)
    with fb.Loader(
        remote=folder, fields={"path": path}, select=fb.Select(balance="class"), order=fb.Order(bucket_by="file"), batch_size=8
    ) as loader:
        # The list has them.
        assert loader.stats()["stages"]["fetch"]["bytes"] == 0
    found = batches(folder, "path", path, ranks=2, order=fb.Order(bucket_by="file", bucket_batches=6))
    spread = [max(sizes[name] for name in batch) - min(sizes[name] for name in batch) for batch in found]
    assert sorted(sum(found, [])) == sorted(sizes) and np.mean(spread) < 25
    manifest = tmp_path / "list.csv"
    manifest.write_text("file_name,score\n" + "".join(f"{name},{int(name.startswith('blue'))}\n" for name in sizes))
    stream = fb.Stream(remote=folder, manifest=manifest, select=fb.Select(weights="score"))
    with fb.Loader(streams=[stream], fields={"path": path}, batch_size=10) as loader:
        assert all(name.startswith("blue") for batch in loader for name in batch["path"])


def test_fields_of_tars_are_weights_classes_and_lengths(tmp_path):
    with tarfile.open(tmp_path / "set.tar", "w") as tar:
        for number in range(64):
            for extension, body in (("cls", f"{number % 2}"), ("txt", "x" * (1 + number * 29 % 64))):
                info = tarfile.TarInfo(f"{number:03}.{extension}")
                info.size = len(body)
                tar.addfile(info, io.BytesIO(body.encode()))
    remote = str(tmp_path / "set.tar")
    found = batches(remote, "txt", fb.Text("txt"), order=fb.Order(bucket_by="txt", bucket_batches=4))
    assert all(max(map(len, batch)) - min(map(len, batch)) == 15 for batch in found)
    labels = sum(batches(remote, "y", fb.Scalar("cls"), select=fb.Select(weights="cls")), [])
    assert set(map(int, labels)) == {1}

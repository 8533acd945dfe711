"""Checkpoints of torch.distributed.checkpoint."""

import pytest

torch = pytest.importorskip("torch")

import torch.distributed.checkpoint as dcp  # noqa: E402
from test_ranks import run  # noqa: E402
from torch.distributed.checkpoint.api import CheckpointException  # noqa: E402
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner  # noqa: E402
from torch.distributed.checkpoint.planner import SavePlanner  # noqa: E402

import forebay as fb  # noqa: E402
from forebay import checkpoint  # noqa: E402
from forebay.checkpoint import commit, layout, parts  # noqa: E402
from forebay.checkpoint.distributed import StorageReader, StorageWriter, reading, writing  # noqa: E402


def state():
    generator = torch.Generator().manual_seed(17)
    return {
        "weights": torch.randn(300, 70, generator=generator),
        "half": torch.randn(1000, generator=generator).to(torch.bfloat16),
        "view": torch.arange(100)[10:60:2],
        "scalar": torch.tensor(3.5),
        "empty": torch.zeros(0, 4),
        "optimizer": {"step": 7, "names": ["a", "b"]},
    }


def zeros():
    empty = {name: torch.zeros_like(value) for name, value in state().items() if isinstance(value, torch.Tensor)}
    return empty | {"optimizer": {"step": 0, "names": ["", ""]}}


def assert_equal(found, wanted):
    for name, value in wanted.items():
        assert torch.equal(found[name], value) if isinstance(value, torch.Tensor) else found[name] == value, name


def loaded(url, **arguments):
    found = zeros()
    dcp.load(found, storage_reader=StorageReader(url, **arguments))
    return found


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of 8 KiB, so that a tensor has several, and no record that is small."""
    monkeypatch.setattr(commit, "BLOCK", 8192)
    monkeypatch.setattr(reading, "_SMALL", 0)


@pytest.mark.parametrize("threads", [1, 3])
def test_a_state_is_saved_and_loaded_with_its_step_and_data(run_url, small_blocks, monkeypatch, threads):
    monkeypatch.setattr(writing, "_FILE_LEAST", 1024)
    url = f"{run_url}/step-5"
    dcp.save(state(), storage_writer=StorageWriter(url, step=5, data={"epoch": 2}, metadata={"loss": 0.5}, threads=threads))
    last = checkpoint.latest(run_url)
    assert (last.url, last.step, last.data, last.metadata) == (url, 5, {"epoch": 2}, {"loss": 0.5})
    assert sorted(last.parts) == [".metadata", *(f"__0_{number}.distcp" for number in range(threads))]
    assert {file.url for file in fb.list_files(f"{url}/")} == {
        f"{url}/{name}" for name in (*last.parts, "begun.json", "commit.json")
    }
    assert_equal(loaded(url), state())
    assert StorageReader(url).checkpoint.data == {"epoch": 2}


def test_torch_reads_the_files_too(tmp_path):
    dcp.save(state(), storage_writer=StorageWriter(tmp_path / "a"))
    found = zeros()
    dcp.load(found, checkpoint_id=tmp_path / "a")
    assert_equal(found, state())


def test_a_save_behind_training_has_the_state_of_its_call(run_url, tmp_path):
    torch.distributed.init_process_group("gloo", store=torch.distributed.FileStore(str(tmp_path / "s"), 1), rank=0, world_size=1)
    try:
        saved, position = state(), {"epoch": 3}
        response = dcp.async_save(saved, storage_writer=StorageWriter(f"{run_url}/1", data=position))
        saved["weights"].zero_()
        position["epoch"] = 4
        response.result()
        assert_equal(loaded(f"{run_url}/1"), state())
        assert checkpoint.latest(run_url).data == {"epoch": 3}
    finally:
        torch.distributed.destroy_process_group()


def test_a_folder_without_a_commit_is_refused(run_url):
    with pytest.raises(fb.NotFoundError, match="is not a checkpoint"):
        StorageReader(f"{run_url}/none")
    dcp.save(state(), storage_writer=StorageWriter(f"{run_url}/1"))
    fb.remove_files([f"{run_url}/1/commit.json"])
    with pytest.raises(fb.NotFoundError, match="is not a checkpoint"):
        StorageReader(f"{run_url}/1")
    checkpoint.save({}, f"{run_url}/2")
    with pytest.raises(fb.ConfigError, match="forebay.checkpoint.load"):
        StorageReader(f"{run_url}/2")


def test_a_checkpoint_is_not_replaced_unless_asked_and_stays_whole_until_then(run_url):
    dcp.save({"a": torch.ones(3)}, storage_writer=StorageWriter(f"{run_url}/1"))
    with pytest.raises(CheckpointException, match="is a checkpoint already"):
        dcp.save(state(), storage_writer=StorageWriter(f"{run_url}/1"))
    with pytest.raises(CheckpointException):
        dcp.save({"a": Broken()}, storage_writer=StorageWriter(f"{run_url}/1", overwrite=True))
    found = {"a": torch.zeros(3)}
    dcp.load(found, storage_reader=StorageReader(f"{run_url}/1"))
    assert found["a"].tolist() == [1.0, 1.0, 1.0]
    dcp.save(state(), storage_writer=StorageWriter(f"{run_url}/1", overwrite=True))
    assert_equal(loaded(f"{run_url}/1"), state())
    left = {file.url for file in fb.list_files(f"{run_url}/1/")}
    assert len(left) == 4


class Broken:
    """Object that fails when its bytes are made, which torch does when it writes."""

    def __reduce__(self):
        raise RuntimeError("broken")


def test_the_oldest_checkpoints_are_removed_after_the_commit(run_url):
    for step in range(3):
        dcp.save({"a": torch.ones(3)}, storage_writer=StorageWriter(f"{run_url}/{step}", step=step, keep=2))
    assert [each.step for each in checkpoint.steps(run_url)] == [1, 2]


@pytest.mark.parametrize("threads", [1, 4])
def test_a_file_that_cannot_be_written_fails_the_save(run_url, monkeypatch, threads):
    # torch drops the exceptions of its extra threads.
    monkeypatch.setattr(writing, "_FILE_LEAST", 1024)
    monkeypatch.setattr("threading.excepthook", lambda arguments: None)
    append = parts.PartWriter._append

    def failing(self, block):
        if self._name == f"__0_{threads - 1}.distcp":
            raise fb.FullError("no room here")
        append(self, block)

    monkeypatch.setattr(parts.PartWriter, "_append", failing)
    with pytest.raises(CheckpointException, match="no room here"):
        dcp.save(state(), storage_writer=StorageWriter(f"{run_url}/1", threads=threads))
    assert checkpoint.latest(run_url) is None


def test_damage_is_found_before_it_is_loaded(tmp_path, small_blocks):
    url = tmp_path / "1"
    dcp.save(state(), storage_writer=StorageWriter(url))
    file = url / "__0_0.distcp"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(CheckpointException, match="is damaged in its bytes"):
        loaded(url)
    (url / ".metadata").write_bytes(b"?" * (url / ".metadata").stat().st_size)
    with pytest.raises(fb.ChecksumError, match=".metadata is damaged"):
        StorageReader(url)


def test_each_block_is_fetched_once(bucket, bucket_environment, small_blocks, tmp_path):
    url = f"s3://bucket/{tmp_path.name}/step-1"
    dcp.save(state(), storage_writer=StorageWriter(url, threads=1))
    blocks = len(StorageReader(url).checkpoint.parts["__0_0.distcp"].digests)
    assert blocks > 10
    reader, before = StorageReader(url), len(bucket.seen)
    found = zeros()
    dcp.load(found, storage_reader=reader)
    assert_equal(found, state())
    requests = [seen.key for seen in bucket.seen[before:] if seen.key and seen.method in ("GET", "HEAD")]
    assert len(requests) == blocks and all(key.endswith("__0_0.distcp") for key in requests)


def test_a_file_is_requested_before_the_one_before_it_has_arrived(tmp_path, small_blocks, monkeypatch):
    monkeypatch.setattr(writing, "_FILE_LEAST", 1024)
    saved = {"a": torch.arange(20_000), "b": torch.arange(20_000) + 7}
    dcp.save(saved, storage_writer=StorageWriter(tmp_path / "1", threads=2))
    events = []
    fill, compare = parts.Blocks.fill, parts.Blocks.compare
    monkeypatch.setattr(parts.Blocks, "fill", lambda *all: events.append(("request", all[0]._part.name)) or fill(*all))
    monkeypatch.setattr(parts.Blocks, "compare", lambda *all: events.append(("arrival", all[0]._part.name)) or compare(*all))
    found = {name: torch.zeros_like(tensor) for name, tensor in saved.items()}
    dcp.load(found, storage_reader=StorageReader(tmp_path / "1"))
    assert_equal(found, saved)
    last = len(events) - 1 - events[::-1].index(("arrival", "__0_0.distcp"))
    assert events.index(("request", "__0_1.distcp")) < last


def test_tensors_of_small_records_and_of_large_ones_may_share_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(commit, "BLOCK", 1 << 18)
    large, small = torch.arange(1 << 19), torch.arange(100) + 7
    saved = {"a": small, "b": large, "c": small + 1, "d": large + 1, "e": small + 2}
    dcp.save(saved, storage_writer=StorageWriter(tmp_path / "1"))
    memory = torch.zeros(2 << 19, dtype=torch.int64)
    found = {
        "a": memory[:100],
        "b": memory[50 : 50 + (1 << 19)],
        "c": memory[1000:1100],
        "d": memory[500_000 : 500_000 + (1 << 19)],
        "e": torch.zeros(100, dtype=torch.int64),
    }
    dcp.load(found, storage_reader=StorageReader(tmp_path / "1"))
    assert_equal({"e": found["e"]}, {"e": saved["e"]})
    # A later record overwrites an earlier one.
    places = StorageReader(tmp_path / "1").read_metadata().storage_data
    starts, expected = {"a": 0, "b": 50, "c": 1000, "d": 500_000}, torch.zeros_like(memory)
    for index in sorted(places, key=lambda index: places[index].offset):
        if index.fqn in starts:
            expected[starts[index.fqn] :][: len(saved[index.fqn])] = saved[index.fqn]
    assert torch.equal(memory, expected)


def test_small_records_are_read_without_a_search_for_their_offsets(tmp_path, monkeypatch):
    found = []
    monkeypatch.setattr(reading, "Layout", lambda file: found.append(file) or layout.Layout(file))
    saved = {"small": torch.ones(1 << 17), "large": torch.ones(1 << 20)}
    dcp.save(saved, storage_writer=StorageWriter(tmp_path / "1"))
    into = {name: torch.zeros_like(tensor) for name, tensor in saved.items()}
    dcp.load(into, storage_reader=StorageReader(tmp_path / "1"))
    assert_equal(into, saved)
    assert len(found) == 1


def test_prefixes_spread_the_files(run_url):
    dcp.save(state(), storage_writer=StorageWriter(f"{run_url}/1", prefixes=["0a/", "1b/"]))
    assert sorted(StorageReader(f"{run_url}/1").checkpoint.parts) == [".metadata", "0a/__0_0.distcp"]
    assert_equal(loaded(f"{run_url}/1"), state())
    dcp.save(state(), storage_writer=StorageWriter(f"{run_url}/2", prefixes=lambda rank: f"{rank:04}/"))
    assert_equal(loaded(f"{run_url}/2"), state())
    with pytest.raises(fb.ConfigError, match="a list of texts"):
        StorageWriter(f"{run_url}/3", prefixes="a/")
    with pytest.raises(CheckpointException, match="have to be relative"):
        dcp.save(state(), storage_writer=StorageWriter(f"{run_url}/3", prefixes=["../"]))


def test_a_writer_with_a_step_is_for_one_save(run_url):
    writer = StorageWriter(f"{run_url}/x", step=1)
    dcp.save(state(), checkpoint_id=f"{run_url}/1", storage_writer=writer)
    with pytest.raises(CheckpointException, match="make one for each save"):
        dcp.save(state(), checkpoint_id=f"{run_url}/2", storage_writer=writer)
    writer = StorageWriter(f"{run_url}/x")
    planner = DefaultSavePlanner(enable_plan_caching=True)
    for step in (3, 4):
        dcp.save(state(), checkpoint_id=f"{run_url}/{step}", storage_writer=writer, planner=planner)
        found = zeros()
        dcp.load(found, checkpoint_id=f"{run_url}/{step}", storage_reader=StorageReader(f"{run_url}/1"))
        assert_equal(found, state())


@pytest.fixture
def caching(monkeypatch):
    """Planner that caches its plans, which torch keeps for all later planners."""
    for name in [name for name in vars(SavePlanner) if name.startswith("_cached")]:
        monkeypatch.setattr(SavePlanner, name, {})
    return DefaultSavePlanner(enable_plan_caching=True)


@pytest.mark.parametrize("is_cached", [False, True])
def test_plans_that_are_cached_do_not_spoil_the_folder_of_an_unfinished_save(run_url, caching, is_cached):
    def save(step):
        dcp.save(state(), storage_writer=StorageWriter(f"{run_url}/{step}"), planner=caching)

    if is_cached:
        save(1)
    dcp.save(state(), storage_writer=StorageWriter(f"{run_url}/2"))
    fb.remove_files([f"{run_url}/2/commit.json"])
    with pytest.raises(CheckpointException, match="remove it by forebay.checkpoint.remove"):
        save(2)
    assert not checkpoint.steps(f"{run_url}/2")
    checkpoint.remove(f"{run_url}/2")
    if is_cached:
        save(2)
        assert_equal(loaded(f"{run_url}/2"), state())


def test_different_numbers_of_ranks_load_their_shards(run_url, tmp_path):
    common = """
        import torch.distributed.checkpoint as dcp
        from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor, init_device_mesh
        from forebay.checkpoint import commit
        from forebay.checkpoint.distributed import StorageReader, StorageWriter

        commit.BLOCK = 4096
        mesh = init_device_mesh("cpu", (ranks,))
        whole = torch.arange(6000.0).reshape(60, 100)

        def state(rows):
            spread = {f"by-{dimension}": distribute_tensor(rows, mesh, [Shard(dimension)]) for dimension in range(2)}
            return spread | {"all": distribute_tensor(rows, mesh, [Replicate()]), "plain": rows.clone(), "step": int(rows[0, 1])}
    """
    saved = """
        writer = StorageWriter(f"{url}/1", step=1, data={"rank": rank}, prefixes=["a/", "b/"])
        dcp.save(state(whole), storage_writer=writer)
        found["parts"] = sorted(checkpoint.latest(url).parts)
    """
    names = [".metadata", "a/__0_0.distcp", "b/__1_0.distcp"]
    assert run(common + saved, tmp_path, run_url, 2) == [{"parts": names}] * 2
    loaded = """
        reader, target = StorageReader(f"{url}/1"), state(torch.zeros(60, 100))
        dcp.load(target, storage_reader=reader)
        tensors = {name: value.full_tensor() if isinstance(value, DTensor) else value for name, value in target.items()}
        found["step"], found["data"] = tensors.pop("step"), reader.checkpoint.data
        found["equal"] = [torch.equal(tensor, whole) for tensor in tensors.values()]
    """
    assert run(common + loaded, tmp_path, run_url, 3) == [{"step": 1, "data": {"rank": 0}, "equal": [True] * 4}] * 3


def test_a_rank_that_fails_leaves_no_checkpoint(run_url, tmp_path):
    body = """
        import torch.distributed.checkpoint as dcp
        from forebay.checkpoint.distributed import StorageWriter
        from torch.distributed.checkpoint.api import CheckpointException

        write = parts.PartWriter._append
        if rank == 1:
            parts.PartWriter._append = failing_write
        try:
            dcp.save({f"rank-{rank}": torch.ones(10)}, storage_writer=StorageWriter(f"{url}/1"))
        except CheckpointException as error:
            found["failed"] = {failed: str(reason[0]) for failed, reason in error.failures.items()}
        parts.PartWriter._append = write
        found["latest"] = str(checkpoint.latest(url))
        dcp.save({f"rank-{rank}": torch.ones(10)}, storage_writer=StorageWriter(f"{url}/1"))
        found["again"] = sorted(name.rpartition("/")[2] for name in checkpoint.latest(url).parts)
    """
    again = [".metadata", "__0_0.distcp", "__1_0.distcp"]
    assert run(body, tmp_path, run_url, 2) == [{"failed": {"1": "no room here"}, "latest": "None", "again": again}] * 2

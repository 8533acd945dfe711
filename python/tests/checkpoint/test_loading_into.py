"""Checkpoints that are loaded into tensors that exist."""

import pytest

import forebay as fb
from forebay import checkpoint
from forebay.checkpoint import commit, direct, formats, layout, parts
from forebay.checkpoint.memory import Targets

torch = pytest.importorskip("torch")

BLOCK = 4096


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Blocks of 4 KiB, so that a tensor has several."""
    monkeypatch.setattr(commit, "BLOCK", BLOCK)


@pytest.fixture
def no_whole_load(monkeypatch):
    """Fails a load of the format of torch that is not directly into the tensors."""
    monkeypatch.setattr(formats, "copied", None)


def numbers(*shape, start=0, dtype=torch.float32):
    size = torch.Size(shape)
    return (torch.arange(start, start + size.numel()) % 251).to(dtype).view(size)


def weights():
    """Tensors of many sizes: in one block, over several, with ends within blocks."""
    return {
        "large": numbers(100, 70),
        "half": numbers(5000, start=3, dtype=torch.bfloat16),
        "flags": numbers(301) % 2 == 0,
        "scalar": torch.tensor(3.5),
        "empty": torch.empty(0, 4),
        "wide": numbers(3, 9000, start=7, dtype=torch.int64),
    }


def zeros(of):
    return {name: torch.zeros_like(tensor) for name, tensor in of.items()}


def assert_equal(found, wanted):
    assert found.keys() == wanted.keys()
    for name, tensor in wanted.items():
        assert torch.equal(found[name], tensor), name


@pytest.mark.parametrize("format", ["torch", "safetensors"])
def test_tensors_are_filled_where_they_are(run_url, format, no_whole_load):
    saved = checkpoint.save(weights(), f"{run_url}/1", format=format)
    into = zeros(weights())
    addresses = {name: tensor.data_ptr() for name, tensor in into.items()}
    loaded = saved.load(into=into)
    assert_equal(into, weights())
    assert all(loaded[name] is tensor for name, tensor in into.items())
    assert {name: tensor.data_ptr() for name, tensor in into.items()} == addresses
    assert_equal(checkpoint.load(f"{run_url}/1", map_location="cpu"), weights())


@pytest.mark.parametrize("format", ["torch", "safetensors"])
def test_each_block_is_fetched_once_without_memory_for_more_than_the_ends_of_tensors(
    bucket, bucket_environment, tmp_path, monkeypatch, format
):
    saved = checkpoint.save(weights(), f"s3://bucket/{tmp_path.name}/1", format=format)
    blocks = len(next(iter(saved.parts.values())).digests)
    assert blocks > 20
    copied = []
    make = parts.Fetched.__init__
    monkeypatch.setattr(parts.Fetched, "__init__", lambda *all: copied.append(all[2]) or make(*all))
    before = len(bucket.seen)
    saved.load(into=zeros(weights()))
    # The smallest object has no requests but that for its first block.
    assert [request.method for request in bucket.seen[before:]] == ["GET"] * blocks
    assert len(copied) == len(set(copied)) < blocks / 2


def test_a_model_and_its_optimizer_continue_where_they_were(run_url, no_whole_load):
    def made(seed):
        torch.manual_seed(seed)
        model = torch.nn.Sequential(torch.nn.Linear(90, 50), torch.nn.BatchNorm1d(50), torch.nn.Linear(50, 3))
        optimizer = torch.optim.AdamW(model.parameters())
        model(torch.ones(4, 90)).sum().backward()
        optimizer.step()
        return model, optimizer

    model, optimizer = made(1)
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3, "names": ["a", ("b", 2)]}
    checkpoint.save(state, f"{run_url}/1")
    other, other_optimizer = made(2)
    into = {"model": other.state_dict(), "optimizer": other_optimizer.state_dict(), "epoch": 0, "names": ["", ("", 0)]}
    loaded = checkpoint.load(f"{run_url}/1", into=into)
    assert (loaded["epoch"], loaded["names"], into["epoch"]) == (3, ["a", ("b", 2)], 0)
    assert loaded["model"]._metadata == model.state_dict()._metadata
    assert_equal(other.state_dict(), model.state_dict())
    for number, states in optimizer.state_dict()["state"].items():
        assert_equal(other_optimizer.state_dict()["state"][number], states)
    other_optimizer.load_state_dict(loaded["optimizer"])


def test_none_takes_the_saved_value(run_url, no_whole_load):
    shared = numbers(3000)
    saved = {"a": weights(), "b": {"all": shared, "part": shared[100:200]}, "c": [numbers(2000), 5]}
    checkpoint.save(saved, f"{run_url}/1")
    into = {"a": zeros(weights()), "b": None, "c": [torch.zeros(2000), None]}
    loaded = checkpoint.load(f"{run_url}/1", into=into)
    assert_equal(loaded["a"], weights())
    assert_equal(loaded["b"], saved["b"])
    assert torch.equal(into["c"][0], numbers(2000)) and loaded["c"][1] == 5
    assert loaded["b"]["part"].untyped_storage().data_ptr() == loaded["b"]["all"].data_ptr()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"large": torch.zeros(70, 100)}, r"model.large has the shape \(100, 70\) in the checkpoint, and \(70, 100\) in into"),
        ({"half": torch.zeros(5000)}, "model.half has the type torch.bfloat16 in the checkpoint, and torch.float32 in into"),
        ({"more": torch.zeros(1)}, "model.more is not in the checkpoint"),
        ({"large": 5}, "model.large is a tensor in the checkpoint, and 5 in into"),
        ({"large": torch.zeros(100, 70, device="meta")}, "model.large has no memory on the device meta"),
        ({"large": torch.zeros(100, 1).expand(100, 70)}, "model.large has the same memory for several elements"),
    ],
)
@pytest.mark.parametrize("format", ["torch", "safetensors"])
def test_a_mismatch_is_found_before_anything_is_written(tmp_path, format, change, message):
    model = weights()
    saved = checkpoint.save(model if format == "safetensors" else {"model": model}, tmp_path / "1", format=format)
    into = zeros(model) | change
    message = message.removeprefix("model.") if format == "safetensors" else message
    with pytest.raises(fb.ConfigError, match=f"into does not match .*{message}.*Pass None"):
        saved.load(into=into if format == "safetensors" else {"model": into})
    assert not any(tensor.any() for name, tensor in into.items() if name not in change)


def test_objects_that_into_lacks_and_different_structures_are_found(tmp_path):
    saved = checkpoint.save({"a": torch.ones(3), "b": [1, torch.ones(2)], "c": 7}, tmp_path / "1")
    with pytest.raises(fb.ConfigError, match="b is not in into; c is not in into"):
        saved.load(into={"a": torch.zeros(3)})
    with pytest.raises(fb.ConfigError, match="b is a list of 2 in the checkpoint, and"):
        saved.load(into={"a": None, "b": [1], "c": 0})
    with pytest.raises(fb.ConfigError, match="c is 7 in the checkpoint, and a tensor in into"):
        saved.load(into={"a": None, "b": None, "c": torch.zeros(1)})
    with pytest.raises(fb.ConfigError, match="the object is a dict in the checkpoint"):
        saved.load(into=torch.zeros(1))
    with pytest.raises(fb.ConfigError, match="into or map_location"):
        saved.load(into={}, map_location="cpu")


def test_views_are_filled_through_separate_memory(run_url, no_whole_load):
    base = numbers(60, 50)
    saved = {"rows": base[3:50], "columns": base.t(), "steps": base[::2, 1::3], "image": numbers(2, 3, 40, 40)}
    saved["image"] = saved["image"].to(memory_format=torch.channels_last)
    checkpoint.save(saved, f"{run_url}/1")
    surrounding = torch.full((70, 100), -1.0)
    into = {
        "rows": surrounding[5:52, 10:60],
        "columns": torch.zeros(50, 60),
        "steps": torch.zeros(16, 30).t(),
        "image": torch.zeros(2, 3, 40, 40),
    }
    into["steps"] = torch.zeros(*saved["steps"].t().shape).t()
    checkpoint.load(f"{run_url}/1", into=into)
    assert_equal(into, saved)
    untouched = surrounding.clone()
    untouched[5:52, 10:60] = -1
    assert (untouched == -1).all()
    alike = {"rows": None, "columns": None, "steps": None, "image": torch.zeros_like(saved["image"])}
    checkpoint.load(f"{run_url}/1", into=alike)
    assert torch.equal(alike["image"], saved["image"])


@pytest.mark.parametrize("format", ["torch", "safetensors"])
def test_tied_weights_are_filled_on_either_side(run_url, format, no_whole_load):
    tied = numbers(3000)
    tied_saved = checkpoint.save({"a": tied, "b": tied, "c": numbers(10)}, f"{run_url}/1", format=format)
    into = {"a": torch.zeros(3000), "b": torch.zeros(3000), "c": torch.zeros(10)}
    assert_equal(tied_saved.load(into=into), {"a": tied, "b": tied, "c": numbers(10)})
    apart = checkpoint.save({"a": tied, "b": tied.clone(), "c": numbers(10)}, f"{run_url}/2", format=format)
    memory = torch.zeros(3000)
    apart.load(into={"a": memory, "b": memory, "c": torch.zeros(10)})
    assert torch.equal(memory, tied)


def test_parameters_that_need_gradients_are_filled(tmp_path, no_whole_load):
    saved = checkpoint.save({"a": torch.nn.Parameter(numbers(2000)), "b": numbers(30, 20)}, tmp_path / "1")
    into = {"a": torch.nn.Parameter(torch.zeros(2000)), "b": torch.nn.Parameter(torch.zeros(20, 30)).t()}
    saved.load(into=into)
    assert torch.equal(into["a"], numbers(2000)) and torch.equal(into["b"], numbers(30, 20))


@pytest.mark.parametrize("format", ["torch", "safetensors"])
@pytest.mark.parametrize("block", [0, 5, -1])
def test_damage_in_one_block_is_raised_with_the_state_of_the_tensors(run_url, format, block):
    saved = checkpoint.save(weights(), f"{run_url}/1", format=format)
    (name, part), = saved.parts.items()
    number = range(len(part.digests))[block]
    with fb.open(f"{run_url}/1/{name}") as file:
        content = bytearray(file.read())
    content[number * BLOCK + 9] ^= 1
    with fb.open(f"{run_url}/1/{name}", "wb") as file:
        file.write(content)
    into = zeros(weights())
    with pytest.raises(fb.ChecksumError, match=f"is damaged in its bytes {number * BLOCK} to ") as raised:
        saved.load(into=into)
    is_read_before = block == 0 or block == -1 and format == "torch"
    assert ("into are partly overwritten" in str(raised.value)) == (not is_read_before)
    assert not is_read_before or not any(tensor.any() for tensor in into.values())


class FakeBlocks:
    """Blocks of 10 bytes; a request fills the memory at once. The block `damaged` is not as it was saved."""

    block_bytes = 10

    def __init__(self, damaged):
        self.damaged, self.active = damaged, set()

    def length(self, number):
        return 10

    def has(self, number):
        return False

    def fill(self, number, memory):
        memory[:] = number
        self.active.add(number)
        return FakeRequest(self, number)

    def compare(self, number, computed):
        if number == self.damaged:
            raise fb.ChecksumError("damaged")
        self.active.discard(number)


class FakeRequest:
    def __init__(self, blocks, number):
        self.blocks, self.number = blocks, number

    def digest(self, name):
        return self.number

    def stop(self):
        self.blocks.active.discard(self.number)


def test_a_failed_load_stops_every_request_before_it_raises():
    blocks = FakeBlocks(damaged=3)
    into = torch.zeros(500, dtype=torch.uint8)
    with pytest.raises(fb.ChecksumError):
        direct.Direct(blocks, parts.Buffers()).fill(Targets().of([(10, into, into)]))
    assert into[9] == 1 and into[300] > 3 and not blocks.active


def test_memory_that_is_requested_already_is_filled_through_separate_memory():
    memory = torch.zeros(100, dtype=torch.uint8)
    load = Targets()
    places = [(0, memory[10:30], memory[10:30]), (200, memory[60:70], memory[60:70])]
    own = [target.make().ctypes.data - memory.data_ptr() for target in load.of(places)]
    assert own == [10, 60]
    pieces = [(0, 10), (10, 11), (25, 65), (30, 60), (40, 50), (69, 80), (90, 100)]
    for begin, end in pieces:
        piece = memory[begin:end]
        (target,) = load.of([(1000, piece, piece)])
        is_own = target.make().ctypes.data == piece.data_ptr()
        assert is_own == ((begin, end) in [(0, 10), (90, 100)]), (begin, end)


def test_objects_of_unsupported_classes_are_loaded_as_a_whole(run_url):
    saved = {
        "sparse": torch.eye(40).to_sparse(),
        "model": numbers(3000),
        "quantized": torch.quantize_per_tensor(numbers(40), 0.5, 0, torch.qint8),
    }
    checkpoint.save(saved, f"{run_url}/1")
    into = {"sparse": None, "model": torch.zeros(3000), "quantized": None}
    loaded = checkpoint.load(f"{run_url}/1", into=into)
    assert torch.equal(into["model"], numbers(3000)) and loaded["model"] is into["model"]
    assert torch.equal(loaded["sparse"].to_dense(), torch.eye(40))
    assert torch.equal(loaded["quantized"].dequantize(), saved["quantized"].dequantize())
    into["model"].zero_()
    loaded = checkpoint.load(f"{run_url}/1", into=into | {"model": into["model"]}, weights_only=False)
    assert torch.equal(into["model"], numbers(3000))


def test_a_layout_has_the_offsets_of_all_tensors(tmp_path):
    file = tmp_path / "file.pt"
    torch.save(weights(), file)
    content = file.read_bytes()
    with open(file, "rb") as opened:
        found = layout.Layout(opened)
    for name, tensor in weights().items():
        if tensor.numel():
            size, at = tensor.numel() * tensor.element_size(), found.first_byte(found.object[name])
            assert content[at : at + size] == bytes(tensor.flatten().view(torch.uint8).tolist()), name


def test_a_file_with_a_different_alignment_has_no_layout(tmp_path):
    config = pytest.importorskip("torch.utils.serialization.config")
    with config.save.patch(storage_alignment=16) if hasattr(config.save, "patch") else config.patch("save.storage_alignment", 16):
        torch.save(weights(), tmp_path / "file.pt")
    with open(tmp_path / "file.pt", "rb") as opened, pytest.raises(layout.NoLayout):
        layout.Layout(opened)


def test_a_file_that_is_not_torchs_has_no_layout(tmp_path):
    torch.save(weights(), tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    (tmp_path / "text.pt").write_bytes(b"text")
    for name in ("old.pt", "text.pt"):
        with open(tmp_path / name, "rb") as opened, pytest.raises(layout.NoLayout):
            layout.Layout(opened)

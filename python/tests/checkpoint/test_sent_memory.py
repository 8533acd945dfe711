"""Memory of tensors that is sent without a copy."""

import pytest

import forebay as fb
from forebay import checkpoint
from forebay.checkpoint import commit, parts
from forebay.checkpoint.memory import Memory

torch = pytest.importorskip("torch")

BLOCK = 8192


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(commit, "BLOCK", BLOCK)


@pytest.fixture
def sent(monkeypatch):
    """Addresses of the blocks that were sent without a copy; None for each copied block."""
    seen = []
    append = parts.PartWriter._append

    def noting(self, block):
        is_array = not isinstance(block, bytes)
        seen.append(block.__array_interface__["data"][0] if is_array else None)
        append(self, block)

    monkeypatch.setattr(parts.PartWriter, "_append", noting)
    return seen


def assert_from(sent, tensor, blocks):
    start = tensor.data_ptr()
    inside = [address for address in sent if address is not None]
    assert len(inside) >= blocks and all(start <= address < start + tensor.nbytes for address in inside)


@pytest.mark.parametrize("format", ["torch", "safetensors"])
def test_whole_blocks_are_sent_from_the_tensors(run_url, sent, format):
    weights = torch.arange(20 * BLOCK // 4, dtype=torch.int32)
    saved = checkpoint.save({"a": weights, "b": torch.ones(3)}, f"{run_url}/1", format=format)
    assert_from(sent, weights, 19)
    loaded = saved.load()
    assert torch.equal(loaded["a"], weights) and torch.equal(loaded["b"], torch.ones(3))


def test_a_save_behind_training_sends_its_own_copy(run_url, sent):
    weights = torch.arange(20 * BLOCK // 4, dtype=torch.int32)
    saving = checkpoint.save({"a": weights}, f"{run_url}/1", wait=False)
    weights.zero_()
    loaded = saving.wait().load()
    assert torch.equal(loaded["a"], torch.arange(20 * BLOCK // 4, dtype=torch.int32))
    start = weights.data_ptr()
    assert not any(address is not None and start <= address < start + weights.nbytes for address in sent)
    assert sum(address is not None for address in sent) >= 19


def test_the_ranks_of_torch_send_from_the_tensors(run_url, sent):
    import torch.distributed.checkpoint as dcp

    from forebay.checkpoint.distributed import StorageReader, StorageWriter

    weights = torch.arange(20 * BLOCK // 4, dtype=torch.int32)
    dcp.save({"a": weights}, storage_writer=StorageWriter(f"{run_url}/1"))
    assert_from(sent, weights, 18)
    into = {"a": torch.zeros_like(weights)}
    dcp.load(into, storage_reader=StorageReader(f"{run_url}/1"))
    assert torch.equal(into["a"], weights)


def test_a_part_has_the_bytes_that_were_sent_and_written(tmp_path):
    array = torch.arange(5 * BLOCK // 4, dtype=torch.int32).view(torch.uint8).numpy()
    with parts.PartWriter(tmp_path, "part", None) as file:
        file.write(b"head")
        file.send(array)
        file.write(b"tail")
    content = (tmp_path / "part").read_bytes()
    assert content == b"head" + array.tobytes() + b"tail" and file.part.size == len(content)


def test_memory_is_found_by_its_address():
    weights, other = torch.arange(1000), torch.arange(1000)
    memory = Memory({"a": [weights[10:20], (torch.nn.Parameter(torch.ones(3)),)], "empty": torch.empty(0), "text": "a"})
    view = memoryview(weights.numpy()).cast("B")
    found = memory.find(view[80:800])
    assert found.__array_interface__["data"][0] == weights.data_ptr() + 80 and len(found) == 720
    assert memory.find(memoryview(other.numpy()).cast("B")) is None
    assert memory.find(b"text") is None


def test_only_arrays_of_bytes_are_accepted(tmp_path):
    import numpy

    with pytest.raises(fb.InternalError, match="contiguous bytes"):
        fb.files.stores.opened(None).upload(str(tmp_path / "a"), None).send(numpy.zeros(4, numpy.int32), "xxh3_128")
    ranges = fb.files.stores.opened(None)
    (tmp_path / "b").write_bytes(b"0123456789")
    ranges = ranges.open(str(tmp_path / "b"), 1)
    fixed = numpy.zeros(4, numpy.uint8)
    fixed.flags.writeable = False
    for wrong in (numpy.zeros((2, 2), numpy.uint8), numpy.zeros(8, numpy.uint8)[::2], fixed, b"text"):
        with pytest.raises(fb.InternalError):
            ranges.fill(0, wrong)
    right = numpy.zeros(4, numpy.uint8)
    assert ranges.fill(3, right).digest("xxh3_128") == fb._forebay.hex_digest("xxh3_128", b"3456")
    assert right.tobytes() == b"3456"

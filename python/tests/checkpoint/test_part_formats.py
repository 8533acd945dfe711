"""Parts and their formats, and copies in host memory."""

import collections
import dataclasses
import gc
import subprocess
import sys

import pytest

import forebay as fb
from forebay import checkpoint
from forebay.checkpoint import parts, tensors
from forebay.checkpoint.direct import Opened
from forebay.checkpoint.memory import snapshot

torch = pytest.importorskip("torch")

Pair = collections.namedtuple("Pair", "weights steps")


@dataclasses.dataclass
class Weights:
    weights: torch.Tensor


class Copied(torch.Tensor):
    """Tensor of a subclass."""


def test_a_snapshot_has_the_tensors_of_objects_of_any_class():
    weights = torch.arange(6.0)
    weights.grad = torch.ones(6)
    column = torch.arange(12).view(3, 4).t()[1]
    source = {
        "pair": Pair(weights, 3),
        "state": Weights(weights[2:4]),
        "module": torch.nn.Linear(2, 2),
        "storage": weights.untyped_storage(),
        "column": column,
        "conj": torch.ones(2, dtype=torch.complex64).conj(),
        "meta": torch.empty(3, device="meta"),
        "own": torch.ones(2).as_subclass(Copied),
    }
    source["weight"] = source["module"].weight
    source["weight"].note = {"scale": torch.ones(1)}
    copied = snapshot(source)
    expected = weights.clone()
    with torch.no_grad():
        weights.zero_()
        column.zero_()
        source["module"].weight.zero_()
        source["own"].zero_()
        source["weight"].note["scale"].zero_()
    assert torch.equal(copied["pair"].weights, expected) and copied["pair"].steps == 3
    assert copied["state"].weights.untyped_storage().data_ptr() == copied["pair"].weights.untyped_storage().data_ptr()
    assert copied["storage"].data_ptr() == copied["pair"].weights.data_ptr()
    assert torch.equal(copied["column"], torch.tensor([1, 5, 9])) and copied["column"].stride() == column.stride()
    assert copied["module"].weight is copied["weight"] and copied["weight"].abs().sum() > 0
    assert copied["weight"].note["scale"].item() == 1
    assert copied["conj"].tolist() == [1, 1] and copied["meta"].is_meta
    assert type(copied["own"]) is Copied and copied["own"].tolist() == [1, 1]


def test_a_snapshot_of_an_object_that_cannot_be_pickled_fails_at_once(tmp_path):
    with pytest.raises(Exception, match="pickle"):
        checkpoint.save({"function": lambda: None}, tmp_path / "step-1", wait=False)
    assert checkpoint.latest(tmp_path) is None


def read_safetensors(folder, content):
    """Reads a file of safetensors."""
    with parts.PartWriter(folder, "file", None) as file:
        file.write(content)
    return tensors.read(Opened(folder, file.part, None))


TYPES = [name for name in ("float8_e4m3fn", "float8_e5m2", "uint16", "uint32", "uint64") if hasattr(torch, name)]


def test_safetensors_of_every_type_and_shape_equal_the_files_of_the_library(tmp_path):
    library = pytest.importorskip("safetensors.torch")
    types = [*TYPES, "bool", "uint8", "int8", "int16", "float16", "bfloat16", "int32", "float32", "int64", "float64"]
    made = {name: torch.arange(6).view(2, 3).to(getattr(torch, name)) for name in types}
    made |= {"empty": torch.empty(0, 3), "scalar": torch.tensor(5.0), "columns": torch.arange(12).view(3, 4).t()}
    saved = checkpoint.save(made, tmp_path / "ours", format="safetensors")
    theirs = library.load_file(tmp_path / "ours" / "rank-00000.safetensors")
    library.save_file({name: tensor.contiguous() for name, tensor in made.items()}, tmp_path / "theirs", {"format": "pt"})
    read = read_safetensors(tmp_path, (tmp_path / "theirs").read_bytes())
    assert list(saved.load()) and set(theirs) == set(read) == set(saved.load()) == set(made)
    for name, tensor in made.items():
        for other in (theirs[name], saved.load()[name], read[name]):
            assert other.dtype == tensor.dtype and other.shape == tensor.shape, name
            assert other.flatten().view(torch.uint8).tolist() == tensor.flatten().view(torch.uint8).tolist(), name


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "at most"),
        (b"\xff" * 8, "at most"),
        (b"\x09\0\0\0\0\0\0\0not json!", "header of safetensors is damaged"),
        (b'\x02\0\0\0\0\0\0\0[]', "header of safetensors is damaged"),
        (b'\x3e\0\0\0\0\0\0\0{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}        ', "cut off"),
        (b'\x3e\0\0\0\0\0\0\0{"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}}        ', "8 bytes for a shape"),
        (b'\x3e\0\0\0\0\0\0\0{"a":{"dtype":"F99","shape":[2],"data_offsets":[0,8]}}        ', "F99"),
    ],
)
def test_a_file_that_is_not_safetensors_is_an_error(tmp_path, text, message):
    with pytest.raises(fb.FormatError, match=message):
        read_safetensors(tmp_path, text)


def test_an_object_that_safetensors_cannot_hold_is_refused_before_anything_is_written(tmp_path):
    for obj in (
        [torch.ones(1)],
        {1: torch.ones(1)},
        {"a": 1},
        {"a": torch.ones(1, dtype=torch.complex128)},
        {"a": torch.ones(1, device="meta")},
        {"__metadata__": torch.ones(1)},
    ):
        with pytest.raises(fb.ConfigError, match='format="safetensors"'):
            checkpoint.save(obj, tmp_path / "step-1", format="safetensors")
    assert not (tmp_path / "step-1").exists()
    checkpoint.save({"a": torch.ones(1)}, tmp_path / "step-2", format="safetensors")
    with pytest.raises(fb.ConfigError, match="map_location"):
        checkpoint.load(tmp_path / "step-2", map_location={"cuda": "cpu"})


@pytest.mark.parametrize("failure", [fb.FullError("no room here"), KeyboardInterrupt()])
def test_a_failure_of_the_store_within_torch_is_raised_as_it_is(tmp_path, monkeypatch, failure):
    calls = []

    def failing(self, block):
        calls.append(len(block))
        if len(calls) == 2:
            raise failure

    monkeypatch.setattr(parts.PartWriter, "_append", failing)
    with pytest.raises(type(failure)) as raised:
        checkpoint.save({str(number): torch.ones(3 << 20) for number in range(4)}, tmp_path / "step-1")
    assert raised.value is failure and len(calls) == 2
    gc.collect()
    assert checkpoint.latest(tmp_path) is None


LAST = """
import sys
import torch
from forebay import checkpoint

checkpoint.save({"a": torch.ones(5)}, f"{sys.argv[1]}/step-1", step=1)
checkpoint.save({"a": torch.ones(5 << 20)}, f"{sys.argv[1]}/step-2", step=2, keep=1, wait=False)
"""


def test_a_program_ends_after_its_last_save_behind_training(tmp_path):
    done = subprocess.run([sys.executable, "-c", LAST, str(tmp_path)], capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stderr) == (0, "")
    assert [found.step for found in checkpoint.steps(tmp_path)] == [2]


def test_a_program_logs_that_its_last_save_behind_training_has_failed(tmp_path):
    (tmp_path / "step-2").write_text("no folder")
    done = subprocess.run([sys.executable, "-c", LAST, str(tmp_path)], capture_output=True, text=True, timeout=600)
    assert "a checkpoint that was saved behind training has failed: " in done.stderr and "step-2" in done.stderr
    assert [found.step for found in checkpoint.steps(tmp_path)] == [1]


def test_a_part_of_a_commit_is_within_its_folder_and_has_all_digests(tmp_path):
    from forebay.checkpoint import commit

    saved = checkpoint.save({"a": torch.ones(3)}, tmp_path / "step-1")
    (part,) = saved.parts.values()
    for changed in ({"name": "../a"}, {"name": "/a"}, {"digests": ()}, {"size": 1 << 40}):
        other = dataclasses.replace(part, **changed)
        commit.replace(saved.url, commit.text_of(commit.Commit(1, saved.time, {other.name: other})), None)
        with pytest.raises(fb.FormatError, match="is not a commit of a checkpoint"):
            checkpoint.load(saved.url)


def test_keys_that_are_not_text_are_refused(tmp_path):
    for data in ({1: 2}, {"a": [{"b": {None: 1}}]}):
        with pytest.raises(fb.ConfigError, match="where keys are text"):
            checkpoint.save({}, tmp_path / "step-1", data=data)

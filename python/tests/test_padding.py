"""Rows of varying length: padded to the longest one of the batch, cut, and masked."""

import json

import numpy as np
import pytest

import forebay as fb

torch = pytest.importorskip("torch")

LENGTHS = [3, 0, 9, 1, 12, 7, 7, 2, 30, 4, 5]


def rows():
    """Ids, frames, raw ids and boxes of each sample."""
    rng = np.random.default_rng(3)
    for length in LENGTHS:
        yield {
            "ids": rng.integers(1, 100, length).astype(np.int32),
            "frames": rng.normal(size=(length + 1, 4)).astype(np.float32),
            "raw": rng.integers(1, 1 << 15, length).astype("<u2"),
            "boxes": rng.integers(0, 100, (length % 4, 2)),
            "name": f"sample {length}",
        }


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Data set of these samples."""
    out = tmp_path_factory.mktemp("varying") / "set"
    columns = {"ids": "ndarray:int32", "frames": "ndarray", "raw": "bytes", "meta": "json", "name": "str"}
    with fb.MDSWriter(out=out, columns=columns) as writer:
        for row in rows():
            boxes, raw = row.pop("boxes"), row.pop("raw")
            # An ndarray of MDS has at least one element.
            ids = row["ids"] if len(row["ids"]) else np.array([77], np.int32)
            writer.write({**row, "ids": ids, "raw": raw.tobytes(), "meta": {"boxes": boxes.tolist()}})
    return str(out)


def expected(values, fill, dtype, multiple=1, longest=None):
    """The result of torch's own function for the rows."""
    tensors = [torch.from_numpy(np.asarray(value)[:longest].astype(dtype)) for value in values]
    padded = torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=fill)
    length = -(-padded.shape[1] // multiple) * multiple
    return torch.cat([padded, padded.new_full((len(values), length - padded.shape[1], *padded.shape[2:]), fill)], 1)


def batches_of(values, size=4):
    values = list(values)
    return [values[start : start + size] for start in range(0, len(values), size)]


@pytest.mark.parametrize("options", [{}, {"pad_to_multiple": 8}, {"max_length": 6}, {"max_length": 6, "pad_to_multiple": 8}])
def test_rows_are_padded_as_torch_pads_them(folder, options):
    fields = {
        "ids": fb.Tokens("raw", pad=-1, stored="uint16", **options),
        "mask": fb.AttentionMask("ids"),
        "lengths": fb.Length("raw", stored="uint16"),
        "frames": fb.Array("frames", pad=0.5, **options),
        "frame_mask": fb.AttentionMask("frames", "int64"),
        "name": fb.Text("name"),
        "boxes": fb.Json("meta", "boxes", "float32", shape=(None, 2), pad=float("nan"), **options),
    }
    arguments = {"longest": options.get("max_length"), "multiple": options.get("pad_to_multiple", 1)}
    with fb.Loader(local=folder, batch_size=4, fields=fields) as loader:
        batches = list(loader)
    assert len(batches) == 3
    for batch, samples in zip(batches, batches_of(rows())):
        ids = expected([row["raw"] for row in samples], -1, np.int64, **arguments)
        assert batch["ids"].dtype == torch.int64 and torch.equal(batch["ids"], ids)
        assert batch["mask"].dtype == torch.bool and torch.equal(batch["mask"], ids != -1)
        assert batch["lengths"].tolist() == [len(row["raw"]) for row in samples]
        assert torch.equal(batch["frames"], expected([row["frames"] for row in samples], 0.5, np.float32, **arguments))
        kept = [min(len(row["frames"]), options.get("max_length", 99)) for row in samples]
        assert batch["frame_mask"].dtype == torch.int64 and batch["frame_mask"].sum(1).tolist() == kept
        assert batch["name"] == [row["name"] for row in samples]
        boxes = expected([row["boxes"] for row in samples], float("nan"), np.float32, **arguments)
        assert torch.equal(torch.nan_to_num(batch["boxes"], -5.0), torch.nan_to_num(boxes, -5.0))


@pytest.mark.parametrize("framework", ["numpy", "dlpack", "jax", "tensorflow"])
def test_every_framework_has_dense_arrays(folder, framework):
    if framework in ("jax", "tensorflow"):
        pytest.importorskip(framework)
    fields = {"ids": fb.Tokens("ids", dtype="int32", pad=0, pad_to_multiple=4), "mask": fb.AttentionMask("ids", "int32")}
    with fb.Loader(local=folder, batch_size=11, fields=fields, framework=framework) as loader:
        (batch,) = loader
    ids = [row["ids"] if len(row["ids"]) else [77] for row in rows()]
    assert tuple(batch["ids"].shape) == (11, 32)
    assert np.array_equal(np.asarray(batch["ids"]), expected(ids, 0, np.int32, 4).numpy())
    assert np.asarray(batch["mask"]).sum(1).tolist() == [len(row) for row in ids]


def test_padding_belongs_to_the_batch_whatever_the_ranks_and_skipped_rows_do_not_count(folder, tmp_path):
    fields = {"ids": fb.Tokens("raw", pad=0, stored="uint16")}
    for rank in range(2):
        world = fb.World(rank=rank, world_size=2, local_rank=rank, local_world_size=2)
        with fb.Loader(local=folder, batch_size=2, fields=fields, world=world) as loader:
            for batch in loader:
                assert batch["ids"].shape[1] == int((batch["ids"] != 0).sum(1).max())
    with fb.MDSWriter(out=tmp_path / "set", columns={"ids": "ndarray", "meta": "json"}) as writer:
        for number in range(4):
            writer.write({"ids": np.arange(1, 2 + number), "meta": json.loads("[]" if number == 3 else "[1]")})
    skipping = {"ids": fb.Tokens("ids", pad=0), "one": fb.Json("meta", "[0]", "int64")}
    with fb.Loader(local=tmp_path / "set", batch_size=4, fields=skipping, skip=fb.Skip(errors=1)) as loader:
        (batch,) = loader
    assert batch["ids"].tolist() == [[1, 0, 0], [1, 2, 0], [1, 2, 3]]


def test_a_map_gets_padded_rows(folder):
    fields = {"ids": fb.Tokens("raw", pad=0, stored="uint16"), "mask": fb.AttentionMask("ids")}

    def count(sample, rng):
        return {"sum": sample["ids"].sum(), "n": sample["mask"].sum(), **sample}

    with fb.Loader(local=folder, batch_size=4, fields=fields, map=count) as loader:
        for batch, samples in zip(loader, batches_of(rows())):
            assert batch["sum"].tolist() == [int(row["raw"].sum()) for row in samples]
            assert torch.equal(batch["ids"], expected([row["raw"] for row in samples], 0, np.int64))
            assert batch["n"].tolist() == batch["mask"].sum(1).tolist()


def test_arrays_that_have_one_shape_need_no_padding(tmp_path):
    with fb.MDSWriter(out=tmp_path / "set", columns={"a": "ndarray:float32:3,2"}) as writer:
        for number in range(4):
            writer.write({"a": np.full((3, 2), number, np.float32)})
    fields = {"a": fb.Array("a", pad=0), "mask": fb.AttentionMask("a")}
    with fb.Loader(local=tmp_path / "set", batch_size=4, fields=fields) as loader:
        (batch,) = loader
    assert batch["a"].shape == (4, 3, 2) and batch["mask"].shape == (4, 3) and batch["mask"].all()


@pytest.mark.parametrize("framework", ["torch", "numpy", "dlpack", "jax", "tensorflow"])
@pytest.mark.parametrize("options, shape", [({"max_length": 5}, 5), ({"pad_to_multiple": 8}, 16), ({"max_length": 5, "pad_to_multiple": 8}, 8)])
def test_rows_of_a_fixed_shape_are_cut_and_filled_too(tmp_path, framework, options, shape):
    if framework in ("jax", "tensorflow"):
        pytest.importorskip(framework)
    values = [np.arange(24, dtype=np.int32).reshape(12, 2) + 100 * number for number in range(4)]
    for encoding in ("ndarray:int32:12,2", "ndarray:int32"):
        out = tmp_path / encoding.replace(":", "-")
        with fb.MDSWriter(out=out, columns={"a": encoding}) as writer:
            for value in values:
                writer.write({"a": value})
        fields = {"a": fb.Array("a", pad=-1, **options), "mask": fb.AttentionMask("a", np.bool_)}
        with fb.Loader(local=out, batch_size=4, fields=fields, framework=framework) as loader:
            (batch,) = loader
        kept = options.get("max_length", 12)
        wanted = expected(values, -1, np.int32, options.get("pad_to_multiple", 1), kept)
        assert wanted.shape == (4, shape, 2)
        assert np.array_equal(np.asarray(batch["a"]), wanted.numpy())
        assert np.array_equal(np.asarray(batch["mask"]), np.broadcast_to(np.arange(shape) < kept, (4, shape)))


@pytest.mark.parametrize(
    "arguments, name",
    [({"extra": ["repeat"]}, "repeat"), ({"extra": ["sample_ids"]}, "sample_ids"), ({"map": dict}, "sample_draws")],
)
def test_a_mask_cannot_have_the_name_of_a_second_output(folder, arguments, name):
    fields = {"x": fb.Tokens("raw", pad=0, stored="uint16"), name: fb.AttentionMask("x")}
    with pytest.raises(fb.ConfigError, match=f"adds an output called `{name}`: rename the AttentionMask"):
        fb.Loader(local=folder, batch_size=4, fields=fields, **arguments)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: fb.Tokens("raw"), "Tokens needs a length, or pad"),
        (lambda: fb.Tokens("raw", 4, max_length=5), "max_length of Tokens is for rows as long as the longest"),
        (lambda: fb.Tokens("raw", pad=0, truncate=True), "truncate of Tokens cuts at `length`, which is not set: pass max_length"),
        (lambda: fb.Tokens("raw", pad=0, pad_to_multiple=0), "pad_to_multiple of Tokens is a whole number, at least 1"),
        (lambda: fb.Array("frames", max_length=5), "max_length of Array is for rows that are padded: pass `pad` too"),
        (lambda: fb.Array("frames", pad="x"), "pad of Array is a number"),
        (lambda: fb.Array("frames", "float32", (2, 4), pad=0), "but `shape` fixes the length"),
        (lambda: fb.Json("meta", "boxes", "float32", (4,), pad=0), "pass a shape that begins with None"),
        (lambda: fb.AttentionMask("y"), "'y' is not an output with `pad` and without a length"),
        (lambda: fb.AttentionMask("name"), "'name' is not an output with `pad` and without a length"),
        (lambda: fb.AttentionMask("x", "bfloat16"), 'dtype of AttentionMask is "bool" or a type'),
        (lambda: fb.Tokens("raw", pad=0, pad_to_multiple=2**62), "pad_to_multiple of Tokens is a whole number, at most 1048576"),
        (lambda: fb.Array("ids", pad=0.5), "pad of x is 0.5, which does not fit its type, int32"),
        (lambda: fb.Array("frames", "float16", pad=1000000), "pad of x is 1000000, which does not fit its type, float16"),
        (lambda: fb.Tokens("raw", pad=-1, stored="uint16", dtype="uint16"), "pad of x is -1, which does not fit its type, uint16"),
    ],
)
def test_wrong_arguments_are_config_errors(folder, make, message):
    with pytest.raises(fb.ConfigError, match=message):
        with fb.Loader(local=folder, batch_size=4, fields={"x": make(), "name": fb.Text("name")}) as loader:
            next(iter(loader))


@pytest.mark.parametrize(
    ("fields", "remedy"),
    [
        ({"ids": fb.Tokens("raw", 4)}, "give the Tokens a value that fills its rows, such as pad=0, and leave out its length"),
        ({"ids": fb.Array("ids")}, "give the Array a value that fills its rows, such as pad=0"),
        ({"x": fb.Tokens("ids", pad=0)}, "did you mean 'x'?"),
        ({"idz": fb.Tokens("raw", pad=0)}, "did you mean 'idz'?"),
        ({"ids": fb.Scalar("number"), "x": fb.Tokens("raw", pad=0)}, "these are: x"),
        ({}, 'add one, such as Tokens("ids", pad=0)'),
    ],
)
def test_a_mask_without_padding_names_the_change(folder, fields, remedy):
    with pytest.raises(fb.ConfigError) as caught:
        fb.Loader(local=folder, batch_size=4, fields={**fields, "mask": fb.AttentionMask("ids")})
    assert str(caught.value) == f"fields['mask']: 'ids' is not an output with `pad` and without a length: {remedy}"


def test_rows_that_differ_in_later_dimensions_are_an_error(tmp_path):
    with fb.MDSWriter(out=tmp_path / "set", columns={"a": "ndarray"}) as writer:
        for number in range(1, 3):
            writer.write({"a": np.ones((2, number), np.float32)})
    with fb.Loader(local=tmp_path / "set", batch_size=2, fields={"a": fb.Array("a", pad=0)}) as loader:
        with pytest.raises(fb.ConfigError, match=r"rows of a cannot be padded, .* float32 \(2, 1\) in row 0 and float32 \(2, 2\) in row 1"):
            next(iter(loader))

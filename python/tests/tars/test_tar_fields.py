"""Arrays, values inside JSON and defaults: the same as numpy, json and WebDataset read from the tars."""

import io
import json
import random

import numpy as np
import pytest
from tar_sets import END, tar, webdataset_samples

import forebay as fb


def npy(array, **more):
    out = io.BytesIO()
    np.save(out, array, **more)
    return out.getvalue()


def written(folder, samples, tars=1):
    """Writes `samples` to tars; returns their URL."""
    for number in range(tars):
        (folder / f"{number}.tar").write_bytes(tar(samples[number::tars]) + END)
    return f"{folder}/{{0..{tars - 1}}}.tar"


def column(remote, field, framework="numpy", batch_size=1, **more):
    """The values of `field`, sample by sample."""
    with fb.Loader(remote=remote, batch_size=batch_size, fields={"v": field}, framework=framework, **more) as loader:
        return [value for batch in loader for value in batch["v"]]


ARRAYS = [
    np.arange(24, dtype=kind).reshape(shape, order=order)
    for kind in ("<u1", "<i2", ">i2", "<u4", ">u8", "<f2", ">f4", "<f8", ">f8")
    for shape, order in (((24,), "C"), ((2, 3, 4), "C"), ((2, 3, 4), "F"), ((1, 24, 1), "F"), ((6, 4), "F"))
] + [np.array(2.5), np.array([True, False]), np.zeros((0, 4), "f4"), np.zeros((3, 0, 2), "i8", order="F"), np.arange(9.0)[::2]]


def test_arrays_equal_the_arrays_of_numpy_and_webdataset(tmp_path):
    remote = written(tmp_path, [(f"{i:03}", {"npy": npy(array)}) for i, array in enumerate(ARRAYS)])
    found = column(remote, fb.Array("npy"))
    stored = [np.lib.format.read_array(io.BytesIO(fields["npy"])) for _, fields in webdataset_samples(tmp_path / "0.tar")]
    assert len(found) == len(stored) == len(ARRAYS)
    for ours, theirs in zip(found, stored, strict=True):
        kind = np.uint8 if theirs.dtype == bool else theirs.dtype.newbyteorder("=")
        assert (ours.dtype, ours.shape) == (kind, theirs.shape)
        assert np.array_equal(ours, theirs)
    # Without fields, too.
    with fb.Loader(remote=remote, batch_size=len(ARRAYS), framework="numpy") as loader:
        (batch,) = loader
    assert all(np.array_equal(ours, theirs) for ours, theirs in zip(batch["npy"], stored, strict=True))


def test_arrays_of_one_shape_are_a_tensor(tmp_path):
    arrays = [np.asfortranarray(np.random.default_rng(i).normal(size=(3, 5))) for i in range(8)]
    remote = written(tmp_path, [(f"{i}", {"emb.npy": npy(array)}) for i, array in enumerate(arrays)])
    fields = {"a": fb.Array("emb.npy", "float32", shape=(3, 5)), "n": fb.Length("emb.npy")}
    with fb.Loader(remote=remote, batch_size=8, fields=fields, framework="torch") as loader:
        (batch,) = loader
    assert batch["a"].shape == (8, 3, 5)
    assert np.array_equal(batch["a"].numpy(), np.stack(arrays).astype("float32"))
    assert batch["n"].tolist() == [3] * 8
    with pytest.raises(fb.DecodeError, match=r"the array and the field have different shapes.*shape \[3, 5\], expected \[5, 3\]"):
        column(remote, fb.Array("emb.npy", "float32", shape=(5, 3)))
    with pytest.raises(fb.ConfigError, match="name the `dtype` of the Array"):
        column(remote, fb.Array("emb.npy", shape=(3, 5)))


def test_tokens_in_files_of_numpy_are_padded_and_counted(tmp_path):
    rows = [np.arange(1, 2 + i, dtype=">u2") for i in range(6)]
    remote = written(tmp_path, [(f"{i}", {"ids.npy": npy(row)}) for i, row in enumerate(rows)])
    found = column(remote, fb.Tokens("ids.npy", 4, pad=-1, truncate=True))
    assert [row.tolist() for row in found] == [[*range(1, 2 + i), -1, -1, -1][:4] if i < 4 else [1, 2, 3, 4] for i in range(6)]
    assert column(remote, fb.Length("ids.npy")) == [1, 2, 3, 4, 5, 6]


def test_files_that_are_no_arrays_of_numbers_are_errors_that_name_the_remedy(tmp_path):
    whole = npy(np.arange(4))
    for number, (data, error, message) in enumerate(
        [
            (npy(np.array(["text"])), fb.UnsupportedError, "not numbers that a batch can have.*Bytes field"),
            (npy(np.array([{}], object), allow_pickle=True), fb.UnsupportedError, "not numbers.*type .O"),
            (npy(np.zeros(2, [("a", "f4")])), fb.UnsupportedError, "not numbers"),
            (npy(np.zeros(2, complex)), fb.UnsupportedError, "not numbers"),
            (whole[:-1], fb.DecodeError, "shape and bytes do not fit"),
            (whole + b"0", fb.DecodeError, "shape and bytes do not fit"),
            (b"text", fb.DecodeError, "not an array written by numpy"),
            (b"", fb.DecodeError, "not an array written by numpy"),
        ]
    ):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        with pytest.raises(error, match=f"(?s){message}.*column npy, field v"):
            column(written(folder, [("a", {"npy": data})]), fb.Array("npy"))


def random_document(rng, depth=0):
    kinds = ["text", "int", "float", "bool", "null"] + ["object", "list"] * (depth < 3)
    match rng.choice(kinds):
        case "text":
            return "".join(rng.choices('ab"\\\u00e9\U0001f600\n /', k=rng.randrange(6)))
        case "int":
            return rng.choice([0, -1, 7, 1 << 62, (1 << 64) - 1, -(1 << 63)])
        case "float":
            return rng.choice([0.5, -1e-7, 1e300, 3.0])
        case "bool":
            return rng.random() < 0.5
        case "null":
            return None
        case "object":
            return {rng.choice("abcd\u00e9"): random_document(rng, depth + 1) for _ in range(rng.randrange(5))}
        case "list":
            return [random_document(rng, depth + 1) for _ in range(rng.randrange(4))]


def at(value, path):
    """The value at `path` as Python finds it."""
    for part in path:
        try:
            value = value[int(part) if isinstance(value, list) else part] if not isinstance(value, str) else None
        except (LookupError, TypeError, ValueError):
            return None
    return value


PATHS = [["a"], ["b", 0], ["a", "b"], ["\u00e9", "1"], ["c", "c", "c"], ["d", 1, 0]]


def test_values_are_found_as_python_finds_them(tmp_path):
    rng = random.Random(5)
    documents = [{key: random_document(rng) for key in "abcd\u00e9"} for _ in range(400)]
    text = [json.dumps(document, ensure_ascii=i % 2 == 0, indent=i % 3 or None) for i, document in enumerate(documents)]
    remote = written(tmp_path, [(f"{i:04}", {"json": body.encode()}) for i, body in enumerate(text)])
    for path in PATHS:
        values = [at(json.loads(body), path) for body in text]
        found = column(remote, fb.Json("json", path, "json", default="absent"), batch_size=40)
        # null is a value as JSON; where there is none, the default is.
        assert [json.loads(value) for value in found] == [v if v is not None or f == "null" else "absent" for v, f in zip(values, found)]
        assert [f for v, f in zip(values, found) if v is not None] == [f for f in found if f not in ("null", '"absent"')]
        assert any(v is not None for v in values)


def test_text_numbers_and_lists_have_their_declared_types(tmp_path):
    meta = [
        {
            "caption": f"a \u00e9 \"{i}\"",
            "meta": {"width": 2**40 + i, "ratio": i / 7, "ok": i % 2 == 0},
            "boxes": [[float(j), i, 2, 3] for j in range(i)],
            "a.b": [{"x": -i}],
        }
        for i in range(8)
    ]
    remote = written(tmp_path, [(f"{i}", {"json": json.dumps(value).encode()}) for i, value in enumerate(meta)], tars=2)
    order = [*meta[0::2], *meta[1::2]]
    assert column(remote, fb.Json("json", "caption")) == [m["caption"] for m in order]
    assert column(remote, fb.Json("json", "meta.width", "int64")) == [m["meta"]["width"] for m in order]
    assert column(remote, fb.Json("json", "meta.ratio", "float64")) == [m["meta"]["ratio"] for m in order]
    assert column(remote, fb.Json("json", "meta.ok", "uint8")) == [m["meta"]["ok"] for m in order]
    assert column(remote, fb.Json("json", ["a.b", 0, "x"], np.int32)) == [m["a.b"][0]["x"] for m in order]
    assert [json.loads(text) for text in column(remote, fb.Json("json"))] == order
    found = column(remote, fb.Json("json", "boxes", "float32", shape=(None, 4)))
    for ours, theirs in zip(found, order, strict=True):
        assert np.array_equal(ours, np.array(theirs["boxes"], "float32").reshape(-1, 4)) and ours.dtype == np.float32
    first = column(remote, fb.Json("json", "boxes[0]", "int64", shape=(4,), default=-1), batch_size=8)
    assert [row.tolist() for row in first] == [m["boxes"][0] if m["boxes"] else [-1] * 4 for m in order]


@pytest.mark.parametrize(
    ("body", "field", "message"),
    [
        ("{}", fb.Json("json", "a"), "give the field a `default`"),
        ('{"a": null}', fb.Json("json", "a"), "give the field a `default`"),
        ('{"a": 1}', fb.Json("json", "a"), 'is a number where a string is expected: dtype="json"'),
        ('{"a": "1"}', fb.Json("json", "a", "int64"), 'is a string where a number is expected.*dtype="str"'),
        ('{"a": 1.5}', fb.Json("json", "a", "int64"), "does not fit the requested type"),
        ('{"a": [1]}', fb.Json("json", "a", "int64"), "is a list where a number"),
        ('{"a": 1}', fb.Json("json", "a", "int64", shape=(1,)), "is a number where a list"),
        ('{"a": [1]}', fb.Json("json", "a", "int64", shape=(2,)), "items 1, expected 2"),
        ('{"a": "\\ud800"}', fb.Json("json", "a"), "not a JSON string"),
        ('{"a": 1', fb.Json("json", "a"), "not valid JSON"),
        ("[" * 500 + "]" * 500, fb.Json("json", "a"), "nests deeper"),
        ("", fb.Json("json", "a", default=""), "not valid JSON"),
    ],
)
def test_a_value_of_a_wrong_kind_is_an_error_that_names_the_remedy(tmp_path, body, field, message):
    with pytest.raises(fb.DecodeError, match=f"{message}.*column json, field v"):
        column(written(tmp_path, [("a", {"json": body.encode()})]), field)


@pytest.mark.parametrize(
    ("field", "message"),
    [
        (fb.Json("json", ""), "`path` of Json has an empty part"),
        (fb.Json("json", "a[x]"), "broken position in a list"),
        (fb.Json("json", "a", "str", shape=(3,)), "`shape` of Json is for lists of numbers"),
        (fb.Json("json", "a", "int64", shape=()), "1 to 16 dimensions"),
        (fb.Json("json", "a", "int64", shape=(1 << 62, 4)), "too large"),
        (fb.Json("json", "a", "int64", default="x"), "is a string where a number is expected"),
        (fb.Json("json", "a", default=3), "`default` is not text"),
        (fb.Json("png", "a"), "needs a column of JSON documents"),
        (fb.Scalar("cls", "uint8", default=-1), "does not fit"),
        (fb.Text("txt", default=5), "`default` is not text"),
        (fb.Array("npy", default=[1]), "name the `dtype` of the Array"),
    ],
)
def test_arguments_that_cannot_work_are_rejected_when_the_loader_is_made(tmp_path, field, message):
    sample = {"json": b"{}", "png": b"", "cls": b"1", "txt": b"", "npy": npy(np.arange(2))}
    with pytest.raises(fb.ConfigError, match=message):
        column(written(tmp_path, [("a", sample)]), field)


def with_gaps(count=24):
    """Samples. Some lack fields."""
    samples = []
    for i in range(count):
        fields = {"txt": f"t{i}".encode(), "cls": b"%d" % i, "bin": b"\0%d" % i, "npy": npy(np.full(2, i))}
        fields["json"] = json.dumps({"a": i} if i % 4 else {}).encode()
        samples.append((f"{i:03}", {k: v for j, (k, v) in enumerate(fields.items()) if k == "json" or i % (j + 2)}))
    return samples


DEFAULTS = {
    "k": fb.Text("__key__"),
    "t": fb.Text("txt", default="none"),
    "y": fb.Scalar("cls", default=-1),
    "b": fb.Bytes("bin", default=b"\0"),
    "n": fb.Array("npy", "int64", shape=(2,), default=[-1, -2]),
    "j": fb.Json("json", "a", "float32", default=float("nan")),
    "e": fb.Text("text;txt", default=""),
}


def gap_rows(remote, ranks=1, state=None, **more):
    steps = []
    for rank in range(ranks):
        world = fb.World(rank=rank, world_size=ranks, local_rank=rank, local_world_size=ranks)
        with fb.Loader(remote=remote, batch_size=8 // ranks, fields=DEFAULTS, framework="numpy", world=world, **more) as loader:
            rows = []
            for batch in loader:
                assert all(len(batch[name]) == 8 // ranks for name in DEFAULTS)
                values = [batch["k"], batch["t"], batch["y"].tolist(), batch["b"], batch["n"].tolist(), batch["j"].tolist(), batch["e"]]
                rows.append([repr(row) for row in zip(*values, strict=True)])
            steps.append(rows)
    return [sorted(sum(step, [])) for step in zip(*steps, strict=True)]


def test_samples_without_a_value_have_the_default_on_every_rank(tmp_path):
    samples = with_gaps()
    remote = written(tmp_path, samples, tars=3)
    expected = sorted(
        repr(
            (
                key,
                fields.get("txt", b"none").decode(),
                int(fields.get("cls", -1)),
                fields.get("bin", b"\0"),
                np.load(io.BytesIO(fields["npy"])).tolist() if "npy" in fields else [-1, -2],
                float(json.loads(fields["json"]).get("a", "nan")),
                fields.get("txt", b"").decode(),
            )
        )
        for key, fields in samples
    )
    whole = gap_rows(remote, shuffle=True)
    assert sorted(sum(whole, [])) == expected
    for ranks in (2, 4, 8):
        assert gap_rows(remote, ranks, shuffle=True, order=fb.Order(num_canonical_nodes=1)) == gap_rows(
            remote, shuffle=True, order=fb.Order(num_canonical_nodes=1)
        )


def test_the_names_of_the_fields_of_a_sample_are_a_column(tmp_path):
    samples = with_gaps()
    remote = written(tmp_path, samples)
    assert column(remote, fb.Text("__fields__")) == ["\n".join(fields) for _, fields in samples]
    (tmp_path / "1.tar").write_bytes(tar([("a", {"__fields__": b""})]) + END)
    with pytest.raises(fb.FormatError, match="two files of one field.*__fields__"):
        column(f"{tmp_path}/1.tar", fb.Text("__key__"))


def test_a_sample_without_the_field_is_an_error_that_names_its_key(tmp_path):
    remote = written(tmp_path, with_gaps())
    with pytest.raises(fb.FormatError, match='no file of this field: give the field a `default`.*skip.errors.*column cls, key 000'):
        column(remote, fb.Scalar("cls"))
    with fb.Loader(remote=remote, batch_size=8, fields={"y": fb.Scalar("cls"), "d": fb.Scalar("cls", default=0)}) as loader:
        with pytest.raises(fb.FormatError, match="no file of this field"):
            list(loader)
    kept = column(remote, fb.Scalar("cls"), batch_size=2, skip=fb.Skip(errors=24))
    assert set(kept) == {i for i in range(24) if i % 3}


def test_a_field_that_the_counted_samples_lack_is_found_in_later_ones(tmp_path, caplog):
    samples = [(f"{i}", {"cls": b"1", **({"txt": b"later"} if i == 5 else {})}) for i in range(6)]
    (tmp_path / "0.tar").write_bytes(tar(samples[:3]) + END)
    (tmp_path / "1.tar").write_bytes(tar(samples[3:]) + END)
    (tmp_path / "sizes.json").write_text(json.dumps({"0.tar": 3, "1.tar": 3}))
    remote = f"{tmp_path}/{{0..1}}.tar"
    assert column(remote, fb.Text("txt", default="")) == ["", "", "", "", "", "later"]
    assert "no sample is known to have the column txt" in caplog.text and "columns __key__, cls" in caplog.text


def test_a_default_for_a_column_that_no_shard_has_is_an_error(tmp_path):
    with fb.MDSWriter(out=str(tmp_path), columns={"class": "int"}) as writer:
        writer.write({"class": 1})
    with pytest.raises(fb.ConfigError, match="no such column, so all samples would have the field's default.*columns class"):
        column(str(tmp_path), fb.Scalar("cls", default=-1))


def test_a_stream_without_the_column_has_the_default_of_a_different_kind_of_data(tmp_path):
    remote = written(tmp_path, [(f"{i}", {"cls": b"%d" % i, "txt": b"tar", "json": b'{"a": [%d]}' % i}) for i in range(4)])
    with fb.MDSWriter(out=str(tmp_path / "mds"), columns={"cls": "int", "meta": "json"}) as writer:
        for i in range(4):
            writer.write({"cls": 10 + i, "meta": {"a": [i]}})
    fields = {"y": fb.Scalar("cls", "int64"), "t": fb.Text("txt", default="mds"), "a": fb.Json("json", "a", "int32", shape=(1,), default=7)}
    streams = [fb.Stream(remote=remote), fb.Stream(remote=str(tmp_path / "mds"))]
    with fb.Loader(streams=streams, batch_size=8, fields=fields, framework="numpy") as loader:
        (batch,) = loader
    rows = sorted(zip(batch["y"].tolist(), batch["t"], batch["a"].tolist(), strict=True))
    assert rows == [(i, "tar", [i]) for i in range(4)] + [(10 + i, "mds", [7]) for i in range(4)]


@pytest.mark.parametrize("counts", [False, True], ids=["counted", "foreign"])
def test_a_stream_of_tars_without_a_file_of_a_different_extension_has_the_default(tmp_path, counts):
    """The extension `caption` shows no type, so the field's default is all that is known."""
    for name, count in (("a", 3), ("b", 2)):
        (tmp_path / name).mkdir()
        samples = [(f"{i}", {"cls": b"%d" % i} | ({"caption": "é".encode()} if name == "a" else {})) for i in range(count)]
        (tmp_path / name / "0.tar").write_bytes(tar(samples) + END)
        if counts:
            (tmp_path / name / "sizes.json").write_text(json.dumps({"0.tar": count}))
    field = fb.Text("caption", default="")
    if counts:
        assert column(str(tmp_path / "b/0.tar"), field) == ["", ""]
    streams = [fb.Stream(remote=str(tmp_path / name / "0.tar")) for name in ("a", "b")]
    for order in (streams, streams[::-1]):
        with fb.Loader(streams=order, batch_size=5, fields={"y": fb.Scalar("cls"), "t": field}) as loader:
            (batch,) = loader
        assert sorted(zip(batch["t"], batch["y"].tolist(), strict=True)) == [("", 0), ("", 1), ("é", 0), ("é", 1), ("é", 2)]


def test_tars_without_any_of_several_files_have_the_default(tmp_path):
    remote = written(tmp_path, [(f"{i}", {"txt": b"t"}) for i in range(2)])
    kinds = {"label;cls": "int"}
    with fb.MDSWriter(out=str(tmp_path / "mds"), columns=kinds) as writer:
        writer.write({"label;cls": 7})
    fields = {"y": fb.Scalar("label;cls", default=-1)}
    streams = [fb.Stream(remote=remote), fb.Stream(remote=str(tmp_path / "mds"))]
    with fb.Loader(streams=streams, batch_size=3, fields=fields, framework="numpy") as loader:
        (batch,) = loader
    assert sorted(batch["y"].tolist()) == [-1, -1, 7]


def test_tars_have_the_defaults_of_columns_that_a_different_kind_of_data_has(tmp_path):
    remote = written(tmp_path, [(f"{i}", {"cls": b"%d" % i}) for i in range(2)])
    kinds = {"cls": "int", "label": "int", "price": "float32", "ids": "ndarray:int32", "meta": "json"}
    with fb.MDSWriter(out=str(tmp_path / "mds"), columns=kinds) as writer:
        writer.write({"cls": 9, "label": 7, "price": 0.5, "ids": np.arange(2, dtype="i4"), "meta": {"a": 4}})
    fields = {
        "cls": fb.Scalar("cls"),
        "label": fb.Scalar("label", default=-1),
        "price": fb.Scalar("price", "float32", default=2),
        "ids": fb.Array("ids", "int32", default=[]),
        "a": fb.Json("meta", "a", "int16", default=-3),
    }
    streams = [fb.Stream(remote=remote), fb.Stream(remote=str(tmp_path / "mds"))]
    with fb.Loader(streams=streams, batch_size=3, fields=fields, framework="numpy") as loader:
        (batch,) = loader
    rows = zip(*(batch[name] for name in fields), strict=True)
    found = sorted([int(cls), int(label), float(price), ids.tolist(), int(a)] for cls, label, price, ids, a in rows)
    assert found == [[0, -1, 2.0, [], -3], [1, -1, 2.0, [], -3], [9, 7, 0.5, [0, 1], 4]]


def test_bytes_that_are_no_text_are_an_error_of_a_text_field(tmp_path):
    remote = written(tmp_path, [("a", {"caption": b"\xff"})])
    with pytest.raises(fb.DecodeError, match="the text is not UTF-8"):
        column(remote, fb.Text("caption"))


def test_columns_of_mds_and_jsonl_have_values_inside_them(tmp_path):
    documents = [{"a": {"b": [i, i + 1]}, "t": f"x{i}"} for i in range(4)]
    with fb.MDSWriter(out=str(tmp_path / "mds"), columns={"j": "json", "s": "str", "b": "bytes"}) as writer:
        for i, value in enumerate(documents):
            writer.write({"j": value, "s": json.dumps(value), "b": npy(np.arange(i, dtype="i2"))})
    from forebay.streaming import JSONWriter

    with JSONWriter(out=str(tmp_path / "jsonl"), columns={"s": "str"}) as writer:
        for value in documents:
            writer.write({"s": json.dumps(value)})
    for folder, names in (("mds", ("j", "s")), ("jsonl", ("s",))):
        for name in names:
            remote = str(tmp_path / folder)
            assert column(remote, fb.Json(name, "t")) == [value["t"] for value in documents]
            assert column(remote, fb.Json(name, "a.b[1]", "float16")) == [1, 2, 3, 4]
    assert [array.tolist() for array in column(str(tmp_path / "mds"), fb.Array("b"))] == [[], [0], [0, 1], [0, 1, 2]]

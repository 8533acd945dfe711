"""`Skip(missing=True)`: samples without a field are left out when the plan is made."""

import json
import pathlib

import numpy as np
import pytest
from tar_sets import END, tar

import forebay as fb
from forebay.index import index_tars
from forebay.to_mds import convert

PARQUET = pathlib.Path(__file__).parents[3] / "tests/data/parquet"


def with_gaps(count=48, first=0):
    """Samples. Some lack fields."""
    for i in range(first, first + count):
        fields = {"cls": b"%d" % i, "txt": b"t" * (i % 3), "bin": bytes([i]), "json": json.dumps({"a": i}).encode()}
        yield f"{i:03}", {field: data for place, (field, data) in enumerate(fields.items()) if field == "cls" or (i + place) % 4}


@pytest.fixture
def samples():
    return [*with_gaps(48), *((f"{i:03}", {"cls": b"%d" % i}) for i in range(48, 60)), *with_gaps(36, 60)]


@pytest.fixture
def tars(tmp_path, samples):
    """The samples in three tars. The second tar has no sample with all fields."""
    for number, part in enumerate((samples[:48], samples[48:60], samples[60:])):
        (tmp_path / f"{number}.tar").write_bytes(tar(part) + END)
    return f"{tmp_path}/{{0..2}}.tar"


def classes(remote, fields, ranks=1, state=None, **more):
    """The classes of each step of all ranks."""
    parts = []
    for rank in range(ranks):
        world = fb.World(rank=rank, world_size=ranks, local_rank=rank, local_world_size=ranks)
        fields = {"y": fb.Scalar("cls"), **fields}
        options = {
            "fields": fields,
            "framework": "numpy",
            "skip": fb.Skip(missing=True),
            "order": fb.Order(num_canonical_nodes=2),
            "shuffle": True,
        }
        with fb.Loader(remote=remote, batch_size=4 // ranks, world=world, **(options | more)) as loader:
            if state is not None:
                loader.load_state_dict(state, strict=False)
            parts.append([batch["y"].tolist() for batch in loader])
    return [sorted(sum(step, [])) for step in zip(*parts, strict=True)]


CASES = {
    "text": ({"t": fb.Text("txt")}, ["txt"]),
    "both": ({"t": fb.Text("txt"), "b": fb.Bytes("bin")}, ["txt", "bin"]),
    "default": ({"t": fb.Text("txt", default=""), "b": fb.Bytes("bin")}, ["bin"]),
    "document": ({"j": fb.Text("json")}, ["json"]),
    "none": ({}, []),
}


@pytest.mark.parametrize("case", CASES)
def test_samples_of_tars_without_the_fields_are_not_in_the_plan(tars, samples, case):
    fields, needed = CASES[case]
    expected = {int(of["cls"]) for _, of in samples if all(field in of for field in needed)}
    whole = classes(tars, fields)
    assert set(sum(whole, [])) == expected
    for ranks in (2, 4):
        # Different numbers of ranks fill the last step with different repeats.
        found = classes(tars, fields, ranks)
        assert found[:-1] == whole[:-1] and set(found[-1]) >= set(whole[-1])


def test_alternatives_count_as_one_field(tars, samples):
    expected = {int(of["cls"]) for _, of in samples if "txt" in of or "bin" in of}
    assert set(sum(classes(tars, {"v": fb.Bytes("txt;bin")}), [])) == expected


def test_a_state_resumes_and_a_loader_that_keeps_all_refuses_it(tars):
    fields = {"y": fb.Scalar("cls"), "t": fb.Text("txt")}
    options = {"batch_size": 4, "fields": fields, "framework": "numpy", "order": fb.Order(num_canonical_nodes=2), "shuffle": True}
    with fb.Loader(remote=tars, skip=fb.Skip(missing=True), **options) as loader:
        taken = iter(loader)
        first = [next(taken)["y"].tolist() for _ in range(2)]
        state = loader.state_dict()
    whole = classes(tars, {"t": fb.Text("txt")})
    assert [sorted(step) for step in first] == whole[:2]
    rest = classes(tars, {"t": fb.Text("txt")}, 2, state)
    assert rest[:-1] == whole[2:-1] and set(rest[-1]) >= set(whole[-1])
    options["fields"] = {"y": fb.Scalar("cls"), "t": fb.Text("txt", default="")}
    with fb.Loader(remote=tars, **options) as loader, pytest.raises(fb.Error, match="filter|selection|samples"):
        loader.load_state_dict(state)


def test_a_converted_data_set_has_the_same_plan(tars, tmp_path):
    convert(tars, tmp_path / "mds", threads=1)
    fields = {"t": fb.Text("txt"), "b": fb.Bytes("bin")}
    kept = [sorted(sum(classes(remote, fields, shuffle=False), [])) for remote in (tars, tmp_path / "mds")]
    assert kept[0] == kept[1] and kept[0]


def test_a_filter_holds_together_with_it(tars, samples):
    expected = {int(of["cls"]) for _, of in samples if "txt" in of and int(of["cls"]) < 20}
    assert set(sum(classes(tars, {"t": fb.Text("txt")}, select=fb.Select(filter="cls < 5 or cls < 20")), [])) == expected


def test_data_without_gaps_is_not_read_beforehand(tmp_path):
    (tmp_path / "0.tar").write_bytes(tar([(f"{i}", {"cls": b"%d" % i}) for i in range(8)]) + END)
    with fb.Loader(remote=f"{tmp_path}/0.tar", batch_size=4, fields={"y": fb.Scalar("cls")}, skip=fb.Skip(missing=True)) as loader:
        assert loader.stats()["counters"].get("filter_shards_read", 0) == 0
        assert sum(len(batch["y"]) for batch in loader) == 8


def test_a_field_that_no_sample_has_is_an_error(tars):
    with pytest.raises(fb.ConfigError, match="no such column"):
        classes(tars, {"t": fb.Text("absent")})


def test_a_field_that_only_one_stream_lacks_is_an_error_about_that_stream(tars, tmp_path):
    (tmp_path / "other.tar").write_bytes(tar([("0", {"cls": b"0"})]) + END)
    streams = [fb.Stream(remote=tars), fb.Stream(remote=f"{tmp_path}/other.tar")]
    fields = {"y": fb.Scalar("cls"), "t": fb.Text("txt")}
    with pytest.raises(fb.ConfigError, match="the stream has no such column.*columns __key__, cls, stream "):
        fb.Loader(streams=streams, batch_size=4, fields=fields, skip=fb.Skip(missing=True))


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_rows_with_nulls_are_not_in_the_plan(suffix, tmp_path):
    pa, pq, ipc = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow.ipc")
    rows = [
        {"cls": i, "txt": None if i % 3 == 0 else "t" * (i % 5), "x": None if i % 4 == 1 else i / 2, "ids": None if i % 5 == 2 else [i]}
        for i in range(64)
    ]
    table = pa.Table.from_pylist(rows)
    path = tmp_path / f"0.{suffix}"
    if suffix == "parquet":
        pq.write_table(table, path, row_group_size=9)
    else:
        with ipc.new_stream(str(path), table.schema) as writer:
            writer.write_table(table, max_chunksize=9)
    fields = {"t": fb.Text("txt"), "x": fb.Scalar("x", "float32", default=np.float32(0).item()), "ids": fb.Array("ids")}
    expected = {row["cls"] for row in rows if row["txt"] is not None and row["ids"] is not None}
    whole = classes(path, fields)
    assert set(sum(whole, [])) == expected
    assert classes(path, fields, 2)[:-1] == whole[:-1]
    kept = classes(path, {"x": fb.Scalar("x")}, select=fb.Select(filter="x is not null"))
    assert set(sum(kept, [])) == {row["cls"] for row in rows if row["x"] is not None}


@pytest.mark.parametrize(("field", "expected"), [(fb.Length("empty"), {0, 1, 2}), (fb.Text("some"), {0, 2})])
def test_empty_lists_are_not_missing(field, expected):
    fields = {"y": fb.Scalar("id"), "n": field}
    assert set(sum(classes(PARQUET / "presence.parquet", fields), [])) == expected


@pytest.mark.parametrize("place", ["folder", "index"])
def test_fields_of_tars_that_a_foreign_program_has_counted_may_be_missing(place, tmp_path):
    """The counts of another program show the fields of the first samples, which all have them."""
    late = [(f"{i:03}", {"cls": b"%d" % i} | ({"txt": b"t"} if i < 6 or i % 3 else {})) for i in range(24)]
    (tmp_path / "0.tar").write_bytes(tar(late[:6]) + END)
    (tmp_path / "1.tar").write_bytes(tar(late[6:]) + END)
    (tmp_path / "sizes.json").write_text('{"0.tar": 6, "1.tar": 18}')
    remote = f"{tmp_path}/{{0..1}}.tar"
    if place == "index":
        index_tars(remote)
    expected = {int(of["cls"]) for _, of in late if "txt" in of}
    whole = classes(remote, {"t": fb.Text("txt")})
    assert set(sum(whole, [])) == expected and len(expected) < 24
    assert classes(remote, {"t": fb.Text("txt")}, 2)[:-1] == whole[:-1]


def test_fields_that_the_counted_samples_lack_may_be_in_later_ones(tmp_path, caplog):
    late = [(f"{i:03}", {"cls": b"%d" % i} | ({"caption": b"c"} if i >= 6 and i % 3 else {})) for i in range(24)]
    (tmp_path / "0.tar").write_bytes(tar(late[:6]) + END)
    (tmp_path / "1.tar").write_bytes(tar(late[6:]) + END)
    (tmp_path / "sizes.json").write_text('{"0.tar": 6, "1.tar": 18}')
    remote = f"{tmp_path}/{{0..1}}.tar"
    with caplog.at_level("WARNING", "forebay"):
        assert set(sum(classes(remote, {"t": fb.Text("caption")}), [])) == {int(of["cls"]) for _, of in late if "caption" in of}
    assert "no sample is known to have the column caption, so skip.missing" in caplog.text
    with pytest.raises(fb.ConfigError, match="the data set has no such column"):
        classes(remote, {"t": fb.Text("captions")})

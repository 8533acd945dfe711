"""Folders that Megatron Energon has prepared: `.nv-meta/split.yaml` and `.nv-meta/.info.json`."""

import contextlib
import json

import pytest
from range_server import Served
from test_tar_index import write

import forebay as fb

COUNTS = {"shards/0.tar": 3, "shards/1.tar": 5, "shards/2.tar": 2, "extra/0.tar": 4, "spoiled.tar": 1}

# As `energon prepare` writes it.
SPLIT = """exclude:
- spoiled.tar
split_parts:
  test: []
  train:
  - shards/1.tar
  - shards/{0..0}.tar
  - spoiled.tar
  val:
  - extra/0.tar
  - shards/2.tar
"""


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "set"
    (folder / ".nv-meta").mkdir(parents=True)
    for number, (name, count) in enumerate(COUNTS.items()):
        (folder / name).parent.mkdir(exist_ok=True)
        write(folder / name, number, count)
    (folder / ".nv-meta/split.yaml").write_text(SPLIT)
    (folder / ".nv-meta/.info.json").write_text(json.dumps({"energon_version": "7.1.0", "shard_counts": COUNTS}))
    (folder / ".nv-meta/dataset.yaml").write_text("sample_type:\n  __module__: megatron.energon\n  __class__: CrudeWebdataset\n")
    return folder


@pytest.fixture(params=["folder", "local", "http", "bucket"])
def places(request, folder, bucket, bucket_environment):
    """Arguments of a loader that name the folder."""
    with contextlib.ExitStack() as stack:
        if request.param == "http":
            yield {"remote": stack.enter_context(contextlib.closing(Served(folder))).url}
        elif request.param == "bucket":
            for path in folder.rglob("*.*"):
                if path.is_file():
                    bucket.objects[f"energon/{path.relative_to(folder).as_posix()}"] = path.read_bytes()
            yield {"remote": "s3://bucket/energon"}
        else:
            yield {"local" if request.param == "local" else "remote": folder}


def keys(split, place, **options):
    with fb.Loader(**place, split=split, batch_size=1, fields={"key": fb.Text("__key__")}, **options) as loader:
        return [batch["key"][0] for batch in loader]


def expected(*tars):
    return [f"{list(COUNTS).index(tar)}-{sample}" for tar in tars for sample in range(COUNTS[tar])]


def test_a_split_has_its_tars_in_their_order_by_the_counts_of_energon(places, caplog):
    for _ in range(2):
        assert keys("train", places) == expected("shards/1.tar", "shards/0.tar")
        assert keys("val", places) == expected("extra/0.tar", "shards/2.tar")
    assert "read once" not in caplog.text
    with pytest.raises(fb.ConfigError, match="the split has no tars.*split test"):
        keys("test", places)
    with pytest.raises(fb.ConfigError, match=r"more than one split \(test, train, val\)"):
        keys(None, places)
    with pytest.raises(fb.ConfigError, match="no split dev; there are test, train, val"):
        keys("dev", places)


def test_the_only_split_needs_no_name_and_json_is_read(folder):
    (folder / ".nv-meta/split.yaml").unlink()
    (folder / ".nv-meta/split.json").write_text(json.dumps({"split_parts": {"all": ["shards/2.tar"]}, "exclude": []}))
    assert keys(None, {"remote": folder}) == keys("all", {"remote": folder}) == expected("shards/2.tar")


def test_a_copy_of_a_folder_has_the_state_of_the_folder_and_a_cache(places, folder, tmp_path):
    if "remote" not in places:
        pytest.skip("a folder that is `local` has no copy")
    fields = {"key": fb.Text("__key__")}
    with fb.Loader(remote=folder, split="train", batch_size=2, fields=fields) as loader:
        state = loader.state_dict()
    for _ in range(2):
        with fb.Loader(**places, split="train", local=tmp_path / "local", batch_size=2, fields=fields) as loader:
            loader.load_state_dict(state)
            assert [key for batch in loader for key in batch["key"]] == expected("shards/1.tar", "shards/0.tar")


def test_a_split_that_changes_has_different_tars(folder):
    assert keys("val", {"remote": folder}) == expected("extra/0.tar", "shards/2.tar")
    (folder / ".nv-meta/split.yaml").write_text(SPLIT.replace("  - extra/0.tar\n", ""))
    assert keys("val", {"remote": folder}) == expected("shards/2.tar")


def test_a_folder_with_an_index_of_shards_is_read_by_that(folder):
    with fb.MDSWriter(out=folder / "train", columns={"__key__": "str"}) as writer:
        writer.write({"__key__": "of mds"})
    assert keys("train", {"remote": folder}) == ["of mds"]


def test_samples_that_are_excluded_one_by_one_are_refused_with_the_filter(folder):
    (folder / ".nv-meta/split.yaml").write_text(SPLIT.replace("- spoiled.tar\nsplit", "- shards/1.tar/1-3\nsplit"))
    with pytest.raises(fb.UnsupportedError, match="filter=\"__key__ != '1-3'\""):
        keys("train", {"remote": folder})


def test_damaged_files_of_energon_name_the_file(folder):
    (folder / ".nv-meta/split.yaml").write_text("split_parts: [")
    with pytest.raises(fb.FormatError, match=r"\.nv-meta/split\.yaml"):
        keys("train", {"remote": folder})

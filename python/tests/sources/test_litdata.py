"""LitData's chunks: the values of LitData's own reader, in forebay's order."""

import io
import itertools
import json
import pathlib
import shutil

import litdata
import numpy as np
import PIL.Image
import pytest
import torch
from litdata.streaming import Cache
from litdata.utilities.encryption import FernetEncryption
from record_rows import FIELDS, rows, token_rows
from source_matrix import Case, SourceMatrix, opened

import forebay as fb
from forebay.to_mds import convert

_prefixes = itertools.count()


@pytest.fixture(autouse=True)
def litdata_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LITDATA_CACHE_DIR", str(tmp_path / "litdata"))


def written(folder, items, **options):
    """Writes `items` with LitData."""
    cache = Cache(str(folder), **options)
    for number, item in enumerate(items):
        cache._add_item(number, item)
    cache.done()
    cache.merge()
    return folder


def index_of(folder):
    return json.loads((folder / "index.json").read_text())


def in_bucket(folder, bucket):
    """URL of the same files in the bucket."""
    prefix = f"litdata-{next(_prefixes)}"
    bucket.objects.update({f"{prefix}/{path.name}": path.read_bytes() for path in folder.iterdir()})
    return f"s3://bucket/{prefix}"


def items(count=120):
    for number in range(count):
        values = torch.arange(number, number + 400 + number % 7, dtype=torch.int32)
        yield {"number": number, "text": "ä" * (number % 5), "values": values}


SAMPLES = [(item["number"], item["text"], tuple(item["values"].tolist())) for item in items()]


class OfItems(SourceMatrix):
    CACHE_LIMIT = 120_000
    options = {}

    @pytest.fixture(scope="class")
    @classmethod
    def folder(cls, tmp_path_factory):
        return written(tmp_path_factory.mktemp("items"), items(), chunk_size=13, **cls.options)

    @pytest.fixture
    def case(self, folder, bucket):
        stored = in_bucket(folder, bucket)
        return Case(str(folder), stored, {"fields": FIELDS}, rows, SAMPLES, ".bin")


class TestPlainChunks(OfItems):
    def test_chunks_of_this_machine_are_read_where_they_are(self, case, folder, cache):
        names = sorted(path.name for path in folder.iterdir())
        for place in ({"remote": case.remote}, {"local": case.remote}):
            with fb.Loader(**place, batch_size=8, framework="numpy", **case.options) as loader:
                assert sum(map(rows, loader), []) == SAMPLES
        assert not cache.exists() and sorted(path.name for path in folder.iterdir()) == names

    def test_samples_are_read_by_their_numbers(self, case, folder, bucket_environment, cache):
        for remote in (folder, case.stored):
            reader = fb.ShardReader(remote)
            values = (reader[i] for i in range(len(reader)))
            assert [(int(v["number"]), v["text"], tuple(v["values"].tolist())) for v in values] == SAMPLES

    def test_a_state_of_the_folder_resumes_from_the_bucket(self, case, bucket_environment, tmp_path):
        with opened(case) as loader:
            taken = iter(loader)
            found = rows(next(taken))
            state = loader.state_dict()
        with opened(case, case.stored, local=tmp_path / "local") as loader:
            loader.load_state_dict(state)
            assert found + sum(map(rows, loader), []) == SAMPLES

    def test_chunks_that_earlier_versions_counted_without_their_table_are_read(self, case, folder, bucket, bucket_environment, tmp_path):
        index = index_of(folder)
        for chunk in index["chunks"]:
            chunk["chunk_bytes"] -= 4 * (chunk["chunk_size"] + 2)
        bucket.objects[case.stored.removeprefix("s3://bucket/") + "/index.json"] = json.dumps(index).encode()
        with opened(case, case.stored, local=tmp_path / "local") as loader:
            assert sum(map(rows, loader), []) == SAMPLES

    def test_the_lengths_of_two_chunks_are_requested_once(self, case, bucket, bucket_environment, tmp_path):
        for keys in (["chunk-0-0.bin", "chunk-0-9.bin", "index.json"], ["index.json"]):
            bucket.seen.clear()
            with opened(case, case.stored, local=tmp_path / "local"):
                assert sorted(request.key.split("/")[-1] for request in bucket.seen) == keys

    def test_a_changed_index_is_stale(self, case, folder, bucket, bucket_environment, tmp_path):
        with opened(case, case.stored, local=tmp_path / "local"):
            pass
        index = index_of(folder)
        del index["chunks"][3]
        bucket.objects[case.stored.removeprefix("s3://bucket/") + "/index.json"] = json.dumps(index).encode()
        with pytest.raises(fb.Error, match="the remote index changed"):
            opened(case, case.stored, local=tmp_path / "local")


class TestCompressedChunks(OfItems):
    options = {"compression": "zstd:7", "compression_level": "chunk"}

    def test_the_files_are_compressed(self, folder):
        assert all(path.name.endswith(".zstd:7.bin") for path in folder.iterdir() if path.name != "index.json")


class TestGroupsOfItems(OfItems):
    options = {"compression": "zstd", "compression_batch_size": 4}

    def test_the_items_are_compressed_in_groups(self, folder):
        assert index_of(folder)["config"]["compression_level"] == "batch"
        assert all(path.read_bytes().startswith(b"LDFZ") for path in folder.glob("*.bin"))


class TestCompressedItems(OfItems):
    options = {"compression": "zstd", "compression_level": "sample"}


def token_items(dtype):
    # As many as divide among the ranks of the tests, also as windows.
    for number in range(304):
        # All tokens differ.
        yield torch.arange(1000 * number, 1000 * number + 50 + number % 90).to(dtype)


class OfTokens(SourceMatrix):
    CACHE_LIMIT = 40_000
    window = None

    @pytest.fixture(scope="class")
    @classmethod
    def folder(cls, tmp_path_factory):
        folder = tmp_path_factory.mktemp("tokens")
        return written(folder, token_items(torch.int32), chunk_bytes=9_000, item_loader=litdata.TokensLoader())

    @pytest.fixture
    def case(self, folder, bucket):
        options = {"fields": {"ids": fb.Array("tokens")}} | ({"window": self.window} if self.window else {})
        return Case(str(folder), in_bucket(folder, bucket), options, token_rows, self.samples(folder), ".bin")


class TestDocuments(OfTokens):
    def samples(self, folder):
        return [tuple(item.tolist()) for item in token_items(torch.int32)]


class TestWindows(OfTokens):
    window = 43

    def samples(self, folder):
        theirs = litdata.StreamingDataset(str(folder), item_loader=litdata.TokensLoader(block_size=43))
        return [tuple(theirs[number].tolist()) for number in range(len(theirs))]

    def test_windows_may_overlap(self, case, folder):
        with fb.Loader(remote=folder, window=fb.TokenWindow(43, stride=42), batch_size=1, fields=case.options["fields"]) as loader:
            first, second, *_ = (token_rows(batch)[0] for batch in loader)
        assert first == case.samples[0] and second == (*first[42:], *case.samples[1][:42])

    def test_a_state_of_different_windows_is_rejected(self, case):
        with opened(case) as loader:
            state = loader.state_dict()
        other = fb.Loader(remote=case.remote, window=17, batch_size=8, fields=case.options["fields"])
        with other as loader, pytest.raises(fb.StateError):
            loader.load_state_dict(state)


def test_windows_of_different_samples_are_an_error(tmp_path):
    folder = written(tmp_path / "set", [{"n": n} for n in range(3)], chunk_size=2)
    with pytest.raises(fb.ConfigError, match="files of token ids"):
        fb.Loader(remote=folder, window=2, batch_size=1)


@pytest.mark.parametrize("dtype", [np.uint16, np.int64])
def test_windows_of_numpy_arrays_are_as_in_litdata(tmp_path, dtype):
    items = (np.arange(n, n + 30, dtype=dtype) for n in range(40))
    folder = written(tmp_path / "set", items, chunk_bytes=2_000, item_loader=litdata.TokensLoader())
    theirs = litdata.StreamingDataset(str(folder), item_loader=litdata.TokensLoader(block_size=7))
    with fb.Loader(remote=folder, window=7, batch_size=1, fields={"ids": fb.Tokens("tokens", 7)}, framework="numpy") as loader:
        ours = [batch["ids"][0].tolist() for batch in loader]
    assert ours == [theirs[number].tolist() for number in range(len(theirs))]


def jpeg(number):
    file = io.BytesIO()
    PIL.Image.new("RGB", (16, 8), (number, 2 * number, 0)).save(file, "jpeg")
    return file.getvalue()


def test_every_type_has_the_value_of_litdata(tmp_path):
    def item(n):
        pixels = np.random.default_rng(n).integers(0, 256, (5, 4, 3), dtype=np.uint8)
        return {
            "int": n - 3,
            "float": n / 7,
            "bool": n % 2 == 0,
            "str": "ü" * n,
            "bytes": bytes(range(n)),
            "jpeg": PIL.Image.open(io.BytesIO(jpeg(n))),
            "pil": PIL.Image.fromarray(pixels),
            "ids": torch.arange(n + 1, dtype=torch.int64) << 33,
            "flags": torch.tensor([True, False]),
            "matrix": torch.full((2, n + 1), n / 3, dtype=torch.float64),
            "half": torch.full((2, 2), n / 3, dtype=torch.float16),
            "row": np.arange(n + 1, dtype=np.uint16),
            "table": np.full((3, 2), n, dtype=np.float32),
            "pair": (n, {"deep": [n, str(n)]}),
        }

    folder = written(tmp_path / "set", map(item, range(9)), chunk_size=4)
    arrays = ["ids", "flags", "matrix", "half", "row", "table"]
    numbers = ["int", "float", "bool", "pair.0", "pair.1.deep.0"]
    fields = {name: fb.Array(name) for name in arrays} | {name: fb.Scalar(name) for name in numbers}
    fields |= {name: fb.Text(name) for name in ("str", "pair.1.deep.1")} | {name: fb.Image(name) for name in ("jpeg", "pil")}
    fields["bytes"] = fb.Bytes("bytes")
    theirs = litdata.StreamingDataset(str(folder))
    with fb.Loader(remote=folder, batch_size=1, fields=fields, framework="torch") as loader:
        for number, batch in enumerate(loader):
            expected = theirs[number]
            for name in arrays:
                value = torch.as_tensor(expected[name])
                found = batch[name][0]
                assert torch.equal(found.to(value.dtype), value) and found.shape == value.shape, name
            pair = expected.pop("pair")
            expected |= {"pair.0": pair[0], "pair.1.deep.0": pair[1]["deep"][0], "pair.1.deep.1": pair[1]["deep"][1]}
            for name in numbers:
                assert batch[name][0].item() == expected[name], name
            for name in ("str", "pair.1.deep.1"):
                assert batch[name][0] == expected[name], name
            assert bytes(batch["bytes"][0]) == bytes(expected["bytes"])
            assert np.array_equal(batch["pil"][0].permute(1, 2, 0), np.asarray(expected["pil"]))
            assert (batch["jpeg"][0].int() - expected["jpeg"].int()).abs().max() <= 2
        assert number == 8


def test_values_without_a_key_have_the_number_of_their_position(tmp_path):
    lists = written(tmp_path / "lists", [[n, [n + 1, n + 2]] for n in range(5)], chunk_size=2)
    with fb.Loader(remote=lists, batch_size=5) as loader:
        assert {name: column.tolist() for name, column in next(iter(loader)).items()} == {
            "0": [0, 1, 2, 3, 4],
            "1.0": [1, 2, 3, 4, 5],
            "1.1": [2, 3, 4, 5, 6],
        }
    bare = written(tmp_path / "bare", range(5), chunk_size=2)
    with fb.Loader(remote=bare, batch_size=5) as loader:
        assert next(iter(loader))["0"].tolist() == [0, 1, 2, 3, 4]


def test_a_pickle_is_refused_unless_unsafe_types_are_allowed(tmp_path):
    folder = written(tmp_path / "set", [{"object": {n}} for n in range(3)], chunk_size=2)
    assert index_of(folder)["config"]["data_format"] == ["pickle"]
    with pytest.raises(fb.ConfigError, match=r"(?s)allow_unsafe_types.*object"):
        fb.Loader(remote=folder, batch_size=1)
    with fb.Loader(remote=folder, batch_size=3, engine=fb.Engine(allow_unsafe_types=True)) as loader:
        assert len(next(iter(loader))["object"]) == 3


def test_an_encrypted_data_set_is_refused(tmp_path):
    encryption = FernetEncryption(password="x", level="sample")
    folder = written(tmp_path / "set", [{"n": n} for n in range(3)], chunk_size=2, encryption=encryption)
    with pytest.raises(fb.Error, match=r"encrypted.*index.json"):
        fb.Loader(remote=folder, batch_size=1)


MADE = pathlib.Path(__file__).parents[3] / "tests/data/litdata"
"""Data sets that LitData has written where pyarrow is installed, with the script that makes them."""


@pytest.fixture(params=["folder", "copied", "local", "bucket"])
def place(request, bucket, bucket_environment, tmp_path):
    """Returns a function that returns the arguments of a loader for a data set there."""

    def arguments(name):
        folder = MADE / name
        return {
            "folder": {"remote": folder},
            "copied": {"remote": folder, "local": tmp_path / "copy"},
            "local": {"local": folder},
            "bucket": {"remote": in_bucket(folder, bucket), "local": tmp_path / "fetched"},
        }[request.param]

    return arguments


def test_rows_in_arrow_files_are_read(place):
    fields = {
        "x": fb.Image("image", fb.Resize((4, 4))),
        "bytes": fb.Bytes("image"),
        "y": fb.Scalar("class"),
        "box": fb.Array("meta.box"),
        "name": fb.Text("meta.name"),
    }
    arguments = place("pictures")
    for _ in range(2):
        with fb.Loader(**arguments, batch_size=7, fields=fields, framework="numpy") as loader:
            (batch,) = loader
        assert batch["x"].shape == (7, 3, 4, 4) and [bytes(data) for data in batch["bytes"]] == [jpeg(n) for n in range(7)]
        assert batch["y"].tolist() == list(range(7)) and batch["name"] == ["ä" * n for n in range(7)]
        assert [box.tolist() for box in batch["box"]] == [[n / 2, 1.0] for n in range(7)]
    assert not list(MADE.rglob("*forebay*")), "nothing is written there"


def test_compressed_rows_of_texts_lists_and_nulls_are_read(place):
    fields = {"t": fb.Text("text"), "ids": fb.Array("ids", pad=-1), "score": fb.Scalar("score", default=-1.0)}
    arguments = place("texts")
    with fb.Loader(**arguments, batch_size=100, fields=fields, framework="numpy") as loader:
        batches = list(loader)
    numbers = range(300)
    assert sum((batch["t"] for batch in batches), []) == [f"text {n}" for n in numbers]
    assert np.concatenate([batch["ids"] for batch in batches]).tolist() == [[*range(n % 4), *[-1] * (3 - n % 4)] for n in numbers]
    assert np.concatenate([batch["score"] for batch in batches]).tolist() == [n / 4 if n % 5 else -1 for n in numbers]
    with fb.Loader(**arguments, batch_size=100, fields={"t": fb.Text("text")}, select=fb.Select(filter="score >= 70")) as loader:
        assert sum((batch["t"] for batch in loader), []) == [f"text {n}" for n in numbers if n % 5 and n >= 280]


def test_rows_are_resumed_read_alone_and_converted(tmp_path):
    fields = {"t": fb.Text("text")}
    with fb.Loader(remote=MADE / "texts", batch_size=50, fields=fields, shuffle=True) as loader:
        expected = [batch["t"] for batch in loader]
    with fb.Loader(remote=MADE / "texts", batch_size=50, fields=fields, shuffle=True) as loader:
        batches = iter(loader)
        assert [next(batches)["t"] for _ in range(2)] == expected[:2]
        state = loader.state_dict()
    with fb.Loader(remote=MADE / "texts", batch_size=50, fields=fields, shuffle=True) as loader:
        loader.load_state_dict(state)
        assert [batch["t"] for batch in loader] == expected[2:]
    reader = fb.ShardReader(MADE / "pictures")
    assert len(reader) == 7 and reader[5]["class"] == 5 and reader[5]["image"] == jpeg(5)
    assert convert(MADE / "pictures", tmp_path / "out", threads=1).samples == 7
    assert fb.ShardReader(tmp_path / "out")[6]["image"] == jpeg(6)


def test_a_chunk_without_rows_as_in_the_first_one_is_named(tmp_path):
    with pytest.raises(fb.FormatError, match=r"not the rows of an Arrow file.*their types differ.*chunk-0-1\.bin"):
        fb.Loader(remote=MADE / "mixed", batch_size=1)
    # Where the first chunk has items, the chunk with rows is an error when it is read.
    shutil.copytree(MADE / "mixed", tmp_path / "set")
    index = index_of(tmp_path / "set")
    index["chunks"].reverse()
    (tmp_path / "set/index.json").write_text(json.dumps(index))
    with pytest.raises(fb.Error, match="rows of an Arrow file, unlike the first chunk"):
        list(fb.Loader(remote=tmp_path / "set", batch_size=1))


NESTED = [{"ids": list(range(n)), "grid": [[n, 1], [2, 3]], "x": [0.5] * n, "is": [n > 1], "words": ["a"] * n} for n in range(1, 5)]
"""Lists in samples with a tensor, which LitData keeps as items."""


@pytest.fixture(params=[{}, {"compression": "zstd", "compression_level": "sample"}])
def nested(request, tmp_path):
    items = ({**item, "objects": [{"n": i, "s": None} for i in range(n)], "t": torch.ones(1)} for n, item in enumerate(NESTED))
    folder = written(tmp_path / "set", items, chunk_size=3, **request.param)
    assert set(index_of(folder)["config"]["data_format"]) >= {"json"}
    return folder


def test_lists_are_arrays_or_documents(nested):
    fields = {name: fb.Array(name) for name in ("ids", "grid", "x", "is")}
    fields |= {"words": fb.Json("words", "[0]"), "whole": fb.Text("words"), "objects": fb.Json("objects", dtype="json")}
    with fb.Loader(remote=nested, batch_size=4, fields=fields, framework="numpy") as loader:
        (batch,) = loader
    for name, dtype in (("ids", np.int64), ("grid", np.int64), ("x", np.float64), ("is", np.uint8)):
        assert [row.tolist() for row in batch[name]] == [item[name] for item in NESTED], name
        assert all(row.dtype == dtype for row in batch[name]), name
    assert batch["words"] == ["a"] * 4 and list(map(json.loads, batch["whole"])) == [item["words"] for item in NESTED]
    assert list(map(json.loads, batch["objects"])) == [[{"n": i, "s": None} for i in range(n)] for n in range(4)]


def test_lists_are_padded_measured_and_filtered(nested):
    fields = {"ids": fb.Tokens("ids", pad=9), "n": fb.Length("ids"), "x": fb.Array("x", "float32", pad=0), "m": fb.AttentionMask("x")}
    with fb.Loader(remote=nested, batch_size=4, fields=fields, framework="numpy") as loader:
        (batch,) = loader
    assert batch["ids"].tolist() == [[*range(n), *[9] * (4 - n)] for n in range(1, 5)] and batch["n"].tolist() == [1, 2, 3, 4]
    assert batch["x"].tolist() == [[0.5] * n + [0] * (4 - n) for n in range(1, 5)] and batch["m"].sum(1).tolist() == [1, 2, 3, 4]
    with fb.Loader(remote=nested, batch_size=4, fields={"n": fb.Length("ids")}, select=fb.Select(filter="`grid[0][0]` >= 3")) as loader:
        assert next(iter(loader))["n"].tolist() == [3, 4]
    assert fb.ShardReader(nested)[2]["ids"] == [0, 1, 2]


def test_a_list_that_is_no_array_is_an_error_that_names_the_field(nested):
    with pytest.raises(fb.DecodeError, match="not a list of numbers.*read it with Json.*words"):
        list(fb.Loader(remote=nested, batch_size=4, fields={"w": fb.Array("words")}))
    with pytest.raises(fb.ConfigError, match="an Array field needs a column of arrays"):
        fb.Loader(remote=nested, batch_size=4, fields={"ids": fb.Array("ids"), "text": fb.Text("ids")})


def test_plain_readers_name_the_loader(tmp_path):
    folder = written(tmp_path / "set", [{"n": n} for n in range(3)], chunk_size=2)
    with pytest.raises(fb.Error, match="LitData's chunks, which a Loader reads"):
        fb.read_index(folder)

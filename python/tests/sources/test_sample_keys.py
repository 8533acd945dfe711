"""Keys of samples in batches, and paths of files by the names of a step."""

import io
import json
import tarfile

import pytest

import forebay as fb
from forebay import remotes
from forebay.__main__ import main

KEYS = [f"part/{n:04}" for n in range(40)]


@pytest.fixture
def tars(tmp_path):
    for shard in range(2):
        with tarfile.open(tmp_path / f"{shard}.tar", "w") as tar:
            for n in range(20 * shard, 20 * shard + 20):
                # Some samples lack a field, so the layouts are projected.
                fields = {"cls": b"%d" % n} | ({"txt": b"x"} if n % 3 else {})
                for field, content in fields.items():
                    member = tarfile.TarInfo(f"{KEYS[n]}.{field}")
                    member.size = len(content)
                    tar.addfile(member, io.BytesIO(content))
    return f"{tmp_path}/{{0,1}}.tar"


@pytest.fixture
def folder(tmp_path):
    for n in range(40):
        path = tmp_path / "set" / "ab"[n % 2] / f"{n:03}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\xff\xd8" + bytes([n]))
    return tmp_path / "set"


@pytest.mark.parametrize("framework", ["torch", "numpy", "jax"])
def test_a_batch_has_the_keys_of_a_tar(tars, framework):
    if framework == "jax":
        pytest.importorskip("jax")
    options = {"shuffle": True, "extra": ["sample_keys", "sample_ids", "repeat"], "batch_size": 8}
    with fb.Loader(remote=tars, fields={"n": fb.Scalar("cls")}, framework=framework, **options) as loader:
        for batch in loader:
            assert list(batch) == ["n", "sample_keys", "repeat", "sample_ids"]
            assert batch["sample_keys"] == [KEYS[int(n)] for n in batch["n"]]
            assert [20 * int(s) + int(i) for _, s, i in batch["sample_ids"]] == [int(n) for n in batch["n"]]


def test_a_loader_without_fields_has_keys(tars):
    with fb.Loader(remote=tars, extra=["sample_keys"], batch_size=8) as loader:
        for batch in loader:
            assert batch["sample_keys"] == batch["__key__"] == [KEYS[n] for n in batch["cls"].tolist()]


@pytest.mark.parametrize("where", ["folder", "bucket"])
def test_files_have_their_paths_in_batches_and_by_the_names_of_a_step(folder, where, bucket, bucket_environment, tmp_path, capfd):
    remote = folder
    if where == "bucket":
        remote = "s3://bucket/sample-keys"
        for path in folder.rglob("*.jpg"):
            bucket.objects[f"sample-keys/{path.relative_to(folder).as_posix()}"] = path.read_bytes()
    fields = {"path": fb.Text("path"), "file": fb.Bytes("file")}
    with fb.Loader(remote=remote, fields=fields, extra=["sample_keys"], shuffle=True, batch_size=8) as loader:
        batches = list(loader)
        for step, batch in enumerate(batches):
            assert batch["sample_keys"] == batch["path"] == [sample.key for sample in loader.samples_of(step)]
        loader.save_run(tmp_path / "RUN.json")
    assert main(["which", str(tmp_path / "RUN.json"), "--step", "2", "--json"]) == 0
    assert [json.loads(line)["key"] for line in capfd.readouterr().out.splitlines()] == batches[2]["path"]
    assert main(["which", str(tmp_path / "RUN.json"), "--step", "2"]) == 0
    assert f"rank 0 row 0: {batches[2]['path'][0]} (stream 0" in capfd.readouterr().out


def which(run, step, capfd, *more):
    assert main(["which", str(run), "--step", str(step), *more]) == 0
    return capfd.readouterr().out.splitlines()


class Shelf(remotes.RemoteFolder):
    """Folder of this machine under a scheme of the program."""

    def __init__(self, root):
        self.root = root

    def stat(self, key):
        path = self.root / key
        return remotes.RemoteFile(key, path.stat().st_size) if path.exists() else None

    def get(self, key, start):
        yield (self.root / key).read_bytes()[start:]


@pytest.mark.parametrize("where", ["folder", "bucket", "scheme"])
def test_the_names_of_a_step_have_the_keys_of_tars_on_request(tars, where, bucket, bucket_environment, tmp_path, capfd):
    remote = tars
    if where == "bucket":
        remote = f"s3://bucket/{tmp_path.name}/{{0,1}}.tar"
        for number in range(2):
            bucket.objects[f"{tmp_path.name}/{number}.tar"] = (tmp_path / f"{number}.tar").read_bytes()
    elif where == "scheme":
        remotes.register("shelf", lambda url, timeout: Shelf(tmp_path))
        remote = f"shelf://{tmp_path.name}/{{0,1}}.tar"
    with fb.Loader(
        remote=remote, fields={"n": fb.Scalar("cls")}, shuffle=True, batch_size=8, select=fb.Select(subset="2:38")
    ) as loader:
        expected = [KEYS[int(n)] for n in list(loader)[1]["n"]]
        loader.save_run(tmp_path / "RUN.json")
    assert [json.loads(line)["key"] for line in which(tmp_path / "RUN.json", 1, capfd, "--json")] == [None] * 8
    assert [json.loads(line)["key"] for line in which(tmp_path / "RUN.json", 1, capfd, "--json", "--keys")] == expected
    lines = which(tmp_path / "RUN.json", 1, capfd, "--keys")[1:]
    assert all(f", key {key} (stream 0" in line and ".tar, sample " in line for key, line in zip(expected, lines, strict=True))


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_the_names_of_a_step_have_the_rows_of_tables(suffix, tmp_path, capfd):
    pa, pq, ipc = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow.ipc")
    for number in range(2):
        table = pa.table({"n": range(20 * number, 20 * number + 20)})
        if suffix == "parquet":
            pq.write_table(table, tmp_path / f"{number}.parquet", row_group_size=6)
        else:
            with ipc.new_stream(str(tmp_path / f"{number}.arrow"), table.schema) as writer:
                writer.write_table(table, max_chunksize=6)
    with fb.Loader(remote=f"{tmp_path}/*.{suffix}", shuffle=True, batch_size=8) as loader:
        rows = [(n // 20, n % 20 // 6, n % 20 % 6) for n in list(loader)[1]["n"].tolist()]
        loader.save_run(tmp_path / "RUN.json")
    named = [json.loads(line) for line in which(tmp_path / "RUN.json", 1, capfd, "--json", "--keys")]
    assert [(s["file"], s["row_group"], s["row_in_group"]) for s in named] == [(f"{f}.{suffix}", group, row) for f, group, row in rows]
    first, group, row = rows[0]
    line = which(tmp_path / "RUN.json", 1, capfd)[1]
    assert line.startswith(f"rank 0 row 0: {first}.{suffix}, row group {group}, row {row} (stream 0, number ")


@pytest.mark.parametrize("source", ["list", "folder"])
def test_a_run_of_relative_paths_is_named_in_a_different_working_directory(source, tars, folder, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    remote = {"list": "./0.tar::1.tar", "folder": "set"}[source]
    with fb.Loader(remote=remote, local="cache", batch_size=8, shuffle=True) as loader:
        (tmp_path / "second").mkdir()
        monkeypatch.chdir(tmp_path / "second")
        expected = loader.samples_of(1)
        loader.save_run("RUN.json")
    found = [json.loads(line) for line in which("RUN.json", 1, capfd, "--json")]
    assert found == [sample._asdict() for sample in expected]


def test_a_mix_has_empty_keys_for_samples_without_one(tars, folder, tmp_path):
    with fb.MDSWriter(out=tmp_path / "mds", columns={"cls": "int"}) as writer:
        for n in range(10):
            writer.write({"cls": n})
    streams = [
        fb.Stream(remote=tars, select=fb.Select(subset="0:3")),
        fb.Stream(remote=tmp_path / "mds", select=fb.Select(subset="4:6")),
    ]
    with fb.Loader(streams=streams, fields={"n": fb.Scalar("cls", dtype="int64")}, extra=["sample_keys"], batch_size=8) as loader:
        (batch,) = loader
        assert batch["sample_keys"] == [*KEYS[:3], "", ""]
        assert [sample.key for sample in loader.samples_of(0)] == [None] * 5


def test_keys_need_a_source_that_has_them_and_a_free_name(tars, pictures):
    with pytest.raises(fb.ConfigError, match="sample_keys is for tars and for files that are samples, and no stream has any"):
        fb.Loader(remote=pictures, extra=["sample_keys"], batch_size=4)
    with pytest.raises(fb.ConfigError, match="`extra` adds an output called `sample_keys`: rename the field"):
        fb.Loader(remote=tars, extra=["sample_keys"], batch_size=4, fields={"sample_keys": fb.Text("__key__")})

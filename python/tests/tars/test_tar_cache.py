"""Indexes of tars in caches: the tars that they belong to, and their use."""

import http.server
import io
import json
import signal
import subprocess
import sys
import tarfile
import threading

import pytest
from range_server import serving

import forebay as fb
from forebay import _indexes as tar_index

torch = pytest.importorskip("torch")

NUMBER = {"number": fb.Scalar("cls")}


def write_tar(path, numbers):
    """Writes a tar with a sample of the field `cls` for each number."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for number in numbers:
            content = str(number).encode()
            member = tarfile.TarInfo(f"{number:06}.cls")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def read(tars, **arguments):
    with fb.Loader(remote=str(tars), batch_size=2, fields=NUMBER, **arguments) as loader:
        return sorted(number for batch in loader for number in batch["number"].tolist())


@pytest.mark.parametrize("others", [1, 2])
def test_a_cache_folder_is_not_used_for_the_tars_of_a_different_folder(tmp_path, others):
    local = tmp_path / "local"
    assert read(write_tar(tmp_path / "a/0.tar", range(3)), local=local) == [0, 1, 2]
    for number in range(others):
        write_tar(tmp_path / f"b/{number}.tar", range(10, 13))
    with pytest.raises(fb.StaleError, match="choose a different `local`"):
        read("::".join(str(tmp_path / f"b/{number}.tar") for number in range(others)), local=local)
    assert read(tmp_path / "a/0.tar", local=local) == [0, 1, 2]


def test_empty_tars_have_no_fields_and_are_no_obstacle(tmp_path):
    for number, samples in enumerate([0, 3, 0]):
        write_tar(tmp_path / f"{number}.tar", range(samples))
    assert read(tmp_path / "{0..2}.tar") == [0, 1, 2]


def test_a_stopped_run_is_not_continued_in_a_different_folder(tmp_path, monkeypatch):
    for folder, samples in (("a", 3), ("b", 5)):
        write_tar(tmp_path / folder / "set/0.tar", range(samples))
        write_tar(tmp_path / folder / "set/1.tar", range(samples))
    (tmp_path / "a/set/1.tar").write_bytes(b"no tar" * 1_000)
    monkeypatch.chdir(tmp_path / "a")
    with pytest.raises(fb.FormatError):
        tar_index.index_tars("set/{0..1}.tar", threads=1)
    monkeypatch.chdir(tmp_path / "b")
    assert tar_index.index_tars("set/{0..1}.tar").samples == 10
    index = json.loads((tmp_path / "b/set/index.json").read_text())
    assert [shard["samples"] for shard in index["shards"]] == [5, 5]


def test_an_index_that_cannot_be_written_is_an_error_before_the_tars_are_read():
    class Server(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            requested.append(self.path)
            self.send_error(404)

        def log_message(self, *_):
            pass

    requested = []
    with serving(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)) as server, pytest.raises(fb.Error) as caught:
        tar_index.index_tars(f"http://127.0.0.1:{server.server_port}/{{0..9}}.tar")
    assert isinstance(caught.value, fb.ConfigError) and "pass a folder or a bucket as `out`" in str(caught.value)
    assert requested and not any(path.endswith(".tar") for path in requested)


def test_tars_are_indexed_without_a_cache_folder_that_can_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert tar_index.index_tars(str(write_tar(tmp_path / "0.tar", range(3)))).samples == 3


def test_an_interrupt_ends_the_command_although_a_tar_is_read(tmp_path):
    is_reading, may_end = threading.Event(), threading.Event()

    class Server(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            if self.path.endswith(".tar"):
                is_reading.set()
                may_end.wait()
            self.send_error(404)

        def log_message(self, *_):
            pass

    # Background processes of a shell ignore an interrupt, and so do their children.
    code = "import signal, sys; from forebay.__main__ import main; signal.signal(signal.SIGINT, signal.default_int_handler)"
    code += "; sys.exit(main(['index', *sys.argv[1:]]))"
    with serving(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)) as server:
        remote = f"http://127.0.0.1:{server.server_port}/{{0..3}}.tar"
        arguments = [sys.executable, "-c", code, remote, str(tmp_path / "out")]
        process = subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True)
        try:
            assert is_reading.wait(600)
            process.send_signal(signal.SIGINT)
            # While the tars are still read.
            _, messages = process.communicate()
        finally:
            process.kill()
            may_end.set()
    assert process.returncode == 130 and "the same command continues" in messages


@pytest.mark.parametrize("again", [range(20, 23), range(20, 24)], ids=["same-size", "other-size"])
@pytest.mark.parametrize("counted", [False, True], ids=["read", "counted"])
def test_tars_that_were_indexed_again_are_fetched_again(again, counted, tmp_path, bucket, bucket_environment):
    """Names in braces are not listed, so the index next to the tars is all that shows their versions."""
    prefix = tmp_path.name
    remote = f"s3://bucket/{prefix}/{{0,1}}.tar"

    def store(number, numbers):
        bucket.objects[f"{prefix}/{number}.tar"] = write_tar(tmp_path / f"{number}.tar", numbers).read_bytes()
        sizes[f"{number}.tar"] = len(numbers)
        if counted:
            bucket.objects[f"{prefix}/sizes.json"] = json.dumps(sizes).encode()

    sizes = {}
    store(0, range(3))
    store(1, range(10, 13))
    tar_index.index_tars(remote)
    assert read(remote, local=tmp_path / "local") == [0, 1, 2, 10, 11, 12]
    store(1, again)
    tar_index.index_tars(remote, overwrite=True)
    with fb.Loader(
        remote=remote, batch_size=2, fields=NUMBER, local=tmp_path / "local", select=fb.Select(filter="cls >= 2")
    ) as loader:
        assert sorted(number for batch in loader for number in batch["number"].tolist()) == [2, *again]
        # The intact tar is still in the cache.
        assert loader.stats()["stages"]["fetch"]["items"] == 1
    assert read(remote, local=tmp_path / "local") == [0, 1, 2, *again]
    del bucket.objects[f"{prefix}/index.json"]
    assert read(remote, local=tmp_path / "local") == [0, 1, 2, *again]


def test_an_index_without_versions_is_compared_by_its_bytes(tmp_path, bucket, bucket_environment):
    prefix = tmp_path.name
    remote = f"s3://bucket/{prefix}/{{0,1}}.tar"
    for number in range(2):
        bucket.objects[f"{prefix}/{number}.tar"] = write_tar(tmp_path / f"{number}.tar", range(3)).read_bytes()
    tar_index.index_tars(remote)
    index = json.loads(bucket.objects[f"{prefix}/index.json"])
    assert len(index.pop("versions")) == 2
    bucket.objects[f"{prefix}/index.json"] = json.dumps(index).encode()
    assert read(remote, local=tmp_path / "local") == [0, 0, 1, 1, 2, 2]
    bucket.objects[f"{prefix}/1.tar"] = write_tar(tmp_path / "1.tar", range(30)).read_bytes()
    tar_index.index_tars(remote, overwrite=True)
    assert len(read(remote, local=tmp_path / "local")) == 33

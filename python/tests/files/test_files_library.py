"""Files of SFTP servers, of fsspec's file systems and of a program's own schemes."""

import io
import os
import subprocess
import sys
import tarfile
import threading

import pytest

import forebay as fb
from forebay import remotes


def content(length):
    return bytes(at % 251 for at in range(length))


def write(url, data):
    with fb.open(url, "wb") as file:
        file.write(data)


@pytest.fixture(params=["sftp", "memory"])
def prefix(request):
    """Address of a folder that does not exist yet."""
    if request.param == "sftp":
        yield request.getfixturevalue("sftp").url("files/")
        return
    fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
    yield "memory://box/files/"
    fsspec.filesystem("memory").rm("/box", recursive=True)


def test_files_are_written_listed_loaded_and_removed(prefix):
    sizes = {"a.txt": 0, "b.txt": 5, "deep/c 1.bin": (3 << 20) + 1}
    for name, size in sizes.items():
        write(prefix + name, content(size))
    files = fb.list_files(prefix)
    assert {file.url: file.size for file in files} == {prefix + name: size for name, size in sizes.items()}
    assert [file.url for file in fb.list_files(prefix, recursive=False)] == [prefix + name for name in ("a.txt", "b.txt", "deep/")]
    for urls in (files, [file.url for file in files]):
        assert dict(fb.load_files(urls)) == {prefix + name: content(size) for name, size in sizes.items()}
    fb.remove_files([*files[:2], prefix + "absent"])
    assert [file.url for file in fb.list_files(prefix)] == [prefix + "deep/c 1.bin"]


def test_a_range_is_read_and_a_file_that_is_given_up_does_not_appear(prefix):
    whole = content(20 << 20)
    write(prefix + "large", whole)
    with fb.open(prefix + "large") as file:
        assert file.size == len(whole) and file.read(10) == whole[:10]
        file.seek(-100, os.SEEK_END)
        assert file.read() == whole[-100:]
        file.seek(9 << 20)
        assert file.read(1000) == whole[9 << 20 : (9 << 20) + 1000]
    with pytest.raises(RuntimeError, match="stop"), fb.open(prefix + "half", "wb") as file:
        file.write(b"half")
        raise RuntimeError("stop")
    with pytest.raises(fb.NotFoundError, match="half"):
        fb.open(prefix + "half")
    assert [file.url for file in fb.list_files(prefix)] == [prefix + "large"]


def test_the_connections_are_kept_when_a_range_ends_before_its_file(sftp):
    url = sftp.url("large")
    whole = content(20 << 20)
    write(url, whole)
    with fb.open(url) as file:
        for start in (15 << 20, 3 << 20, 8 << 20, 1 << 20, 12 << 20, 5 << 20):
            file.seek(start)
            assert file.read(10) == whole[start : start + 10]
    # An exchange that ends early may still hold its connection when the next one begins, which then opens a new one.
    for thread in threading.enumerate():
        if thread.name == "forebay-exchange":
            thread.join()
    assert all(transport.is_active() for transport in sftp.transports)
    assert len(sftp.transports) == sftp.logins


def test_lines_and_tars_are_read_and_continued(prefix, tmp_path):
    lines = [b"%d %s" % (number, b"x" * (number % 300)) for number in range(100_000)]
    write(prefix + "a.txt", b"\n".join(lines))
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        for number in range(3):
            info = tarfile.TarInfo(f"{number}.bin")
            info.size = 3_000_000
            tar.addfile(info, io.BytesIO(content(info.size)))
    write(prefix + "b.tar", (tmp_path / "a.tar").read_bytes())
    files = [(prefix + "b.tar", f"{number}.bin", content(3_000_000)) for number in range(3)]
    for make, name, items, count in ((fb.load_lines, "a.txt", lines, 50_000), (fb.load_tars, "b.tar", files, 1)):
        loader = make([prefix + name])
        assert [item for _, item in zip(range(count), loader)] == items[:count]
        resumed = make(fb.list_files(prefix + name))
        resumed.load_state_dict(loader.state_dict())
        assert list(resumed) == items[count:]


def test_a_file_without_ranges_is_requested_twice():
    pytest.importorskip("fsspec", reason="fsspec is not installed")
    from forebay.remotes.filesystems import FileSystemFolder

    write("memory://box/files/large.txt", b"line\n" * (5 << 20))
    requested, get = [], FileSystemFolder.get
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FileSystemFolder, "get", lambda self, key, start: requested.append(start) or get(self, key, start))
        assert sum(1 for _ in fb.load_lines(["memory://box/files/large.txt"])) == 5 << 20
    assert requested == [0, 1 << 20], "its first MiB, and the rest"


def test_readers_of_one_file_in_memory_have_separate_positions():
    fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
    from forebay.remotes.filesystems import FileSystemFolder

    whole = content(3 << 20)
    folder = FileSystemFolder(fsspec.filesystem("memory"), "/readers")
    folder.put("a", [whole])
    first, second = folder.get("a", 0), folder.get("a", 1)
    read = [b"", b""]
    while any(pieces := [next(first, b""), next(second, b"")]):
        read = [before + piece for before, piece in zip(read, pieces)]
    assert read == [whole, whole[1:]]
    folder.delete("a")


class Drawer(remotes.RemoteFolder):
    """One file, that can only be read."""

    def stat(self, key):
        return remotes.RemoteFile(key, 3) if key == "a/b" else None

    def get(self, key, start):
        yield b"abc"[start:]


def test_a_scheme_of_the_program_has_one_folder_for_each_host():
    opened = []

    def open_folder(url, timeout):
        opened.append(url)
        return Drawer()

    remotes.register("drawer", open_folder)
    assert list(fb.load_files(["drawer://host/a/b"])) == [("drawer://host/a/b", b"abc")]
    assert set(opened) == {"drawer://host/"}
    with pytest.raises(fb.UnsupportedError, match="Drawer can be read only"):
        len(fb.list_files("drawer://host/a/"))
    with pytest.raises(fb.UnsupportedError, match="Drawer can be read only"):
        write("drawer://host/a/c", b"")


def test_errors_have_no_secrets(sftp):
    with pytest.raises(fb.AccessError, match="rejects the login") as caught:
        fb.open(sftp.url("set/train/index.json", password="other"))
    assert "other@" not in str(caught.value)
    with pytest.raises(fb.NotFoundError, match=r"sftp://\.\.\.@127\.0\.0\.1"):
        fb.open(sftp.url("absent"))
    with pytest.raises(fb.ConfigError, match="%2F"):
        fb.open("sftp://me:gEh/EiM@host/a")


FORKS = """
import os, sys
import forebay as fb

def content():
    with fb.open(sys.argv[1]) as file:
        return file.read()

expected = content()
child = os.fork()
if child == 0:
    os._exit(0 if content() == expected else 1)
assert os.waitpid(child, 0)[1] == 0
"""
"""Opens a file in a process and in its fork. Not in the process of the tests: a fork copies locks of OpenSSL, which a thread of
the server may hold."""


def test_a_forked_process_makes_its_own_connections(sftp):
    subprocess.run([sys.executable, "-c", FORKS, sftp.url("set/train/index.json")], check=True)

"""Indexes of tars: made by a command, by files of other programs, or by the first loader."""

import bz2
import contextlib
import gzip
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import threading
import time

import pytest
from range_server import RangeHandler, Served

import forebay as fb
from forebay import _forebay
from forebay.__main__ import main
from forebay.index import index_tars

COUNTS = (3, 5, 2)


@pytest.fixture
def tars(tmp_path):
    """Folder with tars of 3, 5 and 2 samples."""
    folder = tmp_path / "tars"
    folder.mkdir()
    for number, count in enumerate(COUNTS):
        write(folder / f"{number}.tar", number, count)
    return folder


def write(path, number, count):
    with tarfile.open(path, "w") as tar:
        for sample in range(count):
            for field, content in {"cls": b"%d" % sample, "txt": b"text"}.items():
                info = tarfile.TarInfo(f"{number}-{sample}.{field}")
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))


def keys(remote, **options):
    loader = fb.Loader(remote=remote, batch_size=1, fields={"key": fb.Text("__key__")}, **options)
    return [batch["key"][0] for batch in loader]


EXPECTED = [f"{number}-{sample}" for number, count in enumerate(COUNTS) for sample in range(count)]


def test_the_command_writes_an_index_that_loaders_use(tars, capsys):
    assert main(["index", f"{tars}/{{0..2}}.tar"]) == 0
    assert capsys.readouterr().out == f"{tars}/index.json: 3 tars, 10 samples\n"
    index = json.loads((tars / "index.json").read_text())
    assert [shard["samples"] for shard in index["shards"]] == list(COUNTS)
    assert keys(f"{tars}/{{0..2}}.tar") == EXPECTED
    # The entries are used, not the tars: a wrong number is an error when the tar is opened.
    index["shards"][1]["samples"] = 4
    (tars / "index.json").write_text(json.dumps(index))
    with pytest.raises(fb.FormatError, match=r"has 5 samples where the index declares 4.*1\.tar"):
        keys(f"{tars}/{{1..2}}.tar")


def test_an_index_is_replaced_only_if_asked(tars, capsys):
    report = index_tars(f"{tars}/{{0..1}}.tar")
    assert (report.tars, report.samples) == (2, 8)
    with pytest.raises(fb.ConfigError, match="overwrite"):
        index_tars(f"{tars}/{{0..2}}.tar")
    assert main(["index", f"{tars}/{{0..2}}.tar"]) == 2 and "--overwrite" in capsys.readouterr().err
    assert index_tars(f"{tars}/*.tar", overwrite=True).samples == 10
    assert index_tars(f"{tars}/*.tar", str(tars.parent / "elsewhere")).url == f"{tars.parent}/elsewhere/index.json"
    assert (tars.parent / "elsewhere/index.json").read_bytes() == (tars / "index.json").read_bytes()


def test_a_stopped_command_continues(tars, monkeypatch, user_cache):
    write(tars / "1.tar", 1, 0)
    (tars / "1.tar").write_bytes(b"damaged")
    with pytest.raises(fb.FormatError, match=r"1\.tar"):
        index_tars(f"{tars}/{{0..2}}.tar", threads=1)
    kept = list((user_cache / "forebay/indexing").iterdir())
    assert len(kept) == 1
    # As after kill -9 within a line.
    with kept[0].open("a") as file:
        file.write('\n["2.tar", "cut')
    write(tars / "1.tar", 1, 5)
    # Tars of the first run are not read again.
    whole, times = (tars / "0.tar").read_bytes(), (tars / "0.tar").stat()
    (tars / "0.tar").write_bytes(b"x" * len(whole))
    os.utime(tars / "0.tar", ns=(times.st_atime_ns, times.st_mtime_ns))
    report = index_tars(f"{tars}/{{0..2}}.tar")
    assert (report.tars, report.samples) == (3, 10)
    assert not kept[0].exists()
    (tars / "0.tar").write_bytes(whole)
    assert keys(f"{tars}/{{0..2}}.tar") == EXPECTED


def test_a_tar_that_was_replaced_after_a_stopped_run_is_read_again(tars):
    write(tars / "0.tar", 0, 30)
    whole = (tars / "1.tar").read_bytes()
    (tars / "1.tar").write_bytes(b"damaged")
    with pytest.raises(fb.FormatError, match=r"1\.tar"):
        index_tars(f"{tars}/{{0..2}}.tar", threads=1)
    write(tars / "0.tar", 0, COUNTS[0])
    (tars / "1.tar").write_bytes(whole)
    assert index_tars(f"{tars}/{{0..2}}.tar").samples == 10
    assert keys(f"{tars}/{{0..2}}.tar") == EXPECTED


def test_a_loader_that_was_killed_in_its_pass_continues(tars, caplog, user_cache):
    kept = user_cache / "forebay/indexing"
    started = threading.Event()

    class KillingHandler(RangeHandler):
        """Ends the first loader when the remaining two tars are counted."""

        def do_GET(self):
            started.wait()
            if self.path == "/2.tar" and loader.poll() is None:
                while sum(path.read_text().count("\n") for path in kept.glob("*.jsonl")) < 2:
                    time.sleep(0.01)
                loader.kill()
                loader.wait()
                return None
            return super().do_GET()

        do_HEAD = do_GET

    with contextlib.closing(Served(tars, KillingHandler)) as server:
        remote = f"{server.url}/{{0..2}}.tar"
        program = f"import forebay as fb; fb.Loader(remote={remote!r}, batch_size=1)"
        loader = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.DEVNULL)
        started.set()
        assert loader.wait() == -signal.SIGKILL
        assert keys(remote) == EXPECTED
    assert "1 tars have no index" in caplog.text
    assert list(kept.iterdir()) == []


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("sizes.json", json.dumps({f"{number}.tar": count for number, count in enumerate(COUNTS)})),
        ("{}_stats.json", '{{"successes": {count}}}'),
    ],
)
def test_files_of_foreign_programs_save_the_pass(tars, file, content, caplog):
    if "{}" in file:
        for number, count in enumerate(COUNTS):
            (tars / file.format(number)).write_text(content.format(count=count))
    else:
        (tars / file).write_text(content)
    assert keys(f"{tars}/{{0..2}}.tar") == EXPECTED
    assert "are read once" not in caplog.text


def test_a_wrong_number_of_a_foreign_program_is_an_error(tars):
    (tars / "sizes.json").write_text(json.dumps({"0.tar": 3, "1.tar": 6, "2.tar": 2}))
    with pytest.raises(fb.FormatError, match=r"has 5 samples where the index declares 6.*1\.tar"):
        keys(f"{tars}/{{0..2}}.tar")


@pytest.mark.parametrize("where", ["folder", "bucket"])
def test_a_folder_of_tars_has_compressed_ones_and_those_in_capitals(where, tmp_path, bucket, bucket_environment, user_cache):
    folder = tmp_path / "mixed"
    (folder / "below").mkdir(parents=True)
    names = ["0.tar", "1.tar.gz", "2.tgz", "below/3.TAR", "4.tar.bz2"]
    for number, name in enumerate(names):
        write(folder / "plain", number, 2)
        packers = {"gz": gzip.compress, "tgz": gzip.compress, "bz2": bz2.compress}
        (folder / name).write_bytes(packers.get(name.rsplit(".", 1)[-1], bytes)((folder / "plain").read_bytes()))
        if where == "bucket":
            bucket.objects[f"mixed-tars/{name}"] = (folder / name).read_bytes()
    (folder / "plain").unlink()
    expected = [f"{number}-{sample}" for number in (0, 1, 2, 4, 3) for sample in range(2)]
    remote = folder if where == "folder" else "s3://bucket/mixed-tars"
    assert keys(remote) == expected
    # One that is added is found.
    write(folder / "5.tar", 5, 1)
    if where == "bucket":
        bucket.objects["mixed-tars/5.tar"] = (folder / "5.tar").read_bytes()
    assert keys(remote) == [*expected[:8], "5-0", *expected[8:]]


def test_the_first_loader_keeps_the_index_it_makes(tars, caplog, user_cache):
    assert keys(f"{tars}/?.tar") == EXPECTED
    assert "3 tars have no index and are read once" in caplog.text
    made = list((user_cache / "forebay").glob("*/index.json"))
    assert len(made) == 1 and not (tars / "index.json").exists()
    before = made[0].stat().st_mtime_ns
    assert keys(f"{tars}/?.tar") == EXPECTED and made[0].stat().st_mtime_ns == before
    # Tars in a folder need no second index: both names are read from the folder.
    loader = fb.Loader(local=f"{tars}/{{0..2}}.tar", batch_size=5, fields={"key": fb.Text("__key__")})
    assert [key for batch in loader for key in batch["key"]] == EXPECTED


@pytest.mark.parametrize("has_index", [False, True])
def test_tars_of_this_machine_that_were_replaced_are_counted_again(tars, has_index, caplog):
    if has_index:
        index_tars(f"{tars}/{{0..2}}.tar")
    assert keys(f"{tars}/{{0..2}}.tar") == EXPECTED
    write(tars / "1.tar", 1, 50)
    assert len(keys(f"{tars}/{{0..2}}.tar")) == 55
    assert ("replace it with --overwrite" in caplog.text) == has_index


@pytest.mark.parametrize("where", ["folder", "copied folder", "bucket"])
def test_a_tar_of_the_same_size_is_counted_again_when_it_was_written_again(tars, where, bucket, bucket_environment, tmp_path):
    """Tars have a multiple of 10,240 bytes: different samples take as many."""
    remote = "s3://bucket/again" if where == "bucket" else tars
    options = {} if where == "folder" else {"local": tmp_path / "local"}
    for time in range(3):
        count, number = (COUNTS[1], 5, 4)[time], (1, 7, 8)[time]
        write(tars / "1.tar", number, count)
        os.utime(tars / "1.tar", (time, time))
        for path in tars.iterdir():
            bucket.objects[f"again/{path.name}"] = path.read_bytes()
        expected = [key for key in EXPECTED if not key.startswith("1-")]
        expected[COUNTS[0] : COUNTS[0]] = [f"{number}-{sample}" for sample in range(count)]
        assert keys(f"{remote}/*.tar", **options) == expected
    assert (tars / "1.tar").stat().st_size == (tars / "0.tar").stat().st_size


def offsets_of_dali(path):
    """The index that wds2idx writes."""
    lines, last = [], None
    with tarfile.open(path) as tar:
        for member in tar:
            key, field = member.name.split(".")
            if key != last:
                lines.append([])
            lines[-1].append(f"{field} {member.offset_data} {member.size} {member.name}")
            last = key
    return "".join([f"v1.2 {len(lines)}\n", *(" ".join(line) + "\n" for line in lines)]).encode()


def offsets_of_energon(path):
    """The index that `energon prepare` writes."""
    with tarfile.open(path) as tar:
        members = tar.getmembers()
    starts = [member.offset for member in members[::2]]
    end = members[-1].offset_data + 512 * -(-members[-1].size // 512)
    return b"".join(offset.to_bytes(8, "little") for offset in [*starts, end])


@pytest.mark.parametrize("count", [1, 3, 4, 9, 30])
@pytest.mark.parametrize(("name", "made"), [("{}.idx", offsets_of_dali), ("{}.tar.idx", offsets_of_energon)])
@pytest.mark.parametrize("where", ["folder", "http"])
def test_offsets_of_a_different_tar_are_not_used(tars, where, count, name, made, caplog, tmp_path):
    """Offsets of a tar with different samples; the last offset is nowhere in the new one, or in its middle."""
    for number in range(3):
        (tars / name.format(number)).write_bytes(made(tars / f"{number}.tar"))
    write(tmp_path / "other.tar", 1, count)
    (tars / name.format(1)).write_bytes(made(tmp_path / "other.tar"))
    # Larger files of different lengths, so that headers are at different offsets.
    with tarfile.open(tars / "1.tar", "w") as tar:
        for sample in range(COUNTS[1]):
            for field, content in {"cls": b"%d" % sample, "txt": b"text" * 700}.items():
                info = tarfile.TarInfo(f"1-{sample}.{field}")
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    with contextlib.closing(Served(tars, RangeHandler)) as server:
        remote = tars if where == "folder" else server.url
        assert keys(f"{remote}/{{0..2}}.tar") == EXPECTED
    assert "1.tar differs from the tar that they belong to" in caplog.text and "1 tars have no index" in caplog.text


@pytest.mark.parametrize(("name", "made"), [("{}.idx", offsets_of_dali), ("{}.tar.idx", offsets_of_energon)])
def test_offsets_of_foreign_programs_save_the_pass(tars, name, made, caplog):
    for number in range(3):
        (tars / name.format(number)).write_bytes(made(tars / f"{number}.tar"))
    assert keys(f"{tars}/{{0..2}}.tar") == EXPECTED
    assert "read once" not in caplog.text


def test_a_tar_that_is_in_the_list_twice_is_an_error(tars):
    (tars / "1.tar.gz").write_bytes(gzip.compress((tars / "1.tar").read_bytes()))
    with pytest.raises(fb.ConfigError, match=r"compressed.*1\.tar"):
        keys(f"{tars}/1.tar::{tars}/1.tar.gz")


def test_a_column_that_is_written_differently_is_named(tars):
    for column in ("CLS", "json; cls"):
        with pytest.raises(fb.ConfigError, match="no such column, but `cls`"):
            fb.Loader(remote=f"{tars}/0.tar", batch_size=1, fields={"x": fb.Scalar(column)})


def test_the_command_reports_a_missing_tar(tars):
    command = [sys.executable, "-m", "forebay", "index", f"{tars}/none-{{0..2}}.tar"]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 2 and "none-" in ended.stderr and "Traceback" not in ended.stderr


def test_lists_are_recognised():
    for remote, expected in [("a/{0..2}.tar", True), ("a.tgz", True), ("pipe:cat a.tar", True), ("a", False), ("s3://b/a/", False)]:
        assert _forebay.is_file_list(remote) == expected

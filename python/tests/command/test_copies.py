"""`forebay ls`, `cat` and `cp` over stores."""

import json
import os
from types import SimpleNamespace

import pytest
from bucket_server import MODIFIED

from forebay.__main__ import main

FILES = {"a.bin": bytes(range(256)) * 9000, "deep/b.txt": b"text", "deep/er/c.txt": b"", "deep/d e.txt": b"space"}


@pytest.fixture
def folder(tmp_path):
    for name, content in FILES.items():
        path = tmp_path / "source" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return tmp_path / "source"


@pytest.fixture
def prefix(tmp_path, bucket_environment):
    """URL of an own folder of the bucket."""
    return f"s3://bucket/{tmp_path.name}"


def below(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def run(capfd):
    """Runs the command in this process."""

    def run(*arguments):
        code = main([str(argument) for argument in arguments])
        out, messages = capfd.readouterr()
        return SimpleNamespace(returncode=code, stdout=out, stderr=messages)

    return run


@pytest.fixture
def done(run):
    def done(*arguments, code=0):
        ended = run(*arguments)
        assert ended.returncode == code, ended.stdout + ended.stderr
        return ended

    return done


def test_a_folder_goes_to_a_bucket_and_to_a_second_one_and_comes_back(done, folder, prefix, tmp_path, bucket):
    assert done("cp", "-r", folder, f"{prefix}/one").stdout == f"4 objects (2.20 MiB) copied to {prefix}/one\n"
    done("cp", "-r", f"{prefix}/one", f"{prefix}/two/")
    listed = done("ls", "-r", f"{prefix}/two").stdout.splitlines()
    assert listed == [f"{prefix}/two/{name}" for name in sorted(FILES)]
    done("cp", "-r", f"{prefix}/two", tmp_path / "back")
    assert below(tmp_path / "back") == FILES
    assert not [key for key in bucket.uploads if tmp_path.name in str(key)]


def test_patterns_and_several_sources_go_into_a_folder(done, folder, tmp_path):
    done("cp", f"{folder}/deep/*.txt", tmp_path / "some")
    assert below(tmp_path / "some") == {"b.txt": b"text", "d e.txt": b"space"}
    done("cp", f"{folder}/deep/{{b,d e}}.txt", tmp_path / "several")
    assert below(tmp_path / "several") == {"b.txt": b"text", "d e.txt": b"space"}
    done("cp", f"{folder}/**/*.txt", tmp_path / "all")
    assert set(below(tmp_path / "all")) == {"deep/b.txt", "deep/d e.txt", "deep/er/c.txt"}


def test_one_object_gets_the_name_of_the_target_or_goes_into_a_folder(done, folder, tmp_path):
    done("cp", folder / "a.bin", tmp_path / "name")
    done("cp", folder / "a.bin", f"{tmp_path}/folder/")
    (tmp_path / "there").mkdir()
    done("cp", folder / "a.bin", tmp_path / "there")
    for path in ("name", "folder/a.bin", "there/a.bin"):
        assert (tmp_path / path).read_bytes() == FILES["a.bin"]


def test_objects_that_exist_are_kept_unless_an_option_is_given(done, folder, tmp_path):
    done("cp", "-r", folder, tmp_path / "copy")
    (tmp_path / "copy/deep/b.txt").write_bytes(b"own!")
    os.utime(tmp_path / "copy/deep/b.txt", (1, 1))
    ended = done("cp", "-r", folder, tmp_path / "copy", code=2)
    assert ended.stderr.count("the target exists: pass --overwrite") == 4
    ended = done("cp", "-r", "--skip-existing", folder, tmp_path / "copy", code=1)
    assert ", 3 skipped, 1 failed" in ended.stdout and "copy/deep/b.txt" in ended.stderr
    assert (tmp_path / "copy/deep/b.txt").read_bytes() == b"own!"
    ended = done("cp", "-r", "--skip-existing", "--overwrite", folder, tmp_path / "copy")
    assert ended.stdout.startswith("1 object (4 B) copied") and below(tmp_path / "copy") == FILES


def test_copies_in_a_bucket_are_left_out_by_their_tags(done, folder, prefix, bucket):
    done("cp", "-r", folder, f"{prefix}/one")
    done("cp", "-r", f"{prefix}/one", f"{prefix}/two")
    writes = [request for request in bucket.seen if request.method in ("PUT", "POST")]
    ended = done("cp", "-r", "--skip-existing", f"{prefix}/one", f"{prefix}/two")
    assert ", 4 skipped" in ended.stdout
    assert [request for request in bucket.seen if request.method in ("PUT", "POST")] == writes


def test_one_failure_does_not_stop_the_rest(done, folder, tmp_path):
    (folder / "broken").mkdir()
    ended = done("cp", folder / "none", folder / "a.bin", folder / "broken", folder / "deep/b.txt", tmp_path / "copy", code=1)
    assert ended.stdout == f"2 objects (2.20 MiB) copied to {tmp_path}/copy, 2 failed\n"
    assert "no object and no folder of this name" in ended.stderr and "pass -r" in ended.stderr
    assert set(below(tmp_path / "copy")) == {"a.bin", "b.txt"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("{f}/a.bin", "{f}/a.bin", "--overwrite"), "the same object"),
        (("-r", "{f}", "{f}/inside"), "is in the folder"),
        (("{f}/a.bin", "{f}/deep/../a.bin", "{t}/x"), "the same target"),
        (("{f}", "{t}/x"), "pass -r"),
        (("{f}/a.bin", "http://127.0.0.1:9/x"), "http"),
        (("{f}/a{{.bin", "{t}/x"), "brace"),
    ],
)
def test_wrong_copies_are_refused(run, arguments, message, folder, tmp_path):
    given = [argument.format(f=folder, t=tmp_path) for argument in arguments]
    ended = run("cp", *given)
    assert ended.returncode != 0 and message in ended.stderr, ended.stderr
    assert below(folder) == FILES


def test_a_key_that_leaves_the_folder_is_refused(done, prefix, tmp_path, bucket):
    name = prefix.rpartition("/")[2]
    bucket.objects[f"{name}/in/../../../escaped"] = b"x"
    bucket.objects[f"{name}/in/good"] = b"y"
    ended = done("cp", "-r", f"{prefix}/in/", tmp_path / "to/here", code=1)
    assert "the key of the object is not a path of a file" in ended.stderr
    assert below(tmp_path / "to") == {"here/good": b"y"} and not (tmp_path / "escaped").exists()


def test_names_may_have_any_characters(done, prefix, tmp_path, bucket):
    names = ["a?b", "a*b", "axb", "x#y%20 z", "100%", "&=+;'\"<", "é 猫", "tab\t\x1b[31m\n"]
    source = tmp_path / "source"
    source.mkdir()
    for name in names:
        (source / name).write_text(name)
    done("cp", "-r", source, prefix)
    done("cp", "-r", f"{prefix}/", tmp_path / "back")
    assert below(tmp_path / "back") == {name: name.encode() for name in names}
    for root in (source, prefix):
        assert done("cat", f"{root}/a?b").stdout == "a?b", "an object precedes a pattern"
        assert done("cat", f"{root}/a?[b]", code=2).stderr
        listed = done("ls", root).stdout
        assert listed.count("\n") == len(names) and f"{root}/tab \\u{{1b}}[31m⏎" in listed and "\x1b" not in listed
        found = [json.loads(line)["url"] for line in done("ls", "--json", root).stdout.splitlines()]
        assert found == sorted(f"{root}/{name}" for name in names)
    ended = done("cat", source / "none\x1b[31m\n", code=2)
    assert "none\\u{1b}[31m⏎" in ended.stderr and ended.stderr.count("\n") == 1


def test_failures_are_objects_of_json(done, folder, tmp_path):
    lines = done("cp", "--json", folder / "none", folder / "a.bin", tmp_path / "copy", code=1).stdout.splitlines()
    error, copied = sorted(map(json.loads, lines), key=len)
    assert error["error"] == "not found" and str(folder / "none") in error["message"]
    assert copied == {"source": f"{folder}/a.bin", "target": f"{tmp_path}/copy/a.bin", "bytes": 2304000, "result": "copied"}


def test_a_folder_is_not_copied_into_itself_through_a_link(done, folder, tmp_path):
    (tmp_path / "link").symlink_to(folder)
    ended = done("cp", "-r", folder, tmp_path / "link/new/deeper", code=2)
    assert "the target is in the folder" in ended.stderr and below(folder) == FILES


def test_a_file_that_exists_stays_whole_when_its_copy_fails(run, prefix, tmp_path, bucket, monkeypatch):
    name = prefix.rpartition("/")[2]
    bucket.objects[f"{name}/good"] = bytes(3_000_000)
    (tmp_path / "good").write_bytes(b"before")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    ended = run("cp", "--overwrite", f"{prefix}/good", tmp_path / "good")
    assert ended.returncode == 2 and f"{prefix}/good" in ended.stderr
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == {"good": b"before"}


def test_objects_are_printed_whole_or_in_part(done, folder, prefix, tmp_path):
    done("cp", "-r", folder, prefix)
    for root in (folder, prefix):
        assert done("cat", f"{root}/deep/b.txt", f"{root}/deep/d e.txt").stdout == "textspace"
        assert done("cat", f"{root}/deep/*.txt").stdout == "textspace"
        assert done("cat", "--range", "1-2", f"{root}/deep/b.txt").stdout == "ex"
        assert done("cat", "--range", "3-", f"{root}/deep/b.txt").stdout == "t"
        assert done("cat", "--range", "3-999", f"{root}/deep/b.txt").stdout == "t"
        ended = done("cat", "--range", "9-", f"{root}/deep/b.txt", code=2)
        assert "begins after the end" in ended.stderr and f"{root}/deep/b.txt" in ended.stderr
        for wrong in ("none", "no*", "brace{", "deep/*er"):
            ended = done("cat", f"{root}/{wrong}", f"{root}/deep/b.txt", code=1)
            assert ended.stdout == "text" and f"{root}/{wrong.removesuffix('*er')}" in ended.stderr


def test_lists_have_sizes_times_and_a_total(done, folder, prefix):
    done("cp", "-r", folder, prefix)
    assert done("ls", prefix).stdout.splitlines() == [f"{prefix}/a.bin", f"{prefix}/deep/"]
    lines = done("ls", "-l", f"{prefix}/").stdout.splitlines()
    assert lines[0].split(maxsplit=2)[:2] == ["2.20", "MiB"] and lines[-1] == "1 object, 2.20 MiB"
    assert "2026-01-01 00:00:00" in lines[0] and MODIFIED == 1767225600
    assert done("ls", "--bytes", f"{prefix}/a.bin").stdout.splitlines()[-1] == "1 object, 2304000 bytes"
    (record,) = map(json.loads, done("ls", "--json", f"{prefix}/a.bin").stdout.splitlines())
    assert (record["bytes"], record["modified"]) == (2304000, "2026-01-01T00:00:00Z") and record["etag"]
    assert done("ls", f"{prefix}/none", code=2).stderr.count(f"{prefix}/none") == 1


def test_files_of_a_library_are_copied(done, folder, sftp, sftp_folder, tmp_path):
    pytest.importorskip("paramiko")
    done("cp", "-r", folder / "deep", sftp.url("new"))
    assert below(sftp_folder / "new") == {"b.txt": b"text", "er/c.txt": b"", "d e.txt": b"space"}
    done("cp", sftp.url("new/b.txt"), tmp_path / "b.txt")
    assert (tmp_path / "b.txt").read_bytes() == b"text"
    assert done("cat", sftp.url("new/b.txt")).stdout == "text"
    assert len(done("ls", "-r", sftp.url("new")).stdout.splitlines()) == 3

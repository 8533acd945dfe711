"""Files of stores: lists, loaders and file objects, on a local folder."""

import contextlib
import gc
import gzip
import io
import itertools
import os
import pickle
import subprocess
import sys
import zipfile

import pytest

import forebay as fb
from forebay.files import FileLoader, FileReader


@pytest.fixture
def folder(tmp_path):
    """Folder with 23 files of different sizes, two of them above a chunk, one empty."""
    for number in range(20):
        (tmp_path / f"{number:02}.txt").write_bytes(content(number, number * 997))
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a.bin").write_bytes(content(1, (1 << 20) + 1))
    (tmp_path / "deep" / "b.bin").write_bytes(content(2, 20 << 20))
    (tmp_path / "empty").write_bytes(b"")
    return tmp_path


def content(number, length):
    return bytes((number + at) % 251 for at in range(min(length, 5000))) * (length // 5000) + bytes(
        (number + at) % 251 for at in range(length % 5000)
    )


def prefix(folder):
    return f"{folder}/"


def names(files, folder):
    return [os.path.relpath(file.url, folder) for file in files]


def test_a_list_has_every_file_with_its_size(folder):
    files = fb.list_files(prefix(folder))
    assert len(files) == 23 and files[-1].size == 0
    assert {name: file.size for name, file in zip(names(files, folder), files)} == {
        os.path.relpath(os.path.join(base, name), folder): os.path.getsize(os.path.join(base, name))
        for base, _, found in os.walk(folder)
        for name in found
    }
    assert files[3].modified.timestamp() == pytest.approx(os.path.getmtime(folder / "03.txt"), abs=1e-3)
    assert names(files[:2], folder) == ["00.txt", "01.txt"]
    with pytest.raises(IndexError):
        files[23]


def test_masks_and_levels_select_files(folder):
    assert names(fb.list_files(prefix(folder), masks="1*.txt"), folder) == [f"{n}.txt" for n in range(10, 20)]
    assert names(fb.list_files(prefix(folder), masks=["*.bin", "empty"]), folder) == ["deep/a.bin", "deep/b.bin", "empty"]
    level = fb.list_files(prefix(folder), recursive=False)
    assert [file.url for file in level if file.url.endswith("/")] == [f"{folder}/deep/"]
    assert names(fb.list_files(f"{folder}/de"), folder) == ["deep/a.bin", "deep/b.bin"]
    assert not fb.list_files(f"{folder}/nothing")


def test_a_prefix_with_wildcards_and_without_files_names_the_masks(folder):
    for pattern in ("1*.txt", "1?.txt", "*/*.txt"):
        for use in (list, len, bool, lambda files: files[0], lambda files: list(fb.load_files(files))):
            files = fb.list_files(f"{folder}/{pattern}")
            for _ in range(2):
                with pytest.raises(fb.ConfigError, match="wildcards belong to masks") as caught:
                    use(files)
        advised = eval(str(caught.value).partition("pass ")[2], {"list_files": fb.list_files})
        assert len(advised) == (10 if "/" not in pattern else 0)
    with pytest.raises(fb.ConfigError, match="wildcards belong to masks"):
        list(fb.load_files(f"{folder}/*"))
    (folder / "x*y").write_bytes(b"a name")
    assert names(fb.list_files(f"{folder}/x*"), folder) == ["x*y"]
    assert not fb.list_files(f"{folder}/[ab]")


def test_files_arrive_in_order_with_their_bytes(folder):
    files = fb.list_files(prefix(folder))
    for urls in (files, [file.url for file in files], prefix(folder)):
        loader = fb.load_files(urls)
        assert len(loader) == 23
        found = list(loader)
        assert [url for url, _ in found] == [file.url for file in files]
        for url, data in found:
            assert type(data) is bytes and data == open(url, "rb").read(), url
    url, data = loader[20]
    assert url.endswith("deep/a.bin") and len(data) == (1 << 20) + 1


def test_a_shuffle_is_a_new_order_in_each_epoch_and_equal_in_each_process(folder):
    make = lambda **more: fb.load_files(prefix(folder), shuffle=True, **more)  # noqa: E731
    loader = make()
    first, second = ([url for url, _ in loader] for _ in range(2))
    assert sorted(first) == sorted(second) and first != second
    assert [url for url, _ in make(epoch=1)] == second
    assert [url for url, _ in make(seed=1)] not in (first, second)


def test_ranks_share_the_files(folder, monkeypatch):
    shares = []
    for rank in range(3):
        for name, value in (("RANK", rank), ("WORLD_SIZE", 3), ("LOCAL_RANK", rank), ("LOCAL_WORLD_SIZE", 3)):
            monkeypatch.setenv(name, str(value))
        loader = fb.load_files(prefix(folder), shuffle=True)
        share = [url for url, _ in loader]
        assert len(share) == len(loader)
        shares.append(share)
        assert len(list(fb.load_files(prefix(folder), shard="none"))) == 23
    assert sorted(sum(shares, [])) == sorted(file.url for file in fb.list_files(prefix(folder)))


def test_a_loader_that_is_sent_to_a_process_without_a_group_keeps_its_rank(folder, monkeypatch):
    # A group without a launcher has no local numbers, and a spawned worker has no group.
    monkeypatch.setattr("forebay._world._group", lambda: ((1, 3, None, None), "torch.distributed"))
    loader = fb.load_files(prefix(folder))
    share = [url for url, _ in loader]
    assert share == [file.url for file in fb.list_files(prefix(folder))[1::3]]
    sent = pickle.dumps(fb.load_files(prefix(folder)))
    monkeypatch.setattr("forebay._world._group", lambda: None)
    assert [url for url, _ in pickle.loads(sent)] == share
    # The ranks of a launcher are the ranks of the process itself.
    for name, value in (("RANK", 2), ("WORLD_SIZE", 3)):
        monkeypatch.setenv(name, str(value))
    assert [url for url, _ in pickle.loads(sent)] == [file.url for file in fb.list_files(prefix(folder))[2::3]]


@pytest.mark.parametrize("ordered", [True, False])
def test_a_state_continues_within_the_epoch(folder, ordered):
    make = lambda: fb.load_files(prefix(folder), shuffle=True, ordered=ordered, concurrency=5)  # noqa: E731
    loader, seen = make(), []
    for url, _ in loader:
        seen.append(url)
        if len(seen) == 9:
            break
    state = pickle.loads(pickle.dumps(loader.state_dict()))
    resumed = make()
    resumed.load_state_dict(state)
    rest = [url for url, _ in resumed]
    assert sorted(seen + rest) == sorted(file.url for file in fb.list_files(prefix(folder)))
    if ordered:
        assert seen + rest == [url for url, _ in make()]
    assert resumed.epoch == 1
    with pytest.raises(fb.StateError, match="seed"):
        fb.load_files(prefix(folder), shuffle=True, seed=5).load_state_dict(state)
    with pytest.raises(fb.StateError, match="not the state"):
        resumed.load_state_dict({"epoch": 1})


def test_a_state_continues_on_a_different_number_of_ranks(folder, monkeypatch):
    def world(rank, ranks):
        for name, value in (("RANK", rank), ("WORLD_SIZE", ranks), ("LOCAL_RANK", rank), ("LOCAL_WORLD_SIZE", ranks)):
            monkeypatch.setenv(name, str(value))

    def run(rank, ranks, state, count):
        world(rank, ranks)
        loader = fb.load_files(prefix(folder), shuffle=True)
        if state:
            loader.load_state_dict(state)
        found = [url for _, (url, _) in zip(range(count), loader)] if count else [url for url, _ in loader]
        return found, loader.state_dict()

    first = [run(rank, 2, None, 4) for rank in range(2)]
    assert first[0][1] == first[1][1]
    rest = [run(rank, 3, first[0][1], None)[0] for rank in range(3)]
    every = sum((found for found, _ in first), []) + sum(rest, [])
    assert sorted(every) == sorted(file.url for file in fb.list_files(prefix(folder)))


def test_a_state_of_files_out_of_order_is_refused_by_a_different_number_of_ranks(folder, monkeypatch):
    make = lambda: fb.load_files(prefix(folder), ordered=False)  # noqa: E731
    loader = make()
    beginning = loader.state_dict()
    next(iter(loader))
    state = loader.state_dict()
    for name, value in (("RANK", 0), ("WORLD_SIZE", 2), ("LOCAL_RANK", 0), ("LOCAL_WORLD_SIZE", 2)):
        monkeypatch.setenv(name, str(value))
    with pytest.raises(fb.StateError, match="out of order"):
        make().load_state_dict(state)
    make().load_state_dict(beginning)


def test_a_state_of_a_different_list_is_refused_by_a_shuffle(folder):
    loader = fb.load_files(prefix(folder), shuffle=True)
    next(iter(loader))
    state = loader.state_dict()
    (folder / "new").write_bytes(b"new")
    with pytest.raises(fb.StateError, match="of 23 files, but this list has 24"):
        fb.load_files(prefix(folder), shuffle=True).load_state_dict(state)
    in_order = fb.load_files(prefix(folder))
    next(iter(in_order))
    longer = fb.load_files(prefix(folder))
    longer.load_state_dict(in_order.state_dict())
    assert len(list(longer)) == 23


@pytest.mark.parametrize("change", [{"epoch": -1}, {"start": -1}, {"taken": -1}, {"shares": 0}, {"ahead": [-1]}, {"taken": "x"}])
def test_a_state_with_impossible_numbers_is_refused(folder, change):
    loader = fb.load_files(prefix(folder))
    with pytest.raises(fb.StateError, match="not the state of a FileLoader"):
        loader.load_state_dict(loader.state_dict() | change)


def test_a_file_with_a_length_that_differs_from_the_list_is_stale(folder):
    files = fb.list_files(prefix(folder), masks="0[1-3].txt")
    assert len(files) == 3
    (folder / "02.txt").write_bytes(b"another")
    loader = fb.load_files(files)
    loaded = iter(loader)
    next(loaded)
    with pytest.raises(fb.StaleError, match="02.txt is not as it was listed: .* has 7 bytes, and 1994 .*: list the files again"):
        next(loaded)
    with pytest.raises(fb.StaleError, match="02.txt is not as it was listed"):
        loader[1]


def test_a_file_that_is_missing_is_an_error_and_the_next_in_turn(folder):
    urls = [f"{folder}/01.txt", f"{folder}/absent", f"{folder}/02.txt"]
    loader = fb.load_files(urls)
    found = []
    with pytest.raises(fb.NotFoundError, match="absent"):
        found.extend(url for url, _ in loader)
    (folder / "absent").write_bytes(b"now")
    assert [data for _, data in loader] == [b"now", (folder / "02.txt").read_bytes()]


def test_files_that_cannot_be_read_leave_the_readable_ones(folder):
    files = [file for file in fb.list_files(prefix(folder), masks="0*.txt")]
    os.remove(files[3].url)
    gone = fb.File(f"{folder}/a/../b", 1)
    loader = fb.load_files([*files[:5], gone, *files[5:]], failed="return")
    for _ in range(2):
        found = dict(loader)
        errors = {url: type(data) for url, data in found.items() if isinstance(data, fb.Error)}
        assert errors == {files[3].url: fb.NotFoundError, gone.url: fb.ConfigError}
        assert [len(found[file.url]) for file in files[4:]] == [file.size for file in files[4:]]


def test_names_that_only_some_systems_accept_are_ordinary_files(tmp_path):
    texts = {"back\\slash": b"1", "new\nline/tab\t": b"22", "x" * 200 + "/" + "y" * 200: b"3", "." * 3: b"4"}
    deep = "/".join(["z" * 200] * 6)
    for name, text in (texts | {deep: b"5"}).items():
        with fb.open(f"{tmp_path}/{name}", "wb") as file:
            file.write(text)
    files = fb.list_files(prefix(tmp_path))
    assert {os.path.relpath(url, tmp_path): data for url, data in fb.load_files(files)} == texts | {deep: b"5"}
    fb.remove_files(files)
    assert not fb.list_files(prefix(tmp_path))


def test_a_folder_that_is_an_empty_text_is_an_error(folder, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(fb.ConfigError, match="cache is the path of a folder, and it is empty"):
        fb.load_files(fb.list_files(prefix(folder)), cache="")


def test_an_error_of_the_source_of_urls_is_not_the_end(folder):
    def urls():
        yield f"{folder}/01.txt"
        raise IndexError("the source")

    found = []
    with pytest.raises(IndexError, match="the source"):
        for url, _ in fb.load_files(urls(), concurrency=1):
            found.append(url)  # `extend` would ask for the length first.
    assert found == [f"{folder}/01.txt"]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_of_a_dataloader_share_the_files(folder, method):
    torch = pytest.importorskip("torch.utils.data")
    files = fb.list_files(prefix(folder))
    len(files)
    next(iter(fb.load_files(files)))  # The parent's threads do not exist in the workers.
    loader = torch.DataLoader(fb.load_files(files), batch_size=None, num_workers=2, multiprocessing_context=method)
    found = dict(loader)
    assert set(found) == {file.url for file in files}
    assert found[f"{folder}/07.txt"] == content(7, 7 * 997)


def test_a_loader_of_a_child_process_starts_its_own_threads(folder):
    loader = fb.load_files(prefix(folder))
    iterator = iter(loader)
    next(iterator)
    child = os.fork()
    if child == 0:
        try:
            with pytest.raises(fb.ClosedError, match="after a fork"):
                next(iterator)
            os._exit(0 if len(list(fb.load_files(prefix(folder)))) == 23 else 1)
        except BaseException:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert len(list(iterator)) == 22


def test_a_file_is_read_like_an_ordinary_one(folder):
    path = folder / "deep" / "b.bin"
    whole = path.read_bytes()
    with fb.open(str(path)) as file:
        assert (file.size, file.readable(), file.seekable(), file.writable()) == (len(whole), True, True, False)
        assert file.read(10) == whole[:10] and file.tell() == 10
        assert file.seek(-5, io.SEEK_END) == len(whole) - 5
        assert file.read() == whole[-5:] and file.read() == b"" and file.read(3) == b""
        file.seek(0)
        assert file.read() == whole
        file.seek(3 << 20)
        assert file.read(100) == whole[3 << 20 : (3 << 20) + 100]
        buffer = bytearray(9 << 20)
        file.seek(123)
        assert file.readinto(buffer) == len(buffer) and buffer == whole[123 : 123 + len(buffer)]
        assert file.seek(len(whole) + 10) == len(whole) + 10 and file.read() == b""
        with pytest.raises(ValueError, match="before the start"):
            file.seek(-1)
    with pytest.raises(ValueError, match="closed"):
        file.read()
    pieces = []
    with fb.open(path) as file:
        while piece := file.read(1_000_003):
            pieces.append(piece)
    assert b"".join(pieces) == whole
    with pytest.raises(fb.NotFoundError, match="absent"):
        fb.open(f"{folder}/absent")
    with fb.open(f"{folder}/empty") as file:
        assert file.read() == b""


def test_a_file_that_could_not_be_opened_is_dropped_without_a_further_error(tmp_path, monkeypatch):
    unraisable = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)
    with pytest.raises(fb.NotFoundError):
        FileReader(str(tmp_path / "absent"))
    gc.collect()
    assert unraisable == []


def test_lines_are_found_in_the_bytes_that_have_arrived(tmp_path):
    path = tmp_path / "lines"
    lines = [b"\n", b"a" * 300_000 + b"\n", b"b\n" * 3, b"c" * (9 << 20) + b"\n", b"end"]
    path.write_bytes(b"".join(lines))
    with fb.open(path) as file, open(path, "rb") as plain:
        file.read = None  # Not one call for each byte.
        assert list(file) == list(plain) and file.readline() == b""
        for at, size in [(300_000, -1), (300_000, 1), (300_000, 2), (1 << 20, 5), (300_001, None), (10 << 20, 3)]:
            file.seek(at)
            plain.seek(at)
            assert (file.readline(size), file.tell()) == (plain.readline(size), plain.tell())
        with pytest.raises(TypeError):
            file.seek(1.5)


def test_reads_and_jumps_between_lines_continue_at_the_position(tmp_path):
    path = tmp_path / "lines"
    path.write_bytes(b"".join(b"%d\n" % number for number in range(2_000_000)) + b"end")
    with fb.open(str(path)) as file, open(path, "rb") as plain:
        ours, theirs = [], []
        for kept, opened in ((ours, file), (theirs, plain)):
            lines = iter(opened)
            kept += itertools.islice(opened, 3)
            kept += zip(itertools.islice(opened, 2), opened)
            kept += [opened.readline(), next(lines), opened.read(5), next(lines)]
            opened.seek(9_000_000)
            kept += [next(lines), opened.readline()]
            opened.seek(-8, io.SEEK_END)
            kept += [*lines]
        assert ours == theirs
        assert list(file) == [] and file.tell() == file.size
        file.seek(0)
        for number, line in enumerate(file):
            assert file.tell() == sum(len(b"%d\n" % before) for before in range(number + 1))
            if number == 20:
                break
        lines = iter(file)
        next(lines)
        file.close()
        with pytest.raises(ValueError, match="closed"):
            next(lines)
        with pytest.raises(ValueError, match="closed"):
            iter(file)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32", "latin-1"])
def test_text_equals_the_text_of_the_built_in_open(tmp_path, encoding):
    path, plain = tmp_path / "text", tmp_path / "plain"
    with fb.open(path, "w", encoding=encoding, newline="") as file, open(plain, "w", encoding=encoding, newline="") as other:
        for each in (file, other):
            each.write("grün\r\n")
            each.write("x\n")
    assert path.read_bytes() == plain.read_bytes()
    assert fb.open(path, "r", encoding=encoding).read() == "grün\nx\n"
    assert fb.open(path, "r", encoding=encoding, newline="").read() == "grün\r\nx\n"
    with fb.open(path, "r", encoding="ascii", errors="replace") as file, open(path, encoding="ascii", errors="replace") as other:
        assert file.read() == other.read()


def test_a_writer_that_is_dropped_is_in_the_log(tmp_path, caplog):
    with gzip.open(fb.open(tmp_path / "a.gz", "wb"), "wb") as file:
        file.write(b"lost")
    with gzip.open(fb.open(tmp_path / "a.gz", "wb"), "wt") as text:
        text.write("lost")
    del file, text
    fb.open(tmp_path / "b", "w")
    assert [record.getMessage().partition(" is not written: ")[0] for record in caplog.records] == [
        str(tmp_path / "a.gz"),
        str(tmp_path / "a.gz"),
        str(tmp_path / "b"),
    ]
    caplog.clear()
    file = fb.open(tmp_path / "a.gz", "wb")
    with file, gzip.open(file, "wb") as packed:
        packed.write(b"kept")
    with contextlib.suppress(RuntimeError), fb.open(tmp_path / "b", "wb"):
        raise RuntimeError
    del file, packed
    assert caplog.records == [] and gzip.decompress((tmp_path / "a.gz").read_bytes()) == b"kept"


def test_a_file_that_is_replaced_while_it_is_read_is_an_error(folder):
    path = folder / "deep" / "b.bin"
    with fb.open(path) as file:
        file.read(10)
        path.write_bytes(bytes(20 << 20))
        file.seek(5 << 20)
        with pytest.raises(fb.StaleError, match="changed"):
            file.read(10)


def test_common_libraries_read_and_write_through_it(tmp_path):
    path = tmp_path / "a.zip"
    with fb.open(path, "wb") as file, zipfile.ZipFile(file, "w") as archive:
        archive.writestr("one", "1" * 100_000)
        archive.writestr("two", os.urandom(100_000))
    with fb.open(path) as file, zipfile.ZipFile(file) as archive:
        assert archive.testzip() is None and archive.namelist() == ["one", "two"]
    with fb.open(path.with_suffix(".txt"), "w") as file:
        file.write("grün\n" * 3)
    with fb.open(path.with_suffix(".txt"), "r") as file:
        assert list(file) == ["grün\n"] * 3


def test_a_file_appears_when_it_is_complete(tmp_path):
    path = tmp_path / "new" / "file"
    large = os.urandom(20 << 20)
    with fb.open(path, "wb") as file:
        assert file.write(b"abc") == 3
        file.write(memoryview(large))
        assert file.tell() == 3 + len(large) and not path.exists()
    assert path.read_bytes() == b"abc" + large
    with pytest.raises(RuntimeError, match="stop"), fb.open(path, "wb") as file:
        file.write(b"half")
        raise RuntimeError("stop")
    file = fb.open(path, "wb")
    file.write(large)
    del file
    with pytest.raises(RuntimeError, match="stop"), fb.open(path, "w") as file:
        file.write("half")
        raise RuntimeError("stop")
    file = fb.open(path, "w")
    file.write("half")
    file.flush()
    del file
    assert path.read_bytes() == b"abc" + large
    with fb.open(path.with_name("text"), "w") as file:
        file.write("whole")
    assert path.with_name("text").read_text() == "whole"
    os.remove(path.with_name("text"))
    assert [name for name in os.listdir(path.parent) if name != "file"] == []
    with pytest.raises(ValueError, match="closed"):
        file.write("more")


def test_a_path_is_a_prefix_as_text_is(folder):
    assert len(fb.load_files(folder / "deep")) == len(fb.load_files(str(folder / "deep"))) == 2
    with pytest.raises(TypeError):
        fb.load_files(folder / "deep")[0:2]


def test_a_path_may_begin_at_the_home_directory(folder, monkeypatch):
    monkeypatch.setenv("HOME", str(folder))
    with fb.open("~/deep/c.bin", "wb") as file:
        file.write(b"c")
    assert names(fb.list_files("~/deep/"), folder) == ["deep/a.bin", "deep/b.bin", "deep/c.bin"]
    assert list(fb.load_files(["~/deep/c.bin"])) == [(f"{folder}/deep/c.bin", b"c")]


def test_files_are_removed(folder):
    files = fb.list_files(prefix(folder), masks="0*.txt")
    fb.remove_files([*files, f"{folder}/absent"])
    assert len(fb.list_files(prefix(folder))) == 13


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        (lambda: fb.load_files(["s3://bucket/"]).__iter__().__next__(), "address of a folder"),
        (lambda: fb.load_files(["a"], shard="rank"), "auto"),
        (lambda: fb.load_files(["a"], concurrency=0), "concurrency"),
        (lambda: fb.load_files(["a"], buffer="many"), "buffer"),
        (lambda: fb.load_files(["a"], store={}), "StoreOptions"),
        (lambda: list(fb.list_files("https://host/folder/")), "no common way"),
        (lambda: list(fb.list_files("nosuch://bucket/")), "unknown scheme"),
        (lambda: fb.remove_files("s3://bucket/a"), "sequence"),
        (lambda: fb.remove_files(None), "urls has to be a sequence"),
        (lambda: fb.load_files(None), "urls has to be a sequence"),
        (lambda: fb.list_files("a/", masks=5), "masks has to be"),
        (lambda: fb.open("/tmp/a", "a"), "mode"),
        (lambda: fb.open("/tmp/a", encoding="utf-8"), "are for text"),
        (lambda: fb.open("/tmp/a", "w", encoding="nosuch"), "unknown encoding"),
        (lambda: fb.open("/tmp/a", "r", newline="x"), "newline"),
        (lambda: fb.StoreOptions(part_size="x"), "part_size"),
        (lambda: fb.StoreOptions(timeout=0), "timeout"),
        (lambda: fb.StoreOptions(unsigned=True, requester_pays=True), "not both"),
        (lambda: fb.list_files("s3://b/", store=fb.StoreOptions(endpoint="localhost:9000"))[0], "endpoint"),
    ],
)
def test_wrong_arguments_name_the_remedy(call, hint):
    with pytest.raises(fb.Error, match=hint):
        result = call()
        if isinstance(result, FileLoader):
            list(result)


def test_torch_is_not_imported(folder):
    program = f"import forebay as fb, sys; list(fb.load_files({prefix(folder)!r})); sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)

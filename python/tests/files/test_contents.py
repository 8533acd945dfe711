"""Lines of texts and files of tars: compared with Python's own, resumed anywhere, divided among ranks and workers."""

import bz2
import gzip
import io
import json
import os
import pickle
import random
import subprocess
import sys
import tarfile

import pytest
from range_server import RangeHandler, Served

import forebay as fb
from forebay import _forebay
from forebay.files.order import is_of_one_rank

TEXTS = {
    "0.txt": b"",
    "1.txt": b"one\ntwo\r\n\n\r\nthr\ree\n",
    "2.txt": b"no end",
    "3.txt": b"\r\n" * 5 + b"cr at the end\r",
    "4.txt": b"".join(b"%d %s\n" % (n, b"x" * (n % 700)) for n in range(6000)),
    "5.txt": b"a\n" * 100_000,
    "6.txt": b"y" * (3 << 20) + b"\nafter a long line\n",
}


def lines_of(text):
    lines = text.split(b"\n")
    ended = [line.removesuffix(b"\r") for line in lines[:-1]]
    return ended + ([lines[-1]] if lines[-1] else [])


@pytest.fixture
def texts(tmp_path):
    """Folder with texts of all kinds of line ends."""
    folder = tmp_path / "texts"
    folder.mkdir()
    for name, text in TEXTS.items():
        (folder / name).write_bytes(text)
    return folder


class EncodedHandler(RangeHandler):
    def answer(self, status, body, **headers):
        super().answer(status, body, content_encoding="gzip", **headers)


@pytest.mark.parametrize("sizes", [True, False])
def test_texts_and_tars_that_are_sent_with_an_encoding_are_unpacked_and_files_are_refused(tmp_path, sizes):
    members = tar_of(tarfile.PAX_FORMAT, 1)
    for name, data in {"a.txt": b"line 1\nline 2\n", "a.tar": members[0], "b.txt.gz": b"line 3\n"}.items():
        (tmp_path / name).write_bytes(gzip.compress(data))
    server = Served(tmp_path, EncodedHandler)
    try:
        def found(name):
            url = f"{server.url}/{name}"
            return fb.File(url, (tmp_path / name).stat().st_size) if sizes else url

        assert list(fb.load_lines([found("a.txt"), found("b.txt.gz")])) == [b"line 1", b"line 2", b"line 3"]
        assert [(name, data) for _, name, data in fb.load_tars([found("a.tar")])] == members[1]
        assert list(fb.load_lines([found("a.txt")], compression="none"))[0].startswith(b"\x1f\x8b")
        for read in (lambda: list(fb.load_files([found("a.txt")])), lambda: fb.open(f"{server.url}/a.txt").read()):
            with pytest.raises(fb.UnsupportedError, match=r"Content-Encoding: gzip.*key a\.txt"):
                read()
        assert list(fb.load_files([found("b.txt.gz")]))[0][1] == (tmp_path / "b.txt.gz").read_bytes()
    finally:
        server.close()


def every_line():
    return [line for text in TEXTS.values() for line in lines_of(text)]


def tar_of(format_, number, members=40):
    """Tar with files, folders, links and long names, and its contents."""
    out, files = io.BytesIO(), []
    draws = random.Random(number)
    with tarfile.open(fileobj=out, mode="w", format=format_, errors="surrogateescape") as tar:
        for member in range(members):
            name = f"folder-{number}/{member:03}.bin"
            if format_ != tarfile.USTAR_FORMAT and member % 7 == 0:
                name = f"{'long/' * 40}größe-{member}-\udcff.bin"
            data = draws.randbytes(draws.choice([0, 1, 511, 512, 513, 5000, 90_000]))
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
            files.append((name, data))
            other = tarfile.TarInfo(f"link-{member}")
            other.type, other.linkname = (tarfile.SYMTYPE, name) if member % 2 else (tarfile.DIRTYPE, "")
            tar.addfile(other)
    return out.getvalue(), files


FORMATS = (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT)


@pytest.fixture
def tars(tmp_path):
    """Folder with a tar of each format, and their contents."""
    folder = tmp_path / "tars"
    folder.mkdir()
    expected = []
    for number, format_ in enumerate(FORMATS):
        content, files = tar_of(format_, number)
        (folder / f"{number}.tar").write_bytes(content)
        expected += [(f"{folder}/{number}.tar", *file) for file in files]
    return folder, expected


def take(loader, count):
    return [item for _, item in zip(range(count), loader)]


def test_lines_equal_the_lines_of_the_texts(texts):
    assert list(fb.load_lines(f"{texts}/")) == every_line()
    for buffer in (1, "1mb", "2mb", "5mb"):
        assert list(fb.load_lines(f"{texts}/", buffer=buffer)) == every_line()
    only = fb.list_files(f"{texts}/", masks="1.*")
    assert list(fb.load_lines(only)) == list(fb.load_lines([only[0]])) == list(fb.load_lines(only[0]))
    assert list(fb.load_lines(only[0].url for _ in range(2))) == 2 * lines_of(TEXTS["1.txt"])
    assert list(fb.load_lines([])) == []


def test_compressed_texts_are_unpacked_by_their_names(tmp_path):
    text = TEXTS["4.txt"]
    packed = {
        "a.jsonl.gz": gzip.compress(text[:50_000]) + gzip.compress(text[50_000:]),
        "b.bz2": bz2.compress(text),
        "c.zst": _forebay.compress("zstd:1", text),
        "d.BR": _forebay.compress("br:1", text),
    }
    for name, content in packed.items():
        (tmp_path / name).write_bytes(content)
    assert list(fb.load_lines(f"{tmp_path}/")) == len(packed) * lines_of(text)
    as_it_is = fb.load_lines(f"{tmp_path}/a.jsonl.gz", compression="none")
    assert list(as_it_is) == lines_of(packed["a.jsonl.gz"])
    (tmp_path / "no-extension").write_bytes(packed["c.zst"])
    assert list(fb.load_lines([f"{tmp_path}/no-extension"], compression="zst")) == lines_of(text)


def test_the_files_of_tars_equal_the_members_in_tarfile(tars):
    folder, expected = tars
    assert list(fb.load_tars(f"{folder}/")) == expected
    for number in range(len(FORMATS)):
        with tarfile.open(folder / f"{number}.tar") as tar:
            python = [(member.name, tar.extractfile(member).read()) for member in tar if member.isfile()]
        assert [(name, data) for _, name, data in fb.load_tars([f"{folder}/{number}.tar"])] == python


def test_compressed_tars_are_unpacked(tars, tmp_path):
    folder, expected = tars
    packed = tmp_path / "packed"
    packed.mkdir()
    for name, pack in ((".tar.gz", gzip.compress), (".tgz", gzip.compress), (".tar.bz2", bz2.compress)):
        (packed / f"0{name}").write_bytes(pack((folder / "0.tar").read_bytes()))
    (packed / "0.tar.zst").write_bytes(_forebay.compress("zstd:1", (folder / "0.tar").read_bytes()))
    first = [file[1:] for file in expected if file[0].endswith("0.tar")]
    assert [file[1:] for file in fb.load_tars(f"{packed}/")] == 4 * first


def test_a_file_of_a_tar_may_be_larger_than_the_buffer(tmp_path):
    data = random.Random(1).randbytes(1 << 20) * 20
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        for name in ("first", "second"):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    found = list(fb.load_tars(f"{tmp_path}/", buffer="1mb"))
    assert [name for _, name, _ in found] == ["first", "second"] and all(each == data for *_, each in found)


def test_sparse_files_have_their_zeros(tmp_path):
    with open(tmp_path / "sparse", "wb") as file:
        file.seek(1 << 20)
        file.write(b"data")
        file.truncate(3 << 20)
    (tmp_path / "plain").write_bytes(b"after it")
    expected = [(name, (tmp_path / name).read_bytes()) for name in ("sparse", "plain")]
    for version in ("0.0", "0.1", "1.0"):
        options = ["--format=posix", f"--sparse-version={version}"]
        subprocess.run(
            ["tar", "-C", tmp_path, "-cSf", tmp_path / f"{version}.tar", *options, "sparse", "plain"], check=True
        )
    subprocess.run(["tar", "-C", tmp_path, "-cSf", tmp_path / "gnu.tar", "--format=gnu", "sparse", "plain"], check=True)
    for tar in fb.list_files(f"{tmp_path}/", masks="*.tar"):
        assert tar.size < 1 << 20, "the tar is sparse"
        assert [(name, data) for _, name, data in fb.load_tars(tar)] == expected


@pytest.mark.parametrize("compression", ["", ".gz"])
def test_lines_continue_after_any_line(tmp_path, compression):
    texts = [b"a\nbb\r\n\nccc", b"", b"d\n" * 3, b"e" * 300_000 + b"\n" + b"f\n" * 70_000]
    for number, text in enumerate(texts):
        (tmp_path / f"{number}.txt{compression}").write_bytes(gzip.compress(text) if compression else text)
    every = [line for text in texts for line in lines_of(text)]
    for count in [*range(12), 70, 40_000, len(every) - 1, len(every)]:
        loader = fb.load_lines(f"{tmp_path}/")
        assert take(loader, count) == every[:count]
        state = json.loads(json.dumps(loader.state_dict()))
        resumed = fb.load_lines(f"{tmp_path}/")
        resumed.load_state_dict(state)
        assert list(resumed) == every[count:], count
        # A second loop of the same loader is at the same position.
        assert list(loader) == every[count:], count
        assert (loader.epoch, loader.state_dict()["offset"]) == (1, 0) and list(loader) == every


def test_a_state_within_a_loop_is_the_state_of_the_line_before(texts):
    loader = fb.load_lines(f"{texts}/")
    every = every_line()
    for count, line in enumerate(loader, start=1):
        assert line == every[count - 1]
        if count % 9973 == 0:
            resumed = fb.load_lines(f"{texts}/")
            resumed.load_state_dict(loader.state_dict())
            assert next(iter(resumed)) == every[count]


@pytest.mark.parametrize("compression", ["", ".gz"])
def test_tars_continue_after_any_file(tars, tmp_path, compression):
    folder, expected = tars
    if compression:
        folder = tmp_path / "packed"
        folder.mkdir()
        for number in range(len(FORMATS)):
            content = gzip.compress((tmp_path / "tars" / f"{number}.tar").read_bytes())
            (folder / f"{number}.tar.gz").write_bytes(content)
    for count in [*range(0, len(expected), 7), 39, 40, 41, len(expected)]:
        loader = fb.load_tars(f"{folder}/")
        take(loader, count)
        resumed = fb.load_tars(f"{folder}/")
        resumed.load_state_dict(json.loads(json.dumps(loader.state_dict())))
        for each in (resumed, loader):
            assert [file[1:] for file in each] == [file[1:] for file in expected[count:]], count


def test_a_position_is_right_after_an_error_of_the_next_file(tmp_path):
    (tmp_path / "a").write_bytes(b"a\nb\n")
    loader = fb.load_lines([f"{tmp_path}/a", f"{tmp_path}/b"])
    lines = iter(loader)
    assert [next(lines), next(lines)] == [b"a", b"b"]
    with pytest.raises(fb.NotFoundError):
        next(lines)
    assert (loader.state_dict()["taken"], loader.state_dict()["offset"]) == (1, 0)
    (tmp_path / "b").write_bytes(b"xx\nyyy\n")
    assert list(loader) == [b"xx", b"yyy"]


def test_a_loader_goes_back_to_an_earlier_state(texts, tars):
    for make, every in ((fb.load_lines, every_line()), (fb.load_tars, tars[1])):
        loader = make(f"{texts}/" if make is fb.load_lines else f"{tars[0]}/")
        beginning = loader.state_dict()
        items = iter(loader)
        first = [next(items) for _ in range(3)]
        later = loader.state_dict()
        for _ in range(4):
            next(items)
        for state, count in ((later, 3), (beginning, 0), (later, 3)):
            loader.load_state_dict(state)
            assert loader.state_dict()["offset"] == state["offset"]
            items = iter(loader)
            assert first[:count] + [next(items) for _ in range(10 - count)] == every[:10]


def test_a_loop_that_is_not_the_current_one_is_an_error(texts, tars):
    def ends(loader):
        yield lambda: loader.set_epoch(4)
        yield lambda: loader.load_state_dict(loader.state_dict())
        yield lambda: next(iter(loader))

    for make in (fb.load_files, fb.load_lines, fb.load_tars):
        prefix = f"{tars[0]}/" if make is fb.load_tars else f"{texts}/"
        for number in range(3):
            loader = make(prefix)
            items = iter(loader)
            next(items)
            list(ends(loader))[number]()
            with pytest.raises(fb.StateError, match="ended by set_epoch"):
                next(items)


def test_a_state_with_values_of_wrong_kinds_is_no_state(texts):
    loader = fb.load_lines(f"{texts}/")
    state = loader.state_dict()
    for wrong in ({"version": 7}, {"offset": 1 << 70}, {"offset": -1}, {"offset": "x"}):
        with pytest.raises(fb.StateError):
            loader.load_state_dict(state | wrong)


def test_a_file_that_was_replaced_after_the_state_is_not_continued(texts, tars):
    folder, _ = tars
    for make, path in ((fb.load_lines, texts / "4.txt"), (fb.load_tars, folder / "0.tar")):
        loader = make([path])
        take(loader, 3)
        state = loader.state_dict()
        path.write_bytes(path.read_bytes()[:-512])
        resumed = make([path])
        resumed.load_state_dict(state)
        with pytest.raises(fb.StaleError, match=path.name):
            list(resumed)


def test_a_file_that_was_replaced_after_it_was_listed_is_an_error(bucket, bucket_environment):
    for make, name in ((fb.load_lines, "replaced/lines.txt"), (fb.load_tars, "replaced/files.tar")):
        bucket.objects[name] = b"one\n" * 512
        files = fb.list_files(f"s3://bucket/{name}")
        assert len(files) == 1
        bucket.objects[name] = b"two\n" * 512
        with pytest.raises(fb.StaleError, match=f"after it was listed.*{name}"):
            list(make(files))


def test_every_item_is_returned_by_one_rank_and_worker(texts, tars, process):
    folder, expected = tars
    for ranks, workers in ((1, 0), (2, 0), (2, 3), (9, 0)):
        lines, files = [], []
        for rank in range(ranks):
            for worker in range(max(workers, 1)):
                process(rank, ranks, *((worker, workers) if workers else ()))
                lines += fb.load_lines(f"{texts}/", shuffle=True, seed=3)
                files += fb.load_tars(f"{folder}/")
        assert sorted(lines) == sorted(every_line()) and sorted(files) == sorted(expected)


def test_a_position_belongs_to_one_rank(texts, process):
    process(0, 2)
    loader = fb.load_lines(f"{texts}/")
    beginning = loader.state_dict()
    # In the first file that has lines, the second of the share.
    take(loader, 1)
    within = loader.state_dict()
    assert within["offset"] and is_of_one_rank({"train": within}) and not is_of_one_rank(beginning)
    process(1, 2)
    for other in ((1, 2), (0, 1), (0, 2, 0, 2)):
        process(*other)
        with pytest.raises(fb.StateError, match="lines were returned by share 0 of 2.*with its own state"):
            fb.load_lines(f"{texts}/").load_state_dict(within)
        fb.load_lines(f"{texts}/").load_state_dict(beginning)
    process(0, 2)
    for other in (fb.load_tars(f"{texts}/"), fb.load_files(f"{texts}/")):
        with pytest.raises(fb.StateError, match="loader of lines"):
            other.load_state_dict(within)


LOADED = """
import sys
import torch
import forebay as fb

texts, tars, method = sys.argv[1:]
for make, prefix in ((fb.load_lines, texts), (fb.load_tars, tars)):
    expected = sorted(make(prefix))
    # The import of torch in two new processes takes the time of the test.
    for workers in (0, 2) if method == "fork" else ():
        context = method if workers else None
        loader = torch.utils.data.DataLoader(
            make(prefix), batch_size=None, num_workers=workers, multiprocessing_context=context
        )
        # DataLoader makes lists of tuples.
        found = sorted(tuple(item) if isinstance(item, list) else item for item in loader)
        assert found == expected, (make, workers)
    batches = torch.utils.data.DataLoader(
        make(prefix), batch_size=7, num_workers=2, collate_fn=list, multiprocessing_context=method, persistent_workers=True
    )
    for _ in range(2):
        assert sorted(item for batch in batches for item in batch) == expected, make
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_of_a_data_loader_read_their_shares(texts, tars, tmp_path, method):
    pytest.importorskip("torch")
    small = tmp_path / "small"
    small.mkdir()
    for name in ("0.txt", "1.txt", "2.txt", "3.txt"):
        (small / name).write_bytes(TEXTS[name])
    script = tmp_path / "loaded.py"
    script.write_text(f"if __name__ == '__main__':\n{''.join('    ' + line for line in LOADED.splitlines(keepends=True))}")
    subprocess.run([sys.executable, script, f"{small}/", f"{tars[0]}/", method], check=True, timeout=600)


def test_a_loader_is_sent_to_a_new_process_at_its_position(texts):
    loader = fb.load_lines(f"{texts}/")
    take(loader, 10)
    copy = pickle.loads(pickle.dumps(loader))
    assert list(copy) == every_line()[10:] == list(loader)


def test_a_forked_child_continues_at_the_position(texts):
    loader = fb.load_lines(f"{texts}/")
    lines = iter(loader)
    for _ in range(10):
        next(lines)
    child = os.fork()
    if child == 0:
        # A lock that is held forever must not end as a test that never ends.
        import signal

        signal.alarm(120)
        os._exit(0 if list(loader) == every_line()[10:] else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert list(lines) == every_line()[10:]


def test_a_folder_and_a_file_are_read_without_their_neighbours(tmp_path):
    for name in ("train/a.txt", "train_old/a.txt", "one.txt", "one.txt.bak"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    for folder in ("train", "train/"):
        for path in (f"{tmp_path}/{folder}", tmp_path / folder):
            assert list(fb.load_lines(path)) == [b"train/a.txt"]
            assert [data for _, data in fb.load_files(path)] == [b"train/a.txt"]
    for path in (f"{tmp_path}/one.txt", tmp_path / "one.txt"):
        assert list(fb.load_lines(path)) == [b"one.txt"]
        listed = fb.list_files(f"{tmp_path}/", masks="one.txt")[0]
        loader = fb.load_files(path, cache=tmp_path / "cache")
        assert list(loader) == list(loader) == [(listed.url, b"one.txt")]
        assert loader._files == [listed], "with its size and time, as in a list"
    assert sorted(fb.load_lines(f"{tmp_path}/train_")) == [b"train_old/a.txt"]
    for make in (fb.load_lines, fb.load_tars):
        for path in ("absent.txt", "absent/", "{0..9}.tar"):
            with pytest.raises(fb.NotFoundError, match=f"begins with {tmp_path}"):
                list(make(f"{tmp_path}/{path}"))


def test_files_that_cannot_be_read_are_errors_that_name_them(texts, tmp_path):
    absent = [f"{texts}/1.txt", f"{texts}/absent.txt"]
    loader = fb.load_lines(absent)
    assert take(loader, 5) == lines_of(TEXTS["1.txt"])
    for _ in range(2):
        # The file is the first one of the next loop.
        with pytest.raises(fb.NotFoundError, match="absent.txt"):
            list(loader)
    (tmp_path / "a.gz").write_bytes(gzip.compress(TEXTS["4.txt"])[:-9])
    with pytest.raises(fb.FormatError, match="a.gz"):
        list(fb.load_lines([tmp_path / "a.gz"]))
    with pytest.raises(fb.FormatError, match="4.txt"):
        list(fb.load_tars([texts / "4.txt"]))
    # In its turn, after those before it.
    loader = fb.load_lines([f"{texts}/1.txt", tmp_path / "a.xz"])
    assert take(loader, 5) == lines_of(TEXTS["1.txt"])
    with pytest.raises(fb.UnsupportedError, match='a.xz.*compression="none"'):
        list(loader)
    with pytest.raises(fb.ConfigError, match="compression"):
        fb.load_lines(f"{texts}/", compression="lzma")
    with pytest.raises(fb.ConfigError, match="buffer"):
        fb.load_tars(f"{texts}/", buffer="much")

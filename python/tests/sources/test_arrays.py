"""Files of numpy's `save`, `savez` and `savez_compressed`: a file is a sample. numpy itself is the oracle."""

import io
import itertools
import zipfile

import numpy as np
import pytest
from source_matrix import Case, SourceMatrix

import forebay as fb

_prefixes = itertools.count()

COUNT = 1056  # Two shards of at most 1,024 samples; a multiple of 16.
HANDS = 2


def array(number):
    """An array that is different for each number, in one of seven shapes."""
    return np.arange(number % 7 + 1, dtype="<i4") * 1000 + number


def saved(value, **options):
    file = io.BytesIO()
    np.save(file, value, **options)
    return file.getvalue()


def archive(compressed=False, **arrays):
    file = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(file, **arrays)
    return file.getvalue()


NPY = {f"{n % 3}/{n:05}.npy": saved(array(n)) for n in range(COUNT)}
NPZ = {f"{n % 3}/{n:05}.npz": archive(n % 2 == 0, x=array(n), y=np.float32(n / 2)) for n in range(COUNT)}


def write(root, files):
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    return root


def npy_rows(batch):
    arrays = [tuple(np.asarray(value).tolist()) for value in batch["x"]]
    return list(zip(batch["path"], arrays, batch["class"], map(int, batch["label"]), strict=True))


def npz_rows(batch):
    arrays = [tuple(np.asarray(value).tolist()) for value in batch["x"]]
    return list(zip(batch["path"], arrays, map(float, batch["y"]), map(int, batch["label"]), strict=True))


def dealt(paths):
    """The files in the order of their shards."""
    return [path for hand in range(HANDS) for path in paths[hand::HANDS]]


def number_of(path):
    return int(path[2:7])


class ArraysMatrix(SourceMatrix):
    @pytest.fixture(scope="class")
    @classmethod
    def folder(cls, tmp_path_factory):
        return write(tmp_path_factory.mktemp("arrays"), cls.FILES)

    @pytest.fixture
    def case(self, folder, bucket):
        prefix = f"arrays-{next(_prefixes)}"
        bucket.objects.update({f"{prefix}/{name}": content for name, content in self.FILES.items()})
        return Case(
            remote=str(folder),
            stored=f"s3://bucket/{prefix}",
            options={"fields": self.FIELDS},
            rows=self.ROWS,
            samples=[self.sample(path) for path in dealt(sorted(self.FILES))],
            object_suffix=".npy" if self.FILES is NPY else ".npz",
        )


class TestNpy(ArraysMatrix):
    """A folder of arrays; their folders are their classes."""

    CACHE_LIMIT = 150_000
    FILES = NPY
    FIELDS = {"path": fb.Text("path"), "x": fb.Array("npy"), "class": fb.Text("class"), "label": fb.Scalar("label")}
    ROWS = staticmethod(npy_rows)

    def sample(self, path):
        return path, tuple(array(number_of(path)).tolist()), path[0], int(path[0])


class TestNpz(ArraysMatrix):
    """A folder of archives with two arrays each."""

    CACHE_LIMIT = 250_000
    FILES = NPZ
    FIELDS = {"path": fb.Text("path"), "x": fb.Array("x"), "y": fb.Scalar("y", dtype="float32"), "label": fb.Scalar("label")}
    ROWS = staticmethod(npz_rows)

    def sample(self, path):
        number = number_of(path)
        return path, tuple(array(number).tolist()), number / 2, int(path[0])


def opened(remote, fields=None, **more):
    return fb.Loader(remote=str(remote), batch_size=1, framework="numpy", fields=fields, **more)


# Types, orders of bytes and of elements, and shapes. numpy keeps each in the header.
ZOO = {
    "c": np.arange(24, dtype="<f4").reshape(2, 3, 4),
    "fortran": np.asfortranarray(np.arange(24, dtype="<i8").reshape(2, 3, 4)),
    "big": np.arange(6, dtype=">i2").reshape(3, 2),
    "big_fortran": np.asfortranarray(np.linspace(0, 1, 6, dtype=">f8").reshape(3, 2)),
    "half": np.array([0.5, -2, np.inf], dtype="<f2"),
    "bools": np.array([[True, False], [False, True]]),
    "scalar": np.array(7, dtype="u1"),
    "empty": np.zeros((0, 3), dtype="<f4"),
    "ones": np.ones(1, dtype="<u8"),
}


@pytest.mark.parametrize("compressed", [False, True])
def test_arrays_of_a_file_equal_numpys(tmp_path, compressed):
    write(tmp_path / "set", {"0.npz": archive(compressed, **ZOO)})
    with np.load(tmp_path / "set/0.npz") as expected, opened(tmp_path / "set") as loader:
        batch = next(iter(loader))
        assert set(batch) == {*expected.files, "path"}
        for name in expected.files:
            found = np.asarray(batch[name][0])
            assert found.shape == expected[name].shape, name
            assert np.array_equal(found, expected[name]), name


@pytest.mark.parametrize("name", ZOO)
def test_an_array_of_a_file_equals_numpys(tmp_path, name):
    write(tmp_path / "set", {"0.npy": saved(ZOO[name])})
    with opened(tmp_path / "set") as loader:
        found = np.asarray(next(iter(loader))["npy"][0])
    assert found.shape == ZOO[name].shape and np.array_equal(found, ZOO[name])


def test_archives_of_foreign_programs_are_read(tmp_path):
    """Sizes of 64 bits, sizes after the content, members that are no arrays, and a comment."""
    file = io.BytesIO()

    class Pipe(io.RawIOBase):
        def writable(self):
            return True

        def write(self, data):
            return file.write(data)

    with zipfile.ZipFile(Pipe(), "w", zipfile.ZIP_DEFLATED) as target:
        for name, value in {"x": array(5), "deep/y": array(6)}.items():
            with target.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.save(member, value)
        target.writestr("folder/", "")
        target.writestr("note.txt", "words")
        target.comment = b"made elsewhere"
    write(tmp_path / "set", {"0.npz": file.getvalue()})
    fields = {"x": fb.Array("x"), "y": fb.Array("deep/y"), "note": fb.Text("note.txt")}
    with opened(tmp_path / "set", fields) as loader:
        batch = next(iter(loader))
    assert np.array_equal(batch["x"][0], array(5)) and np.array_equal(batch["y"][0], array(6))
    assert batch["note"] == ["words"]


def test_a_manifest_has_more_columns_of_the_files(tmp_path):
    names = [f"0/{n:05}.npz" for n in range(0, 30, 3)]
    root = write(tmp_path / "set", {name: NPZ[name] for name in names})
    lines = [f"{name},text of {n},{n * 10}" for n, name in enumerate(names)]
    (root / "m.csv").write_text("path,text,label\n" + "\n".join(lines[:8]) + "\n")
    stream = fb.Stream(remote=str(root), manifest="m.csv")
    fields = {"x": fb.Array("x"), "text": fb.Text("text"), "label": fb.Scalar("label")}
    with fb.Loader(streams=[stream], batch_size=1, fields=fields, framework="numpy") as loader:
        found = [(tuple(batch["x"][0].tolist()), batch["text"][0], int(batch["label"][0])) for batch in loader]
    assert found == [(tuple(array(n * 3).tolist()), f"text of {n}", n * 10) for n in range(8)]
    (root / "m.csv").write_text(f"path,x\n{names[0]},1\n")
    with pytest.raises(fb.ConfigError, match="rename the column of the manifest"):
        fb.Loader(streams=[stream], batch_size=1, framework="numpy")


def test_an_array_with_the_name_of_a_label_replaces_it(tmp_path):
    files = {f"{n}/0.npz": archive(x=array(n), label=np.int64(100 + n)) for n in range(2)}
    with opened(write(tmp_path / "set", files), {"label": fb.Scalar("label", dtype="int64"), "class": fb.Text("class")}) as loader:
        assert [(int(batch["label"][0]), batch["class"][0]) for batch in loader] == [(100, "0"), (101, "1")]


def test_an_array_of_one_number_is_a_scalar(tmp_path):
    files = {f"{n}.npz": archive(y=value) for n, value in enumerate([np.int64(3), np.array([4], ">i2"), np.float64(5)])}
    root = write(tmp_path / "set", files | {"3.npz": archive(y=np.arange(2))})
    with pytest.raises(fb.ConfigError, match="name the `dtype` of the Scalar"):
        opened(root, {"y": fb.Scalar("y")})
    with opened(root, {"y": fb.Scalar("y", dtype="int32")}, skip=fb.Skip(errors=1)) as loader:
        assert [batch["y"].tolist() for batch in loader] == [[3], [4], [5]]


def test_names_and_patterns_choose_files(tmp_path):
    root = write(tmp_path / "set", {name: NPZ[name] for name in list(NPZ)[:30]})
    for names, count in [("*/*.npz", 30), ("1/*.npz", 10), ("{0/00000,2/00002}.npz", 2)]:
        with opened(root / names, {"x": fb.Array("x")}) as loader:
            assert len(list(loader)) == count


def test_pictures_come_before_arrays_next_to_them(tmp_path):
    from picture_set import jpeg

    root = write(tmp_path / "set", {"a/0.jpg": jpeg(0), "a/0.npy": saved(array(0)), "b/0.jpg": jpeg(1)})
    with opened(root, {"path": fb.Text("path")}) as loader:
        assert [batch["path"][0] for batch in loader] == ["a/0.jpg", "b/0.jpg"]
    with pytest.raises(fb.ConfigError, match="two kinds"):
        opened(write(tmp_path / "both", {"0.npy": NPY["0/00000.npy"], "0.npz": NPZ["0/00000.npz"]}))


def test_files_that_are_written_again_are_read_again(tmp_path):
    root = tmp_path / "set"
    fields = {"x": fb.Array("x")}
    for value in (array(1), array(8)):
        # Of the same length.
        write(root, {"0.npz": archive(x=value)})
        with opened(root, fields) as loader:
            assert np.array_equal(next(iter(loader))["x"][0], value)


def test_objects_are_never_unpickled(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (exec, ("raise SystemExit('unpickled')",))

    objects = np.array([Bomb()], dtype=object)
    files = {"0.npz": archive(x=array(3), objects=objects, words=np.array(["a", "bc"]))}
    root = write(tmp_path / "set", files)
    with opened(root, {"x": fb.Array("x")}) as loader:
        assert np.array_equal(next(iter(loader))["x"][0], array(3))
    for name in ("objects", "words"):
        with opened(root, {"x": fb.Array(name)}) as loader, pytest.raises(fb.UnsupportedError, match="not numbers") as e:
            next(iter(loader))
        assert name in str(e.value)
        with opened(root, {"x": fb.Bytes(name)}) as loader:
            assert bytes(next(iter(loader))["x"][0]).startswith(b"\x93NUMPY")
    root = write(tmp_path / "npy", {"0.npy": saved(objects, allow_pickle=True)})
    with opened(root) as loader, pytest.raises(fb.UnsupportedError, match="not numbers"):
        next(iter(loader))


def test_damaged_files_are_errors_that_name_the_file(tmp_path):
    good = {f"{n}.npz": archive(x=array(n)) for n in range(8)}
    whole = good["3.npz"]
    flipped = bytearray(whole)
    flipped[whole.index(b"NUMPY") + 80] ^= 1
    bomb = io.BytesIO()
    options = {"compression": zipfile.ZIP_DEFLATED, "compresslevel": 1}
    with zipfile.ZipFile(bomb, "w", **options) as target, target.open("x.npy", "w", force_zip64=True) as member:
        for _ in range((1 << 10) + 1):
            member.write(bytes(1 << 20))
    for number, (content, error, message) in enumerate([
        (whole[:-1], fb.FormatError, "zip archive"),
        (bytes(flipped), fb.FormatError, "CRC"),
        (archive(y=array(3)), fb.FormatError, "no array of this name"),
        (bomb.getvalue(), fb.UnsupportedError, "more than 1 GiB"),
    ]):  # fmt: skip
        root = write(tmp_path / str(number), {**good, "3.npz": content})
        with opened(root, {"x": fb.Array("x")}) as loader, pytest.raises(error, match=message) as e:
            list(loader)
        assert "3.npz" in str(e.value)

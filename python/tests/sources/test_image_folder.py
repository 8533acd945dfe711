"""Folders of pictures as torchvision's ImageFolder reads them, on this machine and in a bucket."""

import itertools
import os

import numpy as np
import pytest
from picture_set import jpeg
from PIL import Image
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder
from torchvision.datasets.folder import pil_loader
from torchvision.transforms.functional import center_crop

import forebay as fb

_prefixes = itertools.count()

# Names that sort differently by bytes, by parts or by letters.
NAMES = [
    "a/z.jpg", "a/b/x.jpg", "a/b-c/x.jpg", "a/B/x.JPG", "a-b/0.jpg", "a b/1 2.jpeg", "ä/ü.jpg", "a+b/100%#?.jpg",
    "名/前.jpg", "Z/.hidden.jpg", "dots./0.jpg", "a/{b}/[c]*.jpg", "z/..jpg", "z/0.jpg.jpg", "z/" + "x" * 250 + ".jpg",
]  # fmt: skip


def written(root, names):
    for number, name in enumerate(names):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(jpeg(number))
    return root


def opened(remote, fields=None, **more):
    fields = fields or {"path": fb.Text("path"), "file": fb.Bytes("file"), "label": fb.Scalar("label")}
    more.setdefault("batch_size", 4)
    return fb.Loader(remote=str(remote), framework="numpy", fields=fields, **more)


def samples(loader):
    """Path, bytes and label of every sample, once, in the order of the epoch."""
    found = {}
    for batch in loader:
        for path, content, label in zip(batch["path"], batch["file"], batch["label"], strict=True):
            found.setdefault(path, (bytes(content), int(label)))
    return found


def of_torchvision(root):
    folder = ImageFolder(root)
    read = {}
    for path, label in folder.samples:
        with open(path, "rb") as file:
            read[os.path.relpath(path, root)] = (file.read(), label)
    return folder, read


def in_bucket(bucket, root):
    """Address of a copy of `root` in the bucket."""
    prefix = f"pictures-{next(_prefixes)}"
    for at, _, names in os.walk(root, followlinks=True):
        for name in names:
            path = os.path.join(at, name)
            with open(path, "rb") as file:
                bucket.objects[f"{prefix}/{os.path.relpath(path, root)}"] = file.read()
    return f"s3://bucket/{prefix}"


@pytest.fixture(params=["folder", "bucket"])
def place(request):
    """Function that returns the address of a folder's files."""
    if request.param == "folder":
        return str
    bucket = request.getfixturevalue("bucket")
    request.getfixturevalue("bucket_environment")
    return lambda root: in_bucket(bucket, root)


def test_samples_labels_and_order_equal_image_folder(place, tmp_path):
    root = written(tmp_path / "set", NAMES)
    folder, expected = of_torchvision(root)
    with opened(place(root)) as loader:
        assert loader.classes == folder.classes
        found = samples(loader)
    assert list(found.items()) == list(expected.items())


def test_pictures_are_decoded_natively(place, tmp_path):
    root = written(tmp_path / "set", [f"{n % 3}/{n}.jpg" for n in range(12)])
    fields = {"x": fb.Image("file", fb.CenterCrop(32)), "path": fb.Text("path")}
    with opened(place(root), fields) as loader:
        for batch in loader:
            for pixels, path in zip(batch["x"], batch["path"], strict=True):
                expected = np.asarray(center_crop(pil_loader(root / path), 32)).transpose(2, 0, 1)
                assert np.abs(pixels.astype(int) - expected.astype(int)).max() <= 1


def test_links_are_followed_as_by_image_folder(tmp_path):
    data = written(tmp_path / "data", [f"{n % 2}/{n}.jpg" for n in range(8)])
    root = tmp_path / "subset"
    (root / "one").mkdir(parents=True)
    (root / "one" / "0.jpg").symlink_to(data / "0" / "0.jpg")
    (root / "two").symlink_to(data / "1")
    _, expected = of_torchvision(root)
    with opened(root) as loader:
        assert list(samples(loader).items()) == list(expected.items())


def test_files_of_this_machine_are_read_without_a_copy(tmp_path, cache):
    root = written(tmp_path / "set", [f"{n % 2}/{n}.jpg" for n in range(40)])
    with opened(root) as loader:
        assert len(samples(loader)) == 40
    kept = [os.path.join(at, name) for at, _, names in os.walk(cache) for name in names]
    assert [os.path.basename(path) for path in kept] == ["index.json"]


def named(sample):
    return sample["path"], (sample["file"], sample["label"])


def test_samples_are_read_by_their_numbers(place, tmp_path, cache):
    root = written(tmp_path / "set", NAMES)
    _, expected = of_torchvision(root)
    reader = fb.ShardReader(place(root))
    assert len(reader) == len(expected)
    assert [named(reader[i]) for i in range(len(reader))] == list(expected.items())
    assert named(reader[-1]) == named(reader[len(reader) - 1])
    workers = DataLoader(reader, batch_size=None, num_workers=2, multiprocessing_context="spawn")
    assert list(map(named, workers)) == list(expected.items())


def test_a_file_that_is_read_by_its_number_stays_where_it_is(tmp_path, cache):
    root = written(tmp_path / "set", [f"{n % 2}/{n}.jpg" for n in range(4)])
    reader = fb.ShardReader(root)
    assert reader[3]["path"] == "1/3.jpg"
    kept = [name for _, _, names in os.walk(cache) for name in names]
    assert kept == ["index.json"]
    (root / "0/2.jpg").unlink()
    (root / "1/1.jpg").write_bytes(b"other")
    for number, message in ((1, "removed after its folder was listed"), (2, "a different length than when its folder was listed")):
        with pytest.raises(fb.StaleError, match=message):
            reader[number]
    assert named(reader[0])[0] == "0/0.jpg"


def test_a_folder_is_listed_again_when_a_file_was_added_or_removed(tmp_path):
    root = written(tmp_path / "set", ["a/0.jpg", "b/1.jpg"])
    with opened(root) as loader:
        assert list(samples(loader)) == ["a/0.jpg", "b/1.jpg"]
    written(root, ["a/2.jpg", "c/3.jpg"])
    with opened(root) as loader:
        assert list(samples(loader)) == ["a/0.jpg", "a/2.jpg", "b/1.jpg", "c/3.jpg"]
        assert loader.classes == ["a", "b", "c"]
    (root / "b" / "1.jpg").unlink()
    (root / "b").rmdir()
    with opened(root) as loader:
        assert loader.classes == ["a", "c"]


def test_a_copy_in_a_cache_is_used_where_local_is_given(tmp_path):
    root = written(tmp_path / "set", [f"{n % 2}/{n}.jpg" for n in range(8)])
    with opened(root) as loader:
        expected = samples(loader)
    with opened(root, local=tmp_path / "fast") as loader:
        assert samples(loader) == expected
    assert sorted(os.listdir(tmp_path / "fast")) == ["files.00000.mds", "index.json"]


def test_a_file_that_changed_or_went_is_named(tmp_path):
    root = written(tmp_path / "set", ["a/0.jpg", "a/1.jpg"])
    for change, message in [
        (lambda path: path.write_bytes(b"short"), "a different length"),
        (lambda path: path.unlink(), "removed"),
    ]:
        with opened(root, batch_size=1) as loader:
            change(root / "a" / "1.jpg")
            with pytest.raises(fb.Error, match=rf"(?s){message}.*a/1\.jpg"):
                list(loader)


def test_an_object_that_changed_or_went_is_named(bucket, bucket_environment, tmp_path):
    root = written(tmp_path / "set", ["a/0.jpg", "a/1.jpg"])
    for change in [lambda key: bucket.objects.update({key: b"short"}), lambda key: bucket.objects.pop(key)]:
        url = in_bucket(bucket, root)
        with opened(url, batch_size=1, fetch=fb.Fetch(retry=1)) as loader:
            change(url.removeprefix("s3://bucket/") + "/a/1.jpg")
            with pytest.raises((fb.Error, FileNotFoundError), match=r"a/1\.jpg"):
                list(loader)


def test_damaged_and_empty_pictures_can_be_skipped(place, tmp_path):
    root = written(tmp_path / "set", [f"{n % 2}/{n}.jpg" for n in range(8)])
    (root / "0" / "0.jpg").write_bytes(b"")
    (root / "1" / "1.jpg").write_bytes(b"no picture")
    fields = {"x": fb.Image("file", fb.Resize((8, 8))), "path": fb.Text("path")}
    address = place(root)
    with opened(address, fields) as loader, pytest.raises(fb.Error, match="sample"):
        list(loader)
    with opened(address, fields, skip=fb.Skip(errors=2)) as loader:
        found = {path for batch in loader for path in batch["path"]}
    assert found == {f"{n % 2}/{n}.jpg" for n in range(2, 8)}


def test_a_folder_without_pictures_is_refused(place, tmp_path):
    for name, files, says in [
        ("mixed", ["0.jpg", "a/1.jpg"], r"\*/\*"),
        ("tars", ["a/1.jpg", "0.tar"], "two kinds"),
        ("texts", ["a/1.txt"], "index.json"),
    ]:
        root = written(tmp_path / name, files)
        with pytest.raises((fb.Error, FileNotFoundError), match=says):
            opened(place(root))


def test_an_empty_class_is_refused_as_by_image_folder(tmp_path):
    root = written(tmp_path / "set", ["a/0.jpg", "b/1.txt"])
    with pytest.raises(FileNotFoundError):
        ImageFolder(root)
    with pytest.raises(FileNotFoundError, match=r"has no picture.*\bb\b"):
        opened(root)


def test_names_that_cannot_be_read_are_refused(tmp_path):
    root = written(tmp_path / "set", ["a/0.jpg"])
    for name, says in [(b"\xff.jpg", "UTF-8")]:
        path = os.path.join(os.fsencode(root), b"a", name)
        with open(path, "wb"):
            pass
        with pytest.raises(fb.ConfigError, match=says):
            opened(root)
        os.unlink(path)
    (root / "a" / "again").symlink_to(root)
    with pytest.raises(fb.ConfigError, match=r"loop.*a/again"):
        opened(root)


def test_names_with_line_breaks_are_read_without_a_copy(tmp_path):
    root = written(tmp_path / "set", ["a/line\nbreak.jpg", "a/back\\slash.jpg"])
    _, expected = of_torchvision(root)
    with opened(root) as loader:
        assert list(samples(loader).items()) == list(expected.items())


def test_a_flat_folder_has_no_labels(place, tmp_path):
    root = written(tmp_path / "set", [f"{n}.jpg" for n in range(4)])
    with opened(place(root), {"path": fb.Text("path")}) as loader:
        assert loader.classes is None
        assert sorted(path for batch in loader for path in batch["path"]) == ["0.jpg", "1.jpg", "2.jpg", "3.jpg"]
    with pytest.raises(fb.ConfigError, match="label"):
        opened(place(root))


def test_streams_with_different_classes_have_no_common_labels(tmp_path):
    one, two = written(tmp_path / "one", ["a/0.jpg", "b/1.jpg"]), written(tmp_path / "two", ["a/2.jpg", "c/3.jpg"])

    def mixed(fields):
        streams = [fb.Stream(remote=str(root)) for root in (one, two)]
        return fb.Loader(streams=streams, batch_size=4, framework="numpy", fields=fields)

    with pytest.raises(fb.ConfigError, match=r"number 1 .*class b.*class c"):
        mixed({"label": fb.Scalar("label")})
    with mixed({"class": fb.Text("class")}) as loader:
        assert sorted(name for batch in loader for name in batch["class"]) == ["a", "a", "b", "c"]
        with pytest.raises(fb.ConfigError, match="different classes"):
            loader.classes  # noqa: B018
    (two / "c").rename(two / "b")
    with mixed({"label": fb.Scalar("label")}) as loader:
        assert loader.classes == ["a", "b"]


def test_files_of_any_kind_are_samples_on_request(place, tmp_path):
    root = tmp_path / "set"
    contents = {f"{n % 2}/{n}.flac": bytes([n]) * n for n in range(6)} | {"0/x.txt": b"text", ".git/x": b""}
    for name, content in contents.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    for names, chosen in [("/**/*.flac", "flac"), ("", "")]:
        stream = fb.Stream(remote=place(root) + names, files="each")
        with fb.Loader(streams=[stream], batch_size=2, framework="numpy") as loader:
            found = {path: bytes(c) for batch in loader for path, c in zip(batch["path"], batch["file"], strict=True)}
        expected = {name: content for name, content in contents.items() if name.endswith(chosen) and name[0] != "."}
        assert found == expected


def test_more_samples_than_descriptors(tmp_path):
    root = written(tmp_path / "set", [f"{n % 2}/{n}.jpg" for n in range(20)])
    for n in range(20, 2000):
        os.link(root / str(n % 2) / f"{n % 2}.jpg", root / str(n % 2) / f"{n}.jpg")
    with opened(root, batch_size=64, shuffle=True) as loader:
        list(loader)
        before = len(os.listdir("/proc/self/fd"))
        assert before < 200
        assert len(samples(loader)) == 2000


def test_a_listing_of_many_pages_is_whole(bucket, bucket_environment):
    prefix = f"pages-{next(_prefixes)}"
    names = [f"{n % 7}/{n}.jpg" for n in range(2500)]
    bucket.objects.update({f"{prefix}/{name}": b"x" for name in names})
    with opened(f"s3://bucket/{prefix}", {"path": fb.Text("path")}, batch_size=500) as loader:
        assert sorted(path for batch in loader for path in batch["path"]) == sorted(names)


def test_gifs_are_pictures_and_formats_that_are_not_decoded_are_named_and_counted(tmp_path):
    folder = tmp_path / "photos"
    (folder / "a").mkdir(parents=True)
    frames = [Image.new("P", (4, 3), 1), Image.new("P", (4, 3), 2)]
    for frame in frames:
        frame.putpalette([0, 0, 0, 10, 20, 30, 40, 50, 60])
    frames[0].save(folder / "a/x.GIF", save_all=True, append_images=frames[1:])
    Image.new("RGB", (4, 3), (7, 8, 9)).save(folder / "a/y.png")
    fields = {"x": fb.Image("file"), "name": fb.Text("path")}

    def found(**arguments):
        with fb.Loader(remote=folder, batch_size=1, framework="numpy", fields=fields, **arguments) as loader:
            pictures = {batch["name"][0]: batch["x"][0] for batch in loader}
            return pictures, loader.stats()["counters"]["samples_skipped"]

    pictures, _ = found()
    for name in ("a/x.GIF", "a/y.png"):
        with Image.open(folder / name) as file:
            assert np.array_equal(pictures[name], np.asarray(file.convert("RGB")).transpose(2, 0, 1))
    others = {
        "q.avif": (b"\0\0\0\x1cftypavif\0\0\0\0avifmif1miaf", "AVIF"),
        "r.jxl": (b"\xff\x0a\x01", "JPEG XL"),
        "s.jp2": (b"\0\0\0\x0cjP  \r\n\x87\n", "JPEG 2000"),
        "t.HEIC": (b"\0\0\0\x18ftypheic\0\0\0\0", "HEIC"),
    }
    for name, (content, form) in others.items():
        (folder / "a" / name).write_bytes(content + bytes(50))
        with pytest.raises(fb.Error, match=f"the file is {form}, which is not decoded.*{name}"):
            found()
        with pytest.raises(fb.Error, match=form):
            found()
        pictures, skipped = found(skip=fb.Skip(errors=9))
        assert (sorted(pictures), skipped) == (["a/x.GIF", "a/y.png"], 1)
        (folder / "a" / name).unlink()

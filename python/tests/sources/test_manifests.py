"""Files with a manifest, and samples of several files."""

import csv
import io
import itertools
import json
import os

import numpy as np
import pytest
from picture_set import jpeg
from PIL import Image

import forebay as fb
from forebay.index import index_files
from forebay.to_mds import convert

_prefixes = itertools.count()

ROWS = [
    {"file_name": f"images/{n}.jpg", "caption": f'a "{n}",\nnext', "width": n, "score": n / 4, "code": f"0{n}"}
    for n in range(30)
]


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "set"
    (folder / "images").mkdir(parents=True)
    for number, row in enumerate(ROWS):
        (folder / row["file_name"]).write_bytes(jpeg(number))
    (folder / "images" / "unlisted.jpg").write_bytes(jpeg(99))
    return folder


def write_csv(path, rows, delimiter=","):
    with open(path, "w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, list(rows[0]), delimiter=delimiter)
        table.writeheader()
        table.writerows(rows)


def write_jsonl(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


WRITERS = {
    "metadata.csv": write_csv,
    "metadata.tsv": lambda path, rows: write_csv(path, rows, "\t"),
    "metadata.jsonl": write_jsonl,
}


def copied(bucket, root):
    prefix = f"manifest-{next(_prefixes)}"
    for at, _, names in os.walk(root):
        for name in names:
            path = os.path.join(at, name)
            with open(path, "rb") as file:
                bucket.objects[f"{prefix}/{os.path.relpath(path, root)}"] = file.read()
    return f"s3://bucket/{prefix}"


def opened(remote, manifest=None, **more):
    stream = fb.Stream(remote=str(remote), manifest=manifest, **more)
    return fb.Loader(streams=[stream], batch_size=4, framework="numpy")


def samples(loader):
    """Samples by their paths."""
    found = {}
    for batch in loader:
        for row in range(len(batch["path"])):
            found.setdefault(batch["path"][row], {name: values[row] for name, values in batch.items()})
    return found


def check(found):
    assert list(found) == [row["file_name"] for row in ROWS]
    for number, row in enumerate(ROWS):
        sample = found[row["file_name"]]
        assert bytes(sample["file"]) == jpeg(number)
        assert {name: sample[name] for name in ("caption", "width", "score", "code")} == {
            name: value for name, value in row.items() if name != "file_name"
        }


@pytest.mark.parametrize("name", list(WRITERS))
def test_columns_of_a_manifest_become_columns_of_the_samples(name, root, bucket, bucket_environment, tmp_path):
    WRITERS[name](root / name, ROWS)
    for remote, manifest in [
        (root, name),
        (root, root / name),
        (copied(bucket, root), name),
        (copied(bucket, root), root / name),
    ]:
        with opened(remote, manifest) as loader:
            check(samples(loader))
    elsewhere = copied(bucket, root)
    with opened(root, f"{elsewhere}/{name}") as loader:
        check(samples(loader))


def test_the_order_follows_the_manifest_and_a_file_may_have_several_lines(root):
    write_jsonl(root / "m.jsonl", [{"path": f"images/{n}.jpg", "caption": str(i)} for i, n in enumerate([3, 1, 3])])
    with opened(root, "m.jsonl") as loader:
        batch = next(iter(loader))
    assert batch["path"][:3] == ["images/3.jpg", "images/1.jpg", "images/3.jpg"]
    assert batch["caption"][:3] == ["0", "1", "2"]


def test_paths_are_relative_to_the_manifest(root):
    write_csv(root / "images" / "labels.csv", [{"image": "4.jpg", "label": 9}])
    with opened(root, "images/labels.csv") as loader:
        batch = next(iter(loader))
    assert (batch["path"][0], batch["label"][0], batch["class"][0]) == ("images/4.jpg", 9, "images")


def test_a_missing_file_is_named_with_its_line(root, bucket, bucket_environment):
    write_csv(root / "m.csv", [*ROWS, ROWS[0] | {"file_name": "images/none.jpg"}])
    for remote in (root, copied(bucket, root)):
        with pytest.raises(FileNotFoundError, match=r"images/none\.jpg.*line 62.*m\.csv"):
            opened(remote, "m.csv")


def test_a_manifest_that_changed_is_read_again(root):
    write_csv(root / "m.csv", ROWS[:4])
    with opened(root, root / "m.csv") as loader:
        assert len(samples(loader)) == 4
    write_csv(root / "m.csv", ROWS[:8])
    os.utime(root / "m.csv", (1, 1))
    with opened(root, root / "m.csv") as loader:
        assert len(samples(loader)) == 8


def test_a_file_that_is_no_manifest_is_refused(root):
    for name, content, says in [
        ("m.csv", "a,b\n1,2\n", "no column of paths"),
        ("m.csv", "path,file\nimages/0.jpg,1\n", "used twice|rename"),
        ("m.csv", "path,a\nimages/0.jpg\n", "line 2"),
        ("m.jsonl", "[1]\n", "line 1"),
        ("m.txt", "", r"\.jsonl"),
    ]:
        (root / name).write_text(content)
        with pytest.raises(fb.Error, match=says):
            opened(root, name)
    with pytest.raises((fb.Error, FileNotFoundError), match=r"none\.csv"):
        opened(root, "none.csv")
    with pytest.raises(fb.ConfigError, match="folder that they are in"):
        opened(f"{root}/images/*.jpg", "m.csv")


def test_files_of_one_stem_are_a_sample(tmp_path, bucket, bucket_environment):
    root = tmp_path / "pairs"
    for n in range(10):
        folder = root / str(n % 2)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{n:04}.jpg").write_bytes(jpeg(n))
        (folder / f"{n:04}.txt").write_text(f"text {n}")
        Image.fromarray(np.full((4, 5), n, np.uint8)).save(folder / f"{n:04}.seg.png")
    fields = {
        "x": fb.Image("jpg", fb.Resize((8, 8))),
        "mask": fb.Mask("seg.png", fb.Resize((8, 8))),
        "text": fb.Text("txt"),
        "label": fb.Scalar("label"),
        "path": fb.Text("path"),
    }

    def read(remote):
        stream = fb.Stream(remote=remote, files="stem")
        with fb.Loader(streams=[stream], batch_size=5, framework="numpy", fields=fields) as loader:
            return [batch for batch in loader]

    for remote in (str(root), copied(bucket, root), f"{root}/*/*.jpg::{root}/*/*.txt::{root}/**/*.seg.png"):
        batches = read(remote)
        order = [n for half in (0, 1) for n in range(half, 10, 2)]
        assert [text for batch in batches for text in batch["text"]] == [f"text {n}" for n in order]
        assert [int(label) for batch in batches for label in batch["label"]] == [n % 2 for n in order]
        assert [int(mask[0, 0]) for batch in batches for mask in batch["mask"]] == order
        assert batches[0]["path"][0] == "0/0000.jpg"
    (root / "1" / "0003.txt").unlink()
    with pytest.raises(fb.ConfigError, match=r"no \.txt .*0003"):
        read(str(root))


def test_files_in_folders_of_columns_are_a_sample_by_their_stems(tmp_path, bucket, bucket_environment):
    root = tmp_path / "city"
    for n in range(10):
        town = ("ulm", "bonn")[n % 2]
        for folder in (f"photos/train/{town}", f"fine/train/{town}", "labels"):
            (root / folder).mkdir(parents=True, exist_ok=True)
        (root / f"photos/train/{town}/{town}_{n}_photo.jpg").write_bytes(jpeg(n))
        Image.fromarray(np.full((4, 5), n, np.uint8)).save(root / f"fine/train/{town}/{town}_{n}_fine_ids.png")
        Image.fromarray(np.full((4, 5), 77, np.uint8)).save(root / f"fine/train/{town}/{town}_{n}_fine_color.png")
        (root / f"labels/{town}_{n}.txt").write_text(f"text {n}")
    fields = {
        "x": fb.Image("image", fb.Resize((8, 8))),
        "mask": fb.Mask("mask", fb.Resize((8, 8))),
        "text": fb.Text("label"),
        "path": fb.Text("path"),
    }
    columns = {"image": "photos/train/*/*_photo.jpg", "mask": "fine/train/*/*_fine_ids.png"}
    flat = {"image": "photos/train/{ulm,bonn}/*_photo.jpg", "label": "labels"}

    def read(remote, files, fields):
        stream = fb.Stream(remote=remote, files=files)
        with fb.Loader(streams=[stream], batch_size=5, framework="numpy", fields=fields) as loader:
            return [batch for batch in loader]

    order = [*range(1, 10, 2), *range(0, 10, 2)]
    for remote in (str(root), copied(bucket, root)):
        batches = read(remote, columns, {name: fields[name] for name in ("x", "mask", "path")})
        assert [int(mask[0, 0]) for batch in batches for mask in batch["mask"]] == order
        assert batches[0]["path"][0] == "photos/train/bonn/bonn_1_photo.jpg"
        batches = read(remote, flat, {name: fields[name] for name in ("x", "text", "path")})
        assert [text for batch in batches for text in batch["text"]] == [f"text {n}" for n in order]
    (root / "labels/ulm_4.txt").unlink()
    with pytest.raises(fb.ConfigError, match=r"1 of 10 stems have no file in a column: ulm_4 .*ulm_4_photo.jpg"):
        read(str(root), flat, fields)
    for files, message in (({}, "folder or pattern of each column"), ({"x": 1}, "each column"), ("steam", '"each", "stem", or')):
        with pytest.raises(fb.ConfigError, match=message):
            read(str(root), files, fields)


@pytest.mark.parametrize("name", list(WRITERS))
def test_whole_numbers_keep_all_their_digits(name, root):
    seeds = [12345678901234567890, 5, 18446744073709551615]
    mixed = [9007199254740993, 0.5, 1]
    huge = [123456789012345678901234567890, 1, 2]
    rows = [
        {"file_name": f"images/{n}.jpg", "seed": seed, "mixed": mixed[n], "huge": huge[n], "small": -n}
        for n, seed in enumerate(seeds)
    ]
    WRITERS[name](root / name, rows)
    fields = {"seed": fb.Scalar("seed", "uint64"), "mixed": fb.Text("mixed"), "huge": fb.Text("huge"), "small": fb.Scalar("small")}
    with fb.Loader(streams=[fb.Stream(remote=str(root), manifest=name)], batch_size=3, fields=fields, framework="numpy") as loader:
        batch = next(iter(loader))
    assert [int(seed) for seed in batch["seed"]] == seeds
    assert batch["mixed"] == [str(number) for number in mixed] and batch["huge"] == [str(number) for number in huge]
    assert batch["small"].tolist() == [0, -1, -2]


def png(number):
    out = io.BytesIO()
    Image.fromarray(np.full((6, 9), number, np.uint8)).save(out, "png")
    return out.getvalue()


@pytest.fixture
def pairs(root):
    """The pictures with masks, depths and texts in more folders, all named by lines."""
    rows = []
    for number in range(12):
        files = {"mask": f"masks/deep/{number}_m.png", "depth": f"depth/{number}.npy", "note": f"notes/{number}.txt"}
        for path in files.values():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / files["mask"]).write_bytes(png(number))
        np.save(root / files["depth"], np.full(3, number, np.float32))
        (root / files["note"]).write_text(f"note {number}")
        rows.append({"mask_file_name": files["mask"], "file_name": f"images/{number}.jpg", "depth_file_name": files["depth"]}
                    | {"note_file_name": files["note"], "score": number / 2})
    return root, rows


PAIR_FIELDS = {
    "x": fb.Image("file", fb.Resize((4, 4))),
    "mask": fb.Mask("mask"),
    "depth": fb.Array("depth", "float32", shape=(3,)),
    "note": fb.Text("note"),
    "score": fb.Scalar("score"),
    "path": fb.Text("path"),
    "class": fb.Text("class"),
}


@pytest.mark.parametrize("name", list(WRITERS))
def test_columns_of_further_files_are_their_contents(name, pairs, bucket, bucket_environment, tmp_path):
    root, rows = pairs
    WRITERS[name](root / name, rows)
    places = [{"remote": str(root)}, {"remote": str(root), "local": tmp_path / "copy"}]
    places.append({"remote": copied(bucket, root), "local": tmp_path / "fetched"})
    for place in places:
        stream = fb.Stream(manifest=name, **place)
        with fb.Loader(streams=[stream], batch_size=4, fields=PAIR_FIELDS, framework="numpy") as loader:
            batches = list(loader)
            assert loader.classes == ["images"]
        for batch, first in zip(batches, (0, 4, 8), strict=True):
            numbers = list(range(first, first + 4))
            assert batch["path"] == [f"images/{n}.jpg" for n in numbers] and batch["class"] == ["images"] * 4
            assert [mask.flatten().tolist() for mask in batch["mask"]] == [[n] * 54 for n in numbers]
            assert batch["depth"].tolist() == [[n] * 3 for n in numbers]
            assert batch["note"] == [f"note {n}" for n in numbers]
            assert batch["score"].tolist() == [n / 2 for n in numbers]


def test_a_picture_and_its_mask_have_the_same_crop(pairs):
    root, rows = pairs
    write_csv(root / "m.csv", rows)
    Image.fromarray(np.arange(54, dtype=np.uint8).reshape(6, 9)).save(root / "images/0.png")
    (root / rows[0]["mask_file_name"]).write_bytes((root / "images/0.png").read_bytes())
    write_csv(root / "m.csv", [rows[0] | {"file_name": "images/0.png"}])
    crop = fb.RandomCrop(3)
    fields = {"pair": fb.Joint(x=fb.Image("file", crop, mode="L"), y=fb.Mask("mask", crop))}
    with fb.Loader(streams=[fb.Stream(remote=str(root), manifest="m.csv")], batch_size=1, fields=fields, framework="numpy") as loader:
        for batch in itertools.chain(loader, loader):
            assert batch["x"].reshape(3, 3).tolist() == batch["y"].reshape(3, 3).tolist()


def test_a_reader_and_a_conversion_have_further_files(pairs, tmp_path):
    root, rows = pairs
    write_csv(root / "m.csv", [{"left_file_name": row["file_name"], "right_file_name": row["mask_file_name"]} for row in rows])
    index_files(str(root), manifest="m.csv")
    reader = fb.ShardReader(str(root))
    assert sorted(reader[3]) == ["class", "label", "left", "path", "right"]
    assert reader[3]["right"] == png(3) and reader[3]["left"] == jpeg(3)
    convert(str(root), tmp_path / "out", threads=1)
    assert fb.ShardReader(tmp_path / "out")[3]["right"] == png(3)


def test_a_further_file_that_is_absent_is_named_with_its_line_and_column(pairs):
    root, rows = pairs
    for path, words in [("masks/none.png", "does not exist"), ("", "has no path in this column"), ("masks\\deep\\0_m.png", "backslashes")]:
        write_csv(root / "m.csv", [*rows[:2], rows[2] | {"mask_file_name": path}])
        with pytest.raises(FileNotFoundError, match=f"{words}.*line 4.*m.csv.*column mask_file_name.*end in _file_name have paths"):
            opened(root, "m.csv")


def test_a_column_with_the_name_of_a_file_is_refused(pairs):
    root, rows = pairs
    write_csv(root / "m.csv", [row | {"mask": 1} for row in rows])
    with pytest.raises(fb.ConfigError, match="used twice.*mask|mask.*used twice"):
        opened(root, "m.csv")


@pytest.mark.parametrize("separator", [",", "\t"])
def test_cells_in_quotes_are_read_as_the_module_csv_reads_them(tmp_path, separator):
    cells = ['a"b', "a,b", "a\tb", "a\nb", "a\r\nb", '"', '""', " a ", "é", "a", ""]
    folder = tmp_path / "set"
    folder.mkdir()
    (folder / "0.png").write_bytes(b"-")
    path = folder / f"m.{'tsv' if separator == chr(9) else 'csv'}"
    with open(path, "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, delimiter=separator)
        table.writerow(["file_name", "first", "second"])
        table.writerows(["0.png", f"x{first}", second] for first, second in zip(cells, cells[::-1]))
    with open(path, newline="", encoding="utf-8") as file:
        expected = [row[1:] for row in csv.reader(file, delimiter=separator)][1:]
    stream, fields = fb.Stream(remote=folder, manifest=path.name), {name: fb.Text(name) for name in ("first", "second")}
    with fb.Loader(streams=[stream], batch_size=1, framework="numpy", fields=fields) as loader:
        assert [[batch["first"][0], batch["second"][0]] for batch in loader] == expected

"""`forebay doctor`: every planted defect is found and named, and clean data sets have none."""

import io
import json
import shutil

import numpy as np
import pytest
from doctor_sets import (
    CLEAN, PARQUET, arrays, csv, files_of, jsonl, litdata, mask, mds, merge, picture, pictures, rows, saved, tars, tfrecords,
    token_documents, tokens,
)  # fmt: skip
from PIL import Image

import forebay as fb
from forebay.__main__ import main


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Folders of the engine and of LitData."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("LITDATA_CACHE_DIR", str(tmp_path / "litdata"))


@pytest.fixture
def doctor(capfd):
    """Exit code and findings of the command."""

    def run(*arguments, skip="environment"):
        capfd.readouterr()
        code = main(["doctor", "--json", "--skip", skip, *map(str, arguments)])
        found = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
        return code, [record for record in found if "severity" in record]

    return run


def text_of(findings):
    return "\n".join(f"{f['severity']} {f['check']}: {f['message']}: {f['count']} {f['examples'][:3]}" for f in findings)


@pytest.mark.parametrize("name", CLEAN)
def test_a_clean_data_set_has_no_errors_or_warnings(name, doctor, tmp_path):
    code, findings = doctor(CLEAN[name](tmp_path / "set"))
    assert code == 0, text_of(findings)
    assert {finding["severity"] for finding in findings} <= {"note"}


def test_files_without_classes_have_no_constant_labels(doctor, tmp_path):
    code, findings = doctor(pictures(tmp_path / "set", labelled(0)))
    assert code == 0, text_of(findings)


def changed(number, **values):
    """All samples, with `values` in one of them."""
    samples = list(rows())
    samples[number] |= values
    return samples


def without(number, name):
    samples = list(rows())
    del samples[number][name]
    return samples


def copied(number, source):
    samples = list(rows())
    samples[number] = samples[source]
    return samples


def cut(number=21):
    content = list(rows())[number]["image"]
    return changed(number, image=content[: len(content) // 2])


def re_encoded(number=30, source=9):
    image = Image.open(io.BytesIO(list(rows())[source]["image"]))
    return changed(number, image=saved(image.resize((image.width * 2, image.height * 2)), quality=70))


def labelled(label, *numbers):
    samples = list(rows())
    for number in numbers or range(len(samples)):
        samples[number]["label"] = label
    return samples


def sorted_by_label():
    return sorted(rows(), key=lambda sample: sample["label"])


def flipped(path, at=-40):
    content = bytearray(path.read_bytes())
    content[at] ^= 0xFF
    path.write_bytes(content)


def with_flipped_byte(folder):
    mds(folder, list(rows()))
    flipped(folder / "part2.mds")
    return folder


def with_missing_shard(folder):
    mds(folder, list(rows()))
    (folder / "part1.mds").unlink()
    return folder


def with_leftover(folder):
    mds(folder, list(rows()))
    shutil.copy(folder / "part0.mds", folder / "old.mds")
    return folder


def with_missing_column(folder):
    """The last shard has no masks."""
    parts = list(files_of(list(rows())))
    mds(folder / "first", sum(parts[:3], []))
    mds(folder / "last", parts[3], names=("image", "label", "text", "score", "vector", "boxes"))
    shards = []
    for name in ("first", "last"):
        for shard in json.loads((folder / name / "index.json").read_text())["shards"]:
            shard["raw_data"]["basename"] = f"{name}/{shard['raw_data']['basename']}"
            shards.append(shard)
        (folder / name / "index.json").unlink()
    (folder / "index.json").write_text(json.dumps({"shards": shards, "version": 2}))
    return folder


def with_large_shard(folder):
    samples = list(rows(120))
    for number, part in enumerate([*files_of(samples[:32], 8), samples[32:]]):
        mds(folder / f"part{number}", part, limit=len(part))
        (folder / f"part{number}" / "part0.mds").rename(folder / f"part{number}" / "shard.00000.mds")
        index = json.loads((folder / f"part{number}" / "index.json").read_text())
        index["shards"][0]["raw_data"]["basename"] = "shard.00000.mds"
        (folder / f"part{number}" / "index.json").write_text(json.dumps(index))
    merge(folder)
    return folder


def with_line(text):
    """The tenth line of the second file is `text`."""

    def make(folder):
        names = jsonl(folder, list(rows()))
        lines = (folder / "part-1.jsonl").read_text().splitlines()
        lines[9] = text
        (folder / "part-1.jsonl").write_text("\n".join(lines) + "\n")
        return names

    return make


def with_flipped_record(folder):
    names = tfrecords(folder, list(rows()))
    flipped(folder / "train-2.tfrecord")
    return names


def with_file(content, make=pictures, name="007"):
    """A file with a changed content."""

    def changed_file(folder):
        make(folder, list(rows()))
        path = next(path for path in folder.rglob("*") if path.stem == name)
        path.write_bytes(content(path.read_bytes()))
        return folder

    return changed_file


def with_copied_picture(folder):
    pictures(folder, list(rows()))
    classes = sorted(path for path in folder.iterdir() if path.is_dir())
    shutil.copy(next(classes[0].iterdir()), classes[1] / "copy.jpg")
    return folder


def with_gap(folder):
    """Files with numbers in their names, without the second one."""
    jsonl(folder, list(rows()))
    for number in range(4):
        (folder / f"part-{number}.jsonl").rename(folder / f"train-{number:05}-of-00004.jsonl")
    (folder / "train-00001-of-00004.jsonl").unlink()
    return folder


def with_repeated_id(folder):
    samples = [{"id": f"n{number}", **sample} for number, sample in enumerate(rows())]
    samples[40]["id"] = "n3"
    return jsonl(folder, samples, ("id", "text", "score"))


def with_chat(number, message):
    """Conversations, one with a different message."""

    def make(folder):
        samples = list(rows())
        for count, sample in enumerate(samples):
            said = {"role": "assistant", "content": f"It is {count}."}
            sample["messages"] = [{"role": "user", "content": sample["text"]}, message if count == number else said]
        return jsonl(folder, samples, ("messages",))

    return make


def with_objects(folder, **changes):
    """Pictures with annotations of COCO, which differ only for the sixth picture."""
    (folder / "images").mkdir(parents=True)
    found = {"images": [], "annotations": [], "categories": [{"id": 3, "name": "car"}]}
    for number in range(32):
        (folder / f"images/{number}.jpg").write_bytes(saved(picture(number, (60, 80))))
        size = changes.get("width", 60) if number == 5 else 60
        found["images"].append({"id": number, "file_name": f"images/{number}.jpg", "width": size, "height": 80})
        box = changes.get("bbox", [5, 6, 40, 50]) if number == 5 else [5, 6, 40, 50]
        found["annotations"].append({"id": number, "image_id": number, "category_id": 3, "bbox": box, "area": 9, "iscrowd": 0})
        found["annotations"][-1]["segmentation"] = [[5, 6, 45, 6, 45, 56]]
    (folder / "instances.json").write_text(json.dumps(found))
    return folder, "--manifest", "instances.json"


def far_mask(number):
    values = np.array(mask(number))
    values[:2] = 200
    return saved(Image.fromarray(values), "PNG")


def turned(content):
    exif = Image.Exif()
    exif[0x0112] = 6
    return saved(Image.open(io.BytesIO(content)), exif=exif)


def documents(number, document):
    found = token_documents()
    found[number] = document
    return found


VECTOR = np.arange(8, dtype=np.float32)
BOXES = np.array([[5, 6, 50, 60], [30, 30, 900, 60]], np.float32)
EMPTY_BOX = np.array([[5, 6, 50, 60], [40, 40, 40, 60]], np.float32)

PLANTED = {
    # MDS
    "a picture is cut": (lambda f: mds(f, cut()), "damage", "part1.mds, sample in shard 5"),
    "a picture is no picture": (
        lambda f: mds(f, changed(3, image=b"<html>Not found</html>")), "damage",
        "part0.mds, sample in shard 3",
    ),
    "a text is not UTF-8": (lambda f: mds_of_bytes(f), "damage", "sample in shard 5"),
    "a byte of a shard is flipped": (with_flipped_byte, "files", "part2.mds"),
    "a shard is missing": (with_missing_shard, "files", "part1.mds"),
    "a shard is in no index": (with_leftover, "files", "old.mds"),
    "a sample is a copy": (
        lambda f: mds(f, copied(40, 11)), "duplicates",
        "part2.mds, sample in shard 8 = part0.mds, sample in shard 11",
    ),
    "a picture has two labels": (
        lambda f: mds(f, changed(40, image=list(rows())[11]["image"])), "duplicates", "part2.mds, sample in shard 8 = part0.mds",
    ),
    "a picture is a resized copy": (
        lambda f: mds(f, re_encoded()), "near-duplicates",
        "part1.mds, sample in shard 14 = part0.mds, sample in shard 9",
    ),
    "a label is negative": (lambda f: mds(f, labelled(-1, 17)), "labels", "part1.mds, sample in shard 1"),
    "a class has one sample": (lambda f: mds(f, labelled(9, 50)), "labels", "part3.mds, sample in shard 2"),
    "a class is missing": (lambda f: mds(f, [s | {"label": s["label"] + (s["label"] == 2)} for s in rows()]), "labels", "label"),
    "labels are constant": (lambda f: mds(f, labelled(2)), "labels", "column `label`"),
    "labels are sorted": (lambda f: mds(f, sorted_by_label()), "order", "column `label`"),
    "a number is NaN": (lambda f: mds(f, changed(33, score=float("nan"))), "numbers", "part2.mds, sample in shard 1"),
    "an element is infinite": (
        lambda f: mds(f, changed(34, vector=np.append(VECTOR[:7], np.float32("inf")))), "numbers",
        "part2.mds, sample in shard 2",
    ),
    "a vector is short": (lambda f: mds(f, changed(12, vector=VECTOR[:7])), "shapes", "part0.mds, sample in shard 12"),
    "a vector has a different type": (
        lambda f: mds(f, changed(13, vector=VECTOR.astype(np.float64))), "shapes",
        "part0.mds, sample in shard 13",
    ),
    "a box is outside of the picture": (lambda f: mds(f, changed(60, boxes=BOXES)), "boxes", "part3.mds, sample in shard 12"),
    "a box is empty": (lambda f: mds(f, changed(61, boxes=EMPTY_BOX)), "boxes", "part3.mds, sample in shard 13"),
    "a mask is zero": (
        lambda f: mds(f, changed(19, mask=saved(Image.new("L", (48, 48)), "PNG"))), "pictures",
        "part1.mds, sample in shard 3",
    ),
    "a picture has one colour": (
        lambda f: mds(f, changed(22, image=saved(Image.new("RGB", (70, 70), (9, 90, 200))))), "pictures",
        "part1.mds, sample in shard 6",
    ),
    "a column is missing": (with_missing_column, "columns", "last/part0.mds"),
    "a shard is large": (with_large_shard, "order", "part4.mds"),
    # JSON lines and CSV
    "a line is no JSON": (with_line('{"text": "a", "label": 1, "score"'), "damage", "part-1.jsonl, line 10"),
    "a text is blank": (lambda f: jsonl(f, changed(25, text=" \t ")), "empty", "part-1.jsonl, line 10"),
    "a value is missing": (lambda f: jsonl(f, without(25, "text")), "empty", "part-1.jsonl, line 10"),
    "a cell is no number": (lambda f: csv(f, changed(25, score="high")), "damage", "part-1.csv, line 11"),
    "a cell is empty": (lambda f: csv(f, changed(25, text="")), "empty", "part-1.csv, line 11"),
    "a cell is infinite": (lambda f: csv(f, changed(25, score="inf")), "numbers", "part-1.csv, line 11"),
    # tars
    "a picture in a tar is cut": (lambda f: tars(f, cut()), "damage", "key 0021"),
    "a caption in a tar is missing": (lambda f: tars(f, without(35, "text")), "empty", "key 0035"),
    "a picture in a tar has a pixel": (lambda f: tars(f, changed(36, image=saved(picture(1, (1, 1))))), "sizes", "key 0036"),
    "a picture in a tar is CMYK": (
        lambda f: tars(f, changed(37, image=saved(picture(37).convert("CMYK")))), "pictures",
        "key 0037",
    ),
    "a picture in a tar is progressive": (
        lambda f: tars(f, changed(38, image=saved(picture(38), progressive=True))), "pictures",
        "key 0038",
    ),
    # TFRecord
    "a byte of a record is flipped": (with_flipped_record, "damage", "train-2.tfrecord"),
    "a record is a copy": (lambda f: tfrecords(f, copied(44, 3)), "duplicates", "train-2.tfrecord"),
    # LitData
    "a vector in a chunk is NaN": (
        lambda f: litdata(f, changed(20, vector=np.float32("nan") * VECTOR)), "numbers",
        "chunk-0-1.bin",
    ),
    "an item of a chunk is a copy": (lambda f: litdata(f, copied(50, 2)), "duplicates", "chunk-0-3.bin"),
    # Folders of files
    "a file of a picture is empty": (with_file(lambda _: b""), "empty", "007.jpg"),
    "a file of a picture is cut": (with_file(lambda content: content[:700]), "damage", "007.jpg"),
    "a file of a picture is turned": (with_file(turned), "pictures", "007.jpg"),
    "a file of an array is cut": (with_file(lambda content: content[:-5], arrays), "damage", "007.npy"),
    "an array is zero": (lambda f: arrays(f, changed(7, vector=VECTOR * 0)), "numbers", "007.npy"),
    "an array has a different shape": (lambda f: arrays(f, changed(7, vector=VECTOR.reshape(2, 4))), "shapes", "007.npy"),
    "a file of a picture is a copy": (with_copied_picture, "duplicates", "copy.jpg"),
    "a box of COCO is outside of the picture": (lambda f: with_objects(f, bbox=[30, 30, 900, 20]), "boxes", "images/5.jpg"),
    "a picture was resized after its annotation": (lambda f: with_objects(f, width=30), "boxes", "images/5.jpg"),
    # Conversations, keys, names
    "a message is blank": (with_chat(20, {"role": "assistant", "content": " "}), "empty", "part-1.jsonl, line 5"),
    "a role has a typing error": (with_chat(20, {"role": "asistant", "content": "a"}), "damage", "part-1.jsonl, line 5"),
    "a key is repeated": (with_repeated_id, "duplicates", "part-2.jsonl, line 9"),
    "a file of a list is missing": (with_gap, "files", "train-00001-of-00004.jsonl"),
    "a class has two spellings": (
        lambda f: jsonl(f, [s | {"label": f"Cat{' ' * (n in (7, 8, 9))}" if n % 2 else "dog"} for n, s in enumerate(rows())]),
        "labels", "part-0.jsonl, line 8",
    ),
    "a number is a mark": (
        lambda f: jsonl(f, [s | {"score": -999.0 if n == 70 else s["score"]} for n, s in enumerate(rows(128))]), "numbers",
        "part-4.jsonl, line 7",
    ),
    "a mask has three channels": (
        lambda f: mds(f, changed(19, mask=saved(mask(19).convert("RGB"), "PNG"))), "pictures",
        "part1.mds, sample in shard 3",
    ),
    "a mask has a far value": (lambda f: mds(f, changed(19, mask=far_mask(19))), "pictures", "part1.mds, sample in shard 3"),
    # Megatron
    "a document is empty": (lambda f: tokens(f, documents(7, [])), "empty", "7"),
    "a document is a copy": (lambda f: tokens(f, documents(9, token_documents()[4])), "duplicates", "9"),
    # Parquet and Arrow
    "a row of Parquet is a copy": (lambda f: PARQUET / "planted.parquet", "duplicates", "row in group 13"),
    "a row of Parquet is NaN": (lambda f: PARQUET / "planted.parquet", "numbers", "row in group 5"),
    "a label of Parquet is negative": (lambda f: PARQUET / "planted.parquet", "labels", "row in group 7"),
    "a picture of Parquet is cut": (lambda f: PARQUET / "planted.parquet", "damage", "row in group 3"),
    "a row of Arrow is null": (lambda f: PARQUET / "planted.arrow", "empty", "row in group 6"),
    "a text of Arrow is empty": (lambda f: PARQUET / "planted.arrow", "empty", "row in group 2"),
}  # fmt: skip

NOTES = {"a picture in a tar is CMYK", "a picture in a tar is progressive", "a file of a picture is turned"}
"""Properties that are no defects."""


def mds_of_bytes(folder):
    """Texts, and one that is not UTF-8."""
    with fb.MDSWriter(out=str(folder), columns={"text": "str"}) as writer:
        for number in range(16):
            writer.write({"text": f"text {number} of the sixteen" if number != 5 else b"\xff\xfe broken text"})
    return folder


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_defect_is_found_and_named(name, doctor, tmp_path):
    make, check, where = PLANTED[name]
    made = make(tmp_path / "set")
    code, findings = doctor(*(made if isinstance(made, tuple) else (made,)))
    examples = [f"{e['name']}: {e['detail']}" for finding in findings if finding["check"] == check for e in finding["examples"]]
    assert any(where in example for example in examples), text_of(findings)
    assert code == (0 if name in NOTES else 1), text_of(findings)


def test_a_sample_of_two_splits_is_a_leak_and_a_class_of_one_is_named(doctor, tmp_path):
    first, second = list(rows(64)), list(rows(64, 100))
    second[10] = first[5]
    first[20]["label"] = first[21]["label"] = first[22]["label"] = 4
    train, val = mds(tmp_path / "train", first), mds(tmp_path / "val", second)
    code, findings = doctor(train, val)
    found = {finding["check"]: finding for finding in findings if finding["severity"] == "warning"}
    assert code == 1 and found.keys() == {"leaks", "splits"}, text_of(findings)
    assert found["leaks"]["examples"][0]["name"] == (
        f"{val}: part0.mds, sample in shard 10 = {train}: part0.mds, sample in shard 5"
    )
    assert found["splits"]["examples"][0]["detail"] == "class 4"


def test_labels_and_ids_beyond_what_the_model_has_are_errors(doctor, tmp_path):
    code, findings = doctor("--classes", 3, mds(tmp_path / "set", list(rows())))
    assert code == 1 and "not below 3" in text_of(findings), text_of(findings)
    documents = tokens(tmp_path / "tokens")
    assert doctor(documents)[0] == doctor("--vocab", 1 << 16, documents)[0] == 0
    code, findings = doctor("--vocab", 2, documents)
    assert code == 1 and "not in the vocabulary" in text_of(findings), text_of(findings)


def test_tokens_without_their_index_name_the_missing_file(tmp_path, capfd):
    documents = tokens(tmp_path / "tokens")
    next((tmp_path / "tokens").glob("*.idx")).unlink()
    assert main(["doctor", "--skip", "environment", str(documents).removesuffix(".bin")]) == 2
    assert "the .idx file is missing" in capfd.readouterr().err


def test_checks_can_be_chosen_and_parts_be_read(doctor, tmp_path):
    folder = mds(tmp_path / "set", labelled(-1, 17))
    assert [f["check"] for f in doctor("--checks", "labels", folder)[1]] == ["labels", "labels"]
    assert doctor(folder, skip="labels,splits,environment")[0] == 0
    assert doctor("--checks", "label", folder)[0] == 2
    assert doctor("--samples", 16, folder)[0] == 0
    assert doctor("--fraction", 0.25, folder)[0] == 0


def test_a_source_that_does_not_exist_is_an_error(doctor, tmp_path):
    code, findings = doctor(tmp_path / "absent")
    assert (code, findings) == (2, [])


def test_the_page_names_the_first_samples_and_counts_the_rest(capfd, tmp_path):
    folder = mds(tmp_path / "set", labelled(-1, 17, 18, 19, 20, 33))
    assert main(["doctor", "--skip", "environment", "--checks", "labels", str(folder)]) == 1
    page = capfd.readouterr().out
    assert "warning labels: labels in column `label` are negative (5)\n  part1.mds, sample in shard 1: -1\n" in page
    assert "  and 2 more\n" in page and page.endswith("0 errors, 1 warning, 0 notes\n")


def test_the_number_of_threads_does_not_change_the_findings(doctor, tmp_path):
    folder = mds(tmp_path / "set", copied(40, 11))
    assert doctor("--threads", 1, folder) == doctor("--threads", 5, folder)

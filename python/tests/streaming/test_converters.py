"""The converters, each on a small sample of its source's format."""

import csv
import gzip
import http.server
import importlib
import io
import json
import pickle

import numpy as np
import pytest
from PIL import Image
from range_server import serving

from forebay.streaming.base.compression import decompress
from forebay.streaming.base.local import LocalDataset


def converter(name):
    return importlib.import_module(f"forebay.streaming.{name}")


def convert(name, *arguments):
    module = converter(name)
    module.main(module.parse_args([str(argument) for argument in arguments]))


def samples(folder):
    """All files of a folder, with compressed shards unpacked."""
    for packed in folder.glob("*.zstd"):
        packed.with_suffix("").write_bytes(decompress("zstd", packed.read_bytes()))
    return LocalDataset(str(folder))[:]


def picture(path, seed, form="JPEG", size=(8, 6)):
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (*size[::-1], 3), np.uint8)
    Image.fromarray(pixels).convert("L" if form == "PNG" else "RGB").save(path, form)
    return path.read_bytes()


def test_imagenet_is_converted_from_folders_of_classes(tmp_path):
    files = {}
    for split in ("train", "val"):
        for label, name in enumerate(["n01", "n02", "n10"]):
            for i in range(2):
                files[picture(tmp_path / "in" / split / name / f"{name}_{i}.JPEG", len(files))] = label
    assert len(files) == 12
    convert("vision.convert.imagenet", "--in_root", tmp_path / "in", "--out_root", tmp_path / "out", "--progress_bar", 0)
    with open(tmp_path / "out" / "train" / "index.json") as index:
        assert list(json.load(index)["shards"][0]["raw_data"]["hashes"]) == ["sha1", "xxh64"]
    for split in ("train", "val"):
        found = LocalDataset(str(tmp_path / "out" / split))
        assert sorted(sample["i"] for sample in found[:]) == list(range(6))
        for sample in found[:]:
            assert files[sample["x"].fp.getvalue()] == sample["y"]


def test_imagenet_rejects_unknown_files_and_classes(tmp_path):
    module = converter("vision.convert.imagenet")
    with pytest.raises(AssertionError, match=r"a.png is none of jpeg"):
        module.check_extensions(["x/a.png"], {"jpeg"})
    with pytest.raises(AssertionError, match="different classes"):
        module.get_classes(["train/a/1.jpeg"], ["a", "b"])


def test_cifar10_is_converted_from_its_batches(tmp_path, monkeypatch):
    from torchvision.datasets import CIFAR10

    folder = tmp_path / "in" / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    pixels = np.random.default_rng(0).integers(0, 256, (7, 3 * 32 * 32), np.uint8)
    batch = {"data": pixels, "labels": list(range(7))}
    (folder / "batch").write_bytes(pickle.dumps(batch))
    (folder / "meta").write_bytes(pickle.dumps({"label_names": [str(i) for i in range(10)]}))
    monkeypatch.setattr(CIFAR10, "train_list", [["batch", None]])
    monkeypatch.setattr(CIFAR10, "test_list", [["batch", None]])
    monkeypatch.setattr(CIFAR10, "meta", {"filename": "meta", "key": "label_names", "md5": None})
    convert("vision.convert.cifar10", "--in_root", tmp_path / "in", "--out_root", tmp_path / "out", "--progress_bar", 0)
    for split in ("train", "val"):
        found = LocalDataset(str(tmp_path / "out" / split))
        for sample in found[:]:
            expected = pixels[sample["y"]].reshape(3, 32, 32).transpose(1, 2, 0)
            assert (np.asarray(sample["x"]) == expected).all() and sample["i"] == sample["y"]
        assert len(found) == 7


def test_fake_cifar10_has_noise_in_the_shape_of_cifar10(tmp_path):
    convert("vision.convert.fake_cifar10", "--out", tmp_path, "--num_train", 5, "--num_val", 2)
    found = LocalDataset(str(tmp_path), "train")
    assert len(found) == 5 and found[0]["x"].size == (32, 32)
    assert len(LocalDataset(str(tmp_path), "val")) == 2


def test_ade20k_is_converted_from_its_folders(tmp_path):
    files = {}
    for split, folder in (("train", "training"), ("val", "validation")):
        for i in (1, 2, 3020):
            x = picture(tmp_path / "images" / folder / f"ADE_{split}_{i:08}.jpg", i)
            y = picture(tmp_path / "annotations" / folder / f"ADE_{split}_{i:08}.png", i, "PNG")
            files[split, b"%08d" % i] = x, y
    arguments = ("--in_root", tmp_path, "--out_root", tmp_path / "out", "--progress_bar", 0)
    with pytest.raises(ValueError, match="Expected 20206, but got 2"):
        convert("vision.convert.ade20k", *arguments)
    convert("vision.convert.ade20k", *arguments, "--whole", 0)
    # The third picture to train with cannot be read in the release.
    for split, count in (("train", 2), ("val", 3)):
        found = LocalDataset(str(tmp_path / "out" / split))[:]
        assert len(found) == count
        for sample in found:
            assert (sample["x"].fp.getvalue(), sample["y"].fp.getvalue()) == files[split, sample["uid"]]


def test_coco_is_converted_from_pictures_and_annotations(tmp_path):
    categories = [{"id": 18, "name": "dog"}, {"id": 3, "name": "car"}]
    for split in ("train", "val"):
        images, annotations = [], []
        for i in range(4):
            picture(tmp_path / f"{split}2017" / f"{i}.jpg", i)
            images.append({"id": 100 + i, "file_name": f"{i}.jpg", "height": 6, "width": 8})
        annotations.append({"image_id": 101, "bbox": [2, 3, 4, 1.5], "category_id": 3})
        annotations.append({"image_id": 101, "bbox": [0, 0, 8, 6], "category_id": 18})
        annotations.append({"image_id": 103, "bbox": [1, 1, 1, 1], "category_id": 18})
        (tmp_path / "annotations").mkdir(exist_ok=True)
        release = {"categories": categories, "images": images, "annotations": annotations}
        (tmp_path / "annotations" / f"instances_{split}2017.json").write_text(json.dumps(release))
    arguments = ("--in_root", tmp_path, "--out_root", tmp_path / "out", "--progress_bar", 0, "--whole", 0)
    convert("vision.convert.coco", *arguments)
    first, second = LocalDataset(str(tmp_path / "out"), "val")[:]
    assert (first["img_id"], first["htot"], first["wtot"]) == (101, 6, 8)
    assert first["bbox_sizes"].tolist() == [[0.25, 0.5, 0.75, 0.75], [0, 0, 1, 1]]
    assert first["bbox_labels"].tolist() == [2, 1] and first["bbox_labels"].dtype == np.int64
    assert second["img_id"] == 103, "pictures without a box are left out"


def test_c4_is_converted_from_its_files(tmp_path):
    lines = [{"text": f"text {i}", "timestamp": "2019-04-25T12:57:54Z", "url": f"http://{i}"} for i in range(9)]
    for split, part in (("train", lines[:6]), ("validation", lines[6:])):
        for number in range(3):
            with gzip.open(tmp_path / f"c4-{split}.{number:05}-of-00003.json.gz", "wt") as file:
                file.writelines(json.dumps(line) + "\n" for line in part[number::3])
    convert("text.convert.c4", "--in_root", tmp_path, "--out_root", tmp_path / "out", "--progress_bar", 0)
    key = str
    assert sorted(samples(tmp_path / "out" / "train"), key=key) == sorted(lines[:6], key=key)
    assert sorted(samples(tmp_path / "out" / "val"), key=key) == sorted(lines[6:], key=key)
    with pytest.raises(FileNotFoundError, match="c4-train"):
        convert("text.convert.c4", "--in_root", tmp_path / "out", "--out_root", tmp_path / "again", "--progress_bar", 0)


def test_the_pile_is_converted_from_its_files(tmp_path, capsys):
    def write(name, texts):
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        documents = ({"text": text, "meta": {"pile_set_name": text[0]}} for text in texts)
        path.write_text("".join(json.dumps(document) + "\n" for document in documents))

    write("train/00.jsonl", ["a0", "b0", "a1"])
    write("train/01.jsonl", ["c0"])
    write("val.jsonl", ["v0"])
    write("test.jsonl", ["t0", "t1"])
    arguments = ("--in_root", tmp_path / "in", "--out_root", tmp_path / "out", "--compression", "zstd:1")
    convert("text.convert.pile", *arguments, "--size_limit", 300)
    train = samples(tmp_path / "out" / "train")
    assert [(sample["text"], sample["pile_set_name"]) for sample in train] == [
        ("a0", "a"),
        ("b0", "b"),
        ("a1", "a"),
        ("c0", "c"),
    ]
    assert not [path for path in (tmp_path / "out" / "train").iterdir() if path.is_dir()]
    assert [sample["text"] for sample in samples(tmp_path / "out" / "test")] == ["t0", "t1"]
    assert json.loads(capsys.readouterr().out.splitlines()[0])["counts"] == {"a": 2, "b": 1}
    (tmp_path / "in" / "val.jsonl").write_text('{"text": "x"}\n')
    with pytest.raises(ValueError, match=r"line 1 of .*val.jsonl"):
        list(converter("text.convert.pile").each_sample(str(tmp_path / "in" / "val.jsonl")))


def test_wikipedia_s_text_is_converted_from_its_parts(tmp_path):
    for part in range(2):
        (tmp_path / f"part-{part:05}-of-00002").write_text(f"first of {part}\n\n  second of {part}  \n")
    (tmp_path / "eval.txt").write_text("to evaluate\n")
    convert("text.convert.enwiki_text", "--in_root", tmp_path, "--out_root", tmp_path / "out", "--progress_bar", 0)
    texts = [sample["text"] for sample in samples(tmp_path / "out" / "train")]
    assert texts == ["first of 0", "second of 0", "first of 1", "second of 1"]
    assert samples(tmp_path / "out" / "val") == [{"text": "to evaluate"}]


WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(40))]


@pytest.fixture
def wikipedia(tmp_path):
    """Four files of three documents each, a sentence a line, and a vocabulary."""
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS))
    rng = np.random.default_rng(0)
    for part in range(4):
        documents = []
        for _ in range(3):
            lines = [" ".join(f"W{i}" for i in rng.integers(0, 40, rng.integers(2, 9))) for _ in range(6)]
            documents.append("\n".join(lines))
        (tmp_path / f"part-{part:05}-of-00500").write_text("\n\n".join(documents))
    return tmp_path


def test_wikipedia_s_documents_are_converted_to_samples_for_bert(tmp_path, wikipedia):
    common = ["--vocab_file", wikipedia / "vocab.txt", "--max_seq_length", 24, "--dupe_factor", 2]
    groups = ("--in_root", wikipedia, "--in_num_shards", 4, "--out_root", tmp_path / "groups")
    convert("text.convert.enwiki.mds.make_train_parallel", *groups, *common, "--compression", "zstd:1")
    folders = len(list((tmp_path / "groups").iterdir()))
    assert folders >= 1
    merge = ("--in_root", tmp_path / "groups", "--out_root", tmp_path / "train")
    convert("text.convert.enwiki.mds.merge_shard_groups", *merge)
    pick = ("--in_root", tmp_path / "train", "--out_root", tmp_path / "eval", "--num_examples_to_pick", 5)
    convert("text.convert.enwiki.mds.pick_eval_samples", *pick)
    train, picked = samples(tmp_path / "train"), samples(tmp_path / "eval")
    assert len(picked) == 5 and all(sample in train for sample in picked)
    both_kinds = set()
    for sample in train:
        fields = {name: np.frombuffer(value, np.int32) for name, value in sample.items() if "weights" not in name}
        ids, mask = fields["input_ids"], fields["input_mask"]
        length = mask.sum()
        assert len(ids) == 24 and ids[0] == 2 and ids[length - 1] == 3 and not ids[length:].any()
        assert (ids[:length] == 3).sum() == 2, "each of the two texts ends with a mark"
        assert fields["segment_ids"].max() == 1
        weights = np.frombuffer(sample["masked_lm_weights"], np.float32)
        positions = fields["masked_lm_positions"][weights > 0]
        assert 1 <= len(positions) <= 4 and not set(ids[positions]) & {0, 2, 3}
        assert (fields["masked_lm_ids"][weights > 0] >= 5).all(), "the original token is a word"
        both_kinds.add(int(fields["next_sentence_labels"][0]))
    assert both_kinds == {0, 1}


def test_masking_depends_only_on_the_seed():
    from random import Random

    masking = converter("text.convert.enwiki.mds._masking")
    settings = masking.Settings(32, 5, 0.15, 0.1, 3)
    documents = [[[f"w{d}.{s}.{t}" for t in range(5)] for s in range(7)] for d in range(4)]
    one, two, other = (masking.make_instances(documents, WORDS, settings, Random(seed)) for seed in (1, 1, 2))
    assert one == two != other
    for instance in one:
        restored = list(instance.tokens)
        for position, token in zip(instance.masked_positions, instance.masked_tokens):
            restored[position] = token
        first = restored[1 : restored.index("[SEP]")]
        second = restored[restored.index("[SEP]") + 1 : -1]
        assert len(restored) == len(instance.segment_ids) <= 32 and first and second
        sources = {token.split(".")[0] for token in second}
        assert len({token.split(".")[0] for token in first}) == len(sources) == 1
        if not instance.is_random_next:
            assert {token.split(".")[0] for token in first} == sources
    assert {instance.is_random_next for instance in one} == {True, False}


class Videos(http.server.BaseHTTPRequestHandler):
    """A server that has every video but the third."""

    def do_GET(self):
        self.send_response(404 if self.path == "/2" else 200)
        self.end_headers()
        self.wfile.write(f"video {self.path}".encode())

    def log_message(self, *args):
        pass


@pytest.fixture
def webvid(tmp_path):
    """WebVid's list of six videos on a server, one of them gone."""
    with serving(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Videos)) as server:
        columns = ["videoid", "contentUrl", "duration", "page_dir", "name", "page_idx"]
        names = ["A cat sleeps", "A dog", "Gone cat", "Cat and dog", "Train", "Caterpillar"]
        text = io.StringIO()
        rows = csv.writer(text)
        rows.writerow(columns)
        for i, name in enumerate(names):
            url = f"http://127.0.0.1:{server.server_address[1]}/{i}"
            rows.writerow([i, url, "PT00H01M2%dS" % i, "dir", name, "7"])
        (tmp_path / "list.csv").write_text(text.getvalue())
        yield tmp_path / "list.csv"


def test_webvid_is_converted_with_videos_in_shards_and_in_files(tmp_path, webvid):
    crawl = ("--in", webvid, "--out_root", tmp_path / "inside", "--num_procs", 2)
    convert("multimodal.convert.webvid.crawl_webvid", *crawl)
    inside = LocalDataset(str(tmp_path / "inside"))[:]
    assert [sample["videoid"] for sample in inside] == ["0", "1", "3", "4", "5"], "a video that is gone is left out"
    assert inside[1]["content"] == b"video /1" and inside[1]["duration"] == 81
    outside = ("--in", tmp_path / "inside", "--out_mds", tmp_path / "mds", "--out_mp4", tmp_path / "mp4")
    convert("multimodal.convert.webvid.extract_webvid_videos", *outside)
    for sample in samples(tmp_path / "mds"):
        assert "content" not in sample
        assert (tmp_path / "mp4" / sample["content_path"]).read_text() == f"video /{sample['videoid']}"


def test_webvid_is_split_by_words_in_captions(tmp_path, webvid):
    arguments = ("--csv", webvid, "--mds_root", tmp_path / "words", "--filters", "cat,dog", "--num_procs", 2)
    convert("multimodal.convert.webvid.crawl_webvid_subsets", *arguments)
    ids = {word: [s["videoid"] for s in LocalDataset(str(tmp_path / "words" / word))[:]] for word in ("cat", "dog")}
    assert ids == {"cat": ["0", "3"], "dog": ["1", "3"]}


def test_laion_is_converted_as_parquet_files_arrive(tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    parquet = pytest.importorskip("pyarrow.parquet")
    module = converter("multimodal.convert.laion.laion400m.convert_and_upload")
    local, remote = tmp_path / "local", tmp_path / "remote"
    local.mkdir()

    def arrive(number):
        rows = [
            {
                **dict.fromkeys(["NSFW", "LICENSE", "caption", "url", "key", "status", "error_message", "exif"], "text"),
                **dict.fromkeys(["width", "height", "original_width", "original_height"], 10 * number + i),
                "similarity": 0.5,
                "jpg": b"jpeg %d" % i,
            }
            for i in range(3)
        ]
        rows[2].update(jpg=None, width=None, exif=None)
        parquet.write_table(pyarrow.Table.from_pylist(rows), local / f"{number:05}.parquet")
        (local / f"{number:05}_stats.json").write_text("{}")

    arguments = module.parse_args(["--local", str(local), "--remote", str(remote), "--keep_parquet", "0"])
    arrive(0)
    assert not module.convert_and_upload_shards(arguments)
    assert not (local / "00000.parquet").exists()
    arrive(1)
    (local / "done").write_text("")
    module.main(arguments)
    found = LocalDataset(str(remote))[:]
    assert [sample["height"] for sample in found] == [0, 1, 2, 10, 11, 12]
    assert found[5]["jpg"] == b"" and found[5]["width"] == 0 and found[5]["exif"] == ""

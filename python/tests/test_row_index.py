"""Row indexes after the samples of shards: readers without them do not see them, the loader uses them."""

import filecmp
import io
import os
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

import forebay as fb
import forebay.index
from forebay.streaming import MDSWriter as StreamingWriter
from picture_set import SAMPLES, jpeg, write_pictures

COLUMNS = {"image": "jpeg", "class": "int", "note": "str"}


def progressive(number):
    out = io.BytesIO()
    exif = Image.Exif()
    exif[0x010E] = f"picture {number}"
    Image.open(io.BytesIO(jpeg(number))).save(
        out, "JPEG", quality=90, progressive=True, exif=exif, icc_profile=b"a colour profile"
    )
    return out.getvalue()


def write(folder, writer=fb.MDSWriter, samples=60, **kwargs):
    with writer(out=str(folder), columns=COLUMNS, size_limit=1 << 15, hashes=["xxh64"], **kwargs) as out:
        for i in range(samples):
            image = progressive(i) if i % 5 == 4 else jpeg(i)
            out.write({"image": image, "class": i, "note": "x" * i})
    return str(folder)


def pixels(file):
    return np.asarray(Image.open(io.BytesIO(file)).convert("RGB"))


def batches(folder, **kwargs):
    fields = {"x": fb.Image("image", fb.RandomResizedCrop(32), fb.RandomHorizontalFlip()), "y": fb.Scalar("number")}
    loader = fb.Loader(local=folder, batch_size=16, shuffle=True, fields=fields, framework="numpy", **kwargs)
    rows = [(batch["x"].copy(), batch["y"].copy()) for batch in loader]
    return rows, loader.stats()


@pytest.mark.parametrize("compression", [None, "zstd"])
def test_the_reference_reads_indexed_shards_as_it_reads_plain_ones(mosaicml, tmp_path, compression):
    plain = write(tmp_path / "plain", compression=compression)
    indexed = write(tmp_path / "indexed", compression=compression, jpeg_row_index=True)
    raw = [sum(shard["files"][0]["raw_bytes"] for shard in fb.read_index(folder)) for folder in (plain, indexed)]
    assert raw[0] < raw[1] < 1.02 * raw[0], "small pictures: the index takes more than 0.3 %"
    if compression is None:
        read = [mosaicml.LocalDataset(folder) for folder in (plain, indexed)]
    else:
        read = [
            mosaicml.StreamingDataset(
                remote=folder, local=str(tmp_path / f"cache{i}"), validate_hash="xxh64", batch_size=1
            )
            for i, folder in enumerate((plain, indexed))
        ]
    assert len(read[1]) == 60
    for i in range(60):
        ours, theirs = read[1][i], read[0][i]
        assert ours["class"] == theirs["class"] and ours["note"] == theirs["note"]
        assert (np.asarray(ours["image"]) == np.asarray(theirs["image"])).all()


def test_both_writers_and_the_copy_produce_the_same_bytes(tmp_path):
    plain = write(tmp_path / "plain")
    indexed = write(tmp_path / "indexed", jpeg_row_index=True)
    streamed = write(tmp_path / "streamed", StreamingWriter, jpeg_row_index=True)
    report = forebay.index.index(plain, tmp_path / "copied")
    names = sorted(os.listdir(indexed))
    assert len(names) > 2
    for other in (streamed, str(tmp_path / "copied")):
        assert sorted(os.listdir(other)) == names
        assert filecmp.cmpfiles(indexed, other, names, shallow=False) == (names, [], [])
    assert (report.shards, report.jpegs, report.indexed, report.transcoded) == (len(names) - 1, 60, 48, 0)
    sizes = [sum(os.path.getsize(os.path.join(f, n)) for n in names[1:]) for f in (plain, indexed)]
    assert sizes[1] - sizes[0] == report.index_bytes


@pytest.mark.parametrize("writer", [fb.MDSWriter, StreamingWriter])
def test_progressive_files_become_baseline_without_loss(tmp_path, writer):
    folder = write(tmp_path / "set", writer, jpeg_transcode=True)
    for i, sample in enumerate(fb.ShardReader(folder)):
        if i % 5 != 4:
            assert sample["image"] == jpeg(i)
            continue
        picture = Image.open(io.BytesIO(sample["image"]))
        assert not picture.info.get("progressive") and sample["image"] != progressive(i)
        assert picture.getexif()[0x010E] == f"picture {i}" and picture.info["icc_profile"] == b"a colour profile"
        assert (pixels(sample["image"]) == pixels(progressive(i))).all()


def test_the_loader_delivers_the_same_batches_and_counts_them(tmp_path, pictures):
    forebay.index.index(pictures, tmp_path / "indexed")
    (want, _), (got, stats) = batches(pictures), batches(str(tmp_path / "indexed"))
    assert len(want) == len(got) > 1
    for (x, y), (x_indexed, y_indexed) in zip(want, got):
        assert (x == x_indexed).all() and (y == y_indexed).all()
    counters = stats["counters"]
    assert counters["shard_indexes_read"] > 1 and counters["shard_indexes_refused"] == 0
    assert counters["row_indexes_used"] in (0, SAMPLES) and counters["row_indexes_refused"] == 0


def test_the_command_copies_and_reports(tmp_path):
    plain = write(tmp_path / "plain")
    command = [sys.executable, "-m", "forebay", "index", "--transcode", plain, str(tmp_path / "copy")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "60 of 60 JPEGs have a row index (12 were progressive and are baseline now)" in done.stdout
    assert done.stderr == ""
    assert len(fb.ShardReader(str(tmp_path / "copy"))) == 60
    again = subprocess.run(command, capture_output=True, text=True)
    assert again.returncode == 2 and "error: " in again.stderr and "Directory is not empty" in again.stderr


def test_a_damaged_shard_leaves_no_data_set(tmp_path):
    plain = write_pictures(tmp_path / "plain", samples=30)
    path = os.path.join(plain, "shard.00000.mds")
    with open(path, "r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"?")
    with pytest.raises(fb.ChecksumError, match="damaged.*shard.00000.mds"):
        forebay.index.index(plain, tmp_path / "copy")
    assert not os.path.exists(tmp_path / "copy" / "index.json")

"""Tars of many tools: their samples are those that WebDataset and tarfile read, byte for byte."""

import io
import os
import tarfile

import numpy as np
import pytest
import webdataset
from PIL import Image
from tar_sets import (
    END,
    MADE,
    changed,
    common_fields,
    extension,
    header,
    loader_samples,
    member,
    padded,
    read_tarfile,
    records,
    tar,
    webdataset_samples,
    with_sum,
)

import forebay as fb

NAMES = sorted(path.name.removesuffix(".gz") for path in MADE.glob("*.tar.gz"))

FORMATS = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}


def check(path, count=None):
    """Compares a tar with WebDataset; returns its samples."""
    expected = webdataset_samples(path)
    assert count is None or len(expected) == count
    names = common_fields(expected)
    assert names, "there is something to compare"
    assert loader_samples(str(path), names) == [(key, {name: fields[name] for name in names}) for key, fields in expected]
    return expected


def check_bytes(tmp_path, data, count=None):
    path = tmp_path / "made.tar"
    path.write_bytes(data)
    return check(path, count)


@pytest.mark.parametrize("name", NAMES)
def test_the_tar_of_a_tool_has_the_samples_that_webdataset_reads(zoo, name):
    samples = check(zoo / name)
    sizes = [len(fields["bin" if "sparse" in name else "seg.bin"]) for _, fields in samples]
    if "sparse" in name:
        assert sizes == [20480, 10000, 9000, 40000, 700]
    elif "long" in name:
        assert sizes == [5] * 7
    else:
        # A tool without hard links stores the second name of a file as a further sample.
        assert sorted(sizes) in ([0, 1, 511, 512, 513], [0, 1, 1, 511, 512, 513])


def test_the_zoo_has_tars_of_nine_tools_and_all_sparse_forms():
    assert {name.split("-")[0].removesuffix(".tar") for name in NAMES} == {
        "7zz", "bsdtar", "busybox", "cpio", "git", "gnu", "node", "pax", "perl",
    }  # fmt: skip
    assert {f"gnu-sparse-{version}.tar" for version in ("old", "0.0", "0.1", "1.0")} < set(NAMES)


@pytest.mark.parametrize("name", ["gnu-pax.tar", "gnu-sparse-1.0.tar", "gnu-long-gnu.tar"])
def test_a_compressed_tar_has_the_samples_of_the_tar(zoo, name):
    packed = MADE / f"{name}.gz"
    names = common_fields(webdataset_samples(packed))
    assert loader_samples(str(packed), names) == loader_samples(str(zoo / name), names)


@pytest.mark.parametrize("file_format", FORMATS)
def test_a_tar_of_python_has_the_samples_that_webdataset_reads(tmp_path, file_format):
    names = ["plain", "with space", "ünïcode/日本", f"{'d' * 100}/{'n' * 92}", "./dot/name", "/somewhere/name", "a.b/c.d/e"]
    if file_format != "ustar":
        names += ["long/" * 60 + "name", "ü" * 120, f"{'x' * 250}/{'y' * 250}", "equals=sign"]
    path = tmp_path / "made.tar"
    with tarfile.open(path, "w", format=FORMATS[file_format]) as archive:
        for number, name in enumerate(names):
            # A time with a fraction is a pax record in front of the file.
            for field, data in {"cls": b"%d" % number, "seg.PNG": bytes([number]) * (number * 300)}.items():
                info = tarfile.TarInfo(f"{name}.{field}")
                info.size, info.mtime, info.uname = len(data), 1.5 if file_format == "pax" else 1, "ü"
                archive.addfile(info, io.BytesIO(data))
            archive.addfile(tarfile.TarInfo("no.field/none"))
    assert [key for key, _ in check(path, len(names))] == names


def test_the_tars_of_webdataset_s_writers_have_their_samples(tmp_path):
    pattern = str(tmp_path / "train-%03d.tar")
    with webdataset.ShardWriter(pattern, maxcount=4, verbose=0) as writer:
        for number in range(10):
            writer.write({"__key__": f"{number:03}", "cls": number, "txt": f"text {number}", "npy": np.arange(number)})
    paths = [pattern % shard for shard in range(3)]
    assert [len(check(path)) for path in paths] == [4, 4, 2]
    everything = [sample for path in paths for sample in webdataset_samples(path)]
    fields = ["cls", "npy", "txt"]
    assert loader_samples(str(tmp_path / "train-{000..002}.tar"), fields, batch_size=3) == everything
    with webdataset.TarWriter(str(tmp_path / "packed.tar.gz"), encoder=False) as writer:
        for key, sample in everything:
            writer.write({"__key__": key, **sample})
    assert loader_samples(str(tmp_path / "packed.tar.gz"), fields) == everything


def test_samples_end_where_the_key_changes_and_files_between_them_are_skipped(tmp_path):
    data = (
        member("dir/", kind=tarfile.DIRTYPE)
        + member("dir/a.x", b"1")
        + member("README", b"no field")
        + member("dir/a.y", b"2", kind=tarfile.AREGTYPE)
        + member("dir/b.x", b"3")
        + member("dir/._b.x", b"of macOS")
        + member("dir/.DS_Store", b"of macOS")
        + member("__meta__/b.x", b"about the set")
        + member("__meta.x__", b"about the set")
        + member("dir/b.z", kind=tarfile.FIFOTYPE)
        + member("dir/b.link", kind=tarfile.SYMTYPE, linkname="a.x")
        + member("dir/b.hard", kind=tarfile.LNKTYPE, linkname="dir/a.x")
        + member("dir/b.y", b"4", kind=tarfile.CONTTYPE)
        + member("a.x", b"another")
        + member("a.Y", b"key")
        + member("dir/a.y", b"again")
        + member("dir/a.x", b"in another order")
        + member("__c.x", b"the names of files about the set end with two lines")
        + member("__c.y")
    )
    samples = check_bytes(tmp_path, data + END, 5)
    assert [key for key, _ in samples] == ["dir/a", "dir/b", "a", "dir/a", "__c"]


@pytest.mark.parametrize("zeros", [1, 2, 20, 300])
def test_any_number_of_empty_blocks_ends_a_tar(tmp_path, zeros):
    check_bytes(tmp_path, tar([("a", {"x": b"1"}), ("b", {"x": b"2"})]) + bytes(512 * zeros), 2)


def test_pax_records_replace_the_name_and_the_size_of_the_header(tmp_path):
    long = "p" * 300
    data = b"".join(
        [
            extension(b"g", records(comment="of a whole archive", mtime="5")),
            extension(b"x", records(path=f"{long}.x", comment="a=b\nc")),
            member("short.x", b"named by a record"),
            extension(b"x", records(size="700", path="sized.x")),
            header("sized.x", 0),
            padded(b"s" * 700),
            extension(b"X", records(path="solaris.x")),
            member("short.x", b"as Solaris writes it"),
            extension(b"x", records(hdrcharset="BINARY", path="binär.x")),
            member("short.x", b"bytes"),
            extension(b"L", f"{long}/gnu.x\0".encode()),
            extension(b"K", b"a link's name\0"),
            member("short.x", b"of GNU"),
        ]
    )
    samples = check_bytes(tmp_path, data + END, 5)
    assert [(key[-7:], len(fields["x"])) for key, fields in samples][1] == ("sized", 700)


def test_numbers_in_headers_have_the_forms_of_old_programs(tmp_path):
    data = b"n" * 600
    plain = header("a.x", len(data))
    forms = [b"00000001130\0", b"      1130 \0", b"0001130 \0\0\0\0", b"\x80" + (600).to_bytes(11, "big"), b"1130\0       "]
    body = b"".join(changed(header(f"{i}.x"), 124, form) + padded(data) for i, form in enumerate(forms))
    # Names without a zero, and checksums of signed bytes.
    body += member("f" * 98 + ".x", data) + with_sum(header("ü.x", len(data)), "signed") + padded(data)
    assert plain[124:136] == b"00000001130\0"
    check_bytes(tmp_path, body + END, len(forms) + 2)


def test_the_members_that_only_describe_an_archive_are_skipped(tmp_path):
    data = (
        member("label", kind=b"V")
        + member("a.x", b"1")
        + member("dir/", b"Ya.x\0\0", kind=b"D")
        + member("b.x", b"2")
        + member("unknown", b"u" * 600, kind=b"Z")
        + member("b.y", b"3")
        + member("a.y", b"4")
        + member("a.x", b"5")
    )
    path = tmp_path / "made.tar"
    path.write_bytes(data + END)
    known = [("a", {"x": b"1"}), ("b", {"x": b"2"}), ("a", {"x": b"5"})]
    assert loader_samples(str(path), ["x"]) == known == [(key, {"x": fields["x"]}) for key, fields in webdataset_samples(path)]


def test_a_path_object_names_a_tar(tmp_path):
    path = tmp_path / "one.tar"
    path.write_bytes(member("only.x", os.fspath(tmp_path).encode()) + END)
    assert loader_samples(path, ["x"]) == [("only", {"x": os.fspath(tmp_path).encode()})]
    assert read_tarfile(path.read_bytes()) == [("only.x", os.fspath(tmp_path).encode())]


def encoded(pixels, form):
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, form, **({"lossless": True} if form == "webp" else {}))
    return out.getvalue()


def test_the_fields_of_a_sample_are_decoded_by_their_endings(tmp_path):
    rng = np.random.default_rng(1)
    pictures = [rng.integers(0, 256, (8, 8, 3), dtype=np.uint8) for _ in range(6)]
    array = encoded(pictures[0], "png")
    forms = ["png", "jpeg", "webp", "png", "webp", "jpeg"]
    endings = {"png": "PNG", "jpeg": "jpg", "webp": "webp"}
    classes = [b"0", b" 17\n", b"-3", b"9223372036854775807", b"\t5 ", b"00012"]
    samples = [
        (
            f"s/{i}",
            {endings[form]: encoded(pictures[i], form), "cls": classes[i], "txt": f"tëxt {i}\n".encode(), "npy": array[i:],
             "json": b'{"n": %d}' % i, "left.index": b"%d" % i, "left.txt": b"l"},
        )
        for i, form in enumerate(forms)
    ]  # fmt: skip
    (tmp_path / "set.tar").write_bytes(tar(samples) + END)
    fields = {
        "x": fb.Image("jpg;png;webp", layout="NHWC"),
        "y": fb.Scalar("cls"),
        "t": fb.Text("txt"),
        "k": fb.Text("__key__"),
        "b": fb.Bytes("npy"),
        "j": fb.Text("json"),
        "i": fb.Scalar("left.index"),
        "l": fb.Text("left.txt"),
    }
    with fb.Loader(remote=tmp_path / "set.tar", batch_size=6, fields=fields, framework="numpy") as loader:
        (batch,) = loader
    for got, pixels, form in zip(batch["x"], pictures, forms, strict=True):
        assert form == "jpeg" or np.array_equal(got, pixels)
    assert batch["y"].tolist() == [int(text) for text in classes]
    assert batch["i"].tolist() == list(range(6))
    assert batch["t"] == [f"tëxt {i}\n" for i in range(6)]
    assert batch["k"] == [f"s/{i}" for i in range(6)]
    assert [bytes(data) for data in batch["b"]] == [array[i:] for i in range(6)]
    assert [text.replace(" ", "") for text in batch["j"]] == [f'{{"n":{i}}}' for i in range(6)]
    assert batch["l"] == ["l"] * 6


def test_a_field_that_a_sample_lacks_is_an_error_only_if_it_is_asked_for(tmp_path):
    samples = [("a", {"x": b"1", "y": b"2"}), ("key of b", {"x": b"3"}), ("c", {"x": b"4", "y": b"5"})]
    path = tmp_path / "some.tar"
    path.write_bytes(tar(samples) + END)
    assert [key for key, _ in loader_samples(path, ["x"])] == ["a", "key of b", "c"]
    with pytest.raises(fb.FormatError) as caught:
        loader_samples(path, ["x", "y"])
    assert "key of b" in str(caught.value) and "y" in caught.value.context.values()
    with pytest.raises(fb.Error) as caught:
        loader_samples(path, ["none"])
    assert isinstance(caught.value, (fb.ConfigError, fb.FormatError)) and "none" in str(caught.value)

"""Damaged and hostile tars: a typed error that names the file and an offset in it, never fewer samples."""

import gzip
import itertools
import os
import subprocess
import sys
import tarfile

import pytest
from tar_sets import (
    BLOCK,
    END,
    changed,
    extension,
    header,
    loader_samples,
    member,
    number_samples,
    padded,
    records,
    tar,
    write_mds_set,
)

import forebay as fb

SAMPLES = [("a", {"x": b"1" * 700, "y": b"2"}), ("b", {"x": b"3", "y": b""}), ("c", {"x": b"", "y": b"5" * 512})]

WHOLE = tar(SAMPLES)


_folders = itertools.count()


def read(path, data, names=("x",), **more):
    """Reads the tar `data` in a new folder, since the index of a tar is kept."""
    folder = path.parent / f"case {next(_folders)}"
    folder.mkdir()
    (folder / path.name).write_bytes(data)
    return loader_samples(str(folder / path.name), list(names), **more)


def rejected(path, data, kinds=fb.FormatError, names=("x",)):
    """The error for the tar `data`, which names the file and an offset in it."""
    with pytest.raises(kinds) as caught:
        read(path, data, names)
    error, facts = caught.value, caught.value.context
    assert path.name in str(error), "names the file"
    assert {"offset", "key", "byte"} & facts.keys(), (str(error), facts)
    return error


@pytest.fixture
def path(tmp_path):
    return tmp_path / "hostile.tar"


def test_the_whole_tar_is_read(path):
    assert read(path, WHOLE + END, ["x", "y"]) == SAMPLES


@pytest.mark.parametrize("blocks", range(1, len(WHOLE) // BLOCK))
def test_a_tar_that_is_cut_off_at_a_block_is_an_error(path, blocks):
    rejected(path, WHOLE[: blocks * BLOCK])


def test_a_tar_without_its_end_is_an_error(path):
    """Nothing shows that no further sample was in it."""
    rejected(path, WHOLE)


@pytest.mark.parametrize("cut", [1, 100, 511, 513, 1000, 1023, 1025, 2049, len(WHOLE) - 1])
def test_a_tar_that_is_cut_off_within_a_block_is_an_error(path, cut):
    rejected(path, WHOLE[:cut])


def test_a_cut_in_the_end_loses_nothing(path):
    for left in (BLOCK, BLOCK + 1, 2 * BLOCK - 1):
        assert read(path, WHOLE + END[:left], ["x", "y"]) == SAMPLES
    rejected(path, WHOLE + END[:100])


@pytest.mark.parametrize("at", [0, 2, 99, 100, 107, 124, 130, 147, 150, 156, 200, 257, 300, 345, 499, 511])
def test_a_flipped_bit_in_a_header_is_an_error(path, at):
    second = 3 * BLOCK
    for start in (0, second):
        for bit in (0, 5, 7):
            data = bytearray(WHOLE + END)
            data[start + at] ^= 1 << bit
            rejected(path, bytes(data))


def sized(form):
    """A tar with the bytes `form` as the size of its second sample."""
    return tar(SAMPLES[:1]) + changed(header("b.x", 3), 124, form) + padded(b"abc") + tar(SAMPLES[2:]) + END


BIG = {
    "beyond the file": b"00000777777\0",
    "8 GiB": b"77777777777\0",
    "2**62": b"\x80" + (1 << 62).to_bytes(11, "big"),
    "2**63": b"\x80" + (1 << 63).to_bytes(11, "big"),
    "2**64 - 1": b"\x80" + ((1 << 64) - 1).to_bytes(11, "big"),
    "2**64": b"\x80" + (1 << 64).to_bytes(11, "big"),
    "2**64 + 3": b"\x80" + ((1 << 64) + 3).to_bytes(11, "big"),
    "2**87": b"\x80" + (1 << 87).to_bytes(11, "big"),
    "-1": b"\xff" * 12,
    "-512": b"\xff" * 10 + b"\xfe\x00",
    "-2**64 + 3": b"\xff\xff\xff\xff" + bytes(7) + b"\x03",
    "no number": b"3z\0\0\0\0\0\0\0\0\0\0",
    "decimal 9": b"00000000009\0",
    "minus 3": b"-0000000003\0",
}


@pytest.mark.parametrize("form", BIG)
def test_a_size_that_is_wrong_is_an_error(path, form):
    rejected(path, sized(BIG[form]))


def pax(data):
    return tar(SAMPLES[:1]) + extension(b"x", data) + tar(SAMPLES[1:]) + END


BAD_RECORDS = {
    "longer than all": b"99 path=q.x\n",
    "shorter than it is": b"5 path=q.x\n",
    "zero": b"0 path=q.x\n",
    "negative": b"-12 path=q.x\n",
    "huge": b"99999999999999999999999999 path=q.x\n",
    "no length": b"path=q.x\n",
    "no equals sign": b"10 pathqx\n",
    "no line end": b"11 path=q.x",
    "a size of words": records(size="many"),
    "a size beyond all numbers": records(size="99999999999999999999999999"),
    "a negative size": records(size="-1"),
    "a size beyond the file": records(size="4096000"),
    "a map without a number": records(GNU__sparse__size="10", GNU__sparse__map="0,x"),
    "a map of an odd length": records(GNU__sparse__size="10", GNU__sparse__map="0,1,2"),
    "a map that is not sorted": records(GNU__sparse__size="1000", GNU__sparse__map="500,1,0,1"),
    "a map that overlaps": records(GNU__sparse__size="1000", GNU__sparse__map="0,10,5,10"),
    "a map beyond the file": records(GNU__sparse__size="10", GNU__sparse__map="8,16"),
    "a map of huge numbers": records(GNU__sparse__size="10", GNU__sparse__map="18446744073709551615,18446744073709551615"),
    "more pieces than content": records(GNU__sparse__size="100000", GNU__sparse__map="0,90000"),
    "a map of 1.0 without content": records(
        GNU__sparse__major="1", GNU__sparse__minor="0", GNU__sparse__realsize="10", GNU__sparse__name="q.x"
    ),
}


@pytest.mark.parametrize("name", BAD_RECORDS)
def test_pax_records_that_are_wrong_are_an_error(path, name):
    rejected(path, pax(BAD_RECORDS[name]))


def test_a_record_for_all_further_files_changes_none_silently(path):
    for kind in (records(path="all.x"), records(size="1")):
        rejected(path, tar(SAMPLES[:1]) + extension(b"g", kind) + tar(SAMPLES[1:]) + END)


@pytest.mark.parametrize("kind", [b"L", b"K", b"x", b"g"])
def test_a_description_without_its_file_is_an_error(path, kind):
    data = extension(kind, b"name\0" if kind in b"LK" else records(path="q.x"))
    if kind != b"g":
        rejected(path, WHOLE + data + END)
        rejected(path, WHOLE + data)
    rejected(path, WHOLE + data[:BLOCK])


def test_an_old_sparse_map_that_is_wrong_is_an_error(path):
    def sparse(pieces, size, stored=b"s" * 512, more=b"\0"):
        block = changed(header("s.x", len(stored), tarfile.GNUTYPE_SPARSE, tarfile.GNU_FORMAT), 386, pieces.ljust(96, b"\0") + more)
        return changed(block, 483, b"%011o\0" % size) + padded(stored)

    def piece(offset, size):
        return b"%011o\0%011o\0" % (offset, size)

    good = sparse(piece(512, 512), 1536)
    assert read(path, tar(SAMPLES) + good + END)[3] == ("s", {"x": bytes(512) + b"s" * 512 + bytes(512)})
    for bad in (
        sparse(piece(512, 512), 600),
        sparse(piece(512, 512) + piece(0, 512), 1536, b"s" * 1024),
        sparse(piece(0, 513), 1536),
        sparse(b"z" * 24, 1536),
        sparse(piece(0, 512), 8**11 - 1),
        sparse(piece(0, 512), 1536, more=b"\1")[:BLOCK],
    ):
        rejected(path, tar(SAMPLES) + bad + END)
        rejected(path, bad)


def test_two_files_of_one_field_are_an_error_that_names_both(path):
    for twice in ("twin.x", "twin.X"):
        error = rejected(path, WHOLE + member("twin.x", b"1") + member("twin.y") + member(twice, b"2") + END)
        assert error.context["key"] == "twin" and "x" in error.context.values()


def test_names_out_of_the_folder_are_ordinary_keys(path, tmp_path):
    """Nothing is written under the name of a member."""
    before = sorted(os.listdir(tmp_path.parent))
    names = ["../a", "/etc/passwd", "a/../../b", "d\\c", "a//b", "%2e%2e/d", "../../" * 20 + "e"]
    data = tar([(name, {"x": name.encode()}) for name in names]) + END
    assert read(path, data) == [(name, {"x": name.encode()}) for name in names]
    packed = tmp_path / "packed.tar.gz"
    packed.write_bytes(gzip.compress(data))
    local = tmp_path / "local"
    assert loader_samples(str(packed), ["x"], local=local) == [(name, {"x": name.encode()}) for name in names]
    assert sorted(os.listdir(tmp_path.parent)) == before
    assert not any(name.endswith(".x") for _, _, files in os.walk(local) for name in files)


def test_a_name_ends_at_a_zero_byte_unless_a_pax_record_has_it(path):
    data = tar([("a", {"x": b"1"})])
    cut = changed(header("b.x", 1), 3, b"\0.y") + padded(b"2")
    long = extension(b"L", b"c.x\0c.y\0") + member("short.x", b"3")
    assert read(path, data + cut + long + END) == [("a", {"x": b"1"}), ("b", {"x": b"2"}), ("c", {"x": b"3"})]
    # Python's tarfile ends the name there; a key with the byte, or an error, is as good.
    try:
        found = read(path, data + extension(b"x", records(path=b"d\0e.x")) + member("short.x", b"4") + END)
    except fb.FormatError as error:
        assert path.name in str(error)
    else:
        assert len(found) == 2 and found[1][0] in ("d\0e", "d")


def test_a_key_that_is_no_text_is_an_error_only_if_it_is_asked_for(path):
    data = WHOLE + changed(header("n.x", 1), 0, b"\xff.x") + padded(b"9") + END
    path.write_bytes(data)
    with fb.Loader(remote=path, batch_size=4, fields={"x": fb.Bytes("x")}) as loader:
        assert [bytes(x) for batch in loader for x in batch["x"]] == [fields["x"] for _, fields in SAMPLES] + [b"9"]
    with pytest.raises(fb.Error) as caught:
        loader_samples(str(path), ["x"])
    assert isinstance(caught.value, (fb.FormatError, fb.DecodeError)) and path.name in str(caught.value)


@pytest.mark.parametrize("data", [END, bytes(10240), member("d/", kind=tarfile.DIRTYPE) * 3 + END, member("README", b"1") + END])
def test_a_set_without_samples_is_an_error(path, data):
    with pytest.raises(fb.ConfigError, match="no samples"):
        read(path, data)


@pytest.mark.parametrize("blocks", range(1, 24))
def test_data_after_the_end_are_an_error(path, blocks):
    """Tars that were joined, with as many empty blocks as tar writes. tarfile reads the first alone."""
    for more in (WHOLE + END, b"garbage", b"\0" * 100 + b"g" * 1000):
        rejected(path, tar(SAMPLES[:1]) + bytes(BLOCK * blocks) + more)


def test_garbage_instead_of_a_header_is_an_error(path):
    for garbage in (b"g", b"g" * 511, b"g" * 512, b"g" * 5000, b"\0" * 511 + b"g"):
        rejected(path, WHOLE + garbage)
        rejected(path, WHOLE + garbage + END)
        rejected(path, garbage + WHOLE + END)


def test_a_file_that_is_no_tar_is_an_error(path, tmp_path):
    folder = write_mds_set(tmp_path / "mds", (20,))
    with open(f"{folder}/shard.00000.mds", "rb") as file:
        shard = file.read()
    page = b"<!DOCTYPE html><html><head><title>403 Forbidden</title></head><body>" + b"<p>no</p>" * 200 + b"</body></html>"
    packed = gzip.compress(WHOLE + END)
    for data in (shard, page, page[:80], b'{"error": "no such bucket"}', b"PK\3\4" + bytes(range(256)) * 8, packed, b"\xff" * 4096):
        error = rejected(path, data)
        assert "tar" in str(error)


def test_an_empty_file_is_an_error(path):
    with pytest.raises((fb.FormatError, fb.ConfigError)) as caught:
        read(path, b"")
    assert path.name in str(caught.value)


def test_a_damaged_tar_among_good_ones_is_named(tmp_path):
    for number in range(3):
        body = tar(number_samples(10 * number, 10)) + END
        (tmp_path / f"t-{number}.tar").write_bytes(body[: 13 * BLOCK + 7] if number == 1 else body)
    with pytest.raises(fb.FormatError, match="t-1.tar"):
        loader_samples(f"{tmp_path}/t-{{0..2}}.tar", ["cls"])
    with pytest.raises(fb.NotFoundError, match="t-3.tar"):
        loader_samples(f"{tmp_path}/t-{{2..3}}.tar", ["cls"])


@pytest.mark.parametrize("ending", ["gz", "zst"])
def test_a_compressed_tar_that_is_damaged_is_an_error(tmp_path, ending):
    zstd = pytest.importorskip("zstd")
    compress = {"gz": gzip.compress, "zst": zstd.ZSTD_compress}[ending]
    path = tmp_path / f"hostile.tar.{ending}"
    packed = compress(WHOLE + END)
    for data in (packed[:-1], packed[: len(packed) // 2], packed[:5], b"", b"no stream", WHOLE + END, compress(WHOLE[: 5 * BLOCK])):
        path.write_bytes(data)
        with pytest.raises((fb.FormatError, fb.ChecksumError)) as caught:
            loader_samples(str(path), ["x"])
        assert path.name in str(caught.value)


@pytest.mark.parametrize("after", ["another size", "another sample of the same size"])
def test_a_tar_that_changes_after_it_was_indexed_is_read_again_or_is_an_error(path, after):
    """Never with the offsets of the old one."""
    path.write_bytes(WHOLE + END)
    assert loader_samples(str(path), ["x"]) == [(key, {"x": fields["x"]}) for key, fields in SAMPLES]
    if after == "another size":
        others = [("z", {"x": b"other"}), *SAMPLES]
    else:
        others = [("a", {"x": b"", "y": b"2"}), ("z", {"x": b"6" * 900, "y": b"7"}), ("c", {"x": b"", "y": b"5"})]
        assert len(tar(others)) == len(WHOLE)
    path.write_bytes(tar(others) + END)
    try:
        found = loader_samples(str(path), ["x"])
    except fb.Error as error:
        assert path.name in str(error)
    else:
        assert found == [(key, {"x": fields["x"]}) for key, fields in others]


LIMITED = """
import resource, sys
from tar_sets import loader_samples
import forebay as fb

good, *damaged = sys.argv[1:]
loader_samples(good, ["x"])
with open("/proc/self/statm") as file:
    bytes_max = int(file.read().split()[0]) * resource.getpagesize() + (640 << 20)
resource.setrlimit(resource.RLIMIT_AS, (bytes_max, bytes_max))
loader_samples(good, ["x"])
for path in damaged:
    try:
        loader_samples(path, ["x"])
    except fb.FormatError as error:
        print(sorted(error.context))
"""


def declared(kind, size):
    return changed(header("long", 0, kind), 124, b"\x80" + size.to_bytes(11, "big"))


HUGE = {
    "a long name of 1 GB": declared(b"L", 1 << 30),
    "a link's name of 1 GB": declared(b"K", 1 << 30),
    "pax records of 1 GB": declared(b"x", 1 << 30),
    "global records of 1 GB": declared(b"g", 1 << 30),
    "a long name of 2**63": declared(b"L", 1 << 63),
    "a sparse file of 8 GB": extension(b"x", records(GNU__sparse__size=str(8 << 30), GNU__sparse__map="0,1")) + member("s.x", b"1"),
    "long names without end": extension(b"L", b"n.x\0") * 20_000,
    "records without end": extension(b"x", records(path="n.x")) * 20_000,
    "many pieces": extension(b"x", records(GNU__sparse__size="9", GNU__sparse__map=",".join(["0,0"] * 200_000))) + member("s.x", b"1"),
}


def test_memory_that_a_header_declares_is_not_allocated(tmp_path):
    good = tmp_path / "good.tar"
    good.write_bytes(WHOLE + END)
    for number, name in enumerate(HUGE):
        (tmp_path / f"{number}.tar").write_bytes(WHOLE + HUGE[name] + END)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path])}
    paths = [good, *(tmp_path / f"{number}.tar" for number in range(len(HUGE)))]
    ended = subprocess.run([sys.executable, "-c", LIMITED, *paths], env=env, capture_output=True, text=True, timeout=600)
    assert ended.returncode == 0, ended.stderr
    lines = ended.stdout.splitlines()
    assert len(lines) == len(HUGE) and all("offset" in line for line in lines), ended.stdout

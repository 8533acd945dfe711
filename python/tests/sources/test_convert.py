"""`forebay convert`: the samples of any source as MDS."""

import io
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tarfile

import megatron_files
import pytest
from tf_examples import example, record

import forebay as fb
from forebay.__main__ import main
from forebay.to_mds import convert
from forebay.verify import verify

PARQUET = pathlib.Path(__file__).parents[3] / "tests/data/parquet"


def stored(remote, columns, **options):
    """All samples in their order, as the stored bytes of their columns."""
    fields = {name: fb.Bytes(name) for name in columns}
    with fb.Loader(remote=remote, batch_size=8, fields=fields, framework="numpy", **options) as loader:
        return [row for batch in loader for row in zip(*(map(bytes, batch[name]) for name in columns), strict=True)]


def tokens(remote, **options):
    with fb.Loader(remote=remote, batch_size=8, framework="numpy", **options) as loader:
        return [ids.tolist() for batch in loader for ids in batch["tokens"]]


@pytest.fixture
def numbers(tmp_path):
    """MDS of 1,000 samples in compressed shards of some hundred."""
    columns = {"n": "int", "blob": "bytes", "array": "ndarray:int16", "fixed": "ndarray:uint8:3"}
    with fb.MDSWriter(out=tmp_path / "numbers", columns=columns, compression="zstd", size_limit="8kb") as writer:
        for n in range(1000):
            array = [n % 5] * (1 + n % 9)
            blob = bytes([n % 251]) * (n % 50)
            writer.write({"n": n, "blob": blob, "array": as_array(array, "int16"), "fixed": as_array([n % 7] * 3, "uint8")})
    return tmp_path / "numbers"


def as_array(values, dtype):
    import numpy

    return numpy.array(values, dtype)


COLUMNS = ["n", "blob", "array", "fixed"]


@pytest.mark.parametrize("threads", [1, 3])
def test_mds_has_the_same_samples_in_different_shards(numbers, tmp_path, threads):
    out = tmp_path / "out"
    report = convert(numbers, out, size_limit="2kb", compression="gz", hashes=["sha1", "xxh64"], threads=threads)
    assert report.samples == 1000 and report.kept == 0 and report.parts > 3
    assert stored(out, COLUMNS) == stored(numbers, COLUMNS)
    assert verify(out).is_intact
    index = json.loads((out / "index.json").read_text())
    assert {(shard["compression"], tuple(shard["hashes"])) for shard in index["shards"]} == {("gz", ("sha1", "xxh64"))}


def test_columns_are_chosen(numbers, tmp_path):
    convert(numbers, tmp_path / "out", columns=["n", "fixed"], threads=1)
    assert stored(tmp_path / "out", ["n", "fixed"]) == stored(numbers, ["n", "fixed"])
    with pytest.raises(fb.ConfigError, match="no column 'x', but array, blob, fixed, n"):
        convert(numbers, tmp_path / "second", columns=["x"])


def test_tars_have_their_fields_and_keys(tmp_path):
    for shard in range(3):
        with tarfile.open(tmp_path / f"{shard}.tar", "w") as tar:
            for n in range(40):
                for field, content in [("cls", b"%d" % (n % 10)), ("bin", bytes([n]) * n), ("txt", b"text %d" % n)]:
                    info = tarfile.TarInfo(f"{shard}/{n:04}.{field}")
                    info.size = len(content)
                    tar.addfile(info, io.BytesIO(content))
    source, columns = f"{tmp_path}/{{0..2}}.tar", ["__key__", "cls", "bin", "txt"]
    convert(source, tmp_path / "out", threads=1)
    expected = stored(source, columns)
    assert len(expected) == 120 and stored(tmp_path / "out", columns) == expected
    fields = {"y": fb.Scalar("cls"), "key": fb.Text("__key__")}
    pairs = []
    for remote in (source, tmp_path / "out"):
        with fb.Loader(remote=remote, batch_size=120, fields=fields, framework="numpy") as loader:
            (batch,) = loader
        pairs.append((batch["y"].tolist(), batch["key"]))
    assert pairs[0] == pairs[1]


def write_tar(path, samples):
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for key, fields in samples:
            for field, content in fields.items():
                info = tarfile.TarInfo(f"{key}.{field}")
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))


def uneven(start, count, of_tar):
    """Samples, some without fields, and one field that only one tar has. Some values are empty."""
    for n in range(start, start + count):
        fields = {"cls": b"%d" % n, "txt": b"t" * (n % 3), "bin": bytes([n]) * (n % 4), "json": b'{"a": %d}' % n}
        fields = {field: content for place, (field, content) in enumerate(fields.items()) if (n + place) % 5}
        yield f"{n:04}", fields | {of_tar: b"only"}


def fields_of(remote):
    """The fields of each sample, as its stored bytes."""
    found = []
    for sample in fb.ShardReader(remote):
        sample = {name: value.encode() if isinstance(value, str) else value for name, value in sample.items()}
        sample.pop("__fields__", None)
        found.append(sample)
    return found


def test_tars_of_samples_with_different_fields_keep_each_field_and_its_absence(tmp_path):
    shards = [list(uneven(40 * number, 40, of_tar)) for number, of_tar in enumerate(("one", "two", "one"))]
    for number, samples in enumerate(shards):
        write_tar(tmp_path / f"in/{number}.tar", samples)
    source, out = f"{tmp_path}/in/{{0..2}}.tar", tmp_path / "out"
    report = convert(source, out, size_limit="1kb", threads=1)
    assert report.samples == 120 and verify(out).is_intact
    found = fields_of(out)
    assert found == fields_of(source)
    expected = [{"__key__": key.encode(), **fields} for samples in shards for key, fields in samples]
    as_stored = [{name: json.dumps(value).encode() if name == "json" else b"%d" % value if name == "cls" else value
                  for name, value in sample.items()} for sample in found]
    assert as_stored == expected
    # The defaults of fields replace values that a sample lacks, and nothing else.
    fields = {
        "y": fb.Scalar("cls", default=-1),
        "t": fb.Text("txt", default="none"),
        "b": fb.Bytes("bin", default=b"none"),
        "a": fb.Json("json", "a", "int64", default=-1),
        "one": fb.Bytes("one", default=b""),
    }
    rows = []
    for remote in (source, out):
        with fb.Loader(
            remote=remote, batch_size=8, fields=fields, framework="numpy", shuffle=True, order=fb.Order(num_canonical_nodes=1)
        ) as loader:
            rows.append(sorted(repr([batch[name][i] for name in fields]) for batch in loader for i in range(8)))
    assert rows[0] == rows[1]
    with pytest.raises(fb.DecodeError, match="does not have the value: give the field a `default`.*column cls"):
        stored(out, ["cls"])
    # A conversion of the result has the same samples again.
    convert(out, tmp_path / "again", threads=1)
    assert fields_of(tmp_path / "again") == found


def test_chosen_columns_keep_their_absence(tmp_path):
    write_tar(tmp_path / "0.tar", uneven(0, 40, "x"))
    source = f"{tmp_path}/{{0..0}}.tar"
    assert main(["convert", source, str(tmp_path / "out"), "--columns", "txt,x"]) == 0
    assert fields_of(tmp_path / "out") == [{n: v for n, v in sample.items() if n in ("txt", "x")} for sample in fields_of(source)]
    convert(source, tmp_path / "always", columns=["x"])
    assert stored(tmp_path / "always", ["x"]) == [(b"only",)] * 40
    assert "__fields__" not in fb.read_index(tmp_path / "always")[0]["columns"]


def test_a_field_that_the_counted_samples_lack_is_an_error_that_names_the_remedy(tmp_path):
    for number in range(2):
        later = {"txt": b"later"} if number else {}
        write_tar(tmp_path / f"{number}.tar", [(f"{number}-{n}", {"cls": b"1"} | (later if n == 2 else {})) for n in range(4)])
    (tmp_path / "sizes.json").write_text('{"0.tar": 4, "1.tar": 4}')
    source = f"{tmp_path}/{{0..1}}.tar"
    with pytest.raises(fb.FormatError, match=r"field 'txt' \(key 1-2\).*columns.*__key__,cls,txt"):
        convert(source, tmp_path / "out", threads=1)
    convert(source, tmp_path / "chosen", columns=["__key__", "cls", "txt"], threads=1)
    assert [sample.get("txt") for sample in fields_of(tmp_path / "chosen")] == [None] * 6 + [b"later", None]
    with fb.Loader(remote=tmp_path / "chosen", batch_size=8, fields={"t": fb.Text("txt", default="")}, framework="numpy") as loader:
        assert next(iter(loader))["t"] == [""] * 6 + ["later", ""]


def test_arrays_of_numpy_are_bytes_that_an_array_reads(tmp_path):
    import numpy

    def saved(array):
        out = io.BytesIO()
        numpy.save(out, array)
        return out.getvalue()

    arrays = [numpy.arange(n, dtype="float32") for n in range(1, 9)]
    write_tar(tmp_path / "0.tar", [(f"{n}", {"npy": saved(array)}) for n, array in enumerate(arrays)])
    convert(f"{tmp_path}/{{0..0}}.tar", tmp_path / "out", threads=1)
    with fb.Loader(remote=tmp_path / "out", batch_size=8, fields={"a": fb.Array("npy")}, framework="numpy") as loader:
        (batch,) = loader
    assert all(numpy.array_equal(ours, array) for ours, array in zip(batch["a"], arrays, strict=True))


def test_shards_of_mds_with_different_columns_are_joined(tmp_path):
    """Shards of a merged index: one lacks a number, an array and a text."""
    from forebay.to_mds import merge_parts

    kinds = {"n": "int", "more": "int", "ids": "ndarray:int16", "text": "str"}
    for part, names in enumerate((["n", "text"], list(kinds))):
        with fb.MDSWriter(out=tmp_path / f"in/{part}", columns={name: kinds[name] for name in names}) as writer:
            for n in range(10):
                sample = {"n": n, "more": n, "ids": as_array([n] * (1 + n), "int16"), "text": "x" * n}
                writer.write({name: sample[name] for name in names})
    merge_parts(str(tmp_path / "in"), ["0", "1"])
    convert(tmp_path / "in", tmp_path / "out", threads=1)

    def plain(remote):
        return [{name: getattr(value, "tolist", lambda v=value: v)() for name, value in sample.items() if name != "__fields__"}
                for sample in fb.ShardReader(remote)]

    expected = plain(tmp_path / "in")
    assert plain(tmp_path / "out") == expected and set(expected[0]) == {"n", "text"} and set(expected[10]) == set(kinds)
    with fb.MDSWriter(out=tmp_path / "in/2", columns={"n": "str"}) as writer:
        writer.write({"n": "text"})
    merge_parts(str(tmp_path / "in"), ["0", "1", "2"])
    with pytest.raises(fb.ConfigError, match="different encodings in two shards.*column n, encoding int, encoding str"):
        convert(tmp_path / "in", tmp_path / "second", threads=1)


def test_nulls_of_tables_are_written_if_they_are_allowed(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows = [{"id": n, "x": None if n % 3 else n / 2, "t": "t" * n if n % 2 else None, "ids": [n] if n % 4 else None} for n in range(20)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "0.parquet")
    with pytest.raises(fb.FormatError, match="a value is null"):
        convert(tmp_path / "0.parquet", tmp_path / "refused", threads=1)
    assert main(["convert", str(tmp_path / "0.parquet"), str(tmp_path / "out"), "--nulls"]) == 0
    found = [{name: getattr(value, "tolist", lambda v=value: v)() for name, value in sample.items() if name != "__fields__"}
             for sample in fb.ShardReader(tmp_path / "out")]
    assert found == [{name: value for name, value in row.items() if value is not None} for row in rows]


def test_jsonl_has_the_same_values(tmp_path):
    from forebay.streaming import JSONWriter

    with JSONWriter(out=str(tmp_path / "json"), columns={"n": "int", "x": "float", "s": "str"}, size_limit=2000) as writer:
        for n in range(300):
            writer.write({"n": n, "x": n / 3, "s": f'"{n}" \u00e4\n'})
    convert(tmp_path / "json", tmp_path / "out", threads=1)
    fields = {"n": fb.Scalar("n"), "x": fb.Scalar("x"), "s": fb.Text("s")}
    rows = []
    for remote in ("json", "out"):
        with fb.Loader(remote=tmp_path / remote, batch_size=7, fields=fields, framework="numpy") as loader:
            rows.append([(int(n), float(x), s) for b in loader for n, x, s in zip(b["n"], b["x"], b["s"], strict=True)])
    assert rows[0] == rows[1] and len(rows[0]) == 300
    assert stored(tmp_path / "out", ["n", "x", "s"]) == stored(tmp_path / "json", ["n", "x", "s"])


@pytest.mark.parametrize("window", [None, fb.TokenWindow(33, stride=32)], ids=["documents", "windows"])
def test_megatron_has_the_same_tokens(tmp_path, window):
    for seed, name in enumerate("ab"):
        megatron_files.write(tmp_path / name, megatron_files.random_documents(seed, 200))
    source = f"{tmp_path}/{{a,b}}.bin"
    options = {} if window is None else {"window": window.tokens, "window_stride": window.stride}
    convert(source, tmp_path / "out", size_limit="4kb", threads=2, **options)
    assert tokens(tmp_path / "out") == tokens(source, window=window)


def test_a_shuffle_has_each_sample_once_and_follows_the_seed(numbers, tmp_path):
    whole = stored(numbers, COLUMNS)
    for out, seed in [("a", 1), ("b", 1), ("c", 2)]:
        convert(numbers, tmp_path / out, shuffle=seed, size_limit="2kb", threads=1 + (out == "b"))
    a, b, c = (stored(tmp_path / out, COLUMNS) for out in "abc")
    assert sorted(a) == sorted(c) == sorted(whole)
    assert a == b and a != c and a != whole
    assert a == stored(numbers, COLUMNS, shuffle=True, seed=1, order=fb.Order(num_canonical_nodes=1))


def test_a_bucket_is_a_source_and_a_destination(numbers, bucket_environment, bucket, tmp_path):
    prefix = f"convert-{os.path.basename(tmp_path)}"
    bucket.objects.update({f"{prefix}/in/{path.name}": path.read_bytes() for path in numbers.iterdir()})
    convert(f"s3://bucket/{prefix}/in", f"s3://bucket/{prefix}/out", size_limit="4kb", threads=2)
    assert stored(f"s3://bucket/{prefix}/out", COLUMNS) == stored(numbers, COLUMNS)
    report = convert(f"s3://bucket/{prefix}/in", f"s3://bucket/{prefix}/out", size_limit="4kb", threads=2)
    assert report.kept == report.parts


KILLED = """
import os, signal, sys
from forebay.to_mds import convert

def progress(report, parts):
    if report.parts == 2:
        os.kill(os.getpid(), signal.SIGKILL)

convert(sys.argv[1], sys.argv[2], size_limit="2kb", threads=int(sys.argv[3]), progress=progress)
"""


@pytest.mark.parametrize("threads", [1, 2])
def test_a_killed_run_continues_with_the_parts_that_are_complete(numbers, tmp_path, threads):
    out = tmp_path / "out"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", KILLED, str(numbers), str(out), str(threads)]
    killed = subprocess.run(command, env=env, capture_output=True, timeout=600)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    assert not (out / "index.json").exists()
    complete = [path.parent for path in out.glob("part.*/index.json")]
    whole = {path: path.stat().st_mtime_ns for part in complete for path in part.iterdir()}
    report = convert(numbers, out, size_limit="2kb", threads=2)
    assert report.kept == len(complete) >= 2 and report.samples == 1000
    assert {path: path.stat().st_mtime_ns for path in whole} == whole
    assert stored(out, COLUMNS) == stored(numbers, COLUMNS)


def test_a_damaged_part_is_written_again(numbers, tmp_path):
    out = tmp_path / "out"
    parts = convert(numbers, out, size_limit="2kb", threads=1).parts
    shard = sorted((out / "part.00002").glob("*.mds"))[0]
    shard.write_bytes(shard.read_bytes()[:-1] + b"x")
    (out / "part.00001" / "index.json").unlink()
    (out / "index.json").unlink()
    report = convert(numbers, out, size_limit="2kb", threads=1)
    assert (report.kept, report.parts) == (parts - 2, parts)
    assert stored(out, COLUMNS) == stored(numbers, COLUMNS) and verify(out).is_intact


def test_a_different_conversion_or_data_set_in_the_folder_is_an_error(numbers, tmp_path):
    convert(numbers, tmp_path / "out", size_limit="2kb", threads=1)
    with pytest.raises(fb.ConfigError, match="a different source or options"):
        convert(numbers, tmp_path / "out", size_limit="3kb", threads=1)
    (tmp_path / "second" / "kept").mkdir(parents=True)
    (tmp_path / "second" / "kept" / "notes.txt").write_text("mine")
    with pytest.raises(fb.ConfigError, match="has different files, such as .*notes.txt': choose a different folder"):
        convert(numbers, tmp_path / "second")
    assert os.listdir(tmp_path / "second") == ["kept"]
    with pytest.raises(fb.ConfigError, match="has a data set already"):
        convert(tmp_path / "out", numbers)


def write_numbers(kind, path, first):
    """A data set of 600 numbers from `first`, in files of the same sizes for any."""
    values = range(first, first + 600)
    if kind == "parquet":
        pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        pq.write_table(pa.table({"n": pa.array(values, "int64")}), path / "0.parquet", compression="none", use_dictionary=False)
    elif kind == "tar":
        write_tar(path / "0.tar", [(f"{n}", {"n": b"%06d" % n}) for n in values])
    else:
        with fb.MDSWriter(out=path, columns={"n": "int"}, size_limit="1kb", exist_ok=True) as writer:
            for n in values:
                writer.write({"n": n})


@pytest.mark.parametrize("kind", ["mds", "parquet", "tar"])
def test_parts_of_a_source_that_has_changed_are_not_kept(kind, tmp_path):
    source, out = tmp_path / "source", tmp_path / "out"
    source.mkdir()
    remote = source / "0.tar" if kind == "tar" else source
    write_numbers(kind, source, 1000)
    report = convert(remote, out, size_limit="1kb", threads=1)
    assert convert(remote, out, size_limit="1kb", threads=1).kept == report.parts > 1
    times = {path: path.stat().st_mtime_ns for path in source.iterdir()}
    write_numbers(kind, source, 2000)
    for path, time in times.items():
        # Later, whatever the clock of the file system shows.
        if path.exists():
            os.utime(path, ns=(time + 1_000_000_000, time + 1_000_000_000))
    with pytest.raises(fb.ConfigError, match="has changed since: choose a different folder"):
        convert(remote, out, size_limit="1kb", threads=1)
    convert(remote, tmp_path / "again", size_limit="1kb", threads=1)
    assert [int(sample["n"]) for sample in fb.ShardReader(tmp_path / "again")] == list(range(2000, 2600))


def test_parts_of_tables_that_were_written_again_are_not_kept(tmp_path):
    source = pathlib.Path(shutil.copy(PARQUET / "set-0.parquet", tmp_path))
    options = {"columns": ["id"], "size_limit": "1kb", "threads": 1}
    report = convert(source, tmp_path / "out", **options)
    assert convert(source, tmp_path / "out", **options).kept == report.parts > 1
    os.utime(source, (1, 1))
    with pytest.raises(fb.ConfigError, match="has changed since"):
        convert(source, tmp_path / "out", **options)


def test_a_run_continues_from_a_different_folder(numbers, tmp_path, monkeypatch):
    monkeypatch.chdir(numbers.parent)
    report = convert(numbers.name, tmp_path / "out", size_limit="2kb", threads=1)
    assert convert(f"./{numbers.name}", tmp_path / "out", size_limit="2kb", threads=1).kept == report.parts
    monkeypatch.chdir(numbers)
    assert convert(numbers, tmp_path / "out", size_limit="2kb", threads=1).kept == report.parts
    with pytest.raises(fb.Error):
        convert(numbers.name, tmp_path / "out", size_limit="2kb", threads=1)


def test_the_command_shows_its_progress(numbers, tmp_path, capsys):
    assert main(["convert", str(numbers), str(tmp_path / "out"), "--columns", "n,blob", "--threads", "1"]) == 0
    assert "1 of 1 parts, 1000 samples" in capsys.readouterr().out
    assert stored(tmp_path / "out", ["n", "blob"]) == stored(numbers, ["n", "blob"])
    assert main(["convert", str(tmp_path / "absent"), str(tmp_path / "second")]) == 2
    assert capsys.readouterr().err.startswith("error: ")




@pytest.mark.parametrize("empty", [0, 7, 299])
def test_a_row_that_cannot_be_stored_is_named(tmp_path, empty):
    ids = [[] if row == empty else [row, row] for row in range(300)]
    for number, part in enumerate((ids[:120], ids[120:])):
        (tmp_path / f"{number}.tfrecord").write_bytes(b"".join(record(example({"ids": value})) for value in part))
    source, file = f"{tmp_path}/{{0..1}}.tfrecord", int(empty >= 120)
    for threads in (1, 2):
        with pytest.raises(fb.ConfigError, match="an array without elements cannot be stored") as caught:
            convert(source, tmp_path / f"out{threads}", threads=threads, size_limit=1 << 10)
        text = str(caught.value)
        assert "column ids" in text and f"sample {empty}, file {file}.tfrecord, sample in shard {empty - 120 * file})" in text, text
        assert "can be left out with `columns`" in text
        if threads == 1:
            assert caught.value.context["file"] == f"{file}.tfrecord"


def test_a_row_of_a_table_that_cannot_be_stored_is_named_by_its_group(tmp_path):
    """The first row of these tables has no tokens."""
    source = PARQUET / "set-0.parquet"
    with pytest.raises(fb.ConfigError, match=r"without elements.*column tokens.*sample 0, file set-0.parquet, .*row_in_group 0\)"):
        convert(source, tmp_path / "out", columns=["tokens"], threads=1)

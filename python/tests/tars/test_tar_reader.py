"""Single samples of tars by their numbers, in any process, and the verification of tars."""

import gzip
import io
import json
import multiprocessing
import pickle

import numpy as np
import pytest
from tar_sets import END, SHARD_SAMPLES, number_samples, set_of_tars, tar, webdataset_samples

import forebay as fb
from forebay.__main__ import main
from forebay.verify import verify

COUNT = sum(SHARD_SAMPLES)


def expected(number):
    ((key, fields),) = number_samples(number, 1)
    return {"__key__": key, "cls": int(fields["cls"]), "txt": fields["txt"].decode()}


def test_a_sample_is_read_by_its_number(tars):
    reader = fb.ShardReader(tars)
    assert len(reader) == COUNT
    assert [reader[i] for i in (0, 12, 13, 41, 42, -1)] == [expected(i) for i in (0, 12, 13, 41, 42, COUNT - 1)]
    assert reader[78:] == [expected(78), expected(79)]
    with pytest.raises(IndexError, match="there is no sample 80"):
        reader[COUNT]


def test_the_samples_of_a_bucket_are_fetched_when_they_are_read(stored_tars, bucket, user_cache):
    reader = fb.ShardReader(stored_tars)
    bucket.seen.clear()
    assert reader[14] == expected(14)
    assert {request.key.rsplit("/", 1)[-1] for request in bucket.seen} == {"train-001.tar"}
    assert [reader[i] for i in range(COUNT)] == [expected(i) for i in range(COUNT)]


def test_compressed_tars_are_unpacked_into_the_cache(tmp_path):
    for number, body in enumerate(set_of_tars()):
        (tmp_path / f"{number}.tar.gz").write_bytes(gzip.compress(body))
    reader = fb.ShardReader(f"{tmp_path}/{{0..5}}.tar.gz")
    assert [reader[i] for i in range(COUNT)] == [expected(i) for i in range(COUNT)]


def test_a_sample_has_the_files_that_webdataset_finds(tmp_path):
    array = io.BytesIO()
    np.save(array, np.arange(6.0).reshape(2, 3))
    samples = [
        ("a", {"npy": array.getvalue(), "json": b'{"n": [1]}', "jpg": b"JPEG"}),
        ("b", {"cls": b"7", "bin": b""}),
        ("c", {"txt": b""}),
    ]
    (tmp_path / "0.tar").write_bytes(tar(samples) + END)
    found = list(fb.ShardReader(f"{tmp_path}/0.tar"))
    assert [(sample["__key__"], set(sample) - {"__key__"}) for sample in found] == [
        (key, set(fields)) for key, fields in webdataset_samples(tmp_path / "0.tar")
    ]
    assert np.array_equal(found[0]["npy"], np.arange(6.0).reshape(2, 3))
    assert (found[0]["json"], found[0]["jpg"], found[1]["cls"], found[2]["txt"]) == ({"n": [1]}, b"JPEG", 7, "")


def in_child(reader, numbers, answers):
    answers.put([reader[i] for i in numbers])


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_child_process_opens_its_own_reader(tars, method):
    reader = fb.ShardReader(tars)
    assert reader[5] == expected(5)
    assert pickle.loads(pickle.dumps(reader))[6] == expected(6)
    context = multiprocessing.get_context(method)
    answers = context.Queue()
    child = context.Process(target=in_child, args=(reader, [5, 70], answers))
    child.start()
    assert answers.get(timeout=600) == [expected(5), expected(70)]
    child.join()
    assert reader[7] == expected(7)


def test_the_workers_of_a_dataloader_read_tars(tars):
    from torch.utils.data import DataLoader

    loader = DataLoader(fb.ShardReader(tars), batch_size=8, num_workers=2, collate_fn=list)
    assert sum(loader, []) == [expected(i) for i in range(COUNT)]


def test_tars_are_verified_where_they_are(tars, tmp_path, capsys):
    for number, body in enumerate(set_of_tars()):
        (tmp_path / f"{number}.tar").write_bytes(body)
    remote = f"{tmp_path}/{{0..5}}.tar"
    report = verify(remote)
    assert (report.shards, report.is_intact) == (6, True)
    # A header of the same length that is damaged, a tar of a different length, and none.
    damaged = bytearray((tmp_path / "1.tar").read_bytes())
    damaged[512 * 4] ^= 1
    (tmp_path / "1.tar").write_bytes(damaged)
    report = verify(remote)
    assert list(report.damaged) == ["1.tar"] and "checksum" in report.damaged["1.tar"]
    (tmp_path / "2.tar").unlink()
    assert main(["verify", remote]) == 1
    assert "5 of 6 shards are there" in capsys.readouterr().out


def test_stored_tars_are_verified(stored_tars):
    assert verify(stored_tars).is_intact
    with pytest.raises(fb.ConfigError, match="compared where they are"):
        verify(stored_tars, remote="s3://bucket/other")


def test_streaming_names_the_classes_that_read_tars(tars, tmp_path):
    from forebay.streaming import StreamingDataset

    with pytest.raises(fb.UnsupportedError, match=r"read by forebay\.Loader and forebay\.ShardReader"):
        StreamingDataset(remote=tars, local=str(tmp_path / "local"), batch_size=1)


def test_a_folder_of_mds_behind_a_url_is_read_as_well(bucket, bucket_environment, tmp_path):
    with fb.MDSWriter(out=str(tmp_path), columns={"n": "int"}) as writer:
        for number in range(5):
            writer.write({"n": number})
    for path in tmp_path.iterdir():
        bucket.objects[f"reader-mds/{path.name}"] = path.read_bytes()
    assert json.loads((tmp_path / "index.json").read_text())["shards"][0]["samples"] == 5
    assert [sample["n"] for sample in fb.ShardReader("s3://bucket/reader-mds")] == list(range(5))


def test_pictures_of_a_folder_are_read_as_well(tmp_path):
    from PIL import Image

    for number in range(6):
        path = tmp_path / "pictures" / "ab"[number % 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (4, 4), (number, 0, 0)).save(path)
    paths = sorted(tmp_path.glob("pictures/*/*.png"))
    reader = fb.ShardReader(f"{tmp_path}/pictures/*/*.png")
    found = [[value for value in sample.values() if isinstance(value, bytes)] for sample in reader]
    assert found == [[path.read_bytes()] for path in paths]

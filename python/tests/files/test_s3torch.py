"""The names of s3torchconnector and of torchdata's DataPipes, on a local folder."""

import io
import json
import pickle
import warnings

import pytest
from bucket_server import bucket_server

import forebay as fb

torch = pytest.importorskip("torch")

from forebay import s3torch  # noqa: E402

SIZES = [0, 5, 70_000, 3 << 20]


@pytest.fixture
def folder(tmp_path):
    for number, size in enumerate(SIZES):
        (tmp_path / f"{number}.bin").write_bytes(bytes([number]) * size)
    return tmp_path


def urls(folder):
    return [f"{folder}/{number}.bin" for number in range(len(SIZES))]


def test_a_map_data_set_has_a_reader_for_each_object(folder):
    dataset = s3torch.S3MapDataset.from_prefix(f"{folder}/", region="eu-west-1")
    assert len(dataset) == len(SIZES) and dataset.region == "eu-west-1"
    reader = dataset[2]
    assert reader.key.endswith("/2.bin") and reader.read() == bytes([2]) * 70_000
    sizes = s3torch.S3MapDataset.from_objects(urls(folder), region="", transform=lambda reader: len(reader.read()))
    assert [sizes[number] for number in range(len(sizes))] == SIZES


def test_an_iterable_data_set_reads_in_the_order_of_the_list(folder):
    dataset = s3torch.S3IterableDataset.from_prefix(f"{folder}/", region="x", transform=lambda r: (r.key, len(r.read())))
    assert [(key[-5:], size) for key, size in dataset] == [(f"{n}.bin", size) for n, size in enumerate(SIZES)]
    shuffled = s3torch.S3IterableDataset.from_objects(urls(folder), region="x", shuffle=True)
    orders = [[reader.key for reader in shuffled] for _ in range(6)]
    assert all(sorted(order) == sorted(orders[0]) for order in orders) and len(set(map(tuple, orders))) > 1


@pytest.mark.parametrize(("sharding", "copies"), [("auto", 1), (True, 1), (False, 2)])
def test_workers_share_the_objects_unless_they_must_not(folder, sharding, copies):
    dataset = s3torch.S3IterableDataset.from_prefix(
        f"{folder}/", region="x", transform=lambda reader: reader.key, enable_sharding=sharding
    )
    found = list(torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=2))
    assert len(found) == copies * len(SIZES) and len(set(found)) == len(SIZES)


def test_a_large_object_is_opened_by_its_reader(folder, monkeypatch):
    monkeypatch.setattr(s3torch, "_WHOLE_MAX", 100_000)
    is_opened = lambda reader: (reader.read(), isinstance(reader._file, fb.files.FileReader))  # noqa: E731
    expected = [(bytes([number]) * size, size > 100_000) for number, size in enumerate(SIZES)]
    assert any(is_large for _, is_large in expected)
    # Without a list, the size is found by the first request.
    for make, given in ((s3torch.S3IterableDataset.from_prefix, f"{folder}/"), (s3torch.S3IterableDataset.from_objects, urls(folder))):
        assert list(make(given, region="x", transform=is_opened)) == expected


def test_a_reader_keeps_to_the_end(folder):
    reader = s3torch.S3Checkpoint(region="x").reader(f"{folder}/1.bin")
    assert (reader.seek(100), reader.tell(), reader.read()) == (5, 5, b"")
    assert reader.seek(-2, io.SEEK_END) == 3 and reader.read(1) == b"\1"
    with pytest.raises(TypeError, match="integer or None"):
        reader.read("1")
    with pytest.raises(ValueError, match="before the start"):
        reader.seek(-1)
    reader.close()
    with pytest.raises(ValueError, match="closed"):
        reader.read()


def test_a_reader_has_lines(tmp_path):
    (tmp_path / "lines").write_bytes(b"one\ntwo\r\nthree")
    reader = s3torch.S3Checkpoint().reader(f"{tmp_path}/lines")
    assert list(reader) == [b"one\n", b"two\r\n", b"three"]
    reader.seek(0)
    assert list(io.TextIOWrapper(reader)) == ["one\n", "two\n", "three"]


def test_a_loop_over_lines_that_ends_early_leaves_the_reader_open(tmp_path):
    (tmp_path / "lines").write_bytes(b"one\ntwo\nthree")
    preloaded = next(iter(s3torch.S3IterableDataset.from_objects([f"{tmp_path}/lines"], region="x", transform=lambda reader: reader)))
    for reader in (preloaded, s3torch.S3Checkpoint().reader(f"{tmp_path}/lines")):
        for line in reader:
            assert line == b"one\n"
            break
        assert reader.read() == b"two\nthree"
        reader.close()
        with pytest.raises(ValueError, match="closed"):
            iter(reader)


def test_torch_saves_and_loads_a_checkpoint(tmp_path):
    checkpoint = s3torch.S3Checkpoint(region="x", s3client_config=s3torch.S3ClientConfig(max_attempts=3))
    state = {"weight": torch.arange(3_000_000), "step": 7}
    with checkpoint.writer(f"{tmp_path}/step") as writer:
        torch.save(state, writer)
    with checkpoint.reader(f"{tmp_path}/step") as reader:
        loaded = torch.load(reader)
    assert loaded["step"] == 7 and torch.equal(loaded["weight"], state["weight"])
    with pytest.raises(RuntimeError, match="stop"), checkpoint.writer(f"{tmp_path}/other") as writer:
        writer.write(b"half")
        raise RuntimeError("stop")
    with pytest.raises(s3torch.S3Exception, match="(?i)no such") as raised:
        checkpoint.reader(f"{tmp_path}/other").read()
    assert isinstance(raised.value.__cause__, fb.NotFoundError)
    with pytest.raises(ValueError, match="closed"):
        writer.write(b"more")


def test_settings_are_checked_like_the_original():
    with pytest.raises(ValueError, match="part_size"):
        s3torch.S3ClientConfig(part_size=1 << 20)
    with pytest.raises(ValueError, match="requester_pays"):
        s3torch.S3ClientConfig(unsigned=True, requester_pays=True)
    config = s3torch.S3ClientConfig(profile="work")
    assert pickle.loads(pickle.dumps(config)) == config


def test_attempts_that_a_program_names_count_for_an_endpoint_that_was_never_reached():
    def attempts(config):
        # A DataLoader with workers pickles it.
        settings = json.loads(pickle.loads(pickle.dumps(s3torch.store_options("x", None, config)))._settings())
        return settings["attempts"], settings.get("first_contact_attempts")

    assert attempts(None) == attempts(s3torch.S3ClientConfig(profile="work")) == (10, 5)
    assert attempts(s3torch.S3ClientConfig(max_attempts=20)) == (20, None)


def test_datapipes_list_and_load(folder):
    from torch.utils.data.datapipes.iter import IterableWrapper

    import forebay.datapipes  # noqa: F401

    listed = IterableWrapper([f"{folder}/"]).list_files_by_s3(masks="*.bin")
    assert list(listed) == urls(folder)
    with pytest.raises(TypeError, match="valid length"):
        len(listed)
    assert len(IterableWrapper([f"{folder}/"]).list_files_by_s3(length=4)) == 4
    loaded = listed.load_files_by_s3(multi_part_download=False)
    assert [(url, len(stream.read())) for url, stream in loaded] == list(zip(urls(folder), SIZES))


def test_datapipes_refuse_unsafe_uses(folder, monkeypatch):
    from forebay.datapipes import S3FileLister

    monkeypatch.setenv("S3_VERIFY_SSL", "0")
    with pytest.raises(fb.ConfigError, match="SSL_CERT_FILE"):
        S3FileLister([f"{folder}/"])


@pytest.mark.parametrize("prefix", ["a-bucket/train", "a-bucket/", "a-bucket", "/a-bucket/train/"])
def test_a_prefix_without_its_scheme_is_an_error_and_no_empty_list(tmp_path, monkeypatch, prefix):
    from forebay.datapipes import S3FileLister

    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="s3://a-bucket"):
        list(S3FileLister([prefix]))
    for cls in (s3torch.S3MapDataset, s3torch.S3IterableDataset):
        with pytest.raises(ValueError, match="s3://a-bucket"):
            cls.from_prefix(prefix, region="x")


def test_a_relative_prefix_of_files_that_are_here_needs_no_scheme(folder, monkeypatch):
    from forebay.datapipes import S3FileLister

    monkeypatch.chdir(folder)
    assert [url.rpartition("/")[2] for url in S3FileLister(["1"])] == ["1.bin"]
    monkeypatch.chdir(folder.parent)
    assert len(list(S3FileLister([f"{folder.name}/"]))) == len(SIZES)
    (folder / "empty").mkdir()
    assert list(S3FileLister([f"{folder}/empty/"])) == []


def divided_again(source):
    from torch.utils.data.datapipes.iter import IterableWrapper

    return IterableWrapper(source).map(str).sharding_filter()


@pytest.mark.parametrize("kind", ["S3IterableDataset", "FileLoader"])
def test_a_filter_that_divides_a_worker_s_share_again_is_named(folder, recwarn, kind):
    def source(is_divided):
        if kind == "FileLoader":
            return fb.load_files(urls(folder), shard="auto" if is_divided else "none")
        return s3torch.S3IterableDataset.from_objects(urls(folder), region="x", enable_sharding=is_divided)

    def delivered(dataset):
        return list(torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=2, multiprocessing_context="fork"))

    # Forked workers inherit the filter, and their exceptions are raised here.
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        with pytest.raises(UserWarning, match=f"sharding_filter behind {kind} divides each worker's share again"):
            delivered(divided_again(source(True)))
        assert len(delivered(divided_again(source(False)))) == len(SIZES)
        assert len(delivered(source(True))) == len(SIZES)


def test_empty_objects_with_a_slash_at_the_end_of_their_keys_are_samples_as_in_the_original(monkeypatch):
    with bucket_server() as bucket:
        for name, value in bucket.environment().items():
            monkeypatch.setenv(name, value)
        bucket.objects.update({"a/": b"", "a/1": b"one", "a/b/": b"", "a/b/2": b"two", "a/c/": b"", "a/d/": b"not empty"})
        # The package's own lists do not have them.
        assert [file.url.removeprefix("s3://bucket/") for file in fb.list_files("s3://bucket/a/")][:2] == ["a/1", "a/b/2"]
        read = {"region": "us-east-1", "transform": lambda reader: (reader.key, reader.read())}
        dataset = s3torch.S3MapDataset.from_prefix("s3://bucket/a/", **read)
        expected = [("a/", b""), ("a/1", b"one"), ("a/b/", b""), ("a/b/2", b"two"), ("a/c/", b"")]
        assert len(dataset) == 6 and [dataset[number] for number in range(5)] == expected
        bucket.objects.pop("a/d/")
        each = s3torch.S3IterableDataset.from_prefix("s3://bucket/a/", **read)
        assert list(each) == expected
        # A position within them.
        first = iter(each)
        assert [next(first) for _ in range(3)] == expected[:3]
        again = s3torch.S3IterableDataset.from_prefix("s3://bucket/a/", **read)
        again.load_state_dict(each.state_dict())
        assert list(again) == expected[3:]
        shuffled = s3torch.S3IterableDataset.from_prefix("s3://bucket/a/", shuffle=True, **read)
        assert sorted(shuffled) == expected


def test_a_number_of_attempts_that_is_too_small_is_named_where_it_is_given():
    for attempts in (0, -1):
        with pytest.raises(ValueError, match="max_attempts"):
            s3torch.S3ClientConfig(max_attempts=attempts)

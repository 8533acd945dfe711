"""MDS written by Ray Data."""

import os

import numpy as np
import pytest

import forebay as fb

pytestmark = pytest.mark.skipif("RAY" not in os.environ, reason="set RAY=1 to start Ray")


@pytest.fixture(scope="module")
def ray():
    ray = pytest.importorskip("ray")
    pytest.importorskip("ray.data")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield ray
    ray.shutdown()


def rows(out):
    loader = fb.Loader(remote=out, batch_size=32, framework="numpy")
    with loader:
        return [tuple(row) for batch in loader for row in zip(*(batch[name] for name in sorted(batch)), strict=True)]


def test_the_rows_of_a_dataset_are_samples(ray, tmp_path):
    from forebay.integrations.ray import write_mds

    items = [
        {"class": n, "ids": list(range(1 + n % 5)), "text": f"text {n}", "blob": bytes([n % 256]) * (n % 7)} for n in range(500)
    ]
    dataset = ray.data.from_items(items, override_num_blocks=6)
    columns = {"class": "int", "ids": "ndarray:int32", "text": "str", "blob": "bytes"}
    write_mds(dataset, str(tmp_path / "out"), columns=columns, size_limit="4kb")
    found = sorted(rows(tmp_path / "out"), key=lambda row: row[1])
    assert [(row[0], int(row[1]), row[2].tolist(), row[3]) for row in found] == [
        (item["blob"], item["class"], item["ids"], item["text"]) for item in items
    ]
    from forebay.verify import verify

    assert verify(tmp_path / "out").is_intact


def test_columns_follow_from_the_types(ray, tmp_path):
    from forebay.integrations.ray import write_mds

    write_mds(ray.data.from_numpy(np.arange(120.0).reshape(40, 3)), str(tmp_path / "tensors"))
    assert sorted(row[0].tolist() for row in rows(tmp_path / "tensors")) == np.arange(120.0).reshape(40, 3).tolist()
    write_mds(ray.data.from_items([{"i": n, "f": n / 2, "s": str(n)} for n in range(40)]), str(tmp_path / "items"))
    assert sorted((int(i), float(f), s) for f, i, s in rows(tmp_path / "items")) == [(n, n / 2, str(n)) for n in range(40)]


def test_a_type_without_an_encoding_is_named(ray, tmp_path):
    from forebay.integrations.ray import write_mds

    with pytest.raises(Exception, match="column 'b' has the type bool"):
        write_mds(ray.data.from_items([{"b": True}]), str(tmp_path / "out"))
    assert not (tmp_path / "out" / "index.json").exists()

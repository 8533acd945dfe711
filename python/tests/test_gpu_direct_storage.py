"""Rows that cuFile reads directly to a CUDA device, with stand-ins for driver and library. Not yet run on a GPU."""

import ctypes
import os

import numpy as np
import pytest
from fake_cuda import Consumer, Driver, compile_storage

import forebay as fb

SAMPLES = 50
FIELDS = {"x": fb.Array("x"), "t": fb.Tokens("t", length=2100, dtype="uint16"), "n": fb.Scalar("n"), "s": fb.Text("s")}
COUNTERS = ("rows_gpu_direct", "rows_gpu_direct_refused", "gpu_direct_storage_fallbacks")
NOTHING_LEFT = {"registered": 0, "allocated": 0, "events": 0}
COMPATIBLE, NVIDIA_FS = 0, 1


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """A folder of raw shards with arrays of fixed size before and after further columns."""
    folder = tmp_path_factory.mktemp("rows") / "set"
    columns = {"n": "int", "s": "str", "t": "ndarray:uint16:2100", "x": "ndarray:float32:40,30"}
    rng = np.random.default_rng(0)
    with fb.MDSWriter(out=str(folder), columns=columns, size_limit=1 << 17) as writer:
        for n in range(SAMPLES):
            arrays = {"t": rng.integers(0, 50_000, 2100, np.uint16), "x": rng.random((40, 30), np.float32)}
            writer.write({"n": n, "s": "x" * n, **arrays})
    try:
        os.close(os.open(folder / "shard.00000.mds", os.O_RDONLY | os.O_DIRECT))
    except OSError as error:
        pytest.skip(f"the folder for temporary files refuses O_DIRECT: {error}")
    return str(folder)


@pytest.fixture
def device(cuda_library, monkeypatch):
    """Driver and cuFile; after the test everything must have been released."""
    storage = compile_storage(cuda_library.parent, cuda_library)
    monkeypatch.setenv("FOREBAY_CUDA_LIBRARY", str(cuda_library))
    monkeypatch.setenv("FOREBAY_CUFILE_LIBRARY", str(storage))
    driver, library = Driver(cuda_library), ctypes.CDLL(storage)
    library.fake_cufile_mode(NVIDIA_FS)
    driver.waits_move(True)
    yield driver, library
    left = driver.left()
    driver.waits_move(False)
    assert left == NOTHING_LEFT and library.fake_cufile_live() == 0


def loader(folder, name, gpu_direct_storage=False, **kwargs):
    kwargs = {"shuffle": True, "batch_size": 16, "framework": "dlpack", "fields": FIELDS, **kwargs}
    engine = fb.Engine(memory="64mb", gpu_direct_storage=gpu_direct_storage)
    return fb.Loader(local=folder, device=name, engine=engine, **kwargs)


def compare(driver, folder, batches):
    """Asserts that an epoch of `batches` equals the host's."""
    with loader(folder, "cpu", framework="numpy") as host:
        for batch, expected in zip(batches, host, strict=True):
            assert batch["s"] == expected["s"]
            for name in ("x", "t", "n"):
                consumer = Consumer(driver, batch[name])
                assert np.array_equal(consumer.array(), expected[name]), name
                consumer.free()
            del batch


def counters(batches):
    counts = batches.stats()["counters"]
    return [counts.get(name, 0) for name in COUNTERS]


def test_rows_equal_the_host_s(rows, device):
    driver, _ = device
    with loader(rows, "cuda:0", gpu_direct_storage=True) as batches:
        compare(driver, rows, batches)
        assert counters(batches) == [2 * SAMPLES, 0, 0]
        assert "rows of fixed size are read by cuFile 1.14 over nvidia-fs 2.25" in batches.stats()["notes"]


def test_compatibility_mode_is_logged_once_and_the_host_reads(rows, device, caplog):
    driver, library = device
    library.fake_cufile_mode(COMPATIBLE)
    with loader(rows, "cuda:0", gpu_direct_storage=True) as batches:
        compare(driver, rows, batches)
        assert counters(batches) == [0, 0, 1]
    (warning,) = [record.getMessage() for record in caplog.records if "GPUDirect" in record.getMessage()]
    assert "compatibility mode" in warning


def test_cufile_is_loaded_only_if_it_is_enabled(rows, device, monkeypatch):
    driver, _ = device
    monkeypatch.setenv("FOREBAY_CUFILE_LIBRARY", "/nowhere/libcufile.so.0")
    with loader(rows, "cuda:0") as batches:
        compare(driver, rows, batches)
        assert counters(batches) == [0, 0, 0]
    with pytest.raises(fb.ConfigError, match="gpu_direct_storage is True or False"):
        loader(rows, "cpu", gpu_direct_storage="cufile")

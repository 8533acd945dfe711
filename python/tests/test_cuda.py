"""Batches on CUDA devices, with a stand-in for the driver: the tests need no GPU, and prove nothing about a real one."""

import gc
import os
import threading

import numpy as np
import pytest
from fake_cuda import CUDA, Consumer, Driver
from loaders import alone
from picture_set import SAMPLES

import forebay as fb

NORM = fb.Normalize(fb.IMAGENET_MEAN, fb.IMAGENET_STD)
FIELDS = {
    "x": fb.Image("image", fb.RandomResizedCrop(16), fb.RandomHorizontalFlip(), NORM, dtype="float32"),
    "y": fb.Scalar("number"),
    "name": fb.Text("name"),
    "raw": fb.Bytes("image"),
}
ORDER = fb.Order(num_canonical_nodes=2)
NOTHING_LEFT = {"registered": 0, "allocated": 0, "events": 0}


@pytest.fixture
def driver(cuda_library, monkeypatch):
    """The stand-in; after the test everything must have been released."""
    monkeypatch.setenv("FOREBAY_CUDA_LIBRARY", str(cuda_library))
    driver = Driver(cuda_library)
    yield driver
    assert driver.left() == NOTHING_LEFT


def loader(folder, device, prefetch=None, **kwargs):
    kwargs = {"batch_size": 16, "shuffle": True, "fields": FIELDS, "framework": "dlpack", **kwargs}
    return fb.Loader(local=folder, device=device, engine=fb.Engine(memory="64mb", prefetch=prefetch), **kwargs)


def of_two(rank):
    return fb.World(rank=rank, world_size=2, local_rank=rank, local_world_size=2)


def on_host(folder, **kwargs):
    """The same batches in host memory, epoch by epoch."""
    with loader(folder, "cpu", framework="numpy", **kwargs) as batches:
        return [[{k: v if isinstance(v, list) else v.copy() for k, v in b.items()} for b in batches] for _ in range(2)]


def same(consumers, batch):
    return all(np.array_equal(consumer.array(), batch[name]) for name, consumer in consumers.items())


def moving(driver, batches):
    """Makes the device run its queued work after each batch: without a consumer that reads, it runs nothing."""
    for batch in batches:
        yield batch
        del batch
        driver.run()


def take(driver, batch, **kwargs):
    return {name: Consumer(driver, batch[name], **kwargs) for name in ("x", "y")}


@pytest.mark.parametrize("versioned", [True, False])
def test_batches_on_a_device_equal_the_host_s(pictures, driver, versioned):
    expected = on_host(pictures)
    with loader(pictures, "cuda:0") as batches:
        for epoch in expected:
            seen = 0
            for batch, host in zip(batches, epoch, strict=True):
                assert batch["x"].__dlpack_device__() == (CUDA, 0) and batch["x"].shape == host["x"].shape
                # Lists stay on the host.
                assert batch["name"] == host["name"] and batch["raw"] == host["raw"]
                consumers = take(driver, batch, versioned=versioned)
                assert all(consumer.device == (CUDA, 0) for consumer in consumers.values())
                assert same(consumers, host)
                seen += len(host["y"])
                del batch
                for consumer in consumers.values():
                    consumer.free()
            assert seen == SAMPLES
    assert driver.retained(1) == 0


def test_memory_is_reused_only_after_the_consumer_s_stream(pictures, driver):
    """Every batch is dropped with its read still queued: each read gets the values of its own batch."""
    (expected, _) = on_host(pictures)
    stream = driver.stream()
    outs = []
    with loader(pictures, "cuda:0", prefetch=1) as batches:
        for number, batch in enumerate(batches):
            consumer = Consumer(driver, batch["y"], stream=stream)
            outs.append(consumer.read_later())
            consumer.free()
            del batch, consumer
            # Copies for later batches run as far as their dependencies allow. The consumer is a few batches late:
            # few enough that copies waiting for it do not occupy all host memory.
            driver.run_copies(besides=stream)
            if number % 4 == 3:
                driver.run()
        driver.run()
    assert [out.tolist() for out in outs] == [batch["y"].tolist() for batch in expected]


def test_tensors_may_be_freed_in_any_order_on_any_thread(pictures, driver):
    (expected, _) = on_host(pictures)
    with loader(pictures, "cuda:0", prefetch=2) as batches:
        kept = [(batch, take(driver, batch, stream=driver.stream())) for batch in moving(driver, batches)]
    del batches
    assert all(same(consumers, host) for (_, consumers), host in zip(kept, expected, strict=True))
    last = [consumers["x"] for _, consumers in kept]
    for _, consumers in reversed(kept):
        consumers["y"].free()
    del kept
    threads = [threading.Thread(target=consumer.free) for consumer in last]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_an_unused_capsule_and_an_unread_batch_are_released(pictures, driver):
    with loader(pictures, "cuda:0") as batches:
        for number, batch in enumerate(batches):
            capsule = batch["x"].__dlpack__(stream=1, max_version=(1, 0)), batch["y"].__dlpack__()
            del capsule, batch
            driver.run()
            if number == 4:
                break


def test_a_loader_that_is_closed_early_releases_everything(pictures, driver):
    batches = loader(pictures, "cuda:0")
    first = next(iter(batches))
    consumer = Consumer(driver, first["y"])
    batches.close()
    del first
    # A batch outlives its loader.
    assert consumer.array().shape == (16,)
    consumer.free()


def test_each_device_of_a_list_gets_its_rank_s_batches(pictures, driver):
    (expected, _) = zip(*(on_host(pictures, world=of_two(rank), order=ORDER) for rank in range(2)))
    with loader(pictures, ["cuda:0", "cuda:1"], order=ORDER) as batches:
        for pair, hosts in zip(batches, zip(*expected, strict=True), strict=True):
            for number, (batch, host) in enumerate(zip(pair, hosts)):
                consumer = Consumer(driver, batch["y"])
                assert consumer.device == (CUDA, number)
                assert np.array_equal(consumer.array(), host["y"])
                consumer.free()
            del pair, batch


def test_cuda_without_a_number_is_the_local_rank_s_device(pictures, driver):
    with loader(pictures, "cuda", world=of_two(1), order=ORDER) as batches:
        batch = next(iter(batches))
        assert batch["y"].__dlpack_device__() == (CUDA, 1)
        del batch
    assert driver.retained(0) == 0


def test_cuda_without_a_number_is_torch_s_current_device_if_there_is_one(pictures, driver, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    with loader(pictures, torch.device("cuda")) as batches:
        assert next(iter(batches))["y"].__dlpack_device__() == (CUDA, 1)
    assert driver.retained(0) == 0


def test_stream_numbers_follow_dlpack(pictures, driver):
    with loader(pictures, "cuda:0") as batches:
        batch = next(iter(batches))
        y = batch["y"]
        for stream in (None, -1, 1, 2, driver.stream()):
            y.__dlpack__(stream=stream, max_version=(1, 0))
        for stream in (0, -2):
            with pytest.raises(fb.ConfigError, match="stream"):
                y.__dlpack__(stream=stream)
        with pytest.raises(BufferError):
            y.__dlpack__(stream=1, dl_device=(1, 0))
        del batch, y


@pytest.mark.parametrize(
    ("function", "code", "error"),
    [
        ("cuMemAlloc_v2", 2, fb.FullError),
        ("cuMemHostRegister_v2", 700, fb.IoError),
        ("cuMemcpyHtoDAsync_v2", 700, fb.IoError),
        ("cuEventRecord", 700, fb.IoError),
    ],
)
def test_a_failing_device_ends_the_epoch_with_an_error(pictures, driver, function, code, error):
    with loader(pictures, "cuda:0") as batches:
        driver.fail(function, code)
        with pytest.raises(error, match=r"CUDA driver failed.*device 0"):
            for _ in batches:
                driver.run()
        # The next epoch starts normally.
        assert sum(len(batch["name"]) for batch in moving(driver, batches)) == SAMPLES


def test_no_epoch_begins_on_a_lost_device(pictures, driver):
    with loader(pictures, "cuda:0") as batches:
        assert sum(len(batch["name"]) for batch in moving(driver, batches)) == SAMPLES
        # Every query fails from now on, as after an error that the device reports with a delay.
        driver.fail("cuEventQuery", 700, nth=-1)
        with pytest.raises(fb.IoError, match=r"cuEventQuery.*device 0|device 0.*cuEventQuery"):
            iter(batches)
        driver.fail("cuEventQuery", 0, nth=0)


def test_a_loader_with_memory_that_cannot_be_pinned_works_and_warns(pictures, driver, caplog):
    (expected, _) = on_host(pictures)
    driver.fail("cuMemHostRegister_v2", 2, nth=-1)
    with loader(pictures, "cuda:0") as batches:
        for batch, host in zip(batches, expected, strict=True):
            consumers = take(driver, batch)
            assert driver.library.fake_cuda_registered() == 0 and same(consumers, host)
            del batch
            for consumer in consumers.values():
                consumer.free()
    driver.fail("", 0)
    (warning,) = [record.getMessage() for record in caplog.records if "pinned" in record.getMessage()]
    assert "ulimit -l" in warning and "`memory`" in warning


def test_an_error_names_the_missing_library(pictures, driver):
    with pytest.raises(fb.UnsupportedError, match="no CUDA device 5, this process sees 2"):
        loader(pictures, "cuda:5")
    with pytest.raises(fb.ConfigError, match='"cuda:0"'):
        loader(pictures, "gpu")
    with pytest.raises(fb.ConfigError, match="numpy's arrays are in host memory"):
        loader(pictures, "cuda:0", framework="numpy")
    with pytest.raises(fb.ConfigError, match='"cuda" is one device'):
        loader(pictures, ["cuda", "cuda"])
    driver.fail("cuInit", 100)
    with pytest.raises(fb.UnsupportedError, match="no GPU is visible to this process"):
        loader(pictures, "cuda:0")


def test_the_host_needs_no_driver_and_a_device_without_one_is_an_error(pictures, tmp_path):
    code = f"""
        import forebay as fb
        fields = {{"number": fb.Scalar("number")}}
        with fb.Loader(local={pictures!r}, fields=fields, batch_size=8, framework="dlpack") as loader:
            next(iter(loader))
        assert "libcuda" not in open("/proc/self/maps").read()
        try:
            fb.Loader(local={pictures!r}, batch_size=8, framework="dlpack", device="cuda")
        except fb.UnsupportedError as error:
            print(error)
    """
    done = alone(code, FOREBAY_CUDA_LIBRARY=str(tmp_path / "libcuda.so.1"))
    assert done.returncode == 0, done.stderr
    assert "cannot be loaded" in done.stdout and "No such file" in done.stdout and str(tmp_path) in done.stdout


def test_a_loader_that_is_never_closed_releases_its_device_before_the_process_ends(cuda_library, pictures):
    code = f"""
        import atexit, ctypes
        library = ctypes.CDLL({str(cuda_library)!r})
        atexit.register(lambda: print("released", library.fake_cuda_await_release()))
        import forebay as fb
        loader = fb.Loader(local={pictures!r}, batch_size=8, fields={{"number": fb.Scalar("number")}},
                           framework="dlpack", device="cuda")
        batches = iter(loader)
        next(batches)
    """
    done = alone(code, FOREBAY_CUDA_LIBRARY=str(cuda_library))
    assert (done.returncode, done.stdout) == (0, "released 1\n"), done.stderr


def test_a_loader_in_a_forked_child_is_an_error_and_touches_no_device(driver, pictures):
    def counts():
        # Without the stand-in's lock, which a thread may hold that the child does not have.
        return driver.library.fake_cuda_allocated(), driver.library.fake_cuda_events()

    with loader(pictures, "cuda:0") as batches:
        batch = next(iter(batches))
        assert driver.library.fake_cuda_registered() >= 2, "batch slots and read slots"
        if (child := os.fork()) == 0:
            code = 1
            try:
                before = counts()
                with pytest.raises(fb.ClosedError, match="spawn"):
                    batch["x"].__dlpack__(stream=1)
                with pytest.raises(fb.ClosedError, match="spawn"):
                    loader(pictures, "cuda:0")
                del batch, batches
                gc.collect()
                code = int(counts() != before)
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        driver.run()
        consumer = Consumer(driver, batch["x"])
        assert consumer.array().any()
        consumer.free()
        del batch


def test_a_cpu_only_torch_is_an_error_when_the_loader_is_created(pictures, driver, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.version, "cuda", None)
    with pytest.raises(fb.ConfigError, match="built without CUDA"):
        fb.Loader(local=pictures, batch_size=16, device="cuda:0", framework="torch")

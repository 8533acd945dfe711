"""JPEGs decoded on a CUDA device, with stand-ins for driver and decoder. Not yet run on a GPU."""

import io

import numpy as np
import pytest
from fake_cuda import CUDA, Consumer, Driver, NvJpeg, compile_decoder
from PIL import Image
from picture_set import SAMPLES, jpeg

import forebay as fb

NORM = fb.Normalize(fb.IMAGENET_MEAN, fb.IMAGENET_STD)
FIELDS = {
    "x": fb.Image("image", fb.RandomResizedCrop(64), fb.RandomHorizontalFlip(), NORM, dtype="float32"),
    "whole": fb.Image("image", fb.Resize(72), fb.CenterCrop(64), layout="NHWC"),
    "y": fb.Scalar("number"),
}
LEVEL = 1 / 255 / min(fb.IMAGENET_STD)
"""One grey level after the normalisation."""

NOTHING_LEFT = {"registered": 0, "allocated": 0, "events": 0}
DEFAULTS = {"shuffle": True, "batch_size": 16, "framework": "dlpack"}


@pytest.fixture(scope="session")
def libraries(cuda_library):
    return cuda_library, compile_decoder(cuda_library.parent, cuda_library)


@pytest.fixture(scope="session")
def known(libraries):
    """The decoder, with the picture set registered."""
    driver, decoder = Driver(libraries[0]), NvJpeg(libraries[1])
    for number in range(SAMPLES):
        file = jpeg(number)
        decoder.add(file, np.asarray(Image.open(io.BytesIO(file)).convert("RGB")))
    return driver, decoder


@pytest.fixture
def device(known, libraries, monkeypatch):
    """Driver and decoder; after the test everything must have been released."""
    monkeypatch.setenv("FOREBAY_CUDA_LIBRARY", str(libraries[0]))
    monkeypatch.setenv("FOREBAY_NVJPEG_LIBRARY", str(libraries[1]))
    driver, decoder = known
    decoder.engines(2)
    driver.waits_move(True)
    yield driver, decoder
    left = driver.left()
    driver.waits_move(False)
    assert left == NOTHING_LEFT and decoder.live() == 0


def loader(folder, name, device_decode=False, share_decode=False, **kwargs):
    engine = fb.Engine(memory="64mb", device_decode=device_decode, share_decode=share_decode)
    return fb.Loader(local=folder, device=name, engine=engine, **{**DEFAULTS, "fields": FIELDS, **kwargs})


def epochs_on_host(folder):
    with loader(folder, "cpu", framework="numpy") as batches:
        return [[{name: value.copy() for name, value in batch.items()} for batch in batches] for _ in range(2)]


def compare(driver, batch, host):
    for name, tolerance in (("x", LEVEL * 1.01), ("whole", 1), ("y", 0)):
        consumer = Consumer(driver, batch[name])
        assert consumer.device == (CUDA, 0)
        got, want = consumer.array(), host[name]
        assert got.shape == want.shape and np.abs(got.astype("f8") - want).max() <= tolerance, name
        consumer.free()


def compare_all(driver, batches, hosts):
    """An epoch of `batches`, each dropped before the next is taken."""
    for batch, host in zip(batches, hosts, strict=True):
        compare(driver, batch, host)
        del batch


@pytest.mark.parametrize("engines", [0, 2])
def test_crops_flips_and_pixels_equal_the_host_s(pictures, device, engines):
    driver, decoder = device
    decoder.engines(engines)
    with loader(pictures, "cuda:0", device_decode=True) as batches:
        for epoch in epochs_on_host(pictures):
            compare_all(driver, batches, epoch)
        stats = batches.stats()
    assert stats["counters"]["pictures_on_device"] == 2 * 2 * SAMPLES
    assert (stats["counters"]["pictures_on_engines"] > 0) == (engines > 0)
    assert stats["counters"]["device_decode_fallbacks"] == (engines == 0)
    assert any("nvJPEG 12.4" in note for note in stats["notes"])


def test_boxes_with_a_value_are_erased_by_the_device_and_noise_by_the_host(pictures, device):
    driver, decoder = device
    some, all_ = fb.RandomErasing(0.5, value=0.75), fb.RandomErasing(1.0, value=(7, 250, 9))
    erased = {
        "x": fb.Image("image", fb.RandomResizedCrop(64), NORM, some, dtype="float32"),
        "whole": fb.Image("image", fb.Resize(72), fb.CenterCrop(64), all_, layout="NHWC"),
        "y": FIELDS["y"],
    }
    with loader(pictures, "cpu", framework="numpy", fields=erased) as batches:
        host = [{name: value.copy() for name, value in batch.items()} for batch in batches]
    assert all((batch["whole"] == (7, 250, 9)).all(-1).any((1, 2)).all() for batch in host)
    with loader(pictures, "cuda:0", device_decode=True, fields=erased) as batches:
        compare_all(driver, batches, host)
        assert batches.stats()["counters"]["pictures_on_device"] == 2 * SAMPLES
        assert batches.stats()["counters"]["pictures_not_for_device"] == 0
    twice = fb.Image("image", fb.RandomResizedCrop(64), NORM, some, some, dtype="float32")
    noise = fb.Image("image", fb.RandomResizedCrop(64), NORM, fb.RandomErasing(1.0, value="random"), dtype="float32")
    fields = {"x": twice, "whole": FIELDS["whole"], "noise": noise, "y": FIELDS["y"]}
    with loader(pictures, "cpu", framework="numpy", fields=fields) as batches:
        host = [{name: value.copy() for name, value in batch.items()} for batch in batches]
    with loader(pictures, "cuda:0", device_decode=True, fields=fields) as batches:
        compare_all(driver, batches, host)
        counters = batches.stats()["counters"]
    not_for_device = counters["pictures_not_for_device"] - SAMPLES
    assert 0 < not_for_device < SAMPLES / 2 and counters["pictures_on_device"] == 2 * SAMPLES - not_for_device


def test_pictures_that_the_device_rejects_are_decoded_on_the_host_into_their_rows(pictures, device):
    driver, decoder = device
    with loader(pictures, "cuda:0", device_decode=True) as batches:
        decoder.fail("nvjpegDecodeBatchedEx", 3, nth=4)
        compare_all(driver, batches, epochs_on_host(pictures)[0])


def test_pictures_that_the_device_accepts_and_does_not_decode_are_decoded_on_the_host(tmp_path, device, caplog):
    driver, decoder = device
    left_out = range(0, SAMPLES, 7)
    with fb.MDSWriter(out=str(tmp_path / "data"), columns={"image": "jpeg", "number": "int"}) as writer:
        for number in range(SAMPLES):
            file = jpeg(number)
            if number in left_out:
                file = file[:2] + b"\xff\xfe\x00\x0bUNDECODED" + file[2:]
                decoder.add(file, np.asarray(Image.open(io.BytesIO(file)).convert("RGB")))
            writer.write({"image": file, "number": number})
    with loader(tmp_path / "data", "cuda:0", device_decode=True) as batches:
        for epoch in epochs_on_host(tmp_path / "data"):
            compare_all(driver, batches, epoch)
        counters = batches.stats()["counters"]
    assert counters["pictures_refused"] == 2 * 2 * len(left_out)
    assert counters["pictures_on_device"] == 2 * 2 * (SAMPLES - len(left_out))
    (warning,) = [record.getMessage() for record in caplog.records if "leaves pictures" in record.getMessage()]
    assert "decoded on the host" in warning


def test_pictures_shared_with_decode_threads_equal_the_host_s(pictures, device):
    driver, _ = device
    with loader(pictures, "cuda:0", device_decode=True, share_decode=True) as batches:
        for epoch in epochs_on_host(pictures):
            compare_all(driver, batches, epoch)
        counters = batches.stats()["counters"]
    assert counters["pictures_on_device"] + counters["pictures_shared"] == 2 * 2 * SAMPLES


def test_pictures_that_the_device_rejects_are_counted_and_logged(tmp_path, pictures, device, caplog):
    driver, _ = device
    with fb.MDSWriter(out=str(tmp_path / "data"), columns={"image": "jpeg", "number": "int"}) as writer:
        for number in range(64):
            out = io.BytesIO()
            Image.open(io.BytesIO(jpeg(number))).save(out, "JPEG", progressive=number % 2 == 0)
            writer.write({"image": out.getvalue(), "number": number})
    fields = {"whole": FIELDS["whole"], "small": fb.Image("image", fb.Resize(72), fb.CenterCrop(64), fb.Resize((32, 32)))}
    with loader(tmp_path / "data", "cuda:0", device_decode=True, fields=fields) as batches:
        for batch in batches:
            del batch
        counters = batches.stats()["counters"]
    # The stand-in rejects files that are not registered.
    assert counters["pictures_refused"] == 32 and counters["pictures_not_for_device"] == 32 + 64
    with loader(pictures, "cuda:0", device_decode=True, fields={"all": fb.Image("image")}) as batches:
        next(iter(batches))
        assert any("device_decode has no effect" in note for note in batches.stats()["notes"])
    assert any("device_decode has no effect" in record.getMessage() for record in caplog.records)


def test_without_the_library_the_host_decodes_and_logs_it_once(pictures, device, monkeypatch, tmp_path, caplog):
    driver, _ = device
    monkeypatch.setenv("FOREBAY_NVJPEG_LIBRARY", str(tmp_path / "libnvjpeg.so.12"))
    with loader(pictures, "cuda:0", device_decode=True) as batches:
        for epoch in epochs_on_host(pictures):
            compare_all(driver, batches, epoch)
        counters = batches.stats()["counters"]
    assert counters["device_decode_fallbacks"] == 1 and counters["pictures_on_device"] == 0
    (warning,) = [record.getMessage() for record in caplog.records if "decoded on the host" in record.getMessage()]
    assert "nvidia-nvjpeg" in warning


def test_the_host_decodes_if_the_device_has_no_memory_for_decoding(pictures, device):
    driver, decoder = device
    with loader(pictures, "cuda:0", device_decode=True) as batches:
        decoder.fail("nvjpegDecodeBatchedEx", 5, nth=3)
        compare_all(driver, batches, epochs_on_host(pictures)[0])
        assert batches.stats()["counters"]["device_decode_fallbacks"] == 1


def test_a_lost_device_ends_the_epoch_with_an_error(pictures, device):
    driver, _ = device
    with loader(pictures, "cuda:0", device_decode=True) as batches:
        driver.fail("cuLaunchKernel", 700, nth=5)
        with pytest.raises(fb.IoError, match=r"cuLaunchKernel.*device 0|device 0.*cuLaunchKernel"):
            for batch in batches:
                del batch


def test_a_loader_that_is_closed_early_releases_everything(pictures, device):
    driver, _ = device
    batches = loader(pictures, "cuda:0", device_decode=True)
    first = next(iter(batches))
    consumer = Consumer(driver, first["y"])
    batches.close()
    del first
    assert consumer.array().shape == (16,)
    consumer.free()


def test_the_argument_is_true_or_false(pictures):
    with pytest.raises(fb.ConfigError, match="device_decode is True or False"):
        loader(pictures, "cpu", device_decode="nvjpeg")
    with pytest.raises(fb.ConfigError, match="share_decode is True or False"):
        loader(pictures, "cpu", share_decode=2)
    with pytest.raises(fb.ConfigError, match="share_decode shares the pictures that engine.device_decode leaves"):
        loader(pictures, "cpu", share_decode=True)


def compare_exactly(driver, folder, fields, on_device):
    """Compares an epoch with the host's, and the number of pictures that the device decoded."""
    with loader(folder, "cpu", framework="numpy", fields=fields) as batches:
        hosts = [{name: value.copy() for name, value in batch.items()} for batch in batches]
    with loader(folder, "cuda:0", device_decode=True, fields=fields) as batches:
        for batch, host in zip(batches, hosts, strict=True):
            for name, want in host.items():
                consumer = Consumer(driver, batch[name])
                if name != "whole":
                    assert np.array_equal(consumer.array(), want), name
                consumer.free()
            del batch, consumer
        assert batches.stats()["counters"]["pictures_on_device"] == on_device


def test_augmented_pictures_are_decoded_on_the_host_and_unchanged_ones_on_the_device(pictures, device):
    driver, _ = device
    crop = fb.RandomResizedCrop(32)
    for op in (fb.TrivialAugmentWide(), fb.RandomApply([fb.RandomInvert()], 0.1)):
        fields = {"x": fb.Image("image", crop, op, NORM), "whole": FIELDS["whole"]}
        compare_exactly(driver, pictures, fields, SAMPLES)


def test_batches_that_are_mixed_are_complete_on_the_host_first(pictures, device):
    driver, _ = device
    image = fb.Image("image", fb.RandomResizedCrop(32), NORM)
    fields = {"mix": fb.Mix([fb.MixUp(), fb.CutMix()], x=image, y=fb.OneHot("class", 7)), "number": fb.Scalar("number")}
    compare_exactly(driver, pictures, fields, 0)

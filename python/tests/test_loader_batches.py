"""Contents of the batches of forebay.Loader, and the owner of their memory."""

import gc
import io
import itertools
import os
import random
import signal
import threading

import numpy as np
import PIL.Image
import pytest
from loaders import NUMBER, ordered
from picture_set import SAMPLES, jpeg

import forebay as fb

torch = pytest.importorskip("torch")


def test_without_fields_every_column_is_delivered_under_its_name(pictures):
    with fb.Loader(local=pictures, batch_size=8) as loader:
        batch = next(iter(loader))
    assert set(batch) == {"class", "image", "name", "number"}
    assert batch["number"].tolist() == list(range(8))
    assert batch["name"] == [f"picture {i}" for i in range(8)]
    assert all(isinstance(b, bytes) and b[:2] == b"\xff\xd8" for b in batch["image"])


def test_torch_and_numpy_share_the_memory_of_a_batch(pictures):
    fields = {"x": fb.Image("image", fb.Resize((8, 10)), layout="NHWC"), **NUMBER}
    common = {"local": pictures, "batch_size": 4, "fields": fields}
    with fb.Loader(framework="torch", **common) as loader:
        as_torch = next(iter(loader))
    with fb.Loader(framework="numpy", **common) as loader:
        as_numpy = next(iter(loader))
    with fb.Loader(framework="dlpack", **common) as loader:
        raw = next(iter(loader))
    assert isinstance(as_numpy["x"], np.ndarray) and as_numpy["x"].shape == (4, 8, 10, 3)
    assert (as_torch["x"].numpy() == as_numpy["x"]).all()
    assert raw["x"].shape == (4, 8, 10, 3) and raw["x"].dtype == "uint8" and raw["x"].__dlpack_device__() == (1, 0)
    assert torch.equal(torch.from_dlpack(raw["x"]), as_torch["x"])
    raw["x"].__dlpack__()
    with pytest.raises(BufferError):
        raw["x"].__dlpack__(copy=True)
    with pytest.raises(fb.ConfigError, match="framework"):
        fb.Loader(framework="mxnet", **common)


def test_a_batch_outlives_its_loader(pictures):
    with fb.Loader(local=pictures, batch_size=4, fields={"x": fb.Image("image", fb.Resize((8, 8)))}) as loader:
        kept = [b["x"] for b in loader]
        copies = [x.clone() for x in kept]
    del loader
    gc.collect()
    assert all(torch.equal(a, b) for a, b in zip(kept, copies))


@pytest.mark.parametrize("framework", ["torch", "numpy", "dlpack"])
def test_pictures_without_a_fixed_size_are_lists(pictures, framework):
    fields = {"x": fb.Image("image"), "small": fb.Image("image", fb.Resize(20), dtype="float32", layout="NHWC")}
    with fb.Loader(local=pictures, batch_size=4, fields=fields, framework=framework) as loader:
        batch = next(iter(loader))
    for number, (x, small) in enumerate(zip(batch["x"], batch["small"])):
        expected = np.asarray(PIL.Image.open(io.BytesIO(jpeg(number)))).transpose(2, 0, 1)
        assert isinstance(x, torch.Tensor if framework == "torch" else np.ndarray)
        assert x.shape == expected.shape and np.abs(np.asarray(x).astype(int) - expected).max() <= 2
        assert min(small.shape[:2]) == 20 and small.shape[2] == 3 and str(small.dtype).endswith("float32")
        # The batch owns its memory, so it can be written.
        x[0, 0, 0] = 1


def test_the_first_bytes_of_a_picture_determine_its_format(tmp_path):
    forms = [("JPEG", {}), ("PNG", {}), ("WEBP", {"quality": 70}), ("WEBP", {"lossless": True})]
    files = []
    for number, (form, options) in enumerate(forms):
        out = io.BytesIO()
        PIL.Image.open(io.BytesIO(jpeg(number))).save(out, form, **options)
        files.append(out.getvalue())
    with fb.MDSWriter(out=tmp_path, columns={"image": "bytes"}) as writer:
        for file in files:
            writer.write({"image": file})
    with fb.Loader(local=tmp_path, batch_size=4, fields={"x": fb.Image("image", layout="NHWC")}) as loader:
        batch = next(iter(loader))
    for file, x in zip(files, batch["x"]):
        assert np.array_equal(x, PIL.Image.open(io.BytesIO(file)).convert("RGB"))


def test_large_pictures_may_be_decoded_smaller_as_pillow_drafts_them(tmp_path):
    photo = np.random.default_rng(3).integers(0, 256, (30, 40, 3), np.uint8)
    file = io.BytesIO()
    PIL.Image.fromarray(photo).resize((640, 480), PIL.Image.Resampling.BICUBIC).save(file, "JPEG", quality=90)
    with fb.MDSWriter(out=tmp_path, columns={"image": "jpeg"}) as writer:
        writer.write({"image": file.getvalue()})
    for height, width in [(200, 300), (110, 150), (50, 75), (300, 400)]:
        resize = fb.Resize((height, width))
        fields = {
            "exact": fb.Image("image", resize, layout="NHWC"),
            "scaled": fb.Image("image", resize, layout="NHWC", scaled_decode=True),
        }
        with fb.Loader(local=tmp_path, batch_size=1, shuffle=False, fields=fields, framework="numpy") as loader:
            (batch,) = loader
            pictures_scaled = loader.stats()["counters"]["pictures_scaled"]
        picture = PIL.Image.open(file)
        picture.draft("RGB", (width, height))
        was_drafted = picture.size != (640, 480)
        expected = np.asarray(picture.resize((width, height), PIL.Image.Resampling.BILINEAR), np.int16)
        assert abs(batch["scaled"][0] - expected).max() <= 2, (height, width)
        assert (batch["scaled"] != batch["exact"]).any() == was_drafted == bool(pictures_scaled)


def test_pictures_without_a_fixed_size_may_have_half_precision(pictures):
    fields = {"x": fb.Image("image", dtype="bfloat16")}
    with fb.Loader(local=pictures, batch_size=2, fields=fields) as loader:
        assert next(iter(loader))["x"][0].dtype == torch.bfloat16
    with fb.Loader(local=pictures, batch_size=2, fields=fields, framework="dlpack") as loader:
        with pytest.raises(fb.ConfigError, match="bfloat16"):
            next(iter(loader))


def test_arrays_of_varying_shape_are_lists(tmp_path):
    arrays = [np.arange(6, dtype=np.int16).reshape(2, 3), np.array([2.5]), np.ones((1, 4, 2), np.uint8)]
    with fb.MDSWriter(out=tmp_path, columns={"a": "ndarray"}) as writer:
        for array in arrays:
            writer.write({"a": array})
    for framework in ("torch", "numpy"):
        with fb.Loader(local=tmp_path, batch_size=3, framework=framework) as loader:
            for got, array in zip(next(iter(loader))["a"], arrays):
                assert str(got.dtype).removeprefix("torch.") == array.dtype.name and np.array_equal(np.asarray(got), array)
                assert tuple(got.shape) == array.shape


@pytest.mark.parametrize("encoding", ["jpeg_array", "list[jpeg]"])
def test_the_pictures_of_a_list_are_one_array_per_sample(tmp_path, encoding):
    with fb.MDSWriter(out=tmp_path, columns={"frames": encoding}) as writer:
        for number in range(4):
            writer.write({"frames": [jpeg(number)] * (number + 1)})
    cut = fb.Image("frames", fb.RandomResizedCrop(16), fb.RandomHorizontalFlip())
    with fb.Loader(local=tmp_path, batch_size=4, fields={"whole": fb.Image("frames"), "cut": cut}) as loader:
        batch = next(iter(loader))
    for number, (whole, frames) in enumerate(zip(batch["whole"], batch["cut"])):
        expected = np.asarray(PIL.Image.open(io.BytesIO(jpeg(number))).convert("RGB")).transpose(2, 0, 1)
        assert whole.shape == (number + 1, *expected.shape) and (whole.numpy() == expected).all()
        assert frames.shape == (number + 1, 3, 16, 16) and (frames == frames[0]).all()


def test_a_picture_that_lacks_only_its_end_marker_has_pillows_pixels(tmp_path):
    files = [jpeg(number) for number in range(4)]
    assert all(file.endswith(b"\xff\xd9") for file in files)
    with fb.MDSWriter(out=tmp_path, columns={"image": "jpeg"}) as writer:
        for number, file in enumerate(files):
            writer.write({"image": file[:-2] + bytes(9 * number)})
    with fb.Loader(local=tmp_path, batch_size=4, fields={"x": fb.Image("image")}) as loader:
        batch = next(iter(loader))
    for x, file in zip(batch["x"], files):
        assert (x.numpy() == np.asarray(PIL.Image.open(io.BytesIO(file)).convert("RGB")).transpose(2, 0, 1)).all()


def test_a_transform_runs_on_each_batch(pictures):
    with ordered(pictures, transform=lambda batch: batch["number"].sum().item()) as loader:
        assert sum(loader) == sum(range(SAMPLES))


def test_bytes_columns_are_delivered_complete_from_memory_and_from_disk(tmp_path):
    """A single column is read directly into the objects, two are not, and samples that are not in the page cache take a
    third path."""
    rows = [bytes([i % 251]) * (i * 37 % 5000) for i in range(200)]
    for name, columns in {"one": {"b": "bytes", "n": "int"}, "two": {"b": "bytes", "n": "int", "s": "str"}}.items():
        folder = tmp_path / name
        with fb.MDSWriter(out=str(folder), columns=columns, size_limit=1 << 16) as writer:
            for i, row in enumerate(rows):
                writer.write({"b": row, "n": i, "s": "x" * (i % 3)} if name == "two" else {"b": row, "n": i})
        for cold in (False, True):
            for shard in folder.glob("*.mds") if cold else ():
                with open(shard, "rb") as file:
                    os.fsync(file.fileno())
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            seen = {}
            with fb.Loader(local=folder, batch_size=16, shuffle=True) as loader:
                for batch in loader:
                    assert all(type(row) is bytes for row in batch["b"])
                    seen.update(zip(batch["n"].tolist(), batch["b"], strict=True))
            assert [seen[i] for i in range(200)] == rows, (name, cold)


def test_a_mask_with_different_crops_than_its_picture_is_rejected(pictures):
    crop = fb.RandomResizedCrop(16)
    wrong = fb.Joint(x=fb.Image("image", crop, fb.RandomHorizontalFlip()), m=fb.Mask("image", crop))
    with pytest.raises(fb.ConfigError, match="same random operations.*both"):
        fb.Loader(local=pictures, batch_size=4, fields={"both": wrong})
    right = fb.Joint(x=fb.Image("image", crop), small=fb.Image("image", fb.RandomResizedCrop(4)))
    with fb.Loader(local=pictures, batch_size=4, fields={"both": right}) as loader:
        assert next(iter(loader))["small"].shape == (4, 3, 4, 4)


def test_a_batch_that_could_not_be_converted_is_delivered_again(pictures):
    with fb.Loader(local=pictures, batch_size=4, framework="numpy", fields={"n": fb.Scalar("number")}) as loader:
        expected = [batch["n"].tolist() for batch in loader]
        convert, calls = loader._maker.convert, []

        def fails_once(value):
            calls.append(value)
            if len(calls) == 2:
                raise RuntimeError("out of memory")
            return convert(value)

        loader._maker.convert = fails_once
        batches = iter(loader)
        assert next(batches)["n"].tolist() == expected[0]
        one = loader.state_dict()
        with pytest.raises(RuntimeError, match="out of memory"):
            next(batches)
        assert loader.state_dict() == one, "the second batch was not delivered"
        assert [batch["n"].tolist() for batch in batches] == expected[1:]


@pytest.mark.parametrize("is_last", [False, True])
def test_threads_that_share_an_iterator_lose_no_batch_that_could_not_be_converted(pictures, is_last):
    with fb.Loader(local=pictures, batch_size=4, framework="numpy", fields={"n": fb.Scalar("number")}) as loader:
        expected = [batch["n"].tolist() for batch in loader]
        position = len(expected) - 1 if is_last else 1
        convert, converting, go_on = loader._maker.convert, threading.Event(), threading.Event()

        def fails_late(value):
            loader._maker.convert = convert
            converting.set()
            assert go_on.wait(600)
            raise RuntimeError("out of memory")

        batches = iter(loader)
        found = [next(batches)["n"].tolist() for _ in range(position)]
        loader._maker.convert = fails_late
        errors = []

        def take():
            with pytest.raises(RuntimeError, match="out of memory"):
                next(batches)
            errors.append(True)

        taker = threading.Thread(target=take)
        taker.start()
        assert converting.wait(600)
        # This thread is ahead of it, or at the end.
        ahead = [batch["n"].tolist() for batch in [next(batches, None)] if batch is not None]
        assert ahead == expected[position + 1 : position + 2]
        go_on.set()
        taker.join()
        assert errors
        with pytest.raises(fb.StateError, match="from the iterator first"):
            loader.state_dict()
        found.append(next(batches)["n"].tolist())
        loader.state_dict()
        assert found + ahead + [batch["n"].tolist() for batch in batches] == expected


def test_an_interrupt_while_a_batch_is_waited_for_loses_none(tmp_path):
    count = 40_000
    with fb.MDSWriter(out=tmp_path, columns={"n": "int"}) as writer:
        for i in range(count):
            writer.write({"n": i})

    def interrupts(number, frame):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupts)
    found, interrupted = [], 0
    try:
        with fb.Loader(local=tmp_path, batch_size=400, framework="numpy", threads=1, engine=fb.Engine(prefetch=1)) as loader:
            batches = iter(loader)
            is_over = False
            while not is_over:
                known = len(found)
                try:
                    signal.setitimer(signal.ITIMER_REAL, random.uniform(0.00005, 0.002))
                    # In one step: an interrupt between two would lose a batch in this test itself.
                    found.extend(itertools.islice(batches, 1))
                    signal.setitimer(signal.ITIMER_REAL, 0)
                    is_over = len(found) == known
                except KeyboardInterrupt:
                    interrupted += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert interrupted
    assert [n for batch in found for n in batch["n"].tolist()] == list(range(count))


@pytest.mark.parametrize("device", [0, b"cuda:0", None, True, 1.5])
def test_a_device_that_is_not_a_name_is_an_error(pictures, device):
    with pytest.raises(fb.ConfigError, match='device is a name such as "cpu" or "cuda:0"'):
        fb.Loader(local=pictures, batch_size=4, device=device)


def test_torch_s_name_for_the_host_is_accepted(pictures):
    with fb.Loader(local=pictures, batch_size=4, device=torch.device("cpu", 0), fields={"n": fb.Scalar("number")}) as loader:
        assert next(iter(loader))["n"].device == torch.device("cpu")


def test_a_wrong_argument_is_an_error_before_a_device_is_opened(pictures):
    with pytest.raises(fb.ConfigError, match="share_decode"):
        fb.Loader(local=pictures, batch_size=4, framework="dlpack", device="cuda:99", engine=fb.Engine(share_decode=True))


def test_an_epoch_without_a_batch_is_a_warning(pictures):
    with fb.Loader(local=pictures, batch_size=SAMPLES + 1, drop_last=True) as loader:
        with pytest.warns(UserWarning, match="no batch.*batch_size"):
            assert list(loader) == []

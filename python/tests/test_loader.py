"""forebay.Loader as API and README promise it."""

import gc
import http.server
import io
import json
import logging
import os
import pickle
import signal
import socket
import subprocess
import sys
import textwrap
import threading

import numpy as np
import PIL.Image
import pytest
from picture_set import CLASSES, SAMPLES, jpeg, write_pictures

import forebay as fb

torch = pytest.importorskip("torch")

NUMBER = {"number": fb.Scalar("number")}


def numbers(loader):
    """The samples of an epoch, batch by batch."""
    return [batch["number"].tolist() for batch in loader]


def ordered(folder, **kwargs):
    kwargs.setdefault("batch_size", 16)
    return fb.Loader(local=folder, fields=NUMBER, **kwargs)


def test_the_example_of_the_contract_runs(packed, tmp_path):
    """The example of API and README, smaller: same calls, same shapes of use."""
    model = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(3, CLASSES))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    norm = fb.Normalize(fb.IMAGENET_MEAN, fb.IMAGENET_STD)
    remote, split = os.path.split(packed)
    checkpoint = tmp_path / "ckpt.pt"
    train = fb.Loader(
        remote=remote,
        split=split,
        streams=None,
        local=tmp_path / "train",
        fields={
            "x": fb.Image("image", fb.RandomResizedCrop(32), fb.RandomHorizontalFlip(), norm, dtype="float32", layout="NCHW"),
            "y": fb.Scalar("class", dtype="int64"),
        },
        transform=None,
        framework="torch",
        batch_size=32,
        drop_last=False,
        mark_repeats=False,
        shuffle=True,
        shuffle_seed=9176,
        augment_seed=None,
        shuffle_algo="py1e",
        shuffle_block_size=None,
        partition_algo="relaxed",
        num_canonical_nodes=None,
        replication=None,
        epoch_size=None,
        sampling_method="balanced",
        sampling_granularity=1,
        batching_method="random",
        device="cpu",
        rank=None,
        world_size=None,
        local_rank=None,
        local_world_size=None,
        threads=None,
        prefetch=3,
        memory="256mb",
        predownload=None,
        cache_limit=None,
        keep_zip=False,
        validate_hash=None,
        download_retry=2,
        download_timeout=60.0,
        stall_timeout=600.0,
        on_error="raise",
        max_errors=0,
        allow_unsafe_types=False,
    )
    val = fb.Loader(
        remote=remote,
        split=split,
        local=tmp_path / "val",
        batch_size=32,
        mark_repeats=True,
        memory="256mb",
        fields={"x": fb.Image("image", fb.Resize(40), fb.CenterCrop(32), norm), "y": fb.Scalar("class")},
    )
    for epoch in range(train.epoch, 2):
        assert train.epoch == epoch
        seen = 0
        for step, b in enumerate(train):
            assert b["x"].shape[1:] == (3, 32, 32) and b["x"].dtype == torch.float32 and b["y"].dtype == torch.int64
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(model(b["x"]), b["y"]).backward()
            optimiser.step()
            seen += len(b["y"])
            if step == 3:
                torch.save({"model": model.state_dict(), "loader": train.state_dict()}, checkpoint)
        assert seen == SAMPLES and step + 1 == len(train)
        with torch.no_grad():
            hits = sum(int(((model(b["x"]).argmax(1) == b["y"]) & ~b["repeat"]).sum()) for b in val)
        assert 0 <= hits <= SAMPLES
    train.load_state_dict(torch.load(checkpoint)["loader"])
    assert train.epoch == 1
    assert sum(len(b["y"]) for b in train) == SAMPLES - 4 * 32
    train.close()
    val.close()


def test_an_unshuffled_epoch_is_the_data_in_its_order(pictures):
    with ordered(pictures) as loader:
        batches = numbers(loader)
        assert sum(batches, []) == list(range(SAMPLES))
        assert [len(b) for b in batches] == [16] * 12 + [8] and len(loader) == 13
    with ordered(pictures, drop_last=True) as loader:
        assert [len(b) for b in numbers(loader)] == [16] * 12 and len(loader) == 12


def test_the_order_is_the_reference_s(pictures):
    streaming = pytest.importorskip("streaming")
    streaming.base.util.clean_stale_shared_memory()
    for algo in ("py1e", "py1br", "py1s", "py2s", "naive"):
        common = {"shuffle": True, "shuffle_algo": algo, "shuffle_seed": 3, "num_canonical_nodes": 2}
        theirs = streaming.StreamingDataset(local=pictures, batch_size=16, **common)
        with ordered(pictures, **common) as loader:
            for epoch in range(2):
                assert sum(numbers(loader), []) == [sample["number"] for sample in theirs], (algo, epoch)
        del theirs


def test_ranks_share_an_epoch_and_a_device_list_is_ranks(pictures):
    world = {"world_size": 2, "local_world_size": 2, "shuffle": True, "num_canonical_nodes": 2}
    parts = []
    for rank in range(2):
        with ordered(pictures, rank=rank, local_rank=rank, **world) as loader:
            parts.append(numbers(loader))
    assert sorted(sum(sum(parts, []), [])) == list(range(SAMPLES))
    with ordered(pictures, device=["cpu", "cpu"], shuffle=True, num_canonical_nodes=2) as loader:
        assert [[b["number"].tolist() for b in both] for both in loader] == [list(pair) for pair in zip(*parts)]


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_checkpoint_resumes_on_another_number_of_ranks(pictures, ranks):
    order = {"shuffle": True, "num_canonical_nodes": 2, "shuffle_seed": 5}
    with ordered(pictures, **order) as loader:
        whole = numbers(loader)
    with ordered(pictures, **order) as loader:
        batches = iter(loader)
        for _ in range(4):
            next(batches)
        state = loader.state_dict()
    assert len(json.dumps(state)) < 1000
    assert {"epoch": 0, "sample_in_epoch": 64, "num_canonical_nodes": 2, "shuffle_seed": 5}.items() <= state.items()
    rest = []
    for rank in range(ranks):
        place = {"rank": rank, "world_size": ranks, "local_rank": rank, "local_world_size": ranks}
        with ordered(pictures, batch_size=16 // ranks, **place, **order) as loader:
            loader.load_state_dict(state, strict=ranks == 1)
            rest.append(numbers(loader))
            assert loader.epoch == 1
    for number, parts in enumerate(zip(*rest)):
        assert sorted(sum(parts, [])) == sorted(whole[4 + number])


def test_a_state_of_another_plan_is_refused_with_the_arguments_that_differ(pictures):
    with ordered(pictures, shuffle=True) as loader:
        state = loader.state_dict()
    with ordered(pictures, shuffle=True, shuffle_algo="naive") as loader:
        with pytest.raises(fb.StateError, match="shuffle_algo"):
            loader.load_state_dict(state)
        loader.load_state_dict(state, strict=False)
    with ordered(pictures) as loader, pytest.raises(fb.StateError):
        loader.load_state_dict({"epoch": "one"})


def test_break_ends_an_epoch_and_an_old_iterator_says_so(pictures):
    with ordered(pictures, shuffle=True) as loader:
        first = iter(loader)
        next(first)
        assert loader.epoch == 1
        second = iter(loader)
        with pytest.raises(fb.ClosedError, match="only one is alive"):
            next(first)
        assert len(list(second)) == 13
        with pytest.raises(StopIteration):
            next(second)
        assert loader.epoch == 2


def test_without_fields_every_column_comes_under_its_name(pictures):
    with fb.Loader(local=pictures, batch_size=8) as loader:
        batch = next(iter(loader))
    assert set(batch) == {"class", "image", "name", "number"}
    assert batch["number"].tolist() == list(range(8))
    assert batch["name"] == [f"picture {i}" for i in range(8)]
    assert all(isinstance(b, bytes) and b[:2] == b"\xff\xd8" for b in batch["image"])


def test_frameworks_see_the_same_memory(pictures):
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
def test_pictures_without_a_fixed_size_come_one_by_one(pictures, framework):
    fields = {"x": fb.Image("image"), "small": fb.Image("image", fb.Resize(20), dtype="float32", layout="NHWC")}
    with fb.Loader(local=pictures, batch_size=4, fields=fields, framework=framework) as loader:
        batch = next(iter(loader))
    for number, (x, small) in enumerate(zip(batch["x"], batch["small"])):
        expected = np.asarray(PIL.Image.open(io.BytesIO(jpeg(number)))).transpose(2, 0, 1)
        assert isinstance(x, torch.Tensor if framework == "torch" else np.ndarray)
        assert x.shape == expected.shape and np.abs(np.asarray(x).astype(int) - expected).max() <= 2
        assert min(small.shape[:2]) == 20 and small.shape[2] == 3 and str(small.dtype).endswith("float32")
        # One's own memory: it can be written.
        x[0, 0, 0] = 1


def test_half_precision_pictures_without_a_fixed_size(pictures):
    fields = {"x": fb.Image("image", dtype="bfloat16")}
    with fb.Loader(local=pictures, batch_size=2, fields=fields) as loader:
        assert next(iter(loader))["x"][0].dtype == torch.bfloat16
    with fb.Loader(local=pictures, batch_size=2, fields=fields, framework="numpy") as loader:
        with pytest.raises(fb.ConfigError, match="bfloat16"):
            next(iter(loader))


def test_arrays_of_any_shape_come_one_by_one(tmp_path):
    arrays = [np.arange(6, dtype=np.int16).reshape(2, 3), np.array([2.5]), np.ones((1, 4, 2), np.uint8)]
    with fb.MDSWriter(out=tmp_path, columns={"a": "ndarray"}) as writer:
        for array in arrays:
            writer.write({"a": array})
    for framework in ("torch", "numpy"):
        with fb.Loader(local=tmp_path, batch_size=3, framework=framework) as loader:
            for got, array in zip(next(iter(loader))["a"], arrays):
                assert str(got.dtype).removeprefix("torch.") == array.dtype.name and np.array_equal(np.asarray(got), array)
                assert tuple(got.shape) == array.shape


def test_what_takes_a_dataloader_is_told_to_leave_it_out(pictures):
    from torch.utils.data import DataLoader

    with ordered(pictures) as loader:
        with pytest.raises(TypeError, match="leave out the DataLoader"):
            next(iter(DataLoader(loader, batch_size=None)))
        with pytest.raises(TypeError, match="state_dict"):
            pickle.dumps(loader)
    assert repr(loader) == "<forebay.Loader, closed>"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"batch_size": "16"}, "batch_size is a whole number"),
        ({"batch_size": 16.5}, "batch_size is a whole number"),
        ({"shuffle_seed": -1}, "shuffle_seed is a whole number"),
        ({"stall_timeout": "1m"}, "stall_timeout is a number of seconds"),
        ({"shuffle": "yes"}, "shuffle is True or False"),
        ({"on_error": "ignore"}, "on_error is"),
        ({"memory": "lots"}, "memory is a number of bytes"),
        ({"local": None, "streams": ["folder"]}, "streams is a list of forebay.Stream"),
        ({"fields": {"x": fb.Image("image", fb.Resize("8"))}}, "whole number of pixels"),
        ({"fields": {"x": fb.Image("image", fb.Normalize([0.5], [0.5]))}}, "three channels"),
        ({"fields": {"x": fb.Scalar("class", dtype="int")}}, "'int' is no type of a field"),
    ],
)
def test_an_argument_of_the_wrong_type_is_named(pictures, wrong, said):
    with pytest.raises(fb.ConfigError, match=said):
        fb.Loader(**{"local": pictures, "batch_size": 4, **wrong})


def test_numbers_and_types_of_numpy_and_torch_are_taken(pictures):
    fields = {
        "x": fb.Image("image", fb.Resize((np.int64(8), 8)), dtype=torch.float16),
        "y": fb.Scalar("class", dtype=np.int32),
        "z": fb.Scalar("class", dtype=np.dtype("float32")),
    }
    with fb.Loader(local=pictures, batch_size=np.int64(4), shuffle=np.bool_(False), fields=fields) as loader:
        batch = next(iter(loader))
    assert [batch[name].dtype for name in "xyz"] == [torch.float16, torch.int32, torch.float32]


def test_a_transform_runs_on_each_batch(pictures):
    with ordered(pictures, transform=lambda batch: batch["number"].sum().item()) as loader:
        assert sum(loader) == sum(range(SAMPLES))


def test_augmentation_does_not_depend_on_threads_or_resumption(pictures):
    fields = {"x": fb.Image("image", fb.RandomResizedCrop(12), fb.RandomHorizontalFlip()), **NUMBER}
    common = {"local": pictures, "batch_size": 16, "fields": fields, "shuffle": True}
    with fb.Loader(threads=1, **common) as loader:
        want = {int(n): x for b in loader for n, x in zip(b["number"], b["x"])}
    with fb.Loader(threads=3, **common) as loader:
        batches = iter(loader)
        for _ in range(5):
            next(batches)
        state = loader.state_dict()
        loader.load_state_dict(state)
        for b in loader:
            assert all(torch.equal(want[int(n)], x) for n, x in zip(b["number"], b["x"]))


def test_stats_say_what_the_stages_did(pictures):
    with ordered(pictures, trace=True) as loader:
        numbers(loader)
        stats = loader.stats()
        assert stats["stages"]["decode"]["items"] == SAMPLES
        assert set(stats["stages"]["read"]) == {"busy_s", "input_s", "output_s", "items", "bytes"}
        assert 'forebay_stage_items_total{stage="decode",rank="0"}' in loader.prometheus()
        assert json.loads(loader.trace_json())["traceEvents"]
    with ordered(pictures) as loader:
        assert loader.trace_json() is None


def test_wrong_arguments_are_sentences(pictures, tmp_path):
    with pytest.raises(TypeError, match="batch_size"):
        fb.Loader(local=pictures)
    with pytest.raises(fb.ConfigError, match="batch_size"):
        fb.Loader(local=pictures, batch_size=0)
    with pytest.raises(ValueError, match="memory"):
        fb.Loader(local=pictures, batch_size=1, memory="lots")
    with pytest.raises(fb.ConfigError, match="either streams"):
        fb.Loader(local=pictures, streams=[], batch_size=1)
    with pytest.raises(fb.ConfigError, match="shuffle_algo|nonsense"):
        fb.Loader(local=pictures, batch_size=1, shuffle=True, shuffle_algo="nonsense")
    with pytest.raises(fb.Error, match="nocolumn"):
        fb.Loader(local=pictures, batch_size=1, fields={"x": fb.Scalar("nocolumn")})
    with pytest.raises(fb.ConfigError, match="device"):
        fb.Loader(local=pictures, batch_size=1, device="tpu")
    with pytest.raises(FileNotFoundError):
        fb.Loader(local=tmp_path / "nothing", batch_size=1)


def test_a_corrupt_picture_names_itself_and_can_be_skipped(tmp_path):
    folder = write_pictures(tmp_path / "set", samples=40)
    shard = os.path.join(folder, "shard.00000.mds")
    with open(shard, "r+b") as file:
        data = file.read()
        start = data.index(b"\xff\xd8")
        file.seek(start)
        file.write(b"\xff\xd8" + bytes(100))
    fields = {"x": fb.Image("image", fb.Resize((8, 8))), **NUMBER}
    with fb.Loader(local=folder, batch_size=8, fields=fields) as loader:
        with pytest.raises(fb.DecodeError, match="shard.00000.mds") as caught:
            list(loader)
        assert caught.value.kind == "decode" and caught.value.context
    with fb.Loader(local=folder, batch_size=8, fields=fields, on_error="skip", max_errors=1) as loader:
        assert sum(len(b["number"]) for b in loader) == 39
    # A batch of its own: left out, unless another rank would wait for it.
    with fb.Loader(local=folder, batch_size=1, fields=fields, on_error="skip", max_errors=1) as loader:
        assert numbers(loader) == [[number] for number in range(1, 40)]
        assert len(loader) == 40
    two = {"rank": 0, "world_size": 2, "local_rank": 0, "local_world_size": 2}
    with fb.Loader(local=folder, batch_size=1, fields=fields, on_error="skip", max_errors=1, **two) as loader:
        with pytest.raises(fb.DecodeError, match="other ranks"):
            list(loader)


def test_a_closed_loader_says_so(pictures):
    loader = ordered(pictures)
    batches = iter(loader)
    next(batches)
    loader.close()
    loader.close()
    for use in (lambda: next(batches), lambda: iter(loader), loader.state_dict):
        with pytest.raises(fb.ClosedError):
            use()


def threads_of_the_engine():
    names = []
    for task in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{task}/comm") as file:
                names.append(file.read().strip())
        except FileNotFoundError:
            pass
    return names


def test_dropping_a_loader_half_way_leaves_no_thread_and_no_file(pictures):
    numbers(ordered(pictures))
    gc.collect()
    threads, files = sorted(threads_of_the_engine()), len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        loader = ordered(pictures)
        next(iter(loader))
        assert len(threads_of_the_engine()) > len(threads)
        # No collection of garbage: the last reference ends it.
        del loader
    assert sorted(threads_of_the_engine()) == threads
    assert len(os.listdir("/proc/self/fd")) == files


def test_a_forked_child_is_told_and_ends(pictures):
    loader = ordered(pictures)
    batches = iter(loader)
    next(batches)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            next(batches)
        except fb.ClosedError:
            loader.close()
            del loader, batches
            gc.collect()
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(list(batches)) == 12
    loader.close()


class InWorker(torch.utils.data.IterableDataset):
    def __init__(self, folder):
        self.folder = folder

    def __iter__(self):
        try:
            ordered(self.folder)
        except fb.ClosedError as error:
            yield str(error)


def test_a_dataloader_worker_is_told_where_to_iterate(pictures):
    found = list(torch.utils.data.DataLoader(InWorker(pictures), num_workers=1, batch_size=None))
    assert len(found) == 1 and "without a DataLoader" in found[0]


def interrupt(program, said):
    """Runs `program`, sends Ctrl-C when it has said `said` and `said` only, and gives what it says then."""
    text = textwrap.dedent(program)
    child = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline().strip() == said
    yield
    child.send_signal(signal.SIGINT)
    yield child.communicate(timeout=60)[0].strip()


def test_ctrl_c_ends_the_opening_of_a_data_set(tmp_path):
    """A server takes the request for the index and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        steps = interrupt(
            f"""
            import forebay as fb
            try:
                print("opening", flush=True)
                fb.Loader(remote="http://127.0.0.1:{server.getsockname()[1]}", local={str(tmp_path)!r}, batch_size=1)
            except KeyboardInterrupt:
                print("interrupted", flush=True)
            """,
            "opening",
        )
        next(steps)
        connection, _ = server.accept()
        assert next(steps) == "interrupted"
        connection.close()


class Silent(http.server.BaseHTTPRequestHandler):
    """Serves the index of `folder` and takes every other request without an answer."""

    folder = ""
    asked = threading.Event()
    over = threading.Event()

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        if not self.path.endswith("index.json"):
            self.asked.set()
            self.over.wait()
            return
        with open(os.path.join(self.folder, "index.json"), "rb") as file:
            body = file.read()
        self.send_response(206 if "Range" in self.headers else 200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", '"one"')
        if "Range" in self.headers:
            self.send_header("Content-Range", f"bytes 0-{len(body) - 1}/{len(body)}")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *_):
        pass


def test_ctrl_c_ends_a_wait_for_a_batch(packed, tmp_path):
    Silent.folder = packed
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Silent) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        steps = interrupt(
            f"""
            import forebay as fb
            loader = fb.Loader(remote="http://127.0.0.1:{server.server_port}", local={str(tmp_path)!r}, batch_size=1)
            batches = iter(loader)
            try:
                print("waiting", flush=True)
                next(batches)
            except KeyboardInterrupt:
                loader.close()
                print("interrupted", flush=True)
            """,
            "waiting",
        )
        next(steps)
        assert Silent.asked.wait(60)
        assert next(steps) == "interrupted"
        Silent.over.set()
        server.shutdown()


def test_a_program_may_end_with_an_epoch_under_way(pictures):
    program = f"""
        import forebay as fb
        loader = fb.Loader(local={pictures!r}, batch_size=4)
        batches = iter(loader)
        kept = next(batches)
        print("done", flush=True)
    """
    ended = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "done\n", "")


def test_errors_are_what_one_would_catch():
    for kind in fb.errors._BY_KIND.values():
        assert issubclass(kind, fb.Error)
        assert pickle.loads(pickle.dumps(kind("sentence"))).args == ("sentence",)
    assert issubclass(fb.NotFoundError, FileNotFoundError) and issubclass(fb.StalledError, TimeoutError)


def test_two_threads_may_ask_for_batches(pictures):
    with ordered(pictures) as loader:
        batches, found, ended = iter(loader), [], []

        def take():
            while (batch := next(batches, None)) is not None:
                found.append(batch["number"].tolist())
            ended.append(True)

        takers = [threading.Thread(target=take) for _ in range(2)]
        for taker in takers:
            taker.start()
        for taker in takers:
            taker.join()
    assert sorted(sum(found, [])) == list(range(SAMPLES))
    assert len(ended) == 2, "one thread took the end, the other an error"


def test_bytes_and_their_neighbours_come_back_whole_from_memory_and_from_disk(tmp_path):
    """One column of any size is read right into the objects, two are not, and what the page cache lacks goes a third way."""
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


class Refusal(Exception):
    """What the handler below raises."""


def test_a_log_handler_that_raises_costs_no_batch(pictures):
    """Keeping every batch leads to a warning in the middle of the epoch."""

    class Refusing(logging.Handler):
        def emit(self, record):
            raise Refusal(record.getMessage())

    fields = {"x": fb.Image("image", fb.Resize(256), fb.CenterCrop(224), dtype="float32"), **NUMBER}
    log, handler = logging.getLogger("forebay"), Refusing()
    log.addHandler(handler)
    kept, refused = [], 0
    try:
        with fb.Loader(local=pictures, fields=fields, batch_size=8, prefetch=1, memory="24mb") as loader:
            batches = iter(loader)
            while True:
                try:
                    kept.append(next(batches))
                except StopIteration:
                    break
                except Refusal as e:
                    assert "batch" in str(e)
                    refused += 1
    finally:
        log.removeHandler(handler)
    assert refused, "nothing was logged"
    assert [n for batch in kept for n in batch["number"].tolist()] == list(range(SAMPLES))

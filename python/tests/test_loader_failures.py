"""Errors of forebay.Loader for wrong data or calls."""

import contextlib
import functools
import http.server
import logging
import os
import pickle
import signal
import threading

import pytest
from loaders import NUMBER, numbers, ordered
from picture_set import SAMPLES, write_pictures
from range_server import serving

import forebay as fb

torch = pytest.importorskip("torch")


NUMBER_OF = {"n": fb.Scalar("n")}


def spoil_first_picture(folder):
    with open(os.path.join(folder, "shard.00000.mds"), "r+b") as file:
        file.seek(file.read().index(b"\xff\xd8"))
        file.write(b"\xff\xd8" + bytes(100))


def test_a_corrupt_picture_names_itself_and_can_be_skipped(tmp_path):
    folder = write_pictures(tmp_path / "set", samples=40)
    spoil_first_picture(folder)
    fields = {"x": fb.Image("image", fb.Resize((8, 8))), **NUMBER}
    with fb.Loader(local=folder, batch_size=8, fields=fields) as loader:
        with pytest.raises(fb.DecodeError, match="shard.00000.mds") as caught:
            list(loader)
        assert caught.value.kind == "decode" and caught.value.context
        assert "tolerant=True" in str(caught.value) and "skip.errors" in str(caught.value)
    with fb.Loader(local=folder, batch_size=8, fields=fields, skip=fb.Skip(errors=1)) as loader:
        assert sum(len(b["number"]) for b in loader) == 39
    # A batch of skipped samples is omitted if no rank waits for it.
    with fb.Loader(local=folder, batch_size=1, fields=fields, skip=fb.Skip(errors=1)) as loader:
        assert numbers(loader) == [[number] for number in range(1, 40)]
        assert len(loader) == 40


@pytest.mark.parametrize(
    "remote",
    [
        "http://127.0.0.1:1/x?X-Amz-Signature=gEhEiM",
        "http://127.0.0.1:1/x#gEhEiM",
        "http://me:a/gEhEiM@127.0.0.1:1/x",
        "ftp://me:gEhEiM@127.0.0.1/x?y",
    ],
)
def test_secrets_of_an_address_are_shown_nowhere(remote, caplog):
    caplog.set_level(logging.DEBUG)
    stream = fb.Stream(remote=remote)
    assert "remote='" in repr(stream) and "gEhEiM" not in repr(stream)
    for arguments in ({"streams": [stream]}, {"remote": remote}):
        with pytest.raises(fb.Error) as caught:
            fb.Loader(batch_size=8, fields=NUMBER, fetch=fb.Fetch(retry=1), **arguments)
        assert "gEhEiM" not in f"{caught.value!s} {caught.value!r} {caught.value.context}"
    assert "gEhEiM" not in caplog.text


def test_an_epoch_that_loses_all_its_samples_is_a_warning(tmp_path):
    folder = write_pictures(tmp_path / "set", samples=1)
    spoil_first_picture(folder)
    fields = {"x": fb.Image("image", fb.Resize((8, 8))), **NUMBER}
    with fb.Loader(local=folder, batch_size=8, fields=fields, skip=fb.Skip(errors=1)) as loader:
        with pytest.warns(UserWarning, match=r"no batch: Skip\(errors=...\) left out every sample"):
            assert list(loader) == []


def test_a_batch_of_skipped_samples_repeats_one_if_a_second_rank_would_wait(tmp_path):
    folder = write_pictures(tmp_path / "set", samples=40)
    spoil_first_picture(folder)
    fields = {"x": fb.Image("image", fb.Resize((8, 8))), "image": fb.Bytes("image"), **NUMBER}
    arguments = {"local": folder, "batch_size": 1, "fields": fields, "skip": fb.Skip(errors=1)}

    def rank(number, **more):
        world = fb.World(rank=number, world_size=2, local_rank=number, local_world_size=2)
        return fb.Loader(**arguments, extra=["repeat"], world=world, **more)

    first, second = rank(0), rank(1)
    batches = [list(first), list(second)]
    assert [len(b) for b in batches] == [20, 20] == [len(first), len(second)]
    assert [b["number"].tolist() for b in batches[0]] == [[2], *([n] for n in range(2, 40, 2))]
    assert [b["repeat"].tolist() for b in batches[0]] == [[True], *([[False]] * 19)]
    assert batches[0][0]["image"] == batches[0][1]["image"]
    assert torch.equal(batches[0][0]["x"], batches[0][1]["x"])
    assert first.stats()["counters"]["batches_refilled"] == first.stats()["counters"]["samples_skipped"] == 1
    # Every sample that can be decoded counts once.
    counted = [int(b["number"][0]) for ours in batches for b in ours if not b["repeat"][0]]
    assert sorted(counted) == list(range(1, 40))
    # Both ranks are at the same position, independent of the rank with the bad sample.
    states = []
    for loader in (first, second):
        for step, _ in enumerate(loader):
            if step == 3:
                states.append(loader.state_dict())
                break
    assert states[0] == states[1]
    assert (states[0]["epoch"], states[0]["sample_in_epoch"]) == (1, 8)
    first.close()
    second.close()


def test_a_closed_loader_is_an_error(pictures):
    loader = ordered(pictures)
    batches = iter(loader)
    next(batches)
    loader.close()
    loader.close()
    for use in (lambda: next(batches), lambda: iter(loader), loader.state_dict):
        with pytest.raises(fb.ClosedError):
            use()


class Holding(http.server.SimpleHTTPRequestHandler):
    """Serves the index at once and a shard when `go` is set."""

    def do_GET(self):
        if self.path.endswith(".mds"):
            self.server.asked.set()
            self.server.go.wait()
        with contextlib.suppress(ConnectionError):
            super().do_GET()

    def log_message(self, *args):
        pass


@pytest.mark.parametrize("closed", ["iterator", "loader"])
def test_close_ends_a_next_that_waits_in_a_second_thread(tmp_path, pictures, closed):
    with ordered(pictures, shuffle=True) as loader:
        epochs = [numbers(loader) for _ in range(2)]
    errors = []

    def take(batches):
        with pytest.raises(fb.ClosedError) as caught:
            next(batches)
        errors.append(str(caught.value))

    with serving(http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Holding, directory=pictures))) as server:
        server.asked, server.go = threading.Event(), threading.Event()
        remote = f"http://127.0.0.1:{server.server_port}"
        arguments = {"remote": remote, "local": tmp_path / "local", "fields": NUMBER, "batch_size": 16, "shuffle": True}
        try:
            with fb.Loader(**arguments) as loader:
                batches = iter(loader)
                taker = threading.Thread(target=take, args=(batches,))
                taker.start()
                server.asked.wait()
                (batches if closed == "iterator" else loader).close()
                taker.join()
                server.go.set()
                if closed == "iterator":
                    assert errors == ["this iterator was closed: iter(loader) starts the next epoch"]
                    assert (loader.state_dict()["epoch"], loader.state_dict()["sample_in_epoch"]) == (0, 0)
                    assert numbers(loader) == epochs[1]
                else:
                    assert errors == ["this loader was closed: make a new one"]
        finally:
            server.go.set()


def test_a_signal_handler_may_ask_for_the_state_and_take_batches_while_a_batch_is_waited_for(tmp_path, pictures):
    with ordered(pictures) as loader:
        expected = numbers(loader)
    found = []

    def handler(number, frame):
        states.append(loader.state_dict())
        server.go.set()
        found.append(next(batches)["number"].tolist())

    states, before = [], signal.getsignal(signal.SIGALRM)
    with serving(http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Holding, directory=pictures))) as server:
        server.asked, server.go = threading.Event(), threading.Event()
        remote = f"http://127.0.0.1:{server.server_port}"
        signal.signal(signal.SIGALRM, handler)
        try:
            with fb.Loader(remote=remote, local=tmp_path / "local", fields=NUMBER, batch_size=16) as loader:
                batches = iter(loader)
                # The handler runs while the batch is waited for, as no shard arrives before that.
                signal.setitimer(signal.ITIMER_REAL, 0.01)
                found.extend(batch["number"].tolist() for batch in batches)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
            server.go.set()
    assert [(state["epoch"], state["sample_in_epoch"]) for state in states] == [(0, 0)]
    assert sorted(found) == sorted(expected), "each batch once"


def test_errors_are_subclasses_of_the_usual_exceptions():
    for kind in fb.errors._BY_KIND.values():
        assert issubclass(kind, fb.Error)
        assert pickle.loads(pickle.dumps(kind("sentence"))).args == ("sentence",)
    assert issubclass(fb.NotFoundError, FileNotFoundError) and issubclass(fb.StalledError, TimeoutError)


class Refusal(Exception):
    """Exception of the handler below."""


def test_a_log_handler_that_raises_loses_no_batch(pictures):
    """Keeping every batch leads to a warning in the middle of the epoch."""

    class Refusing(logging.Handler):
        def emit(self, record):
            raise Refusal(record.getMessage())

    fields = {"x": fb.Image("image", fb.Resize(256), fb.CenterCrop(224), dtype="float32"), **NUMBER}
    log, handler = logging.getLogger("forebay"), Refusing(logging.WARNING)
    log.addHandler(handler)
    kept, refused = [], 0
    try:
        with fb.Loader(local=pictures, fields=fields, batch_size=2, engine=fb.Engine(prefetch=1, memory="24mb")) as loader:
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


@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_too_many_bad_samples_end_the_epoch_at_a_step_of_the_plan(tmp_path, framework):
    bad = {3, 38, 39, 90, 91, 92, 93, 94, 95, 170}
    with fb.MDSWriter(out=str(tmp_path), columns={"n": "int", "j": "bytes"}, size_limit=2_000) as writer:
        for number in range(200):
            # The bad ones are found long before the large ones in front of them are decoded.
            good = b'{"x": %d, "y": [%s]}' % (number, b",".join([b"1"] * 400))
            writer.write({"n": number, "j": b"{" if number in bad else good})
    fields = {"n": fb.Scalar("n"), "x": fb.Json("j", "x", dtype="int64")}
    options = {
        "fields": fields,
        "batch_size": 4,
        "framework": framework,
        "order": fb.Order(num_canonical_nodes=1),
        "engine": fb.Engine(prefetch=16),
    }
    for shuffle in (False, True):
        options |= {"shuffle": shuffle, "seed": 5}
        with fb.Loader(local=str(tmp_path), **options | {"fields": NUMBER_OF}) as loader:
            planned = [batch["n"].tolist() for batch in loader]
        in_order = [number for batch in planned for number in batch if number in bad]
        for most in (2, 5):
            # The first sample beyond the limit, and the batches before its own.
            beyond = in_order[most]
            count = next(i for i, batch in enumerate(planned) if beyond in batch)
            for _ in range(4):
                with fb.Loader(local=str(tmp_path), skip=fb.Skip(errors=most), threads=4, **options) as loader:
                    got = []
                    with pytest.raises(fb.Error, match=f"more bad samples than skip.errors {most}") as caught:
                        got.extend(batch["n"].tolist() for batch in loader)
                    assert got == [[number for number in batch if number not in bad] for batch in planned[:count]]
                    assert ("sample", str(beyond)) in list(caught.value.context.items())
                    assert loader.stats()["counters"]["samples_skipped"] == most

"""Interrupts at random bytecodes of the package, and real signals: each batch is delivered once.

FOREBAY_INTERRUPTS is the number of interrupts at bytecodes.
"""

import functools
import itertools
import os
import random
import signal
import sys
import threading
from pathlib import Path

import pytest
from loaders import NUMBER
from picture_set import SAMPLES

import forebay as fb

PACKAGE = str(Path(fb.__file__).parent)
COUNT = int(os.environ.get("FOREBAY_INTERRUPTS", "1000"))
ROWS = 48
STEPS = -(-SAMPLES // ROWS)


def number_of(sample, rng):
    return {"number": sample["number"]}


def fails_for_some(sample, rng):
    if int(sample["number"]) % 7 == 3:
        raise ValueError("a sample that is left out")
    return {"number": sample["number"]}


KINDS = {
    "plain": {},
    "two devices": {"device": ["cpu", "cpu"], "batch_size": ROWS // 2},
    "transform": {"transform": lambda batch: dict(batch)},
    "map": {"map": fb.Map(number_of, workers=2, prefetch=2)},
    "map that skips": {"map": fb.Map(fails_for_some, workers=1, prefetch=3), "skip": fb.Skip(errors=SAMPLES)},
}


def make(folder, kind):
    return fb.Loader(**{"local": folder, "fields": NUMBER, "batch_size": ROWS, "shuffle": True} | KINDS[kind])


def text(batch):
    parts = batch if isinstance(batch, list) else [batch]
    return [part["number"].tolist() for part in parts]


class Interrupts:
    """Interrupts at bytecodes of the package, drawn from `seed`."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.count = 0
        # Bytecodes of the longest call of each name, as a bound of the next draw.
        self.lengths = {}

    def during(self, name, call):
        """Calls `call` with an interrupt at a bytecode. Returns true if it came before the end, and the result of the call."""
        # The first call of each name is complete, to know its length.
        at, steps = self.random.randint(1, self.lengths[name]) if name in self.lengths else sys.maxsize, 0

        def frames(frame, event, arg):
            if not frame.f_code.co_filename.startswith(PACKAGE):
                return None
            frame.f_trace_lines, frame.f_trace_opcodes = False, True
            return opcodes

        def opcodes(frame, event, arg):
            nonlocal steps
            if event == "opcode":
                steps += 1
                if steps == at:
                    raise KeyboardInterrupt
            return opcodes

        sys.settrace(frames)
        try:
            result = call()
        except KeyboardInterrupt:
            result = None
        finally:
            sys.settrace(None)
        self.lengths[name] = max(self.lengths.get(name, 0), steps)
        self.count += steps >= at
        return steps >= at, result

    def until_done(self, name, call):
        """Calls `call` again after an interrupt, and sometimes after a second one."""
        for _ in range(self.random.randint(0, 2)):
            was_interrupted, result = self.during(name, call)
            if not was_interrupted:
                return result
        return call()


class Training:
    """A loop over a loader that is interrupted, compared with the batches of a loop without interrupts."""

    def __init__(self, loader, plain, interrupts):
        self.loader, self.plain, self.interrupts = loader, plain, interrupts
        self.expected = {}
        self.begin(0)

    def epoch_of(self, epoch):
        if epoch not in self.expected:
            self.plain.set_epoch(epoch)
            self.expected = {epoch: [text(batch) for batch in self.plain]}
        return self.expected[epoch]

    def begin(self, epoch):
        """Begins an epoch, sometimes with a look at its first batch, as trainers do."""
        assert self.loader.epoch == epoch
        if self.interrupts.random.random() < 0.3:
            shown = self.interrupts.until_done("peek", self.loader.adapter.peek)
            assert text(shown) == self.epoch_of(epoch)[0]
            assert self.loader.epoch == epoch, "a batch that was shown does not count"
        self.batches = self.interrupts.until_done("iter", lambda: iter(self.loader))
        self.epoch, self.number = epoch, 0

    def step(self):
        """Takes the next batch, or begins the next epoch."""
        choose, expected, found = self.interrupts.random.random, self.epoch_of(self.epoch), []
        if choose() < 0.1:
            has_next = self.interrupts.until_done("has_next", self.batches.has_next)
            assert has_next == (self.number < len(expected))
        # In one step: an interrupt between two would lose a batch in this test itself.
        take = functools.partial(found.extend, itertools.islice(self.batches, 1))
        was_interrupted, _ = self.interrupts.during("next", take)
        if was_interrupted:
            assert not found
            return self.resume()
        if not found:
            assert self.number == len(expected), "the epoch ended before its last batch"
            return self.begin(self.epoch + 1)
        assert self.number < len(expected) and text(found[0]) == expected[self.number]
        self.number += 1
        return None

    def resume(self):
        """Continues after an interrupt, in one of the ways that the documentation of `iter` has."""
        way = self.interrupts.random.random()
        if way < 0.5:
            return  # The same iterator.
        if way < 0.8:
            state = self.interrupts.until_done("state_dict", self.loader.state_dict)
            self.interrupts.until_done("load_state_dict", lambda: self.loader.load_state_dict(state))
            place = self.loader.epoch, self.loader.first_batch
            at_end = self.number == len(self.epoch_of(self.epoch))
            if at_end and place == (self.epoch + 1, 0):
                self.begin(self.epoch + 1)
                return
            assert place == (self.epoch, self.number)
            self.batches = self.interrupts.until_done("iter", lambda: iter(self.loader))
            return
        # A new loop: the epoch, or the rest of it after a loaded state, is used up as soon as a batch was asked for.
        following = self.loader.epoch
        if following == self.epoch:
            assert self.loader.first_batch == self.number
            self.batches = self.interrupts.until_done("iter", lambda: iter(self.loader))
        else:
            self.begin(self.epoch + 1)


@pytest.mark.parametrize("kind", KINDS)
def test_interrupts_at_random_bytecodes_lose_and_double_no_batch(pictures, kind):
    interrupts = Interrupts(f"interrupts of {kind}")
    with make(pictures, kind) as loader, make(pictures, kind) as plain:
        training = Training(loader, plain, interrupts)
        while interrupts.count < COUNT // len(KINDS):
            training.step()
        print(f"{interrupts.count} interrupts over {training.epoch + 1} epochs, bytecodes of a call: {interrupts.lengths}")


class Signals:
    """Signals that a second thread sends at any time, one for each call of `allow`. Each raises KeyboardInterrupt while `is_armed`."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.is_armed, self.count = False, 0
        self._allowed, self._has_ended = threading.Semaphore(0), False
        self._before = signal.signal(signal.SIGUSR1, self._handle)
        self._main = threading.main_thread().ident
        self._sender = threading.Thread(target=self._send)
        self._sender.start()

    def _handle(self, number, frame):
        if self.is_armed:
            self.is_armed = False
            self.count += 1
            raise KeyboardInterrupt

    def _send(self):
        while True:
            self._allowed.acquire()
            if self._has_ended:
                return
            for _ in range(self.random.randrange(1 << self.random.randrange(16))):
                pass
            signal.pthread_kill(self._main, signal.SIGUSR1)

    def allow(self):
        self.is_armed = True
        self._allowed.release()

    def end(self):
        self._has_ended = True
        self._allowed.release()
        self._sender.join()
        signal.signal(signal.SIGUSR1, self._before)


def epoch_with_signals(loader, signals):
    """Returns the batches of an epoch. The steps are calls in C: an interrupt between two would lose a batch in this test itself."""
    found, batches, is_over = [], None, False
    while not is_over:
        try:
            if not signals.is_armed:
                signals.allow()
            if batches is None:
                batches = iter(loader)
            while not is_over:
                count = len(found)
                found.extend(itertools.islice(batches, 1))
                is_over = len(found) == count
            signals.is_armed = False
        except KeyboardInterrupt:
            pass
    return [text(batch) for batch in found]


@pytest.mark.parametrize("kind", KINDS)
def test_signals_at_any_time_lose_and_double_no_batch(pictures, kind):
    with make(pictures, kind) as loader, make(pictures, kind) as plain:
        signals = Signals(f"signals of {kind}")
        try:
            while signals.count < COUNT // 20:
                epoch = loader.epoch
                found = epoch_with_signals(loader, signals)
                plain.set_epoch(epoch)
                assert found == [text(batch) for batch in plain], f"epoch {epoch} after {signals.count} signals"
        finally:
            signals.end()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("kind", ["plain", "two devices", "map"])
def test_a_batch_without_memory_for_its_outputs_is_the_next_one(tmp_path, kind):
    """The interpreter refuses one allocation of a step, each one in turn."""
    testing = pytest.importorskip("_testcapi")
    with fb.MDSWriter(out=tmp_path / "set", columns={"number": "int", "words": "str", "file": "bytes"}) as writer:
        for number in range(12):
            writer.write({"number": number, "words": f"word {number}", "file": bytes([number]) * 100})
    fields = {"number": fb.Scalar("number"), "words": fb.Text("words"), "file": fb.Bytes("file")}
    options = {name: value for name, value in KINDS[kind].items() if name != "batch_size"}

    def contents(taken):
        for item in taken.items():
            assert isinstance(item, dict)
            yield [item["words"], item["file"]]

    with fb.Loader(local=tmp_path / "set", fields=fields, batch_size=2, **options) as loader:
        session = loader._session
        taking = session.begin()
        expected = list(contents(taking.take(False)))
        refused = 0
        for number in itertools.count():
            session.set_epoch(0)
            taking = session.begin()
            taken = taking.take(False)
            testing.set_nomemory(number, number + 1)
            try:
                items = taken.items()
            except BaseException:
                items = None
            finally:
                testing.remove_mem_hooks()
            refused += items is None
            del taken
            again = taking.take(False)
            assert again.number == 0 and list(contents(again)) == expected, f"allocation {number}"
            if items is not None and number > 60:
                break
        assert refused > 5

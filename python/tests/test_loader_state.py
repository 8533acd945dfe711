"""States of forebay.Loader that are taken, and interrupts that arrive, while a batch is in flight."""

import dis
import functools
import itertools
import sys
import threading
import warnings

import pytest
from loaders import ordered

import forebay as fb
import forebay._epoch
import forebay._loader
import forebay._position


@functools.cache
def step_names(code):
    return {step.offset: step.opname for step in dis.get_instructions(code)}


LOADER_FILES = frozenset(module.__file__ for module in (forebay._epoch, forebay._loader, forebay._position))


def at_each_place(call, act, files=LOADER_FILES):
    """Calls `call`, and `act` with a number at each place of the code in `files` where a signal handler may run. Returns the number
    of such places."""
    places = 0

    def frames(frame, event, arg):
        if frame.f_code.co_filename not in files:
            return None
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        return steps

    def steps(frame, event, arg):
        nonlocal places
        if event == "opcode":
            code, after = frame.f_code, last.get(frame)
            last[frame] = step_names(code)[frame.f_lasti]
            # The interpreter looks for signals after calls and before it repeats a loop.
            if after is not None and after.startswith(("CALL", "JUMP", "RESUME")):
                places += 1
                act(places)
        return steps

    last = {}
    sys.settrace(frames)
    try:
        call()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(None)
    return places


def interrupted(call, number, files=LOADER_FILES):
    """Calls `call`, with an interrupt at the place `number`. Returns the number of places up to there."""

    def act(place):
        if place == number:
            raise KeyboardInterrupt

    return at_each_place(call, act, files)


@pytest.mark.parametrize("devices", [["cpu"], ["cpu", "cpu"]])
@pytest.mark.parametrize("asks", ["handler", "thread"])
def test_a_state_leaves_out_a_batch_until_it_is_delivered(pictures, devices, asks):
    """As a signal handler, and another thread, ask for it at each moment of a step."""
    states = []

    def ask(place):
        if asks == "handler":
            states.append(loader.state_dict())
        else:
            asking = threading.Thread(target=lambda: states.append(loader.state_dict()))
            asking.start()
            asking.join()

    with ordered(pictures, device=devices) as loader:
        batches = iter(loader)
        for _ in range(len(loader)):
            before = loader.state_dict()
            at_each_place(lambda: next(batches), ask)
            after = loader.state_dict()
            count = states.index(after) if after in states else len(states)
            assert count > 3 and states == [before] * count + [after] * (len(states) - count)
            states.clear()
        assert next(batches, None) is None


@pytest.mark.parametrize("devices", ["cpu", ["cpu", "cpu"]])
def test_an_interrupt_anywhere_in_a_step_loses_no_batch(pictures, devices):
    with ordered(pictures, device=devices, batch_size=128) as loader:
        expected = [str(batch) for batch in loader]
        for number in itertools.count(1):
            places = []
            # Also before the end of the epoch, and of the batch that follows an interrupt.
            for position in range(len(expected) + 1):
                loader.set_epoch(0)
                batches, found = iter(loader), []
                found.extend(itertools.islice(batches, position))
                # In one step: an interrupt between two would lose a batch in this test itself.
                places.append(interrupted(functools.partial(found.extend, itertools.islice(batches, 1)), number))
                found.extend(batches)
                assert [str(batch) for batch in found] == expected, f"interrupt {number} at batch {position}"
            if max(places) < number:
                break
        assert number > 10, "an interrupt at each of these places"


@pytest.mark.parametrize("devices", ["cpu", ["cpu", "cpu"]])
@pytest.mark.parametrize("named", [None, 1, 2])
def test_an_interrupt_anywhere_in_iter_uses_up_no_epoch(pictures, devices, named):
    arguments = {"device": devices, "batch_size": 128, "shuffle": True}
    with ordered(pictures, **arguments) as loader:
        epochs = [[str(batch) for batch in loader] for _ in range(3)]
    with ordered(pictures, **arguments) as loader:
        after, rest = loader.state_dict() | {"epoch": 1, "sample_in_epoch": loader.adapter.samples_per_step}, epochs[1][1:]
        for number in itertools.count(1):
            loader.load_state_dict(after)
            if named is not None:
                loader.set_epoch(named)
            expected = epochs[2] if named == 2 else rest
            places = interrupted(lambda: iter(loader), number)
            assert loader.epoch == (named or 1), f"interrupt {number}"
            # Another one in the call that follows.
            interrupted(lambda: iter(loader), number)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                assert [str(batch) for batch in loader] == expected, f"interrupt {number}"
            if places < number:
                break
        assert number > 5


@pytest.mark.parametrize("devices", ["cpu", ["cpu", "cpu"]])
def test_an_interrupt_anywhere_in_close_does_not_keep_it_from_closing(pictures, devices):
    for number in itertools.count(1):
        loader = ordered(pictures, device=devices, batch_size=128)
        batches = iter(loader)
        # The first interrupt, whose handler closes the loader.
        interrupted(lambda: next(batches), 12)
        places = interrupted(loader.close, number)
        loader.close()
        for engine in loader._engines:
            with pytest.raises(fb.ClosedError):
                engine.runs()
        if places < number:
            break
    assert number > 2

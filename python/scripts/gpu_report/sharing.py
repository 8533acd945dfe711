"""Checks of delivery to consumers: capsules, streams, graphs, frameworks. They need torch's tensors."""

import gc
import importlib
import os
import time

import numpy as np

from . import compare
from .outcome import Skipped, so_far
from .setting import crops, each, loader


def _fields(setting):
    return crops(setting.scale.side)


def _host(setting):
    """Returns an epoch's batches in host memory."""
    with loader(setting.needs("few").folder, "cpu", "numpy", fields=_fields(setting)) as batches:
        return [{name: value.copy() for name, value in batch.items()} for batch in each(batches)]


def _are_the_host_s(setting, copies):
    """Compares pairs of labels and pictures in host memory with an epoch on the host."""
    comparison, hosts = compare.Comparison(setting, setting.needs("few")), _host(setting)
    assert len(copies) == len(hosts), f"{len(copies)} batches instead of {len(hosts)}"
    for number, (host, (labels, got)) in enumerate(zip(hosts, copies, strict=True)):
        assert np.array_equal(labels, host["y"]), f"different samples in batch {number}: {labels} instead of {host['y']}"
        field = _fields(setting)["x"]
        comparison.add(("x", 0, number), labels, compare.levels(host["x"], field), compare.levels(got, field))
    return comparison.hold()


def _needs_torch(setting):
    if not hasattr(setting.framework, "torch"):
        raise Skipped("there is no torch with CUDA")
    return setting.framework


def capsules_old_and_new_are_taken(setting):
    """Versioned and legacy DLPack capsules."""
    found = {}
    for name, versioned in (("without a version", False), ("with a version", True)):
        taken = []
        with loader(setting.needs("few").folder, setting.device, "dlpack", fields=_fields(setting)) as batches:
            for batch in each(batches):
                taken.append([setting.framework.take(batch[output], versioned) for output in ("y", "x")])
                del batch
        found[name] = _are_the_host_s(setting, taken)
        so_far(found)
    return found


def a_stream_of_the_consumer_s_own_reads_its_batches(setting):
    """Batches that are taken on a stream of torch, read there late, and dropped before the read."""
    framework = _needs_torch(setting)
    stream, copies = framework.stream(), []
    with setting.on_device(setting.needs("few").folder, fields=_fields(setting), engine={"prefetch": 1}) as batches:
        with framework.on_stream(stream):
            for batch in each(batches):
                framework.delay()
                copies.append((batch["y"].clone(), batch["x"].clone()))
                del batch
        framework.synchronize()
    return _are_the_host_s(setting, [tuple(map(framework.array, pair)) for pair in copies])


def batches_are_dropped_while_a_graph_is_captured(setting):
    """A graph capture on a different stream stays valid while batches are dropped and made, and the batches equal the
    host's."""
    framework, found = _needs_torch(setting), {}
    torch = framework.torch
    for mode in ("thread_local", "global"):
        sums, copies, graphs = torch.zeros(1 << 10, device=framework.on), [], 0
        # The kernel is loaded before the capture.
        sums.add_(0)
        with setting.on_device(setting.needs("few").folder, fields=_fields(setting), engine={"prefetch": 2}) as batches:
            for number, batch in enumerate_batches(batches):
                copies.append(tuple(framework.array(batch[name]) for name in ("y", "x")))
                held = [batch]
                del batch
                if number % 4 == 0:

                    def meanwhile(held=held):
                        held.clear()
                        gc.collect()
                        # The loader's threads continue.
                        time.sleep(0.05)

                    replay = framework.capture(lambda: sums.add_(1), meanwhile, mode)
                    replay()
                    replay()
                    graphs += 1
                del held
        framework.synchronize()
        wrong = int((framework.array(sums) != 2 * graphs).sum())
        found[mode] = {"graphs": graphs, "wrong_values": wrong}
        so_far(found)
        assert graphs and wrong == 0, f"{wrong} values counted by {graphs} graphs are wrong ({mode})"
        found[mode] |= _are_the_host_s(setting, copies)
    return found


def enumerate_batches(batches):
    """Like `enumerate`, without keeping the last item."""
    number = -1
    for batch in each(batches):
        number += 1
        pair = [number, batch]
        del batch
        yield pair.pop(0), pair.pop()


def cupy_sees_the_same_memory(setting):
    """CuPy's arrays share memory with torch's views, and have the host's pixels."""
    cupy = _module(setting, "cupy")

    def take(tensor):
        array = cupy.from_dlpack(tensor)
        return array.data.ptr, cupy.asnumpy(array)

    return {"cupy": cupy.__version__, **_sees_the_same_memory(setting, take)}


def jax_sees_the_same_memory(setting):
    """JAX's arrays do the same, each kept until it has been read."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    jax = _module(setting, "jax")
    try:
        backend = jax.default_backend()
    except RuntimeError as error:
        raise Skipped(f"JAX does not start: {error}") from error
    if setting.framework.on == "cuda" and backend != "gpu":
        raise Skipped(f"JAX sees no GPU, but {backend}")

    def take(tensor):
        array = jax.dlpack.from_dlpack(tensor).block_until_ready()
        return array.unsafe_buffer_pointer(), np.array(array)

    return {"jax": jax.__version__, **_sees_the_same_memory(setting, take)}


def _module(setting, name):
    _needs_torch(setting)
    try:
        module = importlib.import_module(name)
        importlib.import_module(f"{name}.dlpack" if name == "jax" else name)
        return module
    except ImportError as error:
        raise Skipped(f"{name} cannot be imported: {error}") from error


def _sees_the_same_memory(setting, take):
    torch, copies, elsewhere = setting.framework.torch, [], []
    with loader(setting.needs("few").folder, setting.device, "dlpack", fields=_fields(setting)) as batches:
        for number, batch in enumerate_batches(batches):
            view = torch.from_dlpack(batch["x"])
            pointer, pixels = take(batch["x"])
            if pointer != view.data_ptr():
                elsewhere.append(number)
            copies.append((setting.framework.array(torch.from_dlpack(batch["y"])), pixels))
            del batch, view
    found = {"batches_elsewhere": len(elsewhere), **_are_the_host_s(setting, copies)}
    so_far(found)
    assert not elsewhere, f"batches were copied: {elsewhere[:8]}"
    return found

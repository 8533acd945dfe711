"""Global arrays that span processes: `jax.distributed` with collectives between CPU devices (gloo)."""

import json
import os
import socket
import subprocess
import sys

import pytest

import forebay as fb

pytest.importorskip("jax")

ROWS = 16
"""Rows of a global batch."""

WORKER = """
import json, sys
import numpy as np
import jax
from jax.sharding import NamedSharding, PartitionSpec as P

address, count, number, folder, axes, rows, state = json.loads(sys.argv[1])
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(address, count, number)
import forebay as fb

mesh = jax.make_mesh(tuple(axes.values()), tuple(axes), axis_types=(jax.sharding.AxisType.Auto,) * len(axes))
fields = {"x": fb.Image("image", fb.Resize((8, 8))), "y": fb.Scalar("number", dtype="int32")}
with fb.Loader(
    local=folder,
    batch_size=rows,
    shuffle=True,
    drop_last=True,
    order=fb.Order(num_canonical_nodes=1),
    framework="jax",
    sharding=NamedSharding(mesh, P("data")),
    fields=fields,
) as loader:
    if state:
        loader.load_state_dict(state)
    gathered = jax.jit(lambda x, y: (x.astype("float32").mean((1, 2, 3)), y), out_shardings=NamedSharding(mesh, P()))
    means, steps, states = [], [], []
    for batch in loader:
        assert batch["y"].sharding.is_equivalent_to(NamedSharding(mesh, P("data")), 1)
        both = (np.asarray(a.addressable_data(0)).tolist() for a in gathered(batch["x"], batch["y"]))
        for kept, values in zip((means, steps), both):
            kept.append(values)
        states.append(loader.state_dict())
    print(json.dumps({"world": str(loader._world), "means": means, "steps": steps, "states": states}))
"""


def train(folder, count, devices, axes, rows, state=None):
    """Runs `count` processes with `devices` CPU devices each, and returns the output of the first one."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    env = os.environ | {"XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}"}
    runs = []
    for number in range(count):
        arguments = json.dumps([address, count, number, folder, axes, rows, state])
        runs.append(
            subprocess.Popen(
                [sys.executable, "-c", WORKER, arguments], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
        )
    results = []
    for run in runs:
        out, err = run.communicate(timeout=600)
        assert run.returncode == 0, err
        results.append(json.loads(out.splitlines()[-1]))
    for number, result in enumerate(results):
        assert result["world"] == f"rank {number} of {count} (jax.distributed)"
        assert result["steps"] == results[0]["steps"], "every process sees the same global arrays"
    return results[0]


@pytest.fixture(scope="module")
def alone(pictures):
    """The global batches of a single process without a sharding, with the mean of each picture."""
    fields = {"x": fb.Image("image", fb.Resize((8, 8))), "y": fb.Scalar("number", dtype="int32")}
    kwargs = {"batch_size": ROWS, "shuffle": True, "drop_last": True, "order": fb.Order(num_canonical_nodes=1)}
    with fb.Loader(local=pictures, framework="numpy", fields=fields, **kwargs) as loader:
        return [sorted(zip(b["y"].tolist(), b["x"].astype("f4").mean((1, 2, 3)).tolist())) for b in loader]


def rows_of(result, start=0):
    pairs = zip(result["steps"][start:], result["means"][start:], strict=True)
    return [sorted(zip(steps, means)) for steps, means in pairs]


def approximately(batches):
    return [[(y, pytest.approx(mean, rel=1e-5)) for y, mean in batch] for batch in batches]


def test_global_arrays_hold_the_global_batches_and_resume_on_more_or_fewer_processes(pictures, alone):
    two = train(pictures, count=2, devices=2, axes={"data": 4}, rows=ROWS // 2)
    assert rows_of(two) == approximately(alone)
    one = train(pictures, count=1, devices=4, axes={"data": 4}, rows=ROWS, state=two["states"][4])
    assert rows_of(one) == approximately(alone[5:])


def test_processes_of_a_model_parallel_group_load_the_same_rows(pictures, alone):
    four = train(pictures, count=4, devices=1, axes={"data": 2, "model": 2}, rows=ROWS // 2)
    assert rows_of(four) == approximately(alone)

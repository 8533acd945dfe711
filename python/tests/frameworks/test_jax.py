"""framework="jax": values, memory, sharding and resuming."""

import logging

import numpy as np
import pytest

import forebay as fb

jax = pytest.importorskip("jax")
jnp = jax.numpy
NamedSharding, P = jax.sharding.NamedSharding, jax.sharding.PartitionSpec


def watched(loader):
    """Returns a list that gets the engine's outputs of each batch."""
    convert, seen = loader._maker.convert, []
    loader._maker.convert = lambda outputs: (seen.append(outputs), convert(outputs))[1]
    return seen


def address(tensor):
    return np.from_dlpack(tensor).__array_interface__["data"][0]


def ids(loader):
    return [np.asarray(batch["y"]).tolist() for batch in loader]


def test_batches_are_arrays_of_jax_with_the_values_of_numpy(every):
    with every("jax") as loader, every("numpy") as other:
        for ours, expected in zip(loader, other, strict=True):
            assert list(ours) == [*list(expected)[:-1], "bf16", "repeat"]
            for name in ("x", "u8", "f16", "y", "i32", "vector", "repeat"):
                assert isinstance(ours[name], jax.Array)
                # Without jax_enable_x64 JAX has no int64.
                dtype = "int32" if name == "y" else expected[name].dtype
                assert ours[name].dtype == dtype
                assert (np.asarray(ours[name]) == expected[name]).all()
            assert ours["bf16"].dtype == jnp.bfloat16
            assert (ours["bf16"] == jnp.asarray(expected["u8"].astype(np.float32) / 255, jnp.bfloat16)).all()
            assert ours["name"] == expected["name"] and ours["raw"] == expected["raw"]
            assert all((a == b).all() and type(a) is np.ndarray for a, b in zip(ours["any"], expected["any"], strict=True))


def test_arrays_share_the_memory_of_the_batch(every):
    with every("jax") as loader:
        seen = watched(loader)
        batch = next(iter(loader))
        for name in ("x", "u8", "f16", "i32", "vector", "repeat"):
            assert batch[name].unsafe_buffer_pointer() == address(seen[0][name]), name
        assert batch["bf16"].unsafe_buffer_pointer() == address(seen[0]["bf16"].bits())


def test_an_array_is_not_committed_to_a_device(every):
    with every("jax") as loader:
        batch = next(iter(loader))
        assert batch["x"].devices() == {jax.devices()[0]} and not batch["x"].committed
        weights = jax.device_put(jnp.ones(()), jax.devices()[2])
        assert (batch["x"] * weights).devices() == {jax.devices()[2]}
        with jax.default_device(jax.devices()[1]):
            assert next(iter(loader))["x"].devices() == {jax.devices()[1]}


def test_memory_is_not_reused_while_an_array_refers_to_it(every):
    with every("numpy") as loader:
        expected = [np.array(batch["x"]) for batch in loader]
    # Memory for few batches: each further one takes the memory of a dropped one.
    with every("jax", engine=fb.Engine(prefetch=1), threads=1) as loader:
        kept = [batch["x"] for batch in loader]
        views = [x[1:] for x in kept]
        assert [(np.asarray(x) == e).all() for x, e in zip(kept, expected)] == [True] * 6
        for _ in loader:
            pass
        del kept
        assert [(np.asarray(x) == e[1:]).all() for x, e in zip(views, expected)] == [True] * 6


def test_steps_that_are_queued_read_the_values_of_their_own_batch(every):
    @jax.jit
    def step(x):
        return jax.lax.fori_loop(0, 200, lambda _, y: jnp.sin(y), x)

    with every("numpy") as loader:
        expected = [np.asarray(step(np.array(batch["x"]))) for batch in loader]
    with every("jax", engine=fb.Engine(prefetch=1)) as loader:
        # The loop drops each batch while steps that read it are queued.
        results = [step(batch["x"]) for _ in range(3) for batch in loader]
        assert all((np.asarray(result) == expected[n % 6]).all() for n, result in enumerate(results))


def test_donation_leaves_the_memory_of_the_batch_alone(every):
    step = jax.jit(lambda x: x + 1, donate_argnums=0)
    with every("jax") as loader, every("numpy") as other:
        seen = watched(loader)
        for batch, expected in zip(loader, other, strict=True):
            kept = np.from_dlpack(seen[-1]["x"])
            result = step(batch["x"])
            assert batch["x"].is_deleted()
            assert (np.asarray(result) == expected["x"] + 1).all() and (kept == expected["x"]).all()


def test_dropped_arrays_return_their_memory(every):
    with every("jax", fields={"x": fb.Image("image", fb.Resize((16, 16)))}, extra=[]) as loader:
        for _ in range(8):
            for batch in loader:
                del batch
        assert loader.stats()["counters"]["batches_unpooled"] == 0


def test_a_loop_that_runs_ahead_of_the_device_logs_no_warning(every, caplog):
    """JAX's CPU devices take up to 32 steps before the first is complete."""
    caplog.set_level(logging.DEBUG, "forebay")
    # Larger than a MiB, below which the message is no warning.
    fields = {"x": fb.Image("image", fb.Resize((256, 256)), dtype="float32")}
    with every(
        "jax", fields=fields, extra=[], engine=fb.Engine(prefetch=1), order=fb.Order(epoch_size=48 * 6), batch_size=8
    ) as loader:
        held = []
        for batch in loader:
            held.append(batch["x"])
            del held[:-32]
    assert "still in use" not in caplog.text


def test_training_resumes_in_the_middle_of_an_epoch(every):
    kwargs = {"shuffle": True, "fields": {"y": fb.Scalar("class")}, "drop_last": True}
    with every("jax", **kwargs) as loader:
        undisturbed = [ids(loader) for _ in range(2)]
    with every("jax", **kwargs) as loader:
        batches = iter(loader)
        first = [np.asarray(next(batches)["y"]).tolist() for _ in range(2)]
        state = loader.state_dict()
    # Checkpoints of JAX programs are pytrees, and their numbers may come back as arrays.
    state = jax.tree.map(lambda value: np.asarray(value)[()] if isinstance(value, int) else value, state)
    with every("jax", **kwargs) as loader:
        loader.load_state_dict(state)
        assert [first + ids(loader), ids(loader)] == undisturbed


def mesh(**axes):
    return jax.make_mesh(tuple(axes.values()), tuple(axes), axis_types=(jax.sharding.AxisType.Auto,) * len(axes))


def test_a_sharding_spreads_the_rows_over_the_local_devices_without_a_copy(every):
    sharding = NamedSharding(mesh(data=4), P("data"))
    with every("jax", sharding=sharding) as loader, every("numpy") as other:
        seen = watched(loader)
        for batch, expected in zip(loader, other, strict=True):
            for name in ("x", "u8", "y", "vector", "repeat"):
                assert batch[name].sharding.is_equivalent_to(sharding, batch[name].ndim)
                assert (np.asarray(batch[name]) == expected[name]).all()
            for number, shard in enumerate(batch["x"].addressable_shards):
                assert shard.data.shape == (2, 3, 16, 16)
                assert shard.data.unsafe_buffer_pointer() == address(seen[-1]["x"]) + number * shard.data.nbytes
            assert batch["name"] == expected["name"]


def test_a_longer_specification_is_shortened_for_outputs_with_fewer_dimensions(every):
    sharding = NamedSharding(mesh(data=2, model=2), P("data", None, "model"))
    with every("jax", sharding=sharding) as loader:
        batch = next(iter(loader))
        assert [shard.data.shape for shard in batch["x"].addressable_shards] == [(4, 3, 8, 16)] * 4
        assert [shard.data.shape for shard in batch["y"].addressable_shards] == [(4,)] * 4


def test_a_short_batch_for_a_sharding_is_filled_with_marked_repeats(every):
    sharding = NamedSharding(mesh(data=4), P("data"))
    with every("jax", sharding=sharding, batch_size=32) as loader:
        _, last = loader
        assert np.asarray(last["repeat"]).tolist() == [False] * 16 + [True] * 16
        assert np.asarray(last["y"]).tolist() == [*range(32, 48), *[47] * 16]
        assert last["name"][-1] == "n47" and len(last["raw"]) == len(last["any"]) == 32


def test_a_sharding_that_does_not_fit_is_an_error(every):
    sharding = NamedSharding(mesh(data=4), P("data"))
    with pytest.raises(fb.ConfigError, match="batch_size is 6, but the sharding splits the rows of this process over 4 devices"):
        every("jax", sharding=sharding, batch_size=6)
    with pytest.raises(fb.ConfigError, match=r'full: pass drop_last=True .* or extra=\["repeat"\]'):
        every("jax", sharding=sharding, extra=[])
    with pytest.raises(fb.ConfigError, match=r'full: pass drop_last=True .* or extra=\["repeat"\]'):
        every("jax", sharding=sharding, extra=[], drop_last=True, skip=fb.Skip(errors=1))
    with pytest.raises(fb.ConfigError, match=r"sharding is a jax\.sharding\.Sharding"):
        every("jax", sharding=P("data"))
    with pytest.raises(fb.ConfigError, match="batches for a sharding are in host memory, but device is cuda:0"):
        every("jax", sharding=sharding, device="cuda:0")
    with pytest.raises(fb.ConfigError, match='sharding places arrays of JAX, but framework is "numpy"'):
        every("numpy", sharding=sharding)


def test_ranks_follow_the_processes_of_a_sharding(monkeypatch):
    from forebay._convert import sharding as module

    def replicas(of_process, given=None, rank=0, world_size=4):
        class Parts:
            def __init__(self, sharding):
                self.of_process, self.process, self.is_local = of_process, 0, False
                self.count = len(set().union(*of_process.values()))

        monkeypatch.setattr(module, "_Parts", Parts)
        world = fb.World(rank, world_size, rank, world_size, "a test")
        return module.replicas(NamedSharding(mesh(data=4), P("data")), world, given)

    assert replicas({0: [0], 1: [1], 2: [2], 3: [3]}) == 1
    assert replicas({0: [3], 1: [1], 2: [0], 3: [2]}) == 1, "a mesh may permute the processes"
    assert replicas({0: [0, 1], 1: [0, 1], 2: [2, 3], 3: [2, 3]}) == 2
    assert replicas({0: [0], 1: [0], 2: [0], 3: [0]}, given=4) == 4
    with pytest.raises(fb.ConfigError, match="replication is 4, but the sharding gives 2 processes the same rows"):
        replicas({0: [0], 1: [0], 2: [1], 3: [1]}, given=4)
    with pytest.raises(fb.ConfigError, match="not consecutive: let the first axis of the mesh follow the processes"):
        replicas({0: [0], 1: [1], 2: [0], 3: [1]})
    with pytest.raises(fb.ConfigError, match="different numbers of rows, overlapping rows"):
        replicas({0: [0, 1], 1: [1, 2], 2: [2, 3], 3: [3, 0]})
    with pytest.raises(fb.ConfigError, match=r"the loader is rank 0 of 1 \(a test\)"):
        replicas({0: [0], 1: [1], 2: [2], 3: [3]}, world_size=1)


def test_rows_are_mapped_as_arrays_of_numpy_and_batches_are_arrays_of_jax(tmp_path):
    with fb.MDSWriter(out=tmp_path / "set", columns={"ids": "ndarray"}) as writer:
        for number in range(8):
            writer.write({"ids": np.arange(1, 2 + number)})
    fields = {"ids": fb.Tokens("ids", dtype="int32", pad=0), "half": fb.Array("ids", "bfloat16")}

    def add(sample, rng):
        assert isinstance(sample["ids"], np.ndarray)
        return {**sample, "unit": np.float32(rng.random()), "ids": sample["ids"] + 1, "length": len(sample["half"])}

    with fb.Loader(local=tmp_path / "set", batch_size=4, fields=fields, framework="jax", map=add) as loader:
        batches = list(loader)
    for number, batch in enumerate(batches):
        assert all(isinstance(batch[name], jax.Array) for name in ("ids", "unit", "length"))
        assert batch["ids"].shape == (4, 4 * number + 4) and batch["length"].tolist() == [4 * number + n for n in range(1, 5)]
        assert isinstance(batch["half"], list) and batch["half"][0].dtype == jnp.bfloat16
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("data",))
    with pytest.raises(fb.ConfigError, match="map gives batches without a sharding"):
        fields = {"ids": fb.Length("ids")}
        fb.Loader(
            local=tmp_path / "set", batch_size=4, drop_last=True, fields=fields, framework="jax", map=add, sharding=NamedSharding(mesh, P("data"))
        )

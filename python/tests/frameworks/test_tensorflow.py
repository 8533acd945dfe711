"""framework="tensorflow", and loaders as tf.data.Dataset."""

import numpy as np
import pytest

import forebay as fb

tf = pytest.importorskip("tensorflow")

from forebay.integrations.tensorflow import dataset  # noqa: E402

NUMBER = {"y": fb.Scalar("class")}


def ids(batches):
    return [batch["y"].numpy().tolist() for batch in batches]


def test_batches_are_tensors_with_the_values_of_numpy(every):
    with every("tensorflow") as loader, every("numpy") as other:
        for ours, expected in zip(loader, other, strict=True):
            assert list(ours) == [*list(expected)[:-1], "bf16", "repeat"]
            for name in ("x", "u8", "f16", "y", "i32", "vector", "repeat"):
                assert tf.is_tensor(ours[name]) and ours[name].dtype == expected[name].dtype
                assert (ours[name].numpy() == expected[name]).all()
            assert ours["bf16"].dtype == tf.bfloat16
            assert tf.reduce_all(ours["bf16"] == tf.cast(expected["u8"].astype(np.float32) / 255, tf.bfloat16))
            assert ours["name"].numpy().tolist() == [name.encode() for name in expected["name"]]
            assert ours["raw"].numpy().tolist() == expected["raw"]
            assert all(tf.is_tensor(a) and (a.numpy() == b).all() for a, b in zip(ours["any"], expected["any"], strict=True))


def test_tensors_share_the_memory_of_the_batch(every):
    with every("tensorflow") as loader:
        convert, seen = loader._maker.convert, []
        loader._maker.convert = lambda outputs: (seen.append(outputs), convert(outputs))[1]
        batch = next(iter(loader))
        for name in ("x", "u8", "f16", "y", "i32", "vector", "repeat"):
            shared = np.from_dlpack(seen[0][name])
            assert np.shares_memory(np.asarray(memoryview(batch[name])), shared), name


def test_memory_is_not_reused_while_a_tensor_refers_to_it(every):
    with every("numpy") as loader:
        expected = [np.array(batch["x"]) for batch in loader]
    with every("tensorflow", engine=fb.Engine(prefetch=1), threads=1) as loader:
        kept = [tf.reshape(batch["x"], [-1]) for batch in loader]
        for _ in loader:
            pass
        assert [(x.numpy() == e.reshape(-1)).all() for x, e in zip(kept, expected, strict=True)] == [True] * 6


def test_a_dataset_has_one_epoch_for_each_iteration(every):
    kwargs = {"fields": NUMBER, "extra": [], "shuffle": True, "batch_size": 10}
    with every("numpy", **kwargs) as loader:
        expected = [ids_of_numpy(loader) for _ in range(3)]
    with every("tensorflow", **kwargs) as loader:
        view = dataset(loader)
        assert view.element_spec == {"y": tf.TensorSpec([None], tf.int64)}
        assert [ids(view) for _ in range(2)] == expected[:2]
    with every("tensorflow", **kwargs) as loader:
        assert ids(dataset(loader).repeat(3)) == sum(expected, [])


def ids_of_numpy(loader):
    return [batch["y"].tolist() for batch in loader]


def test_the_types_of_a_dataset_are_the_types_of_its_elements(every):
    with every("tensorflow") as loader:
        spec = dataset(loader).element_spec
        assert spec["x"] == tf.TensorSpec([None, 3, 16, 16], tf.float32)
        assert spec["name"] == spec["raw"] == tf.TensorSpec([None], tf.string)
        assert spec["any"] == tf.RaggedTensorSpec([None, None, None], tf.int16, ragged_rank=2)
        assert spec["bf16"].dtype == tf.bfloat16 and spec["repeat"].dtype == tf.bool
        view = dataset(loader)
        elements = list(view)
        assert [element["any"][2].to_list() for element in elements][0] == [[2, 2]] * 3
        assert len(elements) == 6
    with every("tensorflow", drop_last=True) as loader:
        assert dataset(loader).element_spec["x"] == tf.TensorSpec([8, 3, 16, 16], tf.float32)
    with every("tensorflow", transform=lambda batch: (batch["x"], batch["y"][:4])) as loader:
        assert dataset(loader).element_spec == (
            tf.TensorSpec([None, 3, 16, 16], tf.float32),
            tf.TensorSpec([None], tf.int64),
        )
    with every("numpy") as loader:
        assert dataset(loader).element_spec["name"] == tf.TensorSpec([None], tf.string)
        assert len(list(dataset(loader))) == 6


def test_a_dataset_trains_in_a_graph_and_resumes_in_the_middle_of_an_epoch(every):
    kwargs = {"fields": NUMBER, "extra": [], "shuffle": True, "drop_last": True}
    with every("tensorflow", **kwargs) as loader:
        undisturbed = [ids(dataset(loader)) for _ in range(2)]

    @tf.function
    def step(y):
        return tf.reduce_sum(y)

    with every("tensorflow", **kwargs) as loader:
        first = []
        for batch in dataset(loader):
            assert step(batch["y"]) == sum(batch["y"].numpy())
            first.append(batch["y"].numpy().tolist())
            if len(first) == 2:
                break
        state = loader.state_dict()
        assert state["sample_in_epoch"] == 16
    with every("tensorflow", **kwargs) as loader:
        loader.load_state_dict(state)
        view = dataset(loader)
        assert loader.state_dict() == state
        assert [first + ids(view), ids(view)] == undisturbed


def test_the_batch_that_shows_the_types_is_delivered_and_does_not_count_before(every):
    kwargs = {"fields": NUMBER, "extra": [], "batch_size": 16}
    with every("tensorflow", **kwargs) as loader:
        fresh = loader.state_dict()
        view = dataset(loader)
        assert loader.state_dict() == fresh
        assert ids(view) == [[*range(start, start + 16)] for start in (0, 16, 32)]
        view = dataset(loader)
        loader.load_state_dict(fresh | {"sample_in_epoch": 32})
        assert ids(view) == [[*range(32, 48)]], "a state that is loaded later counts"
        loader.load_state_dict(fresh | {"sample_in_epoch": 48})
        with pytest.raises(fb.ConfigError, match="the loaded state is the end of an epoch"):
            dataset(loader)


def test_a_list_of_outputs_is_an_error_that_names_the_tuple(every):
    with every("tensorflow", transform=lambda batch: [batch["y"], batch["i32"]]) as loader:
        with pytest.raises(fb.ConfigError, match="returned a list, .* return a tuple or a dict"):
            dataset(loader)
    with every("tensorflow", transform=lambda batch: (batch["y"], batch["any"])) as loader:
        assert [type(spec) for spec in dataset(loader).element_spec] == [tf.TensorSpec, tf.RaggedTensorSpec]


def test_a_step_of_several_devices_is_no_dataset(every):
    with every("tensorflow", device=["cpu", "cpu"]) as loader:
        with pytest.raises(fb.ConfigError, match="dataset has one batch per step"):
            dataset(loader)


def test_rows_that_are_mapped_or_padded_have_types_for_every_batch(tmp_path):
    with fb.MDSWriter(out=tmp_path / "set", columns={"ids": "ndarray"}) as writer:
        for number in range(8):
            writer.write({"ids": np.arange(1, 2 + number)})
    fields = {"ids": fb.Tokens("ids", pad=0), "mask": fb.AttentionMask("ids", "int32")}

    def count(sample, rng):
        return {**sample, "n": int(sample["mask"].sum()), "text": str(sample["ids"][0])}

    with fb.Loader(local=tmp_path / "set", batch_size=4, fields=fields, framework="tensorflow", map=count) as loader:
        for data in (dataset(loader), list(loader)):
            batches = list(data)
            assert [tuple(batch["ids"].shape) for batch in batches] == [(4, 4), (4, 8)]
            assert [batch["n"].numpy().tolist() for batch in batches] == [[1, 2, 3, 4], [5, 6, 7, 8]]
            assert batches[0]["text"].numpy().tolist() == [b"1"] * 4 and batches[0]["mask"].dtype.name == "int32"

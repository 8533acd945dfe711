"""Rows of an output of a map in its batch: types decide between one array and a list, shapes never do; `pad` fills rows."""

import re

import numpy as np
import pytest
from loaders import NUMBER
from map_loops import STORED, mapped
from row_functions import adds_to_the_array, passes_on, ragged, ragged_tensors

import forebay as fb
from forebay._mapping.rows import collated
from forebay._mapping.rows import RowPadding
from forebay._mapping.rows import RowsDiffer

torch = pytest.importorskip("torch")

BEGIN = {**STORED, "batch_size": 4}
"""Batches of the numbers 0 to 3, 4 to 7 ..."""


def batch_of(*values, pad=None, **options):
    padding = None if pad is None else RowPadding.of("f", {"v": pad}, options.get("pad_to_multiple"))
    return collated([{"v": value} for value in values], range(len(values)), {}, padding)["v"]


@pytest.mark.parametrize(
    "values",
    [
        ["a", "b"],
        [b"a", b""],
        ["a", b"b", None],
        [None, None],
        [[1], [2]],
        [[1], [2, 3]],
        [[np.ones(2)], [np.ones(3)]],
        [(1, 2), (3, 4)],
        [np.array("a"), np.array("b")],
        [np.datetime64("2026-01-01")] * 2,
        [np.array([None])] * 2,
        [{}, {"a": 1}],
    ],
)
def test_text_and_objects_are_lists_whatever_their_shapes(values):
    found = batch_of(*values)
    assert isinstance(found, list) and all(one is other for one, other in zip(found, values))


@pytest.mark.parametrize(
    "values, dtype",
    [
        ([True, False], bool),
        ([True, np.bool_(False)], bool),
        ([1, 2], np.int64),
        ([1, np.int64(2)], np.int64),
        ([1.0, 2.0], np.float64),
        ([np.float32(1), np.float32(2)], np.float32),
        ([np.ones((2, 3), "uint8")] * 2, np.uint8),
        ([np.ones((0, 3), "uint8")], np.uint8),
    ],
)
def test_arrays_and_numbers_of_one_type_are_one_array(values, dtype):
    found = batch_of(*values)
    assert isinstance(found, np.ndarray) and found.dtype == dtype and np.array_equal(found, np.stack(values))


def test_tensors_are_one_tensor():
    assert torch.equal(batch_of(torch.ones(2), torch.zeros(2)), torch.tensor([[1.0, 1], [0, 0]]))


@pytest.mark.parametrize(
    "values, words",
    [
        ([np.ones(2), np.ones(2), np.ones(3)], ["shape (2,) for row 0", "shape (3,) for row 2", "Map(FUNCTION, pad={'v': 0})", "return a list"]),
        ([np.ones((2, 2)), np.ones((2, 3))], ["shape (2, 2) for row 0", "shape (2, 3) for row 1", "pad={'v': 0}", "return a list, such as [x]"]),
        ([torch.ones(2), torch.ones(3)], ["shape (2,)", "shape (3,)", "fill the rows up to the longest one", "return a list, such as [x]"]),
        ([np.float32(1), np.ones(1, "float32")], ["shape () for row 0", "shape (1,) for row 1"]),
        ([1, 2.0], ["a value of type int for row 0", "a value of type float for row 1", "values of one type for all samples"]),
        ([1, True], ["type int for row 0", "type bool for row 1"]),
        ([1, None], ["type int for row 0", "type NoneType for row 1"]),
        (["a", 1], ["type str for row 0", "type int for row 1"]),
        ([np.ones(2), np.ones(2, "float32")], ["an array of float64 for row 0", "an array of float32 for row 1"]),
        ([torch.ones(2), np.ones(2)], ["a tensor of torch.float32 for row 0", "an array of float64 for row 1"]),
        ([np.int64(1), [1]], ["a number of int64 for row 0", "a value of type list for row 1"]),
        ([1, 1 << 70], ["a number of more than 64 bits for row 1", "return it as text, or in a list"]),
    ],
)
def test_rows_that_differ_are_an_error_with_both_and_the_remedies(values, words):
    with pytest.raises(RowsDiffer) as caught:
        batch_of(*values)
    text = f"{caught.value.problem}: {caught.value.remedy}"
    assert text.startswith("v ") and all(word in text for word in words), text


def lengths_of(batch):
    return [number % 5 for number in batch]


@pytest.mark.parametrize("kind", ["threads", "processes"])
@pytest.mark.parametrize("workers", [1, 2])
def test_rows_are_padded_to_the_longest_one_of_the_batch(pictures, kind, workers):
    pad = {"frames": -1.5, "ids": 7, "mask": fb.AttentionMask("ids"), "of_frames": fb.AttentionMask("frames", "int64")}
    with mapped(pictures, ragged, kind=kind, workers=workers, pad=pad, fields=NUMBER, **BEGIN) as loader:
        batches = list(loader)
    for place, batch in enumerate(batches[:6]):
        lengths = lengths_of(range(4 * place, 4 * place + 4))
        longest = max(lengths)
        assert list(batch) == ["frames", "ids", "text", "kept", "mask", "of_frames"]
        assert batch["frames"].shape == (4, longest, 2) and batch["frames"].dtype == np.float32
        assert batch["ids"].shape == (4, longest) and batch["ids"].dtype == np.int64
        assert batch["mask"].dtype == bool and batch["mask"].sum(1).tolist() == lengths
        assert batch["of_frames"].dtype == np.int64 and batch["of_frames"].tolist() == batch["mask"].astype(int).tolist()
        for row, length in enumerate(lengths):
            assert batch["frames"][row].tolist() == [[length] * 2] * length + [[-1.5] * 2] * (longest - length)
            assert batch["ids"][row].tolist() == [*range(length), *[7] * (longest - length)]
        assert batch["text"] == ["x" * length for length in lengths]
        assert [value[0].shape for value in batch["kept"]] == [(length, 2) for length in lengths]


@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_tensors_are_padded_in_their_own_type(pictures, kind):
    options = {"framework": "torch", "fields": NUMBER, "pad_to_multiple": 8, **BEGIN}
    pad = {"frames": 0.5, "ids": -100, "mask": fb.AttentionMask("ids", "int64")}
    with mapped(pictures, ragged_tensors, kind=kind, workers=1, pad=pad, **options) as loader:
        batch = next(iter(loader))
    assert batch["frames"].dtype == torch.bfloat16 and batch["frames"].shape == (4, 8, 2)
    assert batch["frames"][3].tolist() == [[3.0, 3.0]] * 3 + [[0.5, 0.5]] * 5
    assert batch["ids"].dtype == batch["mask"].dtype == torch.int64
    assert batch["ids"].tolist() == [[*range(length), *[-100] * (8 - length)] for length in range(4)]
    assert batch["mask"].sum(1).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("framework", ["jax", "tensorflow", "dlpack"])
def test_every_framework_has_padded_rows(pictures, framework):
    if framework != "dlpack":
        pytest.importorskip(framework)
    with mapped(pictures, ragged, framework=framework, workers=1, pad={"frames": 0, "ids": 0}, fields=NUMBER, **BEGIN) as loader:
        batch = next(iter(loader))
    assert tuple(batch["frames"].shape) == (4, 3, 2) and np.asarray(batch["ids"]).tolist() == [[0] * 3, [0] * 3, [0, 1, 0], [0, 1, 2]]


def test_rows_of_different_shapes_are_an_error_that_names_the_sample_and_is_the_same_again(pictures):
    with mapped(pictures, ragged, workers=2, fields=NUMBER, **BEGIN) as loader:
        batches = iter(loader)
        for _ in range(2):
            state = loader.state_dict()
            with pytest.raises(fb.ConfigError) as caught:
                next(batches)
            text = str(caught.value)
            assert "ragged returned frames with shape (0, 2) for row 0 of a batch and with shape (1, 2) for row 1" in text
            assert "as in Map(ragged, pad={'frames': 0}), or return a list, such as [x]" in text
            assert caught.value.context["sample in shard"] == "1" and caught.value.context["row"] == "1"
            assert loader.state_dict() == state


def test_a_padded_row_counts_without_the_samples_that_are_left_out(pictures):
    def fails_for_the_longest(sample, rng):
        if int(sample["number"]) % 5 == 4:
            raise ValueError("too long")
        return ragged(sample, rng)

    options = {"skip": fb.Skip(errors=100), "fields": NUMBER, **BEGIN}
    with mapped(pictures, fails_for_the_longest, workers=1, pad={"frames": 0, "ids": 0, "m": fb.AttentionMask("ids")}, **options) as loader:
        _, second, *_ = loader
    # The numbers 5, 6 and 7 of four.
    assert second["ids"].tolist() == [[0, 0], [0, 0], [0, 1]]
    assert second["m"].sum(1).tolist() == [0, 1, 2]


@pytest.fixture(scope="module")
def arrays(tmp_path_factory):
    """Arrays of different lengths, in batches of two: of lengths 1 and 2, 3 and 3."""
    out = tmp_path_factory.mktemp("arrays") / "set"
    with fb.MDSWriter(out=out, columns={"a": "ndarray:int32"}) as writer:
        for length in (1, 2, 3, 3):
            writer.write({"a": np.full(length, length, np.int32)})
    return str(out)


VARYING = {"fields": {"a": fb.Array("a")}, **STORED, "batch_size": 2}


@pytest.mark.parametrize("kind", ["threads", "processes"])
@pytest.mark.parametrize("framework", ["numpy", "torch"])
@pytest.mark.parametrize("function, more", [(passes_on, 0), (adds_to_the_array, 1)])
def test_arrays_that_are_passed_on_are_a_list_in_every_kind_of_worker(arrays, kind, framework, function, more):
    with mapped(arrays, function, workers=1, kind=kind, framework=framework, **VARYING) as loader:
        batches = list(loader)
    assert all(isinstance(batch["a"], list) for batch in batches), "two rows of one shape are a list as well"
    assert [[row.tolist() for row in batch["a"]] for batch in batches] == [
        [[1 + more], [2 + more] * 2],
        [[3 + more] * 3, [3 + more] * 3],
    ]


def test_arrays_that_are_passed_on_for_some_rows_are_an_error(arrays):
    def crops_long_ones(sample, rng):
        return {"a": sample["a"][:1] if len(sample["a"]) == 2 else sample["a"]}

    with mapped(arrays, crops_long_ones, workers=1, **VARYING) as loader:
        with pytest.raises(fb.ConfigError, match="a as it was, an array of a field with varying shapes, for row 0 .* and a new value for row 1"):
            next(iter(loader))
    with mapped(arrays, crops_long_ones, workers=1, pad={"a": 0}, **VARYING) as loader:
        assert next(iter(loader))["a"].tolist() == [[1], [2]]


def test_rows_that_are_passed_on_are_padded(arrays):
    pad = {"a": -1, "mask": fb.AttentionMask("a")}
    with mapped(arrays, passes_on, workers=1, pad=pad, framework="torch", **VARYING) as loader:
        first, second = loader
    assert first["a"].tolist() == [[1, -1], [2, 2]] and first["mask"].tolist() == [[True, False], [True, True]]
    assert second["a"].shape == (2, 3) and second["a"].dtype == torch.int32


@pytest.mark.parametrize("empty", [[], ()])
def test_empty_lists_have_the_type_of_the_remaining_rows(empty):
    assert batch_of(empty, [1.5], pad=0).tolist() == [[0.0], [1.5]]
    assert batch_of([1], empty, pad=0).dtype == np.int64
    assert batch_of([[1, 2]], empty, pad=3).tolist() == [[[1, 2]], [[3, 3]]]
    assert batch_of(torch.ones(2, dtype=torch.int16), empty, pad=0).dtype == torch.int16
    assert batch_of(empty, empty, pad=0).dtype == np.int64 and batch_of(empty, pad=0.0).dtype == np.float64


@pytest.mark.parametrize("dtype", ["uint8", "int64", "bool", "float16", "float32", "complex64"])
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_rows_keep_their_type(dtype, library):
    make = (lambda n: np.ones(n, dtype)) if library == "numpy" else lambda n: torch.ones(n, dtype=getattr(torch, dtype))
    found = batch_of(make(1), make(3), pad=0, pad_to_multiple=4)
    assert str(found.dtype).removeprefix("torch.") == dtype and found.tolist() == [[1, 0, 0, 0], [1, 1, 1, 0]]


@pytest.mark.parametrize(
    "values, pad, message",
    [
        ([np.ones((1, 2)), np.ones((1, 3))], 0, r"shape \(1, 2\) for row 0 .* shape \(1, 3\) for row 1.*pad of Map fills the first dimension"),
        ([1, 2], 0, "v as a single number for row 0"),
        (["a", "b"], 0, "v as a value of type str for row 0.*leave v out of it"),
        ([[1], "b"], 0, "an array of int64 for row 0 .* a value of type str for row 1"),
        ([[1], [2.0]], 0, "an array of int64 for row 0 .* an array of float64 for row 1"),
        ([[[1], [1, 2]], [1]], 0, "a value of type list for row 0"),
        ([np.ones(1, "uint8"), np.ones(2, "uint8")], -1, "pad of v is -1, which does not fit its type, uint8"),
        ([torch.ones(1, dtype=torch.uint8)], -1, "pad of v is -1, which does not fit its type, torch.uint8"),
        ([torch.ones(1, dtype=torch.int64)], 0.5, "pad of v is 0.5, which does not fit its type, torch.int64"),
        ([torch.ones(1, dtype=torch.int64)], float("nan"), "pad of v is nan, which does not fit its type"),
        ([torch.ones(1, dtype=torch.float16)], 1e6, "does not fit its type, torch.float16"),
        ([torch.ones(1, dtype=torch.bool)], 2, "does not fit its type, torch.bool"),
    ],
)
def test_rows_that_cannot_be_padded_are_an_error(values, pad, message):
    with pytest.raises((RowsDiffer, fb.ConfigError)) as caught:
        batch_of(*values, pad=pad)
    error = caught.value
    assert re.search(message, f"{error.problem}: {error.remedy}" if isinstance(error, RowsDiffer) else str(error))


@pytest.mark.parametrize(
    "options, message",
    [
        ({"pad": 0}, 'map: pad of Map has a value for each output that is padded, such as {"ids": 0}, but it is 0'),
        ({"pad": {1: 0}}, "map: a name in pad of Map is text"),
        ({"pad": {"ids": "x"}}, "map: pad of Map is a number, but it is 'x'"),
        ({"pad": {"ids": None}}, "map: pad of Map is a number, but it is None"),
        ({"pad_to_multiple": 8}, "map: pad_to_multiple of Map is for outputs that are padded: pass `pad` too"),
        ({"pad": {"ids": 0}, "pad_to_multiple": 0}, "map: pad_to_multiple of Map is a whole number, at least 1"),
        ({"pad": {"mask": fb.AttentionMask("ids")}}, "map: pad of Map: mask is a mask of 'ids', which is not padded: add it"),
    ],
)
def test_wrong_padding_is_a_config_error(pictures, options, message):
    with pytest.raises(fb.ConfigError, match=message):
        fb.Loader(local=pictures, batch_size=4, fields=NUMBER, map=fb.Map(ragged, **options))


@pytest.mark.parametrize(
    "function, options, message",
    [
        (ragged, {"pad": {"idz": 0}}, "pad of Map has 'idz', but ragged returns frames, ids, kept, text"),
        (ragged, {"pad": {"frames": 0, "ids": 0, "text": fb.AttentionMask("ids")}}, "adds an output called `text`, which the batch has already"),
    ],
)
def test_names_of_padding_are_checked_with_the_first_batch(pictures, function, options, message):
    with mapped(pictures, function, workers=1, fields=NUMBER, **BEGIN, **options) as loader:
        for _ in range(2):
            with pytest.raises(fb.ConfigError, match=message):
                next(iter(loader))

"""Groups of the arguments of forebay.Loader: where an option is, its accepted values, and how streams have their own."""

import dataclasses
import inspect
import pickle

import numpy as np
import pytest
from loaders import NUMBER, numbers, ordered
from picture_set import CLASSES, SAMPLES

import forebay as fb

GROUPS = {"select": fb.Select, "order": fb.Order, "fetch": fb.Fetch, "engine": fb.Engine, "skip": fb.Skip}
RENAMED = {
    "download_retry": ("fetch", "Fetch(retry="),
    "download_timeout": ("fetch", "Fetch(timeout="),
    "max_errors": ("skip", "Skip(errors="),
    "on_error": ("skip", "Skip(errors="),
    "on_missing": ("skip", "Skip(missing="),
    "window_stride": ("window", "TokenWindow("),
}
OUTPUTS = {"mark_repeats": "repeat", "sample_ids": "sample_ids", "sample_draws": "sample_draws", "sample_keys": "sample_keys"}
OF_A_STREAM = ("select", "fetch", "window")

FLAT = {
    name: (group, f"{cls.__name__}({name}=")
    for group, cls in GROUPS.items()
    for name in inspect.signature(cls).parameters
    if group != "skip" and name not in ("retry", "timeout")
}
FLAT |= {name: ("world", f"World({name}=") for name in ("rank", "world_size", "local_rank", "local_world_size")}
FLAT |= RENAMED | {name: ("extra", f'["{output}"]') for name, output in OUTPUTS.items()}


def kept(**arguments):
    """The numbers of an epoch."""
    with fb.Loader(fields=NUMBER, batch_size=16, **arguments) as loader:
        return sum(numbers(loader), [])


def test_a_loader_has_at_most_24_arguments():
    assert len(inspect.signature(fb.Loader).parameters) <= 24
    assert len(FLAT) == 53


@pytest.mark.parametrize("name", FLAT)
def test_an_option_of_a_group_is_shown_in_its_group(name):
    group, call = FLAT[name]
    with pytest.raises(TypeError) as caught:
        fb.Loader(batch_size=4, **{name: 1})
    message = str(caught.value)
    assert message.startswith(f"Loader has no argument {name!r}: it is in {group}, as in Loader({group}=")
    assert call in message


@pytest.mark.parametrize("name", [name for name, (group, _) in FLAT.items() if group in OF_A_STREAM])
def test_an_option_of_a_group_of_a_stream_is_shown_in_its_group(name):
    group, call = FLAT[name]
    with pytest.raises(TypeError) as caught:
        fb.Stream(remote="s3://bucket/set", **{name: 1})
    message = str(caught.value)
    assert message.startswith(f"Stream has no argument {name!r}: it is in {group}, as in Stream({group}=")
    assert call in message


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("shuffel_algo", "did you mean shuffle_algo? it is in order, as in Loader(order=Order(shuffle_algo="),
        ("download_retries", "did you mean download_retry? it is in fetch, as in Loader(fetch=Fetch(retry="),
        ("sample_id", "did you mean sample_ids? it is in extra, as in Loader(extra=["),
    ],
)
def test_a_misspelt_option_of_a_group_is_shown_in_its_group(name, sentence):
    with pytest.raises(TypeError) as caught:
        fb.Loader(batch_size=4, **{name: 1})
    assert str(caught.value).startswith(f"Loader has no argument {name!r}: {sentence}")


def test_the_former_name_of_the_seed_is_shown_with_the_new_one():
    with pytest.raises(TypeError, match=r"Loader has no argument 'shuffle_seed': did you mean seed\?"):
        fb.Loader(batch_size=4, shuffle_seed=3)


@pytest.mark.parametrize(
    ("make", "arguments", "sentence"),
    [
        (fb.Order, {"shuffel_algo": "py1s"}, "Order has no argument 'shuffel_algo': did you mean shuffle_algo?"),
        (fb.Order, {"seed": 3}, "Order has no argument 'seed': it is an argument of the loader, as in Loader(seed=...)"),
        (fb.Order, {"prefetch": 3}, "Order has no argument 'prefetch': it is in engine, as in Loader(engine=Engine(prefetch="),
        (fb.Engine, {"epoch_size": 3}, "Engine has no argument 'epoch_size': it is in order, as in Loader(order=Order(epoch_size="),
        (fb.Fetch, {"max_errors": 3}, "Fetch has no argument 'max_errors': it is in skip, as in Loader(skip=Skip(errors="),
        (fb.Stream, {"prefetch": 3}, "Stream has no argument 'prefetch': it is in engine, as in Loader(engine=Engine(prefetch="),
        (fb.Engine, {"prefetsh": 3}, "Engine has no argument 'prefetsh': did you mean prefetch?"),
        (fb.Fetch, {"retries": 3}, "Fetch has no argument 'retries': did you mean retry?"),
        (fb.Skip, {"error": 3}, "Skip has no argument 'error': did you mean errors?"),
        (fb.Select, {"subsets": "0:3"}, "Select has no argument 'subsets': did you mean subset?"),
        (fb.TokenWindow, {"tokens": 8, "strides": 3}, "TokenWindow has no argument 'strides': did you mean stride?"),
    ],
)
def test_a_misspelt_option_of_a_group_gets_a_suggestion(make, arguments, sentence):
    with pytest.raises(TypeError) as caught:
        make(**arguments)
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize("make", [fb.Select, fb.Order, fb.Fetch, fb.Engine, fb.Skip])
def test_a_group_takes_its_options_by_name(make):
    with pytest.raises(TypeError, match=f"{make.__name__} takes its arguments by name"):
        make("py1s")


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("order", {"shuffle_algo": "py1s"}, 'order is an Order, such as Order(shuffle_algo="py1s"), but it is {'),
        ("order", "py1s", "order is an Order, such as Order("),
        ("select", "0:100", "select is a Select, such as Select("),
        ("select", {"subset": "0:100"}, "select is a Select, such as Select("),
        ("fetch", 3, "fetch is a Fetch, such as Fetch("),
        ("engine", {"prefetch": 3}, "engine is an Engine, such as Engine("),
        ("skip", 100, "skip is a Skip, such as Skip("),
        ("skip", True, "skip is a Skip, such as Skip("),
        ("world", (0, 2), "world is a World, such as World("),
        ("order", fb.Engine(prefetch=3), "order is an Order, such as Order("),
    ],
)
def test_a_group_of_a_wrong_type_is_rejected_with_an_example(name, value, sentence):
    with pytest.raises(fb.ConfigError) as caught:
        fb.Loader(local="set", batch_size=4, **{name: value})
    assert str(caught.value).startswith(sentence) and ", but it is " in str(caught.value)


@pytest.mark.parametrize(("name", "value"), [("select", "0:100"), ("fetch", 3), ("window", "8")])
def test_a_group_of_a_wrong_type_in_a_stream_is_rejected_with_its_path(name, value):
    with pytest.raises(fb.ConfigError, match=rf"^streams\[1\]: {name} is "):
        fb.Loader(streams=[fb.Stream(remote="a"), fb.Stream(remote="b", **{name: value})], batch_size=4)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"order": fb.Order(shuffle_algo=3)}, "shuffle_algo is text, but it is 3"),
        ({"order": fb.Order(augment_seed=-1)}, "augment_seed is a whole number, at least 0, but it is -1"),
        ({"order": fb.Order(epoch_size=2.5)}, "epoch_size is a whole number, at least 0, but it is 2.5"),
        ({"fetch": fb.Fetch(keep_zip="no")}, "keep_zip is True or False, but it is 'no'"),
        ({"engine": fb.Engine(memory="lots")}, 'memory is a number of bytes or a size such as "2gb", but it is'),
        ({"select": fb.Select(filter=3)}, "filter is text, but it is 3"),
        ({"window": 0}, "window is a whole number, at least 1, but it is 0"),
        ({"seed": -1}, "seed is a whole number, at least 0, but it is -1"),
    ],
)
def test_a_wrong_option_of_a_group_is_rejected_by_its_name(arguments, sentence):
    with pytest.raises(fb.ConfigError) as caught:
        fb.Loader(local="set", batch_size=4, **arguments)
    assert sentence in str(caught.value)


def test_groups_cannot_be_changed_and_are_copied_with_changes():
    order = fb.Order(shuffle_algo="py1s", epoch_size=100)
    with pytest.raises(dataclasses.FrozenInstanceError):
        order.epoch_size = 50
    assert dataclasses.replace(order, epoch_size=50) == fb.Order(shuffle_algo="py1s", epoch_size=50)
    assert pickle.loads(pickle.dumps(order)) == order


@pytest.mark.parametrize(
    "group",
    [
        fb.Order(),
        fb.Order(shuffle_algo="py1s", epoch_size=100),
        fb.Engine(prefetch=3),
        fb.Fetch(timeout=5.0),
        fb.Skip(errors=3),
        fb.Select(filter="class < 3", fraction=(0, 0.9)),
        fb.TokenWindow(2048, stride=1024),
    ],
    ids=str,
)
def test_a_group_as_text_has_the_options_that_differ_from_the_defaults(group):
    text = repr(group)
    assert eval(text, {name: getattr(fb, name) for name in fb.__all__}) == group
    assert "None" not in text and text.count("=") <= 2


def test_groups_without_options_equal_the_groups_of_a_loader_without_any(pictures):
    plain = kept(local=pictures, shuffle=True)
    groups = {"select": fb.Select(), "order": fb.Order(), "fetch": fb.Fetch(), "engine": fb.Engine(), "skip": None, "world": None}
    assert kept(local=pictures, shuffle=True, **groups) == plain
    assert kept(local=pictures, shuffle=True, **dict.fromkeys(groups)) == plain
    assert kept(local=pictures, shuffle=True, seed=3) != plain


def test_a_stream_s_selection_overrides_the_loader_s_option_by_option(pictures):
    own = fb.Stream(local=pictures, select=fb.Select(subset="0:20"))
    none = fb.Stream(local=pictures)
    common = fb.Select(subset="0:10", filter="class == 1")
    first = [number for number in range(20) if number % CLASSES == 1]
    second = [number for number in range(10) if number % CLASSES == 1]
    assert kept(streams=[own, none], select=common) == first + second


def test_weights_and_balance_of_a_stream_replace_both_of_the_loader(pictures):
    balanced = fb.Stream(local=pictures, select=fb.Select(balance="class"))
    weighted = fb.Select(weights=np.ones(SAMPLES))
    with fb.Loader(streams=[balanced, fb.Stream(local=pictures)], select=weighted, batch_size=16, fields=NUMBER) as loader:
        drawn = loader.state_dict()["forebay"]["plan"]
    assert "balance" in str(drawn) and "weights" in str(drawn)


def test_a_seed_of_fractions_without_a_fraction_is_an_error(pictures):
    with pytest.raises(fb.ConfigError, match="fraction_seed is the seed of fraction"):
        ordered(pictures, select=fb.Select(fraction_seed=3))
    streams = [fb.Stream(local=pictures, select=fb.Select(fraction=(0, 0.5))), fb.Stream(local=pictures)]
    assert len(kept(streams=streams, select=fb.Select(fraction_seed=3))) == SAMPLES * 3 // 2


def config_of(**arguments):
    with fb.Loader(batch_size=4, **arguments) as loader:
        return loader._config


def test_the_fetch_of_a_stream_replaces_the_loader_s(pictures):
    streams = [fb.Stream(local=pictures, fetch=fb.Fetch(timeout=5.0)), fb.Stream(local=pictures)]
    config = config_of(streams=streams, fetch=fb.Fetch(retry=7, keep_zip=True))
    assert (config["fetch"]["retry"], config["fetch"]["keep_zip"]) == (7, True)
    own, none = config["streams"]
    # Its remaining options are the defaults, and not the loader's.
    assert own["fetch"] == {"retry": 2, "timeout": 5.0, "validate_hash": None, "keep_zip": False}
    assert none.get("fetch") is None


@pytest.mark.parametrize("window", [8, fb.TokenWindow(8), fb.TokenWindow(tokens=8), fb.TokenWindow(8, stride=8)])
def test_a_window_is_a_number_of_tokens_or_has_a_stride(window, tmp_path):
    import megatron_files

    documents = [np.arange(start, start + 20, dtype=np.uint16) for start in (0, 100)]
    megatron_files.write(str(tmp_path / "corpus"), documents)

    def windows(**arguments):
        with fb.Loader(remote=str(tmp_path / "corpus.bin"), batch_size=1, framework="numpy", **arguments) as loader:
            return [batch["tokens"][0].tolist() for batch in loader]

    tokens = np.concatenate(documents).tolist()
    assert windows(window=window) == [tokens[at : at + 8] for at in range(0, 40, 8)]
    assert windows(window=fb.TokenWindow(8, stride=4)) == [tokens[at : at + 8] for at in range(0, 36, 4)]


@pytest.mark.parametrize("window", ["8", True, (8, 4), {"tokens": 8}])
def test_a_window_of_a_wrong_type_is_rejected_with_both_forms(window):
    with pytest.raises(fb.ConfigError, match="^window is ") as caught:
        fb.Loader(local="set", batch_size=4, window=window)
    assert "TokenWindow(" in str(caught.value)


@pytest.mark.parametrize("extra", ["sample_ids", True, 3, ["sample_id"], [3], [["repeat"]]])
def test_unknown_outputs_are_rejected_with_an_example(extra):
    with pytest.raises(fb.ConfigError, match="^extra") as caught:
        fb.Loader(local="set", batch_size=4, extra=extra)
    assert "sample_ids" in str(caught.value) or "sample_keys" in str(caught.value)


@pytest.mark.parametrize("extra", [["repeat", "sample_ids"], ("sample_ids", "repeat"), {"repeat": 1, "sample_ids": 2}, ["repeat", "sample_ids", "repeat"]])
def test_extra_outputs_are_named_in_any_order(pictures, extra):
    with fb.Loader(local=pictures, batch_size=4, fields=NUMBER, extra=extra) as loader:
        batch = next(iter(loader))
        assert sorted(batch) == ["number", "repeat", "sample_ids"]
        assert batch["repeat"].tolist() == [False] * 4 and tuple(batch["sample_ids"].shape) == (4, 3)


def test_a_skip_that_leaves_nothing_out_is_an_error_that_shows_a_number(pictures):
    with pytest.raises(fb.ConfigError, match=r"skip leaves nothing out: pass a number of samples, as in Skip\(errors=100\)"):
        ordered(pictures, skip=fb.Skip())
    with pytest.raises(fb.ConfigError, match=r"errors is a whole number, at least 0, but it is -1"):
        ordered(pictures, skip=fb.Skip(errors=-1))
    assert kept(local=pictures, skip=fb.Skip(missing=True)) == list(range(SAMPLES))


def test_numbers_of_the_world_that_are_none_are_detected(pictures, monkeypatch):
    with ordered(pictures, world=fb.World(rank=1, world_size=2, local_rank=0, local_world_size=1)) as loader:
        assert "rank 1 of 2 (the call)" in repr(loader)
    for name, value in {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    with ordered(pictures, world=fb.World(rank=1, world_size=2)) as loader:
        assert (loader._world.local_rank, loader._world.local_world_size) == (1, 2)
        assert "rank 1 of 2 (the call)" in repr(loader)
    with ordered(pictures, world=fb.World(rank=None, world_size=None)) as loader:
        assert "rank 1 of 2 (torchrun)" in repr(loader)
    with pytest.raises(fb.ConfigError, match="rank and world_size belong together"):
        ordered(pictures, world=fb.World(rank=1, world_size=None))

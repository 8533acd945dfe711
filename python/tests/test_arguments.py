"""Errors of forebay.Loader for wrong arguments, before it reads any data."""

import inspect
import json
import pathlib

import pytest
from loaders import NUMBER, numbers, ordered

import forebay as fb
from forebay.__main__ import main

torch = pytest.importorskip("torch")


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("batch_size", -1, "batch_size is a whole number, at least 1, but it is -1"),
        ("batch_size", 2.0, "batch_size is a whole number, at least 1, but it is 2.0"),
        ("batch_size", 2**70, f"batch_size is a whole number, at most {2**32 - 1}, but it is {2**70}"),
        ("batch_size", None, "batch_size is a whole number, at least 1, but it is None"),
        ("batch_size", "16", "batch_size is a whole number, at least 1, but it is '16'"),
        ("engine", fb.Engine(prefetch=0), "engine: prefetch is a whole number, at least 1, but it is 0"),
        ("seed", -1, "seed is a whole number, at least 0, but it is -1"),
        ("fetch", fb.Fetch(timeout=float("inf")), "fetch: timeout is a positive number of seconds, but it is inf"),
        ("fetch", fb.Fetch(timeout=float("nan")), "fetch: timeout is a positive number of seconds, but it is nan"),
        ("engine", fb.Engine(stall_timeout="1"), "engine: stall_timeout is a positive number of seconds, but it is '1'"),
        ("engine", fb.Engine(memory=True), 'engine: memory is a number of bytes or a size such as "2gb", but it is True'),
        ("cache_limit", "2 apples", 'cache_limit is a number of bytes or a size such as "2gb", but it is'),
        ("remote", 3, "remote is a URL or a path, but it is 3"),
        ("local", 3, "local is a path, but it is 3"),
        ("split", "\udcff", "split is a path in UTF-8, but it is"),
        ("order", fb.Order(shuffle_algo=3), "order: shuffle_algo is text, but it is 3"),
        ("skip", fb.Skip(errors="foo"), "skip: errors is a whole number, at least 0, but it is 'foo'"),
        ("skip", fb.Skip(missing="foo"), "skip: missing is True or False, but it is 'foo'"),
        ("shuffle", torch.zeros(2), "shuffle is True or False, but it is"),
        ("shuffle", "yes", "shuffle is True or False, but it is 'yes'"),
        ("transform", 3, "transform is a function of a batch, but it is 3"),
        ("fields", ["x"], "fields maps names to fields"),
        ("fields", {"x": fb.Scalar("a", dtype="int")}, "fields['x']: dtype of Scalar is a type, one of uint8, "),
        ("remote", "s3:/bucket/set", "an address has two slashes after s3:, so this may mean s3://bucket/set"),
        ("local", "s3://bucket/set", "`local` is a folder of this machine, and this is a URL: pass it as `remote`"),
        ("local", "azure-dl://container/set", "`local` is a folder of this machine, and this is a URL: pass it as `remote`"),
        ("streams", [3], "streams is a list of forebay.Stream"),
        ("streams", [fb.Stream(remote="a"), fb.Stream(remote="b", repeat=-1)], "streams[1]: repeat is a number, at least 0"),
        ("streams", [fb.Stream(remote="a", fetch=fb.Fetch(retry=0))], "streams[0]: fetch: retry is a whole number, at least 1"),
    ],
)
def test_a_wrong_argument_is_rejected_by_name(name, value, sentence):
    with pytest.raises(fb.ConfigError) as caught:
        fb.Loader(**{"batch_size": 4, name: value})
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize(
    ("make", "arguments", "sentence"),
    [
        (fb.Loader, {"batchsize": 4}, "Loader has no argument 'batchsize': did you mean batch_size?"),
        (fb.Loader, {"Shuffle": True, "batch_size": 4}, "Loader has no argument 'Shuffle': did you mean shuffle?"),
        (fb.Loader, {"num_workers": 4}, "Loader has no argument 'num_workers': did you mean threads?"),
        (fb.Loader, {"url": "s3://b"}, "Loader has no argument 'url': did you mean remote?"),
        (fb.Loader, {"urls": ["s3://b"]}, "Loader has no argument 'urls': did you mean remote?"),
        (
            fb.Loader,
            {"worker_init_fn": print},
            "Loader has no argument 'worker_init_fn': did you mean map=Map(...), whose function gets a generator of the sample?",
        ),
        (fb.Loader, {"multiprocessing_context": "spawn"}, "Loader has no argument 'multiprocessing_context': did you mean map=Map(..., kind=)?"),
        (fb.Loader, {"sampler": None}, "Loader has no argument 'sampler': did you mean shuffle and world?"),
        (fb.Loader, {"gpu_decode": True}, "Loader has no argument 'gpu_decode': it is in engine, as in Loader(engine=Engine(device_decode=...))"),
        (fb.Loader, {"path": "set"}, "Loader has no argument 'path': did you mean local or remote?"),
        (fb.Loader, {"files": "each"}, "Loader has no argument 'files': it is an option of a stream, as in streams=..."),
        (fb.Loader, {"max_tokens": 5}, "Loader has no argument 'max_tokens': it is in window, as in Loader(batch_size=1, window=TokenBatch(max_tokens=..."),
        (fb.Loader, {"image_size": 5}, "Loader has no argument 'image_size': operations are a part of the field..."),
        (fb.Loader, {"urls": "set"}, "Loader has no argument 'urls': did you mean remote?"),
        (fb.Loader, {"limit": 5}, "Loader has no argument 'limit': did you mean cache_limit?"),
        (fb.Engine, {"stall": 5}, "Engine has no argument 'stall': did you mean stall_timeout?"),
        # Nothing is near.
        (fb.Loader, {"tokens_max": 5}, "Loader has no argument 'tokens_max'"),
        (fb.Loader, {"xyzzy": 1}, "Loader has no argument 'xyzzy'"),
        (fb.Loader, {"zzz": 1, "yyy": 2, "xxx": 3}, "Loader has no argument 'zzz'"),
        (fb.Stream, {"locale": "set"}, "Stream has no argument 'locale': did you mean local?"),
        (fb.MDSWriter, {"compresion": "zstd"}, "MDSWriter has no argument 'compresion': did you mean compression?"),
        (fb.CenterCrop, {"interpolation": "cubic"}, "CenterCrop has no argument 'interpolation': it has size"),
        (fb.Image, {"ops": []}, "Image has no argument 'ops': ops are passed one by one, without a name"),
    ],
)
def test_a_misspelt_argument_gets_a_suggestion(make, arguments, sentence):
    with pytest.raises(TypeError) as caught:
        make(**arguments)
    start, dots, _ = sentence.partition("...")
    assert str(caught.value).startswith(start) if dots else str(caught.value) == sentence


def test_a_data_set_is_passed_by_name(packed):
    with pytest.raises(TypeError, match='Loader takes its arguments by name: local="folder" for shards in a folder, remote='):
        fb.Loader(packed, batch_size=4)
    with pytest.raises(TypeError, match='Stream takes its arguments by name: local="folder" or remote='):
        fb.Stream(packed)


def test_constructors_keep_their_signatures():
    assert list(inspect.signature(fb.Loader).parameters)[:4] == ["remote", "local", "split", "streams"]
    assert str(inspect.signature(fb.CenterCrop)) == "(size: 'Size') -> None"


def test_a_password_in_a_remote_is_not_repeated():
    with pytest.raises(fb.ConfigError, match="passwords in a remote's address are not supported") as caught:
        fb.Loader(remote="http://me:secret@localhost:1/set", batch_size=4)
    assert "secret" not in str(caught.value) and "secret" not in str(caught.value.context)


ADDRESS = "s3://AKIA:gEhEiM@bucket/gEhEiM@set?sig=gEhEiM#gEhEiM"


@pytest.mark.parametrize(
    "call",
    [
        lambda: fb.Loader(streams=[ADDRESS], batch_size=4),
        lambda: fb.Loader(streams=ADDRESS, batch_size=4),
        lambda: fb.Loader(streams={"a": [ADDRESS]}, batch_size=4),
        lambda: fb.Loader(streams=[fb.Stream(local=ADDRESS), 3], batch_size=4),
        lambda: fb.Loader(remote=[ADDRESS], batch_size=4),
        lambda: fb.Loader(remote=ADDRESS.encode(), batch_size=4),
        lambda: fb.Loader(remote=ADDRESS + "\ud800", batch_size=4),
        lambda: fb.Loader(remote=ADDRESS, batch_size=ADDRESS),
        lambda: fb.Loader(streams=[fb.Stream(remote=(ADDRESS,))], batch_size=4),
        lambda: fb.Loader(local=pathlib.Path(ADDRESS), batch_size=4),
        lambda: fb.ShardReader(ADDRESS),
        lambda: fb.ShardReader(ADDRESS + "\0"),
        lambda: fb.read_index(ADDRESS),
        lambda: fb.MDSWriter(out=ADDRESS, columns={"a": "int"}),
    ],
)
def test_secrets_of_an_address_are_not_in_the_error_about_an_argument(call):
    with pytest.raises(fb.ConfigError) as caught:
        call()
    assert "gEhEiM" not in f"{caught.value!s} {caught.value!r} {caught.value.context}"


@pytest.mark.parametrize("remote", [ADDRESS, ADDRESS.encode(), ADDRESS + "\ud800", pathlib.Path(ADDRESS), [ADDRESS], None, 3])
def test_secrets_of_an_address_are_not_in_a_stream_as_text(remote):
    text = repr(fb.Stream(remote=remote, local=remote))
    assert text.startswith("Stream(remote=") and "gEhEiM" not in text


def test_the_command_for_row_indexes_does_not_show_secrets(tmp_path, capsys):
    assert main(["index", ADDRESS, str(tmp_path)]) == 2
    assert "remote s3://...@set" in (err := capsys.readouterr().err) and "gEhEiM" not in err


def test_a_column_of_jpegs_cannot_be_a_mask(pictures):
    with pytest.raises(fb.ConfigError, match="a JPEG cannot hold labels.*column image, encoding jpeg, field m"):
        fb.Loader(local=pictures, batch_size=4, fields={"m": fb.Mask("image")})


def test_means_in_grey_levels_are_rejected(pictures):
    ops = fb.CenterCrop(8), fb.Normalize((123.675, 116.28, 103.53), (58.395, 57.12, 57.375))
    with pytest.raises(fb.ConfigError, match="divide means and standard deviations of grey levels by 255"):
        fb.Loader(local=pictures, batch_size=4, fields={"x": fb.Image("image", *ops, dtype="float32")})


def test_an_error_about_a_folder_of_data_sets_names_them(packed, tmp_path, monkeypatch):
    (tmp_path / "train").symlink_to(packed)
    with pytest.raises(fb.NotFoundError, match="holds data sets in train: name one with `split`"):
        fb.Loader(local=tmp_path, batch_size=4)
    with pytest.raises(fb.NotFoundError, match="no such folder; next to it are train"):
        fb.Loader(local=tmp_path / "trian", batch_size=4)
    with pytest.raises(fb.NotFoundError, match="holds data sets in train: name one with `split`"):
        fb.ShardReader(tmp_path)
    with pytest.raises(fb.NotFoundError, match="no such folder; next to it are train"):
        fb.ShardReader(tmp_path, split="trian")
    with pytest.raises(fb.NotFoundError, match="no such folder; next to it are train"):
        fb.read_index(tmp_path / "trian")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(fb.NotFoundError, match="no such folder; next to it are train"):
        fb.ShardReader("trian")
    with pytest.raises(fb.NotFoundError, match="there is no index.json: the folder holds data sets in train"):
        fb.read_index("index.json")
    (tmp_path / "data.json").symlink_to(packed)
    assert fb.read_index("data.json") == fb.read_index(packed)


def test_a_whole_checkpoint_is_rejected_as_a_state_of_the_loader(pictures):
    with fb.Loader(local=pictures, batch_size=4) as loader, pytest.raises(fb.StateError, match="'model', 'data'"):
        loader.load_state_dict({"model": {}, "data": loader.state_dict()})


def test_a_url_that_cannot_be_written_to_is_rejected(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refused = {
        "s3:/bucket/set": "two slashes after s3:",
        "tape://host/set": "unknown scheme",
        "http://host/set": "web servers have no common way to write",
        "hf://datasets/me/set": "upload it with `hf upload-large-folder`",
    }
    for out, why in refused.items():
        with pytest.raises(fb.Error, match=why):
            fb.MDSWriter(out=out, columns={"x": "int"})
    assert list(tmp_path.iterdir()) == []


URLS = ("s3://b/x", "s3:/b/x", "azure-dl://c/x", "HTTP://h", "file:///x", "me:y@h:/x", "//me:y@h/x")

PATHS = ("data", "/data/x://y", "C:/data", "a b:/c", "://x", "data:x", "9p:/x", "git@h:x", "data/a?b=c")


def test_a_local_folder_of_a_loader_is_no_url(tmp_path, monkeypatch):
    """The same names are in Rust's `a_name_with_a_scheme_or_a_user_is_an_address`."""
    monkeypatch.chdir(tmp_path)
    for name in URLS:
        with pytest.raises(fb.ConfigError, match="is a URL"):
            fb.Loader(local=name, batch_size=1)
    for name in PATHS:
        with pytest.raises(fb.NotFoundError):
            fb.Loader(local=name, batch_size=1)
        with pytest.raises(fb.NotFoundError):
            fb.ShardReader(name)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"hashes": "xxh64"}, r"hashes is a list, such as \['xxh64'\]"),
        ({"jpeg_row_index": True}, 'for columns of the encoding "jpeg", and there is none'),
        ({"columns": {"x": "jpg"}}, "`jpg` is not a known encoding; known are bytes, str, int,"),
    ],
)
def test_a_writer_rejects_settings_that_cannot_work(tmp_path, arguments, sentence):
    with pytest.raises(fb.ConfigError, match=sentence):
        fb.MDSWriter(out=tmp_path / "set", **{"columns": {"x": "int"}, **arguments})


def test_indexing_without_jpegs_is_an_error(tmp_path):
    from forebay.index import index

    with fb.MDSWriter(out=tmp_path / "set", columns={"x": "int"}) as writer:
        writer.write({"x": 1})
    with pytest.raises(fb.ConfigError, match='no column .* has the encoding "jpeg"'):
        index(tmp_path / "set", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    with pytest.raises(fb.NotFoundError, match="no such folder; next to it are set"):
        index(tmp_path / "nowhere", tmp_path / "out")
    with pytest.raises(fb.NotFoundError, match="holds data sets in set"):
        index(tmp_path, tmp_path / "out")
    for source, out in [("s3://bucket/set", tmp_path / "out"), (tmp_path / "set", "s3://bucket/out")]:
        with pytest.raises(fb.ConfigError, match="is a URL"):
            index(source, out)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"columns": ["a"]}, "columns is a dict"),
        ({"columns": {}}, "columns is a dict"),
        ({"columns": {"a": int}}, r"columns\['a'\] is text"),
        ({"jpeg_row_index": "yes"}, "jpeg_row_index is True or False"),
        ({"exist_ok": "no"}, "exist_ok is True or False"),
        ({"threads": -1}, "threads is a whole number, at least 1"),
        ({"threads": "2"}, "threads is a whole number"),
    ],
)
def test_a_writer_names_an_unknown_argument(tmp_path, arguments, message):
    with pytest.raises(fb.ConfigError, match=message):
        fb.MDSWriter(**({"out": tmp_path / "set", "columns": {"a": "int"}} | arguments))
    assert not (tmp_path / "set").exists()


def test_a_sample_that_is_not_a_dict_is_an_error(tmp_path):
    with fb.MDSWriter(out=tmp_path, columns={"a": "int"}) as writer:
        with pytest.raises(fb.ConfigError, match="a sample is a dict of a, but it is a list"):
            writer.write([1])
        writer.write({"a": 1})


def test_the_trace_shows_the_samples_that_are_read_and_decoded(pictures):
    with fb.Loader(
        local=pictures, batch_size=4, fields={"x": fb.Image("image", fb.CenterCrop(8))}, engine=fb.Engine(trace=True)
    ) as loader:
        for _ in loader:
            pass
        spans = {event["name"] for event in json.loads(loader.trace_json())["traceEvents"]}
    assert {"schedule Busy", "read Busy", "decode Busy", "place Busy"} <= spans


def test_a_remote_may_be_a_path(packed, tmp_path):
    with fb.Loader(remote=pathlib.Path(packed), local=tmp_path / "local", fields=NUMBER, batch_size=16) as loader:
        assert len(numbers(loader)) == len(loader)


def test_numbers_of_torch_are_accepted_like_pythons(pictures):
    with ordered(
        pictures, batch_size=torch.tensor(8), fetch=fb.Fetch(timeout=torch.tensor(5.0)), shuffle=torch.tensor(True)
    ) as loader:
        assert all(len(batch) == 8 for batch in numbers(loader)[:-1])


def test_a_state_may_contain_numbers_of_numpy_and_torch(pictures):
    numpy = pytest.importorskip("numpy")
    with ordered(pictures) as loader:
        state = loader.state_dict()
        loader.load_state_dict({**state, "epoch": torch.tensor(2), "sample_in_epoch": numpy.int64(0)})
        assert loader.epoch == 2
        for wrong in (object(), numpy.float32(1)):
            with pytest.raises(fb.StateError, match="plain numbers"):
                loader.load_state_dict({**state, "epoch": wrong})


def test_a_checkpoint_instead_of_its_loaders_state_is_named(pictures):
    with ordered(pictures) as loader:
        state = loader.state_dict()
        for checkpoint in ({}, {"loader": state}, {"epoch": 1, "model": {"w": torch.zeros(3)}, "loader": state}):
            with pytest.raises(fb.StateError, match="a state is a dict from state_dict.., but this dict has .*: pass the item"):
                loader.load_state_dict(checkpoint)
        with pytest.raises(fb.StateError, match="this dict has 'epoch', 'model', 'loader'"):
            loader.load_state_dict(checkpoint)


@pytest.mark.parametrize("wrap", [lambda x: {"x": x}, lambda x: {"both": fb.Joint(x=x)}])
def test_bfloat16_for_numpy_is_an_error(pictures, wrap):
    picture = fb.Image("image", fb.Resize((8, 8)), dtype="bfloat16")
    with pytest.raises(fb.ConfigError, match='dtype of x is bfloat16, .* use framework="torch", "jax" or "tensorflow", or a different dtype'):
        fb.Loader(local=pictures, fields=wrap(picture), framework="numpy", batch_size=4)
    with fb.Loader(local=pictures, fields=wrap(picture), batch_size=4) as loader:
        assert next(iter(loader))["x"].dtype == torch.bfloat16


def test_a_sample_with_too_many_tokens_names_the_fix(tmp_path):
    numpy = pytest.importorskip("numpy")
    with fb.MDSWriter(out=tmp_path / "set", columns={"t": "ndarray:uint16"}) as writer:
        writer.write({"t": numpy.arange(5, dtype=numpy.uint16)})
    with fb.Loader(local=tmp_path / "set", fields={"t": fb.Tokens("t", 4)}, batch_size=1) as loader:
        with pytest.raises(fb.DecodeError, match="raise `length` of Tokens, or set `truncate`"):
            next(iter(loader))

"""Registries, against the reference."""

import catalogue
import pytest

from forebay.streaming import MDSWriter


@pytest.fixture
def module(either):
    """`registry_utils`; its new entries are removed after the test."""
    found = either("base.registry_utils")
    with found.save_registry():
        yield found


def test_an_entry_is_found_under_its_name(module):
    registry = module.create_registry("forebay", "test", generic_type=type, description="for a test")
    registry.register("int", func=int)

    @registry.register("mine")
    def mine(x, y):
        return x * y

    assert registry.get("int") is int and registry.description == "for a test"
    assert set(registry.get_all()) == {"int", "mine"}
    with pytest.raises(catalogue.RegistryError):
        module.create_registry("forebay", "test", "int", generic_type=type)


def test_build_creates_the_registered_object(module):
    registry = module.create_registry("forebay", "made", generic_type=object)
    registry.register("dict", func=dict)
    registry.register("times", func=lambda x, y: x * y)
    registry.register("three", func=3)
    make = module.construct_from_registry
    assert make("dict", registry, kwargs={"a": 1}, pre_validation_function=dict) == {"a": 1}
    assert make("times", registry, kwargs={"x": 2})(y=3) == 6
    assert make("times", registry, partial_function=False, kwargs={"x": 2, "y": 5}) == 10
    with pytest.raises(ValueError, match="Expected dict to be of type"):
        make("dict", registry, pre_validation_function=int)
    with pytest.raises(ValueError, match="Expected three to be a class or function"):
        make("three", registry)

    def refuse(made):
        raise ValueError("not this one")

    with pytest.raises(ValueError, match="not this one"):
        make("dict", registry, post_validation_function=refuse)


def test_import_file_runs_a_file_that_registers_entries(module, tmp_path):
    code = tmp_path / "code.py"
    code.write_text("VALUE = 7")
    assert module.import_file(code).VALUE == 7
    code.write_text("nothing_of_that_name")
    with pytest.raises(RuntimeError, match=r"Error executing .*code.py"):
        module.import_file(code)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        module.import_file(tmp_path / "missing.py")


@pytest.fixture
def folder(tmp_path):
    with MDSWriter(out=str(tmp_path / "data"), columns={"number": "int"}) as writer:
        for number in range(10):
            writer.write({"number": number})
    return str(tmp_path / "data")


def test_each_package_creates_its_own_stream_class(reference, ours, folder):
    for module in (ours, reference):
        dataset = module("base.dataset").StreamingDataset(local=folder, batch_size=2)
        assert type(dataset.streams[0]) is module("base.stream").Stream
        del dataset


def test_a_program_may_replace_the_default_stream_class(either, folder):
    Stream, StreamingDataset = either("base.stream").Stream, either("base.dataset").StreamingDataset

    class Mine(Stream):
        pass

    with either("base.registry_utils").save_registry():
        either("base.stream").streams_registry.register("stream", func=Mine)
        assert type(StreamingDataset(local=folder, batch_size=2).streams[0]) is Mine


def test_an_entry_point_of_a_foreign_package_takes_precedence(either, folder, monkeypatch):
    Stream, StreamingDataset = either("base.stream").Stream, either("base.dataset").StreamingDataset
    registry = either("base.stream").streams_registry
    monkeypatch.setattr(type(registry), "get_entry_point", lambda self, name, default=None: Installed)

    class Installed(Stream):
        pass

    assert type(StreamingDataset(local=folder, batch_size=2).streams[0]) is Installed


def test_an_unknown_name_is_rejected_with_the_known_ones(either, folder):
    with pytest.raises(catalogue.RegistryError, match="Available names: .*stream"):
        either("base.dataset").StreamingDataset(local=folder, batch_size=2, stream_name="nothing")

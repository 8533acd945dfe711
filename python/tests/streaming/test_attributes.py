"""Names of the reference's modules and classes: all of them are here, except those that are listed with a reason.

`python test_attributes.py` records the names of the installed reference in reference_names.json.
"""

import contextlib
import fnmatch
import importlib
import inspect
import json
import logging
import operator
import pathlib
import pkgutil
import subprocess
import sys

import pytest

RECORD = pathlib.Path(__file__).with_name("reference_names.json")

ABSENT = {
    "base.batching.*: get_partitions": "the engine's batching makes no partition in Python",
    "base.batching.*: get_shuffle": "the engine's batching makes no shuffle in Python",
    "base.*: _collect": "tables of classes are made by the engine",
    "base.hashing: _hashes": "hashes are the engine's",
    "base.partition.relaxed: get_partitions_orig": "the engine's",
    "base.shared.barrier: T*": "an interval; the barrier has its own",
    "base.shared.memory: TICK": "an interval that is not used",
    "base.local: *": "an import of a foreign module's function, which is not needed",
    "base.storage.download: DEFAULT_TIMEOUT": "a constant of a foreign module, which is not needed",
    "base.stream: reader_from_json": "an import of a foreign module's function, which is not needed",
    "base.shuffle.py2s: *": "the shuffle is the engine's",
    "*.convert.*: *": "the converters are separate programs with the same arguments",
    "base.format.mds.*er: *mds_*": "an import of a foreign module's function, which is not needed",
    "multimodal.webvid: *": "an import of a foreign module's name, which is not needed",
    "base.dataset.StreamingDataset: _attach_work": "work is not shared between processes",
    "base.dataset.StreamingDataset: _share_work": "work is not shared between processes",
    "base.dataset._Iterator: _num_threads_to_exit": "threads are ended differently",
    "base.format.*Writer: _process_file": "packing is in threads, with different functions",
    "base.format.*Writer: extra_bytes_per_*": "attributes of the object",
    "base.format.mds.encodings.NDArray: _*": "tables of the reference's encoder",
    "base.shared.memory.SharedMemory: fix_*": "resource trackers are not patched",
    "base.storage.download.*Downloader: _create_*_client": "clients are made by functions of the module",
    "base.storage.upload.AlipanUploader: check_token": "Alipan is not supported",
    "multimodal.webvid.StreamingOutsideDTWebVid: _download_thread": "never called in the reference",
    "text.*: _tokenize": "part of `get_item`",
}
"""Names that are not here, "module or class: name" with wildcards, and why."""

OTHER_CALLS = {
    "base.storage.*load.Alipan*: __init__": "Alipan is not supported: the class only raises",
    "*.convert.*: *": "the converters are separate programs with the same arguments; `main` and `parse_args` are called alike",
}
"""Functions that are called in a different way, and why."""


def modules_of(root):
    """The modules of a package that can be imported here, by their names below it."""
    package = importlib.import_module(root)
    found = {"": package}
    for info in pkgutil.walk_packages(package.__path__, f"{root}."):
        try:
            found[info.name.removeprefix(f"{root}.")] = importlib.import_module(info.name)
        except ImportError:
            # It needs a package that is not installed.
            continue
    return found


def is_own(value, root):
    """Returns true if a module's attribute is a class or function of `root`, or a constant."""
    home = getattr(value, "__module__", None)
    if inspect.isclass(value) or inspect.isroutine(value):
        return isinstance(home, str) and home.startswith(root)
    if inspect.ismodule(value):
        # `dist`: programs replace its functions through the module that imports it.
        return value.__name__ == "torch.distributed"
    return isinstance(value, (str, int, float, dict, list, set, logging.Logger)) and not isinstance(value, bool)


def calls_of(content, root):
    """Parameters of the functions and of the methods that a module defines, by "function" or "Class: method"."""
    found = {}
    for name, value in vars(content).items():
        if getattr(value, "__module__", None) != content.__name__:
            continue
        if inspect.isclass(value):
            for member, function in vars(value).items():
                if isinstance(function, (classmethod, staticmethod)) or inspect.isfunction(function):
                    if not member.startswith("__") or member in ("__init__", "__getitem__", "__call__"):
                        found[f"{name}: {member}"] = parameters(getattr(value, member))
        elif inspect.isfunction(value):
            found[f": {name}"] = parameters(value)
    return found


def parameters(function):
    """Name, kind and default of each parameter; the default as text."""
    return [
        [one.name, one.kind.name, None if one.default is one.empty else default(one.default)]
        for one in inspect.signature(function).parameters.values()
    ]


def default(value):
    is_plain = value is None or isinstance(value, (bool, int, float, str, tuple, list))
    return repr(float(value) if type(value) is int else value) if is_plain else "an object"


def differences(theirs, mine):
    """Why a call that fits the parameters `theirs` does not mean the same with `mine`."""
    names = {name: (kind, value) for name, kind, value in mine}
    kinds = {kind for _, kind, _ in mine}
    positions = [name for name, kind, _ in mine if kind.startswith("POSITIONAL")]
    for place, (name, kind, value) in enumerate(theirs):
        if kind.startswith("VAR"):
            continue
        if kind == "POSITIONAL_OR_KEYWORD" and "VAR_POSITIONAL" not in kinds and positions[place : place + 1] != [name]:
            yield f"{name} is not at position {place}"
        elif name not in names:
            if "VAR_KEYWORD" not in kinds:
                yield f"{name} is missing"
        elif value is not None and names[name][1] != value:
            yield f"{name} is {names[name][1]} by default, not {value}"
    known = {name for name, _, _ in theirs}
    for name, kind, value in mine:
        if name not in known and value is None and not kind.startswith("VAR"):
            yield f"{name} is required"


def record():
    """The reference's names: modules at once, names by module, members by class."""
    code = "import streaming, sys; print(*sorted(m for m in sys.modules if m.startswith('streaming.')))"
    at_once = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    names, members, calls = {}, {}, {}
    for module, content in modules_of("streaming").items():
        own = {
            name: getattr(content, name)
            for name in vars(content)
            if not name.startswith("__") and is_own(getattr(content, name), "streaming")
        }
        names[module] = sorted(own)
        calls.update({f"{module}.{place}".replace(".:", ":"): json.dumps(call) for place, call in calls_of(content, "streaming").items()})
        for name, value in own.items():
            if inspect.isclass(value) and value.__module__ == content.__name__:
                # Inherited members are members of the base class.
                members[f"{module}.{name}"] = sorted(
                    member for member in vars(value) if not member.startswith("__") and member != "_abc_impl"
                )
    return {"at_once": [module.removeprefix("streaming.") for module in at_once], "names": names, "members": members, "calls": calls}


@pytest.fixture(scope="module")
def recorded():
    return json.loads(RECORD.read_text())


def is_listed(table, place, name):
    return any(fnmatch.fnmatchcase(f"{place}: {name}", pattern) for pattern in table)


def is_absent_on_purpose(place, name):
    return is_listed(ABSENT, place, name)


AT_ONCE = """
import os, sys, forebay.streaming
# Not imported again by each child.
import torch.utils.data, torchvision

for path in sys.argv[1:]:
    if os.fork() == 0:
        # Nothing of the package is imported but its root.
        value = forebay.streaming
        for name in path.split("."):
            value = getattr(value, name)
        os._exit(value.__name__ != f"forebay.streaming.{path}")
    if os.wait()[1]:
        print(path)
"""


def test_every_module_that_the_reference_imports_at_once_is_an_attribute_at_once(recorded):
    assert "base.util" in recorded["at_once"] and len(recorded["at_once"]) > 50
    command = [sys.executable, "-c", AT_ONCE, *recorded["at_once"]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0 and done.stdout == "", done.stdout + done.stderr


def attribute(home, name):
    """An attribute of our module or class `home`; None if there is none."""
    for module, *cls in ([home], home.rpartition(".")[::2]):
        with contextlib.suppress(ImportError, AttributeError):
            return operator.attrgetter(".".join([*cls, name]))(importlib.import_module(f"forebay.streaming.{module}".rstrip(".")))
    return None


def test_every_name_of_the_reference_s_modules_is_here(recorded):
    missing = []
    for module, names in recorded["names"].items():
        try:
            content = importlib.import_module(f"forebay.streaming.{module}".rstrip("."))
        except ImportError as error:
            assert is_absent_on_purpose(module, "*"), error
            continue
        missing += [f"{module}: {name}" for name in names if not hasattr(content, name)]
    assert [name for name in missing if not is_absent_on_purpose(*name.split(": "))] == []


def test_every_member_of_the_reference_s_classes_is_here(recorded):
    missing = []
    for path, members in recorded["members"].items():
        module, _, name = path.rpartition(".")
        if is_absent_on_purpose(module, name):
            continue
        cls = getattr(importlib.import_module(f"forebay.streaming.{module}"), name)
        missing += [f"{path}: {member}" for member in members if not hasattr(cls, member)]
    assert [name for name in missing if not is_absent_on_purpose(*name.split(": "))] == []


def test_every_call_that_the_reference_accepts_is_accepted_and_means_the_same(recorded):
    assert len(recorded["calls"]) > 300
    wrong = []
    for place, theirs in recorded["calls"].items():
        home, name = place.split(": ")
        if name not in ("main", "parse_args") and is_listed({**ABSENT, **OTHER_CALLS}, home, name):
            continue
        function = attribute(home, name)
        # The tests above find a function that is absent.
        if function is not None:
            wrong += [f"{place}: {one}" for one in differences(json.loads(theirs), parameters(function))]
    assert wrong == []


def test_only_absent_names_have_a_reason(recorded):
    """A name that is here needs no reason."""
    everything = {(module, name) for module, names in recorded["names"].items() for name in names}
    everything |= {(path, member) for path, members in recorded["members"].items() for member in members}
    for pattern in ABSENT:
        assert any(fnmatch.fnmatchcase(f"{place}: {name}", pattern) for place, name in everything), pattern


if __name__ == "__main__":
    RECORD.write_text(json.dumps(record(), indent=1, sort_keys=True) + "\n")

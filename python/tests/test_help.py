"""Texts that `help` and editors show of the public names."""

import ast
import inspect
import math
import pydoc
import re
import sys
from collections.abc import Iterable, Iterator, Sized

import pytest

import forebay as fb

PUBLIC = {name: getattr(fb, name) for name in [*fb.__all__, "open"]}
CALLED = {name: value for name, value in PUBLIC.items() if callable(value) and not (inspect.isclass(value) and issubclass(value, Exception))}
"""Public functions and classes. The engine makes the exceptions."""


@pytest.mark.parametrize("name", CALLED)
def test_help_has_every_argument_with_a_description(name):
    parameters = inspect.signature(CALLED[name]).parameters
    text = pydoc.plaintext.document(CALLED[name], name)
    described = {argument for argument in parameters if re.search(rf"^[ |]+\**{argument}: |`{argument}`", text, re.MULTILINE)}
    assert described == set(parameters)
    call, _ = text.split(inspect.getdoc(CALLED[name]).splitlines()[0], 1)
    assert all(re.search(rf"\b{argument}\b", call) for argument in parameters), call
    assert "ForwardRef" not in text and "**arguments" not in text


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="this Python has a line for each argument of a long signature")
def test_the_help_of_a_loader_fits_two_screens():
    lines = pydoc.plain(pydoc.render_doc(fb.Loader)).splitlines()
    assert sum(math.ceil(max(len(line), 1) / 80) for line in lines) <= 100
    assert {"__iter__", "__len__", "__init__"} <= set(dir(fb.Loader)), "only help has no special methods"


def test_a_class_may_derive_from_a_loader_and_an_abstract_class():
    class Batches(fb.Loader, Sized):
        pass

    assert issubclass(Batches, fb.Loader) and issubclass(Batches, Sized)


VALUES = {name: value for name, value in CALLED.items() if inspect.isclass(value) and name not in ("Loader", "MDSWriter", "ShardReader")}
"""Classes of arguments, which can be made without data."""

WITH_EXAMPLE = {
    name
    for name, value in VALUES.items()
    if value.__module__.startswith(("forebay.fields.values", "forebay.fields.pictures", "forebay._groups", "forebay._streams", "forebay._world"))
}
"""Classes that most programs use."""


def examples(name):
    """Calls of public classes in the docstring of `name`: lines of code, and code in sentences."""
    text = inspect.getdoc(CALLED[name]).split("\nArgs:")[0]
    for code in re.findall(r"`([^`]+)`", text) + re.findall(r"^    (\S.*)$", text, re.MULTILINE):
        try:
            tree = ast.parse(code)
        except SyntaxError:
            # Part of a program.
            continue
        called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
        if called & VALUES.keys() and "..." not in code:
            yield code


@pytest.mark.parametrize("name", CALLED)
def test_an_example_in_a_docstring_runs(name):
    for code in examples(name):
        exec(code, dict(PUBLIC))


def test_the_docstrings_of_fields_and_groups_have_an_example():
    assert len(WITH_EXAMPLE) > 15 and {name for name in WITH_EXAMPLE if not list(examples(name))} == set()


@pytest.mark.parametrize("name", [name for name, value in CALLED.items() if inspect.isclass(value)])
def test_a_constructor_has_the_signature_of_its_class(name):
    of_class = inspect.signature(CALLED[name])
    made_by = CALLED[name].__init__ if "__init__" in vars(CALLED[name]) else CALLED[name].__new__
    if made_by in (object.__init__, object.__new__):
        assert not of_class.parameters
        return
    _, *parameters = inspect.signature(made_by).parameters.values()
    assert parameters == list(of_class.parameters.values())
    shown = str(inspect.signature(made_by))
    assert shown == "(self, ...)" or all(parameter.name in shown for parameter in parameters)


def test_a_loader_is_an_iterable_and_no_iterator(tmp_path):
    """Programs call `iter` for objects that are no iterators."""
    with fb.MDSWriter(out=tmp_path / "set", columns={"x": "int"}) as writer:
        writer.write({"x": 1})
    with fb.Loader(local=tmp_path / "set", batch_size=1, framework="numpy") as loader:
        assert isinstance(loader, Iterable) and not isinstance(loader, Iterator)
        assert next(iter(loader))["x"].tolist() == [1]

"""Names in functions must exist, even in functions that no test calls."""

import builtins
import dis
import importlib
import pkgutil
import subprocess
import sys
from types import CodeType

import pytest

import forebay

# Not the extension, and not the alias, which would replace the reference in this process.
NOT_HERE = ("forebay._forebay", "forebay.streaming.alias")
MODULES = sorted({module.name for module in pkgutil.walk_packages(forebay.__path__, "forebay.")} - {*NOT_HERE})


def functions(code):
    """The code of all functions in a module's code."""
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield inner
            yield from functions(inner)


@pytest.mark.parametrize("name", MODULES)
def test_every_name_that_a_function_uses_is_in_its_module(name):
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        pytest.skip(f"{name} cannot be imported here: {error}")
    known = {*vars(module), *vars(builtins)}
    code = module.__spec__.loader.get_code(name)
    unknown = {
        f"{function.co_name}: {step.argval}"
        for function in functions(code)
        for step in dis.get_instructions(function)
        if step.opname == "LOAD_GLOBAL" and step.argval not in known
    }
    assert unknown == set()


def test_an_import_leaves_modules_to_the_names_and_functions_that_need_them():
    program = "import sys; before = set(sys.modules); import forebay; print(*set(sys.modules) - before)"
    program += "\nforebay.Loader; print(*set(sys.modules) - before)"
    printed = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    package, loader = map(str.split, printed.splitlines())
    assert {name for name in package if name.startswith("forebay")} == {"forebay", "forebay._forebay", "forebay.errors"}
    assert "forebay._loader" in loader
    large = {"decimal", "hashlib", "multiprocessing", "numpy", "pickle", "secrets", "socket", "torch", "uuid"}
    assert not {"forebay._mapping.mapper", "forebay.files", "forebay.operations", *large} & set(loader)


@pytest.mark.parametrize("name", ["Loader", "Stream", "MDSWriter", "ShardReader", "open", "load_files"])
def test_the_types_of_arguments_are_found_at_run_time(name):
    program = f"import typing, forebay as fb; value = fb.{name}"
    program += "\nprint(len(typing.get_type_hints(value.__init__ if isinstance(value, type) else value)))"
    assert int(subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout) > 2


def test_operations_are_names_of_the_package_before_they_are_imported():
    program = "import forebay as fb; print(fb.CutMix is fb.operations.CutMix, 'CutMix' in dir(fb), hasattr(fb, 'CutMixed'))"
    program += "\nfrom forebay import *\nprint(CutMix is fb.CutMix, 'Loader' in fb.__all__)"
    printed = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    assert printed.split() == ["True", "True", "False", "True", "True"]

"""Stubs that make every value of a library `Any`, for a type checker.

torch, JAX, TensorFlow and the trainers have no complete types, and most of them are not installed where types are checked. A
checker in its strict mode would report each of their names. With these stubs no rule is switched off: what the checker
reports is about forebay, or a mistake of the program.
"""

import ast
import sys

__all__ = ["write_stubs"]

TYPED = {"PIL", "forebay", "numpy"}
"""Libraries with complete types, which are checked as they are."""

ANY = "from typing import Any, TypeAlias\ndef __getattr__(name: str) -> Any: ...\n"
ALIAS = "{}: TypeAlias = Any\n"
BASE = """
class _TypeOf{0}(type):
    def __getattr__(cls, name: str) -> Any: ...

class {0}(metaclass=_TypeOf{0}):
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def __getattr__(self, name: str) -> Any: ...
"""


def write_stubs(programs, folder):
    """Writes stubs of the libraries that the files `programs` use into `folder`."""
    modules, types, bases = set(), set(), set()
    for program in programs:
        neighbours = {file.stem for file in program.parent.glob("*.py")}
        names = {}
        tree = ast.parse(program.read_text())
        for node in ast.walk(tree):
            for module, name, bound in _imports(node):
                top = module.partition(".")[0]
                if top not in TYPED | neighbours | set(sys.stdlib_module_names):
                    modules.add(module)
                    names[bound] = f"{module}.{name}" if name else top if bound == top else module
        for node in ast.walk(tree):
            types |= {_full(part, names) for part in _annotations(node)}
            bases |= {_full(base, names) for base in (node.bases if isinstance(node, ast.ClassDef) else [])}
    bases = {base for base in bases - {None} if _module(base) not in bases}
    types = types - bases - {None}
    modules |= {_module(name) for name in types | bases}
    members = {}
    for name in sorted((types | bases) - modules):
        stub = (BASE if name in bases else ALIAS).format(name.rpartition(".")[2])
        members[_module(name)] = members.get(_module(name), "") + stub
    for module in sorted(modules):
        parts = module.split(".")
        for i, part in enumerate(parts):
            whole = ".".join(parts[: i + 1])
            path = folder.joinpath(*parts[: i + 1])
            path.mkdir(parents=True, exist_ok=True)
            inside = sorted({other[len(whole) + 1 :].partition(".")[0] for other in modules if other.startswith(f"{whole}.")})
            text = ANY + "".join(f"from . import {name} as {name}\n" for name in inside) + members.get(whole, "")
            (path / "__init__.pyi").write_text(text)


def _module(name):
    return name.rpartition(".")[0]


def _imports(node):
    """Yields the module, the name in it or None, and the bound name of each import."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield alias.name, None, alias.asname or alias.name.partition(".")[0]
    elif isinstance(node, ast.ImportFrom) and node.level == 0:
        for alias in node.names:
            yield node.module, alias.name, alias.asname or alias.name


def _annotations(node):
    """Yields the names in the annotations of a parameter, a result or a variable."""
    for annotation in (getattr(node, "annotation", None), getattr(node, "returns", None)):
        for part in ast.walk(annotation) if annotation is not None else ():
            yield part


def _full(node, names):
    """Returns the full name of a type of a library, or None."""
    attributes = []
    while isinstance(node, ast.Attribute):
        attributes.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id not in names:
        return None
    full = ".".join([names[node.id], *reversed(attributes)])
    return full if "." in full else None

"""The imports between files of the package have no cycles, imports for type checkers included."""

import ast
import graphlib
import pathlib

import forebay

ROOT = pathlib.Path(forebay.__file__).parent


def modules():
    """File of each module."""
    found = {"forebay._forebay": ROOT / "_forebay.pyi"}
    for path in ROOT.rglob("*.py"):
        parts = ("forebay", *path.relative_to(ROOT).with_suffix("").parts)
        found[".".join(parts).removesuffix(".__init__")] = path
    return found


def imports(name, path, known):
    """Modules that a module imports. A name of a package's root counts as an import of the root."""
    package = name if path.stem == "__init__" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parent = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            target = ".".join([*parent, *filter(None, [node.module])])
            for alias in node.names:
                yield f"{target}.{alias.name}" if f"{target}.{alias.name}" in known else target


def test_imports_between_files_have_no_cycles():
    known = modules()
    graph = {name: {*imports(name, path, known)} & known.keys() - {name} for name, path in known.items()}
    assert len(graph) > 100 and graph["forebay.streaming.base.stream"] >= {"forebay.streaming.base.format"}
    # The error names a cycle.
    graphlib.TopologicalSorter(graph).prepare()

"""Makes `import streaming` import `forebay.streaming`, for code that must not be changed.

    import forebay.streaming.alias                      # before the first `import streaming`
    python -m forebay.streaming.alias train.py --lr 1   # a whole script, with its spawned workers
    python -m forebay.streaming.alias -m train --lr 1   # a module as a script
    torchrun -m forebay.streaming.alias train.py        # on every rank
    pytest -p forebay.streaming.alias

`streaming` and every module below it are then the same module objects as in `forebay.streaming`. A class is the same
under both names, and so are patches, pickles and dotted paths.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import io
import os
import sys
from collections.abc import Sequence
from types import ModuleType

_USAGE = "usage: python -m forebay.streaming.alias (SCRIPT | -m MODULE) [ARGUMENT...]"

_ALIAS = "streaming"
_REAL = "forebay.streaming"

# Environment variables with the script or module for spawned processes, where runpy hides argv[0].
_SCRIPT = "FOREBAY_STREAMING_ALIAS_SCRIPT"
_MODULE = "FOREBAY_STREAMING_ALIAS_MODULE"


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds `streaming.x` as the module `forebay.streaming.x`."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != _ALIAS and not fullname.startswith(f"{_ALIAS}."):
            return None
        real = _REAL + fullname.removeprefix(_ALIAS)
        try:
            module = importlib.import_module(real)
        except ModuleNotFoundError as error:
            if error.name != real:
                # The module exists, but one of its imports fails.
                raise
            return None
        spec = importlib.machinery.ModuleSpec(fullname, self, is_package=hasattr(module, "__path__"))
        # The import system replaces the module's own spec by `spec`; exec_module restores it.
        spec.loader_state = (module, module.__spec__)
        return spec

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module, _ = spec.loader_state
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = module.__spec__.loader_state[1]


def install() -> None:
    """Makes `import streaming` import `forebay.streaming` in this process. The import of this module calls it.

    Raises:
        ImportError: A different package of that name is imported already.
    """
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    present = sys.modules.get(_ALIAS)
    if present is not None and present is not sys.modules.get(_REAL):
        raise ImportError(
            f"{_ALIAS!r} is imported already, from {getattr(present, '__file__', 'somewhere else')}: "
            f"import {_REAL}.alias before it"
        )
    sys.meta_path.insert(0, _Finder())


def _run(module: ModuleType, script: str | None = None) -> None:
    """Runs a script, or the script or module in the environment, in the process's main module.

    Its spec keeps the name of this file. A spawned process prepares its main module by that name, and so installs the
    alias too.
    """
    package = None
    if name := os.environ.get(_MODULE):
        spec = _spec_of(name)
        script, package = spec.origin, spec.parent
        code = spec.loader.get_code(spec.name)
    else:
        script = script or os.environ[_SCRIPT]
        with io.open_code(script) as file:
            code = compile(file.read(), script, "exec")
    module.__file__ = script
    module.__package__ = package
    exec(code, module.__dict__)


def _spec_of(name: str) -> importlib.machinery.ModuleSpec:
    """Returns the spec of the module that `python -m NAME` would run."""
    if name.startswith(f"{_ALIAS}."):
        # The finder's own spec has no code.
        name = _REAL + name.removeprefix(_ALIAS)
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = importlib.util.find_spec(f"{name}.__main__")
    if spec is None:
        sys.exit(f"there is no module {name!r} that can be run")
    return spec


install()

if __name__ == "__main__":
    if sys.argv[1:] in (["-h"], ["--help"]):
        print(_USAGE, __doc__, sep="\n\n", end="")
        sys.exit()
    if len(sys.argv) < 2 or sys.argv[1:] == ["-m"]:
        sys.exit(_USAGE)
    if sys.argv[1].startswith("-") and sys.argv[1] != "-m":
        sys.exit(f"{_USAGE}\nthere is no option {sys.argv[1]!r}: options of the script follow its name")
    del sys.argv[0]
    if sys.argv[0] != "-m" and not os.path.exists(sys.argv[0]):
        sys.exit(f"there is no script {sys.argv[0]!r}")
    # A process that was started by a different aliased script is not one of its spawned children.
    os.environ.pop(_MODULE, None)
    if sys.argv[0] == "-m":
        del sys.argv[0]
        os.environ[_MODULE] = sys.argv[0]
        sys.argv[0] = _spec_of(sys.argv[0]).origin or sys.argv[0]
        _run(sys.modules["__main__"])
    else:
        os.environ[_SCRIPT] = os.path.abspath(sys.argv[0])
        sys.path[0] = os.path.dirname(os.environ[_SCRIPT])
        _run(sys.modules["__main__"], sys.argv[0])
elif __name__ == "__mp_main__":
    # A process that the script's multiprocessing spawned.
    _run(sys.modules["__mp_main__"])

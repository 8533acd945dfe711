"""Makes `import streaming` mean `forebay.streaming`, for code that is not to be changed.

    import forebay.streaming.alias                      # before the first `import streaming`
    python -m forebay.streaming.alias train.py --lr 1   # a whole script, its spawned workers included
    torchrun -m forebay.streaming.alias train.py        # on every rank
    pytest -p forebay.streaming.alias

`streaming` and every module below it are then the very modules of `forebay.streaming`: a class is the same class under
both names, and what is patched, pickled or resolved by a dotted path under one is so under the other.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import io
import os
import sys
from collections.abc import Sequence
from types import ModuleType

_ALIAS = "streaming"
_REAL = "forebay.streaming"

# Tells the processes that a script spawns which script it is: theirs is the only argv[0] that runpy hides.
_SCRIPT = "FOREBAY_STREAMING_ALIAS_SCRIPT"


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
                # The module is there; something that it needs is not.
                raise
            return None
        spec = importlib.machinery.ModuleSpec(fullname, self, is_package=hasattr(module, "__path__"))
        # The import system is about to write `spec` over the module's own, which exec_module puts back.
        spec.loader_state = (module, module.__spec__)
        return spec

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module, _ = spec.loader_state
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = module.__spec__.loader_state[1]


def install() -> None:
    """Makes `import streaming` mean `forebay.streaming` in this process. Importing this module does so already.

    Raises:
        ImportError: Another package of that name is imported already.
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


def _run(script: str, module: ModuleType) -> None:
    """Runs `script` as the content of `module`, the process's main module.

    Its spec goes on naming this file: a spawned process prepares its main module by that name, comes here and has the
    alias as well.
    """
    with io.open_code(script) as file:
        code = compile(file.read(), script, "exec")
    module.__file__ = script
    module.__package__ = None
    exec(code, module.__dict__)


install()

if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: python -m forebay.streaming.alias SCRIPT [ARGUMENT...]")
    del sys.argv[0]
    os.environ[_SCRIPT] = os.path.abspath(sys.argv[0])
    sys.path[0] = os.path.dirname(os.environ[_SCRIPT])
    _run(sys.argv[0], sys.modules["__main__"])
elif __name__ == "__mp_main__":
    # A process that a script's multiprocessing spawned.
    _run(os.environ[_SCRIPT], sys.modules["__mp_main__"])

"""The command `forebay`; `python -m forebay` is the same. The engine has its grammar and most of its commands."""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Sequence

from . import _forebay
from ._command import Results
from ._machine import facts
from .errors import Error
from .remotes import library_stores

_MODULES = {"checkpoint": "checkpoint.command", "convert": "to_mds", "index": "index", "verify": "verify"}
"""Modules of the package's commands. Their function `command` gets the results and the arguments, and returns the exit code."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code: 0, 1 if it has found damage or differences, or 2 after an error."""
    request = _forebay.parse_command(sys.argv[1:] if arguments is None else list(arguments))
    if isinstance(request, int):
        return request
    results = Results(False)
    try:
        if isinstance(request, _forebay.Command):
            return request.run(library_stores(*request.addresses()), facts)
        name, options = request[0], json.loads(request[1])
        results = Results(options.pop("json"))
        return importlib.import_module(f"forebay.{_MODULES[name]}").command(results, **options)
    except Error as error:
        return results.fail(error.kind, str(error))
    except OSError as error:
        # Of a path that Python opened itself.
        return results.fail("io", f"{error.filename or 'the system'}: {error.strerror or error}")
    except KeyboardInterrupt as interrupt:
        results.note(": ".join(["stopped", *map(str, interrupt.args)]))
        sys.stderr.flush()
        # An exit would wait for the work that is in flight.
        os._exit(130)


if __name__ == "__main__":
    sys.exit(main())

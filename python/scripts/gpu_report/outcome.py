"""Outcome of a part, in this process or a separate one."""

import json
import traceback

from . import isolated

_listeners = []
"""Listeners for intermediate results of the parts that run in this process."""


class Skipped(Exception):
    """A part cannot run here; the text is the reason."""


def so_far(found):
    """Records intermediate results of a part, which are kept if it fails in any way."""
    for listen in _listeners:
        listen(_as_the_file_has_it(found))


def here(part, send=lambda found: None):
    """Calls `part`; returns its outcome with the results, or the reason for missing ones. `send` gets intermediate
    results."""
    kept = {}

    def listen(found):
        kept["found"] = found
        send(found)

    _listeners.append(listen)
    try:
        return {"outcome": "passed", "found": _as_the_file_has_it(part())}
    except Skipped as skipped:
        return {"outcome": "skipped", "why": str(skipped), **kept}
    except Exception as error:
        traceback.print_exc()
        return {"outcome": "failed", "why": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc(), **kept}
    finally:
        _listeners.remove(listen)


def apart(part, seconds):
    """Runs `part` in a separate process with a time limit; adds the end of its output, and the stack of a hang or
    crash."""
    answer = isolated.call(lambda send: here(part, send), seconds)
    entry = answer.result
    if answer.why:
        entry = {"outcome": "failed", "why": answer.why}
        entry |= {} if answer.so_far is None else {"found": answer.so_far}
        entry |= {"stack": answer.stack} if answer.stack else {}
    return entry | ({"output": answer.output} if answer.output else {})


def _as_the_file_has_it(value):
    """Converts to JSON, so that a value that cannot be stored fails the part and not the report."""
    return json.loads(json.dumps(value, default=_plain))


def _plain(value):
    """Converts numbers and arrays of numpy."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} cannot be stored")

"""What becomes of a part, in this process or in one of its own."""

import json
import traceback

from . import isolated

_listeners = []
"""Those who want to know what the parts that run here have found so far."""


class Skipped(Exception):
    """A part cannot run here; the text says why."""


def so_far(found):
    """What a part has found until now: kept if it ends badly, whatever ends it."""
    for listen in _listeners:
        listen(_as_the_file_has_it(found))


def here(part, tell=lambda found: None):
    """Calls `part`: its outcome, with what it found or why it found no more than that. `tell` is given what `so_far` is."""
    kept = {}

    def listen(found):
        kept["found"] = found
        tell(found)

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
    """The same in a process of its own that has so many seconds; with the end of what it said, and where it hung or crashed."""
    answer = isolated.call(lambda tell: here(part, tell), seconds)
    entry = answer.result
    if answer.why:
        entry = {"outcome": "failed", "why": answer.why}
        entry |= {} if answer.so_far is None else {"found": answer.so_far}
        entry |= {"stack": answer.stack} if answer.stack else {}
    return entry | ({"said": answer.said} if answer.said else {})


def _as_the_file_has_it(value):
    """A value that a file cannot hold is the part's failure, not the report's."""
    return json.loads(json.dumps(value, default=_plain))


def _plain(value):
    """numpy's numbers and arrays."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} cannot be written down")

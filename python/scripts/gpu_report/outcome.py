"""What becomes of a part, in this process or in one of its own."""

import json
import traceback

from . import isolated


class Skipped(Exception):
    """A part cannot run here; the text says why."""


def here(part):
    """Calls `part`: its outcome, with what it found or why it found nothing."""
    try:
        # As the file will have it: a value that it cannot hold is the part's failure, not the report's.
        return {"outcome": "passed", "found": json.loads(json.dumps(part(), default=_plain))}
    except Skipped as skipped:
        return {"outcome": "skipped", "why": str(skipped)}
    except Exception as error:
        traceback.print_exc()
        return {"outcome": "failed", "why": f"{type(error).__name__}: {error}"}


def apart(part, seconds):
    """The same in a process of its own that has so many seconds."""
    try:
        return isolated.call(lambda: here(part), seconds)
    except isolated.Ended as ended:
        return {"outcome": "failed", "why": str(ended), **({"stack": ended.stack} if ended.stack else {})}


def _plain(value):
    """numpy's numbers and arrays."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} cannot be written down")
